//! Memory-level parallelism from the dependence of misses on one another.
//!
//! A window of [`WINDOW`] instructions opens at a load that misses. Inside it every register
//! carries the number of misses that its value waited for one after the other. A load that misses
//! adds one to the chain its address hangs on. The window's misses, divided by its longest chain,
//! could be outstanding together: the epochs of Chou, Fahs and Abraham (ISCA 2004,
//! "Microarchitecture optimizations for exploiting memory-level parallelism"), with true
//! dependences only and no branch or fence that ends a window early. Values that pass through
//! memory (spilled registers) lose their chain, so the estimate leans to more parallelism. Stores
//! do not wait and are left out.

use crate::block::Flow;

/// Instructions of a window: about what today's big cores hold in flight.
pub const WINDOW: u32 = 256;

/// From one window's start to the next one's, at least: following registers costs time.
const SPACING: u64 = 1024;

/// Sums over all windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parallelism {
    /// Misses in windows.
    pub misses: u64,
    /// Longest chains of dependent misses in windows.
    pub chained: u64,
}

/// The window a thread is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// Instructions left; 0: no window.
    left: u32,
    /// Instruction count from which the next may open.
    resume: u64,
    chains: [u16; 32],
    /// The next instruction of the running block to follow.
    cursor: usize,
    missing: Option<usize>,
    misses: u32,
    longest: u16,
}

impl Window {
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Instruction `index` of the running block loads and misses.
    pub(crate) fn load_missed(&mut self, flow: &[Flow], index: usize, instructions: u64) {
        if !self.is_open() {
            if instructions < self.resume || flow.is_empty() {
                return;
            }
            *self = Self {
                left: WINDOW,
                resume: instructions + SPACING,
                cursor: index,
                ..Self::default()
            };
        }
        self.follow(flow, index);
        self.missing = Some(index);
    }

    /// What follows is not looked at.
    pub(crate) fn abandon(&mut self) {
        self.left = 0;
    }

    /// The running block ended.
    pub(crate) fn block_ended(&mut self, flow: &[Flow], totals: &mut Parallelism) {
        let length = flow.len() as u32;
        self.follow(flow, flow.len());
        self.cursor = 0;
        self.left = self.left.saturating_sub(length.max(1));
        if self.left == 0 {
            totals.misses += u64::from(self.misses);
            totals.chained += u64::from(self.longest);
        }
    }

    fn follow(&mut self, flow: &[Flow], end: usize) {
        for (at, one) in flow.iter().enumerate().take(end).skip(self.cursor) {
            let missed = self.missing.take_if(|index| *index == at).is_some();
            self.step(*one, missed);
        }
        self.cursor = self.cursor.max(end);
    }

    fn step(&mut self, flow: Flow, missed: bool) {
        let mut chain = self.longest_of(flow.read | flow.address);
        if missed {
            let own = self.longest_of(flow.address) + 1;
            self.misses += 1;
            self.longest = self.longest.max(own);
            chain = chain.max(own);
        }
        let mut written = flow.written;
        while written != 0 {
            self.chains[written.trailing_zeros() as usize] = chain;
            written &= written - 1;
        }
    }

    fn longest_of(&self, mut registers: u32) -> u16 {
        let mut longest = 0;
        while registers != 0 {
            longest = longest.max(self.chains[registers.trailing_zeros() as usize]);
            registers &= registers - 1;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a block of these instructions over and over; all `missing` ones miss every time.
    fn run(flow: &[Flow], missing: &[usize], rounds: u64) -> Parallelism {
        let (mut window, mut totals) = (Window::default(), Parallelism::default());
        for round in 0..rounds {
            for &index in missing {
                window.load_missed(flow, index, round * flow.len() as u64);
            }
            if window.is_open() {
                window.block_ended(flow, &mut totals);
            }
        }
        totals
    }

    #[test]
    fn a_pointer_chase_is_serial() {
        // mov rax, [rax]; add rcx, 1
        let load = Flow { address: 1, read: 1, written: 1 };
        let add = Flow { address: 0, read: 2, written: 2 };
        let totals = run(&[load, add], &[0], 10_000);
        assert_eq!(totals.misses, totals.chained);
        assert!(totals.misses > 1000);
    }

    #[test]
    fn loads_by_a_counter_are_parallel() {
        // mov rax, [rcx]; add rcx, 64: 128 misses in a window of 256, each on its own.
        let load = Flow { address: 2, read: 2, written: 1 };
        let add = Flow { address: 0, read: 2, written: 2 };
        let totals = run(&[load, add], &[0], 10_000);
        assert_eq!(totals.misses, 128 * totals.chained);
    }

    #[test]
    fn two_chains_side_by_side_overlap() {
        // mov rax, [rax]; mov rcx, [rcx]
        let first = Flow { address: 1, read: 1, written: 1 };
        let second = Flow { address: 2, read: 2, written: 2 };
        let totals = run(&[first, second], &[0, 1], 10_000);
        assert_eq!(totals.misses, 2 * totals.chained);
    }

    #[test]
    fn a_miss_behind_arithmetic_still_depends() {
        // mov rax, [rcx]; lea rdx, [rax + 8]; mov rbx, [rdx]
        let flow = [
            Flow { address: 2, read: 2, written: 1 },
            Flow { address: 0, read: 1, written: 4 },
            Flow { address: 4, read: 4, written: 8 },
        ];
        let totals = run(&flow, &[0, 2], 1);
        assert_eq!(totals, Parallelism::default());
        let totals = run(&flow, &[0, 2], 90);
        // 86 rounds a window: 172 misses, chains of 2.
        assert_eq!((totals.misses, totals.chained), (172, 2));
    }
}
