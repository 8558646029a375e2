use super::*;

fn curve(points: &[WaysPoint]) -> WaysCurve {
    WaysCurve::new(points.to_vec()).unwrap()
}

fn started(curves: &[&WaysCurve], ways: u32) -> ClusterCurves {
    let mut clusters = ClusterCurves::default();
    clusters.start(&Input { curves, ways, least_ways: 1, peak_bytes_per_s: None });
    clusters
}

/// Two streams of 30 and 10 misses per 1000 instructions, the speed always the same: at the same fill
/// time the first holds three times as much.
#[test]
fn sharers_hold_what_they_miss_in_one_fill_time() {
    let stream = |mpki: f64, slowdowns: [f64; 4]| {
        let point = |slowdown| WaysPoint {
            slowdown,
            ipc: 1.0,
            llc_mpki: mpki,
            llc_apki: mpki,
            ..WaysPoint::default()
        };
        curve(&slowdowns.map(point))
    };
    let (heavy, light) = (stream(30.0, [1.0; 4]), stream(10.0, [1.0; 4]));
    let mut clusters = started(&[&heavy, &light], 4);
    let both = clusters.merged(0, 1);
    assert_eq!(clusters.merged(1, 0), both);
    assert_eq!(clusters.members(both), [0, 1]);
    let row = &clusters.clusters[both as usize].row;
    let moment = row.moment(4.0);
    let held = |program: usize| {
        let row = &clusters.clusters[program].row;
        row.ways[moment as usize]
            + moment.fract() * (row.ways[moment as usize + 1] - row.ways[moment as usize])
    };
    assert!(
        (held(0) - 3.0).abs() < 0.01 && (held(1) - 1.0).abs() < 0.01,
        "{} {}",
        held(0),
        held(1)
    );
}

/// One way: 10 references of which 2 miss; stalls of 0.2 on misses and 0.08 on the 8 hits. Each of the 8
/// that miss too costs 0.1 instead of 0.01 of the cycles: 1.5 x (1 + 8 x 0.09).
#[test]
fn without_any_way_every_reference_misses() {
    let first = WaysPoint {
        slowdown: 1.5,
        ipc: 0.5,
        llc_mpki: 2.0,
        llc_apki: 10.0,
        memory_stalls: 0.2,
        l2_miss_stalls: 0.28,
        ..WaysPoint::default()
    };
    let second = WaysPoint { slowdown: 1.0, llc_mpki: 1.0, ..first };
    let (mpki, slowdown) = without_ways(&curve(&[first, second]));
    assert!((slowdown - 1.5 * 1.72).abs() < 1e-12 && mpki == 10.0, "{mpki} {slowdown}");
    // In the line through one and two ways where references are not known.
    let unknown = [first, second].map(|point| WaysPoint { llc_apki: 0.0, ..point });
    assert_eq!(without_ways(&curve(&unknown)), (3.0, 2.0));
}

#[test]
fn a_program_alone_is_its_curve() {
    let point =
        |slowdown| WaysPoint { slowdown, ipc: 1.0, llc_mpki: slowdown, ..WaysPoint::default() };
    let alone = curve(&[2.0, 1.5, 1.25, 1.0].map(point));
    let clusters = started(&[&alone], 4);
    assert_eq!([1, 2, 3, 4].map(|ways| clusters.worst(0, ways)), [2.0, 1.5, 1.25, 1.0]);
    let fewest = [1.75, 1.25, 1.375, 0.9].map(|target| clusters.fewest(0, target));
    assert_eq!(fewest, [Some(1.5), Some(3.0), Some(2.5), None]);
    assert!(clusters.fewest(0, 2.1).is_some_and(|ways| ways <= 1.0));
    // With three ways it would be slower than with two.
    let odd = curve(&[2.0, 1.2, 1.25, 1.0].map(point));
    let clusters = started(&[&odd], 4);
    assert_eq!([1, 2, 3, 4].map(|ways| clusters.worst(0, ways)), [2.0, 1.25, 1.25, 1.0]);
}
