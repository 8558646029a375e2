use proptest::prelude::*;

use super::*;

/// Sizes of eight to the octave from 4 KiB to 256 MiB.
fn sizes() -> Vec<f64> {
    (0..=16 * 8).map(|step| 4096.0 * 2f64.powf(f64::from(step) / 8.0)).collect()
}

/// What random replacement gives: of a set of `size`, `capacity` is found.
fn ladder(levels: &[(f64, f64)], memory: f64) -> Vec<(f64, f64)> {
    let latency = |size: f64| {
        let mut left = 1.0;
        let mut sum = 0.0;
        let mut held = 0.0;
        for &(latency, capacity) in levels {
            let reach = (capacity / size).min(1.0);
            let share = (reach - held).clamp(0.0, left);
            sum += share * latency;
            left -= share;
            held = reach;
        }
        sum + left * memory
    };
    sizes().into_iter().map(|size| (size, latency(size))).collect()
}

/// What an LRU gives: a set that does not fit is not found at all.
fn lru_ladder(levels: &[(f64, f64)], memory: f64) -> Vec<(f64, f64)> {
    let latency = |size: f64| {
        levels.iter().find(|(_, capacity)| size <= *capacity).map_or(memory, |level| level.0)
    };
    sizes().into_iter().map(|size| (size, latency(size))).collect()
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
/// Latency in cycles and capacity of three caches.
const CACHES: [(f64, f64); 3] = [(4.0, 32.0 * KIB), (14.0, 512.0 * KIB), (50.0, 16.0 * MIB)];
const MEMORY: f64 = 400.0;

fn assert_near(found: f64, expected: f64, off: f64) {
    assert!((found / expected - 1.0).abs() <= off, "{found}, not {expected}");
}

#[test]
fn sharp_steps_give_latencies_exactly_and_capacities_to_a_step() {
    let found = levels(&lru_ladder(&CACHES, MEMORY), Some(4));
    assert_eq!(found.len(), 4);
    for (level, (latency, capacity)) in found.iter().zip(CACHES) {
        assert_eq!(level.latency, latency);
        // All of these capacities are sizes that were tried.
        assert_near(level.capacity.unwrap(), capacity, 0.1);
        assert!(level.capacity.unwrap() >= capacity);
    }
    assert_eq!(found[3], Level { latency: MEMORY, capacity: None });
}

#[test]
fn slopes_are_taken_for_hits_and_misses() {
    let found = levels(&ladder(&CACHES, MEMORY), Some(4));
    assert_eq!(found.len(), 4);
    assert_eq!(found[0].latency, 4.0);
    // Of a set twice as large as the level before, half is still found there: l' is 9 there.
    assert_near(found[1].latency, 14.0, 0.15);
    assert_near(found[2].latency, 50.0, 0.15);
    assert_near(found[3].latency, MEMORY, 0.12);
    for (level, (_, capacity)) in found.iter().zip(CACHES) {
        assert_near(level.capacity.unwrap(), capacity, 0.2);
    }
}

#[test]
fn a_cache_that_one_has_a_share_of_is_as_large_as_the_share() {
    let share = [CACHES[0], CACHES[1], (50.0, 5.0 * MIB)];
    let found = levels(&lru_ladder(&share, MEMORY), Some(4));
    assert_near(found[2].capacity.unwrap(), 5.0 * MIB, 0.1);
}

#[test]
fn levels_as_fast_as_each_other_are_one() {
    let alike = [CACHES[0], (14.0, 512.0 * KIB), (14.5, 16.0 * MIB)];
    let found = levels(&lru_ladder(&alike, MEMORY), Some(4));
    assert_eq!(found.len(), 3);
    assert_near(found[1].capacity.unwrap(), 16.0 * MIB, 0.1);
}

#[test]
fn the_number_of_levels_is_found_where_nothing_tells_it() {
    assert_eq!(levels(&lru_ladder(&CACHES, MEMORY), None).len(), 4);
    assert_eq!(levels(&lru_ladder(&CACHES[..2], MEMORY), None).len(), 3);
    assert_eq!(levels(&lru_ladder(&[], MEMORY), None).len(), 1);
}

#[test]
fn too_few_points_give_no_level() {
    assert_eq!(levels(&[], Some(3)), []);
    assert_eq!(levels(&[(1.0, 1.0), (2.0, f64::NAN)], None), []);
    assert_eq!(levels(&[(1.0, 4.0), (2.0, 4.0), (3.0, 4.0)], Some(4)).len(), 1);
}

/// Measured on an AMD EPYC (Zen 5) guest with 48 KiB, 1 MiB and 32 MiB: KiB and ns.
const MEASURED: [(f64, f64); 51] = [
    (4.0, 1.00),
    (5.0, 0.98),
    (6.0, 0.98),
    (7.0, 0.99),
    (10.0, 0.99),
    (12.0, 0.99),
    (15.0, 0.99),
    (20.0, 0.98),
    (25.0, 0.98),
    (31.0, 0.98),
    (40.0, 0.99),
    (50.0, 2.82),
    (63.0, 3.46),
    (80.0, 3.47),
    (101.0, 3.49),
    (127.0, 3.50),
    (161.0, 3.50),
    (203.0, 3.50),
    (255.0, 3.53),
    (322.0, 3.50),
    (406.0, 3.57),
    (511.0, 3.93),
    (644.0, 4.25),
    (812.0, 4.92),
    (1023.0, 6.42),
    (1289.0, 8.42),
    (1624.0, 10.52),
    (2047.0, 10.65),
    (2579.0, 11.60),
    (3249.0, 12.31),
    (4093.0, 12.61),
    (5157.0, 13.11),
    (6498.0, 13.73),
    (8187.0, 14.23),
    (10315.0, 19.66),
    (12996.0, 45.66),
    (16374.0, 113.63),
    (20629.0, 127.35),
    (25991.0, 137.74),
    (32746.0, 143.97),
    (41257.0, 143.94),
    (51980.0, 150.78),
    (65490.0, 152.51),
    (82510.0, 154.93),
    (103955.0, 155.12),
    (130973.0, 159.01),
    (165013.0, 158.26),
    (207900.0, 159.45),
    (261933.0, 161.19),
    (330010.0, 161.82),
    (415780.0, 162.72),
];

#[test]
fn a_measured_ladder_gives_the_share_of_its_last_cache() {
    let found = levels(&MEASURED, Some(4));
    assert_eq!(found.len(), 4);
    assert_near(found[0].latency, 0.985, 0.01);
    assert_near(found[1].latency, 3.5, 0.02);
    assert_near(found[2].latency, 12.3, 0.1);
    assert_near(found[3].latency, 158.5, 0.02);
    // 40 KiB all hit, and 50 KiB hit to a quarter.
    assert_near(found[0].capacity.unwrap(), 40.0, 0.05);
    // At 1023 KiB, (12.3 - 6.42) / (12.3 - 3.5) = 0.67 hit.
    assert_near(found[1].capacity.unwrap(), 680.0, 0.1);
    // At 10315 KiB, (158.5 - 19.66) / (158.5 - 12.3) = 0.95 hit.
    assert_near(found[2].capacity.unwrap(), 10_000.0, 0.1);
}

#[test]
fn levels_are_named_by_their_sizes_in_order() {
    let level = |capacity: f64| Level { latency: 1.0, capacity: Some(capacity) };
    let memory = Level { latency: 9.0, capacity: None };
    let caches = [(1, 32.0), (2, 512.0), (3, 16_384.0)];
    let names = |levels: &[Level]| -> Vec<u32> {
        assigned(levels, &caches).into_iter().map(|(_, cache)| cache).collect()
    };
    // As many as there are, whatever their sizes.
    assert_eq!(names(&[level(30.0), level(300.0), level(800.0), memory]), [1, 2, 3]);
    assert_eq!(names(&[level(30.0), level(10_000.0), memory]), [1, 3]);
    assert_eq!(names(&[level(30.0), level(700.0), memory]), [1, 2]);
    assert_eq!(names(&[level(400.0), level(10_000.0), memory]), [2, 3]);
    assert_eq!(names(&[memory]), [0u32; 0]);
    assert_eq!(assigned(&[level(1.0), memory], &[]), []);
    // One too many: the one that fits worst is left out.
    assert_eq!(
        names(&[level(30.0), level(90.0), level(500.0), level(16_000.0), memory]),
        [1, 2, 3]
    );
}

proptest! {
    #[test]
    fn any_ladder_gives_ordered_levels(
        steps in prop::collection::vec((0.0..1.0f64, 0.5..1.5f64), 0..90),
        expected in prop::option::of(1usize..6),
    ) {
        let mut latency = 1.0;
        let points: Vec<(f64, f64)> = steps
            .iter()
            .enumerate()
            .map(|(place, (rise, noise))| {
                latency *= 1.0 + rise.powi(6) * 3.0;
                (4096.0 * 2f64.powf(place as f64 / 6.0), latency * (0.9 + 0.2 * noise))
            })
            .collect();
        let found = levels(&points, expected);
        prop_assert!(found.len() <= expected.unwrap_or(MOST_LEVELS));
        prop_assert_eq!(found.is_empty(), points.len() < LEAST_POINTS);
        for pair in found.windows(2) {
            prop_assert!(pair[0].latency <= pair[1].latency, "{found:?}");
            prop_assert!(pair[0].capacity.is_some());
            prop_assert!(pair[1].capacity.is_none_or(|next| pair[0].capacity.unwrap() <= next), "{found:?}");
        }
        for level in &found {
            prop_assert!(level.latency > 0.0);
            prop_assert!(level.capacity.is_none_or(|held| held <= points.last().unwrap().0));
        }
        if let Some(last) = found.last() {
            prop_assert!(last.capacity.is_none());
        }
    }
}
