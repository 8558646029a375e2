//! CPUs of containers: the cpusets of cgroups.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use corun_linux::cgroup::{self, FolderIdentity, PLACES};
use corun_linux::sysfs::possible_cpus;
use corun_linux::{Roots, Task, facts, if_there, is_gone};
use corun_machine::CpuSet;
use corun_policy::ThreadView;

use super::members::Members;
use super::{ApplyMode, Change, Refusal};
use crate::{ActError, HeldGroup, ManagedThread, Reverted, Threads};

/// Holds whole cgroups on CPUs, where their members change too fast to hold each thread. A group
/// may use what its threads were sent to, all together; it stays as it is until each has been.
#[derive(Debug)]
pub(super) struct Cpusets {
    roots: Roots,
    groups: BTreeMap<Arc<str>, Group>,
    /// Who is in each group, while a plan is prepared.
    members: Option<Members>,
}

#[derive(Debug, Clone)]
struct Group {
    /// Its `cpuset.cpus`, below the root of cgroups.
    file: PathBuf,
    folder: Option<FolderIdentity>,
    /// What stood there when it was first seen.
    text: String,
    /// The CPUs that it could use then: nothing widens them.
    found: CpuSet,
}

impl Cpusets {
    /// For the machine whose file systems are there.
    pub(super) fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), groups: BTreeMap::new(), members: None }
    }

    /// A plan begins: the threads of each group, and who else is in it, are looked up once in it.
    pub(super) fn begin_plan(&mut self) {
        self.members = None;
    }

    /// The change that holds a thread's group where the thread is asked to be and the others of
    /// the group are; none where it is held so already.
    pub(super) fn hold(
        &mut self,
        (view, thread): (&ThreadView, &ManagedThread),
        held_group: &HeldGroup,
        asked: &CpuSet,
        threads: &Threads,
        online: &CpuSet,
    ) -> Result<Option<Change>, Refusal> {
        let name = &held_group.name;
        let group = self.group(name)?.clone();
        let known = self.members.take().filter(|members| members.are_of(threads));
        let mut members = known.unwrap_or_else(|| Members::new(threads));
        members.catch_up(threads);
        let free = self.is_free(&mut members, thread, &group, name, threads, online);
        let wanted = members.needs(name, view.id, asked, threads);
        self.members = Some(members);
        free?;
        let after = wanted.intersection(&group.found).intersection(online);
        if asked.intersection(&group.found).intersection(online).is_empty() {
            let found = &group.found;
            return Err(Refusal(format!(
                "cgroup {name} may use CPUs {found} only, as far as they are on line, not {asked}"
            )));
        }
        let now = held_group.cpus.intersection(online);
        // An empty list stands for what the group above has.
        let untouched = held_group.cpus == group.found;
        let before = if untouched { group.text.clone() } else { held_group.cpus.to_string() };
        let Group { file, folder, .. } = group;
        let change = Change::Cpuset { file, folder, before, after: after.to_string() };
        Ok((after != now).then_some(change))
    }

    fn group(&mut self, name: &Arc<str>) -> Result<&Group, Refusal> {
        let refused = |error: ActError| Refusal(error.to_string());
        let find = || Group::find(&self.roots, name).map_err(refused);
        match self.groups.entry(name.clone()) {
            Entry::Occupied(known) => {
                let group = known.into_mut();
                if group.folder != identity(&self.roots, &group.file).map_err(refused)? {
                    // It was removed and made again: what it was before says nothing of it.
                    *group = find()?;
                }
                Ok(group)
            }
            Entry::Vacant(place) => Ok(place.insert(find()?)),
        }
    }

    /// May the group of this thread be touched?
    fn is_free(
        &self,
        members: &mut Members,
        thread: &ManagedThread,
        group: &Group,
        name: &str,
        threads: &Threads,
        online: &CpuSet,
    ) -> Result<(), Refusal> {
        if members.has_below(name) {
            return Err(Refusal(format!("cgroup {name} has groups with threads below it")));
        }
        let task = thread.task();
        let present = cgroup::of_thread(&self.roots, &task)
            .map_err(|error| Refusal(format!("the cgroup of thread {task}: {error}")))?;
        if present.as_deref() != Some(name) {
            return Err(Refusal(format!("thread {task} is no longer in cgroup {name}")));
        }
        members.verdict(name, threads, |members| self.check(group, name, members, online))
    }

    /// Nobody in the group may be one who must not be moved.
    fn check(
        &self,
        group: &Group,
        name: &str,
        members: &[&ManagedThread],
        online: &CpuSet,
    ) -> Result<(), Refusal> {
        if let Some(one) = members.iter().find(|one| one.left_alone) {
            return Err(Refusal(format!(
                "thread {} of cgroup {name} was changed by somebody else: the group is left alone",
                one.task()
            )));
        }
        let all = group.found.intersection(online);
        let own = members.iter().find(|one| one.may_run_on.intersection(online) != all);
        if let Some(one) = own {
            // Before Linux 6.2 a cpuset that changes makes its threads forget their affinities.
            return Err(Refusal(format!(
                "thread {} of cgroup {name} has an affinity of its own ({}), which it could lose",
                one.task(),
                one.may_run_on
            )));
        }
        let in_real_time = self.in_real_time(group, members);
        match in_real_time.map_err(|error| Refusal(format!("who is in cgroup {name}: {error}")))? {
            Some(task) => Err(Refusal(format!(
                "thread {task} of cgroup {name} is scheduled in real time and is not touched"
            ))),
            None => Ok(()),
        }
    }

    /// A thread of the group that is scheduled in real time. corun manages no such thread.
    fn in_real_time(&self, group: &Group, members: &[&ManagedThread]) -> io::Result<Option<Task>> {
        let folder = self.roots.cgroup.join(group.file.parent().unwrap_or(Path::new("")));
        let managed: BTreeSet<u32> = members.iter().map(|one| one.task().tid).collect();
        let all = cgroup::threads(&folder)?.unwrap_or_default();
        for tid in all.into_iter().filter(|tid| !managed.contains(tid)) {
            let found = if_there(facts(&self.roots, tid, tid))?;
            if let Some(found) = found.filter(|one| one.is_real_time) {
                return Ok(Some(found.task));
            }
        }
        Ok(None)
    }
}

/// Which folder a group's file is in now; none where there is none.
fn identity(roots: &Roots, file: &Path) -> Result<Option<FolderIdentity>, ActError> {
    let path = roots.cgroup.join(file);
    let Some(folder) = path.parent() else { return Ok(None) };
    if_there(FolderIdentity::of(folder))
        .map_err(|reason| failed(file, "looking at the folder of", reason))
}

fn file_of(place: &str, name: &str) -> PathBuf {
    Path::new(place).join(name.trim_start_matches('/')).join("cpuset.cpus")
}

/// The names of the groups whose cpuset it may be.
pub(crate) fn names_of(file: &Path) -> impl Iterator<Item = String> + '_ {
    let folder = file.parent().filter(|_| file.ends_with("cpuset.cpus"));
    let below = move |place| folder.and_then(|folder| folder.strip_prefix(place).ok());
    PLACES.iter().filter_map(below).map(|name| format!("/{}", name.display()))
}

impl Group {
    fn find(roots: &Roots, name: &str) -> Result<Self, ActError> {
        for place in PLACES {
            let file = file_of(place, name);
            if name.trim_start_matches('/').is_empty() || checked(roots, &file).is_err() {
                continue;
            }
            let path = roots.cgroup.join(&file);
            let reading = |reason| failed(&file, "reading", reason);
            let found =
                path.parent().map(cgroup::usable_cpus).transpose().map_err(reading)?.flatten();
            let text = if_there(std::fs::read_to_string(&path)).map_err(reading)?;
            if let (Some(text), Some(found)) = (text, found) {
                let folder = identity(roots, &file)?;
                return Ok(Self { file, folder, text: text.trim().to_owned(), found });
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

/// The file, if it is a cpuset's list of CPUs below the root of cgroups, whatever a journal says.
fn checked(roots: &Roots, file: &Path) -> Result<PathBuf, ActError> {
    let plain = file.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && file.file_name() == Some("cpuset.cpus".as_ref()) {
        return Ok(roots.cgroup.join(file));
    }
    let why = "that is no cgroup's list of CPUs";
    Err(ActError::Protected { what: file.display().to_string(), why })
}

/// The CPUs of a cgroup and what they were before.
pub(super) struct CpusetChange<'a> {
    pub(super) file: &'a Path,
    /// None where a journal does not tell.
    pub(super) folder: Option<&'a FolderIdentity>,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

impl CpusetChange<'_> {
    /// The file, if its cgroup is the one that was meant.
    fn path(&self, roots: &Roots) -> Result<PathBuf, ActError> {
        let path = checked(roots, self.file)?;
        if self.folder.is_some() && identity(roots, self.file)?.as_ref() != self.folder {
            return Err(ActError::Gone { what: self.file.display().to_string() });
        }
        Ok(path)
    }

    /// Sets a cgroup's CPUs, if they are as they were.
    pub(super) fn apply(&self, roots: &Roots) -> Result<(), ActError> {
        let path = self.path(roots)?;
        let found = now(self.file, &path)?;
        if !same(&found, self.before) {
            return Err(ActError::ChangedByOthers {
                what: self.file.display().to_string(),
                found,
                expected: self.before.to_owned(),
            });
        }
        set(self.file, &path, self.after)
    }

    /// Sets a cgroup's CPUs back, if they are as we set them.
    pub(super) fn revert(&self, roots: &Roots, mode: ApplyMode) -> Result<Reverted, ActError> {
        let path = self.path(roots)?;
        let found = now(self.file, &path)?;
        let all = possible_cpus(roots)
            .map_err(|reason| failed(self.file, "reading all CPUs for", reason))?;
        let all = all.map(|all| all.to_string());
        // The list was empty, which means all that the group above may use.
        let was_empty = self.before.trim().is_empty();
        let stands_for_empty = was_empty && all.as_deref().is_some_and(|all| same(&found, all));
        if same(&found, self.before) || stands_for_empty {
            return Ok(Reverted::AsBefore);
        }
        if !same(&found, self.after) {
            return Ok(Reverted::ChangedByOthers { found });
        }
        if mode == ApplyMode::Apply
            && let Err(error) = set(self.file, &path, self.before)
        {
            // While there are programs in a group, the kernel takes no empty list once there was
            // another. All CPUs that there can be mean the same, also when the group above is widened.
            match all.filter(|_| was_empty) {
                Some(all) => set(self.file, &path, &all)?,
                None => return Err(error),
            }
        }
        Ok(Reverted::Done)
    }
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
    // An empty list is written as an empty line. The kernel takes a list by one call: the rest of it would be another.
    let line = format!("{}\n", cpus.trim());
    opened
        .and_then(|mut file| file.write(line.as_bytes()))
        .and_then(
            |written| {
                if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            },
        )
        .map_err(|reason| failed(file, "writing", reason))
}

fn failed(file: &Path, attempt: &str, reason: io::Error) -> ActError {
    let what = format!("{attempt} {}", file.display());
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
