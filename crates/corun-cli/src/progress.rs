//! How far a long command is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr; nothing where stderr is no terminal. `figures` stands beside it, in the words of
/// indicatif's templates: `{pos}/{len} runs {eta}`.
pub fn progress_bar(steps: u64, figures: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template(&format!("{{bar:30}} {figures}")) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
