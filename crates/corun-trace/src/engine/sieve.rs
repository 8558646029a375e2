//! What one thread hands to the engine: all events while all are seen, else the sums of the blocks
//! that ran and the events of followed lines alone, of which an unfollowed line costs a look at what is known of its page.

use super::facts::Sums;
use super::pages::PAGE_LINES;
use super::sample::{followed_lines, spatial_hash};
use crate::block::{Block, Exit};
use crate::event::{TraceEvent, line_of};

/// How a thread is to collect events until it hands them in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// All of them?
    pub(crate) all: bool,
    /// Those of lines with at most this hash.
    pub(crate) threshold: u64,
    /// Instructions after which they are due, where not all are collected.
    pub(crate) instructions: u32,
    /// Events after which they are due.
    pub(crate) events: usize,
    /// Which of the engine's paces this is: when it has another one, events are due.
    pub(crate) number: u32,
}

impl Pace {
    /// Nothing is collected any more.
    pub(crate) const NOTHING: Self = Self {
        all: false,
        threshold: 0,
        instructions: u32::MAX,
        events: usize::MAX,
        number: u32::MAX,
    };
}

/// What a thread needs to know of a block each time it runs, in one word: where nothing else is to
/// be done it has no memory to wait for. It holds 7 bits each of instructions, loads, stores and
/// floats, one of branches, each where `Tally` adds it up, a mark, and its number in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTag(u64);

const COUNT: u64 = 0x7f;
/// From one sum to the next one in the same word.
const APART: u32 = 21;
const FLOATS: u32 = APART;
const LOADS: u32 = 7;
const STORES: u32 = LOADS + APART;
const BRANCHES: u32 = LOADS + 2 * APART;
const SPECIAL: u64 = 1 << 14;
/// Bits of half a number, and where they stand.
const HALF: u32 = 14;
const LOW_HALF: u32 = 35;
const HIGH_HALF: u32 = 50;

impl BlockTag {
    /// A block is special if its code has a line that may be followed or its counts here do not tell
    /// all there is to count.
    pub(super) fn new(id: u32, block: &Block, followed: bool) -> Self {
        let Block { instructions, loads, stores, floats, branches, .. } = *block;
        let counts = [instructions, loads, stores, floats].map(u64::from);
        let plain = counts.iter().all(|&count| count <= COUNT) && branches <= 1;
        let id = u64::from(id);
        let number = (id & ((1 << HALF) - 1)) << LOW_HALF | id >> HALF << HIGH_HALF;
        if followed || !plain || block.exit == Exit::Repeat || block.ops.is_empty() {
            return Self(number | SPECIAL);
        }
        let [instructions, loads, stores, floats] = counts;
        let data = loads << LOADS | stores << STORES;
        let others = floats << FLOATS | u64::from(branches) << BRANCHES;
        Self(number | instructions | data | others)
    }

    /// As it is handed to callbacks.
    pub fn word(self) -> u64 {
        self.0
    }

    /// From there.
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    fn number(self) -> u32 {
        let low = self.0 >> LOW_HALF & ((1 << HALF) - 1);
        (low | self.0 >> HIGH_HALF << HALF) as u32
    }
}

/// Instructions of which a thread keeps sums.
pub(super) const MOST_INSTRUCTIONS: u64 = 1 << 20;
const ONE_SUM: u64 = (1 << APART) - 1;

/// Sums over plain blocks that ran, and when they are due. The two words of sums are kept apart, as
/// the compiler else adds them by an SSE instruction, and those are slow behind QEMU's AVX code.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Tally {
    /// Of instructions and floats.
    first: u64,
    /// Instructions at which events are due; 0 while all are collected.
    due: u64,
    /// Of loads, stores and branches.
    second: u64,
}

impl Tally {
    #[inline(always)]
    fn add(&mut self, tag: BlockTag) {
        self.first += tag.0 & (COUNT | COUNT << FLOATS);
        self.second += tag.0 >> LOADS & (COUNT | COUNT << APART | 1 << (2 * APART));
    }

    #[inline(always)]
    fn is_due(self) -> bool {
        self.first & ONE_SUM >= self.due
    }

    fn add_access(&mut self, store: bool) {
        self.second += if store { 1 << APART } else { 1 };
    }

    fn unpack(self) -> Sums {
        let at = |word: u64, place: u32| (word >> (place * APART) & ONE_SUM) as u32;
        let [loads, stores, branches] = [0, 1, 2].map(|place| at(self.second, place));
        Sums::new([at(self.first, 0), loads, stores, branches, at(self.first, 1)])
    }
}

/// Pages of which a thread remembers which lines are not followed.
const KNOWN: usize = 256;
/// Lines of a page that are asked one by one; when one more is touched, all are.
const ASKED: u32 = 4;
/// Pages of which a thread remembers that they were touched.
const RECENT_PAGES: usize = 4096;

/// More than any address / 2048.
const NO_PAGE: u64 = u64::MAX;

/// Is what was noted this page, and written to if it is now?
#[inline(always)]
fn is_noted(noted: u64, page: u64, store: bool) -> bool {
    noted.wrapping_sub(2 * page + u64::from(store)) <= 1
}

/// What is known of a page's lines.
#[derive(Debug, Clone, Copy)]
struct KnownPage {
    /// Twice its number, and 1 more where it is known to be written to.
    noted: u64,
    /// The lines that are known not to be followed, one bit each.
    unfollowed: u64,
}

impl KnownPage {
    const NONE: Self = Self { noted: NO_PAGE, unfollowed: 0 };

    #[inline(always)]
    fn leaves_out(&self, line: u64) -> bool {
        self.unfollowed >> (line % PAGE_LINES) & 1 == 1
    }

    /// Finds out whether a line is left out. A program that touches a line here and there pays for that one alone.
    #[inline(never)]
    fn ask(&mut self, line: u64, threshold: u64) -> bool {
        let known = self.unfollowed.count_ones();
        if known < ASKED {
            let is_left_out = spatial_hash(line) > threshold;
            self.unfollowed |= u64::from(is_left_out) << (line % PAGE_LINES);
            return is_left_out;
        }
        if known == ASKED {
            self.unfollowed = !followed_lines(line / PAGE_LINES, threshold);
        }
        self.leaves_out(line)
    }
}

/// One thread's events, until it hands them in.
#[derive(Debug, Clone)]
pub struct Sieve {
    tally: Tally,
    pace: Pace,
    pub(super) events: Vec<TraceEvent>,
    /// Instruction and direction of the running block's last access that was counted by itself.
    last_access: Option<(u32, bool)>,
    /// Pages with lines that are not followed, by their low bits; none while all events are collected.
    known: Box<[KnownPage; KNOWN]>,
    /// Pages touched of late, by their low bits: each twice its number, and 1 more where it was written to.
    recent: Box<[u64; RECENT_PAGES]>,
}

impl Sieve {
    /// An empty one.
    pub fn new(pace: Pace) -> Self {
        let known = Box::new([KnownPage::NONE; KNOWN]);
        let (tally, events) = (Tally::default(), Vec::new());
        let recent = Box::new([NO_PAGE; RECENT_PAGES]);
        let mut sieve = Self { tally, pace, events, last_access: None, known, recent };
        sieve.set_pace(pace);
        sieve
    }

    /// Empties it and goes on at another pace.
    pub fn set_pace(&mut self, pace: Pace) {
        self.events.clear();
        let due = if pace.all { 0 } else { u64::from(pace.instructions) };
        self.tally = Tally { due, ..Tally::default() };
        if pace.all {
            // No more than is needed: there may be many threads.
            self.events.shrink_to(pace.events + 1);
            // One access may be two events.
            self.events.reserve_exact(pace.events + 1);
        }
        if pace.all && !self.pace.all || pace.threshold != self.pace.threshold {
            self.known.fill(KnownPage::NONE);
        }
        self.pace = pace;
    }

    /// Are all events collected?
    pub fn takes_all(&self) -> bool {
        self.pace.all
    }

    /// The engine's pace that it keeps to.
    pub fn pace_number(&self) -> u32 {
        self.pace.number
    }

    /// The events.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// The sums of the plain blocks that ran, where not all events are collected. The others are
    /// among the events.
    pub(super) fn sums(&self) -> Sums {
        self.tally.unpack()
    }

    /// A block begins. True when events are due, after this one.
    pub fn block(&mut self, tag: BlockTag) -> bool {
        !self.sums_up(tag) && self.collect(tag)
    }

    /// A block begins: adds it up. Is that all there is to do about it? Else it has to be collected.
    #[inline(always)]
    pub(crate) fn sums_up(&mut self, tag: BlockTag) -> bool {
        self.tally.add(tag);
        // While all events are collected there are none to wait for.
        !self.tally.is_due() && tag.0 & SPECIAL == 0
    }

    /// Collects a block that `sums_up` does not do for. True when events are due.
    pub fn collect(&mut self, tag: BlockTag) -> bool {
        self.last_access = None;
        if self.pace.all {
            self.tally = Tally::default();
            return self.push(TraceEvent::block(tag.number()));
        }
        let full = tag.0 & SPECIAL != 0 && self.push(TraceEvent::block(tag.number()));
        full || self.tally.is_due()
    }

    /// Is a line known not to be followed, and its page to be written to if it is now? It is passed over.
    #[inline(always)]
    pub fn passes_over(&self, line: u64, store: bool) -> bool {
        let page = line / PAGE_LINES;
        let known = &self.known[page as usize % KNOWN];
        is_noted(known.noted, page, store) && known.leaves_out(line)
    }

    /// An instruction of the running block touches a word (address / 8). True when events are due.
    #[inline(always)]
    pub fn access(&mut self, word: u64, index: u32, store: bool) -> bool {
        let line = line_of(word);
        let page = line / PAGE_LINES;
        let noted = self.recent[page as usize % RECENT_PAGES];
        if !is_noted(noted, page, store) {
            return self.access_page(line, TraceEvent::data(word, index, store), store);
        }
        if !self.pace.all && self.leaves_out(line, noted) {
            return false;
        }
        let event = TraceEvent::data(word, index, store);
        // In every cache the same line again hits, and the order of lines stays as it is.
        let repeats = self.events.last().is_some_and(|&before| event.repeats(before));
        !repeats && self.push(event)
    }

    /// An access to a page that was not touched, or not written to, of late. True when events are due.
    #[cold]
    fn access_page(&mut self, line: u64, access: TraceEvent, store: bool) -> bool {
        let page = line / PAGE_LINES;
        let noted = 2 * page + u64::from(store);
        self.recent[page as usize % RECENT_PAGES] = noted;
        let due = self.push(TraceEvent::page(page, store));
        if !self.pace.all && self.leaves_out(line, noted) {
            return due;
        }
        self.push(access)
    }

    /// Is a line not followed? It is known from then on, with what is noted of its page.
    #[inline(always)]
    fn leaves_out(&mut self, line: u64, noted: u64) -> bool {
        let known = &mut self.known[(line / PAGE_LINES) as usize % KNOWN];
        if known.noted / 2 == noted / 2 {
            known.noted = noted;
            return known.ask(line, self.pace.threshold);
        }
        let is_left_out = spatial_hash(line) > self.pace.threshold;
        *known = KnownPage { noted, unfollowed: u64::from(is_left_out) << (line % PAGE_LINES) };
        is_left_out
    }

    /// Memory was given back or mapped: what is touched from now on may be new.
    pub fn forget_pages(&mut self) {
        self.recent.fill(NO_PAGE);
        self.known.fill(KnownPage::NONE);
    }

    /// The same where the block's accesses are not known and are counted as they happen.
    #[inline]
    pub(crate) fn counted_access(&mut self, word: u64, index: u32, store: bool) -> bool {
        if self.pace.all {
            let event = TraceEvent::data(word, index, store);
            return self.events.last() != Some(&event) && self.push(event);
        }
        // A wide access comes in parts.
        if self.last_access.replace((index, store)) != Some((index, store)) {
            self.tally.add_access(store);
        }
        self.access(word, index, store)
    }

    #[inline(always)]
    fn push(&mut self, event: TraceEvent) -> bool {
        self.events.push(event);
        self.events.len() >= self.pace.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::StaticOp;

    fn block(instructions: u32, loads: u32) -> Block {
        Block {
            loads,
            stores: 2,
            branches: 1,
            floats: 3,
            ops: vec![StaticOp::default(); instructions as usize].into(),
            ..Block::undecoded(0x1000, 0x1010, 0x1014, instructions)
        }
    }

    fn gap(instructions: u32) -> Sieve {
        Sieve::new(Pace { all: false, threshold: 0, instructions, events: 100, number: 0 })
    }

    #[test]
    fn plain_blocks_are_summed_up_and_special_ones_collected() {
        let plain = BlockTag::new(1 << 20 | 77, &block(127, 4), false);
        let mut sieve = gap(1 << 20);
        let steps = (1u64 << 20) / 127;
        assert!((0..steps).all(|_| !sieve.block(plain)) && sieve.block(plain));
        let mut counters = crate::engine::Counters::default();
        sieve.sums().settle(&mut counters);
        let times = steps + 1;
        let sums = [counters.instructions, counters.loads, counters.stores, counters.branches];
        assert_eq!((sums, counters.floats), ([127, 4, 2, 1].map(|one| one * times), 3 * times));
        assert!(sieve.events().is_empty());
        let mut sieve = gap(1 << 20);
        // Too long for the sums; code that may be followed.
        for (length, followed) in [(128, false), (10, true)] {
            assert!(!sieve.block(BlockTag::new(1 << 20 | 77, &block(length, 4), followed)));
            assert_eq!(sieve.events().last(), Some(&TraceEvent::block(1 << 20 | 77)));
        }
    }

    #[test]
    fn a_line_that_is_not_followed_is_passed_over_until_all_are_seen() {
        let mut sieve = gap(1000);
        assert!(!sieve.passes_over(5, false) && !sieve.access(40, 0, false));
        // Its page may be new.
        assert!(sieve.passes_over(5, false) && sieve.events() == [TraceEvent::page(0, false)]);
        sieve.set_pace(Pace { all: true, threshold: 0, instructions: 1, events: 2, number: 1 });
        assert!(!sieve.passes_over(5, false) && !sieve.access(40, 0, false));
        assert!(sieve.access(48, 0, false));
        assert_eq!(sieve.events(), [40, 48].map(|word| TraceEvent::data(word, 0, false)));
    }

    #[test]
    fn lines_are_followed_by_the_pace_s_threshold() {
        let mut sieve = Sieve::new(Pace { events: 1000, ..gap(1000).pace });
        let follows = |sieve: &mut Sieve, line: u64| {
            let before = sieve.events().len();
            assert!(!sieve.access(8 * line, 0, false));
            sieve.events().len() > before
        };
        // Each page is touched, and one is written to in another line: that is told.
        (0..3).for_each(|page| assert!(follows(&mut sieve, page * PAGE_LINES)));
        assert!(!sieve.access(8, 0, true) && sieve.events().len() == 4);
        for one_in in [100, 32, 3] {
            let threshold = crate::engine::SamplingRate::of_one_in(one_in).threshold();
            sieve.set_pace(Pace { threshold, ..sieve.pace });
            for _ in 0..2 {
                let found: Vec<u64> =
                    (0..3 * PAGE_LINES).filter(|&line| follows(&mut sieve, line)).collect();
                let expected = (0..3 * PAGE_LINES).filter(|&line| spatial_hash(line) <= threshold);
                assert_eq!(found, expected.collect::<Vec<_>>(), "1 in {one_in}");
            }
        }
    }

    #[test]
    fn the_first_store_to_a_page_is_told_also_in_a_line_that_is_passed_over() {
        let mut sieve = gap(1000);
        assert!(!sieve.access(40, 0, false) && !sieve.passes_over(5, true));
        assert!(!sieve.access(40, 0, true) && sieve.passes_over(5, true));
        let told = [false, true].map(|store| TraceEvent::page(0, store));
        assert_eq!(sieve.events(), told);
        // The page is known to be written to now, by whichever line.
        assert!(
            !sieve.access(48, 0, false) && sieve.passes_over(6, true) && sieve.events() == told
        );
        sieve.forget_pages();
        assert!(!sieve.passes_over(5, false));
    }
}
