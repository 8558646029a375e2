//! Cores whose threads take turns in one pipeline, on the CMT preset: 2 cores of 4 threads, CPUs 0 to
//! 3 and 4 to 7, private caches of 24 KiB a core, one L2.

use std::sync::Arc;

use corun_model::{LoadedProgram, Model, ModelOptions, Outcome, Running, Scratch};
use corun_profile::Profile;
use proptest::prelude::*;

use crate::fixture::*;

const KIB: u64 = 1024;
/// Cycles of an L2 hit and of memory at 992 MHz, as the machine file has them.
const HIT: f64 = 23.19 * 0.992;
const MEMORY: f64 = 110.9 * 0.992;

fn cmt() -> Model {
    let machine = corun_machine::preset("cmt-2x4").unwrap();
    Model::new(Arc::new(machine), ModelOptions::default()).unwrap()
}

fn program(name: &str, points: &[(u64, f64)]) -> Profile {
    recording(name, points, |phase| {
        phase.mix.mispredicted_pki = 0.0;
        phase.prefetchable = 0.5;
    })
}

fn solve(model: &Model, running: &[Running<'_>]) -> Vec<Outcome> {
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    model.solve(running, &mut scratch, &mut out);
    out
}

fn near(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within * a.abs().max(b.abs())
}

#[test]
fn compute_alone_shares_the_pipeline_and_nothing_else() {
    let model = cmt();
    let idle = load(&model, &program("idle", &[(KIB, 0.0)]));
    for count in 1..=4 {
        let running: Vec<Running<'_>> = (0..count).map(|cpu| on(&idle, cpu)).collect();
        for outcome in solve(&model, &running) {
            assert!(near(outcome.ipc, 1.0 / count as f64, 1e-9), "{count}: {outcome:?}");
            assert!(near(outcome.slowdown, count as f64, 1e-9));
        }
    }
    // On two cores they do not meet.
    let apart = solve(&model, &[on(&idle, 0), on(&idle, 4)]);
    assert!(apart.iter().all(|one| near(one.ipc, 1.0, 1e-9)), "{apart:?}");
}

/// Every access beyond the L1 hits the L2, at any size: e = 1, s = 0.02 x 23 cycles, prefetchable or
/// not, since nothing prefetches. Threads share as the recursion says.
#[test]
fn hits_in_the_l2_hide_in_the_others_time() {
    let model = cmt();
    let hits = load(&model, &program("hits", &[(KIB, 20.0), (24 * KIB, 20.0), (25 * KIB, 0.0)]));
    let stall = 0.02 * HIT;
    let alone = solve(&model, &[on(&hits, 0)]);
    assert!(near(alone[0].ipc, 1.0 / (1.0 + stall), 1e-3), "{alone:?}");
    let both = solve(&model, &[on(&hits, 0), on(&hits, 1)]);
    let queued = 1.0 / (1.0 + stall);
    assert!(near(both[0].ipc, 1.0 / (1.0 + queued + stall), 1e-3), "{both:?}");
}

/// 30 misses per 1000 instructions at 24 KiB, 60 at 12, 90 at 8, 120 at 6: what the L2 sees grows with
/// the busy threads of the core, and only those of the core.
#[test]
fn busy_threads_divide_their_private_caches() {
    let model = cmt();
    let points = [(6 * KIB, 120.0), (8 * KIB, 90.0), (12 * KIB, 60.0), (24 * KIB, 30.0)];
    let user = load(&model, &program("user", &points));
    for count in 1..=4usize {
        let mut running: Vec<Running<'_>> = (0..count).map(|cpu| on(&user, cpu)).collect();
        running.push(on(&user, 4));
        let out = solve(&model, &running);
        for one in &out[..count] {
            assert!(near(one.llc_apki, 30.0 * count as f64, 1e-9), "{count}: {one:?}");
        }
        assert!(near(out[count].llc_apki, 30.0, 1e-9));
    }
}

#[test]
fn a_miss_costs_the_memory_latency_and_no_prefetcher_hides_it() {
    let model = cmt();
    let misses = load(&model, &program("misses", &[(KIB, 10.0), (MIB, 10.0)]));
    let alone = solve(&model, &[on(&misses, 0)]);
    assert!(near(alone[0].ipc, 1.0 / (1.0 + 0.01 * MEMORY), 1e-3), "{alone:?}");
}

#[test]
fn no_core_issues_more_than_its_pipeline() {
    let model = cmt();
    let curves: Vec<LoadedProgram> = [0.0, 5.0, 40.0, 200.0]
        .into_iter()
        .map(|mpki| load(&model, &program("one", &[(KIB, mpki), (MIB, 0.3 * mpki)])))
        .collect();
    let strategy = prop::collection::vec(0..curves.len(), 1..=8);
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&strategy, |who| {
            let running: Vec<Running<'_>> =
                who.iter().enumerate().map(|(cpu, &program)| on(&curves[program], cpu)).collect();
            let out = solve(&model, &running);
            for core in out.chunks(4) {
                let issued: f64 = core.iter().map(|one| one.ipc).sum();
                prop_assert!(issued <= 1.0 + 1e-9, "{}", issued);
            }
            let bytes: f64 = out.iter().map(|one| one.bytes_per_s).sum();
            prop_assert!(bytes <= 4.8e9, "{}", bytes);
            for (cpu, one) in out.iter().enumerate() {
                let alone = solve(&model, &running[cpu..=cpu]);
                prop_assert!(one.slowdown >= alone[0].slowdown * (1.0 - 1e-9));
            }
            Ok(())
        })
        .unwrap();
}
