//! The columns of the tables: how each is headed, written, sorted, and which fit.

use std::cmp::Ordering;

use corun_machine::CpuSet;

use crate::frame::{Frame, Line, Of};
use crate::state::Rows;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Program,
    Group,
    Threads,
    Thread,
    Cpu,
    Where,
    Llc,
    Mpki,
    Ipc,
    Instructions,
    Memory,
    Occupancy,
    Switches,
    WakeUps,
    Waiting,
    Class,
    Solo,
    Would,
}

/// Least width of the programs' names; they get what is left.
const LEAST_NAME: u16 = 8;
const MOST_NAME: u16 = 32;
/// A pod has a long name.
const MOST_GROUP: u16 = 44;

/// Of both tables, in the order on the screen.
const PROGRAMS: [Column; 16] = [
    Column::Program,
    Column::Threads,
    Column::Cpu,
    Column::Where,
    Column::Llc,
    Column::Mpki,
    Column::Ipc,
    Column::Instructions,
    Column::Memory,
    Column::Occupancy,
    Column::Switches,
    Column::WakeUps,
    Column::Waiting,
    Column::Class,
    Column::Solo,
    Column::Would,
];

/// From the one that a narrow terminal keeps longest to the one that goes first.
const BY_WORTH: [Column; 17] = [
    Column::Program,
    Column::Thread,
    Column::Cpu,
    Column::Where,
    Column::Mpki,
    Column::Ipc,
    Column::Would,
    Column::Waiting,
    Column::Memory,
    Column::Occupancy,
    Column::Class,
    Column::Llc,
    Column::Instructions,
    Column::Solo,
    Column::Threads,
    Column::Switches,
    Column::WakeUps,
];

/// A column and its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) column: Column,
    pub(crate) width: u16,
}

impl Column {
    /// All columns of a table, in order. `policy`: is there one?
    pub(crate) fn all(rows: Rows, policy: bool) -> Vec<Self> {
        let of_table = |column: Self| match (column, rows) {
            (Self::Program, Rows::Groups) => Some(Self::Group),
            (Self::Threads, Rows::Threads) => Some(Self::Thread),
            // Programs of a group have profiles of their own.
            (Self::Class | Self::Solo, Rows::Groups) => None,
            (Self::Would, _) if !policy => None,
            (other, _) => Some(other),
        };
        PROGRAMS.into_iter().filter_map(of_table).collect()
    }

    /// Those that fit into a width, with one blank between two. What nothing here measures goes first.
    pub(crate) fn fitting(rows: Rows, frame: &Frame, width: u16) -> Vec<Fitted> {
        let all = Self::all(rows, frame.policy.is_some());
        let least = if rows == Rows::Groups { LEAST_NAME.max(width / 3) } else { LEAST_NAME };
        let mut left = width.saturating_sub(least);
        let mut kept = vec![Self::Program, Self::Group];
        let is_measured = |column: &&Self| {
            !column.measured_as().is_some_and(|name| frame.not_measured.contains(&name))
        };
        let (measured, unmeasured): (Vec<&Self>, Vec<&Self>) = BY_WORTH
            .iter()
            .filter(|column| !column.is_name() && all.contains(column))
            .partition(is_measured);
        for &column in measured.into_iter().chain(unmeasured) {
            let needs = column.width() + 1;
            // The scheduler's figures are worth less than twice the least of a name.
            let name = if column.is_of_scheduler() { LEAST_NAME } else { 0 };
            // What does not fit is left out, and so is all that is worth less.
            if needs + name > left {
                break;
            }
            left -= needs;
            kept.push(column);
        }
        let most = if rows == Rows::Groups { MOST_GROUP } else { MOST_NAME };
        let name = (least + left).min(most);
        all.into_iter()
            .filter(|column| kept.contains(column))
            .map(|column| Fitted {
                column,
                width: if column.is_name() { name } else { column.width() },
            })
            .collect()
    }

    fn width(self) -> u16 {
        match self {
            Self::Program | Self::Group => LEAST_NAME,
            Self::Threads | Self::Llc => 5,
            Self::Thread | Self::Where | Self::Would => 8,
            Self::Cpu => 6,
            Self::Ipc => 5,
            Self::Mpki => 6,
            Self::Solo | Self::WakeUps => 7,
            Self::Waiting => 5,
            Self::Instructions | Self::Memory | Self::Switches => 8,
            Self::Occupancy => 9,
            Self::Class => 13,
        }
    }

    fn is_of_scheduler(self) -> bool {
        matches!(self, Self::Switches | Self::WakeUps)
    }

    /// What a frame calls it that tells which figures nothing here measures.
    fn measured_as(self) -> Option<&'static str> {
        match self {
            Self::Ipc => Some("IPC"),
            Self::Mpki => Some("MPKI"),
            Self::Instructions => Some("instructions"),
            Self::Memory => Some("memory traffic"),
            Self::Occupancy => Some("LLC occupancy"),
            _ => None,
        }
    }

    /// Figures are set to the right.
    pub(crate) fn is_figure(self) -> bool {
        !matches!(self, Self::Program | Self::Group | Self::Class)
    }

    /// The first column, which takes the width that the others leave.
    pub(crate) fn is_name(self) -> bool {
        matches!(self, Self::Program | Self::Group)
    }

    pub(crate) fn head(self) -> &'static str {
        match self {
            Self::Program => "PROGRAM",
            Self::Group => "UNIT OR POD",
            Self::Threads => "THR",
            Self::Thread => "TID",
            Self::Cpu => "CPU%",
            Self::Where => "ON CPU",
            Self::Llc => "LLC",
            Self::Mpki => "MPKI",
            Self::Ipc => "IPC",
            Self::Instructions => "INSTR/s",
            Self::Memory => "MEM B/s",
            Self::Occupancy => "IN LLC",
            Self::Switches => "SWITCH/s",
            Self::WakeUps => "WAKES/s",
            Self::Waiting => "WAIT%",
            Self::Class => "CLASS",
            Self::Solo => "ALONE",
            Self::Would => "WOULD",
        }
    }

    /// What the help says of it.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Group => "unit, pod, container or cgroup",
            Self::Threads => "threads",
            Self::Thread => "the thread's number",
            Self::Cpu => "CPU time; 100 is one CPU",
            Self::Where => "CPUs it runs or ran last on",
            Self::Llc => "last-level caches of these",
            Self::Mpki => "LLC misses/1000 instructions",
            Self::Ipc => "instructions per cycle",
            Self::Instructions => "instructions a second",
            Self::Memory => "memory traffic, bytes/s",
            Self::Occupancy => "bytes it holds in the LLC",
            Self::Switches => "context switches a second",
            Self::WakeUps => "wake-ups a second",
            Self::Waiting => "waits for a CPU; 100: a thread",
            Self::Class => "by its stored profile",
            Self::Solo => "MPKI alone, by its profile",
            Self::Would => "CPUs the policy would give it",
        }
    }

    /// A line's field; `-` for what is unknown.
    pub(crate) fn text(self, line: &Line) -> String {
        let of = &line.figures;
        let figure = |value: Option<f64>, write: fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), write)
        };
        match self {
            Self::Program | Self::Group => line.program.clone(),
            Self::Threads => match line.of {
                Of::Program { threads, .. } => threads.to_string(),
                Of::Thread { .. } => "1".to_owned(),
            },
            Self::Thread => line.tid().map_or_else(|| "-".to_owned(), |tid| tid.to_string()),
            Self::Cpu => figure(of.cpus_busy, |busy| format!("{:.1}", 100.0 * busy)),
            Self::Where => line.cpus.iter().copied().collect::<CpuSet>().to_string(),
            Self::Llc => {
                let llcs = line.llcs.iter().map(|&llc| corun_machine::CpuId(llc as u32));
                llcs.collect::<CpuSet>().to_string()
            }
            Self::Mpki => figure(of.llc_mpki, short),
            Self::Ipc => figure(of.ipc, |ipc| format!("{ipc:.2}")),
            Self::Instructions => figure(of.instructions_per_s, |rate| scaled(rate, 1000.0, "")),
            Self::Memory => figure(of.memory_bytes_per_s, |rate| scaled(rate, 1000.0, "")),
            Self::Occupancy => figure(of.llc_occupancy_bytes, |held| scaled(held, 1024.0, "i")),
            Self::Switches => figure(of.context_switches_per_s, |rate| scaled(rate, 1000.0, "")),
            Self::WakeUps => figure(of.wakeups_per_s, |rate| scaled(rate, 1000.0, "")),
            Self::Waiting => {
                figure(of.threads_waiting, |waiting| format!("{:.1}", 100.0 * waiting))
            }
            Self::Class => line.class.unwrap_or("-").to_owned(),
            Self::Solo => figure(line.solo_mpki, short),
            Self::Would => line.would.as_ref().map(CpuSet::to_string).unwrap_or_default(),
        }
    }

    /// Which of two lines comes first. Figures begin with the largest; what is unknown comes last
    /// either way, the busiest first; equals are in the order of their names and numbers.
    pub(crate) fn order(self, one: &Line, other: &Line, reverse: bool) -> Ordering {
        let by = |of: fn(&Line) -> Option<f64>| match (of(one), of(other)) {
            (Some(a), Some(b)) if reverse => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (None, None) if self != Self::Cpu => Self::Cpu.order(one, other, false),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let name = |of: Ordering| if reverse { of.reverse() } else { of };
        let first = match self {
            Self::Program | Self::Group => name(one.program.cmp(&other.program)),
            Self::Threads => by(|line| match line.of {
                Of::Program { threads, .. } => Some(threads as f64),
                Of::Thread { .. } => None,
            }),
            Self::Thread => name(one.tid().cmp(&other.tid())),
            Self::Cpu => by(|line| line.figures.cpus_busy),
            Self::Where => name(one.cpus.cmp(&other.cpus)),
            Self::Llc => name(one.llcs.cmp(&other.llcs)),
            Self::Mpki => by(|line| line.figures.llc_mpki),
            Self::Ipc => by(|line| line.figures.ipc),
            Self::Instructions => by(|line| line.figures.instructions_per_s),
            Self::Memory => by(|line| line.figures.memory_bytes_per_s),
            Self::Occupancy => by(|line| line.figures.llc_occupancy_bytes),
            Self::Switches => by(|line| line.figures.context_switches_per_s),
            Self::WakeUps => by(|line| line.figures.wakeups_per_s),
            Self::Waiting => by(|line| line.figures.threads_waiting),
            Self::Class => name(one.class.is_none().cmp(&other.class.is_none()))
                .then(name(one.class.cmp(&other.class))),
            Self::Solo => by(|line| line.solo_mpki),
            Self::Would => name(other.would.is_some().cmp(&one.would.is_some())),
        };
        first
            .then_with(|| one.program.cmp(&other.program))
            .then_with(|| one.tid().cmp(&other.tid()))
    }
}

/// Three digits or so.
fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// With a letter for thousands, millions and so on.
pub(crate) fn scaled(value: f64, step: f64, after: &str) -> String {
    // Of 1000 and of 1024.
    let letters = ["", if after.is_empty() { "k" } else { "K" }, "M", "G", "T"];
    let (mut value, mut place) = (value, 0);
    while value >= 999.5 && place + 1 < letters.len() {
        value /= step;
        place += 1;
    }
    let letter = letters[place];
    let after = if place == 0 { "" } else { after };
    let digits = if value >= 100.0 || place == 0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.digits$}{letter}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let write = |value| scaled(value, 1000.0, "");
        let written = [0.0, 7.4, 999.4, 1234.0, 99_960.0, 2.5e9, 3e15].map(write);
        assert_eq!(written, ["0", "7", "999", "1.23k", "100.0k", "2.50G", "3000T"]);
        let held = [2048.0, 12.5 * 1048576.0].map(|bytes| scaled(bytes, 1024.0, "i"));
        assert_eq!(held, ["2.00Ki", "12.5Mi"]);
    }

    fn with_policy(policy: bool) -> Frame {
        Frame { policy: policy.then(|| "di".to_owned()), ..Frame::default() }
    }

    #[test]
    fn columns_fit_any_width_and_come_back_one_by_one() {
        let mut before = 0;
        for width in 0..=200 {
            for (rows, policy) in [
                (Rows::Programs, true),
                (Rows::Threads, true),
                (Rows::Threads, false),
                (Rows::Groups, true),
            ] {
                let fitted = Column::fitting(rows, &with_policy(policy), width);
                assert!(fitted[0].column.is_name());
                let total: u16 = fitted.iter().map(|one| one.width + 1).sum::<u16>() - 1;
                assert!(total <= width.max(LEAST_NAME), "{width}: {fitted:?}");
            }
            let count = Column::fitting(Rows::Programs, &with_policy(true), width).len();
            assert!(count >= before, "{width}");
            before = count;
        }
        assert_eq!(before, Column::all(Rows::Programs, true).len());
    }

    #[test]
    fn what_is_measured_nowhere_makes_room_for_what_is() {
        let all = ["IPC", "MPKI", "instructions", "memory traffic", "LLC occupancy"];
        let frame = Frame { not_measured: all.to_vec(), ..Frame::default() };
        let heads = |width| -> Vec<&str> {
            let fitted = Column::fitting(Rows::Programs, &frame, width);
            fitted.iter().map(|one| one.column.head()).collect()
        };
        let measured =
            ["PROGRAM", "THR", "CPU%", "ON CPU", "LLC", "SWITCH/s", "WAIT%", "CLASS", "ALONE"];
        assert_eq!(heads(88), measured);
        assert_eq!(heads(200).len(), Column::all(Rows::Programs, false).len());
    }
}
