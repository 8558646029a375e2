//! Every partition, one by one: the yardstick of the searches, and the worst.

use crate::partition::cluster_set::Set;
use crate::partition::table::{ClusterWays, PartitionScores, Table};

/// Visits every partition; false when there are more than `most`.
pub(crate) fn visit(
    table: &Table,
    most: u64,
    see: &mut impl FnMut(&ClusterWays, PartitionScores),
) -> bool {
    let mut left = most;
    let mut partition = ClusterWays::default();
    let cluster_set = table.cluster_set;
    descend(table, cluster_set.full(), cluster_set.ways, &mut partition, &mut left, see)
}

fn descend(
    table: &Table,
    left: Set,
    ways: usize,
    partition: &mut ClusterWays,
    most: &mut u64,
    see: &mut impl FnMut(&ClusterWays, PartitionScores),
) -> bool {
    if left == 0 {
        if ways > 0 {
            return true;
        }
        if *most == 0 {
            return false;
        }
        *most -= 1;
        see(partition, table.judge(partition));
        return true;
    }
    let cluster_set = table.cluster_set;
    for (set, rest) in cluster_set.next(left) {
        // The last cluster takes all that is left; before it, ways stay for at least one more.
        let fewest = if rest == 0 { ways } else { cluster_set.min_ways };
        let most_ways = if rest == 0 { ways } else { ways.saturating_sub(cluster_set.min_ways) };
        if fewest < cluster_set.min_ways {
            continue;
        }
        for k in fewest..=most_ways {
            partition.clusters.push((set, k as u32));
            let goes_on = descend(table, rest, ways - k, partition, most, see);
            partition.clusters.pop();
            if !goes_on {
                return false;
            }
        }
    }
    true
}
