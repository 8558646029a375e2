use super::*;
use crate::{Counts, ProcessId, ThreadId, ThreadView, fixture};

/// Gives the program of the most misses all ways but one and a cap.
struct Apart;

impl Controller for Apart {
    fn step(&mut self, programs: &[Program], cache: &Cache) -> Vec<Setting> {
        let misses = |one: &Program| one.sample.map_or(0.0, |sample| sample.llc_mpki);
        let most = programs.iter().map(misses).fold(0.0, f64::max);
        let of = |one: &Program| {
            let is_most = most > 0.0 && misses(one) == most;
            let ways = if is_most { super::super::mask(1, cache.ways - 1) } else { 1 };
            Setting {
                mask: ways,
                cap_mb_per_s: is_most.then_some(most),
                why: format!("{:.1} MPKI", misses(one)),
            }
        };
        programs.iter().map(of).collect()
    }
}

fn policy() -> SteeringPolicy {
    let counters = vec![CounterKind::Instructions];
    SteeringPolicy::new("apart", 100.0, counters, true, Box::new(|| Box::new(Apart)))
}

fn machine() -> corun_machine::Machine {
    fixture::machine(
        "[[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 8192\nways = 8\n\
         [[object.object]]\nkind = 'core'\ncount = 4\n",
    )
}

/// So many threads that have missed so often in `seconds` at 1e9 instructions a second.
fn threads(machine: &corun_machine::Machine, mpki: &[f64], seconds: f64) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; mpki.len()]);
    for (thread, mpki) in threads.iter_mut().zip(mpki) {
        let instructions = 1e9 * seconds;
        thread.cpu = Some(machine.cpus()[thread.id.0 as usize].id);
        thread.counts = Counts {
            instructions: fixture::count(instructions),
            cycles: fixture::count(instructions),
            llc_misses: fixture::count(instructions * mpki * 1e-3),
            ..Counts::default()
        };
    }
    threads
}

fn actions(plan: &Plan) -> Vec<Action> {
    plan.steps.iter().map(|step| step.action.clone()).collect()
}

fn part(mask: u64, threads: &[u64]) -> CachePart {
    CachePart { mask, threads: threads.iter().map(|&id| ThreadId(id)).collect() }
}

fn cap(threads: &[u64], mb_per_s: Option<f64>) -> Action {
    let threads = threads.iter().map(|&id| ThreadId(id)).collect();
    Action::CapBandwidth { threads, mb_per_s }
}

#[test]
fn what_changes_is_asked_for_and_nothing_else() {
    let machine = machine();
    let mut policy = policy();
    let mut at = |mpki: &[f64], seconds: f64| {
        let threads = threads(&machine, mpki, seconds);
        actions(&policy.decide(&fixture::view(&machine, &threads)))
    };
    // Nothing was counted yet: all to the lowest way.
    assert_eq!(
        at(&[5.0, 1.0], 0.0),
        [Action::Partition { llc: 0, parts: vec![part(0x01, &[0, 1])] }]
    );
    assert_eq!(
        at(&[5.0, 1.0], 1.0),
        [
            Action::Partition { llc: 0, parts: vec![part(0xfe, &[0]), part(0x01, &[1])] },
            cap(&[0], Some(5.0))
        ]
    );
    assert_eq!(at(&[5.0, 1.0], 2.0), []);
    // In the third second the first misses 3 in 1000.
    assert_eq!(at(&[13.0 / 3.0, 1.0], 3.0), [cap(&[0], Some(3.0))]);
}

/// A newcomer has all ways and no cap; who is left alone has, too.
#[test]
fn who_comes_and_goes_is_followed() {
    let machine = machine();
    let mut policy = policy();
    for seconds in [0.0, 1.0] {
        let threads = threads(&machine, &[5.0, 1.0], seconds);
        policy.decide(&fixture::view(&machine, &threads));
    }
    let three = threads(&machine, &[5.0, 1.0, 9.0], 1.0);
    let view = fixture::view(&machine, &three);
    let plan = policy.on_event(&Event::Arrived(ThreadId(2)), &view).unwrap();
    let parts = vec![part(0xfe, &[0]), part(0x01, &[1]), part(0xff, &[2])];
    assert_eq!(actions(&plan), [Action::Partition { llc: 0, parts }]);
    assert!(plan.steps[0].reason.contains("program2 8 ways (nothing is known of it yet)"));
    let one = threads(&machine, &[5.0], 2.0);
    let plan = policy.decide(&fixture::view(&machine, &one));
    assert_eq!(actions(&plan), [Action::Partition { llc: 0, parts: vec![] }, cap(&[0], None)]);
    assert_eq!(actions(&policy.decide(&fixture::view(&machine, &[]))), []);
}

#[test]
fn without_caps_ways_are_steered_alone() {
    let machine = machine();
    let mut policy = policy();
    assert!(
        policy.do_without(ActionKind::CapBandwidth) && !policy.do_without(ActionKind::Partition)
    );
    assert_eq!(policy.needs().controls, [ActionKind::Partition]);
    for seconds in [0.0, 1.0] {
        let threads = threads(&machine, &[5.0, 1.0], seconds);
        let plan = policy.decide(&fixture::view(&machine, &threads));
        assert!(plan.steps.iter().all(|step| step.action.kind() == ActionKind::Partition));
    }
}

/// Two threads of one process are one program with one setting.
#[test]
fn threads_of_a_process_are_one_program() {
    let machine = machine();
    let mut policy = policy();
    let mut last = Vec::new();
    for seconds in [0.0, 1.0] {
        let mut threads = threads(&machine, &[5.0, 5.0, 1.0], seconds);
        threads[1].process = ProcessId(0);
        last = actions(&policy.decide(&fixture::view(&machine, &threads)));
    }
    let parts = vec![part(0xfe, &[0, 1]), part(0x01, &[2])];
    assert_eq!(last, [Action::Partition { llc: 0, parts }, cap(&[0, 1], Some(5.0))]);
}
