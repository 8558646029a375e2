//! Web and database threads, with and without a prioritized one: Blagodurov, Zhuravlev and Fedorova,
//! ACM TOCS 28(4), 2010, section 5.3, Table IV and Fig. 13-15.

pub(super) mod programs;

use std::ops::Range;

use corun_app::{Error, Result};
use corun_report::{Axis, Mark, Panel, Plot, counted, fixed, signed};
use corun_sim::RunResult;

use crate::harness::{Figure, Page, PaperClaim, Programs, Study, StudyInputs, no_options};
use crate::held_placements::{HeldRun, all_held, best_of, held};
use crate::simulate::{
    AgainstDefault, TunedPolicy, against_default, by_seed, model_of, restarting,
};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "lamp",
    summary: "Web and database threads, with one of them prioritized (DIO, section 5.3)",
    programs: Programs::BuiltIn,
    seeds: Some(10),
    has_quick: true,
    options: no_options,
    page,
    explained_in: "docs/studies/dio.md",
};

/// The AMD and the Intel machine.
const MACHINES: [&str; 2] = ["opteron-2350", "xeon-x5365"];

/// Client threads, one a core.
const THREADS: usize = 8;

/// Web threads of the workloads; the others are the database's.
const WEB: [usize; 3] = [2, 3, 4];

const DEFAULT: TunedPolicy = TunedPolicy::plain("linux-default");
const DIO: TunedPolicy = TunedPolicy::plain("dio-2010");
/// Small differences move nobody: what they cost where memory stays behind.
const CALM: TunedPolicy = TunedPolicy {
    shown: "dio-2010, gains of 5 MPKI",
    policy: "dio-2010",
    parameters: &[("min-gain-mpki", 5.0)],
};
const ON_CACHE: TunedPolicy = TunedPolicy {
    shown: "dio-2010, web 0 alone on a cache",
    policy: "dio-2010",
    parameters: &[("isolate-in", 1.0)],
};
const ON_PACKAGE: TunedPolicy = TunedPolicy {
    shown: "dio-2010, web 0 alone on a package",
    policy: "dio-2010",
    parameters: &[("isolate-in", 2.0)],
};

/// Of all placements that differ, each simulated with the first seed, the one held throughout in which threads gain most
/// on average, and the one in which web 0's longest time is the shortest.
const BEST: &str = "best placement held";
const BEST_FOR_WEB_0: &str = "best placement held for web 0";

/// How a kind of thread does under a policy.
struct KindOfThread {
    workload: String,
    policy: &'static str,
    kind: &'static str,
    against: AgainstDefault,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let mut figures = Vec::new();
    let mut findings = Vec::new();
    for machine in MACHINES {
        let rows = on_machine(inputs, machine)?;
        findings.extend(machine_findings(machine, &rows));
        figures.push(figure(machine, &rows));
    }
    let about = format!(
        "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 5.3, Table IV, Fig. 13-15. \
         {THREADS} threads on {THREADS} cores, {}. Programs made by hand after the paper's words: \
         web threads of 74 misses per 1000 instructions, light database threads that wait for the \
         disk.",
        counted(inputs.seeds as usize, "seed")
    );
    Ok(Page::new("Web and database threads with a prioritized one", about, findings, figures))
}

fn on_machine(inputs: &StudyInputs, machine: &str) -> Result<Vec<KindOfThread>> {
    let model = model_of(machine)?;
    let mut rows = Vec::new();
    // Distinct threads: the one that may be prioritized, the other web threads, the database's.
    let kinds_of = |web: usize| -> Vec<usize> {
        (0..THREADS).map(|thread| if thread == 0 { 0 } else { 1 + usize::from(thread >= web) }).collect()
    };
    for web in WEB {
        let mut plain = programs::threads(&model, web, THREADS - web)?;
        for app in &mut plain {
            let instructions = inputs.length_s(app.program.instructions());
            app.instructions = Some(instructions as u64);
        }
        let mut important = plain.clone();
        important[0].important = true;
        let default = by_seed(inputs, &model, &plain, DEFAULT)?;
        let mut of_policy = |policy: &'static str, runs: &[RunResult]| {
            let workload = format!("{web} web, {} database", THREADS - web);
            let kinds = [("web 0", 0..1), ("other web", 1..web), ("database", web..THREADS)];
            rows.extend(kinds.into_iter().map(|(kind, apps)| {
                let against = against_default(&default, runs, apps);
                KindOfThread { workload: workload.clone(), policy, kind, against }
            }));
        };
        for (policy, apps) in
            [(DIO, &plain), (CALM, &plain), (ON_CACHE, &important), (ON_PACKAGE, &important)]
        {
            of_policy(policy.shown, &by_seed(inputs, &model, apps, policy)?);
        }
        let experiment = restarting(&model, &plain, 1);
        let all = all_held(inputs, &experiment, &kinds_of(web))?;
        let gain = |held: &HeldRun, apps: Range<usize>| {
            against_default(&default, std::slice::from_ref(&held.result), apps)
        };
        let for_all = best_of(&all, |held| gain(held, 0..THREADS).mean_gain);
        let for_web_0 = best_of(&all, |held| gain(held, 0..1).worst_gain);
        for (shown, best) in [(BEST, for_all), (BEST_FOR_WEB_0, for_web_0)] {
            let best = best.ok_or_else(|| Error::input("a thread got nothing done"))?;
            let run = |seed| held(inputs, &restarting(&model, &plain, seed), &best.cpus);
            let runs = (1..=u64::from(inputs.seeds)).map(run).collect::<Result<Vec<_>>>()?;
            of_policy(shown, &runs);
        }
    }
    Ok(rows)
}

fn machine_findings(machine: &str, rows: &[KindOfThread]) -> [PaperClaim; 2] {
    let best = |policy: &TunedPolicy, kind: &str, of: fn(&AgainstDefault) -> f64| {
        let rows = rows.iter().filter(|row| row.policy == policy.shown && row.kind == kind);
        rows.map(|row| of(&row.against)).fold(f64::NEG_INFINITY, f64::max)
    };
    let mean_of_others = |policy| best(policy, "other web", |one| one.mean_gain);
    let (figure, paper) = if machine == MACHINES[0] {
        ("Fig. 13", "web threads gain")
    } else {
        ("Fig. 14", "no measurable gain: one memory controller")
    };
    let plain = PaperClaim::new(
        format!("dio-2010 without priorities on {machine} ({figure})"),
        paper,
        format!("other web threads {} % at best", signed(mean_of_others(&DIO), 1)),
    );
    let calm = signed(mean_of_others(&CALM), 1);
    let held = |shown: &str, kind: &str, of: fn(&AgainstDefault) -> f64| {
        let rows = rows.iter().filter(|row| row.policy == shown && row.kind == kind);
        signed(rows.map(|row| of(&row.against)).fold(f64::NEG_INFINITY, f64::max), 1)
    };
    let (held_others, held_web_0) = (
        held(BEST, "other web", |one| one.mean_gain),
        held(BEST_FOR_WEB_0, "web 0", |one| one.worst_gain),
    );
    let [on_cache, on_package] =
        [ON_CACHE, ON_PACKAGE].map(|policy| best(&policy, "web 0", |one| one.worst_gain));
    let prioritized = PaperClaim::new(
        format!("The prioritized web thread's worst run on {machine} (Fig. 15)"),
        "very significant gains, up to 40 % of the worst case; more on a package than on a cache",
        format!(
            "up to {} % on a cache, {} % on a package",
            fixed(on_cache, 1),
            fixed(on_package, 1)
        ),
    );
    [
        plain.noting(format!(
            "where gains below 5 MPKI move nobody {calm} %; in the best placement held throughout {held_others} %"
        )),
        prioritized.noting(format!(
            "a package is worth {} % more than a cache; in the best placement held for it up to {held_web_0} %",
            signed(on_package - on_cache, 1)
        )),
    ]
}

fn figure(machine: &str, rows: &[KindOfThread]) -> Figure {
    let about = "Gain in mean and in worst completion time, in %, and the times' standard deviation \
                 under the default and under the policy, in % of the mean. The best placements are of all \
                 that differ, held throughout: by the mean gain of all threads, and by web 0's worst run. The \
                 drawing shows the worst run of web 0.";
    let policies = [DIO, CALM, ON_CACHE, ON_PACKAGE];
    let series = policies.map(|policy| {
        let of_policy = rows.iter().filter(|row| row.policy == policy.shown && row.kind == "web 0");
        (policy.shown.to_owned(), of_policy.map(|row| Some(row.against.worst_gain)).collect())
    });
    let labels = WEB.iter().map(|web| format!("{web} web threads")).collect();
    let upwards = Axis::Linear("% gained in the worst run".to_owned(), Some(0.0));
    let panel = Panel::of_labels(Mark::Bars, "workload", labels, upwards, &series);
    Figure::new(machine, format!("Against the default scheduler on {machine} (Fig. 13-15)"), about)
        .rows("workload, policy, threads", rows, |row| {
            format!("{}: {}, {}", row.workload, row.policy, row.kind)
        })
        .column("mean", 1, |row| row.against.mean_gain)
        .column("worst", 1, |row| row.against.worst_gain)
        .column("deviation, default", 1, |row| row.against.default_deviation)
        .column("deviation", 1, |row| row.against.deviation)
        .table()
        .drawn(Plot::of(panel))
}
