//! What all of corun's commands share: options, the checks of what was typed, how far it is, and
//! how it ends.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod ending;
mod model;
mod progress;
mod values;

pub use ending::{UsageError, end};
pub use model::{Compat, ModelArgs, model_options};
pub use progress::progress_bar;
pub use values::{TableFormat, bandwidth, number_within, seconds, share};
