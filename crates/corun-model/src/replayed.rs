//! From a recording with micro-traces to cycles: tables of what replaying them on a core takes.

use corun_profile::{Marks, MissRateCurve, Phase};

use crate::bandwidth::mix::Traffic;
use crate::core::{
    CAUSES, Cause, CoreParameters, CpiStack, Link, MemoryView, MemoryWalk, Replays, SampledPhase,
    TAKEN_STEPS, TakenBranches, fill_instructions, shared_bytes,
};
use crate::interval::{finish, parts, sizes};
use crate::site::Site;
use crate::table::{Knot, PhaseTable};

/// How often the middle between two miss rates is replayed, and then the middles beside it.
const REFINEMENTS: usize = 2;

/// A share of the cycles by which a straight line may be off.
const NEAR: f64 = 0.01;

/// Misses per 1000 instructions between two replays at least: nearer ones differ in nothing but
/// which accesses the rounding of ranks catches.
const LEAST_STEP_MPKI: f64 = 0.02;

/// By how much more the memory latency of further replays is, or how long accesses wait on average in them.
const MORE_LATENCY: f64 = 0.5;

/// What a phase takes an instruction where it misses so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    mpki: f64,
    stack: CpiStack,
    /// Cycles that grow in proportion to the memory latency.
    memory: f64,
    /// Cycles that accesses to memory add which wait for as long as the latency on average, each for itself. As those that
    /// grow with the latency where the machine does not say how long they wait.
    waiting: f64,
}

impl Point {
    /// From what [`Self::figures`] gave.
    pub(crate) fn new(mpki: f64, cycles: [f64; CAUSES.len()], memory: [f64; 2]) -> Self {
        let [memory, waiting] = memory;
        Self { mpki, stack: CpiStack::of_cycles(cycles), memory, waiting }
    }

    /// Misses per 1000 instructions, cycles an instruction by cause, and those that grow with the memory latency and with how
    /// long accesses wait.
    pub(crate) fn figures(&self) -> (f64, [f64; CAUSES.len()], [f64; 2]) {
        (self.mpki, CAUSES.map(|cause| self.stack.of(cause)), [self.memory, self.waiting])
    }
}

/// Tabulates a phase at a site, of a program that runs so many instructions from its start to its end. `points`: what
/// [`points`] found there.
pub(crate) fn table(
    phase: &Phase,
    points: &[Point],
    run_instructions: f64,
    site: &Site,
) -> PhaseTable {
    let filling = phase.filling_curve();
    let ages = Ages::new(phase, &filling, site);
    let kernel = kernel_cycles(phase, site, run_instructions);
    let knots = sizes(phase, site).into_iter().map(|bytes| {
        let kept = site.llc_mpki(phase, bytes);
        let mut mpki = kept;
        // Lines grow older the slower the program runs, and more of them are gone then.
        for _ in 0..if ages.is_empty() { 0 } else { AGE_ROUNDS } {
            let cpi = between(points, mpki).stack.total();
            mpki = kept + ages.lost(site, bytes, cpi);
        }
        knot(phase, site, (bytes, mpki, kernel), points)
    });
    let (knots, stacks) = knots.unzip();
    PhaseTable::new(parts(phase, site, knots, stacks), site)
}

/// Rounds of speed and lost lines.
const AGE_ROUNDS: usize = 4;

/// When lines of the LLC are used again, for a machine of which others outside evict some before.
#[derive(Debug, Default)]
struct Ages {
    /// By rising bytes held: instructions since the last use of lines that are used again just within
    /// these bytes, and such uses per 1000 instructions from the point before to this one.
    points: Vec<(f64, f64, f64)>,
}

impl Ages {
    /// `filling`: of all lines that come into a cache.
    fn new(phase: &Phase, filling: &MissRateCurve, site: &Site) -> Self {
        // Neighbours that are one of the sharers of the LLC evict nothing besides.
        if site.survival.is_empty() || site.has_outside() {
            return Self::default();
        }
        let mpki = |bytes: f64| site.llc_mpki(phase, bytes);
        let sizes = sizes(phase, site);
        let mut points = Vec::with_capacity(sizes.len());
        for pair in sizes.windows(2) {
            let middle = site.curve_bytes(0.5 * (pair[0] + pair[1]));
            let instructions = fill_instructions(filling, middle);
            points.push((pair[1], instructions, (mpki(pair[0]) - mpki(pair[1])).max(0.0)));
        }
        Self { points }
    }

    fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Uses per 1000 instructions of lines that the program would hold within so many bytes and that
    /// are gone, at so many cycles an instruction.
    fn lost(&self, site: &Site, bytes: f64, cpi: f64) -> f64 {
        let within = self.points.iter().take_while(|point| point.0 <= bytes * (1.0 + 1e-9));
        let gone = |&(_, instructions, uses): &(f64, f64, f64)| {
            uses * (1.0 - site.survives(instructions * cpi / site.clock_hz()))
        };
        within.map(gone).sum()
    }
}

/// With so many bytes held and misses, and with the kernel's cycles.
fn knot(
    phase: &Phase,
    site: &Site,
    (bytes, mpki, kernel): (f64, f64, KernelCycles),
    points: &[Point],
) -> (Knot, CpiStack) {
    let Point { mut stack, memory, waiting, .. } = between(points, mpki);
    stack.add(Cause::Kernel, kernel.all);
    let cpi = stack.total();
    let cleared = phase.cleared_mpki(site.curve_bytes(bytes).max(1.0));
    let mut knot = Knot {
        bytes,
        cpi,
        memory_cpi: (memory + kernel.of_memory).min(cpi),
        waiting_cpi: (waiting + kernel.of_memory).min(cpi),
        llc_hit_cpi: stack.of(Cause::Llc),
        mpki: mpki + cleared,
        ..Knot::default()
    };
    // The kernel writes whole lines: they are written back, and not read before.
    let lines = mpki * (1.0 + phase.dirty_share) + cleared;
    let written_share = (lines > 0.0).then(|| 1.0 - mpki / lines);
    let traffic = Traffic { bytes: lines * 1e-3 * site.line_bytes, written_share };
    let unstalled =
        [Cause::Base, Cause::Dependences, Cause::FirstLevel].map(|cause| stack.of(cause));
    finish(&mut knot, site, traffic, unstalled.iter().sum());
    stack.add(Cause::Memory, knot.cpi - cpi);
    (knot, stack)
}

/// Cycles an instruction that the kernel takes for the program.
#[derive(Debug, Clone, Copy, Default)]
struct KernelCycles {
    all: f64,
    /// Those that wait for memory.
    of_memory: f64,
}

fn kernel_cycles(phase: &Phase, site: &Site, run_instructions: f64) -> KernelCycles {
    let Some(core) = &phase.core else { return KernelCycles::default() };
    let kernel = &site.kernel;
    let told_apart = core.light_calls_pki + core.mapping_calls_pki + core.sleeping_calls_pki;
    // Figures in files are rounded each for itself.
    let other_calls_pki = (core.system_calls_pki - told_apart).max(0.0);
    let page_faults = (core.page_faults_pki - core.file_faults_pki) * kernel.page_fault_ns;
    let ns = page_faults
        + core.file_faults_pki * kernel.file_fault_ns
        + other_calls_pki * kernel.system_call_ns
        + core.light_calls_pki * kernel.light_call_ns
        + core.mapping_calls_pki * kernel.mapping_call_ns
        + core.sleeping_calls_pki * kernel.sleeping_call_ns
        + (core.transferred_bytes_pki - core.file_written_bytes_pki) * kernel.transfer_ns_per_byte
        + core.file_written_bytes_pki * kernel.file_write_ns_per_byte
        + kernel.process_ns / (run_instructions.max(1.0) * 1e-3);
    let cycles = |ns: f64| ns * 1e-3 * site.core.clock_mhz * 1e-3;
    KernelCycles {
        all: cycles(ns),
        of_memory: cycles(page_faults * kernel.page_fault_memory_share),
    }
}

/// Replays at several miss rates, the highest first: at the ends, and between them as long as a
/// straight line does not tell what is there. `sampled`: the micro-traces that stand for the phase.
pub(crate) fn points(phase: &Phase, sampled: &SampledPhase, site: &Site) -> Vec<Point> {
    let filling = &phase.filling_curve();
    let at = |bytes: f64| phase.curve.mpki(bytes.max(1.0)).value;
    let most = at(site.curve_bytes(0.0));
    let least = at(site.written_curve_bytes(site.most_bytes()));
    let l1_cycles = site.l1_latency_ns * site.core.clock_mhz * 1e-3;
    let core = CoreParameters::of(&site.core, l1_cycles, site.memory_latency_ns);
    let mut replays = Replays::new(sampled, &core);
    let predictors = predictors(phase, sampled, site);
    let mut at = |mpki: f64| {
        let view = view(phase, filling, site, mpki * 1e-3);
        mixed_point(&mut replays, &view, (mpki, site.has_measured_queue), &predictors)
    };
    let mut points = vec![at(most)];
    if most - least > LEAST_STEP_MPKI {
        points.push(at(least));
        refine(&mut points, 0, &mut at, REFINEMENTS);
    }
    // Fewer misses never take longer; in which order units are taken may say so by a little.
    for next in 1..points.len() {
        let before = points[next - 1];
        if before.stack.total() < points[next].stack.total() {
            points[next] = Point { mpki: points[next].mpki, ..before };
        }
    }
    points
}

/// Puts a point between one and the next, and goes on at both sides of it where it lies off the line.
fn refine(points: &mut Vec<Point>, first: usize, at: &mut impl FnMut(f64) -> Point, left: usize) {
    let (from, to) = (points[first], points[first + 1]);
    if left == 0 || from.mpki - to.mpki <= 2.0 * LEAST_STEP_MPKI {
        return;
    }
    let line = 0.5 * (from.stack.total() + to.stack.total());
    // Nothing between two that hardly differ is worth a replay.
    if from.stack.total() - to.stack.total() <= NEAR * line {
        return;
    }
    let middle = at(0.5 * (from.mpki + to.mpki));
    points.insert(first + 1, middle);
    if (middle.stack.total() - line).abs() > NEAR * line {
        refine(points, first + 1, at, left - 1);
        refine(points, first, at, left - 1);
    }
}

/// One of the predictors by which recordings count, and how far the core is like it.
#[derive(Debug, Clone, Copy)]
struct PredictorShare {
    marks: Marks,
    /// Of its mispredictions, the share that the core has.
    share: f64,
    /// Mispredictions an instruction in the traces, and in the whole phase.
    found: f64,
    counted: f64,
}

/// Those that the core is between, or the one that it is like.
fn predictors(phase: &Phase, sampled: &SampledPhase, site: &Site) -> Vec<PredictorShare> {
    let [small_found, large_found] = sampled.mispredicted;
    let large_share = site.core.large_predictor_share.unwrap_or(1.0);
    let large_counted = phase.core.as_ref().map(|core| core.mispredicted_large_pki * 1e-3);
    let large = PredictorShare {
        marks: Marks::MISPREDICTED_LARGE,
        share: large_share,
        found: large_found,
        counted: large_counted.unwrap_or(large_found),
    };
    let small = PredictorShare {
        marks: Marks::MISPREDICTED_SMALL,
        share: 1.0 - large_share,
        found: small_found,
        counted: phase.mix.mispredicted_pki * 1e-3,
    };
    [large, small].into_iter().filter(|one| one.share > 0.0).collect()
}

/// What a phase takes where it misses so much, on a core between these predictors.
fn mixed_point(
    replays: &mut Replays<'_>,
    view: &MemoryView,
    (mpki, waits): (f64, bool),
    predictors: &[PredictorShare],
) -> Point {
    let mut mixed = Point { mpki, stack: CpiStack::default(), memory: 0.0, waiting: 0.0 };
    for predictor in predictors {
        let one = point(replays, view, (mpki, waits), predictor);
        if predictor.share == 1.0 {
            return one;
        }
        mixed.stack.add_times(&one.stack, predictor.share);
        mixed.memory += predictor.share * one.memory;
        mixed.waiting += predictor.share * one.waiting;
    }
    mixed
}

/// What it takes by one predictor.
fn point(
    replays: &mut Replays<'_>,
    view: &MemoryView,
    (mpki, waits): (f64, bool),
    predictor: &PredictorShare,
) -> Point {
    let view = MemoryView { mispredicted: predictor.marks, ..*view };
    let stack = replays.whole(&view);
    let more_cycles = (f64::from(view.memory_cycles) * MORE_LATENCY).round() as u32;
    let slower = MemoryView { memory_cycles: view.memory_cycles + more_cycles, ..view };
    let waiting = MemoryView { memory_wait_cycles: more_cycles, ..view };
    let mut more = |view| ((replays.whole(&view).total() - stack.total()) / MORE_LATENCY).max(0.0);
    let memory = more(slower);
    let waiting = if waits { more(waiting) } else { memory };
    // Branches of the traces are a sample, those of the phase are counted better.
    let counts = (predictor.found, predictor.counted);
    let refill_cycles = replays.refill_cycles();
    let stack = mispredicting(counts, stack, refill_cycles, || {
        replays.whole(&MemoryView { mispredicted: Marks::default(), ..view })
    });
    Point { mpki, stack, memory, waiting }
}

/// Mispredicted branches an instruction that count beside those of the traces, and cost the way through the
/// front end: where the traces hold next to none, that is what is known of one.
const FEW_MISPREDICTED: f64 = 1e-4;

/// Shares of the mispredicted branches by which their number is corrected without another replay.
const FEW_MORE: f64 = 0.1;

/// What is taken with so many mispredicted branches an instruction as were counted, from a stack with those that were
/// found in the traces: what they cost, against branches that are all foreseen, goes with their number, whatever the
/// oldest instruction waited for meanwhile.
fn mispredicting(
    (found, counted): (f64, f64),
    mut stack: CpiStack,
    refill_cycles: f64,
    foreseen: impl FnOnce() -> CpiStack,
) -> CpiStack {
    if (counted - found).abs() <= FEW_MORE * found {
        let few = stack.of(Cause::Branches) * (counted - found) / found.max(f64::MIN_POSITIVE);
        stack.add(Cause::Branches, few);
        return stack;
    }
    let times = counted / (found + FEW_MISPREDICTED);
    let mut corrected = foreseen().times(1.0 - times);
    corrected.add_times(&stack, times);
    corrected.add(Cause::Branches, times * FEW_MISPREDICTED * refill_cycles);
    corrected.without_negatives()
}

fn between(points: &[Point], mpki: f64) -> Point {
    let above = points.partition_point(|point| point.mpki >= mpki);
    let (Some(low), Some(high)) = (above.checked_sub(1).map(|at| points[at]), points.get(above))
    else {
        return points[above.min(points.len() - 1)];
    };
    let part = (low.mpki - mpki) / (low.mpki - high.mpki);
    let mut stack = low.stack.times(1.0 - part);
    stack.add_times(&high.stack, part);
    let mix = |low: f64, high: f64| low + part * (high - low);
    let (memory, waiting) = (mix(low.memory, high.memory), mix(low.waiting, high.waiting));
    Point { mpki, stack, memory, waiting }
}

/// What a core at the site sees of the memory when the LLC misses so many lines an instruction.
fn view(phase: &Phase, filling: &MissRateCurve, site: &Site, llc: f64) -> MemoryView {
    let cycles = |ns: f64| (ns * site.core.clock_mhz * 1e-3).round() as u32;
    // Recordings without distances of the lines that the kernel clears take them for misses; those
    // cleared just before are in the nearest cache, whatever its size.
    let zeroed = phase.core.as_ref().map_or(0.0, |core| core.zeroed_mpki * 1e-3);
    let llc = (llc - zeroed).max(0.0);
    let at = |curve: &MissRateCurve, bytes: f64| curve.mpki(bytes.max(1.0)).value * 1e-3;
    let data = |bytes: f64| (at(&phase.curve, bytes) - zeroed).max(llc);
    let code = phase.core.as_ref().map(|core| &core.instruction_curve);
    let l1_code = code.map_or(0.0, |curve| at(curve, site.l1_code_bytes));
    let shared = code.map_or(site.l1_bytes, |code| shared_bytes(filling, code, site.l1_bytes));
    let private = if site.private_bytes > site.l1_bytes {
        data(site.private_bytes)
    } else {
        // Nothing between the first level and the LLC.
        f64::INFINITY
    };
    let tlb = &site.core.tlb;
    let walk = site.core.page_walk_cycles.unwrap_or(30.0).round();
    let reach = |level: usize, usual: f64| {
        tlb.get(level).map_or(usual, |one| f64::from(one.entries)) as f32
    };
    MemoryView {
        l1_data: data(shared) as f32,
        l1_code: l1_code as f32,
        private: private as f32,
        llc: llc as f32,
        private_cycles: cycles(site.private_latency_ns),
        llc_cycles: cycles(site.llc_latency_ns),
        memory_cycles: cycles(site.memory_latency_ns),
        memory_wait_cycles: 0,
        code_line_cycles: code_line_cycles(site),
        line_crossing_cycles: line_crossing_cycles(site),
        taken: taken_branches(phase, site),
        lines_a_window: [site.private_line_ns, site.llc_line_ns]
            .map(|ns| Link::lines_a_window(ns * site.core.clock_mhz * 1e-3)),
        tlb_pages: [reach(0, 64.0), reach(1, 1536.0)],
        tlb_cycles: [tlb.get(1).map_or(7.0, |one| one.hit_cycles).round() as u32, walk as u32],
        memory_walk: memory_walk(site, walk),
        mispredicted: Marks::MISPREDICTED_LARGE,
    }
}

/// Bytes of a page's line and of its entry in the page table: a walk takes `page_walk_cycles` where the private cache holds
/// both of each page, since so it was measured.
const BYTES_A_PAGE: f64 = 72.0;

/// What a walk for a line that comes from memory takes more than those of `walk_cycles`.
fn memory_walk(site: &Site, walk_cycles: f64) -> MemoryWalk {
    let core = &site.core;
    let cycles = core.memory_page_walk_cycles.map_or(walk_cycles, f64::round);
    let many = core.memory_page_walk_pages.map_or(0.0, f64::from);
    let few = site.private_bytes.max(site.l1_bytes) / BYTES_A_PAGE;
    let pages = if few < many { [few as f32, many as f32] } else { [0.0; 2] };
    MemoryWalk { most_cycles: (cycles - walk_cycles).max(0.0) as f32, pages }
}

/// Cycles a line of code that comes out of the private cache, and out of the LLC.
fn code_line_cycles(site: &Site) -> [u32; 2] {
    let Some(fetching) = &site.core.fetching else { return [0; 2] };
    let private = fetching.private_line_cycles.unwrap_or(0.0);
    [private, fetching.llc_line_cycles.unwrap_or(private)].map(|cycles| cycles.round() as u32)
}

/// What a short run of instructions takes more on two lines of code; nothing where that was not measured.
fn line_crossing_cycles(site: &Site) -> f32 {
    let cycles = site.core.fetching.as_ref().and_then(|fetching| fetching.line_crossing_cycles);
    cycles.unwrap_or(0.0) as f32
}

/// What taken branches cost by the miss rate of the phase's code.
fn taken_branches(phase: &Phase, site: &Site) -> TakenBranches {
    let ladder = site.core.fetching.as_ref().map(|fetching| &fetching.taken_branch_cycles[..]);
    let (Some([.., last]), Some(core)) = (ladder, &phase.core) else {
        return TakenBranches::REST_OF_CYCLE;
    };
    let step = |&(kib, cycles): &(u32, f64)| {
        let missed = core.instruction_curve.mpki(f64::from(kib) * 1024.0).value * 1e-3;
        (missed as f32, (cycles - 1.0).max(0.0) as f32)
    };
    let mut steps = [step(last); TAKEN_STEPS];
    for (place, one) in steps.iter_mut().zip(ladder.into_iter().flatten()) {
        *place = step(one);
    }
    TakenBranches(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(parts: &[(Cause, f64)]) -> CpiStack {
        let mut stack = CpiStack::default();
        parts.iter().for_each(|&(cause, cycles)| stack.add(cause, cycles));
        stack
    }

    fn about(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3 * expected, "found {found}, expected {expected}");
    }

    /// Ten mispredictions in 1000 instructions, each of which waits for memory and costs 60 cycles: 40 are
    /// memory's, since the branch was the oldest instruction then.
    #[test]
    fn twice_as_many_mispredictions_cost_twice_as_much_whatever_they_wait_for() {
        let foreseen = stack(&[(Cause::Base, 0.25), (Cause::Memory, 0.1)]);
        let found = stack(&[(Cause::Base, 0.25), (Cause::Memory, 0.5), (Cause::Branches, 0.2)]);
        let twice = mispredicting((0.01, 0.02), found, 20.0, || foreseen);
        // Those that count as few cost the refill each: 0.02 / 0.0101 * 1e-4 * 20 cycles.
        let times: f64 = 0.02 / 0.0101;
        about(twice.total(), 0.35 + times * 0.6 + times * 0.002);
        about(twice.of(Cause::Memory), 0.1 + times * 0.4);
        let none = mispredicting((0.01, 0.0), found, 20.0, || foreseen);
        about(none.total(), foreseen.total());
        about(none.of(Cause::Memory), 0.1);
        let same = mispredicting((0.01, 0.01), found, 20.0, || panic!("nothing to correct"));
        assert_eq!(same, found);
        let few = mispredicting((0.01, 0.011), found, 20.0, || panic!("not worth a replay"));
        about(few.total(), 0.95 + 0.02);
    }

    #[test]
    fn mispredictions_that_no_trace_holds_cost_the_refill() {
        let stack = stack(&[(Cause::Base, 0.25)]);
        let corrected = mispredicting((0.0, 0.005), stack, 20.0, || stack);
        about(corrected.of(Cause::Branches), 0.005 * 20.0);
        about(corrected.total(), 0.35);
    }

    /// A cause that gives way to mispredictions, hits of the LLC that they hide, is not less than nothing.
    #[test]
    fn no_cause_is_negative() {
        let foreseen = stack(&[(Cause::Base, 0.25), (Cause::Llc, 0.2)]);
        let found = stack(&[(Cause::Base, 0.25), (Cause::Llc, 0.1), (Cause::Branches, 0.3)]);
        let corrected = mispredicting((0.01, 0.04), found, 20.0, || foreseen);
        assert_eq!(corrected.of(Cause::Llc), 0.0);
        about(corrected.of(Cause::Base), 0.25);
        let times: f64 = 0.04 / 0.0101;
        about(corrected.total(), 0.45 + times * 0.2 + times * 0.002);
    }
}
