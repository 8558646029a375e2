use std::convert::Infallible;

use corun_trace::trace_file::{Access, AccessKind};
use proptest::prelude::*;

use super::*;
use crate::geometry::{Geometry, Indexing, Replacement};

/// Lines touched one an instruction, again and again.
struct Lines {
    lines: Vec<u64>,
    at: usize,
    left: u64,
}

impl Lines {
    fn new(lines: impl IntoIterator<Item = u64>) -> Self {
        Self { lines: lines.into_iter().collect(), at: 0, left: 0 }
    }
}

impl AccessSource for Lines {
    type Error = Infallible;

    fn next_access(&mut self) -> Result<Option<Access>, Infallible> {
        self.at += 1;
        let line = self.lines.get(self.at - 1);
        Ok(line.map(|&line| Access { line, gap: 1, kind: AccessKind::Load }))
    }

    fn instructions_left(&self) -> u64 {
        self.left
    }

    fn restart(&mut self) -> Result<(), Infallible> {
        self.at = 0;
        Ok(())
    }
}

fn program(lines: impl IntoIterator<Item = u64>, ns: f64) -> ReplayedProgram<Lines> {
    let source = Lines::new(lines);
    ReplayedProgram { source, ns_per_instruction: ns, mask: None, private: Vec::new() }
}

fn shape(lines: u64, ways: Option<u32>) -> CacheConfig {
    let geometry = Geometry { bytes: lines * 64, line_bytes: 64, ways };
    CacheConfig { geometry, replacement: Replacement::Lru, indexing: Indexing::Modulo }
}

fn setup(lines: u64) -> ReplaySetup {
    ReplaySetup {
        shared: shape(lines, None),
        memory: MemoryTiming { latency_ns: 10.0, service_ns: 0.0 },
        until: Until::Longest,
        warm_up: 0,
        same_process: false,
    }
}

#[test]
fn one_program_by_hand() {
    // 1 2 1 3 in two lines: only the third access hits. Four instructions of 1 ns, two more behind
    // the last access, three misses of 10 ns.
    let mut alone = program([1, 2, 1, 3], 1.0);
    alone.source.left = 2;
    let figures = replay(&setup(2), vec![alone]).unwrap()[0];
    assert_eq!((figures.accesses, figures.misses, figures.hits()), (4, 3, 1));
    assert_eq!((figures.instructions, figures.passes, figures.evictions), (6, 1, 1));
    assert_eq!((figures.ns, figures.mpki(), figures.miss_ratio()), (36.0, 500.0, 0.75));
    // Misses at 1, 12 and 24 ns, hit at 23: one line from 1 to 12, two until the last access at 24.
    let held = (11.0 + 2.0 * 12.0) / 24.0 * 64.0;
    assert!((figures.mean_occupancy_bytes - held).abs() < 1e-9);
}

#[test]
fn two_programs_take_turns_by_their_own_rates() {
    // No misses cost anything, so A touches a line at 1, 2, 3 .. and B at 3, 6: in between A has
    // swept through three of the four lines. B's 7 is still there at its second touch, A's 1 2 3 4
    // never.
    let mut setup = setup(4);
    setup.memory.latency_ns = 0.0;
    let figures = replay(&setup, vec![program([1, 2, 3, 4], 1.0), program([7, 7], 3.0)]).unwrap();
    assert_eq!((figures[1].accesses, figures[1].misses), (2, 1));
    // A is through at 4 ns and B at 6: figures are of A's one whole pass.
    assert_eq!((figures[0].passes, figures[0].accesses, figures[0].misses), (1, 4, 4));
    assert_eq!(figures[0].ns, 4.0);
}

#[test]
fn a_tie_goes_to_the_first() {
    // At 1 ns both touch; one line: at 2 ns A's is gone, since B came after it.
    let mut setup = setup(1);
    setup.memory.latency_ns = 0.0;
    let both = vec![program([1, 1], 1.0), program([2], 1.0)];
    let figures = replay(&setup, both).unwrap();
    assert_eq!((figures[0].misses, figures[0].evictions), (2, 1));
}

#[test]
fn a_new_process_finds_nothing_and_the_same_finds_its_lines() {
    let mut setup = setup(8);
    setup.warm_up = 1;
    let run = |setup: &ReplaySetup| replay(setup, vec![program([1, 2, 3], 1.0)]).unwrap()[0];
    assert_eq!((run(&setup).misses, run(&setup).accesses), (3, 3));
    setup.same_process = true;
    assert_eq!((run(&setup).misses, run(&setup).accesses), (0, 3));
}

#[test]
fn the_first_to_end_can_end_it() {
    let mut setup = setup(8);
    setup.until = Until::First;
    let figures = replay(&setup, vec![program([1], 1.0), program([1, 2, 3], 5.0)]).unwrap();
    assert_eq!((figures[0].passes, figures[1].passes), (1, 0));
    assert_eq!(figures[1].misses, 0);
}

#[test]
fn a_queue_makes_streams_wait() {
    // Two streams, a miss an instruction. The controller takes 10 ns a line, so that together they
    // get a line every 10 ns: 20 ns a miss instead of 10 + 1.
    let mut setup = setup(16);
    setup.memory = MemoryTiming { latency_ns: 10.0, service_ns: 10.0 };
    let stream = || program(0..1000, 1.0);
    let together = replay(&setup, vec![stream(), stream()]).unwrap();
    for figures in together {
        assert!((figures.ns_per_instruction() - 20.0).abs() < 0.1, "{figures:?}");
    }
    let alone = replay(&setup, vec![stream()]).unwrap()[0];
    assert!((alone.ns_per_instruction() - 11.0).abs() < 1e-9);
}

#[test]
fn private_caches_keep_accesses_from_the_shared_one() {
    let mut one = program([1, 2, 1, 2, 3, 1], 1.0);
    // Two lines, then four: 1 2 come in, hit twice, 3 displaces 1 in the first, the second has it.
    one.private = vec![shape(2, Some(2)), shape(4, Some(4))];
    let figures = replay(&setup(8), vec![one]).unwrap()[0];
    assert_eq!((figures.accesses, figures.shared_accesses, figures.misses), (6, 3, 3));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |setup: &ReplaySetup, programs| replay(setup, programs).unwrap_err();
    let one = || vec![program([1], 1.0)];
    assert!(matches!(refused(&setup(4), Vec::new()), ReplayError::Programs { found: 0 }));
    assert!(matches!(refused(&setup(4), vec![program([], 1.0)]), ReplayError::Empty { .. }));
    let masked = || vec![ReplayedProgram { mask: Some(0b10000), ..program([1], 1.0) }];
    let mut with_ways = setup(4);
    with_ways.shared = shape(4, Some(4));
    assert!(matches!(refused(&with_ways, masked()), ReplayError::Geometry(_)));
    assert!(matches!(refused(&setup(4), vec![program([1], -1.0)]), ReplayError::Time { .. }));
    let mut slow = setup(4);
    slow.memory.latency_ns = f64::NAN;
    assert!(matches!(refused(&slow, one()), ReplayError::Time { .. }));
    let mut long = program([1], 1e6);
    long.source.left = 1 << 50;
    assert!(matches!(refused(&setup(4), vec![long]), ReplayError::TooLong { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn nothing_is_lost_and_company_never_helps(
        first in prop::collection::vec(0u64..40, 1..200),
        second in prop::collection::vec(0u64..40, 1..200),
        lines in 1u64..64,
        ns in 0.2..4.0f64,
    ) {
        let alone = replay(&setup(lines), vec![program(first.clone(), 1.0)]).unwrap()[0];
        let both = || vec![program(first.clone(), 1.0), program(second.clone(), ns)];
        let together = replay(&setup(lines), both()).unwrap();
        prop_assert_eq!(&together, &replay(&setup(lines), both()).unwrap());
        let beside = together[0];
        // LRU over all: another's lines only push one's own deeper.
        prop_assert!(beside.misses * alone.accesses >= alone.misses * beside.accesses);
        prop_assert_eq!(beside.accesses, first.len() as u64 * beside.passes);
        let held: f64 = together.iter().map(|one| one.mean_occupancy_bytes).sum();
        prop_assert!(held <= lines as f64 * 64.0 * 1.5 + 1e-6);
    }
}
