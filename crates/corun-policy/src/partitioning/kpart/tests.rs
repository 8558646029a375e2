use proptest::prelude::*;

use super::*;
use crate::WaysPoint;

/// Misses per 1000 instructions and IPC with 1, 2, 3 .. ways; traffic is the misses' lines at 1 GHz.
fn curve(points: &[(f64, f64)]) -> WaysCurve {
    let point = |&(llc_mpki, ipc)| WaysPoint {
        llc_mpki,
        ipc,
        llc_mpkc: llc_mpki * ipc,
        bytes_per_s: llc_mpki * ipc * 64e6,
        ..WaysPoint::default()
    };
    WaysCurve::new(points.iter().map(point).collect()).unwrap()
}

fn partition(curves: &[WaysCurve], ways: u32, peak: Option<f64>) -> Partition {
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = Input { curves: &curves, ways, least_ways: 1, peak_bytes_per_s: peak };
    let mut out = Partition::default();
    crate::build_partitioner("kpart", &BuildOptions::default())
        .unwrap()
        .partition(&input, &mut out)
        .unwrap();
    out
}

/// Two that stream and gain nothing from ways lose nothing by sharing; a sensitive one gets the
/// rest.
#[test]
fn streams_cluster_and_the_sensitive_program_has_the_rest() {
    let stream = curve(&[(30.0, 0.5); 4]);
    let needy = curve(&[(40.0, 0.4), (20.0, 0.8), (8.0, 1.2), (1.0, 1.6)]);
    let found = partition(&[stream.clone(), needy, stream], 4, None);
    assert_eq!(found.cluster, [0, 1, 0]);
    assert_eq!(found.masks, [0x1, 0xe]);
}

/// As many partitions as programs are not possible, so they merge until they fit.
#[test]
fn more_programs_than_ways_fit() {
    let stream = curve(&[(30.0, 0.5); 2]);
    let found = partition(&vec![stream; 5], 2, None);
    assert!(found.masks.len() <= 2);
    assert_eq!(found.masks.iter().map(|mask| mask.count_ones()).sum::<u32>(), 2);
}

#[test]
fn one_program_has_all() {
    assert_eq!(partition(&[curve(&[(1.0, 1.0); 11])], 11, None).masks, [0x7ff]);
    assert_eq!(partition(&[], 11, None).masks, [] as [u64; 0]);
}

/// The distance of two equal streams is 0: sharing or not, they miss as much. A merge keeps the sum.
#[test]
fn distances_by_hand() {
    let stream = curve(&[(30.0, 0.5); 3]);
    // Shared, two of these hold 1.5 ways each of 3: 15 + 15 misses; divided 2 and 1: 10 + 20. With 2
    // ways 20 and 20 either way: the distance is 0.
    let line = curve(&[(20.0, 1.0), (10.0, 1.0), (0.0, 1.0)]);
    let curves = [&stream, &stream, &line, &line];
    let input = Input { curves: &curves, ways: 3, least_ways: 1, peak_bytes_per_s: None };
    let mut clusters = Clusters::default();
    clusters.start(&input, Drive::Mpki);
    clusters.merge_nearest();
    let members: Vec<&[usize]> =
        (0..clusters.order().len()).map(|place| clusters.members(place)).collect();
    assert_eq!(members, [&[0, 1][..], &[2], &[3]]);
    clusters.merge_nearest();
    assert_eq!(clusters.members(0), [2, 3]);
    // Equal sharers have half the ways each: program 2 in a cluster of 3 has 1.5.
    assert!((clusters.bytes_per_s(2, 3) - 15.0 * 64e6).abs() < 1.0);
    assert_eq!(clusters.speed(2, 3), 1.0);
}

/// By bandwidth a program that draws much counts less, so the ways go to the other.
#[test]
fn a_scarce_peak_moves_ways_to_those_who_draw_less() {
    let heavy = curve(&[(40.0, 0.5), (38.0, 0.6), (36.0, 0.7), (34.0, 0.8), (32.0, 0.9)]);
    let lean = curve(&[(4.0, 1.0), (3.0, 1.1), (2.0, 1.2), (1.0, 1.3), (0.5, 1.35)]);
    let free = partition(&[heavy.clone(), lean.clone()], 5, None);
    let tight = partition(&[heavy, lean], 5, Some(1.8e9));
    let ways = |found: &Partition| (found.ways(0), found.masks.len());
    assert_ne!(ways(&free), ways(&tight), "{free:?} {tight:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Distances that are found out no further than needed lead to the same merges as whole ones.
    #[test]
    fn the_nearest_are_those_of_whole_distances(
        curves in prop::collection::vec(prop::collection::vec(0u8..30, 9), 2..9),
    ) {
        let curve = |mpki: &Vec<u8>| {
            let points: Vec<(f64, f64)> = mpki.iter().map(|&one| (f64::from(one), 1.0)).collect();
            curve(&points)
        };
        let curves: Vec<WaysCurve> = curves.iter().map(curve).collect();
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = Input { curves: &curves, ways: 9, least_ways: 1, peak_bytes_per_s: None };
        let [mut lazy, mut whole] = [Clusters::default(), Clusters::default()];
        lazy.start(&input, Drive::Mpki);
        whole.start(&input, Drive::Mpki);
        while whole.order().len() > 1 {
            whole.find_out_all();
            whole.merge_nearest();
            lazy.merge_nearest();
            prop_assert_eq!(lazy.order(), whole.order());
        }
    }
}
