//! The few numbers that all processes of one recording share, in a mapped file.
#![allow(unsafe_code)] // Atomic access to mapped memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use corun_profile::Phase;
use memmap2::{MmapMut, MmapRaw};
use rustix::time::{ClockId, clock_gettime};

use crate::report::RunState;

/// What each of the file's numbers is.
#[derive(Debug, Clone, Copy)]
enum Word {
    /// Instructions of all processes so far.
    Instructions,
    /// Why all have to stop; 0 while they need not.
    Stop,
    /// When all have to stop, in nanoseconds of the monotonic clock; 0 for never.
    DeadlineNs,
    /// Programs that began to be recorded.
    Started,
    /// Programs known to run unrecorded.
    Untraced,
    /// The system's error number of the first report that could not be written; 0 where all could.
    Unwritten,
    /// The error number of what the trace of accesses could not be written for; 0 where it could.
    TraceFailure,
    /// The same of the trace of instructions.
    InstructionTraceFailure,
    /// 1 once the trace of accesses has its end.
    TraceEnded,
    /// Programs that can no longer reach the folder of the reports.
    CutOff,
    /// The first of those in which the processes' [`Tally`] is added up.
    Tally,
}

impl Word {
    fn trace_failure(kind: TraceKind) -> Self {
        match kind {
            TraceKind::Accesses => Self::TraceFailure,
            TraceKind::Instructions => Self::InstructionTraceFailure,
        }
    }
}

const WORDS: usize = 10 + Tally::WORDS;
const BYTES: usize = WORDS * size_of::<u64>();

/// What the processes of a recording have told so far of what they did, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Bytes touched in the phase of each process that touches most.
    pub(crate) footprint_bytes: u64,
    /// Instructions that `misses` is of.
    pub(crate) instructions: u64,
    /// Misses in a cache of each of [`PROGRESS_SIZES`].
    pub(crate) misses: [u64; PROGRESS_SIZES.len()],
}

/// Sizes of a fully associative cache, in bytes, at which a recording tells its misses while it runs.
pub const PROGRESS_SIZES: [u64; 6] = [32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

impl Tally {
    const WORDS: usize = 2 + PROGRESS_SIZES.len();

    /// Of what one process has done so far.
    pub(crate) fn of(phases: &[Phase]) -> Self {
        let misses = |bytes: u64| {
            let of =
                |phase: &Phase| phase.curve.mpki(bytes as f64).value * phase.instructions as f64;
            (phases.iter().map(of).sum::<f64>() / 1000.0) as u64
        };
        Self {
            footprint_bytes: phases.iter().map(|phase| phase.footprint_bytes).max().unwrap_or(0),
            instructions: phases.iter().map(|phase| phase.instructions).sum(),
            misses: PROGRESS_SIZES.map(misses),
        }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        [self.footprint_bytes, self.instructions].into_iter().chain(self.misses)
    }
}

/// The two kinds of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceKind {
    Accesses,
    Instructions,
}

/// What the processes of a recording are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Stop: together they reached the instruction limit.
    InstructionLimit,
    /// Stop: the time is over.
    TimeLimit,
    /// Run on unrecorded: the program that was started has ended.
    Leave,
}

impl Stop {
    const ALL: [Self; 3] = [Self::InstructionLimit, Self::TimeLimit, Self::Leave];

    /// The state of a process that was told so.
    pub(crate) fn state(self) -> RunState {
        match self {
            Self::InstructionLimit => RunState::InstructionLimit,
            Self::TimeLimit => RunState::TimeLimit,
            Self::Leave => RunState::Running,
        }
    }
}

/// The shared numbers. They outlive the file's name, and a process that closes all its files.
#[derive(Debug)]
pub(crate) struct Control {
    map: MmapRaw,
}

impl Control {
    /// Makes the file.
    pub(crate) fn create(path: &Path, duration: Option<Duration>) -> io::Result<Self> {
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        // Written, since a hole on a full disk would be a bus error once it is touched.
        file.write_all(&[0; BYTES])?;
        let control = Self::of(&file)?;
        if let Some(duration) = duration {
            let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            control.word(Word::DeadlineNs).store(now_ns().saturating_add(ns), Relaxed);
        }
        Ok(control)
    }

    /// Opens it in one of the processes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::of(&File::options().read(true).write(true).open(path)?)
    }

    /// Numbers of this process alone.
    pub(crate) fn private() -> io::Result<Self> {
        Ok(Self { map: MmapMut::map_anon(BYTES)?.into() })
    }

    fn of(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "of another version of corun"));
        }
        Ok(Self { map: MmapRaw::map_raw(file)? })
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words()[word as usize]
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the map is page-aligned, holds that many words, which is checked above, lives
        // as long as `self`, and is only ever accessed like this.
        unsafe { &*self.map.as_mut_ptr().cast::<[AtomicU64; WORDS]>() }
    }

    /// Instructions of all processes so far.
    pub(crate) fn instructions(&self) -> u64 {
        self.word(Word::Instructions).load(Relaxed)
    }

    /// Adds instructions of this process.
    pub(crate) fn add_instructions(&self, count: u64) {
        self.word(Word::Instructions).fetch_add(count, Relaxed);
    }

    /// What all processes together have told. Its numbers may be of different moments.
    pub(crate) fn tally(&self) -> Tally {
        let words = &self.words()[Word::Tally as usize..];
        Tally {
            footprint_bytes: words[0].load(Relaxed),
            instructions: words[1].load(Relaxed),
            misses: std::array::from_fn(|at| words[2 + at].load(Relaxed)),
        }
    }

    /// Puts what this process tells in the place of what it told before.
    pub(crate) fn replace_tally(&self, before: &Tally, now: &Tally) {
        let words = &self.words()[Word::Tally as usize..];
        for ((word, before), now) in words.iter().zip(before.words()).zip(now.words()) {
            // Modulo 2^64, so that the sum is right in either direction.
            word.fetch_add(now.wrapping_sub(before), Relaxed);
        }
    }

    /// What all processes have to do now; `None`: go on.
    pub(crate) fn stop(&self) -> Option<Stop> {
        let found = self.word(Word::Stop).load(Relaxed);
        if found == 0 && self.is_over() {
            self.set_stop(Stop::TimeLimit);
        }
        let found = self.word(Word::Stop).load(Relaxed) as usize;
        found.checked_sub(1).and_then(|index| Stop::ALL.get(index).copied())
    }

    /// Tells all processes what to do. What they were told first holds.
    pub(crate) fn set_stop(&self, stop: Stop) {
        let value = Stop::ALL.iter().position(|&one| one == stop).map_or(0, |at| at as u64 + 1);
        let _ = self.word(Word::Stop).compare_exchange(0, value, Relaxed, Relaxed);
    }

    fn is_over(&self) -> bool {
        let deadline = self.word(Word::DeadlineNs).load(Relaxed);
        deadline != 0 && now_ns() >= deadline
    }

    /// One more program is recorded.
    pub(crate) fn add_started(&self) {
        self.word(Word::Started).fetch_add(1, Relaxed);
    }

    /// Programs that began to be recorded.
    pub(crate) fn started(&self) -> u64 {
        self.word(Word::Started).load(Relaxed)
    }

    /// One more program runs unrecorded.
    pub(crate) fn add_untraced(&self) {
        self.word(Word::Untraced).fetch_add(1, Relaxed);
    }

    /// It did not after all.
    pub(crate) fn take_back_untraced(&self) {
        self.word(Word::Untraced).fetch_sub(1, Relaxed);
    }

    /// A report could not be written.
    pub(crate) fn set_unwritten(&self, error: &io::Error) {
        self.set_error(Word::Unwritten, error);
    }

    /// Why the first report that was not written was not.
    pub(crate) fn unwritten(&self) -> Option<io::Error> {
        self.error(Word::Unwritten)
    }

    /// A trace could not be written: there is none then.
    pub(crate) fn set_trace_failure(&self, kind: TraceKind, error: &io::Error) {
        self.set_error(Word::trace_failure(kind), error);
    }

    /// Why a trace could not be written.
    pub(crate) fn trace_failure(&self, kind: TraceKind) -> Option<io::Error> {
        self.error(Word::trace_failure(kind))
    }

    /// The trace of accesses has its end.
    pub(crate) fn set_trace_ended(&self) {
        self.word(Word::TraceEnded).store(1, Relaxed);
    }

    /// Does the trace of accesses have its end?
    pub(crate) fn trace_ended(&self) -> bool {
        self.word(Word::TraceEnded).load(Relaxed) == 1
    }

    /// A program can no longer reach the folder of the reports: it has given up rights or has another root folder.
    pub(crate) fn add_cut_off(&self) {
        self.word(Word::CutOff).fetch_add(1, Relaxed);
    }

    /// It can again.
    pub(crate) fn take_back_cut_off(&self) {
        self.word(Word::CutOff).fetch_sub(1, Relaxed);
    }

    /// Programs that can no longer reach the folder of the reports.
    pub(crate) fn cut_off(&self) -> u64 {
        self.word(Word::CutOff).load(Relaxed)
    }

    /// Keeps the first error that a word is told.
    fn set_error(&self, word: Word, error: &io::Error) {
        let number = error.raw_os_error().map_or(u64::MAX, |number| number as u64);
        let _ = self.word(word).compare_exchange(0, number, Relaxed, Relaxed);
    }

    fn error(&self, word: Word) -> Option<io::Error> {
        match self.word(word).load(Relaxed) {
            0 => None,
            number => Some(match i32::try_from(number) {
                Ok(number) => io::Error::from_raw_os_error(number),
                Err(_) => io::Error::other("an unknown error"),
            }),
        }
    }

    /// Programs known to run unrecorded.
    pub(crate) fn untraced(&self) -> u64 {
        self.word(Word::Untraced).load(Relaxed)
    }
}

/// The monotonic clock, which all processes share, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_maps_of_a_file_share_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let first = Control::create(&path, None).unwrap();
        let second = Control::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        first.add_instructions(5);
        second.add_instructions(2);
        second.add_untraced();
        let tally = |one: u64| Tally {
            footprint_bytes: one,
            instructions: 10 * one,
            misses: [6, 5, 4, 3, 2, 1].map(|each| each * one),
        };
        first.replace_tally(&Tally::default(), &tally(4));
        second.replace_tally(&Tally::default(), &tally(1));
        first.replace_tally(&tally(4), &tally(2));
        assert_eq!(second.tally(), tally(3));
        assert_eq!((first.instructions(), first.untraced(), first.stop()), (7, 1, None));
        second.set_stop(Stop::InstructionLimit);
        first.set_stop(Stop::Leave);
        assert_eq!(first.stop(), Some(Stop::InstructionLimit));
    }

    #[test]
    fn the_first_error_of_a_report_is_kept() {
        let control = Control::private().unwrap();
        assert!(control.unwritten().is_none());
        control.set_unwritten(&io::Error::from_raw_os_error(libc::ENOSPC));
        control.set_unwritten(&io::Error::other("later"));
        assert_eq!(control.unwritten().unwrap().raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn the_deadline_stops_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let control = Control::create(&path, Some(Duration::ZERO)).unwrap();
        assert_eq!(Control::open(&path).unwrap().stop(), Some(Stop::TimeLimit));
        assert_eq!(control.stop(), Some(Stop::TimeLimit));
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        std::fs::write(&path, [0; 8]).unwrap();
        assert!(Control::open(&path).is_err());
    }
}
