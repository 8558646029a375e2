//! MLB's own experiments (Seo, Eom and Yeom, "MLB: A memory-aware load balancing for mitigating memory
//! contention"), with VBSC as its rival.

mod grouping;
mod mixes;
mod pairs;
mod platform;
mod streams;
mod timeline;
mod watch;

use clap::Args as _;
use corun_app::{Result, counted};
use corun_profile::Library;

use self::mixes::{MIX_1, MIX_2, Mixed, SERVERS, beside_best};
use self::platform::{DEFAULT, MLB, Platform, VBSC, VBSC_200, VBSC_800};
use crate::harness::{AsLiveArgs, Figure, Page, PaperClaim, Programs, Study, StudyInputs};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "mlb",
    summary: "MLB and VBSC, for more programs than CPUs: the paper's figures 2 to 13",
    programs: Programs::Spec,
    seeds: Some(3),
    has_quick: false,
    options: AsLiveArgs::augment_args,
    page,
    explained_in: "docs/studies/mlb.md",
};

const XEON: &str = "xeon-e5-2690";
const I7: &str = "i7-2600";

fn page(inputs: &StudyInputs) -> Result<Page> {
    let (xeon, i7) = (Platform::new(XEON)?, Platform::new(I7)?);
    let (spec, shipped) = (inputs.spec()?, inputs.shipped()?);
    let (mut figures, mut findings) = (vec![streams::fig_2(&xeon)?], Vec::new());
    let mut add = |(figure, found): (Figure, Vec<PaperClaim>)| {
        figures.push(figure);
        findings.extend(found);
    };
    add(streams::fig_3(&xeon, spec, XEON)?);
    add(streams::fig_3(&i7, spec, I7)?);
    add(streams::fig_4()?);
    add(timeline::fig_6(inputs, &xeon)?);
    let as_live: AsLiveArgs = inputs.options()?;
    let observation = as_live.observation()?;
    let mut mixed = Vec::new();
    for number in [1, 2] {
        let run = Mixed::run(inputs, &xeon, (mix_of(number), 2), &[DEFAULT, MLB], &observation)?;
        add(fig_7(&run, number));
        mixed.push((format!("{XEON}, mix {number}"), run));
    }
    for number in [1, 2] {
        let policies = [DEFAULT, MLB, VBSC];
        let run = Mixed::run(inputs, &i7, (mix_of(number), 1), &policies, &observation)?;
        add(fig_10(&run, number));
        mixed.push((format!("{I7}, mix {number}"), run));
    }
    add((beside_best(&mixed), Vec::new()));
    add(fig_8(inputs)?);
    add((mixes::fig_9(inputs, &i7)?, Vec::new()));
    add(fig_11(inputs, &i7, shipped)?);
    add(timeline::fig_12(inputs, &i7)?);
    add(pairs::fig_13(inputs, &xeon, shipped)?);
    let about = format!(
        "Seo, Eom, Yeom, MLB: figures 2 to 13, on the presets {XEON} and {I7} with one thread a core. \
         Programs: the SPEC table's CPU2006 ones by the paper's bare names; {}. Each program is as \
         long as 60 s alone (Fig. 12: 120 s), shorter than the paper's, so that MLB's first 80 s, in \
         which its window fills, weigh more. The paper's plots are not in its text: where it gives no \
         number, what it says is beside ours. As live: {}.",
        counted(inputs.seeds as usize, "seed"),
        as_live.settings()
    );
    Ok(Page::new("MLB, and VBSC beside it", about, findings, figures))
}

fn mix_of(number: usize) -> &'static [&'static str] {
    if number == 1 { &MIX_1 } else { &MIX_2 }
}

/// What is drawn of a mix.
const OF_A_MIX: &str = "Times of first runs, memory bandwidth and full buffers over the default's.";

fn fig_7(mixed: &Mixed, number: usize) -> (Figure, Vec<PaperClaim>) {
    let [memory, others, _] = mixed.means(1);
    let finding = PaperClaim::new(
        format!("Mix {number} on {XEON}: time under MLB over the default's (Fig. 7)"),
        "all memory-bound programs faster, others at most 2 % slower",
        format!("memory-bound {memory:.3}, others {others:.3}"),
    );
    let heading = format!("Fig. 7: mix {number} of Table 2 on the Xeon E5-2690");
    let figure = mixed.figure(&format!("fig-7-mix-{number}"), &heading, OF_A_MIX);
    (figure, vec![finding.noting(most_to_gain(mixed))])
}

fn fig_10(mixed: &Mixed, number: usize) -> (Figure, Vec<PaperClaim>) {
    let (mlb, vbsc) = (mixed.means(1), mixed.means(2));
    let finding = PaperClaim::new(
        format!("Mix {number} on {I7}: MLB and VBSC, time over the default's (Fig. 10)"),
        "both lower it to a similar level",
        format!(
            "memory-bound {:.3} and {:.3}, all {:.3} and {:.3}",
            mlb[0], vbsc[0], mlb[2], vbsc[2]
        ),
    );
    let heading = format!("Fig. 10: mix {number} of Table 2 on the i7-2600");
    let figure = mixed.figure(&format!("fig-10-mix-{number}"), &heading, OF_A_MIX);
    (figure, vec![finding.noting(most_to_gain(mixed))])
}

/// No policy can give back more than contention takes.
fn most_to_gain(mixed: &Mixed) -> String {
    format!(
        "under the default contention costs the memory-bound programs {:.1} %",
        mixed.cost_percent()
    )
}

/// Fig. 8 on a machine: the time of a GPU's copies over that alone.
struct Copies {
    machine: &'static str,
    default: f64,
    mlb: f64,
}

fn fig_8(inputs: &StudyInputs) -> Result<(Figure, Vec<PaperClaim>)> {
    let mut all = Vec::new();
    for (machine, copies) in [(XEON, 2), (I7, 1)] {
        let [default, mlb] = mixes::gpu(inputs, machine, copies, [DEFAULT, MLB])?;
        all.push(Copies { machine, default, mlb });
    }
    let words = all.iter().map(|one| format!("{:.3} on {}", one.mlb / one.default, one.machine));
    let finding = PaperClaim::new(
        "Time of a GPU's copies under MLB over the default's (Fig. 8)",
        "shorter on both machines",
        words.collect::<Vec<_>>().join(", "),
    );
    let about = "A soplex makes room for the GPU's program: an engine behind the same controller that \
                 copies without pause at 6 GB/s alone. Time of the copies over that alone.";
    let figure = Figure::new("fig-8", "Fig. 8: copies between CPU and GPU beside mix 1", about)
        .rows("machine", &all, |one| one.machine.to_owned())
        .column("default", 3, |one| one.default)
        .column("MLB", 3, |one| one.mlb)
        .column("MLB / default", 3, |one| one.mlb / one.default)
        .table();
    Ok((figure, vec![finding]))
}

fn fig_11(
    inputs: &StudyInputs,
    i7: &Platform,
    library: &Library,
) -> Result<(Figure, Vec<PaperClaim>)> {
    let policies = [DEFAULT, MLB, VBSC, VBSC_200, VBSC_800];
    let paper = ["VBSC 27 % below", "about 4 times VBSC's"];
    let (mut servers, mut findings) = (Vec::new(), Vec::new());
    for (server, paper) in SERVERS.into_iter().zip(paper) {
        let throughput = mixes::throughput(inputs, i7, (server, library), &policies)?;
        findings.push(PaperClaim::new(
            format!("{} server of 16 clients: throughput under MLB (Fig. 11)", server.name),
            format!("as the default's; {paper}"),
            format!(
                "{:.2} of the default's; VBSC {:.2}: MLB {:.1} times VBSC's",
                throughput[1],
                throughput[2],
                throughput[1] / throughput[2]
            ),
        ));
        servers.push((server.name, throughput));
    }
    let about = "Throughput beside mix 2 over that under the default, in a window of 24 s. Each of the 16 \
                 clients alternates between the CPU (1 ms, TPC-C-like 0.25 ms) and a wait of 8 ms; the \
                 program is the library's postgres. VBSC's epochs are of 400 ms, and of 200 and 800 ms.";
    let heading = "Fig. 11: an I/O-bound server beside mix 2 on the i7-2600";
    let mut rows =
        Figure::new("fig-11", heading, about).rows("server", &servers, |one| one.0.to_owned());
    for (place, policy) in policies.iter().enumerate() {
        rows = rows.column(policy.shown, 3, |one| one.1[place]);
    }
    Ok((rows.table(), findings))
}
