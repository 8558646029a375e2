//! What a host predicts for policies that decide by predicted outcome.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use corun_model::{LoadedProgram, Model};
use corun_profile::Library;

/// What a host knows about how programs hurt each other on its machine.
///
/// The simulator answers from the experiment's programs, the live host from the profiles of its library. A
/// policy gets the predictor before its first view ([`crate::Policy::predict_by`]). One that gets none may
/// build a [`Model`] of the view's machine, and knows no stored profiles then.
pub trait Predictor: Send + Sync {
    /// The model of the host's machine.
    fn model(&self) -> &Arc<Model>;

    /// The program of a stored profile, loaded by [`Predictor::model`]; `name` is that of
    /// [`crate::ThreadView::profile`]. None where there is no such profile, or the machine cannot load it.
    fn profiled(&self, name: &str) -> Option<Arc<LoadedProgram>>;
}

/// A predictor with programs that were loaded beforehand.
pub struct LoadedPredictor {
    model: Arc<Model>,
    programs: BTreeMap<String, Arc<LoadedProgram>>,
}

impl LoadedPredictor {
    /// The programs by their profiles' names, loaded by this model.
    pub fn new(model: Arc<Model>, programs: impl IntoIterator<Item = Arc<LoadedProgram>>) -> Self {
        let named = programs.into_iter().map(|program| (program.name.clone(), program));
        Self { model, programs: named.collect() }
    }
}

impl Predictor for LoadedPredictor {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn profiled(&self, name: &str) -> Option<Arc<LoadedProgram>> {
        self.programs.get(name).cloned()
    }
}

/// A predictor that loads programs of a library when they are first asked for.
pub struct LibraryPredictor {
    model: Arc<Model>,
    library: Library,
    /// By the profile's name; none where this machine cannot load it.
    loaded: Mutex<BTreeMap<String, Option<Arc<LoadedProgram>>>>,
}

impl LibraryPredictor {
    /// The programs of a library on the model's machine.
    pub fn new(model: Arc<Model>, library: Library) -> Self {
        Self { model, library, loaded: Mutex::default() }
    }
}

impl Predictor for LibraryPredictor {
    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn profiled(&self, name: &str) -> Option<Arc<LoadedProgram>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !loaded.contains_key(name) {
            let profile = self.library.find(name);
            let program = profile.and_then(|profile| self.model.load(profile).ok()).map(Arc::new);
            loaded.insert(name.to_owned(), program);
        }
        loaded.get(name)?.clone()
    }
}
