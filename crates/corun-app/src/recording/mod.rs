//! What programs did in a live recording, and two recordings side by side: before and after a change.

mod recorded;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use corun_linux::Roots;
use corun_live::{
    DryRunActuator, Host, HostOptions, LiveError, LiveRecording, PlacementActuator,
    RecordedThreads, RecordingSource,
};
use corun_policy::{Nanoseconds, Policy};
use serde::Serialize;

pub use self::recorded::NO_POLICY;
use self::recorded::{BATCHES, Recorded, RecordedProgram};
use crate::{Result, round};

/// Digits after the point in documents.
const DIGITS: i32 = 6;

/// Most programs that are set side by side.
const MOST_PROGRAMS: usize = 256;

/// What programs do, in the order of the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedFigure {
    /// CPU time a second, in CPUs.
    CpusBusy,
    /// Instructions a second.
    InstructionsPerS,
    /// Instructions per cycle.
    Ipc,
    /// LLC misses per 1000 instructions.
    LlcMpki,
    /// Memory traffic, bytes a second.
    MemoryBytesPerS,
    /// Bytes of the LLC that hold the program's lines.
    LlcOccupancyBytes,
}

const FIGURES: [RecordedFigure; 6] = [
    RecordedFigure::CpusBusy,
    RecordedFigure::InstructionsPerS,
    RecordedFigure::Ipc,
    RecordedFigure::LlcMpki,
    RecordedFigure::MemoryBytesPerS,
    RecordedFigure::LlcOccupancyBytes,
];

/// Two recordings side by side.
#[derive(Debug, Serialize)]
pub struct RecordingComparison {
    /// The recording before the change.
    pub before: RecordingFacts,
    /// The recording after the change.
    pub after: RecordingFacts,
    /// Programs of either recording, the busiest first. Programs of one name are one.
    pub programs: Vec<ComparedProgram>,
    /// Programs that are left out because there are too many; they are the least busy.
    pub programs_left_out: usize,
}

/// What a recording is of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingFacts {
    /// The machine's name.
    pub machine: String,
    /// LLCs of the machine.
    pub llcs: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    /// From the first look to the last.
    pub seconds: f64,
    /// Looks at the machine.
    pub looks: usize,
    /// Does the file end within a line? That line is left out.
    pub broken_off: bool,
}

/// A program in two recordings.
#[derive(Debug, Serialize)]
pub struct ComparedProgram {
    /// The program's name.
    pub program: String,
    /// The program in the recording before; none where it is not in that recording.
    pub before: Option<ProgramPresence>,
    /// The program in the recording after; none where it is not in that recording.
    pub after: Option<ProgramPresence>,
    /// What it did, an entry a figure.
    pub figures: Vec<ComparedFigure>,
}

/// When and where a program was there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramPresence {
    /// For how long the program had a thread.
    pub seconds: f64,
    /// Most threads at a look.
    pub threads: usize,
    /// Share of the program's CPU time under each LLC, in the machine's order; empty where it had none.
    pub llc_shares: Vec<f64>,
}

/// A figure of a program in two recordings. Null is unknown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Which figure.
    pub figure: RecordedFigure,
    /// Over all of the recording before in which the program was there.
    pub before: Option<f64>,
    /// Over all of the recording after in which the program was there.
    pub after: Option<f64>,
    /// (after / before - 1) x 100.
    pub change_percent: Option<f64>,
    /// Lower end of the change's 95 % interval; none where a recording is too short to tell.
    pub low_percent: Option<f64>,
    /// Upper end of the change's 95 % interval.
    pub high_percent: Option<f64>,
    /// Over parts of the recording before, of equal time, from the first to the last.
    pub before_parts: Vec<Option<f64>>,
    /// Over parts of the recording after.
    pub after_parts: Vec<Option<f64>>,
}

/// A host that plays a recording in the place of the machine: each tick is a look of the recording. It changes
/// nothing, and nothing of the machine in front of the user tells.
///
/// # Errors
/// A policy that needs what the recording does not have.
pub fn recorded_host(
    recording: Arc<LiveRecording>,
    policies: Vec<Box<dyn Policy>>,
    interval: Option<Nanoseconds>,
) -> Result<Host, LiveError> {
    let nowhere = PathBuf::from("/nonexistent");
    let roots = Roots::below(&nowhere);
    let machine = recording.machine().clone();
    let threads = RecordedThreads::new(recording);
    let source = RecordingSource::new(threads.playback());
    Host::new(
        machine,
        policies,
        Box::new(threads),
        vec![Box::new(source)],
        vec![Box::new(PlacementActuator::new(&roots)), Box::new(DryRunActuator::default())],
        roots,
        HostOptions { interval, ..HostOptions::default() },
    )
}

/// What each program did in two recordings, and how much that changed.
///
/// A figure is a ratio of sums over the recording. The interval of its change is derived so:
///
/// 1. Each recording is cut into 10 batches of equal time. Batches that are long against the program's phases are
///    nearly independent, though neighbouring looks are not, so that the standard error of the mean of 10 batches,
///    deviation / sqrt(10), is about that of the figure. Where batches are shorter than phases, the interval is too
///    narrow.
/// 2. The variance of ln(x) is about (standard error of x / x)^2, by the first derivative 1 / x. Those of two
///    recordings add up in ln(after / before) = ln(after) - ln(before).
/// 3. The width is that variance's root times the 95 % quantile of Student's t. Welch's degrees of freedom lie
///    between those of one recording, 9, and those of both, 18; with 9 the interval is the widest.
///
/// It tells of the recordings' own unrest; what else changed between the two it cannot tell.
///
/// # Errors
/// [`crate::Error::Interrupted`] when the caller wants to stop; bad input where a recording has too many programs.
pub fn compare_recordings(
    before: LiveRecording,
    after: LiveRecording,
    stop: &AtomicBool,
) -> Result<RecordingComparison> {
    let (before, after) = (Recorded::read(before, stop)?, Recorded::read(after, stop)?);
    let mut names: Vec<&String> = before.programs.keys().collect();
    names.extend(after.programs.keys().filter(|name| !before.programs.contains_key(*name)));
    let busy = |name: &String| {
        let of = |one: &Recorded| one.programs.get(name)?.value(RecordedFigure::CpusBusy);
        of(&before).unwrap_or(0.0).max(of(&after).unwrap_or(0.0))
    };
    names.sort_by(|one, other| busy(other).total_cmp(&busy(one)).then(one.cmp(other)));
    let programs_left_out = names.len().saturating_sub(MOST_PROGRAMS);
    names.truncate(MOST_PROGRAMS);
    let programs = names.into_iter().map(|name| {
        let (first, second) = (before.programs.get(name), after.programs.get(name));
        ComparedProgram {
            program: name.clone(),
            before: first.map(RecordedProgram::presence),
            after: second.map(RecordedProgram::presence),
            figures: FIGURES.map(|figure| compared(figure, first, second)).to_vec(),
        }
    });
    let programs = programs.collect();
    Ok(RecordingComparison {
        programs,
        programs_left_out,
        before: before.facts,
        after: after.facts,
    })
}

fn compared(
    figure: RecordedFigure,
    before: Option<&RecordedProgram>,
    after: Option<&RecordedProgram>,
) -> ComparedFigure {
    let rounded = |value: f64| round(value, DIGITS);
    let value = |one: Option<&RecordedProgram>| one.and_then(|one| one.value(figure));
    let parts = |one: Option<&RecordedProgram>| -> Vec<Option<f64>> {
        one.into_iter()
            .flat_map(|one| one.sums(figure))
            .map(|sum| sum.value().map(rounded))
            .collect()
    };
    let error = |one: Option<&RecordedProgram>| one.and_then(|one| one.relative_error(figure));
    let ratio = value(before)
        .zip(value(after))
        .filter(|&(before, after)| before > 0.0 && after > 0.0)
        .map(|(before, after)| after / before);
    let percent = |ratio: f64| rounded(100.0 * (ratio - 1.0));
    let t_95 = corun_metrics::student_t_95(BATCHES - 1);
    let wide = error(before).zip(error(after)).map(|(before, after)| t_95 * before.hypot(after));
    let end = |sign: f64| Some(percent(ratio? * (sign * wide?).exp()));
    ComparedFigure {
        figure,
        before: value(before).map(rounded),
        after: value(after).map(rounded),
        change_percent: ratio.map(percent),
        low_percent: end(-1.0),
        high_percent: end(1.0),
        before_parts: parts(before),
        after_parts: parts(after),
    }
}
