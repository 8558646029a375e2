//! The top of the LRU stack: the 512 most recent lines (32 KiB) in order, exact and never sampled.
//!
//! Each line carries the moment of its last access, and an access counts the moments that are
//! marked behind its own: a search, a population count and one vector operation, however deep.

use super::ranks::{GROUP, Group};

/// Lines that the front holds.
pub(crate) const FRONT_LINES: usize = 512;

/// More than any address / 64.
const NO_LINE: u64 = u64::MAX;
const NONE: u16 = u16::MAX;
const HEADS: usize = 2048;

/// Where an access was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// With this many other lines more recent.
    At(usize),
    /// Below the front.
    Below {
        /// Which of the front's slots the line has now.
        slot: usize,
        /// The line that had the slot before and so left, the most recent of those below; and was
        /// it written in the front?
        evicted: Option<(u64, bool)>,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    line: u64,
    moment: u16,
    chain: u16,
    dirty: bool,
}

/// The 512 most recently used lines in order.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    /// The most recent line and its slot.
    last: (u64, u16),
    nodes: Box<[Node; FRONT_LINES]>,
    held: usize,
    heads: Box<[u16; HEADS]>,
    moments: Box<Group>,
    /// The slot of the line of each marked moment.
    owners: Box<[u16; GROUP]>,
    now: usize,
    /// No mark stands before this moment.
    first: usize,
}

impl Front {
    pub(crate) fn new() -> Self {
        Self {
            last: (NO_LINE, 0),
            nodes: Box::new([Node::default(); FRONT_LINES]),
            held: 0,
            heads: Box::new([NONE; HEADS]),
            moments: Box::new(Group::EMPTY),
            owners: Box::new([0; GROUP]),
            now: 0,
            first: 0,
        }
    }

    /// Looks a line up and makes it the most recent.
    #[inline(always)]
    pub(crate) fn access(&mut self, line: u64, store: bool) -> Found {
        if line == self.last.0 {
            self.nodes[index(self.last.1)].dirty |= store;
            return Found::At(0);
        }
        self.promote(line, store)
    }

    /// The lines held.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> {
        self.nodes[..self.held].iter().map(|node| node.line)
    }

    /// The lines held that were written.
    pub(crate) fn written_lines(&self) -> impl Iterator<Item = u64> {
        self.nodes[..self.held].iter().filter(|node| node.dirty).map(|node| node.line)
    }

    /// The slots of the lines held, deepest first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> {
        self.moments.iter().map(|moment| usize::from(self.owners[moment]))
    }

    /// Forgets all lines.
    pub(crate) fn clear(&mut self) {
        (self.last, self.held, self.now, self.first) = ((NO_LINE, 0), 0, 0, 0);
        self.heads.fill(NONE);
        *self.moments = Group::EMPTY;
    }

    /// How many lines held were written.
    pub(crate) fn dirty_lines(&self) -> u64 {
        self.written_lines().count() as u64
    }

    /// An access to another line than the last one.
    #[inline(always)]
    fn promote(&mut self, line: u64, store: bool) -> Found {
        let bucket = bucket(line);
        let mut slot = self.heads[bucket];
        while slot != NONE && self.nodes[index(slot)].line != line {
            slot = self.nodes[index(slot)].chain;
        }
        let found = if slot == NONE {
            let evicted;
            (slot, evicted) = self.take_slot();
            let chain = std::mem::replace(&mut self.heads[bucket], slot);
            self.nodes[index(slot)] = Node { line, moment: 0, chain, dirty: store };
            Found::Below { slot: index(slot), evicted }
        } else {
            let node = &mut self.nodes[index(slot)];
            node.dirty |= store;
            let moment = usize::from(node.moment);
            let later = self.moments.marked() - self.moments.up_to(moment);
            self.moments.clear(moment);
            Found::At(later as usize)
        };
        self.last = (line, slot);
        self.push(slot);
        found
    }

    /// The line in this slot is the most recent one.
    #[inline(always)]
    fn push(&mut self, slot: u16) {
        if self.now == GROUP {
            self.renumber();
        }
        self.nodes[index(slot)].moment = self.now as u16;
        self.owners[self.now] = slot;
        self.moments.mark(self.now);
        self.now += 1;
    }

    #[inline(never)]
    fn renumber(&mut self) {
        let mut fresh = Group::EMPTY;
        for (now, moment) in self.moments.iter().enumerate() {
            let slot = self.owners[moment];
            self.owners[now] = slot;
            self.nodes[index(slot)].moment = now as u16;
            fresh.mark(now);
        }
        self.now = fresh.marked() as usize;
        *self.moments = fresh;
        self.first = 0;
    }

    /// A slot for a new line, and the oldest line where it had to leave for it.
    #[inline(always)]
    fn take_slot(&mut self) -> (u16, Option<(u64, bool)>) {
        if self.held < FRONT_LINES {
            self.held += 1;
            return (self.held as u16 - 1, None);
        }
        self.first = self.moments.first(self.first);
        self.moments.clear(self.first);
        let slot = self.owners[self.first];
        self.unchain(slot);
        let node = self.nodes[index(slot)];
        (slot, Some((node.line, node.dirty)))
    }

    #[inline(always)]
    fn unchain(&mut self, slot: u16) {
        let node = self.nodes[index(slot)];
        let bucket = bucket(node.line);
        if self.heads[bucket] == slot {
            self.heads[bucket] = node.chain;
            return;
        }
        let mut before = self.heads[bucket];
        while self.nodes[index(before)].chain != slot {
            before = self.nodes[index(before)].chain;
        }
        self.nodes[index(before)].chain = node.chain;
    }
}

/// The index of a node. The remainder changes nothing and spares the check.
#[inline]
fn index(slot: u16) -> usize {
    usize::from(slot) % FRONT_LINES
}

#[inline]
fn bucket(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % HEADS
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
            Some(at) => Found::At(at),
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
            ops in prop::collection::vec((0u64..4, 0u64..900, any::<bool>()), 1..8000)
        ) {
            let (mut front, mut stack) = (Front::new(), Vec::new());
            for (kind, line, store) in ops {
                // Half of the accesses stay within 20 lines, of which each two share their tag.
                let line = match kind {
                    0 => line % 10,
                    1 => line % 10 + (1 << 32),
                    _ => line,
                };
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
