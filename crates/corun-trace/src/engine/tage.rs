//! A large branch predictor, as in today's big cores: TAGE for directions (Seznec and Michaud, "A
//! case for (partially) tagged geometric history length branch prediction", Journal of
//! Instruction-Level Parallelism 8, 2006) with 16,384 bimodal counters and 12 tables of 2048 tagged
//! entries for histories of 4 to 512 outcomes; the same principle for the targets of indirect jumps
//! (ITTAGE: Seznec, "A 64-Kbytes ITTAGE indirect branch predictor", CBP-3, 2011) with 6 tables of 512;
//! and a return stack of 32.

use crate::block::{Block, Exit};

/// Outcomes of history that each table looks at.
const HISTORIES: [u32; 12] = [4, 6, 10, 16, 25, 40, 64, 101, 160, 254, 403, 512];
/// Which of these the tables of targets look at.
const TARGET_TABLES: [usize; 6] = [0, 2, 4, 6, 8, 10];
const ENTRY_BITS: u32 = 11;
const TARGET_BITS: u32 = 9;
const BIMODAL: usize = 1 << 14;
const RETURNS: usize = 32;
const WORDS: usize = 8;
/// Mispredictions after which entries lose what keeps them from being replaced.
const AGE: u32 = 1 << 14;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tag: u16,
    /// -4 to 3: 0 and above is taken.
    direction: i8,
    /// 0 to 3: how often it was right where the next shorter history was wrong.
    useful: u8,
}

#[derive(Debug, Clone, Copy, Default)]
struct TargetEntry {
    target: u64,
    tag: u16,
    /// 0 to 3.
    confidence: u8,
}

/// One thread's predictor.
#[derive(Debug, Clone)]
pub(crate) struct Tage {
    bimodal: Box<[i8]>,
    entries: Box<[Entry]>,
    targets: Box<[TargetEntry]>,
    last_targets: Box<[u64]>,
    /// The latest outcome in the lowest bit of the first word.
    history: [u64; WORDS],
    /// Are new entries better passed over for the next shorter history? Above 0: yes.
    distrust_new: i8,
    wrong: u32,
    /// Which of the longer histories gets an entry: spreads them.
    turn: u32,
    returns: [u64; RETURNS],
    top: usize,
}

impl Tage {
    pub(crate) fn new() -> Self {
        Self {
            bimodal: vec![-1; BIMODAL].into(),
            entries: vec![Entry::default(); HISTORIES.len() << ENTRY_BITS].into(),
            targets: vec![TargetEntry::default(); TARGET_TABLES.len() << TARGET_BITS].into(),
            last_targets: vec![0; 1 << TARGET_BITS].into(),
            history: [0; WORDS],
            distrust_new: 0,
            wrong: 0,
            turn: 0,
            returns: [0; RETURNS],
            top: 0,
        }
    }

    /// The block ended and `next` begins; was that foreseen?
    pub(crate) fn foresees(&mut self, block: &Block, next: u64) -> bool {
        match block.exit {
            Exit::Direct | Exit::Repeat => true,
            Exit::Conditional => {
                let taken = next != block.end;
                let foreseen = self.conditional(block.last, taken);
                self.remember(u64::from(taken), 1);
                foreseen
            }
            Exit::Indirect => self.indirect(block.last, next),
            Exit::Call => {
                self.call(block.end);
                true
            }
            Exit::IndirectCall => {
                self.call(block.end);
                self.indirect(block.last, next)
            }
            Exit::Return => {
                self.top = (self.top + RETURNS - 1) % RETURNS;
                self.returns[self.top] == next
            }
        }
    }

    fn call(&mut self, back: u64) {
        self.returns[self.top] = back;
        self.top = (self.top + 1) % RETURNS;
    }

    fn remember(&mut self, bits: u64, count: u32) {
        let mut carried = bits;
        for word in &mut self.history {
            let leaves = *word >> (64 - count);
            *word = *word << count | carried;
            carried = leaves;
        }
    }

    /// A hash of the branch and as much of the history as each table looks at.
    #[inline]
    fn hashes(&self, branch: u64) -> [u64; HISTORIES.len()] {
        let mut whole = branch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut words = 0;
        HISTORIES.map(|length| {
            let full = (length / 64) as usize;
            while words < full {
                whole = mix(whole ^ self.history[words]);
                words += 1;
            }
            let rest = length % 64;
            if rest == 0 {
                return mix(whole ^ u64::from(length));
            }
            let part = self.history[full] & ((1 << rest) - 1);
            mix(whole ^ part ^ u64::from(length) << 56)
        })
    }

    fn conditional(&mut self, branch: u64, taken: bool) -> bool {
        let base = (branch ^ branch >> 14) as usize % BIMODAL;
        let places = self.hashes(branch).map(|hash| place(hash, ENTRY_BITS));
        let at = |table: usize| table << ENTRY_BITS | places[table].0;
        let mut hits = (0..HISTORIES.len()).rev().filter(|&table| {
            let entry = &self.entries[at(table)];
            entry.tag == places[table].1
        });
        let (provider, alternate) = (hits.next(), hits.next());
        let by_base = self.bimodal[base] >= 0;
        let said = |table: usize| self.entries[at(table)].direction >= 0;
        let other = alternate.map_or(by_base, said);
        let foreseen = match provider {
            None => by_base,
            Some(table) => {
                let entry = self.entries[at(table)];
                let fresh = entry.useful == 0 && matches!(entry.direction, -1 | 0);
                if fresh && said(table) != other {
                    let change = if other == taken { 1 } else { -1 };
                    let distrusted = self.distrust_new >= 0;
                    self.distrust_new = (self.distrust_new + change).clamp(-8, 7);
                    if distrusted { other } else { said(table) }
                } else {
                    said(table)
                }
            }
        };
        self.learn(base, provider.map(|table| (table, at(table))), other, taken);
        let right = foreseen == taken;
        if !right {
            self.allocate(provider.map_or(0, |table| table + 1), &places, taken);
        }
        right
    }

    fn learn(&mut self, base: usize, provider: Option<(usize, usize)>, other: bool, taken: bool) {
        match provider {
            None => self.bimodal[base] = step(self.bimodal[base], taken, -2, 1),
            Some((_, at)) => {
                let entry = &mut self.entries[at];
                let said = entry.direction >= 0;
                if said != other {
                    entry.useful = if said == taken {
                        (entry.useful + 1).min(3)
                    } else {
                        entry.useful.saturating_sub(1)
                    };
                }
                let fresh = entry.useful == 0;
                entry.direction = step(entry.direction, taken, -4, 3);
                if fresh {
                    self.bimodal[base] = step(self.bimodal[base], taken, -2, 1);
                }
            }
        }
    }

    /// A longer history gets an entry.
    fn allocate(&mut self, from: usize, places: &[(usize, u16); HISTORIES.len()], taken: bool) {
        self.turn = self.turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let skip = if self.turn >> 31 == 1 && from + 1 < HISTORIES.len() { 1 } else { 0 };
        let mut placed = false;
        for (table, &(index, tag)) in places.iter().enumerate().skip(from + skip) {
            let entry = &mut self.entries[table << ENTRY_BITS | index];
            if entry.useful == 0 {
                *entry = Entry { tag, direction: if taken { 0 } else { -1 }, useful: 0 };
                placed = true;
                break;
            }
        }
        if !placed {
            for (table, &(index, _)) in places.iter().enumerate().skip(from + skip) {
                let entry = &mut self.entries[table << ENTRY_BITS | index];
                entry.useful = entry.useful.saturating_sub(1);
            }
        }
        self.wrong += 1;
        if self.wrong == AGE {
            self.wrong = 0;
            self.entries.iter_mut().for_each(|entry| entry.useful >>= 1);
        }
    }

    fn indirect(&mut self, branch: u64, next: u64) -> bool {
        let hashes = self.hashes(branch);
        let places = TARGET_TABLES.map(|table| place(hashes[table], TARGET_BITS));
        let at = |table: usize| table << TARGET_BITS | places[table].0;
        let provider =
            (0..places.len()).rev().find(|&table| self.targets[at(table)].tag == places[table].1);
        let base = place(mix(branch), TARGET_BITS).0;
        let foreseen = match provider {
            Some(table) if self.targets[at(table)].confidence > 0 => self.targets[at(table)].target,
            _ => self.last_targets[base],
        } == next;
        if let Some(table) = provider {
            let entry = &mut self.targets[at(table)];
            if entry.target == next {
                entry.confidence = (entry.confidence + 1).min(3);
            } else if entry.confidence == 0 {
                entry.target = next;
            } else {
                entry.confidence -= 1;
            }
        }
        if !foreseen {
            let from = provider.map_or(0, |table| table + 1);
            for (table, &(index, tag)) in places.iter().enumerate().skip(from) {
                let entry = &mut self.targets[table << TARGET_BITS | index];
                if entry.confidence == 0 {
                    *entry = TargetEntry { target: next, tag, confidence: 1 };
                    break;
                }
                entry.confidence -= 1;
            }
        }
        self.last_targets[base] = next;
        // The target tells the path.
        self.remember((next >> 2 ^ next >> 5 ^ next >> 9) & 7, 3);
        foreseen
    }
}

fn step(counter: i8, up: bool, least: i8, most: i8) -> i8 {
    if up { (counter + 1).min(most) } else { (counter - 1).max(least) }
}

/// Place in a table and tag.
#[inline(always)]
fn place(hash: u64, bits: u32) -> (usize, u16) {
    ((hash >> (64 - bits)) as usize, (hash >> 20) as u16 | 1)
}

#[inline(always)]
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(exit: Exit) -> Block {
        Block { exit, ..Block::undecoded(0x1000, 0x1010, 0x1012, 4) }
    }

    /// Mispredictions of the second half of a conditional branch's outcomes.
    fn wrong(count: u64, taken: impl Fn(u64) -> bool) -> usize {
        let block = block(Exit::Conditional);
        let mut tage = Tage::new();
        let wrong = (0..count).filter(|&at| {
            let next = if taken(at) { 0x1000 } else { 0x1012 };
            !tage.foresees(&block, next) && at >= count / 2
        });
        wrong.count()
    }

    #[test]
    fn long_patterns_are_learnt_and_noise_is_not() {
        assert_eq!(wrong(4000, |at| at % 5 != 4), 0);
        // A loop of 90 leaves a trace of 90 equal outcomes: histories of 101 and more tell its end.
        assert!(wrong(40_000, |at| at % 90 != 89) < 20);
        let noise = wrong(4000, |at| super::mix(at.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 63 == 1);
        assert!((800..1200).contains(&noise), "{noise}");
    }

    #[test]
    fn returns_match_calls() {
        let mut tage = Tage::new();
        assert!(tage.foresees(&block(Exit::Call), 0x2000));
        assert!(tage.foresees(&block(Exit::Return), 0x1012));
        assert!(!tage.foresees(&block(Exit::Return), 0x9999));
    }

    #[test]
    fn targets_that_alternate_are_learnt() {
        let mut tage = Tage::new();
        let jump = block(Exit::Indirect);
        let target = |at: u64| 0x7000 + at % 3 * 0x44;
        let wrong = (0..3000).filter(|&at| !tage.foresees(&jump, target(at)) && at > 1500).count();
        assert!(wrong < 15, "{wrong}");
    }
}
