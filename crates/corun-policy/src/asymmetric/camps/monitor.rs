//! The performance monitor (thesis, section 4.3.2): each thread's slowdown from its history table, and
//! whether a cluster of big cores is contended.

use super::history::{Control, History, Place};
use crate::asymmetric::speedup::side_of;
use crate::asymmetric::{Cores, Side};
use crate::{ThreadView, View};

/// Intervals whose hits are remembered: one second of the thesis's.
pub(super) const WINDOW: u32 = 20;
/// Samples after a thread's start that are thrown away, for what is cold then.
const DISCARDED: u32 = 2;
/// A sample is thrown away too when more of its CPU time than this was a loop. The thesis looks at the
/// moment of the sample alone; between two samples a thread may have passed many barriers.
const SPUN_TOO_MUCH: f64 = 0.1;

/// What is known of a thread.
#[derive(Debug, Clone)]
pub(super) struct Monitor {
    pub(super) history: History,
    /// Intervals in which it ran.
    pub(super) intervals: u32,
    /// Bit i: i intervals ago the table knew its phase.
    hits: u32,
    /// Bit i: i intervals ago a sample came into the table.
    inserted: u32,
    pub(super) slowdown: f64,
    /// Speed on the big cores over that on the small ones.
    pub(super) speedup: f64,
    /// Bytes a second over the last interval, whether it ran or not.
    pub(super) btr: f64,
    /// Bytes a second while it runs, when it was last on a big core.
    btr_on_big: Option<f64>,
    /// The side on which it was left; none where it changed since.
    pub(super) left_on: Option<Side>,
    /// Does what was counted in the last interval hold too much of a loop in which it waited?
    pub(super) spins: bool,
    /// Share of its CPU time in the last interval that it spun away.
    spun: f64,
    /// Sum and number of its speeds on small cores.
    small: (f64, u32),
}

/// A thread's interval.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Instructions a second of CPU time.
    speed: f64,
    at: Control,
    side: Side,
    /// Bytes a second of CPU time.
    btr: f64,
}

/// Bus transfer rates in bytes a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// A thread below it hardly suffers.
    pub(super) low: f64,
    /// A cluster below it is calm.
    pub(super) high: f64,
}

impl Monitor {
    pub(super) fn new(entries: usize, distance: f64) -> Self {
        Self {
            history: History::new(entries, distance),
            intervals: 0,
            hits: 0,
            inserted: 0,
            slowdown: 1.0,
            speedup: 1.0,
            btr: 0.0,
            btr_on_big: None,
            left_on: None,
            spins: false,
            spun: 0.0,
            small: (0.0, 0),
        }
    }

    /// What it would draw on a big core.
    pub(super) fn expected_btr(&self) -> f64 {
        self.btr_on_big.unwrap_or(self.btr)
    }

    /// Hits in the last `window` intervals, 0 to 1.
    pub(super) fn hit_rate(&self, window: u32) -> f64 {
        f64::from((self.hits & last(window)).count_ones()) / f64::from(window.max(1))
    }

    /// Did a sample come into the table in the last `window` intervals?
    pub(super) fn inserted(&self, window: u32) -> bool {
        self.inserted & last(window) != 0
    }

    /// What its CPU time was worth: what it spun away counts as if nothing slowed it down, the rest by
    /// this slowdown (section 4.3.5).
    pub(super) fn with_spinning(&self, slowdown: f64) -> f64 {
        if self.spun > 0.0 { 1.0 / (self.spun + (1.0 - self.spun) / slowdown) } else { slowdown }
    }

    /// Takes in an interval. `heeds_spinning`: is it heeded what the thread's runtime says of its waiting
    /// in loops?
    pub(super) fn measure(
        &mut self,
        thread: &ThreadView,
        cores: &Cores,
        line_bytes: f64,
        calm: impl Fn(f64) -> bool,
        program: Option<&mut History>,
        heeds_spinning: bool,
    ) {
        self.btr = btr(thread, line_bytes).unwrap_or(0.0);
        let spins_now = thread.spins.filter(|_| heeds_spinning);
        self.spun = spins_now.and(thread.rates.spin_share).unwrap_or(0.0);
        self.spins = spins_now.is_some_and(|now| now || self.spun > SPUN_TOO_MUCH);
        if self.history.is_empty() && side_of(thread, cores) == Some(Side::Small) {
            // Nothing is known of it on big cores.
            self.slowdown = cores.capacity_ratio;
        }
        let Some(sample) = sample(thread, cores, line_bytes) else { return };
        if self.left_on != Some(sample.side) {
            // It ran on both sides.
            return;
        }
        if self.spins {
            return;
        }
        self.intervals += 1;
        if sample.side == Side::Big {
            self.btr_on_big = Some(sample.btr);
        }
        if self.intervals <= DISCARDED {
            return;
        }
        let mut place = self.history.find(sample.at);
        let mut hit = place.is_some();
        let calm = sample.side == Side::Big && calm(sample.btr);
        if calm {
            place = Some(self.history.record(place, sample.at, sample.speed));
            if let (false, Some(program)) = (hit, program) {
                let found = program.find(sample.at);
                program.record(found, sample.at, sample.speed);
            }
            self.slowdown = 1.0;
        } else {
            let copied = || self.history.copy_from(program?, sample.at);
            place = place.or_else(copied);
            hit = place.is_some();
            let alone = place.map(|place| self.history.alone(place));
            self.slowdown = match alone.or_else(|| self.history.mean_alone()) {
                Some(alone) => (alone / sample.speed).max(1.0),
                None if sample.side == Side::Small => cores.capacity_ratio,
                None => 1.0,
            };
        }
        if sample.side == Side::Small {
            self.small.0 += sample.speed;
            self.small.1 += 1;
            if let Some(place) = place {
                self.history.note_small(place, sample.speed);
            }
        }
        self.hits = self.hits << 1 | u32::from(hit);
        self.inserted = self.inserted << 1 | u32::from(calm);
        self.speedup = self.estimate_speedup(place, cores);
    }

    /// Of the phase where both its speeds are known, else the means' (section 4.3.6).
    fn estimate_speedup(&mut self, place: Option<Place>, cores: &Cores) -> f64 {
        let of_phase = place.and_then(|place| self.history.speedup(place));
        let of_means = || {
            let (sum, count) = self.small;
            let small = (count > 0).then(|| sum / f64::from(count))?;
            self.history.mean_alone().map(|big| big / small)
        };
        of_phase.or_else(of_means).unwrap_or(cores.capacity_ratio)
    }
}

/// The last so many intervals as bits.
fn last(window: u32) -> u32 {
    if window >= 32 { u32::MAX } else { (1 << window) - 1 }
}

/// Bus transfer rate of a thread (equation 4.1) over the interval: lines brought in, else its traffic.
pub(super) fn btr(thread: &ThreadView, line_bytes: f64) -> Option<f64> {
    let counters = &thread.rates;
    let read = counters.llc_misses.map(|misses| misses.per_s * line_bytes);
    read.or(counters.memory_bytes_per_s).filter(|bytes| bytes.is_finite())
}

fn sample(thread: &ThreadView, cores: &Cores, line_bytes: f64) -> Option<Sample> {
    let counters = &thread.rates;
    let side = side_of(thread, cores)?;
    let share = counters.cpu_share.filter(|&share| share > 0.0)?;
    let instructions = counters.instructions_per_s.filter(|&rate| rate > 0.0)?;
    // A program whose mix nobody counts is one phase.
    let percent = |per_s: Option<f64>| 100.0 * per_s.unwrap_or(0.0) / instructions;
    let at = Control {
        l1_percent: percent(counters.l1_accesses_per_s),
        branch_percent: percent(counters.branches_per_s),
    };
    let btr = btr(thread, line_bytes)? / share;
    Some(Sample { speed: instructions / share, at, side, btr })
}

/// Bytes a second of all threads on the big cores of each LLC.
pub(super) fn clusters(view: &View<'_>, cores: &Cores, line_bytes: f64) -> Vec<f64> {
    let mut sums = vec![0.0; view.machine.llcs().len()];
    for thread in view.threads {
        if let Some(cpu) = thread.cpu.filter(|&cpu| cores.big.contains(cpu))
            && let Some(index) = view.machine.cpu_index(cpu)
        {
            sums[view.machine.cpus()[index].llc] += btr(thread, line_bytes).unwrap_or(0.0);
        }
    }
    sums
}
