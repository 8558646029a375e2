//! What a calibration measured: its text with two curves, and the page of `corun calibrate`.

mod curve;
mod page;
mod text;

pub use page::page;
pub use text::report;
