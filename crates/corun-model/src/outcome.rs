//! What the model says of a running program.

/// A program phase's figures when it holds so many bytes of its LLC and nobody else uses the
/// memory: what the space laws give and the bandwidth models start from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// Bytes of the LLC held.
    pub occupancy_bytes: f64,
    /// Cycles per instruction, memory stalls included, at local memory latency.
    pub cpi: f64,
    /// Of these, cycles in which it executes: those without any stall.
    pub execution_cpi: f64,
    /// Of all its cycles, those stalled on memory: what latency and bandwidth stretch.
    pub memory_cpi: f64,
    /// Cycles per instruction that accesses to memory add which take twice as long as alone on average, but wait each for
    /// itself: more than those of longer latency where several are on their way at a time. As
    /// [`Self::memory_cpi`] where that is not known.
    pub waiting_cpi: f64,
    /// Share of the memory stalls in all stalls, MS / TS (thesis, eq. 5.10), 0 to 1.
    pub memory_stall_share: f64,
    /// LLC accesses per 1000 instructions.
    pub llc_apki: f64,
    /// LLC misses per 1000 instructions, demand and prefetch.
    pub llc_mpki: f64,
    /// Memory traffic in bytes a second at this speed, write-backs included.
    pub bytes_per_s: f64,
    /// Bytes a second of traffic of the kind by which the peak was measured that keep the memory as busy: other than
    /// [`Self::bytes_per_s`] where the machine says what reads, and what written lines, take.
    pub busy_bytes_per_s: f64,
    /// Share of its misses that prefetchers foresee: how many of these are on their way at a time is theirs to say.
    pub foreseen_share: f64,
    /// How many times as long as an idle memory takes its other misses take alone, since its core reads and writes no
    /// faster: by so much they wait for one another. At least 1.
    pub stretched_alone: f64,
    /// Was a figure read outside the measured range?
    pub extrapolated: bool,
}

impl Demand {
    /// The demand of a program that may draw at most so many bytes a second: so much slower that it
    /// does not draw more, waiting for memory all the longer.
    pub(crate) fn capped(self, bytes_per_s: f64) -> Self {
        if self.bytes_per_s <= bytes_per_s {
            return self;
        }
        let cpi = self.cpi * self.bytes_per_s / bytes_per_s;
        let kept = bytes_per_s / self.bytes_per_s;
        Self {
            cpi,
            memory_cpi: self.memory_cpi + cpi - self.cpi,
            waiting_cpi: self.waiting_cpi + cpi - self.cpi,
            bytes_per_s,
            busy_bytes_per_s: self.busy_bytes_per_s * kept,
            // Requests that are held back do not wait in the memory.
            stretched_alone: (self.stretched_alone * kept).max(1.0),
            ..self
        }
    }

    /// With what others feel of a program's memory traffic taken, figure by figure, from this demand or another: with
    /// [`f64::min`] others are slowed by it no more than by either, with [`f64::max`] no less.
    pub fn felt(self, other: &Self, of: fn(f64, f64) -> f64) -> Self {
        Self {
            bytes_per_s: of(self.bytes_per_s, other.bytes_per_s),
            busy_bytes_per_s: of(self.busy_bytes_per_s, other.busy_bytes_per_s),
            foreseen_share: of(self.foreseen_share, other.foreseen_share),
            stretched_alone: of(self.stretched_alone, other.stretched_alone),
            ..self
        }
    }

    /// The traffic in bytes a second of a program that a memory lets keep it so busy.
    pub(crate) fn moved(&self, busy_bytes_per_s: f64) -> f64 {
        if self.busy_bytes_per_s > 0.0 {
            busy_bytes_per_s * (self.bytes_per_s / self.busy_bytes_per_s)
        } else {
            busy_bytes_per_s
        }
    }
}

/// A running program's figures among the others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Speed in instructions a second.
    pub instructions_per_s: f64,
    /// Solo speed on this machine / this speed.
    pub slowdown: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC accesses per 1000 instructions.
    pub llc_apki: f64,
    /// LLC misses per 1000 instructions, demand and prefetch.
    pub llc_mpki: f64,
    /// Memory traffic in bytes a second.
    pub bytes_per_s: f64,
    /// Bytes of the LLC held.
    pub occupancy_bytes: f64,
    /// Share of all cycles stalled on memory, 0 to 1.
    pub memory_stall_share: f64,
    /// Requests that found the memory controller's buffer full and were sent again, for each that
    /// it took: U / (1 - U) of a controller that is busy for a share U of the time.
    pub memory_retries_per_request: f64,
    /// Was a figure read outside the measured range?
    pub extrapolated: bool,
}

/// How fast a program runs among the others, and what it draws.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    /// As [`Outcome::slowdown`].
    pub slowdown: f64,
    /// As [`Outcome::bytes_per_s`].
    pub bytes_per_s: f64,
}

impl Outcome {
    /// Its slowdown and traffic alone.
    pub fn pace(&self) -> Pace {
        Pace { slowdown: self.slowdown, bytes_per_s: self.bytes_per_s }
    }
}
