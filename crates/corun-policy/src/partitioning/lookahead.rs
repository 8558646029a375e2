//! UCP's lookahead (Qureshi and Patt, MICRO 2006; García García, thesis, UCM 2021, algorithm 5.2).

/// The best next grant for one receiver: more ways, and what they gain each.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Grant {
    /// The fall of the cost for each way more; 0 where no grant lowers it.
    pub(crate) gain_per_way: f64,
    /// Ways more.
    pub(crate) ways: u32,
}

impl Grant {
    /// The best grant of up to `most` ways to a receiver of `from` ways, by its cost with each
    /// number of ways. Of equal ones the smallest.
    pub(crate) fn best(cost: impl Fn(u32) -> f64, from: u32, most: u32) -> Self {
        let now = cost(from);
        let mut best = Self::default();
        for ways in 1..=most {
            let gain_per_way = (now - cost(from + ways)) / f64::from(ways);
            if gain_per_way > best.gain_per_way {
                best = Self { gain_per_way, ways };
            }
        }
        best
    }
}

/// Shares `ways` among the receivers: `least` for each, then again and again the grant of the
/// highest gain per way (marginal utility), the first receiver's of equal ones. What is left when no
/// grant gains goes round robin from the first receiver. `best(receiver, from, most)` is that
/// receiver's best grant. There must be `least` ways for each.
///
/// `grants` is working memory.
pub(crate) fn lookahead(
    ways: u32,
    least: u32,
    allocation: &mut [u32],
    grants: &mut Vec<Grant>,
    best: impl Fn(usize, u32, u32) -> Grant,
) {
    allocation.fill(least);
    let mut left = ways - least * allocation.len() as u32;
    grants.clear();
    grants.extend((0..allocation.len()).map(|receiver| best(receiver, least, left)));
    while left > 0 {
        let mut winner = 0;
        let mut gain = 0.0;
        for (receiver, grant) in grants.iter().enumerate() {
            if grant.gain_per_way > gain {
                (winner, gain) = (receiver, grant.gain_per_way);
            }
        }
        if gain <= 0.0 {
            break;
        }
        allocation[winner] += grants[winner].ways;
        left -= grants[winner].ways;
        // A grant that still fits is still the best of those that fit.
        for (receiver, grant) in grants.iter_mut().enumerate() {
            if receiver == winner || grant.ways > left {
                *grant = best(receiver, allocation[receiver], left);
            }
        }
    }
    round_robin(left, allocation);
}

/// One way each in turn from the first receiver until none is left.
pub(crate) fn round_robin(left: u32, allocation: &mut [u32]) {
    let count = allocation.len() as u32;
    if count == 0 {
        return;
    }
    for (receiver, ways) in (0..).zip(allocation) {
        *ways += left / count + u32::from(receiver < left % count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(curves: &[Vec<f64>], ways: u32, least: u32) -> Vec<u32> {
        let mut allocation = vec![0; curves.len()];
        lookahead(ways, least, &mut allocation, &mut Vec::new(), |receiver, from, most| {
            Grant::best(|ways| curves[receiver][ways as usize - 1], from, most)
        });
        allocation
    }

    /// Algorithm 5.2 as it stands, without memory: every grant of every receiver, each round.
    fn by_definition(curves: &[Vec<f64>], ways: u32, least: u32) -> Vec<u32> {
        let mut allocation = vec![least; curves.len()];
        loop {
            let left = ways - allocation.iter().sum::<u32>();
            let mut best: Option<(f64, usize, u32)> = None;
            for (receiver, curve) in curves.iter().enumerate() {
                let from = allocation[receiver] as usize;
                for more in 1..=left as usize {
                    let gain = (curve[from - 1] - curve[from + more - 1]) / more as f64;
                    if gain > best.map_or(0.0, |best| best.0) {
                        best = Some((gain, receiver, more as u32));
                    }
                }
            }
            match best {
                Some((_, receiver, more)) => allocation[receiver] += more,
                None => {
                    for turn in 0..left as usize {
                        allocation[turn % curves.len()] += 1;
                    }
                    return allocation;
                }
            }
        }
    }

    #[test]
    fn it_looks_past_a_flat_stretch() {
        // The first gains nothing from a second way and 30 from a third: 15 a way, more than 10.
        let curves = [vec![40.0, 40.0, 10.0, 10.0], vec![20.0, 10.0, 9.0, 9.0]];
        assert_eq!(share(&curves, 4, 1), [3, 1]);
        assert_eq!(share(&curves, 3, 1), [1, 2]);
    }

    #[test]
    fn ties_and_left_over_ways_go_to_the_first() {
        let same = [vec![4.0, 2.0, 1.0, 1.0, 1.0], vec![4.0, 2.0, 1.0, 1.0, 1.0]];
        assert_eq!(share(&same, 3, 1), [2, 1]);
        assert_eq!(share(&same, 5, 1), [3, 2]);
        let flat = [vec![1.0; 9], vec![1.0; 9], vec![1.0; 9]];
        assert_eq!(share(&flat, 8, 1), [3, 3, 2]);
        assert_eq!(share(&flat, 8, 2), [3, 3, 2]);
    }

    proptest! {
        #[test]
        fn it_is_algorithm_5_2(
            curves in prop::collection::vec(prop::collection::vec(0u8..6, 20), 1..7),
            ways in 7u32..20,
            least in 1u32..3,
        ) {
            let curves: Vec<Vec<f64>> = curves
                .iter()
                .map(|curve| curve.iter().map(|&one| f64::from(one)).collect())
                .collect();
            prop_assume!(curves.len() as u32 * least <= ways);
            let allocation = share(&curves, ways, least);
            prop_assert_eq!(allocation.iter().sum::<u32>(), ways);
            prop_assert_eq!(allocation, by_definition(&curves, ways, least));
        }
    }
}
