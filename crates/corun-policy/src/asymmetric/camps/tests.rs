use corun_machine::CpuId;
use proptest::prelude::*;

use super::history::{Control, History};
use super::non_work_conserving::Cluster;
use super::*;
use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{
    Action, Event, Plan, Policy, Rates, Scope, ScopedRate, ThreadState, ThreadView, build,
};

fn at(l1_percent: f64, branch_percent: f64) -> Control {
    Control { l1_percent, branch_percent }
}

/// Runs all the time at so many instructions a second, drawing so many MB/s, in a phase of so many L1
/// accesses and branches in % of instructions.
fn count(thread: &mut ThreadView, speed: f64, mb_per_s: f64, phase: Control) {
    thread.rates = Rates {
        cpu_share: Some(1.0),
        instructions_per_s: Some(speed),
        llc_misses: Some(ScopedRate {
            per_s: mb_per_s * 1e6 / 64.0,
            scope: Scope::DemandAndPrefetch,
        }),
        l1_accesses_per_s: Some(speed * phase.l1_percent / 100.0),
        branches_per_s: Some(speed * phase.branch_percent / 100.0),
        ..Rates::default()
    };
}

/// A policy whose threads were seen arriving, on their sides already.
fn camps(
    machine: &Machine,
    threads: &[ThreadView],
    parameters: &[(&str, f64)],
) -> SharingPolicy<Camps> {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let options = BuildOptions { seed: 0, parameters };
    let mut policy = SharingPolicy::new(&options, Camps::new(&options));
    for thread in threads {
        let plan = policy.on_event(&Event::Arrived(thread.id), &view_at(machine, threads, 0));
        assert_eq!(plan.map(|plan| plan.steps.len()), Some(0));
    }
    policy
}

/// An interval of 50 ms later.
fn next(
    policy: &mut SharingPolicy<Camps>,
    machine: &Machine,
    threads: &mut [ThreadView],
    interval: u64,
) -> Plan {
    for thread in threads.iter_mut().filter(|one| is_runnable(one)) {
        let ran_s = thread.counts.cpu_s().unwrap_or(0.0);
        thread.counts.cpu_time = crate::fixture::cpu_time(ran_s + 0.05);
    }
    let plan = policy.decide(&view_at(machine, threads, 50 * interval));
    carry_out(threads, &plan);
    plan
}

/// Takes a sample in; was its phase known?
fn record(table: &mut History, at: Control, speed: f64) -> bool {
    let found = table.find(at);
    table.record(found, at, speed);
    found.is_some()
}

fn alone(table: &mut History, at: Control) -> Option<f64> {
    table.find(at).map(|place| table.alone(place))
}

#[test]
fn a_phase_is_known_by_its_manhattan_distance() {
    let mut table = History::new(22, 2.0);
    assert!(!record(&mut table, at(30.0, 10.0), 1e9));
    // |31 - 30| + |11 - 10| = 2, and 3 is too far.
    assert!(record(&mut table, at(31.0, 11.0), 2e9));
    assert!(!record(&mut table, at(31.0, 12.1), 4e9));
    // The running average of the first phase's samples.
    assert_eq!(alone(&mut table, at(30.0, 10.0)), Some(1.5e9));
    // Between both: 1.5 from the first, 1.6 from the second.
    assert_eq!(alone(&mut table, at(30.5, 11.0)), Some(1.5e9));
    assert_eq!(alone(&mut table, at(30.5, 11.6)), Some(4e9));
    assert_eq!(alone(&mut table, at(50.0, 0.0)), None);
    // All samples alike: (1 + 2 + 4) / 3.
    let mean = table.mean_alone().unwrap();
    assert!((mean - 7e9 / 3.0).abs() < 1.0, "{mean}");
    let first = table.find(at(30.0, 10.0)).unwrap();
    table.note_small(first, 0.5e9);
    table.note_small(first, 0.3e9);
    assert_eq!(table.speedup(first), Some(3.0));
    let second = table.find(at(31.0, 12.1)).unwrap();
    assert_eq!(table.speedup(second), None);
}

#[test]
fn a_full_table_forgets_the_phase_met_longest_ago() {
    let mut table = History::new(2, 1.0);
    record(&mut table, at(10.0, 0.0), 1e9);
    record(&mut table, at(20.0, 0.0), 2e9);
    assert!(table.find(at(10.0, 0.0)).is_some());
    record(&mut table, at(30.0, 0.0), 3e9);
    assert_eq!(alone(&mut table, at(20.0, 0.0)), None);
    assert_eq!(alone(&mut table, at(10.0, 0.0)), Some(1e9));
    assert_eq!(alone(&mut table, at(30.0, 0.0)), Some(3e9));
}

/// A table as the thesis tells it: a list, looked through from its start at every question.
struct PlainTable {
    /// Where, the samples' speeds, when last met.
    phases: Vec<(Control, Vec<f64>, usize)>,
    capacity: usize,
}

impl PlainTable {
    fn find(&mut self, at: Control, time: usize) -> Option<usize> {
        let mut nearest: Option<usize> = None;
        for (place, phase) in self.phases.iter().enumerate() {
            let nearer =
                nearest.is_none_or(|one| phase.0.distance(at) < self.phases[one].0.distance(at));
            if phase.0.distance(at) <= 2.0 && nearer {
                nearest = Some(place);
            }
        }
        self.phases[nearest?].2 = time;
        nearest
    }

    fn record(&mut self, at: Control, speed: f64, time: usize) {
        if let Some(place) = self.find(at, time) {
            self.phases[place].1.push(speed);
            return;
        }
        if self.phases.len() == self.capacity {
            let oldest = (0..self.capacity).min_by_key(|&place| self.phases[place].2).unwrap();
            self.phases.swap_remove(oldest);
        }
        self.phases.push((at, vec![speed], time));
    }
}

proptest! {
    /// Samples on a grid, so that equal distances are common.
    #[test]
    fn the_table_answers_as_a_plain_list_does(
        capacity in 1usize..30,
        samples in proptest::collection::vec((0u8..24, 0u8..6, 1u8..9, any::<bool>()), 1..200),
    ) {
        let mut table = History::new(capacity, 2.0);
        let mut plain = PlainTable { phases: Vec::new(), capacity };
        for (time, &(l1, branches, speed, known)) in samples.iter().enumerate() {
            let at = at(f64::from(l1) * 0.5, f64::from(branches) * 0.5);
            let speed = f64::from(speed);
            let found = table.find(at);
            let mean = |speeds: &[f64]| speeds.iter().sum::<f64>() / speeds.len() as f64;
            let expected = plain.find(at, time).map(|place| mean(&plain.phases[place].1));
            match (found.map(|place| table.alone(place)), expected) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-9),
                (found, expected) => prop_assert_eq!(found, expected),
            }
            if known {
                table.record(found, at, speed);
                plain.record(at, speed, time);
            }
            let all: Vec<f64> = plain.phases.iter().flat_map(|phase| phase.1.clone()).collect();
            match table.mean_alone() {
                Some(found) => prop_assert!((found - mean(&all)).abs() < 1e-9),
                None => prop_assert!(all.is_empty()),
            }
        }
    }
}

#[test]
fn the_hit_rate_counts_test_samples_alone() {
    // Phases A A B A A B ..: every fifth sample trains.
    let samples: Vec<(f64, f64)> =
        (0..30).map(|i| if i % 3 == 2 { (400.0, 50.0) } else { (200.0, 150.0) }).collect();
    let train = |place: usize| place.is_multiple_of(5);
    // A is trained at 0, B first at 5: of the 24 test samples, B at 2 is missed alone.
    let rate = phase_hit_rate(&samples, 22, 2.0, train).unwrap();
    assert!((rate - 23.0 / 24.0).abs() < 1e-12, "{rate}");
    // One entry holds one of them at a time.
    assert!(phase_hit_rate(&samples, 1, 2.0, train).unwrap() < 0.7);
    assert_eq!(phase_hit_rate(&samples, 22, 2.0, |_| true), None);
}

#[test]
fn a_slowdown_is_against_the_speed_seen_without_contention() {
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    // Nobody swaps for progress here.
    let mut policy = camps(&machine, &threads, &[("amp-threshold-ms", 1e6)]);
    let phase = at(30.0, 10.0);
    let slowdown = |policy: &SharingPolicy<Camps>, thread: usize| {
        policy.sharing.monitors.values()[thread].slowdown
    };
    // Calm: 50 MB/s each on the big cores, whose limit is 1000. The interval in which they came does not
    // count, and two samples are thrown away.
    for interval in 1..=4 {
        count(&mut threads[0], 1e9, 50.0, phase);
        count(&mut threads[1], 2e9, 50.0, phase);
        count(&mut threads[2], 0.5e9, 50.0, phase);
        next(&mut policy, &machine, &mut threads, interval);
        let known = !policy.sharing.monitors.values()[0].history.is_empty();
        assert_eq!(known, interval == 4);
    }
    assert_eq!(slowdown(&policy, 0), 1.0);
    // On a small core and never seen on a big one: the capacities' ratio.
    assert_eq!(slowdown(&policy, 2), 2.5);
    // Contended: 900 and 200 MB/s, 1100 in all. A hit: 1e9 against 0.625e9 now.
    count(&mut threads[0], 0.625e9, 900.0, phase);
    count(&mut threads[1], 2e9, 200.0, at(60.0, 1.0));
    next(&mut policy, &machine, &mut threads, 5);
    assert!((slowdown(&policy, 0) - 1.6).abs() < 1e-12);
    // A miss: the mean of its table, 2e9, against 2e9.
    assert_eq!(slowdown(&policy, 1), 1.0);
    count(&mut threads[1], 1.25e9, 200.0, at(60.0, 1.0));
    next(&mut policy, &machine, &mut threads, 6);
    assert!((slowdown(&policy, 1) - 1.6).abs() < 1e-12);
    // Whoever draws less than 100 MB/s is calm by himself, whatever the cluster draws.
    count(&mut threads[1], 1e9, 99.0, at(60.0, 1.0));
    count(&mut threads[0], 0.5e9, 1500.0, phase);
    next(&mut policy, &machine, &mut threads, 7);
    assert_eq!(slowdown(&policy, 1), 1.0);
    assert!((slowdown(&policy, 0) - 2.0).abs() < 1e-12);
}

#[test]
fn threads_of_a_program_learn_from_each_other() {
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    for thread in &mut threads {
        thread.process = ProcessId(5);
    }
    let mut policy = camps(&machine, &threads, &[]);
    for interval in 1..=5 {
        for thread in &mut threads {
            let speed = if thread.id == ThreadId(2) { 0.5e9 } else { 1e9 };
            count(thread, speed, 10.0, at(30.0, 10.0));
        }
        next(&mut policy, &machine, &mut threads, interval);
    }
    let monitors = policy.sharing.monitors.values();
    // Thread 2 never was on a big core: its slowdown comes from the program's table.
    assert!((monitors[2].slowdown - 2.0).abs() < 1e-12 && !monitors[2].history.is_empty());
    // Progress counts a third of it: 1 + 1 / 3.
    let ratio = |thread: usize| policy.sharing.progress.progress_ms[thread];
    assert!(ratio(2) < ratio(0));
}

/// Algorithm 4.1 on five threads: T_B = 0 is furthest ahead.
fn swap_of(btr_mb_per_s: [f64; 5], progress_ms: [f64; 5]) -> (ThreadId, ThreadId) {
    let machine = two_and_four();
    swap_among(&running(&machine, 5), btr_mb_per_s, progress_ms)
}

fn swap_among(
    threads: &[ThreadView],
    btr_mb_per_s: [f64; 5],
    progress_ms: [f64; 5],
) -> (ThreadId, ThreadId) {
    let machine = two_and_four();
    let mut policy = camps(&machine, threads, &[]);
    for (monitor, btr) in policy.sharing.monitors.values_mut().iter_mut().zip(btr_mb_per_s) {
        monitor.btr = btr * 1e6;
    }
    policy.sharing.progress.progress_ms = progress_ms.to_vec();
    let view = view_at(&machine, threads, 0);
    let cores = Cores::of(&machine).unwrap();
    let mut sides = Sides::new(&view, &cores);
    policy.sharing.swap(&view, &mut sides);
    match sides.plan.steps[0].action {
        Action::Swap { first, second } => (first, second),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn algorithm_4_1_prefers_a_swap_that_calms_the_big_cores() {
    // High is 1000 MB/s, the threshold 100 ms. 1 draws 600 and stays: whoever comes may draw 400.
    let behind = [500.0, 480.0, 350.0, 360.0, 370.0];
    let swap = |btr| swap_of(btr, behind);
    // The one furthest behind (2) suits.
    assert_eq!(swap([300.0, 600.0, 100.0, 50.0, 50.0]), (ThreadId(0), ThreadId(2)));
    // 2 would make 1100: the next (3) suits.
    assert_eq!(swap([300.0, 600.0, 500.0, 50.0, 20.0]), (ThreadId(0), ThreadId(3)));
    // None suits: the one that draws least.
    assert_eq!(swap([300.0, 600.0, 800.0, 700.0, 500.0]), (ThreadId(0), ThreadId(4)));
    // 2 is 200 ms behind, twice the threshold: its turn, whatever it draws.
    let far = [500.0, 480.0, 300.0, 360.0, 370.0];
    assert_eq!(swap_of([300.0, 600.0, 800.0, 700.0, 500.0], far), (ThreadId(0), ThreadId(2)));
}

/// The same where the 600 are drawn by a thread that its user keeps on the big cores.
#[test]
fn algorithm_4_1_counts_what_bound_threads_draw() {
    let machine = two_and_four();
    let mut threads = running(&machine, 5);
    threads[1].may_run_on = "0-1".parse().unwrap();
    let behind = [500.0, 480.0, 350.0, 360.0, 370.0];
    let swap = swap_among(&threads, [300.0, 600.0, 500.0, 50.0, 20.0], behind);
    assert_eq!(swap, (ThreadId(0), ThreadId(3)));
}

#[test]
fn the_cores_that_draw_most_are_idled_until_the_rest_is_calm() {
    let machine = two_and_four();
    let mut threads = running(&machine, 4);
    for (thread, cpu) in threads.iter_mut().zip(0..) {
        thread.cpu = Some(CpuId(cpu));
    }
    let mut monitors = vec![Monitor::new(22, 2.0); 4];
    for (monitor, btr) in monitors.iter_mut().zip([400e6, 900e6, 300e6, 700e6]) {
        monitor.btr = btr;
    }
    let idle = |threads: &[ThreadView], watched: usize| {
        let members = (0..4).collect();
        let cluster = Cluster { threads, monitors: &monitors, members, high: 1000e6 };
        cluster.to_idle(watched).iter().map(|one| one.0.0).collect::<Vec<u32>>()
    };
    // 2300 MB/s in all; without CPU 1 1400, without CPU 3 700.
    assert_eq!(idle(&threads, 0), [1, 3]);
    assert_eq!(idle(&threads, 1), [3, 0, 2]);
    // A program marked important is never made to wait.
    threads[1].important = true;
    assert_eq!(idle(&threads, 0), [3, 2]);
}

/// Threads 0 and 1 draw 900 MB/s each, contention on the big cores, the others 300; whoever waits on an
/// idle core retires nothing and draws nothing.
fn count_all(threads: &mut [ThreadView], idle: &[CpuId]) {
    for thread in threads {
        let mb_per_s = if thread.id.0 < 2 { 900.0 } else { 300.0 };
        count(thread, 1e9, mb_per_s, at(30.0, 10.0));
        if thread.cpu.is_some_and(|cpu| idle.contains(&cpu)) {
            count(thread, 0.0, 0.0, at(0.0, 0.0));
            thread.rates.cpu_share = Some(0.0);
        }
    }
}

#[test]
fn a_thread_never_seen_without_contention_is_watched_until_its_phases_are_known() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    // Nobody swaps for progress here.
    let mut policy = camps(&machine, &threads, &[("amp-threshold-ms", 1e6)]);
    let (mut entered, mut left) = (None, None);
    let mut idle: Vec<CpuId> = Vec::new();
    for interval in 1..=60u64 {
        count_all(&mut threads, &idle);
        let plan = next(&mut policy, &machine, &mut threads, interval);
        idle.clear();
        for step in &plan.steps {
            if let Action::IdleCpu { cpu, duration } = step.action {
                assert_eq!(duration, Nanoseconds(100_000_000));
                idle.push(cpu);
            }
        }
        if policy.sharing.watch.is_some() && entered.is_none() {
            entered = Some(interval);
        }
        if entered.is_some() && policy.sharing.watch.is_none() && left.is_none() {
            left = Some(interval);
            let held: Vec<String> = threads.iter().map(|one| one.allowed.to_string()).collect();
            assert!(held.iter().all(|cpus| cpus == "0-1" || cpus == "2-5"), "{held:?}");
        }
    }
    // The first whole window after the warm-up ends with its 40th interval, its 41st round. Then six
    // samples: one comes into the table and five are hits.
    assert_eq!((entered, left), (Some(41), Some(47)));
}

#[test]
fn a_latency_sensitive_thread_is_on_small_cores_while_big_ones_may_be_idled() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    threads[1].important = true;
    let mut policy = camps(&machine, &threads, &[("amp-threshold-ms", 1e6)]);
    let (mut watched, mut idled, mut back) = (0, 0, false);
    let mut idle: Vec<CpuId> = Vec::new();
    for interval in 1..=60u64 {
        count_all(&mut threads, &idle);
        // It sleeps and wakes while others are watched.
        let asleep = interval > 40 && interval % 3 == 0;
        threads[1].state = if asleep { ThreadState::Sleeping } else { ThreadState::Running };
        let plan = next(&mut policy, &machine, &mut threads, interval);
        // Who takes its big core is on the one that thread 0 is not on.
        for thread in threads.iter_mut().skip(1) {
            if thread.cpu == Some(CpuId(0)) {
                thread.cpu = Some(CpuId(1));
            }
        }
        let held = |step: &crate::Step| match step.action {
            Action::IdleCpu { cpu, .. } => Some(cpu),
            _ => None,
        };
        idle = plan.steps.iter().filter_map(held).collect();
        idled += idle.len();
        if policy.sharing.watch.is_some() {
            watched += 1;
            assert_eq!(threads[1].allowed.to_string(), "2-5", "interval {interval}: {plan:?}");
        } else if watched > 0 {
            // The big cores are everybody's on that side again.
            back |= threads.iter().all(|one| ["0-1", "2-5"].contains(&&*one.allowed.to_string()));
        }
    }
    assert!(watched > 3 && idled > 0 && back, "{watched} {idled} {back}");
}

/// Tells of a thread that it spins, and for how much of its CPU time it did.
fn spins(thread: &mut ThreadView, now: bool, share: f64) {
    thread.spins = Some(now);
    thread.rates.spin_share = Some(share);
}

#[test]
fn what_a_waiting_loop_retires_is_no_sample_and_costs_nobody() {
    let machine = two_and_four();
    for heeded in [1.0, 0.0] {
        let mut threads = running(&machine, 3);
        let parameters = [("amp-threshold-ms", 1e6), ("spin-notification", heeded)];
        let mut policy = camps(&machine, &threads, &parameters);
        let (work, spin_loop) = (at(30.0, 10.0), at(33.0, 33.0));
        for interval in 1..=6 {
            for thread in &mut threads {
                let speed = if thread.id.0 < 2 { 1e9 } else { 0.4e9 };
                count(thread, speed, 10.0, work);
                spins(thread, false, 0.0);
            }
            if interval > 4 {
                // Waits on its big core for the thread on a small one.
                count(&mut threads[0], 3e9, 0.0, spin_loop);
                spins(&mut threads[0], true, 1.0);
            }
            next(&mut policy, &machine, &mut threads, interval);
        }
        let history = &mut policy.sharing.monitors.values_mut()[0].history;
        assert_eq!(alone(history, work), Some(1e9));
        let polluted = (heeded == 0.0).then_some(3e9);
        assert_eq!(alone(history, spin_loop), polluted);
        // 300 ms, all of it progress.
        assert!((policy.sharing.progress.progress_ms[0] - 300.0).abs() < 1e-9);
    }
}

#[test]
fn half_an_interval_spun_counts_in_full_and_the_rest_by_its_slowdown() {
    let mut monitor = Monitor::new(22, 2.0);
    assert_eq!(monitor.with_spinning(3.0), 3.0);
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    spins(&mut threads[2], false, 0.5);
    let cores = Cores::of(&machine).unwrap();
    monitor.measure(&threads[2], &cores, 64.0, |_| true, None, true);
    // 1/2 + 1/2 x 1/3 = 2/3 of its time.
    assert!((monitor.with_spinning(3.0) - 1.5).abs() < 1e-12);
}

#[test]
fn a_spinning_thread_does_not_come_to_a_big_core() {
    let machine = two_and_four();
    let mut threads = running(&machine, 4);
    spins(&mut threads[2], true, 1.0);
    let swapped = |threads: &[ThreadView], heeded: f64| {
        let mut policy = camps(&machine, threads, &[("spin-notification", heeded)]);
        policy.sharing.progress.progress_ms = vec![500.0, 490.0, 100.0, 300.0];
        let view = view_at(&machine, threads, 0);
        let cores = Cores::of(&machine).unwrap();
        let mut sides = Sides::new(&view, &cores);
        policy.sharing.share(&view, &mut sides, true);
        sides
            .plan
            .steps
            .iter()
            .filter_map(|step| match step.action {
                Action::Swap { first, second } => Some((first.0, second.0)),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    // 2 is furthest behind, but it spins: 3 takes the big core of 0, and nobody that of 1.
    assert_eq!(swapped(&threads, 1.0), [(0, 3)]);
    assert_eq!(swapped(&threads, 0.0), [(0, 2), (1, 3)]);
    // Once it works again it is its turn.
    spins(&mut threads[2], false, 0.4);
    assert_eq!(swapped(&threads, 1.0), [(0, 2), (1, 3)]);
}

#[test]
fn a_thread_that_sleeps_is_not_watched() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    let mut policy = camps(&machine, &threads, &[]);
    let monitor = policy.sharing.monitors.values()[3].clone();
    policy.sharing.watch = Some(Watch::new(ThreadId(3), &monitor));
    threads[3].state = ThreadState::Sleeping;
    let view = view_at(&machine, &threads, 50);
    policy.sharing.watch_or_not(&view, &Cores::of(&machine).unwrap());
    assert!(policy.sharing.watch.is_none());
}

#[test]
fn without_idling_it_needs_no_idle_cores() {
    let without = [("idle-big-cores".to_owned(), 0.0)];
    let parameters = without.into_iter().collect();
    let policy = build("camps", &BuildOptions { seed: 0, parameters }).unwrap();
    assert_eq!(policy.needs().controls, [ActionKind::Place]);
}

#[test]
fn it_can_do_without_idle_cores_and_not_without_placing() {
    let options = BuildOptions::default();
    let mut policy = SharingPolicy::new(&options, Camps::new(&options));
    assert!(policy.needs().controls.contains(&ActionKind::IdleCpu));
    assert!(!policy.do_without(ActionKind::Place));
    assert!(policy.do_without(ActionKind::IdleCpu));
    assert_eq!(policy.needs().controls, [ActionKind::Place]);
}
