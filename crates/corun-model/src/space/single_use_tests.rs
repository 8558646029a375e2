//! Caches in which lines of one use leave sooner: worked by hand, and against such a cache.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::tests::*;
use crate::options::SpaceLaw;
use crate::site::Site;
use crate::table::PhaseTable;

/// A site whose LLC gives lines of one use so much of the time of others.
fn resisting(llc_bytes: f64, life: f64) -> Site {
    Site { single_use_life: life, ..site(llc_bytes, 16.0) }
}

fn held(capacity: f64, sharers: &[&PhaseTable]) -> Vec<f64> {
    divide(SpaceLaw::FillTime, capacity, sharers)
}

/// A loop over so many bytes, one access an instruction.
fn looping(bytes: f64, most: f64, site: &Site) -> PhaseTable {
    steady(&[(0.0, 1000.0), (bytes * 0.9999, 1000.0), (bytes, 0.0), (most, 0.0)], 1.0, site)
}

/// One of so many bytes, at random.
fn uniform(bytes: f64, cpi: f64, site: &Site) -> PhaseTable {
    let point = |i: u32| {
        let part = f64::from(i) / 400.0;
        (part * bytes, 1000.0 * (1.0 - part))
    };
    steady(&(0..=400).map(point).collect::<Vec<_>>(), cpi, site)
}

#[test]
fn a_stream_takes_its_rate_times_the_life_of_its_lines() {
    // 64 bytes a ns, and lines of others stay for t: it holds 0.25 x 64 t.
    let site = resisting(64e3, 0.25);
    let stream = steady(&[(0.0, 1000.0), (256e3, 1000.0)], 1.0, &site);
    assert!((stream.fill.limit() - 64e3).abs() < 1e-6);
    for (bytes, microseconds) in [(16e3, 1.0), (64e3, 4.0)] {
        let seconds = stream.fill.seconds_at(bytes);
        assert!((seconds - microseconds * 1e-6).abs() < 1e-12, "{bytes}: {seconds}");
        assert_eq!(stream.demand(bytes).llc_mpki, 1000.0);
    }
    // Two share by their rates, as in an LRU cache.
    let slow = steady(&[(0.0, 1000.0), (256e3, 1000.0)], 3.0, &site);
    let held = held(64e3, &[&slow, &stream]);
    assert!((held[0] - 16e3).abs() < 1e-3 && (held[1] - 48e3).abs() < 1e-3, "{held:?}");
}

#[test]
fn a_loop_that_does_not_fit_finds_nothing() {
    // What lies there for a quarter of the time of others holds 64 kB, at 64 bytes a ns, when those stay for
    // 4 us; the whole loop comes round in 1.56 us.
    for life in [0.25, 1.0] {
        let table = looping(100e3, 256e3, &resisting(64e3, life));
        for (bytes, misses) in [(10e3, 1000.0), (64e3, 1000.0), (99e3, 1000.0), (100e3, 0.0)] {
            let missed = table.demand(bytes).llc_mpki;
            assert!((missed - misses).abs() < 20.0, "{life}, {bytes}: {missed}");
        }
    }
}

#[test]
fn a_loop_that_fits_beside_a_stream_stays() {
    // 20 kB come round in 313 ns. Beside a stream as fast, lines of which stay for a tenth of the time t of
    // others, 20 kB + 6.4 t = 64 kB: 6.9 us.
    let site = resisting(64e3, 0.1);
    let stream = steady(&[(0.0, 1000.0), (640e3, 1000.0)], 1.0, &site);
    let loops = looping(20e3, 128e3, &site);
    let both = held(64e3, &[&loops, &stream]);
    assert!((both[0] - 20e3).abs() < 1.0 && (both[1] - 44e3).abs() < 1.0, "{both:?}");
    assert!(loops.demand(both[0]).llc_mpki < 1.0);
}

#[test]
fn random_use_finds_what_is_there_whatever_stays() {
    // Any line is as likely to be used next: of 200 kB a cache with 50 has a quarter.
    for life in [0.1, 0.3, 0.7, 1.0] {
        let site = resisting(150e3, life);
        let table = uniform(200e3, 1.0, &site);
        for bytes in [20e3, 50e3, 100e3, 150e3] {
            let missed = table.demand(bytes).llc_mpki / 1000.0;
            assert!((missed - (1.0 - bytes / 200e3)).abs() < 0.04, "{life}, {bytes}: {missed}");
        }
    }
}

#[test]
fn what_is_used_again_stays_beside_a_stream() {
    // 40 kB at random, 64 bytes a ns, so each line once in θ = 625 ns, beside a stream as fast. Lines of
    // the stream stay for q t: with h as in `single_use`, 40 kB x h + 64 q t = 64 kB.
    let other = |site: &Site| steady(&[(0.0, 1000.0), (256e3, 1000.0)], 1.0, site);
    let mut before = 1000.0;
    for life in [1.0, 0.5, 0.1] {
        let site = resisting(64e3, life);
        let (random, stream) = (uniform(40e3, 1.0, &site), other(&site));
        let both = held(64e3, &[&random, &stream]);
        let t = both[1] / 64.0 / life;
        let (back, gone) = (-(-life * t / 625.0).exp_m1(), (-t / 625.0).exp());
        let hit = back / (back + gone);
        assert!((both[0] / 40e3 - hit).abs() < 0.02, "{life}: {both:?} {hit}");
        let missed = random.demand(both[0]).llc_mpki;
        assert!(missed < before, "{life}: {missed}");
        before = missed;
    }
}

fn programs() -> impl Strategy<Value = Vec<(f64, Vec<f64>)>> {
    let curve = prop::collection::vec(0.0..30.0f64, 24);
    prop::collection::vec((0.3..4.0f64, curve), 1..6)
}

/// Falling curves over 24 MB.
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
    fn held_bytes_sum_to_what_there_is(
        programs in programs(), capacity in 0.1e6..4e6f64, life in 0.17..1.0f64,
    ) {
        let site = resisting(4e6, life);
        let tables = tables(&programs, &site);
        let sharers: Vec<&PhaseTable> = tables.iter().collect();
        let limits: f64 = tables.iter().map(|table| table.fill.limit()).sum();
        let forth = held(capacity, &sharers);
        let sum: f64 = forth.iter().sum();
        prop_assert!((sum - capacity.min(limits)).abs() < 1e-6 * capacity, "{forth:?}");
        let mut back = held(capacity, &sharers.iter().rev().copied().collect::<Vec<_>>());
        back.reverse();
        for (a, b) in forth.iter().zip(&back) {
            prop_assert!((a - b).abs() < 1e-6 * capacity, "{forth:?} {back:?}");
        }
    }

    #[test]
    fn more_bytes_take_longer_and_miss_less(programs in programs(), life in 0.17..1.0f64) {
        let site = resisting(4e6, life);
        for table in tables(&programs, &site) {
            let bytes: Vec<f64> = (0..=64).map(|i| f64::from(i) / 64.0 * 4e6).collect();
            for pair in bytes.windows(2) {
                let seconds = [pair[0], pair[1]].map(|bytes| table.fill.seconds_at(bytes));
                prop_assert!(seconds[0] < seconds[1] || seconds[0].is_infinite(), "{seconds:?}");
                let missed = [pair[0], pair[1]].map(|bytes| table.demand(bytes).llc_mpki);
                prop_assert!(missed[0] >= missed[1] - 1e-9, "{missed:?}");
            }
        }
    }

    /// Lines of one use that stay nearly as long as others change nearly nothing.
    #[test]
    fn nearly_lru_is_nearly_lru(programs in programs(), capacity in 0.1e6..4e6f64) {
        let [lru, near] = [1.0, 1.0 - 1e-6].map(|life| {
            let site = resisting(4e6, life);
            let tables = tables(&programs, &site);
            let sharers: Vec<&PhaseTable> = tables.iter().collect();
            let held = held(capacity, &sharers);
            let missed = tables.iter().zip(&held).map(|(table, &held)| table.demand(held).llc_mpki);
            (held.clone(), missed.collect::<Vec<_>>())
        });
        for (a, b) in lru.0.iter().zip(&near.0) {
            prop_assert!((a - b).abs() < 1e-4 * capacity, "{lru:?} {near:?}");
        }
        for (a, b) in lru.1.iter().zip(&near.1) {
            prop_assert!((a - b).abs() < 1e-3 * a.max(1.0), "{lru:?} {near:?}");
        }
    }
}

/// A cache that evicts the line that is oldest, where the age of a line of one use counts 1 / life fold.
struct Resisting {
    life: f64,
    lines: HashMap<u64, (bool, u64)>,
    /// Of lines of one use and of the others, by the time of the last use.
    by_age: [BTreeMap<u64, u64>; 2],
    now: u64,
}

impl Resisting {
    fn new(life: f64) -> Self {
        Self { life, lines: HashMap::new(), by_age: Default::default(), now: 0 }
    }

    fn oldest(&self, again: bool) -> f64 {
        let first = self.by_age[usize::from(again)].first_key_value();
        let age = first.map_or(-1.0, |(then, _)| (self.now - then) as f64);
        if again { age } else { age / self.life }
    }

    /// Whether a line hits.
    fn access(&mut self, line: u64) -> bool {
        self.now += 1;
        let hit = match self.lines.remove(&line) {
            Some((again, then)) => {
                self.by_age[usize::from(again)].remove(&then);
                true
            }
            None => {
                if self.lines.len() >= CACHE_LINES {
                    let again = self.oldest(true) > self.oldest(false);
                    if let Some((_, out)) = self.by_age[usize::from(again)].pop_first() {
                        self.lines.remove(&out);
                    }
                }
                false
            }
        };
        self.lines.insert(line, (hit, self.now));
        self.by_age[usize::from(hit)].insert(self.now, line);
        hit
    }
}

/// Miss ratios of patterns that share such a cache; each makes `rate` accesses a time on average.
fn together(patterns: &[(Pattern, u64)], life: f64) -> Vec<f64> {
    let mut random = Random(11);
    let mut cache = Resisting::new(life);
    let mut all: Vec<Accesses> =
        patterns.iter().map(|&(pattern, _)| Accesses { pattern, count: 0 }).collect();
    let total: u64 = patterns.iter().map(|&(_, rate)| rate).sum();
    let mut counts = vec![(0u32, 0u32); patterns.len()];
    for number in 0..2 * ACCESSES {
        let mut draw = random.below(total);
        let who = patterns.iter().position(|&(_, rate)| {
            let here = draw < rate;
            draw = draw.saturating_sub(rate);
            here
        });
        let who = who.unwrap_or(0);
        let line = all[who].next(&mut random) | (who as u64) << 40;
        let hit = cache.access(line);
        if number >= 2 * WARM_UP {
            counts[who].0 += 1;
            counts[who].1 += u32::from(!hit);
        }
    }
    counts.iter().map(|&(all, missed)| f64::from(missed) / f64::from(all)).collect()
}

/// Mean error of the miss ratio over synthetic programs, alone and in pairs, by the law and by the law
/// of an LRU cache.
#[test]
fn the_law_is_near_to_such_a_cache() {
    const LIFE: f64 = 0.15;
    let patterns = [
        Pattern::Uniform(700),
        Pattern::Uniform(3000),
        Pattern::Loop(400),
        Pattern::Loop(1500),
        Pattern::Stream,
        Pattern::Hot(80, 200, 2000),
        Pattern::Hot(50, 600, 1200),
    ];
    let capacity = CACHE_LINES as f64 * LINE;
    let most = (CACHE_LINES as f64 / LIFE) as usize;
    let curves: Vec<Vec<(f64, f64)>> = patterns.iter().map(|&one| alone(one, most)).collect();
    let mut groups: Vec<Vec<(usize, u64)>> = (0..patterns.len()).map(|i| vec![(i, 1)]).collect();
    for i in 0..patterns.len() {
        for j in i..patterns.len() {
            groups.extend([vec![(i, 1), (j, 1)], vec![(i, 1), (j, 4)]]);
        }
    }
    let sites = [resisting(capacity, LIFE), resisting(capacity, 1.0)];
    let (mut errors, mut count) = ([0.0; 2], 0.0);
    for group in &groups {
        let shared: Vec<(Pattern, u64)> =
            group.iter().map(|&(i, rate)| (patterns[i], rate)).collect();
        let truth = together(&shared, LIFE);
        for (error, site) in errors.iter_mut().zip(&sites) {
            let table = |&(i, rate): &(usize, u64)| steady(&curves[i], 1.0 / rate as f64, site);
            let tables: Vec<PhaseTable> = group.iter().map(table).collect();
            let held = held(capacity, &tables.iter().collect::<Vec<_>>());
            for ((table, &held), truth) in tables.iter().zip(&held).zip(&truth) {
                *error += (table.demand(held).llc_mpki / 1000.0 - truth).abs();
            }
        }
        count += group.len() as f64;
    }
    let [here, lru] = errors.map(|error| error / count);
    println!(
        "mean error of the miss ratio over {count} cases: {:.2} %, as an LRU cache {:.2} %",
        here * 100.0,
        lru * 100.0
    );
    assert!(here < 0.015, "{here}");
    assert!(lru > 2.0 * here, "{lru}");
}
