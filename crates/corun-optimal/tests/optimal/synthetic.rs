//! The search against enumeration, on made-up slowdowns of each kind of coupling.

use crate::made_up::MadeUp;
use corun_machine::Machine;
use corun_optimal::{
    Coupling, EveryPlacement, Goal, Objective, Placer, SearchLimits, WithinTarget,
};
use proptest::prelude::*;

fn couplings() -> [Coupling; 4] {
    [Coupling::Apart, Coupling::Common, Coupling::Growing, Coupling::Any]
}

/// One case: all objectives, both goals, the expectation, and equal programs where there are.
fn check(machine: &Machine, coupling: Coupling, programs: &[(f64, f64)]) {
    let made_up = MadeUp { machine, coupling, programs: programs.to_vec() };
    let lowest_equal = |one: &(f64, f64)| programs.iter().position(|other| other == one).unwrap();
    let equals: Vec<usize> = programs.iter().map(lowest_equal).collect();
    let limits = SearchLimits::default();
    let placer =
        Placer::new(machine, &made_up, programs.len()).unwrap().with_equals(equals.clone());
    let every = EveryPlacement::new(machine, &made_up, programs.len());
    let goals = |objective| [Goal::Best, Goal::Worst].map(|goal| (objective, goal));
    for (objective, goal) in Objective::NAMED.into_iter().flat_map(|(_, one)| goals(one)) {
        let what = format!("{} {coupling:?} {objective:?} {programs:?}", machine.name());
        let all = every.first(objective, goal, f64::INFINITY).unwrap();
        let found = placer.solve(objective, goal, &limits);
        assert!(found.proven, "{what} {goal:?}");
        assert_eq!(found.gap, Some(0.0));
        let error = (found.value - all.value).abs();
        assert!(error < 1e-9 * all.value.max(1.0), "{what} {goal:?}: {found:?}, {all:?}");
        assert_eq!(found.llc, all.llc, "{what} {goal:?}: {found:?} {all:?}");
        assert_eq!(placer.evaluate(&found.cpu).unwrap(), found.slowdown);
        let at_once = SearchLimits { nodes: 0, ..limits };
        let backwards: Vec<usize> = (0..programs.len()).rev().collect();
        let starts = [backwards, found.cpu.clone()];
        let known = Placer::new(machine, &made_up, programs.len()).unwrap().with_starts(&starts);
        let kept = known.unwrap().solve(objective, goal, &at_once);
        // Unfairness of equal STP may differ within its room.
        assert!((kept.value - found.value).abs() < 2e-6 * found.value, "{what} {goal:?}: {kept:?}");
        if goal == Goal::Best {
            let expectation = placer.expectation(objective, 100, 1, &limits).unwrap();
            assert!(
                expectation.exact && (expectation.value - all.mean).abs() <= 1e-9 * all.mean.abs(),
                "{what}: {expectation:?}"
            );
        }
    }
}

/// One case with a target: between the least slow and the slowest placement, and below both.
fn check_within(machine: &Machine, coupling: Coupling, programs: &[(f64, f64)], share: f64) {
    let made_up = MadeUp { machine, coupling, programs: programs.to_vec() };
    let placer = Placer::new(machine, &made_up, programs.len()).unwrap();
    let every = EveryPlacement::new(machine, &made_up, programs.len());
    let ends = [Goal::Best, Goal::Worst]
        .map(|goal| every.first(Objective::MaxSlowdown, goal, f64::INFINITY).unwrap().value);
    let target = ends[0] + share * (ends[1] - ends[0]) + 1e-9;
    for (_, objective) in Objective::NAMED {
        let what = format!("{} {coupling:?} {objective:?} {programs:?} {share}", machine.name());
        check_objective_within(&placer, &every, objective, (target, ends[0]), &what);
    }
}

/// One objective of such a case; `least`: the slowest program's slowdown where it is the least slow.
fn check_objective_within(
    placer: &Placer<'_, MadeUp<'_>>,
    every: &EveryPlacement<'_, MadeUp<'_>>,
    objective: Objective,
    (target, least): (f64, f64),
    what: &str,
) {
    let expected = every.first(objective, Goal::Best, target).unwrap();
    match placer.solve_within(target, objective, &SearchLimits::default()) {
        WithinTarget::Kept(found) => {
            assert!(found.proven && found.gap == Some(0.0), "{what}: {found:?}");
            assert!(
                (found.value - expected.value).abs() < 2e-6 * expected.value.max(1.0),
                "{what}: {found:?}, {expected:?}"
            );
            assert!(found.slowdown.iter().all(|&slowdown| slowdown <= target), "{what}: {found:?}");
        }
        WithinTarget::Exceeded(found) => panic!("{what}: {found:?}"),
    }
    match placer.solve_within(least - 1e-6, objective, &SearchLimits::default()) {
        WithinTarget::Exceeded(found) => {
            assert!(
                found.proven && (found.value - least).abs() < 1e-9 * least,
                "{what}: {found:?}"
            );
        }
        WithinTarget::Kept(found) => panic!("{what}: {found:?}"),
    }
    let no_nodes = SearchLimits { nodes: 0, ..SearchLimits::default() };
    if let WithinTarget::Kept(found) = placer.solve_within(target, objective, &no_nodes) {
        assert!(found.slowdown.iter().all(|&slowdown| slowdown <= target), "{what}: {found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_best_within_a_target_is_that_of_enumeration(
        programs in prop::collection::vec((0.05f64..2.0, 0.0f64..1.0), 1..5),
        share in 0.0f64..0.9,
    ) {
        for machine in crate::machines::all() {
            for coupling in couplings() {
                check_within(&machine, coupling, &programs, share);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_search_agrees_with_enumeration(
        programs in prop::collection::vec((0.05f64..2.0, 0.0f64..1.0), 1..5),
        twins in any::<bool>(),
    ) {
        let mut programs = programs;
        if twins && programs.len() > 1 {
            programs[1] = programs[0];
        }
        for machine in crate::machines::all() {
            for coupling in couplings() {
                // Growing and Common hold of any machine in this model; Apart ignores the rest.
                check(&machine, coupling, &programs);
            }
        }
    }
}

/// Four programs that ask for nothing, on two packages of two LLCs of two CPUs: together in a package they draw 30 W for it
/// and 5 W for each core, 50 W, and do 4 seconds' work of one alone in a second: 12.5 J. Apart it is 20 J. A program
/// that asks for 1e9 bytes a second alone draws 30 + 5 + 4 W.
#[test]
fn energy_is_the_one_worked_by_hand() {
    let machine = crate::machines::two_packages(2);
    let package = |cpu: usize| machine.cpus()[cpu].package;
    let made_up = |programs| MadeUp { machine: &machine, coupling: Coupling::Apart, programs };
    let (four, one) = (made_up(vec![(0.0, 0.0); 4]), made_up(vec![(1.0, 0.0)]));
    let limits = SearchLimits::default();
    let placer = Placer::new(&machine, &four, 4).unwrap();
    for (objective, goal, value) in [
        (Objective::Energy, Goal::Best, 12.5),
        (Objective::Energy, Goal::Worst, 20.0),
        (Objective::EnergyDelay, Goal::Best, 12.5),
    ] {
        let found = placer.solve(objective, goal, &limits);
        assert!(found.proven && (found.value - value).abs() < 1e-12, "{goal:?}: {found:?}");
        let is_together = found.cpu.iter().all(|&cpu| package(cpu) == package(found.cpu[0]));
        assert_eq!(is_together, goal == Goal::Best, "{found:?}");
        // Dealt out to both packages no single move saves anything.
        let searched = placer.local_search(objective, goal, &limits);
        assert!((searched.value - value).abs() < 1e-12, "{searched:?}");
    }
    let alone = Placer::new(&machine, &one, 1).unwrap();
    assert!((alone.solve(Objective::Energy, Goal::Best, &limits).value - 39.0).abs() < 1e-12);
}

/// Four programs of appetite 0.75 on LLCs of 1.049. In one package each is 1.215 times as slow beside another, and misses
/// 1.715 times as much: (50 + 4 x 4 x 0.75 x 1.715) W / 3.293 = 21.4 J; apart (80 + 4 x 4 x 0.75) W / 4 = 23 J. Energy packs
/// them; with the delay of 1.215 it is 26.0 against 23.
#[test]
fn energy_and_its_product_with_delay_choose_differently() {
    let machine = crate::machines::two_packages(2);
    let made_up =
        MadeUp { machine: &machine, coupling: Coupling::Apart, programs: vec![(0.75, 0.0); 4] };
    let placer = Placer::new(&machine, &made_up, 4).unwrap().with_equals(vec![0; 4]);
    let packages = |objective| {
        let found = placer.solve(objective, Goal::Best, &SearchLimits::default());
        assert!(found.proven);
        let mut packages: Vec<usize> =
            found.cpu.iter().map(|&cpu| machine.cpus()[cpu].package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len()
    };
    assert_eq!([Objective::Energy, Objective::EnergyDelay].map(packages), [1, 2]);
}

#[test]
fn a_machine_without_power_figures_has_no_energy() {
    let machine = corun_machine::preset("opteron-2350").unwrap();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Any, programs: spread(4) };
    let placer = Placer::new(&machine, &made_up, 4).unwrap();
    let limits = SearchLimits::default();
    let found = placer.solve(Objective::Energy, Goal::Best, &limits);
    assert!(found.value.is_nan() && !found.proven && found.gap.is_none(), "{found:?}");
    assert!(placer.expectation(Objective::Energy, 10, 1, &limits).is_none());
}

fn spread(programs: usize) -> Vec<(f64, f64)> {
    (0..programs)
        .map(|i| (0.1 + 0.17 * ((i * 7) % 11) as f64, 0.1 + 0.05 * (i % 5) as f64))
        .collect()
}

#[test]
fn placements_are_counted_once() {
    let machine = crate::machines::four_by(2);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs: spread(8) };
    let placer = Placer::new(&machine, &made_up, 8).unwrap();
    // Eight programs in four alike pairs: 7 x 5 x 3.
    assert_eq!(placements(&placer), 105);
    let buses = crate::machines::four_behind_buses();
    let made_up = MadeUp { machine: &buses, coupling: Coupling::Common, programs: spread(4) };
    // Four single CPUs in two packages: who is in the first one's package.
    assert_eq!(placements(&Placer::new(&buses, &made_up, 4).unwrap()), 3);
}

/// How many placements an exact expectation looks at.
fn placements(placer: &Placer<'_, MadeUp<'_>>) -> u64 {
    let limits = SearchLimits::default();
    let expectation = placer.expectation(Objective::MeanSlowdown, 1, 1, &limits).unwrap();
    assert!(expectation.exact);
    expectation.count
}

#[test]
fn equal_programs_that_disturb_nobody_do_not_stall_the_search() {
    // All 2.6 million placements have the same value.
    let machine = crate::machines::four_by(4);
    let programs = (0..16).map(|i| (0.1, 0.001 * f64::from(i))).map(|(a, _)| (a, 0.0)).collect();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs };
    let placer = Placer::new(&machine, &made_up, 16).unwrap();
    let found = placer.solve(Objective::MeanSlowdown, Goal::Best, &SearchLimits::default());
    assert!(found.proven && found.nodes < 200_000, "{found:?}");
    assert_eq!(found.llc, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let machine = crate::machines::four_by(3);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs: spread(12) };
    let placer = Placer::new(&machine, &made_up, 12).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let limits = SearchLimits { nodes: 3_000, ..SearchLimits::default() };
        let mut found = pool.install(|| placer.solve(Objective::Unfairness, Goal::Best, &limits));
        found.seconds = 0.0;
        found
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn out_of_nodes_there_is_a_gap_that_holds() {
    let machine = crate::machines::four_by(3);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs: spread(12) };
    let placer = Placer::new(&machine, &made_up, 12).unwrap();
    let few = SearchLimits { nodes: 150, ..SearchLimits::default() };
    let cut = placer.solve(Objective::MaxSlowdown, Goal::Best, &few);
    let whole = placer.solve(Objective::MaxSlowdown, Goal::Best, &SearchLimits::default());
    assert!(!cut.proven && whole.proven);
    assert!(cut.bound.unwrap() <= whole.value + 1e-9 && whole.value <= cut.value + 1e-9);
    let gap = (cut.value - cut.bound.unwrap()) / cut.bound.unwrap();
    assert!((cut.gap.unwrap() - gap).abs() < 1e-12);
}

#[test]
fn beyond_the_search_no_exchange_improves_the_answer() {
    let machine = crate::machines::four_by(7);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs: spread(26) };
    let placer = Placer::new(&machine, &made_up, 26).unwrap();
    let found = placer.solve(Objective::MeanSlowdown, Goal::Best, &SearchLimits::default());
    assert!(!found.proven && found.gap.is_none());
    for first in 0..26 {
        for second in first + 1..26 {
            let mut cpus = found.cpu.clone();
            cpus.swap(first, second);
            let slowdown = placer.evaluate(&cpus).unwrap();
            let value = slowdown.iter().sum::<f64>() / 26.0;
            assert!(value >= found.value - 1e-9, "{first} {second}: {value} {}", found.value);
        }
    }
}

#[test]
fn a_cancelled_search_still_answers() {
    let machine = crate::machines::four_by(2);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Any, programs: spread(8) };
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let limits = SearchLimits { cancel: Some(&cancel), ..SearchLimits::default() };
    let placer = Placer::new(&machine, &made_up, 8).unwrap();
    let found = placer.solve(Objective::Stp, Goal::Best, &limits);
    assert!(!found.proven && found.slowdown.len() == 8);
}

#[test]
fn drawn_expectations_lie_within_their_error() {
    let machine = crate::machines::four_by(3);
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Common, programs: spread(12) };
    let placer = Placer::new(&machine, &made_up, 12).unwrap();
    let limits = SearchLimits::default();
    let exact = placer.expectation(Objective::MeanSlowdown, 10, 1, &limits).unwrap();
    assert!(exact.exact && exact.count == 15_400);
    let bigger = crate::machines::four_by(4);
    let made_up = MadeUp { machine: &bigger, coupling: Coupling::Common, programs: spread(12) };
    let placer = Placer::new(&bigger, &made_up, 12).unwrap();
    let a = placer.expectation(Objective::MeanSlowdown, 4000, 1, &limits).unwrap();
    let b = placer.expectation(Objective::MeanSlowdown, 4000, 2, &limits).unwrap();
    assert!(!a.exact && a.count == 4000 && a.standard_error > 0.0);
    assert!((a.value - b.value).abs() < 6.0 * a.standard_error.hypot(b.standard_error));
    assert_eq!(a, placer.expectation(Objective::MeanSlowdown, 4000, 1, &limits).unwrap());
}

#[test]
fn impossible_questions_are_refused() {
    let machine = crate::machines::two_by_two();
    let made_up = MadeUp { machine: &machine, coupling: Coupling::Any, programs: spread(5) };
    assert!(Placer::new(&machine, &made_up, 0).is_err());
    let error = Placer::new(&machine, &made_up, 5).unwrap_err().to_string();
    assert_eq!(error, "5 threads for 4 CPUs: the optimum places at most one thread a CPU");
    let placer = Placer::new(&machine, &made_up, 2).unwrap();
    assert!(placer.evaluate(&[0]).is_err());
    assert!(placer.evaluate(&[0, 0]).is_err());
    assert!(placer.evaluate(&[0, 4]).is_err());
    assert!(placer.evaluate(&[0, 3]).is_ok());
}
