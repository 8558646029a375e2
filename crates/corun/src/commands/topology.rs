//! `corun topology`: the machine's tree.

use std::fmt::Write as _;
use std::path::Path;

use corun_app::find_machine;
use corun_linux::{Reach, Roots};
use corun_machine::{DiscoverError, Machine, discover, preset, presets};
use serde::Serialize;

use crate::cli::{TopologyArgs, TreeFormat};
use crate::failure::{Failure, Outcome};
use corun_report::{Columns, json};

pub(super) fn run(arguments: &TopologyArgs) -> Outcome<String> {
    if arguments.list {
        return list(arguments.format);
    }
    let reach = reach(arguments);
    let machine = match (&arguments.machine, &arguments.root) {
        (Some(name), _) => find_machine(name)?,
        (None, Some(root)) => discovered(root)?,
        (None, None) => discovered(Path::new("/"))?,
    };
    match arguments.format {
        TreeFormat::Text => {
            let mut text = machine.tree_text(!arguments.full);
            if let Some(reach) = reach.filter(Reach::is_limited) {
                let _ = writeln!(text, "\nThis process may use {reach}.");
            }
            Ok(text)
        }
        TreeFormat::Json => json(&Drawn { machine: machine.document(), may_use: reach }),
        // As `--machine this` has it: whoever reads a file without figures of memory would predict that nobody shares any.
        TreeFormat::Toml if arguments.machine.is_none() => {
            Ok(machine.with_assumed_memory().map_err(Failure::failed)?.to_toml())
        }
        TreeFormat::Toml => Ok(machine.to_toml()),
    }
}

/// What this process may use, where the machine is this one or one that was captured with it.
fn reach(arguments: &TopologyArgs) -> Option<Reach> {
    match (&arguments.machine, &arguments.root) {
        (Some(_), _) => None,
        (None, Some(root)) => Reach::of_self(&Roots::below(root)),
        (None, None) => Reach::of_self(&Roots::default()),
    }
}

/// The document.
#[derive(Serialize)]
struct Drawn<T: Serialize> {
    #[serde(flatten)]
    machine: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    may_use: Option<Reach>,
}

fn discovered(root: &Path) -> Outcome<Machine> {
    discover(root).map_err(|error| no_machine(root, error))
}

/// Why a folder that was given as a root is none.
pub(super) fn no_machine(root: &Path, error: DiscoverError) -> Failure {
    let failure = match error {
        DiscoverError::NoMachine { .. } => Failure::input(error),
        other => Failure::input(format!("{}: {other}", root.display())),
    };
    failure.hint("a folder with sys/ and proc/ in it")
}

#[derive(Debug, Serialize)]
struct Listing {
    machines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    title: String,
    packages: usize,
    llcs: usize,
    cores: usize,
    cpus: usize,
    numa_nodes: usize,
}

fn list(format: TreeFormat) -> Outcome<String> {
    let machines = presets()
        .into_iter()
        .map(|name| {
            let machine = preset(name)?;
            Ok(Line {
                name: name.to_owned(),
                title: machine.title().to_owned(),
                packages: machine.packages().len(),
                llcs: machine.llcs().len(),
                cores: machine.cores().len(),
                cpus: machine.cpus().len(),
                numa_nodes: machine.nodes().len(),
            })
        })
        .collect::<Outcome<Vec<Line>>>()?;
    match format {
        TreeFormat::Json => json(&Listing { machines }),
        TreeFormat::Text => Ok(listed(&machines)),
        TreeFormat::Toml => Err(Failure::input("--list is written as text or json, not as toml")
            .hint("corun topology --machine NAME --format toml")),
    }
}

fn listed(machines: &[Line]) -> String {
    Columns::of(machines)
        .left("machine", |line| line.name.clone())
        .right("packages", |line| line.packages)
        .right("LLCs", |line| line.llcs)
        .right("cores", |line| line.cores)
        .right("CPUs", |line| line.cpus)
        .right("nodes", |line| line.numa_nodes)
        .left("", |line| line.title.clone())
        .table()
}
