//! What each program did in a live recording: sums over its threads, by part of the recording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use corun_live::{LiveRecording, SampledThread};
use corun_machine::Machine;
use corun_metrics as metrics;
use corun_policy::Nanoseconds;

use super::{DIGITS, FIGURES, ProgramPresence, RecordedFigure, RecordingFacts, recorded_host};
use crate::{Error, Result, build_policies, check, round};

/// Parts of a recording, of equal time, for each of which a figure is given.
const PARTS: usize = 60;

/// Batches of parts, from which the spread of a mean is told.
pub(super) const BATCHES: usize = 10;

/// Least parts of a recording of which the spread is told.
const LEAST_PARTS: usize = 2 * BATCHES;

/// Most programs of a recording: each takes some 6 KB of memory here, whatever it did.
const MOST_RECORDED_PROGRAMS: usize = 20_000;

/// The policy that decides nothing.
pub const NO_POLICY: &str = "linux-default";

impl RecordedFigure {
    /// What a thread adds to the figure's numerator in a second and, where the figure is a ratio of two counts, to
    /// its denominator; none where either is unknown.
    fn terms(self, thread: &SampledThread<'_>) -> Option<(f64, Option<f64>)> {
        let rates = &thread.rates;
        Some(match self {
            Self::CpusBusy => (rates.cpu_share?, None),
            Self::InstructionsPerS => (rates.instructions_per_s?, None),
            Self::Ipc => (rates.instructions_per_s?, Some(rates.cycles_per_s?)),
            Self::LlcMpki => (1000.0 * rates.llc_misses?.per_s, Some(rates.instructions_per_s?)),
            Self::MemoryBytesPerS => (rates.memory_bytes_per_s?, None),
            Self::LlcOccupancyBytes => (thread.view.llc_occupancy_bytes?, None),
        })
    }
}

/// A figure's numerator and denominator, summed over threads and time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RatioSum {
    above: f64,
    below: f64,
}

impl RatioSum {
    /// Of a program's threads in the `seconds` before a look. The denominator of a figure that is no ratio of counts
    /// is the time, once for all threads.
    fn of(figure: RecordedFigure, threads: &[SampledThread<'_>], seconds: f64) -> Self {
        let mut sum = Self::default();
        for (above, below) in threads.iter().filter_map(|one| figure.terms(one)) {
            sum.above += above * seconds;
            sum.below = below.map_or(seconds, |below| sum.below + below * seconds);
        }
        sum
    }

    fn add(&mut self, other: Self, share: f64) {
        self.above += share * other.above;
        self.below += share * other.below;
    }

    pub(super) fn value(self) -> Option<f64> {
        (self.below > 0.0).then(|| self.above / self.below)
    }
}

fn total(sums: impl IntoIterator<Item = RatioSum>) -> RatioSum {
    sums.into_iter().fold(RatioSum::default(), |mut all, one| {
        all.add(one, 1.0);
        all
    })
}

/// The time before a look, in seconds since the first one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// When the last look is.
    pub(super) all_s: f64,
}

impl Look {
    fn seconds(self) -> f64 {
        self.to_s - self.from_s
    }

    /// Each of so many parts of the recording in which the time is, with the share of the time that is in it.
    pub(super) fn shares(self, parts: usize) -> impl Iterator<Item = (usize, f64)> {
        let part_s = self.all_s / parts as f64;
        let first = (self.from_s / part_s) as usize;
        (first..parts).take_while(move |&part| part as f64 * part_s < self.to_s).map(move |part| {
            let begin = self.from_s.max(part as f64 * part_s);
            let end = self.to_s.min((part + 1) as f64 * part_s);
            (part, (end - begin).max(0.0) / self.seconds())
        })
    }
}

/// What a program did in a recording.
#[derive(Debug)]
pub(super) struct RecordedProgram {
    seconds: f64,
    /// Is the time before some look longer than a batch? Then batches are not told apart.
    has_long_look: bool,
    most_threads: usize,
    /// Seconds on CPUs under each LLC.
    by_llc: Vec<f64>,
    /// By part of the recording; each figure's.
    parts: Vec<[RatioSum; FIGURES.len()]>,
}

impl RecordedProgram {
    fn new(parts: usize, llcs: usize) -> Self {
        Self {
            seconds: 0.0,
            has_long_look: false,
            most_threads: 0,
            by_llc: vec![0.0; llcs],
            parts: vec![Default::default(); parts],
        }
    }

    /// Takes in what the program's threads did before a look.
    fn add(&mut self, look: Look, threads: &[SampledThread<'_>], machine: &Machine) {
        self.most_threads = self.most_threads.max(threads.len());
        let seconds = look.seconds();
        // At the first look nothing is known of the time before.
        if seconds <= 0.0 {
            return;
        }
        self.seconds += seconds;
        self.has_long_look |= seconds > look.all_s / BATCHES as f64;
        let sums = FIGURES.map(|figure| RatioSum::of(figure, threads, seconds));
        for (part, share) in look.shares(self.parts.len()) {
            for (known, sum) in self.parts[part].iter_mut().zip(sums) {
                known.add(sum, share);
            }
        }
        for thread in threads {
            let cpu = machine.cpu_index(thread.thread.facts.cpu);
            if let Some((cpu, share)) = cpu.zip(thread.rates.cpu_share) {
                self.by_llc[machine.cpus()[cpu].llc] += share * seconds;
            }
        }
    }

    pub(super) fn sums(&self, figure: RecordedFigure) -> impl Iterator<Item = RatioSum> {
        self.parts.iter().map(move |part| part[figure as usize])
    }

    pub(super) fn value(&self, figure: RecordedFigure) -> Option<f64> {
        total(self.sums(figure)).value()
    }

    pub(super) fn presence(&self) -> ProgramPresence {
        let all: f64 = self.by_llc.iter().sum();
        let shares = self.by_llc.iter().map(|one| round(one / all, DIGITS));
        ProgramPresence {
            seconds: round(self.seconds, DIGITS),
            threads: self.most_threads,
            llc_shares: if all > 0.0 { shares.collect() } else { Vec::new() },
        }
    }

    /// The standard error of a figure over the figure, by batch means; none where a batch has no figure
    /// of its own.
    pub(super) fn relative_error(&self, figure: RecordedFigure) -> Option<f64> {
        let parts: Vec<RatioSum> = self.sums(figure).collect();
        if parts.len() < LEAST_PARTS || self.has_long_look {
            return None;
        }
        let from = |batch: usize| batch * parts.len() / BATCHES;
        let batch = |batch: usize| total(parts[from(batch)..from(batch + 1)].to_vec()).value();
        let values = (0..BATCHES).map(batch).collect::<Option<Vec<f64>>>()?;
        let mean = metrics::mean(&values).filter(|&mean| mean > 0.0)?;
        Some(metrics::standard_error(&values)? / mean)
    }
}

/// What all programs did in a recording.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) facts: RecordingFacts,
    pub(super) programs: BTreeMap<String, RecordedProgram>,
}

impl Recorded {
    pub(super) fn read(recording: LiveRecording, stop: &AtomicBool) -> Result<Self> {
        let times: Vec<Nanoseconds> = recording.times().collect();
        let first = times.first().copied().unwrap_or(Nanoseconds(0));
        let since_first = |at: Nanoseconds| Nanoseconds(at.0 - first.0).as_secs_f64();
        let all_s = times.last().map_or(0.0, |&last| since_first(last));
        let machine = recording.machine().clone();
        let facts = RecordingFacts {
            machine: machine.name().to_owned(),
            llcs: machine.llcs().len(),
            cpus: machine.cpus().len(),
            seconds: round(all_s, DIGITS),
            looks: times.len(),
            broken_off: recording.is_broken_off(),
        };
        let parts = PARTS.min(times.len().saturating_sub(1));
        let policies = build_policies(NO_POLICY, 1)?;
        let mut host = recorded_host(Arc::new(recording), policies, None).map_err(Error::live)?;
        let mut programs: BTreeMap<String, RecordedProgram> = BTreeMap::new();
        let mut from_s = 0.0;
        for at in times {
            check(stop)?;
            host.tick_at(at).map_err(Error::live)?;
            let look = Look { from_s, to_s: since_first(at), all_s };
            from_s = look.to_s;
            let mut threads: BTreeMap<&str, Vec<SampledThread<'_>>> = BTreeMap::new();
            for thread in host.threads() {
                threads.entry(&thread.view.program).or_default().push(thread);
            }
            for (name, threads) in threads {
                let program = programs.entry(name.to_owned());
                let new = || RecordedProgram::new(parts, machine.llcs().len());
                program.or_insert_with(new).add(look, &threads, &machine);
            }
            if programs.len() > MOST_RECORDED_PROGRAMS {
                let message =
                    format!("more than {MOST_RECORDED_PROGRAMS} programs are in a recording");
                return Err(Error::input(message).hint("corun record --command PATTERN"));
            }
        }
        Ok(Self { facts, programs })
    }
}
