//! What CASC measures while threads run: a group's miss ratio over an interval in which the same
//! threads are on the CPUs, and the estimates that are made of such intervals.

use crate::linear::{Equation, least_squares, solve};
use crate::{Counts, Nanoseconds, ThreadId, ThreadState, View};

/// The threads that are on CPUs, since when, and their counts then.
#[derive(Debug, Clone)]
pub(super) struct Interval {
    pub(super) since: Nanoseconds,
    /// Ascending.
    pub(super) members: Vec<ThreadId>,
    counts: Vec<Counts>,
}

/// An interval that is over.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) since: Nanoseconds,
    pub(super) seconds: f64,
    /// Ascending.
    pub(super) members: Vec<ThreadId>,
    /// L2 misses per 100 references of all together.
    pub(super) miss_ratio: f64,
    /// The same of each member by itself; the group's where it made no reference.
    pub(super) own: Vec<f64>,
}

impl Interval {
    /// Begins with those that are on CPUs now; none unless all `cpus` are busy.
    pub(super) fn begin(view: &View<'_>, cpus: usize) -> Option<Self> {
        let running = || view.threads.iter().filter(|one| one.state == ThreadState::Running);
        (running().count() == cpus).then(|| Self {
            since: view.now,
            members: running().map(|thread| thread.id).collect(),
            counts: running().map(|thread| thread.counts).collect(),
        })
    }

    /// Ends it. None when it was shorter than `least_s`, when a member is gone or its counts are
    /// unknown, or when nobody made a reference.
    pub(super) fn end(self, view: &View<'_>, least_s: f64) -> Option<Measured> {
        let seconds = (view.now.0 - self.since.0) as f64 * 1e-9;
        if seconds < least_s {
            return None;
        }
        let (mut references, mut misses) = (0.0, 0.0);
        let mut own = Vec::with_capacity(self.members.len());
        for (&id, before) in self.members.iter().zip(&self.counts) {
            let now = view.thread(id)?.counts;
            let of = now.llc_references?.total - before.llc_references?.total;
            let missed = now.llc_misses?.total - before.llc_misses?.total;
            references += of;
            misses += missed;
            own.push((of > 0.0).then(|| 100.0 * missed / of));
        }
        if references <= 0.0 {
            return None;
        }
        let miss_ratio = 100.0 * misses / references;
        let own = own.into_iter().map(|one| one.unwrap_or(miss_ratio)).collect();
        Some(Measured { since: self.since, seconds, members: self.members, miss_ratio, own })
    }
}

/// A mean weighted by time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    sum: f64,
    pub(super) seconds: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64, seconds: f64) {
        self.sum += value * seconds;
        self.seconds += seconds;
    }

    pub(super) fn value(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

/// The initial measurement: n + 1 threads on n CPUs. Row i is the group without thread i.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// Ascending; one more than CPUs.
    pub(super) threads: Vec<ThreadId>,
    rows: Vec<Mean>,
    own: Vec<Mean>,
    /// The row to be measured now.
    next: usize,
    pub(super) since: Nanoseconds,
}

impl Rows {
    pub(super) fn new(threads: Vec<ThreadId>, since: Nanoseconds) -> Self {
        let rows = vec![Mean::default(); threads.len()];
        Self { own: rows.clone(), rows, threads, next: 0, since }
    }

    /// The row to be measured now: the first that has not run for as long as it has to.
    pub(super) fn due(&self) -> usize {
        self.next
    }

    /// Takes in an interval if its group is a row.
    pub(super) fn add(&mut self, measured: &Measured, run_s: f64) {
        let place = |id| self.threads.binary_search(id).ok();
        let places: Option<Vec<usize>> = measured.members.iter().map(place).collect();
        let Some(places) = places.filter(|places| places.len() + 1 == self.threads.len()) else {
            return;
        };
        let out = (0..self.threads.len()).find(|one| !places.contains(one));
        if let Some(out) = out {
            self.rows[out].add(measured.miss_ratio, measured.seconds);
        }
        for (&place, &own) in places.iter().zip(&measured.own) {
            self.own[place].add(own, measured.seconds);
        }
        let short = self.rows.iter().position(|row| row.seconds < run_s);
        self.next = short.unwrap_or(self.next);
    }

    /// Has each row run for so long?
    pub(super) fn is_complete(&self, run_s: f64) -> bool {
        self.rows.iter().all(|row| row.seconds >= run_s)
    }

    /// The PCMRs, by thread.
    pub(super) fn solve(&self) -> Option<Vec<f64>> {
        let count = self.threads.len();
        let cpus = (count - 1) as f64;
        let row = |out: usize| -> Vec<f64> {
            (0..count).map(|place| f64::from(u8::from(place != out))).collect()
        };
        let right: Option<Vec<f64>> =
            self.rows.iter().map(|mean| Some(cpus * mean.value()?)).collect();
        let found = match right {
            Some(right) => solve((0..count).map(row).collect(), right)?,
            // Rows that never ran: what each thread did by itself fills in.
            None => {
                let known = self.rows.iter().enumerate().filter(|(_, mean)| mean.seconds > 0.0);
                let equations: Vec<Equation> = known
                    .filter_map(|(out, mean)| {
                        let right = cpus * mean.value()?;
                        Some(Equation { coefficients: row(out), right, weight: mean.seconds })
                    })
                    .collect();
                let weight: f64 = equations.iter().map(|equation| equation.weight).sum();
                let all = self.own.iter().filter_map(Mean::value);
                let middle = all.clone().sum::<f64>() / all.count().max(1) as f64;
                let prior: Vec<f64> =
                    self.own.iter().map(|mean| mean.value().unwrap_or(middle)).collect();
                least_squares(&equations, &prior, (RIDGE * weight).max(f64::MIN_POSITIVE))?
            }
        };
        Some(found.into_iter().map(|pcmr| pcmr.clamp(0.0, 100.0)).collect())
    }
}

/// How much what a thread did by itself counts beside the groups' equations, as a share of their
/// weight. Small: it decides what they leave open.
const RIDGE: f64 = 0.02;
