//! A phase's curve over ways, from the few sizes at which it was counted.
//!
//! Between sizes it is the power law of the curves by which `corun` estimates programs without profiles. Those curves say
//! how unsure they are as well, and decide as fairly where all is counted exactly. Under noise they cost more
//! (docs/studies/partitioning.md); hence the extremes that the points allow here.

use crate::partitioning::online::Cache;
use crate::partitioning::online::window::Sample;
use crate::{WaysCurve, WaysPoint};

/// Cycles that a miss stalls at most: an idle memory's latency, and more than most do, since misses overlap.
const MISS_CYCLES: f64 = 250.0;
/// Cycles that a miss stalls where nothing was counted of it.
const USUAL_MISS_CYCLES: f64 = 125.0;
/// Misses per 1000 instructions below which nothing is told apart.
const LEAST_MPKI: f64 = 0.05;
/// Sizes that differ by less than this, as a share, are one.
const SAME_SIZE: f64 = 0.15;
/// Share that a new figure has in the one of a size that is known.
const NEW: f64 = 0.3;
/// The power of the size as whose inverse the misses of a usual program fall: the square root. Over every second program by
/// name of the public table the mean from the private cache to all ways is 0.53.
const USUAL_STEEPNESS: f64 = 0.5;
/// The range of sizes, a logarithm, over which a program must have been seen for its own fall of misses to count as much as
/// the usual one. Of 0, 0.25, 0.5, 1 and 2 it has the least error on these programs.
const USUAL_WEIGHT: f64 = 0.5;
/// Sizes that are kept at most.
const MOST_POINTS: usize = 16;

/// The cache, and what each core has in front of it, in ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) all: u32,
    least: u32,
    most_sampled: u32,
    pub(super) way_bytes: f64,
    /// Ways that the private cache is as large as.
    private: f64,
}

impl Sizes {
    pub(super) fn of(cache: &Cache) -> Self {
        Self {
            all: cache.ways,
            least: cache.least_ways,
            most_sampled: cache.most_sampled_ways(),
            way_bytes: cache.way_bytes(),
            private: (cache.private_bytes / cache.way_bytes()).max(0.05),
        }
    }

    /// Private cache and so many ways.
    fn both(&self, ways: f64) -> f64 {
        self.private + ways
    }

    fn are_near(&self, one: f64, other: f64) -> bool {
        (self.both(one) / self.both(other)).ln().abs() < SAME_SIZE
    }
}

/// Which curve of those that pass through the points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    Likely,
    /// So far from it (0 to 1) towards that of a program that gains late, and by the last ways.
    Needy(f64),
    /// So far from it towards that of a program that gains early, and nothing by ways that were not tried.
    Modest(f64),
}

/// What was counted while the program held so much.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    ways: f64,
    cpi: f64,
    mpki: f64,
    /// Cycles for an instruction in which it was stalled on memory; none: not counted.
    stalls: Option<f64>,
}

/// All that is known of a phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PhaseCurve {
    /// LLC references per 1000 instructions.
    apki: f64,
    /// Cycles for an instruction beside stalls on memory, where stalls are counted.
    core_cpi: Option<f64>,
    /// By rising ways.
    points: Vec<Point>,
}

/// LLC references per 1000 instructions, and cycles for an instruction beside stalls on memory.
pub(super) type Signature = (f64, Option<f64>);

/// By what the phase of a sample is told.
pub(super) fn signature(sample: &Sample) -> Signature {
    let apki = sample.llc_apki.unwrap_or(0.0).max(sample.llc_mpki);
    let core = sample.memory_stalls.map(|stalls| (1.0 - stalls).max(0.0) / sample.ipc);
    (apki, core)
}

/// How far two signatures are from one another: a logarithm.
pub(super) fn distance(one: Signature, other: Signature) -> f64 {
    let far = |one: f64, other: f64, least: f64| ((one + least) / (other + least)).ln().abs();
    let core = one.1.zip(other.1).map_or(0.0, |(one, other)| far(one, other, 0.05));
    far(one.0, other.0, 1.0).max(core)
}

impl PhaseCurve {
    pub(super) fn new((apki, core_cpi): Signature) -> Self {
        Self { apki, core_cpi, points: Vec::new() }
    }

    pub(super) fn signature(&self) -> Signature {
        (self.apki, self.core_cpi)
    }

    /// The signature of a window in this phase.
    pub(super) fn blend(&mut self, (apki, core): Signature) {
        self.apki += NEW * (apki - self.apki);
        self.core_cpi = match (self.core_cpi, core) {
            (Some(known), Some(core)) => Some(known + NEW * (core - known)),
            (known, core) => known.or(core),
        };
    }

    /// Takes in what was counted with so many ways.
    pub(super) fn take(&mut self, ways: f64, sample: &Sample, sizes: &Sizes) {
        let cpi = 1.0 / sample.ipc;
        if !cpi.is_finite() || !ways.is_finite() {
            return;
        }
        let stalls = sample.memory_stalls.map(|share| share * cpi);
        let point = Point { ways, cpi, mpki: sample.llc_mpki.max(0.0), stalls };
        match self.points.iter_mut().find(|one| sizes.are_near(one.ways, ways)) {
            Some(known) => {
                let mean = |known: f64, new: f64| known + NEW * (new - known);
                known.ways = mean(known.ways, point.ways);
                known.cpi = mean(known.cpi, point.cpi);
                known.mpki = mean(known.mpki, point.mpki);
                known.stalls = known.stalls.zip(stalls).map(|(known, new)| mean(known, new));
            }
            None => self.points.push(point),
        }
        self.points.sort_by(|one, other| one.ways.total_cmp(&other.ways));
        if self.points.len() > MOST_POINTS {
            self.points.remove(MOST_POINTS / 2);
        }
    }

    /// The points, rising by ways, none of which is slower or misses more than one with fewer: where counts say so,
    /// neighbours have their mean. In front of them the one without any ways, behind them that with all.
    fn knots(&self, end: End, sizes: &Sizes) -> Option<Vec<Point>> {
        let mut knots: Vec<Point> = Vec::with_capacity(self.points.len() + 2);
        for &point in &self.points {
            knots.push(point);
            level(&mut knots, |one| &mut one.cpi);
            level(&mut knots, |one| &mut one.mpki);
        }
        let (first, last) = (*knots.first()?, *knots.last()?);
        let more = (self.apki - first.mpki).max(0.0);
        let none = Point {
            ways: 0.0,
            cpi: first.cpi + more * 1e-3 * first.miss_cycles(),
            mpki: first.mpki + more,
            stalls: None,
        };
        if sizes.both(first.ways) > sizes.both(0.0) * (1.0 + SAME_SIZE) {
            knots.insert(0, none);
        }
        let all = f64::from(sizes.all);
        if last.ways < all {
            knots.push(last.with_all(all, self.apki, end, sizes));
        }
        Some(knots)
    }

    /// The curve; none where nothing was counted.
    pub(super) fn curve(&self, end: End, sizes: &Sizes) -> Option<WaysCurve> {
        let knots = self.knots(end, sizes)?;
        let fastest = knots.last()?.cpi;
        let point = |ways: u32| {
            let ways = f64::from(ways);
            let after = knots.partition_point(|one| one.ways <= ways).clamp(1, knots.len() - 1);
            let (below, above) = (&knots[after - 1], &knots[after]);
            let (mpki, cpi) = below.towards(above, ways, end, sizes);
            let of = |stalls: f64| (stalls / cpi).clamp(0.0, 1.0);
            let memory = of(mpki * 1e-3 * above.miss_cycles());
            WaysPoint {
                slowdown: cpi / fastest,
                ipc: 1.0 / cpi,
                llc_mpki: mpki,
                llc_apki: self.apki,
                llc_mpkc: mpki / cpi,
                memory_stalls: memory,
                l2_miss_stalls: memory,
                ..WaysPoint::default()
            }
        };
        if knots.len() < 2 {
            return None;
        }
        WaysCurve::new((1..=sizes.all).map(point).collect())
    }

    /// The ways between or beyond the points, to be sampled, for which least is known: in the middle of the sizes
    /// between which the program's speed changes most. None where each was tried.
    pub(super) fn most_open(&self, sizes: &Sizes) -> Option<u32> {
        let Some(knots) = self.knots(End::Needy(1.0), sizes) else {
            let middle = (sizes.private * sizes.both(f64::from(sizes.all))).sqrt() - sizes.private;
            return (sizes.least <= sizes.most_sampled)
                .then(|| (middle.round() as u32).clamp(sizes.least, sizes.most_sampled));
        };
        let open = knots.windows(2).filter_map(|ends| {
            let [below, above] = [ends[0], ends[1]];
            let middle = (sizes.both(below.ways) * sizes.both(above.ways)).sqrt() - sizes.private;
            let (least, most) = (sizes.least, sizes.most_sampled);
            let is_new = |ways: &u32| {
                let ways = f64::from(*ways);
                let is_tried = |one: &Point| sizes.are_near(one.ways, ways);
                (below.ways..=above.ways).contains(&ways) && !self.points.iter().any(is_tried)
            };
            let far = |ways: &u32| (f64::from(*ways) - middle).abs();
            let ways =
                (least..=most).filter(is_new).min_by(|one, other| far(one).total_cmp(&far(other)));
            Some(((below.cpi / above.cpi).ln(), ways?))
        });
        open.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, ways)| ways)
    }
}

/// Makes a figure of the knots fall, of which the last may break that: it and those before it that it exceeds get
/// their mean.
fn level(knots: &mut [Point], figure: fn(&mut Point) -> &mut f64) {
    let end = knots.len();
    let (mut first, mut sum) = (end - 1, *figure(&mut knots[end - 1]));
    while first > 0 && *figure(&mut knots[first - 1]) < sum / (end - first) as f64 {
        first -= 1;
        sum += *figure(&mut knots[first]);
    }
    let mean = sum / (end - first) as f64;
    knots[first..].iter_mut().for_each(|knot| *figure(knot) = mean);
}

impl Point {
    /// Cycles that a miss stalls.
    fn miss_cycles(&self) -> f64 {
        match self.stalls {
            Some(stalls) if self.mpki > LEAST_MPKI => (stalls * 1e3 / self.mpki).min(MISS_CYCLES),
            _ => USUAL_MISS_CYCLES,
        }
    }

    /// With all ways, as the last of the points says. Misses go on to fall as they did from the private cache on, as far as
    /// that was seen, else as those of a usual program. A program that holds next to nothing misses at each reference
    /// whatever it would gain, so that its fall until there says nothing.
    fn with_all(&self, all: f64, apki: f64, end: End, sizes: &Sizes) -> Self {
        let fall = ((apki + LEAST_MPKI) / (self.mpki + LEAST_MPKI)).ln().max(0.0);
        let seen = (sizes.both(self.ways) / sizes.private).ln();
        let steepness = (fall + USUAL_STEEPNESS * USUAL_WEIGHT) / (seen + USUAL_WEIGHT);
        let times = (sizes.both(self.ways) / sizes.both(all)).powf(steepness);
        let likely = self.mpki * times;
        let mpki = match end {
            End::Likely => likely,
            End::Needy(doubt) => likely * (1.0 - doubt),
            End::Modest(doubt) => likely + doubt * (self.mpki - likely),
        };
        let gain = (self.mpki - mpki) * 1e-3 * self.miss_cycles();
        let most = self.stalls.unwrap_or(0.5 * self.cpi);
        Self {
            ways: all,
            cpi: self.cpi - gain.min(most).min(0.9 * self.cpi),
            mpki,
            stalls: self.stalls,
        }
    }

    /// Misses and cycles for an instruction on the way to another point with more ways.
    fn towards(&self, above: &Self, ways: f64, end: End, sizes: &Sizes) -> (f64, f64) {
        let part = (sizes.both(ways) / sizes.both(self.ways)).ln()
            / (sizes.both(above.ways) / sizes.both(self.ways)).ln();
        let part = part.clamp(0.0, 1.0);
        let [high, low] = [self, above].map(|one| one.mpki + LEAST_MPKI);
        let likely = if high > low * 1.001 {
            // Misses are a power of the size.
            (high - high * (low / high).powf(part)) / (high - low)
        } else {
            part
        };
        let is_between = part > 0.0 && part < 1.0;
        let fallen = match end {
            End::Needy(doubt) if is_between => likely * (1.0 - doubt),
            End::Modest(doubt) if is_between => likely + doubt * (1.0 - likely),
            _ => likely,
        };
        let fall = |high: f64, low: f64| high - fallen * (high - low);
        (fall(self.mpki, above.mpki), fall(self.cpi, above.cpi))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight ways of 1 MiB behind as large a private cache.
    fn sizes() -> Sizes {
        let mib = 1024.0 * 1024.0;
        Sizes::of(&Cache {
            ways: 8,
            least_ways: 1,
            bytes: 8.0 * mib,
            private_bytes: mib,
            peak_bytes_per_s: None,
        })
    }

    fn sample(mpki: f64, cpi: f64, stalls: f64) -> Sample {
        Sample {
            ipc: 1.0 / cpi,
            llc_mpki: mpki,
            llc_apki: Some(32.0),
            llc_mpkc: mpki / cpi,
            bytes_per_s: 0.0,
            memory_stalls: Some(stalls / cpi),
        }
    }

    fn phase(points: &[(f64, f64, f64, f64)]) -> PhaseCurve {
        let mut phase = PhaseCurve::new((32.0, Some(0.5)));
        for &(ways, mpki, cpi, stalls) in points {
            phase.take(ways, &sample(mpki, cpi, stalls), &sizes());
        }
        phase
    }

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.02
    }

    /// 32 references behind the private cache, 8 misses with three ways more, at four times the size: as the inverse of the
    /// size. A miss stalls 100 cycles. One way: 16 misses. All, at 9 / 4 times the size: the fall that was seen is over
    /// ln 4, the usual one counts as one over 0.5: a power of (ln 4 + 0.25) / (ln 4 + 0.5) = 0.8675, and 3.959 misses.
    #[test]
    fn misses_are_a_power_of_the_size_as_worked_by_hand() {
        let phase = phase(&[(3.0, 8.0, 1.3, 0.8)]);
        let curve = phase.curve(End::Likely, &sizes()).unwrap();
        let misses = [1, 3, 8].map(|ways| curve.at(ways).llc_mpki);
        assert!(misses.iter().zip([16.0, 8.0, 3.959]).all(|(&a, b)| near(a, b)), "{misses:?}");
        let all = 1.3 - (8.0 - 3.959) * 0.1;
        let slowdowns = [1, 3].map(|ways| curve.at(ways).slowdown);
        assert!(near(slowdowns[0], 2.1 / all) && near(slowdowns[1], 1.3 / all), "{slowdowns:?}");
        let needy = phase.curve(End::Needy(1.0), &sizes()).unwrap();
        assert!(near(needy.at(1).slowdown, 3.7 / 0.5) && near(needy.at(3).slowdown, 1.3 / 0.5));
        let modest = phase.curve(End::Modest(1.0), &sizes()).unwrap();
        assert!(near(modest.at(1).slowdown, 1.0) && near(modest.at(8).llc_mpki, 8.0));
    }

    /// A program that holds a tenth of a way misses at each of its 32 references: that says nothing of what it would gain, and
    /// with all ways, at 9 / 1.1 times the size, its misses are taken to fall by a power of 0.25 / (ln 1.1 + 0.5) = 0.4199.
    /// With seven ways it has missed as often all the same: the power is 0.25 / (ln 8 + 0.5) = 0.0969.
    #[test]
    fn a_program_in_a_crowd_may_gain_as_a_usual_one() {
        let crowded = phase(&[(0.1, 32.0, 2.0, 1.5)]).curve(End::Likely, &sizes()).unwrap();
        assert!(near(crowded.at(8).llc_mpki, 32.0 * (1.1_f64 / 9.0).powf(0.4199)));
        let streaming = phase(&[(7.0, 32.0, 2.0, 1.5)]).curve(End::Likely, &sizes()).unwrap();
        assert!(near(streaming.at(8).llc_mpki, 32.0 * (8.0_f64 / 9.0).powf(0.0969)));
    }

    /// Most is open between no way (3.7 cycles) and three (1.3): the middle of sizes 1 and 4. With that tried, beyond three
    /// (1.3 to 0.5 at the least): the middle of 4 and 9.
    #[test]
    fn the_widest_gap_is_tried_in_its_middle() {
        let mut phase = phase(&[(3.0, 8.0, 1.3, 0.8)]);
        assert_eq!(phase.most_open(&sizes()), Some(1));
        phase.take(1.0, &sample(16.0, 2.1, 1.6), &sizes());
        assert_eq!(phase.most_open(&sizes()), Some(5));
        for ways in [2, 4, 5, 6, 7] {
            phase.take(f64::from(ways), &sample(1.0, 0.6, 0.1), &sizes());
        }
        assert_eq!(phase.most_open(&sizes()), None);
        assert_eq!(PhaseCurve::new((32.0, None)).most_open(&sizes()), Some(2));
    }

    /// Counts that say that fewer ways are faster, or miss less, give neighbours their mean.
    #[test]
    fn counts_that_contradict_each_other_are_levelled() {
        let phase = phase(&[(1.0, 4.0, 1.0, 0.4), (3.0, 8.0, 1.2, 0.8), (6.0, 1.0, 0.7, 0.1)]);
        let curve = phase.curve(End::Likely, &sizes()).unwrap();
        let cpi = [1, 2, 3, 6].map(|ways| 1.0 / curve.at(ways).ipc);
        assert!(near(cpi[0], 1.1) && near(cpi[1], 1.1) && near(cpi[2], 1.1), "{cpi:?}");
        assert!(near(cpi[3], 0.7) && near(curve.at(2).llc_mpki, 6.0));
    }

    /// A window of another phase is far in references or in speed beside memory; more misses alone are not.
    #[test]
    fn phases_differ_by_what_no_partition_changes() {
        let usual = signature(&sample(8.0, 1.3, 0.8));
        assert!(distance(usual, signature(&sample(16.0, 2.1, 1.6))) < 1e-9);
        assert!(distance(usual, signature(&sample(8.0, 1.8, 0.8))) > 0.5);
        let more = Sample { llc_apki: Some(65.0), ..sample(8.0, 1.3, 0.8) };
        assert!(near(distance(usual, signature(&more)), 2.0_f64.ln()));
    }
}
