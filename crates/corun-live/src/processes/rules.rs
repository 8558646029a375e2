//! Which processes a rule means.

use std::path::Path;

use corun_linux::procfs::{Process, Stat};
use corun_linux::{Roots, cgroup};

use super::Rule;
use crate::LiveError;
use globset::{GlobBuilder, GlobMatcher};

/// A rule made ready: its patterns are compiled and its user is a number.
#[derive(Debug)]
pub(super) struct Matcher {
    pid: Option<u32>,
    user: Option<u32>,
    command: Option<Command>,
    arguments: Option<GlobMatcher>,
    cgroup: Option<GlobMatcher>,
    unit: Option<String>,
    /// Nothing was given: nothing is meant.
    empty: bool,
}

#[derive(Debug)]
struct Command {
    glob: GlobMatcher,
    /// Does the pattern name a path, or the file's name alone?
    path: bool,
}

impl Matcher {
    pub(super) fn new(rule: &Rule) -> Result<Self, LiveError> {
        let command = rule.command.as_deref().map(|pattern| {
            let glob = glob("command", pattern, true)?;
            Ok::<_, LiveError>(Command { glob, path: pattern.contains('/') })
        });
        let arguments = rule.arguments.as_deref().map(|one| glob("arguments", one, false));
        let cgroup = rule.cgroup.as_deref().map(|one| {
            let path = one.trim_matches('/');
            glob("cgroup", &format!("/{path}"), true)
        });
        Ok(Self {
            pid: rule.pid,
            user: rule.user.as_deref().map(user_id).transpose()?,
            command: command.transpose()?,
            arguments: arguments.transpose()?,
            cgroup: cgroup.transpose()?,
            unit: rule.unit.as_deref().map(unit_name),
            empty: *rule == Rule::default(),
        })
    }

    /// Could a process of this number be meant, now or later?
    pub(super) fn may_mean(&self, pid: u32) -> bool {
        !self.empty && self.pid.is_none_or(|meant| meant == pid)
    }

    /// Is it meant? A process that ended meanwhile, or of which this user may not know what the
    /// rule asks, is not. `arguments` answers whether the process's command line fits a pattern.
    pub(super) fn matches(
        &self,
        roots: &Roots,
        stat: &Stat,
        arguments: impl FnOnce(&Process, &GlobMatcher) -> bool,
    ) -> bool {
        if !self.may_mean(stat.pid) {
            return false;
        }
        let process = Process::new(roots, stat.pid);
        // The cheapest questions first.
        self.command.as_ref().is_none_or(|command| command.matches(&process, &stat.name))
            && self.matches_cgroup(&process)
            && self.user.is_none_or(|user| process.effective_user() == Some(user))
            && self.arguments.as_ref().is_none_or(|glob| arguments(&process, glob))
    }

    fn matches_cgroup(&self, process: &Process) -> bool {
        if self.cgroup.is_none() && self.unit.is_none() {
            return true;
        }
        let Some(text) = process.cgroups() else { return false };
        let groups = || cgroup::lines(&text);
        let below = self.cgroup.as_ref().is_none_or(|glob| {
            // A group below the one that is named belongs to it.
            let paths = groups().flat_map(|line| Path::new(line.path).ancestors());
            paths.into_iter().any(|path| glob.is_match(path))
        });
        let unit = self.unit.as_ref().is_none_or(|unit| {
            let mut systemd = groups().filter(cgroup::CgroupLine::is_systemds);
            systemd.any(|line| units(line.path).any(|name| name == unit))
        });
        below && unit
    }
}

/// The units of the system that a group is in: the slices from the root on, and the first unit that is no
/// slice. What is below that unit is its own: a user's manager, a container or any service with `Delegate=`
/// may give groups there whatever names they like.
fn units(path: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    // A container sees groups outside of its own as `/../x`.
    let names = path.split('/').filter(|name| !matches!(*name, "" | ".."));
    let of_the_system = names.take_while(move |name| {
        let below = std::mem::replace(&mut inside, !name.ends_with(".slice"));
        !below
    });
    // systemd puts an underscore before names that the kernel would take for its own files.
    of_the_system.map(|name| name.strip_prefix('_').unwrap_or(name))
}

impl Command {
    /// By the executable, and of a script by that too, where this user may see it; else by what the kernel calls the
    /// process.
    fn matches(&self, process: &Process, comm: &str) -> bool {
        let Some(path) = process.executable() else {
            return !self.path && self.glob.is_match(comm);
        };
        let is_meant = |path: &Path| match path.file_name() {
            Some(name) if !self.path => self.glob.is_match(name),
            _ => self.path && self.glob.is_match(path),
        };
        // The kernel cuts the name that it shows.
        let is_shown = || !self.path && self.glob.is_match(comm);
        let is_script = |words: Vec<String>| is_meant(Path::new(&words[0])) || is_shown();
        is_meant(&path) || process.script().is_some_and(is_script)
    }
}

impl Rule {
    /// Are its patterns such, and is its user known here?
    ///
    /// # Errors
    /// [`LiveError::BadPattern`] or [`LiveError::UnknownUser`].
    pub fn check(&self) -> Result<(), LiveError> {
        Matcher::new(self).map(|_| ())
    }
}

fn glob(field: &'static str, pattern: &str, of_paths: bool) -> Result<GlobMatcher, LiveError> {
    let glob = GlobBuilder::new(pattern).literal_separator(of_paths).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| LiveError::BadPattern {
        field,
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    })
}

fn user_id(user: &str) -> Result<u32, LiveError> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let known = uzers::get_user_by_name(user);
    known.map(|user| user.uid()).ok_or_else(|| LiveError::UnknownUser { user: user.to_owned() })
}

/// systemctl, too, takes a name without its kind for a service.
fn unit_name(unit: &str) -> String {
    if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") }
}

#[cfg(test)]
mod tests {
    use super::units;

    #[test]
    fn a_unit_has_its_name_at_its_place_alone() {
        let listed = |path| units(path).collect::<Vec<_>>();
        assert_eq!(listed("/system.slice/_a.service"), ["system.slice", "a.service"]);
        assert_eq!(
            listed("/system.slice/system-db.slice/db@1.service/postgresql.service"),
            ["system.slice", "system-db.slice", "db@1.service"]
        );
        let users = "/user.slice/user-7.slice/user@7.service/app.slice/postgresql.service";
        assert_eq!(listed(users), ["user.slice", "user-7.slice", "user@7.service"]);
        assert_eq!(listed("/../a.slice/b.scope/c"), ["a.slice", "b.scope"]);
        assert_eq!(listed("/init.scope/system.slice"), ["init.scope"]);
        assert_eq!(listed("/"), [""; 0]);
    }
}
