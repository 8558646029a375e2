//! Web and database threads, with and without a prioritized one: Blagodurov, Zhuravlev and Fedorova,
//! ACM TOCS 28(4), 2010, section 5.3, Table IV and Fig. 13-15.

pub(super) mod programs;

use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::preset;
use corun_model::{Model, ModelOptions};

use super::paper::{Ground, PaperStudy, StandsOn};
use super::runs::{AgainstDefault, Asked, against_default, by_seed};
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport};

/// The experiment.
pub(super) const STUDY: PaperStudy =
    PaperStudy { name: "lamp", stands_on: StandsOn::Shipped, seeds: 10, page };

/// The AMD and the Intel machine.
const MACHINES: [&str; 2] = ["opteron-2350", "xeon-x5365"];

/// Client threads, one a core.
const THREADS: usize = 8;

/// Web threads of the workloads; the others are the database's.
const WEB: [usize; 3] = [2, 3, 4];

const DEFAULT: Asked = Asked::plain("linux-default");
const DIO: Asked = Asked::plain("dio");
/// Small differences move nobody: what they cost where memory stays behind.
const CALM: Asked =
    Asked { shown: "dio, gains of 5 MPKI", policy: "dio", parameters: &[("min-gain-mpki", 5.0)] };
const ON_CACHE: Asked = Asked {
    shown: "dio, web 0 alone on a cache",
    policy: "dio",
    parameters: &[("isolate-in", 1.0)],
};
const ON_PACKAGE: Asked = Asked {
    shown: "dio, web 0 alone on a package",
    policy: "dio",
    parameters: &[("isolate-in", 2.0)],
};

/// How a kind of thread does under a policy.
struct Row {
    workload: String,
    policy: &'static str,
    kind: &'static str,
    against: AgainstDefault,
}

fn page(ground: &Ground) -> Outcome<StudyReport> {
    let mut figures = Vec::new();
    let mut findings = Vec::new();
    for machine in MACHINES {
        let rows = on_machine(ground, machine)?;
        findings.extend(finding(machine, &rows));
        figures.push(figure(machine, &rows));
    }
    Ok(StudyReport {
        name: STUDY.name,
        title: "Web and database threads with a prioritized one".to_owned(),
        about: format!(
            "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 5.3, Table IV, Fig. 13-15. {THREADS} \
             threads on {THREADS} cores, {} seeds. Programs made by hand after the paper's words: web threads \
             of 74 misses per 1000 instructions, light database threads that wait for the disk.",
            ground.seeds
        ),
        findings,
        figures,
    })
}

fn on_machine(ground: &Ground, machine: &str) -> Outcome<Vec<Row>> {
    let machine = Arc::new(preset(machine).map_err(|error| anyhow!(error))?);
    let model = Arc::new(Model::new(machine, ModelOptions::default())?);
    let mut rows = Vec::new();
    for web in WEB {
        let plain = programs::threads(&model, web, THREADS - web)?;
        let mut important = plain.clone();
        important[0].important = true;
        let default = by_seed(ground, &model, &plain, DEFAULT)?;
        for (asked, apps) in
            [(DIO, &plain), (CALM, &plain), (ON_CACHE, &important), (ON_PACKAGE, &important)]
        {
            let runs = by_seed(ground, &model, apps, asked)?;
            let workload = format!("{web} web, {} database", THREADS - web);
            let kinds = [("web 0", 0..1), ("other web", 1..web), ("database", web..THREADS)];
            rows.extend(kinds.into_iter().map(|(kind, apps)| {
                let against = against_default(&default, &runs, apps);
                Row { workload: workload.clone(), policy: asked.shown, kind, against }
            }));
        }
    }
    Ok(rows)
}

fn finding(machine: &str, rows: &[Row]) -> Vec<Finding> {
    let best = |policy: &Asked, kind: &str, of: &dyn Fn(&Row) -> f64| {
        let rows = rows.iter().filter(|row| row.policy == policy.shown && row.kind == kind);
        rows.map(of).fold(f64::NEG_INFINITY, f64::max)
    };
    let is_amd = machine == MACHINES[0];
    let plain = Finding {
        what: format!(
            "dio without priorities on {machine} ({})",
            if is_amd { "Fig. 13" } else { "Fig. 14" }
        ),
        paper: if is_amd {
            "web threads gain"
        } else {
            "no measurable gain: one memory controller"
        }
        .to_owned(),
        ours: format!(
            "other web threads {:+.1} % at best",
            best(&DIO, "other web", &|row| row.against.mean_gain)
        ),
        difference: if is_amd {
            format!(
                "Threads of one kind measure alike, so that small differences send them across the link, and \
                 their memory stays behind; where gains below 5 MPKI move nobody it is {:+.1} %.",
                best(&CALM, "other web", &|row| row.against.mean_gain)
            )
        } else {
            String::new()
        },
    };
    let prioritized = Finding {
        what: format!("The prioritized web thread's worst run on {machine} (Fig. 15)"),
        paper: "very significant gains, up to 40 % of the worst case; more on a package than on a cache".to_owned(),
        ours: format!(
            "up to {:.1} % on a cache, {:.1} % on a package",
            best(&ON_CACHE, "web 0", &|row| row.against.worst_gain),
            best(&ON_PACKAGE, "web 0", &|row| row.against.worst_gain)
        ),
        difference: if is_amd { "Each package has one cache here: both isolate alike." } else { "" }.to_owned(),
    };
    vec![plain, prioritized]
}

fn figure(machine: &str, rows: &[Row]) -> StudyFigure {
    let policies = [DIO, CALM, ON_CACHE, ON_PACKAGE];
    let labels = WEB.iter().map(|web| format!("{web} web threads"));
    let series = policies.map(|policy| {
        let of_policy = rows.iter().filter(|row| row.policy == policy.shown && row.kind == "web 0");
        (policy.shown.to_owned(), of_policy.map(|row| Some(row.against.worst_gain)).collect())
    });
    let cells = rows.iter().map(|row| {
        let figures = [
            row.against.mean_gain,
            row.against.worst_gain,
            row.against.default_deviation,
            row.against.deviation,
        ]
        .map(|one| {
            // No negative zero.
            format!("{:.1}", crate::output::round(one, 1))
        });
        let name = format!("{}: {}, {}", row.workload, row.policy, row.kind);
        std::iter::once(name).chain(figures).collect()
    });
    StudyFigure {
        id: machine.to_owned(),
        heading: format!("Against the default scheduler on {machine} (Fig. 13-15)"),
        about: "Gain in mean and in worst completion time, in %, and the times' standard deviation under the \
                default and under the policy, in % of the mean. The drawing shows the worst run of web 0."
            .to_owned(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "workload".to_owned(),
            upwards: "% gained in the worst run".to_owned(),
            labels: labels.collect(),
            series: series.into(),
        }),
        header: ["workload, policy, threads", "mean", "worst", "deviation, default", "deviation"]
            .map(str::to_owned)
            .into(),
        rows: cells.collect(),
    }
}
