//! Fig. 6 and 12: programs that come and go.

use corun_metrics::mean;
use corun_model::{ContentionLaw, Member, Running, Scratch};
use corun_policy::Nanoseconds;
use corun_profile::Method;
use corun_sim::AppSpec;

use super::bench::{Bench, DEFAULT, MEMORY_BOUND, MLB, Ran, VBSC};
use super::figure;
use super::mixes::MIX_1;
use super::watch::Sample;
use crate::commands::study::paper::Ground;
use crate::commands::study::runs::Asked;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

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
pub(super) fn fig_6(ground: &Ground, bench: &Bench) -> Outcome<(StudyFigure, Finding)> {
    let mut apps = bench.apps(ground.spec()?, &STAYING, 2, ENDLESS_S)?;
    for (name, start_s, kill_s) in COMING {
        let coming = bench.apps(ground.spec()?, &[name], 2, ENDLESS_S)?.into_iter();
        apps.extend(coming.map(|app| AppSpec {
            start: Nanoseconds::from_secs_f64(start_s),
            kill: Some(Nanoseconds::from_secs_f64(kill_s)),
            ..app
        }));
    }
    let run = |asked: Asked| {
        let mut experiment = bench.experiment(apps.clone(), Method::Window, 1);
        experiment.settings.window = Nanoseconds::from_secs_f64(END_S);
        bench.run(ground, &experiment, asked).map(|ran| ran.samples)
    };
    let (default, mlb) = (run(DEFAULT)?, run(MLB)?);
    let law = bench.model.contention_law().map_err(|error| anyhow::anyhow!(error))?;
    let predicted =
        |sample: &Sample| law.map_or(0.0, |law: ContentionLaw| law.streams(sample.level()).ceil());
    let final_number = |place: usize| {
        let window = &mlb[place.saturating_sub(19)..=place];
        mean(&window.iter().map(predicted).collect::<Vec<_>>()).unwrap_or(f64::NAN).round()
    };
    let row = |(place, (one, other)): (usize, (&Sample, &Sample))| {
        vec![
            format!("{:.0}", one.at_s),
            format!("{:.0}", predicted(one)),
            format!("{:.0}", final_number(place)),
            one.intensive_cpus.to_string(),
            other.intensive_cpus.to_string(),
            format!("{:.2}", one.level()),
            format!("{:.2}", other.level()),
        ]
    };
    let both = || mlb.iter().zip(&default).enumerate();
    let most = |samples: &[Sample]| {
        let full = samples.iter().filter(|one| (140.0..300.0).contains(&one.at_s));
        mean(&full.map(|one| one.intensive_cpus as f64).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let finding = Finding {
        what: "CPUs with memory-bound programs while all eight run (Fig. 6)".to_owned(),
        paper: "4 of 8 with MLB".to_owned(),
        ours: format!(
            "{:.1} with MLB, {:.1} without, mean from 140 to 300 s",
            most(&mlb),
            most(&default)
        ),
        difference: "The predicted number is 3 here; soplex and GemsFDTD draw less than the mean while \
                     lbm and libquantum run, so that by algorithm 1 they are not memory-intensive and \
                     stay where they started."
            .to_owned(),
    };
    let series = |name: &str, of: &dyn Fn(usize) -> f64| {
        (name.to_owned(), (0..mlb.len()).map(|place| Some(of(place))).collect())
    };
    let chart = Chart {
        kind: ChartKind::LinesFrom(0.0),
        across: "s".to_owned(),
        upwards: "CPUs".to_owned(),
        labels: mlb.iter().map(|one| format!("{:.0}", one.at_s)).collect(),
        series: vec![
            series("memory-bound programs there, MLB", &|at| mlb[at].intensive_cpus as f64),
            series("the same, default", &|at| default[at].intensive_cpus as f64),
            series("final predicted number", &final_number),
        ],
    };
    let figure = figure(
        "fig-6",
        "Fig. 6: programs that come and go on the Xeon E5-2690",
        "Two each of namd, sjeng, gamess and gobmk from the start; two lbm at 30 s, libquantum at 60, soplex \
         at 90, GemsFDTD at 120; they end in the opposite order from 300 s on. The paper: 2 intensive \
         run queues before the first come, up to 4, and down again.",
        Some(chart),
        strings(&[
            "s",
            "predicted number",
            "mean of 20",
            "CPUs, MLB",
            "CPUs, default",
            "level, MLB",
            "level, default",
        ]),
        both().filter(|(place, _)| place % 5 == 4).map(row).collect(),
    );
    Ok((figure, finding))
}

/// Fig. 12's kill, in s; the paper's is at 300 s of 800 to 1159.
const KILL_S: f64 = 80.0;
const SOLO_S: f64 = 120.0;
const STEP_S: f64 = 4.0;

/// Fig. 12: the two least intensive programs are killed.
pub(super) fn fig_12(ground: &Ground, bench: &Bench) -> Outcome<(StudyFigure, Finding)> {
    let policies = [DEFAULT, MLB, VBSC];
    let mut apps = bench.apps(ground.spec()?, &MIX_1, 1, SOLO_S)?;
    for app in &mut apps {
        let killed = ["namd", "sjeng"].contains(&app.name.as_str());
        app.restart = Some(!killed);
        app.kill = killed.then(|| Nanoseconds::from_secs_f64(KILL_S));
    }
    // By policy: soplex's time, and the mean time of the memory-bound; the rates over time.
    let mut soplex = Vec::new();
    let mut memory = Vec::new();
    let mut rates: Vec<Vec<Option<f64>>> = Vec::new();
    for asked in policies {
        let mut runs = Vec::new();
        for seed in 1..=u64::from(ground.seeds) {
            let experiment = bench.experiment(apps.clone(), Method::FirstRun, seed);
            runs.push(bench.run(ground, &experiment, asked)?);
        }
        let first = |of: &[&str]| {
            let apps = runs.iter().flat_map(|run| &run.result.apps);
            let of = apps.filter(|app| of.contains(&app.name.as_str()));
            mean(&of.filter_map(|app| app.completion_s.first().copied()).collect::<Vec<_>>())
                .unwrap_or(f64::NAN)
        };
        soplex.push(first(&["soplex"]));
        memory.push(first(&MEMORY_BOUND));
        rates.push(by_step(&runs[0]));
    }
    let steps = rates.iter().map(Vec::len).min().unwrap_or(0);
    let row = |step: usize| {
        let mut row = vec![format!("{:.0}", (step + 1) as f64 * STEP_S)];
        row.extend(
            rates.iter().map(|one| one[step].map_or("-".to_owned(), |rate| format!("{rate:.3}"))),
        );
        row
    };
    let mut rows: Vec<Vec<String>> = (0..steps).step_by(5).map(row).collect();
    for (name, times) in [("soplex, s", &soplex), ("memory-bound programs, mean s", &memory)] {
        let mut row = vec![name.to_owned()];
        row.extend(times.iter().map(|time| format!("{time:.1}")));
        rows.push(row);
    }
    let more = |times: &[f64]| 100.0 * (times[1] / times[2] - 1.0);
    let finding = Finding {
        what: "Worst case: MLB's time over VBSC's (Fig. 12)".to_owned(),
        paper: "soplex -31 % (795 s for 1159 s)".to_owned(),
        ours: format!(
            "soplex {:+.1} % ({:.0} s for {:.0} s), the memory-bound programs {:+.1} %",
            more(&soplex),
            soplex[1],
            soplex[2],
            more(&memory)
        ),
        difference: format!(
            "Full buffers rise {:.1}-fold with VBSC and {:.1}-fold with MLB. But all four memory-bound \
             programs at once slow one another only {:.2}-fold in the model, and with VBSC each has a \
             whole CPU, where MLB lets two share one: that has to be won back first.",
            rise(&rates[2]),
            rise(&rates[1]),
            together(ground, bench)?
        ),
    };
    let chart = Chart {
        kind: ChartKind::LinesFrom(0.0),
        across: "s".to_owned(),
        upwards: "full buffers, 1e9/s".to_owned(),
        labels: (1..=steps).map(|step| format!("{:.0}", step as f64 * STEP_S)).collect(),
        series: policies
            .iter()
            .zip(&rates)
            .map(|(asked, rates)| (asked.shown.to_owned(), rates[..steps].to_vec()))
            .collect(),
    };
    let mut header = vec!["s".to_owned()];
    header.extend(policies.iter().map(|asked| asked.shown.to_owned()));
    let figure = figure(
        "fig-12",
        "Fig. 12: namd and sjeng are killed on the i7-2600",
        "The first mix; the two are killed at 80 s (the paper: 300 s, of longer runs). Full buffers in 1e9/s \
         over time with the first seed, then the mean times of first runs. The paper: the rate skyrockets \
         with VBSC, whose memory-bound programs are left alone on their CPUs, and hardly rises with MLB.",
        Some(chart),
        header,
        rows,
    );
    Ok((figure, finding))
}

/// The mean rate after the kill over that before it, until 80 s after.
fn rise(rates: &[Option<f64>]) -> f64 {
    let kill = (KILL_S / STEP_S) as usize;
    let of = |steps: &[Option<f64>]| {
        mean(&steps.iter().flatten().copied().collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let end = (2 * kill).min(rates.len());
    if kill >= end { f64::NAN } else { of(&rates[kill + 1..end]) / of(&rates[1..kill]) }
}

/// The mean slowdown of the four memory-bound programs when each has a CPU.
fn together(ground: &Ground, bench: &Bench) -> Outcome<f64> {
    let programs = MEMORY_BOUND
        .iter()
        .map(|name| bench.spec(ground.spec()?, name))
        .collect::<Outcome<Vec<_>>>()?;
    let on = |(cpu, program)| Running {
        member: Member { program, phase: 0, cpu },
        home: &[],
        group: None,
    };
    let running: Vec<Running<'_>> =
        programs.iter().map(|program| &**program).enumerate().map(on).collect();
    let mut outcomes = Vec::new();
    bench.model.solve(&running, &mut Scratch::new(), &mut outcomes);
    Ok(mean(&outcomes.iter().map(|one| one.slowdown).collect::<Vec<_>>()).unwrap_or(f64::NAN))
}

/// The rate of full buffers in 1e9/s, in steps of 4 s.
fn by_step(run: &Ran) -> Vec<Option<f64>> {
    let last = run.samples.last().map_or(0.0, |one| one.at_s);
    let steps = (last / STEP_S) as usize;
    let step = |step: usize| {
        let (from, to) = (step as f64 * STEP_S, (step + 1) as f64 * STEP_S);
        let within = run.samples.iter().filter(|one| one.at_s > from && one.at_s <= to + 1e-6);
        mean(&within.map(|one| one.retries_per_s * 1e-9).collect::<Vec<_>>())
    };
    (0..steps).map(step).collect()
}
