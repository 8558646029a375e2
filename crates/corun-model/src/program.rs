//! Programs as the model holds them, and the ways to name who runs where.

use crate::outcome::Demand;
use crate::table::PhaseTable;

/// A program loaded for one machine: its tables for each kind of place it can run at. Use it with
/// the [`crate::Model`] that loaded it, or another of the same machine and options.
#[derive(Debug, Clone)]
pub struct LoadedProgram {
    /// The profile's name.
    pub name: String,
    /// The phases by their first appearance; at least one.
    pub phases: Vec<LoadedPhase>,
    /// Which phase runs for how long, in order. A phase's stretches sum to its instructions.
    pub sequence: Vec<LoadedStretch>,
    /// Alone, its cycles per instruction with all memory on another node / with local memory, over
    /// all phases by their time; the mean over the other nodes. None on a machine of one node.
    pub numa_penalty: Option<f64>,
    /// Alone, its speed on a core of the fastest type / on one of the slowest, over all phases by
    /// their time. None on a machine of one core type.
    pub speedup_factor: Option<f64>,
    /// All phases as one; none where there is one phase, which is the whole.
    pub(crate) whole: Option<LoadedPhase>,
}

/// A stretch of a loaded program's execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadedStretch {
    /// Index in [`LoadedProgram::phases`].
    pub phase: usize,
    /// Its length in instructions.
    pub instructions: f64,
}

/// A phase of a loaded program.
#[derive(Debug, Clone)]
pub struct LoadedPhase {
    /// Its length in instructions, all its stretches together.
    pub instructions: f64,
    /// Its best solo speed on this machine, in instructions a second: fastest CPU, whole LLC,
    /// local memory, nobody else. Slowdowns are against it.
    pub best_instructions_per_s: f64,
    /// Its figures alone with the whole LLC at its best place.
    pub best: Demand,
    /// What its instructions are, where the profile says.
    pub mix: Option<PhaseMix>,
    /// By site: see [`crate::site`].
    pub(crate) tables: Vec<PhaseTable>,
}

/// What a phase's instructions are: figures that no cache and no other program changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseMix {
    /// Data accesses (L1 accesses) per 1000 instructions.
    pub l1_accesses_pki: f64,
    /// Branches per 1000 instructions.
    pub branches_pki: f64,
}

impl LoadedProgram {
    /// In place of a phase's index: all phases as one, by what they do on average (docs/model.md).
    /// Alone on a CPU it takes exactly the time of the phases one after the other. Beside others
    /// it is an approximation, since what phases do to one another is not linear in what they do
    /// alone. Of a program with one phase it is that phase.
    pub const WHOLE: usize = usize::MAX;

    /// A phase by its index in [`Self::phases`], or [`Self::WHOLE`].
    ///
    /// # Panics
    /// When there is no such phase.
    pub fn phase(&self, index: usize) -> &LoadedPhase {
        match &self.whole {
            Some(whole) if index == Self::WHOLE => whole,
            None if index == Self::WHOLE => &self.phases[0],
            _ => &self.phases[index],
        }
    }

    /// Length of all phases together, in instructions.
    pub fn instructions(&self) -> f64 {
        self.phases.iter().map(|phase| phase.instructions).sum()
    }
}

/// A program's phase, or the whole program, that runs on a CPU.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The program.
    pub program: &'a LoadedProgram,
    /// Index in [`LoadedProgram::phases`], or [`LoadedProgram::WHOLE`].
    pub phase: usize,
    /// CPU index (a place in [`corun_machine::Machine::cpus`]).
    pub cpu: usize,
}

impl<'a> Member<'a> {
    pub(crate) fn phase(&self) -> &'a LoadedPhase {
        self.program.phase(self.phase)
    }
}

/// A member with its figures after stage A, and where its memory lies.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    /// Who, where.
    pub member: Member<'a>,
    /// Its figures when only its cache group counts.
    pub demand: Demand,
    /// Share of its pages by node index; they are weighed by their sum. Empty: all local.
    pub home: &'a [f64],
}

/// A member of a whole machine's co-run.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    /// Who, where.
    pub member: Member<'a>,
    /// As [`Flow::home`].
    pub home: &'a [f64],
    /// Its part of the LLC; none: the whole LLC of its CPU, with all others there that say none.
    pub group: Option<CacheGroup>,
}

impl<'a> Running<'a> {
    /// A program that has its pages where it runs and the whole LLC, with all others there.
    pub fn local(program: &'a LoadedProgram, phase: usize, cpu: usize) -> Self {
        Self { member: Member { program, phase, cpu }, home: &[], group: None }
    }
}

/// A part of an LLC. Members with the same id share so many bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheGroup {
    /// Which part. The same id on two LLCs names two parts.
    pub id: u32,
    /// Its capacity in bytes; of members that disagree, the lowest-placed one's counts.
    pub bytes: f64,
}
