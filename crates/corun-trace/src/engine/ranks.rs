//! Which of a set of moments are marked, and how many after a given one: a bit set with a binary
//! indexed tree (Fenwick, Software: Practice and Experience 1994) over its 64-bit words.

/// Marked moments 0..capacity, with counting in logarithmic time.
#[derive(Debug, Clone)]
pub(crate) struct Ranks {
    words: Vec<u64>,
    /// One-based sums over words.
    tree: Vec<u32>,
    marked: u32,
}

impl Ranks {
    /// Room for this many moments, none marked.
    pub(crate) fn new(capacity: usize) -> Self {
        let words = capacity.div_ceil(64);
        Self { words: vec![0; words], tree: vec![0; words + 1], marked: 0 }
    }

    /// Marks a moment that is not marked.
    pub(crate) fn mark(&mut self, at: u32) {
        self.words[at as usize / 64] |= 1 << (at % 64);
        self.marked += 1;
        let mut node = at as usize / 64 + 1;
        while node < self.tree.len() {
            self.tree[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Takes the mark off a marked moment.
    pub(crate) fn clear(&mut self, at: u32) {
        self.words[at as usize / 64] &= !(1 << (at % 64));
        self.marked -= 1;
        let mut node = at as usize / 64 + 1;
        while node < self.tree.len() {
            self.tree[node] -= 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Marked moments later than this one.
    pub(crate) fn after(&self, at: u32) -> u32 {
        let word = at as usize / 64;
        // Bits 0..=at of its word, without overflowing the shift at bit 63.
        let up_to = self.words[word] & (u64::MAX >> (63 - at % 64));
        let mut before = up_to.count_ones();
        let mut node = word;
        while node > 0 {
            before += self.tree[node];
            node &= node - 1;
        }
        self.marked - before
    }

    /// Takes all marks off.
    pub(crate) fn reset(&mut self) {
        self.words.fill(0);
        self.tree.fill(0);
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_like_a_list(ops in prop::collection::vec(0u32..700, 1..300)) {
            let mut ranks = Ranks::new(700);
            let mut list = vec![false; 700];
            for at in ops {
                if list[at as usize] { ranks.clear(at) } else { ranks.mark(at) }
                list[at as usize] ^= true;
                let after = list[at as usize + 1..].iter().filter(|&&one| one).count();
                prop_assert_eq!(ranks.after(at) as usize, after);
            }
        }
    }
}
