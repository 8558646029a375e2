//! When a report is worth an update of the node's object: few updates, however much changes.

use super::AgentReport;
use crate::extender::protocol::{NodeReport, ReportedProgram};

/// Seconds between two updates, by what has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateRates {
    /// Who runs on the node, by which profile, on how many CPUs.
    pub programs_s: u64,
    /// What was measured, by more than a quarter or the least step of that figure.
    pub measured_s: u64,
    /// Nothing: that the agent is alive.
    pub alive_s: u64,
}

impl Default for UpdateRates {
    fn default() -> Self {
        Self { programs_s: 10, measured_s: 60, alive_s: 120 }
    }
}

/// A measured figure that changed by this share of what was published is worth an update.
const MEASURED_SHARE: f64 = 0.25;
/// The least change of a figure that is worth one: CPUs, MiB of cache, MB/s.
const LEAST_STEPS: [f64; 3] = [0.5, 4.0, 500.0];
/// After a failure the next attempt waits twice as long as the one before, at most this.
const LONGEST_WAIT_S: u64 = 60;

/// Decides when a report is published. Times are seconds of a clock that does not jump.
#[derive(Debug, Clone)]
pub struct Publisher {
    rates: UpdateRates,
    last: Option<(u64, NodeReport)>,
    failed: Option<Failed>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    at_s: u64,
    wait_s: u64,
}

impl Publisher {
    /// Nothing was published yet.
    pub fn new(rates: UpdateRates) -> Self {
        Self { rates, last: None, failed: None }
    }

    /// Is the report to be published now?
    pub fn is_due(&self, now_s: u64, report: &AgentReport) -> bool {
        if self.is_waiting(now_s) {
            return false;
        }
        let Some((at_s, last)) = &self.last else { return true };
        let since_s = now_s.saturating_sub(*at_s);
        let wait_s = if !same_programs(last, &report.report) {
            self.rates.programs_s
        } else if !near(last, &report.report) {
            self.rates.measured_s
        } else {
            self.rates.alive_s
        };
        since_s >= wait_s
    }

    /// Did an attempt fail so shortly ago that the API server is left alone?
    pub fn is_waiting(&self, now_s: u64) -> bool {
        self.failed.is_some_and(|failed| now_s < failed.at_s + failed.wait_s)
    }

    /// The report was published.
    pub fn published(&mut self, now_s: u64, report: &AgentReport) {
        self.last = Some((now_s, report.report.clone()));
        self.failed = None;
    }

    /// The API server did not answer, or refused.
    pub fn failed(&mut self, now_s: u64) {
        let wait_s = self.failed.map_or(self.rates.programs_s, |failed| failed.wait_s * 2);
        self.failed = Some(Failed { at_s: now_s, wait_s: wait_s.clamp(1, LONGEST_WAIT_S) });
    }
}

fn same_programs(a: &NodeReport, b: &NodeReport) -> bool {
    let asked = |one: &ReportedProgram| ReportedProgram {
        used_cpus: None,
        llc_mib: None,
        mb_per_s: None,
        ..one.clone()
    };
    a.programs.iter().map(asked).eq(b.programs.iter().map(asked))
}

/// Are the measured figures of the same programs close to each other?
fn near(a: &NodeReport, b: &NodeReport) -> bool {
    let figures = |one: &ReportedProgram| [one.used_cpus, one.llc_mib, one.mb_per_s];
    a.programs.iter().zip(&b.programs).all(|(a, b)| {
        figures(a).into_iter().zip(figures(b)).zip(LEAST_STEPS).all(|((a, b), step)| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= step.max(MEASURED_SHARE * a),
            (a, b) => a.is_some() == b.is_some(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::agent::{PodUsage, RunningPod};

    fn report(pods: u32, used: f64) -> AgentReport {
        let pod = |at: u32| RunningPod {
            name: format!("d/p{at}"),
            uid: at.to_string(),
            profile: Some("xz".to_owned()),
            cpus: 2,
            bound: None,
        };
        let pods: Vec<RunningPod> = (0..pods).map(pod).collect();
        let usage = PodUsage { cpus: Some(used), ..PodUsage::default() };
        let usage: BTreeMap<_, _> = pods.iter().map(|pod| (pod.uid.clone(), usage)).collect();
        AgentReport::new("m", &pods, &usage, 0)
    }

    #[test]
    fn what_changed_decides_how_soon() {
        let mut publisher = Publisher::new(UpdateRates::default());
        assert!(publisher.is_due(0, &report(1, 1.0)));
        publisher.published(0, &report(1, 1.0));
        // Nothing new, and 0.5 CPUs more, which is the least step.
        for used in [1.0, 1.5] {
            assert!(!publisher.is_due(119, &report(1, used)));
            assert!(publisher.is_due(120, &report(1, used)));
        }
        assert!(!publisher.is_due(59, &report(1, 1.6)) && publisher.is_due(60, &report(1, 1.6)));
        assert!(!publisher.is_due(9, &report(2, 1.0)) && publisher.is_due(10, &report(2, 1.0)));
        // Of a large figure a quarter is the step.
        publisher.published(200, &report(1, 8.0));
        assert!(
            !publisher.is_due(260, &report(1, 10.0)) && publisher.is_due(260, &report(1, 10.1))
        );
    }

    #[test]
    fn an_api_server_that_is_away_is_asked_ever_less_often() {
        let mut publisher = Publisher::new(UpdateRates::default());
        let mut tries = Vec::new();
        for now_s in 0..300 {
            if publisher.is_due(now_s, &report(1, 1.0)) {
                tries.push(now_s);
                publisher.failed(now_s);
            }
        }
        assert_eq!(tries, [0, 10, 30, 70, 130, 190, 250]);
        publisher.published(310, &report(1, 1.0));
        assert!(publisher.is_due(320, &report(2, 1.0)));
    }

    /// Whatever happens on a node: at most one update in 10 s, one in 60 s while the same pods run, and at least one
    /// in 120 s and the 10 s between two looks.
    #[test]
    fn updates_are_few_whatever_changes() {
        let mut random = Pcg64::seed_from_u64(1);
        for churns in [true, false] {
            let mut publisher = Publisher::new(UpdateRates::default());
            let mut updates: Vec<u64> = Vec::new();
            for now_s in (0..36_000).step_by(10) {
                let pods = if churns { random.random_range(0..9) } else { 3 };
                let now = report(pods, random.random_range(0.0..20.0));
                if publisher.is_due(now_s, &now) {
                    updates.push(now_s);
                    publisher.published(now_s, &now);
                }
            }
            let gaps: Vec<u64> = updates.windows(2).map(|two| two[1] - two[0]).collect();
            let least = if churns { 10 } else { 60 };
            assert_eq!(gaps.iter().min(), Some(&least));
            assert!(gaps.iter().all(|gap| *gap <= 130), "{gaps:?}");
        }
    }
}
