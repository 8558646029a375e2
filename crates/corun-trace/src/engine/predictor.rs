//! A small branch predictor: gshare for directions (`McFarling`, DEC WRL TN-36, 1993) with 4096
//! two-bit counters, 512 last targets for indirect jumps, and a return stack of 16.

use crate::block::{Block, Exit};

const COUNTERS: usize = 4096;
const TARGETS: usize = 512;
const RETURNS: usize = 16;

/// One thread's predictor.
#[derive(Debug, Clone)]
pub(crate) struct Predictor {
    counters: Box<[u8]>,
    targets: Box<[u64]>,
    returns: [u64; RETURNS],
    top: usize,
    history: u64,
}

impl Predictor {
    pub(crate) fn new() -> Self {
        Self {
            counters: vec![1; COUNTERS].into_boxed_slice(),
            targets: vec![0; TARGETS].into_boxed_slice(),
            returns: [0; RETURNS],
            top: 0,
            history: 0,
        }
    }

    /// The block ended and `next` begins; was that foreseen?
    #[inline]
    pub(crate) fn foresees(&mut self, block: &Block, next: u64) -> bool {
        match block.exit {
            Exit::Direct | Exit::Repeat => true,
            Exit::Conditional => self.conditional(block.last, next != block.end),
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

    fn conditional(&mut self, branch: u64, taken: bool) -> bool {
        let at = ((branch ^ branch >> 12) ^ self.history) as usize % COUNTERS;
        let counter = &mut self.counters[at];
        let foreseen = (*counter >= 2) == taken;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = self.history << 1 | u64::from(taken);
        foreseen
    }

    fn indirect(&mut self, branch: u64, next: u64) -> bool {
        let at = ((branch ^ branch >> 9) ^ self.history) as usize % TARGETS;
        let foreseen = self.targets[at] == next;
        self.targets[at] = next;
        // The target tells the path: two of its bits join the history.
        self.history = self.history << 2 | (next >> 2 ^ next >> 5) & 3;
        foreseen
    }

    fn call(&mut self, back: u64) {
        self.returns[self.top] = back;
        self.top = (self.top + 1) % RETURNS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(exit: Exit) -> Block {
        Block { exit, ..Block::undecoded(0x1000, 0x1010, 0x1012, 4) }
    }

    #[test]
    fn a_pattern_is_learnt_and_noise_is_not() {
        let block = block(Exit::Conditional);
        let mut predictor = Predictor::new();
        let mut wrong = |taken: &mut dyn FnMut(u64) -> bool| {
            (0..4000)
                .filter(|&at| {
                    let next = if taken(at) { 0x1000 } else { 0x1012 };
                    !predictor.foresees(&block, next)
                })
                .count()
        };
        // A loop of 5: every history of 12 outcomes says what comes next.
        assert!(wrong(&mut |at| at % 5 != 4) < 50);
        let mut state = 1u64;
        let noise = wrong(&mut |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 63 == 1
        });
        assert!((1700..2300).contains(&noise), "{noise}");
    }

    #[test]
    fn returns_match_calls() {
        let mut predictor = Predictor::new();
        assert!(predictor.foresees(&block(Exit::Call), 0x2000));
        assert!(predictor.foresees(&block(Exit::Return), 0x1012));
        assert!(!predictor.foresees(&block(Exit::Return), 0x9999));
    }

    #[test]
    fn an_indirect_jump_repeats_its_last_target() {
        let mut predictor = Predictor::new();
        let jump = block(Exit::Indirect);
        let misses = (0..100).filter(|_| !predictor.foresees(&jump, 0x7000)).count();
        assert!(misses < 10, "{misses}");
    }
}
