use proptest::prelude::*;

use super::*;

const KIB: f64 = 1024.0;
const CACHES: [f64; 3] = [48.0 * KIB, 1024.0 * KIB, 32_768.0 * KIB];

/// KiB and cycles, on an AMD EPYC (Zen 5) guest whose host was busy: its share of the LLC came and
/// went, so that the ladder has no step there.
const BUSY_HOST: [(f64, f64); 40] = [
    (4.0, 4.00),
    (8.0, 4.00),
    (16.0, 4.00),
    (32.0, 4.00),
    (38.0, 4.01),
    (45.0, 4.09),
    (48.0, 4.48),
    (49.4, 7.76),
    (53.9, 14.03),
    (64.0, 13.99),
    (90.6, 13.98),
    (128.0, 13.98),
    (256.0, 13.98),
    (362.0, 14.02),
    (430.5, 14.86),
    (512.0, 16.07),
    (608.9, 17.14),
    (664.0, 19.58),
    (724.1, 22.05),
    (861.1, 25.58),
    (1024.0, 32.55),
    (1116.7, 35.40),
    (1328.0, 47.57),
    (1579.3, 59.53),
    (1878.1, 70.76),
    (2580.4, 107.17),
    (3251.0, 139.18),
    (4096.0, 224.95),
    (5160.6, 330.24),
    (6502.0, 360.51),
    (8192.0, 496.66),
    (10321.3, 511.83),
    (16384.0, 546.44),
    (26008.0, 585.38),
    (32768.0, 594.72),
    (46341.0, 615.88),
    (65536.0, 620.15),
    (92682.0, 662.58),
    (131072.0, 675.00),
    (262144.0, 741.61),
];

fn levels(points: &[(f64, f64)], last_hit_more: f64) -> Option<Vec<Level>> {
    let sizes: Vec<f64> = points.iter().map(|point| point.0 * KIB).collect();
    let latencies: Vec<f64> = points.iter().map(|point| point.1).collect();
    let ladder =
        CacheLadder { sizes: &sizes, floor: &latencies, typical: &latencies, last_hit_more };
    ladder.levels(&CACHES)
}

fn assert_near(found: f64, expected: f64, off: f64) {
    assert!((found / expected - 1.0).abs() <= off, "{found}, not {expected}");
}

#[test]
fn a_ladder_without_a_step_still_tells_what_one_gets() {
    let found = levels(&BUSY_HOST, 37.98).unwrap();
    assert_eq!(found[0].latency, 4.0);
    // The sets from 96 to 512 KiB: 13.98, 13.98, 14.02, 14.86 and 16.07.
    assert_eq!(found[1].latency, 14.02);
    assert_near(found[2].latency, 52.0, 1e-9);
    // The sets from 48 to 128 MiB: 620.15, 662.58 and 675.
    assert_eq!(found[3].latency, 662.58);
    // 48 KiB x (13.98 - 4.48) / (13.98 - 4).
    assert_near(found[0].capacity.unwrap() / KIB, 45.7, 0.01);
    // 861.1 KiB x (52 - 25.58) / (52 - 13.98) = 598 KiB, and a little more in between.
    assert_near(found[1].capacity.unwrap() / KIB, 598.0, 0.02);
    // 4096 KiB x (662.58 - 224.95) / (662.58 - 52) = 2936 KiB, and 8 % more between 5161 and 6502 KiB,
    // where half hits.
    assert_near(found[2].capacity.unwrap() / KIB, 2936.0 * 1.08, 0.01);
    assert_eq!(found[3].capacity, None);
}

#[test]
fn a_whole_cache_is_as_large_as_linux_says() {
    let step = |size: f64| match size * KIB {
        size if size <= CACHES[0] => 4.0,
        size if size <= CACHES[1] => 14.0,
        size if size <= CACHES[2] => 50.0,
        _ => 400.0,
    };
    let points: Vec<(f64, f64)> = BUSY_HOST.iter().map(|point| (point.0, step(point.0))).collect();
    let found = levels(&points, 36.0).unwrap();
    let latencies: Vec<f64> = found.iter().map(|level| level.latency).collect();
    assert_eq!(latencies, [4.0, 14.0, 50.0, 400.0]);
    for (level, size) in found.iter().zip(CACHES) {
        assert_eq!(level.capacity, Some(size));
    }
}

#[test]
fn a_short_ladder_gives_nothing() {
    assert_eq!(levels(&BUSY_HOST[..30], 37.98), None);
    assert_eq!(levels(&BUSY_HOST, f64::NAN), None);
    assert_eq!(levels(&[], 37.98), None);
}

proptest! {
    #[test]
    fn any_noisy_ladder_gives_ordered_levels(
        rises in prop::collection::vec((0.0..1.0f64, 0.0..2.0f64), 40),
        more in 1.0..1000.0f64,
    ) {
        let mut latency = 1.0;
        let points: Vec<(f64, f64)> = BUSY_HOST.iter().zip(&rises).map(|(point, (rise, noise))| {
            latency *= 1.0 + rise.powi(8) * 4.0;
            (point.0, latency * (0.5 + noise))
        }).collect();
        let found = levels(&points, more).unwrap();
        prop_assert_eq!(found.len(), 4);
        for (pair, size) in found.windows(2).zip(CACHES) {
            prop_assert!(pair[0].latency <= pair[1].latency, "{found:?}");
            prop_assert!(pair[0].capacity.unwrap() <= size);
            prop_assert!(pair[1].capacity.is_none_or(|next| pair[0].capacity.unwrap() <= next));
        }
    }
}
