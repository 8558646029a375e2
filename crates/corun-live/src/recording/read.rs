//! Reading a recording, with the line of what is wrong.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};
use std::sync::Arc;

use corun_input::json_in_words;
use corun_linux::{Task, TaskFacts, escape_controls};
use corun_machine::{CpuSet, Machine};
use corun_policy::{Nanoseconds, WaysCurve};
use serde::Deserialize;

use super::line::{HeaderLine, SampleLine, ThreadLine};
use super::{LiveRecording, Program, RecordedFigures, Sample, VERSION};
use crate::ScannedThread;
use corun_policy::ThreadState;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error(
        "line 1: this is no recording of a machine: found `{found}`, expected a line with \
         `corun_live_recording`; corun record writes one"
    )]
    SomethingElse {
        /// How the file begins.
        found: String,
    },
    /// It begins rightly and ends within its first line, which describes the machine.
    #[error(
        "line 1: the recording is cut off within its first line; corun record writes a whole one"
    )]
    CutOff,
    /// It is in another version of the format.
    #[error("line 1: the recording is in version {found}, expected {VERSION}; this is corun {own}",
        own = env!("CARGO_PKG_VERSION"))]
    Version {
        /// The version.
        found: u64,
    },
    /// A line that cannot be.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What was found and what is expected.
        why: String,
    },
}

/// Bytes of the first line at most, so that another file is not read whole.
const MOST_HEADER_BYTES: u64 = 16 << 20;

/// Bytes of a further line at most: a million threads that all say something.
const MOST_LINE_BYTES: u64 = 256 << 20;

/// Letters that are shown of a file that is something else.
const MOST_SHOWN: usize = 40;

/// How every recording begins, whatever its version.
const BEGINNING: &str = "{\"corun_live_recording\":";

/// Only the version, whatever else the line has.
#[derive(Deserialize)]
struct VersionLine {
    corun_live_recording: u64,
}

impl LiveRecording {
    /// Reads a recording and checks it whole. A last line without its end is left out.
    ///
    /// # Errors
    /// [`RecordingError`] names the line.
    pub fn read(from: impl BufRead) -> Result<Self, RecordingError> {
        let mut lines =
            Lines { from, number: 0, bytes: Vec::new(), text: String::new(), broken_off: false };
        let is_whole = lines.next()?;
        if !is_whole {
            let is_one = lines.bytes.starts_with(BEGINNING.as_bytes());
            return Err(if is_one { RecordingError::CutOff } else { lines.something_else() });
        }
        let mut own = header(lines.text.trim())?;
        let mut state = State::new(Arc::clone(&own.machine));
        while lines.next()? {
            let number = lines.number;
            let at = |why: String| RecordingError::Line { line: number, why };
            let line: SampleLine =
                serde_json::from_str(&lines.text).map_err(|error| at(json_in_words(&error)))?;
            own.samples.push(state.sample(line).map_err(at)?);
        }
        own.broken_off = lines.broken_off;
        Ok(own)
    }
}

struct Lines<R> {
    from: R,
    number: usize,
    bytes: Vec<u8>,
    text: String,
    broken_off: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next whole line into `text`; false at the end.
    fn next(&mut self) -> Result<bool, RecordingError> {
        self.bytes.clear();
        self.number += 1;
        let most = if self.number == 1 { MOST_HEADER_BYTES } else { MOST_LINE_BYTES };
        self.from.by_ref().take(most).read_until(b'\n', &mut self.bytes)?;
        let is_whole = self.bytes.ends_with(b"\n");
        if !is_whole && self.bytes.len() as u64 == most {
            return Err(self.wrong(format!("found more than {} MiB without an end", most >> 20)));
        }
        // Half a line may end in half a letter.
        self.broken_off = !self.bytes.is_empty() && !is_whole;
        if is_whole {
            let text = std::str::from_utf8(&self.bytes)
                .map_err(|error| self.wrong(format!("found what is no UTF-8: {error}")))?;
            self.text.clear();
            self.text.push_str(text);
        }
        Ok(is_whole)
    }

    /// What is wrong with the line that was just read. A first line that does not begin as a recording's is of another file.
    fn wrong(&self, why: String) -> RecordingError {
        if self.number == 1 && !self.bytes.starts_with(BEGINNING.as_bytes()) {
            return self.something_else();
        }
        RecordingError::Line { line: self.number, why }
    }

    fn something_else(&self) -> RecordingError {
        let start = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(MOST_SHOWN)]);
        let found = escape_controls(start.trim_end()).chars().take(MOST_SHOWN).collect();
        RecordingError::SomethingElse { found }
    }
}

fn header(line: &str) -> Result<LiveRecording, RecordingError> {
    let version: VersionLine = serde_json::from_str(line).map_err(|_| {
        RecordingError::SomethingElse { found: line.chars().take(MOST_SHOWN).collect() }
    })?;
    let found = version.corun_live_recording;
    if found != u64::from(VERSION) {
        return Err(RecordingError::Version { found });
    }
    let wrong = |why: String| RecordingError::Line { line: 1, why };
    let header: HeaderLine =
        serde_json::from_str(line).map_err(|error| wrong(json_in_words(&error)))?;
    let machine = Machine::from_spec(header.machine);
    let machine = machine.map_err(|error| wrong(format!("machine: {error}")))?;
    if !(header.interval_s.is_finite() && header.interval_s > 0.0) {
        return Err(wrong(format!(
            "interval_s: found {}, expected more than 0",
            header.interval_s
        )));
    }
    Ok(LiveRecording {
        machine: Arc::new(machine),
        counters: header.counters,
        profiles: header.profiles,
        interval_s: header.interval_s,
        samples: Vec::new(),
        broken_off: false,
    })
}

/// No recording is longer: 100 years of 365 days.
const LATEST_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// What is known after the lines so far.
struct State {
    machine: Arc<Machine>,
    /// CPUs on line, where they are said.
    online: Option<CpuSet>,
    at: Nanoseconds,
    programs: usize,
    threads: BTreeMap<u32, (ScannedThread, RecordedFigures)>,
}

impl State {
    fn new(machine: Arc<Machine>) -> Self {
        let threads = BTreeMap::new();
        Self { machine, online: None, at: Nanoseconds::default(), programs: 0, threads }
    }

    /// A CPU may come on line that the machine did not have. A thread that sleeps may have run last on one that it had.
    fn check_cpu(&self, line: &ThreadLine) -> Result<(), String> {
        let is_there = line.state == ThreadState::Sleeping
            || self.machine.cpu_index(line.cpu).is_some()
            || self.online.as_ref().is_some_and(|online| online.contains(line.cpu));
        if is_there {
            return Ok(());
        }
        let all = self.machine.cpu_set();
        Err(format!("cpu: found {}, expected a CPU of the machine ({all}) or on line", line.cpu))
    }

    fn sample(&mut self, line: SampleLine) -> Result<Sample, String> {
        let at = Nanoseconds(line.at_ns);
        if at < self.at {
            return Err(format!("at_ns: found {}, expected {} or more", at.0, self.at.0));
        }
        if line.at_ns > LATEST_NS {
            return Err(format!("at_ns: found {}, expected at most 100 years", at.0));
        }
        self.at = at;
        self.programs += line.programs.len();
        if line.online.is_some() {
            self.online.clone_from(&line.online);
        }
        for tid in &line.gone {
            if self.threads.remove(tid).is_none() {
                return Err(format!("gone: there is no thread {tid}"));
            }
        }
        let mut changed = Vec::with_capacity(line.threads.len());
        for thread in line.threads {
            let tid = thread.tid;
            let now = self.thread(thread).map_err(|why| format!("thread {tid}: {why}"))?;
            self.threads.insert(tid, now.clone());
            changed.push(now);
        }
        let programs = line.programs.into_iter().map(|one| Program {
            name: escape_controls(&one.name).into_owned(),
            profile: one.profile,
            important: one.important,
        });
        Ok(Sample {
            at,
            online: line.online,
            programs: programs.collect(),
            gone: line.gone,
            changed,
        })
    }

    fn thread(&self, line: ThreadLine) -> Result<(ScannedThread, RecordedFigures), String> {
        self.check_cpu(&line)?;
        let before = self.threads.get(&line.tid);
        let missing = |what: &str| format!("`{what}` is missing, and it is new");
        let (task, target) = match (&line.new, before) {
            (Some(new), None) if new.program >= self.programs => {
                return Err(format!("program {}: there are {}", new.program, self.programs));
            }
            (Some(new), None) => {
                (Task { pid: new.pid, tid: line.tid, start_ticks: new.start_ticks }, new.program)
            }
            (None, Some((known, _))) => (known.facts.task, known.target),
            (Some(_), Some(_)) => return Err("it is `new` and was there before".to_owned()),
            (None, None) => return Err("it was not there before and is not `new`".to_owned()),
        };
        let known = before.map(|(known, _)| &known.facts);
        let mut figures = line.figures()?;
        let facts = TaskFacts {
            task,
            parent: (line.parent.or(known.map(|one| one.parent)))
                .ok_or_else(|| missing("parent"))?,
            name: (line.name.map(|name| escape_controls(&name).into_owned()))
                .or_else(|| known.map(|one| one.name.clone()))
                .ok_or_else(|| missing("name"))?,
            wants_cpu: line.state != ThreadState::Sleeping,
            cpu: line.cpu,
            cpu_ns: line.cpu_ns,
            nice: line.nice.or(known.map(|one| one.nice)).ok_or_else(|| missing("nice"))?,
            is_real_time: false,
            affinity: (line.affinity.or_else(|| known.map(|one| one.affinity.clone())))
                .ok_or_else(|| missing("affinity"))?,
        };
        let earlier = before.map(|(_, figures)| figures);
        figures.solo = line.solo.or(earlier.and_then(|one| one.solo));
        figures.by_ways = match line.by_ways {
            None => earlier.and_then(|one| one.by_ways.clone()),
            Some(points) => {
                let curve = WaysCurve::new(points).ok_or("by_ways: expected one way at least")?;
                Some(Arc::new(curve))
            }
        };
        Ok((ScannedThread { facts, state: line.state, target }, figures))
    }
}
