//! How many partitions there are, and how large the tree is that a branch and bound walks.

/// The ways to partition `ways` ways among `programs` programs, each with one way at least
/// (García García, UCM 2021, eq. 5.5): the compositions of the one number into so many parts. 0
/// where there are more programs than ways.
pub(super) fn partitions(ways: u32, programs: u32) -> u64 {
    if programs == 0 || programs > ways {
        return 0;
    }
    let (from, chosen) = (u64::from(ways - 1), u64::from((programs - 1).min(ways - programs)));
    (1..=chosen).fold(1, |count, k| count * (from - chosen + k) / k)
}

/// Table 5.1 of the same source: numbers of programs and the nodes of their tree on 20 ways.
pub(super) const TREE_NODES_OF_THESIS: [(usize, u64); 6] =
    [(3, 357), (4, 2056), (5, 8295), (6, 24_955), (7, 58_071), (8, 106_963)];

/// Nodes of the tree of partial partitions (same source, Table 5.1 and Fig. 5.5), as the table
/// counts them: a program's ways a level, the last program's node with its leaf, and nothing below
/// a node that leaves one way for each program; without the root.
pub(super) fn tree_nodes(ways: u32, programs: u32) -> u64 {
    fn below(ways: u32, programs: u32) -> u64 {
        match programs {
            1 => 2,
            _ if ways == programs => 0,
            _ => {
                1 + (1..=ways - programs + 1)
                    .map(|own| below(ways - own, programs - 1))
                    .sum::<u64>()
            }
        }
    }
    if programs < 2 || programs >= ways {
        return u64::from(programs <= ways);
    }
    below(ways, programs) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_counted_as_the_recursion_does() {
        fn recursion(ways: u32, programs: u32) -> u64 {
            if ways == programs || programs == 1 {
                1
            } else if ways == programs + 1 {
                u64::from(programs)
            } else {
                (1..=ways - programs + 1).map(|own| recursion(ways - own, programs - 1)).sum()
            }
        }
        for ways in 1..=14 {
            for programs in 1..=ways {
                assert_eq!(partitions(ways, programs), recursion(ways, programs));
            }
        }
        assert_eq!(partitions(20, 10), 92_378);
        assert_eq!(partitions(4, 5), 0);
    }

    #[test]
    fn the_tree_has_the_nodes_of_table_5_1() {
        for (programs, nodes) in TREE_NODES_OF_THESIS {
            assert_eq!(tree_nodes(20, programs as u32), nodes, "{programs} programs");
        }
    }
}
