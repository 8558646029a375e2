//! Turns: one sample of one point each, once more where something disturbed it, later where its CPUs did not share their cache
//! or others used their cores.

use std::collections::{BTreeMap, BTreeSet};

use crate::CalibrateError;
use crate::bench::Sample;
use crate::estimate::Taken;
use crate::figure::Figure;
use crate::nearness::{Looks, References, SharedCache};
use crate::rounds::{Budget, Measured, Rounds};
use crate::surroundings::{Fit, Surroundings};

/// Attempts at a sample that nothing disturbs.
const ATTEMPTS: u32 = 3;
/// What people read who wait for CPUs.
const WAITING_FOR_CACHE: &str = "CPUs that are to share a cache";
const WAITING_FOR_CORE: &str = "a core that nobody else uses";

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

/// How often cores were free that were to be.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Crowding {
    /// Turns on cores that have to be free.
    pub(crate) turns: usize,
    /// Of these, turns that found another thread of a core busy, or left it so, and were had again.
    pub(crate) put_off: usize,
    /// Samples that were taken beside a busy thread in the end. They count where a point has no others.
    pub(crate) crowded: usize,
    /// Points that have to be measured on free cores.
    pub(crate) points: usize,
    /// Of these, points that were measured beside a busy thread alone.
    pub(crate) crowded_points: usize,
    /// Experiments with such a point, by their names.
    pub(crate) only_crowded: BTreeSet<&'static str>,
    /// By core type, the most additions a cycle that were seen or known, and the most that were seen; none where nobody looked.
    pub(crate) additions_per_cycle: BTreeMap<usize, MostAdditions>,
}

/// The most additions that a core did in a cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MostAdditions {
    /// Now or in an earlier calibration.
    pub(crate) known: f64,
    /// Now.
    pub(crate) seen: f64,
}

impl Crowding {
    /// Share of the points that were measured beside a busy thread alone.
    pub(crate) fn crowded_share(&self) -> f64 {
        self.crowded_points as f64 / self.points.max(1) as f64
    }
}

/// A turn's end.
enum Attempt {
    /// Its CPUs were as they should be.
    Good(Taken),
    /// They were not: before it, so that nothing was measured, or after it.
    Unfit(Fit, Option<Taken>),
}

/// All that is measured, and what looks who shares a cache.
pub(crate) struct Turns<'a> {
    measured: Vec<Measured>,
    looks: &'a mut dyn Looks,
    references: References,
    sharing: Sharing,
    crowding: Crowding,
    samples: u32,
    disturbed: u32,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(
        measured: Vec<Measured>,
        looks: &'a mut dyn Looks,
        references: References,
    ) -> Self {
        let (sharing, crowding) = (Sharing::default(), Crowding::default());
        Self { measured, looks, references, sharing, crowding, samples: 0, disturbed: 0 }
    }

    /// Every point of every experiment.
    pub(crate) fn all(&self) -> Vec<Turn> {
        let of = |(experiment, one): (usize, &Measured)| {
            (0..one.samples.points()).map(move |point| Turn { experiment, point })
        };
        self.measured.iter().enumerate().flat_map(of).collect()
    }

    /// One round. A turn whose CPUs are not as they should be is put off until all others are over, and counts then as it is.
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
            let Measured { sharers, cores, .. } = &self.measured[turn.experiment];
            self.sharing.turns += usize::from(sharers.is_some());
            self.crowding.turns += usize::from(cores.is_some());
            match self.attempt(turn)? {
                Attempt::Good(taken) => self.keep(turn, taken),
                Attempt::Unfit(fit, taken) => {
                    self.sharing.put_off += usize::from(!fit.is_near);
                    self.crowding.put_off += usize::from(!fit.is_free);
                    put_off.push((turn, taken));
                }
            }
        }
        for (turn, first) in put_off {
            self.go_on(turn, &mut |name| tell(1.0, name))?;
            let taken = self.anyhow(turn, first)?;
            self.keep(turn, taken);
        }
        Ok(())
    }

    /// Measures points again that have too few samples of CPUs as they should be: half of the fewest rounds.
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
                let (good, unfit) = samples.good_and_unfit(turn.point);
                unfit > 0 && good < enough
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
                let samples = &self.measured[turn.experiment].samples;
                let is_near = samples.best_fit(turn.point).is_none_or(|fit| fit.is_near);
                if !tell(if is_near { WAITING_FOR_CORE } else { WAITING_FOR_CACHE }) {
                    return Err(CalibrateError::Stopped);
                }
                match self.attempt(turn)? {
                    Attempt::Good(taken) => {
                        self.measured[turn.experiment].samples.replace_unfit(turn.point, taken);
                    }
                    Attempt::Unfit(..) => self.looks.wait(),
                }
            }
        }
    }

    /// What was measured.
    pub(crate) fn finish(mut self, rounds: u32) -> Rounds {
        self.judge();
        let Self { measured, mut sharing, mut crowding, samples, disturbed, .. } = self;
        for one in &measured {
            tell_sharing(one, &mut sharing);
            tell_crowding(one, &mut crowding);
        }
        let disturbed_share = f64::from(disturbed) / f64::from(samples.max(1));
        Rounds { measured, rounds, disturbed_share, sharing, crowding }
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

    /// A sample of CPUs that are as they should be before and after it. Before is looked first, so that little time is lost.
    fn attempt(&mut self, turn: Turn) -> Result<Attempt, CalibrateError> {
        let before = self.look(turn)?;
        let fit = self.fit(turn, before);
        if fit != Fit::GOOD {
            return Ok(Attempt::Unfit(fit, None));
        }
        let taken = self.taken(turn, before)?;
        Ok(if taken.fit == Fit::GOOD {
            Attempt::Good(taken)
        } else {
            Attempt::Unfit(taken.fit, Some(taken))
        })
    }

    /// A sample wherever the CPUs are: where they still are not as they should be, the first one, if there is one.
    fn anyhow(&mut self, turn: Turn, first: Option<Taken>) -> Result<Taken, CalibrateError> {
        let before = self.look(turn)?;
        match first {
            Some(first) if self.fit(turn, before) <= first.fit => Ok(first),
            _ => self.taken(turn, before),
        }
    }

    fn taken(&mut self, turn: Turn, before: Surroundings) -> Result<Taken, CalibrateError> {
        let sample = self.sample(turn)?;
        let seen = before.and(self.look(turn)?);
        if let (Some(cores), Some(additions)) =
            (&self.measured[turn.experiment].cores, seen.additions_per_cycle)
        {
            // Of two looks the worse: one by itself can be lucky.
            self.references.core_mut(cores.core_type).learn(additions);
            let most = MostAdditions { known: additions, seen: additions };
            let most = self.crowding.additions_per_cycle.entry(cores.core_type).or_insert(most);
            most.seen = most.seen.max(additions);
            most.known = self.references.core(cores.core_type).additions_per_cycle();
        }
        Ok(Taken { sample, seen, fit: self.fit(turn, seen) })
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

    fn look(&mut self, turn: Turn) -> Result<Surroundings, CalibrateError> {
        let Measured { cores, .. } = &self.measured[turn.experiment];
        let looks = &mut self.looks;
        let additions = cores.as_ref().map(|cores| looks.additions_per_cycle(&cores.cpus));
        let additions_per_cycle = additions.transpose()?;
        Ok(Surroundings { transfer_ns: self.farthest_ns(turn)?, additions_per_cycle })
    }

    /// The farthest transfer between CPUs that have to share a cache, in ns; none where none have to.
    fn farthest_ns(&mut self, turn: Turn) -> Result<Option<f64>, CalibrateError> {
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

    /// Are a turn's CPUs as they should be, as far as is known by now?
    fn fit(&self, turn: Turn, seen: Surroundings) -> Fit {
        let Measured { sharers, cores, .. } = &self.measured[turn.experiment];
        self.references.fit(seen, sharers.as_ref(), cores.as_ref())
    }

    /// Decides of every sample anew.
    fn judge(&mut self) {
        for one in &mut self.measured {
            let (sharers, cores) = (one.sharers.as_ref(), one.cores.as_ref());
            one.samples.judge(|seen| self.references.fit(seen, sharers, cores));
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

fn tell_sharing(one: &Measured, sharing: &mut Sharing) {
    if one.sharers.is_none() {
        return;
    }
    sharing.apart += one.samples.iter().filter(|taken| !taken.fit.is_near).count();
    let left_out = one.left_out();
    if one.is_apart() && left_out.is_empty() {
        sharing.only_apart.insert(one.experiment.name());
    }
    sharing.left_out.extend(left_out);
}

fn tell_crowding(one: &Measured, crowding: &mut Crowding) {
    if one.cores.is_none() {
        return;
    }
    crowding.crowded += one.samples.iter().filter(|taken| !taken.fit.is_free).count();
    let crowded = one.best_fits().filter(|fit| !fit.is_free).count();
    crowding.points += one.samples.points();
    crowding.crowded_points += crowded;
    if crowded > 0 {
        crowding.only_crowded.insert(one.experiment.name());
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
