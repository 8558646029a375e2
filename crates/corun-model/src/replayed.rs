//! From a recording with micro-traces to cycles: tables of what replaying them on a core takes.

use corun_profile::{Marks, MissRateCurve, Phase};

use crate::core::{Cause, CoreParameters, CpiStack, MemoryView, Replay, SampledPhase};
use crate::interval::{finish, parts, sizes};
use crate::site::Site;
use crate::table::{Knot, PhaseTable};

/// LLC sizes at which traces are replayed at most; between them cycles are linear in the misses.
const REPLAYS: usize = 5;

/// Misses per 1000 instructions between two replays at least: nearer ones differ in nothing but
/// which accesses the rounding of ranks catches.
const LEAST_STEP_MPKI: f64 = 0.02;

/// By how much more the second replay's memory latency is.
const MORE_LATENCY: f64 = 0.5;

/// What a phase takes an instruction where it misses so much.
#[derive(Debug, Clone, Copy)]
struct Point {
    mpki: f64,
    stack: CpiStack,
    /// Cycles that grow in proportion to the memory latency.
    memory: f64,
}

/// Tabulates a phase at a site.
pub(crate) fn table(phase: &Phase, sampled: &SampledPhase, site: &Site) -> PhaseTable {
    let points = points(phase, sampled, site);
    let knots = sizes(phase, site).into_iter().map(|bytes| {
        let mpki = phase.curve.mpki(site.curve_bytes(bytes)).value;
        knot(phase, site, bytes, mpki, &points)
    });
    let (knots, stacks) = knots.unzip();
    PhaseTable::new(parts(phase, site, knots), site).with_stacks(stacks)
}

fn knot(phase: &Phase, site: &Site, bytes: f64, mpki: f64, points: &[Point]) -> (Knot, CpiStack) {
    let (mut stack, memory) = between(points, mpki);
    let cpi = stack.total();
    let mut knot = Knot {
        bytes,
        cpi,
        memory_cpi: memory.min(cpi),
        llc_hit_cpi: stack.of(Cause::Llc),
        mpki,
        ..Knot::default()
    };
    let moved = mpki * 1e-3 * site.line_bytes * (1.0 + phase.dirty_share);
    let unstalled = [Cause::Base, Cause::Dependences, Cause::FirstLevel].map(|cause| stack.of(cause));
    finish(&mut knot, site, moved, unstalled.iter().sum());
    stack.add(Cause::Memory, knot.cpi - cpi);
    (knot, stack)
}

/// Replays at several miss rates, the highest first.
fn points(phase: &Phase, sampled: &SampledPhase, site: &Site) -> Vec<Point> {
    let at = |bytes: f64| phase.curve.mpki(site.curve_bytes(bytes).max(1.0)).value;
    let (most, least) = (at(0.0), at(site.llc_bytes));
    let steps = ((most - least) / LEAST_STEP_MPKI).ceil().clamp(0.0, (REPLAYS - 1) as f64) as usize;
    let l1_cycles = site.l1_latency_ns * site.core.clock_mhz * 1e-3;
    let core = CoreParameters::of(&site.core, l1_cycles);
    let mut replay = Replay::new(&core);
    let mut points: Vec<Point> = Vec::with_capacity(steps + 1);
    for step in 0..=steps {
        let part = if steps == 0 { 0.0 } else { step as f64 / steps as f64 };
        let mpki = most + part * (least - most);
        let view = view(phase, site, mpki * 1e-3);
        let stack = whole(sampled, &mut replay, &view);
        let slower = MemoryView {
            memory_cycles: (f64::from(view.memory_cycles) * (1.0 + MORE_LATENCY)).round() as u32,
            ..view
        };
        let memory = (whole(sampled, &mut replay, &slower).total() - stack.total()) / MORE_LATENCY;
        let stack = corrected(phase, sampled, site, stack);
        points.push(Point { mpki, stack, memory: memory.max(0.0) });
    }
    points
}

/// Cycles an instruction over all traces.
fn whole(sampled: &SampledPhase, replay: &mut Replay<'_>, view: &MemoryView) -> CpiStack {
    let mut stack = CpiStack::default();
    for trace in &sampled.traces {
        let replayed = replay.run(trace, view);
        stack.add_times(&replayed.stack, trace.share / replayed.instructions.max(1.0));
    }
    stack
}

/// Branches of the traces are a sample, those of the phase are counted better: what they cost goes
/// with their number.
fn corrected(phase: &Phase, sampled: &SampledPhase, site: &Site, mut stack: CpiStack) -> CpiStack {
    let _ = site;
    let Some(core) = &phase.core else { return stack };
    let (found, counted) = (sampled.mispredicted[1], core.mispredicted_large_pki * 1e-3);
    if found > 0.0 {
        let ratio = (counted / found).clamp(0.5, 2.0);
        stack.add(Cause::Branches, stack.of(Cause::Branches) * (ratio - 1.0));
    }
    stack
}

fn between(points: &[Point], mpki: f64) -> (CpiStack, f64) {
    let above = points.partition_point(|point| point.mpki >= mpki);
    let (Some(low), Some(high)) = (above.checked_sub(1).map(|at| points[at]), points.get(above))
    else {
        let only = points[above.min(points.len() - 1)];
        return (only.stack, only.memory);
    };
    let part = (low.mpki - mpki) / (low.mpki - high.mpki);
    let mut stack = low.stack.times(1.0 - part);
    stack.add_times(&high.stack, part);
    (stack, low.memory + part * (high.memory - low.memory))
}

/// What a core at the site sees of the memory when the LLC misses so many lines an instruction.
fn view(phase: &Phase, site: &Site, llc: f64) -> MemoryView {
    let cycles = |ns: f64| (ns * site.core.clock_mhz * 1e-3).round() as u32;
    let at = |curve: &MissRateCurve, bytes: f64| curve.mpki(bytes.max(1.0)).value * 1e-3;
    let code = phase.core.as_ref().map(|core| &core.instruction_curve);
    let l1_code = code.map_or(0.0, |curve| at(curve, site.l1_code_bytes));
    let shared = code.map_or(site.l1_bytes, |code| shared_bytes(&phase.curve, code, site.l1_bytes));
    let private = if site.private_bytes > site.l1_bytes {
        at(&phase.curve, site.private_bytes).max(llc)
    } else {
        // Nothing between the first level and the LLC.
        f64::INFINITY
    };
    let tlb = &site.core.tlb;
    let reach = |level: usize, usual: f64| tlb.get(level).map_or(usual, |one| f64::from(one.entries)) as f32;
    MemoryView {
        l1_data: at(&phase.curve, shared).max(llc) as f32,
        l1_code: l1_code as f32,
        private: private as f32,
        llc: llc as f32,
        private_cycles: cycles(site.private_latency_ns),
        llc_cycles: cycles(site.llc_latency_ns),
        memory_cycles: cycles(site.memory_latency_ns),
        tlb_pages: [reach(0, 64.0), reach(1, 1536.0)],
        tlb_cycles: [
            tlb.get(1).map_or(7.0, |one| one.hit_cycles).round() as u32,
            site.core.page_walk_cycles.unwrap_or(30.0).round() as u32,
        ],
        mispredicted: Marks::MISPREDICTED_LARGE,
    }
}

/// The size of a cache of data and code in which as much data lies as in one of so many bytes of data
/// alone: code fills the rest in the same time (the law of fill time: Che, Tung and Wang, IEEE JSAC
/// 20(7), 2002).
fn shared_bytes(both: &MissRateCurve, code: &MissRateCurve, data_bytes: f64) -> f64 {
    let mut bytes = data_bytes;
    for _ in 0..4 {
        let instructions = fill_instructions(both, bytes);
        bytes = data_bytes + filled_bytes(code, instructions, data_bytes);
    }
    bytes
}

/// Steps a doubling of the integrals over size.
const STEPS: f64 = 4.0;
/// Where they begin: a line.
const LINE: f64 = 64.0;

/// Instructions in which a cache of so many bytes fills.
fn fill_instructions(curve: &MissRateCurve, bytes: f64) -> f64 {
    let (mut size, mut instructions) = (LINE, 0.0);
    while size < bytes {
        let next = (size * (1.0 / STEPS).exp2()).min(bytes);
        let mpki = curve.mpki((size * next).sqrt()).value.max(1e-6);
        instructions += (next - size) / LINE * 1e3 / mpki;
        size = next;
    }
    instructions
}

/// Bytes filled in so many instructions, at most `most`.
fn filled_bytes(curve: &MissRateCurve, instructions: f64, most: f64) -> f64 {
    let (mut size, mut passed) = (LINE, 0.0);
    while size < most {
        let next = (size * (1.0 / STEPS).exp2()).min(most);
        let mpki = curve.mpki((size * next).sqrt()).value.max(1e-6);
        let step = (next - size) / LINE * 1e3 / mpki;
        if passed + step >= instructions {
            return size + (next - size) * (instructions - passed) / step;
        }
        passed += step;
        size = next;
    }
    most
}
