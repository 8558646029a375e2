//! A few programs that stand for many.

/// Places of `count` points that represent all: each in turn is the one that brings the sum of
/// distances to the nearest representative down most (the BUILD phase of PAM, Kaufman and
/// Rousseeuw, 1990), the first of equals. Ascending.
pub(super) fn representatives(points: &[[f64; 2]], count: usize) -> Vec<usize> {
    let distance = |i: usize, j: usize| {
        let [x, y] = [0, 1].map(|axis| points[i][axis] - points[j][axis]);
        x.hypot(y)
    };
    let mut nearest = vec![f64::INFINITY; points.len()];
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count.min(points.len()) {
        let total = |candidate: usize| -> f64 {
            nearest.iter().enumerate().map(|(one, &now)| now.min(distance(one, candidate))).sum()
        };
        let candidates = (0..points.len()).filter(|one| !chosen.contains(one));
        let best = candidates.map(|one| (total(one), one)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, best)) = best else { break };
        for (one, now) in nearest.iter_mut().enumerate() {
            *now = now.min(distance(one, best));
        }
        chosen.push(best);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_each_represented() {
        let points = [[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [5.0, 5.0], [5.1, 5.0], [9.0, 0.0]];
        let chosen = representatives(&points, 3);
        assert!(chosen.iter().any(|&one| one < 3), "{chosen:?}");
        assert!(chosen.contains(&5), "{chosen:?}");
        assert_eq!(chosen.len(), 3);
        assert_eq!(representatives(&points, 9), [0, 1, 2, 3, 4, 5]);
    }
}
