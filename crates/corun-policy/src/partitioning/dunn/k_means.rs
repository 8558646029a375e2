//! k-means on a line, seeded.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Starts of k-means for each number of clusters; the tightest result counts.
const STARTS: usize = 8;
/// Rounds of a start at most; on a line few are needed.
const ROUNDS: usize = 100;

/// Clusters points on a line.
pub(super) struct KMeans {
    seed: u64,
}

impl KMeans {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// By point its cluster, for the number of clusters (2 to `most`, and below the number of points
    /// where that leaves any) with the highest Dunn index; the fewest clusters of equal ones. Points
    /// lie between 0 and 1, and not all in one place.
    pub(super) fn best_by_dunn_index(&self, points: &[f64], most: usize) -> Vec<usize> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let last = most.min(points.len().saturating_sub(1).max(2));
        let mut best = (f64::NEG_INFINITY, vec![0; points.len()]);
        for count in 2..=last {
            let starts = (0..STARTS).map(|_| cluster(points, count, &mut random));
            let tightest = starts.min_by(|one, other| one.1.total_cmp(&other.1));
            let Some((clusters, _)) = tightest else { continue };
            let index = dunn_index(points, &clusters);
            if index > best.0 {
                best = (index, clusters);
            }
        }
        best.1
    }
}

/// Lloyd's algorithm from a k-means++ start; by point its cluster, numbered from 0 without gaps, and
/// the sum of squares.
fn cluster(points: &[f64], count: usize, random: &mut Pcg64Mcg) -> (Vec<usize>, f64) {
    let mut centres = vec![points[random.random_range(0..points.len())]];
    let squared = |point: f64, centres: &[f64]| {
        centres.iter().map(|centre| (point - centre).powi(2)).fold(f64::INFINITY, f64::min)
    };
    while centres.len() < count {
        let weights: Vec<f64> = points.iter().map(|&point| squared(point, &centres)).collect();
        let sum: f64 = weights.iter().sum();
        if sum <= 0.0 {
            break;
        }
        let mut draw = random.random::<f64>() * sum;
        let place = weights.iter().position(|weight| {
            draw -= weight;
            draw < 0.0
        });
        centres.push(points[place.unwrap_or(points.len() - 1)]);
    }
    let nearest = |point: f64, centres: &[f64]| {
        let distance = |place: &usize| (point - centres[*place]).abs();
        (0..centres.len()).min_by(|one, other| distance(one).total_cmp(&distance(other)))
    };
    let mut clusters = Vec::new();
    for _ in 0..ROUNDS {
        let next: Vec<usize> =
            points.iter().map(|&point| nearest(point, &centres).unwrap_or(0)).collect();
        if next == clusters {
            break;
        }
        clusters = next;
        for (place, centre) in centres.iter_mut().enumerate() {
            let of = points.iter().zip(&clusters).filter(|(_, one)| **one == place);
            let (sum, number) = of.fold((0.0, 0.0), |(sum, n), (point, _)| (sum + point, n + 1.0));
            if number > 0.0 {
                *centre = sum / number;
            }
        }
    }
    let spread = points.iter().map(|&point| squared(point, &centres)).sum();
    let mut used: Vec<usize> = clusters.clone();
    used.sort_unstable();
    used.dedup();
    let number = |cluster: &usize| used.binary_search(cluster).unwrap_or(0);
    (clusters.iter().map(number).collect(), spread)
}

/// The least distance between points of two clusters over the greatest within one (Dunn, 1974).
/// Infinite where every cluster is one place.
fn dunn_index(points: &[f64], clusters: &[usize]) -> f64 {
    let (mut between, mut within) = (f64::INFINITY, 0.0f64);
    for (place, (one, cluster)) in points.iter().zip(clusters).enumerate() {
        for (other, other_cluster) in points[..place].iter().zip(clusters) {
            let distance = (one - other).abs();
            if cluster == other_cluster {
                within = within.max(distance);
            } else {
                between = between.min(distance);
            }
        }
    }
    if between == f64::INFINITY { 0.0 } else { between / within }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_whatever_the_seed() {
        let points = [0.0, 0.9, 0.05, 1.0, 0.5, 0.52];
        for seed in 0..20 {
            let clusters = KMeans::new(seed).best_by_dunn_index(&points, 6);
            let same = |one: usize, other: usize| clusters[one] == clusters[other];
            assert!(same(0, 2) && same(1, 3) && same(4, 5), "{clusters:?}");
            assert!(!same(0, 1) && !same(0, 4) && !same(1, 4), "{clusters:?}");
        }
    }

    /// 0.4 between the clusters, at most 0.1 within one.
    #[test]
    fn the_dunn_index_by_hand() {
        let index = dunn_index(&[0.0, 0.1, 0.5, 0.55], &[0, 0, 1, 1]);
        assert!((index - 4.0).abs() < 1e-12, "{index}");
        assert_eq!(dunn_index(&[0.0, 1.0], &[0, 1]), f64::INFINITY);
        assert_eq!(dunn_index(&[0.0, 1.0], &[0, 0]), 0.0);
    }

    #[test]
    fn two_points_are_two_clusters() {
        let clusters = KMeans::new(1).best_by_dunn_index(&[0.0, 1.0], 2);
        assert_ne!(clusters[0], clusters[1]);
        assert_eq!(KMeans::new(1).best_by_dunn_index(&[0.0, 1.0, 0.5], 1), [0, 0, 0]);
    }
}
