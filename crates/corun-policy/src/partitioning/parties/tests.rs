use corun_machine::preset;

use super::controller::{Division, Rule, Total};
use super::*;
use crate::{ServiceLatency, build};

const RULE: Rule = Rule { upsize: 0.05, downsize: 0.2, readings: 5, smoothed: 10, rest: 100 };
const TOTAL: Total = Total { cores: 8, ways: 11, least_ways: 1, best_effort: false };

fn division(services: u64, total: Total, seed: u64) -> Division {
    let services: Vec<ProcessId> = (0..services).map(ProcessId).collect();
    Division::equal(&services, total, RULE, Pcg64Mcg::seed_from_u64(seed)).unwrap()
}

/// Cores and ways of each service, then what is free.
fn parts(division: &Division) -> Vec<(usize, u32)> {
    let tenants = division.tenants.iter().map(|one| (one.cores.len(), one.ways));
    tenants.chain([(division.free_cores.len(), division.free_ways)]).collect()
}

/// So many readings, all alike.
fn read(division: &mut Division, times: u32, slacks: &[f64]) {
    let slacks: Vec<Option<f64>> = slacks.iter().copied().map(Some).collect();
    (0..times).for_each(|_| division.read(&slacks));
}

/// 8 cores and 11 ways: 4 each, and 6 and 5 ways. With other programs there are three parts: 3, 3 and 2 cores, 4, 4
/// and 3 ways.
#[test]
fn all_begin_with_equal_parts() {
    assert_eq!(parts(&division(2, TOTAL, 1)), [(4, 6), (4, 5), (0, 0)]);
    let beside = Total { best_effort: true, ..TOTAL };
    assert_eq!(parts(&division(2, beside, 1)), [(3, 4), (3, 4), (2, 3)]);
    let few = Total { cores: 1, ..TOTAL };
    let services = [ProcessId(0), ProcessId(1)];
    assert!(Division::equal(&services, few, RULE, Pcg64Mcg::seed_from_u64(1)).is_none());
    assert!(Division::equal(&[], TOTAL, RULE, Pcg64Mcg::seed_from_u64(1)).is_none());
}

/// The first is 20 % over its target, the second 40 % below its own, which is enough: a unit of one resource goes over.
/// Five readings later it has not helped, and a unit of the other follows; then one of the first again.
#[test]
fn who_is_short_gets_one_resource_after_the_other_from_who_has_most() {
    for seed in 0..4 {
        let mut division = division(2, TOTAL, seed);
        read(&mut division, 1, &[-0.2, 0.4]);
        let first = parts(&division);
        assert!(
            first == [(5, 6), (3, 5), (0, 0)] || first == [(4, 7), (4, 4), (0, 0)],
            "{first:?}"
        );
        read(&mut division, 4, &[-0.2, 0.4]);
        assert_eq!(parts(&division), first, "it is being watched");
        read(&mut division, 1, &[-0.2, 0.4]);
        assert_eq!(parts(&division), [(5, 7), (3, 4), (0, 0)]);
        read(&mut division, 5, &[-0.2, 0.4]);
        let third = parts(&division);
        assert_eq!(third[0].0 - first[0].0 + (third[0].1 - first[0].1) as usize, 2, "{third:?}");
    }
}

/// While the latency falls the wheel stays where it is: three units of the same.
#[test]
fn a_resource_that_helps_is_given_again() {
    let mut division = division(2, TOTAL, 1);
    for round in 0..3 {
        let slack = -0.9 + 0.2 * f64::from(round);
        read(&mut division, 1, &[slack, 0.1]);
        read(&mut division, 4, &[slack + 0.1, 0.1]);
    }
    let [(cores, ways), ..] = parts(&division)[..] else { panic!() };
    assert!((cores, ways) == (7, 6) || (cores, ways) == (4, 9), "{cores} {ways}");
}

/// Both are far below their targets: the one with more slack gives a unit, and again after five good readings.
#[test]
fn who_has_slack_gives_back_to_what_is_free() {
    let mut division = division(2, TOTAL, 1);
    read(&mut division, 11, &[0.5, 0.3]);
    let parts = parts(&division);
    let free = parts[2].0 + parts[2].1 as usize;
    assert_eq!((free, parts[1]), (3, (4, 5)), "{parts:?}");
    // Who is short takes a unit that is free before it takes one of the same from another.
    read(&mut division, 10, &[-0.5, 0.3]);
    let after = super::tests::parts(&division);
    match parts[2].0 > 0 {
        true => assert_eq!(after[1].0, 4, "{after:?}"),
        false => assert_eq!(after[1].1, 5, "{after:?}"),
    }
}

/// What was taken left somebody short: it comes back, and for 10 s (100 readings) the service gives nothing.
#[test]
fn what_is_missed_comes_back_and_is_not_asked_for_again_soon() {
    let mut division = division(1, TOTAL, 1);
    let whole = parts(&division);
    read(&mut division, 1, &[0.5]);
    assert_ne!(parts(&division), whole);
    read(&mut division, 4, &[0.0]);
    assert_ne!(parts(&division), whole);
    read(&mut division, 1, &[0.0]);
    assert_eq!(parts(&division), whole);
    read(&mut division, 99, &[0.5]);
    assert_eq!(parts(&division), whole);
    read(&mut division, 2, &[0.5]);
    assert_ne!(parts(&division), whole);
}

/// One bad reading among good ones is no reason: both the last one and the mean count.
#[test]
fn a_single_reading_decides_nothing() {
    let mut division = division(2, TOTAL, 1);
    read(&mut division, 10, &[0.1, 0.1]);
    let before = parts(&division);
    read(&mut division, 1, &[-0.3, 0.1]);
    read(&mut division, 1, &[0.9, 0.1]);
    assert_eq!(parts(&division), before);
    // What is not known changes nothing.
    (0..50).for_each(|_| division.read(&[None, None]));
    assert_eq!(parts(&division), before);
}

#[test]
fn a_core_and_a_way_are_left_to_the_others() {
    let mut division = division(2, Total { best_effort: true, ..TOTAL }, 3);
    read(&mut division, 200, &[-0.5, -0.6]);
    let all = parts(&division);
    assert_eq!(all[2], (1, 1), "{all:?}");
    assert_eq!(all.iter().map(|one| one.0).sum::<usize>(), 8);
    assert_eq!(all.iter().map(|one| one.1).sum::<u32>(), 11);
    assert!(all.iter().all(|&(cores, ways)| cores >= 1 && ways >= 1), "{all:?}");
    // They come to a cache where nothing is free.
    let mut full = super::tests::division(2, TOTAL, 3);
    assert!(full.adapt(Total { best_effort: true, ..TOTAL }));
    assert_eq!(parts(&full)[2], (1, 1));
    assert!(!full.adapt(Total { cores: 4, ..TOTAL }));
}

fn view<'a>(machine: &'a Machine, threads: &'a [ThreadView]) -> View<'a> {
    View { machine, threads, now: Nanoseconds(0) }
}

/// Two services and two programs of no target on a Xeon of one LLC of 11 ways: all that there is is given out once.
#[test]
fn threads_are_held_on_the_cores_of_their_programs() {
    let machine = preset("xeon-gold-6138").unwrap();
    let latency = |tail_ms| Some(ServiceLatency { tail_ms: Some(tail_ms), target_ms: 5.0 });
    let mut threads: Vec<ThreadView> = (0..8)
        .map(|id| {
            let process = ProcessId(id / 2);
            let one = ThreadView::new(ThreadId(id), process, "p", &machine.cpu_set());
            ThreadView { latency: if id < 4 { latency(9.0) } else { None }, ..one }
        })
        .collect();
    let mut policy = build("parties", &BuildOptions::default()).unwrap();
    let plan = policy.on_event(&Event::Arrived(ThreadId(0)), &view(&machine, &threads)).unwrap();
    let mut parts = Vec::new();
    for step in &plan.steps {
        match &step.action {
            Action::Allow { thread, cpus } => threads[thread.0 as usize].allowed = cpus.clone(),
            Action::Partition { parts: asked, .. } => parts.clone_from(asked),
            other => panic!("{other:?}"),
        }
    }
    let sets: Vec<&CpuSet> = threads.iter().step_by(2).map(|one| &one.allowed).collect();
    assert!(sets[0].is_disjoint(sets[1]) && sets[0].is_disjoint(sets[2]), "{sets:?}");
    assert_eq!(sets[2], sets[3]);
    assert_eq!(sets[0].union(sets[1]).union(sets[2]), machine.cpu_set());
    let masks: Vec<u64> = parts.iter().map(|part| part.mask).collect();
    assert_eq!(masks, [0b1111, 0b1111_0000, 0b111_0000_0000]);
    // Nothing is asked for again.
    assert_eq!(
        policy.on_event(&Event::Arrived(ThreadId(0)), &view(&machine, &threads)),
        Some(Plan::none())
    );
    // Once no service is left, all may run anywhere and the cache is whole.
    let rest: Vec<ThreadView> = threads.split_off(4);
    let plan = policy.on_event(&Event::Exited(ThreadId(0)), &view(&machine, &rest)).unwrap();
    let freed = plan.steps.iter().filter(
        |step| matches!(&step.action, Action::Allow { cpus, .. } if *cpus == machine.cpu_set()),
    );
    assert_eq!(freed.count(), 4);
    let is_whole = |step: &crate::Step| matches!(&step.action, Action::Partition { parts, .. } if parts.is_empty());
    assert!(plan.steps.iter().any(is_whole));
}
