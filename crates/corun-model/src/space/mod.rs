//! Laws of space: what each sharer of a cache holds.

mod equal_time;
mod fill_time;
mod proportional;
mod whirlpool;

#[cfg(test)]
mod outside_tests;
#[cfg(test)]
mod single_use_tests;
#[cfg(test)]
mod tests;

use crate::growth::Growth;
use crate::options::SpaceLaw;
use crate::table::PhaseTable;

/// Working memory of the laws.
#[derive(Debug, Default)]
pub(crate) struct SpaceScratch {
    growths: Vec<&'static Growth>,
    segments: Vec<usize>,
    slopes: Vec<f64>,
    steps: Vec<f64>,
    fallen: Vec<bool>,
    reached: Vec<f64>,
    /// The time at which the last search ended, and that from which the next one goes on.
    found: f64,
    from: Option<f64>,
}

impl SpaceScratch {
    /// The next search is for the sharers of the last one and no smaller a capacity.
    pub(crate) fn go_on(&mut self) {
        self.from = Some(self.found);
    }
}

/// A law of space. It sees the members of one cache group and nothing else.
pub(crate) trait DivideSpace {
    /// Bytes that each sharer holds of `capacity` bytes, into `out`. What nobody needs is left.
    fn divide(
        &self,
        capacity: f64,
        sharers: &[&PhaseTable],
        scratch: &mut SpaceScratch,
        out: &mut Vec<f64>,
    );
}

/// The law of that name.
pub(crate) fn law(of: SpaceLaw) -> &'static (dyn DivideSpace + Sync) {
    match of {
        SpaceLaw::FillTime => &fill_time::FillTime,
        SpaceLaw::Proportional => &proportional::Proportional,
        SpaceLaw::Whirlpool => &whirlpool::Whirlpool { per_instruction: false },
        SpaceLaw::WhirlpoolMpki => &whirlpool::Whirlpool { per_instruction: true },
    }
}
