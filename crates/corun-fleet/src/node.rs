//! A node and who runs on it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::kind::{NodeKind, Prediction};
use crate::objective::{Cost, Objective};
use crate::threads::Threads;
use crate::workload::Workload;

/// A placed program: index in the list of all that ever asked.
pub type PodId = usize;

/// A program on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// Who.
    pub pod: PodId,
    /// Its workload.
    pub workload: usize,
    /// Its program.
    pub program: usize,
    /// Its CPUs, indices of the node's machine.
    pub cpus: Vec<u32>,
    /// Mean slowdown of its threads.
    pub slowdown: f64,
    /// The worst of its threads'.
    pub worst: f64,
}

/// A node and who runs on it.
#[derive(Debug, Clone)]
pub struct Node {
    /// The name shown.
    pub name: String,
    /// Index of its kind.
    pub kind: usize,
    /// Who runs there, in the order of arrival.
    pub residents: Vec<Resident>,
    pub(crate) free_by_llc: Vec<u32>,
    /// CPUs that are given out.
    cpus: u32,
    /// Those of them that nobody has.
    free_cpus: u32,
    taken: Vec<bool>,
    free_memory_mib: Option<u64>,
    cost: Cost,
    threads: Threads,
    /// No other state of any node has it: who runs there since when nobody came or went.
    pub(crate) state: u64,
}

/// Numbers for [`Node::state`].
static STATES: AtomicU64 = AtomicU64::new(1);

fn next_state() -> u64 {
    STATES.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    /// An empty node.
    pub fn new(name: String, kind_index: usize, kind: &NodeKind) -> Self {
        Self {
            name,
            kind: kind_index,
            residents: Vec::new(),
            free_by_llc: kind.seats().iter().map(|llc| llc.len() as u32).collect(),
            cpus: kind.cpus(),
            free_cpus: kind.cpus(),
            taken: vec![false; kind.machine().cpus().len()],
            free_memory_mib: kind.memory_mib(),
            cost: Cost::default(),
            threads: Threads::none(kind.seats().len()),
            state: next_state(),
        }
    }

    /// CPUs that nobody has.
    pub fn free_cpus(&self) -> u32 {
        self.free_cpus
    }

    /// CPUs that are taken.
    pub fn threads(&self) -> u32 {
        self.cpus - self.free_cpus
    }

    /// Share of its CPUs that is taken.
    pub(crate) fn taken_share(&self) -> f64 {
        1.0 - f64::from(self.free_cpus) / f64::from(self.cpus)
    }

    /// What those who run there cost.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Why a workload cannot run there; none where it can.
    pub fn obstacle(&self, workload: usize, workloads: &[Workload]) -> Option<Obstacle> {
        let asked = &workloads[workload];
        if asked.cpus > self.free_cpus() {
            return Some(Obstacle::Cpus);
        }
        if self.free_memory_mib.is_some_and(|free| asked.memory_mib > free) {
            return Some(Obstacle::Memory);
        }
        if let Some(most) = asked.most_per_node {
            let here = self.residents.iter().filter(|one| one.workload == workload).count();
            if here >= most as usize {
                return Some(Obstacle::Spread);
            }
        }
        let never = &asked.never_beside;
        let meets = || self.residents.iter().any(|one| never.contains(&one.workload));
        (!never.is_empty() && meets()).then_some(Obstacle::NeverBeside)
    }

    /// CPUs for so many threads, from these LLCs in this order.
    pub(crate) fn cpus_from(
        &self,
        kind: &NodeKind,
        count: u32,
        llcs: impl Iterator<Item = usize>,
    ) -> Vec<u32> {
        let free = llcs
            .flat_map(|llc| &kind.seats()[llc])
            .copied()
            .filter(|&cpu| !self.taken[cpu as usize]);
        free.take(count as usize).collect()
    }

    /// CPUs as Linux gives them to threads that nobody places: each on the LLC with the most idle ones.
    pub(crate) fn cpus_as_linux(&self, kind: &NodeKind, count: u32) -> Vec<u32> {
        let mut free = self.free_by_llc.clone();
        let mut from = vec![0usize; free.len()];
        for _ in 0..count {
            // Of equal LLCs the first.
            let most = (0..free.len()).max_by_key(|&llc| (free[llc], std::cmp::Reverse(llc)));
            let llc = most.expect("a machine has an LLC");
            free[llc] = free[llc].saturating_sub(1);
            from[llc] += 1;
        }
        let of_llc =
            |(llc, count): (usize, usize)| self.cpus_from(kind, count as u32, std::iter::once(llc));
        from.into_iter().enumerate().flat_map(of_llc).collect()
    }

    /// Predicts the threads there with some changed.
    fn predict_if(
        &self,
        kind: &NodeKind,
        change: impl FnOnce(&mut Threads),
        prediction: &mut Prediction,
    ) {
        let mut threads = std::mem::take(&mut prediction.threads);
        threads.clone_from(&self.threads);
        change(&mut threads);
        threads.divide(kind, prediction);
        threads.couple(kind, prediction);
        prediction.threads = threads;
    }

    /// Slowdowns of the threads there with a program more, the newcomer's last.
    pub(crate) fn slowdowns_with<'a>(
        &self,
        kind: &NodeKind,
        (program, cpus): (usize, &[u32]),
        prediction: &'a mut Prediction,
    ) -> impl Iterator<Item = f64> + use<'a> {
        self.predict_if(kind, |threads| threads.add(kind, program, cpus), prediction);
        prediction.slowdowns()
    }

    /// What all would cost with a program more, and the newcomer's own part.
    pub(crate) fn with_newcomer(
        &self,
        kind: &NodeKind,
        objective: Objective,
        newcomer: (usize, &[u32]),
        prediction: &mut Prediction,
    ) -> (Cost, Cost) {
        let before = self.threads.len();
        let mut all = Cost::default();
        let mut own = Cost::default();
        for (index, slowdown) in self.slowdowns_with(kind, newcomer, prediction).enumerate() {
            all = all.with(objective, slowdown);
            if index >= before {
                own = own.with(objective, slowdown);
            }
        }
        (all, own)
    }

    /// Would somebody there be slower than his bound with a program more? `bounds` are by resident; none is anybody's.
    pub(crate) fn breaks_a_bound(
        &self,
        kind: &NodeKind,
        newcomer: (usize, &[u32]),
        bounds: &[f64],
        prediction: &mut Prediction,
    ) -> bool {
        if bounds.iter().all(|bound| bound.is_infinite()) {
            return false;
        }
        let mut slowdowns = self.slowdowns_with(kind, newcomer, prediction);
        self.residents.iter().zip(bounds).any(|(one, &bound)| {
            slowdowns.by_ref().take(one.cpus.len()).fold(0.0, f64::max) > bound
        })
    }

    /// Places of a resident's threads among all threads there.
    fn places(&self, resident: usize) -> std::ops::Range<usize> {
        let first = self.residents[..resident].iter().map(|one| one.cpus.len()).sum();
        first..first + self.residents[resident].cpus.len()
    }

    /// What all others would cost without a program.
    pub(crate) fn without(
        &self,
        kind: &NodeKind,
        objective: Objective,
        pod: PodId,
        prediction: &mut Prediction,
    ) -> Cost {
        let resident = self.residents.iter().position(|one| one.pod == pod);
        let change = |threads: &mut Threads| {
            if let Some(resident) = resident {
                threads.remove(self.places(resident));
            }
        };
        self.predict_if(kind, change, prediction);
        prediction
            .slowdowns()
            .fold(Cost::default(), |cost, slowdown| cost.with(objective, slowdown))
    }

    /// Puts a program on CPUs of the node; [`Self::predict`] says what it does there.
    pub(crate) fn insert(&mut self, kind: &NodeKind, resident: Resident, memory_mib: u64) {
        for &cpu in &resident.cpus {
            debug_assert!(!self.taken[cpu as usize]);
            self.taken[cpu as usize] = true;
            self.free_by_llc[kind.machine().cpus()[cpu as usize].llc] -= 1;
        }
        self.free_cpus -= resident.cpus.len() as u32;
        self.free_memory_mib = self.free_memory_mib.map(|free| free - memory_mib);
        self.threads.add(kind, resident.program, &resident.cpus);
        self.residents.push(resident);
        self.state = next_state();
    }

    /// Takes a program away and predicts those who stay anew.
    pub(crate) fn remove(
        &mut self,
        kind: &NodeKind,
        objective: Objective,
        pod: PodId,
        memory_mib: u64,
        prediction: &mut Prediction,
    ) -> Option<Resident> {
        let at = self.residents.iter().position(|one| one.pod == pod)?;
        self.threads.remove(self.places(at));
        let gone = self.residents.remove(at);
        self.state = next_state();
        for &cpu in &gone.cpus {
            self.taken[cpu as usize] = false;
            self.free_by_llc[kind.machine().cpus()[cpu as usize].llc] += 1;
        }
        self.free_cpus += gone.cpus.len() as u32;
        self.free_memory_mib = self.free_memory_mib.map(|free| free + memory_mib);
        self.predict(kind, objective, prediction);
        Some(gone)
    }

    /// Predicts those who run there.
    pub(crate) fn predict(
        &mut self,
        kind: &NodeKind,
        objective: Objective,
        prediction: &mut Prediction,
    ) {
        self.threads.divide(kind, prediction);
        self.threads.couple(kind, prediction);
        let mut slowdowns = prediction.slowdowns();
        self.cost = Cost::default();
        for one in &mut self.residents {
            let threads = one.cpus.len();
            let (mut sum, mut worst) = (0.0, 0.0_f64);
            for slowdown in slowdowns.by_ref().take(threads) {
                self.cost = self.cost.with(objective, slowdown);
                sum += slowdown;
                worst = worst.max(slowdown);
            }
            (one.slowdown, one.worst) = (sum / threads as f64, worst);
        }
    }
}

/// Why a workload cannot run on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// Too few free CPUs.
    Cpus,
    /// Too little free memory.
    Memory,
    /// As many of the workload there as may be.
    Spread,
    /// Somebody there whom it must not run beside.
    NeverBeside,
    /// A bound on slowdown would be broken.
    SlowdownBound,
}

impl Obstacle {
    /// As a sentence without its end, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cpus => "too few CPUs are free",
            Self::Memory => "too little memory is free",
            Self::Spread => "there are as many of this program as may share a node",
            Self::NeverBeside => "a program runs that this one must never run beside",
            Self::SlowdownBound => "a bound on slowdown would be broken",
        }
    }
}
