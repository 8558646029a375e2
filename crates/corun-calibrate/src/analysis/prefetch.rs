//! What prefetchers hide.

/// The share of memory's latency that is hidden, 0 to 1: a load takes `time` where it would take
/// `memory` in random order and `hit` in the nearest cache.
pub(crate) fn hidden_share(time: f64, hit: f64, memory: f64) -> f64 {
    (1.0 - (time - hit) / (memory - hit)).clamp(0.0, 1.0)
}

/// The most streams of which at least half of what is hidden in one stays hidden: `points` are
/// numbers of streams, ascending from one, and shares hidden. None where nothing is hidden in one.
pub(crate) fn streams(points: &[(u32, f64)]) -> Option<u32> {
    let (_, alone) = *points.first()?;
    let half = points.iter().take_while(|(_, hidden)| *hidden >= alone / 2.0);
    half.map(|(streams, _)| *streams).last().filter(|_| alone > LEAST_HIDDEN)
}

/// Less than this may be noise.
const LEAST_HIDDEN: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing_is_hidden() {
        assert_eq!(hidden_share(1.0, 1.0, 101.0), 1.0);
        assert_eq!(hidden_share(26.0, 1.0, 101.0), 0.75);
        assert_eq!(hidden_share(101.0, 1.0, 101.0), 0.0);
        // Noise.
        assert_eq!(hidden_share(120.0, 1.0, 101.0), 0.0);
    }

    #[test]
    fn streams_are_followed_until_half_is_lost() {
        assert_eq!(streams(&[(1, 0.8), (2, 0.9), (4, 0.5), (8, 0.39), (16, 0.7)]), Some(4));
        assert_eq!(streams(&[(1, 0.05), (2, 0.9)]), None);
        assert_eq!(streams(&[(1, f64::NAN)]), None);
        assert_eq!(streams(&[]), None);
    }
}
