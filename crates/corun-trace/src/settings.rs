//! How a program is recorded: what a caller asks of the starter, and the starter of the plug-in.
//!
//! A further setting is a field here, its word in [`Settings::read`] and [`Settings::words`], and
//! an option of `corun profile`; starter and plug-in hand the whole of it on.

use crate::engine::{
    CacheShape, DEFAULT_WINDOW, EngineOptions, SamplingRate, SetCaches, ShapeError,
};

/// How a program is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Which accesses and cache lines are followed.
    pub engine: EngineOptions,
    /// Instructions of a window, by which phases are told apart.
    pub window: u64,
    /// Record the process that is started and none of its children.
    pub main_only: bool,
    /// Caches whose stack-distance profiles are taken too.
    pub caches: SetCaches,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: EngineOptions::default(),
            window: DEFAULT_WINDOW,
            main_only: false,
            caches: SetCaches::default(),
        }
    }
}

impl Settings {
    /// Takes in one `name=value` word of the plug-in's; false when it is none of these or its
    /// value cannot be read.
    pub(crate) fn read(&mut self, name: &str, value: &str) -> bool {
        match name {
            "engine" => store(&mut self.engine.kind, value.parse()),
            "one_in" => {
                let rate =
                    value.parse().ok().and_then(|one_in: f64| SamplingRate::new(1.0 / one_in));
                store(&mut self.engine.rate, rate.ok_or(()))
            }
            "lines" => store(&mut self.engine.lines, value.parse()),
            "fetches" => store(&mut self.engine.fetches, value.parse()),
            "kernel" => store(&mut self.engine.kernel, value.parse()),
            "window" => store(&mut self.window, value.parse()),
            "main_only" => store(&mut self.main_only, value.parse()),
            "llc" => store(&mut self.caches.llcs, shapes(value)),
            "private" => store(&mut self.caches.private, shapes(value)),
            _ => false,
        }
    }

    /// The words that [`Self::read`] takes in, those first that always stand.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("engine={}", self.engine.kind.name()),
            format!("one_in={}", self.engine.rate.one_in()),
            format!("lines={}", self.engine.lines),
            format!("fetches={}", self.engine.fetches),
            format!("kernel={}", self.engine.kernel),
            format!("window={}", self.window),
            format!("main_only={}", self.main_only),
        ];
        for (name, shapes) in [("llc", &self.caches.llcs), ("private", &self.caches.private)] {
            if !shapes.is_empty() {
                let shapes: Vec<String> = shapes.iter().map(CacheShape::to_string).collect();
                words.push(format!("{name}={}", shapes.join("+")));
            }
        }
        words
    }
}

/// `SIZE/WAYS+SIZE/WAYS..`.
fn shapes(text: &str) -> Result<Vec<CacheShape>, ShapeError> {
    text.split('+').map(str::parse).collect()
}

fn store<T, E>(place: &mut T, value: Result<T, E>) -> bool {
    value.map(|value| *place = value).is_ok()
}
