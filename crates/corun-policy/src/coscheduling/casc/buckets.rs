//! Bucketization (CASC, section 4.3.1): each CPU gets the largest PCMR of a thread that may run on it.
//!
//! All start at the maximum. While their mean is above the threshold, the MAX_PCMR of one CPU is
//! lowered by one: that of the CPU for which this newly restricts the fewest threads (of equals that with the highest
//! MAX_PCMR, the first of several), never of one that is some thread's last. Since a step does not depend on the threshold,
//! a higher threshold only stops sooner.
//!
//! The paper says nothing of equals. With the first CPU it would go on to 0 before any other is touched, so that no
//! threshold but the highest leaves each CPU a thread where many threads are alike. With the highest the CPUs come down
//! together, and the same threads are restricted as in the paper's own example (threshold 5 for the threads of Fig. 4).

/// A thread as bucketization sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    /// Misses per 100 references with its part of the cache; 0 to 100.
    pub(super) pcmr: f64,
    /// By CPU: may it run there at all? None: everywhere.
    pub(super) cpus: Option<Vec<bool>>,
}

impl Item {
    fn may_use(&self, cpu: usize) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus[cpu])
    }

    /// The lowest MAX_PCMR of a CPU that it may run on.
    fn level(&self) -> u32 {
        self.pcmr.clamp(0.0, 100.0).ceil() as u32
    }
}

/// What bucketization keeps to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// Mean of the MAX_PCMRs to reach.
    pub(super) threshold: f64,
    /// Factor by which it is raised when a CPU is left with too few threads.
    pub(super) growth: f64,
    /// Threads that each CPU must be left, m.
    pub(super) min_threads: usize,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Buckets {
    /// MAX_PCMR by CPU.
    pub(super) max_pcmr: Vec<u32>,
    /// The threshold that was aimed at last.
    pub(super) threshold: f64,
    /// Was it reached?
    pub(super) met: bool,
}

impl Buckets {
    /// May a thread of this PCMR run on a CPU (by index)?
    pub(super) fn allows(&self, pcmr: f64, cpu: usize) -> bool {
        f64::from(self.max_pcmr[cpu]) >= pcmr.min(100.0)
    }
}

/// The mean of the MAX_PCMRs.
pub(super) fn mean(max_pcmr: &[u32]) -> f64 {
    f64::from(max_pcmr.iter().sum::<u32>()) / max_pcmr.len().max(1) as f64
}

/// Finds each CPU's MAX_PCMR.
pub(super) fn bucketize(items: &[Item], cpus: usize, limits: &Limits) -> Buckets {
    let mut threshold = limits.threshold;
    let mut lowering = Lowering::new(items, cpus);
    lowering.run(threshold);
    loop {
        let met = lowering.raise_back(threshold);
        if threshold >= 100.0 || leaves_enough(items, &lowering.max_pcmr, limits.min_threads) {
            return Buckets { max_pcmr: lowering.max_pcmr, threshold, met };
        }
        threshold = (threshold.max(1e-3) * limits.growth).min(100.0);
    }
}

/// Can every CPU have `min_threads` of its own at one time? Of the CPUs by rising MAX_PCMR, the first
/// k must be open to k times as many: what may run on one may run on all that follow. Threads that
/// their users hold on some CPUs are not counted on. Where there are fewer threads than that
/// altogether, as many as there are for each CPU.
fn leaves_enough(items: &[Item], max_pcmr: &[u32], min_threads: usize) -> bool {
    let free = || items.iter().filter(|item| item.cpus.is_none());
    let each = min_threads.min(free().count() / max_pcmr.len().max(1));
    let mut levels: Vec<u32> = free().map(Item::level).collect();
    levels.sort_unstable();
    let mut caps = max_pcmr.to_vec();
    caps.sort_unstable();
    caps.iter()
        .enumerate()
        .all(|(place, &cap)| levels.partition_point(|&level| level <= cap) >= each * (place + 1))
}

/// Ranks from here on: lowering this CPU would restrict a thread that has no other.
const CLOSED: u64 = u64::MAX << 32;

/// The CPU stands in the lowest bits of its rank.
const CPU_BITS: u32 = 24;

struct Lowering {
    max_pcmr: Vec<u32>,
    sum: u32,
    /// The CPU of each step so far.
    steps: Vec<usize>,
    /// Threads by level.
    at_level: Vec<Vec<usize>>,
    /// By thread: CPUs that it may still use.
    open: Vec<u32>,
    /// By CPU: its rank in the order in which CPUs are lowered, lowest first.
    ranks: Vec<u64>,
    /// By CPU and thread, where not all may run everywhere.
    usable: Option<Vec<Vec<bool>>>,
}

impl Lowering {
    fn new(items: &[Item], cpus: usize) -> Self {
        let maximum = items.iter().map(Item::level).max().unwrap_or(0);
        let mut at_level = vec![Vec::new(); maximum as usize + 1];
        for (place, item) in items.iter().enumerate() {
            at_level[item.level() as usize].push(place);
        }
        let held = items.iter().any(|item| item.cpus.is_some());
        let of_cpu = |cpu| items.iter().map(|item: &Item| item.may_use(cpu)).collect();
        let mut lowering = Self {
            max_pcmr: vec![maximum; cpus],
            sum: maximum * cpus as u32,
            steps: Vec::new(),
            at_level,
            open: items
                .iter()
                .map(|item| (0..cpus).filter(|&cpu| item.may_use(cpu)).count() as u32)
                .collect(),
            ranks: vec![CLOSED; cpus],
            usable: held.then(|| (0..cpus).map(of_cpu).collect()),
        };
        for cpu in 0..cpus {
            lowering.ranks[cpu] = lowering.rank_of(cpu);
        }
        lowering
    }

    /// By the threads that lowering a CPU newly restricts, the fewest first, then by its MAX_PCMR, the highest first, then
    /// by the CPU. One number, since each step compares those of all CPUs.
    fn rank_of(&self, cpu: usize) -> u64 {
        let max_pcmr = self.max_pcmr[cpu];
        let mut restricted = 0_u64;
        for thread in marginal(&self.at_level, self.usable.as_deref(), cpu, max_pcmr) {
            if self.open[thread] <= 1 {
                return CLOSED;
            }
            restricted += 1;
        }
        if max_pcmr == 0 {
            return CLOSED;
        }
        (restricted << 32) | (u64::from(100 - max_pcmr) << CPU_BITS) | cpu as u64
    }

    /// Lowers until the threshold is met, or nobody can be lowered any more.
    fn run(&mut self, threshold: f64) {
        let cpus = self.max_pcmr.len();
        let most = threshold * cpus as f64;
        while f64::from(self.sum) > most {
            // The best and the next best; until that one is better, the best goes on.
            let (mut least, mut next) = (CLOSED, CLOSED);
            for &rank in &self.ranks {
                next = next.min(least.max(rank));
                least = least.min(rank);
            }
            if least == CLOSED {
                return;
            }
            let cpu = (least & ((1 << CPU_BITS) - 1)) as usize;
            while f64::from(self.sum) > most && self.ranks[cpu] < next {
                self.lower(cpu);
            }
        }
    }

    /// Takes back the last steps that a higher threshold does not ask for, and says whether the threshold is met. Nothing is
    /// lowered after this.
    fn raise_back(&mut self, threshold: f64) -> bool {
        let most = threshold * self.max_pcmr.len() as f64;
        while f64::from(self.sum + 1) <= most
            && let Some(cpu) = self.steps.pop()
        {
            self.max_pcmr[cpu] += 1;
            self.sum += 1;
        }
        f64::from(self.sum) <= most
    }

    fn lower(&mut self, cpu: usize) {
        let level = self.max_pcmr[cpu];
        let mut last = false;
        for thread in marginal(&self.at_level, self.usable.as_deref(), cpu, level) {
            self.open[thread] -= 1;
            last |= self.open[thread] <= 1;
        }
        self.max_pcmr[cpu] -= 1;
        self.sum -= 1;
        self.steps.push(cpu);
        self.ranks[cpu] = self.rank_of(cpu);
        if last {
            // Somebody has one CPU left: whichever it is, it stays open.
            for other in 0..self.max_pcmr.len() {
                if self.max_pcmr[other] == level {
                    self.ranks[other] = self.rank_of(other);
                }
            }
        }
    }
}

/// Threads that may use a CPU of this MAX_PCMR and not once it is lowered.
fn marginal(
    at_level: &[Vec<usize>],
    usable: Option<&[Vec<bool>]>,
    cpu: usize,
    max_pcmr: u32,
) -> impl Iterator<Item = usize> {
    let usable = usable.map(|usable| &usable[cpu]);
    let level = at_level[max_pcmr as usize].iter().copied();
    level.filter(move |&thread| usable.is_none_or(|usable| usable[thread]))
}

#[cfg(test)]
mod tests;
