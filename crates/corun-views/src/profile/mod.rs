//! A profile as `corun profiles show` shows it, one section a file, and the class of its program.

mod chart;
mod class;
mod curve;
mod facts;
mod on_core;
mod on_machine;
mod phases;
mod stack_distances;
mod svg;

pub use class::{Classified, Classifier};
pub use on_core::CoreModel;
pub use svg::{check_drawing, write_drawing};

use corun_app::Result;
use corun_profile::{Profile, ProfileDocument};
use serde::Serialize;

use self::on_core::OnCore;
use self::phases::PhasesDocument;
use self::stack_distances::ShownStack;

/// A program as it is shown: its document, and how it does on the machine.
#[derive(Debug, Serialize)]
pub struct ShownProfile {
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

impl ShownProfile {
    /// A profile on the classifier's machine and, where one is given, alone on a core.
    ///
    /// # Errors
    /// Where the model cannot load the profile.
    pub fn new(
        profile: &Profile,
        classifier: &Classifier,
        core: Option<&CoreModel>,
    ) -> Result<Self> {
        Ok(Self {
            document: ProfileDocument::new(profile, None),
            phases: PhasesDocument::new(profile),
            on_machine: classifier.classify(profile)?,
            on_core: core.map(|core| core.on_core(profile)).transpose()?,
            stack_distances: stack_distances::of(profile),
        })
    }

    /// For people. `profile`: the one that it was made of.
    pub fn text(&self, profile: &Profile) -> String {
        text(profile, self)
    }
}

/// Sections as lines, with an empty line between them; a section without lines is left out.
fn text(profile: &Profile, shown: &ShownProfile) -> String {
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
