//! Turns: one sample of one point each, once more where something disturbed it, later where its CPUs did not share their cache.

use std::collections::BTreeSet;

use crate::CalibrateError;
use crate::bench::Sample;
use crate::estimate::Taken;
use crate::figure::Figure;
use crate::nearness::{Looks, References, SharedCache};
use crate::rounds::{Budget, Measured, Rounds};

/// Attempts at a sample that nothing disturbs.
const ATTEMPTS: u32 = 3;
/// What people read who wait for CPUs.
const WAITING: &str = "CPUs that are to share a cache";

/// A point of an experiment, both by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    experiment: usize,
    point: usize,
}

/// How often CPUs shared the caches that they were to share.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sharing {
    /// Turns of CPUs that have to share a cache.
    pub(crate) turns: usize,
    /// Of these, turns that found the CPUs apart, or left them so, and were had again.
    pub(crate) put_off: usize,
    /// Samples that were taken apart in the end. They count where a point has no others.
    pub(crate) apart: usize,
    /// The fastest and the slowest transfer of a cache line between CPUs that are to share a last-level cache, in ns; none where none was timed.
    pub(crate) transfers_ns: Option<(f64, f64)>,
    /// Experiments with a point that was measured apart alone, by their names.
    pub(crate) only_apart: BTreeSet<&'static str>,
    /// Figures that mean nothing where CPUs are apart, and were measured so alone: they are left out.
    pub(crate) left_out: Vec<Figure>,
}

/// All that is measured, and what looks who shares a cache.
pub(crate) struct Turns<'a> {
    measured: Vec<Measured>,
    looks: &'a mut dyn Looks,
    references: References,
    sharing: Sharing,
    samples: u32,
    disturbed: u32,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(
        measured: Vec<Measured>,
        looks: &'a mut dyn Looks,
        references: References,
    ) -> Self {
        let sharing = Sharing::default();
        Self { measured, looks, references, sharing, samples: 0, disturbed: 0 }
    }

    /// Every point of every experiment.
    pub(crate) fn all(&self) -> Vec<Turn> {
        let of = |(experiment, one): (usize, &Measured)| {
            (0..one.samples.points()).map(move |point| Turn { experiment, point })
        };
        self.measured.iter().enumerate().flat_map(of).collect()
    }

    /// One round. A turn whose CPUs are apart is put off until all others are over, and counts then as it is.
    /// `tell` hears the share of the round that is over, and what is next.
    ///
    /// # Errors
    /// As of [`crate::rounds::run`].
    pub(crate) fn round(
        &mut self,
        order: &[Turn],
        tell: &mut dyn FnMut(f64, &'static str) -> bool,
    ) -> Result<(), CalibrateError> {
        let mut put_off = Vec::new();
        for (done, &turn) in order.iter().enumerate() {
            self.go_on(turn, &mut |name| tell(done as f64 / order.len() as f64, name))?;
            let needs = self.measured[turn.experiment].sharers.is_some();
            self.sharing.turns += usize::from(needs);
            match self.near(turn)? {
                Some(taken) => self.keep(turn, taken),
                None => put_off.push(turn),
            }
        }
        self.sharing.put_off += put_off.len();
        for turn in put_off {
            self.go_on(turn, &mut |name| tell(1.0, name))?;
            let taken = self.anyhow(turn)?;
            self.keep(turn, taken);
        }
        Ok(())
    }

    /// Measures points again that have too few samples of CPUs that shared their cache: half of the fewest rounds.
    /// `tell` hears what is measured next.
    ///
    /// # Errors
    /// As of [`crate::rounds::run`].
    pub(crate) fn catch_up(
        &mut self,
        budget: Budget,
        tell: &mut dyn FnMut(&'static str) -> bool,
    ) -> Result<(), CalibrateError> {
        self.learn_memory();
        let mut looks = 0;
        loop {
            self.judge();
            let enough = budget.least_rounds.div_ceil(2) as usize;
            let lacks = |turn: &Turn| {
                let samples = &self.measured[turn.experiment].samples;
                let (near, apart) = samples.near_and_apart(turn.point);
                apart > 0 && near < enough
            };
            let lacking: Vec<Turn> = self.all().into_iter().filter(lacks).collect();
            if lacking.is_empty() {
                return Ok(());
            }
            for turn in lacking {
                if looks == budget.late_looks {
                    return Ok(());
                }
                looks += 1;
                if !tell(WAITING) {
                    return Err(CalibrateError::Stopped);
                }
                match self.near(turn)? {
                    Some(taken) => {
                        self.measured[turn.experiment].samples.replace_apart(turn.point, taken);
                    }
                    None => self.looks.wait(),
                }
            }
        }
    }

    /// What was measured.
    pub(crate) fn finish(mut self, rounds: u32) -> Rounds {
        self.judge();
        let Self { measured, mut sharing, samples, disturbed, .. } = self;
        for one in measured.iter().filter(|one| one.sharers.is_some()) {
            sharing.apart += one.samples.iter().filter(|taken| taken.is_apart).count();
            let left_out = one.left_out();
            if one.is_apart() && left_out.is_empty() {
                sharing.only_apart.insert(one.experiment.name());
            }
            sharing.left_out.extend(left_out);
        }
        let disturbed_share = f64::from(disturbed) / f64::from(samples.max(1));
        Rounds { measured, rounds, disturbed_share, sharing }
    }

    fn go_on(
        &self,
        turn: Turn,
        tell: &mut dyn FnMut(&'static str) -> bool,
    ) -> Result<(), CalibrateError> {
        if tell(self.measured[turn.experiment].experiment.name()) {
            Ok(())
        } else {
            Err(CalibrateError::Stopped)
        }
    }

    fn keep(&mut self, turn: Turn, taken: Taken) {
        self.samples += 1;
        self.disturbed += u32::from(taken.sample.disturbed);
        self.measured[turn.experiment].samples.push(turn.point, taken);
    }

    /// A sample of CPUs that share their cache before and after it; none where they do not. Before is looked first, so that
    /// little time is lost.
    fn near(&mut self, turn: Turn) -> Result<Option<Taken>, CalibrateError> {
        let before = self.look(turn)?;
        if self.is_apart(turn, before) {
            return Ok(None);
        }
        let taken = self.taken(turn, before)?;
        Ok((!taken.is_apart).then_some(taken))
    }

    /// A sample wherever the CPUs are.
    fn anyhow(&mut self, turn: Turn) -> Result<Taken, CalibrateError> {
        let before = self.look(turn)?;
        self.taken(turn, before)
    }

    fn taken(&mut self, turn: Turn, before: Option<f64>) -> Result<Taken, CalibrateError> {
        let sample = self.sample(turn)?;
        let after = self.look(turn)?;
        let transfer_ns = before.zip(after).map(|(before, after)| before.max(after));
        let is_apart = self.is_apart(turn, transfer_ns);
        Ok(Taken { sample, transfer_ns, is_apart })
    }

    fn sample(&mut self, turn: Turn) -> Result<Sample, CalibrateError> {
        let experiment = &mut self.measured[turn.experiment].experiment;
        let mut sample = experiment.measure(turn.point)?;
        for _ in 1..ATTEMPTS {
            if !sample.disturbed {
                break;
            }
            sample = experiment.measure(turn.point)?;
        }
        Ok(sample)
    }

    /// The farthest transfer between CPUs that have to share a cache, in ns; none where none have to.
    fn look(&mut self, turn: Turn) -> Result<Option<f64>, CalibrateError> {
        let Some(sharers) = &self.measured[turn.experiment].sharers else { return Ok(None) };
        let mut farthest = 0.0f64;
        for cpus in &sharers.groups {
            let ns = self.looks.farthest_ns(cpus)?;
            self.references.of_mut(sharers.cache).learn(ns);
            farthest = farthest.max(ns);
        }
        if sharers.cache == SharedCache::Last {
            let (fastest, slowest) = self.sharing.transfers_ns.unwrap_or((farthest, farthest));
            self.sharing.transfers_ns = Some((fastest.min(farthest), slowest.max(farthest)));
        }
        Ok(Some(farthest))
    }

    /// Is such a transfer between CPUs that do not share their cache, as far as is known by now?
    fn is_apart(&self, turn: Turn, transfer_ns: Option<f64>) -> bool {
        let sharers = &self.measured[turn.experiment].sharers;
        let nearness = sharers.as_ref().map(|sharers| self.references.of(sharers.cache));
        nearness.zip(transfer_ns).is_some_and(|(nearness, ns)| !nearness.is_near(ns))
    }

    /// Decides of every sample anew.
    fn judge(&mut self) {
        for one in &mut self.measured {
            if let Some(sharers) = &one.sharers {
                let nearness = self.references.of(sharers.cache);
                one.samples.judge(|ns| nearness.is_near(ns));
            }
        }
    }

    /// Takes what a load from memory takes for the least time of a line between two caches: where CPUs were apart all the time,
    /// nothing else tells it.
    fn learn_memory(&mut self) {
        let latency = |(figure, range): (Figure, crate::FigureRange)| match figure {
            Figure::MemoryLatency(from, to) if from == to => Some(range.value),
            _ => None,
        };
        let measured = self.measured.iter().filter(|one| one.sharers.is_none());
        let found = measured.flat_map(|one| one.figures()).filter_map(latency).reduce(f64::min);
        if let Some(ns) = found {
            self.references.of_mut(SharedCache::Last).limit(ns);
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
