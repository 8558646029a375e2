use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{Action, ThreadId, build};

#[test]
fn the_most_slowed_down_so_far_takes_a_big_core() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    let mut policy = build("equal-progress", &Default::default()).unwrap();
    let mut swaps = Vec::new();
    for interval in 1..=16u64 {
        for thread in &mut threads {
            thread.counts.cpu_time = crate::fixture::cpu_time(0.05 * interval as f64);
            // Thread 2 is as fast everywhere, the others by 2.5 on big cores.
            let big = thread.cpu.unwrap().0 < 2;
            let rate = if big || thread.id == ThreadId(2) { 1e9 } else { 0.4e9 };
            thread.rates.instructions_per_s = Some(rate);
        }
        let plan = policy.decide(&view_at(&machine, &threads, 50 * interval));
        swaps.extend(plan.steps.iter().map(|step| (interval, step.action.clone())));
        carry_out(&mut threads, &plan);
    }
    // At 400 ms all on small cores count as slowed down by the capacities' ratio: the first of them,
    // thread 2, takes thread 0's place. At 800 ms thread 2 has been seen on both sides, at a factor of
    // 1, thread 0 has 0.75 s behind it that took 0.4 + 0.4 / 2.5 s of work, and 3 to 5 are still at 2.5.
    let swap = |first, second| Action::Swap { first: ThreadId(first), second: ThreadId(second) };
    assert_eq!(swaps.len(), 2, "{swaps:?}");
    assert_eq!(swaps[0], (8, swap(0, 2)));
    assert_eq!(swaps[1].0, 16);
    assert_eq!(swaps[1].1, swap(1, 3));
}
