//! Handing work over to Dask, by the Python package that speaks its language.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::failure::{Failure, Outcome};

const PYTHON: &str = "python3";

/// Starts `python3 -m corun.dask` with arguments and a text on its stdin; gives its stdout. What it
/// has to say to people it says on stderr itself.
///
/// # Errors
/// Bad input where there is no Python, no package or another version of it; the exit code of the
/// package where it failed.
pub(super) fn handed_over(arguments: &[String], input: &str) -> Outcome<String> {
    check_package()?;
    let mut child = Command::new(PYTHON)
        .args(["-m", "corun.dask"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start python3")?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ended early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().context("cannot wait for python3")?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(130) | None => Err(Failure::Interrupted),
        Some(code) => Err(Failure::Program(u8::try_from(code).unwrap_or(1))),
    }
}

fn check_package() -> Outcome {
    let install = "pip install 'corun[dask]', or pip install '.[dask]' in a clone of corun";
    let asked = "import corun.dask; print(corun.__version__)";
    let found = Command::new(PYTHON).args(["-c", asked]).stdin(Stdio::null()).output();
    let found = found.map_err(|error| {
        Failure::input(format!("--dask needs Python, and python3 does not start: {error}"))
            .hint(install)
    })?;
    if !found.status.success() {
        let text = String::from_utf8_lossy(&found.stderr);
        let why = text.lines().rfind(|line| !line.trim().is_empty() && !line.starts_with("  try"));
        let why = why.unwrap_or("it does not say why");
        let message = format!("--dask needs the Python package corun with Dask: {why}");
        return Err(Failure::input(message).hint(install));
    }
    let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let message = format!("python3 has corun {version}, and this is corun {own}");
        return Err(Failure::input(message).hint(install));
    }
    Ok(())
}
