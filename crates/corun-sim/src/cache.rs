//! Caches have memory: how much of each last-level cache every thread holds, over time.
//!
//! The space law of corun-model says what each sharer holds in the long run. A thread that comes
//! onto a cache starts from what it still holds there and fills it at the rate of its misses; the
//! lines that it evicts are first those of threads that do not run, the longest-waiting first, as
//! in an LRU. A fill goes on in a few steps, short where speed depends much on occupancy; in each
//! step the speed is that at its middle.

use corun_model::{Demand, Outcome};

use crate::tables::{Tables, Who};
use crate::timers::NEVER;

/// Occupancies within this share of the cache of their target are there.
const NEAR: f64 = 0.01;
/// A step changes a thread's CPI by at most this share of the whole change of its fill.
const CHANGE_A_STEP: f64 = 0.34;
/// A change of CPI by less than this share counts as none.
const SMALL_CHANGE: f64 = 0.01;
/// The parts of the way to the target that a step may go, longest first.
const WAYS_TO_GO: [f64; 7] = [1.0, 0.75, 0.5, 1.0 / 3.0, 0.25, 0.125, 0.0625];

/// A thread's lines in a cache part.
#[derive(Debug, Clone, Copy)]
struct Lines {
    slot: usize,
    bytes: f64,
    /// Who it runs as; none while it does not run here.
    running: Option<Who>,
    last_ran: u64,
    /// Of a running one: its share by the space law and its figures there.
    share: Demand,
    /// Of a running one: its CPI at what it holds.
    cpi: f64,
    /// Of a running one: CPI may change by so much in a step.
    tolerance: f64,
    from: f64,
    to: f64,
    /// Its figures now.
    demand: Demand,
    /// Are these the figures at its share?
    settled: bool,
}

/// A last-level cache, or a part of its ways.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Capacity in bytes.
    pub(crate) bytes: f64,
    lines: Vec<Lines>,
    start: u64,
    end: u64,
    /// Bytes that the step brings in.
    moved: f64,
    /// The part of the way to the shares that the step goes, 0 to 1.
    part: f64,
    line_bytes: f64,
}

impl Part {
    pub(crate) fn new(bytes: f64, line_bytes: f64) -> Self {
        Self { bytes, lines: Vec::new(), start: 0, end: NEVER, moved: 0.0, part: 1.0, line_bytes }
    }

    /// When its present step ends; [`NEVER`] when it is at rest.
    pub(crate) fn step_end(&self) -> u64 {
        self.end
    }

    /// Is a step planned whose length [`Part::time_step`] has to find?
    pub(crate) fn is_filling(&self) -> bool {
        self.moved > 0.0
    }

    /// What a thread holds here at `now`.
    pub(crate) fn occupancy(&self, slot: usize, now: u64) -> f64 {
        let lines = self.lines.iter().find(|lines| lines.slot == slot);
        lines.map_or(0.0, |lines| {
            if lines.running.is_some() { self.between(lines, now) } else { lines.bytes }
        })
    }

    /// The figures of a running thread, and whether they are those at its share.
    pub(crate) fn demand(&self, slot: usize) -> Option<(Demand, bool)> {
        let lines = self.lines.iter().find(|lines| lines.slot == slot)?;
        Some((lines.demand, lines.settled))
    }

    /// Forgets a thread that is no more.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.lines.retain(|lines| lines.slot != slot);
    }

    /// What each thread holds, for a part that takes this one's place.
    pub(crate) fn holdings(&self, now: u64) -> Vec<(usize, f64)> {
        let held = |lines: &Lines| (lines.slot, self.occupancy(lines.slot, now));
        self.lines.iter().map(held).collect()
    }

    /// Lets a thread hold so much, as far as there is room.
    pub(crate) fn give(&mut self, slot: usize, bytes: f64, now: u64) {
        let held: f64 = self.lines.iter().map(|lines| lines.bytes).sum();
        let bytes = bytes.min(self.bytes - held);
        if bytes > 0.0 {
            let place = self.entry(slot, now);
            self.lines[place].bytes = bytes;
        }
    }

    fn between(&self, lines: &Lines, now: u64) -> f64 {
        if self.end == NEVER || self.end <= self.start {
            return lines.bytes;
        }
        let share = ((now - self.start) as f64 / (self.end - self.start) as f64).min(1.0);
        lines.from + share * (lines.to - lines.from)
    }

    fn entry(&mut self, slot: usize, now: u64) -> usize {
        match self.lines.binary_search_by_key(&slot, |lines| lines.slot) {
            Ok(place) => place,
            Err(place) => {
                let fresh = Lines {
                    slot,
                    bytes: 0.0,
                    running: None,
                    last_ran: now,
                    share: Demand::default(),
                    cpi: 0.0,
                    tolerance: 0.0,
                    from: 0.0,
                    to: 0.0,
                    demand: Demand::default(),
                    settled: false,
                };
                self.lines.insert(place, fresh);
                place
            }
        }
    }

    /// Brings occupancies up to `now` and evicts waiting threads' lines where room was needed.
    pub(crate) fn advance(&mut self, now: u64) {
        if self.end != NEVER {
            for place in 0..self.lines.len() {
                if self.lines[place].running.is_some() {
                    let bytes = self.between(&self.lines[place], now);
                    self.lines[place].bytes = bytes;
                    self.lines[place].last_ran = now;
                }
            }
        }
        self.end = NEVER;
        self.start = now;
        self.evict();
    }

    /// The running set became `who` (by CPU): new shares, and the first step towards them. A
    /// thread for whom `fresh` holds has its share at once.
    pub(crate) fn retarget(
        &mut self,
        tables: &mut Tables<'_>,
        who: &[Who],
        fresh: impl Fn(usize) -> bool,
        now: u64,
        tick_ns: u64,
    ) {
        self.advance(now);
        for lines in &mut self.lines {
            if lines.running.take().is_some() {
                lines.last_ran = now;
            }
        }
        if who.is_empty() {
            self.moved = 0.0;
            return;
        }
        let shares = tables.shares(self.bytes, who);
        let mut given = false;
        for (one, share) in who.iter().zip(shares.iter()) {
            let place = self.entry(one.slot, now);
            let lines = &mut self.lines[place];
            lines.running = Some(*one);
            lines.share = *share;
            if fresh(one.slot) {
                lines.bytes = share.occupancy_bytes;
                given = true;
            }
        }
        if given {
            self.make_room();
        }
        self.evict();
        for place in 0..self.lines.len() {
            let Lines { running: Some(who), bytes, share, .. } = self.lines[place] else {
                continue;
            };
            let here = tables.cpi_at(who, Tables::step(bytes, self.bytes), self.bytes);
            let whole = (here - share.cpi).abs();
            self.lines[place].tolerance = (CHANGE_A_STEP * whole).max(SMALL_CHANGE * share.cpi);
        }
        self.plan_step(tables, tick_ns);
    }

    /// Takes the overflow that a fresh thread's share causes from the running threads that hold
    /// more than theirs.
    fn make_room(&mut self) {
        let running = self.lines.iter().filter(|lines| lines.running.is_some());
        let held: f64 = running.clone().map(|lines| lines.bytes).sum();
        let excess = |lines: &Lines| (lines.bytes - lines.share.occupancy_bytes).max(0.0);
        let excesses: f64 = running.map(excess).sum();
        let over = held - self.bytes;
        if over > 0.0 && excesses > 0.0 {
            let part = (over / excesses).min(1.0);
            for lines in self.lines.iter_mut().filter(|lines| lines.running.is_some()) {
                lines.bytes -= part * excess(lines);
            }
        }
    }

    /// Waiting threads keep what the running ones leave, the longest-waiting lose first.
    fn evict(&mut self) {
        let held: f64 = self.lines.iter().map(|lines| lines.bytes).sum();
        let mut over = held - self.bytes;
        while over > 0.0 {
            let waiting = self.lines.iter_mut().filter(|lines| lines.running.is_none());
            let Some(oldest) = waiting.min_by_key(|lines| (lines.last_ran, lines.slot)) else {
                return;
            };
            if oldest.bytes > over {
                oldest.bytes -= over;
                return;
            }
            over -= oldest.bytes;
            let slot = oldest.slot;
            self.forget(slot);
        }
    }

    /// Everyone has its share.
    fn settle(&mut self) {
        for lines in self.lines.iter_mut().filter(|lines| lines.running.is_some()) {
            lines.bytes = lines.share.occupancy_bytes;
            lines.demand = lines.share;
            lines.settled = true;
        }
        self.moved = 0.0;
        self.end = NEVER;
        self.evict();
    }

    /// The next step towards the shares; none when they are near.
    pub(crate) fn plan_step(&mut self, tables: &mut Tables<'_>, tick_ns: u64) {
        let capacity = self.bytes;
        let gap = |lines: &Lines| lines.share.occupancy_bytes - lines.bytes;
        let running = self.lines.iter().filter(|lines| lines.running.is_some());
        let missing: f64 = running.clone().map(|lines| gap(lines).max(0.0)).sum();
        let near = running.clone().all(|lines| gap(lines).abs() <= NEAR * capacity);
        // At the shares' speeds, which are the fastest: sooner over than half a tick.
        let bytes_per_s: f64 = running.map(|lines| lines.share.bytes_per_s).sum();
        let soon = missing < bytes_per_s * tick_ns as f64 * 0.5e-9;
        if near || soon || missing <= 0.0 {
            self.settle();
            return;
        }
        let cpi_at = |lines: &Lines, who: Who, part: f64, tables: &mut Tables<'_>| {
            let bytes = lines.bytes + part * gap(lines);
            tables.cpi_at(who, Tables::step(bytes, capacity), capacity)
        };
        for place in 0..self.lines.len() {
            if let Some(who) = self.lines[place].running {
                self.lines[place].cpi = cpi_at(&self.lines[place], who, 0.0, tables);
            }
        }
        let fits = |part: &f64, tables: &mut Tables<'_>| {
            self.lines.iter().all(|lines| {
                let Some(who) = lines.running else { return true };
                (lines.cpi - cpi_at(lines, who, *part, tables)).abs() <= lines.tolerance
            })
        };
        let shortest = WAYS_TO_GO[WAYS_TO_GO.len() - 1];
        let part = WAYS_TO_GO.into_iter().find(|part| fits(part, tables)).unwrap_or(shortest);
        self.moved = part * missing;
        self.part = part;
        for lines in &mut self.lines {
            let Some(who) = lines.running else { continue };
            lines.from = lines.bytes;
            lines.to = lines.bytes + part * gap(lines);
            let middle = Tables::step(0.5 * (lines.from + lines.to), capacity);
            lines.demand = tables.at(who, middle, capacity);
            lines.settled = false;
        }
    }

    /// Sets the length of the planned step: the bytes to bring in over the rate at which those
    /// who grow miss. It ends at a tick, so that all caches' steps end together; it goes as far
    /// as it comes until then. `outcome` tells a CPU's rates.
    pub(crate) fn time_step<'o>(
        &mut self,
        now: u64,
        tick_ns: u64,
        outcome: impl Fn(usize) -> &'o Outcome,
    ) {
        let mut bytes_per_s = 0.0;
        for lines in self.lines.iter().filter(|lines| lines.to > lines.from) {
            if let Some(who) = lines.running {
                let rates = outcome(who.cpu);
                bytes_per_s += rates.instructions_per_s * rates.llc_mpki * 1e-3 * self.line_bytes;
            }
        }
        self.start = now;
        let ns = self.moved / bytes_per_s * 1e9;
        if ns < 1e15 {
            self.end = nearest_tick(now, ns, tick_ns);
            let scale = ((self.end - now) as f64 / ns).min(1.0 / self.part);
            for lines in self.lines.iter_mut().filter(|lines| lines.running.is_some()) {
                lines.to = lines.from + scale * (lines.to - lines.from);
            }
        } else {
            // Hardly anybody misses: nothing moves, and nobody is the slower for it.
            self.end = now + NEVER / 4;
        }
    }
}

/// The tick nearest to so many nanoseconds from now, at least the next one.
pub(crate) fn nearest_tick(now: u64, ns: f64, tick_ns: u64) -> u64 {
    let ticks = ((now as f64 + ns) / tick_ns as f64).round() as u64;
    ticks.max(now / tick_ns + 1) * tick_ns
}
