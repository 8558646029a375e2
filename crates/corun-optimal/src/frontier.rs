//! Throughput against unfairness: the placements of which no other has more of the one without more of the other.

use corun_metrics::{stp, unfairness};
use rayon::prelude::*;

use crate::contention::Contention;
use crate::expectation::{MOST_VISITED, Visit};
use crate::groups::{self, Bounder};
use crate::search::StopRule;
use crate::search_space::SearchSpace;

/// Placements between two looks at the clock.
const CHUNK: usize = 512;

/// A placement on the frontier.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontierPoint {
    /// CPU index of each program.
    pub cpu: Vec<usize>,
    /// Throughput: the sum of 1 / slowdown.
    pub stp: f64,
    /// The largest slowdown over the smallest.
    pub unfairness: f64,
}

/// The frontier by rising throughput. `None` when more than [`MOST_VISITED`] placements differ, when a slowdown is not
/// finite and above 0, and when it was stopped.
pub(crate) fn frontier<C: Contention>(
    space: &SearchSpace<C>,
    stop: &StopRule<'_>,
) -> Option<Vec<FrontierPoint>> {
    let groups = groups::all(space)?;
    let placements = Visit::new(space, &groups).placements(MOST_VISITED)?;
    let chunks: Vec<Option<Vec<FrontierPoint>>> = placements
        .par_chunks(CHUNK)
        .map_init(Bounder::<C>::default, |bounder, chunk| {
            let mut points = Vec::with_capacity(chunk.len());
            for (cpu, _) in chunk {
                let slowdowns = space.slowdowns(cpu, &mut bounder.scratch);
                let (stp, unfairness) = (stp(&slowdowns)?, unfairness(&slowdowns)?);
                points.push(FrontierPoint { cpu: cpu.clone(), stp, unfairness });
            }
            (!stop.is_due()).then(|| undominated(points))
        })
        .collect();
    let mut points = Vec::new();
    for chunk in chunks {
        points.extend(chunk?);
    }
    Some(undominated(points))
}

/// Those of which no other is as good in both and better in one, by rising throughput; of equal ones the first.
fn undominated(mut points: Vec<FrontierPoint>) -> Vec<FrontierPoint> {
    // From the highest throughput down each next one must be fairer than all before.
    points.sort_by(|one, other| {
        other.stp.total_cmp(&one.stp).then(one.unfairness.total_cmp(&other.unfairness))
    });
    let mut fairest = f64::INFINITY;
    points.retain(|point| {
        let is_fairer = point.unfairness < fairest;
        fairest = fairest.min(point.unfairness);
        is_fairer
    });
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_point_of_the_frontier_is_beaten_in_both() {
        let point = |stp, unfairness| FrontierPoint { cpu: Vec::new(), stp, unfairness };
        let all = vec![
            point(3.0, 1.5),
            point(2.0, 1.2),
            point(2.5, 1.6), // less and less fair than the first
            point(3.0, 1.7), // as much as the first, less fair
            point(3.5, 2.0),
            point(1.0, 1.2), // less than the second, as fair
        ];
        let kept: Vec<(f64, f64)> =
            undominated(all).iter().map(|one| (one.stp, one.unfairness)).collect();
        assert_eq!(kept, [(2.0, 1.2), (3.0, 1.5), (3.5, 2.0)]);
    }
}
