//! Fig. 4.9 and 4.10: unfairness and throughput by the unfairness factor.

use corun_app::Result;
use corun_report::{Axis, Mark, Panel, Plot};
use rayon::prelude::*;

use super::big_little::{BigLittle, Member, MixFigures};
use crate::harness::{Figure, StudyInputs};

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
pub(super) fn figures(inputs: &StudyInputs) -> Result<Vec<Figure>> {
    let machine = BigLittle::new("juno-2b4s")?;
    let solo_s = inputs.length_s(SOLO_S);
    let mix = |place: usize| MIXES[place].1.map(|name| (name, 1)).to_vec();
    let hsp: Vec<MixFigures> = (0..MIXES.len())
        .into_par_iter()
        .map(|place| machine.play(inputs, &mix(place), ("hsp", &[]), solo_s))
        .collect::<Result<_>>()?;
    let of = |policy: &'static str, heading: &str| -> Result<Figure> {
        let jobs: Vec<(usize, f64)> = (0..MIXES.len())
            .flat_map(|place| FACTORS.iter().map(move |&factor| (place, factor)))
            .collect();
        let run = |&(place, factor): &(usize, f64)| {
            let mix: Vec<Member> = mix(place);
            machine.play(inputs, &mix, (policy, &[("unfairness-factor", factor)]), solo_s)
        };
        let played: Vec<MixFigures> = jobs.par_iter().map(run).collect::<Result<_>>()?;
        Ok(figure(policy, heading, &played, &hsp))
    };
    Ok(vec![
        of("acfs", "Fig. 4.9: acfs by the unfairness factor")?,
        of("camps", "Fig. 4.10: CAMPS by the unfairness factor")?,
    ])
}

fn figure(policy: &str, heading: &str, played: &[MixFigures], hsp: &[MixFigures]) -> Figure {
    let mixes: Vec<(&[MixFigures], &MixFigures, &str)> = played
        .chunks(FACTORS.len())
        .zip(hsp)
        .zip(MIXES)
        .map(|((of, hsp), (name, _))| (of, hsp, name))
        .collect();
    type Of = fn(&MixFigures) -> f64;
    let figures: [(&str, Of); 2] = [("unfairness", |one| one.unfairness), ("ASP", |one| one.asp)];
    let about = "Unfairness and ASP relative to hsp, on juno-2b4s. The thesis: throughput and unfairness \
                 rise together, towards those of hsp.";
    let mut rows = Figure::new(format!("unfairness-factor-{policy}"), heading, about)
        .rows("mix", &mixes, |one| one.2.to_owned());
    let mut series = Vec::new();
    for (what, of) in figures {
        for (place, factor) in FACTORS.iter().enumerate() {
            rows = rows.column(format!("{what}, {factor}"), 3, |one| of(&one.0[place]) / of(one.1));
        }
        series.extend(mixes.iter().map(|(played, hsp, name)| {
            let relative = played.iter().map(|one| Some(of(one) / of(hsp)));
            (format!("{name}, {what}"), relative.collect())
        }));
    }
    let upwards = Axis::Linear("relative to hsp".to_owned(), Some(0.0));
    let labels = FACTORS.iter().map(f64::to_string).collect();
    let panel = Panel::of_labels(Mark::DottedLine, "unfairness factor", labels, upwards, &series);
    rows.table().drawn(Plot::of(panel))
}
