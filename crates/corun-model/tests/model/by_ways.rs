//! Curves by ways and classes.

use std::path::PathBuf;

use corun_model::{Model, ModelOptions, WaysFigures};
use corun_policy::{CacheClass, ClassLimits, WaysCurve, WaysPoint, classify};
use corun_profile::{MeasuredOn, Profile, ProfileData, import_csv};

use crate::fixture::*;
use crate::machines::*;
use crate::whole::joined;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

#[test]
fn a_table_is_its_own_curve() {
    let model = model(gold(1, 4), ModelOptions::default());
    let program = load(&model, &solo_table("p", 12.0, 2.0));
    let curve = model.by_ways(&program, model.fastest_cpu(&program));
    assert_eq!(curve.iter().map(|one| one.ways).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    for (one, ways) in curve.iter().zip(1u32..) {
        let mpki = 12.0 - f64::from(ways - 1);
        let cpi = 0.5 + 0.06 * mpki;
        assert!(near(one.llc_mpki, mpki) && near(one.llc_mpkc, mpki / cpi), "{one:?}");
        assert!(near(one.slowdown, cpi / (0.5 + 0.06 * 2.0)), "{one:?}");
        assert!(near(one.memory_stalls, 0.06 * mpki / cpi), "{one:?}");
        assert!(near(one.llc_hit_stalls, 0.02 / cpi), "{one:?}");
        assert!(near(one.total_stalls, (0.06 * mpki + 0.1) / cpi), "{one:?}");
        assert!(near(one.misses_per_s, mpki * 1e-3 / cpi * 2e9), "{one:?}");
        assert!(near(one.occupancy_bytes, f64::from(ways) * WAY as f64));
        assert!(near(one.llc_apki, 14.0) && !one.extrapolated, "{one:?}");
    }
}

#[test]
fn phases_count_by_instructions_and_cycles_add() {
    let model = model(gold(1, 4), ModelOptions::default());
    let flat = |mpki: f64, instructions: u64| {
        recording("p", &[(4096, mpki), (64 * MIB, mpki)], |phase| phase.instructions = instructions)
    };
    let (busy, idle) = (flat(20.0, 1_000_000), flat(0.0, 3_000_000));
    let both = load(&model, &joined(&[busy.clone(), idle.clone()]));
    let alone = [&busy, &idle].map(|one| model.by_ways(&load(&model, one), 0)[4]);
    let together = model.by_ways(&both, 0)[4];
    let cpi = (1.0 / alone[0].ipc + 3.0 / alone[1].ipc) / 4.0;
    assert!(near(together.ipc, 1.0 / cpi), "{together:?}");
    assert!(near(together.llc_mpki, 5.0) && near(together.llc_mpkc, 5.0 / cpi));
    // Lines a second: 5 per 1000 instructions at the joint speed.
    assert!(near(together.misses_per_s, 5e-3 / cpi * 2e9), "{together:?}");
    assert!(near(together.slowdown, 1.0));
}

#[test]
fn a_derived_table_gives_the_recordings_figures() {
    let model = model(gold(1, 4), ModelOptions::default());
    let points = [(4096, 60.0), (MIB, 20.0), (8 * MIB, 6.0), (64 * MIB, 0.5)];
    let recorded = recording("p", &points, |phase| phase.dirty_share = 0.3);
    let table = model.solo_table(&recorded).unwrap();
    assert_eq!(table.max_ways(), 11);
    let figures = table.rows()[0].figures;
    // Write-backs pass the memory too, and are no misses.
    assert!(near(figures.bandwidth_mb_per_s, 1.3 * figures.miss_bandwidth_mb_per_s));
    assert!(figures.stalls_l3_miss > 0.0 && figures.stalls_l2_miss >= figures.stalls_l3_miss);
    let derived = Profile { name: "p".to_owned(), data: ProfileData::Table(table) };
    let curves = [&recorded, &derived].map(|one| model.by_ways(&load(&model, one), 0));
    for (one, other) in curves[0].iter().zip(&curves[1]) {
        assert!(near(one.slowdown, other.slowdown), "{one:?} {other:?}");
        assert!(near(one.llc_mpkc, other.llc_mpkc) && near(one.llc_apki, other.llc_apki));
        assert!(near(one.bytes_per_s, other.bytes_per_s), "{one:?} {other:?}");
        assert!(near(one.memory_stalls, other.memory_stalls), "{one:?} {other:?}");
    }
}

#[test]
fn the_thesis_classes_on_the_public_table() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder =
        std::env::var_os("CORUN_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join("data/spec-skylake-solo-by-ways.csv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    let machine = corun_machine::preset("xeon-gold-6138").unwrap();
    let model = Model::new(machine.into(), ModelOptions::default()).unwrap();
    let mut names: [Vec<String>; 3] = Default::default();
    for profile in import_csv(&text, "solo.csv", &MeasuredOn::xeon_gold_6138()).unwrap() {
        let program = load(&model, &profile);
        let curve = model.by_ways(&program, 0);
        let point = |one: &WaysFigures| WaysPoint {
            slowdown: one.slowdown,
            llc_mpkc: one.llc_mpkc,
            ..WaysPoint::default()
        };
        let curve = WaysCurve::new(curve.iter().map(point).collect()).unwrap();
        let class = classify(&curve, &ClassLimits::default());
        names[class as usize].push(profile.name);
    }
    let count = |class: CacheClass| names[class as usize].len();
    let counts =
        [CacheClass::Streaming, CacheClass::Sensitive, CacheClass::LightSharing].map(count);
    assert_eq!(counts, [12, 15, 28], "{names:?}");
    // Fig. 6.1's examples of the two.
    assert!(names[0].iter().any(|name| name == "lbm06"));
    assert!(names[1].iter().any(|name| name == "xalancbmk06"));
}
