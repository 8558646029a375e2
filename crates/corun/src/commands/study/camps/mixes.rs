//! The mixes of Tables 4.3 and 4.5, Fig. 4.11 and 4.12, Tables 4.2 and 4.4.

use super::bench::{Bench, Member, NEAREST, Played};
use super::{figure, number, strings};
use crate::commands::study::paper::Ground;
use crate::commands::study::runs::Asked;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure};
use rayon::prelude::*;

/// Table 4.3, sorted by the number of memory-intensive programs.
const TABLE_4_3: [[&str; 6]; 24] = [
    ["GemsFDTD", "equake", "soplex", "milc", "ammp", "bzip2"],
    ["galgel", "soplex", "hmmer", "lbm", "fma3d", "bzip2"],
    ["galgel", "equake", "gamess", "lbm", "bzip2", "astar"],
    ["twolf", "bwaves", "equake", "soplex", "astar", "gobmk"],
    ["GemsFDTD", "bwaves", "equake", "povray", "fma3d", "astar"],
    ["bwaves", "equake", "gamess", "lbm", "fma3d", "bzip2"],
    ["GemsFDTD", "applu", "perlbmk", "sixtrack", "astar", "gzip"],
    ["bwaves", "perlbmk", "povray", "fma3d", "astar", "gzip"],
    ["galgel", "perlbmk", "sixtrack", "mgrid", "astar", "libquantum"],
    ["GemsFDTD", "vortex", "perlbmk", "fma3d", "astar", "gzip"],
    ["bzip2", "equake", "hmmer", "vortex", "crafty", "astar"],
    ["gamess", "hmmer", "soplex", "art", "astar", "gzip"],
    ["GemsFDTD", "bwaves", "gamess", "hmmer", "crafty", "astar"],
    ["bzip2", "bwaves", "hmmer", "lucas", "gobmk", "gzip"],
    ["soplex", "art", "vortex", "lbm", "fma3d", "gobmk"],
    ["galgel", "equake", "hmmer", "lbm", "fma3d", "h264ref"],
    ["bwaves", "equake", "gamess", "povray", "astar", "libquantum"],
    ["GemsFDTD", "galgel", "gamess", "hmmer", "astar", "libquantum"],
    ["swim", "mcf", "perlbench", "h264ref", "gobmk", "gzip"],
    ["galgel", "equake", "hmmer", "povray", "mgrid", "gobmk"],
    ["galgel", "equake", "hmmer", "bzip2", "perlbench", "h264ref"],
    ["galgel", "equake", "gamess", "hmmer", "sixtrack", "povray"],
    ["gamess", "art", "bzip2", "gobmk", "sixtrack", "vortex"],
    ["galgel", "gamess", "hmmer", "povray", "perlbench", "gobmk"],
];

/// Table 4.5, for 4 big and 4 small cores (its text; its caption names the other machine).
pub(super) const TABLE_4_5: [&[Member]; 16] = [
    &[
        ("art", 1),
        ("galgel", 1),
        ("libquantum", 1),
        ("sixtrack", 1),
        ("gamess", 1),
        ("hmmer", 1),
        ("soplex", 1),
        ("gzip", 1),
    ],
    &[
        ("galgel", 1),
        ("libquantum", 1),
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("crafty", 1),
        ("parser", 1),
        ("gzip", 1),
    ],
    &[
        ("mcf", 1),
        ("lucas", 1),
        ("galgel", 1),
        ("soplex", 1),
        ("h264ref", 1),
        ("povray", 1),
        ("perlbmk", 1),
        ("gobmk", 1),
    ],
    &[
        ("galgel", 1),
        ("mcf", 1),
        ("h264ref", 1),
        ("povray", 1),
        ("perlbmk", 1),
        ("crafty", 1),
        ("gobmk", 1),
        ("astar", 1),
    ],
    &[
        ("gamess", 1),
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("applu", 1),
        ("namd", 1),
        ("gobmk", 1),
    ],
    &[
        ("art", 1),
        ("galgel", 1),
        ("gamess", 1),
        ("hmmer", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("h264ref", 1),
        ("astar", 1),
    ],
    &[
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("soplex", 1),
        ("applu", 1),
        ("h264ref", 1),
        ("gzip", 1),
    ],
    &[
        ("mgrid", 1),
        ("lucas", 1),
        ("soplex", 1),
        ("fma3d", 1),
        ("applu", 1),
        ("ammp", 1),
        ("h264ref", 1),
        ("astar", 1),
    ],
    &[("art", 1), ("libquantum", 1), ("sixtrack", 1), ("h264ref", 1), ("semphy", 4)],
    &[("gamess", 1), ("applu", 1), ("povray", 1), ("crafty", 1), ("swaptions", 4)],
    &[("soplex", 1), ("povray", 1), ("namd", 1), ("gobmk", 1), ("semphy", 4)],
    &[("fma3d", 1), ("h264ref", 1), ("povray", 1), ("equake", 1), ("kmeans", 4)],
    &[("FFTW3D", 4), ("kmeans", 4)],
    &[("semphy", 4), ("EP", 4)],
    &[("blackscholes", 4), ("EP", 4)],
    &[("blackscholes", 4), ("kmeans", 4)],
];

/// The first is what figures are relative to, the last what is compared with all.
const POLICIES: [Asked; 8] = [
    Asked::plain("hsp"),
    Asked { shown: "hsp, ideal", policy: "hsp", parameters: IDEAL },
    Asked::plain("linux-default"),
    Asked::plain("rr"),
    Asked::plain("equal-progress"),
    Asked { shown: "acfs, ideal", policy: "acfs", parameters: IDEAL },
    Asked::plain("acfs"),
    Asked::plain("camps"),
];
const CAMPS: usize = POLICIES.len() - 1;
const ACFS: usize = CAMPS - 1;
const ACFS_IDEAL: usize = ACFS - 1;
/// Speedup factors of stored profiles in place of estimates.
const IDEAL: &[(&str, f64)] = &[("ideal-speedup", 1.0)];
/// Those that the drawing leaves out: the first by which it divides, and what the thesis's has not.
const DRAWN: [usize; 4] = [3, 4, ACFS, CAMPS];

/// The thesis's average reduction in unfairness and increase in throughput, in %, of CAMPS over these.
type Averages = [(&'static str, f64, f64); 4];
const TABLE_4_4: Averages = [
    ("hsp", 50.96, -12.24),
    ("rr", 17.08, 13.19),
    ("equal-progress", 23.64, 3.31),
    ("acfs", 10.71, 4.48),
];
const TABLE_4_2: Averages = [
    ("hsp", 32.75, -16.03),
    ("rr", 16.89, 16.53),
    ("equal-progress", 18.67, 12.05),
    ("acfs", 7.17, 4.51),
];

/// How long each program is alone on a big core, in s.
const SOLO_S: f64 = 20.0;

/// A set of mixes under all policies.
pub(super) struct Mixes {
    id: &'static str,
    heading: &'static str,
    mixes: Vec<(String, Vec<Member>)>,
    averages: (&'static str, Averages),
    /// By mix and policy.
    played: Vec<Vec<Played>>,
}

fn play(
    ground: &Ground,
    bench: &Bench,
    mixes: &[(String, Vec<Member>)],
) -> Outcome<Vec<Vec<Played>>> {
    let jobs: Vec<(usize, usize)> = (0..mixes.len())
        .flat_map(|mix| (0..POLICIES.len()).map(move |policy| (mix, policy)))
        .collect();
    let run = |&(mix, policy): &(usize, usize)| {
        bench.play(
            ground,
            &mixes[mix].1,
            (POLICIES[policy].policy, POLICIES[policy].parameters),
            SOLO_S,
        )
    };
    let all: Vec<Played> = jobs.par_iter().map(run).collect::<Outcome<_>>()?;
    Ok(all.chunks(POLICIES.len()).map(<[Played]>::to_vec).collect())
}

/// Fig. 4.11.
pub(super) fn juno(ground: &Ground) -> Outcome<Mixes> {
    let mixes: Vec<(String, Vec<Member>)> = TABLE_4_3
        .iter()
        .enumerate()
        .map(|(place, mix)| {
            (format!("W{}", place + 1), mix.iter().map(|&name| (name, 1)).collect())
        })
        .collect();
    let played = play(ground, &Bench::new("juno-2b4s")?, &mixes)?;
    Ok(Mixes {
        id: "fig-4-11",
        heading: "Fig. 4.11: Table 4.3's mixes on juno-2b4s",
        mixes,
        averages: ("Table 4.4", TABLE_4_4),
        played,
    })
}

/// Fig. 4.12.
pub(super) fn odroid(ground: &Ground) -> Outcome<Mixes> {
    let mixes: Vec<(String, Vec<Member>)> = TABLE_4_5
        .iter()
        .enumerate()
        .map(|(place, mix)| (format!("M{}", place + 1), mix.to_vec()))
        .collect();
    let played = play(ground, &Bench::new("odroid-4b4s")?, &mixes)?;
    Ok(Mixes {
        id: "fig-4-12",
        heading: "Fig. 4.12: Table 4.5's mixes on odroid-4b4s",
        mixes,
        averages: ("Table 4.2", TABLE_4_2),
        played,
    })
}

impl Mixes {
    /// CAMPS against a policy, in %, over the mixes: by how much unfairness is lower and ASP higher.
    fn against(&self, policy: usize) -> Vec<(f64, f64)> {
        let of = |played: &Vec<Played>| {
            let (one, other) = (&played[CAMPS], &played[policy]);
            (100.0 * (1.0 - one.unfairness / other.unfairness), 100.0 * (one.asp / other.asp - 1.0))
        };
        self.played.iter().map(of).collect()
    }

    fn average(&self, policy: usize) -> (f64, f64) {
        let all = self.against(policy);
        let count = all.len() as f64;
        (
            all.iter().map(|one| one.0).sum::<f64>() / count,
            all.iter().map(|one| one.1).sum::<f64>() / count,
        )
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let (table, averages) = self.averages;
        let mut findings: Vec<Finding> = averages
            .iter()
            .map(|&(name, unfairness, throughput)| {
                let policy = POLICIES.iter().position(|one| one.shown == name).unwrap_or_default();
                let (less, more) = self.average(policy);
                let difference = if name == "acfs" {
                    let (less, more) = self.average(ACFS_IDEAL);
                    format!(
                        "Against acfs with the true speedup factors it is {less:.1} % and {more:.1} %: that is \
                         what minding contention is worth; the rest is what estimates cost acfs."
                    )
                } else {
                    String::new()
                };
                Finding {
                    what: format!(
                        "CAMPS against {name}: unfairness lower by, ASP higher by ({table})"
                    ),
                    paper: format!("{unfairness:.1} %, {throughput:.1} %"),
                    ours: format!("{less:.1} %, {more:.1} %"),
                    difference,
                }
            })
            .collect();
        let worst = self.against(ACFS);
        let least = |of: fn(&(f64, f64)) -> f64| {
            let place = (0..worst.len()).min_by(|&a, &b| of(&worst[a]).total_cmp(&of(&worst[b])));
            let place = place.unwrap_or_default();
            format!("{:.1} % ({})", of(&worst[place]), self.mixes[place].0)
        };
        findings.push(Finding {
            what: format!("The worst mix of CAMPS against acfs ({table})"),
            paper: "similar, within a few %".to_owned(),
            ours: format!(
                "unfairness lower by {}, ASP higher by {}",
                least(|one| one.0),
                least(|one| one.1)
            ),
            difference: String::new(),
        });
        findings
    }

    fn chart(&self, upwards: &str, of: fn(&Played) -> f64) -> Chart {
        let series = |place: usize| {
            let relative = |played: &Vec<Played>| {
                Some(of(&played[place]) / of(&played[0])).filter(|one| one.is_finite())
            };
            (POLICIES[place].shown.to_owned(), self.played.iter().map(relative).collect())
        };
        Chart {
            kind: ChartKind::BarsFrom(1.0),
            across: "mix".to_owned(),
            upwards: format!("{upwards} / that under hsp"),
            labels: self.mixes.iter().map(|one| one.0.clone()).collect(),
            series: DRAWN.into_iter().map(series).collect(),
        }
    }

    fn table(&self, (id, what, about): (&str, &str, &str), of: fn(&Played) -> f64) -> StudyFigure {
        let mut header = strings(&["mix"]);
        header.extend(POLICIES.iter().map(|one| one.shown.to_owned()));
        let rows = self.played.iter().zip(&self.mixes).map(|(played, mix)| {
            let mut row = vec![mix.0.clone()];
            row.extend(played.iter().map(|one| number(of(one), 3)));
            row
        });
        figure(
            &format!("{}-{id}", self.id),
            &format!("{}: {what}", self.heading),
            about,
            Some(self.chart(what, of)),
            header,
            rows.collect(),
        )
    }

    pub(super) fn figures(&self) -> Vec<StudyFigure> {
        let about = "The highest slowdown of a mix's programs over the lowest; slowdowns are against the program alone \
                     on a big core. The drawing is relative to hsp, as the thesis's. ideal: by speedup factors of stored profiles.";
        let asp =
            "The sum over a mix's programs of time alone on a small core / time in the mix - 1.";
        let mut figures = vec![
            self.table(("unfairness", "unfairness", about), |one| one.unfairness),
            self.table(("asp", "ASP", asp), |one| one.asp),
        ];
        let mut rows = Vec::new();
        for (place, name) in POLICIES.iter().map(|one| one.shown).enumerate() {
            let mean = |of: fn(&Played) -> f64| {
                self.played.iter().map(|played| of(&played[place])).sum::<f64>()
                    / self.played.len() as f64
            };
            let (less, more) = self.average(place);
            let paper = self.averages.1.iter().find(|one| one.0 == name);
            rows.push(vec![
                name.to_owned(),
                number(mean(|one| one.unfairness), 3),
                number(mean(|one| one.asp), 3),
                number(mean(|one| one.stp), 3),
                number(mean(|one| one.worst), 3),
                number(mean(|one| one.swaps_per_s), 2),
                number(less, 1),
                paper.map_or("-".to_owned(), |one| number(one.1, 1)),
                number(more, 1),
                paper.map_or("-".to_owned(), |one| number(one.2, 1)),
            ]);
        }
        figures.push(figure(
            &format!("{}-averages", self.id),
            &format!("{}: means, and CAMPS against each", self.averages.0),
            "Means over the mixes; then by how many % CAMPS's unfairness is lower and its ASP higher, the mean over \
             mixes of the ratios, beside the thesis's.",
            None,
            strings(&[
                "policy", "unfairness", "ASP", "STP", "worst slowdown", "swaps/s",
                "unfairness lower %", "thesis", "ASP higher %", "thesis's",
            ]),
            rows,
        ));
        figures
    }
}

/// Who stands for whom, and how much faster big cores are.
pub(super) fn programs(ground: &Ground) -> Outcome<StudyFigure> {
    let benches = [Bench::new("juno-2b4s")?, Bench::new("odroid-4b4s")?];
    let mut rows = Vec::new();
    for (theirs, ours, why) in NEAREST {
        let profile = ground.shipped()?.get(ours)?;
        let mut row = strings(&[theirs, ours, why]);
        for bench in &benches {
            let program = bench.load(profile)?;
            let solo = corun_policy::solo_figures(&program);
            row.push(number(program.speedup_factor.unwrap_or(f64::NAN), 2));
            row.push(number(solo.llc_mpki, 1));
        }
        rows.push(row);
    }
    Ok(figure(
        "programs",
        "The programs",
        "The thesis's programs, the nearest of the library for each, their speedup factors (instructions a second \
         on a big core / on a small one, alone) and misses per 1000 instructions on a big core. The thesis has \
         factors of 1.5 to 4.4 on the Juno and 1.36 to 6.63 on the Odroid.",
        None,
        strings(&[
            "thesis",
            "here",
            "why",
            "factor, juno",
            "MPKI",
            "factor, odroid",
            "MPKI, odroid",
        ]),
        rows,
    ))
}
