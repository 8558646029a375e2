//! The NUMA penalty of a program alone.

use corun_machine::{BandwidthDomain, BandwidthKind};
use corun_model::{Demand, LoadedProgram, Model, ModelOptions};
use corun_profile::{Profile, ProfileData, Recording};

use crate::fixture::*;
use crate::machines::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Phases of so many 1e9 instructions and misses per 1000 instructions at any size.
fn phases(each: &[(u64, f64)]) -> Profile {
    let phase = |&(giga, mpki): &(u64, f64)| {
        let one = recording("p", &[(4096, mpki), (64 * MIB, mpki)], |phase| {
            phase.instructions = giga * 1_000_000_000;
        });
        let ProfileData::Recording(one) = one.data else { unreachable!("it is a recording") };
        (one.origin, one.phases[0].clone())
    };
    let made: Vec<_> = each.iter().map(phase).collect();
    let phases = made.iter().map(|(_, phase)| phase.clone()).collect();
    let data = ProfileData::Recording(Recording::new(made[0].0.clone(), phases));
    Profile { name: "p".to_owned(), data }
}

/// Time remote / time local of the phases one after the other, with the memory part of the cycles
/// so much longer.
fn by_hand(program: &LoadedProgram, longer: impl Fn(&Demand) -> f64) -> f64 {
    let cycles = |longer: &dyn Fn(&Demand) -> f64| -> f64 {
        let of = |phase: &corun_model::LoadedPhase| {
            let Demand { cpi, memory_cpi, .. } = phase.best;
            phase.instructions * (cpi + memory_cpi * (longer(&phase.best) - 1.0))
        };
        program.phases.iter().map(of).sum()
    };
    cycles(&longer) / cycles(&|_| 1.0)
}

fn loaded(model: &Model, each: &[(u64, f64)]) -> LoadedProgram {
    load(model, &phases(each))
}

#[test]
fn the_penalty_is_time_remote_over_time_local() {
    let model = model(gold(2, 4), ModelOptions::default());
    let program = loaded(&model, &[(1, 30.0), (3, 2.0)]);
    let penalty = program.numa_penalty.unwrap();
    assert!(near(penalty, by_hand(&program, |_| 150.0 / 90.0)), "{penalty}");
    assert!(penalty > 1.1 && penalty < 150.0 / 90.0, "{penalty}");
    // Who never goes to memory does not care where it is.
    assert!(near(loaded(&model, &[(1, 0.0)]).numa_penalty.unwrap(), 1.0));
}

#[test]
fn one_node_has_no_penalty_and_several_have_their_mean() {
    let one = model(gold(1, 4), ModelOptions::default());
    assert_eq!(loaded(&one, &[(1, 30.0)]).numa_penalty, None);
    let mut spec = gold(3, 4);
    spec.memory_latency_ns =
        vec![vec![90.0, 120.0, 180.0], vec![120.0, 90.0, 120.0], vec![180.0, 120.0, 90.0]];
    let three = model(spec, ModelOptions::default());
    let program = loaded(&three, &[(1, 30.0)]);
    let expected = by_hand(&program, |_| 150.0 / 90.0);
    assert!(near(program.numa_penalty.unwrap(), expected), "{:?}", program.numa_penalty);
}

#[test]
fn a_link_that_the_program_fills_adds_to_the_penalty() {
    let mut spec = gold(2, 4);
    let peak = 1500.0;
    spec.bandwidth_domains.push(BandwidthDomain {
        kind: BandwidthKind::Link,
        stage: 1,
        to_nodes: None,
        remote_only: true,
        ..controller("link", 0, peak)
    });
    let model = model(spec, ModelOptions::default());
    let program = loaded(&model, &[(1, 30.0)]);
    let asked = program.phases[0].best.bytes_per_s;
    assert!(asked > peak * 1e6, "{asked}");
    let expected = by_hand(&program, |_| 150.0 / 90.0 * asked / (0.95 * peak * 1e6));
    assert!(near(program.numa_penalty.unwrap(), expected), "{:?} {expected}", program.numa_penalty);
}
