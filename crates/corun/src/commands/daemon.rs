//! `corun daemon`: schedules what already runs here, and `corun check-config`.

use std::path::Path;

use corun_daemon::{DEFAULT_PATH, EXAMPLE};

use crate::cli::{CheckConfigArgs, DaemonArgs};
use crate::failure::Outcome;

/// `corun check-config`: reads the configuration as the daemon would, and does nothing.
pub(super) fn check(arguments: &CheckConfigArgs) -> Outcome<String> {
    if arguments.example {
        return Ok(EXAMPLE.to_owned());
    }
    let path = arguments.config.as_deref().or(arguments.named.as_deref());
    corun_daemon::check(path.unwrap_or(Path::new(DEFAULT_PATH)))
}

pub(super) fn run(arguments: &DaemonArgs) -> Outcome<String> {
    let path = arguments.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    corun_daemon::run(path, arguments.dry_run)?;
    Ok(String::new())
}
