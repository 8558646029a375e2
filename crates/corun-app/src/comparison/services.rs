//! What came of the requests of each service, over seeds.

use corun_metrics as metrics;
use corun_sim::{RunResult, ServiceResult};
use serde::Serialize;

use super::DIGITS;
use crate::round;

/// A service under a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceRow {
    /// The program.
    pub app: String,
    /// Requests a second that were to come.
    pub requests_per_s: f64,
    /// The percentile of the latency that the target is for.
    pub percentile: f64,
    /// What it shall not exceed, in ms.
    pub target_ms: f64,
    /// That percentile in ms, mean over seeds; none where no request counts.
    pub latency_ms: Option<f64>,
    /// The mean latency in ms, mean over seeds.
    pub mean_latency_ms: Option<f64>,
    /// With how many of the seeds the percentile was within the target.
    pub met: u32,
    /// Requests a second at which its threads would be busy all the time, mean over seeds.
    pub saturated_per_s: Option<f64>,
}

impl ServiceRow {
    /// A row for each service, from runs that differ in their seed alone.
    pub(super) fn of_runs(runs: &[RunResult]) -> Vec<Self> {
        let Some(first) = runs.first() else { return Vec::new() };
        let services = first.apps.iter().enumerate();
        services
            .filter_map(|(place, app)| Some((place, app.name.clone(), app.service?)))
            .map(|(place, app, one)| {
                let of_runs: Vec<ServiceResult> =
                    runs.iter().filter_map(|run| run.apps[place].service).collect();
                let mean = |of: fn(&ServiceResult) -> Option<f64>| {
                    let known: Option<Vec<f64>> = of_runs.iter().map(of).collect();
                    Some(round(metrics::mean(&known?)?, DIGITS))
                };
                Self {
                    app,
                    requests_per_s: one.requests_per_s,
                    percentile: one.percentile,
                    target_ms: one.target_ms,
                    latency_ms: mean(|one| one.latency_ms),
                    mean_latency_ms: mean(|one| one.mean_latency_ms),
                    met: of_runs.iter().filter(|one| one.is_met()).count() as u32,
                    saturated_per_s: mean(|one| one.saturated_per_s),
                }
            })
            .collect()
    }
}
