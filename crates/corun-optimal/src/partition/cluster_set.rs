//! Which clusters there can be, and the order in which they are put together.
//!
//! Program i of n is bit n - 1 - i of a set. A partition is built from its lowest program on, that
//! is from the highest bit: the next cluster holds the highest bit that is left. So the sets that
//! can be left are all below the highest bit of any cluster that comes before, and a table over
//! them is filled in one pass of layers.

/// Programs of a partition, as bits.
pub(crate) type Set = u32;

/// Clusters or single programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Strict partitioning: each program has ways of its own.
    Strict,
    /// Clustering: programs share the ways of their cluster.
    Cluster,
}

/// All clusters that can be: sets of programs, each with any number of ways from `min_ways`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterSet {
    pub(crate) kind: Kind,
    pub(crate) programs: usize,
    pub(crate) ways: usize,
    pub(crate) min_ways: usize,
}

impl ClusterSet {
    pub(crate) fn full(&self) -> Set {
        ((1_u64 << self.programs) - 1) as Set
    }

    pub(crate) fn bit(&self, program: usize) -> Set {
        1 << (self.programs - 1 - program)
    }

    /// The programs of a set, ascending.
    pub(crate) fn programs_of(&self, set: Set) -> impl Iterator<Item = usize> + use<> {
        let last = self.programs - 1;
        bits(set).map(move |bit| last - bit)
    }

    /// Rows of a table by set.
    pub(crate) fn rows(&self) -> usize {
        match self.kind {
            Kind::Strict => self.programs,
            Kind::Cluster => 1 << self.programs,
        }
    }

    /// The row of a set.
    #[inline]
    pub(crate) fn row(&self, set: Set) -> usize {
        match self.kind {
            Kind::Strict => set.trailing_zeros() as usize,
            Kind::Cluster => set as usize,
        }
    }

    /// The set of a row; none for the row of no program.
    pub(crate) fn set(&self, row: usize) -> Set {
        match self.kind {
            Kind::Strict => 1 << row,
            Kind::Cluster => row as Set,
        }
    }

    /// States that a partition passes: what is left, but for everybody.
    pub(crate) fn states(&self) -> usize {
        match self.kind {
            Kind::Strict => self.programs,
            Kind::Cluster => 1 << (self.programs - 1),
        }
    }

    /// The state in which these are left.
    #[inline]
    pub(crate) fn state(&self, left: Set) -> usize {
        match self.kind {
            Kind::Strict => left.trailing_ones() as usize,
            Kind::Cluster => left as usize,
        }
    }

    /// The next clusters when these are left, each with what is then left; largest rest first.
    pub(crate) fn next(&self, left: Set) -> impl Iterator<Item = (Set, Set)> + use<> {
        let top: Set = 1 << (31 - left.leading_zeros());
        let others = match self.kind {
            // Everybody else is left.
            Kind::Strict => 0,
            Kind::Cluster => left ^ top,
        };
        let mut with = Some(0 as Set);
        std::iter::from_fn(move || {
            let now = with?;
            // Subsets of the others by rising number: (now - others) & others is the next.
            let next = now.wrapping_sub(others) & others;
            with = (next != 0).then_some(next);
            Some((top | now, left ^ (top | now)))
        })
    }
}

/// The bits of a set, from the highest.
fn bits(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| 31 - left.leading_zeros() as usize)?;
        left ^= 1 << bit;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_clusters_hold_the_lowest_program() {
        let cluster_set = ClusterSet { kind: Kind::Cluster, programs: 3, ways: 4, min_ways: 1 };
        let all: Vec<(Set, Set)> = cluster_set.next(0b111).collect();
        assert_eq!(all, [(0b100, 0b011), (0b101, 0b010), (0b110, 0b001), (0b111, 0)]);
        assert_eq!(cluster_set.next(0b010).collect::<Vec<_>>(), [(0b010, 0)]);
        assert_eq!(cluster_set.programs_of(0b101).collect::<Vec<_>>(), [0, 2]);
        let strict = ClusterSet { kind: Kind::Strict, ..cluster_set };
        assert_eq!(strict.next(0b111).collect::<Vec<_>>(), [(0b100, 0b011)]);
    }
}
