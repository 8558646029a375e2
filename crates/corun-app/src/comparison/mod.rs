//! Policies side by side.

mod bounds;
mod figures;
mod grouping;
mod history;
mod row;
mod setup;
mod simulate;
mod timeline;

use anyhow::anyhow;
use std::sync::atomic::AtomicBool;

use corun_machine::Machine;
use corun_profile::Method;
use corun_sim::RunResult;

pub use self::bounds::{Bounds, FrontierEntry};
pub use self::figures::{PolicyFigures, figures};
use self::history::History;
pub use self::row::{Comparison, ComparisonData, ComparisonRow, LongRow, RowKind};
pub use self::setup::{ComparisonRequest, ComparisonSetup};
pub use self::simulate::ComparisonHooks;
pub use self::timeline::{Migration, Timeline};
use crate::data::DataSources;
use crate::{Error, Result};

/// Digits after the point in the document: more are not the model's to give.
const DIGITS: i32 = 6;

/// A comparison and the runs behind it.
#[derive(Debug, Clone)]
pub struct ComparisonOutcome {
    /// The document.
    pub comparison: Comparison,
    /// By policy (not bound) and seed, in the order of [`ComparisonSetup::policies`]. Where threads were is
    /// kept for the first seed.
    pub runs: Vec<Vec<RunResult>>,
}

/// A run as it is drawn; programs of several threads are followed by their first thread.
pub fn timeline(machine: &Machine, run: &RunResult) -> Timeline {
    History::new(machine, run).timeline()
}

impl ComparisonSetup {
    /// Simulates every policy with every seed, and the best and the worst placement beside them.
    /// Either search takes up to `time_limit_s` seconds.
    ///
    /// # Errors
    /// As [`ComparisonSetup::run`], and for a policy under which a program got nothing done.
    pub fn compare(
        &self,
        time_limit_s: f64,
        hooks: ComparisonHooks<'_>,
    ) -> Result<ComparisonOutcome> {
        let runs = self.all_runs(hooks)?;
        let bounds = self.bounds(time_limit_s, hooks.stop)?;
        let mut rows = Vec::new();
        for (policy, of_policy) in self.policies.iter().zip(&runs) {
            rows.push(self.row(policy.name(), of_policy)?);
        }
        ComparisonRow::mark_the_same(&mut rows);
        let mut no_optimum = None;
        let mut extrapolated = self.extrapolated(runs.iter().flatten());
        match bounds {
            Ok(mut found) => {
                found.learn_from(self, &rows, hooks.stop)?;
                found.measure(&mut rows);
                extrapolated.extend(found.extrapolated);
                rows.insert(0, found.optimal);
                rows.extend(found.expectation);
                rows.push(found.worst);
            }
            Err(why) => no_optimum = Some(why),
        }
        let mut least_mean_slowdown = None;
        if self.takes_turns() {
            let (best, bound) = bounds::best_grouping(self, &mut extrapolated, hooks.stop)?;
            best.measure(&mut rows);
            rows.insert(0, best);
            least_mean_slowdown = Some(bound);
        }
        extrapolated.sort_unstable();
        extrapolated.dedup();
        let names = |place: usize| self.apps[place].name.clone();
        let comparison = Comparison {
            machine: self.model.machine().name().to_owned(),
            apps: self.apps.iter().map(|app| app.name.clone()).collect(),
            method: method_name(self.method).to_owned(),
            seeds: self.seeds,
            as_live: self.observation.is_some(),
            data: ComparisonData {
                model: DataSources::of(&self.profiles, self.model.machine(), self.model.options()),
                extrapolated: extrapolated.into_iter().map(names).collect(),
                no_optimum,
                least_mean_slowdown,
            },
            policies: rows,
        };
        Ok(ComparisonOutcome { comparison, runs })
    }

    /// The best and the worst placement as rows, or why there are none.
    ///
    /// # Errors
    /// As [`ComparisonSetup::run`].
    pub fn bounds(
        &self,
        time_limit_s: f64,
        stop: &AtomicBool,
    ) -> Result<std::result::Result<Bounds, String>> {
        bounds::bounds(self, time_limit_s, stop)
    }

    /// Placements of which no other has more throughput without more unfairness, by rising throughput: found by the model
    /// among all placements, and simulated as policies are. Empty where there are no bounds, or too many placements to
    /// look at each.
    ///
    /// # Errors
    /// As [`ComparisonSetup::run`].
    pub fn frontier(&self, time_limit_s: f64, stop: &AtomicBool) -> Result<Vec<FrontierEntry>> {
        bounds::frontier(self, time_limit_s, stop)
    }

    /// The row of a policy from its runs, which differ in their seed alone.
    ///
    /// # Errors
    /// No run, or a program that got nothing done in one of them.
    pub fn row(&self, policy: &str, runs: &[RunResult]) -> Result<ComparisonRow> {
        let figures = figures(runs).ok_or_else(|| {
            Error::failed(anyhow!("{policy}: a program got nothing done, so there is no slowdown"))
        })?;
        let first = runs.first().ok_or_else(|| Error::failed(anyhow!("{policy}: no run")))?;
        let machine = self.model.machine();
        let cpus = History::new(machine, first).longest_cpus();
        Ok(ComparisonRow::of_runs(policy, RowKind::Policy, &figures, machine, &cpus))
    }

    /// The programs with a figure that was read outside the measured range.
    fn extrapolated<'a>(&self, runs: impl Iterator<Item = &'a RunResult>) -> Vec<usize> {
        let mut found = vec![false; self.apps.len()];
        for run in runs {
            for (place, app) in run.apps.iter().enumerate() {
                found[place] |= app.extrapolated;
            }
        }
        (0..found.len()).filter(|&place| found[place]).collect()
    }
}

/// The method's name in mix files.
fn method_name(method: Method) -> &'static str {
    match method {
        Method::Restart3 => "restart-3",
        Method::Window => "window",
        Method::FirstRun => "first-run",
    }
}
