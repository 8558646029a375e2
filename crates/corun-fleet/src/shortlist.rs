//! The nodes that are worth a prediction.

use std::cell::Cell;

/// At most so many of the lowest scores with their nodes, the lowest first; of equal scores the first node's. Once
/// there are so many, `highest` says on the way which score none may exceed.
pub(crate) fn lowest(
    scores: impl Iterator<Item = (f64, usize)>,
    most: usize,
    highest: &Cell<f64>,
) -> Vec<(f64, usize)> {
    let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let mut kept: Vec<(f64, usize)> = Vec::new();
    for one in scores {
        if kept.len() < most {
            kept.push(one);
            if kept.len() == most {
                kept.sort_by(order);
            }
        } else if let Some(last) = kept.last()
            && order(&one, last).is_lt()
        {
            let place = kept.partition_point(|other| order(other, &one).is_lt());
            kept.pop();
            kept.insert(place, one);
        }
        if let Some(last) = kept.last().filter(|_| kept.len() == most) {
            highest.set(last.0);
        }
    }
    kept.sort_by(order);
    kept
}

#[cfg(test)]
mod tests {
    use super::{Cell, lowest};

    #[test]
    fn the_lowest_scores_are_kept_in_order() {
        let scores = [(3.0, 0), (1.0, 1), (2.0, 2), (1.0, 3), (5.0, 4), (0.5, 5), (1.0, 6)];
        let kept = |most| lowest(scores.into_iter(), most, &Cell::default());
        assert_eq!(kept(3), [(0.5, 5), (1.0, 1), (1.0, 3)]);
        assert_eq!(kept(0), []);
        let mut all = scores.to_vec();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(kept(usize::MAX), all);
        assert_eq!(kept(7), all);
    }
}
