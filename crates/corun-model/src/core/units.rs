//! Which cycles execution units are taken in.

/// Cycles that are told apart at a time: what is further apart never competes.
const CYCLES: usize = 2048;

/// Units of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Units {
    /// By cycle modulo [`CYCLES`]: the cycle, and how many units are taken in it.
    taken: Box<[(u32, u8); CYCLES]>,
}

impl Units {
    pub(crate) fn new() -> Self {
        Self { taken: Box::new([(u32::MAX, 0); CYCLES]) }
    }

    pub(crate) fn clear(&mut self) {
        self.taken.fill((u32::MAX, 0));
    }

    /// Takes one of `count` units for so many cycles, at the first cycle from `earliest` on at which
    /// one is free; that cycle.
    #[inline]
    pub(crate) fn take(&mut self, count: u8, earliest: u32, cycles: u32) -> u32 {
        let mut at = earliest;
        loop {
            let slot = &mut self.taken[at as usize % CYCLES];
            if slot.0 != at {
                *slot = (at, 0);
            }
            if slot.1 < count {
                slot.1 += 1;
                break;
            }
            at += 1;
        }
        for busy in at + 1..at + cycles {
            let slot = &mut self.taken[busy as usize % CYCLES];
            *slot = if slot.0 == busy { (busy, slot.1 + 1) } else { (busy, 1) };
        }
        at
    }
}

/// A number of places of which each is taken until a moment: misses outstanding, entries of a buffer.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    until: Vec<u32>,
    next: usize,
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self { until: vec![0; count.max(1)], next: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.until.fill(0);
        self.next = 0;
    }

    /// When the place that is given out next is free.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.until[self.next]
    }

    /// When the place is free that is given out so many later; at most as many as there are.
    pub(crate) fn free_after(&self, later: usize) -> u32 {
        let at = self.next + later;
        self.until[if at < self.until.len() { at } else { at - self.until.len() }]
    }

    /// Gives it out until a moment.
    #[inline]
    pub(crate) fn take(&mut self, until: u32) {
        self.until[self.next] = until;
        self.next += 1;
        if self.next == self.until.len() {
            self.next = 0;
        }
    }
}
