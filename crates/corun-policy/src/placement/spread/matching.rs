//! The best way to pair rows with columns.

/// For each row of a square matrix its column, such that the sum of the chosen weights is the
/// highest (the Hungarian method by shortest augmenting paths: Jonker and Volgenant, Computing
/// 1987; n^3 steps at worst). `weights` holds row after row.
pub(super) fn heaviest(weights: &[i64], size: usize) -> Vec<usize> {
    let mut matching = Matching {
        weights,
        size,
        row_price: vec![0; size + 1],
        column_price: vec![0; size + 1],
        row_of: vec![size; size + 1],
    };
    for row in 0..size {
        matching.add(row);
    }
    let mut columns = vec![0; size];
    for (column, &row) in matching.row_of[..size].iter().enumerate() {
        columns[row] = column;
    }
    columns
}

struct Matching<'a> {
    weights: &'a [i64],
    size: usize,
    row_price: Vec<i64>,
    column_price: Vec<i64>,
    /// For each column its row; `size` stands for none. The last column is where a search starts.
    row_of: Vec<usize>,
}

impl Matching<'_> {
    /// Adds a row along the cheapest path of exchanges to a free column.
    fn add(&mut self, row: usize) {
        let size = self.size;
        let mut distance = vec![i64::MAX; size];
        let mut previous = vec![size; size];
        let mut done = vec![false; size + 1];
        let mut at = size;
        self.row_of[size] = row;
        while self.row_of[at] != size {
            done[at] = true;
            let from = self.row_of[at];
            let (mut step, mut next) = (i64::MAX, size);
            for column in 0..size {
                if done[column] {
                    continue;
                }
                let cost = -self.weights[from * size + column];
                let reduced = cost - self.row_price[from] - self.column_price[column];
                if reduced < distance[column] {
                    (distance[column], previous[column]) = (reduced, at);
                }
                if distance[column] < step {
                    (step, next) = (distance[column], column);
                }
            }
            for column in 0..=size {
                if done[column] {
                    self.row_price[self.row_of[column]] += step;
                    self.column_price[column] -= step;
                } else {
                    distance[column] -= step;
                }
            }
            at = next;
        }
        while at != size {
            self.row_of[at] = self.row_of[previous[at]];
            at = previous[at];
        }
        self.row_of[size] = size;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn best_by_trying_all(weights: &[i64], size: usize, row: usize, taken: u32) -> i64 {
        if row == size {
            return 0;
        }
        (0..size)
            .filter(|column| taken & (1 << column) == 0)
            .map(|column| {
                let rest = best_by_trying_all(weights, size, row + 1, taken | (1 << column));
                weights[row * size + column] + rest
            })
            .max()
            .unwrap()
    }

    proptest! {
        #[test]
        fn no_other_pairing_is_heavier(
            (size, weights) in (1usize..=6).prop_flat_map(|size| {
                (Just(size), prop::collection::vec(-20i64..20, size * size))
            })
        ) {
            let columns = heaviest(&weights, size);
            let mut seen = columns.clone();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..size).collect::<Vec<_>>());
            let sum: i64 = (0..size).map(|row| weights[row * size + columns[row]]).sum();
            prop_assert_eq!(sum, best_by_trying_all(&weights, size, 0, 0));
        }
    }
}
