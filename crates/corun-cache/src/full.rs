//! A fully associative LRU cache of any size: what a miss-rate curve describes.

use crate::cache::{AccessOutcome, ProcessLine};

/// No line: processes are numbered from 0, and a line of all ones is no user's address.
const EMPTY: u64 = u64::MAX;

/// Places of the smallest table.
const FEWEST_PLACES: usize = 1 << 10;

/// Touches noted for each place of the table, before the notes are begun anew.
const TOUCHES_A_PLACE: usize = 4;

/// A note of a touch after which its line was touched again.
const VOID: u32 = u32::MAX;

/// A line, and when it was touched last.
#[derive(Debug, Clone, Copy)]
struct Place {
    line: u64,
    /// The number of its last touch. Before [`FullyAssociative::oldest`]: it has left.
    touched: u32,
    owner: u16,
}

/// A hash table of lines (open addressing, linear probing) beside notes of all touches in their
/// order.
///
/// A touch makes the last note of its line void and adds one; nothing is moved, since most touches
/// find their line. The first note that is not void tells what leaves. Lines that left stay in the
/// table until it is built anew, with what is held alone and in its order, when the table or the
/// notes are full.
#[derive(Debug, Clone)]
pub struct FullyAssociative {
    capacity: usize,
    /// Lines held.
    held: usize,
    places: Vec<Place>,
    /// 64 - log2 of their number.
    shift: u32,
    /// Places with a line, those that left too.
    taken: usize,
    /// The place of each touch, by the touch's number, or [`VOID`].
    touches: Vec<u32>,
    /// No line that is held was touched last before this touch.
    oldest: u32,
    /// The number of the next touch.
    now: u32,
}

impl FullyAssociative {
    /// An empty cache of so many lines (at least one, at most 2^30).
    pub fn new(lines: u64) -> Self {
        let mut empty = Self {
            capacity: lines.max(1) as usize,
            held: 0,
            places: Vec::new(),
            shift: 0,
            taken: 0,
            touches: Vec::new(),
            oldest: 0,
            now: 0,
        };
        empty.build();
        empty
    }

    /// `owner` touches a line of a process.
    #[inline]
    pub fn access(&mut self, line: u64, process: u64, owner: usize) -> AccessOutcome {
        let line = ProcessLine::new(line, process).0;
        let last = self.places.len() - 1;
        let mut at = self.home(line);
        loop {
            let place = &mut self.places[at];
            if place.line == line && place.touched >= self.oldest {
                // The newest one stays the newest.
                if place.touched + 1 != self.now {
                    let before = std::mem::replace(&mut place.touched, self.now);
                    self.touches[before as usize] = VOID;
                    self.note(at);
                }
                return AccessOutcome::Hit;
            }
            if place.line == line || place.line == EMPTY {
                return self.fill(at, line, owner as u16);
            }
            at = (at + 1) & last;
        }
    }

    /// Where the search for a line begins: Fibonacci hashing (Knuth, TAOCP 3, section 6.4).
    #[inline]
    fn home(&self, line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The newest touch was of this place.
    #[inline]
    fn note(&mut self, at: usize) {
        self.touches[self.now as usize] = at as u32;
        self.now += 1;
        if self.now as usize == self.touches.len() {
            self.build();
        }
    }

    fn fill(&mut self, at: usize, line: u64, owner: u16) -> AccessOutcome {
        let evicted = if self.held == self.capacity {
            Some(self.evict())
        } else {
            self.held += 1;
            None
        };
        self.taken += usize::from(self.places[at].line == EMPTY);
        self.places[at] = Place { line, touched: self.now, owner };
        self.note(at);
        if self.taken > self.places.len() / 4 * 3 {
            self.build();
        }
        AccessOutcome::Miss { evicted }
    }

    /// The line that was touched longest ago leaves; its owner.
    fn evict(&mut self) -> usize {
        while self.touches[self.oldest as usize] == VOID {
            self.oldest += 1;
        }
        let place = self.touches[self.oldest as usize];
        self.oldest += 1;
        usize::from(self.places[place as usize].owner)
    }

    /// Builds table and notes anew.
    #[cold]
    fn build(&mut self) {
        let notes = &self.touches[self.oldest as usize..self.now as usize];
        let valid = notes.iter().filter(|&&place| place != VOID);
        let held: Vec<Place> = valid.map(|&place| self.places[place as usize]).collect();
        let places = (2 * held.len()).next_power_of_two().max(FEWEST_PLACES);
        self.places.clear();
        self.places.resize(places, Place { line: EMPTY, touched: 0, owner: 0 });
        self.shift = 64 - places.ilog2();
        self.touches.clear();
        self.touches.resize((TOUCHES_A_PLACE * places).min(u32::MAX as usize), 0);
        (self.oldest, self.now) = (0, 0);
        for Place { line, owner, .. } in held {
            let mut at = self.home(line);
            while self.places[at].line != EMPTY {
                at = (at + 1) & (places - 1);
            }
            self.places[at] = Place { line, touched: self.now, owner };
            self.touches[self.now as usize] = at as u32;
            self.now += 1;
        }
        self.taken = self.now as usize;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Lines by their last touches, and whose they are.
    struct Ordered {
        by_touch: BTreeMap<u64, (u64, usize)>,
        now: u64,
    }

    impl Ordered {
        fn access(&mut self, capacity: usize, line: u64, owner: usize) -> AccessOutcome {
            self.now += 1;
            let before = self.by_touch.iter().find(|(_, held)| held.0 == line);
            if let Some((&touch, &held)) = before {
                self.by_touch.remove(&touch);
                self.by_touch.insert(self.now, held);
                return AccessOutcome::Hit;
            }
            let full = self.by_touch.len() == capacity;
            let evicted =
                if full { self.by_touch.pop_first().map(|(_, held)| held.1) } else { None };
            self.by_touch.insert(self.now, (line, owner));
            AccessOutcome::Miss { evicted }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        /// Long enough that table and notes are built anew many times: 300 lines are touched again
        /// and again between others, of which most come once.
        #[test]
        fn what_leaves_was_touched_longest_ago(
            capacity in 1usize..400,
            hot in 1u64..300,
            often in 0u64..100,
            seed in any::<u64>(),
        ) {
            let mut cache = FullyAssociative::new(capacity as u64);
            let mut expected = Ordered { by_touch: BTreeMap::new(), now: 0 };
            let mut state = seed | 1;
            let mut draw = |limit: u64| {
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
            };
            for _ in 0..12_000 {
                let line = if draw(100) < often { draw(hot) } else { draw(1 << 40) };
                let owner = (line % 3) as usize;
                let touch = cache.access(line, owner as u64, owner);
                prop_assert_eq!(touch, expected.access(capacity, line, owner));
            }
            prop_assert!(cache.now < 12_000, "never built anew");
        }
    }
}
