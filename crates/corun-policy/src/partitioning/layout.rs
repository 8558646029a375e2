//! From clusters and numbers of ways to masks.

use super::Partition;

impl Partition {
    /// Ways of a program.
    pub fn ways(&self, program: usize) -> u32 {
        self.mask(program).count_ones()
    }

    /// Ways of a program, bit i for way i.
    pub fn mask(&self, program: usize) -> u64 {
        self.masks[self.cluster[program]]
    }

    /// Programs in numbered clusters of so many ways, at most 64 of them, side by side in the order
    /// of their lowest programs.
    pub fn of_clusters(cluster: &[usize], ways: &[u32]) -> Self {
        let mut partition = Self::default();
        partition.set_clusters(cluster, ways);
        partition
    }

    /// Every program by itself with so many ways.
    pub(crate) fn set_strict(&mut self, ways: &[u32]) {
        self.cluster.clear();
        self.cluster.extend(0..ways.len());
        self.lay_out(ways.iter().copied());
    }

    /// Programs in numbered clusters of so many ways; numbers that no program has do not count.
    /// Clusters are numbered anew by their lowest program, and lie side by side in that order.
    pub(crate) fn set_clusters(&mut self, cluster: &[usize], ways: &[u32]) {
        const NONE: usize = usize::MAX;
        // At most 64 clusters have ways.
        let mut numbers = [NONE; 64];
        let mut ordered = [0; 64];
        let mut count = 0;
        self.cluster.clear();
        for &old in cluster {
            if numbers[old] == NONE {
                numbers[old] = count;
                ordered[count] = ways[old];
                count += 1;
            }
            self.cluster.push(numbers[old]);
        }
        self.lay_out(ordered[..count].iter().copied());
    }

    fn lay_out(&mut self, ways: impl Iterator<Item = u32>) {
        self.masks.clear();
        self.caps.clear();
        let mut first = 0;
        for ways in ways {
            self.masks.push(mask(first, ways));
            first += ways;
        }
    }
}

/// So many ways from a first one on.
pub(crate) fn mask(first: u32, ways: u32) -> u64 {
    let run = if ways >= 64 { u64::MAX } else { (1 << ways) - 1 };
    run << first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lie_side_by_side() {
        let mut partition = Partition::default();
        partition.set_strict(&[2, 1, 8]);
        assert_eq!(partition.masks, [0x3, 0x4, 0x7f8]);
        assert_eq!((partition.ways(2), partition.mask(0)), (8, 3));
        partition.set_strict(&[64]);
        assert_eq!(partition.masks, [u64::MAX]);
    }

    #[test]
    fn clusters_are_numbered_by_their_lowest_program() {
        let mut partition = Partition::default();
        partition.set_clusters(&[3, 1, 3, 0], &[4, 2, 9, 5]);
        assert_eq!(partition.cluster, [0, 1, 0, 2]);
        assert_eq!(partition.masks, [0x1f, 0x60, 0x780]);
    }
}
