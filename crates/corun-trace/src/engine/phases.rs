//! Windows of instructions into phases.

use super::figures::Figures;

/// Instructions of a window, unless asked otherwise.
pub const DEFAULT_WINDOW: u64 = 10_000_000;

/// The phases so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    all: Figures,
}

impl Phases {
    /// Takes in a window that ended.
    pub(crate) fn add(&mut self, window: &Figures) {
        self.all.merge(window);
    }

    /// The phases with a last window that has not ended.
    pub(crate) fn with(&self, last: &Figures) -> Vec<Figures> {
        let mut all = self.all.clone();
        all.merge(last);
        vec![all]
    }
}
