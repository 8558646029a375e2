//! Where a program's cycles go.

/// What a cycle goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Dispatching at the core's full width.
    Base,
    /// Instructions that wait for one another's results or for a unit.
    Dependences,
    /// Load-to-use latency of hits in the first level.
    FirstLevel,
    /// Hits in the private cache behind it.
    Private,
    /// Hits in the LLC.
    Llc,
    /// Memory.
    Memory,
    /// Address translations that the first level of the TLB does not hold.
    Translation,
    /// A store buffer that is full.
    Stores,
    /// Mispredicted branches: what follows is fetched only when they are resolved.
    Branches,
    /// Code that the first level of the cache does not hold.
    Fetches,
    /// The kernel: page faults and system calls.
    Kernel,
}

/// All causes, in the order in which they are shown.
pub const CAUSES: [Cause; 11] = [
    Cause::Base,
    Cause::Dependences,
    Cause::FirstLevel,
    Cause::Private,
    Cause::Llc,
    Cause::Memory,
    Cause::Translation,
    Cause::Stores,
    Cause::Branches,
    Cause::Fetches,
    Cause::Kernel,
];

impl Cause {
    /// Its name in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Dependences => "dependences",
            Self::FirstLevel => "l1",
            Self::Private => "private_cache",
            Self::Llc => "llc",
            Self::Memory => "memory",
            Self::Translation => "translation",
            Self::Stores => "stores",
            Self::Branches => "branches",
            Self::Fetches => "fetches",
            Self::Kernel => "kernel",
        }
    }
}

/// Cycles by cause; of a program, an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpiStack {
    cycles: [f64; CAUSES.len()],
}

impl CpiStack {
    /// Of cycles in the order of [`CAUSES`].
    pub(crate) fn of_cycles(cycles: [f64; CAUSES.len()]) -> Self {
        Self { cycles }
    }

    /// The cycles of a cause.
    pub fn of(&self, cause: Cause) -> f64 {
        self.cycles[cause as usize]
    }

    /// All cycles.
    pub fn total(&self) -> f64 {
        self.cycles.iter().sum()
    }

    pub(crate) fn add(&mut self, cause: Cause, cycles: f64) {
        self.cycles[cause as usize] += cycles;
    }

    /// Adds another's cycles so many times.
    pub(crate) fn add_times(&mut self, other: &Self, times: f64) {
        for (cycles, more) in self.cycles.iter_mut().zip(other.cycles) {
            *cycles += times * more;
        }
    }

    /// All so many times.
    pub(crate) fn times(mut self, times: f64) -> Self {
        self.cycles.iter_mut().for_each(|cycles| *cycles *= times);
        self
    }

    /// As many cycles in all, none of them negative: what that takes is taken from all but the base.
    pub(crate) fn without_negatives(mut self) -> Self {
        let total = self.total();
        self.cycles.iter_mut().for_each(|cycles| *cycles = cycles.max(0.0));
        let base = self.of(Cause::Base);
        self.filled_up(base, total)
    }

    /// Nothing committed in the cycles from one to before another: until `dispatched` the front end's
    /// fault, then the oldest instruction's.
    pub(crate) fn charge(
        &mut self,
        (from, to): (u32, u32),
        (dispatched, front): (u32, Cause),
        oldest: Cause,
    ) {
        let by_front = dispatched.clamp(from, to) - from;
        self.add(front, f64::from(by_front));
        self.add(oldest, f64::from(to - from - by_front));
    }

    /// With what dispatching takes at full width, so that all together are so many cycles: what is
    /// left over goes to dependences, and what is too much is taken from all but the base.
    pub(crate) fn filled_up(mut self, base: f64, cycles: f64) -> Self {
        let rest = (cycles - base).max(0.0);
        self.cycles[Cause::Base as usize] = 0.0;
        let lost = self.total();
        if lost > rest {
            self = self.times(rest / lost);
        } else {
            self.add(Cause::Dependences, rest - lost);
        }
        self.add(Cause::Base, cycles - rest);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_the_front_ends_until_dispatch() {
        let mut stack = CpiStack::default();
        stack.charge((10, 110), (30, Cause::Branches), Cause::Memory);
        assert_eq!((stack.of(Cause::Branches), stack.of(Cause::Memory)), (20.0, 80.0));
        stack.charge((200, 210), (150, Cause::Fetches), Cause::Llc);
        assert_eq!((stack.of(Cause::Fetches), stack.of(Cause::Llc)), (0.0, 10.0));
    }

    #[test]
    fn the_parts_sum_to_all_cycles() {
        let mut stack = CpiStack::default();
        stack.add(Cause::Memory, 60.0);
        let with_rest = stack.filled_up(25.0, 100.0);
        assert_eq!((with_rest.of(Cause::Base), with_rest.of(Cause::Dependences)), (25.0, 15.0));
        let cut = stack.filled_up(70.0, 100.0);
        assert_eq!((cut.of(Cause::Base), cut.of(Cause::Memory)), (70.0, 30.0));
        assert_eq!(cut.total(), 100.0);
    }
}
