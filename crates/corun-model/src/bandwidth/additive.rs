//! corun's own form: only the memory part of CPI is stretched.

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, Part, morad};
use crate::outcome::Demand;

/// CPI = CPI_core + CPI_LLC-hit + CPI_memory x latency ratio x B / B' (errata.md, thesis section
/// 5.3.2.1); B' as in Morad's model.
pub(crate) struct Additive;

impl LimitBandwidth for Additive {
    fn through(&self, solo: &[f64], _own: &[OwnWait], _latency: &Latency, out: &mut [f64]) {
        morad::through(solo, out);
    }

    fn part(&self, solo: f64, _own: OwnWait, _latency: &Latency, idle: f64) -> Option<Part> {
        Some(morad::part(solo, idle))
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        demand.cpi + demand.memory_cpi * (latency_ratio * ratio - 1.0)
    }
}
