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

    /// Is it meant? A process that ended meanwhile, or of which this user may not know what the
    /// rule asks, is not.
    pub(super) fn matches(&self, roots: &Roots, stat: &Stat) -> bool {
        if self.empty || self.pid.is_some_and(|pid| pid != stat.pid) {
            return false;
        }
        let process = Process::new(roots, stat.pid);
        let arguments = || process.command_line().unwrap_or_default().join(" ");
        // The cheapest questions first.
        self.arguments.as_ref().is_none_or(|glob| glob.is_match(arguments()))
            && self.command.as_ref().is_none_or(|command| command.matches(&process, &stat.name))
            && self.matches_cgroup(&process)
            && self.user.is_none_or(|user| process.effective_user() == Some(user))
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
            let systemd = groups().filter(cgroup::CgroupLine::is_systemds);
            // systemd puts an underscore before names that the kernel would take for its own files.
            let mut names = systemd.flat_map(|line| line.path.split('/'));
            names.any(|name| name.strip_prefix('_').unwrap_or(name) == unit)
        });
        below && unit
    }
}

impl Command {
    /// By the executable where this user may see it; else by what the kernel calls the process.
    fn matches(&self, process: &Process, comm: &str) -> bool {
        let Some(path) = process.executable() else {
            return !self.path && self.glob.is_match(comm);
        };
        if self.path {
            self.glob.is_match(path)
        } else {
            path.file_name().is_some_and(|name| self.glob.is_match(name))
        }
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
