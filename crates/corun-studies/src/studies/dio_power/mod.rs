//! DIO-POWER: Blagodurov, Zhuravlev and Fedorova, ACM TOCS 28(4), 2010, section 6: what placements
//! draw (Table V), and energy-delay product against spreading and packing always (Fig. 16 and 17).

mod figures;
mod placements;

use std::sync::Arc;

use anyhow::anyhow;
use corun_app::Result;
use corun_model::Model;
use corun_sim::{AppSpec, RunResult};

use self::placements::Placed;
use super::dio_mixes::MIXES;
use super::lamp::programs;
use crate::harness::{Page, Programs, Study, StudyInputs, no_options};
use crate::held_placements::{all_held, best_of, held};
use crate::simulate::{TunedPolicy, apps, by_seed, model_of, restarting};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "dio-power",
    summary: "DIO-POWER against spreading and packing always, by energy-delay product (DIO, section 6)",
    programs: Programs::Spec,
    seeds: Some(10),
    has_quick: true,
    options: no_options,
    page,
    explained_in: "docs/studies/dio.md",
};

/// The paper's Intel machine: packages sleep.
const MACHINE: &str = "xeon-x5365";

/// The policies compared; the last is the study's.
const POLICIES: [TunedPolicy; 4] = [
    TunedPolicy::plain("linux-default"),
    TunedPolicy::plain("linux-power-saving"),
    TunedPolicy::plain("dio-2010"),
    TunedPolicy::plain("dio-power"),
];

/// Web and database threads of the LAMP workloads (Table V and section 6).
const LAMP: [(usize, usize); 3] = [(4, 0), (2, 2), (1, 3)];

/// Means over the seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MeanFigures {
    mean_slowdown: f64,
    power_w: f64,
    /// Eq. 9, in J s per instruction.
    edp: f64,
}

/// A workload under each of [`POLICIES`].
struct Workload {
    /// Its number among those of the paper, of which a first look leaves some out.
    number: usize,
    name: String,
    figures: Vec<MeanFigures>,
    /// In the placement of the least EDP of all that differ, each simulated with the first seed, held throughout.
    best: MeanFigures,
}

impl Workload {
    fn of(&self, policy: &str) -> MeanFigures {
        let place = POLICIES.iter().position(|one| one.policy == policy).unwrap_or(0);
        self.figures[place]
    }

    /// By how many % dio-power's EDP is above that of the best placement held throughout.
    fn room(&self) -> f64 {
        100.0 * (self.of("dio-power").edp / self.best.edp - 1.0)
    }

    /// How much lower dio-power's EDP is than another policy's, in % of dio-power's: 100 is half.
    fn edp_gain(&self, policy: &str) -> f64 {
        100.0 * (self.of(policy).edp / self.of("dio-power").edp - 1.0)
    }
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let model = model_of(MACHINE)?;
    let placed = placements::placed(&model, inputs.spec()?)?;
    let mut lamp = Vec::new();
    for (place, (web, database)) in
        LAMP.into_iter().enumerate().step_by(inputs.every(3, "LAMP workloads"))
    {
        let apps = programs::threads(&model, web, database)?;
        let name = format!("{web} web, {database} database");
        lamp.push(workload(inputs, &model, (place + 1, name), &apps)?);
    }
    let mut mixes = Vec::new();
    for (place, mix) in MIXES.iter().enumerate().step_by(inputs.every(4, "mixes")) {
        let apps = apps(&model, inputs.spec()?, mix)?;
        let name = format!("{}: {}", place + 1, mix.join(", "));
        mixes.push(workload(inputs, &model, (place + 1, name), &apps)?);
    }
    Ok(figures::page(inputs.seeds, &placed, &lamp, &mixes))
}

fn workload(
    inputs: &StudyInputs,
    model: &Arc<Model>,
    (number, name): (usize, String),
    apps: &[AppSpec],
) -> Result<Workload> {
    let figures = POLICIES
        .iter()
        .map(|&policy| figures(&by_seed(inputs, model, apps, policy)?))
        .collect::<Result<_>>()?;
    // Programs of one name are alike.
    let kind = |app: &AppSpec| {
        apps.iter().position(|one| Arc::ptr_eq(&one.program, &app.program)).unwrap_or_default()
    };
    let kinds: Vec<usize> = apps.iter().map(kind).collect();
    let mut placements = Vec::new();
    for held in all_held(inputs, &restarting(model, apps, 1), &kinds)? {
        placements.push((self::figures(&[held.result])?.edp, held.cpus));
    }
    let best = best_of(&placements, |(edp, _)| -edp);
    let (_, cpus) = best.ok_or_else(|| anyhow!("a program got nothing done"))?;
    let run = |seed| held(inputs, &restarting(model, apps, seed), cpus);
    let runs = (1..=u64::from(inputs.seeds)).map(run).collect::<Result<Vec<_>>>()?;
    Ok(Workload { number, name, figures, best: self::figures(&runs)? })
}

fn figures(runs: &[RunResult]) -> Result<MeanFigures> {
    let known = || anyhow!("{MACHINE}: expected power figures in its file");
    let mean = |of: &dyn Fn(&RunResult) -> Option<f64>| -> Result<f64> {
        let all = runs.iter().map(of).collect::<Option<Vec<f64>>>().ok_or_else(known)?;
        Ok(corun_metrics::mean(&all).ok_or_else(known)?)
    };
    let slowdown = |run: &RunResult| {
        let all = run.apps.iter().map(|app| app.slowdown).collect::<Option<Vec<f64>>>()?;
        corun_metrics::mean_slowdown(&all)
    };
    let edp = |run: &RunResult| {
        corun_metrics::edp_joule_seconds_per_instruction(
            run.energy?.above_idle_j(),
            run.simulated_s,
            run.instructions(),
        )
    };
    Ok(MeanFigures {
        mean_slowdown: mean(&slowdown)?,
        power_w: mean(&RunResult::power_w)?,
        edp: mean(&edp)?,
    })
}
