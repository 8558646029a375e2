use corun_machine::{CpuId, Machine};

use super::*;
use crate::{Action, Policy, SoloFigures, ThreadView, fixture};

/// Threads with these penalties, home on these nodes.
fn threads(machine: &Machine, figures: &[(f64, usize)]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![Some(5.0); figures.len()]);
    for (thread, &(penalty, home)) in threads.iter_mut().zip(figures) {
        thread.solo = thread.solo.map(|solo| SoloFigures { numa_penalty: Some(penalty), ..solo });
        thread.pages_by_node = vec![0.0; machine.nodes().len()];
        thread.pages_by_node[home] = 1.0;
    }
    threads
}

fn policy() -> NodePolicy {
    let epochs = Epochs::new(&BuildOptions::default(), Refinement::None);
    NodePolicy { name: ENTRY.name, epochs }
}

#[test]
fn all_go_home_and_the_lowest_penalty_makes_room() {
    let machine = fixture::numa(2, 1, 2);
    let threads = threads(&machine, &[(1.1, 0), (1.3, 0), (1.2, 0), (1.0, 1)]);
    let view = fixture::view(&machine, &threads);
    let plan = policy().decide(&view);
    let held: Vec<String> = plan
        .steps
        .iter()
        .map(|step| match &step.action {
            Action::Allow { cpus, .. } => cpus.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(held, ["2-3", "0-1", "0-1", "2-3"]);
    let reasons: Vec<&str> = plan.steps.iter().map(|step| step.reason.as_str()).collect();
    assert_eq!(
        reasons[0],
        "program0: 5.0 MPKI, penalty 1.10 (profile), home node 0 has no core for it, to node 1, LLC 1"
    );
    assert_eq!(reasons[1], "program1: 5.0 MPKI, penalty 1.30 (profile), at home on node 0, LLC 0");
}

/// However much the caches differ: nobody leaves home for that.
#[test]
fn caches_do_not_matter() {
    let machine = fixture::numa(2, 1, 4);
    let mut threads = threads(&machine, &[(1.1, 0), (1.3, 0), (1.2, 0), (1.0, 0)]);
    for thread in &mut threads {
        thread.cpu = Some(CpuId(7));
    }
    let plan = policy().decide(&fixture::view(&machine, &threads));
    assert!(plan.steps.iter().all(|step| step.reason.contains("at home on node 0")), "{plan:?}");
    assert_eq!(plan.steps.len(), 4);
}

#[test]
fn a_machine_of_one_node_is_refused_with_the_reason() {
    let why = policy().unfit_for(&fixture::x5365()).unwrap();
    assert!(why.contains("here 1 has CPUs (expected at least 2)"), "{why}");
    assert_eq!(policy().unfit_for(&fixture::numa(2, 1, 2)), None);
}
