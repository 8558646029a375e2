//! The model on machines and programs made by hand, against figures worked out on paper.

use corun_model::{BandwidthModel, Member, Model, ModelOptions, Scratch, SpaceLaw};

use crate::fixture::*;
use crate::machines::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

#[test]
fn a_table_gives_its_own_figures_at_whole_ways() {
    let model = model(gold(1, 4), ModelOptions::default());
    let program = load(&model, &solo_table("p", 12.0, 2.0));
    let member = Member { program: &program, phase: 0, cpu: 0 };
    for ways in 1..=11 {
        let demand = model.demand_at(&member, f64::from(ways) * WAY as f64);
        let mpki = 12.0 - f64::from(ways - 1);
        let cpi = 0.5 + 0.06 * mpki;
        assert!(near(demand.cpi, cpi), "{ways}: {} {cpi}", demand.cpi);
        assert!(near(demand.llc_mpki, mpki));
        assert!(near(demand.memory_cpi, 0.06 * mpki));
        assert!(near(demand.memory_stall_share, 0.06 * mpki / (0.06 * mpki + 0.1)));
        assert!(near(demand.bytes_per_s, mpki * 1e-3 * 64.0 / cpi * 2e9));
        assert!(!demand.extrapolated);
    }
    assert!(model.demand_at(&member, 0.5 * WAY as f64).extrapolated);
    // The anchor: without LLC all references miss, each further miss costing its 60 cycles, and
    // the 0.02 cycles of the LLC's hits are gone.
    let none = model.demand_at(&member, 0.0);
    assert!(near(none.llc_mpki, 14.0) && near(none.cpi, 0.5 + 0.06 * 14.0 - 0.02), "{none:?}");
}

/// A program that computes alone, in a table of the Juno's own: 0.5 cycles of a big core for an instruction, which at 0.44 of
/// its speed and 850 MHz are 0.5 x 850 / 1100 / 0.44 of a little one.
#[test]
fn a_table_of_a_machine_is_one_of_its_fastest_cores() {
    let juno = corun_machine::preset("juno-2b4s").unwrap().spec().clone();
    let mut profile = solo_table("p", 0.0, 0.0);
    if let corun_profile::ProfileData::Table(table) = &mut profile.data {
        let on = corun_profile::MeasuredOn {
            machine: "juno-2b4s".to_owned(),
            clock_mhz: 1100.0,
            ..table.measured_on().clone()
        };
        let rows = table.rows().iter().map(|row| {
            let mut row = *row;
            (row.figures.llc_references_pki, row.figures.llc_references_pkc) = (0.0, 0.0);
            (row.figures.stalls_l2_miss, row.figures.stalls_total) = (0.0, 0.0);
            row
        });
        *table = corun_profile::SoloTable::new(on, rows.collect()).unwrap();
    }
    let model = model(juno, ModelOptions::default());
    let program = load(&model, &profile);
    let [big, little] = [0, 2].map(|cpu| model.solo(&program, 0, cpu));
    assert!(near(1.0 / big.ipc, 0.5), "{big:?}");
    assert!(near(1.0 / little.ipc, 0.5 * 850.0 / 1100.0 / 0.44), "{little:?}");
    assert!(near(little.slowdown, 1.0 / 0.44), "{little:?}");
}

#[test]
fn alone_nothing_hurts() {
    for (_, space) in SpaceLaw::ALL {
        for (_, bandwidth) in BandwidthModel::ALL {
            let options = ModelOptions { space, bandwidth, ..Default::default() };
            let model = model(gold(2, 4), options);
            let program = load(&model, &solo_table("p", 12.0, 2.0));
            let (mut scratch, mut out) = (Scratch::new(), Vec::new());
            model.solve(&[on(&program, 1)], &mut scratch, &mut out);
            let solo = model.solo(&program, 0, 1);
            assert!(near(out[0].slowdown, 1.0), "{space} {bandwidth}: {:?}", out[0]);
            assert!(near(out[0].instructions_per_s, solo.instructions_per_s));
            assert!(near(out[0].bytes_per_s, solo.bytes_per_s));
        }
    }
}

#[test]
fn equal_programs_have_equal_parts() {
    for (_, space) in SpaceLaw::ALL {
        let model = model(gold(1, 4), ModelOptions { space, ..Default::default() });
        let program = load(&model, &solo_table("p", 12.0, 2.0));
        let member = |cpu| Member { program: &program, phase: 0, cpu };
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        let capacity = 11.0 * WAY as f64;
        model.share(capacity, &[member(0), member(1), member(2)], &mut scratch, &mut out);
        for demand in &out {
            assert!(near(demand.occupancy_bytes, capacity / 3.0), "{space}: {demand:?}");
        }
    }
}

#[test]
fn a_recording_runs_at_the_speed_of_its_intervals() {
    let model = model(gold(1, 4), ModelOptions::default());
    // 10 misses per 1000 instructions at any size of the LLC, and 20 at the L1.
    let points = [(32 * 1024, 20.0), (MIB, 10.0), (64 * MIB, 10.0)];
    let program = load(&model, &recording("stream", &points, |_| {}));
    let member = Member { program: &program, phase: 0, cpu: 0 };
    let demand = model.demand_at(&member, WAY as f64);
    // Dispatch 1/4; 2 mispredictions x 15 cycles; L2 and LLC hits (14, 44 cycles) lie within the
    // 224 / 4 = 56 cycles of the reorder buffer; memory: 180 - 56 cycles, parallelism
    // min(2, 10, 1 + 224 x 0.01) = 2.
    let memory = 0.01 * (180.0 - 56.0) / 2.0;
    assert!(near(demand.memory_cpi, memory), "{demand:?}");
    assert!(near(demand.cpi, 0.25 + 0.03 + memory));
    assert!(near(demand.llc_mpki, 10.0) && near(demand.llc_apki, 10.0));
    assert!(near(demand.bytes_per_s, 0.01 * 64.0 * 2e9 / demand.cpi));
    assert!(near(demand.memory_stall_share, memory / (memory + 0.03)));
}

#[test]
fn a_loop_that_fits_misses_no_more_than_its_first_turn() {
    // A ring of 20 MiB, whose step a recording puts between 19.75 and 20.25 MiB; the LLC has 27.5.
    let ring = [(MIB, 50.0), (79 * MIB / 4, 50.0), (81 * MIB / 4, 0.5), (1 << 33, 0.5)];
    let profile = recording("ring", &ring, |phase| phase.footprint_bytes = 20 * MIB);
    let model = model(gold(1, 4), ModelOptions::default());
    let program = load(&model, &profile);
    let solo = model.solo(&program, 0, 0);
    assert!(near(solo.llc_mpki, 0.5), "{solo:?}");
    assert!(solo.occupancy_bytes <= 20.0 * MIB as f64, "{solo:?}");
}

#[test]
fn every_preset_can_be_modelled() {
    for name in corun_machine::presets() {
        let machine = corun_machine::preset(name).expect("a shipped preset");
        let cpus = machine.cpus().len();
        let model = Model::new(machine.into(), ModelOptions::default()).expect(name);
        let points = [(4096, 30.0), (MIB, 20.0), (16 * MIB, 1.0)];
        let recorded = load(&model, &recording("p", &points, |_| {}));
        let table = load(&model, &solo_table("t", 12.0, 2.0));
        let running: Vec<_> = (0..cpus).map(|cpu| on([&recorded, &table][cpu % 2], cpu)).collect();
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        model.solve(&running, &mut scratch, &mut out);
        for outcome in &out {
            let speed = outcome.instructions_per_s;
            assert!(speed.is_finite() && speed > 0.0, "{name}: {outcome:?}");
            assert!(outcome.slowdown >= 1.0 - 1e-9, "{name}: {outcome:?}");
        }
        let best = (0..cpus).map(|cpu| model.solo(&recorded, 0, cpu).slowdown);
        assert!(near(best.fold(f64::INFINITY, f64::min), 1.0), "{name}");
    }
}
