use super::*;
use crate::partitioning::online::window::Sample;
use crate::{Nanoseconds, WaysPoint};

const LIMITS: Limits = Limits {
    high_mpkc: 10.0,
    low_mpkc: 3.0,
    memory_stalls: 0.25,
    periods: 5,
    back_off: 2.0,
    critical_slowdown: 1.05,
};

fn seen(llc_mpkc: f64, memory_stalls: Option<f64>, held_ways: f64) -> Seen {
    let sample = Sample {
        ipc: 1.0,
        llc_mpki: llc_mpkc,
        llc_apki: None,
        llc_mpkc,
        bytes_per_s: 0.0,
        memory_stalls,
    };
    Seen { now: Nanoseconds(0), sample, held_bytes: held_ways * 1e6, is_held_counted: true }
}

/// A program that was sampled: slowdowns with 1, 2, 3 .. ways of 1 MB.
fn watched(slowdowns: &[f64]) -> Watched {
    let point = |&slowdown: &f64| WaysPoint { slowdown, ..WaysPoint::default() };
    let curve = WaysCurve::new(slowdowns.iter().map(point).collect()).unwrap();
    let mut watched = Watched::default();
    watched.sampled(false, &curve, 1e6, &LIMITS);
    watched
}

/// How many such windows it takes until a sign shows, up to 100.
fn windows(watched: &mut Watched, class: CacheClass, seen: Seen) -> Option<u32> {
    (1..=100).find(|_| watched.has_changed(class, &seen, &LIMITS))
}

#[test]
fn a_light_program_that_becomes_intensive() {
    use CacheClass::LightSharing;
    let after = |one| windows(&mut watched(&[1.0]), LightSharing, one);
    assert_eq!(after(seen(10.1, None, 1.0)), Some(5));
    assert_eq!(after(seen(10.0, Some(0.25), 1.0)), None);
    assert_eq!(after(seen(0.0, Some(0.26), 1.0)), Some(5));
    // A spike is filtered out: 40 in one window of five are 8 on average.
    let mut spiky = watched(&[1.0]);
    let mpkc = |window: u32| if window.is_multiple_of(5) { 40.0 } else { 0.0 };
    let signs = (0..50)
        .filter(|&one| spiky.has_changed(LightSharing, &seen(mpkc(one), Some(0.0), 1.0), &LIMITS));
    assert_eq!(signs.count(), 0);
}

#[test]
fn a_streaming_program_that_misses_no_more() {
    let after = |mpkc| windows(&mut watched(&[1.0]), CacheClass::Streaming, seen(mpkc, None, 1.0));
    assert_eq!((after(3.0), after(2.9)), (None, Some(5)));
}

/// Critical size: 3 ways, the first with a slowdown below 1.05.
#[test]
fn a_sensitive_program_by_its_critical_size() {
    let after = |mpkc, stalls, held| {
        let mut one = watched(&[1.5, 1.05, 1.049, 1.0]);
        windows(&mut one, CacheClass::Sensitive, seen(mpkc, Some(stalls), held))
    };
    // Not intensive with less than it needs.
    assert_eq!(after(9.0, 0.2, 2.9), Some(5));
    assert_eq!(after(9.0, 0.2, 3.0), None);
    assert_eq!(after(9.0, 0.3, 2.9), None);
    // Many misses with more than it needs.
    assert_eq!(after(11.0, 0.2, 3.1), Some(5));
    assert_eq!(after(11.0, 0.2, 3.0), None);
}

#[test]
fn a_sign_that_was_wrong_has_to_last_longer() {
    let mut one = watched(&[1.0]);
    let curve = WaysCurve::new(vec![WaysPoint::default()]).unwrap();
    let busy = seen(20.0, None, 1.0);
    let mut lengths = Vec::new();
    for _ in 0..5 {
        lengths.push(windows(&mut one, CacheClass::LightSharing, busy));
        one.sampled(true, &curve, 1e6, &LIMITS);
    }
    assert_eq!(lengths, [Some(5), Some(10), Some(20), Some(40), Some(80)]);
    one.sampled(false, &curve, 1e6, &LIMITS);
    assert_eq!(windows(&mut one, CacheClass::LightSharing, busy), Some(5));
}
