//! Programs outside the machine as one more sharer of its cache, worked by hand.

use super::single_use_tests::resisting;
use super::tests::*;
use crate::options::SpaceLaw;
use crate::single_use::median;
use crate::site::Site;
use crate::table::PhaseTable;

const LLC: f64 = 64e3;

/// A site beside neighbours whose lines, alone, leave those of others for so many ns; lines of a stream have a quarter
/// of that, those used once at random a half.
fn beside(life_ns: f64) -> Site {
    let half = life_ns * 1e-9 * median(2);
    Site { survival: vec![(half, 1.0), (half * (1.0 + 1e-6), 0.0)], ..resisting(LLC, 2, 0.25) }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.03 * expected, "found {found}, expected {expected}");
}

/// A line an instruction, of 64 bytes and a ns each.
fn stream(site: &Site) -> PhaseTable {
    steady_of(&[(0.0, 1000.0), (4.0 * LLC, 1000.0)], 1.0, 1.0, site)
}

fn looping(bytes: f64, site: &Site) -> PhaseTable {
    let points = [(0.0, 1000.0), (bytes * 0.9999, 1000.0), (bytes, 0.0), (4.0 * LLC, 0.0)];
    steady(&points, 1.0, site)
}

#[test]
fn the_life_of_lines_is_what_the_neighbours_leave() {
    near(beside(4000.0).life(), 4e-6);
    // 0.9 of the lines are there after 5 ms, 0.4 after 10, and the way between is straight: half after 9.
    let varying = Site { survival: vec![(5e-3, 0.9), (10e-3, 0.4)], ..beside(4000.0) };
    near(varying.life(), 9e-3 / median(2));
}

#[test]
fn a_stream_and_the_neighbours_fill_the_cache_together() {
    // The stream holds 0.25 x 64 t, the neighbours 64 kB x t / 4 us: 64 kB at 2 us. Of 32 kB, where theirs are
    // as dense, 16 t + 8 t = 32 kB.
    let table = stream(&beside(4000.0));
    near(table.fill.seconds_at(LLC), 2e-6);
    near(table.fill.seconds_at(32e3), 32e3 / 24.0 * 1e-9);
    // Two streams: 16 t each and the neighbours.
    let both = divide(SpaceLaw::FillTime, LLC, &[&table, &table]);
    near(both[0], 32e3);
    assert_eq!(table.demand(LLC).llc_mpki, 1000.0);
}

#[test]
fn a_loop_stays_where_it_comes_round_before_the_neighbours() {
    // 20 kB come round in 312.5 ns. Alone it has nearly all of them, in 20 of 64 kB, and its lines stay for the rest of the
    // neighbours' life, t = 2750 ns: with stages of 1375 ns exp(-312.5 / 1375) = 0.797 hit after a miss, and after a hit
    // all but 1 - (1 + 0.2273) exp(-0.2273) = 0.0223: 0.973 in all.
    let table = looping(20e3, &beside(4000.0));
    near(table.demand(LLC).llc_mpki, 27.2);
    near(table.fill.seconds_at(LLC), 4e-6 * (1.0 - 20.0 * 0.98 / 64.0));
    // Of neighbours that leave lines for 300 ns it keeps little. With t = 270 ns, stages of 135: 0.0988 hit after a miss,
    // and (1 + 2.315) exp(-2.315) = 0.3275 after a hit, 0.128 in all.
    let missed = looping(20e3, &beside(300.0)).demand(LLC).llc_mpki;
    assert!((860.0..900.0).contains(&missed), "{missed}");
}

#[test]
fn random_uses_find_what_the_neighbours_leave() {
    // 40 kB at random, each line once in 625 ns. A line that missed is used again within its one stage of t / 2 with the
    // chance a, one that hit is not within two with b: 40 kB x a / (a + b) = 64 kB x (1 - t / life).
    let point = |i: u32| (f64::from(i) * 100.0, 1000.0 * (1.0 - f64::from(i) / 400.0));
    let points: Vec<(f64, f64)> = (0..=400).map(point).collect();
    let mut before = 0.0;
    for life in [4000.0, 1000.0, 300.0] {
        let table = steady(&points, 1.0, &beside(life));
        let hit = |t: f64| {
            let stage = 0.5 * t / 625.0;
            let (back, gone) = (stage / (stage + 1.0), (1.0 + stage).powi(-2));
            back / (back + gone)
        };
        let (mut low, mut high) = (0.0, life);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if 40e3 * hit(middle) < LLC * (1.0 - middle / life) {
                low = middle
            } else {
                high = middle
            }
        }
        let missed = table.demand(LLC).llc_mpki / 1000.0;
        assert!((missed - (1.0 - hit(low))).abs() < 0.02, "{life}: {missed} {}", 1.0 - hit(low));
        assert!(missed > before, "{life}: {missed}");
        before = missed;
    }
}

#[test]
fn without_both_figures_nothing_changes() {
    let alone = Site { survival: Vec::new(), ..beside(4000.0) };
    let unknown = Site { random_use_life: None, ..beside(4000.0) };
    for site in [alone, unknown] {
        // As in a cache to itself: q x 64 t = 64 kB.
        near(stream(&site).fill.seconds_at(LLC), 1e-6 / site.lives().stream);
    }
}
