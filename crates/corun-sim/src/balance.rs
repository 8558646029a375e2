//! Where threads start and wake, and how load is balanced: the kernel's fair scheduler in outline
//! (`kernel/sched/fair.c`: `find_idlest_cpu`, `select_idle_sibling`, `load_balance`,
//! `sched_balance_newidle`). It counts threads and weights, and does not look at contention.

use rand::RngExt;

use crate::engine::Engine;
use crate::thread::{Mask, State};
use crate::timers::{NEVER, Timer};

/// A busy domain balances so much more seldom (`sd->busy_factor`).
const BUSY_FACTOR: u64 = 16;
/// A running thread is moved only after so many vain rounds in a row (`sd->cache_nice_tries` + 2).
const ROUNDS_BEFORE_ACTIVE: u32 = 3;
/// A thread that runs for a larger share of the time does not fit its core (`fits_capacity`: 1024 / 1280).
const MOST_FITTING: f64 = 0.8;
/// How long the time before a thread's start counts: that from which 1/e is left in the kernel's mean of utilisation, whose
/// half-life is 32 ms (`kernel/sched/pelt.c`).
const NEW_THREAD_NS: f64 = 46e6;
/// Loads that differ by less count as equal (`sd->imbalance_pct`, 117 %).
const IMBALANCE: f64 = 1.17;

/// The load of a group of CPUs.
#[derive(Debug, Clone, Copy)]
struct GroupLoad {
    place: usize,
    /// Runnable threads.
    threads: f64,
    /// Their weights.
    weight: f64,
    /// Capacity of the CPUs that may be used.
    capacity: f64,
    waiting: bool,
}

impl Engine<'_> {
    pub(crate) fn mask(&self, cpus: &corun_machine::CpuSet) -> Mask {
        let mut mask = Mask::with_capacity(self.machine.cpus().len());
        for index in cpus.iter().filter_map(|id| self.machine.cpu_index(id)) {
            mask.insert(index);
        }
        mask
    }

    fn capacity(&self, cpu: usize) -> f64 {
        self.machine.core_types()[self.machine.cpus()[cpu].core_type].capacity
    }

    fn is_core_idle(&self, cpu: usize) -> bool {
        let core = &self.machine.cores()[self.machine.cpus()[cpu].core];
        let mut siblings = core.cpus.iter().filter_map(|id| self.machine.cpu_index(id));
        siblings.all(|sibling| self.cpus[sibling].is_free(self.now))
    }

    fn is_blocked(&self, cpu: usize) -> bool {
        self.cpus[cpu].blocked_until > self.now
    }

    /// Where a new thread starts: in the domain with the least threads for its capacity, from the
    /// whole machine down to the CPU; equals are drawn by lot.
    pub(crate) fn idlest(&mut self, slot: usize) -> usize {
        let ties = self.least_loaded(slot);
        match ties.as_slice() {
            [one] => *one,
            _ => ties[self.placing.random_range(0..ties.len())],
        }
    }

    /// As [`Engine::idlest`]; of equals the first. For threads that a plan moves.
    pub(crate) fn idlest_first(&self, slot: usize) -> usize {
        self.least_loaded(slot)[0]
    }

    /// The CPUs that are equally good to start at; at least one.
    fn least_loaded(&self, slot: usize) -> Vec<usize> {
        let allowed = &self.threads[slot].allowed;
        let of_domains: Vec<f64> =
            self.domains.list.iter().map(|domain| self.load_for_capacity(&domain.cpus)).collect();
        // Threads for the capacity in the domains of a CPU, the largest first, then on itself.
        let loads = |cpu: usize| {
            let of_domains = self.domains.above[cpu].iter().rev().map(|&domain| of_domains[domain]);
            of_domains.chain([self.cpus[cpu].load() as f64 / self.capacity(cpu)])
        };
        let mut best: Vec<usize> = Vec::new();
        for cpu in allowed.ones().filter(|&cpu| !self.is_blocked(cpu)) {
            match best.first() {
                Some(&first) if loads(cpu).eq(loads(first)) => best.push(cpu),
                Some(&first) if !loads(cpu).lt(loads(first)) => {}
                _ => {
                    best.clear();
                    best.push(cpu);
                }
            }
        }
        if best.is_empty() {
            // All are held idle: it waits on the first.
            best.extend(allowed.minimum());
        }
        best
    }

    /// Threads for the capacity of the CPUs that are not held idle.
    fn load_for_capacity(&self, cpus: &Mask) -> f64 {
        let usable = || cpus.ones().filter(|&cpu| !self.is_blocked(cpu));
        let threads: usize = usable().map(|cpu| self.cpus[cpu].load()).sum();
        threads as f64 / usable().map(|cpu| self.capacity(cpu)).sum::<f64>()
    }

    /// Where a thread wakes: the CPU that it ran on when that is idle, else an idle one with the
    /// same LLC, on an idle core first, else the CPU that it ran on.
    pub(crate) fn wake_up_cpu(&mut self, slot: usize) -> usize {
        let thread = &self.threads[slot];
        let previous = thread.cpu;
        if !thread.allowed.contains(previous) {
            return self.idlest(slot);
        }
        if self.cpus[previous].is_free(self.now) {
            return previous;
        }
        let llc = self.machine.cpus()[previous].llc;
        let cpus = &self.parts.llcs[llc].cpus;
        let idle = |cpu: &usize| thread.allowed.contains(*cpu) && self.cpus[*cpu].is_free(self.now);
        // The kernel looks around from the CPU that the thread ran on.
        let around = || {
            let after = cpus.iter().filter(|&&cpu| cpu > previous);
            after.chain(cpus.iter().filter(|&&cpu| cpu < previous)).filter(|cpu| idle(cpu))
        };
        around()
            .find(|cpu| self.is_core_idle(**cpu))
            .or_else(|| around().next())
            .copied()
            .unwrap_or(previous)
    }

    /// A CPU that fell idle takes the longest-waiting thread that it may, from near first.
    pub(crate) fn pull(&mut self, cpu: usize) {
        for place in 0..self.domains.above[cpu].len() {
            let domain = self.domains.above[cpu][place];
            let cpus = self.domains.list[domain].cpus.ones();
            let found = self.longest_waiting(cpus, &|slot| {
                self.threads[slot].allowed.contains(cpu) && self.threads[slot].cpu != cpu
            });
            if let Some(slot) = found {
                self.take(slot, State::Displaced);
                self.put(slot, cpu);
                return;
            }
        }
    }

    fn longest_waiting(
        &self,
        cpus: impl Iterator<Item = usize>,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Option<usize> {
        cpus.filter(|&cpu| self.cpus[cpu].order.is_none())
            .flat_map(|cpu| self.cpus[cpu].queue.iter().copied())
            .filter(|&slot| wanted(slot))
            .min_by_key(|&slot| (self.threads[slot].waiting_since, self.threads[slot].id))
    }

    /// How long a domain waits between two rounds: 1 ms a CPU, longer when none is idle.
    fn balance_interval(&self, domain: usize) -> u64 {
        let cpus = &self.domains.list[domain].cpus;
        let idle = cpus.ones().any(|cpu| self.cpus[cpu].is_free(self.now));
        let factor = if idle { 1 } else { BUSY_FACTOR };
        cpus.count_ones(..) as u64 * 1_000_000 * factor
    }

    /// Sets the timers of domains that may have something to balance, when loads have changed.
    pub(crate) fn arm_balancing(&mut self) {
        if !std::mem::take(&mut self.loads_changed) {
            return;
        }
        let waiting = self.cpus.iter().any(|cpu| !cpu.queue.is_empty());
        let idle = self.cpus.iter().any(|cpu| cpu.running.is_none());
        for domain in 0..self.domains.list.len() {
            // Everyone has a CPU and no CPU is left over: nothing to do.
            if !(waiting || idle) || !self.is_uneven(domain) {
                self.domains.list[domain].failed = 0;
                continue;
            }
            let wait = self.balance_interval(domain);
            // A CPU that fell idle since looks sooner.
            if self.domains.list[domain].due <= self.now + wait + 1 {
                continue;
            }
            // A CPU's tick comes at any phase of it.
            let phase: f64 = self.slicing.random();
            let due = self.now + 1 + (wait as f64 * phase) as u64;
            self.domains.list[domain].due = due;
            self.timers.set(due, Timer::Balance(domain));
        }
    }

    /// Could a move make the domain's groups more even?
    fn is_uneven(&self, domain: usize) -> bool {
        let groups = self.group_loads(domain);
        self.to_faster(domain, |_| true).is_some()
            || groups.iter().any(|from| {
                groups.iter().any(|to| {
                    from.place != to.place
                        && (evens(from, to, 1.0, 1.0)
                            || from.waiting && self.idle_cpus(domain, to).next().is_some()
                            || from.waiting && exceeds(from, to))
                })
            })
    }

    fn group_loads(&self, domain: usize) -> Vec<GroupLoad> {
        let groups = self.domains.list[domain].groups.iter().enumerate();
        let load = |(place, cpus): (usize, &Mask)| {
            let mut load =
                GroupLoad { place, threads: 0.0, weight: 0.0, capacity: 0.0, waiting: false };
            for cpu in cpus.ones() {
                let state = &self.cpus[cpu];
                let runnable = state.queue.iter().chain(&state.running);
                load.weight += runnable.map(|&slot| self.threads[slot].weight).sum::<f64>();
                load.threads += state.load() as f64;
                load.waiting |= !state.queue.is_empty() && state.order.is_none();
                if !self.is_blocked(cpu) {
                    load.capacity += self.capacity(cpu);
                }
            }
            load
        };
        groups.map(load).collect()
    }

    fn idle_cpus(&self, domain: usize, group: &GroupLoad) -> impl Iterator<Item = usize> + '_ {
        let cpus = self.domains.list[domain].groups[group.place].ones();
        cpus.filter(|&cpu| self.cpus[cpu].is_free(self.now))
    }

    /// One round of balancing between the groups of a domain: the timer's work.
    pub(crate) fn balance(&mut self, domain: usize) {
        if self.domains.list[domain].due != self.now {
            return;
        }
        self.domains.list[domain].due = NEVER;
        self.loads_changed = true;
        // Each move lessens an imbalance; the bound is for safety alone.
        for _ in 0..self.threads.len() {
            if !self.balance_once(domain) {
                return;
            }
        }
    }

    fn balance_once(&mut self, domain: usize) -> bool {
        let mut groups = self.group_loads(domain);
        let load = |group: &GroupLoad| group.weight / group.capacity.max(f64::MIN_POSITIVE);
        groups.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.place.cmp(&b.place)));
        let failed = self.domains.list[domain].failed;
        for from in &groups {
            for to in groups.iter().rev().filter(|to| to.place != from.place && to.capacity > 0.0) {
                let active = failed >= ROUNDS_BEFORE_ACTIVE;
                let found = self
                    .to_idle(domain, from, to, active)
                    .or_else(|| self.to_busy(domain, from, to, false));
                if let Some((slot, cpu)) = found {
                    self.domains.list[domain].failed = 0;
                    self.move_now(slot, cpu);
                    return true;
                }
            }
        }
        if let Some((slot, cpu)) = self.to_faster(domain, |slot| self.is_misfit(slot)) {
            self.move_now(slot, cpu);
            return true;
        }
        self.domains.list[domain].failed += 1;
        // As the kernel does after a vain round: a thread that cannot make things even may still
        // change places with the surplus, so that the surplus is not always the same threads'.
        if let (Some(from), Some(to), true) = (groups.first(), groups.last(), failed > 0)
            && exceeds(from, to)
            && let Some((slot, cpu)) = self.to_busy(domain, from, to, true)
        {
            self.domains.list[domain].failed = 0;
            self.move_now(slot, cpu);
        }
        false
    }

    fn move_now(&mut self, slot: usize, cpu: usize) {
        self.take(slot, State::Displaced);
        self.put(slot, cpu);
    }

    /// A thread of `from` for an idle CPU of `to`: a waiting one; if `active`, also a running one
    /// when `from` has at least two more.
    fn to_idle(
        &self,
        domain: usize,
        from: &GroupLoad,
        to: &GroupLoad,
        active: bool,
    ) -> Option<(usize, usize)> {
        let idle: Vec<usize> = self.idle_cpus(domain, to).collect();
        let source = &self.domains.list[domain].groups[from.place];
        for &cpu in &idle {
            let may = |slot: usize| self.threads[slot].allowed.contains(cpu);
            if let Some(slot) = self.longest_waiting(source.ones(), &may) {
                return Some((slot, cpu));
            }
        }
        if !active || !evens(from, to, 1.0, 1.0) {
            return None;
        }
        idle.iter().find_map(|&cpu| {
            let running = source.ones().filter_map(|cpu| self.cpus[cpu].running);
            let mut may = running.filter(|&slot| self.threads[slot].allowed.contains(cpu));
            may.next().map(|slot| (slot, cpu))
        })
    }

    /// A thread that runs on a slower core for an idle core: any under the same LLC (`SD_ASYM_PACKING`, which x86 has where core
    /// types share an LLC: `arch/x86/kernel/itmt.c`), elsewhere one that its core is too slow for (`group_misfit_task`).
    fn to_faster(
        &self,
        domain: usize,
        is_misfit: impl Fn(usize) -> bool,
    ) -> Option<(usize, usize)> {
        if self.machine.core_types().len() < 2 {
            return None;
        }
        let cpus = &self.domains.list[domain].cpus;
        let llc = |cpu: usize| self.machine.cpus()[cpu].llc;
        let idle = cpus.ones().filter(|&cpu| self.is_core_idle(cpu));
        idle.filter_map(|to| {
            let is_slower = |&from: &usize| self.capacity(from) < self.capacity(to);
            let mut moved = cpus.ones().filter(is_slower).filter_map(|from| {
                let slot = self.cpus[from].running?;
                let may = self.threads[slot].allowed.contains(to);
                (may && (llc(from) == llc(to) || is_misfit(slot))).then_some(slot)
            });
            Some((moved.next()?, to))
        })
        .next()
    }

    /// Is a thread awake for most of the time that its core has (`fits_capacity`)? The kernel's mean fades; here it is of the time
    /// since the thread's start, and of the time before, for half of which a new thread counts as awake.
    fn is_misfit(&self, slot: usize) -> bool {
        let thread = &self.threads[slot];
        let there_ns = (self.now - self.records[thread.id.0 as usize].start.0) as f64;
        let awake_ns = there_ns - thread.counted(self.now).idle_ns + 0.5 * NEW_THREAD_NS;
        awake_ns > MOST_FITTING * (there_ns + NEW_THREAD_NS)
    }

    /// A waiting thread of `from` for the least loaded CPU of `to`, if that makes them more even;
    /// `anyway`: also if it makes the surplus change sides.
    fn to_busy(
        &self,
        domain: usize,
        from: &GroupLoad,
        to: &GroupLoad,
        anyway: bool,
    ) -> Option<(usize, usize)> {
        let groups = &self.domains.list[domain].groups;
        let weight = |slot: usize| self.threads[slot].weight;
        let fits = |slot: usize| {
            let surplus = from.weight / from.capacity - to.weight / to.capacity;
            weight(slot) > 0.0
                && (evens(from, to, weight(slot), 0.0)
                    || anyway
                        && weight(slot) / from.capacity.max(to.capacity) <= surplus * (1.0 + 1e-9))
        };
        let target = |slot: usize| {
            let usable = groups[to.place]
                .ones()
                .filter(|&cpu| self.threads[slot].allowed.contains(cpu) && !self.is_blocked(cpu));
            usable.min_by(|&a, &b| {
                let load = |cpu: usize| self.cpus[cpu].load() as f64 / self.capacity(cpu);
                load(a).total_cmp(&load(b)).then(a.cmp(&b))
            })
        };
        let wanted = |slot: usize| fits(slot) && target(slot).is_some();
        let slot = self.longest_waiting(groups[from.place].ones(), &wanted)?;
        Some((slot, target(slot)?))
    }
}

/// Are two groups no less even after a thread has moved? With `threads` 1 threads count, else
/// `weight`s.
fn evens(from: &GroupLoad, to: &GroupLoad, weight: f64, threads: f64) -> bool {
    if from.capacity <= 0.0 {
        return to.capacity > 0.0;
    }
    if threads > 0.0 {
        return (from.threads - 1.0) / from.capacity >= (to.threads + 1.0) / to.capacity;
    }
    (from.weight - weight) / from.capacity >= (to.weight + weight) / to.capacity
}

/// Is one group's load above the other's by more than what counts as equal?
fn exceeds(from: &GroupLoad, to: &GroupLoad) -> bool {
    from.weight * to.capacity > IMBALANCE * to.weight * from.capacity
}
