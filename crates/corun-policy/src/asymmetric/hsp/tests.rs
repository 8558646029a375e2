use std::collections::BTreeMap;

use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{Action, BuildOptions, ProcessId, ThreadId, build};

fn ideal() -> Box<dyn crate::Policy> {
    let parameters = BTreeMap::from([("ideal-speedup".to_owned(), 1.0)]);
    build("hsp", &BuildOptions { seed: 0, parameters }).unwrap()
}

#[test]
fn the_highest_speedups_get_the_big_cores_and_stay() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    for (thread, factor) in threads.iter_mut().zip([1.5, 3.0, 2.0, 3.5, 2.9, 1.2]) {
        thread.solo = crate::fixture::threads(&machine, &[Some(1.0)])[0].solo;
        thread.solo.as_mut().unwrap().speedup_factor = Some(factor);
    }
    let mut policy = ideal();
    let plan = policy.decide(&view_at(&machine, &threads, 50));
    let steps: Vec<_> = plan.steps.iter().map(|step| step.action.clone()).collect();
    // 3 (3.5) takes 0's (1.5); 4 (2.9) is not above 1 (3.0).
    assert_eq!(steps, [Action::Swap { first: ThreadId(0), second: ThreadId(3) }]);
    carry_out(&mut threads, &plan);
    assert!(policy.decide(&view_at(&machine, &threads, 100)).steps.is_empty());
    // As one of three threads of its program it gains 1 + 2.5 / 3 = 1.83, less than 4 (2.9) and 2 (2.0).
    for place in [0, 3, 5] {
        threads[place].process = ProcessId(9);
    }
    let plan = policy.decide(&view_at(&machine, &threads, 150));
    let steps: Vec<_> = plan.steps.iter().map(|step| step.action.clone()).collect();
    assert_eq!(steps, [Action::Swap { first: ThreadId(3), second: ThreadId(4) }]);
}
