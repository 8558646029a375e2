use super::*;
use crate::WaysPoint;

/// Slowdown and misses per 1000 cycles with 1, 2, 3 .. ways.
fn curve(points: &[(f64, f64)]) -> WaysCurve {
    let point = |&(slowdown, llc_mpkc)| WaysPoint { slowdown, llc_mpkc, ..WaysPoint::default() };
    WaysCurve::new(points.iter().map(point).collect()).unwrap()
}

/// Over 11 ways: a streaming program.
fn streaming() -> WaysCurve {
    curve(&[(1.0, 30.0); 11])
}

fn light() -> WaysCurve {
    curve(&[(1.0, 0.5); 11])
}

/// A sensitive one: it is this much slower with one way and falls in a line to 1 at `knee` ways.
fn sensitive(slowdown: f64, knee: u32) -> WaysCurve {
    let at = |ways: u32| {
        let part = f64::from(ways - 1) / f64::from(knee - 1);
        (slowdown - (slowdown - 1.0) * part.min(1.0), 5.0)
    };
    curve(&(1..=11).map(at).collect::<Vec<_>>())
}

fn partition_with(curves: &[WaysCurve], ways: u32, least_ways: u32) -> Partition {
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = Input { curves: &curves, ways, least_ways, peak_bytes_per_s: None };
    let mut out = Partition::default();
    Lfoc::new(&BuildOptions::default()).partition(&input, &mut out).unwrap();
    out
}

fn partition(curves: &[WaysCurve]) -> Partition {
    partition_with(curves, 11, 1)
}

fn repeat(one: &WaysCurve, count: usize) -> impl Iterator<Item = WaysCurve> {
    std::iter::repeat_n(one.clone(), count)
}

#[test]
fn without_sensitive_programs_all_share_all() {
    let found = partition(&[streaming(), light(), streaming()]);
    assert_eq!((found.cluster, found.masks), (vec![0; 3], vec![0x7ff]));
}

/// One streaming program: one way. Two sensitive ones share ten: the first gains 0.25 a way up to 5
/// ways, the second 0.1 a way up to 6.
#[test]
fn sensitive_programs_share_the_rest_by_slowdown() {
    let found = partition(&[sensitive(2.0, 5), streaming(), sensitive(1.5, 6)]);
    assert_eq!(found.cluster, [0, 1, 2]);
    // 5 and 5 after lookahead's grants of 4 and of the 4 that are left.
    assert_eq!(found.masks, [0x1f, 0x20, 0x7c0]);
}

/// Line 8 with its round-up: 5 streaming programs one way, 6 to 10 two, more two still. Line 9: they
/// are spread evenly.
#[test]
fn streaming_programs_get_one_way_or_two() {
    for (count, partitions, in_first) in [(1, 1, 1), (5, 1, 5), (6, 2, 3), (10, 2, 5), (13, 2, 7)] {
        let mut curves: Vec<WaysCurve> = repeat(&streaming(), count).collect();
        curves.push(sensitive(2.0, 5));
        let found = partition(&curves);
        assert_eq!(found.masks.len(), partitions + 1, "{count}");
        assert_eq!(found.ways(count), 11 - partitions as u32, "{count}");
        assert_eq!(found.cluster.iter().filter(|&&one| one == 0).count(), in_first, "{count}");
        assert_eq!(found.ways(0), 1);
    }
}

/// Lines 20 to 29: three streaming programs in a partition for five leave two gaps of three light
/// programs each; the others go round robin over the sensitive ones'.
#[test]
fn light_sharing_programs_fill_the_gaps_first() {
    let mut curves: Vec<WaysCurve> = repeat(&streaming(), 3).collect();
    curves.extend([sensitive(2.0, 5), sensitive(1.9, 5)]);
    curves.extend(repeat(&light(), 9));
    let found = partition(&curves);
    let expected = [vec![0, 0, 0, 1, 2], vec![0; 6], vec![1, 2, 1]].concat();
    assert_eq!(found.cluster, expected);
}

#[test]
fn without_streaming_programs_no_way_is_reserved() {
    let found = partition(&[light(), sensitive(2.0, 5), light(), sensitive(1.2, 3)]);
    assert_eq!(found.masks.iter().map(|mask| mask.count_ones()).sum::<u32>(), 11);
    assert_eq!(found.cluster, [0, 0, 1, 1]);
}

/// Four ways, one reserved: three partitions for five sensitive programs. The three that suffer most
/// from one way come first, the others join from the last.
#[test]
fn more_sensitive_programs_than_ways_share() {
    let slowdowns = [1.2, 3.0, 1.5, 2.0, 1.8];
    let mut curves: Vec<WaysCurve> = slowdowns.iter().map(|&one| sensitive(one, 11)).collect();
    curves.push(streaming());
    let found = partition_with(&curves, 4, 1);
    // Order: 3.0, 2.0, 1.8 | 1.2 joins 2.0's, 1.5 joins 1.8's.
    assert_eq!(found.cluster, [0, 1, 2, 0, 2, 3]);
    assert!(found.masks.iter().all(|mask| mask.count_ones() == 1));
    let one_way = partition_with(&curves, 1, 1);
    assert_eq!(one_way.masks, [1]);
}

#[test]
fn the_hardware_minimum_holds_for_every_partition() {
    let found = partition_with(&[streaming(), sensitive(2.0, 5), sensitive(1.5, 6)], 11, 2);
    assert_eq!(found.ways(0), 2);
    assert!(found.masks.iter().all(|mask| mask.count_ones() >= 2));
    assert_eq!(found.masks.iter().fold(0, |all, mask| all | mask), 0x7ff);
}
