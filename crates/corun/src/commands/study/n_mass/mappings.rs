//! One memory, two caches: mcf beside lbm (Fig. 3) and four clones of soplex (Fig. 4 and 5), all
//! with their memory on node 0, at rest.

use corun_model::Outcome as Modelled;

use super::runs::Runs;
use super::{mean, percent};
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

/// The ways to run mcf and lbm (Fig. 2), with the nodes they run on.
const MAPPINGS: [(&str, [usize; 2]); 3] =
    [("(a) both local", [0, 0]), ("(b) lbm remote", [0, 1]), ("(c) mcf remote", [1, 0])];

const PAIR: [&str; 2] = ["mcf", "lbm"];

/// In percent of alone.
struct Mapping {
    mpki: [f64; 2],
    slowdown: [f64; 2],
    /// Share of the bytes that come over the link, and all bytes a second.
    remote: f64,
    bytes_per_s: f64,
}

pub(super) fn figures(runs: &Runs<'_>) -> (Vec<Finding>, Vec<StudyFigure>) {
    let (mut findings, pair) = of_the_pair(runs);
    let (of_clones, clones) = of_the_clones(runs);
    findings.extend(of_clones);
    (findings, vec![pair, clones])
}

fn more(now: f64, alone: f64) -> f64 {
    100.0 * (now / alone - 1.0)
}

fn mapping(runs: &Runs<'_>, nodes: [usize; 2]) -> Mapping {
    let placed: Vec<(&str, usize, usize)> =
        PAIR.iter().zip(nodes).map(|(&bare, node)| (bare, node, 0)).collect();
    let out = runs.at_rest(&placed);
    let alone = PAIR.map(|bare| runs.at_rest(&[(bare, 0, 0)])[0].llc_mpki);
    let bytes: f64 = out.iter().map(|one| one.bytes_per_s).sum();
    let remote: f64 =
        out.iter().zip(nodes).filter(|(_, node)| *node != 0).map(|(one, _)| one.bytes_per_s).sum();
    Mapping {
        mpki: [0, 1].map(|place| more(out[place].llc_mpki, alone[place])),
        slowdown: [0, 1].map(|place| more(out[place].slowdown, 1.0)),
        remote: 100.0 * remote / bytes,
        bytes_per_s: bytes,
    }
}

fn of_the_pair(runs: &Runs<'_>) -> (Vec<Finding>, StudyFigure) {
    let found = MAPPINGS.map(|(_, nodes)| mapping(runs, nodes));
    let both = |values: [f64; 2]| format!("{} and {} %", percent(values[0]), percent(values[1]));
    let [a, b, c] = &found;
    let findings = vec![
        Finding {
            what: "MPKI of mcf and lbm, both local against alone (Fig. 3a)".to_owned(),
            paper: "47 and 62 % more; apart at most 4 %".to_owned(),
            ours: format!("{} more; apart {}", both(a.mpki), both(b.mpki)),
            difference:
                "The table's curves: mcf's misses fall steeply with cache, lbm's hardly at all."
                    .to_owned(),
        },
        Finding {
            what: "Slower than alone: mcf and lbm both local; lbm remote; mcf remote (Fig. 3c)"
                .to_owned(),
            paper: "17 % on average; lbm by almost 30; 11 % on average, lbm by 1".to_owned(),
            ours: format!(
                "{} % on average; lbm by {}; {} % on average, lbm by {}",
                percent(mean(&a.slowdown)),
                percent(b.slowdown[1]),
                percent(mean(&c.slowdown)),
                percent(c.slowdown[1])
            ),
            difference:
                "Which of the two suffers from distance is the other way round: the table's lbm \
                         waits for memory in 4 % of its cycles, since its processor prefetches \
                         streams well, and mcf in 27 %. So here it is lbm that should go."
                    .to_owned(),
        },
        Finding {
            what: "Share of bytes over the link: lbm remote, mcf remote (Fig. 3b)".to_owned(),
            paper: "56 and 33 %; 50 % fewer bytes than both local".to_owned(),
            ours: format!(
                "{} and {} %; both local {} and {} % more bytes",
                percent(b.remote),
                percent(c.remote),
                percent(more(a.bytes_per_s, b.bytes_per_s)),
                percent(more(a.bytes_per_s, c.bytes_per_s))
            ),
            difference: "lbm moves more bytes a second beside mcf than on the paper's machine."
                .to_owned(),
        },
    ];
    let rows = MAPPINGS.iter().zip(&found).map(|((name, _), one)| {
        let mut row = vec![(*name).to_owned()];
        row.extend([one.mpki[0], one.mpki[1], one.remote].map(percent));
        row.push(format!("{:.0}", one.bytes_per_s * 1e-6));
        row.extend([one.slowdown[0], one.slowdown[1], mean(&one.slowdown)].map(percent));
        row
    });
    let series = [0, 1].map(|place| {
        let of = found.iter().map(|one| Some(one.slowdown[place]));
        (PAIR[place].to_owned(), of.collect())
    });
    let figure = StudyFigure {
        id: "pair".to_owned(),
        heading: "mcf and lbm, memory on node 0 (Fig. 3)".to_owned(),
        about: "Against each alone: more misses per instruction, and how much slower.".to_owned(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "mapping".to_owned(),
            upwards: "% slower than alone".to_owned(),
            labels: MAPPINGS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            series: series.to_vec(),
        }),
        header: strings(&[
            "mapping",
            "mcf, % MPKI more",
            "lbm, % MPKI more",
            "bytes over the link, %",
            "MB/s",
            "mcf, % slower",
            "lbm, % slower",
            "mean",
        ]),
        rows: rows.collect(),
    };
    (findings, figure)
}

/// Clones with so many local.
struct Clones {
    locality: f64,
    mpki: f64,
    local: Option<f64>,
    remote: Option<f64>,
    mean: f64,
}

const CLONE: &str = "soplex";
const CLONES: usize = 4;

fn clones(runs: &Runs<'_>, local: usize) -> Clones {
    let placed: Vec<(&str, usize, usize)> =
        (0..CLONES).map(|place| (CLONE, usize::from(place >= local), 0)).collect();
    let out = runs.at_rest(&placed);
    let alone = runs.at_rest(&[(CLONE, 0, 0)])[0].llc_mpki;
    let (near, far) = out.split_at(local);
    let slower = |of: &[Modelled]| {
        let slowdowns: Vec<f64> = of.iter().map(|one| more(one.slowdown, 1.0)).collect();
        corun_metrics::mean(&slowdowns)
    };
    let bytes = |of: &[Modelled]| of.iter().map(|one| one.bytes_per_s).sum::<f64>();
    let mpki: Vec<f64> = out.iter().map(|one| more(one.llc_mpki, alone)).collect();
    Clones {
        locality: 100.0 * bytes(near) / bytes(&out),
        mpki: mean(&mpki),
        local: slower(near),
        remote: slower(far),
        mean: slower(&out).unwrap_or(f64::NAN),
    }
}

fn of_the_clones(runs: &Runs<'_>) -> (Vec<Finding>, StudyFigure) {
    let found: Vec<Clones> = (0..=CLONES).map(|local| clones(runs, local)).collect();
    let best = found.iter().min_by(|one, other| one.mean.total_cmp(&other.mean));
    let calmest = found.iter().min_by(|one, other| one.mpki.total_cmp(&other.mpki));
    let at = |one: Option<&Clones>| one.map_or(f64::NAN, |one| one.locality);
    let all = &found[CLONES];
    let findings = vec![
        Finding {
            what: "MPKI of four clones of soplex: all local, and least (Fig. 4)".to_owned(),
            paper: "35 % more than alone; 19 % more at 57 % locality".to_owned(),
            ours: format!(
                "{} % more; {} % more at {} % locality",
                percent(all.mpki),
                percent(calmest.map_or(f64::NAN, |one| one.mpki)),
                percent(at(calmest))
            ),
            difference:
                "In the table soplex gains from cache up to all 27.5 MB, so that clones on 8 MB \
                         have more to take from each other; the least is at the same split."
                    .to_owned(),
        },
        Finding {
            what: "Locality at which the clones are fastest (Fig. 5)".to_owned(),
            paper: "80 %".to_owned(),
            ours: format!("{} %", percent(at(best))),
            difference: String::new(),
        },
    ];
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), percent);
    let rows = found.iter().enumerate().map(|(local, one)| {
        vec![
            local.to_string(),
            percent(one.locality),
            percent(one.mpki),
            cell(one.local),
            cell(one.remote),
            percent(one.mean),
        ]
    });
    type Of = fn(&Clones) -> Option<f64>;
    let lines: [(&str, Of); 4] = [
        ("MPKI, % more", |one| Some(one.mpki)),
        ("local, % slower", |one| one.local),
        ("remote, % slower", |one| one.remote),
        ("mean, % slower", |one| Some(one.mean)),
    ];
    let series = lines.map(|(name, of)| (name.to_owned(), found.iter().map(of).collect()));
    let figure = StudyFigure {
        id: "clones".to_owned(),
        heading: "Four clones of soplex, memory on node 0 (Fig. 4 and 5)".to_owned(),
        about: "Against one alone. Locality is the share of bytes that do not go over the link."
            .to_owned(),
        chart: Some(Chart {
            kind: ChartKind::LinesFrom(0.0),
            across: "locality, %".to_owned(),
            upwards: "%".to_owned(),
            labels: found.iter().map(|one| percent(one.locality)).collect(),
            series: series.to_vec(),
        }),
        header: strings(&[
            "clones local",
            "locality, %",
            "MPKI, % more",
            "local, % slower",
            "remote, % slower",
            "mean, % slower",
        ]),
        rows: rows.collect(),
    };
    (findings, figure)
}
