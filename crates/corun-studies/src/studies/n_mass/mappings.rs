//! One memory, two caches: mcf beside lbm (Fig. 3) and four clones of soplex (Fig. 4 and 5), all
//! with their memory on node 0, at rest.

use corun_model::Outcome as Modelled;

use super::runs::Runs;
use super::{mean, percent};
use crate::harness::{Figure, PaperClaim};

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

pub(super) fn page(runs: &Runs<'_>) -> (Vec<PaperClaim>, Vec<Figure>) {
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

/// What each of the pair is like alone: its misses with half of the cache, against all of it, and its
/// share of cycles that wait for memory.
fn alone(runs: &Runs<'_>) -> (String, String) {
    let with_half = PAIR.map(|bare| {
        let ways = runs.model.by_ways(runs.program(bare), 0);
        let (half, all) = (&ways[(ways.len() / 2).saturating_sub(1)], &ways[ways.len() - 1]);
        format!("{bare} {} %", percent(more(half.llc_mpki, all.llc_mpki)))
    });
    let waits = PAIR.map(|bare| {
        let share = runs.at_rest(&[(bare, 0, 0)])[0].memory_stall_share;
        format!("{bare} in {} %", percent(100.0 * share))
    });
    (
        format!("more MPKI alone with half of the cache: {}", with_half.join(", ")),
        format!("waits for memory alone, of its cycles: {}", waits.join(", ")),
    )
}

fn of_the_pair(runs: &Runs<'_>) -> (Vec<PaperClaim>, Figure) {
    let found = MAPPINGS.map(|(_, nodes)| mapping(runs, nodes));
    let both = |values: [f64; 2]| format!("{} and {} %", percent(values[0]), percent(values[1]));
    let [a, b, c] = &found;
    let (with_half, waits) = alone(runs);
    let better = if mean(&b.slowdown) < mean(&c.slowdown) { PAIR[1] } else { PAIR[0] };
    let findings = vec![
        PaperClaim::new(
            "MPKI of mcf and lbm, both local against alone (Fig. 3a)",
            "47 and 62 % more; apart at most 4 %",
            format!("{} more; apart {}", both(a.mpki), both(b.mpki)),
        )
        .noting(with_half),
        PaperClaim::new(
            "Slower than alone: mcf and lbm both local; lbm remote; mcf remote (Fig. 3c)",
            "17 % on average; lbm by almost 30; 11 % on average, lbm by 1",
            format!(
                "{} % on average; lbm by {}; {} % on average, lbm by {}",
                percent(mean(&a.slowdown)),
                percent(b.slowdown[1]),
                percent(mean(&c.slowdown)),
                percent(c.slowdown[1])
            ),
        )
        .noting(format!("{waits}; the pair loses less with {better} remote")),
        PaperClaim::new(
            "Share of bytes over the link: lbm remote, mcf remote (Fig. 3b)",
            "56 and 33 %; 50 % fewer bytes than both local",
            format!(
                "{} and {} %; both local {} and {} % more bytes",
                percent(b.remote),
                percent(c.remote),
                percent(more(a.bytes_per_s, b.bytes_per_s)),
                percent(more(a.bytes_per_s, c.bytes_per_s))
            ),
        ),
    ];
    let mappings: Vec<(&str, &Mapping)> =
        MAPPINGS.iter().zip(&found).map(|((name, _), one)| (*name, one)).collect();
    let about = "Against each alone: more misses per instruction, and how much slower.";
    let figure = Figure::new("pair", "mcf and lbm, memory on node 0 (Fig. 3)", about)
        .rows("mapping", &mappings, |one| one.0.to_owned())
        .column("mcf, % MPKI more", 1, |one| one.1.mpki[0])
        .column("lbm, % MPKI more", 1, |one| one.1.mpki[1])
        .column("bytes over the link, %", 1, |one| one.1.remote)
        .column("MB/s", 0, |one| one.1.bytes_per_s * 1e-6)
        .column("mcf, % slower", 1, |one| one.1.slowdown[0])
        .drawn(PAIR[0])
        .column("lbm, % slower", 1, |one| one.1.slowdown[1])
        .drawn(PAIR[1])
        .column("mean", 1, |one| mean(&one.1.slowdown))
        .bars(0.0, "% slower than alone");
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

fn of_the_clones(runs: &Runs<'_>) -> (Vec<PaperClaim>, Figure) {
    let found: Vec<(usize, Clones)> =
        (0..=CLONES).map(|local| (local, clones(runs, local))).collect();
    let least = |of: fn(&Clones) -> f64| {
        let all = found.iter().map(|(_, one)| one);
        all.min_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(&found[0].1)
    };
    let (best, calmest) = (least(|one| one.mean), least(|one| one.mpki));
    let all = &found[CLONES].1;
    let findings = vec![
        PaperClaim::new(
            "MPKI of four clones of soplex: all local, and least (Fig. 4)",
            "35 % more than alone; 19 % more at 57 % locality",
            format!(
                "{} % more; {} % more at {} % locality",
                percent(all.mpki),
                percent(calmest.mpki),
                percent(calmest.locality)
            ),
        )
        .against_value(all.mpki, 35.0),
        PaperClaim::new(
            "Locality at which the clones are fastest (Fig. 5)",
            "80 %",
            format!("{} %", percent(best.locality)),
        )
        .against_value(best.locality, 80.0),
    ];
    let about = "Against one alone. Locality is the share of bytes that do not go over the link.";
    let heading = "Four clones of soplex, memory on node 0 (Fig. 4 and 5)";
    let figure = Figure::new("clones", heading, about)
        .rows("clones local", &found, |(local, _)| local.to_string())
        .labelled(|(_, one)| percent(one.locality))
        .column("locality, %", 1, |(_, one)| one.locality)
        .column("MPKI, % more", 1, |(_, one)| one.mpki)
        .drawn("MPKI, % more")
        .column("local, % slower", 1, |(_, one)| one.local)
        .drawn("local, % slower")
        .column("remote, % slower", 1, |(_, one)| one.remote)
        .drawn("remote, % slower")
        .column("mean, % slower", 1, |(_, one)| one.mean)
        .drawn("mean, % slower")
        .lines(0.0, "%");
    (findings, figure)
}
