//! Groups of resctrl: which there are, who is in them, and the three changes that are made.

use std::io;
use std::path::{Component, Path, PathBuf};

use corun_linux::resctrl::{
    Schemata, SchemataError, SchemataLine, control_groups, is_removed, last_status, tasks,
};
use corun_linux::{Roots, Task};
use corun_linux::{if_there, is_gone};

use super::write;
use crate::act::ApplyMode;
use crate::act::{still_there, touchable};
use crate::{ActError, Reverted};

/// Only groups whose name begins so are made or removed.
pub(super) const OURS: &str = "corun-";

/// A group that is made.
pub(crate) struct GroupChange<'a>(pub(crate) &'a Path);

/// A line of a group's schemata that is changed; an empty `before` is that of a group made in the
/// same plan.
pub(crate) struct SchemataChange<'a> {
    pub(crate) group: &'a Path,
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
}

/// A thread that changes groups.
pub(crate) struct TaskChange<'a> {
    pub(crate) task: &'a Task,
    pub(crate) before: &'a Path,
    pub(crate) after: &'a Path,
}

impl GroupChange<'_> {
    fn what(&self) -> String {
        format!("resctrl group {}", self.0.display())
    }

    /// Only groups of our own, and nothing but groups.
    fn path(&self, roots: &Roots) -> Result<PathBuf, ActError> {
        let names: Vec<&str> =
            self.0.to_str().into_iter().flat_map(|path| path.split('/')).collect();
        match names.as_slice() {
            [name] | ["mon_groups", name] if name.starts_with(OURS) => {
                Ok(roots.resctrl.join(self.0))
            }
            _ => {
                let why = "its name does not begin with `corun-`: it is not ours";
                Err(ActError::Protected { what: self.what(), why })
            }
        }
    }

    pub(crate) fn apply(&self, roots: &Roots) -> Result<(), ActError> {
        let path = self.path(roots)?;
        std::fs::create_dir(&path).map_err(|reason| match reason.raw_os_error() {
            Some(libc::EEXIST) => ActError::ChangedByOthers {
                what: self.what(),
                found: "there".to_owned(),
                expected: "there to be made".to_owned(),
            },
            Some(libc::ENOSPC) => {
                let status = last_status(roots).unwrap_or_default();
                let advice = format!("no class is free; in use: {}. {status}", in_use(roots));
                ActError::Kernel { what: self.what(), reason, advice: Some(advice) }
            }
            _ => failed(roots, self.what(), reason),
        })
    }

    pub(crate) fn revert(&self, roots: &Roots, mode: ApplyMode) -> Result<Reverted, ActError> {
        let path = self.path(roots)?;
        if !is_folder(&path).map_err(|reason| failed(roots, self.what(), reason))? {
            return Ok(Reverted::Gone);
        }
        if mode == ApplyMode::Apply {
            // The kernel moves who is in it to the group above.
            std::fs::remove_dir(&path).map_err(|reason| failed(roots, self.what(), reason))?;
        }
        Ok(Reverted::Done)
    }
}

/// Names of the groups that use a class, for a message.
fn in_use(roots: &Roots) -> String {
    let Ok(groups) = control_groups(roots) else { return "?".to_owned() };
    let name = |path: &PathBuf| match path.as_os_str().is_empty() {
        true => "the root".to_owned(),
        false => path.display().to_string(),
    };
    groups.keys().map(name).collect::<Vec<_>>().join(", ")
}

impl SchemataChange<'_> {
    fn what(&self) -> String {
        match self.group.as_os_str().is_empty() {
            true => "the schemata of resctrl's root group".to_owned(),
            false => format!("the schemata of resctrl group {}", self.group.display()),
        }
    }

    fn file(&self, roots: &Roots) -> Result<PathBuf, ActError> {
        Ok(below(roots, self.group, &self.what())?.join("schemata"))
    }

    /// The resource's line as it is now.
    fn now(&self, roots: &Roots) -> Result<SchemataLine, ActError> {
        let file = self.file(roots)?;
        let text =
            std::fs::read_to_string(file).map_err(|error| failed(roots, self.what(), error))?;
        let resource = line(self.after, &self.what())?.resource;
        let schemata: Schemata = text.parse().map_err(|error| odd(self.what(), error))?;
        schemata
            .line(&resource)
            .cloned()
            .ok_or_else(|| ActError::Gone { what: format!("{resource} in {}", self.what()) })
    }

    fn set(&self, roots: &Roots, to: &SchemataLine) -> Result<(), ActError> {
        write(&self.file(roots)?, &format!("{to}\n"))
            .map_err(|reason| failed(roots, format!("{} to {to}", self.what()), reason))
    }

    pub(crate) fn apply(&self, roots: &Roots) -> Result<(), ActError> {
        let found = self.now(roots)?;
        if !self.before.is_empty() && found != line(self.before, &self.what())? {
            return Err(ActError::ChangedByOthers {
                what: self.what(),
                found: found.to_string(),
                expected: self.before.to_owned(),
            });
        }
        let asked = line(self.after, &self.what())?;
        self.set(roots, &asked)?;
        let granted = self.now(roots);
        if granted.as_ref().is_ok_and(|granted| *granted == asked) {
            return Ok(());
        }
        // Bandwidth is rounded by the kernel. What was not asked for must not stay, nor what cannot be read again, of
        // which the caller hears that it failed.
        self.set(roots, &found)?;
        let granted = granted?;
        Err(ActError::Kernel {
            what: format!("{} to {asked}", self.what()),
            reason: io::Error::from_raw_os_error(libc::EINVAL),
            advice: Some(format!("the kernel made it {granted}; it is {found} again")),
        })
    }

    pub(crate) fn revert(&self, roots: &Roots, mode: ApplyMode) -> Result<Reverted, ActError> {
        // What a group of ours began with goes with the group.
        if self.before.is_empty() {
            return Ok(Reverted::AsBefore);
        }
        let (before, found) = (line(self.before, &self.what())?, self.now(roots)?);
        if found == before {
            return Ok(Reverted::AsBefore);
        }
        if found != line(self.after, &self.what())? {
            return Ok(Reverted::ChangedByOthers { found: found.to_string() });
        }
        if mode == ApplyMode::Apply {
            self.set(roots, &before)?;
        }
        Ok(Reverted::Done)
    }
}

impl TaskChange<'_> {
    fn what(&self) -> String {
        format!("the resctrl group of thread {}", self.task)
    }

    fn is_in(&self, roots: &Roots, group: &Path) -> Result<bool, ActError> {
        let folder = below(roots, group, &self.what())?;
        match tasks(&folder) {
            Ok(tasks) => Ok(tasks.contains(&self.task.tid)),
            Err(error) if is_gone(&error) || is_removed(&error) => Ok(false),
            Err(error) => Err(failed(roots, self.what(), error)),
        }
    }

    /// Where the thread is, for a message.
    fn found(&self, roots: &Roots) -> String {
        let Ok(groups) = control_groups(roots) else { return "elsewhere".to_owned() };
        let of = groups.iter().find(|(_, group)| group.tasks.contains(&self.task.tid));
        of.map_or("in none".to_owned(), |(path, _)| named(path))
    }

    fn put(&self, roots: &Roots, group: &Path) -> Result<(), ActError> {
        let file = below(roots, group, &self.what())?.join("tasks");
        write(&file, &format!("{}\n", self.task.tid)).map_err(|reason| {
            if reason.raw_os_error() == Some(libc::ESRCH) {
                return ActError::Gone { what: format!("thread {}", self.task) };
            }
            failed(roots, format!("{} to {}", self.what(), named(group)), reason)
        })
    }

    pub(crate) fn apply(&self, roots: &Roots) -> Result<(), ActError> {
        touchable(roots, self.task)?;
        if !self.is_in(roots, self.before)? {
            return Err(ActError::ChangedByOthers {
                what: self.what(),
                found: self.found(roots),
                expected: named(self.before),
            });
        }
        self.put(roots, self.after)
    }

    pub(crate) fn revert(&self, roots: &Roots, mode: ApplyMode) -> Result<Reverted, ActError> {
        still_there(roots, self.task)?;
        if self.is_in(roots, self.before)? {
            return Ok(Reverted::AsBefore);
        }
        if !self.is_in(roots, self.after)? {
            return Ok(Reverted::ChangedByOthers { found: self.found(roots) });
        }
        if mode == ApplyMode::Apply {
            // The group it came from may be gone; then the root's is where the kernel would have
            // put it.
            let there = is_folder(&below(roots, self.before, &self.what())?)
                .map_err(|reason| failed(roots, self.what(), reason))?;
            self.put(roots, if there { self.before } else { Path::new("") })?;
        }
        Ok(Reverted::Done)
    }
}

fn is_folder(path: &Path) -> io::Result<bool> {
    Ok(if_there(std::fs::metadata(path))?.is_some_and(|facts| facts.is_dir()))
}

fn named(group: &Path) -> String {
    match group.as_os_str().is_empty() {
        true => "the root's".to_owned(),
        false => group.display().to_string(),
    }
}

/// A group's folder; never one outside resctrl, whatever a journal says.
fn below(roots: &Roots, group: &Path, what: &str) -> Result<PathBuf, ActError> {
    if group.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(roots.resctrl.join(group));
    }
    let why = "that is no group's name";
    Err(ActError::Protected { what: what.to_owned(), why })
}

fn line(text: &str, what: &str) -> Result<SchemataLine, ActError> {
    text.parse().map_err(|error| odd(what.to_owned(), error))
}

fn odd(what: String, error: SchemataError) -> ActError {
    let reason = io::Error::new(io::ErrorKind::InvalidData, error);
    ActError::Kernel { what, reason, advice: None }
}

fn failed(roots: &Roots, what: String, reason: io::Error) -> ActError {
    if is_gone(&reason) || is_removed(&reason) {
        return ActError::Gone { what };
    }
    ActError::Kernel { what, reason, advice: last_status(roots) }
}
