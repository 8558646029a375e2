//! Which moments are marked, and how many after a given one.
//!
//! Moments are marked in ascending order and cleared in any. Each group of 2048 is a bit set with
//! the marks before each of its words, and a binary indexed tree (Fenwick, Software: Practice and
//! Experience 1994) sums over groups. Marking touches one word, clearing and counting one group
//! and the tree.

const WORDS: usize = 32;

/// For each word 1 at those behind it. Read from memory they are taken off eight or sixteen at a time; where the compiler
/// is to compare, it does so one by one.
static BEHIND: [[u16; WORDS]; WORDS] = {
    let mut behind = [[0; WORDS]; WORDS];
    let mut at = 0;
    while at < WORDS * WORDS {
        behind[at / WORDS][at % WORDS] = (at % WORDS > at / WORDS) as u16;
        at += 1;
    }
    behind
};

/// Moments of a group.
pub(crate) const GROUP: usize = WORDS * 64;

/// A group of moments, of which those marked last are the last.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    words: [u64; WORDS],
    /// Marks in the words before each; of words that no mark has reached yet, anything.
    before: [u16; WORDS],
    marked: u16,
}

impl Group {
    pub(crate) const EMPTY: Self = Self { words: [0; WORDS], before: [0; WORDS], marked: 0 };

    /// Marks a moment later than all that were marked.
    #[inline(always)]
    pub(crate) fn mark(&mut self, at: usize) {
        let word = at / 64 % WORDS;
        if self.words[word] == 0 {
            self.before[word] = self.marked;
        }
        self.words[word] |= 1 << (at % 64);
        self.marked += 1;
    }

    /// Takes the mark off a marked moment.
    #[inline(always)]
    pub(crate) fn clear(&mut self, at: usize) {
        let word = at / 64 % WORDS;
        self.words[word] &= !(1 << (at % 64));
        self.marked -= 1;
        for (before, behind) in self.before.iter_mut().zip(&BEHIND[word]) {
            *before = before.wrapping_sub(*behind);
        }
    }

    /// Marked moments up to and with this marked one.
    #[inline(always)]
    pub(crate) fn up_to(&self, at: usize) -> u32 {
        let word = at / 64 % WORDS;
        // Bits 0..=at of its word, without overflowing the shift at bit 63.
        let bits = self.words[word] & (u64::MAX >> (63 - at % 64));
        u32::from(self.before[word]) + bits.count_ones()
    }

    /// Marked moments.
    #[inline(always)]
    pub(crate) fn marked(&self) -> u32 {
        u32::from(self.marked)
    }

    /// The first marked moment, where none stands before `from` and one behind.
    #[inline(always)]
    pub(crate) fn first(&self, from: usize) -> usize {
        let mut word = from / 64 % WORDS;
        while self.words[word] == 0 && word + 1 < WORDS {
            word += 1;
        }
        word * 64 + self.words[word].trailing_zeros() as usize
    }

    /// The marked moments in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| Bits(word).map(move |b| at * 64 + b))
    }
}

struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

/// Any number of groups.
#[derive(Debug, Clone)]
pub(crate) struct Ranks {
    groups: Vec<Group>,
    /// One-based sums over groups, without the one marked last.
    tree: Vec<u32>,
    open: usize,
    marked: u32,
}

impl Ranks {
    /// Room for this many moments at least, none marked.
    pub(crate) fn new(capacity: usize) -> Self {
        let groups = capacity.div_ceil(GROUP).max(1);
        Self { groups: vec![Group::EMPTY; groups], tree: vec![0; groups + 1], open: 0, marked: 0 }
    }

    /// Moments there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Marks a moment later than all that were marked.
    #[inline]
    pub(crate) fn mark(&mut self, at: usize) {
        let group = at / GROUP;
        if group != self.open {
            let marked = self.groups[self.open].marked();
            self.add(self.open, |sum| sum + marked);
            self.open = group;
        }
        self.groups[group].mark(at % GROUP);
        self.marked += 1;
    }

    /// Takes the mark off a marked moment.
    #[inline]
    pub(crate) fn clear(&mut self, at: usize) {
        let group = at / GROUP;
        self.groups[group].clear(at % GROUP);
        self.marked -= 1;
        if group != self.open {
            self.add(group, |sum| sum - 1);
        }
    }

    #[inline]
    fn add(&mut self, group: usize, change: impl Fn(u32) -> u32) {
        let mut node = group + 1;
        while node < self.tree.len() {
            self.tree[node] = change(self.tree[node]);
            node += node & node.wrapping_neg();
        }
    }

    /// Marked moments later than this marked one.
    #[inline]
    pub(crate) fn after(&self, at: usize) -> u32 {
        let group = at / GROUP;
        let mut up_to = self.groups[group].up_to(at % GROUP);
        let mut node = group;
        while node > 0 {
            up_to += self.tree[node];
            node &= node - 1;
        }
        self.marked - up_to
    }

    /// The marked moments in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(at, group)| group.iter().map(move |moment| at * GROUP + moment))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_like_a_list(
            ops in prop::collection::vec((any::<bool>(), 1usize..40, any::<prop::sample::Index>()), 1..600)
        ) {
            let mut ranks = Ranks::new(600 * 40);
            let (mut list, mut now): (Vec<usize>, usize) = (Vec::new(), 0);
            for (clear, step, index) in ops {
                if clear && !list.is_empty() {
                    ranks.clear(list.remove(index.index(list.len())));
                } else {
                    now += step;
                    ranks.mark(now);
                    list.push(now);
                }
                if !list.is_empty() {
                    let place = index.index(list.len());
                    prop_assert_eq!(ranks.after(list[place]) as usize, list.len() - 1 - place);
                }
            }
            prop_assert_eq!(ranks.iter().collect::<Vec<_>>(), list);
        }
    }
}
