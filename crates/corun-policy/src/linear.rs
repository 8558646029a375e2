//! Small systems of linear equations.

/// Solves `matrix` x = `right` by Gaussian elimination with row pivoting; none where the matrix is
/// singular. Row by row, each as long as `right`.
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let count = right.len();
    for column in 0..count {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..count).max_by(|a, b| size(a).total_cmp(&size(b)).then(b.cmp(a)))?;
        if matrix[pivot][column].abs() < 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (above, below) = matrix.split_at_mut(column + 1);
        let pivot = &above[column];
        for (row, own) in below.iter_mut().enumerate() {
            let factor = own[column] / pivot[column];
            for (one, other) in own.iter_mut().zip(pivot).skip(column) {
                *one -= factor * other;
            }
            right[column + 1 + row] -= factor * right[column];
        }
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|place| matrix[row][place] * right[place]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    Some(right)
}

/// An equation: coefficients by unknown, right side, weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Equation {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) right: f64,
    pub(crate) weight: f64,
}

/// The unknowns for which the weighted squares of the equations' errors, plus `ridge` times the
/// squares of the distances from `prior`, are least. With `ridge` above 0 there is always one answer,
/// and what the equations leave open is as in the prior.
pub(crate) fn least_squares(equations: &[Equation], prior: &[f64], ridge: f64) -> Option<Vec<f64>> {
    let count = prior.len();
    let mut matrix = vec![vec![0.0; count]; count];
    let mut right: Vec<f64> = prior.iter().map(|one| ridge * one).collect();
    for (place, row) in matrix.iter_mut().enumerate() {
        row[place] = ridge;
    }
    for Equation { coefficients, right: value, weight } in equations {
        for (row, own) in coefficients.iter().enumerate() {
            for (place, other) in coefficients.iter().enumerate() {
                matrix[row][place] += weight * own * other;
            }
            right[row] += weight * own * value;
        }
    }
    solve(matrix, right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// CASC, section 4.2, with n = 3: rows leave out thread 0, 1, 2, 3; PCMRs 3, 6, 12, 30 give means
    /// 16, 15, 13 and 7.
    #[test]
    fn four_threads_on_three_cpus_by_hand() {
        let matrix = (0..4).map(|out| (0..4).map(|at| f64::from(u8::from(at != out))).collect());
        let right = [16.0, 15.0, 13.0, 7.0].map(|mean| 3.0 * mean);
        let found = solve(matrix.collect(), right.to_vec()).unwrap();
        for (found, expected) in found.iter().zip([3.0, 6.0, 12.0, 30.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn a_singular_system_has_no_answer() {
        assert_eq!(solve(vec![vec![1.0, 2.0], vec![2.0, 4.0]], vec![1.0, 2.0]), None);
    }

    /// x + y = 10 alone, prior (2, 4): the error 4 is shared equally.
    #[test]
    fn what_is_left_open_is_as_before() {
        let equation = Equation { coefficients: vec![1.0, 1.0], right: 10.0, weight: 1.0 };
        let found = least_squares(&[equation], &[2.0, 4.0], 1e-9).unwrap();
        assert!((found[0] - 4.0).abs() < 1e-6 && (found[1] - 6.0).abs() < 1e-6, "{found:?}");
    }

    proptest! {
        #[test]
        fn leaving_one_out_gives_all_back(truth in prop::collection::vec(0.0..100.0f64, 2..30)) {
            let count = truth.len();
            let rows: Vec<Vec<f64>> = (0..count)
                .map(|out| (0..count).map(|at| f64::from(u8::from(at != out))).collect())
                .collect();
            let sum: f64 = truth.iter().sum();
            let right: Vec<f64> = truth.iter().map(|one| sum - one).collect();
            let equations: Vec<Equation> = rows
                .iter()
                .zip(&right)
                .map(|(row, &right)| Equation { coefficients: row.clone(), right, weight: 1.0 })
                .collect();
            let fitted = least_squares(&equations, &vec![50.0; count], 1e-9).unwrap();
            for ((found, fitted), truth) in solve(rows, right).unwrap().iter().zip(&fitted).zip(&truth) {
                prop_assert!((found - truth).abs() < 1e-6);
                prop_assert!((fitted - truth).abs() < 1e-3);
            }
        }
    }
}
