//! Fig. 4.9 and 4.10: unfairness and throughput by the unfairness factor.

use rayon::prelude::*;

use super::bench::{Bench, Member, Played};
use super::{figure, number, strings};
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, StudyFigure};

const FACTORS: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];
const SOLO_S: f64 = 20.0;

/// Of Table 4.3's mixes some where hsp's throughput is above the fair policies'.
const MIXES: [(&str, [&str; 6]); 4] = [
    ("W2", ["galgel", "soplex", "hmmer", "lbm", "fma3d", "bzip2"]),
    ("W8", ["bwaves", "perlbmk", "povray", "fma3d", "astar", "gzip"]),
    ("W17", ["bwaves", "equake", "gamess", "povray", "astar", "libquantum"]),
    ("W24", ["galgel", "gamess", "hmmer", "povray", "perlbench", "gobmk"]),
];

/// One figure for each policy.
pub(super) fn figures(ground: &Ground) -> Outcome<Vec<StudyFigure>> {
    let bench = Bench::new("juno-2b4s")?;
    let mix = |place: usize| MIXES[place].1.map(|name| (name, 1)).to_vec();
    let hsp: Vec<Played> = (0..MIXES.len())
        .into_par_iter()
        .map(|place| bench.play(ground, &mix(place), ("hsp", &[]), SOLO_S))
        .collect::<Outcome<_>>()?;
    let of = |policy: &'static str, heading: &str| -> Outcome<StudyFigure> {
        let jobs: Vec<(usize, f64)> = (0..MIXES.len())
            .flat_map(|place| FACTORS.iter().map(move |&factor| (place, factor)))
            .collect();
        let run = |&(place, factor): &(usize, f64)| {
            let mix: Vec<Member> = mix(place);
            bench.play(ground, &mix, (policy, &[("unfairness-factor", factor)]), SOLO_S)
        };
        let played: Vec<Played> = jobs.par_iter().map(run).collect::<Outcome<_>>()?;
        Ok(page(policy, heading, &played, &hsp))
    };
    Ok(vec![
        of("acfs", "Fig. 4.9: acfs by the unfairness factor")?,
        of("camps", "Fig. 4.10: CAMPS by the unfairness factor")?,
    ])
}

fn page(policy: &str, heading: &str, played: &[Played], hsp: &[Played]) -> StudyFigure {
    let by_mix = || played.chunks(FACTORS.len()).zip(hsp).zip(MIXES);
    let mut header = strings(&["mix"]);
    for what in ["unfairness", "ASP"] {
        header.extend(FACTORS.iter().map(|factor| format!("{what}, {factor}")));
    }
    let rows = by_mix().map(|((of, hsp), (name, _))| {
        let mut row = strings(&[name]);
        row.extend(of.iter().map(|one| number(one.unfairness / hsp.unfairness, 3)));
        row.extend(of.iter().map(|one| number(one.asp / hsp.asp, 3)));
        row
    });
    let series = |of: fn(&Played) -> f64, what: &str| {
        by_mix()
            .map(|((played, hsp), (name, _))| {
                (
                    format!("{name}, {what}"),
                    played.iter().map(|one| Some(of(one) / of(hsp))).collect(),
                )
            })
            .collect::<Vec<_>>()
    };
    let mut lines = series(|one| one.unfairness, "unfairness");
    lines.extend(series(|one| one.asp, "ASP"));
    let chart = Chart {
        kind: ChartKind::LinesFrom(0.0),
        across: "unfairness factor".to_owned(),
        upwards: "relative to hsp".to_owned(),
        labels: FACTORS.iter().map(f64::to_string).collect(),
        series: lines,
    };
    figure(
        &format!("unfairness-factor-{policy}"),
        heading,
        "Unfairness and ASP relative to hsp, on juno-2b4s. The thesis: throughput and unfairness rise together, towards \
         those of hsp.",
        Some(chart),
        header,
        rows.collect(),
    )
}
