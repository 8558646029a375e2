//! How much do these programs hurt each other on that machine?

mod options;
mod outcome;

pub use options::{BandwidthModel, Compatibility, ModelOptions, SpaceLaw};
pub use outcome::{Demand, Outcome};
