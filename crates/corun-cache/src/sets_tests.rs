use proptest::prelude::*;

use super::*;
use crate::full::FullyAssociative;
use crate::geometry::{Geometry, Replacement};

fn shape(sets: u64, ways: u32, replacement: Replacement) -> CacheConfig {
    let geometry =
        Geometry { bytes: sets * u64::from(ways) * 64, line_bytes: 64, ways: Some(ways) };
    CacheConfig { geometry, replacement, indexing: Indexing::Modulo }
}

/// Hits of one program that touches these lines.
fn hits(cache: &mut SetAssociative, lines: &[u64], mask: u64) -> Vec<bool> {
    lines.iter().map(|&line| cache.access(line, 0, 0, mask) == AccessOutcome::Hit).collect()
}

#[test]
fn lru_gives_up_what_was_used_longest_ago() {
    let mut cache = SetAssociative::new(&shape(2, 2, Replacement::Lru));
    // Even lines meet in set 0: 0 2 fill it, 0 hits, 4 takes 2's place, so 0 hits and 2 misses.
    let found = hits(&mut cache, &[0, 2, 0, 4, 0, 2, 1, 3, 1], 0b11);
    assert_eq!(found, [false, false, true, false, true, false, false, false, true]);
}

#[test]
fn three_sets_are_indexed_by_the_remainder() {
    let mut cache = SetAssociative::new(&shape(3, 1, Replacement::Lru));
    assert_eq!(
        hits(&mut cache, &[0, 1, 2, 0, 3, 0, 1], 1),
        [false, false, false, true, false, false, true]
    );
}

#[test]
fn the_tree_points_away_from_what_was_used() {
    // Four ways filled in order A B C D (ways 0 to 3). After D the root points to the lower half,
    // whose arrow, set by B, points to A. A hit on A turns both away: the root to the upper half,
    // whose arrow, set by D, points to C. So E replaces C, where LRU would replace B.
    let mut cache = SetAssociative::new(&shape(1, 4, Replacement::TreePlru));
    let (a, b, c, d, e, f) = (0, 1, 2, 3, 4, 5);
    hits(&mut cache, &[a, b, c, d, a, e], 0b1111);
    assert_eq!(cache.lines, [a, b, e, d]);
    // E in way 2: the root points down again, where A turned the arrow to B.
    hits(&mut cache, &[f], 0b1111);
    assert_eq!(cache.lines, [a, f, e, d]);
}

#[test]
fn srrip_keeps_what_was_hit() {
    // A and B come in at 2; A is hit: 0. C finds nobody distant: all age by 1 and B leaves. Then A
    // is at 1 and C at 2: C leaves for D.
    let mut cache = SetAssociative::new(&shape(1, 2, Replacement::Srrip));
    let (a, b, c, d) = (0, 1, 2, 3);
    hits(&mut cache, &[a, b, a, c], 0b11);
    assert_eq!(cache.lines, [a, c]);
    hits(&mut cache, &[d], 0b11);
    assert_eq!(cache.lines, [a, d]);
}

#[test]
fn masks_limit_where_lines_come_in_and_not_where_they_are_found() {
    for (_, replacement) in Replacement::ALL {
        let mut cache = SetAssociative::new(&shape(1, 8, replacement));
        // Program 0 has ways 0 to 2, program 1 the others; they do not touch each other's.
        for line in 0..40 {
            cache.access(line, 0, 0, 0b0000_0111);
            let touch = cache.access(line, 1, 1, 0b1111_1000);
            assert_ne!(touch, AccessOutcome::Miss { evicted: Some(0) }, "{replacement}");
        }
        let held = |owner| cache.owners.iter().filter(|&&one| one == owner).count();
        assert_eq!((held(0), held(1)), (3, 5), "{replacement}");
        // A line in the others' ways is found all the same.
        let theirs = cache.lines[7] & 0xff;
        assert_eq!(cache.access(theirs, 1, 1, 0b1), AccessOutcome::Hit);
    }
}

#[test]
fn random_draws_from_all_ways_of_the_mask() {
    let mut cache = SetAssociative::new(&shape(1, 8, Replacement::Random));
    let mut left = [0; 8];
    for line in 0..8008 {
        let before = cache.lines.clone();
        cache.access(line, 0, 0, 0b1111_1111);
        if line >= 8 {
            let way = (0..8).find(|&way| before[way] != cache.lines[way]).unwrap();
            left[way] += 1;
        }
    }
    assert!(left.iter().all(|&count| (850..1150).contains(&count)), "{left:?}");
}

/// Depths in the LRU stack, by a plain list; `None`: never touched before.
fn depths(lines: &[u64]) -> Vec<Option<usize>> {
    let mut stack: Vec<u64> = Vec::new();
    lines
        .iter()
        .map(|&line| {
            let depth = stack.iter().position(|&other| other == line);
            depth.map(|at| stack.remove(at));
            stack.insert(0, line);
            depth
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_set_and_full_association_are_the_lru_stack(
        lines in prop::collection::vec(0u64..90, 1..600),
        ways in 1u32..=64,
    ) {
        let expected: Vec<bool> = depths(&lines)
            .into_iter()
            .map(|depth| depth.is_some_and(|depth| depth < ways as usize))
            .collect();
        let mut sets = SetAssociative::new(&shape(1, ways, Replacement::Lru));
        prop_assert_eq!(&hits(&mut sets, &lines, u64::MAX >> (64 - ways)), &expected);
        let mut full = FullyAssociative::new(u64::from(ways));
        let found: Vec<bool> =
            lines.iter().map(|&line| full.access(line, 0, 0) == AccessOutcome::Hit).collect();
        prop_assert_eq!(&found, &expected);
    }

    #[test]
    fn every_kind_keeps_to_its_room_and_loses_one_line_for_each_that_comes(
        lines in prop::collection::vec((0u64..300, 0usize..3), 1..800),
        sets in 1u64..9,
        ways_log2 in 0u32..4,
        kind in 0usize..4,
        hashed in any::<bool>(),
    ) {
        let mut shape = shape(sets, 1 << ways_log2, Replacement::ALL[kind].1);
        shape.indexing = if hashed { Indexing::Hashed } else { Indexing::Modulo };
        let mut cache = SetAssociative::new(&shape);
        let mut held = [0i64; 3];
        for (line, owner) in lines {
            let touch = cache.access(line, owner as u64, owner, shape.all_ways());
            if let AccessOutcome::Miss { evicted } = touch {
                held[owner] += 1;
                if let Some(loser) = evicted {
                    held[loser] -= 1;
                }
            }
            // What was just touched is there.
            prop_assert_eq!(cache.access(line, owner as u64, owner, 1), AccessOutcome::Hit);
        }
        for (owner, &count) in held.iter().enumerate() {
            let places = cache.lines.iter().zip(&cache.owners);
            let found = places.filter(|&(&line, &of)| line != EMPTY && usize::from(of) == owner);
            prop_assert_eq!(found.count() as i64, count);
        }
    }
}
