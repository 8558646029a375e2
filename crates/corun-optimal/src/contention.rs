//! What the search asks of whoever knows the slowdowns.

/// A program on a CPU, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSlot {
    /// Index of the program.
    pub program: usize,
    /// CPU index (a place in [`corun_machine::Machine::cpus`]).
    pub cpu: usize,
}

/// What is known of how the programs on different LLCs affect one another. It decides which
/// bounds the search may use; the proofs are in docs/optimum.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coupling {
    /// Not at all: a group's slowdowns depend on its own members.
    Apart,
    /// Through one resource that all share alike: more traffic by others, wherever they run,
    /// slows nobody less.
    Common,
    /// More programs slow nobody less.
    Growing,
    /// A program among others is no faster than alone; nothing else is known.
    Any,
}

/// A source of slowdowns in two stages: groups that share an LLC, then all groups together.
pub trait Contention: Sync {
    /// What the first stage says of a program: what it asks of the second.
    type Share: Copy + Send + Sync;
    /// Working memory, one a thread.
    type Scratch: Default + Send;

    /// First stage. `group` holds everybody on one LLC; their shares go to `shares`, empty when
    /// called, in the same order. The answer depends on the group alone.
    fn share(&self, group: &[CpuSlot], scratch: &mut Self::Scratch, shares: &mut Vec<Self::Share>);

    /// Second stage: the slowdowns of all of `slots` together, whose shares are `shares`, into
    /// `slowdowns`, empty when called, in the same order. For the sake of bounds a share may stand
    /// on another CPU than the one it was computed for.
    fn couple(
        &self,
        slots: &[CpuSlot],
        shares: &[Self::Share],
        scratch: &mut Self::Scratch,
        slowdowns: &mut Vec<f64>,
    );

    /// Memory traffic that a share asks for, in bytes a second.
    fn traffic(&self, share: &Self::Share) -> f64;

    /// A share that weighs on others no more than either of these two of one program.
    fn lighter(&self, one: &Self::Share, other: &Self::Share) -> Self::Share;

    /// A share that weighs on others no less than either of these two of one program.
    fn heavier(&self, one: &Self::Share, other: &Self::Share) -> Self::Share;

    /// Memory traffic of all of `slots` together as [`Contention::couple`] has them, in bytes a second: at most what
    /// their shares ask for.
    fn passing(
        &self,
        slots: &[CpuSlot],
        shares: &[Self::Share],
        scratch: &mut Self::Scratch,
    ) -> f64;

    /// How the groups affect one another.
    fn coupling(&self) -> Coupling;
}
