//! `corun profile`: records a program.

mod progress;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use corun_cache::TraceFile;
use corun_machine::Cache;
use corun_profile::{EngineKind, Profile, ProfileData};
use corun_trace::engine::MOST_OWN_THREADS;
use corun_trace::event::LINE_BYTES;
use corun_trace::instruction_trace::is_instruction_trace;
use corun_trace::trace_file::Ending;
use corun_trace::{
    CacheShape, Recorded, Request, SetCaches, Settings, TraceError, record_and_watch,
};

use self::progress::{Limits, ProgressLine};
use crate::cli::{CachesArgs, ProfileArgs};
use crate::failure::{Failure, Outcome};
use corun_report::{check_targets, engineering, size};

/// The program has our standard output, so all that we say goes to stderr.
pub(super) fn run(arguments: &ProfileArgs) -> Outcome<String> {
    let traces = arguments.trace.iter().chain(&arguments.instruction_trace);
    check_targets(traces.chain([&arguments.output]))?;
    check_replaced(&arguments.output, "profile", "--output", is_profile)?;
    if let Some(path) = &arguments.trace {
        check_replaced(path, "trace", "--trace", |path, _| TraceFile::open(path).is_ok())?;
    }
    if let Some(path) = &arguments.instruction_trace {
        let is_one = |path: &Path, _| is_instruction_trace(path).unwrap_or(false);
        check_replaced(path, "trace of instructions", "--instruction-trace", is_one)?;
    }
    let mut request = Request::new(arguments.command.clone());
    request.name = arguments.name.clone().or_else(|| stem(&arguments.output));
    request.program = arguments.program.clone().unwrap_or_default();
    request.input = arguments.input.clone().unwrap_or_default();
    request.skip = arguments.skip;
    request.instructions = arguments.instructions;
    request.trace = arguments.trace.clone();
    request.instruction_trace = arguments.instruction_trace.clone();
    request.duration = arguments.duration.map(Duration::from_secs_f64);
    request.settings = settings(arguments);
    request.settings.caches = set_caches(&arguments.caches)?;
    // Before the program runs: it may run for hours.
    corun_profile::check_name(&request.profile_name())
        .map_err(|why| Failure::input(format!("the profile's name: {why}")).hint("--name NAME"))?;
    let limits = Limits { instructions: request.instructions, duration: request.duration };
    let mut line = ProgressLine::new(limits);
    let recorded = record_and_watch(&request, Some(&mut |progress| line.show(&progress)));
    line.clear();
    let recorded = recorded.map_err(failure)?;
    let profile = &recorded.profile;
    profile.save(&arguments.output).map_err(|error| Failure::Failed(error.into()))?;
    // A closed stderr leaves nobody to tell, and the profile is written.
    let _ = std::io::stderr().write_all(summary(arguments, &recorded).as_bytes());
    let code = recorded.exit_code();
    match (recorded.trace, recorded.instruction_trace) {
        (Some(Err(error)), _) | (_, Some(Err(error))) => Err(Failure::Failed(error.into())),
        _ if code == 0 => Ok(String::new()),
        _ => Err(Failure::Program(code)),
    }
}

/// The largest file that is looked into.
const MOST_PROFILE_BYTES: u64 = 16 << 20;

fn is_profile(path: &Path, bytes: u64) -> bool {
    bytes <= MOST_PROFILE_BYTES && Profile::load(path).is_ok()
}

/// A profile takes the place of a profile, a trace that of a trace, and both that of an empty file, but of nothing else: the
/// program's own input, for instance. `is_one`: is this file, of so many bytes, what may be replaced?
fn check_replaced(
    path: &Path,
    what: &str,
    option: &str,
    is_one: impl Fn(&Path, u64) -> bool,
) -> Outcome {
    let there = path.metadata().ok().filter(|there| there.is_file() && there.len() > 0);
    if there.is_none_or(|there| is_one(path, there.len())) {
        return Ok(());
    }
    let why = format!("{} stays as it is: it is no {what}", path.display());
    Err(Failure::input(why).hint(format!("{option} another file")))
}

/// The file's stem, where that can be a profile's name: what is typed after `--apps` then.
fn stem(output: &Path) -> Option<String> {
    let stem = output.file_stem()?.to_str()?;
    corun_profile::check_name(stem).is_ok().then(|| stem.to_owned())
}

fn settings(arguments: &ProfileArgs) -> Settings {
    let mut settings = Settings { main_only: arguments.main_only, ..Settings::default() };
    settings.engine.fetches = !arguments.no_fetches;
    settings.engine.kernel = !arguments.no_kernel;
    if arguments.exact {
        settings.engine.kind = EngineKind::Exact;
    }
    if let Some(rate) = arguments.sampling_rate {
        settings.engine.kind = EngineKind::FixedRate;
        settings.engine.rate = rate;
    }
    if let Some(lines) = arguments.max_lines {
        settings.engine.lines = lines as usize;
    }
    if let Some(window) = arguments.window {
        settings.window = window;
    }
    settings
}

/// The caches to profile: as typed, or a machine's.
fn set_caches(arguments: &CachesArgs) -> Outcome<SetCaches> {
    let Some(name) = &arguments.machine else {
        let (llcs, private) = (arguments.llc.clone(), arguments.private.clone());
        return Ok(SetCaches { llcs, private });
    };
    let unusable =
        |why: String| Failure::input(format!("--machine {name}: {why}")).hint("--llc SIZE/WAYS");
    let (private, llc) = corun_app::find_core(name)?
        .caches()
        .ok_or_else(|| unusable("the size of its last-level cache is unknown".to_owned()))?;
    let shape = |cache: &Cache| {
        let level = cache.level;
        let lines = u64::from(cache.line_bytes.unwrap_or(64));
        if lines != LINE_BYTES {
            let why = format!("found lines of {lines} bytes at level {level}, expected 64");
            return Err(unusable(why));
        }
        let ways = cache.ways.ok_or_else(|| {
            unusable(format!("the ways of its cache of level {level} are unknown"))
        })?;
        CacheShape::new(cache.size_bytes, ways)
            .map_err(|error| unusable(format!("its cache of level {level}: {error}")))
    };
    let private = private.iter().map(shape).collect::<Outcome<_>>()?;
    Ok(SetCaches { llcs: vec![shape(&llc)?], private })
}

fn summary(arguments: &ProfileArgs, recorded: &Recorded) -> String {
    let Profile { name, .. } = &recorded.profile;
    let footprint = recorded.profile.footprint_bytes().unwrap_or(0);
    let mut text = format!(
        "corun: {} written: {name}, {} instructions, footprint {}\n",
        arguments.output.display(),
        engineering(recorded.profile.instructions()),
        size(footprint as f64),
    );
    if !recorded.status.success() {
        text.push_str(&format!("corun: the program ended with {}\n", recorded.status));
    }
    if let (Some(path), Some(Ok(ending))) = (&arguments.trace, &recorded.trace) {
        let path = path.display();
        text.push_str(&match ending {
            Ending::Whole => format!("corun: {path} written\n"),
            Ending::BrokenOff => {
                format!("corun: {path} written, up to where the program could still be followed\n")
            }
        });
    }
    if let (Some(path), Some(Ok(instructions))) =
        (&arguments.instruction_trace, &recorded.instruction_trace)
    {
        let (path, instructions) = (path.display(), engineering(*instructions));
        text.push_str(&format!("corun: {path} written: {instructions} instructions\n"));
    }
    for note in recorded.notes.iter().chain(&unlisted_threads(&recorded.profile)) {
        text.push_str(&format!("corun: note: {note}\n"));
    }
    text
}

/// A note where a phase had more threads than have curves of their own.
fn unlisted_threads(profile: &Profile) -> Option<String> {
    let ProfileData::Recording(recording) = &profile.data else { return None };
    let threads = recording.phases.iter().map(|phase| phase.threads as usize).max()?;
    (threads > MOST_OWN_THREADS && recording.processes.len() < 2).then(|| {
        format!(
            "{threads} threads ran; the curve is of all of them together, and the first \
             {MOST_OWN_THREADS} of them have one of their own"
        )
    })
}

/// What the user typed wrong is bad input; what is missing here, or went wrong, is a failure.
fn failure(error: TraceError) -> Failure {
    match error {
        TraceError::NoCommand
        | TraceError::NotFound { .. }
        | TraceError::Directory { .. }
        | TraceError::NotExecutable { .. }
        | TraceError::NotAProgram { .. }
        | TraceError::BrokenElf { .. }
        | TraceError::NoLoader { .. }
        | TraceError::UnknownMachine { .. } => Failure::input(error),
        other => Failure::Failed(other.into()),
    }
}
