//! Pairs of programs by minimum-weight perfect matching: the perfect policy of the classification
//! study (Jiang et al., PACT 2008, as used in DIO, section 2.1).

use rustworkx_core::max_weight_matching::max_weight_matching;
use rustworkx_core::petgraph::graph::{NodeIndex, UnGraph};

use crate::Goal;

/// Degradations are rounded to multiples of this before they are summed; sums are exact from there.
pub(crate) const DEGRADATION_RESOLUTION: f64 = 1e-12;

/// The largest degradation that a matrix may hold, either sign.
pub(crate) const LARGEST_DEGRADATION: f64 = 1e12;

/// A schedule of pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairMatching {
    /// Who shares a cache with whom, ascending; `None` beside a program that has its cache for
    /// itself. Empty caches are not listed.
    pub pairs: Vec<(usize, Option<usize>)>,
    /// Sum of all programs' degradations, in the unit of the matrix.
    pub total: f64,
    /// `total` / number of programs (DIO, Fig. 2).
    pub mean: f64,
}

/// Why degradations have no matching.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MatchingError {
    /// There is no program.
    #[error("pair degradations: no program")]
    Empty,
    /// A row has another length than there are rows.
    #[error(
        "pair degradations: row {row} has {found} columns, expected {expected} (a square matrix)"
    )]
    NotSquare {
        /// The row, from 0.
        row: usize,
        /// Its length.
        found: usize,
        /// The number of rows.
        expected: usize,
    },
    /// A figure is no number or out of range.
    #[error(
        "pair degradations: row {row}, column {column} is {found}, expected a number within \
         +-{LARGEST_DEGRADATION:e}"
    )]
    Figure {
        /// The row, from 0.
        row: usize,
        /// The column, from 0.
        column: usize,
        /// What stands there.
        found: f64,
    },
    /// There are more programs than CPUs.
    #[error("{programs} programs do not fit on {llcs} caches of two CPUs")]
    TooManyPrograms {
        /// Programs.
        programs: usize,
        /// Caches of two CPUs.
        llcs: usize,
    },
}

/// The best or worst schedule of n programs on `llcs` caches of two CPUs each.
///
/// `degradation[i][j]` is what program i suffers beside program j, against running alone (any
/// unit); the diagonal is not read. The weight of a pair is the sum of its two degradations, that
/// of a program with a cache for itself 0. Of equal schedules the one whose program 0 has the
/// lowest partner is given (idle last), then the lowest program that is left, and so on.
///
/// # Errors
/// [`MatchingError`] when the matrix is not square or not finite, or the programs do not fit.
pub fn match_pairs(
    degradation: &[Vec<f64>],
    llcs: usize,
    goal: Goal,
) -> Result<PairMatching, MatchingError> {
    let programs = check(degradation, llcs)?;
    let weight = |i: usize, j: usize| {
        if j >= programs || i >= programs {
            return 0;
        }
        let weight = rounded(degradation[i][j]) + rounded(degradation[j][i]);
        if goal == Goal::Best { -weight } else { weight }
    };
    let mut left: Vec<usize> = (0..2 * llcs).collect();
    let mut pairs = Vec::new();
    let mut open = heaviest(&left, &weight);
    let mut total = 0;
    while let Some(first) = left.first().copied().filter(|&first| first < programs) {
        // The lowest partner with which the rest still reaches the optimum.
        for second in left[1..].iter().copied() {
            let rest: Vec<usize> =
                left.iter().copied().filter(|&one| one != first && one != second).collect();
            let of_rest = heaviest(&rest, &weight);
            if weight(first, second) + of_rest == open {
                total += weight(first, second);
                pairs.push((first, (second < programs).then_some(second)));
                left = rest;
                open = of_rest;
                break;
            }
        }
    }
    let total = if goal == Goal::Best { -total } else { total };
    let total = total as f64 * DEGRADATION_RESOLUTION;
    Ok(PairMatching { pairs, total, mean: total / programs as f64 })
}

fn check(degradation: &[Vec<f64>], llcs: usize) -> Result<usize, MatchingError> {
    let programs = degradation.len();
    if programs == 0 {
        return Err(MatchingError::Empty);
    }
    for (row, figures) in degradation.iter().enumerate() {
        if figures.len() != programs {
            let found = figures.len();
            return Err(MatchingError::NotSquare { row, found, expected: programs });
        }
        for (column, &found) in figures.iter().enumerate() {
            if column != row && (!found.is_finite() || found.abs() > LARGEST_DEGRADATION) {
                return Err(MatchingError::Figure { row, column, found });
            }
        }
    }
    if programs > 2 * llcs {
        return Err(MatchingError::TooManyPrograms { programs, llcs });
    }
    Ok(programs)
}

fn rounded(degradation: f64) -> i128 {
    (degradation / DEGRADATION_RESOLUTION).round() as i128
}

/// The weight of a maximum-weight perfect matching among `nodes` (an even number).
fn heaviest(nodes: &[usize], weight: &impl Fn(usize, usize) -> i128) -> i128 {
    let mut graph = UnGraph::<usize, i128>::new_undirected();
    for &node in nodes {
        graph.add_node(node);
    }
    for (i, &first) in nodes.iter().enumerate() {
        for (j, &second) in nodes.iter().enumerate().skip(i + 1) {
            graph.add_edge(NodeIndex::new(i), NodeIndex::new(j), weight(first, second));
        }
    }
    let exact = |edge: rustworkx_core::petgraph::graph::EdgeReference<'_, i128>| {
        Ok::<i128, std::convert::Infallible>(*edge.weight())
    };
    let Ok(pairs) = max_weight_matching(&graph, true, exact, false);
    pairs.iter().map(|&(i, j)| weight(nodes[i], nodes[j])).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// DIO, Table I, in percent: mcf, milc, gamess, namd.
    fn table_i() -> Vec<Vec<f64>> {
        vec![
            vec![48.01, 65.63, 2.0, 2.11],
            vec![24.75, 45.39, 1.23, 1.11],
            vec![2.67, 4.48, -1.01, -1.21],
            vec![1.48, 3.45, -1.19, -0.93],
        ]
    }

    #[test]
    fn the_four_program_example_comes_out_to_the_digit() {
        // Fig. 2: of the three schedules mcf+gamess, milc+namd is the best: (4.67 + 4.56) / 4;
        // mcf+milc, gamess+namd the worst: (90.38 - 2.40) / 4.
        let best = match_pairs(&table_i(), 2, Goal::Best).unwrap();
        assert_eq!(best.pairs, [(0, Some(2)), (1, Some(3))]);
        assert!((best.total - 9.23).abs() < 1e-10 && (best.mean - 2.3075).abs() < 1e-10);
        let worst = match_pairs(&table_i(), 2, Goal::Worst).unwrap();
        assert_eq!(worst.pairs, [(0, Some(1)), (2, Some(3))]);
        assert!((worst.total - 87.98).abs() < 1e-10 && (worst.mean - 21.995).abs() < 1e-10);
        // The third lies between: mcf+namd, milc+gamess, (3.59 + 5.71) / 4.
        let third: f64 = 2.11 + 1.48 + 1.23 + 4.48;
        assert!((third / 4.0 - 2.325).abs() < 1e-10);
        assert!(best.total < third && third < worst.total);
    }

    #[test]
    fn idle_slots_stand_beside_whom_sharing_hurts_most() {
        let three: Vec<Vec<f64>> = table_i()[..3].iter().map(|row| row[..3].to_vec()).collect();
        // milc alone, mcf+gamess: 4.67, against 5.71 and 90.38.
        let best = match_pairs(&three, 2, Goal::Best).unwrap();
        assert_eq!(best.pairs, [(0, Some(2)), (1, None)]);
        // With a cache each nobody suffers; gamess+namd gain by sharing, so they still share.
        let spread = match_pairs(&table_i(), 4, Goal::Best).unwrap();
        assert_eq!(spread.pairs, [(0, None), (1, None), (2, Some(3))]);
    }

    #[test]
    fn equal_schedules_give_the_lowest_partners() {
        let equal = vec![vec![1.0; 6]; 6];
        let best = match_pairs(&equal, 3, Goal::Best).unwrap();
        assert_eq!(best.pairs, [(0, Some(1)), (2, Some(3)), (4, Some(5))]);
    }

    #[test]
    fn broken_matrices_are_refused() {
        assert_eq!(match_pairs(&[], 1, Goal::Best), Err(MatchingError::Empty));
        let ragged = vec![vec![0.0, 1.0], vec![0.0]];
        assert!(matches!(
            match_pairs(&ragged, 1, Goal::Best),
            Err(MatchingError::NotSquare { row: 1, found: 1, expected: 2 })
        ));
        let nan = vec![vec![0.0, f64::NAN], vec![0.0, 0.0]];
        assert!(matches!(
            match_pairs(&nan, 1, Goal::Best),
            Err(MatchingError::Figure { row: 0, column: 1, .. })
        ));
        assert!(matches!(
            match_pairs(&table_i(), 1, Goal::Best),
            Err(MatchingError::TooManyPrograms { programs: 4, llcs: 1 })
        ));
    }

    /// Least and greatest total over all ways to pair up or to leave alone.
    fn extremes(matrix: &[Vec<f64>], left: &[usize], llcs: usize) -> Option<(f64, f64)> {
        let Some((&first, rest)) = left.split_first() else { return Some((0.0, 0.0)) };
        if left.len() > 2 * llcs {
            return None;
        }
        let mut found = extremes(matrix, rest, llcs - 1);
        for &second in rest {
            let others: Vec<usize> = rest.iter().copied().filter(|&one| one != second).collect();
            if let Some((low, high)) = extremes(matrix, &others, llcs - 1) {
                let weight = matrix[first][second] + matrix[second][first];
                let (least, most) = found.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
                found = Some((least.min(low + weight), most.max(high + weight)));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn matchings_agree_with_enumeration(
            n in 1usize..8,
            spare in 0usize..3,
            figures in prop::collection::vec(-0.2f64..1.5, 64),
        ) {
            let matrix: Vec<Vec<f64>> = (0..n).map(|i| figures[8 * i..8 * i + n].to_vec()).collect();
            let llcs = n.div_ceil(2) + spare;
            let all: Vec<usize> = (0..n).collect();
            let (least, most) = extremes(&matrix, &all, llcs).unwrap();
            let best = match_pairs(&matrix, llcs, Goal::Best).unwrap();
            let worst = match_pairs(&matrix, llcs, Goal::Worst).unwrap();
            prop_assert!((best.total - least).abs() < 1e-9);
            prop_assert!((worst.total - most).abs() < 1e-9);
        }
    }
}
