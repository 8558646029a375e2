//! `--compat pbbcache` against a second, plain evaluation of the public simulator's rules: tables
//! by whole ways, every figure linear in between, the walk by misses per 1000 cycles whose first
//! entry is one way, Morad's equations, eq. 5.10.

use std::path::PathBuf;

use corun_model::{BandwidthModel, Flow, Member, ModelOptions, Scratch};
use corun_profile::{MeasuredOn, Profile, ProfileData, TableFigures, import_csv};

use crate::fixture::*;
use crate::machines::*;

const PEAK: f64 = 35_000.0;

struct Columns {
    slowdown: Vec<f64>,
    mpkc: Vec<f64>,
    mb_per_s: Vec<f64>,
    l3: Vec<f64>,
    store: Vec<f64>,
    total: Vec<f64>,
}

fn columns(profile: &Profile) -> Columns {
    let ProfileData::Table(table) = &profile.data else { panic!("a table is expected") };
    let of = |what: fn(&TableFigures) -> f64| -> Vec<f64> {
        table.rows().iter().map(|row| what(&row.figures)).collect()
    };
    let ipc = of(|one| one.ipc);
    let best = ipc.iter().copied().fold(0.0, f64::max);
    Columns {
        slowdown: ipc.iter().map(|ipc| best / ipc).collect(),
        mpkc: of(|one| one.llc_misses_pkc),
        mb_per_s: of(|one| one.bandwidth_mb_per_s),
        l3: of(|one| one.stalls_l3_miss),
        store: of(|one| one.stalls_store_buffer),
        total: of(|one| one.stalls_total),
    }
}

/// A figure at a number of ways.
fn at(column: &[f64], ways: f64) -> f64 {
    let none = column[0] + (column[0] - column[1]);
    let value = |way: usize| match way {
        0 if none <= 0.0 => 1e-6,
        0 => none,
        _ => column[(way - 1).min(column.len() - 1)],
    };
    let low = ways.floor();
    value(low as usize) * (1.0 - (ways - low)) + value(low as usize + 1) * (ways - low)
}

/// The table as the walk reads it, from 0.
fn indexed(column: &[f64], index: f64) -> f64 {
    let low = (index.floor() as usize).min(column.len() - 1);
    let high = (low + 1).min(column.len() - 1);
    column[low] + (column[high] - column[low]) * (index - index.floor())
}

fn walk(programs: &[Columns], ways: usize) -> Vec<f64> {
    let mut held = vec![0.0; programs.len()];
    for _ in 0..ways {
        let misses: Vec<f64> =
            programs.iter().zip(&held).map(|(one, &held)| indexed(&one.mpkc, held)).collect();
        let sum: f64 = misses.iter().sum();
        for (held, misses) in held.iter_mut().zip(misses) {
            *held += misses / sum;
        }
    }
    held
}

/// Slowdowns of one cluster with so many ways.
fn slowdowns(programs: &[Columns], ways: usize) -> Vec<f64> {
    let held = walk(programs, ways);
    let solo: Vec<f64> =
        programs.iter().zip(&held).map(|(one, &held)| at(&one.mb_per_s, held) / PEAK).collect();
    let shared = |total: f64| -> Vec<f64> {
        let v: f64 = 1.0 - total;
        // The root of eq. 5.8, in the form that keeps its digits for small b.
        let one = |b: &f64| {
            let odds = b / (1.0 - b);
            2.0 * v * odds / (v + (v * v + 4.0 * v * odds).sqrt())
        };
        solo.iter().map(one).collect()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let total = 0.5 * (low + high);
        if shared(total).iter().sum::<f64>() > total { low = total } else { high = total }
    }
    let shared = shared(0.5 * (low + high));
    let one = |(i, one): (usize, &Columns)| {
        let total = at(&one.total, held[i]);
        let memory = (at(&one.l3, held[i]) + at(&one.store, held[i])).min(total);
        let ratio = solo[i] / shared[i];
        at(&one.slowdown, held[i]) * (total + memory * (ratio - 1.0)) / total
    };
    programs.iter().enumerate().map(one).collect()
}

fn check(profiles: &[Profile], clusters: &[(Vec<usize>, usize)]) {
    let options = ModelOptions::pbbcache(Some(PEAK));
    assert_eq!(options.bandwidth, BandwidthModel::Stalls);
    let model = model(gold(1, 8), options);
    for (cluster, ways) in clusters {
        let programs: Vec<_> = cluster.iter().map(|&one| load(&model, &profiles[one])).collect();
        let members: Vec<Member<'_>> = programs
            .iter()
            .enumerate()
            .map(|(cpu, program)| Member { program, phase: 0, cpu })
            .collect();
        let (mut scratch, mut demands, mut out) = (Scratch::new(), Vec::new(), Vec::new());
        model.share((*ways as u64 * WAY) as f64, &members, &mut scratch, &mut demands);
        let flows: Vec<Flow<'_>> = members
            .iter()
            .zip(&demands)
            .map(|(&member, &demand)| Flow { member, demand, home: &[] })
            .collect();
        model.couple(&flows, &mut scratch, &mut out);
        let columns: Vec<Columns> = cluster.iter().map(|&one| columns(&profiles[one])).collect();
        for (ours, theirs) in out.iter().zip(slowdowns(&columns, *ways)) {
            assert!((ours.slowdown - theirs).abs() < 1e-9 * theirs, "{ours:?} {theirs}");
        }
    }
}

#[test]
fn tables_made_by_hand() {
    let profiles = [
        solo_table("a", 12.0, 2.0),
        solo_table("b", 30.0, 28.0),
        solo_table("c", 1.0, 0.0),
        solo_table("d", 5.0, 1.0),
    ];
    let clusters = [
        (vec![0, 1], 11),
        (vec![0, 1, 2, 3], 11),
        (vec![0, 3], 3),
        (vec![1, 1, 1], 4),
        (vec![2, 1], 1),
    ];
    check(&profiles, &clusters);
}

#[test]
fn the_public_table() {
    let shared = std::env::var_os("CORUN_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = shared.join("data/spec-skylake-solo-by-ways.csv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: the public table is not at {}", path.display());
        return;
    };
    let profiles = import_csv(&text, "table", &MeasuredOn::xeon_gold_6138()).expect("the table");
    let clusters: Vec<(Vec<usize>, usize)> = (0..200)
        .map(|number| {
            let size = 2 + number % 5;
            let pick = |i: usize| (number * 17 + i * (7 + number % 11)) % profiles.len();
            ((0..size).map(pick).collect(), 1 + number % 11)
        })
        .collect();
    check(&profiles, &clusters);
}
