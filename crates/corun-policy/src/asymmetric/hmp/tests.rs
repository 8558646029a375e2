use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{Event, ThreadId, ThreadState, build, fixture};

#[test]
fn who_mostly_waits_goes_to_small_cores_and_who_computes_to_big_ones() {
    let machine = two_and_four();
    let mut threads = fixture::threads(&machine, &[None; 3]);
    let mut policy = build("hmp", &Default::default()).unwrap();
    let plan = policy.on_event(&Event::Arrived(ThreadId(0)), &view_at(&machine, &threads, 0));
    carry_out(&mut threads, &plan.unwrap());
    // New threads count as busy: all three on two big cores.
    assert!(threads.iter().all(|one| one.allowed.to_string() == "0-1"));
    threads[2].state = ThreadState::Sleeping;
    policy.on_event(&Event::Slept(ThreadId(2)), &view_at(&machine, &threads, 0));
    // After 32 ms asleep its load is a half, after 50 ms 34 %: below 50 %.
    let plan = policy.decide(&view_at(&machine, &threads, 50));
    carry_out(&mut threads, &plan);
    assert_eq!(plan.steps.len(), 1);
    assert!(plan.steps[0].reason.starts_with("program2: runnable for 34 %"), "{plan:?}");
    assert_eq!(threads[2].allowed.to_string(), "2-5");
    // Awake again: 34 % goes towards 100 % and passes 68.4 % after 34 ms (1 - 0.66 / 2^(34/32)).
    threads[2].state = ThreadState::Running;
    policy.on_event(&Event::Woke(ThreadId(2)), &view_at(&machine, &threads, 50));
    assert!(policy.decide(&view_at(&machine, &threads, 80)).steps.is_empty());
    let plan = policy.decide(&view_at(&machine, &threads, 86));
    carry_out(&mut threads, &plan);
    assert_eq!(threads[2].allowed.to_string(), "0-1");
    let cores = running(&machine, 6);
    assert!(
        policy.decide(&view_at(&machine, &cores, 90)).steps.len() >= 4,
        "all compute: all to big"
    );
}
