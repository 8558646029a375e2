//! From runs to the figures of a row.

use corun_metrics as metrics;
use corun_sim::RunResult;

/// The figures of a policy over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyFigures {
    /// Mean over programs, then over seeds.
    pub mean_slowdown: f64,
    /// Mean over seeds.
    pub stp: f64,
    /// Mean over seeds.
    pub unfairness: f64,
    /// The largest of any program with any seed.
    pub worst_slowdown: f64,
    /// Standard deviation / mean of a program's completion time over seeds, mean over programs.
    pub spread: Option<f64>,
    /// Longest / shortest completion time over seeds, mean over programs.
    pub worst_over_best: Option<f64>,
    /// A run, mean over seeds.
    pub migrations: f64,
    /// Of these, to another LLC.
    pub llc_migrations: f64,
    /// Each program's, mean over seeds.
    pub slowdown: Vec<f64>,
    /// Energy above idle for what a program does in a second alone, in joules, mean over seeds; none where the machine's
    /// power is not known.
    pub energy_per_work_j: Option<f64>,
    /// The same times how many times as long that takes as alone, for programs that are there throughout.
    pub energy_delay_per_work_j: Option<f64>,
}

/// Energy and energy x delay of a run for what a program does in a second alone, in joules; none where the machine's
/// power is not known.
fn energies(run: &RunResult) -> Option<[f64; 2]> {
    let energy = run.energy?;
    let work_s: f64 = run.apps.iter().map(|app| app.progress_runs * app.solo_completion_s).sum();
    let per_work_j = energy.above_idle_j() / work_s;
    let delay = run.apps.len() as f64 * run.simulated_s / work_s;
    (work_s > 0.0).then_some([per_work_j, per_work_j * delay])
}

/// The figures of runs that differ in their seed alone; none when a program got nothing done in
/// one of them.
pub fn figures(runs: &[RunResult]) -> Option<PolicyFigures> {
    let slowdowns: Vec<Vec<f64>> = runs
        .iter()
        .map(|run| run.apps.iter().map(|app| app.slowdown).collect())
        .collect::<Option<_>>()?;
    let over_seeds = |figure: fn(&[f64]) -> Option<f64>| {
        metrics::mean(&slowdowns.iter().map(|one| figure(one)).collect::<Option<Vec<f64>>>()?)
    };
    let programs = slowdowns.first()?.len();
    let of_program =
        |program: usize| -> Vec<f64> { slowdowns.iter().map(|one| one[program]).collect() };
    let over_programs = |figure: fn(&[f64]) -> Option<f64>| {
        let each: Option<Vec<f64>> =
            (0..programs).map(|program| figure(&of_program(program))).collect();
        metrics::mean(&each?)
    };
    let moves = |count: fn(&RunResult) -> u64| {
        metrics::mean(&runs.iter().map(|run| count(run) as f64).collect::<Vec<f64>>())
    };
    let energies: Option<Vec<[f64; 2]>> = runs.iter().map(energies).collect();
    let energy = |of: usize| {
        metrics::mean(&energies.as_ref()?.iter().map(|run| run[of]).collect::<Vec<f64>>())
    };
    Some(PolicyFigures {
        energy_per_work_j: energy(0),
        energy_delay_per_work_j: energy(1),
        mean_slowdown: over_seeds(metrics::mean_slowdown)?,
        stp: over_seeds(metrics::stp)?,
        unfairness: over_seeds(metrics::unfairness)?,
        worst_slowdown: slowdowns.iter().flatten().copied().reduce(f64::max)?,
        // A program's solo time does not depend on the seed: its slowdown varies as its time.
        spread: over_programs(metrics::spread).filter(|_| runs.len() > 1),
        worst_over_best: over_programs(metrics::worst_over_best).filter(|_| runs.len() > 1),
        migrations: moves(|run| run.apps.iter().map(|app| app.migrations).sum())?,
        llc_migrations: moves(|run| run.apps.iter().map(|app| app.llc_migrations).sum())?,
        slowdown: (0..programs)
            .map(|program| metrics::mean(&of_program(program)))
            .collect::<Option<_>>()?,
    })
}
