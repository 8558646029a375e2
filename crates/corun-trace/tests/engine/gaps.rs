//! Runs in which accesses to lines that are not followed go unseen for most of the time.

use corun_profile::EngineKind;
use corun_trace::block::{Block, Exit, StaticOp};
use corun_trace::engine::{Engine, EngineOptions, Observed, OwnFigures, Sieve, Thread};

/// Instructions of a block of the programs here.
const LENGTH: u32 = 20;

fn options(kind: EngineKind) -> EngineOptions {
    EngineOptions { kind, ..EngineOptions::default() }
}

/// A program of blocks with a load or store each, as threads would hand it in: `lines` says which
/// line, and whether it is stored to, of each block of thread 0, 1, 0, 1 ..
fn run(engine: Engine, threads: usize, lines: impl Iterator<Item = (u64, bool)>) -> Engine {
    run_and_look(engine, threads, lines).0
}

/// The same, and whether accesses went unseen at any time.
fn run_and_look(
    mut engine: Engine,
    threads: usize,
    lines: impl Iterator<Item = (u64, bool)>,
) -> (Engine, bool) {
    let mut has_gaps = false;
    let block = Block {
        exit: Exit::Conditional,
        branches: 1,
        loads: 1,
        ops: vec![StaticOp::default(); LENGTH as usize].into(),
        ..Block::undecoded(0x1000, 0x1030, 0x1034, LENGTH)
    };
    let id = engine.add_block(block);
    let tag = engine.tag(id);
    let mut sides: Vec<(Thread, Sieve)> =
        (0..threads).map(|_| (Thread::new(), Sieve::new(engine.pace()))).collect();
    let mut newest = 0;
    for (at, (line, store)) in lines.enumerate() {
        let (thread, sieve) = &mut sides[at % threads];
        let due = sieve.block(tag) || sieve.pace_number() < newest;
        let passed_over = sieve.passes_over(line, store);
        if due || (!passed_over && sieve.access(8 * line, 3, store)) {
            engine.take(thread, sieve);
            sieve.set_pace(engine.pace());
            has_gaps |= !sieve.takes_all();
            newest = newest.max(sieve.pace_number());
            if due && !passed_over {
                sieve.access(8 * line, 3, store);
            }
        }
    }
    for (thread, sieve) in &mut sides {
        engine.take(thread, sieve);
    }
    (engine, has_gaps)
}

/// A number that looks like chance: the generator SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Half of the accesses within 200 lines, a third within 3000, the others a loop over 60,000.
fn mixed(count: u64) -> impl Iterator<Item = (u64, bool)> {
    (0..count).map(|at| {
        let chance = mix(at);
        let line = match chance % 6 {
            0..3 => chance / 8 % 200,
            3..5 => 10_000 + chance / 8 % 3000,
            _ => 100_000 + at / 6 % 60_000,
        };
        (line, chance >> 40 & 1 == 0)
    })
}

fn miss_ratio(engine: &Engine, lines: u64) -> f64 {
    let histogram = engine.figures().histogram;
    let misses = histogram.misses();
    let at = misses.iter().rfind(|point| point.0 <= lines).unwrap().1;
    at as f64 / (engine.instructions() / u64::from(LENGTH)) as f64
}

#[test]
fn what_is_seen_stands_for_what_is_not() {
    let count = 2_000_000;
    let exact = run(Engine::new(options(EngineKind::Exact), None).with_gaps(), 1, mixed(count));
    for kind in [EngineKind::FixedRate, EngineKind::FixedSize] {
        let engine = Engine::new(options(kind), None).with_gaps();
        let (sampled, has_gaps) = run_and_look(engine, 1, mixed(count));
        assert!(has_gaps && sampled.sampling_rate() < 0.04);
        let (one, other) = (sampled.figures(), exact.figures());
        assert_eq!(one.counters, other.counters);
        for lines in [16, 100, 150, 200, 256, 500, 1000, 2000, 5000, 20_000, 80_000] {
            let difference = miss_ratio(&sampled, lines) - miss_ratio(&exact, lines);
            assert!(difference.abs() < 0.02, "{kind:?} {lines}: {difference}");
        }
        let footprint = one.touched.distinct_lines() as f64 / 63_201.0;
        assert!((footprint - 1.0).abs() < 0.05, "{footprint}");
        let dirty = |of: &Observed| of.traffic.dirty as f64 / of.traffic.lines as f64;
        assert!((dirty(&one.observed) / dirty(&other.observed) - 1.0).abs() < 0.1);
    }
}

#[test]
fn a_short_run_is_exact() {
    let exact = run(Engine::new(options(EngineKind::Exact), None), 1, mixed(200_000));
    let rate =
        run(Engine::new(options(EngineKind::FixedRate), None).with_gaps(), 1, mixed(200_000));
    for lines in [16, 100, 200, 500, 512] {
        assert_eq!(miss_ratio(&rate, lines), miss_ratio(&exact, lines));
    }
    // Behind the front it knows buckets.
    for lines in [1024, 2048, 32_768] {
        assert!((miss_ratio(&rate, lines) - miss_ratio(&exact, lines)).abs() < 1e-3);
    }
}

#[test]
fn a_small_footprint_stays_exact_however_long() {
    let lines = || (0..1_000_000).map(|at| (10_000 + at % 6000, false));
    let size = run(Engine::new(options(EngineKind::FixedSize), None).with_gaps(), 1, lines());
    assert_eq!(size.sampling_rate(), 1.0);
    // The first round finds its lines where the kernel has just cleared them; the code is cold.
    assert_eq!((miss_ratio(&size, 5900), miss_ratio(&size, 6144)), (0.994_001, 1.0 / 1e6));
}

#[test]
fn threads_are_sampled_together_and_each_for_itself() {
    // One walks 30,000 lines, the other 1000.
    let lines = || {
        (0..3_000_000u64).map(|at| {
            if at % 2 == 0 { (at / 2 % 30_000, false) } else { (100_000 + at / 2 % 1000, true) }
        })
    };
    let sampled = run(Engine::new(options(EngineKind::FixedRate), None).with_gaps(), 2, lines());
    assert_eq!(sampled.instructions(), 3_000_000 * u64::from(LENGTH));
    let own: Vec<&OwnFigures> = sampled.threads().collect();
    assert_eq!(own.len(), 2);
    let ratio = |own: &OwnFigures, lines: u64| {
        let misses = own.histogram.misses();
        let at = misses.iter().rfind(|point| point.0 <= lines).unwrap().1;
        at as f64 / 1_500_000.0
    };
    for (own, lines) in own.iter().zip([30_000, 1000]) {
        assert_eq!(own.data_accesses, 1_500_000);
        assert!((ratio(own, lines * 9 / 10) - 1.0).abs() < 0.03, "{}", ratio(own, lines * 9 / 10));
        assert!(ratio(own, lines * 11 / 10) < 0.05, "{}", ratio(own, lines * 11 / 10));
    }
}

#[test]
fn small_windows_leave_no_gaps() {
    let small = Engine::new(options(EngineKind::FixedRate), None).with_window(1_000_000);
    assert!(!run_and_look(small.with_gaps(), 1, mixed(600_000)).1);
}
