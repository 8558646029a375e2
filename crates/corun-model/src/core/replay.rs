//! Replays a micro-trace on a core: when each instruction is fetched, dispatched, executed and
//! committed.
//!
//! One pass in the order of the program, as in instruction-window-centric simulation (Carlson,
//! Heirman, Eyerman, Hur and Eeckhout, "An evaluation of high-level mechanistic core models", ACM TACO
//! 11(3), 2014): an instruction's moments follow from those of the instructions it depends on, those
//! that hold the buffers it needs, and the branch that let it in. What keeps the oldest instruction
//! from committing is what a cycle is lost to (Eyerman, Eeckhout, Karkhanis and Smith, "A top-down
//! approach to architecting CPI component performance counters", IEEE Micro 27(1), 2007).

use corun_profile::{Marks, MicroOp, Operation};

mod front;
mod wrong_path;

use front::Front;
pub(crate) use front::{TAKEN_STEPS, TakenBranches};

use super::parameters::{
    CoreParameters, LOAD, STORE, UNITS, VECTOR_LOAD, VECTOR_STORE, particular_unit, unit,
};
use super::sampled::{Even, RankedTrace};
use super::stack::{Cause, CpiStack};
use super::units::{Link, Places, Units};

/// Entries of a trace at whose commit the clock starts: until then the pipeline fills.
const WARM_UP: usize = 256;
/// The cycle in which a trace begins: what a stream asked for before lies at a cycle of its own too.
const START: u32 = 1 << 24;

/// Where misses go, and what they take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryView {
    /// Lines missed an instruction: of data in the first level, of code in the first level (among
    /// code), in the private cache, in the LLC.
    pub(crate) l1_data: f32,
    pub(crate) l1_code: f32,
    pub(crate) private: f32,
    pub(crate) llc: f32,
    /// Load-to-use cycles of hits in the private cache and the LLC, and of memory.
    pub(crate) private_cycles: u32,
    pub(crate) llc_cycles: u32,
    pub(crate) memory_cycles: u32,
    /// What an access to memory waits besides, on average: each for itself, as in a queue.
    pub(crate) memory_wait_cycles: u32,
    /// Lines that come in a window of a [`Link`] at most out of the private cache, and out of the LLC or from
    /// behind it.
    pub(crate) lines_a_window: [u32; 2],
    /// Cycles from one code line that comes out of the private cache, and out of the LLC or from behind it, to
    /// the next such line; 0 where lines come as fast as they are asked for.
    pub(crate) code_line_cycles: [u32; 2],
    pub(crate) taken: TakenBranches,
    /// What a line more takes in a run of instructions up to a taken branch, where it has more lines than it takes
    /// cycles by its length.
    pub(crate) line_crossing_cycles: f32,
    /// Pages that the levels of the TLB reach, and what a hit in the second level and a walk add.
    pub(crate) tlb_pages: [f32; 2],
    pub(crate) tlb_cycles: [u32; 2],
    /// What a walk adds more where the load comes from memory, in no order that a prefetcher foresees.
    pub(crate) memory_walk: MemoryWalk,
    /// Which predictor the core has.
    pub(crate) mispredicted: Marks,
}

/// What a page walk adds more where the load comes from memory: the entries of more pages lie farther, so that it goes with the
/// logarithm of the pages that came between two uses of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryWalk {
    /// Cycles over many pages.
    pub(crate) most_cycles: f32,
    /// Pages up to which it adds nothing more, and from which on the most. Both 0: the most over any.
    pub(crate) pages: [f32; 2],
}

impl MemoryWalk {
    fn more_cycles(&self, pages: f32) -> u32 {
        let [few, many] = self.pages;
        if pages >= many {
            return self.most_cycles as u32;
        }
        let share = (pages / few).ln() / (many / few).ln();
        (share.max(0.0) * self.most_cycles) as u32
    }
}

/// A level that an access hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    First,
    Private,
    Llc,
    Memory,
}

/// What replays on a core; its memory is used again from trace to trace.
#[derive(Debug)]
pub(crate) struct Replay<'p> {
    core: &'p CoreParameters,
    units: [Units; UNITS],
    misses: [Places; 2],
    prefetches: Places,
    links: [Link; 2],
    loads: Places,
    stores: Places,
    reorder: Places,
    /// By entry: when its value is there.
    done: Vec<u32>,
    /// By entry: when its line is there.
    filled: Vec<u32>,
    /// By entry: when its access began.
    begun: Vec<u32>,
    /// By entry: when its line is there that a wrong path asked for; 0 where none did.
    asked: Vec<u32>,
    /// By entry: when its value is there on the wrong path that is followed.
    ahead: Vec<u32>,
    /// Which wrong paths meet the right one again.
    meeting: Even,
    /// By entry: when what it stored left the store buffer.
    drained: Vec<u32>,
    /// By entry: when it was fetched, and dispatched.
    fetched: Vec<u32>,
    dispatched: Vec<u32>,
}

/// What a replay took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Replayed {
    pub(crate) cycles: f64,
    pub(crate) instructions: f64,
    pub(crate) stack: CpiStack,
}

impl<'p> Replay<'p> {
    pub(crate) fn new(core: &'p CoreParameters) -> Self {
        Self {
            core,
            units: std::array::from_fn(|_| Units::new()),
            misses: core.outstanding.map(Places::new),
            prefetches: Places::new(core.prefetch_lines),
            links: [Link::new(), Link::new()],
            loads: Places::new(core.loads),
            stores: Places::new(core.stores),
            reorder: Places::new(core.reorder_buffer),
            done: Vec::new(),
            filled: Vec::new(),
            drained: Vec::new(),
            begun: Vec::new(),
            asked: Vec::new(),
            ahead: Vec::new(),
            meeting: Even::default(),
            fetched: Vec::new(),
            dispatched: Vec::new(),
        }
    }

    /// From a mispredicted branch's result to the next instruction's dispatch.
    pub(crate) fn refill_cycles(&self) -> f64 {
        f64::from(self.core.refill)
    }

    fn clear(&mut self, entries: usize) {
        self.units.iter_mut().for_each(Units::clear);
        self.misses.iter_mut().for_each(Places::clear);
        self.links.iter_mut().for_each(Link::clear);
        for places in [&mut self.prefetches, &mut self.loads, &mut self.stores, &mut self.reorder] {
            places.clear();
        }
        self.meeting = Even::default();
        for moments in [
            &mut self.done,
            &mut self.filled,
            &mut self.drained,
            &mut self.begun,
            &mut self.asked,
            &mut self.ahead,
            &mut self.fetched,
            &mut self.dispatched,
        ] {
            moments.clear();
            moments.resize(entries, 0);
        }
    }

    /// Replays a trace.
    pub(crate) fn run(&mut self, trace: &RankedTrace, view: &MemoryView) -> Replayed {
        self.clear(trace.ops.len());
        let core = self.core;
        let mut front = Front::new(view);
        let (mut dispatch, mut dispatch_slots) = (START, 0);
        let (mut commit, mut commit_slots) = (START, 0);
        let (mut issued, mut fence, mut drained) = (START, START, START);
        let mut lost = CpiStack::default();
        let warm_up = WARM_UP.min(trace.ops.len() / 4);
        let (mut begin, mut instructions) = (START, 0.0);
        for (entry, op) in trace.ops.iter().enumerate() {
            let part = op.marks.has(Marks::PART);
            let counts = core.counts(op);
            // Fetching.
            if !part {
                self.fetch(entry, op, trace, view, &mut front, counts);
            }
            self.fetched[entry] = front.cycle;
            // Dispatch.
            let mut at = front.cycle.max(dispatch);
            if counts && !core.in_order() {
                at = at.max(self.reorder.free());
            }
            if op.marks.has(Marks::LOAD) {
                at = at.max(self.loads.free());
            }
            let full = op.marks.has(Marks::STORE) && self.stores.free() > at;
            if full {
                at = self.stores.free();
            }
            if at > dispatch {
                (dispatch, dispatch_slots) = (at, 0);
            }
            if counts {
                if dispatch_slots == core.width {
                    (dispatch, dispatch_slots) = (dispatch + 1, 0);
                }
                dispatch_slots += 1;
            }
            self.dispatched[entry] = dispatch;
            // Execution.
            let earliest = if core.in_order() { dispatch.max(issued) } else { dispatch + 1 };
            let barrier = if op.marks.has(Marks::LOAD) { fence } else { 0 };
            let executed = self.execute(entry, op, trace, view, earliest.max(barrier), commit);
            self.done[entry] = executed.done;
            if core.in_order() {
                issued = issued.max(executed.issued);
            }
            // Commit, in order.
            let before = commit;
            if executed.done > commit {
                (commit, commit_slots) = (executed.done, 0);
            }
            if counts {
                if commit_slots == core.width {
                    (commit, commit_slots) = (commit + 1, 0);
                }
                commit_slots += 1;
            }
            // Buffers, until when they are held.
            if counts && !core.in_order() {
                self.reorder.take(commit + 1);
            }
            if op.marks.has(Marks::LOAD) {
                self.loads.take(commit + 1);
            }
            if op.marks.has(Marks::STORE) {
                // Stores leave in order, one a cycle, when their line is there.
                drained = (drained + 1).max(commit + 1).max(self.filled[entry]);
                self.drained[entry] = drained;
                self.stores.take(drained);
            }
            match op.operation {
                Operation::Atomic => fence = executed.done,
                Operation::Serialise | Operation::SystemCall => {
                    front.restart_at(executed.done, Cause::Dependences);
                }
                _ => {}
            }
            if op.marks.any(view.mispredicted) {
                self.run_on(entry, (self.dispatched[entry], executed.done), trace, view);
                front.restart_at(executed.done + core.refill, Cause::Branches);
            } else if op.marks.has(Marks::TAKEN) {
                front.take_branch(core.fetch_width, view);
            }
            if entry < warm_up {
                begin = commit;
                continue;
            }
            instructions += if part { 0.0 } else { 1.0 };
            if commit > before + 1 {
                let cause = if full { Cause::Stores } else { executed.cause };
                lost.charge(
                    (before + 1, commit),
                    (self.dispatched[entry], front.cause_of(full, self.fetched[entry], dispatch)),
                    cause,
                );
            }
        }
        let cycles = f64::from(commit - begin);
        let base = instructions / f64::from(core.width);
        Replayed { cycles, instructions, stack: lost.filled_up(base, cycles) }
    }

    fn execute(
        &mut self,
        entry: usize,
        op: &MicroOp,
        trace: &RankedTrace,
        view: &MemoryView,
        earliest: u32,
        committed: u32,
    ) -> Executed {
        let core = self.core;
        let when = |back: u16, done: &[u32]| {
            if back == 0 { 0 } else { done[entry - usize::from(back)] }
        };
        let latest = |backs: &[u16], done: &[u32]| {
            backs.iter().fold(0, |latest, &back| latest.max(when(back, done)))
        };
        let mut cause = Cause::Dependences;
        let mut issued = earliest;
        let mut ready = earliest.max(latest(&op.inputs, &self.done));
        if op.marks.any(Marks::LOAD.with(Marks::STORE)) {
            let address = earliest.max(latest(&op.address_inputs, &self.done));
            let kind = if op.marks.has(Marks::LOAD) { LOAD } else { STORE };
            // In order, a store's operands are all there when it issues.
            let address =
                if core.in_order() && kind == STORE { address.max(ready) } else { address };
            let mut begun = self.units[kind].take(core.units[kind], address, 1);
            if op.marks.has(Marks::VECTOR) {
                let vector = if kind == LOAD { VECTOR_LOAD } else { VECTOR_STORE };
                begun = self.units[vector].take(core.units[vector], begun, 1);
            }
            issued = begun;
            self.begun[entry] = begun;
            let (there, level) = self.access(entry, op, trace, view, begun);
            self.filled[entry] = there;
            if op.marks.has(Marks::LOAD) {
                let store = entry - usize::from(op.forwarded_from);
                let forwarded = store < entry && self.drained[store] > begun;
                let value = if forwarded {
                    self.forwarded(op, (&trace.ops[store], self.done[store]), begun)
                } else {
                    there.max(begun + core.load) + (core.load_of(op) - core.load)
                };
                ready = ready.max(value);
                if !forwarded {
                    cause = level;
                }
            }
        }
        if matches!(op.operation, Operation::Serialise | Operation::SystemCall) {
            ready = ready.max(committed);
        }
        let latency = core.latency[op.operation as usize];
        // A branch fused with the comparison before it is executed with it.
        let fused = core.fuses && op.marks.has(Marks::FUSED);
        let done = match unit(op.operation) {
            None => ready + latency,
            Some(_) if fused => ready,
            Some((kind, busy)) => {
                let ready = match particular_unit(op.operation) {
                    Some(unit) => self.units[unit].take(core.units[unit], ready, busy),
                    None => ready,
                };
                let begun = self.units[kind].take(core.units[kind], ready, busy);
                issued = issued.max(begun);
                if latency > 4 && begun + latency > ready + 4 {
                    cause = Cause::Dependences;
                }
                begun + latency
            }
        };
        Executed { issued, done, cause }
    }

    /// When a load, begun at a moment, has the value that a store's data, there at another, makes it.
    fn forwarded(&self, op: &MicroOp, (store, stored): (&MicroOp, u32), begun: u32) -> u32 {
        let core = self.core;
        // The register that was stored is known, or the store buffer has it.
        let renamed = op.marks.has(Marks::STACK) && store.marks.has(Marks::STACK);
        let usual = if renamed { core.stack_forward } else { core.forward };
        let is_vector = op.marks.has(Marks::VECTOR) || store.marks.has(Marks::VECTOR);
        let takes = core.vector_forward.filter(|_| is_vector).unwrap_or(usual);
        let value = stored + takes;
        if renamed { value } else { value.max(begun + core.load_of(op)) }
    }

    /// When an access's line is there, and what it waited for.
    fn access(
        &mut self,
        entry: usize,
        op: &MicroOp,
        trace: &RankedTrace,
        view: &MemoryView,
        begun: u32,
    ) -> (u32, Cause) {
        let core = self.core;
        let level = if trace.data[entry] > view.l1_data {
            Level::First
        } else {
            level_below(trace.data[entry], view)
        };
        let pages = trace.pages[entry];
        let (walk, walked) = if pages >= view.tlb_pages[1] {
            (view.tlb_cycles[1], true)
        } else if pages >= view.tlb_pages[0] {
            (view.tlb_cycles[0], true)
        } else {
            (0, false)
        };
        // A line that is on its way is waited for, not asked for again.
        let before = match op.line_before {
            0 => 0,
            back => self.filled[entry - usize::from(back)],
        };
        let begun = begun + walk;
        if level == Level::First || before > begun {
            let there = before.max(begun + core.load);
            let waits = before > begun + core.load;
            let cause = match (waits, walked) {
                (true, _) => Cause::Memory,
                (false, true) => Cause::Translation,
                (false, false) => Cause::FirstLevel,
            };
            return (there, cause);
        }
        let is_far = level == Level::Memory
            && pages >= view.tlb_pages[1]
            && !(op.marks.has(Marks::FORESEEN) && core.prefetch_lines > 0);
        let more = if is_far { view.memory_walk.more_cycles(pages) } else { 0 };
        let latency = cycles(level, (entry, Kind::Data), core, view) + more;
        let there = if self.asked[entry] > 0 {
            self.asked[entry]
        } else if op.marks.has(Marks::FORESEEN) && core.prefetch_lines > 0 {
            self.prefetched(entry, trace, begun, latency, |rank| rank <= view.private)
        } else {
            let places = &mut self.misses[usize::from(level == Level::Memory)];
            let start = begun.max(if level >= Level::Llc { places.free() } else { 0 });
            if level >= Level::Llc {
                places.take(start + latency);
            }
            start + latency
        };
        let there = self.over_links(there, latency, level, view);
        let cause = match level {
            Level::First => Cause::FirstLevel,
            Level::Private => Cause::Private,
            Level::Llc => Cause::Llc,
            Level::Memory => Cause::Memory,
        };
        (there.max(begun + core.load), cause)
    }

    /// When a line is there that would be there at a moment if the links to the first level were free.
    fn over_links(&mut self, there: u32, latency: u32, level: Level, view: &MemoryView) -> u32 {
        let asked = there.saturating_sub(latency);
        let passed = usize::from(level == Level::Private);
        let mut start = asked;
        for (link, lines) in self.links.iter_mut().zip(view.lines_a_window).take(2 - passed) {
            start = link.take(lines, start);
        }
        there + (start - asked)
    }

    /// When a line is there that was foreseen: a prefetcher asked for it when the stream stood so many
    /// lines before it.
    fn prefetched(
        &mut self,
        entry: usize,
        trace: &RankedTrace,
        begun: u32,
        latency: u32,
        missed: impl Fn(f32) -> bool,
    ) -> u32 {
        let mut at = entry;
        // As if the stream had always gone at this pace, where it began before the trace did: nothing
        // before is known, or a line that was there already.
        let mut asked = begun - latency.min(START);
        for lines in 1..=self.core.prefetch_lines {
            let back = trace.ops[at].stream_before;
            if back == 0 {
                break;
            }
            at -= usize::from(back);
            let begins = !trace.ops[at].marks.has(Marks::FORESEEN);
            if lines == self.core.prefetch_lines || begins && missed(trace.data[at]) {
                asked = self.begun[at];
                break;
            }
            if begins {
                break;
            }
        }
        let start = asked.max(self.prefetches.free());
        self.prefetches.take(start + latency);
        start + latency
    }
}

struct Executed {
    issued: u32,
    done: u32,
    cause: Cause,
}

fn level_below(rank: f32, view: &MemoryView) -> Level {
    if rank > view.private {
        Level::Private
    } else if rank > view.llc {
        Level::Llc
    } else {
        Level::Memory
    }
}

/// What an entry of a trace asks for.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Data,
    Code,
}

/// How long an entry's access takes.
fn cycles(level: Level, access: (usize, Kind), core: &CoreParameters, view: &MemoryView) -> u32 {
    match level {
        Level::First => core.load,
        Level::Private => view.private_cycles,
        Level::Llc => view.llc_cycles,
        Level::Memory if view.memory_wait_cycles == 0 => view.memory_cycles,
        Level::Memory => view.memory_cycles + waiting(access, view.memory_wait_cycles),
    }
}

/// What an access waits where the mean is so much. Waiting times in a queue of random arrivals at one server (M/M/1) are
/// exponentially distributed among those that wait. Which one is an access's follows from its place, in no order.
fn waiting((entry, kind): (usize, Kind), mean: u32) -> u32 {
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    let mut bits = (2 * entry as u64 + kind as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let drawn = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (f64::from(mean) * -drawn.ln()).round() as u32
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
