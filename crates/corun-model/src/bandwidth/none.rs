//! Unlimited bandwidth.

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, at_latency};
use crate::outcome::Demand;

/// Bandwidth costs nothing; distance still does.
pub(crate) struct None;

impl LimitBandwidth for None {
    fn through(&self, solo: &[f64], _own: &[OwnWait], _latency: &Latency, out: &mut [f64]) {
        out.copy_from_slice(solo);
    }

    fn queues(&self) -> bool {
        false
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, _ratio: f64) -> f64 {
        at_latency(demand, latency_ratio)
    }
}
