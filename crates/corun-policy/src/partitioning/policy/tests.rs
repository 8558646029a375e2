use std::sync::Arc;

use corun_machine::{CpuSet, Machine};

use crate::{
    Action, BuildOptions, Event, Plan, Policy, ThreadId, ThreadView, WaysCurve, WaysPoint, build,
    fixture,
};

/// Two LLCs of 8 ways and 4 cores.
fn machine() -> Machine {
    fixture::machine(
        "[[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 4096\nways = 8\ncount = 2\n\
         [[object.object]]\nkind = 'core'\ncount = 4\n",
    )
}

/// Threads 0, 1, .. on CPUs 0, 1, ..: the even ones stream, the odd ones are sensitive.
fn threads(machine: &Machine, count: usize) -> Vec<ThreadView> {
    let streaming = WaysPoint { slowdown: 1.0, llc_mpkc: 30.0, ..WaysPoint::default() };
    let stream = Arc::new(WaysCurve::new(vec![streaming; 8]).unwrap());
    let needy = (0..8).map(|ways| WaysPoint {
        slowdown: 1.0 + 1.0 / f64::from(ways + 1),
        ..WaysPoint::default()
    });
    let needy = Arc::new(WaysCurve::new(needy.collect()).unwrap());
    let mut threads = fixture::threads(machine, &vec![None; count]);
    for (index, thread) in threads.iter_mut().enumerate() {
        thread.cpu = Some(machine.cpus()[index].id);
        thread.by_ways = Some(if index % 2 == 0 { stream.clone() } else { needy.clone() });
    }
    threads
}

fn lfoc() -> Box<dyn Policy> {
    build("lfoc", &BuildOptions::default()).unwrap()
}

/// Masks and the threads that have them.
type Parts = Vec<(u64, Vec<u64>)>;

fn masks(plan: &Plan) -> Vec<(usize, Parts)> {
    let of = |step: &crate::Step| match &step.action {
        Action::Partition { llc, parts } => {
            let ids = |threads: &[ThreadId]| threads.iter().map(|one| one.0).collect();
            (*llc, parts.iter().map(|part| (part.mask, ids(&part.threads))).collect())
        }
        other => panic!("{other:?}"),
    };
    plan.steps.iter().map(of).collect()
}

#[test]
fn every_llc_is_partitioned_for_those_on_it_and_once() {
    let machine = machine();
    let threads = threads(&machine, 7);
    let mut policy = lfoc();
    let view = fixture::view(&machine, &threads);
    let plan = policy.decide(&view);
    // Two streaming programs share a way; two sensitive ones have four and three.
    assert_eq!(
        masks(&plan),
        [
            (0, vec![(0x1, vec![0, 2]), (0x1e, vec![1]), (0xe0, vec![3])]),
            (1, vec![(0x1, vec![4, 6]), (0xfe, vec![5])]),
        ]
    );
    let reason = &plan.steps[0].reason;
    assert!(reason.contains("1 of 8 ways: program0 (streaming, 30.0 MPKC), program2"), "{reason}");
    assert!(policy.decide(&view).steps.is_empty());
}

/// A policy that places has sent threads elsewhere in this round: the kernel has not told yet that they are there.
#[test]
fn who_was_sent_to_another_llc_in_this_round_is_parted_there() {
    let machine = machine();
    let mut threads = threads(&machine, 7);
    let expected = lfoc().decide(&fixture::view(&machine, &threads));
    for thread in &mut threads {
        thread.allowed = CpuSet::from_iter(thread.cpu);
        thread.cpu = Some(machine.cpus()[7 - thread.id.0 as usize].id);
    }
    assert_eq!(masks(&lfoc().decide(&fixture::view(&machine, &threads))), masks(&expected));
    // Who may run on both LLCs is where it ran last.
    threads[6].allowed = machine.cpu_set();
    threads[6].cpu = Some(machine.cpus()[0].id);
    let plan = lfoc().decide(&fixture::view(&machine, &threads));
    assert_eq!(masks(&plan)[0].1[0], (0x1, vec![0, 2, 6]));
}

#[test]
fn threads_of_a_process_share_a_partition() {
    let machine = machine();
    let mut threads = threads(&machine, 4);
    threads[3].process = threads[1].process;
    let plan = lfoc().decide(&fixture::view(&machine, &threads));
    assert_eq!(masks(&plan), [(0, vec![(0x1, vec![0, 2]), (0xfe, vec![1, 3])])]);
}

#[test]
fn arrivals_and_moves_count_at_once_and_exits_at_the_interval() {
    let machine = machine();
    let mut threads = threads(&machine, 3);
    let mut policy = lfoc();
    policy.decide(&fixture::view(&machine, &threads));
    // The sensitive one moves to the other LLC, where it is alone; the two streams share the first.
    threads[1].cpu = Some(machine.cpus()[5].id);
    let moved = Event::Switched { on: vec![ThreadId(1)], off: vec![] };
    let plan = policy.on_event(&moved, &fixture::view(&machine, &threads)).unwrap();
    assert_eq!(masks(&plan), [(0, vec![])]);
    threads[1].cpu = Some(machine.cpus()[1].id);
    policy.on_event(&moved, &fixture::view(&machine, &threads)).unwrap();
    let rest = &threads[..2];
    let view = fixture::view(&machine, rest);
    assert_eq!(policy.on_event(&Event::Exited(ThreadId(2)), &view), None);
    assert_eq!(masks(&policy.decide(&view)), [(0, vec![(0x1, vec![0]), (0xfe, vec![1])])]);
}

/// Those who shared an LLC moved away: nobody is named where nobody is.
#[test]
fn an_llc_that_is_left_is_said_to_be_empty() {
    let machine = machine();
    let mut threads = threads(&machine, 3);
    let mut policy = lfoc();
    policy.decide(&fixture::view(&machine, &threads));
    for (thread, cpu) in threads.iter_mut().zip(&machine.cpus()[4..]) {
        thread.cpu = Some(cpu.id);
    }
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(plan.steps[0].reason, "LLC 0 whole: nobody is on it");
    threads.truncate(1);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(plan.steps[0].reason, "LLC 1 whole for program0: nobody to part");
}

#[test]
fn an_llc_stays_whole_where_there_can_be_no_partition() {
    let machine = machine();
    let mut threads = threads(&machine, 4);
    threads[2].by_ways = None;
    assert!(lfoc().decide(&fixture::view(&machine, &threads)).steps.is_empty());
    // Nine programs on eight ways.
    let mut many = self::threads(&machine, 8);
    let mut ninth = many[0].clone();
    (ninth.id, ninth.process) = (ThreadId(8), crate::ProcessId(8));
    many.push(ninth);
    for thread in &mut many {
        thread.cpu = Some(machine.cpus()[0].id);
    }
    let mut ucp = build("ucp", &BuildOptions::default()).unwrap();
    assert!(ucp.decide(&fixture::view(&machine, &many)).steps.is_empty());
    assert!(!lfoc().decide(&fixture::view(&machine, &many)).steps.is_empty());
}
