//! Every partition, one by one: the yardstick of the searches, and the worst.

use crate::partition::family::Set;
use crate::partition::table::{Judged, Partition, Table};

/// Visits every partition; false when there are more than `most`.
pub(crate) fn visit(table: &Table, most: u64, see: &mut impl FnMut(&Partition, Judged)) -> bool {
    let mut left = most;
    let mut partition = Partition::default();
    let family = table.family;
    descend(table, family.full(), family.ways, &mut partition, &mut left, see)
}

fn descend(
    table: &Table,
    left: Set,
    ways: usize,
    partition: &mut Partition,
    most: &mut u64,
    see: &mut impl FnMut(&Partition, Judged),
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
    let family = table.family;
    for (set, rest) in family.next(left) {
        // The last cluster takes all that is left; before it, ways stay for at least one more.
        let fewest = if rest == 0 { ways } else { family.min_ways };
        let most_ways = if rest == 0 { ways } else { ways.saturating_sub(family.min_ways) };
        if fewest < family.min_ways {
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
