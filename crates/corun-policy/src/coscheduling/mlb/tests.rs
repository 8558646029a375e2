use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Scope, ScopedRate, ThreadState, ThreadView, build, fixture};

/// One LLC of so many cores behind a controller of 20 GB/s.
fn machine(cores: u32) -> Machine {
    fixture::machine(&format!(
        "[[bandwidth]]\nname = 'imc'\nkind = 'memory-controller'\nstage = 0\n\
         peak_mb_per_s = 20000\n\
         [[object]]\nkind = 'package'\n\
         [[object.object]]\nkind = 'cache'\nlevel = 3\nsize_kib = 8192\n\
         [[object.object.object]]\nkind = 'core'\ncount = {cores}\n"
    ))
}

/// Threads by (CPU, MB/s while it runs); those of a CPU share it evenly.
fn on_cpus(machine: &Machine, places: &[(u32, f64)]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; places.len()]);
    for (thread, &(cpu, rate)) in threads.iter_mut().zip(places) {
        let sharing = places.iter().filter(|(other, _)| *other == cpu).count();
        let share = 1.0 / sharing as f64;
        thread.cpu = Some(CpuId(cpu));
        thread.rates.cpu_share = Some(share);
        thread.rates.memory_bytes_per_s = Some(rate * 1e6 * share);
    }
    threads
}

/// Makes all of them together retry so often for each request.
fn retry(threads: &mut [ThreadView], level: f64) {
    for thread in threads {
        let bytes = thread.rates.memory_bytes_per_s.unwrap();
        thread.rates.memory_retries_per_s = Some(level * bytes / REQUEST_BYTES);
    }
}

/// A policy whose constants are those of the paper's i7-2600 (section 4.2).
fn mlb(parameters: &[(&str, f64)]) -> Mlb {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let mut policy = Mlb::new(&BuildOptions { seed: 0, parameters });
    policy.law = Some(Some(ContentionLaw { inclination: 0.77, baseline: 0.54 }));
    policy
}

/// The level at which that machine's eq. 4 is exactly this number.
fn level_of(streams: f64) -> f64 {
    0.77 * streams * streams + 0.54
}

fn swaps(plan: &Plan) -> Vec<(u64, u64)> {
    let swap = |step: &crate::Step| match step.action {
        Action::Swap { first, second } => Some((first.0, second.0)),
        _ => None,
    };
    plan.steps.iter().filter_map(swap).collect()
}

/// One intensive thread on each of four CPUs, two run queues predicted.
///
/// By hand (algorithm 1): intensities 8, 6, 5 and 4 on CPUs 0 to 3, beside 1 each; the mean is 3.375.
/// Line 9: the source is CPU 0. 14-17: the list is empty, CPU 0 has the highest sum and joins it; 27:
/// it is the source, the round ends. Second round: the source is CPU 1, whose 6 is above the lowest
/// inside, 1. 39: they change places. Third: the highest outside is 5, the lowest inside 6: line 11.
#[test]
fn algorithm_1_by_hand() {
    let machine = machine(4);
    let spread = [(0, 8.0), (0, 1.0), (1, 6.0), (1, 1.0), (2, 5.0), (2, 1.0), (3, 4.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &spread);
    retry(&mut threads, level_of(2.0));
    let mut policy = mlb(&[]);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    // The 8 is kept there.
    assert_eq!((swaps(&plan), &policy.intensive[..]), (vec![], &[CpuId(0)][..]));
    assert_eq!(allows(&plan), [(0, "0".to_owned())]);
    carry_out(&mut threads, &plan);

    let plan = policy.decide(&fixture::view(&machine, &threads));
    // Thread 2 (6, on CPU 1) and thread 1 (1, on CPU 0).
    assert_eq!(swaps(&plan), [(2, 1)]);
    assert_eq!(policy.intensive, [CpuId(0)]);
    let words = &plan.steps[0].reason;
    assert!(words.starts_with("program2: 6 MB/s while it runs, to CPU 0"), "{words}");
    // The one is kept there, the other is free.
    assert_eq!(allows(&plan), [(1, "0-3".to_owned()), (2, "0".to_owned())]);
    carry_out(&mut threads, &plan);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(plan, Plan::none());
}

/// A thread outside that is higher than one inside: it goes in, the list grows where nobody inside
/// is at or below the mean.
#[test]
fn the_list_grows_when_all_in_it_are_intensive() {
    let machine = machine(4);
    // The mean is 4: CPU 0's threads are both above it, and 9 on CPU 2 is above them.
    let places = [(0, 5.0), (0, 6.0), (1, 1.0), (1, 1.0), (2, 9.0), (2, 2.0), (3, 7.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(2.0));
    let mut policy = mlb(&[]);
    policy.intensive = vec![CpuId(0)];
    let plan = policy.decide(&fixture::view(&machine, &threads));
    // The highest sum outside is CPU 2's 11, which is the source: it joins, nobody moves.
    assert_eq!((swaps(&plan), &policy.intensive[..]), (vec![], &[CpuId(0), CpuId(2)][..]));
    let kept = |thread| (thread, "0,2".to_owned());
    assert_eq!(allows(&plan), [kept(0), kept(1), kept(4)]);
    carry_out(&mut threads, &plan);
    // 7 on CPU 3 takes the place of 2 on CPU 2.
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(swaps(&plan), [(6, 5)]);
    // Now 9 and 7 are inside, and outside nothing is above 5: done.
    carry_out(&mut threads, &plan);
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    assert_eq!(policy.intensive.len(), 2);
}

/// Four streams that are alike, two of them on the list's only run queue: the others are gathered too.
///
/// By hand: the mean is 5. The highest outside, CPU 1's 9, is as high as the lowest inside: on to line 14.
/// Nobody inside is at or below the mean; CPU 1 has the highest sum outside and is the source: it joins.
/// Then CPU 2's 9 takes the place of CPU 1's 1, and outside nothing is above 1.
#[test]
fn streams_that_are_alike_do_not_stay_outside() {
    let machine = machine(4);
    let places = [(0, 9.0), (0, 9.0), (1, 9.0), (1, 1.0), (2, 9.0), (2, 1.0), (3, 1.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(2.0));
    let mut policy = mlb(&[]);
    policy.intensive = vec![CpuId(0)];
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!((swaps(&plan), &policy.intensive[..]), (vec![], &[CpuId(0), CpuId(1)][..]));
    carry_out(&mut threads, &plan);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(swaps(&plan), [(4, 3)]);
    carry_out(&mut threads, &plan);
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
}

#[test]
fn the_list_never_grows_beyond_the_predicted_number() {
    let machine = machine(4);
    let places = [(0, 5.0), (0, 6.0), (1, 1.0), (1, 1.0), (2, 9.0), (2, 2.0), (3, 1.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(1.0));
    let mut policy = mlb(&[]);
    policy.intensive = vec![CpuId(0)];
    assert_eq!(swaps(&policy.decide(&fixture::view(&machine, &threads))), []);
    assert_eq!(policy.intensive, [CpuId(0)]);
}

#[test]
fn one_run_queue_a_round_leaves_the_list_the_lowest_first() {
    let machine = machine(4);
    let places = [(0, 5.0), (0, 6.0), (1, 1.0), (1, 1.0), (2, 9.0), (2, 2.0), (3, 1.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(1.0));
    let mut policy = mlb(&[]);
    policy.intensive = vec![CpuId(0), CpuId(1), CpuId(2)];
    policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(policy.intensive, [CpuId(0), CpuId(2)]);
    policy.decide(&fixture::view(&machine, &threads));
    // 11 and 11: the first of equals.
    assert_eq!(policy.intensive, [CpuId(2)]);
}

#[test]
fn a_run_queue_without_threads_leaves_the_list() {
    let machine = machine(4);
    let mut threads = on_cpus(&machine, &[(0, 5.0), (0, 6.0)]);
    retry(&mut threads, level_of(4.0));
    let mut policy = mlb(&[]);
    policy.intensive = vec![CpuId(3), CpuId(0)];
    policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(policy.intensive, [CpuId(0)]);
}

/// Eq. 4: 11.6 is 3.79 streams of the i7-2600 (lbm beside three stressors, section 3.2).
#[test]
fn predicted_numbers_are_rounded_up_or_to_the_nearest() {
    let law = ContentionLaw { inclination: 0.77, baseline: 0.54 };
    assert_eq!(mlb(&[]).predict(11.6, law, 4), 4);
    // 7.6 is 3.03 streams.
    assert_eq!(mlb(&[]).predict(7.6, law, 4), 4);
    assert_eq!(mlb(&[("round", 1.0)]).predict(7.6, law, 4), 3);
    assert_eq!(mlb(&[]).predict(0.5, law, 4), 0);
    // Never more than there are CPUs.
    assert_eq!(mlb(&[]).predict(1e6, law, 4), 4);
}

#[test]
fn the_final_number_is_the_mean_of_twenty() {
    let law = ContentionLaw { inclination: 1.0, baseline: 0.0 };
    let mut policy = mlb(&[]);
    for _ in 0..20 {
        assert_eq!(policy.predict(4.0, law, 8), 2);
    }
    // k numbers of 6 among twenty: 2 + 4 k / 20 is 3 rounded from k = 3 on.
    let after: Vec<usize> = (0..20).map(|_| policy.predict(36.0, law, 8)).collect();
    assert_eq!((after[1], after[2], after[18], after[19]), (2, 3, 6, 6));
    assert_eq!(policy.numbers.len(), 20);
}

#[test]
fn the_level_is_retries_over_requests_else_estimated_from_the_peak() {
    let machine = machine(4);
    // 10000 MB/s of 20000.
    let mut threads = on_cpus(&machine, &[(0, 4000.0), (1, 6000.0)]);
    let estimated = level(&fixture::view(&machine, &threads), 50.0).unwrap();
    assert!((estimated - 1.0).abs() < 1e-12, "{estimated}");
    retry(&mut threads, 2.5);
    let counted = level(&fixture::view(&machine, &threads), 50.0).unwrap();
    assert!((counted - 2.5).abs() < 1e-12, "{counted}");
    // One of two counts no retries: their sum is unknown.
    threads[0].rates.memory_retries_per_s = None;
    let part = level(&fixture::view(&machine, &threads), 50.0).unwrap();
    assert!((part - 1.0).abs() < 1e-12, "{part}");
    // At the peak and beyond, the most that is told apart.
    threads[0].rates.memory_bytes_per_s = Some(2e10);
    assert_eq!(level(&fixture::view(&machine, &threads), 50.0), Some(50.0));
    let unbounded = fixture::x5365();
    assert_eq!(level(&fixture::view(&unbounded, &threads), 50.0), None);
}

#[test]
fn without_a_law_the_machines_own_is_derived() {
    let mut policy = Mlb::new(&BuildOptions::default());
    let law = policy.law(&machine(4)).unwrap();
    assert!(law.inclination > 0.0 && law.baseline >= 0.0, "{law:?}");
    assert_eq!(Mlb::new(&BuildOptions::default()).law(&fixture::x5365()), None);
}

#[test]
fn threads_of_other_utilisation_or_of_other_cpus_do_not_change_places() {
    let machine = machine(4);
    let places = [(0, 5.0), (0, 1.0), (1, 9.0), (1, 1.0), (2, 1.0), (2, 1.0), (3, 1.0), (3, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(1.0));
    let decide = |threads: &[ThreadView]| {
        let mut policy = mlb(&[]);
        policy.intensive = vec![CpuId(0)];
        swaps(&policy.decide(&fixture::view(&machine, threads)))
    };
    assert_eq!(decide(&threads), [(2, 1)]);
    let mut lazy = threads.clone();
    // The same traffic while it runs, but it runs less.
    lazy[1].rates.cpu_share = Some(0.2);
    lazy[1].rates.memory_bytes_per_s = Some(0.2e6);
    retry(&mut lazy, level_of(1.0));
    assert_eq!(decide(&lazy), []);
    threads[1].may_run_on = "0-1".parse().unwrap();
    assert_eq!(decide(&threads), []);
}

#[test]
fn no_more_threads_than_cpus_and_nobody_moves() {
    let machine = machine(4);
    let mut threads = on_cpus(&machine, &[(0, 9.0), (1, 8.0), (2, 1.0), (3, 1.0)]);
    retry(&mut threads, level_of(4.0));
    let mut policy = mlb(&[]);
    for _ in 0..5 {
        assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    }
}

#[test]
fn a_thread_that_did_not_run_keeps_its_intensity_and_an_ended_one_is_forgotten() {
    let machine = machine(2);
    let mut threads = on_cpus(&machine, &[(0, 7.0), (1, 3.0)]);
    let mut policy = mlb(&[]);
    policy.intensity.measure(&fixture::view(&machine, &threads));
    threads[0].rates.cpu_share = Some(0.0);
    threads[0].rates.memory_bytes_per_s = Some(0.0);
    policy.intensity.measure(&fixture::view(&machine, &threads[..1]));
    let known = policy.intensity.by_thread(&fixture::view(&machine, &threads));
    assert_eq!(known, [Some(7e6), None]);
}

#[test]
fn parameters_are_taken() {
    let parameters = BTreeMap::from([("interval-s".to_owned(), 0.5)]);
    let policy = build("mlb", &BuildOptions { seed: 0, parameters }).unwrap();
    assert_eq!(policy.needs().interval, Interval::Time(Nanoseconds(500_000_000)));
    assert_eq!(policy.needs().counters, [CounterKind::MemoryBytes]);
}

/// Who may run where from now on.
fn allows(plan: &Plan) -> Vec<(u64, String)> {
    let allow = |step: &crate::Step| match &step.action {
        Action::Allow { thread, cpus } => Some((thread.0, cpus.to_string())),
        _ => None,
    };
    plan.steps.iter().filter_map(allow).collect()
}

/// The threads after a plan.
fn carry_out(threads: &mut [ThreadView], plan: &Plan) {
    for (thread, cpus) in allows(plan) {
        threads[thread as usize].allowed = cpus.parse().unwrap();
    }
    for (first, second) in swaps(plan) {
        let (first, second) = (first as usize, second as usize);
        (threads[first].cpu, threads[second].cpu) = (threads[second].cpu, threads[first].cpu);
    }
}

/// Two intensive threads are held on CPU 0. The threads of CPU 1 end: they are let go at once, and
/// are not held again while CPU 0 has two more than another.
#[test]
fn held_threads_are_let_go_where_a_cpu_falls_idle() {
    let machine = machine(2);
    let mut threads = on_cpus(&machine, &[(0, 9.0), (0, 8.0), (1, 1.0), (1, 1.0)]);
    retry(&mut threads, level_of(1.0));
    let mut policy = mlb(&[]);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(allows(&plan), [(0, "0".to_owned()), (1, "0".to_owned())]);
    carry_out(&mut threads, &plan);
    let one_left = fixture::view(&machine, &threads[..3]);
    let plan = policy.on_event(&Event::Exited(ThreadId(3)), &one_left).unwrap();
    assert_eq!(plan, Plan::none());
    let none_left = fixture::view(&machine, &threads[..2]);
    let plan = policy.on_event(&Event::Exited(ThreadId(2)), &none_left).unwrap();
    assert_eq!(allows(&plan), [(0, "0-1".to_owned()), (1, "0-1".to_owned())]);
    carry_out(&mut threads, &plan);
    let plan = policy.decide(&fixture::view(&machine, &threads[..2]));
    assert_eq!(plan, Plan::none());
}

fn loads(threads: &[ThreadView]) -> BTreeMap<Option<CpuId>, usize> {
    let mut loads = BTreeMap::new();
    threads.iter().for_each(|thread| *loads.entry(thread.cpu).or_default() += 1);
    loads
}

proptest! {
    #[test]
    fn swaps_keep_loads_leave_lone_threads_alone_and_come_to_an_end(
        places in proptest::collection::vec((0u32..6, 0.0..9.0f64), 1..24),
        streams in 0.0..7.0f64,
        asleep in 0usize..30,
    ) {
        let machine = machine(6);
        let mut threads = on_cpus(&machine, &places);
        if let Some(thread) = threads.get_mut(asleep) {
            thread.state = ThreadState::Sleeping;
        }
        retry(&mut threads, level_of(streams));
        let mut policy = mlb(&[]);
        let before = loads(&threads);
        let mut last = None;
        for _ in 0..60 {
            let plan = policy.decide(&fixture::view(&machine, &threads));
            for (first, second) in swaps(&plan) {
                for id in [first, second] {
                    let thread = &threads[id as usize];
                    prop_assert!(thread.state != ThreadState::Sleeping);
                    let awake = threads.iter().filter(|other| {
                        other.cpu == thread.cpu && other.state != ThreadState::Sleeping
                    });
                    prop_assert!(awake.count() > 1, "thread {id} was alone");
                }
            }
            carry_out(&mut threads, &plan);
            prop_assert_eq!(&loads(&threads), &before);
            prop_assert!(policy.intensive.len() <= 6);
            last = Some(plan);
        }
        // The same figures again and again: nobody moves any more.
        prop_assert_eq!(last, Some(Plan::none()));
    }
}

#[test]
fn counters_of_other_kinds_do_not_matter() {
    let machine = machine(4);
    let places = [(0, 5.0), (0, 1.0), (1, 9.0), (1, 1.0)];
    let mut threads = on_cpus(&machine, &places);
    retry(&mut threads, level_of(1.0));
    let decide = |threads: &[ThreadView]| mlb(&[]).decide(&fixture::view(&machine, threads));
    let plan = decide(&threads);
    let rate = ScopedRate { per_s: 1e9, scope: Scope::Demand };
    threads[1].rates.llc_misses = Some(rate);
    assert_eq!(decide(&threads), plan);
}
