//! A fleet as a TOML file. docs/fleet.md is its reference.

use std::path::PathBuf;

use corun_input::{Fault, PathStep, TomlFile};
use serde::Deserialize;

use crate::kind::Seats;
use crate::objective::Objective;

/// Nodes of a group, programs of an entry and CPUs of a program at most.
const MOST: u32 = 100_000;
/// All programs, or all nodes, of a file at most.
const MOST_OF_ALL: u64 = 1_000_000;

/// Nodes, and programs that ask for room on them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetDescription {
    /// Version of the schema: 1, also where absent.
    #[serde(default = "this_version")]
    pub version: u32,
    /// What a plan is judged by.
    #[serde(default)]
    pub objective: Objective,
    /// With the objective `machines`: no thread slower than this.
    pub slowdown_bound: Option<f64>,
    /// What a move must save for each of the program's CPUs, in the objective's unit.
    pub move_cost: Option<f64>,
    /// A table of solo figures, a profile or a folder of profiles; none: the shipped library.
    pub profiles: Option<PathBuf>,
    /// Groups of nodes that are alike.
    #[serde(default)]
    pub node: Vec<NodeGroup>,
    /// Programs.
    #[serde(default)]
    pub program: Vec<ProgramEntry>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeGroup {
    /// A preset, a machine file or `this`.
    pub machine: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The nodes are called `name-0`, `name-1` and so on; none: the machine's name.
    pub name: Option<String>,
    /// Memory of a node, instead of the machine file's.
    pub memory_gib: Option<f64>,
    /// Which CPUs are given out.
    #[serde(default)]
    pub seats: Seats,
}

/// A program as often as it is asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramEntry {
    /// The profile's name.
    pub profile: String,
    /// The name shown and referred to; none: the profile's.
    pub name: Option<String>,
    /// How many of it.
    #[serde(default = "one")]
    pub count: u32,
    /// CPUs of each, with a thread of the profile on each.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Memory of each.
    #[serde(default)]
    pub memory_gib: f64,
    /// So many of it on a node at most.
    pub most_per_node: Option<u32>,
    /// Names of programs that must not share a node with it.
    #[serde(default)]
    pub never_beside: Vec<String>,
    /// It must not be predicted to be slower than this.
    pub slowdown_bound: Option<f64>,
}

impl NodeGroup {
    /// So many nodes of a machine, named after it, with the machine file's memory and a CPU for each core.
    pub fn of(machine: &str, count: u32) -> Self {
        let machine = machine.to_owned();
        Self { machine, count, name: None, memory_gib: None, seats: Seats::Cores }
    }
}

impl ProgramEntry {
    /// The name shown.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.profile)
    }
}

fn this_version() -> u32 {
    FleetDescription::VERSION
}

fn one() -> u32 {
    1
}

impl TomlFile for FleetDescription {
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Fault> {
        if self.node.is_empty() {
            return Err(fault(&[PathStep::Key("node")], "found none, expected at least one"));
        }
        slowdown(&[PathStep::Key("slowdown_bound")], self.slowdown_bound)?;
        if self.objective == Objective::Machines && self.slowdown_bound.is_none() {
            let why = "the objective \"machines\" needs slowdown_bound, a number above 1";
            return Err(fault(&[PathStep::Key("objective")], why));
        }
        if let Some(cost) = self.move_cost.filter(|cost| !(0.0..=1e6).contains(cost)) {
            let why = format!("found {cost}, expected a number from 0 to 1e6");
            return Err(fault(&[PathStep::Key("move_cost")], why));
        }
        for (index, group) in self.node.iter().enumerate() {
            name("node", index, group.name.as_deref())?;
            count("node", index, "count", group.count)?;
            memory("node", index, group.memory_gib.unwrap_or(0.0))?;
        }
        for (index, entry) in self.program.iter().enumerate() {
            self.check_program(index, entry)?;
        }
        let sum = |all: &mut dyn Iterator<Item = u32>| all.map(u64::from).sum::<u64>();
        for (key, all) in [
            ("node", sum(&mut self.node.iter().map(|group| group.count))),
            ("program", sum(&mut self.program.iter().map(|entry| entry.count))),
        ] {
            if all > MOST_OF_ALL {
                let why = format!("found {all} in all, expected at most {MOST_OF_ALL}");
                return Err(fault(&[PathStep::Key(key)], why));
            }
        }
        Ok(())
    }
}

impl FleetDescription {
    fn check_program(&self, index: usize, entry: &ProgramEntry) -> Result<(), Fault> {
        let at = |key| [PathStep::Key("program"), PathStep::Index(index), PathStep::Key(key)];
        name("program", index, entry.name.as_deref())?;
        count("program", index, "count", entry.count)?;
        count("program", index, "cpus", entry.cpus)?;
        memory("program", index, entry.memory_gib)?;
        if let Some(most) = entry.most_per_node {
            count("program", index, "most_per_node", most)?;
        }
        slowdown(&at("slowdown_bound"), entry.slowdown_bound)?;
        let names = || self.program.iter().map(ProgramEntry::shown);
        if names().take(index).any(|name| name == entry.shown()) {
            let why = format!("`{}` stands twice: give one of them a name", entry.shown());
            return Err(fault(&at("name"), why));
        }
        for other in &entry.never_beside {
            if !names().any(|name| name == other) {
                let why = format!("found `{other}`, expected the name of a program of this file");
                return Err(fault(&at("never_beside"), why));
            }
        }
        Ok(())
    }
}

fn fault(path: &[PathStep], why: impl Into<String>) -> Fault {
    Fault { path: path.to_vec(), why: why.into() }
}

/// Names are in tables, and in the names of nodes.
fn name(table: &'static str, index: usize, found: Option<&str>) -> Result<(), Fault> {
    let path = [PathStep::Key(table), PathStep::Index(index), PathStep::Key("name")];
    match found {
        Some(name) if name.trim().is_empty() => {
            Err(fault(&path, "found an empty name, expected one or no such key"))
        }
        Some(name) if name.chars().any(char::is_control) => {
            Err(fault(&path, format!("found {name:?}, expected a name without control characters")))
        }
        _ => Ok(()),
    }
}

fn count(table: &'static str, index: usize, key: &'static str, found: u32) -> Result<(), Fault> {
    if (1..=MOST).contains(&found) {
        return Ok(());
    }
    let path = [PathStep::Key(table), PathStep::Index(index), PathStep::Key(key)];
    Err(fault(&path, format!("found {found}, expected 1 to {MOST}")))
}

fn memory(table: &'static str, index: usize, found: f64) -> Result<(), Fault> {
    if (0.0..=1e9).contains(&found) {
        return Ok(());
    }
    let path = [PathStep::Key(table), PathStep::Index(index), PathStep::Key("memory_gib")];
    Err(fault(&path, format!("found {found:?}, expected a number from 0 to 1e9")))
}

fn slowdown(path: &[PathStep], found: Option<f64>) -> Result<(), Fault> {
    match found {
        Some(found) if !(found > 1.0 && found <= 1e6) => {
            Err(fault(path, format!("found {found}, expected a number above 1")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, line: u64, word: &str) {
        let error = FleetDescription::from_toml(text, "fleet.toml").unwrap_err();
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }

    #[test]
    fn a_small_fleet_is_read() {
        let text = "[[node]]\nmachine = \"xeon-x5365\"\ncount = 2\n[[program]]\nprofile = \"xz\"\ncpus = 2\n";
        let fleet = FleetDescription::from_toml(text, "fleet.toml").unwrap();
        assert_eq!(fleet.objective, Objective::MeanSlowdown);
        assert_eq!((fleet.node[0].count, fleet.program[0].cpus), (2, 2));
        assert_eq!(fleet.program[0].count, 1);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let node = "[[node]]\nmachine = \"m\"\n";
        refused("version = 2\n", 1, "expected 1");
        refused(&format!("{node}count = 0\n"), 3, "node[0].count");
        refused(&format!("{node}memory = 3\n"), 3, "unknown field");
        refused(&format!("{node}memory_gib = 1e300\n"), 3, "found 1e300");
        refused(&format!("{node}name = \"a\\nb\"\n"), 3, "control characters");
        refused(&format!("{node}name = \" \"\n"), 3, "empty name");
        refused(&format!("objective = \"machines\"\n{node}"), 1, "slowdown_bound");
        refused(&format!("slowdown_bound = 1.0\n{node}"), 1, "above 1");
        let program = "[[program]]\nprofile = \"a\"\n";
        refused(&format!("{node}{program}never_beside = [\"b\"]\n"), 5, "`b`");
        refused(&format!("{node}{program}{program}"), 5, "twice");
        refused(&format!("{node}{program}memory_gib = nan\n"), 5, "memory_gib");
    }

    #[test]
    fn a_fleet_without_nodes_is_refused() {
        assert!(FleetDescription::from_toml("", "fleet.toml").is_err());
    }
}
