//! CPUs of containers: the cpusets of cgroups.

use std::io;
use std::path::{Component, Path, PathBuf};

use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, ActionKind, Nanoseconds};

use super::thread_stat::is_gone;
use super::{Actuator, Change, Doing, Held, Refusal, affinity, held_thread};
use crate::{ActError, Reverted, Roots};

/// Holds whole cgroups on CPUs, where their members change too fast to hold each thread: a group
/// goes where a plan sends any of its threads. Only groups that corun was told to schedule.
#[derive(Debug)]
pub struct Cpusets {
    roots: Roots,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    /// As it stands in `/proc/PID/cgroup`: `/system.slice/x.service`.
    name: String,
    /// Its `cpuset.cpus`, below the root of cgroups.
    file: PathBuf,
    /// The CPUs that it could use when it was first seen: nothing widens them.
    found: CpuSet,
}

impl Cpusets {
    /// For these groups, named as in `/proc/PID/cgroup` (`/system.slice/x.service`).
    ///
    /// # Errors
    /// When a group has no cpuset of its own, in neither version of cgroups.
    pub fn new(roots: &Roots, groups: &[String]) -> Result<Self, ActError> {
        let group = |name: &String| Group::find(roots, name);
        Ok(Self {
            roots: roots.clone(),
            groups: groups.iter().map(group).collect::<Result<_, _>>()?,
        })
    }

    fn group_of(&self, thread: &Held) -> Result<&Group, Refusal> {
        let task = thread.task;
        let path = self.roots.proc.join(format!("{}/task/{}/cgroup", task.pid, task.tid));
        let text = std::fs::read_to_string(path)
            .map_err(|error| Refusal(format!("the cgroup of thread {task}: {error}")))?;
        let is_in = |group: &&Group| {
            let of = text.lines().filter_map(cpuset_path);
            of.into_iter().any(|path| path == group.name)
        };
        self.groups.iter().find(is_in).ok_or_else(|| {
            Refusal(format!("thread {task} ({}) is in none of the given cgroups", thread.program))
        })
    }

    fn change(&self, group: &Group, asked: &CpuSet) -> Result<Option<Change>, Refusal> {
        let failed = |error: io::Error| Refusal(format!("{}: {error}", group.file.display()));
        let online = affinity::online(&self.roots);
        let mut after = asked.intersection(&group.found);
        if let Some(online) = online {
            after = after.intersection(&online);
        }
        if after.is_empty() {
            let (name, found) = (&group.name, &group.found);
            return Err(Refusal(format!(
                "cgroup {name} may use CPUs {found} only, as far as they are on line, not {asked}"
            )));
        }
        let before =
            std::fs::read_to_string(self.roots.cgroup.join(&group.file)).map_err(failed)?;
        let before = before.trim().to_owned();
        let same = before.parse() == Ok(after.clone());
        let change = Change::Cpuset { file: group.file.clone(), before, after: after.to_string() };
        Ok((!same).then_some(change))
    }
}

/// The path in a line of `/proc/PID/cgroup` that governs CPUs: version 2's, or that of version 1's
/// hierarchy with cpuset.
fn cpuset_path(line: &str) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let governs = controllers.is_empty() || controllers.split(',').any(|one| one == "cpuset");
    governs.then_some(path)
}

impl Group {
    fn find(roots: &Roots, name: &str) -> Result<Self, ActError> {
        let relative = Path::new(name.trim_start_matches('/'));
        let places = [Path::new(""), Path::new("unified"), Path::new("cpuset")];
        for place in places {
            let folder = place.join(relative);
            let file = folder.join("cpuset.cpus");
            if relative.as_os_str().is_empty() || checked(roots, &file).is_err() {
                continue;
            }
            let read = |name: &str| {
                let text = std::fs::read_to_string(roots.cgroup.join(&folder).join(name)).ok()?;
                text.parse::<CpuSet>().ok().filter(|cpus| !cpus.is_empty())
            };
            let own = roots.cgroup.join(&file).is_file();
            // What the groups above allow counts; where that is not told, its own list.
            let found = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"]
                .into_iter()
                .find_map(read);
            if let (true, Some(found)) = (own, found) {
                return Ok(Self { name: name.to_owned(), file, found });
            }
        }
        Err(ActError::Kernel {
            what: format!("the cpuset of cgroup {name}"),
            reason: io::ErrorKind::NotFound.into(),
            advice: Some(
                "the group has to be there, with the controller cpuset switched on".to_owned(),
            ),
        })
    }
}

impl Actuator for Cpusets {
    fn name(&self) -> &'static str {
        "cpuset"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::Place]
    }

    fn prepare(
        &mut self,
        action: &Action,
        _machine: &Machine,
        held: &[Held],
        _now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        match action {
            Action::Allow { thread, cpus } => {
                let group = self.group_of(held_thread(held, *thread)?)?;
                Ok(self.change(group, cpus)?.into_iter().collect())
            }
            Action::Swap { first, second } => {
                let (first, second) = (held_thread(held, *first)?, held_thread(held, *second)?);
                let (one, other) = (self.group_of(first)?, self.group_of(second)?);
                let there = self.change(one, &second.allowed)?;
                let back = self.change(other, &first.allowed)?;
                Ok(there.into_iter().chain(back).collect())
            }
            _ => Err(Refusal::not_by(self.name())),
        }
    }
}

/// The file, if it is a cpuset's list of CPUs below the root of cgroups, whatever a journal says.
fn checked(roots: &Roots, file: &Path) -> Result<PathBuf, ActError> {
    let plain = file.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && file.file_name() == Some("cpuset.cpus".as_ref()) {
        return Ok(roots.cgroup.join(file));
    }
    let why = "that is no cgroup's list of CPUs";
    Err(ActError::Protected { what: file.display().to_string(), why })
}

/// Sets a cgroup's CPUs, if they are as they were.
pub(super) fn apply(roots: &Roots, file: &Path, before: &str, after: &str) -> Result<(), ActError> {
    let path = checked(roots, file)?;
    let found = now(file, &path)?;
    if !same(&found, before) {
        return Err(ActError::ChangedByOthers {
            what: file.display().to_string(),
            found,
            expected: before.to_owned(),
        });
    }
    set(file, &path, after)
}

/// Sets a cgroup's CPUs back, if they are as we set them.
pub(super) fn revert(
    roots: &Roots,
    file: &Path,
    before: &str,
    after: &str,
    doing: Doing,
) -> Result<Reverted, ActError> {
    let path = checked(roots, file)?;
    let found = now(file, &path)?;
    if same(&found, before) {
        return Ok(Reverted::AsBefore);
    }
    if !same(&found, after) {
        return Ok(Reverted::ChangedByOthers { found });
    }
    if doing == Doing::Act {
        set(file, &path, before)?;
    }
    Ok(Reverted::Done)
}

fn same(one: &str, other: &str) -> bool {
    match (one.parse::<CpuSet>(), other.parse::<CpuSet>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.trim() == other.trim(),
    }
}

fn now(file: &Path, path: &Path) -> Result<String, ActError> {
    let text = std::fs::read_to_string(path).map_err(|reason| failed(file, "reading", reason))?;
    Ok(text.trim().to_owned())
}

fn set(file: &Path, path: &Path, cpus: &str) -> Result<(), ActError> {
    use io::Write as _;
    let opened = std::fs::OpenOptions::new().write(true).open(path);
    // An empty list is written as an empty line: version 2's word for what the group above has.
    opened
        .and_then(|mut file| file.write_all(format!("{}\n", cpus.trim()).as_bytes()))
        .map_err(|reason| failed(file, "writing", reason))
}

fn failed(file: &Path, doing: &str, reason: io::Error) -> ActError {
    let what = format!("{doing} {}", file.display());
    if is_gone(&reason) || reason.raw_os_error() == Some(libc::ENODEV) {
        return ActError::Gone { what };
    }
    let advice = match reason.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Some("it needs root, or a delegated cgroup".to_owned()),
        Some(libc::EBUSY) => Some("a group below it uses CPUs that it would lose".to_owned()),
        _ => None,
    };
    ActError::Kernel { what, reason, advice }
}

#[cfg(test)]
#[path = "cpusets_tests.rs"]
mod tests;
