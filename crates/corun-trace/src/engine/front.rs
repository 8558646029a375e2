//! The top of the LRU stack, where most accesses end.
//!
//! A linked list of the 512 most recent lines (32 KiB) in LRU order, with a marker at each
//! boundary between two groups of depths, so that an access learns its group in constant time
//! (Kim, Hill and Wood, SIGMETRICS 1991, "Implementing stack simulation for highly-associative
//! memories": markers instead of counting). It is exact and never sampled.

use std::hash::BuildHasher;

/// Lines that the front holds.
pub(crate) const FRONT_LINES: usize = 512;

/// Upper ends of the groups of depths, in lines: 1 KiB to 32 KiB, two a doubling.
pub(crate) const FRONT_ENDS: [u32; 11] = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

const GROUPS: usize = FRONT_ENDS.len();
const NONE: u16 = u16::MAX;
const HEADS: usize = 2048;

/// Where an access was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// In this group of depths.
    Group(usize),
    /// Below the front; the line that had to leave it, and was it written there?
    Below {
        /// Which of the front's slots it takes.
        slot: usize,
        /// The line that left, most recent of those below.
        evicted: Option<(u64, bool)>,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    line: u64,
    previous: u16,
    next: u16,
    chain: u16,
    group: u8,
    dirty: bool,
}

/// The 512 most recently used lines in order.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    nodes: Box<[Node; FRONT_LINES]>,
    held: usize,
    heads: Box<[u16]>,
    head: u16,
    /// The deepest node of each group.
    markers: [u16; GROUPS],
}

impl Front {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Box::new([Node::default(); FRONT_LINES]),
            held: 0,
            heads: vec![NONE; HEADS].into_boxed_slice(),
            head: NONE,
            markers: [NONE; GROUPS],
        }
    }

    /// Looks a line up and makes it the most recent.
    #[inline]
    pub(crate) fn access(&mut self, line: u64, store: bool) -> Found {
        if self.held > 0 && self.nodes[slot(self.head)].line == line {
            self.nodes[slot(self.head)].dirty |= store;
            return Found::Group(0);
        }
        let bucket = bucket(line);
        let mut at = self.heads[bucket];
        while at != NONE {
            let node = &mut self.nodes[slot(at)];
            if node.line == line {
                node.dirty |= store;
                let group = usize::from(node.group);
                self.promote(at, group);
                return Found::Group(group);
            }
            at = node.chain;
        }
        let evicted = if self.held < FRONT_LINES {
            self.grow(line, store, bucket);
            None
        } else {
            Some(self.replace(line, store, bucket))
        };
        Found::Below { slot: slot(self.head), evicted }
    }

    /// The lines held.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> {
        self.nodes[..self.held].iter().map(|node| node.line)
    }

    /// The lines held that were written.
    pub(crate) fn dirty_lines(&self) -> u64 {
        self.nodes[..self.held].iter().filter(|node| node.dirty).count() as u64
    }

    /// Moves a node of `group` to the head.
    #[inline]
    fn promote(&mut self, at: u16, group: usize) {
        let node = self.nodes[slot(at)];
        if self.markers[group] == at {
            self.markers[group] = node.previous;
        }
        self.shift(group);
        // Its neighbours may be the same nodes that were shifted: links do not change by that.
        self.nodes[slot(node.previous)].next = node.next;
        if node.next != NONE {
            self.nodes[slot(node.next)].previous = node.previous;
        }
        self.nodes[slot(self.head)].previous = at;
        let head = self.head;
        let node = &mut self.nodes[slot(at)];
        (node.previous, node.next, node.group) = (NONE, head, 0);
        self.head = at;
    }

    /// Hands the deepest node of every group below `group` to the next one.
    #[inline]
    fn shift(&mut self, group: usize) {
        for shallow in 0..group {
            let moved = self.markers[shallow];
            let node = &mut self.nodes[slot(moved)];
            node.group = shallow as u8 + 1;
            self.markers[shallow] = node.previous;
            if self.markers[shallow + 1] == NONE {
                self.markers[shallow + 1] = moved;
            }
        }
    }

    fn grow(&mut self, line: u64, store: bool, bucket: usize) {
        let count = self.held as u32;
        let group = FRONT_ENDS.partition_point(|&end| end <= count);
        self.shift(group);
        let at = self.held as u16;
        if self.held > 0 {
            self.nodes[slot(self.head)].previous = at;
        }
        self.held += 1;
        self.nodes[slot(at)] = Node {
            line,
            previous: NONE,
            next: self.head,
            chain: self.heads[bucket],
            group: 0,
            dirty: store,
        };
        self.heads[bucket] = at;
        self.head = at;
        if self.markers[0] == NONE {
            self.markers[0] = at;
        }
    }

    fn replace(&mut self, line: u64, store: bool, bucket: usize) -> (u64, bool) {
        let at = self.markers[GROUPS - 1];
        let old = self.nodes[slot(at)];
        self.unchain(at);
        self.promote(at, GROUPS - 1);
        let chain = self.heads[bucket];
        let node = &mut self.nodes[slot(at)];
        (node.line, node.dirty, node.chain) = (line, store, chain);
        self.heads[bucket] = at;
        (old.line, old.dirty)
    }

    fn unchain(&mut self, at: u16) {
        let node = self.nodes[slot(at)];
        let bucket = bucket(node.line);
        if self.heads[bucket] == at {
            self.heads[bucket] = node.chain;
            return;
        }
        let mut before = self.heads[bucket];
        while self.nodes[slot(before)].chain != at {
            before = self.nodes[slot(before)].chain;
        }
        self.nodes[slot(before)].chain = node.chain;
    }
}

/// The index of a node. The remainder changes nothing and spares the check.
#[inline]
fn slot(at: u16) -> usize {
    usize::from(at) % FRONT_LINES
}

#[inline]
fn bucket(line: u64) -> usize {
    (rustc_hash::FxBuildHasher.hash_one(line) >> 16) as usize % HEADS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by a plain list.
    fn brute(stack: &mut Vec<(u64, bool)>, line: u64, store: bool) -> Found {
        let depth = stack.iter().position(|one| one.0 == line);
        let dirty = depth.is_some_and(|at| stack.remove(at).1) || store;
        stack.insert(0, (line, dirty));
        match depth {
            Some(at) => Found::Group(FRONT_ENDS.partition_point(|&end| end as usize <= at)),
            None => {
                let evicted = (stack.len() > FRONT_LINES).then(|| stack.pop()).flatten();
                Found::Below { slot: 0, evicted }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn equals_a_list(
            ops in prop::collection::vec((0u64..3, 0u64..900, any::<bool>()), 1..4000)
        ) {
            let (mut front, mut stack) = (Front::new(), Vec::new());
            for (kind, line, store) in ops {
                // A third of the accesses stay within 20 lines.
                let line = if kind == 0 { line % 20 } else { line };
                let mut found = front.access(line, store);
                if let Found::Below { slot, .. } = &mut found {
                    *slot = 0;
                }
                prop_assert_eq!(found, brute(&mut stack, line, store));
            }
            let dirty = stack.iter().filter(|one| one.1).count() as u64;
            prop_assert_eq!(front.dirty_lines(), dirty);
        }
    }
}
