//! A clockwork of programs for the tests of online policies: each is as fast as its ways make it.

use std::collections::BTreeMap;

use corun_machine::Machine;

use crate::{
    Action, BuildOptions, Count, Event, Nanoseconds, Plan, Policy, ProcessId, Rates, ThreadId,
    ThreadView, View, build, fixture,
};

/// Cycles a second of every core.
const CLOCK_HZ: f64 = 1e9;

/// Hits of the LLC in a cycle, of every program.
const REFERENCED_HITS: f64 = 2e-3;

/// What a program does with so many ways at a time in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Does {
    pub(crate) ipc: f64,
    pub(crate) llc_mpkc: f64,
    pub(crate) memory_stalls: f64,
}

type Behaviour = Box<dyn Fn(u32, f64) -> Does>;

/// One LLC of 8 ways and 12 cores, a program on each, and a policy.
pub(crate) struct Bench {
    machine: Machine,
    policy: Box<dyn Policy>,
    threads: Vec<ThreadView>,
    programs: BTreeMap<ThreadId, Behaviour>,
    /// LLC references per 1000 instructions of those who have as many with any ways.
    references: BTreeMap<ThreadId, f64>,
    /// Is what threads hold not counted?
    pub(crate) hides_occupancy: bool,
    /// Do threads with the same ways have a part of them each, and not all?
    pub(crate) divides: bool,
    masks: BTreeMap<ThreadId, u64>,
    now: u64,
    next_decision: u64,
    next_id: u64,
    /// When a partition was asked for, in ms, and why.
    pub(crate) log: Vec<(u64, String)>,
}

impl Bench {
    pub(crate) fn new(policy: &str) -> Self {
        Self::with(policy, &[], 1)
    }

    pub(crate) fn with(policy: &str, parameters: &[(&str, f64)], least_ways: u32) -> Self {
        let machine = fixture::machine(&format!(
            "[[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 8192\nways = 8\n\
             min_partition_ways = {least_ways}\n[[object.object]]\nkind = 'core'\ncount = 12\n"
        ));
        let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let options = BuildOptions { seed: 1, parameters };
        Self {
            machine,
            policy: build(policy, &options).unwrap(),
            threads: Vec::new(),
            programs: BTreeMap::new(),
            references: BTreeMap::new(),
            hides_occupancy: false,
            divides: false,
            masks: BTreeMap::new(),
            now: 0,
            next_decision: 0,
            next_id: 0,
            log: Vec::new(),
        }
    }

    /// A program comes onto a core of its own.
    pub(crate) fn arrive(
        &mut self,
        name: &str,
        does: impl Fn(u32, f64) -> Does + 'static,
    ) -> ThreadId {
        let id = ThreadId(self.next_id);
        self.next_id += 1;
        let mut thread = fixture::threads(&self.machine, &[None]).remove(0);
        let cpus = self.machine.cpus();
        thread.id = id;
        thread.process = ProcessId(id.0);
        thread.program = name.to_owned();
        thread.cpu = Some(cpus[id.0 as usize % cpus.len()].id);
        self.threads.push(thread);
        self.programs.insert(id, Box::new(does));
        self.tell(&Event::Arrived(id));
        id
    }

    /// A program comes that refers to the LLC so often in 1000 instructions, with any ways.
    pub(crate) fn arrive_referring(
        &mut self,
        name: &str,
        apki: f64,
        does: impl Fn(u32, f64) -> Does + 'static,
    ) -> ThreadId {
        let id = self.arrive(name, does);
        self.references.insert(id, apki);
        id
    }

    pub(crate) fn exit(&mut self, id: ThreadId) {
        self.threads.retain(|thread| thread.id != id);
        self.masks.remove(&id);
        self.tell(&Event::Exited(id));
    }

    fn tell(&mut self, event: &Event) {
        let view =
            View { machine: &self.machine, threads: &self.threads, now: Nanoseconds(self.now) };
        if let Some(plan) = self.policy.on_event(event, &view) {
            self.carry_out(plan);
        }
    }

    fn carry_out(&mut self, plan: Plan) {
        for step in plan.steps {
            let parts = match step.action {
                Action::Partition { llc: 0, parts } => parts,
                Action::CapBandwidth { threads, mb_per_s } => {
                    let is_here = |id: &ThreadId| self.threads.iter().any(|one| one.id == *id);
                    assert!(threads.iter().all(is_here), "a cap for nobody");
                    assert!(
                        mb_per_s.is_none_or(|cap| cap.is_finite() && cap > 0.0),
                        "{mb_per_s:?}"
                    );
                    continue;
                }
                other => panic!("{other:?}"),
            };
            self.log.push((self.now / 1_000_000, step.reason));
            self.masks.clear();
            for part in parts {
                for thread in part.threads {
                    assert_eq!(self.masks.insert(thread, part.mask), None, "in two parts");
                }
            }
        }
    }

    /// The ways that a thread may use.
    pub(crate) fn mask(&self, id: ThreadId) -> u64 {
        self.masks.get(&id).copied().unwrap_or(0xff)
    }

    pub(crate) fn threads(&mut self) -> &mut Vec<ThreadView> {
        &mut self.threads
    }

    /// Is every mask one that the hardware takes, and does everybody have one or nobody?
    pub(crate) fn is_whole(&self, least_ways: u32) -> bool {
        let fits = |mask: u64| {
            let run = mask >> mask.trailing_zeros().min(63);
            mask != 0 && mask <= 0xff && run & (run + 1) == 0 && mask.count_ones() >= least_ways
        };
        let mut different: Vec<u64> = self.masks.values().copied().collect();
        different.sort_unstable();
        different.dedup();
        let is_named = |thread: &ThreadView| self.masks.contains_key(&thread.id);
        self.masks.values().all(|&mask| fits(mask))
            && different.len() <= 8
            && (self.masks.is_empty() || self.threads.iter().all(is_named))
    }

    /// Lets everybody run for so long.
    pub(crate) fn run(&mut self, seconds: f64) {
        let end = self.now + (seconds * 1e9) as u64;
        while self.now < end {
            let until = self.next_decision.max(self.now).min(end);
            self.pass(until);
            if self.now < self.next_decision {
                continue;
            }
            let view =
                View { machine: &self.machine, threads: &self.threads, now: Nanoseconds(self.now) };
            let plan = self.policy.decide(&view);
            self.carry_out(plan);
            let next = self.policy.next_interval().unwrap_or(Nanoseconds(500_000_000));
            self.next_decision = self.now + next.0;
        }
    }

    fn pass(&mut self, until: u64) {
        let seconds = (until - self.now) as f64 * 1e-9;
        let at = self.now as f64 * 1e-9;
        let all = self.threads.iter().map(|one| self.masks.get(&one.id).copied().unwrap_or(0xff));
        let all: Vec<u64> = all.collect();
        let sharers = |mask: u64| all.iter().filter(|&&one| one == mask).count() as u32;
        for thread in &mut self.threads {
            let mask = self.masks.get(&thread.id).copied().unwrap_or(0xff);
            let ways = match self.divides {
                true => (mask.count_ones() / sharers(mask)).max(1),
                false => mask.count_ones(),
            };
            let does = self.programs[&thread.id](ways, at);
            let cycles = seconds * CLOCK_HZ;
            let of = &mut thread.counts;
            let add = |to: &mut Option<Count>, more: f64| to.get_or_insert_default().total += more;
            add(&mut of.cpu_time, seconds * 1e9);
            add(&mut of.cycles, cycles);
            add(&mut of.instructions, cycles * does.ipc);
            add(&mut of.llc_misses, cycles * does.llc_mpkc * 1e-3);
            let references = match self.references.get(&thread.id) {
                Some(apki) => does.ipc * apki * 1e-3,
                None => does.llc_mpkc * 1e-3 + REFERENCED_HITS,
            };
            add(&mut of.llc_references, cycles * references);
            add(&mut of.memory_stall_cycles, cycles * does.memory_stalls);
            let held = f64::from(ways) * 1024.0 * 1024.0;
            thread.llc_occupancy_bytes = (!self.hides_occupancy).then_some(held);
            thread.rates =
                Rates { instructions_per_s: Some(CLOCK_HZ * does.ipc), ..Rates::default() };
        }
        self.now = until;
    }
}
