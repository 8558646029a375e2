//! The laws of space on tables made by hand, and against a true shared LRU cache.

use corun_machine::{CoreType, Inclusion};
use proptest::prelude::*;

use crate::options::SpaceLaw;
use crate::site::Site;
use crate::space::{SpaceScratch, law};
use crate::table::{Knot, PhaseTable, TableParts};

pub(super) const LINE: f64 = 64.0;

pub(super) fn site(llc_bytes: f64, ways: f64) -> Site {
    Site {
        core: CoreType::new("core", 1000.0, 1),
        reference_clock_mhz: 1000.0,
        l1_bytes: 0.0,
        l1_latency_ns: 4.0,
        l1_code_bytes: 0.0,
        private_bytes: 0.0,
        private_latency_ns: 0.0,
        private_line_ns: 0.0,
        llc_line_ns: 0.0,
        llc_bytes,
        survival: Vec::new(),
        random_use_life: None,
        page_sets: None,
        single_use_life: 1.0,
        way_bytes: llc_bytes / ways,
        line_bytes: LINE,
        inclusion: Inclusion::Inclusive,
        has_measured_queue: false,
        llc_latency_ns: 10.0,
        memory_latency_ns: 100.0,
        peak_bytes_per_s: f64::INFINITY,
        solo_share: 0.95,
        core_rates: None,
        memory_rates: None,
        kernel: crate::site::Kernel::USUAL,
        sharers: 1,
    }
}

/// A program that runs at one speed: CPI does not depend on the space it has.
pub(super) fn steady(points: &[(f64, f64)], cpi: f64, site: &Site) -> PhaseTable {
    steady_of(points, cpi, 0.0, site)
}

/// The same where a prefetcher brings this share of its lines.
pub(super) fn steady_of(points: &[(f64, f64)], cpi: f64, foreseen: f64, site: &Site) -> PhaseTable {
    let knot = |&(bytes, mpki): &(f64, f64)| Knot {
        bytes,
        cpi,
        mpki,
        misses_per_s: mpki * 1e-3 * site.clock_hz() / cpi,
        ..Knot::default()
    };
    let parts = TableParts {
        knots: points.iter().map(knot).collect(),
        stacks: Vec::new(),
        by_bytes_held: false,
        foreseen,
        llc_apki: 1000.0,
        apki_extrapolated: false,
        measured: (0.0, f64::INFINITY),
        footprint_bytes: f64::INFINITY,
        always_grows: false,
        fills_sets_alike: true,
        seconds: None,
    };
    PhaseTable::new(parts, site)
}

pub(super) fn divide(of: SpaceLaw, capacity: f64, sharers: &[&PhaseTable]) -> Vec<f64> {
    let mut out = Vec::new();
    law(of).divide(capacity, sharers, &mut SpaceScratch::default(), &mut out);
    out
}

#[test]
fn streams_share_by_their_rates() {
    // Streams miss always: t = c / rate for both, so space goes as the rates, 1 : 3; under the
    // proportional law and the walk too.
    let site = site(64e3, 16.0);
    let slow = steady(&[(0.0, 1000.0), (64e3, 1000.0)], 3.0, &site);
    let fast = steady(&[(0.0, 1000.0), (64e3, 1000.0)], 1.0, &site);
    for (name, of) in SpaceLaw::ALL {
        let held = divide(of, 64e3, &[&slow, &fast]);
        assert!((held[0] - 16e3).abs() < 1e-6 * 64e3, "{name}: {held:?}");
        assert!((held[1] - 48e3).abs() < 1e-6 * 64e3, "{name}: {held:?}");
    }
}

#[test]
fn fill_time_of_a_falling_curve_worked_by_hand() {
    // A stream (miss ratio 1) beside a program whose miss ratio falls from 1 at nothing to 1/2 at
    // 64 kB, at one rate. t = c1 = integral of dx / (1 - x / 128k) = -128k ln(1 - c2 / 128k), and
    // c1 + c2 = 64k: with y = c2 / 64k, 1 - y = -2 ln(1 - y / 2), y = 0.455338 (by bisection).
    let site = site(64e3, 16.0);
    let stream = steady(&[(0.0, 1000.0), (64e3, 1000.0)], 1.0, &site);
    let knots: Vec<(f64, f64)> =
        (0..=128).map(|i| (f64::from(i) * 500.0, 1000.0 - f64::from(i) * 500.0 / 128.0)).collect();
    let reuser = steady(&knots, 1.0, &site);
    let held = divide(SpaceLaw::FillTime, 64e3, &[&stream, &reuser]);
    let y = held[1] / 64e3;
    assert!((1.0 - y + 2.0 * (1.0 - y / 2.0).ln()).abs() < 1e-4, "{y}");
    // The proportional law: c1 / 1 = c2 / (1 - c2 / 128k), 1 - y = y / (1 - y / 2): y^2 - 5 y + 2
    // over 2 = 0, y = (5 - sqrt(17)) / 2.
    let held = divide(SpaceLaw::Proportional, 64e3, &[&stream, &reuser]);
    let y = held[1] / 64e3;
    assert!((y - (5.0 - 17.0_f64.sqrt()) / 2.0).abs() < 1e-3, "{y}");
}

#[test]
fn the_walk_by_hand() {
    // Two ways of 1000 bytes. The first way is divided by the misses at one way, 30 : 10, the
    // second by those one way beyond what is held: at 1.75 ways 15 (20 to 10 between 1.5 and 2),
    // at 1.25 ways 10.
    let site = site(2000.0, 2.0);
    let a = steady(&[(0.0, 40.0), (1000.0, 30.0), (1500.0, 20.0), (2000.0, 10.0)], 1.0, &site);
    let b = steady(&[(0.0, 10.0), (2000.0, 10.0)], 1.0, &site);
    let held = divide(SpaceLaw::Whirlpool, 2000.0, &[&a, &b]);
    assert!((held[0] - 1000.0 * (0.75 + 0.6)).abs() < 1e-9, "{held:?}");
    assert!((held[1] - 1000.0 * (0.25 + 0.4)).abs() < 1e-9, "{held:?}");
}

#[test]
fn what_fits_stops_growing() {
    let site = site(64e3, 16.0);
    let small = steady(&[(0.0, 100.0), (8e3, 100.0), (9e3, 0.0), (64e3, 0.0)], 1.0, &site);
    let stream = steady(&[(0.0, 1000.0), (64e3, 1000.0)], 1.0, &site);
    // Two that fit leave space over.
    assert_eq!(divide(SpaceLaw::FillTime, 64e3, &[&small, &small]), [9e3, 9e3]);
    // Reused ten times as often as the stream brings lines in, a program keeps what the stream
    // does not sweep past between two uses.
    let held = divide(SpaceLaw::FillTime, 64e3, &[&small, &stream]);
    assert!(held[0] < 9e3 && (held[0] + held[1] - 64e3).abs() < 1e-6, "{held:?}");
}

/// Each miss takes 1000 cycles, all else one cycle an instruction.
fn waiting(points: &[(f64, f64)], site: &Site) -> PhaseTable {
    let knot = |&(bytes, mpki): &(f64, f64)| {
        let cpi = 1.0 + mpki;
        let misses_per_s = mpki * 1e-3 * site.clock_hz() / cpi;
        Knot { bytes, cpi, mpki, misses_per_s, ..Knot::default() }
    };
    let parts = TableParts {
        knots: points.iter().map(knot).collect(),
        stacks: Vec::new(),
        by_bytes_held: false,
        foreseen: 0.0,
        llc_apki: 10.0,
        apki_extrapolated: false,
        measured: (0.0, f64::INFINITY),
        footprint_bytes: f64::INFINITY,
        always_grows: false,
        fills_sets_alike: true,
        seconds: None,
    };
    PhaseTable::new(parts, site)
}

#[test]
fn a_loop_stays_where_it_was_loaded_in_time() {
    // A loop over 32 kB comes round in 32e3 / 64 / 10 x 1000 = 50,000 instructions: 50 us in its
    // cache, 550 outside. Beside it 8 kB in use and a stream of a miss per 1000 instructions, at 2
    // cycles each, for which it takes 8e3 / 64 x 1000 x ln(100) / 99 = 5814 instructions to load
    // the 8 kB, 299 us.
    let site = site(64e3, 16.0);
    let looping = waiting(&[(0.0, 10.0), (31.9e3, 10.0), (32e3, 0.0), (64e3, 0.0)], &site);
    let other = waiting(&[(0.0, 100.0), (8e3, 1.0), (64e3, 1.0)], &site);
    let held = |capacity| divide(SpaceLaw::FillTime, capacity, &[&looping, &other]);
    let is = |held: Vec<f64>, first: f64, capacity: f64| {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-3 * b;
        assert!(close(held[0], first) && close(held[1], capacity - first), "{held:?}");
    };
    // When the loop is loaded, after 550 us, the other one has 8 + 251 us x 32 bytes a us = 16 kB.
    // In 50 kB it may go on to 18, which it does in 324 us: lines last 324 us, the loop takes 50.
    is(held(50e3), 32e3, 50e3);
    // 46 kB are full before. The loop might stay if it were loaded (14 kB last 199 us); but so it
    // runs outside, at 58.2 bytes a us: 58.2 t + 8000 + 32 (t - 11.6) = 46e3 at t = 425.6.
    is(held(46e3), 640.0 / 11.0 * 425.6, 46e3);
    // In 36 kB it could not stay: 4 kB of the other's last 6 us.
    assert!(held(36e3)[0] < 31.9e3);
    // Two such loops and 60 kB: each has 30 kB when the cache is full, and finds no line again.
    is(divide(SpaceLaw::FillTime, 60e3, &[&looping, &looping]), 30e3, 60e3);
}

fn programs() -> impl Strategy<Value = Vec<(f64, Vec<f64>)>> {
    let curve = prop::collection::vec(0.0..30.0f64, 12);
    prop::collection::vec((0.3..4.0f64, curve), 1..7)
}

/// Falling curves over 12 ways of 1 MB.
fn tables(programs: &[(f64, Vec<f64>)], site: &Site) -> Vec<PhaseTable> {
    let table = |(cpi, drops): &(f64, Vec<f64>)| {
        let mut mpki: f64 = drops.iter().sum();
        let mut points = vec![(0.0, mpki)];
        for (way, drop) in drops.iter().enumerate() {
            mpki = (mpki - drop).max(0.0);
            points.push(((way + 1) as f64 * 1e6, mpki));
        }
        steady(&points, *cpi, site)
    };
    programs.iter().map(table).collect()
}

proptest! {
    #[test]
    fn held_bytes_sum_to_what_there_is(programs in programs(), capacity in 0.1e6..12e6f64) {
        let site = site(12e6, 12.0);
        let tables = tables(&programs, &site);
        let sharers: Vec<&PhaseTable> = tables.iter().collect();
        let limits: f64 = tables.iter().map(|table| table.fill.limit()).sum();
        for (name, of) in SpaceLaw::NAMED {
            let held = divide(of, capacity, &sharers);
            let sum: f64 = held.iter().sum();
            prop_assert!((sum - capacity.min(limits)).abs() < 1e-6 * capacity, "{name} {held:?}");
            for (held, table) in held.iter().zip(&tables) {
                prop_assert!(*held >= 0.0 && *held <= table.fill.limit() * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn a_competitor_takes_space_from_all(programs in programs(), capacity in 0.1e6..12e6f64) {
        let site = site(12e6, 12.0);
        let tables = tables(&programs, &site);
        let sharers: Vec<&PhaseTable> = tables.iter().collect();
        let fewer = &sharers[..sharers.len() - 1];
        for of in [SpaceLaw::FillTime, SpaceLaw::Proportional] {
            let with = divide(of, capacity, &sharers);
            for (with, without) in with.iter().zip(divide(of, capacity, fewer)) {
                prop_assert!(*with <= without + 1e-6 * capacity);
            }
        }
    }

    #[test]
    fn the_order_of_sharers_does_not_matter(programs in programs(), capacity in 0.1e6..12e6f64) {
        let site = site(12e6, 12.0);
        let tables = tables(&programs, &site);
        let forth: Vec<&PhaseTable> = tables.iter().collect();
        let back: Vec<&PhaseTable> = tables.iter().rev().collect();
        for (name, of) in SpaceLaw::NAMED {
            let there = divide(of, capacity, &forth);
            let mut here = divide(of, capacity, &back);
            here.reverse();
            for (a, b) in there.iter().zip(&here) {
                prop_assert!((a - b).abs() < 1e-6 * capacity, "{name}: {there:?} {here:?}");
            }
        }
    }

    #[test]
    fn fill_times_are_equal(programs in programs(), capacity in 0.1e6..12e6f64) {
        let site = site(12e6, 12.0);
        let tables = tables(&programs, &site);
        let sharers: Vec<&PhaseTable> = tables.iter().collect();
        let held = divide(SpaceLaw::FillTime, capacity, &sharers);
        let growing = held.iter().zip(&tables).filter(|(held, table)| **held < table.fill.limit());
        let times: Vec<f64> =
            growing.map(|(held, table)| table.fill.seconds_at(*held)).collect();
        for time in &times {
            prop_assert!((time - times[0]).abs() < 1e-6 * times[0], "{times:?}");
        }
    }
}

/// How a synthetic program chooses its next line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pattern {
    /// Any of so many lines.
    Uniform(u64),
    /// One after the other, around so many lines.
    Loop(u64),
    /// Never the same line twice.
    Stream,
    /// A share (percent) of accesses to a hot set, the rest to a cold one.
    Hot(u64, u64, u64),
}

/// A pseudo-random stream: xorshift64* (Marsaglia 2003, Vigna 2016).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

pub(super) struct Accesses {
    pub(super) pattern: Pattern,
    pub(super) count: u64,
}

impl Accesses {
    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        self.count += 1;
        match self.pattern {
            Pattern::Uniform(lines) => random.below(lines),
            Pattern::Loop(lines) => self.count % lines,
            Pattern::Stream => self.count,
            Pattern::Hot(percent, hot, cold) => {
                if random.below(100) < percent {
                    random.below(hot)
                } else {
                    hot + random.below(cold)
                }
            }
        }
    }
}

/// Depths in an LRU stack, by a Fenwick tree over the times of last use.
struct Stack {
    last_use: std::collections::HashMap<u64, usize>,
    tree: Vec<i32>,
    now: usize,
}

impl Stack {
    fn new(accesses: usize) -> Self {
        Self { last_use: Default::default(), tree: vec![0; accesses + 2], now: 0 }
    }

    fn add(&mut self, mut at: usize, what: i32) {
        while at < self.tree.len() {
            self.tree[at] += what;
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, mut at: usize) -> i32 {
        let mut sum = 0;
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }

    /// Distinct lines used since this one, itself counted; none on its first use.
    fn depth(&mut self, line: u64) -> Option<usize> {
        self.now += 1;
        let now = self.now;
        let before = self.last_use.insert(line, now);
        let depth = before.map(|then| {
            let depth = (self.sum(now - 1) - self.sum(then - 1)) as usize;
            self.add(then, -1);
            depth
        });
        self.add(now, 1);
        depth
    }
}

pub(super) const ACCESSES: usize = 120_000;
/// Of these, not counted while the cache fills.
pub(super) const WARM_UP: usize = 40_000;
pub(super) const CACHE_LINES: usize = 1024;

/// Misses per 1000 accesses of a pattern alone, at sizes of 0, 8, 16, .. up to `most` lines.
pub(super) fn alone(pattern: Pattern, most: usize) -> Vec<(f64, f64)> {
    let (mut accesses, mut random) = (Accesses { pattern, count: 0 }, Random(7));
    let mut stack = Stack::new(ACCESSES);
    let mut hits = vec![0u32; most / 8 + 1];
    for number in 0..ACCESSES {
        let line = accesses.next(&mut random);
        let depth = stack.depth(line);
        if number >= WARM_UP
            && let Some(depth) = depth.filter(|&depth| depth <= most)
        {
            hits[depth.div_ceil(8)] += 1;
        }
    }
    let mut missed = (ACCESSES - WARM_UP) as f64;
    let all = missed;
    let mut curve = Vec::new();
    for (step, &more) in hits.iter().enumerate() {
        missed -= f64::from(more);
        curve.push(((step * 8) as f64 * LINE, missed / all * 1000.0));
    }
    curve
}

/// Miss ratios of patterns that share the cache; each makes `rate` accesses a time on average.
fn together(patterns: &[(Pattern, u64)]) -> Vec<f64> {
    let mut random = Random(11);
    let mut all: Vec<Accesses> =
        patterns.iter().map(|&(pattern, _)| Accesses { pattern, count: 0 }).collect();
    let total: u64 = patterns.iter().map(|&(_, rate)| rate).sum();
    let mut stack = Stack::new(2 * ACCESSES);
    let mut counts = vec![(0u32, 0u32); patterns.len()];
    for number in 0..2 * ACCESSES {
        let mut draw = random.below(total);
        let who = patterns
            .iter()
            .position(|&(_, rate)| {
                if draw < rate {
                    true
                } else {
                    draw -= rate;
                    false
                }
            })
            .unwrap_or(0);
        // Lines of different programs are different lines.
        let line = all[who].next(&mut random) | (who as u64) << 40;
        let hit = stack.depth(line).is_some_and(|depth| depth <= CACHE_LINES);
        if number >= 2 * WARM_UP {
            counts[who].0 += 1;
            counts[who].1 += u32::from(!hit);
        }
    }
    counts.iter().map(|&(all, missed)| f64::from(missed) / f64::from(all)).collect()
}

/// Mean error of the miss ratio, by law, over pairs of synthetic programs in a true shared LRU.
#[test]
fn fill_time_is_the_law_of_a_shared_lru() {
    let patterns = [
        Pattern::Uniform(700),
        Pattern::Uniform(3000),
        Pattern::Loop(400),
        Pattern::Stream,
        Pattern::Hot(80, 200, 2000),
        Pattern::Hot(50, 600, 1200),
    ];
    let capacity = CACHE_LINES as f64 * LINE;
    let site = site(capacity, 16.0);
    let curves: Vec<Vec<(f64, f64)>> =
        patterns.iter().map(|&one| alone(one, CACHE_LINES)).collect();
    let mut errors = [0.0; 3];
    let mut count = 0.0;
    for (i, &first) in patterns.iter().enumerate() {
        for (j, &second) in patterns.iter().enumerate().skip(i) {
            for rates in [(1, 1), (1, 4)] {
                let truth = together(&[(first, rates.0), (second, rates.1)]);
                let a = steady(&curves[i], 1.0 / rates.0 as f64, &site);
                let b = steady(&curves[j], 1.0 / rates.1 as f64, &site);
                for (error, (_, of)) in errors.iter_mut().zip(SpaceLaw::ALL) {
                    let held = divide(of, capacity, &[&a, &b]);
                    for ((table, &held), truth) in [&a, &b].iter().zip(&held).zip(&truth) {
                        *error += (table.demand(held).llc_mpki / 1000.0 - truth).abs();
                    }
                }
                count += 2.0;
            }
        }
    }
    let [fill_time, proportional, whirlpool] = errors.map(|error| error / count);
    println!(
        "mean error of the miss ratio over {count} cases: fill-time {:.2} %, proportional {:.2} %, \
         whirlpool {:.2} %",
        fill_time * 100.0,
        proportional * 100.0,
        whirlpool * 100.0
    );
    assert!(fill_time < 0.01, "{fill_time}");
    assert!(proportional > 3.0 * fill_time && whirlpool > 3.0 * fill_time);
}
