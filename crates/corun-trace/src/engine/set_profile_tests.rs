use proptest::prelude::*;

use super::*;
use crate::block::Exit;
use crate::engine::{Engine, EngineOptions, Thread};

fn shape(text: &str) -> CacheShape {
    text.parse().unwrap()
}

fn caches(private: &[&str], llcs: &[&str]) -> SetCaches {
    let shapes = |texts: &[&str]| texts.iter().map(|text| shape(text)).collect();
    SetCaches { private: shapes(private), llcs: shapes(llcs) }
}

/// A block of one instruction on this line.
fn block(line: u64) -> Block {
    let start = line * LINE_BYTES;
    Block { exit: Exit::Direct, ..Block::undecoded(start, start, start + 4, 1) }
}

/// What a program does: a line of data, or (true) of code.
type Access = (u64, bool);

/// Feeds accesses in batches of seven events.
fn profiled(caches: &SetCaches, accesses: &[Access]) -> SetProfiles {
    let most = accesses.iter().map(|access| access.0).max().unwrap_or(0);
    let blocks: Vec<Block> = (0..=most).map(block).collect();
    let events: Vec<TraceEvent> = accesses
        .iter()
        .map(|&(line, code)| {
            if code {
                TraceEvent::block(line as u32)
            } else {
                TraceEvent::data(8 * line, 0, line % 3 == 0)
            }
        })
        .collect();
    let (mut profiles, mut private) = (SetProfiles::new(caches, true), None);
    for batch in events.chunks(7) {
        profiles.process(&mut private, &blocks, batch);
    }
    profiles
}

/// A cache as plain lists, one a set: the LRU position found.
struct BruteCache {
    ways: usize,
    sets: Vec<Vec<u64>>,
}

impl BruteCache {
    fn new(shape: CacheShape) -> Self {
        Self { ways: shape.ways as usize, sets: vec![Vec::new(); shape.sets() as usize] }
    }

    fn access(&mut self, line: u64) -> Option<usize> {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        let found = set.iter().position(|&one| one == line);
        if let Some(at) = found {
            set.remove(at);
        }
        set.insert(0, line);
        set.truncate(self.ways);
        found
    }
}

/// The lines that miss the private caches, by plain lists.
fn filtered(private: &[CacheShape], accesses: &[Access]) -> Vec<u64> {
    let all = || private.iter().map(|&shape| BruteCache::new(shape)).collect::<Vec<_>>();
    let (mut shared, mut code_level) = (all(), all());
    let mut last_code = None;
    let mut reached = Vec::new();
    for &(line, code) in accesses {
        if code && last_code.replace(line) == Some(line) {
            continue;
        }
        let mut hit = false;
        for level in 0..private.len() {
            let caches = if code && level == 0 { &mut code_level } else { &mut shared };
            hit = caches[level].access(line).is_some();
            if hit {
                break;
            }
        }
        if !hit {
            reached.push(line);
        }
    }
    reached
}

fn brute(llc: CacheShape, reached: &[u64]) -> (Vec<u64>, u64) {
    let mut cache = BruteCache::new(llc);
    let (mut hits, mut misses) = (vec![0; llc.ways as usize], 0);
    for &line in reached {
        match cache.access(line) {
            Some(position) => hits[position] += 1,
            None => misses += 1,
        }
    }
    (hits, misses)
}

fn stretches() -> impl Strategy<Value = Vec<Access>> {
    let steps = prop::collection::vec((0u64..5, 0u64..400, prop::bool::weighted(0.2)), 1..3000);
    steps.prop_map(|steps| {
        let mut last = 0;
        let mut line = |(kind, at, code): (u64, u64, bool)| {
            last = if kind == 0 { at } else { (last + at % 5) % 400 };
            (last, code)
        };
        steps.into_iter().map(&mut line).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn equals_brute_force_lists(
        accesses in stretches(),
        // Sets and ways of up to three private levels, and of two LLCs; sets of any number.
        private in prop::collection::vec((1u64..9, 1u32..4), 0..3),
        llcs in prop::collection::vec((1u64..40, 1u32..9), 1..3),
    ) {
        let shapes = |sizes: &[(u64, u32)]| -> Vec<CacheShape> {
            let one = |&(sets, ways): &(u64, u32)| {
                CacheShape::new(sets * u64::from(ways) * LINE_BYTES, ways).unwrap()
            };
            sizes.iter().map(one).collect()
        };
        let caches = SetCaches { private: shapes(&private), llcs: shapes(&llcs) };
        let profiles = profiled(&caches, &accesses);
        let reached = filtered(&caches.private, &accesses);
        for llc in &profiles.llcs {
            let (hits, misses) = brute(llc.shape, &reached);
            prop_assert_eq!(&llc.hits, &hits);
            prop_assert_eq!(llc.misses, misses);
            prop_assert_eq!(hits.iter().sum::<u64>() + misses, reached.len() as u64);
        }
    }

    #[test]
    fn one_set_is_the_fully_associative_stack(accesses in stretches()) {
        let caches = caches(&["512/2", "2048/4"], &["65536/1024"]);
        let profiles = profiled(&caches, &accesses);
        let llc = &profiles.llcs[0];
        let mut engine = Engine::new(EngineOptions::default(), None);
        let reached = filtered(&caches.private, &accesses);
        let events: Vec<TraceEvent> =
            reached.iter().map(|&line| TraceEvent::data(8 * line, 0, false)).collect();
        engine.process(&mut Thread::new(), &events);
        for (lines, misses) in engine.figures().histogram.misses() {
            let beyond: u64 = llc.hits.iter().skip(lines as usize).sum();
            prop_assert_eq!(beyond + llc.misses, misses, "{} lines", lines);
        }
    }
}

#[test]
fn a_set_of_two_ways_by_hand() {
    // Two sets of two ways, nothing in front. Even lines in set 0: 0 miss, 2 miss, 0 at position
    // 1, 0 at 0, 4 miss (2 leaves), 2 miss. Odd ones: 1 miss, 1 at 0.
    let accesses = [0, 2, 1, 0, 0, 1, 4, 2].map(|line| (line, false));
    let profiles = profiled(&caches(&[], &["256/2"]), &accesses);
    assert_eq!(profiles.llcs[0].hits, [2, 1]);
    assert_eq!(profiles.llcs[0].misses, 5);
    let written = profiles.profiles(2000);
    assert_eq!((written[0].sets, written[0].line_bytes), (2, 64));
    assert_eq!((&written[0].hits_pki[..], written[0].misses_pki), (&[1.0, 0.5][..], 2.5));
}

#[test]
fn data_and_code_have_first_levels_of_their_own() {
    // A private cache of one line. Data in line 0 and code in line 1 do not push each other out,
    // but share the level behind.
    let accesses = [(0, false), (1, true), (0, false), (2, true), (1, true), (0, false)];
    let profiles = profiled(&caches(&["64/1"], &["256/4"]), &accesses);
    // Reach the LLC: 0, 1, 2, and 1 again at position 1.
    assert_eq!((&profiles.llcs[0].hits[..], profiles.llcs[0].misses), (&[0, 1, 0, 0][..], 3));
    let behind = profiled(&caches(&["64/1", "128/2"], &["256/4"]), &accesses);
    assert_eq!((behind.llcs[0].hits.iter().sum::<u64>(), behind.llcs[0].misses), (0, 3));
}

#[test]
fn without_fetches_code_is_passed_over() {
    let mut profiles = SetProfiles::new(&caches(&[], &["256/4"]), false);
    profiles.process(
        &mut None,
        &[block(5)],
        &[TraceEvent::block(0), TraceEvent::data(72, 0, true)],
    );
    assert_eq!((profiles.llcs[0].hits.iter().sum::<u64>(), profiles.llcs[0].misses), (0, 1));
}

#[test]
fn threads_have_private_caches_and_one_llc() {
    let mut profiles = SetProfiles::new(&caches(&["128/2"], &["256/4"]), true);
    let (mut one, mut other) = (None, None);
    let events = [TraceEvent::data(56, 0, false), TraceEvent::data(56, 0, false)];
    profiles.process(&mut one, &[], &events);
    profiles.process(&mut other, &[], &events);
    assert_eq!((profiles.llcs[0].hits[0], profiles.llcs[0].misses), (1, 1));
}

#[test]
fn the_engine_stops_it_at_the_instruction_limit() {
    let mut engine =
        Engine::new(EngineOptions::default(), Some(2)).with_set_profiles(&caches(&[], &["256/4"]));
    let id = engine.add_block(block(100));
    let mut thread = Thread::new();
    let round = |line: u64| [TraceEvent::block(id), TraceEvent::data(8 * line, 0, false)];
    let events = [round(1), round(2), round(3), round(4)].concat();
    engine.process(&mut thread, &events);
    assert!(engine.is_full());
    // The block's own line once, lines 1 and 2; what comes behind the limit is dropped.
    let profiles = engine.set_profiles();
    let reached = profiles[0].hits_pki.iter().sum::<f64>() + profiles[0].misses_pki;
    assert_eq!(reached, 3.0 * 1000.0 / 2.0);
}

#[test]
fn shapes_are_read_and_refused() {
    assert_eq!(shape("16MiB/16"), CacheShape::new(16 << 20, 16).unwrap());
    assert_eq!(shape("16MiB/16").sets(), 16384);
    assert_eq!(shape("28160KiB/11").sets(), 40960);
    assert_eq!(shape("32768/8").to_string(), "32768/8");
    for text in ["", "16MiB", "16MiB/", "/4", "x/4", "-64/1", "+64/1", "1TiB/4", "16MB/16"] {
        assert!(matches!(text.parse::<CacheShape>(), Err(ShapeError::Text(_))), "{text}");
    }
    let overflow = "99999999999999999GiB/1".parse::<CacheShape>();
    assert!(matches!(overflow, Err(ShapeError::Text(_))));
    for text in ["0/1", "64/0", "100/1", "192/2"] {
        assert!(matches!(text.parse::<CacheShape>(), Err(ShapeError::Uneven { .. })), "{text}");
    }
    assert_eq!("2GiB/16".parse::<CacheShape>(), Err(ShapeError::Large(2 << 30)));
}
