use corun_machine::{CpuSet, Machine};

use super::*;
use crate::{Scope, ScopedRate, ThreadId, build, fixture};

/// Threads that ran on these CPUs (by place) and are held there, with these miss rates.
fn running(machine: &Machine, on: &[usize], mpki: &[f64]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; on.len()]);
    for ((thread, &place), &mpki) in threads.iter_mut().zip(on).zip(mpki) {
        let cpu = machine.cpus()[place].id;
        thread.cpu = Some(cpu);
        thread.allowed = CpuSet::from_iter([cpu]);
        thread.rates.instructions_per_s = Some(1e9);
        thread.rates.llc_misses = Some(ScopedRate { per_s: mpki * 1e6, scope: Scope::Demand });
        let node = machine.cpus()[place].node;
        thread.pages_by_node =
            (0..machine.nodes().len()).map(|one| f64::from(u8::from(one == node))).collect();
    }
    threads
}

fn policy(parameters: &[(&str, f64)]) -> Box<dyn Policy> {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    build("dino", &BuildOptions { seed: 1, parameters }).unwrap()
}

/// Two nodes of one LLC with two cores. Both devils are on node 0, both turtles on node 1: one of each changes
/// places, and the memory of both goes along.
#[test]
fn devils_part_and_memory_goes_along() {
    let machine = fixture::numa(2, 1, 2);
    let threads = running(&machine, &[0, 1, 2, 3], &[30.0, 20.0, 0.1, 0.5]);
    let plan = policy(&[]).decide(&fixture::view(&machine, &threads));
    let kinds: Vec<ActionKind> = plan.steps.iter().map(|step| step.action.kind()).collect();
    assert_eq!(kinds, [ActionKind::Place, ActionKind::MovePages, ActionKind::MovePages]);
    let Action::Swap { first, second } = plan.steps[0].action else { panic!("{plan:?}") };
    assert!(first.0 < 2 && second.0 >= 2, "{plan:?}");
    let moves: Vec<&Action> = plan.steps[1..].iter().map(|step| &step.action).collect();
    assert_eq!(moves[0], &Action::MovePages { thread: first, node: 1 });
    assert_eq!(moves[1], &Action::MovePages { thread: second, node: 0 });
    assert!(plan.steps[1].reason.contains("its memory goes along to node 1"));
}

/// DIO would exchange the threads of 30 and 20 MPKI for ever; both are devils.
#[test]
fn threads_of_one_class_stay() {
    let machine = fixture::numa(2, 1, 2);
    let mut policy = policy(&[]);
    for mpki in [[30.0, 0.1, 20.0, 0.5], [20.0, 0.5, 30.0, 0.1], [60.0, 1.9, 3.0, 0.0]] {
        let threads = running(&machine, &[0, 1, 2, 3], &mpki);
        assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    }
}

/// A turtle that has its first interval as a devil: five readings of ten make it one.
#[test]
fn a_class_changes_after_half_of_the_readings() {
    let machine = fixture::numa(2, 1, 2);
    let mut policy = policy(&[]);
    let at = |first: f64| running(&machine, &[0, 1, 2, 3], &[first, 20.0, 0.1, 0.5]);
    for _ in 0..10 {
        let threads = at(0.2);
        assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    }
    for reading in 1..=5 {
        let threads = at(30.0);
        let plan = policy.decide(&fixture::view(&machine, &threads));
        assert_eq!(plan == Plan::none(), reading < 5, "{reading}");
    }
}

/// Memory follows a program so often and no more; with 0, or where pages cannot be moved, never.
#[test]
fn memory_moves_a_few_times_at_most() {
    let machine = fixture::numa(2, 1, 2);
    let packed = || running(&machine, &[0, 1, 2, 3], &[30.0, 20.0, 0.1, 0.5]);
    let page_moves = |policy: &mut dyn Policy| {
        let threads = packed();
        let plan = policy.decide(&fixture::view(&machine, &threads));
        plan.steps.iter().filter(|step| step.action.kind() == ActionKind::MovePages).count()
    };
    let mut twice = policy(&[("most-page-moves", 2.0)]);
    assert_eq!([0; 3].map(|_| page_moves(twice.as_mut())), [2, 2, 0]);
    let mut never = policy(&[("most-page-moves", 0.0)]);
    assert_eq!(never.needs().controls, [ActionKind::Place]);
    assert_eq!(page_moves(never.as_mut()), 0);
    let mut without = policy(&[]);
    assert!(without.do_without(ActionKind::MovePages) && !without.do_without(ActionKind::Place));
    assert_eq!(without.needs().controls, [ActionKind::Place]);
    assert_eq!(page_moves(without.as_mut()), 0);
}

/// Two threads of a process on both nodes: whose memory would go where?
#[test]
fn memory_stays_where_threads_of_a_process_part() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = running(&machine, &[0, 1, 2, 3], &[30.0, 20.0, 0.1, 0.5]);
    threads[1].process = threads[0].process;
    let plan = policy(&[]).decide(&fixture::view(&machine, &threads));
    let moved = plan.steps.iter().filter_map(|step| match step.action {
        Action::MovePages { thread, .. } => Some(thread),
        _ => None,
    });
    assert!(moved.clone().all(|one| one >= ThreadId(2)), "{plan:?}");
    assert_eq!(moved.count(), 1);
}
