//! The model in the loop: real threads on this kernel, counters computed from where they are.
//!
//! Stands in for hardware counters where there are none. Each thread runs the stored profile of
//! its program; what the threads that run at the same time do to each other is what
//! `corun-model` says. The kernel says who runs where and for how long; that is all that is real.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::Machine;
use corun_model::{LoadedProgram, Member, Model, Outcome, Running, Scratch};
use corun_policy::{CounterKind, Nanoseconds, Scope, ThreadId, ThreadState, ThreadView};
use corun_runtime::totals_of;

use super::turns;
use crate::{ManagedThread, Source, SourceError, Threads};

/// Computes counters from where threads are.
pub struct ModelledSource {
    model: Arc<Model>,
    programs: BTreeMap<String, Arc<LoadedProgram>>,
    length_instructions: f64,
    /// Instructions that each thread has done.
    done: BTreeMap<ThreadId, f64>,
    scratch: Scratch,
}

impl ModelledSource {
    /// A source for programs by their names ([`ManagedThread::profile`]); a thread of another program
    /// has no counters and disturbs nobody. Phases are stretched alike until a run has so many
    /// instructions, since recordings are short; then it starts anew.
    pub fn new(
        model: Arc<Model>,
        programs: BTreeMap<String, Arc<LoadedProgram>>,
        length_instructions: f64,
    ) -> Self {
        let (done, scratch) = (BTreeMap::new(), Scratch::default());
        Self { model, programs, length_instructions, done, scratch }
    }

    /// What each thread does while it runs, beside those that run at the same time; none for a
    /// thread that does not run or that has no profile. What of the LLC a thread holds is the mean over the turns
    /// of all, so that threads which take turns on a CPU hold no more together than there is.
    fn outcomes(&mut self, threads: &Threads) -> Vec<Option<Outcome>> {
        let machine: &Machine = self.model.machine();
        let mut by_cpu: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, (view, thread)) in threads.iter().enumerate() {
            let cpu = machine.cpu_index(thread.facts.cpu);
            if let Some(cpu) = cpu.filter(|_| runs(view, thread) && self.program(thread).is_some())
            {
                by_cpu.entry(cpu).or_default().push(index);
            }
        }
        let mut sums: Vec<(Outcome, u32)> = vec![(Outcome::default(), 0); threads.len()];
        let mut all_turns = 0u32;
        for on in turns(&by_cpu) {
            all_turns += 1;
            let programs: Vec<(Arc<LoadedProgram>, usize)> = on
                .iter()
                .map(|&(thread, _)| {
                    let (view, thread) = threads.at(thread);
                    let program = self.programs[&*thread.profile].clone();
                    let phase = self.phase(&program, view.id);
                    (program, phase)
                })
                .collect();
            let running: Vec<Running<'_>> = on
                .iter()
                .zip(&programs)
                .map(|(&(_, cpu), (program, phase))| Running {
                    member: Member { program, phase: *phase, cpu },
                    home: &[],
                    group: None,
                })
                .collect();
            let mut outcomes = Vec::new();
            self.model.solve(&running, &mut self.scratch, &mut outcomes);
            for (&(thread, _), outcome) in on.iter().zip(&outcomes) {
                let (sum, count) = &mut sums[thread];
                add(sum, outcome);
                *count += 1;
            }
        }
        let mean = |(sum, count): (Outcome, u32)| {
            let occupancy_bytes = sum.occupancy_bytes / f64::from(all_turns);
            (count > 0).then(|| Outcome { occupancy_bytes, ..scaled(&sum, 1.0 / f64::from(count)) })
        };
        sums.into_iter().map(mean).collect()
    }

    fn program(&self, thread: &ManagedThread) -> Option<&Arc<LoadedProgram>> {
        self.programs.get(&*thread.profile)
    }

    /// The phase that a thread is in after what it has done.
    fn phase(&self, program: &LoadedProgram, thread: ThreadId) -> usize {
        let done = self.done.get(&thread).copied().unwrap_or(0.0);
        let mut left = (done / self.length_instructions).fract() * program.instructions();
        for stretch in &program.sequence {
            if left < stretch.instructions {
                return stretch.phase;
            }
            left -= stretch.instructions;
        }
        program.sequence.first().map_or(0, |stretch| stretch.phase)
    }
}

impl Source for ModelledSource {
    fn name(&self) -> &'static str {
        "model"
    }

    fn counters(&self) -> Vec<CounterKind> {
        CounterKind::ALL.iter().copied().filter(|kind| !kind.is_of_scheduler()).collect()
    }

    fn count(&mut self, _now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let outcomes = self.outcomes(threads);
        for ((view, thread), outcome) in threads.iter_mut().zip(outcomes) {
            let Some(program) = self.program(thread) else { continue };
            let mix = program.phases[self.phase(program, view.id)].mix;
            let outcome = outcome.unwrap_or_default();
            let clock_hz =
                if outcome.ipc > 0.0 { outcome.instructions_per_s / outcome.ipc } else { 0.0 };
            let did = totals_of(&outcome, mix, clock_hz, thread.ran().0);
            *self.done.entry(view.id).or_default() += did.instructions;
            let counts = &mut view.counts;
            let before = *counts;
            counts.add_totals(&did, thread.elapsed(), Scope::DemandAndPrefetch);
            if mix.is_none() {
                (counts.l1_accesses, counts.branches) = (before.l1_accesses, before.branches);
            }
            counts.keep_of_scheduler(&before);
            view.llc_occupancy_bytes = Some(outcome.occupancy_bytes);
        }
        self.done.retain(|id, _| threads.index_of(*id).is_some());
        Ok(())
    }
}

/// Did a thread run since the last tick? In its first tick, is it on a CPU?
fn runs(view: &ThreadView, thread: &ManagedThread) -> bool {
    match thread.cpu_share() {
        Some(share) => share > 0.0,
        None => view.state == ThreadState::Running,
    }
}

fn add(sum: &mut Outcome, one: &Outcome) {
    sum.instructions_per_s += one.instructions_per_s;
    sum.ipc += one.ipc;
    // Rates per instruction are weighed by instructions.
    sum.llc_apki += one.llc_apki * one.instructions_per_s;
    sum.llc_mpki += one.llc_mpki * one.instructions_per_s;
    sum.bytes_per_s += one.bytes_per_s;
    sum.occupancy_bytes += one.occupancy_bytes;
    sum.memory_stall_share += one.memory_stall_share;
    // By request.
    sum.memory_retries_per_request += one.memory_retries_per_request * one.bytes_per_s;
}

fn scaled(sum: &Outcome, by: f64) -> Outcome {
    let per_instruction = |weighed: f64| {
        if sum.instructions_per_s > 0.0 { weighed / sum.instructions_per_s } else { 0.0 }
    };
    let per_byte =
        |weighed: f64| if sum.bytes_per_s > 0.0 { weighed / sum.bytes_per_s } else { 0.0 };
    Outcome {
        instructions_per_s: sum.instructions_per_s * by,
        ipc: sum.ipc * by,
        llc_apki: per_instruction(sum.llc_apki),
        llc_mpki: per_instruction(sum.llc_mpki),
        bytes_per_s: sum.bytes_per_s * by,
        memory_stall_share: sum.memory_stall_share * by,
        memory_retries_per_request: per_byte(sum.memory_retries_per_request),
        ..Outcome::default()
    }
}
