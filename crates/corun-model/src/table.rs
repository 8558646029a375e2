//! A phase's figures at a site, tabulated over the bytes of LLC it holds.

use crate::core::CpiStack;
use crate::growth::{Growth, LargerFill};
use crate::outcome::Demand;
use crate::outside::{OwnPoint, beside_outside};
use crate::single_use::{CurvePoint, HeldPoint, held_and_missed, instructions_for};
use crate::site::Site;

/// Sizes that are looked at from one bend of a table to the next, the next included.
const SIZES_BETWEEN_BENDS: u32 = 4;
/// A program that misses less than this (a line per 1e9 instructions) grows no more.
const NO_MISS_MPKI: f64 = 1e-6;

/// What grows by less than this part of the LLC is one knot.
const LEAST_GROWTH: f64 = 1e-7;

/// The figures at one occupancy; linear in between.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Knot {
    /// Bytes of LLC held.
    pub(crate) bytes: f64,
    pub(crate) cpi: f64,
    /// Cycles per instruction that memory latency and bandwidth stretch.
    pub(crate) memory_cpi: f64,
    /// As [`Demand::waiting_cpi`].
    pub(crate) waiting_cpi: f64,
    /// Cycles per instruction stalled on LLC hits.
    pub(crate) llc_hit_cpi: f64,
    /// MS: memory stalls as a share of all cycles. May exceed `total_stalls` (then it counts as
    /// much as that).
    pub(crate) memory_stalls: f64,
    /// TS: all stalls as a share of all cycles.
    pub(crate) total_stalls: f64,
    /// Stalls with a miss of the private cache outstanding as a share of all cycles.
    pub(crate) l2_miss_stalls: f64,
    pub(crate) mpki: f64,
    /// Lines missed a second.
    pub(crate) misses_per_s: f64,
    pub(crate) bytes_per_s: f64,
    /// As [`Demand::busy_bytes_per_s`].
    pub(crate) busy_bytes_per_s: f64,
    /// As [`Demand::foreseen_share`] and [`Demand::stretched_alone`].
    pub(crate) foreseen_share: f64,
    pub(crate) stretched_alone: f64,
}

impl Knot {
    #[inline]
    pub(crate) fn between(low: &Self, high: &Self, bytes: f64) -> Self {
        let width = high.bytes - low.bytes;
        let part = if width > 0.0 { (bytes - low.bytes) / width } else { 0.0 };
        let mix = |low: f64, high: f64| low + part * (high - low);
        Self {
            bytes,
            cpi: mix(low.cpi, high.cpi),
            memory_cpi: mix(low.memory_cpi, high.memory_cpi),
            waiting_cpi: mix(low.waiting_cpi, high.waiting_cpi),
            llc_hit_cpi: mix(low.llc_hit_cpi, high.llc_hit_cpi),
            memory_stalls: mix(low.memory_stalls, high.memory_stalls),
            total_stalls: mix(low.total_stalls, high.total_stalls),
            l2_miss_stalls: mix(low.l2_miss_stalls, high.l2_miss_stalls),
            mpki: mix(low.mpki, high.mpki),
            misses_per_s: mix(low.misses_per_s, high.misses_per_s),
            bytes_per_s: mix(low.bytes_per_s, high.bytes_per_s),
            busy_bytes_per_s: mix(low.busy_bytes_per_s, high.busy_bytes_per_s),
            foreseen_share: mix(low.foreseen_share, high.foreseen_share),
            stretched_alone: mix(low.stretched_alone, high.stretched_alone),
        }
    }

    /// The mean of figures, each with its share of the instructions; shares of cycles and figures a second are
    /// the mean by cycles.
    pub(crate) fn mean(bytes: f64, each: impl Iterator<Item = (f64, Self)>) -> Self {
        let mut whole = Self { bytes, ..Self::default() };
        for (share, own) in each {
            whole.add(share, &own);
        }
        whole.by_cycles()
    }

    /// Adds the figures, but for the bytes, of a share of the instructions; shares of cycles and figures a second
    /// are summed over cycles until [`Self::by_cycles`].
    pub(crate) fn add(&mut self, share: f64, own: &Self) {
        let cycles = share * own.cpi;
        self.cpi += cycles;
        self.memory_cpi += share * own.memory_cpi;
        self.waiting_cpi += share * own.waiting_cpi;
        self.llc_hit_cpi += share * own.llc_hit_cpi;
        self.mpki += share * own.mpki;
        self.memory_stalls += cycles * own.memory_stalls;
        self.total_stalls += cycles * own.total_stalls;
        self.l2_miss_stalls += cycles * own.l2_miss_stalls;
        self.misses_per_s += cycles * own.misses_per_s;
        self.bytes_per_s += cycles * own.bytes_per_s;
        self.busy_bytes_per_s += cycles * own.busy_bytes_per_s;
        self.foreseen_share += cycles * own.foreseen_share;
        self.stretched_alone += cycles * own.stretched_alone;
    }

    /// The mean of what was added, of shares that sum to 1.
    pub(crate) fn by_cycles(mut self) -> Self {
        for by_time in [
            &mut self.memory_stalls,
            &mut self.total_stalls,
            &mut self.l2_miss_stalls,
            &mut self.misses_per_s,
            &mut self.bytes_per_s,
            &mut self.busy_bytes_per_s,
            &mut self.foreseen_share,
            &mut self.stretched_alone,
        ] {
            *by_time /= self.cpi;
        }
        self
    }
}

/// A phase's figures at a site.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseTable {
    bytes: Vec<f64>,
    knots: Vec<Knot>,
    /// Where the cycles of each knot go; none where that is not told apart.
    stacks: Vec<CpiStack>,
    /// Fill time: (1 / access rate) x integral of dx / miss ratio, at the speed of the final size.
    pub(crate) fill: Growth,
    pub(crate) larger_fill: Option<Box<LargerFill>>,
    /// Time to miss as many bytes as are held.
    pub(crate) turnover: Growth,
    /// Time in which it grows from nothing, at the speed it has on the way.
    pub(crate) refill: Growth,
    pub(crate) llc_apki: f64,
    /// Range of occupancy that measurements cover.
    pub(crate) measured: (f64, f64),
    pub(crate) apki_extrapolated: bool,
    pub(crate) way_bytes: f64,
    /// Are its bytes the space that it takes together with programs outside the machine ([`crate::outside`])?
    pub(crate) beside_outside: bool,
    /// As in [`TableParts`].
    pub(crate) fills_sets_alike: bool,
}

/// What a table is made of.
pub(crate) struct TableParts {
    /// Knots by rising bytes, from 0; at least one.
    pub(crate) knots: Vec<Knot>,
    /// Where the cycles of each knot go; none where that is not told apart.
    pub(crate) stacks: Vec<CpiStack>,
    /// Are the knots' bytes what is held in the site's LLC, however that replaces its lines? Else they
    /// are those of an LRU cache that misses so.
    pub(crate) by_bytes_held: bool,
    /// Share of the lines brought in that a prefetcher foresees; counts where the bytes are those of an LRU cache.
    pub(crate) foreseen: f64,
    pub(crate) llc_apki: f64,
    pub(crate) apki_extrapolated: bool,
    /// Range of occupancy that measurements cover.
    pub(crate) measured: (f64, f64),
    /// Bytes it can hold at most (its footprint less what its private cache holds).
    pub(crate) footprint_bytes: f64,
    /// Goes on growing where it no longer misses (as PBBCache's walk does).
    pub(crate) always_grows: bool,
    /// By knot the time for which lines stay, where the bytes are those of [`crate::outside`].
    pub(crate) seconds: Option<Vec<f64>>,
    /// Are the figures those of a cache whose sets are filled alike? Not where they were measured by ways: these hold what
    /// sets cost that get too many pages.
    pub(crate) fills_sets_alike: bool,
}

impl PhaseTable {
    pub(crate) fn new(parts: TableParts, site: &Site) -> Self {
        debug_assert!(parts.stacks.is_empty() || parts.stacks.len() == parts.knots.len());
        let (footprint, always) = (parts.footprint_bytes, parts.always_grows);
        let mut table = Self {
            bytes: parts.knots.iter().map(|knot| knot.bytes).collect(),
            llc_apki: parts.llc_apki,
            measured: parts.measured,
            apki_extrapolated: parts.apki_extrapolated,
            way_bytes: site.way_bytes,
            fills_sets_alike: parts.fills_sets_alike,
            knots: parts.knots,
            stacks: parts.stacks,
            ..Self::default()
        };
        if let Some(seconds) = parts.seconds {
            table.grow_by(&seconds, site);
            return table;
        }
        let resists = site.single_use_life < 1.0;
        if site.has_outside() && !parts.by_bytes_held {
            let instructions = table.resist_single_uses(parts.foreseen, site);
            let seconds = table.share_with_outside(&instructions, site);
            table.grow_by(&seconds, site);
            return table;
        }
        let filled = match (resists, parts.by_bytes_held) {
            (false, _) => Vec::new(),
            (true, true) => table.instructions_held(site),
            (true, false) => table.resist_single_uses(parts.foreseen, site),
        };
        table.grow(footprint, always, &filled, site);
        table
    }

    /// Turns a table by the bytes that a program holds into one by the space that it takes together with programs
    /// outside the machine. By knot, the seconds for which lines that are used again stay.
    fn share_with_outside(&mut self, instructions: &[f64], site: &Site) -> Vec<f64> {
        let own = |(k, &knot): (usize, &Knot)| OwnPoint {
            knot,
            stack: self.stacks.get(k).copied(),
            instructions: instructions[k],
        };
        let own: Vec<OwnPoint> = self.knots.iter().enumerate().map(own).collect();
        let (points, seconds): (Vec<_>, Vec<f64>) = beside_outside(&own, site).into_iter().unzip();
        self.bytes = points.iter().map(|point| point.knot.bytes).collect();
        self.knots = points.iter().map(|point| point.knot).collect();
        self.stacks = points.into_iter().filter_map(|point| point.stack).collect();
        self.measured = (self.measured.0.min(site.llc_bytes), f64::INFINITY);
        seconds
    }

    /// Fills in the growth curves where it is known for how long lines stay.
    fn grow_by(&mut self, seconds: &[f64], site: &Site) {
        for (knot, &seconds) in self.knots.iter().zip(seconds) {
            let misses = knot.misses_per_s.max(NO_MISS_MPKI);
            self.fill.push(seconds, knot.bytes);
            self.turnover.push(knot.bytes / (misses * site.line_bytes), knot.bytes);
            self.refill.push(seconds, knot.bytes);
        }
        self.beside_outside = true;
    }

    /// By knot the instructions that a program takes to hold its bytes, of which the misses are known by
    /// the bytes held.
    fn instructions_held(&self, site: &Site) -> Vec<f64> {
        let missed = |knot: &Knot| knot.mpki.max(NO_MISS_MPKI) * 1e-3 * site.line_bytes;
        let mut instructions = 0.0;
        let mut all = vec![0.0];
        for pair in self.knots.windows(2) {
            let [from, to] = [&pair[0], &pair[1]].map(|knot| (knot.bytes, missed(knot)));
            let lru = lru_instructions(&pair[0], &pair[1], site);
            instructions = instructions_for((from, to), instructions, lru, site.single_use_life);
            all.push(instructions);
        }
        all
    }

    /// Turns a table by the bytes of an LRU cache into one by the bytes held in an LLC in which lines of
    /// one use leave sooner. By knot, the instructions for which lines that are used again stay.
    fn resist_single_uses(&mut self, foreseen: f64, site: &Site) -> Vec<f64> {
        let mut instructions = 0.0;
        let mut curve: Vec<CurvePoint> = Vec::with_capacity(self.knots.len());
        for (k, knot) in self.knots.iter().enumerate() {
            if k > 0 {
                instructions += lru_instructions(&self.knots[k - 1], knot, site);
            }
            let missed = knot.mpki * 1e-3 * site.line_bytes;
            curve.push(CurvePoint { bytes: knot.bytes, missed, instructions });
        }
        let kept = held_and_missed(&curve, foreseen, site.lives(), site.llc_bytes);
        let held = |bytes: f64| {
            let above = curve.partition_point(|one| one.bytes < bytes);
            let Some(at) = curve.get(above) else { return bytes };
            let there = kept.partition_point(|one| one.instructions < at.instructions);
            kept.get(there).map_or(bytes, |one| one.bytes)
        };
        self.measured = (held(self.measured.0), held(self.measured.1));
        let kept = apart(kept, site.llc_bytes * LEAST_GROWTH);
        let figures = |one: &HeldPoint| {
            let mpki = one.missed / (1e-3 * site.line_bytes);
            let at = self.lru_bytes(mpki);
            (Knot { bytes: one.bytes, mpki, ..self.at(at) }, self.stack(at))
        };
        let (knots, stacks): (Vec<Knot>, Vec<Option<CpiStack>>) = kept.iter().map(figures).unzip();
        self.bytes = knots.iter().map(|knot| knot.bytes).collect();
        self.knots = knots;
        self.stacks = stacks.into_iter().flatten().collect();
        kept.into_iter().map(|one| one.instructions).collect()
    }

    /// The least bytes at which so little is missed.
    fn lru_bytes(&self, mpki: f64) -> f64 {
        let above = self.knots.partition_point(|knot| knot.mpki > mpki);
        let Some(high) = self.knots.get(above) else { return f64::INFINITY };
        let Some(low) = above.checked_sub(1).map(|below| &self.knots[below]) else {
            return high.bytes;
        };
        let part = (low.mpki - mpki) / (low.mpki - high.mpki);
        low.bytes + part * (high.bytes - low.bytes)
    }

    /// Where the cycles go when so many bytes are held, an instruction; they sum to the CPI.
    pub(crate) fn stack(&self, occupancy: f64) -> Option<CpiStack> {
        let above = self.bytes.partition_point(|&bytes| bytes <= occupancy);
        let low = *self.stacks.get(above.saturating_sub(1))?;
        if above == 0 || above == self.bytes.len() {
            return Some(low);
        }
        let (from, to) = (self.bytes[above - 1], self.bytes[above]);
        let part = (occupancy - from) / (to - from);
        let mut stack = low.times(1.0 - part);
        stack.add_times(&self.stacks[above], part);
        Some(stack)
    }

    /// Fills in the three growth curves. With m misses per instruction, a program brings in
    /// `line x m` bytes an instruction, so it needs `integral of dx / (line x m(x))` instructions
    /// to hold c bytes if nothing is evicted: this is the fill time's integral, where access rate x
    /// miss ratio = miss rate (errata.md, thesis section 5.3.3: the law of LRU; Dan and Towsley,
    /// SIGMETRICS 1990; Che et al., IEEE JSAC 20(7), 2002).
    ///
    /// `filled`: by knot these instructions, where the LLC does not replace its lines as LRU does;
    /// else empty.
    fn grow(&mut self, footprint: f64, always: bool, filled: &[f64], site: &Site) {
        let clock = site.clock_hz();
        let mut instructions = 0.0;
        let mut on_the_way = 0.0;
        let mut fill_seconds = Vec::with_capacity(self.knots.len());
        for (k, &whole) in self.knots.iter().enumerate() {
            let knot = if whole.bytes > footprint {
                Knot::between(&self.knots[k.saturating_sub(1)], &whole, footprint)
            } else {
                whole
            };
            if k > 0 {
                let before = &self.knots[k - 1];
                let step = lru_instructions(before, &knot, site);
                instructions = match filled {
                    [] => instructions + step,
                    known => {
                        let part = (knot.bytes - before.bytes) / (whole.bytes - before.bytes);
                        known[k - 1] + part * (known[k] - known[k - 1])
                    }
                };
                on_the_way += step * 0.5 * (before.cpi + knot.cpi) / clock;
            }
            let misses = knot.misses_per_s.max(NO_MISS_MPKI);
            fill_seconds.push(instructions * knot.cpi / clock);
            self.fill.push(instructions * knot.cpi / clock, knot.bytes);
            self.turnover.push(knot.bytes / (misses * site.line_bytes), knot.bytes);
            self.refill.push(on_the_way, knot.bytes);
            if (knot.mpki <= NO_MISS_MPKI && !always) || knot.bytes >= footprint {
                break;
            }
        }
        self.larger_fill = LargerFill::of(&fill_seconds, &self.fill.bytes).map(Box::new);
    }

    /// The table between its knots; beyond its ends the end's.
    #[inline]
    pub(crate) fn at(&self, occupancy: f64) -> Knot {
        let above = self.bytes.partition_point(|&bytes| bytes <= occupancy);
        if above == 0 {
            self.knots[0]
        } else if above == self.knots.len() {
            self.knots[above - 1]
        } else {
            Knot::between(&self.knots[above - 1], &self.knots[above], occupancy)
        }
    }

    /// The figures when so many bytes are held.
    pub(crate) fn demand(&self, occupancy: f64) -> Demand {
        let held = occupancy.max(0.0);
        self.demand_of(Knot { bytes: held, ..self.at(held) })
    }

    /// The figures of a knot of the table, or of a mean of such.
    pub(crate) fn demand_of(&self, knot: Knot) -> Demand {
        let held = knot.bytes;
        let share = if knot.total_stalls > 0.0 {
            (knot.memory_stalls / knot.total_stalls).clamp(0.0, 1.0)
        } else {
            0.0
        };
        Demand {
            occupancy_bytes: held,
            cpi: knot.cpi,
            execution_cpi: knot.cpi * (1.0 - knot.total_stalls).clamp(0.0, 1.0),
            memory_cpi: knot.memory_cpi,
            waiting_cpi: knot.waiting_cpi,
            memory_stall_share: share,
            llc_apki: self.llc_apki,
            llc_mpki: knot.mpki,
            bytes_per_s: knot.bytes_per_s,
            busy_bytes_per_s: knot.busy_bytes_per_s,
            foreseen_share: knot.foreseen_share,
            stretched_alone: knot.stretched_alone,
            extrapolated: held < self.measured.0 * (1.0 - 1e-9)
                || held > self.measured.1 * (1.0 + 1e-9)
                || self.apki_extrapolated,
        }
    }

    /// The sizes at which its figures bend.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = f64> {
        self.bytes.iter().copied().chain([self.fill.limit()])
    }

    /// The most bytes that it holds where lines stay for so long; infinite is for ever.
    pub(crate) fn most_held(&self, seconds: f64) -> f64 {
        let growth = self.larger_fill.as_ref().map_or(&self.fill, |larger| &larger.growth);
        growth.at(seconds, &mut 0).0
    }

    /// Sizes from one to another, both included, rising: all at which its figures bend, and some between these.
    pub(crate) fn sizes_between(&self, least: f64, most: f64) -> impl Iterator<Item = f64> {
        let from = self.bytes.partition_point(|&bytes| bytes <= least);
        let to = self.bytes.partition_point(|&bytes| bytes < most).max(from);
        let bends = self.bytes[from..to].iter().copied().chain([most]);
        let mut before = least;
        let between = bends.filter(move |&bend| bend > least).flat_map(move |bend| {
            let low = std::mem::replace(&mut before, bend);
            (1..=SIZES_BETWEEN_BENDS).map(move |part| {
                let share = f64::from(part) / f64::from(SIZES_BETWEEN_BENDS);
                low + share * (bend - low)
            })
        });
        std::iter::once(least).chain(between)
    }

    /// The figures alone in so many bytes of a site's LLC.
    pub(crate) fn demand_alone(&self, site: &Site, capacity: f64) -> Demand {
        self.demand_of(self.alone(site, capacity).0)
    }

    /// The figures alone in so many bytes of a site's LLC, and where the cycles go.
    pub(crate) fn alone(&self, site: &Site, capacity: f64) -> (Knot, Option<CpiStack>) {
        let Some(sets) = site.page_sets.filter(|_| self.fills_sets_alike) else {
            let held = self.solo_bytes(capacity);
            return (Knot { bytes: held, ..self.at(held) }, self.stack(held));
        };
        let sizes = sets.sizes(capacity);
        let part = (sizes.len() as f64).recip();
        let mut sum = Knot::default();
        let mut stacks = Some(CpiStack::default());
        for size in sizes {
            let held = self.solo_bytes(size);
            sum.bytes += part * held;
            sum.add(part, &self.at(held));
            stacks = stacks.zip(self.stack(held)).map(|(mut all, own)| {
                all.add_times(&own, part);
                all
            });
        }
        (sum.by_cycles(), stacks)
    }

    /// Bytes it holds alone in a cache of that size.
    pub(crate) fn solo_bytes(&self, capacity: f64) -> f64 {
        self.fill.limit().min(capacity)
    }

    /// The least CPI over the measured range: PBBCache's reference.
    pub(crate) fn least_cpi(&self) -> f64 {
        let from = self.measured.0 * (1.0 - 1e-9);
        let measured = self.knots.iter().filter(|knot| knot.bytes >= from);
        measured.fold(f64::INFINITY, |least, knot| least.min(knot.cpi))
    }

    /// Lines missed a second when so many bytes are held.
    pub(crate) fn misses_per_s(&self, occupancy: f64) -> f64 {
        self.at(occupancy).misses_per_s
    }
}

/// The points, of those that are nearer to each other than this only one.
fn apart(points: Vec<HeldPoint>, least: f64) -> Vec<HeldPoint> {
    let mut kept: Vec<HeldPoint> = Vec::with_capacity(points.len());
    for point in points {
        match kept.last_mut() {
            Some(last) if point.bytes - last.bytes <= least => last.missed = point.missed,
            _ => kept.push(point),
        }
    }
    kept
}

/// Instructions in which a program brings in the bytes from one knot to the next, at the misses there.
fn lru_instructions(from: &Knot, to: &Knot, site: &Site) -> f64 {
    (to.bytes - from.bytes) / site.line_bytes * 1e3 * mean_inverse(from.mpki, to.mpki)
}

/// Mean of 1 / m over a segment on which m is linear.
fn mean_inverse(from: f64, to: f64) -> f64 {
    let (from, to) = (from.max(NO_MISS_MPKI), to.max(NO_MISS_MPKI));
    let ratio = to / from;
    if (ratio - 1.0).abs() < 1e-6 { 2.0 / (from + to) } else { ratio.ln() / (to - from) }
}

/// Puts more knots where there are few, so that what is not linear (the fill time) is well
/// followed: `each` segments in place of one. What is linear stays as it is.
pub(crate) fn subdivide(knots: &[Knot], each: usize) -> Vec<Knot> {
    let mut dense = Vec::with_capacity(knots.len() * each);
    for pair in knots.windows(2) {
        for part in 0..each {
            let step = (pair[1].bytes - pair[0].bytes) * part as f64 / each as f64;
            dense.push(Knot::between(&pair[0], &pair[1], pair[0].bytes + step));
        }
    }
    dense.extend(knots.last());
    dense
}
