//! How many misses a core has outstanding at a time.

/// Misses in flight by how many chains of dependent misses are followed at a time: `points` are
/// chains and the time for a miss, of all chains together. By Little's law (Operations Research
/// 9(3), 1961) that is the rate x the latency of one chain alone, of which the first point tells.
pub(crate) fn in_flight(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let Some(&(_, alone)) = points.first() else { return Vec::new() };
    points.iter().map(|&(chains, time)| (chains, alone / time)).collect()
}

/// The most misses in flight with any number of chains.
pub(crate) fn most_in_flight(points: &[(f64, f64)]) -> Option<f64> {
    let flights = in_flight(points).into_iter().map(|(_, flight)| flight);
    flights.filter(|flight| flight.is_finite()).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_saturates_at_the_misses_outstanding() {
        // A latency of 100, at most 10 at a time.
        let points =
            [(1.0, 100.0), (2.0, 50.0), (4.0, 25.0), (8.0, 12.5), (16.0, 10.0), (32.0, 10.0)];
        assert_eq!(most_in_flight(&points), Some(10.0));
        assert_eq!(in_flight(&points)[3], (8.0, 8.0));
        assert_eq!(most_in_flight(&[]), None);
        assert_eq!(most_in_flight(&[(1.0, f64::NAN)]), None);
    }
}
