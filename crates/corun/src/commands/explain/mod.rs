//! `corun explain`: why a running program is slow.

mod cache;
mod text;
mod wakers;

use std::thread;
use std::time::{Duration, Instant};

use corun_app::{CacheFacts, Cancel, Diagnosis, ProgramFacts, ProgramObserver, diagnose, tell};
use corun_hosting::{HostBuilder, HostSettings, Look};
use corun_linux::procfs::Process;
use corun_linux::{Roots, TaskFacts};
use corun_live::{ProcessSelector, Processes, Rule, Scanner as _, Target};
use corun_policy::{CounterKind, Nanoseconds};
use serde::Serialize;

use super::watching::everybody;
use crate::cli::{DocumentFormat, ExplainArgs};
use crate::failure::{Failure, Outcome};
use corun_report::json;

/// Between two samples of what threads do.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// Whoever waits for so many seconds or more is told how long.
const LONG_S: f64 = 5.0;

/// Processes that are offered where a name is no unit's.
const MOST_OFFERED: usize = 5;

/// What is counted where something counts.
const COUNTERS: [CounterKind; 3] =
    [CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses];

#[derive(Debug, Serialize)]
struct Document {
    #[serde(flatten)]
    diagnosis: Diagnosis,
    cannot_tell: bool,
    facts: ProgramFacts,
}

pub(super) fn run(arguments: &ExplainArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal()?;
    let facts = facts(arguments, &cancel)?;
    let diagnosis = diagnose(&facts);
    match arguments.format {
        DocumentFormat::Text => Ok(text::text(&facts, &diagnosis)),
        DocumentFormat::Json => {
            json(&Document { cannot_tell: diagnosis.cannot_tell(), diagnosis, facts })
        }
    }
}

fn facts(arguments: &ExplainArgs, cancel: &Cancel) -> Outcome<ProgramFacts> {
    let roots = Roots::default();
    let target = target(arguments)?;
    let threads = threads(&roots, &target)?;
    let pids: Vec<u32> = threads.iter().map(|one| one.task.pid).collect();
    let tids: Vec<u32> = threads.iter().map(|one| one.task.tid).collect();
    let program = name(arguments, &threads);
    let host_settings = HostSettings {
        profiles: arguments.profiles.clone(),
        machine: arguments.machine.clone(),
        ..HostSettings::that_looks(arguments.counters.into())
    };
    let ground = HostBuilder::new(&host_settings)?;
    if let Some(profile) = &arguments.profile {
        ground.library().get(profile)?;
    }
    let look =
        Look { every: Nanoseconds::from_secs_f64(arguments.duration), counters: COUNTERS.to_vec() };
    let stored: Vec<&str> = arguments.profile.as_deref().into_iter().collect();
    // A process that both mean is the first's.
    let targets = vec![target, everybody(None)];
    let mut host = ground.host_that_looks(&host_settings, targets, &stored, &look)?;
    host.tick().map_err(Failure::live)?;
    // On one LLC nobody's partner is on another.
    let has_several_llcs = ground.machine().llcs().len() > 1;
    let watch =
        has_several_llcs.then(|| wakers::Watch::start(&roots, &tids, &host, ground.machine()));
    let mut observer = ProgramObserver::start(&roots, ground.machine(), threads)?;
    if arguments.duration >= LONG_S {
        tell(format!("looking at {program} for {} s", arguments.duration));
    }
    let end = Instant::now() + Duration::from_secs_f64(arguments.duration);
    while Instant::now() < end {
        cancel.check()?;
        observer.sample();
        thread::sleep(SAMPLE_EVERY.min(end.saturating_duration_since(Instant::now())));
    }
    let counted = watch.map(|watch| watch.and_then(|watch| Ok((watch.read()?, watch))));
    host.tick().map_err(Failure::live)?;
    // What the model says takes its time, in which nobody looks.
    let seen = observer.finish(ground.machine(), program, CacheFacts::default())?;
    let counted = counted.map(|counted| {
        counted.map(|(counts, watch)| watch.counted(&counts, &pids, &host, ground.machine()))
    });
    Ok(ProgramFacts {
        cache: cache::facts(&host, &ground, &pids, arguments)?,
        wakeups: wakers::with(seen.wakeups.clone(), counted),
        ..seen
    })
}

/// Whom it is about.
fn target(arguments: &ExplainArgs) -> Outcome<Target> {
    let rule = match (&arguments.target, &arguments.cgroup) {
        (Some(number), _) if number.bytes().all(|one| one.is_ascii_digit()) => {
            let pid = number.parse().map_err(|_| {
                Failure::input(format!("no process has the number {number}")).hint("pgrep -a NAME")
            })?;
            Rule { pid: Some(process_of(&Roots::default(), pid)), ..Rule::default() }
        }
        (Some(unit), _) => Rule { unit: Some(unit.clone()), ..Rule::default() },
        (None, cgroup) => Rule { cgroup: cgroup.clone(), ..Rule::default() },
    };
    let target = Target::new("program", ProcessSelector::Rule(rule));
    Ok(Target { profile: arguments.profile.clone(), name_is_profile: false, ..target })
}

/// The process to which a number belongs: it may be that of one of its threads, as `corun top` lists them.
fn process_of(roots: &Roots, number: u32) -> u32 {
    let status = std::fs::read_to_string(roots.proc.join(format!("{number}/status")));
    let status = status.unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|text| text.trim().parse().ok()).unwrap_or(number)
}

/// The threads that there are now.
fn threads(roots: &Roots, target: &Target) -> Outcome<Vec<TaskFacts>> {
    let mut processes = Processes::new(roots, vec![target.clone()]).map_err(Failure::live)?;
    let scanned = processes.scan().map_err(Failure::live)?;
    if !scanned.is_empty() {
        return Ok(scanned.into_iter().map(|one| one.facts).collect());
    }
    let ProcessSelector::Rule(rule) = &target.processes else { return Ok(Vec::new()) };
    Err(match (rule.pid, &rule.unit, &rule.cgroup) {
        (Some(pid), ..) => absent(roots, pid),
        (_, Some(unit), _) => no_unit(roots, unit),
        (.., group) => {
            let group = group.as_deref().unwrap_or_default();
            Failure::input(format!("no process is in a cgroup `{group}`")).hint("systemd-cgls")
        }
    })
}

/// Nothing is in a unit of this name. Processes that execute a program of the name are offered by their numbers.
fn no_unit(roots: &Roots, unit: &str) -> Failure {
    let failure = Failure::input(format!("no process is in a unit called `{unit}`"));
    let rule = Rule { command: Some(unit.to_owned()), ..Rule::default() };
    let named = vec![Target::new("program", ProcessSelector::Rule(rule))];
    let found = Processes::new(roots, named).and_then(|mut processes| processes.scan());
    let mut pids: Vec<u32> =
        found.unwrap_or_default().iter().map(|one| one.facts.task.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    if pids.is_empty() {
        return failure
            .hint("systemctl list-units --type=service")
            .hint("its number: pgrep -a NAME");
    }
    pids.iter().take(MOST_OFFERED).fold(failure, |failure, pid| {
        let words = Process::new(roots, *pid).command_line().unwrap_or_default().join(" ");
        let shown: String = words.chars().take(60).collect();
        failure.hint(format!("corun explain {pid}    {shown}").trim_end())
    })
}

/// Why a process is none whose threads can be followed.
fn absent(roots: &Roots, pid: u32) -> Failure {
    let stat = Process::new(roots, pid).stat_of_all_threads();
    let why = match stat.ok().flatten() {
        Some(stat) if stat.is_kernel_thread() => {
            format!("{pid} ({}) is a thread of the kernel, and no program", stat.name)
        }
        Some(stat) if stat.is_over() => {
            format!("process {pid} ({}) has ended, and waits to be asked how", stat.name)
        }
        _ => format!("no process has the number {pid}"),
    };
    Failure::input(why).hint("pgrep -a NAME")
}

/// What the program is called: the unit, or the first process.
fn name(arguments: &ExplainArgs, threads: &[TaskFacts]) -> String {
    let first = threads.iter().find(|one| one.task.tid == one.task.pid).or(threads.first());
    match (&arguments.target, &arguments.cgroup, first) {
        (Some(number), _, Some(first)) if number.bytes().all(|one| one.is_ascii_digit()) => {
            format!("{} ({})", first.name, first.task.pid)
        }
        (Some(name), ..) | (None, Some(name), _) => name.clone(),
        (None, None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_process_cannot_be_followed_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        for (pid, state, flags) in [(2, 'S', 0x0020_0000), (8, 'Z', 0)] {
            let own = folder.path().join(pid.to_string());
            std::fs::create_dir(&own).unwrap();
            let zeros = "0 ".repeat(30);
            let line = format!("{pid} (one) {state} 1 2 3 0 -1 {flags} {zeros}17 1 0 0 0 0 0 1\n");
            std::fs::write(own.join("stat"), line).unwrap();
        }
        for (pid, expected) in [
            (2, "2 (one) is a thread of the kernel"),
            (8, "process 8 (one) has ended"),
            (9, "no process has the number 9"),
        ] {
            let told = absent(&roots, pid).report();
            assert!(told.contains(expected), "{told}");
        }
    }
}
