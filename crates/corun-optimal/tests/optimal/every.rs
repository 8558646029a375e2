//! Partitions one by one.

use corun_optimal::partition::Kind;

/// Every partition of `programs` programs: clusters and their ways.
pub(crate) fn every(
    programs: usize,
    ways: u32,
    min_ways: u32,
    kind: Kind,
) -> Vec<(Vec<Vec<usize>>, Vec<u32>)> {
    let mut groupings: Vec<Vec<Vec<usize>>> = vec![vec![]];
    for program in 0..programs {
        let mut next = Vec::new();
        for grouping in groupings {
            for cluster in 0..=grouping.len() {
                let mut grown = grouping.clone();
                if cluster == grouping.len() {
                    grown.push(vec![program]);
                } else if kind == Kind::Cluster {
                    grown[cluster].push(program);
                } else {
                    continue;
                }
                next.push(grown);
            }
        }
        groupings = next;
    }
    let mut all = Vec::new();
    for grouping in groupings {
        let mut ways_of: Vec<Vec<u32>> = vec![vec![]];
        for cluster in 0..grouping.len() {
            let grow = |given: Vec<u32>| {
                let left = ways - given.iter().sum::<u32>();
                let is_last = cluster + 1 == grouping.len();
                let first = if is_last { left } else { min_ways };
                (first.max(min_ways)..=left).map(move |k| {
                    let mut grown = given.clone();
                    grown.push(k);
                    grown
                })
            };
            ways_of = ways_of.into_iter().flat_map(grow).collect();
        }
        all.extend(ways_of.into_iter().map(|ways| (grouping.clone(), ways)));
    }
    all
}
