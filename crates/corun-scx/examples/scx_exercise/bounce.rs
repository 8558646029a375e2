//! Two processes that wake each other and are idle most of the time: an emulator has time for others.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

/// How long the partner that did not begin keeps the byte where nothing else is said: some hundred wake-ups a second at
/// least, however slow the CPUs.
pub(crate) const PAUSE: Duration = Duration::from_micros(300);

/// Passes a byte on from one FIFO to another, for ever; another process passes it back. One of the two begins, the other
/// keeps it for a while each time.
pub(crate) fn bounce(from: &str, to: &str, role: &str, pause: Duration) -> Result<()> {
    // Open for both, none waits for the other here, and none sees an end.
    let open = |path: &str| OpenOptions::new().read(true).write(true).open(path);
    let (mut from, mut to) = (open(from)?, open(to)?);
    let pause = match role {
        "begins" => None,
        "waits" => Some(pause),
        other => bail!("found {other}, expected begins or waits"),
    };
    let mut byte = [0];
    if pause.is_none() {
        to.write_all(&byte)?;
    }
    loop {
        from.read_exact(&mut byte)?;
        pause.into_iter().for_each(thread::sleep);
        to.write_all(&byte)?;
    }
}
