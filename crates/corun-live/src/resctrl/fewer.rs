//! Partitions of fewer parts, where there are not enough classes for all.

use corun_policy::CachePart;

/// At most so many parts: the two neighbours that have the fewest ways together become one, again
/// and again. Neighbours whose ways would have a gap between them stay apart.
pub(super) fn at_most(parts: &[CachePart], most: usize) -> Vec<CachePart> {
    let mut parts = parts.to_vec();
    // By their lowest way: who lies beside whom.
    parts.sort_by_key(|part| (part.mask.trailing_zeros(), part.mask.leading_zeros()));
    while parts.len() > most {
        let together = |place: usize| {
            let mask = parts[place].mask | parts[place + 1].mask;
            let has_gaps =
                (mask >> mask.trailing_zeros().min(63)).trailing_ones() != mask.count_ones();
            (!has_gaps).then_some((mask.count_ones(), place))
        };
        let Some((_, place)) = (0..parts.len() - 1).filter_map(together).min() else { break };
        let other = parts.remove(place + 1);
        parts[place].mask |= other.mask;
        parts[place].threads.extend(other.threads);
    }
    parts
}

#[cfg(test)]
mod tests {
    use corun_policy::ThreadId;

    use super::*;

    fn parts(of: &[(u64, &[u64])]) -> Vec<CachePart> {
        let part = |&(mask, threads): &(u64, &[u64])| CachePart {
            mask,
            threads: threads.iter().map(|&id| ThreadId(id)).collect(),
        };
        of.iter().map(part).collect()
    }

    #[test]
    fn the_smallest_neighbours_become_one() {
        let four = parts(&[(0x1, &[0]), (0x6, &[1]), (0x78, &[2, 3]), (0x780, &[4])]);
        assert_eq!(at_most(&four, 4), four);
        let three = parts(&[(0x7, &[0, 1]), (0x78, &[2, 3]), (0x780, &[4])]);
        assert_eq!(at_most(&four, 3), three);
        assert_eq!(at_most(&four, 2), parts(&[(0x7f, &[0, 1, 2, 3]), (0x780, &[4])]));
        assert_eq!(at_most(&four, 1), parts(&[(0x7ff, &[0, 1, 2, 3, 4])]));
    }

    #[test]
    fn gaps_stay_and_overlaps_join() {
        let apart = parts(&[(0x3, &[0]), (0x30, &[1])]);
        assert_eq!(at_most(&apart, 1), apart);
        let over = parts(&[(0x7, &[0]), (0x1e, &[1]), (0x700, &[2])]);
        assert_eq!(at_most(&over, 2), parts(&[(0x1f, &[0, 1]), (0x700, &[2])]));
    }
}
