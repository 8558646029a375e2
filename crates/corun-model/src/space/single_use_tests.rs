//! Caches in which lines of one use leave sooner: worked by hand, and against such a cache.

use std::collections::HashMap;

use proptest::prelude::*;

use super::tests::*;
use crate::options::SpaceLaw;
use crate::single_use::{LineLives, median};
use crate::site::Site;
use crate::table::PhaseTable;

/// A site whose LLC has lines of one use leave in one of so many stages, and those of a stream in this share of the time
/// of lines that are used again.
pub(super) fn resisting(llc_bytes: f64, stages: u32, stream: f64) -> Site {
    let once = f64::from(stages).recip();
    Site {
        single_use_life: stream / median(stages),
        random_use_life: Some(once * std::f64::consts::LN_2 / median(stages)),
        ..site(llc_bytes, 16.0)
    }
}

fn held(capacity: f64, sharers: &[&PhaseTable]) -> Vec<f64> {
    divide(SpaceLaw::FillTime, capacity, sharers)
}

fn near(found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() < part * expected, "found {found}, expected {expected}");
}

/// A loop over so many bytes, one access an instruction.
fn looping(bytes: f64, foreseen: f64, site: &Site) -> PhaseTable {
    let points = [(0.0, 1000.0), (bytes * 0.9999, 1000.0), (bytes, 0.0), (9.0 * bytes, 0.0)];
    steady_of(&points, 1.0, foreseen, site)
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
fn lives_are_ratios_of_means() {
    // Half of what leaves in two stages is there at x = 1.678 of one, where (1 + x) exp(-x) = 1/2; in one, at ln 2.
    near(median(2), 1.678347 / 2.0, 1e-6);
    let lives = LineLives::of(0.1, std::f64::consts::LN_2 / 1.678347, 0.0);
    assert_eq!(lives.stages, 2);
    near(lives.once, 0.5, 1e-5);
    near(lives.stream, 0.1 * 0.8391735, 1e-5);
    let lru = LineLives { stream: median(1), once: 1.0, stages: 1, next_line: 0.0 };
    assert_eq!(LineLives::of(1.0, 1.0, 0.0), lru);
    for stages in 1..9 {
        let site = resisting(64e3, stages, 0.1);
        let lives = site.lives();
        assert_eq!(lives.stages, stages);
        near(lives.once, f64::from(stages).recip(), 1e-9);
        near(lives.stream, 0.1, 1e-9);
    }
}

#[test]
fn a_stream_takes_its_rate_times_the_life_of_its_lines() {
    // 64 bytes a ns, and lines of others stay for t: it holds 0.1 x 64 t where a prefetcher brings them, else a quarter.
    let site = resisting(64e3, 4, 0.1);
    let stream = |foreseen, cpi| steady_of(&[(0.0, 1000.0), (256e3, 1000.0)], cpi, foreseen, &site);
    for (foreseen, bytes, microseconds) in [(1.0, 16e3, 2.5), (1.0, 64e3, 10.0), (0.0, 16e3, 1.0)] {
        let table = stream(foreseen, 1.0);
        near(table.fill.limit(), 64e3, 1e-9);
        near(table.fill.seconds_at(bytes), microseconds * 1e-6, 1e-6);
        assert_eq!(table.demand(bytes).llc_mpki, 1000.0);
    }
    // Two share by their rates, as in an LRU cache.
    let held = held(64e3, &[&stream(1.0, 3.0), &stream(1.0, 1.0)]);
    assert!((held[0] - 16e3).abs() < 1e-3 && (held[1] - 48e3).abs() < 1e-3, "{held:?}");
}

#[test]
fn a_loop_finds_what_two_stages_leave() {
    // 20 kB come round in d = 312.5 ns. With lines that stay for t = 400 ns in two stages, those of one use for 200: a = exp(-312.5 / 200)
    // = 0.2096, of two stages of 200 ns (1 + 1.5625) exp(-1.5625) = 0.5371 are left, and a / (a + b) = 0.3117 hit. They
    // are there for 200 (1 - a) = 158.1 ns after a miss, and for 400 (1 - of three 0.7930) + d x 0.5371 = 250.6 after a hit.
    let site = resisting(64e3, 2, 0.1);
    let table = looping(20e3, 0.0, &site);
    let bytes = 20e3 * (0.3117 * 250.6 + 0.6883 * 158.1) / 312.5;
    near(table.fill.seconds_at(bytes), 400e-9, 0.05);
    near(table.demand(bytes).llc_mpki, 688.3, 0.02);
    // What a prefetcher brings stays for 200 ns at t = 2 us until it is used again: a as above, of two stages of 1000 ns 1.3125
    // exp(-0.3125) = 0.9603 are left, and 0.8406 hit. There for 158.1 ns, and 2000 (1 - of three 0.99597) + d x 0.9603 = 308.1.
    let table = looping(20e3, 1.0, &site);
    let bytes = 20e3 * (0.8406 * 308.1 + 0.1594 * 158.1) / 312.5;
    near(table.fill.seconds_at(bytes), 2e-6, 0.1);
    near(table.demand(bytes).llc_mpki, 159.4, 0.03);
}

#[test]
fn a_loop_that_fits_beside_a_stream_stays() {
    // 20 kB come round in 313 ns. Beside a stream as fast, lines of which stay for a tenth of the time t of
    // others, 20 kB + 6.4 t = 64 kB: 6.9 us, so that hardly any are lost.
    let site = resisting(64e3, 4, 0.1);
    let stream = steady_of(&[(0.0, 1000.0), (640e3, 1000.0)], 1.0, 1.0, &site);
    let loops = looping(20e3, 0.0, &site);
    let both = held(64e3, &[&loops, &stream]);
    near(both[0], 20e3, 0.01);
    near(both[1], 44e3, 0.01);
    assert!(loops.demand(both[0]).llc_mpki < 5.0);
}

#[test]
fn random_use_finds_what_is_there_whatever_stays() {
    // Any line is as likely to be used next: of 200 kB a cache with 50 has a quarter.
    for stages in [1, 2, 3, 9] {
        let site = resisting(150e3, stages, 0.1);
        let table = uniform(200e3, 1.0, &site);
        for bytes in [20e3, 50e3, 100e3, 150e3] {
            let missed = table.demand(bytes).llc_mpki / 1000.0;
            assert!((missed - (1.0 - bytes / 200e3)).abs() < 0.04, "{stages}, {bytes}: {missed}");
        }
    }
}

#[test]
fn what_is_used_again_stays_beside_a_stream() {
    // 40 kB at random, 64 bytes a ns, so each line once in θ = 625 ns, beside a stream as fast. Lines of
    // the stream stay for t / 20: with h as in `single_use`, 40 kB x h + 3.2 t = 64 kB.
    let mut before = 1000.0;
    for stages in [1_u32, 2, 3] {
        let site = resisting(64e3, stages, 0.05);
        let stream = steady_of(&[(0.0, 1000.0), (640e3, 1000.0)], 1.0, 1.0, &site);
        let random = uniform(40e3, 1.0, &site);
        let both = held(64e3, &[&random, &stream]);
        let t = both[1] / 3.2 / 625.0;
        let n = f64::from(stages);
        let (back, gone) = (t / n / (t / n + 1.0), (1.0 + t / n).powf(-n));
        let hit = back / (back + gone);
        assert!((both[0] / 40e3 - hit).abs() < 0.02, "{stages}: {both:?} {hit}");
        let missed = random.demand(both[0]).llc_mpki;
        assert!(missed < before, "{stages}: {missed}");
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
        programs in programs(), capacity in 0.1e6..4e6f64, stages in 1..7u32, stream in 0.02..1.0f64,
    ) {
        let site = resisting(4e6, stages, stream);
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
    fn more_bytes_take_longer_and_miss_less(
        programs in programs(), stages in 1..7u32, stream in 0.02..1.0f64,
    ) {
        let site = resisting(4e6, stages, stream);
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
}

/// A cache of lines each of which is so many stages from leaving: one when it comes in, all when it is used again.
/// Whoever needs space takes a stage of lines chosen at random until one has left.
struct Staged {
    stages: u32,
    /// Each line with the stages that it has left, and where a line lies.
    lines: Vec<(u64, u32)>,
    places: HashMap<u64, usize>,
}

impl Staged {
    fn new(stages: u32) -> Self {
        Self { stages, lines: Vec::new(), places: HashMap::new() }
    }

    /// Whether a line hits.
    fn access(&mut self, line: u64, random: &mut Random) -> bool {
        if let Some(&place) = self.places.get(&line) {
            self.lines[place].1 = self.stages;
            return true;
        }
        if self.lines.len() < CACHE_LINES {
            self.places.insert(line, self.lines.len());
            self.lines.push((line, 1));
            return false;
        }
        loop {
            let place = random.below(CACHE_LINES as u64) as usize;
            let (old, left) = &mut self.lines[place];
            if *left > 1 {
                *left -= 1;
                continue;
            }
            self.places.remove(old);
            self.places.insert(line, place);
            self.lines[place] = (line, 1);
            return false;
        }
    }
}

/// Miss ratios of patterns that share such a cache; each makes `rate` accesses a time on average.
fn together(patterns: &[(Pattern, u64)], stages: u32) -> Vec<f64> {
    let mut random = Random(11);
    let mut cache = Staged::new(stages);
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
        let hit = cache.access(line, &mut random);
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
    const STAGES: u32 = 3;
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
    let most = CACHE_LINES * 4;
    let curves: Vec<Vec<(f64, f64)>> = patterns.iter().map(|&one| alone(one, most)).collect();
    let mut groups: Vec<Vec<(usize, u64)>> = (0..patterns.len()).map(|i| vec![(i, 1)]).collect();
    for i in 0..patterns.len() {
        for j in i..patterns.len() {
            groups.extend([vec![(i, 1), (j, 1)], vec![(i, 1), (j, 4)]]);
        }
    }
    let sites = [resisting(capacity, STAGES, 1.0 / f64::from(STAGES)), site(capacity, 16.0)];
    let (mut errors, mut count) = ([0.0; 2], 0.0);
    for group in &groups {
        let shared: Vec<(Pattern, u64)> =
            group.iter().map(|&(i, rate)| (patterns[i], rate)).collect();
        let truth = together(&shared, STAGES);
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

/// The same site, on cores that fetch the next line along with this share of uses.
fn with_next_line(site: &Site, share: f64) -> Site {
    let mut site = site.clone();
    site.core.prefetching.get_or_insert_default().next_line = Some(share);
    site
}

#[test]
fn a_ring_in_no_order_is_split_by_the_line_before() {
    // The loop of `a_loop_finds_what_two_stages_leave` at t = 400 ns, d / t = 0.78125, where each line comes along with the one
    // before it at any place in between. Means over u of exp(-u d / 200 ns): 0.5059; of what two stages leave at u d: 250.6 / 312.5 =
    // 0.8019; 0.5059 / (0.5059 + 0.1981) = 0.7186 hit.
    let site = with_next_line(&resisting(64e3, 2, 0.1), 1.0);
    let table = looping(20e3, 0.0, &site);
    let there = table.fill.bytes.iter().zip(&table.fill.seconds);
    let (bytes, _) = there
        .min_by(|one, other| (one.1 - 400e-9).abs().total_cmp(&(other.1 - 400e-9).abs()))
        .unwrap();
    let hit = 1.0 - table.demand(*bytes).llc_mpki / 1000.0;
    assert!((hit - 0.7186).abs() < 0.03, "{hit}");
}

/// Lines of a dense array, in an order of their own each turn round it or each at random.
#[derive(Clone, Copy)]
enum Dense {
    Ring(u64),
    Random(u64),
}

/// Miss ratios of accesses to such an array and of lines that come in beside them and are never used again, `rate` for one
/// access, in a cache of stages, with the next line fetched along.
fn beside_new_lines(pattern: Dense, rate: u64, stages: u32) -> f64 {
    let mut random = Random(5);
    let (Dense::Ring(lines) | Dense::Random(lines)) = pattern;
    let mut order: Vec<u64> = (0..lines).collect();
    for place in (1..lines).rev() {
        order.swap(place as usize, random.below(place + 1) as usize);
    }
    let mut cache = Staged::new(stages);
    let (mut used, mut missed) = (0, 0);
    let total = 60 * lines;
    for turn in 0..total {
        let line = match pattern {
            Dense::Ring(lines) => order[(turn % lines) as usize],
            Dense::Random(lines) => random.below(lines),
        };
        let is_hit = cache.access(line, &mut random);
        cache.access((line + 1) % lines, &mut random);
        for new in 0..rate {
            cache.access(1 << 40 | (turn * rate + new), &mut random);
        }
        if turn >= total / 3 {
            used += 1;
            missed += u32::from(!is_hit);
        }
    }
    f64::from(missed) / f64::from(used)
}

#[test]
fn next_lines_that_come_along_keep_an_array_in_the_cache() {
    const STAGES: u32 = 3;
    let capacity = CACHE_LINES as f64 * LINE;
    let plain = resisting(capacity, STAGES, 1.0 / f64::from(STAGES));
    let (mut errors, mut without) = (0.0, 0.0);
    let mut count = 0.0;
    for lines in [200, 500, 900] {
        for rate in [1_u64, 2, 4, 8] {
            for pattern in [Dense::Ring(lines), Dense::Random(lines)] {
                let truth = beside_new_lines(pattern, rate, STAGES);
                let bytes = lines as f64 * LINE;
                let by = |site: &Site| {
                    let table = match pattern {
                        Dense::Ring(_) => looping(bytes, 0.0, site),
                        Dense::Random(_) => uniform(bytes, 1.0, site),
                    };
                    let new = [(0.0, 1000.0), (64.0 * capacity, 1000.0)];
                    let new = steady(&new, 1.0 / rate as f64, site);
                    let held = held(capacity, &[&table, &new]);
                    table.demand(held[0]).llc_mpki / 1000.0
                };
                errors += (by(&with_next_line(&plain, 1.0)) - truth).abs();
                without += (by(&plain) - truth).abs();
                count += 1.0;
            }
        }
    }
    let [here, without] = [errors, without].map(|error| error / count);
    println!(
        "mean error of the miss ratio: {:.2} %, without next lines {:.2} %",
        here * 100.0,
        without * 100.0
    );
    assert!(here < 0.03, "{here}");
    assert!(without > 3.0 * here, "{without}");
}
