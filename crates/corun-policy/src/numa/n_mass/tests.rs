use std::collections::BTreeMap;

use corun_machine::{CpuSet, Machine, MachineSpec};

use super::*;
use crate::{
    Action, ActionKind, CounterKind, Event, Interval, Nanoseconds, Plan, Policy, Scope, ScopedRate,
    SoloFigures, ThreadId, ThreadState, ThreadView, fixture,
};

fn n_mass(parameters: &[(&str, f64)]) -> NodePolicy {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let options = BuildOptions { seed: 0, parameters };
    let threshold_mpki = Some(options.value(&THRESHOLD)).filter(|&mpki| mpki > 0.0);
    let epochs = Epochs::new(&options, Refinement::Balanced { threshold_mpki });
    NodePolicy { name: ENTRY.name, epochs }
}

fn count(thread: &mut ThreadView, mpki: f64) {
    thread.rates.instructions_per_s = Some(1e9);
    let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
    thread.rates.llc_misses = Some(rate);
}

/// Threads with these measured miss rates and penalties, all at home on node 0.
fn threads(machine: &Machine, figures: &[(f64, f64)]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![Some(1.0); figures.len()]);
    for (thread, &(mpki, penalty)) in threads.iter_mut().zip(figures) {
        count(thread, mpki);
        thread.solo = thread.solo.map(|solo| SoloFigures { numa_penalty: Some(penalty), ..solo });
        thread.pages_by_node = vec![0.0; machine.nodes().len()];
        thread.pages_by_node[0] = 1.0;
    }
    threads
}

/// Does what a plan says, and gives who is held where.
fn carry_out(threads: &mut [ThreadView], plan: &Plan) -> Vec<String> {
    for step in &plan.steps {
        if let Action::Allow { thread, cpus } = &step.action {
            let thread = &mut threads[thread.0 as usize];
            (thread.cpu, thread.allowed) = (cpus.first(), cpus.clone());
        }
    }
    threads.iter().map(|thread| thread.allowed.to_string()).collect()
}

#[test]
fn a_pressed_cache_loses_the_lowest_penalty() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = threads(&machine, &[(40.0, 1.4), (30.0, 1.3)]);
    let mut policy = n_mass(&[]);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(
        plan.steps[1].reason,
        "program1: 30.0 MPKI, penalty 1.30 (profile), moved off node 0 to node 1, away from its \
         memory: pressures 70.0 and 0.0 MPKI become 40.0 and 39.0"
    );
    assert_eq!(carry_out(&mut threads, &plan), ["0-1", "2-3"]);
    // Carried out it is final, and a link that bears less keeps it at home.
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    let mut kept = n_mass(&[("threshold-mpki", 39.0)]);
    let plan = kept.decide(&fixture::view(&machine, &threads));
    assert_eq!(carry_out(&mut threads, &plan), ["0-1", "0-1"]);
}

#[test]
fn all_are_mapped_anew_when_a_miss_rate_changes_by_a_fifth() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = threads(&machine, &[(40.0, 1.4), (30.0, 1.3)]);
    let mut policy = n_mass(&[]);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    carry_out(&mut threads, &plan);
    // 19 % less than it was mapped by: nothing. Then 21 %: still apart, 31.6 against 39. Then so
    // little that both fit under one cache: 2 and 30 are nearer than 2 and 39.
    for mpki in [32.4, 31.6, 31.6] {
        count(&mut threads[0], mpki);
        assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    }
    count(&mut threads[0], 2.0);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(carry_out(&mut threads, &plan), ["2-3", "0-1"]);
    // Small rates change by much and by nothing.
    count(&mut threads[0], 1.2);
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
}

#[test]
fn penalties_come_from_miss_rates_where_they_are_not_known() {
    let machine = fixture::numa(2, 1, 2);
    let fit = "[calibration.numa_penalty]\nintercept = 1.0\nper_mpki = 0.01\n";
    let text = machine.to_toml().replace("[[core_type]]", &format!("{fit}[[core_type]]"));
    let machine = Machine::from_spec(toml::from_str::<MachineSpec>(&text).unwrap()).unwrap();
    let mut threads = threads(&machine, &[(40.0, 1.1), (30.0, 1.3)]);
    let view = |threads: &[ThreadView]| n_mass(&[]).decide(&fixture::view(&machine, threads));
    // By profile the first has the lower penalty, by its miss rate the higher one.
    assert!(view(&threads).steps[0].reason.contains("penalty 1.10 (profile), moved off"));
    let plan = n_mass(&[("regression", 1.0)]).decide(&fixture::view(&machine, &threads));
    assert!(plan.steps[0].reason.contains("penalty 1.40 (from its MPKI), at home"), "{plan:?}");
    threads[0].solo = None;
    assert!(view(&threads).steps[0].reason.contains("penalty 1.40 (from its MPKI)"));
}

#[test]
fn a_newcomer_goes_home_and_moves_nobody() {
    let machine = fixture::numa(2, 1, 2);
    let mut all = threads(&machine, &[(40.0, 1.4), (30.0, 1.3), (20.0, 1.2)]);
    let mut policy = n_mass(&[]);
    let plan = policy.decide(&fixture::view(&machine, &all[..1]));
    carry_out(&mut all, &plan);
    let arrived = |id| Event::Arrived(ThreadId(id));
    // Two come together: one core is free on node 0, for the higher penalty.
    let plan = policy.on_event(&arrived(1), &fixture::view(&machine, &all)).unwrap();
    assert_eq!(carry_out(&mut all, &plan), ["0-1", "0-1", "2-3"]);
    let plan = policy.on_event(&arrived(2), &fixture::view(&machine, &all));
    assert_eq!(plan, Some(Plan::none()));
    assert_eq!(policy.on_event(&Event::Exited(ThreadId(2)), &fixture::view(&machine, &all)), None);
    // The epoch balances: 70 against 24 becomes 40 against 63, and then 60 against 39, since the
    // third goes home.
    let plan = policy.decide(&fixture::view(&machine, &all));
    assert_eq!(carry_out(&mut all, &plan), ["0-1", "2-3", "0-1"]);
}

/// Three at home on node 0, which has two cores: the lowest penalty is away until one of the others ends.
/// Nobody's miss rate changes at that end.
#[test]
fn the_core_of_a_thread_that_ended_goes_to_one_that_is_away_from_its_memory() {
    let machine = fixture::numa(2, 1, 2);
    let mut all = threads(&machine, &[(5.0, 1.1), (5.0, 1.3), (5.0, 1.2)]);
    let mut policy = NodePolicy {
        name: ENTRY.name,
        epochs: Epochs::new(&BuildOptions::default(), Refinement::None),
    };
    let plan = policy.decide(&fixture::view(&machine, &all));
    assert_eq!(carry_out(&mut all, &plan), ["2-3", "0-1", "0-1"]);
    let plan = policy.decide(&fixture::view(&machine, &all[..2]));
    assert_eq!(carry_out(&mut all, &plan)[..2], ["0-1", "0-1"]);
    // A sleeper has no core to leave.
    all[1].state = ThreadState::Sleeping;
    policy.decide(&fixture::view(&machine, &all[..2]));
    assert_eq!(policy.decide(&fixture::view(&machine, &all[..1])), Plan::none());
}

#[test]
fn who_sleeps_takes_no_core() {
    let machine = fixture::numa(2, 1, 1);
    let mut threads = threads(&machine, &[(9.0, 1.4), (1.0, 1.1)]);
    threads[0].state = ThreadState::Sleeping;
    let plan = n_mass(&[]).decide(&fixture::view(&machine, &threads));
    assert_eq!(carry_out(&mut threads, &plan), ["0-1", "0"]);
    // One that slept at the moment and ran for most of the epoch counts.
    threads[0].rates.cpu_share = Some(0.8);
    let plan = n_mass(&[]).decide(&fixture::view(&machine, &threads));
    assert_eq!(carry_out(&mut threads, &plan), ["0", "1"]);
}

#[test]
fn the_home_is_the_node_of_most_pages_else_where_it_first_ran() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = threads(&machine, &[(5.0, 1.4), (5.0, 1.3)]);
    threads[0].pages_by_node = vec![0.4, 0.6];
    threads[1].pages_by_node = Vec::new();
    threads[1].cpu = machine.cpus().last().map(|cpu| cpu.id);
    let mut policy = n_mass(&[("threshold-mpki", 0.1)]);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(carry_out(&mut threads, &plan), ["2-3", "2-3"]);
    // It keeps its home wherever it is found later.
    threads[1].cpu = Some(machine.cpus()[0].id);
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
}

#[test]
fn threads_stay_within_their_cpus() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = threads(&machine, &[(40.0, 1.4), (30.0, 1.1), (20.0, 1.2)]);
    threads[0].may_run_on = "2".parse().unwrap();
    threads[1].may_run_on = "0-1".parse().unwrap();
    threads[2].may_run_on = "1-3".parse().unwrap();
    let plan = n_mass(&[]).decide(&fixture::view(&machine, &threads));
    for step in &plan.steps {
        let Action::Allow { thread, cpus } = &step.action else { panic!("{step:?}") };
        assert!(cpus.is_subset(&threads[thread.0 as usize].may_run_on), "{step:?}");
    }
    // 56 of the first, remote, against 50: the third is as near as it can be.
    assert_eq!(carry_out(&mut threads, &plan), ["2", "0-1", "1"]);
}

#[test]
fn memory_follows_after_as_many_epochs_as_asked() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = threads(&machine, &[(40.0, 1.4), (30.0, 1.3)]);
    let mut policy = n_mass(&[("move-pages-after-epochs", 3.0)]);
    assert_eq!(policy.needs().controls, [ActionKind::Place, ActionKind::MovePages]);
    let mut moves = Vec::new();
    for epoch in 1..=4 {
        let plan = policy.decide(&fixture::view(&machine, &threads));
        let pages = plan.steps.iter().filter(|step| step.action.kind() == ActionKind::MovePages);
        moves.extend(pages.map(|step| (epoch, step.action.clone(), step.reason.clone())));
        carry_out(&mut threads, &plan);
    }
    let reason = "program1: away from its memory for 3 epochs, which follows to node 1".to_owned();
    assert_eq!(moves, [(3, Action::MovePages { thread: ThreadId(1), node: 1 }, reason)]);
    // At home there, it stays.
    threads[1].pages_by_node = vec![0.0, 1.0];
    assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
}

#[test]
fn what_it_needs_follows_from_where_figures_come_from() {
    let needs = n_mass(&[("epoch-seconds", 0.5)]).needs();
    assert_eq!(needs.interval, Interval::Time(Nanoseconds(500_000_000)));
    assert_eq!(needs.counters, [CounterKind::Instructions, CounterKind::LlcMisses]);
    assert_eq!((needs.controls, needs.solo_figures), (vec![ActionKind::Place], false));
    let needs = n_mass(&[("profile-mpki", 1.0)]).needs();
    assert_eq!((needs.counters, needs.solo_figures), (vec![], true));
    // The profile's 1.0 MPKI counts, not what is measured.
    let machine = fixture::numa(2, 1, 2);
    let threads = threads(&machine, &[(40.0, 1.4), (30.0, 1.3)]);
    let plan = n_mass(&[("profile-mpki", 1.0)]).decide(&fixture::view(&machine, &threads));
    assert!(plan.steps[0].reason.starts_with("program0: 1.0 MPKI"), "{plan:?}");
}

#[test]
fn more_threads_than_cores_are_spread_evenly() {
    let machine = fixture::numa(2, 1, 2);
    let figures: Vec<(f64, f64)> = (0..6).map(|i| (5.0, 1.0 + 0.1 * f64::from(i))).collect();
    let mut threads = threads(&machine, &figures);
    let plan = n_mass(&[]).decide(&fixture::view(&machine, &threads));
    let mut by_cpus: BTreeMap<String, usize> = BTreeMap::new();
    for held in carry_out(&mut threads, &plan) {
        *by_cpus.entry(held).or_default() += 1;
    }
    // Two on each core of the home node, one on each of the other.
    assert_eq!(by_cpus, BTreeMap::from([("0-1".to_owned(), 4), ("2-3".to_owned(), 2)]));
    assert_eq!(threads[5].allowed, "0-1".parse::<CpuSet>().unwrap());
}
