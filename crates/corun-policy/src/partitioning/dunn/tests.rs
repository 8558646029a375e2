use super::*;
use crate::WaysPoint;

fn partition(stalls: &[f64], ways: u32, parameters: &[(&str, f64)]) -> Partition {
    let curve = |&l2_miss_stalls: &f64| {
        let point = WaysPoint { l2_miss_stalls, ..WaysPoint::default() };
        WaysCurve::new(vec![point; ways as usize]).unwrap()
    };
    let curves: Vec<WaysCurve> = stalls.iter().map(curve).collect();
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = Input { curves: &curves, ways, least_ways: 1, peak_bytes_per_s: None };
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let options = BuildOptions { seed: 3, parameters };
    let mut out = Partition::default();
    let mut dunn = crate::build_partitioner("dunn", &options).unwrap();
    dunn.partition(&input, &mut out).unwrap();
    out
}

/// Two clusters: the stalling pair has all ways, the calm one the fewest, on top of them.
#[test]
fn overlapping_clusters_run_from_the_fewest_ways_to_all() {
    let found = partition(&[0.6, 0.1, 0.6, 0.1], 11, &[]);
    assert_eq!(found.cluster, [0, 1, 0, 1]);
    assert_eq!(found.masks, [0x7ff, 0x3]);
}

/// In the middle of the stalls: 2 + 9 (e^0.5 - 1) / (e - 1) = 5.4 ways, where the fewest are not yet.
#[test]
fn ways_rise_exponentially_and_overlap_little() {
    let stalls = [0.0, 0.5, 1.0, 0.0, 0.5, 1.0];
    let found = partition(&stalls, 11, &[]);
    let ways: Vec<u32> = (0..3).map(|program| found.ways(program)).collect();
    assert_eq!(ways, [2, 5, 11]);
    assert_eq!(found.masks, [0x60, 0x1f, 0x7ff]);
    let steep = partition(&stalls, 11, &[("curvature", 4.0), ("least-ways", 1.0)]);
    assert_eq!((0..3).map(|one| steep.ways(one)).collect::<Vec<_>>(), [1, 2, 11]);
}

/// Without overlap: ways in proportion to the mean stalls, at least one each. 9 more ways over means
/// 0.6 and 0.2: 6.75 and 2.25, the larger remainder first.
#[test]
fn apart_ways_are_in_proportion_to_stalls() {
    let found = partition(&[0.6, 0.2, 0.6, 0.2], 11, &[("overlap", 0.0)]);
    assert_eq!(found.masks, [0xff, 0x700]);
}

#[test]
fn programs_that_stall_alike_share_all() {
    let found = partition(&[0.3, 0.3, 0.3], 11, &[]);
    assert_eq!((found.cluster, found.masks), (vec![0; 3], vec![0x7ff]));
    assert_eq!(partition(&[0.3], 11, &[]).masks, [0x7ff]);
}

/// Twelve clusters of up to 11 ways have more ways together than a mask has bits.
#[test]
fn many_clusters_that_overlap_have_whole_masks() {
    let mut out = crate::partitioning::Partition::default();
    let stalls: Vec<f64> = (0..16).map(|program| f64::from(program * program)).collect();
    Dunn::new(&BuildOptions::default()).cluster(&stalls, 11, 1, &mut out);
    let ways: Vec<u32> = (0..16).map(|program| out.ways(program)).collect();
    assert!(ways.is_sorted() && ways[0] == 2 && ways[15] == 11, "{ways:?}");
    assert!(out.masks.iter().all(|&mask| mask < 1 << 11), "{:x?}", out.masks);
}
