//! What the page shows: plain data, complete before a byte of HTML is written.

use corun_app::Timeline;

/// The whole report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// The command line that made it.
    pub(crate) command: String,
    /// corun's version.
    pub(crate) version: String,
    /// The machine.
    pub(crate) machine: Machine,
    /// The programs, in the order of the mix.
    pub(crate) programs: Vec<Program>,
    /// The policies and bounds, in the order shown.
    pub(crate) results: Vec<Entry>,
    /// How it was found out: experiment, model, data; label and text.
    pub(crate) facts: Vec<(String, String)>,
    /// What was read outside the measured range, in words; empty when nothing was.
    pub(crate) extrapolated: Vec<String>,
    /// Is no placement beyond the optimum and the worst?
    pub(crate) bounds_proven: bool,
}

/// The machine's tree, down to what can hold a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    /// The name by which it is asked for.
    pub(crate) name: String,
    /// One line for people.
    pub(crate) title: String,
    /// The packages in tree order.
    pub(crate) packages: Vec<Package>,
}

/// A package and its LLC domains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Package {
    /// What it is called.
    pub(crate) label: String,
    /// Its LLC domains.
    pub(crate) llcs: Vec<Llc>,
}

/// An LLC domain and its cores.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Llc {
    /// What it is called: `LLC 0`.
    pub(crate) label: String,
    /// Capacity in bytes, where known.
    pub(crate) bytes: Option<u64>,
    /// For each core its CPUs' numbers.
    pub(crate) cores: Vec<Vec<u32>>,
}

/// A program of the mix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    /// The name shown, unique in the report.
    pub(crate) name: String,
    /// Misses per 1000 instructions alone on the machine.
    pub(crate) solo_mpki: f64,
    /// Its miss-rate curve: cache bytes and MPKI, by rising size.
    pub(crate) curve: Vec<(f64, f64)>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A policy that ran in the simulator.
    Policy,
    /// The best placement there is.
    Optimal,
    /// The mean over all placements.
    Expectation,
    /// The worst placement there is.
    Worst,
}

/// A policy or bound and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// Mean of the programs' slowdowns.
    pub(crate) mean_slowdown: f64,
    /// Sum of 1 / slowdown, where known.
    pub(crate) stp: Option<f64>,
    /// Largest slowdown / smallest slowdown, where known.
    pub(crate) unfairness: Option<f64>,
    /// The largest slowdown of a program, where known.
    pub(crate) worst_slowdown: Option<f64>,
    /// Standard deviation / mean of completion time over seeds; none for bounds.
    pub(crate) spread: Option<f64>,
    /// Migrations a run, mean over seeds; none for bounds.
    pub(crate) migrations: Option<f64>,
    /// Mean slowdown above the optimum's, in percent; none where there is no optimum.
    pub(crate) above_optimal_percent: Option<f64>,
    /// Each program's slowdown; empty where there is none to show.
    pub(crate) slowdowns: Vec<f64>,
    /// The CPU on which each program sat (longest); empty where there is no one placement.
    pub(crate) placement: Vec<u32>,
    /// Who was where when; none for bounds.
    pub(crate) time_line: Option<Timeline>,
}

impl Report {
    /// The optimum's entry, where it was asked for.
    pub(crate) fn optimal(&self) -> Option<&Entry> {
        self.results.iter().find(|entry| entry.kind == Kind::Optimal)
    }

    /// The policy (not a bound) with the least mean slowdown; the first of equals.
    pub(crate) fn best_policy(&self) -> Option<&Entry> {
        self.results
            .iter()
            .filter(|entry| entry.kind == Kind::Policy)
            .min_by(|one, other| one.mean_slowdown.total_cmp(&other.mean_slowdown))
    }
}

/// A cache size for people: the largest binary unit in which it is at least 1.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), units[unit])
}
