//! Starts a program under QEMU with the plug-in and makes a profile of the plug-in's report.

mod child;
mod error;
mod program;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use corun_profile::{Origin, Profile, ProfileData, Recording};

pub use self::error::TraceError;
use crate::plugin::Options;
use crate::report::{REPORT_VERSION, Report, State};
use crate::settings::Settings;

/// File name of the plug-in.
const PLUGIN: &str = "libcorun_trace.so";

/// What to record, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The profile's name; else the program's file name.
    pub name: Option<String>,
    /// The command line to put down in the profile, where it should differ from the real one.
    pub shown_command: Option<Vec<String>>,
    /// What the program is, for people.
    pub program: String,
    /// What it works on, for people.
    pub input: String,
    /// Stop after this many instructions.
    pub instructions: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// How it is recorded.
    pub settings: Settings,
    /// The processor QEMU shows to the program (`-cpu`); else QEMU's own choice, on x86 one
    /// without AVX.
    pub cpu: Option<String>,
}

impl Request {
    /// Records this command to its end.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            name: None,
            shown_command: None,
            program: String::new(),
            input: String::new(),
            instructions: None,
            duration: None,
            settings: Settings::default(),
            cpu: None,
        }
    }

    /// The name that the profile will have.
    pub fn profile_name(&self) -> String {
        let command = self.command.first().map(|word| word.to_string_lossy());
        self.name.clone().unwrap_or_else(|| file_name(&command.unwrap_or_default()))
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Recorded {
    /// The profile.
    pub profile: Profile,
    /// How the program ended.
    pub status: ExitStatus,
    /// What the profile does not hold, for the user; empty as a rule.
    pub notes: Vec<String>,
}

/// Runs a program under the tracer to its end, or to a limit, and returns its profile.
///
/// The program has this process's standard streams. Signals sent to this process are handed on to
/// it. Only the process that is started is recorded, with all its threads: forked children run
/// emulated but unrecorded, and what they or it execute runs natively; the notes say so.
///
/// # Errors
/// [`TraceError`] when the command is no program, the emulator or the plug-in is missing, or
/// nothing was recorded. A program that fails or crashes is no error: its profile says so.
pub fn record(request: &Request) -> Result<Recorded, TraceError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = program::resolve(&request.command, &path)?;
    let qemu = find_in_path(program.qemu, &path).ok_or_else(|| TraceError::NoQemu {
        qemu: program.qemu.to_owned(),
        path: program.binary.clone(),
    })?;
    let plugin = find_plugin()?;
    let folder = tempfile::Builder::new()
        .prefix("corun-trace-")
        .tempdir()
        .map_err(|source| TraceError::Io { path: env::temp_dir(), source })?;
    let mut options = Options::new(folder.path().join("report"));
    options.instructions = request.instructions;
    options.duration = request.duration;
    options.settings = request.settings.clone();
    let command = child::command(&qemu, &plugin, &options, request.cpu.as_deref(), &program);
    let (status, killed) = child::run(command, request.duration)
        .map_err(|source| TraceError::Io { path: qemu, source })?;
    let mut report = Report::read(&options.report)
        .map_err(|error| TraceError::NoRecord { reason: unrecorded(&error, status) })?;
    if report.version != REPORT_VERSION {
        let reason = format!("{} is of another version of corun", plugin.display());
        return Err(TraceError::NoRecord { reason });
    }
    if killed && report.state == State::Running {
        report.state = State::TimeLimit;
    }
    finish(request, &report, status)
}

fn unrecorded(error: &std::io::Error, status: ExitStatus) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        format!("the program ended ({status}) before the tracer could write its report")
    } else {
        format!("the tracer's report cannot be read: {error}")
    }
}

fn finish(request: &Request, report: &Report, status: ExitStatus) -> Result<Recorded, TraceError> {
    let notes = notes(report);
    let recorded = report
        .recording()
        .map_err(|error| TraceError::NoRecord { reason: unrecorded(&error, status) })?;
    let recorded = recorded.ok_or_else(|| TraceError::NoRecord {
        reason: "the program ran no instruction".to_owned(),
    })?;
    let command: Vec<String> =
        request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let name = request.profile_name();
    let undecoded = match report.target.as_str() {
        "x86_64" | "i386" => String::new(),
        target => format!(" ({target}: branches, floating point and dependences not decoded)"),
    };
    let ended = report.state == State::Ended;
    let origin = Origin {
        command: request.shown_command.clone().unwrap_or(command),
        program: request.program.clone(),
        input: request.input.clone(),
        date: time::OffsetDateTime::now_utc().date().to_string(),
        tracer: format!("corun-trace {}{undecoded}", env!("CARGO_PKG_VERSION")),
        complete: ended && status.code().is_some(),
        exit_code: status.code().filter(|_| ended),
        ..recorded.origin
    };
    let recording = Recording { origin, ..recorded };
    let profile = Profile { name, data: ProfileData::Recording(recording) };
    Ok(Recorded { profile, status, notes })
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    match report.state {
        State::Ended => {}
        State::Running => notes.push(
            "the program crashed or was killed; the last second of it may be missing from the profile".into(),
        ),
        State::Replaced => notes
            .push("the program replaced itself by another one (execve), which ran untraced".into()),
        State::InstructionLimit => {
            notes
                .push("stopped at the instruction limit; the profile is of the part before".into());
        }
        State::TimeLimit => {
            notes.push("stopped at the time limit; the profile is of the part before".into());
        }
    }
    if report.children > 0 {
        notes.push(match report.children {
            1 => "1 child process ran that is not in the profile".to_owned(),
            count => format!("{count} child processes ran that are not in the profile"),
        });
    }
    if report.lost_threads > 0 {
        let count = report.lost_threads;
        notes.push(format!("{count} threads could not be followed"));
    }
    notes
}

fn file_name(command: &str) -> String {
    let path = Path::new(command);
    path.file_name().map_or_else(|| command.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn find_in_path(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Finds the plug-in: `$CORUN_PLUGIN`, then beside this executable, as cargo and as packages
/// place it.
fn find_plugin() -> Result<PathBuf, TraceError> {
    if let Some(named) = env::var_os("CORUN_PLUGIN") {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            let name = named.display().to_string();
            Err(TraceError::NoPlugin { name, looked: "$CORUN_PLUGIN".to_owned() })
        };
    }
    let own = env::current_exe()
        .map_err(|source| TraceError::Io { path: PathBuf::from("/proc/self/exe"), source })?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = ["deps", ".", "../deps", "../lib/corun", "../lib"];
    let looked: Vec<PathBuf> = places.iter().map(|place| folder.join(place)).collect();
    let found = looked.iter().map(|place| place.join(PLUGIN)).find(|file| file.is_file());
    found.ok_or_else(|| TraceError::NoPlugin {
        name: PLUGIN.to_owned(),
        looked: looked.iter().map(|one| one.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}
