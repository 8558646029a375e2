//! The thesis's variant of Morad's model.

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, Part, at_latency, morad};
use crate::outcome::Demand;

/// Thesis, eq. 5.6 and 5.10: slowdown = SC x SB with SB = (TS + MS (B / B' - 1)) / TS, that is
/// 1 + (MS / TS) (B / B' - 1); B' as in Morad's model.
pub(crate) struct Stalls;

impl LimitBandwidth for Stalls {
    fn through(&self, solo: &[f64], _own: &[OwnWait], _latency: &Latency, out: &mut [f64]) {
        morad::through(solo, out);
    }

    fn part(&self, solo: f64, _own: OwnWait, _latency: &Latency, idle: f64) -> Option<Part> {
        Some(morad::part(solo, idle))
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        at_latency(demand, latency_ratio) * (1.0 + demand.memory_stall_share * (ratio - 1.0))
    }
}
