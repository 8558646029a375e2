//! `corun profiles show`: programs of the library, one by one.

use std::path::Path;

use corun_app::{find_core, open_library};
use corun_profile::Profile;
use corun_report::json;
use corun_views::profile::{Classifier, CoreModel, ShownProfile, check_drawing, write_drawing};
use serde::Serialize;

use crate::cli::{DocumentFormat, ShowArgs};
use crate::failure::Outcome;

#[derive(Debug, Serialize)]
struct SeveralShown {
    profiles: Vec<ShownProfile>,
}

pub(super) fn run(arguments: &ShowArgs) -> Outcome<String> {
    let profiles: Vec<Profile> =
        arguments.programs.iter().map(|name| find(arguments, name)).collect::<Outcome<_>>()?;
    if let Some(path) = &arguments.svg {
        check_drawing(path, profiles.len())?;
    }
    let classifier = Classifier::on(arguments.machine.as_deref())?;
    let named = arguments.core.as_deref().map(find_core).transpose()?;
    let core = named.map(CoreModel::of).transpose()?;
    let shown = |profile| ShownProfile::new(profile, &classifier, core.as_ref());
    let shown: Vec<ShownProfile> = profiles.iter().map(shown).collect::<Outcome<_>>()?;
    if let Some(path) = &arguments.svg {
        write_drawing(path, &profiles)?;
    }
    match arguments.format {
        DocumentFormat::Json if shown.len() == 1 => json(&shown[0]),
        DocumentFormat::Json => json(&SeveralShown { profiles: shown }),
        DocumentFormat::Text => {
            let texts = profiles.iter().zip(&shown).map(|(profile, shown)| shown.text(profile));
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// A name of the library first; else a file, which a name with a slash or `.toml` must be.
fn find(arguments: &ShowArgs, program: &str) -> Outcome<Profile> {
    let path = Path::new(program);
    let is_file = program.contains('/') || program.ends_with(".toml");
    if is_file || (arguments.profiles.is_none() && path.is_file()) {
        return Ok(Profile::load(path)?);
    }
    Ok(open_library(arguments.profiles.as_deref())?.get(program)?.clone())
}
