//! From a latency ladder (latency by the size of what is visited) to the levels of a hierarchy: how
//! long each takes and how much it holds. Caches and TLBs are read from ladders alike.

use super::isotonic::ascending;
use corun_metrics::median;

/// The fewest points of a level.
const LEAST_POINTS: usize = 3;
/// What a point between two levels costs, as a difference of logarithms: as much as a point that is
/// taken for a level's and is a fifth off, so that levels may rise gently.
const BETWEEN_COST: f64 = 0.2;
/// What a level costs where their number is unknown: a level is worth it if the points that it
/// explains are otherwise off by that much in all.
const LEVEL_COST: f64 = 2.0;
/// The most levels that are looked for where their number is unknown.
const MOST_LEVELS: usize = 6;
/// Two levels with latencies nearer to each other than this are one.
const LEAST_RATIO: f64 = 1.12;
/// A level is flat over at least this factor in size.
const LEAST_SPAN: f64 = 1.3;
/// Steps between two points in which the share of hits is interpolated.
const STEPS_BETWEEN: u32 = 8;

/// A level of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    /// Latency of what is found here, in the unit of the ladder.
    pub(crate) latency: f64,
    /// The most that was ever found here, in the unit of the sizes; none for the last level, which
    /// holds all.
    pub(crate) capacity: Option<f64>,
}

/// The levels of a ladder, nearest first: latencies and capacities both ascend.
///
/// `points` are sizes and latencies by ascending size; `expected` is how many levels there should
/// be, where that is known. Fewer come out where two cannot be told apart.
///
/// 1. The points are made monotone, since a larger set cannot be faster.
/// 2. The sequence of logarithms is cut into flat stretches and points between them, at the least
///    sum of distances (dynamic programming, as in Bellman, Communications of the ACM 4(6), 1961).
/// 3. With the latencies l and l' of a level and the next, a latency in between is a mix of hits and
///    misses: the share of hits is h = (l' - latency) / (l' - l). The most that was found in the
///    level is the largest size x h: all of a set that fits, and what is left of one that does not.
pub(crate) fn levels(points: &[(f64, f64)], expected: Option<usize>) -> Vec<Level> {
    let points: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(size, latency)| *size > 0.0 && *latency > 0.0 && latency.is_finite())
        .collect();
    let sizes: Vec<f64> = points.iter().map(|point| point.0).collect();
    let latencies = ascending(&points.iter().map(|point| point.1).collect::<Vec<_>>());
    let logs: Vec<f64> = latencies.iter().map(|latency| latency.ln()).collect();
    let stretches = told_apart(flat_stretches(&logs, expected), &sizes, &latencies);
    let first: Vec<f64> = stretches.iter().map(|one| middle(one, &latencies)).collect();
    let rough = capacities(&stretches, &sizes, &latencies, &first);
    let refined = plateaus(&stretches, &sizes, &latencies, &rough);
    let capacities = capacities(&stretches, &sizes, &latencies, &refined);
    let mut capacities = capacities.into_iter().map(Some).chain([None]);
    refined
        .into_iter()
        .map(|latency| Level { latency, capacity: capacities.next().flatten() })
        .collect()
}

/// Which cache each level is: the levels but the last, each with the number of a cache out of
/// `caches` (number and size, nearest first). Where there are fewer levels than caches, the order is
/// kept and the sizes decide; levels beyond the caches are left out.
pub(crate) fn assigned(levels: &[Level], caches: &[(u32, f64)]) -> Vec<(Level, u32)> {
    let held: Vec<Level> =
        levels.iter().filter(|level| level.capacity.is_some()).copied().collect();
    let pairs = nearest_sizes(&held, caches);
    pairs.into_iter().map(|(level, cache)| (held[level], caches[cache].0)).collect()
}

/// Pairs of a level and a cache, both ascending, with the least sum of differences of logarithms.
fn nearest_sizes(levels: &[Level], caches: &[(u32, f64)]) -> Vec<(usize, usize)> {
    fn off(level: &Level, size: f64) -> f64 {
        level.capacity.map_or(0.0, |capacity| (capacity / size).ln().abs())
    }
    fn best(levels: &[Level], caches: &[(u32, f64)]) -> (f64, Vec<(usize, usize)>) {
        let (Some(level), Some(cache)) = (levels.last(), caches.last()) else {
            return (0.0, Vec::new());
        };
        let (here, there) = (levels.len() - 1, caches.len() - 1);
        let (cost, mut pairs) = best(&levels[..here], &caches[..there]);
        pairs.push((here, there));
        let paired = (cost + off(level, cache.1), pairs);
        let other = match levels.len().cmp(&caches.len()) {
            std::cmp::Ordering::Equal => return paired,
            std::cmp::Ordering::Less => best(levels, &caches[..there]),
            std::cmp::Ordering::Greater => best(&levels[..here], caches),
        };
        if other.0 < paired.0 { other } else { paired }
    }
    best(levels, caches).1
}

/// Points of one level: `start..end`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    start: usize,
    end: usize,
}

fn middle(stretch: &Stretch, latencies: &[f64]) -> f64 {
    median(&latencies[stretch.start..stretch.end]).unwrap_or(0.0)
}

fn flat_stretches(logs: &[f64], expected: Option<usize>) -> Vec<Stretch> {
    let n = logs.len();
    if n < LEAST_POINTS {
        return Vec::new();
    }
    let most = expected.unwrap_or(MOST_LEVELS).clamp(1, n / LEAST_POINTS);
    // off[i][j]: how far the points i..j are off their median in all. They ascend already.
    let off = |start: usize, end: usize| -> f64 {
        let middle = median(&logs[start..end]).unwrap_or(0.0);
        logs[start..end].iter().map(|log| (log - middle).abs()).sum()
    };
    let costs: Vec<Vec<f64>> =
        (0..n).map(|start| (start..=n).map(|end| off(start, end)).collect()).collect();
    // flat[k][end]: the least cost of the points before `end` with k + 1 levels of which the last
    // ends there, and where that level starts; `between` is the same with points between levels
    // after it.
    let mut flat = vec![vec![(f64::INFINITY, 0usize); n + 1]; most];
    let mut between = vec![vec![(f64::INFINITY, 0usize); n + 1]; most];
    for level in 0..most {
        for end in LEAST_POINTS..=n {
            for start in 0..=end - LEAST_POINTS {
                let before = match level {
                    0 if start == 0 => 0.0,
                    0 => continue,
                    _ => between[level - 1][start].0,
                };
                let cost = before + costs[start][end - start];
                if cost < flat[level][end].0 {
                    flat[level][end] = (cost, start);
                }
            }
        }
        for end in 1..=n {
            let (cost, ended) = between[level][end - 1];
            between[level][end] = (cost + BETWEEN_COST, ended);
            if flat[level][end].0 <= between[level][end].0 {
                between[level][end] = (flat[level][end].0, end);
            }
        }
    }
    let count = match expected {
        // As many as there should be, if there are points enough.
        Some(_) => (0..most).rev().find(|&level| flat[level][n].0.is_finite()),
        None => (0..most).min_by(|&a, &b| {
            let cost = |level: usize| flat[level][n].0 + LEVEL_COST * level as f64;
            cost(a).total_cmp(&cost(b))
        }),
    };
    let mut stretches = Vec::new();
    let mut end = n;
    for level in (0..=count.unwrap_or(0)).rev() {
        let start = flat[level][end].1;
        stretches.push(Stretch { start, end });
        if level > 0 {
            end = between[level - 1][start].1;
        }
    }
    stretches.reverse();
    stretches
}

/// The stretches without those that are hardly slower than the one before, or hardly longer than a
/// step.
fn told_apart(stretches: Vec<Stretch>, sizes: &[f64], latencies: &[f64]) -> Vec<Stretch> {
    let count = stretches.len();
    let mut kept: Vec<Stretch> = Vec::new();
    for (place, stretch) in stretches.into_iter().enumerate() {
        let short = sizes[stretch.end - 1] / sizes[stretch.start] < LEAST_SPAN;
        // The first and the last level are there in any case: a ladder begins and ends somewhere.
        if short && place > 0 && place + 1 < count {
            continue;
        }
        match kept.last_mut() {
            Some(last) if middle(&stretch, latencies) < middle(last, latencies) * LEAST_RATIO => {
                last.end = stretch.end;
            }
            _ => kept.push(stretch),
        }
    }
    kept
}

/// The latency of each level away from the neighbours' reach: of sets twice as large as what the
/// level before holds, and no larger than what this one holds; of the last level, of sets four times
/// as large as what the one before holds, where there are any.
fn plateaus(
    stretches: &[Stretch],
    sizes: &[f64],
    latencies: &[f64],
    capacities: &[f64],
) -> Vec<f64> {
    let within = |from: f64, to: f64| -> Option<f64> {
        let inside = sizes.iter().zip(latencies).filter(|(size, _)| (from..=to).contains(*size));
        median(&inside.map(|(_, latency)| *latency).collect::<Vec<_>>())
    };
    let mut refined: Vec<f64> = Vec::new();
    for (place, stretch) in stretches.iter().enumerate() {
        let below = place.checked_sub(1).map_or(0.0, |below| capacities[below]);
        let found = match capacities.get(place) {
            Some(&capacity) => within(2.0 * below, capacity),
            None => {
                within(4.0 * below, f64::INFINITY).or_else(|| within(2.0 * below, f64::INFINITY))
            }
        };
        let latency = found.unwrap_or_else(|| middle(stretch, latencies));
        refined.push(refined.last().map_or(latency, |last| latency.max(*last)));
    }
    refined
}

/// What each level but the last holds at most.
fn capacities(stretches: &[Stretch], sizes: &[f64], latencies: &[f64], levels: &[f64]) -> Vec<f64> {
    let mut held = Vec::new();
    let mut least = 0.0f64;
    for (place, pair) in stretches.windows(2).enumerate() {
        let (here, next) = (levels[place], levels[place + 1]);
        let hits = |latency: f64| match next > here {
            true => ((next - latency) / (next - here)).clamp(0.0, 1.0),
            false => 1.0,
        };
        let mut most = sizes[pair[0].start];
        for point in pair[0].start..pair[1].start {
            for step in 0..=STEPS_BETWEEN {
                let share = f64::from(step) / f64::from(STEPS_BETWEEN);
                let between =
                    |values: &[f64]| values[point] + share * (values[point + 1] - values[point]);
                most = most.max(between(sizes) * hits(between(latencies)));
            }
        }
        least = least.max(most);
        held.push(least);
    }
    held
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
