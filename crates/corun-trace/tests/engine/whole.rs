//! Runs of which the engine sees all.

use corun_profile::EngineKind;
use corun_trace::block::{Block, Exit};
use corun_trace::engine::{Engine, EngineOptions, Histogram, Thread};
use corun_trace::event::TraceEvent;
use proptest::prelude::*;

/// Misses of an LRU cache of each size, by a plain list.
fn brute_misses(lines: &[u64], sizes: &[u64]) -> Vec<u64> {
    let mut stack: Vec<u64> = Vec::new();
    let mut misses = vec![0; sizes.len()];
    for &line in lines {
        let depth = stack.iter().position(|&other| other == line);
        if let Some(at) = depth {
            stack.remove(at);
        }
        stack.insert(0, line);
        for (count, &size) in misses.iter_mut().zip(sizes) {
            *count += u64::from(depth.is_none_or(|at| at as u64 >= size));
        }
    }
    misses
}

/// What misses in a cache of any size.
fn first_accesses(histogram: &Histogram) -> u64 {
    histogram.misses().last().map_or(0, |point| point.1)
}

fn fixed_size(lines: usize) -> EngineOptions {
    EngineOptions { lines, ..EngineOptions::default() }
}

/// Loads from these lines, of no block of code.
fn run(options: EngineOptions, lines: impl IntoIterator<Item = u64>) -> Engine {
    let mut engine = Engine::new(options, None);
    let loads = lines.into_iter().map(|line| TraceEvent::data(8 * line, 0, false));
    engine.process(&mut Thread::new(), &loads.collect::<Vec<_>>());
    engine
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn equals_a_brute_force_stack(
        jumps in prop::collection::vec((0u64..4, 0u64..1500), 1..6000)
    ) {
        // Stretches near the last line, and jumps anywhere.
        let mut last = 0;
        let lines: Vec<u64> = jumps.iter().map(|&(kind, line)| {
            last = if kind == 0 { line } else { (last + line % 9) % 1500 };
            last
        }).collect();
        let points = run(fixed_size(4096), lines.iter().copied()).figures().histogram.misses();
        let (sizes, misses): (Vec<u64>, Vec<u64>) = points.into_iter().unzip();
        prop_assert_eq!(misses, brute_misses(&lines, &sizes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_exact_engine_knows_every_position(
        lines in prop::collection::vec((0u64..1500, any::<bool>()), 1..6000)
    ) {
        // Half of the accesses go to a tenth of the lines.
        let lines: Vec<u64> =
            lines.iter().map(|&(line, near)| if near { line / 10 } else { line }).collect();
        let exact = EngineOptions { kind: EngineKind::Exact, ..EngineOptions::default() };
        let points = run(exact, lines.iter().copied()).figures().histogram.misses();
        let sizes: Vec<u64> = (16..1600).collect();
        // Between two points the misses do not change.
        let read = |size: u64| points.iter().rfind(|point| point.0 <= size).unwrap().1;
        let found: Vec<u64> = sizes.iter().map(|&size| read(size)).collect();
        prop_assert_eq!(found, brute_misses(&lines, &sizes));
    }
}

/// Uniform accesses to `lines` lines, by a linear congruence.
fn uniform(lines: u64, count: usize, mut state: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % lines
    })
}

/// Mean and greatest absolute difference of two miss ratios over sizes.
fn differences(sampled: &Engine, exact: &Engine) -> (f64, f64) {
    let all = exact.figures().histogram.accesses() as f64;
    let ratio = |engine: &Engine, size: u64| {
        let points = engine.figures().histogram.misses();
        points.iter().take_while(|point| point.0 <= size).last().map_or(0, |point| point.1) as f64
            / all
    };
    let sizes: Vec<u64> = (5..20).flat_map(|bit| [1 << bit, 3 << (bit - 1)]).collect();
    let found: Vec<f64> =
        sizes.iter().map(|&size| (ratio(sampled, size) - ratio(exact, size)).abs()).collect();
    (found.iter().sum::<f64>() / found.len() as f64, found.iter().copied().fold(0.0, f64::max))
}

#[test]
fn sampled_is_close_to_exact() {
    let mixes: [Vec<u64>; 3] = [
        uniform(100_000, 600_000, 1).collect(),
        // A loop over 60,000 lines beside a hot set of 1000.
        uniform(1000, 600_000, 2)
            .enumerate()
            .map(|(at, hot)| if at % 2 == 0 { hot } else { 1_000_000 + at as u64 / 2 % 60_000 })
            .collect(),
        // The smaller of two draws: a skewed popularity.
        uniform(80_000, 400_000, 3)
            .zip(uniform(80_000, 400_000, 4))
            .map(|(a, b)| a.min(b))
            .collect(),
    ];
    for (at, lines) in mixes.iter().enumerate() {
        let exact = run(fixed_size(1 << 18), lines.iter().copied());
        let sampled = run(fixed_size(4096), lines.iter().copied());
        assert!(exact.sampling_rate() == 1.0 && sampled.sampling_rate() < 0.1);
        let (mean, most) = differences(&sampled, &exact);
        println!("mix {at}: rate {}, mean {mean:.5}, most {most:.5}", sampled.sampling_rate());
        assert!(mean < 0.01 && most < 0.05, "mix {at}: mean {mean}, most {most}");
        let footprint = first_accesses(&sampled.figures().histogram) as f64
            / first_accesses(&exact.figures().histogram) as f64;
        assert!((footprint - 1.0).abs() < 0.05, "mix {at}: {footprint}");
    }
}

/// A program of one block in a loop: one load that walks `lines` lines, four instructions.
fn walk(engine: &mut Engine, lines: u64, steps: u64, store: bool) -> Thread {
    let mut block = Block::undecoded(0x1000, 0x100c, 0x1010, 4);
    block.exit = Exit::Conditional;
    block.branches = 1;
    let id = engine.add_block(block);
    let mut thread = Thread::new();
    for step in 0..steps {
        let events =
            [TraceEvent::block(id), TraceEvent::data(8 * ((1 << 20) + step % lines), 1, store)];
        engine.process(&mut thread, &events);
    }
    thread
}

#[test]
fn a_walk_counts_as_it_should() {
    let mut engine = Engine::new(fixed_size(10_000), None);
    walk(&mut engine, 8192, 40_960, true);
    let counters = engine.figures().counters;
    assert_eq!(counters.instructions, 4 * 40_960);
    assert_eq!((counters.loads, counters.stores, counters.branches), (0, 40_960, 40_960));
    assert!(engine.figures().mispredicted().iter().all(|&wrong| wrong < 20));
    let observed = engine.figures().observed;
    // One miss of the 256 KiB cache a step, and the code's one line.
    assert_eq!(observed.private_misses, 40_961);
    assert!(observed.foreseen_misses > 40_900 - 8);
    // Lines written and still in the front count as written too.
    let traffic = observed.traffic;
    assert_eq!((traffic.lines, traffic.dirty), (40_961, 40_960));
    let misses = engine.figures().histogram.misses();
    let at = |size: u64| misses.iter().take_while(|one| one.0 <= size).last().unwrap().1;
    // All miss below 8192 lines, none there but the first; the code's line is never left.
    assert_eq!((at(7680), at(8192)), (40_961, 8193));
}

#[test]
fn the_instruction_limit_holds_to_a_block() {
    let mut engine = Engine::new(EngineOptions::default(), Some(10_001));
    walk(&mut engine, 10, 40_960, false);
    assert!(engine.is_full());
    assert_eq!(engine.figures().counters.instructions, 10_004);
    assert_eq!(engine.figures().counters.loads, 2501);
}

#[test]
fn a_repeated_instruction_counts_once() {
    let mut engine = Engine::new(EngineOptions::default(), None);
    let repeat = |start: u64, count: u32| Block {
        exit: Exit::Repeat,
        ..Block::undecoded(start, 0x1006, 0x1008, count)
    };
    let first = engine.add_block(repeat(0x1000, 3));
    let again = engine.add_block(repeat(0x1006, 1));
    let mut thread = Thread::new();
    let events: Vec<TraceEvent> =
        std::iter::once(first).chain([again; 9]).map(TraceEvent::block).collect();
    engine.process(&mut thread, &events);
    assert_eq!(engine.figures().counters.instructions, 3);
}

#[test]
fn two_halves_of_a_wide_access_count_once() {
    let mut engine = Engine::new(EngineOptions::default(), None);
    let id = engine.add_block(Block::undecoded(0x1000, 0x1000, 0x1004, 2));
    let mut thread = Thread::new();
    let load = |line: u64, index| TraceEvent::data(8 * line, index, false);
    let events =
        [TraceEvent::block(id), load(5, 0), load(6, 0), load(6, 1), TraceEvent::data(48, 1, true)];
    engine.process(&mut thread, &events);
    assert_eq!((engine.figures().counters.loads, engine.figures().counters.stores), (2, 1));
    assert_eq!(first_accesses(&engine.figures().histogram), 3);
}

proptest! {
    #[test]
    fn windows_add_up_to_the_whole(
        lines in prop::collection::vec((0u64..3000, 0u8..8), 1..3000),
        window in 1u64..5000,
    ) {
        let run = |window| {
            // A small stack, so that the sampling rate falls on the way.
            let mut engine = Engine::new(fixed_size(64), None).with_window(window);
            let id = engine.add_block(Block {
                branches: 1,
                exit: Exit::Conditional,
                ..Block::undecoded(0, 12, 16, 4)
            });
            let mut thread = Thread::new();
            for &(line, kind) in &lines {
                let events = [TraceEvent::block(id), TraceEvent::data(8 * line, 0, kind == 0)];
                engine.process(&mut thread, &events[..if kind == 1 { 1 } else { 2 }]);
            }
            engine
        };
        let (whole, parts) = (run(u64::MAX), run(window));
        prop_assert_eq!(whole.instructions(), 4 * lines.len() as u64);
        prop_assert_eq!(whole.figures(), parts.figures());
        prop_assert_eq!(whole.figures().histogram.misses(), parts.figures().histogram.misses());
    }
}

proptest! {
    #[test]
    fn each_thread_has_the_distances_it_would_have_alone(
        turns in prop::collection::vec((0usize..3, 0u64..2000, 1u64..400), 1..60),
        window in 1u64..3000,
    ) {
        let mut together = Engine::new(EngineOptions::default(), None).with_window(window);
        let block = Block::undecoded(0, 12, 16, 4);
        together.add_block(block.clone());
        let mut alone = [(); 3].map(|()| {
            let mut engine = Engine::new(EngineOptions::default(), None);
            engine.add_block(block.clone());
            engine
        });
        let mut threads = vec![(Thread::new(), Thread::new()); 3];
        let mut order: Vec<usize> = Vec::new();
        for &(thread, start, count) in &turns {
            // Some lines are everybody's.
            let line = |at: u64| if start < 500 { at } else { 10_000 * thread as u64 + at };
            let events: Vec<TraceEvent> = (start..start + count)
                .flat_map(|at| [TraceEvent::block(0), TraceEvent::data(8 * line(at), 0, at % 3 == 0)])
                .collect();
            let (shared, own) = &mut threads[thread];
            together.process(shared, &events);
            alone[thread].process(own, &events);
            if !order.contains(&thread) {
                order.push(thread);
            }
        }
        let several = order.len() > 1;
        prop_assert_eq!(together.threads().count(), if several { order.len() } else { 0 });
        for (found, &thread) in together.threads().zip(&order) {
            let figures = alone[thread].figures();
            prop_assert_eq!(found.instructions, figures.counters.instructions);
            let accesses = figures.counters.loads + figures.counters.stores;
            prop_assert_eq!(found.data_accesses, accesses);
            prop_assert_eq!(&found.histogram, &figures.histogram);
        }
        prop_assert_eq!(together.figures().threads.count() as usize, order.len());
    }
}

#[test]
fn a_phase_touches_its_own_bytes() {
    // Two loops over 3000 and 9000 other lines by turns of four windows, one of which also computes.
    let mut engine = Engine::new(fixed_size(512), None).with_window(100_000);
    let idle = Block::undecoded(0, 12, 16, 8);
    let busy = Block { floats: 8, ..Block::undecoded(64, 76, 80, 8) };
    let ids = [idle, busy].map(|block| engine.add_block(block));
    let mut thread = Thread::new();
    for turn in 0..8u64 {
        let (id, first, lines) = [(ids[0], 1000, 3000), (ids[1], 50_000, 9000)][turn as usize % 2];
        for at in 0..50_000 {
            let load = TraceEvent::data(8 * (first + at % lines), 0, false);
            engine.process(&mut thread, &[TraceEvent::block(id), load]);
        }
    }
    let (phases, sequence) = engine.phases();
    assert_eq!(phases.len(), 2);
    assert_eq!(sequence.iter().map(|one| one.phase).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
    for (phase, lines) in phases.iter().zip([3000.0, 9000.0]) {
        // The 512 lines of the front stay from the turn before; the sketch is exact to 1.6 %.
        let found = phase.touched.distinct_lines() as f64 - lines;
        assert!((-0.05 * lines..512.0 + 0.05 * lines).contains(&found), "{found}");
    }
}

#[test]
fn a_restart_keeps_the_blocks_alone() {
    let mut engine = Engine::new(EngineOptions::default(), None);
    walk(&mut engine, 100, 1000, false);
    engine.restart(EngineOptions::default());
    assert_eq!(engine.instructions(), 0);
    let mut thread = Thread::new();
    engine.process(&mut thread, &[TraceEvent::block(0), TraceEvent::data(40, 1, true)]);
    let figures = engine.figures();
    assert_eq!((figures.counters.instructions, figures.counters.stores), (4, 1));
    assert_eq!(first_accesses(&figures.histogram), 2);
}
