//! Cache partitioning: the ground that its policies stand on.
//!
//! A [`Partitioner`] is a pure function from the programs' curves over ways to who shares which
//! ways. [`policy::PartitionPolicy`] makes a policy of it: on every LLC, for the threads there.

mod asked;
pub(crate) mod class;
mod layout;
pub(crate) mod lookahead;
pub(crate) mod members;
pub(crate) mod online;
pub(crate) mod policy;
pub(crate) mod steering;
pub(crate) mod whirlpool;

mod balancer;
mod copart;
mod cpa;
mod dio_lfoc;
mod dunn;
mod dunn_online;
mod equal_part;
mod fair_clusters;
mod fair_clusters_online;
mod kpart;
mod kpart_dynaway;
mod lfoc;
mod lfoc_caps;
mod lfoc_online;
mod lfoc_plus;
mod overlap_annealing;
mod parties;
mod ucp;
mod ucp_slowdown;
mod yu_petrov;

pub(crate) use layout::mask;

pub use class::{CacheClass, ClassLimits, classify};

use crate::{PolicyEntry, WaysCurve};

pub(crate) const POLICIES: &[PolicyEntry] = &[
    equal_part::ENTRY,
    ucp::ENTRY,
    ucp_slowdown::ENTRY,
    yu_petrov::ENTRY,
    kpart::ENTRY,
    dunn::ENTRY,
    lfoc::ENTRY,
    lfoc_plus::ENTRY,
    lfoc_caps::ENTRY,
    fair_clusters::ENTRY,
    overlap_annealing::ENTRY,
    lfoc_online::ENTRY,
    kpart_dynaway::ENTRY,
    dunn_online::ENTRY,
    fair_clusters_online::ENTRY,
    dio_lfoc::ENTRY,
    lfoc_plus::ONLINE,
    overlap_annealing::ONLINE,
    cpa::ENTRY,
    copart::ENTRY,
    balancer::ENTRY,
    parties::ENTRY,
];

/// What a partitioner decides on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The programs' curves; each covers `ways`.
    pub curves: &'a [&'a WaysCurve],
    /// Ways of the LLC, 1 to 64.
    pub ways: u32,
    /// The fewest ways a partition may have: the hardware's minimum.
    pub least_ways: u32,
    /// Peak of the memory that the LLC misses to, in bytes a second; none: unknown.
    pub peak_bytes_per_s: Option<f64>,
}

/// Who shares which ways.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partition {
    /// By program: its cluster. Clusters are numbered by their lowest program.
    pub cluster: Vec<usize>,
    /// By cluster: its ways, bit i for way i.
    pub masks: Vec<u64>,
    /// Limits of memory traffic.
    pub caps: Vec<Cap>,
}

/// A limit of the memory traffic of some programs together.
#[derive(Debug, Clone, PartialEq)]
pub struct Cap {
    /// The programs.
    pub programs: Vec<usize>,
    /// The limit in bytes a second.
    pub bytes_per_s: f64,
}

/// Decides who shares which ways.
pub trait Partitioner: Send {
    /// Decides into `out`, whatever it held. The same input gives the same partition.
    ///
    /// # Errors
    /// [`PartitionError`] when there can be no such partition.
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError>;

    /// What it looked at in a program that got so many ways, in words.
    fn reason(&self, curve: &WaysCurve, ways: u32) -> String;

    /// After [`Self::partition`]: the programs, rising, that are slower than the policy was asked to keep
    /// them, as far as their curves tell. Empty where nothing was asked.
    fn slower_than_asked(&self) -> &[usize] {
        &[]
    }
}

/// Why there is no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// Each program needs ways of its own, and there are too few.
    #[error(
        "{programs} programs need {} ways (at least {least_ways} each), and the LLC has {ways}",
        programs * (*least_ways as usize)
    )]
    TooManyPrograms {
        /// How many programs.
        programs: usize,
        /// Ways of the LLC.
        ways: u32,
        /// The fewest ways of a partition.
        least_ways: u32,
    },
    /// The LLC's ways are more than masks can name, or fewer than one partition needs.
    #[error(
        "ways of the LLC: found {ways}, expected 1 to 64, and partitions of no more: {least_ways}"
    )]
    Ways {
        /// Ways of the LLC.
        ways: u32,
        /// The fewest ways of a partition.
        least_ways: u32,
    },
    /// A program's figures end below the LLC's ways.
    #[error("ways of program {program}'s figures: found {found}, expected the LLC's {ways}")]
    MissingWays {
        /// The program's place in the input.
        program: usize,
        /// The most ways it has figures for.
        found: u32,
        /// Ways of the LLC.
        ways: u32,
    },
}

impl Input<'_> {
    /// # Errors
    /// [`PartitionError`] for ways that cannot be, or a curve that does not cover them.
    pub fn check(&self) -> Result<(), PartitionError> {
        let (ways, least_ways) = (self.ways, self.least_ways);
        if least_ways == 0 || ways > 64 || ways < least_ways {
            return Err(PartitionError::Ways { ways, least_ways });
        }
        match self.curves.iter().position(|curve| curve.ways() < ways) {
            Some(program) => {
                let found = self.curves[program].ways();
                Err(PartitionError::MissingWays { program, found, ways })
            }
            None => Ok(()),
        }
    }

    /// # Errors
    /// As [`Self::check`], and when not every program can have a partition of its own.
    pub fn check_strict(&self) -> Result<(), PartitionError> {
        self.check()?;
        let programs = self.curves.len();
        if programs as u64 * u64::from(self.least_ways) <= u64::from(self.ways) {
            return Ok(());
        }
        let Self { ways, least_ways, .. } = *self;
        Err(PartitionError::TooManyPrograms { programs, ways, least_ways })
    }
}
