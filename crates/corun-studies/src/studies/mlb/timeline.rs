//! Fig. 6 and 12: programs that come and go.

use corun_app::{Error, Result};
use corun_model::{Running, Scratch};
use corun_policy::Nanoseconds;
use corun_profile::Method;
use corun_report::{Axis, Mark, Panel, Plot, signed};
use corun_sim::AppSpec;

use super::mixes::MIX_1;
use super::platform::{DEFAULT, MEMORY_BOUND, MLB, Platform, Ran, VBSC, mean_of};
use super::watch::Sample;
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::simulate::TunedPolicy;

/// When Fig. 6's memory-bound programs come and go, in s, two of each.
const COMING: [(&str, f64, f64); 4] = [
    ("lbm", 30.0, 390.0),
    ("libquantum", 60.0, 360.0),
    ("soplex", 90.0, 330.0),
    ("GemsFDTD", 120.0, 300.0),
];
const STAYING: [&str; 4] = ["namd", "sjeng", "gamess", "gobmk"];
const END_S: f64 = 420.0;

/// Longer than any of these experiments.
const ENDLESS_S: f64 = 10_000.0;

/// Fig. 6: the number of intensive run queues while programs come and go.
pub(super) fn fig_6(
    inputs: &StudyInputs,
    platform: &Platform,
) -> Result<(Figure, Vec<PaperClaim>)> {
    let mut apps = platform.apps(inputs.spec()?, &STAYING, 2, ENDLESS_S)?;
    for (name, start_s, kill_s) in COMING {
        let coming = platform.apps(inputs.spec()?, &[name], 2, ENDLESS_S)?.into_iter();
        apps.extend(coming.map(|app| AppSpec {
            start: Nanoseconds::from_secs_f64(start_s),
            kill: Some(Nanoseconds::from_secs_f64(kill_s)),
            ..app
        }));
    }
    let run = |policy: TunedPolicy| {
        let mut experiment = platform.experiment(apps.clone(), Method::Window, 1);
        experiment.settings.window = Nanoseconds::from_secs_f64(END_S);
        platform.run(inputs, &experiment, policy).map(|ran| ran.samples)
    };
    let (default, mlb) = (run(DEFAULT)?, run(MLB)?);
    let law = platform.model.contention_law().map_err(Error::failed)?;
    let predicted = |sample: &Sample| law.map_or(0.0, |law| law.streams(sample.level()).ceil());
    let both: Vec<Moment<'_>> = mlb
        .iter()
        .zip(&default)
        .enumerate()
        .map(|(place, (mlb_now, default))| {
            let window = &mlb[place.saturating_sub(19)..=place];
            let (predicted, mean) =
                (predicted(mlb_now), mean_of(window.iter().map(predicted)).round());
            Moment { mlb: mlb_now, default, predicted, mean }
        })
        .collect();
    let while_all_run = |of: &dyn Fn(&Moment<'_>) -> f64| {
        mean_of(both.iter().filter(|one| (140.0..300.0).contains(&one.mlb.at_s)).map(of))
    };
    let finding = PaperClaim::new(
        "CPUs with memory-bound programs while all eight run (Fig. 6)",
        "4 of 8 with MLB",
        format!(
            "{:.1} with MLB, {:.1} without, mean from 140 to 300 s",
            while_all_run(&|one| one.mlb.intensive_cpus as f64),
            while_all_run(&|one| one.default.intensive_cpus as f64)
        ),
    )
    .noting(format!("predicted number {:.1}", while_all_run(&|one| one.mean)));
    let about = "Two each of namd, sjeng, gamess and gobmk from the start; two lbm at 30 s, libquantum at \
                 60, soplex at 90, GemsFDTD at 120; they end in the opposite order from 300 s on. The \
                 paper: 2 intensive run queues before the first come, up to 4, and down again.";
    let shown: Vec<&Moment<'_>> =
        both.iter().enumerate().filter(|(place, _)| place % 5 == 4).map(|(_, one)| one).collect();
    let figure =
        Figure::new("fig-6", "Fig. 6: programs that come and go on the Xeon E5-2690", about)
            .rows("s", &shown, |one| format!("{:.0}", one.mlb.at_s))
            .column("predicted number", 0, |one| one.predicted)
            .column("mean of 20", 0, |one| one.mean)
            .column("CPUs, MLB", 0, |one| one.mlb.intensive_cpus as f64)
            .column("CPUs, default", 0, |one| one.default.intensive_cpus as f64)
            .column("level, MLB", 2, |one| one.mlb.level())
            .column("level, default", 2, |one| one.default.level())
            .table()
            .drawn(Plot::of(of_moments(&both)));
    Ok((figure, vec![finding]))
}

/// A moment of Fig. 6 under both policies.
struct Moment<'a> {
    mlb: &'a Sample,
    default: &'a Sample,
    /// The number of streams that the level of now comes from, and its mean over MLB's window.
    predicted: f64,
    mean: f64,
}

fn of_moments(moments: &[Moment<'_>]) -> Panel {
    let series = |name: &str, of: fn(&Moment<'_>) -> f64| {
        (name.to_owned(), moments.iter().map(|one| Some(of(one))).collect())
    };
    let series = [
        series("memory-bound programs there, MLB", |one| one.mlb.intensive_cpus as f64),
        series("the same, default", |one| one.default.intensive_cpus as f64),
        series("final predicted number", |one| one.mean),
    ];
    let labels = moments.iter().map(|one| format!("{:.0}", one.mlb.at_s)).collect();
    let upwards = Axis::Linear("CPUs".to_owned(), Some(0.0));
    Panel::of_labels(Mark::Line, "s", labels, upwards, &series)
}

/// Fig. 12's kill, in s; the paper's is at 300 s of 800 to 1159.
const KILL_S: f64 = 80.0;
const SOLO_S: f64 = 120.0;
const STEP_S: f64 = 4.0;

/// What Fig. 12 shows of a policy.
struct WorstCase {
    policy: &'static str,
    /// Mean times of first runs in s: soplex's, and those of all memory-bound programs.
    soplex_s: f64,
    memory_s: f64,
    /// Full buffers in 1e9/s by step, with the first seed.
    rates: Vec<Option<f64>>,
}

impl WorstCase {
    fn new(
        inputs: &StudyInputs,
        platform: &Platform,
        apps: &[AppSpec],
        policy: TunedPolicy,
    ) -> Result<Self> {
        let runs = platform.by_seed(inputs, apps, Method::FirstRun, policy)?;
        let first = |of: &[&str]| {
            let apps = runs.iter().flat_map(|run| &run.result.apps);
            let of = apps.filter(|app| of.contains(&app.name.as_str()));
            mean_of(of.filter_map(|app| app.completion_s.first().copied()))
        };
        Ok(Self {
            policy: policy.shown,
            soplex_s: first(&["soplex"]),
            memory_s: first(&MEMORY_BOUND),
            rates: by_step(&runs[0]),
        })
    }
}

/// A row of Fig. 12: a moment, or mean times.
enum WorstCaseRow {
    Step(usize),
    Times(&'static str, fn(&WorstCase) -> f64),
}

/// Fig. 12: the two least intensive programs are killed.
pub(super) fn fig_12(
    inputs: &StudyInputs,
    platform: &Platform,
) -> Result<(Figure, Vec<PaperClaim>)> {
    let mut apps = platform.apps(inputs.spec()?, &MIX_1, 1, SOLO_S)?;
    for app in &mut apps {
        let killed = ["namd", "sjeng"].contains(&app.name.as_str());
        app.restart = Some(!killed);
        app.kill = killed.then(|| Nanoseconds::from_secs_f64(KILL_S));
    }
    let of = |policy| WorstCase::new(inputs, platform, &apps, policy);
    let all = [of(DEFAULT)?, of(MLB)?, of(VBSC)?];
    let [_, mlb, vbsc] = &all;
    let more = |of: fn(&WorstCase) -> f64| 100.0 * (of(mlb) / of(vbsc) - 1.0);
    let soplex = more(|one| one.soplex_s);
    let finding = PaperClaim::new(
        "Worst case: MLB's time over VBSC's (Fig. 12)",
        "soplex -31 % (795 s for 1159 s)",
        format!(
            "soplex {} % ({:.0} s for {:.0} s), the memory-bound programs {} %",
            signed(soplex, 1),
            mlb.soplex_s,
            vbsc.soplex_s,
            signed(more(|one| one.memory_s), 1)
        ),
    )
    .against_value(soplex, -31.0)
    .noting(format!(
        "full buffers rise {:.1}-fold with VBSC and {:.1}-fold with MLB; all four memory-bound programs \
         at once slow one another {:.2}-fold",
        rise(&vbsc.rates),
        rise(&mlb.rates),
        together(inputs, platform)?
    ));
    let steps = all.iter().map(|one| one.rates.len()).min().unwrap_or(0);
    let mut rows: Vec<WorstCaseRow> = (0..steps).step_by(5).map(WorstCaseRow::Step).collect();
    rows.push(WorstCaseRow::Times("soplex, s", |one| one.soplex_s));
    rows.push(WorstCaseRow::Times("memory-bound programs, mean s", |one| one.memory_s));
    let at = |step: usize| format!("{:.0}", (step + 1) as f64 * STEP_S);
    let cell = |row: &WorstCaseRow, one: &WorstCase| match row {
        WorstCaseRow::Step(step) => {
            one.rates[*step].map_or("-".to_owned(), |rate| format!("{rate:.3}"))
        }
        WorstCaseRow::Times(_, of) => format!("{:.1}", of(one)),
    };
    let about = "The first mix; the two are killed at 80 s (the paper: 300 s, of longer runs). Full \
                 buffers in 1e9/s over time with the first seed, then the mean times of first runs. The \
                 paper: the rate skyrockets with VBSC, whose memory-bound programs are left alone on \
                 their CPUs, and hardly rises with MLB.";
    let mut table = Figure::new(
        "fig-12",
        "Fig. 12: namd and sjeng are killed on the i7-2600",
        about,
    )
    .rows("s", &rows, |row| match row {
        WorstCaseRow::Step(step) => at(*step),
        WorstCaseRow::Times(name, _) => (*name).to_owned(),
    });
    for one in &all {
        table = table.words(one.policy, |row| cell(row, one));
    }
    let labels = (0..steps).map(at).collect();
    let series = all.each_ref().map(|one| (one.policy.to_owned(), one.rates[..steps].to_vec()));
    let upwards = Axis::Linear("full buffers, 1e9/s".to_owned(), Some(0.0));
    let panel = Panel::of_labels(Mark::Line, "s", labels, upwards, &series);
    Ok((table.table().drawn(Plot::of(panel)), vec![finding]))
}

/// The mean rate after the kill over that before it, until 80 s after.
fn rise(rates: &[Option<f64>]) -> f64 {
    let kill = (KILL_S / STEP_S) as usize;
    let of = |steps: &[Option<f64>]| mean_of(steps.iter().flatten().copied());
    let end = (2 * kill).min(rates.len());
    if kill >= end { f64::NAN } else { of(&rates[kill + 1..end]) / of(&rates[1..kill]) }
}

/// The mean slowdown of the four memory-bound programs when each has a CPU.
fn together(inputs: &StudyInputs, platform: &Platform) -> Result<f64> {
    let programs = MEMORY_BOUND
        .iter()
        .map(|name| platform.spec(inputs.spec()?, name))
        .collect::<Result<Vec<_>>>()?;
    let on = |(cpu, program)| Running::local(program, 0, cpu);
    let running: Vec<Running<'_>> =
        programs.iter().map(|program| &**program).enumerate().map(on).collect();
    let mut outcomes = Vec::new();
    platform.model.solve(&running, &mut Scratch::new(), &mut outcomes);
    Ok(mean_of(outcomes.iter().map(|one| one.slowdown)))
}

/// The rate of full buffers in 1e9/s, in steps of 4 s.
fn by_step(run: &Ran) -> Vec<Option<f64>> {
    let last = run.samples.last().map_or(0.0, |one| one.at_s);
    let steps = (last / STEP_S) as usize;
    let step = |step: usize| {
        let (from, to) = (step as f64 * STEP_S, (step + 1) as f64 * STEP_S);
        let within = run.samples.iter().filter(|one| one.at_s > from && one.at_s <= to + 1e-6);
        Some(mean_of(within.map(|one| one.retries_per_s * 1e-9))).filter(|rate| !rate.is_nan())
    };
    (0..steps).map(step).collect()
}
