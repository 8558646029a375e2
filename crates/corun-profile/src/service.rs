//! A service: a program that answers requests, and how long its user lets the answers take.

use corun_input::{Fault, PathStep};
use serde::{Deserialize, Serialize};

use crate::figures::Expected;

/// A program whose threads answer requests, which wait in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Requests a second. They come as a Poisson process.
    pub requests_per_s: f64,
    /// Instructions of a request, on average.
    pub instructions: f64,
    /// Standard deviation / mean of the instructions of a request, which are then lognormal; 0: all requests are
    /// alike. None: they are exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<f64>,
    /// The percentile of the latency that the target is for, above 0 and below 100.
    #[serde(default = "usual_percentile")]
    pub percentile: f64,
    /// What that percentile shall not exceed, in ms from the arrival of a request to its answer.
    pub target_ms: f64,
    /// Requests that arrive in the first so many seconds of the service do not count.
    #[serde(default)]
    pub warm_up_s: f64,
}

fn usual_percentile() -> f64 {
    99.0
}

impl Service {
    /// Fewest instructions of a request on average: below, a run has more events than anybody waits for.
    pub const LEAST_INSTRUCTIONS: f64 = 1000.0;
    /// Most requests a second, for the same reason.
    pub(crate) const MOST_REQUESTS_PER_S: f64 = 1e6;
    /// Greatest variation of a request's instructions.
    pub(crate) const MOST_VARIATION: f64 = 100.0;

    /// # Errors
    /// The first figure that cannot be, with its key.
    pub fn check(&self) -> Result<(), Fault> {
        let refused = |key: &'static str, found: f64, expected: &str| {
            let why = format!("found {found}, expected {expected}");
            Err(Fault::here(&why).under(PathStep::Key(key)))
        };
        let rate = self.requests_per_s;
        if !(rate > 0.0 && rate <= Self::MOST_REQUESTS_PER_S) {
            return refused("requests_per_s", rate, "a number above 0, at most 1e6");
        }
        if !(Self::LEAST_INSTRUCTIONS..=1e15).contains(&self.instructions) {
            return refused("instructions", self.instructions, "1000 to 1e15");
        }
        if let Some(variation) = self.variation
            && !(0.0..=Self::MOST_VARIATION).contains(&variation)
        {
            return refused("variation", variation, "0 to 100");
        }
        if !(self.percentile > 0.0 && self.percentile < 100.0) {
            return refused("percentile", self.percentile, "a number above 0 and below 100");
        }
        Expected::Positive.check("target_ms", self.target_ms)?;
        Expected::Rate.check("warm_up_s", self.warm_up_s)
    }

    /// Standard deviation / mean of a request's instructions.
    pub fn variation(&self) -> f64 {
        self.variation.unwrap_or(1.0)
    }
}
