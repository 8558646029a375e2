use crate::asymmetric::tests::{carry_out, running, two_and_four, view_at};
use crate::{Action, ThreadId, build};

#[test]
fn everybody_gets_a_big_core_in_turn() {
    let machine = two_and_four();
    let mut threads = running(&machine, 6);
    let mut policy = build("rr", &Default::default()).unwrap();
    let mut turns = [0u32; 6];
    // One swap in 400 ms: a round of six threads over two big cores takes 2.4 s.
    for round in 1..=240u64 {
        let plan = policy.decide(&view_at(&machine, &threads, 50 * round));
        assert_eq!(plan.steps.len(), usize::from(round % 8 == 0), "round {round}: {plan:?}");
        for step in &plan.steps {
            assert!(matches!(step.action, Action::Swap { .. }));
        }
        carry_out(&mut threads, &plan);
        for thread in &threads {
            turns[thread.id.0 as usize] +=
                u32::from(thread.allowed.contains(corun_machine::CpuId(0)));
        }
    }
    // 240 rounds, 2 of 6 on big cores: 80 each, and one turn of 16 rounds more or less at the ends.
    for (thread, turns) in turns.iter().enumerate() {
        assert!((64..=96).contains(turns), "{:?}: {turns}", ThreadId(thread as u64));
    }
}
