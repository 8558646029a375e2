//! Records one program into a profile file: the library's recorder, without the rest of corun.
//!
//! `record -o FILE [--name N] [--program TEXT] [--input TEXT] [--instructions N] [--shown CMD]
//! [--trace FILE] -- COMMAND...`; exits like the command, or with 2 when nothing could be recorded.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use corun_profile::EngineKind;
use corun_trace::engine::SamplingRate;
use corun_trace::{Request, record};

#[derive(Parser)]
struct PluginOptions {
    /// The profile file.
    #[arg(short, long)]
    output: PathBuf,
    /// The profile's name.
    #[arg(long)]
    name: Option<String>,
    /// What the program is.
    #[arg(long, default_value = "")]
    program: String,
    /// What it works on.
    #[arg(long, default_value = "")]
    input: String,
    /// The command line to put down, in words at blanks.
    #[arg(long)]
    shown: Option<String>,
    /// Stop after this many instructions.
    #[arg(long)]
    instructions: Option<u64>,
    /// Stop after this many seconds.
    #[arg(long)]
    duration: Option<f64>,
    /// Cache lines followed at most.
    #[arg(long, default_value_t = corun_trace::engine::DEFAULT_TRACKED_LINES)]
    lines: usize,
    /// exact, fixed-rate or fixed-size.
    #[arg(long, default_value = "fixed-size")]
    engine: EngineKind,
    /// The share of the lines that fixed-rate follows.
    #[arg(long, default_value_t = SamplingRate::default())]
    rate: SamplingRate,
    /// Instructions of a window.
    #[arg(long, default_value_t = corun_trace::engine::DEFAULT_WINDOW)]
    window: u64,
    /// Also write a trace of all accesses.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// The processor QEMU shows.
    #[arg(long)]
    cpu: Option<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    let options = PluginOptions::parse();
    let mut request = Request::new(options.command);
    request.name = options.name;
    request.program = options.program;
    request.input = options.input;
    request.shown_command =
        options.shown.map(|text| text.split_whitespace().map(str::to_owned).collect());
    request.instructions = options.instructions;
    request.duration = options.duration.map(Duration::from_secs_f64);
    request.settings.engine.lines = options.lines;
    request.settings.engine.kind = options.engine;
    request.settings.engine.rate = options.rate;
    request.settings.window = options.window;
    request.trace = options.trace;
    request.cpu = options.cpu;
    let recorded = match record(&request) {
        Ok(recorded) => recorded,
        Err(error) => {
            eprintln!("record: {error}");
            return ExitCode::from(2);
        }
    };
    for note in &recorded.notes {
        eprintln!("record: {note}");
    }
    if let Some(Err(error)) = &recorded.trace {
        eprintln!("record: {error}");
        return ExitCode::from(2);
    }
    if let Err(error) = recorded.profile.save(&options.output) {
        eprintln!("record: {error}");
        return ExitCode::from(2);
    }
    ExitCode::from(recorded.exit_code())
}
