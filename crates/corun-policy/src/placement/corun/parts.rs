//! How the LLCs are divided: what was decided, and what was asked for last.
//!
//! A decision is about the threads that take part in it. Others are on the same LLCs: threads that sleep, that have just
//! come, or that the kernel moved there. Each of them gets a part as well ([`shelter`]): the hardware would give a thread
//! without one all ways, those of everybody's parts.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::Machine;

use crate::partitioning::members::llc_of;
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

    /// Gives a thread on an LLC a part of it, where the LLC is divided and the thread has none.
    fn shelter(&mut self, llc: usize, thread: &ThreadView, before: u64, view: &View<'_>) {
        if !self.of(llc).is_empty() && self.mask(llc, thread.id) == 0 {
            shelter(&mut self.0[llc], thread, before, view);
        }
    }

    /// Another thread takes over the part of one that ended.
    fn replace(&mut self, former: ThreadId, by: ThreadId) {
        for part in self.0.iter_mut().flatten() {
            part.threads.iter_mut().filter(|id| **id == former).for_each(|id| *id = by);
            part.threads.sort_unstable();
        }
    }

    /// Forgets threads that left an LLC and are in a part of the one that they are on now, on LLCs that pass.
    fn forget_left(&mut self, view: &View<'_>, of: impl Fn(usize) -> bool) {
        for thread in view.threads {
            let Some(now) = llc_of(thread, view.machine) else { continue };
            if self.mask(now, thread.id) != 0 {
                let others = self.0.iter_mut().enumerate();
                for (_, parts) in others.filter(|(llc, _)| *llc != now && of(*llc)) {
                    parts.iter_mut().for_each(|part| part.threads.retain(|id| *id != thread.id));
                }
            }
        }
    }
}

impl Parts {
    /// Asks for parts of an LLC for the threads that take part in the decision, where they are not what was asked last.
    /// Other threads there get a part, too. On trial the parts are asked and not decided.
    pub(super) fn ask(
        &mut self,
        (llc, parts): (usize, Vec<CachePart>),
        is_trial: bool,
        reason: impl FnOnce() -> String,
        (view, running): (&View<'_>, &[&ThreadView]),
        plan: &mut Plan,
    ) {
        let parts = self.with_others((llc, parts), view, running);
        for thread in view.threads {
            if parts.iter().any(|part| part.threads.contains(&thread.id)) {
                self.programs.insert(thread.id, thread.program.clone());
            }
        }
        if !is_trial {
            self.decided.set(llc, parts.clone());
        }
        self.request((llc, parts), reason, plan);
    }

    /// The parts with the threads on the LLC that take no part in the decision.
    fn with_others(
        &self,
        (llc, mut parts): (usize, Vec<CachePart>),
        view: &View<'_>,
        running: &[&ThreadView],
    ) -> Vec<CachePart> {
        let is_other = |thread: &&ThreadView| {
            llc_of(thread, view.machine) == Some(llc)
                && running.binary_search_by_key(&thread.id, |one| one.id).is_err()
        };
        if !parts.is_empty() {
            for thread in view.threads.iter().filter(is_other) {
                shelter(&mut parts, thread, self.decided.mask(llc, thread.id), view);
            }
        }
        parts
    }

    fn request(
        &mut self,
        (llc, parts): (usize, Vec<CachePart>),
        reason: impl FnOnce() -> String,
        plan: &mut Plan,
    ) {
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
            self.decided.set(llc, Vec::new());
            self.request((llc, Vec::new()), || format!("LLC {llc} whole: {why}"), plan);
        }
    }

    /// Threads on a divided LLC that are in no part of it get one: those of a program of which a thread there has ended
    /// get its ways, others are sheltered.
    pub(super) fn adopted(&mut self, view: &View<'_>) -> Option<Plan> {
        if self.asked.0.iter().all(Vec::is_empty) {
            return None;
        }
        let mut came: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for thread in view.threads {
            let Some(llc) = llc_of(thread, view.machine) else { continue };
            if self.asked.of(llc).is_empty() || self.asked.mask(llc, thread.id) != 0 {
                continue;
            }
            came.entry(llc).or_default().push(self.adopt(llc, thread, view));
        }
        self.asked.forget_left(view, |llc| came.contains_key(&llc));
        let mut plan = Plan::none();
        for (llc, mut came) in came {
            came.dedup();
            let parts = present(self.asked.of(llc).to_vec(), view);
            plan.push(Action::Partition { llc, parts }, format!("LLC {llc}: {}", came.join("; ")));
        }
        (!plan.steps.is_empty()).then_some(plan)
    }

    /// Gives a thread that is in no part of an LLC one, and says which.
    fn adopt(&mut self, llc: usize, thread: &ThreadView, view: &View<'_>) -> String {
        let is_former = |id: &ThreadId| {
            view.thread(*id).is_none() && self.programs.get(id) == Some(&thread.program)
        };
        let named = self.asked.of(llc).iter().flat_map(|part| &part.threads);
        let former = named.copied().find(is_former);
        if let Some(former) = former {
            self.decided.replace(former, thread.id);
            self.asked.replace(former, thread.id);
        }
        self.decided.shelter(llc, thread, 0, view);
        self.asked.shelter(llc, thread, self.decided.mask(llc, thread.id), view);
        self.programs.insert(thread.id, thread.program.clone());
        let program = &thread.program;
        if former.is_some() {
            return format!("{program} started again, with its former ways");
        }
        let ways = self.asked.mask(llc, thread.id).count_ones();
        format!("{program} goes to the part of {ways} ways")
    }

    /// Forgets threads that ended or left. An LLC is whole again where nobody is left in its parts.
    pub(super) fn forget_gone(&mut self, view: &View<'_>, plan: &mut Plan) {
        self.programs.retain(|id, _| view.thread(*id).is_some());
        self.asked.forget_left(view, |_| true);
        for parts in &mut self.decided.0 {
            *parts = present(std::mem::take(parts), view);
        }
        for llc in 0..self.asked.0.len() {
            if self.asked.of(llc).is_empty() {
                continue;
            }
            let parts = present(std::mem::take(&mut self.asked.0[llc]), view);
            if parts.is_empty() {
                self.decided.set(llc, Vec::new());
                let reason = format!("LLC {llc} whole: nobody is left in its parts");
                plan.push(Action::Partition { llc, parts: Vec::new() }, reason);
            }
            self.asked.set(llc, parts);
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

/// Adds a thread that no decision is about to one of the parts of its LLC: that of the ways it had before, if no other
/// part has any of these; else that of another thread of its process; else the widest. What such a thread uses of a
/// cache is little while it sleeps, and the next decision is about it once it does not.
fn shelter(parts: &mut Vec<CachePart>, thread: &ThreadView, before: u64, view: &View<'_>) {
    if before != 0 && parts.iter().all(|part| part.mask & before == 0) {
        let place = parts.partition_point(|part| part.mask < before);
        parts.insert(place, CachePart { mask: before, threads: vec![thread.id] });
        return;
    }
    let is_own = |id: &ThreadId| view.thread(*id).is_some_and(|one| one.process == thread.process);
    let of_before = parts.iter().position(|part| part.mask == before);
    let of_process = || parts.iter().position(|part| part.threads.iter().any(is_own));
    let widest = || (0..parts.len()).rev().max_by_key(|&place| parts[place].mask.count_ones());
    if let Some(place) = of_before.or_else(of_process).or_else(widest) {
        parts[place].threads.push(thread.id);
        parts[place].threads.sort_unstable();
    }
}
