//! Threads spread by intensity over the machine's tree: the centralized sort of Blagodurov et al.,
//! TOCS 2010, section 4.1, and how its result is reached with few moves. What DI, DIO and their
//! kin have in common; they differ in where the miss rates come from.

mod matching;
mod memory;
mod relabel;
mod sort;
mod tree;
mod words;

use std::sync::Arc;

use corun_machine::{CpuId, CpuSet, Machine};

use crate::{Plan, ThreadView, View};
pub(crate) use memory::Memory;
use tree::Tree;

/// The threads of a view that can be placed, most intensive first, and the tree they go onto.
pub(crate) struct Spread<'a> {
    view: &'a View<'a>,
    tree: Arc<Tree>,
    items: Vec<Item>,
}

/// A thread to be placed. "Leaf" is a place in [`Tree::cpus`].
#[derive(Debug, Clone)]
struct Item {
    /// Place in the view's threads.
    thread: usize,
    /// Misses per 1000 instructions; none when not known yet.
    mpki: Option<f64>,
    /// The leaves it may use, ascending; none: all. Items that may use the same share one list.
    leaves: Option<Arc<[usize]>>,
    /// The leaf it is held on, or runs on or ran on last.
    at: Option<usize>,
    /// Items of one class have the same miss rate and may use the same leaves: which of them sits
    /// where makes no difference.
    class: usize,
    /// Is it to have an LLC without another such?
    apart: bool,
}

/// A leaf for each item, in the order of the items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places(Vec<usize>);

impl<'a> Spread<'a> {
    /// Sorts the threads by miss rate (`mpki`, in the order of the view's threads), highest first,
    /// those not known last, ties by thread id. Threads that may not run everywhere go before the
    /// others, those with the fewest CPUs first: else the place that they are bound to may be
    /// taken while other CPUs are free. Threads that may run on no CPU of the machine are left out.
    pub(crate) fn new(view: &'a View<'a>, mpki: &[Option<f64>], memory: &mut Memory) -> Self {
        Self::within(view, mpki, |thread| &view.threads[thread].may_run_on, memory)
    }

    /// The same with CPUs for each thread (its place in the view) that are all of those that it may
    /// run on, or fewer.
    pub(crate) fn within<'c>(
        view: &'a View<'a>,
        mpki: &[Option<f64>],
        cpus: impl Fn(usize) -> &'c CpuSet,
        memory: &mut Memory,
    ) -> Self {
        let usable = usable_cpus(view, &cpus);
        let tree = memory.tree(view.machine, &usable);
        let order = memory.order(view.threads.len().min(mpki.len()));
        let mut items = Vec::with_capacity(order.len());
        for &index in order.iter().filter(|&&index| !cpus(index).is_disjoint(&usable)) {
            items.push(Item {
                thread: index,
                mpki: mpki[index].filter(|mpki| mpki.is_finite()),
                leaves: (!usable.is_subset(cpus(index))).then(|| memory.leaves_of(cpus(index))),
                at: place_now(&view.threads[index]).and_then(|cpu| tree.leaf(cpu)),
                class: 0,
                apart: false,
            });
        }
        let width = |item: &Item| item.leaves.as_ref().map_or(usize::MAX, |leaves| leaves.len());
        let rate = |item: &Item| item.mpki.unwrap_or(f64::NEG_INFINITY);
        // Ties are in the order of the view, which is that of the ids.
        items.sort_by(|one, other| {
            let by_rate = || rate(other).total_cmp(&rate(one));
            width(one).cmp(&width(other)).then_with(by_rate).then(one.thread.cmp(&other.thread))
        });
        memory.note_order(order, &items);
        classify(&mut items);
        Self { view, tree, items }
    }

    /// Keeps the threads (by place in the view) of which this is true on different LLCs, as far as there are LLCs. It must
    /// be true of all threads of a miss rate or of none.
    pub(crate) fn keeping_apart(mut self, apart: impl Fn(usize) -> bool) -> Self {
        for item in &mut self.items {
            item.apart = apart(item.thread);
        }
        self
    }

    /// Where the sort puts each thread (algorithms 1 and 2), with identical containers and CPUs
    /// exchanged so that as few threads as possible leave the CPU where they are.
    /// `memory`: the one that the spread was made with.
    pub(crate) fn sorted(&self, memory: &mut Memory) -> Places {
        memory.sorted(&self.items, || {
            let sorted = self.sorted_as_printed();
            Places(relabel::keep_in_place(&self.tree, &self.items, &sorted.0))
        })
    }

    /// Where the sort puts each thread, wherever they are now.
    fn sorted_as_printed(&self) -> Places {
        Places(sort::distribute(&self.tree, &self.items))
    }

    /// Threads that have a place keep it; each of the others gets the emptiest one.
    pub(crate) fn arrived(&self) -> Places {
        Places(sort::fill(&self.tree, &self.items))
    }

    /// Where all threads are; none while one of them has no place.
    pub(crate) fn unchanged(&self) -> Option<Places> {
        let at = |item: &Item| item.at.filter(|leaf| item.may_use(*leaf));
        self.items.iter().map(at).collect::<Option<Vec<usize>>>().map(Places)
    }

    /// The highest sum of the miss rates (MPKI) of the threads on one LLC.
    pub(crate) fn heaviest_llc_mpki(&self, places: &Places) -> f64 {
        let mut sums = vec![0.0; self.view.machine.llcs().len()];
        for (item, &leaf) in self.items.iter().zip(&places.0) {
            sums[self.tree.llc(leaf)] += item.mpki.unwrap_or(0.0);
        }
        sums.into_iter().fold(0.0, f64::max)
    }

    /// Misses per 1000 instructions of others that each miss meets on its LLC, the mean over all misses. By
    /// instructions and not by time: who suffers most is slow, and misses seldom.
    pub(crate) fn competing_mpki(&self, places: &Places) -> f64 {
        let each: Vec<f64> = self.items.iter().map(|item| item.mpki.unwrap_or(0.0)).collect();
        let mut sums = vec![0.0; self.view.machine.llcs().len()];
        for (mpki, &leaf) in each.iter().zip(&places.0) {
            sums[self.tree.llc(leaf)] += mpki;
        }
        let all: f64 = sums.iter().sum();
        let met = |(mpki, &leaf): (&f64, &usize)| mpki * (sums[self.tree.llc(leaf)] - mpki);
        if all > 0.0 { each.iter().zip(&places.0).map(met).sum::<f64>() / all } else { 0.0 }
    }

    /// Instructions a second of all threads together, as far as they were counted.
    pub(crate) fn instructions_per_s(&self) -> f64 {
        self.items.iter().filter_map(|item| self.view_of(item).rates.instructions_per_s).sum()
    }

    /// Bytes that threads which change their LLC fetch anew: an even share of the new one each.
    pub(crate) fn refilled_bytes(&self, from: &Places, to: &Places) -> f64 {
        let llcs = self.view.machine.llcs();
        let mut threads = vec![0.0; llcs.len()];
        to.0.iter().for_each(|&leaf| threads[self.tree.llc(leaf)] += 1.0);
        let moved = from.0.iter().zip(&to.0).filter_map(|(&from, &to)| {
            let llc = self.tree.llc(to);
            let size = llcs[llc].cache.map_or(0, |cache| cache.size_bytes) as f64;
            (self.tree.llc(from) != llc).then(|| size / threads[llc])
        });
        moved.sum()
    }

    /// What has to be done so that the threads are held on these places: nothing for those that
    /// are. `measure` says in the reasons what the figure is: "MPKI solo".
    pub(crate) fn plan(&self, places: &Places, measure: &str) -> Plan {
        words::plan_for(self, places, measure, |_| true)
    }

    /// As [`Spread::plan`], for the threads alone that have no place yet.
    pub(crate) fn plan_for_newcomers(&self, places: &Places, measure: &str) -> Plan {
        words::plan_for(self, places, measure, |item| item.at.is_none())
    }

    fn view_of(&self, item: &Item) -> &ThreadView {
        &self.view.threads[item.thread]
    }
}

impl Item {
    fn may_use(&self, leaf: usize) -> bool {
        self.leaves.as_ref().is_none_or(|leaves| leaves.binary_search(&leaf).is_ok())
    }

    /// Does the other count as the same at the same place of the order? The miss rate itself does
    /// not matter, nor whose it is.
    fn sorts_as(&self, other: &Self) -> bool {
        self.class == other.class
            && self.apart == other.apart
            && self.at == other.at
            && self.leaves == other.leaves
    }
}

/// The on-line CPUs that at least one thread may run on: fewer than the machine's in a container's cpuset.
pub(crate) fn usable_cpus<'c>(view: &View<'_>, cpus: impl Fn(usize) -> &'c CpuSet) -> CpuSet {
    let online = view.machine.cpu_set();
    if (0..view.threads.len()).any(|thread| online.is_subset(cpus(thread))) {
        return online;
    }
    let sets = (0..view.threads.len()).map(cpus);
    sets.fold(CpuSet::new(), |all, cpus| all.union(cpus)).intersection(&online)
}

/// The cores that have at least one of these CPUs.
pub(crate) fn cores_with(machine: &Machine, cpus: &CpuSet) -> usize {
    machine.cores().iter().filter(|core| !core.cpus.is_disjoint(cpus)).count()
}

/// The one CPU on which a thread may run; none where it may run on several.
pub(crate) fn held_on(thread: &ThreadView) -> Option<CpuId> {
    thread.allowed.first().filter(|_| thread.allowed.len() == 1)
}

fn place_now(thread: &ThreadView) -> Option<CpuId> {
    held_on(thread).or(thread.cpu)
}

/// Numbers the classes. Items of one class are neighbours, but for other bound sets of the same
/// size between them.
fn classify(items: &mut [Item]) {
    for index in 0..items.len() {
        let (before, rest) = items.split_at_mut(index);
        let item = &mut rest[0];
        let size = |leaves: &Option<Arc<[usize]>>| leaves.as_ref().map(|leaves| leaves.len());
        let same = before
            .iter()
            .rev()
            .take_while(|one| one.mpki == item.mpki && size(&one.leaves) == size(&item.leaves))
            .find(|one| one.leaves == item.leaves);
        item.class = same.map_or(index, |one| one.class);
    }
}

#[cfg(test)]
mod tests;
