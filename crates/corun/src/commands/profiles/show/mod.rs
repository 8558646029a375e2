//! `corun profiles show`: one section a file, in the order of [`text`].

mod chart;
mod curve;
mod facts;
mod on_core;
mod on_machine;
mod phases;
mod stack_distances;
mod svg;

use std::path::Path;

use corun_app::{find_core, open_library};
use corun_profile::{Profile, ProfileDocument};
use serde::Serialize;

use self::on_core::{CoreModel, OnCore};
use self::phases::PhasesDocument;
use self::stack_distances::ShownStack;
use super::class::{Classified, Classifier};
use crate::cli::{DocumentFormat, ShowArgs};
use crate::failure::Outcome;
use crate::output::json;

/// A program as it is shown: its document, and how it does on the machine.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    document: ProfileDocument,
    #[serde(flatten)]
    phases: Option<PhasesDocument>,
    on_machine: Classified,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_core: Option<OnCore>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack_distances: Vec<ShownStack>,
}

#[derive(Debug, Serialize)]
struct SeveralShown {
    profiles: Vec<Shown>,
}

pub(super) fn run(arguments: &ShowArgs) -> Outcome<String> {
    let profiles: Vec<Profile> =
        arguments.programs.iter().map(|name| find(arguments, name)).collect::<Outcome<_>>()?;
    if let Some(path) = &arguments.svg {
        svg::check(path, profiles.len())?;
    }
    let classifier = Classifier::on(arguments.machine.as_deref())?;
    let named = arguments.core.as_deref().map(find_core).transpose()?;
    let core = named.map(CoreModel::of).transpose()?;
    let mut shown = Vec::with_capacity(profiles.len());
    for profile in &profiles {
        let document = ProfileDocument::new(profile, None);
        shown.push(Shown {
            document,
            phases: PhasesDocument::new(profile),
            on_machine: classifier.classify(profile)?,
            on_core: core.as_ref().map(|core| core.on_core(profile)).transpose()?,
            stack_distances: stack_distances::of(profile),
        });
    }
    if let Some(path) = &arguments.svg {
        svg::write(path, &profiles)?;
    }
    match arguments.format {
        DocumentFormat::Json if shown.len() == 1 => json(&shown[0]),
        DocumentFormat::Json => json(&SeveralShown { profiles: shown }),
        DocumentFormat::Text => {
            let texts = profiles.iter().zip(&shown).map(|(profile, shown)| text(profile, shown));
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

/// Sections as lines, with an empty line between them; a section without lines is left out.
fn text(profile: &Profile, shown: &Shown) -> String {
    let sections: Vec<Vec<String>> = vec![
        facts::section(profile, &shown.document),
        on_machine::section(&shown.on_machine),
        phases::section(profile),
        curve::section(&shown.document),
        shown.on_core.as_ref().map_or_else(Vec::new, on_core::section),
        stack_distances::section(&shown.stack_distances),
    ];
    let mut text = String::new();
    for section in sections.iter().filter(|section| !section.is_empty()) {
        if !text.is_empty() {
            text.push('\n');
        }
        for line in section {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// A line of a section: a label and its value.
fn fact(label: &str, value: impl std::fmt::Display) -> String {
    format!("  {label:<14}{value}")
}
