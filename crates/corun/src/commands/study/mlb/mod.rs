//! MLB's own experiments (Seo, Eom and Yeom, "MLB: A memory-aware load balancing for mitigating memory
//! contention"), with VBSC as its rival.

mod bench;
mod mixes;
mod pairs;
mod streams;
mod timeline;
mod watch;

use corun_app::open_library;
use corun_profile::Library;

use self::bench::{Bench, DEFAULT, MLB, VBSC, VBSC_200, VBSC_800};
use self::mixes::{MIX_1, MIX_2, Mixed, SERVERS};
use super::paper::{Ground, PaperStudy, StandsOn};
use crate::failure::Outcome;
use crate::report::{Chart, Finding, StudyFigure, StudyReport, strings};

/// The experiment.
pub(super) const STUDY: PaperStudy =
    PaperStudy { name: "mlb", stands_on: StandsOn::Spec, seeds: 3, page };

const XEON: &str = "xeon-e5-2690";
const I7: &str = "i7-2600";

fn page(ground: &Ground) -> Outcome<StudyReport> {
    let (xeon, i7) = (Bench::new(XEON)?, Bench::new(I7)?);
    let spec = ground.spec()?;
    let shipped = open_library(None)?;
    let (mut figures, mut findings) = (vec![streams::fig_2(&xeon)?], Vec::new());
    let mut add = |(figure, finding): (StudyFigure, Finding)| {
        figures.push(figure);
        findings.push(finding);
    };
    add(streams::fig_3(&xeon, spec, XEON)?);
    add(streams::fig_3(&i7, spec, I7)?);
    add(streams::fig_4()?);
    add(timeline::fig_6(ground, &xeon)?);
    let mut more = on_mixes(ground, &xeon, &i7, &mut findings)?;
    let (fig_8, finding) = fig_8(ground)?;
    more.push(fig_8);
    findings.push(finding);
    more.push(mixes::fig_9(ground, &i7)?);
    let (fig_11, of_servers) = fig_11(ground, &i7, &shipped)?;
    more.push(fig_11);
    findings.extend(of_servers);
    for (figure, finding) in
        [timeline::fig_12(ground, &i7)?, pairs::fig_13(ground, &xeon, &shipped)?]
    {
        more.push(figure);
        findings.push(finding);
    }
    figures.extend(more);
    Ok(StudyReport {
        name: STUDY.name,
        title: "MLB, and VBSC beside it".to_owned(),
        about: format!(
            "Seo, Eom, Yeom, MLB: figures 2 to 13, on the presets {XEON} and {I7} with one thread a core. \
             Programs: the SPEC table's CPU2006 ones by the paper's bare names; {} seeds. Each program is \
             as long as 60 s alone (Fig. 12: 120 s), shorter than the paper's, so that MLB's first 80 s, in \
             which its window fills, weigh more. The paper's plots are not in its text: where \
             it gives no number, what it says is beside ours.",
            ground.seeds
        ),
        findings,
        figures,
    })
}

/// Fig. 7 and 10.
fn on_mixes(
    ground: &Ground,
    xeon: &Bench,
    i7: &Bench,
    findings: &mut Vec<Finding>,
) -> Outcome<Vec<StudyFigure>> {
    let mut figures = Vec::new();
    for (number, mix) in [(1, &MIX_1), (2, &MIX_2)] {
        let mixed = Mixed::run(ground, xeon, (mix, 2), &[DEFAULT, MLB])?;
        let [memory, others, _] = mixed.means(1);
        findings.push(Finding {
            what: format!("Mix {number} on {XEON}: time under MLB over the default's (Fig. 7)"),
            paper: "all memory-bound programs faster, others at most 2 % slower".to_owned(),
            ours: format!("memory-bound {memory:.3}, others {others:.3}"),
            difference: little_to_gain(&mixed),
        });
        let heading = format!("Fig. 7: mix {number} of Table 2 on the Xeon E5-2690");
        let about = "Times of first runs, memory bandwidth and full buffers over the default's.";
        figures.push(mixed.figure(&format!("fig-7-mix-{number}"), &heading, about));
    }
    for (number, mix) in [(1, &MIX_1), (2, &MIX_2)] {
        let mixed = Mixed::run(ground, i7, (mix, 1), &[DEFAULT, MLB, VBSC])?;
        let (mlb, vbsc) = (mixed.means(1), mixed.means(2));
        findings.push(Finding {
            what: format!("Mix {number} on {I7}: MLB and VBSC, time over the default's (Fig. 10)"),
            paper: "both lower it to a similar level".to_owned(),
            ours: format!(
                "memory-bound {:.3} and {:.3}, all {:.3} and {:.3}",
                mlb[0], vbsc[0], mlb[2], vbsc[2]
            ),
            difference: little_to_gain(&mixed),
        });
        let heading = format!("Fig. 10: mix {number} of Table 2 on the i7-2600");
        let about = "Times of first runs, memory bandwidth and full buffers over the default's.";
        figures.push(mixed.figure(&format!("fig-10-mix-{number}"), &heading, about));
    }
    Ok(figures)
}

/// No policy can give back more than contention takes.
fn little_to_gain(mixed: &Mixed) -> String {
    format!(
        "Under the default contention costs the memory-bound programs {:.1} % here, and no policy can \
         give back more. Where soplex is among them most of that is cache that it loses; few of the \
         others' cycles wait for memory, by the table. MLB acts from 4 s on, a run queue at a time, \
         VBSC from its first epoch.",
        mixed.cost_percent()
    )
}

fn fig_8(ground: &Ground) -> Outcome<(StudyFigure, Finding)> {
    let policies = [DEFAULT, MLB];
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for (preset, copies) in [(XEON, 2), (I7, 1)] {
        let slowdowns = mixes::gpu(ground, preset, copies, &policies)?;
        let mut row = vec![preset.to_owned()];
        row.extend(slowdowns.iter().map(|one| format!("{one:.3}")));
        row.push(format!("{:.3}", slowdowns[1] / slowdowns[0]));
        words.push(format!("{:.3} on {preset}", slowdowns[1] / slowdowns[0]));
        rows.push(row);
    }
    let finding = Finding {
        what: "Time of a GPU's copies under MLB over the default's (Fig. 8)".to_owned(),
        paper: "shorter on both machines".to_owned(),
        ours: words.join(", "),
        difference: "The GPU is an engine behind the same controller that copies without pause at \
                     6 GB/s alone. Whom it meets changes with MLB, how much traffic it meets on \
                     average hardly does: the programs do their work either way."
            .to_owned(),
    };
    let figure = figure(
        "fig-8",
        "Fig. 8: copies between CPU and GPU beside mix 1",
        "A soplex makes room for the GPU's program. Time of the copies over that alone.",
        None,
        strings(&["machine", "default", "MLB", "MLB / default"]),
        rows,
    );
    Ok((figure, finding))
}

fn fig_11(ground: &Ground, i7: &Bench, library: &Library) -> Outcome<(StudyFigure, Vec<Finding>)> {
    let policies = [DEFAULT, MLB, VBSC, VBSC_200, VBSC_800];
    let paper = ["VBSC 27 % below", "about 4 times VBSC's"];
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    for (server, paper) in SERVERS.into_iter().zip(paper) {
        let throughput = mixes::throughput(ground, i7, (server, library), &policies)?;
        let mut row = vec![server.name.to_owned()];
        row.extend(throughput.iter().map(|one| format!("{one:.3}")));
        rows.push(row);
        findings.push(Finding {
            what: format!("{} server of 16 clients: throughput under MLB (Fig. 11)", server.name),
            paper: format!("as the default's; {paper}"),
            ours: format!(
                "{:.2} of the default's; VBSC {:.2}: MLB {:.1} times VBSC's",
                throughput[1],
                throughput[2],
                throughput[1] / throughput[2]
            ),
            difference:
                "Of each epoch a client has the CPU for its slot alone, and sixteen clients \
                         make slots short: with fewer clients on a CPU VBSC would lose less."
                    .to_owned(),
        });
    }
    let mut header = vec!["server".to_owned()];
    header.extend(policies.iter().map(|asked| asked.shown.to_owned()));
    let about = "Throughput beside mix 2 over that under the default, in a window of 24 s. Each of the 16 \
                 clients alternates between the CPU (1 ms, TPC-C-like 0.25 ms) and a wait of 8 ms; the \
                 program is the library's postgres. VBSC's epochs are of 400 ms, and of 200 and 800 ms.";
    let heading = "Fig. 11: an I/O-bound server beside mix 2 on the i7-2600";
    Ok((figure("fig-11", heading, about, None, header, rows), findings))
}

fn figure(
    id: &str,
    heading: &str,
    about: &str,
    chart: Option<Chart>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
) -> StudyFigure {
    let (id, heading, about) = (id.to_owned(), heading.to_owned(), about.to_owned());
    StudyFigure { id, heading, about, chart, header, rows }
}
