//! A program's profile: what belongs to the program, and not to a machine.
//!
//! Two kinds: a [`Recording`] holds the program's own miss-rate curve, as the tracer writes it; a
//! [`SoloTable`] holds figures measured alone on some machine at several LLC sizes.

use std::path::Path;

use corun_input::{Fault, PathStep};
use serde::{Deserialize, Serialize};

use crate::figures::{Expected, check_count};
use crate::{MissRateCurve, Reading, Recording, SoloTable};

/// The version of the profile file that this build writes.
pub(crate) const PROFILE_FILE_VERSION: u32 = 2;

/// Earlier versions that this build reads: 1 lacks [`CoreDetail`].
pub(crate) const EARLIER_PROFILE_FILE_VERSIONS: [u32; 1] = [1];

/// The length of a program known by its solo table alone, in instructions: one phase, unless the
/// mix says otherwise (errata.md, section 2: the thesis runs each program for 150e9 instructions).
pub const TABLE_INSTRUCTIONS: u64 = 150_000_000_000;

/// A program's profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The name by which the program is asked for, unique in its library.
    pub name: String,
    /// The figures.
    pub data: ProfileData,
}

/// The two kinds of profile.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileData {
    /// The program's own curve.
    Recording(Recording),
    /// Solo figures by LLC size, measured on some machine.
    Table(SoloTable),
}

/// One behaviour of a program, for all the stretches of its execution that share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Instructions of all its stretches together.
    pub instructions: u64,
    /// Threads that were seen running in it.
    pub threads: u32,
    /// Data accesses (loads and stores, L1 accesses) per 1000 instructions.
    pub data_accesses_pki: f64,
    /// Instruction mix, per 1000 instructions.
    pub mix: InstructionMix,
    /// Share of the misses that a stride prefetcher would foresee, 0 to 1.
    pub prefetchable: f64,
    /// Misses that may be outstanding together as the dependences of the program allow (>= 1),
    /// before the core's own limits.
    pub memory_level_parallelism: f64,
    /// Share of the lines brought in that are written, and so written back later, 0 to 1.
    pub dirty_share: f64,
    /// Distinct bytes touched in the phase.
    pub footprint_bytes: u64,
    /// Lines missed per 1000 instructions (data and instruction fetches together) in a fully
    /// associative LRU cache, against its size.
    pub curve: MissRateCurve,
    /// What a model of the core needs beyond that; absent in recordings of earlier versions.
    pub core: Option<CoreDetail>,
}

/// What a model of a core needs of a phase beyond caches.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreDetail {
    /// Branches per 1000 instructions that a large predictor (TAGE) gets wrong.
    pub mispredicted_large_pki: f64,
    /// Code lines missed per 1000 instructions in a fully associative LRU cache of code alone,
    /// against its size.
    pub instruction_curve: MissRateCurve,
    /// Lines per 1000 instructions, against the size of a cache, that the kernel wrote as it cleared
    /// pages for the program and that the cache did not hold: each is written back some day, none is
    /// read. [`Phase::curve`] counts none of them, but its distances know that they were written. Absent
    /// in recordings of earlier tracers, which took the program's first touches of these lines for misses.
    pub cleared_curve: Option<MissRateCurve>,
    /// Of recordings without that: lines per 1000 instructions that are touched first in pages which the
    /// kernel has just cleared. They miss in no cache, but [`Phase::curve`] counts them.
    pub zeroed_mpki: f64,
    /// Page faults per 1000 instructions: first touches of pages of 4 KiB, also of those that were given
    /// back and are touched again; and first stores to pages of files and of a process that forked this one.
    pub page_faults_pki: f64,
    /// Those of them by which the kernel maps pages of a file, up to 16 at a time. 0 of recordings that do not tell.
    pub file_faults_pki: f64,
    /// System calls per 1000 instructions.
    pub system_calls_pki: f64,
    /// Those of them that touch neither files nor what memory is mapped to and in which the thread did not sleep, as
    /// asking for the time or waking who waits for a lock: they take the kernel little. 0 of recordings that do not tell.
    pub light_calls_pki: f64,
    /// Those of them that change what memory is mapped to or what may be done with it: mmap, munmap, mremap, brk,
    /// mprotect, madvise. 0 of recordings that do not tell.
    pub mapping_calls_pki: f64,
    /// Those of them in which the thread slept: for a time, or until another thread woke it by a futex. 0 of
    /// recordings that do not tell.
    pub sleeping_calls_pki: f64,
    /// Bytes that system calls read or write for the program, per 1000 instructions.
    pub transferred_bytes_pki: f64,
    /// Those of them that were written to files. 0 of recordings that do not tell.
    pub file_written_bytes_pki: f64,
    /// The phase's micro-traces, by their places in [`Recording::micro_traces`], with the share of
    /// the phase's instructions that each stands for; the shares sum to 1 where there are any.
    pub micro_traces: Vec<(u32, f64)>,
}

/// Instructions of each kind per 1000 instructions. An instruction that loads and computes counts
/// in both.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionMix {
    /// Loads.
    pub loads_pki: f64,
    /// Stores.
    pub stores_pki: f64,
    /// Branches of any kind.
    pub branches_pki: f64,
    /// Floating-point and vector operations.
    pub float_pki: f64,
    /// Branches that a simple predictor gets wrong.
    pub mispredicted_pki: f64,
}

impl Phase {
    /// Lines per 1000 instructions that the kernel's clearing of pages brings into a cache of so many
    /// bytes ([`CoreDetail::cleared_curve`]); 0 where that was not recorded.
    pub fn cleared_mpki(&self, bytes: f64) -> f64 {
        let curve = self.core.as_ref().and_then(|core| core.cleared_curve.as_ref());
        curve.map_or(0.0, |curve| curve.mpki(bytes).value)
    }

    /// The phase with the curve of what touches so much ([`MissRateCurve::with_footprint`]).
    #[must_use]
    pub fn with_curve_to_footprint(&self) -> Self {
        Self { curve: self.curve.with_footprint(self.footprint_bytes), ..self.clone() }
    }

    /// Lines that come into a cache per 1000 instructions, against its size: those that the program
    /// misses and those that the kernel clears for it.
    pub fn filling_curve(&self) -> MissRateCurve {
        let curve = self.core.as_ref().and_then(|core| core.cleared_curve.as_ref());
        curve.map_or_else(|| self.curve.clone(), |cleared| self.curve.plus(cleared))
    }
}

impl Profile {
    /// Its length in instructions, all phases together.
    pub fn instructions(&self) -> u64 {
        match &self.data {
            ProfileData::Recording(recording) => recording.instructions(),
            ProfileData::Table(_) => TABLE_INSTRUCTIONS,
        }
    }

    /// The file name of the executable that it was recorded from; none for a table.
    pub fn executable(&self) -> Option<&str> {
        let ProfileData::Recording(recording) = &self.data else { return None };
        Path::new(recording.origin.command.first()?).file_name()?.to_str()
    }

    /// Distinct bytes touched in the phase that touches most: no less than this is touched in
    /// all. A table does not say.
    pub fn footprint_bytes(&self) -> Option<u64> {
        match &self.data {
            ProfileData::Recording(recording) => {
                recording.phases.iter().map(|phase| phase.footprint_bytes).max()
            }
            ProfileData::Table(_) => None,
        }
    }

    /// Misses per 1000 instructions alone with so much cache in all, over the whole execution:
    /// phases count by their instructions.
    pub fn solo_mpki(&self, bytes: f64) -> Reading {
        match &self.data {
            ProfileData::Recording(recording) => recording.mpki(bytes),
            ProfileData::Table(table) => table.curve().mpki(bytes),
        }
    }

    /// LLC accesses per 1000 instructions behind a private cache of so many bytes: what misses
    /// there.
    pub fn llc_apki(&self, private_cache_bytes: u64) -> Reading {
        self.solo_mpki(private_cache_bytes as f64)
    }

    /// The sizes at which the profile has figures, ascending: those of all phases.
    pub fn measured_sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = match &self.data {
            ProfileData::Recording(recording) => recording
                .phases
                .iter()
                .flat_map(|phase| phase.curve.points())
                .map(|point| point.bytes)
                .collect(),
            ProfileData::Table(table) => {
                table.curve().points().iter().map(|point| point.bytes).collect()
            }
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// # Errors
    /// The first figure that cannot be, with its place in the profile file.
    pub fn check(&self) -> Result<(), Fault> {
        check_name(&self.name).map_err(|why| Fault::here(why).under(PathStep::Key("name")))?;
        match &self.data {
            ProfileData::Recording(recording) => recording.check(),
            // A table is checked when it is made.
            ProfileData::Table(_) => Ok(()),
        }
    }
}

/// The most bytes of a program's name: with `.toml` after it, it is still a file's name.
const MAX_NAME_BYTES: usize = 200;

/// Checks a program's name. It is a file's name in a library and stands in lists between commas.
///
/// # Errors
/// What was found and what is expected.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_BYTES {
        return Err(format!("found {} bytes, expected at most {MAX_NAME_BYTES}", name.len()));
    }
    let bad = |one: char| one.is_control() || matches!(one, ',' | '/' | '\\');
    if name.is_empty() || name.trim() != name || name.starts_with('.') || name.contains(bad) {
        return Err(format!(
            "found {name:?}, expected a name without commas, slashes, control characters, spaces \
             around it or a dot before it"
        ));
    }
    Ok(())
}

impl Phase {
    pub(crate) fn check(&self) -> Result<(), Fault> {
        check_count("instructions", self.instructions)?;
        check_threads(self.threads)?;
        Expected::PerThousand.check("data_accesses_pki", self.data_accesses_pki)?;
        self.mix.check().map_err(|fault| fault.under(PathStep::Key("mix")))?;
        Expected::Share.check("prefetchable", self.prefetchable)?;
        Expected::AtLeastOne.check("memory_level_parallelism", self.memory_level_parallelism)?;
        Expected::Share.check("dirty_share", self.dirty_share)?;
        self.core.as_ref().map_or(Ok(()), |core| {
            core.check(self.mix.branches_pki).map_err(|fault| fault.under(PathStep::Key("core")))
        })
    }
}

/// The most threads that a phase may have: as many as Linux's largest PID allows (4 Mi).
const MAX_THREADS: u32 = 1 << 22;

fn check_threads(threads: u32) -> Result<(), Fault> {
    if (1..=MAX_THREADS).contains(&threads) {
        return Ok(());
    }
    let why = format!("found {threads}, expected a whole number from 1 to {MAX_THREADS}");
    Err(Fault::here(why).under(PathStep::Key("threads")))
}

/// By which share a sum of figures of a file may be off, each of which was rounded.
const ROUNDING: f64 = 1e-3;

impl CoreDetail {
    fn check(&self, branches_pki: f64) -> Result<(), Fault> {
        Expected::PerThousand.check("mispredicted_large_pki", self.mispredicted_large_pki)?;
        if self.mispredicted_large_pki > branches_pki {
            let why = format!(
                "found {}, expected at most the {branches_pki} branches",
                self.mispredicted_large_pki
            );
            return Err(Fault::here(why).under(PathStep::Key("mispredicted_large_pki")));
        }
        for (key, value) in [
            ("zeroed_mpki", self.zeroed_mpki),
            ("page_faults_pki", self.page_faults_pki),
            ("file_faults_pki", self.file_faults_pki),
            ("system_calls_pki", self.system_calls_pki),
            ("light_calls_pki", self.light_calls_pki),
            ("mapping_calls_pki", self.mapping_calls_pki),
            ("sleeping_calls_pki", self.sleeping_calls_pki),
            ("transferred_bytes_pki", self.transferred_bytes_pki),
            ("file_written_bytes_pki", self.file_written_bytes_pki),
        ] {
            Expected::PerThousand.check(key, value)?;
        }
        for (key, part, all, what) in [
            ("file_faults_pki", self.file_faults_pki, self.page_faults_pki, "page faults"),
            ("light_calls_pki", self.light_calls_pki, self.system_calls_pki, "system calls"),
            ("mapping_calls_pki", self.mapping_calls_pki, self.system_calls_pki, "system calls"),
            ("sleeping_calls_pki", self.sleeping_calls_pki, self.system_calls_pki, "system calls"),
            (
                "file_written_bytes_pki",
                self.file_written_bytes_pki,
                self.transferred_bytes_pki,
                "bytes",
            ),
        ] {
            if part > all {
                let why = format!("found {part}, expected at most the {all} {what}");
                return Err(Fault::here(why).under(PathStep::Key(key)));
            }
        }
        let kinds = self.light_calls_pki + self.mapping_calls_pki + self.sleeping_calls_pki;
        if kinds > self.system_calls_pki * (1.0 + ROUNDING) {
            let why = format!(
                "found {kinds} light, mapping and sleeping calls, expected at most the {} system calls",
                self.system_calls_pki
            );
            return Err(Fault::here(why).under(PathStep::Key("system_calls_pki")));
        }
        for (index, &(_, share)) in self.micro_traces.iter().enumerate() {
            let at = |why| {
                Fault::here(why).under(PathStep::Index(index)).under(PathStep::Key("micro_traces"))
            };
            Expected::Share.test(share).map_err(at)?;
        }
        Ok(())
    }
}

impl InstructionMix {
    fn check(&self) -> Result<(), Fault> {
        for (key, value) in [
            ("loads_pki", self.loads_pki),
            ("stores_pki", self.stores_pki),
            ("branches_pki", self.branches_pki),
            ("float_pki", self.float_pki),
            ("mispredicted_pki", self.mispredicted_pki),
        ] {
            Expected::PerThousand.check(key, value)?;
        }
        if self.mispredicted_pki > self.branches_pki {
            let why = format!(
                "found {}, expected at most the {} branches",
                self.mispredicted_pki, self.branches_pki
            );
            return Err(Fault::here(why).under(PathStep::Key("mispredicted_pki")));
        }
        Ok(())
    }
}
