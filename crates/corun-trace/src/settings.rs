//! How a program is recorded: what a caller asks of the starter, and the starter of the plug-in.
//!
//! A further setting is a field here, its word in [`Settings::read`] and [`Settings::words`], and
//! an option of `corun profile`; starter and plug-in hand the whole of it on.

use crate::engine::{DEFAULT_TRACKED_LINES, DEFAULT_WINDOW};

/// How a program is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cache lines followed at most: the more, the larger the footprint that stays exact.
    pub tracked_lines: usize,
    /// Instructions of a window, by which phases are told apart.
    pub window: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tracked_lines: DEFAULT_TRACKED_LINES, window: DEFAULT_WINDOW }
    }
}

impl Settings {
    /// Takes in one `name=value` word of the plug-in's; false when it is none of these or its
    /// value cannot be read.
    pub(crate) fn read(&mut self, name: &str, value: &str) -> bool {
        match name {
            "lines" => store(&mut self.tracked_lines, value.parse()),
            "window" => store(&mut self.window, value.parse()),
            _ => false,
        }
    }

    /// The words that [`Self::read`] takes in, those first that always stand.
    pub(crate) fn words(&self) -> Vec<String> {
        vec![format!("lines={}", self.tracked_lines), format!("window={}", self.window)]
    }
}

fn store<T, E>(place: &mut T, value: Result<T, E>) -> bool {
    value.map(|value| *place = value).is_ok()
}
