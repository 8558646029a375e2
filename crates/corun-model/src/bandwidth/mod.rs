//! Bandwidth models: what flows get through a domain, and what a program loses by it.

mod additive;
pub(crate) mod loaded;
pub(crate) mod mix;
pub(crate) mod morad;
mod none;
mod simple;
mod stalls;

use crate::bandwidth::loaded::Latency;
use crate::options::BandwidthModel;
use crate::outcome::Demand;

/// A bandwidth model.
pub(crate) trait LimitBandwidth {
    /// What each flow gets through one domain. `solo`: what each would draw alone, as shares of
    /// the domain's peak, each below 1; `own` (same length): how its accesses wait for one another then; `latency`: how
    /// it rises there; `out` (same length): what each gets, at most what it would draw alone.
    fn through(&self, solo: &[f64], own: &[OwnWait], latency: &Latency, out: &mut [f64]);

    /// What a flow that alone would draw `solo` of a domain has of it while it is idle for a share of the time, where
    /// that says it: no less in a domain that is more idle. None where it depends on the other flows in another way.
    fn part(&self, _solo: f64, _own: OwnWait, _latency: &Latency, _idle: f64) -> Option<Part> {
        Option::None
    }

    /// Do requests wait for one another below the peak, so that the sum of what flows get is how
    /// busy the domain is? Where not, [`morad`] says how busy it would be.
    fn queues(&self) -> bool {
        true
    }

    /// Cycles per instruction when memory takes `latency_ratio` times the local latency and the
    /// program draws `ratio` = B / B' times less than it would alone.
    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64;
}

/// How a flow's accesses wait for one another when it is alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OwnWait {
    /// As [`Demand::foreseen_share`] and [`Demand::stretched_alone`].
    foreseen_share: f64,
    stretched: f64,
}

impl OwnWait {
    pub(crate) fn of(demand: &Demand) -> Self {
        Self { foreseen_share: demand.foreseen_share, stretched: demand.stretched_alone }
    }

    /// How many times as long as in an idle domain its accesses take alone, where somebody else's would take so many beside
    /// it. None takes longer than those; and those that are foreseen take as long, since prefetchers ask for as many lines
    /// as they have places for.
    fn latency_ratio(self, of_others: f64) -> f64 {
        let unforeseen = self.stretched.min(of_others).max(1.0);
        of_others + (1.0 - self.foreseen_share) * (unforeseen - of_others)
    }
}

/// What a flow has of a domain, as shares of its peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// For how much of the time it keeps the domain busy, by the measure in which all flows together are as busy as the domain
    /// is, at most.
    pub(crate) busy: f64,
    /// What it gets, at most what it would draw alone.
    pub(crate) through: f64,
}

/// The model of that name; [`BandwidthModel::ByMachine`] is decided before.
pub(crate) fn model(of: BandwidthModel) -> &'static (dyn LimitBandwidth + Sync) {
    match of {
        BandwidthModel::None => &none::None,
        BandwidthModel::Simple => &simple::Simple,
        BandwidthModel::Morad => &morad::Morad,
        BandwidthModel::Stalls => &stalls::Stalls,
        BandwidthModel::Additive | BandwidthModel::ByMachine => &additive::Additive,
        BandwidthModel::Loaded => &loaded::Loaded,
    }
}

/// CPI at a longer memory latency: the memory part is stretched, the rest is not (errata.md,
/// thesis section 5.3.2: what adds must not multiply).
fn at_latency(demand: &Demand, latency_ratio: f64) -> f64 {
    demand.cpi + demand.memory_cpi * (latency_ratio - 1.0)
}
