use std::collections::BTreeMap;

use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{Action, BuildOptions, ThreadId, build};

#[test]
fn the_furthest_behind_takes_over_when_the_threshold_is_passed() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    for (thread, factor) in threads.iter_mut().zip([2.0, 2.0, 2.0, 4.0, 2.0, 2.0]) {
        thread.solo = crate::fixture::threads(&machine, &[Some(1.0)])[0].solo;
        thread.solo.as_mut().unwrap().speedup_factor = Some(factor);
    }
    let parameters = BTreeMap::from([("ideal-speedup".to_owned(), 1.0)]);
    let mut policy = build("acfs", &BuildOptions { seed: 0, parameters }).unwrap();
    let arrived = crate::Event::Arrived(ThreadId(0));
    let plan = policy.on_event(&arrived, &view_at(&machine, &threads, 0));
    assert_eq!(plan.map(|plan| plan.steps.len()), Some(0));
    // On big cores 50 ms an interval, on small ones 25, thread 3 12.5: its distance to the others
    // passes 100 ms in the third interval (112.5); to 0 first, the first of equals.
    for interval in 1..=3u64 {
        for thread in &mut threads {
            thread.counts.cpu_time = crate::fixture::cpu_time(0.05 * interval as f64);
        }
        let plan = policy.decide(&view_at(&machine, &threads, 50 * interval));
        let steps: Vec<_> = plan.steps.iter().map(|step| step.action.clone()).collect();
        if interval < 3 {
            assert_eq!(steps, [], "interval {interval}");
        } else {
            assert_eq!(steps, [Action::Swap { first: ThreadId(0), second: ThreadId(3) }]);
            assert!(plan.steps[0].reason.contains("112 ms"), "{}", plan.steps[0].reason);
        }
        carry_out(&mut threads, &plan);
    }
}
