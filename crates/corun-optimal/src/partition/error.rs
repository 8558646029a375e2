//! Why a question about partitions has no answer.

/// Why programs cannot be partitioned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PartitionSearchError {
    /// There is nothing to partition.
    #[error("no program to partition an LLC for")]
    NoProgram,
    /// Each program must have ways of its own.
    #[error(
        "{programs} programs, each with {min_ways} or more of {ways} ways of its own: there is room \
         for {room}; clustering, where programs may share ways, would do"
    )]
    TooFewWays {
        /// How many programs.
        programs: usize,
        /// Ways to hand out.
        ways: u32,
        /// Ways that each must have.
        min_ways: u32,
        /// Programs that there is room for.
        room: usize,
    },
    /// There are too many programs for the tables of the search.
    #[error("{programs} programs: the optimum is searched for up to {most}")]
    TooManyPrograms {
        /// How many programs.
        programs: usize,
        /// The most that are searched.
        most: usize,
    },
    /// The programs do not share one LLC.
    #[error("the programs run on LLCs {first} and {other}: one LLC is partitioned at a time")]
    SeveralLlcs {
        /// Index in [`corun_machine::Machine::llcs`].
        first: usize,
        /// Another one.
        other: usize,
    },
    /// Two programs run on one CPU.
    #[error("two programs run on CPU index {cpu}: expected one to a CPU")]
    SameCpu {
        /// CPU index (a place in [`corun_machine::Machine::cpus`]).
        cpu: usize,
    },
    /// The ways to hand out are not those of the LLC.
    #[error("{ways} ways to hand out: expected 1 to {llc_ways}, which the LLC has")]
    Ways {
        /// What was asked for.
        ways: u32,
        /// What the LLC has.
        llc_ways: u32,
    },
    /// The least ways of a cluster cannot be.
    #[error("{min_ways} ways for each cluster at least: expected 1 to {ways}")]
    MinWays {
        /// What was asked for.
        min_ways: u32,
        /// Ways to hand out.
        ways: u32,
    },
    /// What others draw reaches a program through more than one bandwidth domain.
    #[error(
        "the programs' traffic meets in {domains} bandwidth domains: the optimum of a partition is \
         defined for one"
    )]
    SeveralDomains {
        /// How many.
        domains: usize,
    },
    /// Threads of a core take turns in one pipeline, so that slowdowns are no lines in bandwidth.
    #[error(
        "the programs on CPU index {cpu} and another share the pipeline of a fine-grained core: the \
         optimum of a partition is not defined there; one program to a core would do"
    )]
    SharedPipeline {
        /// CPU index (a place in [`corun_machine::Machine::cpus`]).
        cpu: usize,
    },
    /// A given partition is none.
    #[error("the given partition: {why}")]
    Given {
        /// What is wrong.
        why: String,
    },
    /// There are too many partitions to visit them all.
    #[error("more than {most} partitions: too many to visit them all")]
    TooManyPartitions {
        /// The most that are visited.
        most: u64,
    },
}
