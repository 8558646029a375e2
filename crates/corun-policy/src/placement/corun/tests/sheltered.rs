//! Threads that no decision is about, on LLCs that are divided.

use super::*;
use crate::ThreadState::{Running, Sleeping};
use crate::fixture::tree;

/// Two LLCs of two cores, and what a policy asked for on them.
struct Bench {
    machine: Machine,
    threads: Vec<ThreadView>,
    parts: Parts,
    /// What a host has, by LLC.
    held: [Vec<CachePart>; 2],
}

impl Bench {
    /// Threads of a process each, on LLCs.
    fn new(llcs: &[usize]) -> Self {
        let machine = tree(1, 2, 2);
        let mut one = Self {
            threads: Vec::new(),
            parts: Parts::default(),
            held: [Vec::new(), Vec::new()],
            machine,
        };
        for (id, &llc) in (0..).zip(llcs) {
            one.comes(id, id, llc);
        }
        one
    }

    fn comes(&mut self, id: u64, process: u64, llc: usize) {
        let (name, all) = (format!("p{process}"), self.machine.cpu_set());
        let thread = ThreadView::new(ThreadId(id), ProcessId(process), name, &all);
        self.threads.push(ThreadView { state: Running, ..thread });
        self.goes(id, llc);
    }

    fn goes(&mut self, id: u64, llc: usize) {
        let cpu = self.machine.llcs()[llc].cpus.first();
        self.threads.iter_mut().find(|one| one.id.0 == id).unwrap().cpu = cpu;
    }

    fn ends(&mut self, id: u64) {
        self.threads.retain(|one| one.id.0 != id);
    }

    /// Asks for masks of an LLC with the threads that have them, and takes over what the host is told.
    fn ask(&mut self, llc: usize, parts: &[(u64, &[u64])], is_trial: bool) -> usize {
        let parts: Vec<CachePart> = parts.iter().map(part).collect();
        let named = |thread: &&ThreadView| parts.iter().any(|one| one.threads.contains(&thread.id));
        let view = View { machine: &self.machine, threads: &self.threads, now: Nanoseconds(0) };
        let running: Vec<&ThreadView> = self.threads.iter().filter(named).collect();
        let mut plan = Plan::none();
        let why = || "decided".to_owned();
        self.parts.ask((llc, parts.clone()), is_trial, why, (&view, &running), &mut plan);
        self.carried_out(&plan)
    }

    /// An event, or a look.
    fn adopts(&mut self, is_look: bool) -> usize {
        let view = View { machine: &self.machine, threads: &self.threads, now: Nanoseconds(0) };
        let mut plan = self.parts.adopted(&view).unwrap_or_default();
        if is_look {
            self.parts.forget_gone(&view, &mut plan);
        }
        self.carried_out(&plan)
    }

    fn carried_out(&mut self, plan: &Plan) -> usize {
        for step in &plan.steps {
            let Action::Partition { llc, parts } = &step.action else { panic!("{step:?}") };
            for id in parts.iter().flat_map(|part| &part.threads) {
                assert!(self.threads.iter().any(|one| one.id == *id), "{id:?} has ended: {step:?}");
            }
            self.held[*llc].clone_from(parts);
        }
        plan.steps.len()
    }
}

fn part((mask, threads): &(u64, &[u64])) -> CachePart {
    CachePart { mask: *mask, threads: threads.iter().map(|&id| ThreadId(id)).collect() }
}

fn parts(of: &[(u64, &[u64])]) -> Vec<CachePart> {
    of.iter().map(part).collect()
}

/// Of its process's part where there is one, else of the widest; and what is asked again is the same.
#[test]
fn a_thread_that_no_decision_is_about_is_in_a_part() {
    let mut bench = Bench::new(&[0, 0, 0, 1]);
    bench.comes(4, 1, 0);
    let wanted: [(u64, &[u64]); 2] = [(0x3, &[1]), (0xfc, &[0])];
    assert_eq!(bench.ask(0, &wanted, false), 1);
    assert_eq!(bench.held[0], parts(&[(0x3, &[1, 4]), (0xfc, &[0, 2])]));
    assert_eq!(bench.held[1], []);
    assert_eq!(bench.ask(0, &wanted, false), 0);
    assert_eq!(bench.adopts(true), 0);
}

/// Newcomers and threads that the kernel moved are told to the host once, and not again when they return in the same
/// interval. A thread is in parts of one LLC in the end.
#[test]
fn a_thread_that_comes_to_a_divided_llc_gets_a_part_at_once() {
    let mut bench = Bench::new(&[0, 0, 1, 1]);
    bench.ask(0, &[(0x3, &[0]), (0xfc, &[1])], false);
    bench.ask(1, &[(0xf, &[2]), (0xf0, &[3])], false);
    bench.comes(4, 4, 0);
    assert_eq!(bench.adopts(false), 1);
    assert_eq!(bench.held[0], parts(&[(0x3, &[0]), (0xfc, &[1, 4])]));
    for llc in [1, 0, 1] {
        bench.goes(4, llc);
        bench.adopts(false);
        let held = bench.held[llc].iter().flat_map(|part| &part.threads);
        assert!(held.clone().any(|id| id.0 == 4), "{:?}", bench.held);
    }
    assert_eq!(bench.adopts(true), 0);
    // The host is told of LLC 0 for another's sake: the thread that left is not among its threads.
    bench.comes(5, 0, 0);
    assert_eq!(bench.adopts(false), 1);
    assert_eq!(bench.held[0], parts(&[(0x3, &[0, 5]), (0xfc, &[1])]));
    assert_eq!(bench.held[1], parts(&[(0xf, &[2, 4]), (0xf0, &[3])]));
}

/// A sleeper keeps its ways where nobody else got any of them, and gets them back after a trial.
#[test]
fn a_sleeper_keeps_its_ways_until_others_get_them() {
    let mut bench = Bench::new(&[0, 0, 0]);
    bench.ask(0, &[(0x3, &[0]), (0xc, &[1]), (0xf0, &[2])], false);
    let asleep: [(u64, &[u64]); 2] = [(0x3, &[0]), (0xf0, &[2])];
    assert_eq!(bench.ask(0, &asleep, false), 0);
    bench.ask(0, &[(0x7, &[0]), (0xf8, &[2])], true);
    assert_eq!(bench.held[0], parts(&[(0x7, &[0]), (0xf8, &[1, 2])]));
    assert_eq!(bench.ask(0, &asleep, false), 1);
    assert_eq!(bench.held[0], parts(&[(0x3, &[0]), (0xc, &[1]), (0xf0, &[2])]));
    bench.ask(0, &[(0xf, &[0]), (0xf0, &[2])], false);
    assert_eq!(bench.held[0], parts(&[(0xf, &[0, 1]), (0xf0, &[2])]));
}

/// An LLC whose threads have all ended or left is whole for who comes then.
#[test]
fn parts_of_nobody_are_given_up() {
    let mut bench = Bench::new(&[0, 0, 1, 1]);
    bench.ask(0, &[(0x3, &[0]), (0xfc, &[1])], false);
    bench.ask(1, &[(0xf, &[2]), (0xf0, &[3])], false);
    bench.ends(0);
    assert_eq!(bench.adopts(true), 0);
    bench.goes(1, 1);
    assert_eq!(bench.adopts(true), 2);
    assert_eq!(bench.held, [vec![], parts(&[(0xf, &[1, 2]), (0xf0, &[3])])]);
    bench.comes(4, 4, 0);
    assert_eq!(bench.adopts(true), 0);
}

/// The policy as a whole: one of its programs sleeps, another falls asleep and wakes. All are in parts that do not
/// overlap, and once nothing changes nothing is asked for.
#[test]
fn the_policy_leaves_no_thread_of_a_divided_llc_out() {
    let mix = ["sort", "xz", "numpy", "sqlite3", "flac"];
    let predictor = predictor_on(division::one_llc(true), &mix);
    let machine = predictor.model().machine().clone();
    let mut threads = division::on_cores(&machine, &mix[..4]);
    let flac = ThreadView::new(ThreadId(4), ProcessId(4), "flac", &machine.cpu_set());
    threads.push(ThreadView { cpu: threads[0].cpu, state: Sleeping, ..flac });
    let mut policy = policy(&predictor, &[("objective", 2.0)]);
    let (mut held, mut asked): (Vec<CachePart>, usize) = (Vec::new(), 0);
    for second in 0..60_u32 {
        let wakes = second % 20 < 10;
        threads[1].state = if wakes { Running } else { Sleeping };
        let plan = policy.decide(&at(&machine, &threads, 60.0 + f64::from(second)));
        for step in plan.steps {
            if let Action::Partition { parts, .. } = step.action {
                (held, asked) = (parts, asked + 1);
            }
        }
        for thread in &threads {
            let own = held.iter().filter(|part| part.threads.contains(&thread.id));
            assert_eq!(own.count(), 1, "{second}: {} of {held:?}", thread.program);
        }
        let all = held.iter().fold(0, |all, part| {
            assert_eq!(all & part.mask, 0, "{second}: {held:?}");
            all | part.mask
        });
        assert!(all <= 0xffff);
    }
    assert!(asked <= 6, "{asked}");
}
