//! `corun profiles import`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use corun_app::find_machine;
use corun_model::{Model, ModelOptions};
use corun_profile::{Library, MeasuredOn, Profile};

use crate::cli::ImportArgs;
use crate::failure::{Failure, Outcome};
use corun_app::{Cancel, counted};

/// Checks everything first, so that bad input leaves no file behind.
pub(super) fn run(arguments: &ImportArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal()?;
    let is_csv = arguments.file.extension().is_some_and(|one| one.eq_ignore_ascii_case("csv"));
    if !is_csv {
        let message = format!("{}: expected a .csv file", arguments.file.display());
        return Err(Failure::input(message));
    }
    let library = Library::load_measured_on(&arguments.file, &measured_on(arguments)?)?;
    check_folder(&arguments.out_dir)?;
    let files: Vec<(&Profile, PathBuf)> = library
        .iter()
        .map(|profile| (profile, arguments.out_dir.join(format!("{}.toml", profile.name))))
        .collect();
    if !arguments.force
        && let Some((_, path)) = files.iter().find(|(_, path)| path.exists())
    {
        let message = format!("{} is there already", path.display());
        return Err(Failure::input(message).hint("--force to replace it"));
    }
    std::fs::create_dir_all(&arguments.out_dir)
        .with_context(|| format!("cannot make {}", arguments.out_dir.display()))?;
    for (profile, path) in &files {
        cancel.check()?;
        profile.save(path).map_err(|error| Failure::Failed(error.into()))?;
    }
    let count = counted(files.len(), "profile");
    Ok(format!("{count} written to {}\n", arguments.out_dir.display()))
}

/// A folder, or one that can be made.
fn check_folder(folder: &Path) -> Outcome {
    match folder.ancestors().find(|one| one.exists()) {
        Some(there) if !there.is_dir() => {
            let there = there.display();
            Err(Failure::input(format!(
                "{}: {there} is a file: expected a folder",
                folder.display()
            )))
        }
        _ => Ok(()),
    }
}

/// The machine that the table is from: where none is said, that of the public table.
fn measured_on(arguments: &ImportArgs) -> Outcome<MeasuredOn> {
    let Some(name) = &arguments.machine else { return Ok(MeasuredOn::xeon_gold_6138()) };
    let model = Model::new(Arc::new(find_machine(name)?), ModelOptions::default())?;
    Ok(model.measured_on(0))
}
