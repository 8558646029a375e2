//! Pages that the kernel clears for the program.

use corun_profile::EngineKind;
use corun_trace::block::{Block, Exit, StaticOp};
use corun_trace::engine::{
    BlockTag, Counters, Engine, EngineOptions, Figures, Histogram, KernelWork, Sieve, Thread,
};
use corun_trace::event::LINE_BYTES;
use proptest::prelude::*;

const PAGE_BYTES: u64 = 4096;
const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// Instructions of the one block of the programs here, each of which makes one access.
const LENGTH: u32 = 20;
/// A page of data, and the line of code that stays on top of the stack beside it.
const FIRST_PAGE: u64 = 1000;
const CODE_LINES: u64 = 1;

struct Program {
    engine: Engine,
    thread: Thread,
    sieve: Sieve,
    tag: BlockTag,
}

impl Program {
    fn new(kind: EngineKind) -> Self {
        Self::with_options(EngineOptions { kind, ..EngineOptions::default() })
    }

    fn with_options(options: EngineOptions) -> Self {
        let mut engine = Engine::new(options, None).with_gaps();
        let block = Block {
            exit: Exit::Conditional,
            branches: 1,
            stores: 1,
            ops: vec![StaticOp::default(); LENGTH as usize].into(),
            ..Block::undecoded(0x1000, 0x1030, 0x1034, LENGTH)
        };
        let id = engine.add_block(block);
        let (tag, sieve) = (engine.tag(id), Sieve::new(engine.pace()));
        Self { engine, thread: Thread::new(), sieve, tag }
    }

    fn hand_in(&mut self) {
        self.engine.take(&mut self.thread, &self.sieve);
        self.sieve.set_pace(self.engine.pace());
    }

    /// Stores to this line of the program's data.
    fn store(&mut self, line: u64) {
        let line = FIRST_PAGE * PAGE_LINES + line;
        if self.sieve.block(self.tag) {
            self.hand_in();
        }
        if !self.sieve.passes_over(line, true) && self.sieve.access(8 * line, 3, true) {
            self.hand_in();
        }
    }

    /// As the system call does: what was touched before comes before.
    fn change_memory(&mut self, change: impl FnOnce(&mut Engine)) {
        self.hand_in();
        change(&mut self.engine);
        self.sieve.forget_pages();
    }

    fn figures(&mut self) -> Figures {
        self.hand_in();
        self.engine.figures()
    }
}

/// Misses in a cache of so many lines.
fn misses(histogram: &Histogram, lines: u64) -> u64 {
    histogram.misses().iter().rfind(|point| point.0 <= lines).map_or(0, |point| point.1)
}

/// Line 0 of each page in turn, then line 1 of each, and so on.
fn by_columns(program: &mut Program, pages: u64) {
    for line in 0..PAGE_LINES {
        (0..pages).for_each(|page| program.store(page * PAGE_LINES + line));
    }
}

/// How deep the accesses of [`by_columns`] lie, by hand. The first touch of a page finds line 0 below the
/// 63 others that were cleared after it. When all pages are there, line `at` of the first page has all
/// other lines of the data above it, as it is the oldest; of page `k`, all but those of the `k` pages
/// before that were not touched since, which are `64 - at` of each.
fn depths(pages: u64) -> impl Iterator<Item = u64> {
    let later = move |at| (0..pages).map(move |k| pages * PAGE_LINES - 1 - k * (PAGE_LINES - at));
    std::iter::repeat_n(PAGE_LINES - 1, pages as usize).chain((1..PAGE_LINES).flat_map(later))
}

#[test]
fn a_line_lies_as_deep_as_the_lines_cleared_and_touched_since() {
    let pages = 4;
    let mut program = Program::new(EngineKind::Exact);
    by_columns(&mut program, pages);
    let figures = program.figures();
    assert_eq!(figures.counters.page_faults, pages + 1, "the pages and the code");
    for size in 16..300 {
        // The code's line is the one that nobody wrote before.
        let expected = CODE_LINES + depths(pages).filter(|&depth| depth >= size).count() as u64;
        assert_eq!(misses(&figures.histogram, size), expected, "{size} lines");
    }
    assert_eq!(misses(&figures.cleared, 1 << 20), pages * PAGE_LINES);
}

/// The same of a working set that is larger than the front of the stack, by every engine, in caches
/// below it and above it.
#[test]
fn below_and_above_a_cache_by_every_engine() {
    let pages = 100;
    for kind in [EngineKind::Exact, EngineKind::FixedSize, EngineKind::FixedRate] {
        let mut program = Program::new(kind);
        by_columns(&mut program, pages);
        let figures = program.figures();
        // Where buckets of the engines end that do not know every position.
        for lines in [64, 512, 1024, 5760, 6400, 6464] {
            let expected = depths(pages).filter(|&depth| depth >= lines).count() as u64;
            let found = misses(&figures.histogram, lines);
            assert_eq!(found, CODE_LINES + expected, "{kind:?}, {lines} lines");
        }
        let all = pages * PAGE_LINES;
        let cleared = misses(&figures.cleared, 1 << 20) as f64 / all as f64;
        let exact = if kind == EngineKind::FixedRate { 0.05 } else { 0.0 };
        assert!((cleared - 1.0).abs() <= exact, "{kind:?}: {cleared}");
        let footprint = figures.touched.distinct_lines() as f64 / (all + CODE_LINES) as f64;
        assert!((footprint - 1.0).abs() < 0.05, "{kind:?}: {footprint}");
    }
}

/// The depths of a plain list, program's and kernel's.
#[derive(Default)]
struct List {
    lines: Vec<u64>,
    pages: Vec<u64>,
    program: Vec<usize>,
    kernel: Vec<usize>,
}

impl List {
    fn top(&mut self, line: u64) -> usize {
        let depth = self.lines.iter().rev().position(|&one| one == line);
        if let Some(depth) = depth {
            self.lines.remove(self.lines.len() - 1 - depth);
        }
        self.lines.push(line);
        depth.unwrap_or(usize::MAX)
    }

    fn access(&mut self, line: u64) {
        let page = line / PAGE_LINES;
        if !self.pages.contains(&page) {
            self.pages.push(page);
            for line in page * PAGE_LINES..(page + 1) * PAGE_LINES {
                let depth = self.top(line);
                self.kernel.push(depth);
            }
        }
        let depth = self.top(line);
        self.program.push(depth);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn equals_a_plain_list(
        // A jump to a line and a walk from there; at times pages are given back.
        walks in prop::collection::vec((0u64..40 * PAGE_LINES, 1u64..90, 0u8..6), 1..120)
    ) {
        let (mut program, mut list) = (Program::new(EngineKind::Exact), List::default());
        // The code.
        list.top(u64::MAX);
        list.program.push(usize::MAX);
        for (start, count, kind) in walks {
            if kind == 0 {
                let pages = start / PAGE_LINES..start / PAGE_LINES + 3;
                let [begin, end] =
                    [pages.start, pages.end].map(|page| (FIRST_PAGE + page) * PAGE_BYTES);
                program.change_memory(|engine| engine.memory_given_back(begin, end));
                list.pages.retain(|page| !pages.contains(page));
            }
            for line in start..start + count {
                program.store(line);
                list.access(line);
            }
        }
        let figures = program.figures();
        let least = |depths: &[usize], size: u64| {
            depths.iter().filter(|&&depth| depth as u64 >= size).count() as u64
        };
        for size in (16..3000).step_by(7) {
            prop_assert_eq!(misses(&figures.histogram, size), least(&list.program, size));
        }
        for size in [512, 1024, 1504, 2048, 2560] {
            prop_assert_eq!(misses(&figures.cleared, size), least(&list.kernel, size));
        }
    }
}

/// A line of each page is touched, so often that most of the run goes unseen, and the others are
/// cleared all the same.
#[test]
fn sampled_runs_see_pages_cleared_at_all_times() {
    let pages = 20_000;
    let run = |kind| {
        let mut program = Program::new(kind);
        for page in 0..pages {
            // Two lines of each page when it is new, and eight of that which was new 1000 pages before.
            program.store(page * PAGE_LINES);
            program.store(page * PAGE_LINES + 40);
            let before = page.saturating_sub(1000) * PAGE_LINES;
            (0..8).for_each(|at| program.store(before + 20 + at));
            (0..20).for_each(|at| program.store(pages * PAGE_LINES + at));
        }
        (program.figures(), program.engine.sampling_rate())
    };
    let (exact, _) = run(EngineKind::Exact);
    let all = misses(&exact.cleared, 1 << 20) as f64;
    assert_eq!(all, ((pages + 1) * PAGE_LINES) as f64);
    // 1000 pages of 64 lines, and 8 lines each of up to 1000 older ones.
    let deep = 8 * (pages - 1001);
    assert_eq!(misses(&exact.histogram, 64_000), deep + CODE_LINES);
    assert_eq!(misses(&exact.histogram, 75_000), CODE_LINES);
    for kind in [EngineKind::FixedRate, EngineKind::FixedSize] {
        let (sampled, rate) = run(kind);
        assert!(rate < 0.04, "{kind:?}: {rate}");
        assert_eq!(sampled.counters, exact.counters, "{kind:?}");
        let cleared = misses(&sampled.cleared, 1 << 20) as f64 / all;
        assert!((cleared - 1.0).abs() < 0.02, "{kind:?}: {cleared}");
        let accesses = 30.0 * pages as f64;
        for lines in [100, 1000, 30_000, 55_000, 85_000, 100_000] {
            let [one, other] =
                [&sampled, &exact].map(|one| misses(&one.histogram, lines) as f64 / accesses);
            assert!((one - other).abs() < 0.01, "{kind:?}, {lines} lines: {one}, not {other}");
        }
        let footprint = sampled.touched.distinct_lines() as f64 / all;
        assert!((footprint - 1.0).abs() < 0.05, "{kind:?}: {footprint}");
    }
}

/// What was given back is cleared again, where it lies in the caches.
#[test]
fn what_is_given_back_is_cleared_again() {
    let pages = 4;
    let mut program = Program::new(EngineKind::Exact);
    let range = (FIRST_PAGE * PAGE_BYTES, (FIRST_PAGE + pages) * PAGE_BYTES);
    by_columns(&mut program, pages);
    program.change_memory(|engine| engine.memory_discarded(range.0, range.1));
    by_columns(&mut program, pages);
    program.change_memory(|engine| engine.memory_given_back(range.0, range.1));
    by_columns(&mut program, pages);
    let figures = program.figures();
    assert_eq!(figures.counters.page_faults, 3 * pages + 1);
    let lines = pages * PAGE_LINES;
    // The kernel finds the lines of the second and third time where they were left.
    assert_eq!(misses(&figures.cleared, lines.next_multiple_of(64)), lines);
    assert_eq!(misses(&figures.histogram, lines + CODE_LINES), CODE_LINES);
    // A file's pages come from elsewhere, and those that moved keep what they hold.
    let [file, moved] = [10_000, 20_000].map(|page| (FIRST_PAGE + page) * PAGE_BYTES);
    program.change_memory(|engine| {
        engine.file_mapped(file, file + PAGE_BYTES);
        engine.memory_moved(range.0, range.1, moved);
    });
    program.store(10_000 * PAGE_LINES);
    program.store(20_000 * PAGE_LINES);
    let figures = program.figures();
    assert_eq!(figures.counters.page_faults, 3 * pages + 2);
    assert_eq!(misses(&figures.cleared, 1 << 20), lines);
    assert_eq!(misses(&figures.histogram, 1 << 20), CODE_LINES + 2);
}

/// A store to a cleared line that is still near adds nothing to what is written back: the kernel's
/// clearing, which counts by itself, has written it already.
#[test]
fn cleared_lines_are_written_back_once() {
    let mut program = Program::new(EngineKind::Exact);
    (0..2000).for_each(|line| program.store(line));
    let figures = program.figures();
    // The code is all that the program's private cache brought in; pages end behind line 2047.
    assert_eq!(figures.observed.traffic.lines, CODE_LINES);
    assert_eq!(figures.observed.private_misses, CODE_LINES);
    assert_eq!(misses(&figures.cleared, 1 << 20), 2048);
}

const WORK: KernelWork = KernelWork {
    light_calls: 1,
    mapping_calls: 2,
    sleeping_calls: 4,
    other_calls: 8,
    other_transferred_bytes: 100,
    file_written_bytes: 20,
};

#[test]
fn system_calls_are_of_all_kinds_together() {
    let mut program = Program::new(EngineKind::Exact);
    program.store(0);
    program.engine.add_kernel_work(&WORK);
    program.engine.add_kernel_work(&KernelWork { sleeping_calls: 1, ..KernelWork::default() });
    let counters = program.figures().counters;
    assert_eq!((counters.system_calls, counters.transferred_bytes), (16, 120));
    assert_eq!(counters.file_written_bytes, 20);
    let kinds = (counters.light_calls, counters.mapping_calls, counters.sleeping_calls);
    assert_eq!(kinds, (1, 2, 5));
}

#[test]
fn without_the_kernel_nothing_is_cleared_and_no_fault_counted() {
    let kind = EngineKind::Exact;
    let mut program =
        Program::with_options(EngineOptions { kind, kernel: false, ..EngineOptions::default() });
    by_columns(&mut program, 4);
    program.engine.add_kernel_work(&WORK);
    let figures = program.figures();
    assert_eq!(misses(&figures.cleared, 1), 0);
    let Counters { system_calls, light_calls, transferred_bytes, .. } = figures.counters;
    assert_eq!((system_calls, light_calls, transferred_bytes), (0, 0, 0));
    assert_eq!((figures.counters.mapping_calls, figures.counters.sleeping_calls), (0, 0));
    assert_eq!(figures.counters.file_written_bytes, 0);
    assert_eq!((figures.counters.page_faults, figures.counters.file_faults), (0, 0));
    // Each line is a miss of the program's own, the first of its page too.
    let cold = misses(&figures.histogram, 1 << 20);
    assert_eq!(cold, 4 * PAGE_LINES + CODE_LINES);
}
