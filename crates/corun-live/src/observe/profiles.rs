//! Solo figures from stored profiles, for policies that know programs beforehand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use corun_linux::Roots;
use corun_linux::procfs::Process;
use corun_model::{LoadedProgram, Model};
use corun_policy::{CounterKind, Nanoseconds, SoloFigures, WaysCurve, solo_figures, ways_curve};
use corun_profile::{Library, Profile};

use super::{Source, SourceError};
use crate::{ManagedThread, Threads};

/// A process without a profile is looked at again after so many readings: it may have become
/// another program.
const LOOK_AGAIN: u64 = 16;

/// Gives what stored profiles say of programs alone on this machine.
///
/// A thread's profile is the one that was named for it ([`ManagedThread::profile`]), else the one that [`profile_of`] finds for
/// its process.
pub struct StoredProfiles {
    roots: Roots,
    model: Arc<Model>,
    library: Library,
    /// By the profile's name; none where this machine cannot load it.
    loaded: BTreeMap<String, Option<Stored>>,
    /// By process: its number and when it started.
    processes: BTreeMap<(u32, u64), Found>,
    readings: u64,
}

struct Stored {
    program: LoadedProgram,
    solo: SoloFigures,
    /// By the CPU's index.
    by_ways: BTreeMap<usize, Option<Arc<WaysCurve>>>,
}

struct Found {
    profile: Option<Arc<str>>,
    /// The reading in which it was last needed.
    needed: u64,
    /// The reading in which it was looked for.
    looked: u64,
}

impl StoredProfiles {
    /// Makes ready to give figures of a library's programs, on the model's machine.
    pub fn new(roots: &Roots, model: Arc<Model>, library: Library) -> Self {
        let (loaded, processes) = (BTreeMap::new(), BTreeMap::new());
        Self { roots: roots.clone(), model, library, loaded, processes, readings: 0 }
    }

    /// The profile's name for a thread.
    fn profile(&mut self, thread: &ManagedThread) -> Option<Arc<str>> {
        if self.library.find(&thread.profile).is_some() {
            return Some(thread.profile.clone());
        }
        let readings = self.readings;
        // A process's first thread started when the process did; another's start tells it apart
        // as well.
        let task = thread.task();
        let key = (task.pid, task.start_ticks);
        let known = self
            .processes
            .get(&key)
            .filter(|found| found.profile.is_some() || readings < found.looked + LOOK_AGAIN);
        if known.is_none() {
            let commands = commands_of(&self.roots, task.pid);
            let profile = profile_of(&self.library, &commands);
            let profile: Option<Arc<str>> = profile.map(|one| Arc::from(one.name.as_str()));
            let command = commands.first().map_or(String::new(), |words| words.join(" "));
            match &profile {
                Some(profile) => {
                    tracing::info!(thread = %task, command, profile = %profile, "profile")
                }
                None => tracing::debug!(thread = %task, command, "no stored profile"),
            }
            self.processes.insert(key, Found { profile, needed: readings, looked: readings });
        }
        let found = self.processes.get_mut(&key)?;
        found.needed = readings;
        found.profile.clone()
    }

    fn stored(&mut self, name: &str) -> Option<&mut Stored> {
        if !self.loaded.contains_key(name) {
            let profile = self.library.find(name)?;
            let stored = match self.model.load(profile) {
                Ok(program) => {
                    let solo = solo_figures(&program);
                    Some(Stored { program, solo, by_ways: BTreeMap::new() })
                }
                Err(error) => {
                    tracing::warn!(profile = name, %error, "cannot be used on this machine");
                    None
                }
            };
            self.loaded.insert(name.to_owned(), stored);
        }
        self.loaded.get_mut(name)?.as_mut()
    }
}

impl Source for StoredProfiles {
    fn name(&self) -> &'static str {
        "profiles"
    }

    fn counters(&self) -> Vec<CounterKind> {
        Vec::new()
    }

    fn knows_profiles(&self) -> bool {
        true
    }

    fn count(&mut self, _now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        self.readings += 1;
        let model = Arc::clone(&self.model);
        // Threads of one program come one after the other: the library is asked once for them.
        let mut named: Option<Arc<str>> = None;
        for (view, thread) in threads.iter_mut() {
            let same = named.take().filter(|name| *name == thread.profile);
            let Some(name) = same.or_else(|| self.profile(thread)) else { continue };
            named = Some(name.clone()).filter(|name| *name == thread.profile);
            let Some(stored) = self.stored(&name) else { continue };
            view.solo = Some(stored.solo);
            if view.profile.as_deref() != Some(&*name) {
                view.profile = Some(name.clone());
            }
            let Some(cpu) = model.machine().cpu_index(thread.facts.cpu) else { continue };
            let program = &stored.program;
            let curve = stored.by_ways.entry(cpu);
            let curve = curve.or_insert_with(|| ways_curve(&model, program, cpu).map(Arc::new));
            if curve.is_some() {
                view.by_ways.clone_from(curve);
            }
        }
        let readings = self.readings;
        self.processes.retain(|_, found| found.needed == readings);
        Ok(())
    }
}

/// Interpreters, without their versions: what one does is up to its arguments.
const INTERPRETERS: [&str; 20] = [
    "bash", "dash", "deno", "fish", "guile", "java", "ksh", "lua", "luajit", "node", "perl", "php",
    "pypy", "python", "R", "ruby", "sh", "tclsh", "wish", "zsh",
];

/// The profile of a process by its command lines ([`commands_of`]), that of the first that has one: the one recorded from
/// the same executable's name with the same arguments; else, but for an interpreter, the one that is named after the
/// executable; else the only one that was recorded from it.
pub fn profile_of<'a>(library: &'a Library, commands: &[Vec<String>]) -> Option<&'a Profile> {
    commands.iter().find_map(|command| profile_of_command(library, command))
}

fn profile_of_command<'a>(library: &'a Library, command: &[String]) -> Option<&'a Profile> {
    let executable = file_name(command.first()?)?;
    let interpreter = interpreter_of(executable);
    let is_same = |other: &str| match interpreter {
        Some(_) => interpreter_of(other) == interpreter,
        None => other == executable,
    };
    let is_from =
        |from: &[String]| from.first().and_then(|one| file_name(one)).is_some_and(is_same);
    let recorded: Vec<(&str, &[String])> =
        library.commands().filter(|(_, from)| is_from(from)).collect();
    let same = recorded.iter().find(|(_, from)| from[1..] == command[1..]);
    if interpreter.is_some() {
        return same.and_then(|(name, _)| library.find(name));
    }
    let only = || match recorded.as_slice() {
        [(name, _)] => library.find(name),
        _ => None,
    };
    same.and_then(|(name, _)| library.find(name)).or_else(|| library.find(executable)).or_else(only)
}

/// The interpreter that an executable of this name is: `python3.11` is `python`.
fn interpreter_of(executable: &str) -> Option<&'static str> {
    let versionless =
        executable.trim_end_matches(|one: char| one.is_ascii_digit() || "-.".contains(one));
    INTERPRETERS.into_iter().find(|known| *known == versionless)
}

fn file_name(path: &str) -> Option<&str> {
    Path::new(path).file_name()?.to_str()
}

/// The command lines of a process, each an executable and its arguments: of a script the script's, then that of its
/// interpreter with the script among the arguments. None where this user may not see them.
pub fn commands_of(roots: &Roots, pid: u32) -> Vec<Vec<String>> {
    let process = Process::new(roots, pid);
    process.script().into_iter().chain(executed(&process)).collect()
}

/// The file that a process executes, and its arguments.
fn executed(process: &Process) -> Option<Vec<String>> {
    let mut words = process.command_line()?;
    // A program may call itself anything; its file says what it is, where we may see it.
    if let Some(executable) = process.executable()
        && let Some(first) = words.first_mut()
    {
        *first = executable.to_string_lossy().into_owned();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use corun_linux::Task;
    use corun_model::ModelOptions;
    use corun_profile::ProfileData;

    use super::*;
    use crate::backend::fixture;

    fn library(profiles: &[(&str, &[&str])]) -> Library {
        let shipped = Library::shipped().unwrap();
        let model = shipped.iter().find(|one| matches!(one.data, ProfileData::Recording(_)));
        let model = model.unwrap();
        let mut library = Library::default();
        for (name, command) in profiles {
            let mut profile = Profile { name: (*name).to_owned(), ..model.clone() };
            if let ProfileData::Recording(recording) = &mut profile.data {
                recording.origin.command = command.iter().map(|&word| word.to_owned()).collect();
            }
            library.insert(profile, format!("{name}.toml")).unwrap();
        }
        library
    }

    fn found<'a>(library: &'a Library, command: &[&str]) -> Option<&'a str> {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        profile_of(library, &[command]).map(|profile| profile.name.as_str())
    }

    #[test]
    fn profiles_are_found_by_executable_and_arguments() {
        let library = library(&[
            ("xz-9", &["xz", "-9", "a"]),
            ("xz-1", &["/usr/bin/xz", "-1", "a"]),
            ("db", &["sqlite3", "x.db"]),
            ("gzip", &["pigz"]),
        ]);
        assert_eq!(found(&library, &["/usr/bin/xz", "-9", "a"]), Some("xz-9"));
        assert_eq!(found(&library, &["/opt/xz", "-1", "a"]), Some("xz-1"));
        // Two profiles, neither with these arguments: nobody knows.
        assert_eq!(found(&library, &["/usr/bin/xz", "-5"]), None);
        assert_eq!(found(&library, &["sqlite3", "y.db"]), Some("db"));
        assert_eq!(found(&library, &["/bin/gzip", "-k"]), Some("gzip"));
        assert_eq!(found(&library, &["awk"]), None);
        assert_eq!(found(&library, &[]), None);
    }

    #[test]
    fn an_interpreter_is_what_its_arguments_say() {
        let library = library(&[
            ("python3", &["/usr/bin/python3", "work.py"]),
            ("lua", &["lua5.4", "w.lua"]),
        ]);
        for same in ["python3", "/usr/bin/python3.11", "pypy"] {
            let expected = (same != "pypy").then_some("python3");
            assert_eq!(found(&library, &[same, "work.py"]), expected, "{same}");
        }
        for other in [&["python3", "-c", "pass"][..], &["/usr/bin/python3"], &["lua5.4", "x.lua"]] {
            assert_eq!(found(&library, other), None, "{other:?}");
        }
        // One that is no interpreter, though it begins like one.
        assert_eq!(interpreter_of("shred"), None);
    }

    /// A script may be recorded by its own name, or as an argument of its interpreter.
    #[test]
    fn a_script_s_profile_is_found_however_it_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cmdline"), "/bin/bash\0./spin.sh\0a\0").unwrap();
        fs::write(process.join("comm"), "spin.sh\n").unwrap();
        std::os::unix::fs::symlink("/usr/bin/bash", process.join("exe")).unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        let commands = commands_of(&roots, 7);
        assert_eq!(commands, [vec!["./spin.sh", "a"], vec!["/usr/bin/bash", "./spin.sh", "a"]]);
        let by_script = library(&[("spin", &["/opt/spin.sh", "a"]), ("shell", &["bash", "x.sh"])]);
        let by_shell = library(&[("spin", &["bash", "./spin.sh", "a"]), ("x", &["bash", "x.sh"])]);
        for library in [by_script, by_shell] {
            assert_eq!(profile_of(&library, &commands).unwrap().name, "spin");
        }
    }

    fn threads(those: &[(u32, &str)]) -> Threads {
        let mut threads = Threads::new(0);
        for &(pid, profile) in those {
            let task = Task { pid, tid: pid, start_ticks: 1 };
            fixture::insert(&mut threads, pid.into(), task, profile);
        }
        threads
    }

    #[test]
    fn figures_are_those_that_the_simulator_gives() {
        let machine = Arc::new(corun_machine::preset("xeon-gold-6138").unwrap());
        let model = Arc::new(Model::new(machine, ModelOptions::default()).unwrap());
        let library = library(&[("db", &["sqlite3", "x.db"])]);
        let program = model.load(library.get("db").unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cmdline"), "sqlite3\0x.db\0").unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        let mut source = StoredProfiles::new(&roots, Arc::clone(&model), library);
        let mut all = threads(&[(7, "by command"), (8, "db"), (9, "other")]);
        source.count(Nanoseconds(0), &mut all).unwrap();
        for view in &all.views()[..2] {
            assert_eq!(view.solo, Some(solo_figures(&program)));
            assert_eq!(view.profile.as_deref(), Some("db"));
            assert_eq!(view.by_ways.as_deref(), ways_curve(&model, &program, 0).as_ref());
            assert!(view.by_ways.is_some());
        }
        let other = &all.views()[2];
        assert!(other.solo.is_none() && other.by_ways.is_none());
        // Its profile comes once it runs a program that has one.
        let other = folder.path().join("9");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("cmdline"), "sqlite3\0x.db\0").unwrap();
        let mut last = threads(&[(9, "other")]);
        let rounds = (1..).find(|_| {
            source.count(Nanoseconds(0), &mut last).unwrap();
            last.views()[0].solo.is_some()
        });
        assert!(rounds.unwrap() <= LOOK_AGAIN);
        assert_eq!(source.processes.len(), 1);
    }
}
