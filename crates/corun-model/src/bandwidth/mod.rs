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
    /// the domain's peak, each below 1; `latency`: how it rises there; `out` (same
    /// length as `solo`): what each gets, at most that.
    fn through(&self, solo: &[f64], latency: &Latency, out: &mut [f64]);

    /// What a flow that alone would draw `solo` of a domain gets while the domain is idle for a share of the time, where
    /// that says it: never less in a domain that is more idle, never more than `solo`. None where it depends on the
    /// other flows in another way.
    fn part(&self, _solo: f64, _latency: &Latency, _idle: f64) -> Option<f64> {
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
