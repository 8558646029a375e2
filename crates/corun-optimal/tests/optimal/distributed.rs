//! The search in parts against the search on one core: any number of workers, any order, stale
//! incumbents, workers that die.

use crate::made_up::MadeUp;
use corun_machine::Machine;
use corun_optimal::distributed::{
    Batch, BatchReport, Distribution, Grain, Incumbent, Pass, Prepared,
};
use corun_optimal::{Contention, Coupling, Goal, Objective, PlacementResult, Placer, SearchLimits};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const COUPLINGS: [Coupling; 4] =
    [Coupling::Apart, Coupling::Common, Coupling::Growing, Coupling::Any];

/// How a search in parts goes.
#[derive(Debug, Clone, Copy)]
struct Course {
    workers: usize,
    grain: Grain,
    /// One batch in so many is lost with its worker; 0: none.
    lost_one_in: u32,
    seed: u64,
}

fn sent<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) -> T {
    rmp_serde::from_slice(&rmp_serde::to_vec(message).unwrap()).unwrap()
}

/// Workers that answer in any order, with what they knew when they were sent off.
fn in_parts<C: Contention>(
    placer: &Placer<'_, C>,
    (objective, goal): (Objective, Goal),
    course: Course,
) -> (PlacementResult, u32) {
    let mut random = StdRng::seed_from_u64(course.seed);
    let mut all = Distribution::new(placer, objective, goal, course.workers, course.grain);
    let mut prepared: Vec<(Pass, Prepared<C::Share>)> = Vec::new();
    let mut out: Vec<Batch> = Vec::new();
    let mut lost = 0;
    while !all.is_done() {
        while out.len() < course.workers {
            let Some(batch) = all.next_batch(placer) else { break };
            out.push(sent(&batch));
        }
        if out.is_empty() {
            continue;
        }
        let batch = out.swap_remove(random.random_range(0..out.len()));
        if course.lost_one_in > 0 && random.random_range(0..course.lost_one_in) == 0 {
            all.lost(batch.id);
            lost += 1;
            continue;
        }
        if !prepared.iter().any(|(pass, _)| *pass == batch.pass) {
            prepared.push((batch.pass.clone(), placer.prepare(&batch.pass)));
        }
        let (_, tables) = prepared.iter().find(|(pass, _)| *pass == batch.pass).unwrap();
        let incumbent = Incumbent::new(batch.incumbent.clone());
        let report: BatchReport = sent(&placer.work(tables, &batch, &incumbent, None));
        all.finish(placer, report.clone()).unwrap();
        // A second time it counts for nothing.
        all.finish(placer, report).unwrap();
    }
    (all.result(placer), lost)
}

fn check(machine: &Machine, coupling: Coupling, programs: &[(f64, f64)], course: Course) {
    let made_up = MadeUp { machine, coupling, programs: programs.to_vec() };
    let lowest_equal = |one: &(f64, f64)| programs.iter().position(|other| other == one).unwrap();
    let equals = programs.iter().map(lowest_equal).collect();
    let placer = Placer::new(machine, &made_up, programs.len()).unwrap().with_equals(equals);
    for (_, objective) in Objective::NAMED {
        for goal in [Goal::Best, Goal::Worst] {
            let what = format!("{} {coupling:?} {objective:?} {goal:?} {course:?}", machine.name());
            let whole = placer.solve(objective, goal, &SearchLimits::default());
            let (parts, _) = in_parts(&placer, (objective, goal), course);
            assert!(parts.proven && whole.proven, "{what}: {parts:?}");
            assert_eq!(parts.value.to_bits(), whole.value.to_bits(), "{what}: {parts:?} {whole:?}");
            assert_eq!(parts.cpu, whole.cpu, "{what}");
            assert_eq!(parts.llc, whole.llc, "{what}");
            assert_eq!(parts.slowdown, whole.slowdown, "{what}");
            assert_eq!((parts.bound, parts.gap), (Some(whole.value), Some(0.0)), "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_answer_is_that_of_one_core(
        programs in prop::collection::vec((0.05f64..2.0, 0.0f64..1.0), 4..9),
        twins in any::<bool>(),
        workers in 1usize..6,
        nodes in 1u64..60,
        parts in 1usize..5,
        lost_one_in in 0u32..4,
        seed in any::<u64>(),
    ) {
        let mut programs = programs;
        if twins {
            programs[3] = programs[0];
        }
        let lost_one_in = if lost_one_in == 1 { 0 } else { lost_one_in };
        let course = Course { workers, grain: Grain { parts, seconds: 3600.0, nodes }, lost_one_in, seed };
        let machine = crate::machines::four_by(2);
        for coupling in COUPLINGS {
            check(&machine, coupling, &programs, course);
        }
        programs.truncate(4);
        for machine in crate::machines::all() {
            check(&machine, COUPLINGS[workers % 4], &programs, course);
        }
    }
}

/// Programs that are all alike but in name: every placement ties.
#[test]
fn of_equal_placements_all_find_the_same() {
    let machine = crate::machines::four_by(2);
    for seed in 0..20 {
        let grain = Grain { parts: 2, seconds: 3600.0, nodes: 7 };
        let course = Course { workers: 3, grain, lost_one_in: 3, seed };
        check(&machine, Coupling::Common, &[(0.5, 0.0); 7], course);
        let mut programs = vec![(0.0, 0.0); 6];
        programs.push((0.7, 0.3));
        check(&machine, Coupling::Any, &programs, course);
    }
}

#[test]
fn batches_are_lost_and_made_good() {
    let machine = crate::machines::four_by(2);
    let programs: Vec<(f64, f64)> =
        (0..8).map(|i| (0.1 + 0.2 * f64::from(i), 0.1 * f64::from(i % 3))).collect();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Any, programs };
    let placer = Placer::new(&machine, &made_up, 8).unwrap();
    let grain = Grain { parts: 2, seconds: 3600.0, nodes: 5 };
    let course = Course { workers: 4, grain, lost_one_in: 2, seed: 1 };
    let (found, lost) = in_parts(&placer, (Objective::Stp, Goal::Best), course);
    assert!(found.proven && lost > 5, "{lost} batches were lost");
}

/// What is left open bounds the answer at any time.
#[test]
fn a_search_that_ends_early_says_how_far_it_may_be() {
    let machine = crate::machines::four_by(2);
    let programs: Vec<(f64, f64)> =
        (0..8).map(|i| (0.1 + 0.2 * f64::from(i), 0.1 * f64::from(i % 3))).collect();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs };
    let placer = Placer::new(&machine, &made_up, 8).unwrap();
    let (objective, goal) = (Objective::MeanSlowdown, Goal::Best);
    let best = placer.solve(objective, goal, &SearchLimits::default());
    let grain = Grain { parts: 2, seconds: 3600.0, nodes: 3 };
    let mut all = Distribution::new(&placer, objective, goal, 1, grain);
    let mut looks = 0;
    while let Some(batch) = all.next_batch(&placer) {
        let so_far = all.result(&placer);
        assert!(!so_far.proven);
        assert!(so_far.bound.unwrap() <= best.value * (1.0 + 1e-12), "{so_far:?}");
        assert!(so_far.value >= best.value * (1.0 - 1e-12), "{so_far:?}");
        let tables = placer.prepare(&batch.pass);
        let incumbent = Incumbent::new(batch.incumbent.clone());
        all.finish(&placer, placer.work(&tables, &batch, &incumbent, None)).unwrap();
        looks += 1;
    }
    assert!(looks > 0 && all.result(&placer).proven);
}

#[test]
fn a_report_of_something_else_is_refused() {
    let machine = crate::machines::four_by(2);
    let programs: Vec<(f64, f64)> = (0..8).map(|i| (0.1 + 0.2 * f64::from(i), 0.5)).collect();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Any, programs };
    let placer = Placer::new(&machine, &made_up, 8).unwrap();
    let fewer = Placer::new(&machine, &made_up, 7).unwrap();
    let grain = Grain::default();
    let search = |placer| Distribution::new(placer, Objective::Stp, Goal::Best, 2, grain);
    let (mut all, mut other) = (search(&placer), search(&fewer));
    let batch = other.next_batch(&fewer).unwrap();
    let incumbent = Incumbent::new(batch.incumbent.clone());
    let report = fewer.work(&fewer.prepare(&batch.pass), &batch, &incumbent, None);
    let error = all.finish(&placer, report).unwrap_err().to_string();
    assert!(error.contains("7 programs, expected 8"), "{error}");
}
