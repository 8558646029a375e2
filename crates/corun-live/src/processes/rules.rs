//! Which processes a rule means.

use std::fs;
use std::path::Path;

use super::Rule;
use super::facts::field;
use super::stat::Stat;
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
    pub(super) fn matches(&self, proc: &Path, stat: &Stat) -> bool {
        if self.empty || self.pid.is_some_and(|pid| pid != stat.pid) {
            return false;
        }
        let folder = proc.join(stat.pid.to_string());
        // The cheapest questions first.
        self.arguments.as_ref().is_none_or(|glob| glob.is_match(command_line(&folder)))
            && self.command.as_ref().is_none_or(|command| command.matches(&folder, &stat.name))
            && self.matches_cgroup(&folder)
            && self.user.is_none_or(|user| effective_user(&folder) == Some(user))
    }

    fn matches_cgroup(&self, folder: &Path) -> bool {
        if self.cgroup.is_none() && self.unit.is_none() {
            return true;
        }
        let Ok(text) = fs::read_to_string(folder.join("cgroup")) else { return false };
        let groups = || text.lines().filter_map(group);
        let below = self.cgroup.as_ref().is_none_or(|glob| {
            // A group below the one that is named belongs to it.
            let paths = groups().flat_map(|(_, path)| Path::new(path).ancestors());
            paths.into_iter().any(|path| glob.is_match(path))
        });
        let unit = self.unit.as_ref().is_none_or(|unit| {
            let systemd = groups().filter(|(of, _)| of.is_empty() || *of == "name=systemd");
            // systemd puts an underscore before names that the kernel would take for its own files.
            let mut names = systemd.flat_map(|(_, path)| path.split('/'));
            names.any(|name| name.strip_prefix('_').unwrap_or(name) == unit)
        });
        below && unit
    }
}

impl Command {
    /// By the executable where this user may see it; else by what the kernel calls the process.
    fn matches(&self, folder: &Path, comm: &str) -> bool {
        let Ok(executable) = fs::read_link(folder.join("exe")) else {
            return !self.path && self.glob.is_match(comm);
        };
        let text = executable.to_string_lossy();
        // So the kernel marks a program that was replaced while it runs, as an upgrade does.
        let path = Path::new(text.strip_suffix(" (deleted)").unwrap_or(&text));
        if self.path {
            self.glob.is_match(path)
        } else {
            path.file_name().is_some_and(|name| self.glob.is_match(name))
        }
    }
}

/// A line of `/proc/PID/cgroup`: the controllers, none in version 2, and the group's path.
fn group(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
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

/// The arguments with a space between them.
pub(super) fn command_line(folder: &Path) -> String {
    let bytes = fs::read(folder.join("cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    String::from_utf8_lossy(bytes).replace('\0', " ")
}

fn effective_user(folder: &Path) -> Option<u32> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    field(&status, "Uid:")?.split_whitespace().nth(1)?.parse().ok()
}
