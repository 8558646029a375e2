//! Who is on which side of the machine: new threads placed, sides balanced, threads swapped. Within a
//! side the host's own scheduler balances, as in the thesis (section 4.3.1).

use corun_machine::CpuSet;

use super::{Cores, Side};
use crate::placement::spread::usable_cpus;
use crate::{Action, Plan, ThreadState, ThreadView, View};

/// Both sides while a plan is made. Each thread moves at most once in a plan.
pub(crate) struct Sides<'a> {
    pub(crate) threads: &'a [ThreadView],
    pub(crate) cores: &'a Cores,
    /// By thread its side; none for one that is new, or that its user keeps off all CPUs.
    side: Vec<Option<Side>>,
    /// May it be on both sides?
    free: Vec<bool>,
    moved: Vec<bool>,
    /// CPUs of the big side and of the small one that somebody may use.
    cpus: [usize; 2],
    /// Runnable threads of the big side and of the small one.
    runnable: [usize; 2],
    pub(crate) plan: Plan,
}

impl<'a> Sides<'a> {
    pub(crate) fn new(view: &View<'a>, cores: &'a Cores) -> Self {
        let threads = view.threads;
        let usable = usable_cpus(view, |thread| &threads[thread].may_run_on);
        let mut sides = Self {
            threads,
            cores,
            side: Vec::with_capacity(threads.len()),
            free: Vec::with_capacity(threads.len()),
            moved: vec![false; threads.len()],
            cpus: [&cores.big, &cores.small].map(|side| side.intersection(&usable).len()),
            runnable: [0; 2],
            plan: Plan::none(),
        };
        for thread in threads {
            let on_big = !thread.may_run_on.is_disjoint(&cores.big);
            let on_small = !thread.may_run_on.is_disjoint(&cores.small);
            let side = match (on_big, on_small) {
                (true, true) if thread.allowed.is_subset(&cores.big) => Some(Side::Big),
                (true, true) if thread.allowed.is_subset(&cores.small) => Some(Side::Small),
                (true, true) | (false, false) => None,
                (true, false) => Some(Side::Big),
                (false, true) => Some(Side::Small),
            };
            if let (Some(side), true) = (side, is_runnable(thread)) {
                sides.runnable[side as usize] += 1;
            }
            sides.side.push(side);
            sides.free.push(on_big && on_small);
        }
        sides
    }

    pub(crate) fn side(&self, thread: usize) -> Option<Side> {
        self.side[thread]
    }

    /// Does its user let it be on both sides?
    pub(crate) fn is_free(&self, thread: usize) -> bool {
        self.free[thread]
    }

    fn cpus(&self, side: Side) -> usize {
        self.cpus[side as usize]
    }

    /// Runnable threads for each CPU of a side, rounded down and up. On a side without CPUs nobody may be, and there are
    /// none.
    fn load(&self, side: Side) -> (usize, usize) {
        let cpus = self.cpus(side).max(1);
        (self.runnable(side) / cpus, self.runnable(side).div_ceil(cpus))
    }

    fn runnable(&self, side: Side) -> usize {
        self.runnable[side as usize]
    }

    /// Threads that are runnable and on a side, whether they may move or not; by index.
    pub(crate) fn awake_on(&self, side: Side) -> impl Iterator<Item = usize> + '_ {
        (0..self.threads.len())
            .filter(move |&one| self.side[one] == Some(side) && is_runnable(&self.threads[one]))
    }

    /// Of these those that may still move.
    pub(crate) fn movable(&self, side: Side) -> impl Iterator<Item = usize> + '_ {
        self.awake_on(side).filter(|&one| self.free[one] && !self.moved[one])
    }

    /// Of the threads on a side that may still move the one with the highest key, the first of equals.
    pub(crate) fn highest(&self, side: Side, key: impl Fn(usize) -> f64) -> Option<usize> {
        self.movable(side).reduce(
            |best, next| {
                if key(next).total_cmp(&key(best)).is_gt() { next } else { best }
            },
        )
    }

    fn place(&self, thread: usize, side: Side) -> CpuSet {
        self.threads[thread].may_run_on.intersection(self.cores.cpus(side))
    }

    /// Holds a thread on these CPUs, which are all of one side.
    pub(crate) fn hold(
        &mut self,
        thread: usize,
        side: Side,
        cpus: CpuSet,
        why: impl FnOnce() -> String,
    ) {
        let one = &self.threads[thread];
        if is_runnable(one) {
            if let Some(before) = self.side[thread] {
                self.runnable[before as usize] -= 1;
            }
            self.runnable[side as usize] += 1;
        }
        self.side[thread] = Some(side);
        self.moved[thread] = true;
        if one.allowed != cpus {
            self.plan.push(Action::Allow { thread: one.id, cpus }, why());
        }
    }

    /// It stays where it is in this plan.
    pub(crate) fn keep(&mut self, thread: usize) {
        self.moved[thread] = true;
    }

    pub(crate) fn put(&mut self, thread: usize, side: Side, why: String) {
        let cpus = self.place(thread, side);
        self.hold(thread, side, cpus, || why);
    }

    /// Two threads of different sides change places.
    pub(crate) fn swap(&mut self, big: usize, small: usize, why: String) {
        let (on_big, on_small) = (&self.threads[big], &self.threads[small]);
        let (to_small, to_big) = (self.place(big, Side::Small), self.place(small, Side::Big));
        if on_big.allowed == to_big && on_small.allowed == to_small {
            self.plan.push(Action::Swap { first: on_big.id, second: on_small.id }, why);
            for (thread, side) in [(big, Side::Small), (small, Side::Big)] {
                self.side[thread] = Some(side);
                self.moved[thread] = true;
                // Both are runnable, so the sides' numbers stay.
            }
        } else {
            self.hold(big, Side::Small, to_small, || why.clone());
            self.hold(small, Side::Big, to_big, || why);
        }
    }

    /// Gives new threads a side: that of the least loaded CPU, the big one of equals (thesis, section
    /// 4.3.3).
    pub(crate) fn place_new(&mut self) {
        for thread in 0..self.threads.len() {
            if self.side[thread].is_some() || !self.free[thread] {
                continue;
            }
            let least = |side: Side| self.load(side).0;
            let side = if least(Side::Big) <= least(Side::Small) { Side::Big } else { Side::Small };
            let why = format!(
                "{}: new, to the {} cores, where a CPU has {} threads",
                self.threads[thread].program,
                side.words(),
                least(side)
            );
            self.put(thread, side, why);
        }
    }

    /// Fills idle big cores and evens out sides whose CPUs differ by two threads. Who has the higher
    /// claim goes to the big side, who has the lower to the small one.
    pub(crate) fn balance(&mut self, claim: &[f64]) {
        for _ in 0..self.threads.len() {
            let least = |side: Side| self.load(side).0;
            let most = |side: Side| self.load(side).1;
            let idle = self.runnable(Side::Big) < self.cpus(Side::Big);
            let to = if self.runnable(Side::Small) > 0
                && (idle || most(Side::Small) >= least(Side::Big) + 2)
            {
                Side::Big
            } else if most(Side::Big) >= least(Side::Small) + 2 {
                Side::Small
            } else {
                return;
            };
            let sign = if to == Side::Big { 1.0 } else { -1.0 };
            let chosen = self.highest(to.other(), |one| sign * claim[one]);
            let Some(thread) = chosen else { return };
            let why = format!(
                "{}: to the {} cores, where {} threads have {} CPUs, from {} on {}",
                self.threads[thread].program,
                to.words(),
                self.runnable(to),
                self.cpus(to),
                self.runnable(to.other()),
                self.cpus(to.other()),
            );
            self.put(thread, to, why);
        }
    }

    /// Lets threads that are held on a part of their side have all of it.
    pub(crate) fn release(&mut self) {
        for thread in 0..self.threads.len() {
            let (Some(side), true, false) =
                (self.side[thread], self.free[thread], self.moved[thread])
            else {
                continue;
            };
            let one = &self.threads[thread];
            let all = self.cores.cpus(side);
            if all.is_subset(&one.may_run_on) && one.allowed == *all {
                continue;
            }
            let cpus = self.place(thread, side);
            if one.allowed != cpus {
                let why = || format!("{}: all {} cores again", one.program, side.words());
                self.hold(thread, side, cpus, why);
            }
        }
    }

    /// Swaps while progress differs by more than `threshold_ms` (thesis, section 4.3.3): the thread on a
    /// big core that is furthest ahead, with the one that `partner` chooses among those on small cores
    /// that are so far behind it, which come by ascending progress.
    pub(crate) fn even_out(
        &mut self,
        progress_ms: &[f64],
        threshold_ms: f64,
        mut partner: impl FnMut(usize, &[usize]) -> usize,
    ) {
        let mut behind: Vec<usize> = Vec::new();
        loop {
            let Some(ahead) = self.highest(Side::Big, |one| progress_ms[one]) else { return };
            behind.clear();
            behind.extend(
                self.movable(Side::Small)
                    .filter(|&one| progress_ms[ahead] - progress_ms[one] > threshold_ms),
            );
            if behind.is_empty() {
                return;
            }
            behind.sort_by(|&a, &b| progress_ms[a].total_cmp(&progress_ms[b]));
            let chosen = partner(ahead, &behind);
            let why = format!(
                "{} is {:.0} ms of progress ahead of {}, which takes its big core",
                self.threads[ahead].program,
                progress_ms[ahead] - progress_ms[chosen],
                self.threads[chosen].program,
            );
            self.swap(ahead, chosen, why);
        }
    }
}

pub(crate) fn is_runnable(thread: &ThreadView) -> bool {
    thread.state != ThreadState::Sleeping
}
