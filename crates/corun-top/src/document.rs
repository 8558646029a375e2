//! One frame for scripts: as tables, one JSON document, or CSV.

use std::fmt::Write as _;

use corun_app::{Error, Result};
use corun_hosting::{ActEntry, DecisionLine};
use corun_machine::CpuSet;
use serde::Serialize;

use crate::columns::Column;
use crate::frame::{Figures, Frame, Line, Of, Others};
use crate::state::Rows;
use corun_report::{Align, Columns, counted, json, or_empty, round, table};

/// Decisions of a document that is made again for every look.
const SHOWN_DECISIONS: usize = 100;

impl Frame {
    /// Is no thread there?
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The frame as tables for people, each with so many lines at most, the busiest.
    pub fn table(&self, most: Option<usize>) -> String {
        text(self, most)
    }

    /// The frame as a JSON document; so many seconds are between two looks.
    ///
    /// # Errors
    /// None that a frame has.
    pub fn json(&self, interval_s: f64) -> Result<String> {
        json(&Document::new(self, interval_s))
    }

    /// The frame as CSV, a line a thread.
    ///
    /// # Errors
    /// None that a frame has.
    pub fn csv(&self) -> Result<String> {
        csv(self)
    }
}

/// The daemon whose look it is.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DaemonEntry {
    /// Its process.
    pub pid: u32,
    /// Does it carry out what its policy decides?
    pub applies: bool,
    /// Why its policy plans nothing, or nothing that helps; none where it does.
    pub no_plan: Option<NoPlanEntry>,
}

/// Why a daemon's policy plans nothing, or nothing that helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NoPlanEntry {
    /// The reason's name, as metrics have it.
    pub reason: &'static str,
    /// What follows: that nothing is planned, or nothing that helps.
    pub what: &'static str,
    /// The reason in words.
    pub why: &'static str,
    /// What one can do.
    pub help: &'static str,
}

/// The frame as JSON on one line, with the newest decisions alone, what a person did, and whose look it is.
pub(crate) fn compact(
    frame: &Frame,
    interval_s: f64,
    act: Option<ActEntry>,
    daemon: Option<DaemonEntry>,
) -> Result<String> {
    #[derive(Serialize)]
    struct Look<'a> {
        #[serde(flatten)]
        document: Document<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        act: Option<ActEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        daemon: Option<DaemonEntry>,
    }
    let document = Document::with_decisions(frame, interval_s, SHOWN_DECISIONS);
    serde_json::to_string(&Look { document, act, daemon }).map_err(Error::failed)
}

fn sorted(lines: &[Line]) -> Vec<&Line> {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by(|one, other| Column::Cpu.order(one, other, false));
    lines
}

fn text(frame: &Frame, most: Option<usize>) -> String {
    let mut text = String::new();
    for rows in [Rows::Programs, Rows::Groups, Rows::Threads] {
        let (lines, what) = match rows {
            Rows::Programs => (&frame.programs, "program"),
            Rows::Groups => (&frame.groups, "group"),
            Rows::Threads => (&frame.threads, "thread"),
        };
        // A single group tells nothing that the programs do not.
        if rows == Rows::Groups && lines.len() < 2 {
            continue;
        }
        let lines = sorted(lines);
        let columns = Column::all(rows, frame.policy.is_some());
        let head: Vec<(&str, Align)> = columns
            .iter()
            .map(|column| {
                (column.head(), if column.is_figure() { Align::Right } else { Align::Left })
            })
            .collect();
        let shown = most.unwrap_or(usize::MAX).min(lines.len());
        let rows: Vec<Vec<String>> = lines[..shown]
            .iter()
            .map(|line| columns.iter().map(|column| column.text(line)).collect())
            .collect();
        text.push_str(&table(&head, &rows));
        if shown < lines.len() {
            let left = counted(lines.len() - shown, what);
            let _ = writeln!(text, "and {left} less busy");
        }
        text.push('\n');
    }
    for one in frame.decisions.iter().rev() {
        let _ = writeln!(text, "{}", one.text());
    }
    for note in frame.notes.iter().cloned().chain(frame.others_text()).chain(frame.missing()) {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// A line a thread.
fn csv(frame: &Frame) -> Result<String> {
    let threads: Vec<ThreadEntry> = sorted(&frame.threads).into_iter().filter_map(thread).collect();
    Columns::of(&threads)
        .left("program", |one| one.program.to_owned())
        .left("pid", |one| one.pid)
        .left("tid", |one| one.tid)
        .left("name", |one| one.name.to_owned())
        .left("group", |one| or_empty(one.group))
        .left("state", |one| one.state)
        .left("cpu", |one| or_empty(one.cpu))
        .left("llc", |one| or_empty(one.llc))
        .left("allowed_cpus", |one| one.allowed_cpus.to_owned())
        .left("would_be_allowed_cpus", |one| or_empty(one.would_be_allowed_cpus.clone()))
        .left("cpus_busy", |one| or_empty(one.figures.cpus_busy))
        .left("instructions_per_s", |one| or_empty(one.figures.instructions_per_s))
        .left("ipc", |one| or_empty(one.figures.ipc))
        .left("llc_mpki", |one| or_empty(one.figures.llc_mpki))
        .left("memory_bytes_per_s", |one| or_empty(one.figures.memory_bytes_per_s))
        .left("llc_occupancy_bytes", |one| or_empty(one.figures.llc_occupancy_bytes))
        .left("context_switches_per_s", |one| or_empty(one.figures.context_switches_per_s))
        .left("wakeups_per_s", |one| or_empty(one.figures.wakeups_per_s))
        .left("threads_waiting", |one| or_empty(one.figures.threads_waiting))
        .left("class", |one| or_empty(one.class))
        .left("solo_llc_mpki", |one| or_empty(one.solo_llc_mpki))
        .csv()
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    machine: &'a str,
    policy: Option<&'a str>,
    time_s: f64,
    interval_s: f64,
    programs: Vec<ProgramEntry<'a>>,
    threads: Vec<ThreadEntry<'a>>,
    groups: Vec<GroupEntry<'a>>,
    llcs: Vec<LlcEntry>,
    others: Option<Others>,
    decisions: Vec<&'a DecisionLine>,
    not_measured: &'a [&'static str],
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct ProgramEntry<'a> {
    program: &'a str,
    #[serde(flatten)]
    threads: ThreadsEntry,
    class: Option<&'static str>,
    solo_llc_mpki: Option<f64>,
}

/// A unit, pod, container or other cgroup.
#[derive(Debug, Serialize)]
struct GroupEntry<'a> {
    group: &'a str,
    #[serde(flatten)]
    threads: ThreadsEntry,
}

/// The threads of a program or a group.
#[derive(Debug, Serialize)]
struct ThreadsEntry {
    processes: usize,
    threads: usize,
    cpus: String,
    llcs: Vec<usize>,
    would_be_allowed_cpus: Option<String>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
struct ThreadEntry<'a> {
    program: &'a str,
    pid: u32,
    tid: u32,
    name: &'a str,
    group: Option<&'a str>,
    state: &'static str,
    cpu: Option<u32>,
    llc: Option<usize>,
    allowed_cpus: &'a str,
    would_be_allowed_cpus: Option<String>,
    #[serde(flatten)]
    figures: Figures,
    class: Option<&'static str>,
    solo_llc_mpki: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LlcEntry {
    llc: usize,
    cpus: String,
    threads: usize,
    #[serde(flatten)]
    figures: Figures,
}

impl Figures {
    /// With as many digits as tell something.
    fn rounded(&self) -> Self {
        let ratio = |value: Option<f64>| value.map(|value| round(value, 6));
        let whole = |value: Option<f64>| value.map(|value| round(value, 0));
        Self {
            cpus_busy: ratio(self.cpus_busy),
            instructions_per_s: whole(self.instructions_per_s),
            ipc: ratio(self.ipc),
            llc_mpki: ratio(self.llc_mpki),
            memory_bytes_per_s: whole(self.memory_bytes_per_s),
            llc_occupancy_bytes: whole(self.llc_occupancy_bytes),
            context_switches_per_s: whole(self.context_switches_per_s),
            wakeups_per_s: whole(self.wakeups_per_s),
            threads_waiting: ratio(self.threads_waiting),
        }
    }
}

impl<'a> Document<'a> {
    fn new(frame: &'a Frame, interval_s: f64) -> Self {
        Self::with_decisions(frame, interval_s, usize::MAX)
    }

    /// With so many decisions at most, the newest.
    fn with_decisions(frame: &'a Frame, interval_s: f64, most: usize) -> Self {
        let newest = &frame.decisions[..most.min(frame.decisions.len())];
        Self {
            machine: &frame.machine,
            policy: frame.policy.as_deref(),
            time_s: round(frame.time_s, 3),
            interval_s,
            programs: sorted(&frame.programs).into_iter().filter_map(program).collect(),
            threads: sorted(&frame.threads).into_iter().filter_map(thread).collect(),
            groups: sorted(&frame.groups).into_iter().filter_map(group).collect(),
            llcs: llcs(frame),
            others: frame.others.map(|others| Others {
                cpus_busy: round(others.cpus_busy, 6),
                cpus_stolen: round(others.cpus_stolen, 6),
                ..others
            }),
            decisions: newest.iter().rev().map(AsRef::as_ref).collect(),
            not_measured: &frame.not_measured,
            notes: &frame.notes,
        }
    }
}

fn program(line: &Line) -> Option<ProgramEntry<'_>> {
    Some(ProgramEntry {
        program: &line.program,
        threads: threads(line)?,
        class: line.class,
        solo_llc_mpki: line.solo_mpki.map(|mpki| round(mpki, 6)),
    })
}

fn group(line: &Line) -> Option<GroupEntry<'_>> {
    Some(GroupEntry { group: &line.program, threads: threads(line)? })
}

fn threads(line: &Line) -> Option<ThreadsEntry> {
    let Of::Program { processes, threads } = line.of else { return None };
    Some(ThreadsEntry {
        processes,
        threads,
        cpus: line.cpus.iter().copied().collect::<CpuSet>().to_string(),
        llcs: line.llcs.iter().copied().collect(),
        would_be_allowed_cpus: line.would.as_ref().map(CpuSet::to_string),
        figures: line.figures.rounded(),
    })
}

fn thread(line: &Line) -> Option<ThreadEntry<'_>> {
    let Of::Thread { pid, tid, name, running, allowed } = &line.of else { return None };
    Some(ThreadEntry {
        program: &line.program,
        pid: *pid,
        tid: *tid,
        name,
        group: line.group.as_deref(),
        state: if *running { "running" } else { "waiting" },
        cpu: line.cpus.first().map(|cpu| cpu.0),
        llc: line.llcs.first().copied(),
        allowed_cpus: allowed,
        would_be_allowed_cpus: line.would.as_ref().map(CpuSet::to_string),
        figures: line.figures.rounded(),
        class: line.class,
        solo_llc_mpki: line.solo_mpki.map(|mpki| round(mpki, 6)),
    })
}

fn llcs(frame: &Frame) -> Vec<LlcEntry> {
    let with_index = frame.tree.iter().filter_map(|line| Some((line.llc?, line)));
    let mut entries: Vec<LlcEntry> = with_index
        .map(|(llc, line)| LlcEntry {
            llc,
            cpus: line.cpus.to_string(),
            threads: line.threads,
            figures: line.figures.rounded(),
        })
        .collect();
    entries.sort_by_key(|entry| entry.llc);
    entries
}
