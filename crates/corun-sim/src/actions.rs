//! Actions carried out on the simulated machine.

use corun_machine::{CpuId, CpuSet};
use corun_policy::{Action, CachePart, Nanoseconds, ThreadId};

use crate::engine::Engine;
use crate::error::ActionError;
use crate::observation::weight_of_nice;
use crate::slots::SlotOrder;
use crate::thread::{Mask, State};
use crate::timers::Timer;

const PAGE_BYTES: f64 = 4096.0;

impl Engine<'_> {
    /// Puts threads that lost their CPU into another's queue, in the order of threads.
    pub(crate) fn place_displaced(&mut self) {
        let slots = 0..self.threads.len();
        let mut displaced: Vec<usize> =
            slots.filter(|&slot| self.threads[slot].state == State::Displaced).collect();
        displaced.sort_by_key(|&slot| self.threads[slot].id);
        for slot in displaced {
            let cpu = self.idlest_first(slot);
            self.put(slot, cpu);
        }
    }

    /// Carries out an action; false where all was already as asked.
    pub(crate) fn act(&mut self, policy: usize, action: &Action) -> Result<bool, ActionError> {
        match action {
            Action::Allow { thread, cpus } => self.allow(*thread, cpus),
            Action::Swap { first, second } => self.swap(*first, *second),
            Action::Partition { llc, parts } => self.partition(policy, *llc, parts),
            Action::CapBandwidth { threads, mb_per_s } => self.cap(threads, *mb_per_s),
            Action::MovePages { thread, node } => self.move_pages(*thread, *node),
            Action::IdleCpu { cpu, duration } => self.idle_cpu(*cpu, *duration),
            Action::SetWeight { thread, weight, until } => {
                self.set_weight(*thread, *weight, *until)
            }
            Action::OrderSlots { cpu, threads, slot } => self.order_slots(*cpu, threads, *slot),
        }
    }

    fn slot_of(&self, id: ThreadId) -> Result<usize, ActionError> {
        let present = |thread: &crate::thread::Thread| thread.id == id && thread.is_present();
        self.threads.iter().position(present).ok_or(ActionError::UnknownThread(id))
    }

    fn cpu_of(&self, id: CpuId) -> Result<usize, ActionError> {
        self.machine.cpu_index(id).ok_or(ActionError::UnknownCpu(id.0))
    }

    /// The mask of a set of CPUs that a thread may be held on.
    fn within(&self, slot: usize, cpus: &CpuSet) -> Result<Mask, ActionError> {
        let thread = &self.threads[slot];
        if cpus.is_empty() {
            return Err(ActionError::Nowhere(thread.id));
        }
        let mask = self.mask(cpus);
        if mask.count_ones(..) == cpus.len() && mask.is_subset(&thread.user) {
            return Ok(mask);
        }
        Err(ActionError::Outside {
            thread: thread.id,
            asked: cpus.to_string(),
            may_run_on: self.cpu_set(&thread.user).to_string(),
        })
    }

    fn allow(&mut self, id: ThreadId, cpus: &CpuSet) -> Result<bool, ActionError> {
        let slot = self.slot_of(id)?;
        let mask = self.within(slot, cpus)?;
        if self.threads[slot].allowed == mask {
            return Ok(false);
        }
        let stays = mask.contains(self.threads[slot].cpu);
        self.threads[slot].allowed = mask;
        self.loads_changed = true;
        if !stays && self.threads[slot].is_runnable() {
            self.take(slot, State::Displaced);
        }
        Ok(true)
    }

    /// Each is held where the other was and goes to its CPU at once. Threads with the same set
    /// exchange nothing by it: they are held on each other's CPU alone.
    fn swap(&mut self, first: ThreadId, second: ThreadId) -> Result<bool, ActionError> {
        let (first, second) = (self.slot_of(first)?, self.slot_of(second)?);
        if first == second {
            return Ok(false);
        }
        let same = self.threads[first].allowed == self.threads[second].allowed;
        let place = |slot: usize| {
            let thread = &self.threads[slot];
            if same {
                CpuSet::from_iter([self.machine.cpus()[thread.cpu].id])
            } else {
                self.cpu_set(&thread.allowed)
            }
        };
        let to_first = self.within(first, &place(second))?;
        let to_second = self.within(second, &place(first))?;
        let cpus = (self.threads[second].cpu, self.threads[first].cpu);
        for (slot, mask, cpu) in [(first, to_first, cpus.0), (second, to_second, cpus.1)] {
            self.threads[slot].allowed = mask;
            if !self.threads[slot].is_runnable() {
                // It wakes there.
                let lag =
                    self.threads[slot].vruntime - self.cpus[self.threads[slot].cpu].min_vruntime;
                self.threads[slot].vruntime = self.cpus[cpu].min_vruntime + lag;
                self.threads[slot].cpu = cpu;
            } else if self.threads[slot].allowed.contains(cpu) {
                self.take(slot, State::Displaced);
                self.put(slot, cpu);
            } else {
                self.take(slot, State::Displaced);
            }
        }
        Ok(true)
    }

    fn partition(
        &mut self,
        policy: usize,
        llc: usize,
        parts: &[CachePart],
    ) -> Result<bool, ActionError> {
        let state = self.parts.llcs.get(llc).ok_or(ActionError::UnknownLlc(llc))?;
        let ways = state.ways.filter(|&ways| ways > 0).ok_or(ActionError::NoWays(llc))?;
        let mut named: Vec<ThreadId> = Vec::new();
        for part in parts {
            let mask = part.mask;
            if mask == 0 || ways < 64 && mask >> ways != 0 {
                return Err(ActionError::Mask { llc, ways, mask });
            }
            for &thread in &part.threads {
                self.slot_of(thread)?;
                if named.contains(&thread) {
                    return Err(ActionError::TwoParts { llc, thread });
                }
                named.push(thread);
            }
        }
        let asked: Vec<(u64, Vec<ThreadId>)> =
            parts.iter().map(|part| (part.mask, part.threads.clone())).collect();
        if self.parts.llcs[llc].asked == asked {
            return Ok(false);
        }
        let threads = &self.threads;
        let slot_of = |id: ThreadId| threads.iter().position(|thread| thread.id == id);
        self.parts.divide(llc, asked, slot_of, policy, self.now);
        Ok(true)
    }

    /// Threads that came to a partitioned LLC and that its policy does not know yet have all its ways, as in
    /// resctrl's root group.
    pub(crate) fn admit_unpartitioned(&mut self) {
        for llc in 0..self.parts.llcs.len() {
            let state = &self.parts.llcs[llc];
            let Some(ways) = state.ways.filter(|_| !state.asked.is_empty()) else { continue };
            let running = state.cpus.iter().filter_map(|&cpu| self.cpus[cpu].running);
            let strangers: Vec<ThreadId> = running
                .map(|slot| self.threads[slot].id)
                .filter(|id| !state.assigned.contains_key(id))
                .collect();
            if strangers.is_empty() {
                continue;
            }
            let all_ways = if ways < 64 { (1 << ways) - 1 } else { u64::MAX };
            let mut asked = state.asked.clone();
            asked.push((all_ways, strangers));
            let (threads, owner) = (&self.threads, state.owner);
            let slot_of = |id: ThreadId| threads.iter().position(|thread| thread.id == id);
            self.parts.divide(llc, asked, slot_of, owner, self.now);
        }
    }

    fn cap(&mut self, threads: &[ThreadId], mb_per_s: Option<f64>) -> Result<bool, ActionError> {
        if let Some(cap) = mb_per_s.filter(|&cap| !(cap.is_finite() && cap > 0.0)) {
            return Err(ActionError::Cap(cap));
        }
        for &thread in threads {
            self.slot_of(thread)?;
        }
        let changed = self.caps.set(threads, mb_per_s.map(|cap| cap * 1e6));
        self.rates.stale |= changed;
        Ok(changed)
    }

    fn move_pages(&mut self, id: ThreadId, node: usize) -> Result<bool, ActionError> {
        let slot = self.slot_of(id)?;
        if node >= self.machine.nodes().len() {
            return Err(ActionError::UnknownNode(node));
        }
        let app = self.threads[slot].app;
        let first = self.apps[app].slots.start;
        let settings = &self.experiment.settings;
        let all_there = || {
            let threads = self.threads[self.apps[app].slots.clone()].iter();
            let mut homes = threads.filter(|one| one.is_present()).filter_map(|one| one.home);
            homes.next() == Some(node) && homes.all(|home| home == node)
        };
        if self.threads[first].pages_to.map_or_else(all_there, |to| to == node) {
            return Ok(false);
        }
        let thread = &mut self.threads[first];
        thread.pages_to = Some(node);
        thread.page_moves += 1;
        let bytes = self.experiment.apps[app].footprint_bytes.unwrap_or(settings.footprint_bytes);
        let seconds = bytes as f64 / PAGE_BYTES / settings.pages_per_s;
        let at = self.now + Nanoseconds::from_secs_f64(seconds).0.max(1);
        self.timers.set(at, Timer::PagesMoved(first, thread.page_moves));
        Ok(true)
    }

    /// All pages of a process have arrived on their new node.
    pub(crate) fn pages_moved(&mut self, first: usize, moves: u64) {
        if self.threads[first].page_moves != moves {
            return;
        }
        let Some(node) = self.threads[first].pages_to.take() else { return };
        for slot in self.apps[self.threads[first].app].slots.clone() {
            self.threads[slot].home = Some(node);
        }
        self.rates.stale = true;
    }

    fn idle_cpu(&mut self, id: CpuId, duration: Nanoseconds) -> Result<bool, ActionError> {
        let cpu = self.cpu_of(id)?;
        if duration.0 == 0 {
            return Err(ActionError::Length("idle time"));
        }
        let until = self.now.saturating_add(duration.0);
        self.cpus[cpu].blocked_until = until;
        self.loads_changed = true;
        self.cpus[cpu].resched = true;
        self.timers.set(until, Timer::IdleEnds(cpu));
        Ok(true)
    }

    fn set_weight(
        &mut self,
        id: ThreadId,
        weight: f64,
        until: Option<Nanoseconds>,
    ) -> Result<bool, ActionError> {
        let slot = self.slot_of(id)?;
        if !(weight.is_finite() && weight > 0.0) {
            return Err(ActionError::Weight(weight));
        }
        let weight = match &self.watched.observer {
            Some(_) => weight_of_nice(weight),
            None => weight,
        };
        let thread = &mut self.threads[slot];
        let changed = thread.weight != weight;
        self.loads_changed = true;
        thread.account(self.now);
        thread.weight = weight;
        thread.weight_changes += 1;
        if let Some(until) = until {
            let at = until.0.max(self.now);
            self.timers.set(at, Timer::WeightEnds(slot, thread.weight_changes));
        }
        Ok(changed)
    }

    /// A weight that was set for a time has expired.
    pub(crate) fn weight_ends(&mut self, slot: usize, change: u64) {
        let thread = &mut self.threads[slot];
        if thread.weight_changes == change {
            thread.account(self.now);
            thread.weight = thread.base_weight;
        }
    }

    fn order_slots(
        &mut self,
        id: CpuId,
        threads: &[ThreadId],
        slot_length: Nanoseconds,
    ) -> Result<bool, ActionError> {
        let cpu = self.cpu_of(id)?;
        if threads.is_empty() {
            self.cpus[cpu].resched = true;
            return Ok(self.cpus[cpu].order.take().is_some());
        }
        if slot_length.0 == 0 {
            return Err(ActionError::Length("a slot"));
        }
        let slots: Vec<usize> =
            threads.iter().map(|&thread| self.slot_of(thread)).collect::<Result<_, _>>()?;
        let here = CpuSet::from_iter([id]);
        for &slot in &slots {
            self.within(slot, &here)?;
        }
        for &thread in threads {
            self.allow(thread, &here)?;
        }
        let known = self.cpus[cpu].order.as_ref();
        if known.is_some_and(|order| order.is_of(threads, slot_length.0)) {
            return Ok(false);
        }
        let ran = |&slot: &usize| self.threads[slot].counted(self.now).cpu_ns;
        let cpu_ns = slots.iter().map(ran).collect();
        self.cpus[cpu].order = Some(SlotOrder::new(threads, slot_length.0, self.now, cpu_ns));
        self.cpus[cpu].resched = true;
        Ok(true)
    }
}
