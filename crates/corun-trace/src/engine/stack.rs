//! The LRU stack below the front: all lines, or a spatial sample of them.
//!
//! A line is followed when the hash of its number lies below a threshold; distances among followed
//! lines, divided by the rate, estimate distances among all (SHARDS: Waldspurger et al., FAST
//! 2015, section 3.1). The rate is fixed, or starts at 1 and is halved whenever as many lines are
//! followed as may be (section 3.2), so a small footprint stays exact. (The paper lowers the
//! threshold one line at a time; halving keeps the weights whole numbers.) At rate 1 without a
//! bound it is the exact stack in one pass, logarithmic in the distance (Bennett and Kruskal, IBM
//! Journal of Research and Development 1975).

use corun_profile::EngineKind;

use super::front::FRONT_LINES;
use super::options::{EngineOptions, SamplingRate};
use super::ranks::Ranks;
use super::sample::spatial_hash;

/// What the stack knows of a line that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Not followed.
    Unsampled,
    /// Followed, and never seen before.
    Cold,
    /// Lines of this stack that are more recent, estimated.
    Lines(u64),
}

/// Lines there is room for at first; the room grows, as each of many threads has a stack or two.
const EXPECTED: usize = 1024;

/// Lines that a fixed rate follows at most, before it falls too: 3 GiB of them at 1 %. It bounds the
/// memory to some 40 MiB.
const MOST_AT_A_RATE: usize = 1 << 19;

/// No place in the table: what is not followed.
const NOWHERE: u32 = u32::MAX;
/// The moment of a line that the front holds.
const IN_FRONT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The line and 1, so that 0 is vacant.
    key: u64,
    moment: u32,
}

const VACANT: Entry = Entry { key: 0, moment: IN_FRONT };

/// The stack. It also keeps those of its lines in its table that the front holds, so that a line
/// that leaves the front needs no search.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    rate: SamplingRate,
    /// A line is followed when its hash is at most this.
    threshold: u64,
    /// The line that [`Self::access`] put on top last, and 1.
    top: u64,
    /// Lines followed at most.
    limit: usize,
    /// Open addressing with linear probing, at most half full.
    table: Vec<Entry>,
    followed: usize,
    /// Where the line of each of the front's slots stands.
    held: Vec<u32>,
    ranks: Ranks,
    /// Where the line of each marked moment stands.
    owners: Vec<u32>,
    now: usize,
}

impl Stack {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        let (rate, limit) = match options.kind {
            EngineKind::Exact => (SamplingRate::ALL, usize::MAX),
            EngineKind::FixedRate => (options.rate, MOST_AT_A_RATE),
            EngineKind::FixedSize => (SamplingRate::ALL, options.lines.max(1)),
        };
        let ranks = Ranks::new(2 * EXPECTED);
        Self {
            rate,
            threshold: rate.threshold(),
            top: 0,
            limit,
            table: vec![VACANT; 2 * EXPECTED],
            followed: 0,
            held: vec![NOWHERE; FRONT_LINES],
            owners: vec![NOWHERE; ranks.capacity()],
            ranks,
            now: 0,
        }
    }

    /// The share of the lines that is followed now.
    pub(crate) fn rate(&self) -> SamplingRate {
        self.rate
    }

    /// The greatest hash of a line that is followed now.
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Lines followed.
    pub(crate) fn followed(&self) -> usize {
        self.followed
    }

    /// The same, following at most this many lines from now on.
    pub(crate) fn limited(&self, limit: usize) -> Self {
        let mut limited = self.clone();
        limited.limit = limit.max(1);
        while limited.followed > limited.limit {
            limited.halve();
        }
        limited.rebuild((2 * limited.followed).next_power_of_two().max(2 * EXPECTED));
        limited
    }

    fn halve(&mut self) {
        self.follow_at_most(SamplingRate::of_one_in(2 * self.rate.one_in()));
    }

    /// Lowers the rate to this one if it is higher.
    pub(crate) fn follow_at_most(&mut self, rate: SamplingRate) {
        if self.rate < rate {
            self.rate = rate;
            self.threshold = rate.threshold();
            self.rebuild(self.table.len());
        }
    }

    /// Takes all lines of the front's slots over, which are named deepest first. From then on lines
    /// come by [`Self::access`].
    pub(crate) fn take_over(&mut self, slots: impl Iterator<Item = usize>) {
        for slot in slots {
            let place = std::mem::replace(&mut self.held[slot], NOWHERE);
            if place != NOWHERE {
                self.push(place);
            }
        }
    }

    /// Puts a line on top if it is followed. Says how deep it lay.
    #[inline(always)]
    pub(crate) fn access(&mut self, line: u64) -> Depth {
        if self.top == line + 1 {
            return Depth::Lines(0);
        }
        let (depth, place) = self.take(line);
        if place != NOWHERE {
            self.push(place);
            self.top = line + 1;
        }
        depth
    }

    /// A line goes to this slot of the front. Says how deep it lay, then puts the line that was
    /// in the slot, if any, on top.
    #[inline]
    pub(crate) fn exchange(&mut self, slot: usize, line: u64) -> Depth {
        let (depth, place) = self.take(line);
        let left = std::mem::replace(&mut self.held[slot], place);
        if left != NOWHERE {
            self.push(left);
        }
        depth
    }

    /// Reads the table where these lines stand, which a later `exchange` then finds in a cache.
    pub(crate) fn touch(&self, lines: &[(u64, u16)]) {
        let mask = self.table.len() - 1;
        let key = |line: u64| {
            if self.follows(line) { self.table[home(line + 1) & mask].key } else { 0 }
        };
        std::hint::black_box(lines.iter().fold(0, |sum, one| sum ^ key(one.0)));
    }

    #[inline(always)]
    fn follows(&self, line: u64) -> bool {
        self.threshold == u64::MAX || spatial_hash(line) <= self.threshold
    }

    #[inline(always)]
    fn take(&mut self, line: u64) -> (Depth, u32) {
        if !self.follows(line) {
            return (Depth::Unsampled, NOWHERE);
        }
        let place = find(&self.table, line + 1);
        if self.table[place].key == 0 {
            return self.begin(line);
        }
        let moment = std::mem::replace(&mut self.table[place].moment, IN_FRONT) as usize;
        let above = u64::from(self.ranks.after(moment));
        self.ranks.clear(moment);
        (Depth::Lines(above * self.rate.one_in()), place as u32)
    }

    /// Begins to follow a line.
    #[inline(never)]
    fn begin(&mut self, line: u64) -> (Depth, u32) {
        while self.followed >= self.limit {
            self.halve();
        }
        if !self.follows(line) {
            return (Depth::Unsampled, NOWHERE);
        }
        if 2 * self.followed >= self.table.len() {
            self.rebuild(2 * self.table.len());
        }
        let place = find(&self.table, line + 1);
        self.table[place].key = line + 1;
        self.followed += 1;
        (Depth::Cold, place as u32)
    }

    #[inline(always)]
    fn push(&mut self, place: u32) {
        if self.now == self.owners.len() {
            self.make_room();
        }
        self.table[place as usize].moment = self.now as u32;
        self.owners[self.now] = place;
        self.ranks.mark(self.now);
        self.now += 1;
    }

    #[inline(never)]
    fn make_room(&mut self) {
        let places: Vec<u32> = self.ranks.iter().map(|moment| self.owners[moment]).collect();
        self.renumber(places);
    }

    /// Numbers the lines at these places, deepest first, from 0, with as much room behind.
    fn renumber(&mut self, places: Vec<u32>) {
        self.now = places.len();
        self.ranks = Ranks::new(self.ranks.capacity().max(2 * places.len()));
        self.owners.resize(self.ranks.capacity(), NOWHERE);
        for (moment, &place) in places.iter().enumerate() {
            self.table[place as usize].moment = moment as u32;
            self.ranks.mark(moment);
        }
        self.owners[..places.len()].copy_from_slice(&places);
    }

    /// Makes the table anew with the lines that are followed at the present rate.
    fn rebuild(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.table, vec![VACANT; capacity]);
        let (mut followed, threshold, table) = (0, self.threshold, &mut self.table);
        let mut moved = |place: u32| {
            let entry = old.get(place as usize)?;
            let stays = threshold == u64::MAX || spatial_hash(entry.key - 1) <= threshold;
            let place = stays.then(|| find(table, entry.key))?;
            table[place].key = entry.key;
            followed += 1;
            Some(place as u32)
        };
        for place in &mut self.held {
            *place = moved(*place).unwrap_or(NOWHERE);
        }
        let owners = &self.owners;
        let places = self.ranks.iter().filter_map(|moment| moved(owners[moment])).collect();
        self.followed = followed;
        self.renumber(places);
    }
}

/// Where a key would stand, modulo the table's size.
#[inline]
fn home(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Where a key stands, or would.
#[inline]
fn find(table: &[Entry], key: u64) -> usize {
    let mask = table.len() - 1;
    let mut place = home(key) & mask;
    while table[place].key != key && table[place].key != 0 {
        place = (place + 1) & mask;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(kind: EngineKind, lines: usize) -> Stack {
        Stack::new(&EngineOptions { kind, lines, ..EngineOptions::default() })
    }

    /// Every line goes through the one slot, so the last stays out of the stack.
    #[test]
    fn exact_until_full_and_renumbers() {
        for kind in [EngineKind::FixedSize, EngineKind::Exact] {
            let mut stack = stack(kind, 10_000);
            for round in 0..7 {
                for line in 0..10_000 {
                    let expected = if round == 0 { Depth::Cold } else { Depth::Lines(9998) };
                    assert_eq!(stack.exchange(0, line), expected, "{kind:?} {round} {line}");
                }
            }
            assert_eq!(stack.rate(), SamplingRate::ALL);
        }
    }

    fn mean_of_a_loop(stack: &mut Stack) -> f64 {
        let (mut sum, mut seen) = (0.0, 0u64);
        for round in 0..4 {
            for line in 0..20_000 {
                if let (2.., Depth::Lines(lines)) = (round, stack.exchange(0, line)) {
                    sum += lines as f64;
                    seen += 1;
                }
            }
        }
        sum / seen as f64
    }

    #[test]
    fn rate_falls_when_full_and_distances_hold() {
        let mut stack = stack(EngineKind::FixedSize, 1000);
        let mean = mean_of_a_loop(&mut stack);
        assert_eq!(stack.rate().one_in(), 32);
        assert!(stack.followed <= 1000);
        assert!((mean / 19_999.0 - 1.0).abs() < 0.08, "{mean}");
    }

    #[test]
    fn a_fixed_rate_stays() {
        let mut stack = stack(EngineKind::FixedRate, 1);
        let mean = mean_of_a_loop(&mut stack);
        assert_eq!(stack.rate().one_in(), 100);
        assert!((120..280).contains(&stack.followed), "{}", stack.followed);
        assert!((mean / 19_999.0 - 1.0).abs() < 0.25, "{mean}");
    }
}
