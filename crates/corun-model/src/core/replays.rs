//! Replays of a phase's traces, each made once.
//!
//! What a replay takes goes by which level each access hits, and by what each level takes. Most traces have few
//! accesses that a larger cache would catch, so that one replay stands for many sizes of the LLC.

use corun_profile::Marks;

use super::parameters::CoreParameters;
use super::replay::{MemoryView, Replay, Replayed};
use super::sampled::{RankedTrace, SampledPhase};
use super::stack::CpiStack;

/// The ranks of a trace's accesses in rising order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SortedRanks {
    data: Vec<f32>,
    code: Vec<f32>,
    code_alone: Vec<f32>,
    mispredicted: Marks,
}

impl SortedRanks {
    /// Of a trace whose accesses have no ranks yet.
    pub(crate) fn without_ranks(trace: &RankedTrace) -> Self {
        let mut mispredicted = Marks::default();
        trace.ops.iter().for_each(|op| mispredicted.set(op.marks));
        Self { data: Vec::new(), code: Vec::new(), code_alone: Vec::new(), mispredicted }
    }

    /// Adds an access to data, whose rank is no less than those before.
    pub(crate) fn push_data(&mut self, rank: f32) {
        self.data.push(rank);
    }

    /// The same of an access to code, with its rank among code alone.
    pub(crate) fn push_code(&mut self, rank: f32, alone: f32) {
        self.code.push(rank);
        self.code_alone.push(alone);
    }

    /// What of a view a replay of the trace depends on.
    fn seen(&self, view: &MemoryView) -> Seen {
        let within = |ranks: &[f32], most: f32| ranks.partition_point(|rank| *rank <= most);
        let beyond = [within(&self.data, view.llc), within(&self.code, view.llc)];
        let to_memory = beyond != [0; 2];
        Seen {
            data: [within(&self.data, view.l1_data), within(&self.data, view.private)],
            code: [within(&self.code_alone, view.l1_code), within(&self.code, view.private)],
            beyond,
            memory: if to_memory { [view.memory_cycles, view.memory_wait_cycles] } else { [0; 2] },
            mispredicted: self.mispredicted.among(view.mispredicted),
        }
    }
}

/// Accesses that miss each level, what memory takes where any comes from there, and by which predictors branches of the
/// trace are mispredicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    data: [usize; 2],
    code: [usize; 2],
    beyond: [usize; 2],
    memory: [u32; 2],
    mispredicted: Marks,
}

/// The traces of a phase on a core. Views may differ in miss rates, in what memory takes and in which branches are
/// mispredicted, and in nothing else.
#[derive(Debug)]
pub(crate) struct Replays<'a> {
    sampled: &'a SampledPhase,
    replay: Replay<'a>,
    /// By trace.
    made: Vec<Vec<(Seen, Replayed)>>,
}

impl<'a> Replays<'a> {
    pub(crate) fn new(sampled: &'a SampledPhase, core: &'a CoreParameters) -> Self {
        let made = vec![Vec::new(); sampled.traces.len()];
        Self { sampled, replay: Replay::new(core), made }
    }

    /// Cycles an instruction over all traces.
    pub(crate) fn whole(&mut self, view: &MemoryView) -> CpiStack {
        let mut stack = CpiStack::default();
        let ranked = self.sampled.traces.iter().zip(&self.sampled.sorted);
        for ((trace, ranks), made) in ranked.zip(&mut self.made) {
            let seen = ranks.seen(view);
            let known = made.iter().find(|one| one.0 == seen).map(|one| one.1);
            let replayed = known.unwrap_or_else(|| {
                let replayed = self.replay.run(trace, view);
                made.push((seen, replayed));
                replayed
            });
            stack.add_times(&replayed.stack, trace.share / replayed.instructions.max(1.0));
        }
        stack
    }

    /// From a mispredicted branch's result to the next instruction's dispatch.
    pub(crate) fn refill_cycles(&self) -> f64 {
        self.replay.refill_cycles()
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::core;
    use corun_profile::{Library, MicroOp, ProfileData};
    use proptest::prelude::*;

    use super::super::units::Link;
    use super::super::{MemoryWalk, TAKEN_STEPS, TakenBranches};
    use super::*;

    /// An instruction by its marks, how far back its input is, and the ranks of its data, its code, and its code alone.
    type Drawn = (u16, u16, f32, f32, f32);

    fn trace(drawn: &[Drawn]) -> RankedTrace {
        let accesses = Marks::LOAD.with(Marks::STORE);
        let op = |(at, &(marks, back, ..)): (usize, &Drawn)| MicroOp {
            marks: Marks(marks),
            inputs: [if usize::from(back) > at { 0 } else { back }; 3],
            ..MicroOp::default()
        };
        let ops: Vec<MicroOp> = drawn.iter().enumerate().map(op).collect();
        let ranks = |wanted: Marks, of: fn(&Drawn) -> f32| {
            let rank = |one: &Drawn| if Marks(one.0).any(wanted) { of(one) } else { f32::MAX };
            drawn.iter().map(rank).collect::<Vec<_>>()
        };
        RankedTrace {
            share: 1.0,
            instructions: ops.len() as u32,
            data: ranks(accesses, |one| one.2),
            code: ranks(Marks::FETCHES, |one| one.3),
            code_alone: ranks(Marks::FETCHES, |one| one.4),
            pages: vec![2000.0; ops.len()],
            ops,
        }
    }

    /// The ranks of a trace, sorted.
    fn sorted(trace: &RankedTrace) -> SortedRanks {
        let of = |ranks: &[f32]| {
            let mut ranks: Vec<f32> =
                ranks.iter().copied().filter(|rank| *rank < f32::MAX).collect();
            ranks.sort_unstable_by(f32::total_cmp);
            ranks
        };
        SortedRanks {
            data: of(&trace.data),
            code: of(&trace.code),
            code_alone: of(&trace.code_alone),
            ..SortedRanks::without_ranks(trace)
        }
    }

    /// By none of the predictors, the large one, or the small one.
    const PREDICTORS: [Marks; 3] = [Marks(0), Marks::MISPREDICTED_LARGE, Marks::MISPREDICTED_SMALL];

    fn view((private, llc, memory_cycles, predictor): (f32, f32, u32, usize)) -> MemoryView {
        MemoryView {
            l1_data: private.max(llc) + 0.1,
            l1_code: private,
            private: private.max(llc),
            llc,
            private_cycles: 14,
            llc_cycles: 50,
            memory_cycles,
            memory_wait_cycles: 0,
            lines_a_window: [Link::lines_a_window(2.0); 2],
            code_line_cycles: [5, 20],
            taken: TakenBranches([(0.2, 1.0); TAKEN_STEPS]),
            line_crossing_cycles: 0.3,
            tlb_pages: [64.0, 1536.0],
            tlb_cycles: [7, 30],
            memory_walk: MemoryWalk { most_cycles: 100.0, pages: [0.0; 2] },
            mispredicted: PREDICTORS[predictor],
        }
    }

    fn rank() -> impl Strategy<Value = f32> {
        (0u8..20).prop_map(|tenths| f32::from(tenths) * 0.05)
    }

    proptest! {
        #[test]
        fn what_is_known_is_what_a_replay_would_take(
            traces in prop::collection::vec(
                prop::collection::vec((0u16..4096, 0u16..5, rank(), rank(), rank()), 8..80),
                1..4,
            ),
            views in prop::collection::vec((rank(), rank(), 200u32..202, 0usize..3), 1..12),
        ) {
            let traces: Vec<RankedTrace> = traces.iter().map(|drawn| trace(drawn)).collect();
            let sorted = traces.iter().map(sorted).collect();
            let sampled = SampledPhase { traces, sorted, mispredicted: [0.0; 2] };
            let core = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
            let core = CoreParameters::of(&core, 4.0, 90.0);
            let mut replays = Replays::new(&sampled, &core);
            for view in views.into_iter().map(view) {
                let mut stack = CpiStack::default();
                for trace in &sampled.traces {
                    let replayed = Replay::new(&core).run(trace, &view);
                    stack.add_times(&replayed.stack, trace.share / replayed.instructions.max(1.0));
                }
                prop_assert_eq!(replays.whole(&view), stack);
            }
        }
    }

    #[test]
    fn ranks_are_given_out_in_rising_order() {
        let library = Library::shipped().unwrap();
        for name in ["gawk", "sqlite3"] {
            let ProfileData::Recording(recording) = &library.get(name).unwrap().data else {
                panic!("{name} is a table")
            };
            let all = recording.micro_traces.unpack().unwrap();
            for phase in &recording.phases {
                let sampled = SampledPhase::new(phase, phase.core.as_ref().unwrap(), &all).unwrap();
                let expected: Vec<SortedRanks> = sampled.traces.iter().map(sorted).collect();
                assert_eq!(sampled.sorted, expected, "{name}");
                assert!(sampled.sorted.iter().any(|ranks| ranks.data.len() > 100), "{name}");
            }
        }
    }

    #[test]
    fn a_trace_that_never_leaves_the_first_level_is_replayed_once() {
        let drawn = [(Marks::LOAD.0, 1, 0.9, 1.0, 1.0); 64];
        let traces = vec![trace(&drawn)];
        let sorted = traces.iter().map(sorted).collect();
        let sampled = SampledPhase { traces, sorted, mispredicted: [0.0; 2] };
        let core = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
        let core = CoreParameters::of(&core, 4.0, 90.0);
        let mut replays = Replays::new(&sampled, &core);
        for llc in [0.1, 0.2, 0.3] {
            replays.whole(&view((0.3, llc, 200, 1)));
            replays.whole(&view((0.3, llc, 300, 0)));
        }
        assert_eq!(replays.made[0].len(), 1);
        replays.whole(&view((0.85, 0.1, 200, 1)));
        assert_eq!(replays.made[0].len(), 2, "its loads miss the first level");
    }
}
