//! `corun calibrate`: measures this machine, and writes what it found as a machine file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use corun_app::Cancel;
use corun_calibrate::{
    CalibrateError, CalibrateOptions, Calibrated, Curve, KeptFile, MeasuredFigure, calibrate,
    may_begin, may_replace,
};
use corun_machine::{Machine, Measurement, discover, system_machine_file, user_machine_file};
use corun_views::calibration;
use serde::Serialize;

use crate::cli::{CalibrateArgs, DocumentFormat};
use crate::failure::{Failure, Outcome};
use corun_report::{check_targets, json, write_file};

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// The JSON document. docs/json.md is its reference.
#[derive(Debug, Serialize)]
struct CalibrationDocument<'a> {
    /// The machine file.
    output: &'a Path,
    measurement: Option<&'a Measurement>,
    figures: &'a [MeasuredFigure],
    curves: &'a [Curve],
}

pub(super) fn run(arguments: &CalibrateArgs) -> Outcome<String> {
    let output = output_file(arguments)?;
    check_targets([&output].into_iter().chain(&arguments.report))?;
    let found = discover(Path::new("/")).map_err(|error| Failure::Failed(error.into()))?;
    let old = Some(&output).filter(|path| path.exists()).map(|path| Machine::load(path));
    if !arguments.force
        && let Some(old) = &old
    {
        check_old(&output, old, &found, arguments.quick)?;
    }
    let known = old.as_ref().and_then(|old| old.as_ref().ok());
    let known = known.filter(|old| found.difference(old).is_none());
    let measured = measured(&found, known.cloned(), arguments)?;
    if let Some(Ok(old)) = old.filter(|_| !arguments.force) {
        may_replace(&old, &measured.machine).map_err(|kept| {
            let why = format!("{} stays as it is: {kept}", output.display());
            Failure::Failed(anyhow!("{why}\n  try: --force, or --output another file"))
        })?;
    }
    write_file(&output, measured.machine.to_toml().as_bytes())?;
    if let Some(report) = &arguments.report {
        write_file(report, calibration::page(&measured).as_bytes())?;
    }
    match arguments.format {
        DocumentFormat::Text => Ok(calibration::report(&measured, &output)),
        DocumentFormat::Json => json(&CalibrationDocument {
            output: &output,
            measurement: measured.machine.spec().measurement.as_ref(),
            figures: &measured.figures,
            curves: &measured.curves,
        }),
    }
}

/// Where the machine file goes; folders of the two usual places are made.
fn output_file(arguments: &CalibrateArgs) -> Outcome<PathBuf> {
    match (&arguments.output, arguments.system) {
        (Some(path), _) => Ok(path.clone()),
        (None, true) => made_folder_of(system_machine_file()),
        (None, false) => made_folder_of(user_machine_file().ok_or_else(|| {
            Failure::input("neither XDG_DATA_HOME nor HOME says where the user's files are")
                .hint("--system, for all users")
                .hint("--output FILE.toml")
        })?),
    }
}

fn made_folder_of(path: PathBuf) -> Outcome<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(path)
}

/// Says before anything is measured that the file which is there stays.
fn check_old(
    output: &Path,
    old: &Result<Machine, corun_machine::MachineError>,
    found: &Machine,
    quick: bool,
) -> Outcome {
    let why = match old {
        Err(error) => format!("it is no machine file: {error}"),
        Ok(old) => match may_begin(old, found, quick) {
            Ok(()) => return Ok(()),
            Err(kept @ (KeptFile::NotMeasured | KeptFile::Quick | KeptFile::Busy { .. })) => {
                kept.to_string()
            }
        },
    };
    Err(Failure::input(format!("{} stays as it is: {why}", output.display()))
        .hint("--force")
        .hint("--output FILE.toml"))
}

fn measured(
    found: &Machine,
    known: Option<Machine>,
    arguments: &CalibrateArgs,
) -> Outcome<Calibrated> {
    let cancel = Cancel::on_signal()?;
    let bar = corun_cli::progress_bar(STEPS, "{percent:>3} % {eta:>4} left  {msg}");
    let options = CalibrateOptions {
        quick: arguments.quick,
        known,
        memory_bytes: arguments.memory.map(|mib| mib << 20),
        by: format!("corun {}", env!("CARGO_PKG_VERSION")),
    };
    let measured = calibrate(found, &options, &mut |share, what| {
        bar.set_position((share * STEPS as f64) as u64);
        bar.set_message(what);
        !cancel.is_set()
    });
    bar.finish_and_clear();
    measured.map_err(|error| match error {
        CalibrateError::Stopped => Failure::Interrupted,
        other => Failure::Failed(other.into()),
    })
}
