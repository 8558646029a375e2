//! The model in the loop: real threads on this kernel, counters computed from where they are.
//!
//! Stands in for hardware counters where there are none. Each thread runs the stored profile of
//! its program; what the threads that run at the same time do to each other is what
//! `corun-model` says. The kernel says who runs where and for how long; that is all that is real.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::Machine;
use corun_model::{LoadedProgram, Member, Model, Outcome, PhaseMix, Running, Scratch};
use corun_policy::{
    CounterKind, Nanoseconds, REQUEST_BYTES, Rates, Scope, ScopedRate, ThreadId, ThreadState,
};

use crate::{Observed, Reading, Source, SourceError};

/// Most combinations of threads that are solved where several share a CPU.
const MOST_COMBINATIONS: usize = 16;

/// Computes counters from where threads are.
pub struct Modelled {
    model: Arc<Model>,
    programs: BTreeMap<String, Arc<LoadedProgram>>,
    length_instructions: f64,
    /// Instructions that each thread has done.
    done: BTreeMap<ThreadId, f64>,
    read_at: Option<Nanoseconds>,
    scratch: Scratch,
}

impl Modelled {
    /// A source for programs by their names ([`Observed::program`]); a thread of another program
    /// has no counters and disturbs nobody. Phases are stretched alike until a run has so many
    /// instructions, since recordings are short; then it starts anew.
    pub fn new(
        model: Arc<Model>,
        programs: BTreeMap<String, Arc<LoadedProgram>>,
        length_instructions: f64,
    ) -> Self {
        let (done, scratch) = (BTreeMap::new(), Scratch::default());
        Self { model, programs, length_instructions, done, read_at: None, scratch }
    }

    /// What each thread does while it runs, beside those that run at the same time; none for a
    /// thread that does not run or that has no profile.
    fn outcomes(&mut self, threads: &[Observed]) -> Vec<Option<Outcome>> {
        let machine: &Machine = self.model.machine();
        let mut by_cpu: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, thread) in threads.iter().enumerate() {
            let cpu = machine.cpu_index(thread.cpu);
            if let Some(cpu) = cpu.filter(|_| runs(thread) && self.program(thread).is_some()) {
                by_cpu.entry(cpu).or_default().push(index);
            }
        }
        let most = by_cpu.values().map(Vec::len).max().unwrap_or(0).min(MOST_COMBINATIONS);
        let mut sums: Vec<(Outcome, u32)> = vec![(Outcome::default(), 0); threads.len()];
        for turn in 0..most {
            let on: Vec<(usize, usize)> =
                by_cpu.iter().map(|(&cpu, here)| (here[turn % here.len()], cpu)).collect();
            let programs: Vec<(Arc<LoadedProgram>, usize)> = on
                .iter()
                .map(|&(thread, _)| {
                    let program = self.programs[&*threads[thread].program].clone();
                    let phase = self.phase(&program, threads[thread].id);
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
            (count > 0).then(|| scaled(&sum, 1.0 / f64::from(count)))
        };
        sums.into_iter().map(mean).collect()
    }

    fn program(&self, thread: &Observed) -> Option<&Arc<LoadedProgram>> {
        self.programs.get(&*thread.program)
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

impl Source for Modelled {
    fn name(&self) -> &'static str {
        "model"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcReferences,
            CounterKind::LlcMisses,
            CounterKind::L1Accesses,
            CounterKind::Branches,
            CounterKind::MemoryBytes,
            CounterKind::MemoryStalls,
            CounterKind::MemoryRetries,
            CounterKind::LlcOccupancy,
        ]
    }

    fn read(
        &mut self,
        now: Nanoseconds,
        threads: &[Observed],
        readings: &mut [Reading],
    ) -> Result<(), SourceError> {
        let before = self.read_at.replace(now);
        let seconds = before.map_or(0.0, |before| (now.0 - before.0) as f64 * 1e-9);
        let outcomes = self.outcomes(threads);
        for ((thread, reading), outcome) in threads.iter().zip(readings).zip(outcomes) {
            let Some(program) = self.program(thread) else { continue };
            let mix = program.phases[self.phase(program, thread.id)].mix;
            let share = thread.cpu_share.unwrap_or(0.0);
            let outcome = outcome.unwrap_or_default();
            let clock_hz =
                if outcome.ipc > 0.0 { outcome.instructions_per_s / outcome.ipc } else { 0.0 };
            let cycles_per_s = clock_hz * share;
            let instructions_per_s = outcome.instructions_per_s * share;
            *self.done.entry(thread.id).or_default() += instructions_per_s * seconds;
            let scoped = |per_1000: f64| {
                let per_s = per_1000 * instructions_per_s / 1000.0;
                Some(ScopedRate { per_s, scope: Scope::DemandAndPrefetch })
            };
            let of_mix = |pki: fn(&PhaseMix) -> f64| {
                mix.as_ref().map(|mix| pki(mix) * instructions_per_s / 1000.0)
            };
            let bytes_per_s = outcome.bytes_per_s * share;
            let retries = bytes_per_s / REQUEST_BYTES * outcome.memory_retries_per_request;
            reading.counters = Rates {
                cpu_share: reading.counters.cpu_share,
                spin_share: None,
                instructions_per_s: Some(instructions_per_s),
                cycles_per_s: Some(cycles_per_s),
                llc_references: scoped(outcome.llc_apki),
                llc_misses: scoped(outcome.llc_mpki),
                l1_accesses_per_s: of_mix(|mix| mix.l1_accesses_pki)
                    .or(reading.counters.l1_accesses_per_s),
                branches_per_s: of_mix(|mix| mix.branches_pki).or(reading.counters.branches_per_s),
                memory_bytes_per_s: Some(bytes_per_s),
                memory_retries_per_s: Some(retries),
                memory_stall_share: (cycles_per_s > 0.0).then_some(outcome.memory_stall_share),
            };
            reading.llc_occupancy_bytes = Some(outcome.occupancy_bytes);
        }
        let present: std::collections::BTreeSet<ThreadId> =
            threads.iter().map(|thread| thread.id).collect();
        self.done.retain(|id, _| present.contains(id));
        Ok(())
    }
}

/// Did a thread run since the last reading? At first, is it on a CPU?
fn runs(thread: &Observed) -> bool {
    match thread.cpu_share {
        Some(share) => share > 0.0,
        None => thread.state == ThreadState::Running,
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
        occupancy_bytes: sum.occupancy_bytes * by,
        memory_stall_share: sum.memory_stall_share * by,
        memory_retries_per_request: per_byte(sum.memory_retries_per_request),
        ..Outcome::default()
    }
}
