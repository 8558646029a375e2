//! How the LLCs are divided: what was decided, and what was asked for last.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::Machine;

use crate::{Action, CachePart, Plan, ThreadId, ThreadView, View};

/// The parts of each LLC by its index; an LLC without parts is whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Layout(Vec<Vec<CachePart>>);

/// What was decided, and what was asked of the host last: the same but while a program is on trial.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) decided: Layout,
    pub(super) asked: Layout,
    /// The programs of the threads in parts: one that ends and starts again gets its former ways.
    programs: BTreeMap<ThreadId, String>,
    /// LLCs of which what was asked last is not in force.
    refused: BTreeSet<usize>,
}

impl Layout {
    /// The parts of an LLC.
    pub(super) fn of(&self, llc: usize) -> &[CachePart] {
        self.0.get(llc).map_or(&[], Vec::as_slice)
    }

    /// The ways of an LLC that a thread has, bit i for way i; 0: all.
    pub(super) fn mask(&self, llc: usize, thread: ThreadId) -> u64 {
        let own = self.of(llc).iter().find(|part| part.threads.contains(&thread));
        own.map_or(0, |part| part.mask)
    }

    /// The ways of threads on these CPUs (indices). An LLC on which somebody is in no part counts as whole.
    pub(super) fn masks(
        &self,
        machine: &Machine,
        threads: &[&ThreadView],
        cpus: &[usize],
    ) -> Vec<u64> {
        let llcs: Vec<usize> = cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect();
        let mask = |(&llc, thread): (&usize, &&ThreadView)| self.mask(llc, thread.id);
        let masks: Vec<u64> = llcs.iter().zip(threads).map(mask).collect();
        let is_whole =
            |of: usize| llcs.iter().zip(&masks).any(|(&llc, &mask)| llc == of && mask == 0);
        llcs.iter().zip(&masks).map(|(&llc, &mask)| if is_whole(llc) { 0 } else { mask }).collect()
    }

    fn set(&mut self, llc: usize, parts: Vec<CachePart>) {
        if self.0.len() <= llc {
            self.0.resize(llc + 1, Vec::new());
        }
        self.0[llc] = parts;
    }

    fn ids(&mut self) -> impl Iterator<Item = &mut ThreadId> {
        self.0.iter_mut().flatten().flat_map(|part| &mut part.threads)
    }
}

impl Parts {
    /// Asks for parts of an LLC, where they are not what was asked last. On trial they are asked and not decided.
    pub(super) fn ask(
        &mut self,
        (llc, parts): (usize, Vec<CachePart>),
        is_trial: bool,
        reason: impl FnOnce() -> String,
        threads: &[&ThreadView],
        plan: &mut Plan,
    ) {
        for thread in threads {
            if parts.iter().any(|part| part.threads.contains(&thread.id)) {
                self.programs.insert(thread.id, thread.program.clone());
            }
        }
        if !is_trial {
            self.decided.set(llc, parts.clone());
        }
        if self.asked.of(llc) != parts || self.refused.remove(&llc) {
            self.refused.remove(&llc);
            self.asked.set(llc, parts.clone());
            plan.push(Action::Partition { llc, parts }, reason());
        }
    }

    /// What was asked last of an LLC is not in force. It is taken for whole until it is asked of again, and the next
    /// request is made even where it is for the whole.
    pub(super) fn not_in_force(&mut self, llc: usize) {
        self.refused.insert(llc);
        self.decided.set(llc, Vec::new());
        self.asked.set(llc, Vec::new());
    }

    /// All LLCs whole again.
    pub(super) fn make_whole(&mut self, why: &str, plan: &mut Plan) {
        for llc in 0..self.asked.0.len() {
            let reason = || format!("LLC {llc} whole: {why}");
            self.ask((llc, Vec::new()), false, reason, &[], plan);
        }
    }

    /// Threads on a divided LLC that are in no part, of programs of which a thread there has ended: they get its
    /// ways.
    pub(super) fn adopted(&mut self, view: &View<'_>) -> Option<Plan> {
        let mut plan = Plan::none();
        for thread in view.threads {
            let Some(cpu) = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu)) else {
                continue;
            };
            let llc = view.machine.cpus()[cpu].llc;
            if self.asked.of(llc).is_empty() || self.asked.mask(llc, thread.id) != 0 {
                continue;
            }
            let is_former = |id: &ThreadId| {
                view.thread(*id).is_none() && self.programs.get(id) == Some(&thread.program)
            };
            let named = self.asked.of(llc).iter().flat_map(|part| &part.threads);
            let Some(former) = named.copied().find(|id| is_former(id)) else { continue };
            for layout in [&mut self.decided, &mut self.asked] {
                layout.ids().filter(|id| **id == former).for_each(|id| *id = thread.id);
            }
            self.programs.insert(thread.id, thread.program.clone());
            let parts = self.asked.of(llc).to_vec();
            let reason =
                format!("LLC {llc}: {} started again, with its former ways", thread.program);
            plan.push(Action::Partition { llc, parts: present(parts, view) }, reason);
        }
        (!plan.steps.is_empty()).then_some(plan)
    }

    /// Forgets threads that ended, and parts of nobody else.
    pub(super) fn forget_ended(&mut self, view: &View<'_>) {
        self.programs.retain(|id, _| view.thread(*id).is_some());
        for layout in [&mut self.decided, &mut self.asked] {
            for parts in &mut layout.0 {
                *parts = present(std::mem::take(parts), view);
            }
        }
    }
}

/// Without threads that ended, and without parts that nobody is left in.
fn present(parts: Vec<CachePart>, view: &View<'_>) -> Vec<CachePart> {
    let kept = |part: CachePart| {
        let threads = part.threads.into_iter().filter(|id| view.thread(*id).is_some()).collect();
        CachePart { mask: part.mask, threads }
    };
    parts.into_iter().map(kept).filter(|part| !part.threads.is_empty()).collect()
}
