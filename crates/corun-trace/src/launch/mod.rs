//! Starts a program under QEMU with the plug-in and makes a profile of the plug-ins' reports.

mod child;
mod error;
mod gather;
mod notes;
mod thinning;
mod trace;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use corun_profile::{Origin, Profile, ProfileData, Recording};

use self::child::Ended;
pub use self::error::TraceError;
use self::gather::{Gathered, gather};
use self::trace::{InstructionTrace, Trace};
use crate::control::{Control, PROGRESS_SIZES};
use crate::plugin::PluginOptions;
use crate::report::RunState;
use crate::report_folder::{OwnReports, key_variable, remove_leftovers};
use crate::settings::Settings;
use crate::trace_file::Ending;
use crate::{emulator, program};

/// File name of the plug-in.
const PLUGIN: &str = "libcorun_trace.so";

/// What to record, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// Leave out so many instructions of the program's beginning.
    pub skip: Option<u64>,
    /// Stop after this many instructions, from where recording began.
    pub instructions: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// How it is recorded.
    pub settings: Settings,
    /// Compress the profile's micro-traces quickly, into more bytes: for a profile that nobody keeps. Else they are
    /// compressed as far as possible, which takes longer than recording a short program.
    pub pack_quickly: bool,
    /// Also write a trace of all accesses of the started program to this file.
    pub trace: Option<PathBuf>,
    /// Also write the instructions of the started program's first thread to this file, as
    /// [`crate::instruction_trace`] has them.
    pub instruction_trace: Option<PathBuf>,
    /// The processor QEMU shows to the program (`-cpu`); else QEMU's own choice, on x86 one
    /// without AVX.
    pub cpu: Option<String>,
}

impl Request {
    /// Records this command to its end.
    pub fn new(command: Vec<OsString>) -> Self {
        Self { command, ..Self::default() }
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
    /// Was it stopped at a limit?
    pub stopped: bool,
    /// Where a trace was asked for: what became of it. The profile stands in any case.
    pub trace: Option<Result<Ending, TraceError>>,
    /// The same of a trace of instructions: how many it has.
    pub instruction_trace: Option<Result<u64, TraceError>>,
    /// What the profile does not hold, for the user; empty as a rule.
    pub notes: Vec<String>,
}

impl Recorded {
    /// The program's exit status as shells have it: 128 and the signal's number where a signal
    /// ended it; 0 where a limit of the recording did.
    pub fn exit_code(&self) -> u8 {
        if self.stopped {
            return 0;
        }
        let signalled = self.status.signal().map(|signal| 128 + signal);
        self.status.code().or(signalled).map_or(1, |code| code as u8)
    }
}

/// How long after a limit a program that had no CPU until then may take to begin.
const FIRST_REPORT: Duration = Duration::from_secs(30);

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Time since the program was started.
    pub elapsed: Duration,
    /// Instructions of all its processes so far.
    pub instructions: u64,
    /// Bytes touched so far: of each process what the phase that touches most has touched, all processes together.
    /// The processes tell once a second; 0 before they did.
    pub footprint_bytes: u64,
    /// Misses per 1000 instructions in caches of [`PROGRESS_SIZES`]: the curve as it forms. None before the processes
    /// told.
    pub mpki: Option<[f64; PROGRESS_SIZES.len()]>,
}

impl Progress {
    fn new(elapsed: Duration, control: &Control) -> Self {
        let tally = control.tally();
        let thousands = tally.instructions as f64 / 1000.0;
        Self {
            elapsed,
            instructions: control.instructions(),
            footprint_bytes: tally.footprint_bytes,
            mpki: (thousands > 0.0).then(|| tally.misses.map(|count| count as f64 / thousands)),
        }
    }
}

/// Runs a program under the tracer to its end, or to a limit, and returns its profile.
///
/// The program has this process's standard streams. Signals sent to this process are handed on to
/// it. The processes that it starts, and the programs that these execute, are recorded with it;
/// the notes say which were not. Processes that outlive the program by more than a second run on
/// unrecorded.
///
/// # Errors
/// [`TraceError`] when the command is no program, the emulator or the plug-in is missing, or
/// nothing was recorded. A program that fails or crashes is no error: its profile says so.
pub fn record(request: &Request) -> Result<Recorded, TraceError> {
    record_and_watch(request, None)
}

/// As [`record`]; `watch` is told some fifty times a second how far the recording is.
///
/// # Errors
/// As [`record`].
pub fn record_and_watch(
    request: &Request,
    watch: Option<&mut dyn FnMut(Progress)>,
) -> Result<Recorded, TraceError> {
    let Tools { program, qemu, plugin } = tools(&request.command)?;
    remove_leftovers(&env::temp_dir());
    let folder = OwnReports::create(request.duration)
        .map_err(|source| TraceError::Io { path: env::temp_dir(), source })?;
    let mut options = PluginOptions::new(folder.outer().to_owned());
    options.key.clone_from(&folder.key);
    options.instructions = request.instructions;
    options.skip = request.skip;
    options.settings = request.settings.clone();
    let trace = request.trace.as_ref().map(|path| Trace::begin(path, request, &program));
    let trace = trace.transpose()?;
    options.trace = trace.as_ref().map(|trace| trace.path().to_owned());
    let instructions = request.instruction_trace.as_deref().map(|path| {
        InstructionTrace::begin(path).inspect(|trace| {
            options.instruction_trace = Some(trace.path().to_owned());
        })
    });
    let instructions = instructions.transpose()?;
    let cpu = request.cpu.as_deref().map(OsStr::new);
    let mut command = Command::new(&qemu);
    command.args(emulator::arguments(&plugin, cpu, &options, &[], &program));
    command.env(key_variable(folder.outer()), &folder.key);
    let limited = request.instructions.is_some() || request.duration.is_some();
    // Within the instructions that are passed over a program has nothing to tell.
    let first_report = if request.skip.is_some() { Duration::ZERO } else { FIRST_REPORT };
    let first_report = limited.then_some(first_report);
    let ended = child::run(command, &folder, first_report, watch)
        .map_err(|source| TraceError::Io { path: qemu, source })?;
    let control = &folder.control;
    if let Some(error) = control.unwritten() {
        let folder = env::temp_dir();
        return Err(TraceError::NoRecord {
            reason: format!(
                "the tracer could not write its reports to {}: {error} (TMPDIR names another \
                 folder)",
                folder.display()
            ),
        });
    }
    let gathered =
        gather(&folder.inner(), ended.process, request.pack_quickly).map_err(|error| {
            TraceError::NoRecord { reason: format!("the tracer's reports cannot be read: {error}") }
        })?;
    let mut recorded = finish(request, gathered, &ended, control)?;
    recorded.trace = trace.map(|trace| trace.end(control));
    recorded.instruction_trace = instructions.map(|trace| trace.end(control));
    Ok(recorded)
}

/// Could this command be recorded here? Nothing is started.
///
/// # Errors
/// [`TraceError`] when the command is no program, or the emulator or the plug-in is missing.
pub fn check(command: &[OsString]) -> Result<(), TraceError> {
    tools(command).map(|_| ())
}

/// What a recording needs.
struct Tools {
    program: program::Program,
    qemu: PathBuf,
    plugin: PathBuf,
}

fn tools(command: &[OsString]) -> Result<Tools, TraceError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = program::resolve(command, &path)?;
    let qemu = find_in_path(program.qemu, &path).ok_or_else(|| TraceError::NoQemu {
        qemu: program.qemu.to_owned(),
        path: program.binary.clone(),
    })?;
    Ok(Tools { program, qemu, plugin: find_plugin()? })
}

fn finish(
    request: &Request,
    mut gathered: Gathered,
    ended: &Ended,
    control: &Control,
) -> Result<Recorded, TraceError> {
    let recorded = gathered.recording.take().ok_or_else(|| TraceError::NoRecord {
        reason: match request.skip {
            Some(skip) => {
                format!("the program ended ({}) within the first {skip} instructions", ended.status)
            }
            None => {
                format!("the program ended ({}) before the tracer's first report", ended.status)
            }
        },
    })?;
    let mut state = gathered.main.unwrap_or(RunState::Running);
    if let (RunState::Running | RunState::Replaced, Some(limit)) = (state, ended.limit) {
        // It slept, or was replacing itself, and was killed.
        state = limit.state();
    }
    // Who crashed before the first report left none.
    let untraced = control.untraced() + control.started().saturating_sub(gathered.programs);
    let command: Vec<String> =
        request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let undecoded = match gathered.target.as_str() {
        "x86_64" | "i386" => String::new(),
        target => format!(" ({target}: branches, floating point and dependences not decoded)"),
    };
    let kernel = if request.settings.engine.kernel { "" } else { " (the kernel's part left out)" };
    let from = request.skip.map_or(String::new(), |skip| format!(" (from instruction {skip} on)"));
    let by_itself = state == RunState::Ended;
    let origin = Origin {
        command: request.shown_command.clone().unwrap_or(command),
        program: request.program.clone(),
        input: request.input.clone(),
        date: time::OffsetDateTime::now_utc().date().to_string(),
        tracer: format!("corun-trace {}{undecoded}{kernel}{from}", env!("CARGO_PKG_VERSION")),
        engine: request.settings.engine.kind,
        sampling_rate: recorded.origin.sampling_rate,
        instruction_fetches: request.settings.engine.fetches,
        untraced_processes: untraced,
        complete: by_itself && ended.status.code().is_some() && ended.left == 0,
        exit_code: ended.status.code().filter(|_| by_itself),
    };
    let notes = notes::notes(state, untraced, control.cut_off(), &gathered, ended, request);
    let recording = Recording { origin, ..recorded };
    let profile = Profile { name: request.profile_name(), data: ProfileData::Recording(recording) };
    let stopped = ended.limit.is_some();
    Ok(Recorded {
        profile,
        status: ended.status,
        stopped,
        trace: None,
        instruction_trace: None,
        notes,
    })
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
