//! What a study works with.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clap::{ArgMatches, FromArgMatches};
use corun_app::{Cancel, Error, Result, open_library};
use corun_model::{LoadedProgram, Model};
use corun_profile::{Library, Profile};

/// Which programs a study stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    /// The SPEC programs of a table that is not part of corun.
    Spec,
    /// What corun ships, or what the study makes.
    BuiltIn,
    /// What corun ships; the SPEC programs beside it where they are given.
    BuiltInAndSpec,
    /// What the study's own options name.
    OwnOptions,
}

/// What a study works with: programs, seeds, its own options, and the user's wish to stop.
pub(crate) struct StudyInputs {
    spec: Option<Library>,
    shipped: OnceLock<Library>,
    /// By the names of machine and program.
    loaded: Mutex<HashMap<(String, String), Arc<LoadedProgram>>>,
    options: ArgMatches,
    quick: bool,
    /// What the study did less of for a first look, a sentence each.
    shortened: Mutex<BTreeSet<String>>,
    /// What depends on chance is repeated with seeds 1 to this.
    pub(crate) seeds: u32,
    /// Set when the user wants to stop.
    pub(crate) cancel: Cancel,
}

impl StudyInputs {
    /// `profiles`: the SPEC programs; `options`: what was typed after the study's name.
    ///
    /// # Errors
    /// A library that cannot be read or has mistakes.
    pub(crate) fn new(
        profiles: Option<&Path>,
        seeds: u32,
        options: ArgMatches,
        cancel: Cancel,
    ) -> Result<Self> {
        let spec = profiles.map(|path| open_library(Some(path))).transpose()?;
        Ok(Self {
            spec,
            shipped: OnceLock::new(),
            loaded: Mutex::default(),
            options,
            quick: false,
            shortened: Mutex::default(),
            seeds,
            cancel,
        })
    }

    /// For the next study of several.
    pub(crate) fn with(self, seeds: u32, options: ArgMatches, quick: bool) -> Self {
        Self { seeds, options, quick, shortened: Mutex::default(), ..self }
    }

    /// How long a program is whose study takes long: `seconds`, or a fifth of that for a first look.
    pub(crate) fn length_s(&self, seconds: f64) -> f64 {
        if !self.quick {
            return seconds;
        }
        self.shorten("programs are a fifth as long as that".to_owned());
        seconds / 5.0
    }

    /// The step in which a study goes through what takes long, in words `what`: 1, or `step` for a first look.
    pub(crate) fn every(&self, step: usize, what: &str) -> usize {
        if !self.quick {
            return 1;
        }
        self.shorten(format!("one in {step} of the {what}"));
        step
    }

    /// Whether something smaller stands for what takes long, in words `what`: for a first look alone.
    pub(crate) fn has_smaller(&self, what: &str) -> bool {
        if self.quick {
            self.shorten(what.to_owned());
        }
        self.quick
    }

    fn shorten(&self, said: String) {
        self.shortened.lock().unwrap_or_else(PoisonError::into_inner).insert(said);
    }

    /// What the study did less of than otherwise, in words; none where it did all.
    pub(super) fn shortened(&self) -> Option<String> {
        let said = self.shortened.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<&str> = said.iter().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The programs that corun ships.
    ///
    /// # Errors
    /// A shipped file with mistakes.
    pub(crate) fn shipped(&self) -> Result<&Library> {
        if let Some(library) = self.shipped.get() {
            return Ok(library);
        }
        let shipped = open_library(None)?;
        Ok(self.shipped.get_or_init(|| shipped))
    }

    /// A program that corun ships, loaded once for a preset: `model` is that of a preset as it is, with
    /// the usual options.
    ///
    /// # Errors
    /// No such program, or a machine that it cannot be loaded for.
    pub(crate) fn shipped_on(&self, model: &Model, name: &str) -> Result<Arc<LoadedProgram>> {
        self.loaded_on(model, self.shipped()?.get(name)?)
    }

    /// The same of a program that corun ships, or one beside them that has a name of its own.
    ///
    /// # Errors
    /// A machine that the program cannot be loaded for.
    pub(crate) fn loaded_on(&self, model: &Model, profile: &Profile) -> Result<Arc<LoadedProgram>> {
        let key = (model.machine().name().to_owned(), profile.name.clone());
        let loaded = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = loaded().get(&key) {
            return Ok(Arc::clone(program));
        }
        // Not under the lock: others load other programs meanwhile.
        let program = Arc::new(model.load(profile)?);
        Ok(Arc::clone(loaded().entry(key).or_insert(program)))
    }

    /// The SPEC programs, where the user gave them.
    pub(crate) fn spec_if_given(&self) -> Option<&Library> {
        self.spec.as_ref()
    }

    /// The SPEC programs.
    ///
    /// # Errors
    /// Bad input when the user gave none.
    pub(crate) fn spec(&self) -> Result<&Library> {
        self.spec.as_ref().ok_or_else(|| {
            Error::input("this study stands on SPEC CPU programs, which are not part of corun").hint(
                "--profiles FILE.csv: their solo figures by LLC ways, as `corun profiles import` \
                 takes them",
            )
        })
    }

    /// The study's own options.
    ///
    /// # Errors
    /// Options that the study did not declare: a mistake in the study.
    pub(crate) fn options<T: FromArgMatches>(&self) -> Result<T> {
        T::from_arg_matches(&self.options).map_err(Error::failed)
    }
}
