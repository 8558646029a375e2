//! The machine and the programs that a question is about, and scenarios that were loaded before.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use corun_app::{Scenario, find_machine};
use corun_machine::{Machine, THIS_MACHINE, preset};
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use serde::{Deserialize, Serialize};

use super::Desk;
use super::answer::{Failure, Part};

/// Scenarios that are kept: loading a program takes some milliseconds, an answer some microseconds.
const KEPT: usize = 16;

/// Most programs of a question.
const MOST_PROGRAMS: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum MachineChoice {
    /// A preset, `this`, or the machine that the server was started with.
    Name(String),
    /// The text of a machine file.
    File(String),
}

/// Which programs on which machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) machine: MachineChoice,
    pub(crate) apps: Vec<String>,
    /// Texts of profile files, beside the server's library.
    #[serde(default)]
    pub(crate) profiles: Vec<String>,
}

impl Question {
    /// # Errors
    /// More programs than a question may have.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let found = self.apps.len();
        if found <= MOST_PROGRAMS {
            return Ok(());
        }
        let message = format!("found {found} programs, expected at most {MOST_PROGRAMS}");
        Err(Failure::new(Part::Programs, message))
    }
}

/// The newest questions' scenarios.
#[derive(Default)]
pub(crate) struct Scenarios {
    kept: Mutex<VecDeque<(Question, Arc<Scenario>)>>,
    /// Held while one is loaded: who asks the same meanwhile waits for it.
    loading: Mutex<()>,
}

impl Scenarios {
    /// The scenario of a question that was asked before, which becomes the newest.
    fn find(&self, question: &Question) -> Option<Arc<Scenario>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(asked, _)| asked == question)?;
        let found = kept.remove(place)?;
        let scenario = found.1.clone();
        kept.push_back(found);
        Some(scenario)
    }

    fn keep(&self, question: &Question, scenario: &Arc<Scenario>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((question.clone(), scenario.clone()));
    }
}

impl Desk {
    /// # Errors
    /// An unknown name or a file with mistakes. A path is no name: the page reads no files of this machine.
    pub(crate) fn machine(&self, choice: &MachineChoice) -> Result<Machine, Failure> {
        let wrong = |error| Failure::of(Part::Machine)(corun_app::Error::from(error));
        match choice {
            MachineChoice::File(text) => Machine::from_toml(text, "pasted machine").map_err(wrong),
            MachineChoice::Name(name) => {
                if let Some(own) = self.options.machine.as_ref().filter(|own| own.name() == name) {
                    return Ok(own.clone());
                }
                if name == THIS_MACHINE {
                    return find_machine(name).map_err(Failure::of(Part::Machine));
                }
                // The page says so of any path, and so not whether the file is there.
                if name.contains('/') || name.ends_with(".toml") || name.ends_with(".xml") {
                    let why =
                        format!("`{name}` is a file, and the page reads no files of this machine");
                    return Err(Failure::new(Part::Machine, why)
                        .hint("the text of the file, as {\"file\": \"..\"}: Own file in the page")
                        .hint("corun serve --machine FILE"));
                }
                preset(name).map_err(wrong)
            }
        }
    }

    /// The server's library with what was pasted; a pasted profile hides one of the library of its name.
    pub(crate) fn library(&self, pasted: &[String]) -> Result<Library, Failure> {
        if pasted.is_empty() {
            return Ok(self.options.library.clone());
        }
        let mut library = Library::default();
        for text in pasted {
            let wrong = |error| Failure::of(Part::Profiles)(corun_app::Error::from(error));
            let profile = Profile::from_toml(text, "pasted profile").map_err(wrong)?;
            library.insert(profile, "pasted profile".to_owned()).map_err(wrong)?;
        }
        let known: Vec<String> = library.names().map(str::to_owned).collect();
        for profile in self.options.library.iter().filter(|one| !known.contains(&one.name)) {
            let file = self.options.library.file_of(&profile.name).unwrap_or_default().to_owned();
            let wrong = |error| Failure::of(Part::Profiles)(corun_app::Error::from(error));
            library.insert(profile.clone(), file).map_err(wrong)?;
        }
        Ok(library)
    }

    /// The programs loaded on the machine; those of a question that was asked before are there at once.
    pub(crate) fn scenario(&self, question: &Question) -> Result<Arc<Scenario>, Failure> {
        question.check()?;
        if let Some(known) = self.scenarios.find(question) {
            return Ok(known);
        }
        let _loading = self.scenarios.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.scenarios.find(question) {
            return Ok(known);
        }
        let machine = self.machine(&question.machine)?;
        let options = ModelOptions::default();
        let wrong = Failure::of(Part::Programs);
        let scenario = if question.profiles.is_empty() {
            Scenario::new(machine, &self.options.library, &question.apps, options)
        } else {
            Scenario::new(machine, &self.library(&question.profiles)?, &question.apps, options)
        };
        let scenario = Arc::new(scenario.map_err(wrong)?);
        self.scenarios.keep(question, &scenario);
        Ok(scenario)
    }
}
