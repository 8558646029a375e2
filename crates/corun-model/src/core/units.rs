//! Which cycles execution units are taken in.

/// Cycles that are told apart at a time: what is further apart never competes.
const CYCLES: usize = 1 << CYCLES_LOG2;
const CYCLES_LOG2: u32 = 11;
/// Bits of a slot that count units.
const COUNT_BITS: u32 = 8;
/// A slot of no cycle.
const NOBODY: u32 = u32::MAX;

/// Units of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Units {
    /// By cycle modulo [`CYCLES`]: how many units are taken in the cycle, below the part of the cycle's number that
    /// the place in the table does not tell. In four bytes, since the tables of all kinds of units are more than the
    /// first level of a cache holds, and are cleared for each trace.
    taken: Box<[u32; CYCLES]>,
}

impl Units {
    pub(crate) fn new() -> Self {
        Self { taken: Box::new([NOBODY; CYCLES]) }
    }

    pub(crate) fn clear(&mut self) {
        self.taken.fill(NOBODY);
    }

    /// Takes one of `count` units for so many cycles, at the first cycle from `earliest` on at which
    /// one is free; that cycle.
    #[inline]
    pub(crate) fn take(&mut self, count: u8, earliest: u32, cycles: u32) -> u32 {
        let mut at = earliest;
        loop {
            let (slot, free) = self.slot(at);
            // Without any unit taken the slot's lowest bits are 0.
            let taken = if *slot >> COUNT_BITS == free >> COUNT_BITS { *slot } else { free };
            if taken - free < u32::from(count) {
                *slot = taken + 1;
                break;
            }
            at += 1;
        }
        for busy in at + 1..at + cycles {
            let (slot, free) = self.slot(busy);
            *slot = if *slot >> COUNT_BITS == free >> COUNT_BITS { *slot + 1 } else { free + 1 };
        }
        at
    }

    /// The slot of a cycle, and what stands there while no unit is taken in the cycle.
    #[inline]
    fn slot(&mut self, cycle: u32) -> (&mut u32, u32) {
        (&mut self.taken[cycle as usize % CYCLES], cycle >> CYCLES_LOG2 << COUNT_BITS)
    }
}

/// Cycles over which a link's lines are counted: bursts within pass at once, and a count of lines is near
/// enough to the rate.
const WINDOW_CYCLES: u32 = 128;
/// Windows that are told apart at a time.
const WINDOWS: usize = 64;

/// A link between two caches, over which so many lines go in [`WINDOW_CYCLES`].
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// By window modulo [`WINDOWS`]: the window, and how many lines were asked for in it.
    asked: [(u32, u32); WINDOWS],
}

impl Link {
    pub(crate) fn new() -> Self {
        Self { asked: [(u32::MAX, 0); WINDOWS] }
    }

    pub(crate) fn clear(&mut self) {
        self.asked.fill((u32::MAX, 0));
    }

    /// The lines that a window has room for where one takes so many cycles; as many as one likes at 0.
    pub(crate) fn lines_a_window(line_cycles: f64) -> u32 {
        let lines = f64::from(WINDOW_CYCLES) / line_cycles;
        if lines.is_finite() { (lines.round() as u32).max(1) } else { u32::MAX }
    }

    /// Sends a line over it, at the first cycle from `earliest` on in whose window there is room; that
    /// cycle.
    #[inline]
    pub(crate) fn take(&mut self, lines_a_window: u32, earliest: u32) -> u32 {
        let mut window = earliest / WINDOW_CYCLES;
        loop {
            let slot = &mut self.asked[window as usize % WINDOWS];
            if slot.0 != window {
                *slot = (window, 0);
            }
            if slot.1 < lines_a_window {
                slot.1 += 1;
                return earliest.max(window * WINDOW_CYCLES);
            }
            window += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_a_window_go_over_in_the_next() {
        // 40 cycles a line: three in 128 cycles.
        let lines = Link::lines_a_window(40.0);
        assert_eq!(lines, 3);
        let mut link = Link::new();
        let at: Vec<u32> = (0..7).map(|_| link.take(lines, 10)).collect();
        assert_eq!(at, [10, 10, 10, 128, 128, 128, 256]);
        // One that is asked for earlier finds what is left.
        assert_eq!(link.take(lines, 300), 300);
        assert_eq!(link.take(lines, 130), 256);
    }

    #[test]
    fn an_unknown_rate_holds_nothing_up() {
        let lines = Link::lines_a_window(0.0);
        let mut link = Link::new();
        assert!((0..10_000).all(|_| link.take(lines, 5) == 5));
    }
}
