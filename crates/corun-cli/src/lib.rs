//! What all of corun's commands share: options, the checks of what was typed, and how a command ends.

mod ending;
mod model;
mod values;

pub use ending::{UsageError, end};
pub use model::{Compat, ModelArgs, model_options};
pub use values::{TableFormat, bandwidth, number_within, seconds, share};
