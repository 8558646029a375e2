//! Why a question has no answer.

/// Why programs cannot be placed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// There is nothing to place.
    #[error("no program to place")]
    NoProgram,
    /// The optimum puts one thread on a CPU.
    #[error("{threads} threads for {cpus} CPUs: the optimum places at most one thread a CPU")]
    TooManyThreads {
        /// Threads to place.
        threads: usize,
        /// CPUs of the machine.
        cpus: usize,
    },
    /// The machine is too large for the search.
    #[error("the machine has {llcs} LLCs: the optimum is searched for on at most 64")]
    TooManyLlcs {
        /// LLCs of the machine.
        llcs: usize,
    },
    /// Energy is asked for and not known.
    #[error(
        "{machine} has no power figures: its machine file has no [power], so that no energy can be told"
    )]
    NoPower {
        /// The machine's name.
        machine: String,
    },
    /// A program has no such phase.
    #[error("{program}: phase index {phase}, but it has {phases} phases")]
    Phase {
        /// Its name.
        program: String,
        /// What was asked for, from 0.
        phase: usize,
        /// Phases of the program.
        phases: usize,
    },
    /// A program's home is no node.
    #[error("{program}: home node index: found {node}, expected less than {nodes}")]
    Home {
        /// Its name.
        program: String,
        /// What was asked for.
        node: usize,
        /// NUMA nodes of the machine.
        nodes: usize,
    },
    /// A given placement is none.
    #[error("the given placement: {why}")]
    Given {
        /// What is wrong.
        why: String,
    },
    /// Two lists have not the same length.
    #[error("{what}: found {found}, expected {programs}, one a program")]
    Length {
        /// What is listed.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many programs.
        programs: usize,
    },
}
