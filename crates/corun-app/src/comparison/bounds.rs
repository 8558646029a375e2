//! What encloses the policies: the best and the worst placement, and the mean over random ones.

use anyhow::anyhow;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_machine::Machine;
use corun_metrics as metrics;
use corun_model::LoadedProgram;
use corun_optimal::{
    Goal, Objective, PlacementProblem, PlacementResult, RandomExpectation, SearchLimits,
};

use serde::Serialize;

use super::DIGITS;
use super::figures::figures;
use super::grouping;
use super::row::{ComparisonRow, RowKind};
use super::setup::ComparisonSetup;
use super::simulate::PolicyRun;
use crate::{Error, Result, check, round};

/// Placements of the frontier that are simulated, at most.
const MOST_SIMULATED: usize = 30;
/// Placements drawn for the expectation where they are too many to visit.
const DRAWS: u64 = 10_000;

/// The bounds as rows, and what their runs say of the data.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The best placement, held for a whole run.
    pub optimal: ComparisonRow,
    /// The mean over random placements, where it can be had.
    pub expectation: Option<ComparisonRow>,
    /// The worst placement, held for a whole run.
    pub worst: ComparisonRow,
    /// Places of programs with a figure outside the measured range.
    pub extrapolated: Vec<usize>,
}

impl Bounds {
    /// Says of each row how much worse than the optimum it is by the objective.
    pub fn measure(&self, rows: &mut [ComparisonRow], objective: Objective) {
        self.optimal.measure(rows, objective);
    }

    /// Where the search was ended before it had a proof, the simulation may find a policy's placement better than the
    /// one that the model holds for the best: those of runs that did better are held for a whole run, too.
    pub(super) fn learn_from(
        &mut self,
        setup: &ComparisonSetup,
        reached: &[ReachedPlacement],
        stop: &AtomicBool,
    ) -> Result {
        if self.optimal.optimal_proven != Some(false) {
            return Ok(());
        }
        let objective = setup.objective;
        let Some(searched) = self.optimal.value(objective) else { return Ok(()) };
        let is_better = |value: f64, other: f64| {
            if objective.is_largest_best() { value > other } else { value < other }
        };
        let mut least = searched;
        for placement in reached.iter().filter(|one| is_better(one.value, searched)) {
            let mut extrapolated = Vec::new();
            let (name, kind) = ("optimal", RowKind::Optimal);
            let cpus = &placement.cpus;
            let row = held_row(setup, name, kind, cpus, Some(false), &mut extrapolated, stop)?;
            if let Some(value) = row.value(objective).filter(|&value| is_better(value, least)) {
                least = value;
                self.extrapolated.extend(extrapolated);
                self.optimal = ComparisonRow { above_optimal_percent: Some(0.0), ..row };
            }
        }
        if least != searched {
            // The model's own best is worse than this one, too.
            let others = self.expectation.iter_mut().chain([&mut self.worst]);
            for row in others {
                row.above_optimal_percent = self.optimal.above(row, objective);
            }
        }
        Ok(())
    }
}

/// A CPU of its own for each program, as a policy's run had it longest, or near to that.
pub(super) struct ReachedPlacement {
    /// Each program's CPU (index).
    pub(super) cpus: Vec<usize>,
    /// By the objective, in the best of the runs.
    value: f64,
}

impl ReachedPlacement {
    /// The placements of all runs, each once: those with a CPU for each program, and those with programs apart as far as
    /// there are idle cores. Programs that moved, or began again elsewhere, may have been on one CPU longest.
    pub(super) fn of_runs<'r>(
        setup: &ComparisonSetup,
        runs: impl Iterator<Item = &'r PolicyRun>,
    ) -> Vec<Self> {
        let (machine, objective) = (setup.model.machine(), setup.objective);
        let mut best: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for run in runs {
            let Some(figures) = figures(slice::from_ref(&run.result)) else { continue };
            let row =
                ComparisonRow::of_runs("", RowKind::Policy, &figures, machine, run.cpus.as_slice());
            let Some(value) = row.value(objective) else { continue };
            let distinct: BTreeSet<&usize> = run.cpus.iter().collect();
            let own = (distinct.len() == run.cpus.len()).then(|| run.cpus.clone());
            for cpus in own.into_iter().chain(apart(machine, &run.cpus)) {
                let known = best.entry(cpus).or_insert(value);
                *known =
                    if objective.is_largest_best() { known.max(value) } else { known.min(value) };
            }
        }
        best.into_iter().map(|(cpus, value)| Self { cpus, value }).collect()
    }
}

/// A CPU of its own for each program, given one that it may share: who is on a core with another goes to an idle core, of its
/// LLC where there is one, and then to any CPU that nobody has. None where there are too few CPUs.
fn apart(machine: &Machine, cpus: &[usize]) -> Option<Vec<usize>> {
    let all = machine.cpus();
    let mut on_core = vec![0_u32; machine.cores().len()];
    let mut given: Vec<Option<usize>> = vec![None; cpus.len()];
    let mut used = BTreeSet::new();
    for (given, &cpu) in given.iter_mut().zip(cpus) {
        if on_core[all[cpu].core] == 0 {
            on_core[all[cpu].core] = 1;
            used.insert(cpu);
            *given = Some(cpu);
        }
    }
    let settled = given.into_iter().zip(cpus).map(|(given, &own)| {
        given.or_else(|| {
            let free = (0..all.len()).filter(|cpu| !used.contains(cpu));
            let rank = |cpu: usize| (on_core[all[cpu].core], all[cpu].llc != all[own].llc, cpu);
            let cpu = free.min_by_key(|&cpu| rank(cpu))?;
            on_core[all[cpu].core] += 1;
            used.insert(cpu);
            Some(cpu)
        })
    });
    settled.collect()
}

impl ComparisonRow {
    /// Says of each row how much worse than this one it is by the objective.
    pub(super) fn measure(&self, rows: &mut [Self], objective: Objective) {
        for row in rows {
            row.above_optimal_percent = self.above(row, objective);
        }
    }

    fn above(&self, row: &Self, objective: Objective) -> Option<f64> {
        let above = above(row.value(objective)?, self.value(objective)?, objective);
        above.map(|percent| round(percent, DIGITS))
    }
}

/// How much worse than the optimum a value is, in percent.
fn above(value: f64, optimum: f64, objective: Objective) -> Option<f64> {
    if objective.is_largest_best() {
        metrics::above_optimal_percent(optimum, value)
    } else {
        metrics::above_optimal_percent(value, optimum)
    }
}

/// Where programs take turns: the best grouping that a search finds, held for a whole run, and the mean slowdown that
/// none is below.
pub(super) fn best_grouping(
    setup: &ComparisonSetup,
    extrapolated: &mut Vec<usize>,
    stop: &AtomicBool,
) -> Result<(ComparisonRow, f64)> {
    let cpus = grouping::best(setup, stop)?;
    let row =
        held_row(setup, "best found", RowKind::Optimal, &cpus, Some(false), extrapolated, stop)?;
    let bound = grouping::bound(setup.apps.len(), setup.model.machine().cpus().len());
    let bound = round(bound, DIGITS);
    Ok((ComparisonRow { above_optimal_percent: Some(0.0), ..row }, bound))
}

/// The bounds, or why there are none. The placements are found by the model, none worse than a reached one, and
/// then simulated as the policies are, so that like is compared with like.
pub(super) fn bounds(
    setup: &ComparisonSetup,
    reached: &[ReachedPlacement],
    time_limit_s: f64,
    stop: &AtomicBool,
) -> Result<std::result::Result<Bounds, String>> {
    if let Err(why) = setup.is_steady() {
        return Ok(Err(why));
    }
    let programs: Vec<Arc<LoadedProgram>> =
        setup.apps.iter().map(|app| app.program.clone()).collect();
    let homes: Vec<Option<usize>> = setup.apps.iter().map(|app| app.home).collect();
    let problem = match PlacementProblem::new(&setup.model, &programs) {
        Ok(problem) => problem.with_homes(&homes)?,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let known: Vec<Vec<usize>> = reached.iter().map(|one| one.cpus.clone()).collect();
    let placer = problem.placer()?.with_starts(&known)?;
    let (limits, objective) = (limits(time_limit_s, stop), setup.objective);
    let best = placer.solve(objective, Goal::Best, &limits);
    check(stop)?;
    let worst = placer.solve(objective, Goal::Worst, &limits);
    check(stop)?;
    // So many draws end soon, and fewer would be another figure on a busy machine.
    let untimed = SearchLimits { time: None, ..limits };
    let random = placer.expectation(objective, DRAWS, 1, &untimed);
    check(stop)?;
    let mut extrapolated = Vec::new();
    let optimal = held_row(
        setup,
        "optimal",
        RowKind::Optimal,
        &best.cpu,
        Some(best.proven),
        &mut extrapolated,
        stop,
    )?;
    let worst = held_row(
        setup,
        "worst",
        RowKind::Worst,
        &worst.cpu,
        Some(worst.proven),
        &mut extrapolated,
        stop,
    )?;
    let mut bounds = Bounds { optimal, expectation: None, worst, extrapolated };
    bounds.optimal.above_optimal_percent = Some(0.0);
    bounds.worst.above_optimal_percent = bounds.optimal.above(&bounds.worst, objective);
    bounds.expectation =
        random.and_then(|random| expectation_row(&random, &best, &bounds.optimal, objective));
    Ok(Ok(bounds))
}

fn limits(time_limit_s: f64, stop: &AtomicBool) -> SearchLimits<'_> {
    let time = Some(Duration::from_secs_f64(time_limit_s));
    SearchLimits { time, cancel: Some(stop), ..SearchLimits::default() }
}

fn held_row(
    setup: &ComparisonSetup,
    name: &str,
    kind: RowKind,
    cpus: &[usize],
    proven: Option<bool>,
    extrapolated: &mut Vec<usize>,
    stop: &AtomicBool,
) -> Result<ComparisonRow> {
    let run = setup.held(cpus, stop)?;
    extrapolated.extend((0..run.apps.len()).filter(|&place| run.apps[place].extrapolated));
    let figures = figures(&[run])
        .ok_or_else(|| Error::failed(anyhow!("{name}: a program got nothing done")))?;
    Ok(ComparisonRow {
        // Nobody moves.
        migrations: None,
        llc_migrations: None,
        optimal_proven: proven,
        ..ComparisonRow::of_runs(name, kind, &figures, setup.model.machine(), cpus)
    })
}

/// The expectation is the model's: as far above the best placement that was searched for as it is by the model, in
/// the figures of that placement's simulation, which differ a little from the model's.
fn expectation_row(
    random: &RandomExpectation,
    best: &PlacementResult,
    optimal: &ComparisonRow,
    objective: Objective,
) -> Option<ComparisonRow> {
    let rounded = |value: f64| round(value, DIGITS);
    let above = above(random.value, best.value, objective);
    let simulated_by_model = optimal.mean_slowdown / metrics::mean_slowdown(&best.slowdown)?;
    let slowdown: Vec<f64> =
        random.slowdown.iter().map(|slowdown| slowdown * simulated_by_model).collect();
    let mean_slowdown = metrics::mean_slowdown(&slowdown)?;
    let value = random.value * optimal.value(objective)? / best.value;
    let is_of = |one: Objective| (objective == one).then(|| rounded(value));
    let standard_error = random.standard_error * value / random.value;
    Some(ComparisonRow {
        standard_error: (!random.exact).then(|| rounded(standard_error)),
        above_optimal_percent: above.map(rounded),
        stp: is_of(Objective::Stp),
        unfairness: is_of(Objective::Unfairness),
        worst_slowdown: is_of(Objective::MaxSlowdown),
        energy_per_work_j: is_of(Objective::Energy),
        energy_delay_per_work_j: is_of(Objective::EnergyDelay),
        ..ComparisonRow::of_slowdowns(
            "random (expected)",
            RowKind::Expectation,
            mean_slowdown,
            &slowdown,
        )
    })
}

/// A placement on the frontier of throughput and unfairness, held for a whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontierEntry {
    /// Throughput: the sum of 1 / slowdown.
    pub stp: f64,
    /// The largest slowdown over the smallest.
    pub unfairness: f64,
    /// Each program's CPU, the machine's own number.
    pub cpu: Vec<u32>,
}

/// As [`ComparisonSetup::frontier`].
pub(super) fn frontier(
    setup: &ComparisonSetup,
    time_limit_s: f64,
    stop: &AtomicBool,
) -> Result<Vec<FrontierEntry>> {
    if setup.is_steady().is_err() {
        return Ok(Vec::new());
    }
    let programs: Vec<Arc<LoadedProgram>> =
        setup.apps.iter().map(|app| app.program.clone()).collect();
    let homes: Vec<Option<usize>> = setup.apps.iter().map(|app| app.home).collect();
    let Ok(problem) = PlacementProblem::new(&setup.model, &programs) else { return Ok(Vec::new()) };
    let found = problem.with_homes(&homes)?.placer()?.frontier(&limits(time_limit_s, stop));
    check(stop)?;
    let found = found.unwrap_or_default();
    let step = found.len().div_ceil(MOST_SIMULATED).max(1);
    let mut entries: Vec<FrontierEntry> = Vec::new();
    // From the highest throughput down, so that the ends stay.
    for point in found.iter().rev().step_by(step) {
        let run = setup.held(&point.cpu, stop)?;
        let Some(figures) = figures(&[run]) else { continue };
        let machine = setup.model.machine();
        let row = ComparisonRow::of_runs("", RowKind::Optimal, &figures, machine, &point.cpu);
        let (Some(stp), Some(unfairness)) = (row.stp, row.unfairness) else { continue };
        let cpu = point.cpu.iter().map(|&cpu| machine.cpus()[cpu].id.0).collect();
        entries.push(FrontierEntry { stp, unfairness, cpu });
    }
    // Simulated figures differ a little from the model's.
    entries.sort_by(|one, other| {
        other.stp.total_cmp(&one.stp).then(one.unfairness.total_cmp(&other.unfairness))
    });
    let mut fairest = f64::INFINITY;
    entries.retain(|one| {
        let is_fairer = one.unfairness < fairest;
        fairest = fairest.min(one.unfairness);
        is_fairer
    });
    entries.reverse();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    #[test]
    fn who_shares_a_core_goes_to_an_idle_one() {
        // Two cores share each of the four LLCs, and no core has two CPUs.
        let machine = preset("xeon-x5365").unwrap();
        let llc = |cpu: usize| machine.cpus()[cpu].llc;
        let found = apart(&machine, &[0, 0, 5, 0]).unwrap();
        assert_eq!((found[0], found[2]), (0, 5));
        assert!(found[1] != 0 && llc(found[1]) == llc(0), "{found:?}");
        // The LLC is full then.
        assert!(llc(found[3]) != llc(0), "{found:?}");
        let distinct: BTreeSet<usize> = found.iter().copied().collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(apart(&machine, &[3, 1, 2]), Some(vec![3, 1, 2]));
        assert_eq!(apart(&machine, &vec![0; machine.cpus().len() + 1]), None);
    }

    #[test]
    fn siblings_come_apart_as_long_as_cores_are_idle() {
        let machine = preset("epyc-9554").unwrap();
        let all = machine.cpus();
        let sibling = (1..all.len()).find(|&cpu| all[cpu].core == all[0].core).unwrap();
        let found = apart(&machine, &[0, sibling]).unwrap();
        assert!(all[found[0]].core != all[found[1]].core, "{found:?}");
        assert_eq!(all[found[1]].llc, all[0].llc);
        let full = apart(&machine, &vec![0; all.len()]).unwrap();
        assert_eq!(full.into_iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
