//! Policies side by side.

mod bounds;
mod figures;
mod grouping;
mod history;
mod row;
mod services;
mod setup;
mod simulate;
mod timeline;

use anyhow::anyhow;
use std::sync::atomic::AtomicBool;

use corun_machine::Machine;
use corun_profile::Method;
use corun_sim::RunResult;

use self::bounds::ReachedPlacement;
pub use self::bounds::{Bounds, FrontierEntry};
pub use self::figures::{PolicyFigures, figures};
use self::history::History;
pub use self::row::{Comparison, ComparisonData, ComparisonRow, LongRow, RowKind};
pub use self::services::ServiceRow;
pub use self::setup::{ComparisonRequest, ComparisonSetup};
pub use self::simulate::ComparisonHooks;
use self::simulate::PolicyRun;
pub use self::timeline::{Migration, Timeline};
use crate::data::DataSources;
use crate::{Error, Result};

/// Digits after the point in the document: more are not the model's to give.
const DIGITS: i32 = 6;

/// A run is short that takes less alone: it has as many phases as a long one, and in each of them caches fill anew. Beside gzip,
/// perl and sqlite3 on the `xeon-x5365` the slowdown of igraph is 1.20 in runs of 2 ms, 1.03 in runs of 10 ms, and 1.01 from 40 ms on.
pub const SHORT_RUN_S: f64 = 0.05;

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
        let ran = self.all_runs(hooks)?;
        let reached = ReachedPlacement::of_runs(self, ran.iter().flatten());
        let bounds = bounds::bounds(self, &reached, time_limit_s, hooks.stop)?;
        let results =
            |of_policy: Vec<PolicyRun>| of_policy.into_iter().map(|run| run.result).collect();
        let runs: Vec<Vec<RunResult>> = ran.into_iter().map(results).collect();
        let mut rows = Vec::new();
        for (policy, of_policy) in self.policies.iter().zip(&runs) {
            rows.push(self.row(policy.name(), of_policy)?);
        }
        ComparisonRow::mark_the_same(&mut rows);
        let mut no_optimum = None;
        let mut extrapolated = self.extrapolated(runs.iter().flatten());
        match bounds {
            Ok(mut found) => {
                found.learn_from(self, &reached, hooks.stop)?;
                found.measure(&mut rows, self.objective);
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
            best.measure(&mut rows, self.objective);
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
            objective: self.objective.name(),
            data: ComparisonData {
                model: DataSources::of(&self.profiles, self.model.machine(), self.model.options()),
                extrapolated: extrapolated.into_iter().map(names).collect(),
                short_runs: short_runs(runs.iter().flatten().next()),
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
        bounds::bounds(self, &[], time_limit_s, stop)
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
            let apps = runs.iter().flat_map(|run| run.apps.iter().zip(&self.apps));
            let mut without = apps.filter(|(app, _)| app.slowdown.is_none());
            let Some((app, spec)) = without.next() else {
                return Error::failed(anyhow!("{policy}: no program has a slowdown"));
            };
            let why = match spec.kill {
                Some(kill) => {
                    format!("is killed at {} s before a run of it is complete", kill.as_secs_f64())
                }
                None => "got nothing done: it starts after the end of the run, or waits until then"
                    .to_owned(),
            };
            Error::failed(anyhow!("{policy}: {} {why}, so there is no slowdown", app.name))
        })?;
        let first = runs.first().ok_or_else(|| Error::failed(anyhow!("{policy}: no run")))?;
        let machine = self.model.machine();
        let cpus = History::new(machine, first).longest_cpus();
        let row = ComparisonRow::of_runs(policy, RowKind::Policy, &figures, machine, &cpus);
        Ok(ComparisonRow { services: ServiceRow::of_runs(runs), ..row })
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

/// The programs whose run alone is short. A service has no end.
fn short_runs(run: Option<&RunResult>) -> Vec<String> {
    let apps = run.into_iter().flat_map(|run| &run.apps);
    let short = apps.filter(|app| app.service.is_none() && app.solo_completion_s < SHORT_RUN_S);
    short.map(|app| app.name.clone()).collect()
}

/// The method's name in mix files.
fn method_name(method: Method) -> &'static str {
    match method {
        Method::Restart3 => "restart-3",
        Method::Window => "window",
        Method::FirstRun => "first-run",
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;
    use corun_optimal::Objective;
    use corun_profile::Mix;

    use super::*;
    use crate::{ComparisonRequest, PlacementDocument, PolicySpec, Scenario, round};

    #[test]
    fn a_search_without_time_is_no_worse_than_what_a_policy_came_to() {
        // Dealt out by turns, programs of equal demand share an LLC: the worst start.
        let names =
            ["sort", "numpy", "flac", "stockfish", "kernel-triad", "igraph", "lua", "sqlite3"];
        let setup = ComparisonSetup::new(ComparisonRequest {
            library: None,
            machine: Some(preset("xeon-x5365").unwrap()),
            mix: Some((Mix::of_apps(&names).unwrap(), None)),
            policies: Some(PolicySpec::parse_all(&["dio", "random"].map(str::to_owned)).unwrap()),
            seeds: Some(3),
            instructions: Some(15_000_000_000),
            options: corun_model::ModelOptions::default(),
        });
        let setup = setup.unwrap();
        let stop = AtomicBool::new(false);
        let hooks = ComparisonHooks { stop: &stop, step: &|| {} };
        let compared = setup.compare(0.0, hooks).unwrap().comparison;
        let optimal = &compared.policies[0];
        assert_eq!((optimal.policy.as_str(), optimal.optimal_proven), ("optimal", Some(false)));
        for run in setup.all_runs(hooks).unwrap().iter().flatten() {
            let held = figures(&[setup.held(&run.cpus, &stop).unwrap()]).unwrap();
            assert!(optimal.mean_slowdown <= round(held.mean_slowdown, DIGITS), "{:?}", run.cpus);
        }
        assert!(compared.policies.iter().all(|row| row.above_optimal_percent >= Some(0.0)));
    }
    /// Programs of one phase that run all the time: the simulator counts what the model predicts, on one package and on
    /// two.
    #[test]
    fn predicted_and_simulated_energy_agree() {
        let names = ["kernel-triad", "kernel-triad", "kernel-stencil"];
        let setup = ComparisonSetup::new(ComparisonRequest {
            library: None,
            machine: Some(preset("xeon-x5365").unwrap()),
            mix: Some((Mix { method: Method::Window, ..Mix::of_apps(&names).unwrap() }, None)),
            policies: Some(PolicySpec::parse_all(&["linux-default".to_owned()]).unwrap()),
            seeds: Some(1),
            instructions: Some(20_000_000_000),
            options: corun_model::ModelOptions::default(),
        });
        let setup = setup.unwrap();
        let names = names.map(str::to_owned);
        let scenario = Scenario::new(
            preset("xeon-x5365").unwrap(),
            &corun_profile::Library::shipped().unwrap(),
            &names,
            corun_model::ModelOptions::default(),
        );
        let scenario = scenario.unwrap();
        let proof = crate::SearchProof::default();
        for cpus in [[0, 1, 2], [0, 2, 4], [0, 1, 6]] {
            let run = setup.held(&cpus, &AtomicBool::new(false)).unwrap();
            let simulated = figures(&[run]).unwrap();
            let predicted =
                PlacementDocument::new(&scenario, &cpus, None, Objective::Energy, proof);
            for (simulated, predicted) in [
                (simulated.energy_per_work_j, predicted.energy_per_work_j),
                (simulated.energy_delay_per_work_j, predicted.energy_delay_per_work_j),
            ] {
                let ratio = simulated.unwrap() / predicted.unwrap();
                assert!((ratio - 1.0).abs() < 0.002, "{cpus:?}: {simulated:?} {predicted:?}");
            }
        }
    }
}
