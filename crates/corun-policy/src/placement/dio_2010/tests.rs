use std::collections::BTreeMap;

use corun_machine::{CpuId, CpuSet, Machine};

use super::*;
use crate::{Action, BuildError, Scope, ScopedRate, ThreadId, ThreadView, build, fixture};

fn dio(parameters: &[(&str, f64)]) -> Dio2010 {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    Dio2010::new(&BuildOptions { seed: 0, parameters })
}

fn count(thread: &mut ThreadView, mpki: f64) {
    thread.rates.instructions_per_s = Some(1e9);
    let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
    thread.rates.llc_misses = Some(rate);
}

/// Threads with these measured miss rates, held on CPUs 0, 1, ..
fn held(machine: &Machine, mpki: &[f64]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; mpki.len()]);
    for (thread, &mpki) in threads.iter_mut().zip(mpki) {
        count(thread, mpki);
        thread.cpu = Some(CpuId(thread.id.0 as u32));
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    threads
}

#[test]
fn before_the_first_counts_nobody_moves() {
    let machine = fixture::x5365();
    let threads = fixture::threads(&machine, &[Some(9.0), Some(1.0)]);
    assert_eq!(dio(&[]).decide(&fixture::view(&machine, &threads)), Plan::none());
}

/// Two heavy threads on one LLC, two light ones on the other: one swap mends it.
#[test]
fn two_heavy_threads_on_an_llc_are_parted_by_one_swap() {
    let machine = fixture::tree(1, 2, 2);
    let threads = held(&machine, &[33.4, 20.0, 0.2, 0.1]);
    let plan = dio(&[]).decide(&fixture::view(&machine, &threads));
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    let Action::Swap { first, second } = plan.steps[0].action else { panic!("{plan:?}") };
    // Heaviest with lightest: 0-3 and 1-2.
    assert!([(0, 2), (1, 3)].contains(&(first.0, second.0)), "{plan:?}");
    assert!(plan.steps[0].reason.contains("from LLC 0 (with program"), "{plan:?}");
}

#[test]
fn a_minimum_gain_keeps_threads_of_nearly_equal_rates_where_they_are() {
    let machine = fixture::tree(1, 2, 2);
    // The sort wants 0 beside 3 and 2 beside 1: the most loaded LLC falls from 6.15 to 6.1.
    let threads = held(&machine, &[5.1, 1.05, 5.0, 1.0]);
    let view = fixture::view(&machine, &threads);
    assert_ne!(dio(&[]).decide(&view), Plan::none());
    assert_eq!(dio(&[("min-gain-mpki", 0.5)]).decide(&view), Plan::none());
    let heavy = held(&machine, &[5.1, 5.0, 1.05, 1.0]);
    let view = fixture::view(&machine, &heavy);
    assert_ne!(dio(&[("min-gain-mpki", 0.5)]).decide(&view), Plan::none());
}

#[test]
fn arrivals_are_spread_and_nobody_else_moves() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[5.0, 5.0]);
    threads.extend(fixture::threads(&machine, &[None; 3]).pop());
    let view = fixture::view(&machine, &threads);
    let plan = dio(&[]).on_event(&Event::Arrived(ThreadId(2)), &view).unwrap();
    let [step] = &plan.steps[..] else { panic!("{plan:?}") };
    assert_eq!(step.action, Action::Allow { thread: ThreadId(2), cpus: "4".parse().unwrap() });
    assert_eq!(dio(&[]).on_event(&Event::Exited(ThreadId(7)), &view), None);
}

#[test]
fn parameters_are_checked_and_taken() {
    let options = |name: &str, value| BuildOptions {
        seed: 0,
        parameters: BTreeMap::from([(name.to_owned(), value)]),
    };
    let policy = build("dio-2010", &options("interval-cycles", 5e8)).unwrap();
    assert_eq!(policy.needs().interval, Interval::Cycles(500_000_000));
    for bad in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
        let error = build("dio-2010", &options("half-life-intervals", bad)).err().unwrap();
        assert!(matches!(error, BuildError::Value { .. }), "{error}");
    }
}

/// Where each thread is after a decision.
fn decided(machine: &Machine, threads: &[ThreadView], parameters: &[(&str, f64)]) -> Vec<usize> {
    let plan = dio(parameters).decide(&fixture::view(machine, threads));
    let mut at: Vec<CpuId> = threads.iter().map(|thread| thread.cpu.unwrap()).collect();
    for step in plan.steps {
        match step.action {
            Action::Allow { thread, cpus } => at[thread.0 as usize] = cpus.first().unwrap(),
            Action::Swap { first, second } => at.swap(first.0 as usize, second.0 as usize),
            other => panic!("{other:?}"),
        }
    }
    at.iter().map(|&cpu| machine.cpu_index(cpu).unwrap()).collect()
}

/// Section 5.3: three web threads and five of the database on the Intel machine; the first web
/// thread is important.
#[test]
fn an_important_intensive_thread_has_no_intensive_one_beside_it() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[74.0, 73.0, 72.0, 0.2, 0.2, 0.2, 0.2, 0.2]);
    let llc = |cpu: usize| machine.cpus()[cpu].llc;
    let package = |cpu: usize| machine.cpus()[cpu].package;
    threads[0].important = true;
    let at = decided(&machine, &threads, &[]);
    assert!((1..3).all(|web| llc(at[web]) != llc(at[0])), "{at:?}");
    let at = decided(&machine, &threads, &[("isolate-in", 2.0)]);
    assert!((1..3).all(|web| package(at[web]) != package(at[0])), "{at:?}");
    // Seven intensive threads do not fit on the other package: nobody is isolated.
    let mut many = held(&machine, &[74.0, 73.0, 72.0, 71.0, 70.0, 69.0, 68.0, 0.2]);
    let plain = decided(&machine, &many, &[]);
    many[0].important = true;
    assert_eq!(decided(&machine, &many, &[("isolate-in", 2.0)]), plain);
}

#[test]
fn who_would_not_suffer_is_not_isolated() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[74.0, 73.0, 72.0, 0.2, 0.2, 0.2, 0.2, 0.2]);
    let plain = decided(&machine, &threads, &[]);
    // Important, but not intensive.
    threads[5].important = true;
    assert_eq!(decided(&machine, &threads, &[]), plain);
    // Intensive, but nobody else is.
    let mut alone = held(&machine, &[74.0, 1.0, 0.5]);
    let plain = decided(&machine, &alone, &[]);
    alone[0].important = true;
    assert_eq!(decided(&machine, &alone, &[]), plain);
}

/// In a container of two LLCs three other intensive threads find two CPUs outside the important one's LLC: nobody is
/// isolated, and no CPU stays free.
#[test]
fn there_is_no_room_outside_on_cpus_that_nobody_may_use() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[74.0, 73.0, 72.0, 71.0]);
    threads[0].important = true;
    for thread in &mut threads {
        thread.may_run_on = "0-3".parse().unwrap();
    }
    let mut at = decided(&machine, &threads, &[]);
    at.sort_unstable();
    assert_eq!(at, [0, 1, 2, 3]);
}

#[test]
fn isolation_moves_nobody_twice() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[74.0, 73.0, 72.0, 0.2, 0.2, 0.2, 0.2, 0.2]);
    threads[0].important = true;
    let at = decided(&machine, &threads, &[]);
    for (thread, &cpu) in threads.iter_mut().zip(&at) {
        thread.cpu = Some(machine.cpus()[cpu].id);
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    assert_eq!(decided(&machine, &threads, &[]), at);
}
