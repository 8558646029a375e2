//! The accesses of a phase's micro-traces, ranked by how much cache they need.
//!
//! The traces tell which accesses miss sooner than others; the curve tells how many miss. An access's
//! rank is the miss rate below which it hits: with misses of r an instruction, those of the traces'
//! accesses that lie deepest and together are r an instruction miss. So misses at every size are the
//! curve's, which is of the whole phase.

use std::cmp::Reverse;

use corun_profile::{CoreDetail, Marks, MicroOp, MicroTrace, MissRateCurve, Phase, Reuse};

use super::filling::{fill_instructions, filled_bytes};
use super::replays::SortedRanks;
use crate::ModelError;

pub(crate) const LINE_BYTES: f64 = 64.0;
/// The largest cache that is thought of.
const MOST_BYTES: f64 = (1u64 << 33) as f64;

/// The next number of a sequence that fills 0 to 1 evenly: multiples of the golden ratio.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Even(u64);

impl Even {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A micro-trace with the ranks of its accesses.
#[derive(Debug, Clone)]
pub(crate) struct RankedTrace {
    pub(crate) ops: MicroTrace,
    /// Share of the phase's instructions that it stands for.
    pub(crate) share: f64,
    /// Instructions: entries that are no parts of others.
    pub(crate) instructions: u32,
    /// Of each entry's data: it hits where fewer lines than this are missed an instruction.
    pub(crate) data: Vec<f32>,
    /// The same of its code line, among data and code.
    pub(crate) code: Vec<f32>,
    /// The same among code alone.
    pub(crate) code_alone: Vec<f32>,
    /// Pages touched since the last access to its data's page.
    pub(crate) pages: Vec<f32>,
}

/// The micro-traces of a phase.
#[derive(Debug, Clone)]
pub(crate) struct SampledPhase {
    pub(crate) traces: Vec<RankedTrace>,
    /// Of each trace.
    pub(crate) sorted: Vec<SortedRanks>,
    /// Mispredictions an instruction in the traces, by a small and a large predictor.
    pub(crate) mispredicted: [f64; 2],
}

/// An access: where it stands, and its distance in lines, no less than 0.
struct Access {
    trace: u32,
    entry: u32,
    code: bool,
    depth: f64,
    /// Its place among accesses of one distance, an order of no meaning.
    shuffled: u64,
}

impl Access {
    fn new(trace: usize, entry: usize, code: bool, depth: f64) -> Self {
        let place = (trace as u64) << 32 | entry as u64;
        let shuffled = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { trace: trace as u32, entry: entry as u32, code, depth, shuffled }
    }

    /// Rises from the deepest to the nearest: bits of numbers that are not negative rise with them. No two accesses
    /// have the same, since an instruction has one access to code and one to data.
    fn order(&self) -> (Reverse<u64>, u64, bool) {
        (Reverse(self.depth.to_bits()), self.shuffled, !self.code)
    }
}

impl SampledPhase {
    /// The traces that stand for a phase; none where it has none.
    pub(crate) fn new(phase: &Phase, core: &CoreDetail, all: &[MicroTrace]) -> Option<Self> {
        let mut traces: Vec<RankedTrace> = Vec::new();
        for &(at, share) in &core.micro_traces {
            let ops = all.get(at as usize)?.clone();
            let parts = ops.iter().filter(|op| op.marks.has(Marks::PART)).count();
            let instructions = (ops.len() - parts) as u32;
            if instructions == 0 {
                continue;
            }
            let ranks = vec![f32::MAX; ops.len()];
            traces.push(RankedTrace {
                share,
                instructions,
                data: ranks.clone(),
                code: ranks.clone(),
                code_alone: ranks.clone(),
                pages: vec![0.0; ops.len()],
                ops,
            });
        }
        if traces.is_empty() {
            return None;
        }
        let sum: f64 = traces.iter().map(|trace| trace.share).sum();
        traces.iter_mut().for_each(|trace| trace.share /= sum.max(f64::MIN_POSITIVE));
        let filling = phase.filling_curve();
        let sorted = rank(&mut traces, &phase.curve, &core.instruction_curve, &filling);
        let mispredicted = [Marks::MISPREDICTED_SMALL, Marks::MISPREDICTED_LARGE].map(|mark| {
            let of = |trace: &RankedTrace| {
                let count = trace.ops.iter().filter(|op| op.marks.has(mark)).count();
                trace.share * count as f64 / f64::from(trace.instructions)
            };
            traces.iter().map(of).sum()
        });
        Some(Self { traces, sorted, mispredicted })
    }

    /// Of a program that touches so many pages from its start to its end, and so no more between two accesses to one. The tracer
    /// does not know the pages from before a micro-trace's surroundings: of an access to one, [`pages`] says only how many there
    /// may have been.
    pub(crate) fn with_most_pages(mut self, most_pages: f32) -> Self {
        for pages in self.traces.iter_mut().flat_map(|trace| &mut trace.pages) {
            *pages = pages.min(most_pages);
        }
        self
    }
}

/// Ranks the accesses of all traces; the ranks of each trace. `filling`: of all lines that come into a cache.
fn rank(
    traces: &mut [RankedTrace],
    curve: &MissRateCurve,
    code_curve: &MissRateCurve,
    filling: &MissRateCurve,
) -> Vec<SortedRanks> {
    let mut accesses: Vec<Access> = Vec::new();
    let mut even = Even::default();
    for (at, trace) in traces.iter_mut().enumerate() {
        for (entry, op) in trace.ops.iter().enumerate() {
            if op.marks.has(Marks::FETCHES) {
                let at_least = op.marks.has(Marks::FETCH_AT_LEAST);
                let depth = code_depth(op.fetch_reuse, at_least, (filling, code_curve), &mut even);
                accesses.push(Access::new(at, entry, true, depth));
            }
            if op.marks.any(Marks::LOAD.with(Marks::STORE)) {
                let depth = depth(op.reuse, op.marks.has(Marks::REUSE_AT_LEAST), curve, &mut even);
                trace.pages[entry] = pages(op, depth) as f32;
                accesses.push(Access::new(at, entry, false, depth));
            }
        }
    }
    accesses.sort_unstable_by_key(Access::order);
    let weight = |trace: &RankedTrace| trace.share / f64::from(trace.instructions);
    let weights: Vec<f64> = traces.iter().map(weight).collect();
    // Ranks rise from access to access, so that those of a trace need no sorting.
    let mut sorted: Vec<SortedRanks> = traces.iter().map(SortedRanks::without_ranks).collect();
    let mut all = 0.0;
    let mut code = 0.0;
    for access in &accesses {
        let at = access.trace as usize;
        let (trace, sorted) = (&mut traces[at], &mut sorted[at]);
        let entry = access.entry as usize;
        let weight = weights[at];
        all += weight;
        let rank = (all - 0.5 * weight) as f32;
        if access.code {
            code += weight;
            let alone = (code - 0.5 * weight) as f32;
            trace.code[entry] = rank;
            trace.code_alone[entry] = alone;
            sorted.push_code(rank, alone);
        } else {
            trace.data[entry] = rank;
            sorted.push_data(rank);
        }
    }
    sorted
}

/// Lines since the last access to the same one. Where only is known that they are at least so many,
/// they are drawn from the curve beyond.
fn depth(reuse: Reuse, at_least: bool, curve: &MissRateCurve, even: &mut Even) -> f64 {
    let known = reuse.distance();
    if !at_least || known.is_infinite() {
        return known;
    }
    let beyond = curve.mpki(known * LINE_BYTES).value;
    let drawn = even.next() * beyond;
    size_with(curve, drawn).map_or(f64::INFINITY, |bytes| (bytes / LINE_BYTES).max(known))
}

/// The same of code, drawn from the curve of code alone: in the time in which so much code is passed,
/// so much of both is (the law of fill time).
fn code_depth(
    reuse: Reuse,
    at_least: bool,
    (filling, code_curve): (&MissRateCurve, &MissRateCurve),
    even: &mut Even,
) -> f64 {
    let known = reuse.distance();
    if !at_least || known.is_infinite() {
        return known;
    }
    let passed = fill_instructions(filling, known * LINE_BYTES);
    let known_code = filled_bytes(code_curve, passed, MOST_BYTES);
    let drawn = even.next() * code_curve.mpki(known_code).value;
    let Some(code_bytes) = size_with(code_curve, drawn) else { return f64::INFINITY };
    let passed = fill_instructions(code_curve, code_bytes.max(known_code));
    (filled_bytes(filling, passed, MOST_BYTES) / LINE_BYTES).max(known)
}

/// The least cache that misses at most so much; none where all sizes miss more.
fn size_with(curve: &MissRateCurve, mpki: f64) -> Option<f64> {
    let points = curve.points();
    let above = points.partition_point(|point| point.mpki > mpki);
    let high = points.get(above)?;
    let Some(low) = above.checked_sub(1).map(|at| points[at]) else {
        return Some(high.bytes as f64);
    };
    let part = (low.mpki - mpki) / (low.mpki - high.mpki);
    Some(low.bytes as f64 + part * (high.bytes - low.bytes) as f64)
}

/// Pages since the last access to the same one. Where only is known that they are at least so many,
/// they are as many lines more as the lines are than those known.
fn pages(op: &MicroOp, depth: f64) -> f64 {
    let known = op.page_reuse.distance();
    if !op.marks.has(Marks::PAGE_AT_LEAST) {
        return known;
    }
    let lines = op.reuse.distance();
    if !op.marks.has(Marks::REUSE_AT_LEAST) || lines.is_infinite() || depth.is_infinite() {
        return f64::INFINITY;
    }
    known * (depth / lines.max(1.0)).max(1.0)
}

/// The micro-traces of a recording.
pub(crate) fn unpack(
    program: &str,
    traces: &corun_profile::MicroTraces,
) -> Result<Vec<MicroTrace>, ModelError> {
    traces.unpack().map_err(|error| ModelError::MicroTraces { program: program.to_owned(), error })
}
