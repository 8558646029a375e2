//! `corun profiles import`.

use std::path::PathBuf;

use anyhow::Context as _;
use corun_profile::{Library, Profile};

use crate::cancel::Cancel;
use crate::cli::ImportArgs;
use crate::failure::{Failure, Outcome};

/// Checks everything first, so that bad input leaves no file behind.
pub(super) fn run(arguments: &ImportArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal()?;
    let is_csv = arguments.file.extension().is_some_and(|one| one.eq_ignore_ascii_case("csv"));
    if !is_csv {
        let message = format!("{}: expected a .csv file", arguments.file.display());
        return Err(Failure::input(message));
    }
    let library = Library::load(&arguments.file)?;
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
    Ok(format!("{} profiles written to {}\n", files.len(), arguments.out_dir.display()))
}
