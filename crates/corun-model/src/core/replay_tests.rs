use corun_machine::{AccessRates, CoreType, ExecutionLatencies, Prefetching, core};
use corun_profile::{Marks, MicroOp, Operation, Reconvergence};

use super::super::parameters::CoreParameters;
use super::super::replays::SortedRanks;
use super::super::sampled::{RankedTrace, SampledPhase};
use super::super::stack::Cause;
use super::super::units::Link;
use super::{MemoryView, MemoryWalk, Replay, Replayed, TAKEN_STEPS, TakenBranches};

#[path = "wrong_path_tests.rs"]
mod wrong_path;

const MEMORY_CYCLES: u32 = 400;

/// Four wide, 128 entries, 8 misses at a time, 5 cycles from load to use.
fn wide() -> CoreParameters {
    let mut core = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
    core.dispatch_width = 4.0;
    core.reorder_buffer = 128;
    core.outstanding_misses = 8;
    core.outstanding_llc_hits = None;
    core.branch_penalty_cycles = 15.0;
    core.execution = None;
    CoreParameters::of(&core, 5.0, 100.0)
}

fn in_order() -> CoreParameters {
    CoreParameters { reorder_buffer: 0, ..wide() }
}

/// Ranks: 0 misses all caches, 1 hits the first level.
const VIEW: MemoryView = MemoryView {
    l1_data: 0.5,
    l1_code: 0.5,
    private: 0.5,
    llc: 0.5,
    private_cycles: 14,
    llc_cycles: 50,
    memory_cycles: MEMORY_CYCLES,
    memory_wait_cycles: 0,
    code_line_cycles: [0; 2],
    line_crossing_cycles: 0.0,
    taken: TakenBranches::REST_OF_CYCLE,
    lines_a_window: [u32::MAX; 2],
    tlb_pages: [64.0, 1536.0],
    tlb_cycles: [7, 30],
    memory_walk: MemoryWalk { most_cycles: 0.0, pages: [0.0; 2] },
    mispredicted: Marks::MISPREDICTED_LARGE,
};

/// An operation, and does its access miss all caches?
type Step = (MicroOp, bool);

fn compute(operation: Operation, inputs: [u16; 3]) -> Step {
    (MicroOp { operation, inputs, ..MicroOp::default() }, false)
}

fn load(address_inputs: [u16; 2], misses: bool) -> Step {
    (MicroOp { marks: Marks::LOAD, address_inputs, ..MicroOp::default() }, misses)
}

/// The steps again and again; what reaches back before the beginning depends on nothing.
fn repeated(steps: &[Step], times: usize) -> RankedTrace {
    let mut ops = Vec::new();
    let mut data = Vec::new();
    for &(mut op, misses) in std::iter::repeat_n(steps, times).flatten() {
        let within = |back: u16| if usize::from(back) > ops.len() { 0 } else { back };
        op.inputs = op.inputs.map(within);
        op.address_inputs = op.address_inputs.map(within);
        op.line_before = within(op.line_before);
        op.forwarded_from = within(op.forwarded_from);
        ops.push(op);
        data.push(if misses { 0.0 } else { 1.0 });
    }
    let ones = vec![1.0; ops.len()];
    RankedTrace {
        share: 1.0,
        instructions: ops.len() as u32,
        data,
        code: ones.clone(),
        code_alone: ones,
        pages: vec![0.0; ops.len()],
        ops,
    }
}

fn replay(core: &CoreParameters, steps: &[Step]) -> Replayed {
    Replay::new(core).run(&repeated(steps, 1024 / steps.len()), &VIEW)
}

/// Cycles of the steps, once.
fn cycles(core: &CoreParameters, steps: &[Step]) -> f64 {
    let replayed = replay(core, steps);
    replayed.cycles * steps.len() as f64 / replayed.instructions
}

fn about(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.03, "found {found}, expected {expected}");
}

#[test]
fn a_chain_takes_its_latencies() {
    let chain = |operation| cycles(&wide(), &[compute(operation, [1, 0, 0])]);
    about(chain(Operation::Integer), 1.0);
    about(chain(Operation::Multiply), 3.0);
    about(chain(Operation::FloatFused), 4.0);
    // Both at once take what the slower one does.
    let two = [compute(Operation::Integer, [2, 0, 0]), compute(Operation::Multiply, [2, 0, 0])];
    about(cycles(&wide(), &two), 3.0);
}

#[test]
fn independent_instructions_take_the_width() {
    let free = cycles(&wide(), &[compute(Operation::Integer, [0, 0, 0])]);
    about(free, 0.25);
    // One multiplier.
    about(cycles(&wide(), &[compute(Operation::Multiply, [0, 0, 0])]), 1.0);
    // A divider is not pipelined.
    about(cycles(&wide(), &[compute(Operation::Divide, [0, 0, 0])]), 6.0);
}

/// Where the machine says how many vector operations of a kind begin a cycle.
#[test]
fn vector_operations_are_limited_as_was_measured() {
    let mut kind = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
    kind.dispatch_width = 6.0;
    let independent = |kind: &CoreType, operation| {
        let core = CoreParameters::of(kind, 5.0, 100.0);
        cycles(&core, &[compute(operation, [0, 0, 0])])
    };
    kind.execution = None;
    about(independent(&kind, Operation::FloatAdd), 0.25);
    kind.execution = Some(ExecutionLatencies {
        fp_adds_per_cycle: Some(1.95),
        fp_multiplies_per_cycle: Some(1.0),
        vector_adds_per_cycle: Some(2.94),
        ..ExecutionLatencies::default()
    });
    about(independent(&kind, Operation::FloatAdd), 1.0 / 2.0);
    about(independent(&kind, Operation::FloatFused), 1.0);
    about(independent(&kind, Operation::Vector), 1.0 / 3.0);
    // Any vector unit moves elements where nothing else was measured.
    about(independent(&kind, Operation::Shuffle), 1.0 / 3.0);
    kind.execution.as_mut().unwrap().vector_shuffles_per_cycle = Some(1.98);
    about(independent(&kind, Operation::Shuffle), 1.0 / 2.0);
    // What moves elements and what does not share the units.
    let shared = [Operation::Shuffle, Operation::Vector, Operation::Vector];
    let shared = shared.map(|of| compute(of, [0, 0, 0]));
    about(cycles(&CoreParameters::of(&kind, 5.0, 100.0), &shared), 1.0);
    // An addition and a multiplication go to units of their own.
    let both = [Operation::FloatAdd, Operation::FloatMultiply].map(|of| compute(of, [0, 0, 0]));
    about(cycles(&CoreParameters::of(&kind, 5.0, 100.0), &both), 1.0);
}

/// Independent hits in the private cache, and misses: a line in 8 cycles from there, one in 60 from
/// behind the LLC, where 8 misses in 400 cycles would be one in 50.
#[test]
fn lines_come_no_faster_than_one_core_reads() {
    let view = MemoryView { lines_a_window: [8.0, 60.0].map(Link::lines_a_window), ..VIEW };
    let run = |misses: bool, view: &MemoryView| {
        let mut trace = repeated(&[load([0, 0], misses)], 8192);
        // Rank 0 misses all caches, and 0.4 the first level alone.
        trace.data.iter_mut().for_each(|rank| *rank = if misses { 0.0 } else { 0.4 });
        let replayed = Replay::new(&wide()).run(&trace, view);
        replayed.cycles / replayed.instructions
    };
    let hits = MemoryView { private: 0.3, llc: 0.3, ..view };
    about(run(false, &hits), 8.0);
    about(run(false, &MemoryView { lines_a_window: [u32::MAX; 2], ..hits }), 0.5);
    let found = run(true, &view);
    assert!((found / 60.0 - 1.0).abs() < 0.1, "{found}");
    about(run(true, &VIEW), 50.0);
}

/// A line of code of 16 instructions, the last of which is a branch to the next line; all lines have that rank.
fn line_of_code(rank: f32, view: &MemoryView) -> f64 {
    let mut line = vec![compute(Operation::Integer, [0, 0, 0]); 16];
    line[0].0.marks = Marks::FETCHES;
    line[15].0.marks = Marks::TAKEN;
    let mut trace = repeated(&line, 128);
    trace.code.fill(rank);
    trace.code_alone.fill(rank);
    let replayed = Replay::new(&wide()).run(&trace, view);
    replayed.cycles * 16.0 / replayed.instructions
}

/// Runs of six instructions up to a taken branch take two cycles of a front end of four, and one of one of six.
#[test]
fn fetching_may_be_wider_than_dispatch() {
    let mut run = vec![compute(Operation::None, [0; 3]); 6];
    run[5].0.marks = Marks::BRANCH.with(Marks::TAKEN);
    about(cycles(&wide(), &run), 2.0);
    let core = CoreParameters { fetch_width: 6, ..wide() };
    about(cycles(&core, &run), 1.5);
}

/// A comparison and its branch take one of four places a cycle and one of four integer units, or two in a core that
/// does not fuse them.
#[test]
fn a_branch_fuses_where_the_core_does() {
    let mut branch = compute(Operation::Integer, [1, 0, 0]);
    branch.0.marks = Marks::BRANCH.with(Marks::FUSED);
    let pair = [compute(Operation::Integer, [0; 3]), branch];
    about(cycles(&wide(), &pair), 0.25);
    about(cycles(&CoreParameters { fuses: false, ..wide() }, &pair), 0.5);
}

/// Four wide, a line takes 4 cycles. A core that has forgotten where a branch leads takes 1.5 more: here in code
/// of which a cache of 8 KiB misses 0.7 lines an instruction or more.
#[test]
fn taken_branches_cost_more_in_much_code() {
    let mut steps = [(0.6, 1.5); TAKEN_STEPS];
    steps[0] = (0.7, 0.0);
    let view = MemoryView { taken: TakenBranches(steps), ..VIEW };
    about(line_of_code(1.0, &view), 4.0);
    about(line_of_code(0.65, &view), 5.5);
    // Beyond the last size, too.
    about(line_of_code(0.55, &view), 5.5);
    about(line_of_code(0.55, &VIEW), 4.0);
}

/// Three instructions up to a taken branch take a cycle, and two where the last stands on the next line. Five on a
/// core of four take two wherever they stand.
#[test]
fn short_runs_wait_for_their_second_line() {
    let view = MemoryView { line_crossing_cycles: 1.0, ..VIEW };
    let a_run = |instructions: usize, crosses: bool, view: &MemoryView| {
        let mut run = vec![compute(Operation::None, [0; 3]); instructions];
        run[0].0.marks = Marks::FETCHES;
        let last = &mut run[instructions - 1].0.marks;
        *last = Marks::BRANCH.with(Marks::TAKEN);
        if crosses {
            last.set(Marks::FETCHES);
        }
        let mut trace = repeated(&run, 200);
        trace.code.fill(1.0);
        trace.code_alone.fill(1.0);
        let core = wide();
        let replayed = Replay::new(&core).run(&trace, view);
        replayed.cycles * instructions as f64 / replayed.instructions
    };
    about(a_run(3, false, &view), 1.0);
    about(a_run(3, true, &view), 2.0);
    about(a_run(3, true, &VIEW), 1.0);
    about(a_run(5, false, &view), 2.0);
    about(a_run(5, true, &view), 2.0);
}

/// The predictor asks for lines far ahead, so that what counts is how many come.
#[test]
fn code_comes_no_faster_than_its_lines() {
    let view = MemoryView { private: 0.3, llc: 0.1, code_line_cycles: [6, 20], ..VIEW };
    about(line_of_code(1.0, &view), 4.0);
    about(line_of_code(0.4, &view), 6.0);
    about(line_of_code(0.2, &view), 20.0);
    about(line_of_code(0.4, &MemoryView { code_line_cycles: [0; 2], ..view }), 4.0);
}

#[test]
fn a_chase_is_one_at_a_time() {
    about(cycles(&wide(), &[load([1, 0], true)]), f64::from(MEMORY_CYCLES));
    about(cycles(&wide(), &[load([1, 0], false)]), 5.0);
}

/// `add 8(%rbx),%rax; mov (%rbx),%rbx`: the first load misses the line that the second one waits for.
/// Of times that are exponentially distributed the later of two is 1.5 means: two loads that both wait for the two
/// before take that, where they take the mean alone.
#[test]
fn loads_that_wait_each_for_itself_wait_for_the_last_of_them() {
    let takes = |steps: &[Step], memory_cycles, memory_wait_cycles| {
        let view = MemoryView { memory_cycles, memory_wait_cycles, ..VIEW };
        let replayed = Replay::new(&wide()).run(&repeated(steps, 2048 / steps.len()), &view);
        replayed.cycles * steps.len() as f64 / replayed.instructions
    };
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.06, "found {found}, expected {expected}");
    };
    let chase = [load([1, 0], true)];
    near(takes(&chase, 400, 400), 800.0);
    let pair = [load([2, 1], true), load([3, 2], true)];
    about(takes(&pair, 800, 0), 800.0);
    near(takes(&pair, 400, 400), 1000.0);
    // Nobody waits for a cache.
    let view = MemoryView { memory_wait_cycles: 400, ..VIEW };
    let hits = repeated(&[load([1, 0], false)], 512);
    assert_eq!(Replay::new(&wide()).run(&hits, &view), Replay::new(&wide()).run(&hits, &VIEW));
}

/// 16 stores, each to a line from memory, and 800 additions one after the other: with room for all of them nothing waits.
#[test]
fn stores_wait_for_their_lines_in_a_buffer() {
    let store = (MicroOp { marks: Marks::STORE, ..MicroOp::default() }, true);
    let mut steps = vec![store; 16];
    steps.resize(816, compute(Operation::Integer, [1, 0, 0]));
    let takes = |stores| {
        let core = CoreParameters { stores, outstanding: [64; 2], ..wide() };
        let replayed = Replay::new(&core).run(&repeated(&steps, 6), &VIEW);
        replayed.cycles * 816.0 / replayed.instructions
    };
    assert!(takes(16) < 1.1 * takes(4096), "{} {}", takes(16), takes(4096));
    assert!(takes(4) > 1.3 * takes(4096), "{} {}", takes(4), takes(4096));
}

#[test]
fn a_chase_over_memory_whose_pages_no_tlb_holds_takes_what_walks_take_there() {
    let chase = [load([1, 0], true)];
    let memory_walk = MemoryWalk { most_cycles: 200.0, pages: [0.0; 2] };
    let view = MemoryView { memory_walk, ..VIEW };
    let far = |foreseen: bool| {
        let mut trace = repeated(&chase, 1024);
        trace.pages.fill(view.tlb_pages[1]);
        for op in &mut trace.ops {
            op.marks = if foreseen { op.marks.with(Marks::FORESEEN) } else { op.marks };
        }
        let replayed = |view: &MemoryView| {
            let replayed = Replay::new(&wide()).run(&trace, view);
            replayed.cycles / replayed.instructions
        };
        (replayed(&view), replayed(&VIEW))
    };
    let (with, without) = far(false);
    about(without, f64::from(MEMORY_CYCLES + VIEW.tlb_cycles[1]));
    about(with - without, 200.0);
    // The pages of a stream follow each other.
    let (with, without) = far(true);
    about(with, without);
    // A page that the TLB holds is not walked to.
    let near = Replay::new(&wide()).run(&repeated(&chase, 1024), &view);
    about(near.cycles / near.instructions, f64::from(MEMORY_CYCLES));
}

#[test]
fn a_pointer_read_behind_a_field_is_a_chase_too() {
    let field = load([1, 0], true);
    let mut pointer = load([2, 0], false);
    pointer.0.line_before = 1;
    let steps = [field, pointer];
    about(cycles(&wide(), &steps), f64::from(MEMORY_CYCLES));
    let replayed = replay(&wide(), &steps);
    assert!(replayed.stack.of(Cause::Memory) > 0.95 * replayed.cycles, "{replayed:?}");
}

#[test]
fn independent_misses_are_limited_by_those_outstanding() {
    about(cycles(&wide(), &[load([0, 0], true)]), f64::from(MEMORY_CYCLES) / 8.0);
}

/// With 63 others behind each miss two of them are in the reorder buffer at a time.
#[test]
fn misses_far_apart_are_limited_by_the_reorder_buffer() {
    let mut steps = vec![load([0, 0], true)];
    steps.resize(64, compute(Operation::Integer, [0, 0, 0]));
    let found = cycles(&wide(), &steps);
    let expected = (f64::from(MEMORY_CYCLES) + 64.0 / 4.0) / 2.0;
    assert!((found / expected - 1.0).abs() < 0.1, "found {found}, expected {expected}");
}

#[test]
fn in_order_a_use_holds_up_what_follows() {
    // A miss and its use: in order one pair at a time, out of order eight.
    let steps = [load([0, 0], true), compute(Operation::Integer, [1, 0, 0])];
    let (behind, ahead) = (cycles(&in_order(), &steps), cycles(&wide(), &steps));
    about(behind, f64::from(MEMORY_CYCLES) + 1.0);
    about(ahead, f64::from(MEMORY_CYCLES) / 8.0);
    // Misses that nobody waits for overlap in order, too.
    about(cycles(&in_order(), &[load([0, 0], true)]), f64::from(MEMORY_CYCLES) / 8.0);
}

/// Every 32nd instruction is a branch that a chain decides and that is mispredicted.
#[test]
fn a_misprediction_costs_its_resolution_and_the_refill() {
    let mut steps = vec![compute(Operation::Integer, [0, 0, 0]); 31];
    let mut branch = compute(Operation::Integer, [0, 0, 0]);
    branch.0.marks = Marks::BRANCH.with(Marks::MISPREDICTED_LARGE);
    steps.push(branch);
    let core = wide();
    let found = cycles(&core, &steps);
    // Eight cycles to dispatch 32, one to execute, the refill, and one between dispatch and execution.
    assert!((found - (8.0 + 2.0 + 15.0)).abs() <= 1.5, "{found}");
    let replayed = replay(&core, &steps);
    let lost = replayed.stack.of(Cause::Branches) / (replayed.instructions / 32.0);
    assert!((lost - 15.0).abs() <= 1.5, "{lost}");
    // The smaller predictor's mark means nothing to a core with the larger one.
    let mut other = steps.clone();
    other[31].0.marks = Marks::BRANCH.with(Marks::MISPREDICTED_SMALL);
    about(cycles(&core, &other), 8.0);
    // A branch that waits for a missing load: the miss is all that is to be seen of it.
    let mut waits = steps.clone();
    waits[30] = load([0, 0], true);
    waits[31].0.inputs = [1, 0, 0];
    let found = cycles(&CoreParameters { meets_again: 0.0, ..core }, &waits);
    assert!((found - (400.0 + 8.0 + 15.0 + 2.0)).abs() < 5.0, "{found}");
}

#[test]
fn a_load_behind_a_store_to_its_address_waits_for_its_data() {
    // x = *p + 1; *p = x: the store gets the sum, the load what was stored.
    let mut again = load([0, 0], false);
    again.0.forwarded_from = 1;
    let sum = compute(Operation::Integer, [1, 0, 0]);
    let mut store = compute(Operation::None, [1, 0, 0]);
    store.0.marks = Marks::STORE;
    let core = wide();
    about(cycles(&core, &[again, sum, store]), f64::from(core.forward) + 1.0);
}

#[test]
fn vector_registers_have_latencies_of_their_own() {
    let core = CoreParameters {
        forward: 0,
        stack_forward: 0,
        vector_forward: Some(9),
        vector_load: 7,
        ..wide()
    };
    // A sum kept in memory: 9 cycles from the stored to the loaded value, 3 for the addition. Of a general
    // register the value is known at once, and the addition takes 1.
    let chain = |operation, kind: Marks| {
        let mut again = load([0, 0], false);
        again.0.marks = again.0.marks.with(kind);
        again.0.forwarded_from = 1;
        let sum = compute(operation, [1, 0, 0]);
        let mut store = compute(Operation::None, [1, 0, 0]);
        store.0.marks = Marks::STORE.with(kind);
        cycles(&core, &[again, sum, store])
    };
    about(chain(Operation::FloatAdd, Marks::VECTOR.with(Marks::STACK)), 9.0 + 3.0);
    about(chain(Operation::Integer, Marks::STACK), 1.0);
    // An address made of what was loaded: 7 cycles for the load, 3 for the way out of the vector register;
    // 5 cycles of a load of a general register.
    let mut loaded = load([1, 0], false);
    loaded.0.marks = loaded.0.marks.with(Marks::VECTOR);
    about(cycles(&core, &[loaded, compute(Operation::Transfer, [1, 0, 0])]), 7.0 + 3.0);
    about(cycles(&core, &[load([1, 0], false)]), 5.0);
}

#[test]
fn the_stack_sums_to_all_cycles() {
    let steps = [load([1, 0], true), compute(Operation::Multiply, [1, 2, 0])];
    let replayed = replay(&wide(), &steps);
    about(replayed.stack.total(), replayed.cycles);
}

/// A stream that began long before the trace has been asked for long before it, also where the trace
/// is shorter than the latency of memory.
#[test]
fn a_stream_from_before_the_trace_costs_nothing() {
    let mut steps = vec![compute(Operation::Integer, [0, 0, 0]); 400];
    let (op, _) = load([0, 0], true);
    steps[300] = (MicroOp { marks: Marks::LOAD.with(Marks::FORESEEN), ..op }, true);
    let replayed = Replay::new(&wide()).run(&repeated(&steps, 1), &VIEW);
    // Commits wait 4 cycles longer for a hit in the first level than for an addition.
    assert_eq!(replayed.cycles, 0.25 * replayed.instructions + 4.0);
    // A core without prefetchers waits for it.
    let waiting = CoreParameters { prefetch_lines: 0, ..wide() };
    let replayed = Replay::new(&waiting).run(&repeated(&steps, 1), &VIEW);
    assert!(replayed.cycles > f64::from(MEMORY_CYCLES), "{}", replayed.cycles);
    // The same line without a stream is waited for by all.
    steps[300] = (op, true);
    let replayed = Replay::new(&wide()).run(&repeated(&steps, 1), &VIEW);
    assert!(replayed.cycles > f64::from(MEMORY_CYCLES), "{}", replayed.cycles);
}

/// 40 GB/s at 100 ns are 4000 bytes in flight: 63 lines.
#[test]
fn streams_run_ahead_as_fast_as_one_core_reads() {
    let mut core = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
    core.memory_rates =
        Some(AccessRates { read_mb_per_s: Some(40_000.0), ..AccessRates::default() });
    assert_eq!(CoreParameters::of(&core, 5.0, 100.0).prefetch_lines, 63);
    core.memory_rates = None;
    core.outstanding_misses = 8;
    assert_eq!(CoreParameters::of(&core, 5.0, 100.0).prefetch_lines, 16);
    // A walk in order that hides next to nothing: prefetchers are off.
    let hides =
        |share| Prefetching { hidden_by_stride: vec![(1, share)], ..Prefetching::default() };
    core.prefetching = Some(hides(0.02));
    assert_eq!(CoreParameters::of(&core, 5.0, 100.0).prefetch_lines, 0);
    core.prefetching = Some(hides(0.5));
    assert_eq!(CoreParameters::of(&core, 5.0, 100.0).prefetch_lines, 16);
}

/// The entries of 512 pages lie in the private cache, those of 524,288 in memory: of 16,384, 5 of 10 doublings more.
#[test]
fn a_walk_over_more_pages_takes_longer() {
    let walk = MemoryWalk { most_cycles: 300.0, pages: [512.0, 524_288.0] };
    for (pages, more) in [(100.0, 0), (512.0, 0), (16_384.0, 150), (524_288.0, 300), (1e9, 300)] {
        assert!(walk.more_cycles(pages).abs_diff(more) <= 1, "{pages} {}", walk.more_cycles(pages));
    }
    let everywhere = MemoryWalk { most_cycles: 300.0, pages: [0.0; 2] };
    assert_eq!(everywhere.more_cycles(0.0), 300);
}

/// What lies before a micro-trace's surroundings is not known, but how many pages there are: whether a level of the TLB holds
/// one, and how far a walk goes, is told by no more of them.
#[test]
fn a_page_lies_no_deeper_than_there_are_pages() {
    let (op, _) = load([1, 0], true);
    let mut trace = repeated(&[(op, true)], 1024);
    trace.pages.fill(f32::INFINITY);
    let memory_walk = MemoryWalk { most_cycles: 300.0, pages: [2048.0, 524_288.0] };
    let of = |most_pages: f32| {
        let sorted = vec![SortedRanks::without_ranks(&trace)];
        let sampled = SampledPhase { traces: vec![trace.clone()], sorted, mispredicted: [0.0; 2] };
        let sampled = sampled.with_most_pages(most_pages);
        let view =
            MemoryView { memory_walk, tlb_pages: [64.0, 2048.0], tlb_cycles: [7, 30], ..VIEW };
        let replayed = Replay::new(&wide()).run(&sampled.traces[0], &view);
        replayed.cycles / replayed.instructions
    };
    let all = of(f32::INFINITY);
    // 4 of 8 doublings; a walk over no more pages than the others; a hit in the second level; one in the first.
    about(all - of(32_768.0), 150.0);
    about(all - of(2048.0), 300.0);
    about(all - of(2047.0), 300.0 + 23.0);
    about(all - of(63.0), 300.0 + 30.0);
}

/// The walk for a far page is waited for unless a prefetcher has asked for the line.
#[test]
fn a_stream_without_prefetchers_waits_for_walks() {
    let (mut op, _) = load([1, 0], true);
    op.marks.set(Marks::FORESEEN);
    let mut trace = repeated(&[(op, true)], 1024);
    trace.pages.fill(5000.0);
    let memory_walk = MemoryWalk { most_cycles: 100.0, pages: [0.0; 2] };
    let view = MemoryView { memory_walk, ..VIEW };
    let core = CoreParameters { prefetch_lines: 0, ..wide() };
    let of = |view: &MemoryView| {
        let replayed = Replay::new(&core).run(&trace, view);
        replayed.cycles / replayed.instructions
    };
    about(of(&view), of(&VIEW) + 100.0);
}

/// The stream's line before was there when the trace began, so that nobody knows since when it runs.
#[test]
fn a_stream_whose_first_line_was_there_has_begun_before() {
    let stream = |first_misses: bool| {
        let mut steps = vec![compute(Operation::Integer, [0, 0, 0]); 400];
        steps.push(load([0, 0], first_misses));
        for line in 1..20u16 {
            let mut next = load([0, 0], true);
            next.0.marks = Marks::LOAD.with(Marks::FORESEEN);
            next.0.stream_before = if line == 1 { 1 } else { 8 };
            steps.push(next);
            steps.resize(steps.len() + 7, compute(Operation::Integer, [1, 0, 0]));
        }
        let core = CoreParameters { prefetch_lines: 200, ..wide() };
        Replay::new(&core).run(&repeated(&steps, 1), &VIEW).stack.of(Cause::Memory)
    };
    assert!(stream(false) < 1.0, "{}", stream(false));
    assert!(stream(true) > 0.5 * f64::from(MEMORY_CYCLES), "{}", stream(true));
}
