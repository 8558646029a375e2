//! `corun stat`: what threads do, sample by sample.

mod by_count;
mod of_scheduler;
mod rows;
mod watch;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use corun_app::tell;
use corun_linux::Roots;
use corun_linux::perf::{
    EventError, OverflowError, OverflowSampling, PerfEvent, Pmus, Sampling, counter_advice,
};
use corun_linux::procfs::CpuUseSnapshot;

use crate::cli::{PerName, StatArgs};
use crate::failure::{Failure, Outcome};
use corun_report::check_target;
use of_scheduler::OfScheduler;
use rows::{Column, Rows};

/// Counted where nothing else is asked for.
const HARDWARE: [&str; 4] = ["instructions", "cycles", "cache-misses", "branches"];
const SOFTWARE: [&str; 4] = ["task-clock", "context-switches", "cpu-migrations", "page-faults"];

pub(super) fn run(arguments: &StatArgs) -> Outcome<String> {
    let roots = Roots::default();
    let pmus = Pmus::read(&roots);
    if arguments.list {
        let known = pmus.known_names();
        let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
        names.extend(of_scheduler::NAMES);
        names.sort_unstable();
        return Ok(names.iter().map(|name| format!("{name}\n")).collect());
    }
    if let Some(path) = &arguments.output {
        check_target(path)?;
    }
    let mut names = names(arguments, &pmus)?;
    let by_time = !arguments.all_cpus && arguments.sample_every.is_none();
    let of_scheduler = OfScheduler::take_from(&mut names, by_time)?;
    if names.is_empty() {
        names.push("task-clock".to_owned());
    }
    let sampling = sampling(&names, &pmus, &roots)?;
    let by_count = by_count(arguments, &sampling, &roots)?;
    let is_given = !arguments.command.is_empty() || !arguments.pid.is_empty() || arguments.all_cpus;
    let pids = if is_given { arguments.pid.clone() } else { busiest(&roots)? };
    let columns = sampling
        .events()
        .iter()
        .map(|event| Column { name: event.name.clone(), is_time: event.is_time });
    let columns = columns.chain(of_scheduler.columns()).collect();
    let rows = Rows::new(sink(arguments)?, arguments.format, columns, arguments.per.clone())
        .without_idle(!is_given);
    watch::run(arguments, &pids, roots, sampling, (of_scheduler, by_count), rows)
}

/// Processes that are counted where nobody is named, at most.
const BUSIEST: usize = 5;

/// How long all processes are looked at to find the busiest.
const LOOK: Duration = Duration::from_millis(300);

/// The processes of this user that use the CPUs most, for root of all users, and a line that names them.
fn busiest(roots: &Roots) -> Outcome<Vec<u32>> {
    let take = || {
        CpuUseSnapshot::take(roots, super::watching::own_user())
            .context("cannot list the processes")
    };
    let before = take()?;
    std::thread::sleep(LOOK);
    let own = std::process::id();
    let used = take()?.since(&before);
    let busy: Vec<_> = used
        .iter()
        .filter(|one| one.cpu_ticks > 0 && one.process.pid != own)
        .take(BUSIEST)
        .map(|one| &one.process)
        .collect();
    if busy.is_empty() {
        return Err(Failure::input("no process here uses a CPU now")
            .hint("corun stat -- PROGRAM")
            .hint("corun stat -p PID")
            .hint("corun stat -a"));
    }
    let names = busy.iter().map(|one| format!("{} ({})", one.name, one.pid));
    note(&format!("counting the busiest processes: {}", names.collect::<Vec<_>>().join(", ")));
    Ok(busy.iter().map(|one| one.pid).collect())
}

/// A line for people beside the table.
fn note(text: &str) {
    tell(format_args!("note: {text}"));
}

fn sampling(names: &[String], pmus: &Pmus, roots: &Roots) -> Outcome<Sampling> {
    let events = names.iter().map(|name| event(pmus, name)).collect::<Outcome<Vec<PerfEvent>>>()?;
    let sampling = Sampling::new(events).map_err(|(event, error)| {
        let advice = counter_advice(roots, &error);
        let failure = Failure::input(format!("`{}` cannot be counted: {error}", event.name));
        advice.into_iter().fold(failure, Failure::hint)
    })?;
    if sampling.is_user_only() {
        note("what the kernel does for programs is not counted: it needs root or CAP_PERFMON");
    }
    Ok(sampling)
}

/// None where samples are taken by time.
fn by_count(
    arguments: &StatArgs,
    sampling: &Sampling,
    roots: &Roots,
) -> Outcome<Option<OverflowSampling>> {
    let Some((name, every)) = &arguments.sample_every else { return Ok(None) };
    let events = sampling.events();
    let Some(by) = events.iter().position(|event| event.name == *name) else {
        return Err(Failure::input(format!("`{name}` is not counted")));
    };
    OverflowSampling::new(events, by, *every).map(Some).map_err(|error| {
        let advice = match &error {
            OverflowError::Refused { source, .. } => counter_advice(roots, source),
            OverflowError::NoOverflow { .. } => {
                Some("--sample-every task-clock=1000000".to_owned())
            }
            OverflowError::TooOften { .. } | OverflowError::TooMany { .. } => None,
        };
        advice.into_iter().fold(Failure::input(&error), Failure::hint)
    })
}

fn names(arguments: &StatArgs, pmus: &Pmus) -> Outcome<Vec<String>> {
    if let Some(empty) = arguments.events.iter().find(|list| split(list).is_empty()) {
        let message = format!("--events: found {empty:?}, expected the name of an event");
        return Err(Failure::input(message).hint("corun stat --list"));
    }
    let mut names: Vec<String> =
        arguments.events.iter().flat_map(|list| split(list)).map(str::to_owned).collect();
    if names.is_empty() {
        let default = if pmus.has_hardware() {
            HARDWARE
        } else {
            note(
                "no hardware counters here: counting what the kernel counts itself (a virtual \
                 machine has them only where its host passes them on)",
            );
            SOFTWARE
        };
        names = default.map(str::to_owned).to_vec();
    }
    if let Some((by, _)) = &arguments.sample_every
        && !names.contains(by)
    {
        names.insert(0, by.clone());
    }
    // What rates are put in relation to has to be counted, too.
    for per in &arguments.per {
        let base = match per {
            PerName::Second => continue,
            PerName::Instructions => "instructions",
            PerName::Cycles => "cycles",
        };
        if !names.iter().any(|name| rows::base(name) == base) {
            names.push(base.to_owned());
        }
    }
    Ok(names)
}

/// Commas part events, but also the parts of one between its slashes.
fn split(list: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '/' => inside = !inside,
            ',' if !inside => {
                names.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    names.push(&list[start..]);
    names.into_iter().map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn event(pmus: &Pmus, name: &str) -> Outcome<PerfEvent> {
    pmus.event(name).map_err(|error| match &error {
        EventError::Unknown { name } => {
            let known = pmus.known_names();
            let known = known.iter().map(String::as_str).chain(of_scheduler::NAMES);
            Failure::unknown("event", name, known).hint("corun stat --list")
        }
        EventError::NoHardware { .. } => {
            Failure::input(&error).hint(format!("-e {}", SOFTWARE.join(",")))
        }
        _ => Failure::input(&error).hint("corun stat --list"),
    })
}

/// Where the table goes: a program that is started has stdout.
fn sink(arguments: &StatArgs) -> Outcome<Box<dyn io::Write>> {
    Ok(match &arguments.output {
        Some(path) => {
            let file =
                File::create(path).with_context(|| format!("cannot write {}", path.display()));
            Box::new(BufWriter::new(NamedFile { file: file?, path: path.clone() }))
        }
        None if arguments.command.is_empty() => Box::new(io::stdout()),
        None => Box::new(BufWriter::new(io::stderr())),
    })
}

/// A file whose name stands in its errors.
struct NamedFile {
    file: File,
    path: PathBuf,
}

impl NamedFile {
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", self.path.display()))
    }
}

impl io::Write for NamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        written.map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(|error| self.named(error))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_full_disk_is_told_with_the_file() {
        let path = PathBuf::from("/dev/full");
        let file = File::options().write(true).open(&path).unwrap();
        let mut out = BufWriter::new(NamedFile { file, path });
        let error = out.write_all(b"a line\n").and_then(|()| out.flush()).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
    }

    #[test]
    fn commas_within_slashes_part_nothing() {
        assert_eq!(split("a,cpu/event=1,umask=2/u, b,"), ["a", "cpu/event=1,umask=2/u", "b"]);
        assert_eq!(split("a/b,c"), ["a/b,c"]);
    }
}
