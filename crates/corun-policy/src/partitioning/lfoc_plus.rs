//! `lfoc-plus` and `lfoc-plus-online`: LFOC whose sensitive programs may share partitions in pairs (Saez,
//! Castro, Fanizzi and Prieto-Matias, LFOC+, IEEE Transactions on Computers 71(8), 2022).
//!
//! The article's abstract could be read, and the authors' public implementation in PMCTrack
//! (`cache_partitioning.c`); the article itself could not. docs/partitioning.md lists what is ours.

use super::lfoc::{self, Lfoc};
use super::lfoc_online::{self, LfocOnline};
use crate::partitioning::lookahead::{Grant, lookahead};
use crate::partitioning::online::{OnlinePolicy, WindowPace};
use crate::partitioning::whirlpool::{Ways, step};
use crate::{Build, BuildOptions, LiveForm, PolicyEntry, WaysCurve};

const SOURCE: &str = "Saez et al., LFOC+, IEEE Transactions on Computers 2022, by its abstract and the authors' \
                      implementation";

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "lfoc-plus",
    "as lfoc, and lets two sensitive programs share a partition where that lowers their slowdowns",
    SOURCE,
    lfoc::PARAMETERS,
    |options: &BuildOptions| Box::new(Lfoc::with_pairs(options)),
);

/// The line in the registry of the policy that samples.
pub(crate) const ONLINE: PolicyEntry = PolicyEntry {
    name: "lfoc-plus-online",
    summary: "as lfoc-plus, by classes that it finds while programs run",
    source: SOURCE,
    parameters: lfoc_online::PARAMETERS,
    build: Build::Online(|options: &BuildOptions| {
        let scheme = LfocOnline::new("lfoc-plus-online", Lfoc::with_pairs(options), options);
        Box::new(OnlinePolicy::new(scheme, WindowPace::new(options)))
    }),
    live: LiveForm::Untested { why: "in simulation as live it cost 5 % on big and small cores" },
};

/// Below this no slowdown goes where a curve is read below one way.
const LEAST_SLOWDOWN: f64 = 1e-3;

/// Who shares a partition with whom, and the ways of each program's partition.
#[derive(Debug, Clone, PartialEq)]
struct Pairing {
    partner: Vec<Option<usize>>,
    /// Both members of a pair have the ways of the pair.
    ways: Vec<u32>,
}

/// Two programs in one partition, by its ways: the slowdown of each.
type PairCurve = Vec<[f64; 2]>;

/// The sensitive programs, the ways that they share, and what each pair would suffer.
struct Programs<'a> {
    curves: &'a [&'a WaysCurve],
    ways: u32,
    least_ways: u32,
    /// By the place of a pair: row of the lower program, column of the higher.
    pairs: Vec<PairCurve>,
}

/// A change of a pairing that is considered for one program.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// It shares with another.
    Join(usize),
    /// Two others of the fewest ways share, and it gets the ways that this frees.
    Take(usize, usize),
}

/// Clusters of one or two programs and their ways: the number of the cluster by program, and the ways by
/// cluster. There must be `least_ways` for each program.
///
/// Lookahead on slowdowns gives each program ways. Then, once for each program that shares with nobody, the
/// slowest first: of sharing with another such program and of letting two others share to take over the ways that
/// this frees, the one that lowers the sum of slowdowns most is done. Of all states on the way, the first
/// included, the fairest is kept.
pub(super) fn pair_clusters(
    curves: &[&WaysCurve],
    ways: u32,
    least_ways: u32,
) -> (Vec<usize>, Vec<u32>) {
    let programs = Programs::new(curves, ways, least_ways);
    let mut now = programs.alone();
    let (mut best, mut least_unfair) = (now.clone(), programs.unfairness(&now));
    let first: Vec<f64> = (0..curves.len()).map(|one| programs.slowdown(&now, one)).collect();
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by(|&one, &other| first[other].total_cmp(&first[one]).then(one.cmp(&other)));
    for program in order {
        if now.partner[program].is_some() {
            continue;
        }
        let Some(change) = programs.best_change(&now, program) else { continue };
        programs.make(&mut now, program, change);
        let unfairness = programs.unfairness(&now);
        if unfairness < least_unfair {
            (best, least_unfair) = (now.clone(), unfairness);
        }
    }
    best.clusters()
}

impl<'a> Programs<'a> {
    fn new(curves: &'a [&'a WaysCurve], ways: u32, least_ways: u32) -> Self {
        let column = |of: fn(&crate::WaysPoint) -> f64| -> Vec<Vec<f64>> {
            curves.iter().map(|curve| curve.points().iter().map(of).collect()).collect()
        };
        let (misses, slowdowns) = (column(|one| one.llc_mpkc), column(|one| one.slowdown));
        let mut pairs = vec![PairCurve::new(); curves.len() * curves.len()];
        for one in 0..curves.len() {
            for other in one + 1..curves.len() {
                let at = [one, other];
                pairs[one * curves.len() + other] =
                    together(at.map(|at| &misses[at][..]), at.map(|at| &slowdowns[at][..]), ways);
            }
        }
        Self { curves, ways, least_ways, pairs }
    }

    fn alone(&self) -> Pairing {
        let mut ways = vec![0; self.curves.len()];
        lookahead(self.ways, self.least_ways, &mut ways, &mut Vec::new(), |place, from, most| {
            Grant::best(|ways| self.curves[place].at(ways).slowdown, from, most)
        });
        Pairing { partner: vec![None; self.curves.len()], ways }
    }

    /// Of two programs that share so many ways, in this order.
    fn shared(&self, one: usize, other: usize, ways: u32) -> [f64; 2] {
        let (low, high) = (one.min(other), one.max(other));
        let found = self.pairs[low * self.curves.len() + high][ways as usize - 1];
        if one < other { found } else { [found[1], found[0]] }
    }

    fn slowdown(&self, pairing: &Pairing, program: usize) -> f64 {
        let ways = pairing.ways[program];
        match pairing.partner[program] {
            Some(partner) => self.shared(program, partner, ways)[0],
            None => self.curves[program].at(ways).slowdown,
        }
    }

    fn unfairness(&self, pairing: &Pairing) -> f64 {
        let each = (0..self.curves.len()).map(|one| self.slowdown(pairing, one));
        let (least, most) = each
            .fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
        most / least
    }

    /// The rise of the sum of slowdowns where two programs share so many ways.
    fn rise(&self, pairing: &Pairing, one: usize, other: usize, ways: u32) -> f64 {
        let [first, second] = self.shared(one, other, ways);
        first + second - self.slowdown(pairing, one) - self.slowdown(pairing, other)
    }

    /// The change that lowers the sum of slowdowns most; none where none does.
    fn best_change(&self, pairing: &Pairing, program: usize) -> Option<Change> {
        let free: Vec<usize> = (0..self.curves.len())
            .filter(|&one| one != program && pairing.partner[one].is_none())
            .collect();
        let mut best: Option<(f64, Change)> = None;
        let mut consider = |rise: f64, change: Change| {
            if rise < best.map_or(0.0, |(rise, _)| rise) {
                best = Some((rise, change));
            }
        };
        for &other in &free {
            let ways = pairing.ways[program] + pairing.ways[other];
            consider(self.rise(pairing, program, other, ways), Change::Join(other));
        }
        let more = pairing.ways[program] + self.least_ways;
        let fewest = |one: &&usize| pairing.ways[**one] == self.least_ways;
        for &one in free.iter().filter(fewest) {
            for &other in free.iter().filter(fewest).filter(|&&other| other > one) {
                let own = self.curves[program].at(more).slowdown - self.slowdown(pairing, program);
                let rise = own + self.rise(pairing, one, other, self.least_ways);
                consider(rise, Change::Take(one, other));
            }
        }
        best.map(|(_, change)| change)
    }

    fn make(&self, pairing: &mut Pairing, program: usize, change: Change) {
        let (one, other, ways) = match change {
            Change::Join(other) => (program, other, pairing.ways[program] + pairing.ways[other]),
            Change::Take(one, other) => {
                pairing.ways[program] += self.least_ways;
                (one, other, self.least_ways)
            }
        };
        pairing.partner[one] = Some(other);
        pairing.partner[other] = Some(one);
        pairing.ways[one] = ways;
        pairing.ways[other] = ways;
    }
}

/// What two programs suffer in one partition of 1 to `ways` ways: the walk of Whirlpool divides its space by
/// misses per cycle.
fn together(misses: [&[f64]; 2], slowdowns: [&[f64]; 2], ways: u32) -> PairCurve {
    let (mut held, mut pulls) = (vec![0.0; 2], Vec::new());
    let mut points = Vec::with_capacity(ways as usize);
    for _ in 0..ways {
        step(&mut held, &mut pulls, misses.into_iter());
        points.push([0, 1].map(|one| Ways::new(held[one]).of(slowdowns[one], LEAST_SLOWDOWN)));
    }
    points
}

impl Pairing {
    fn clusters(&self) -> (Vec<usize>, Vec<u32>) {
        let (mut cluster, mut ways) = (Vec::with_capacity(self.ways.len()), Vec::new());
        for (program, partner) in self.partner.iter().enumerate() {
            match partner {
                Some(partner) if *partner < program => cluster.push(cluster[*partner]),
                _ => {
                    cluster.push(ways.len());
                    ways.push(self.ways[program]);
                }
            }
        }
        (cluster, ways)
    }
}

#[cfg(test)]
mod tests;
