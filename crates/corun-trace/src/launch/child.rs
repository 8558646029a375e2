//! The emulated program as a child process: its command line, its signals, its end.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::program::Program;
use crate::plugin::Options;

/// How much longer than its time limit a program may run: the plug-in stops it by itself, unless
/// it sleeps.
const GRACE: Duration = Duration::from_secs(2);

pub(super) fn command(
    qemu: &Path,
    plugin: &Path,
    options: &Options,
    cpu: Option<&str>,
    program: &Program,
) -> Command {
    let mut command = Command::new(qemu);
    let mut words = plugin.display().to_string().replace(',', ",,");
    for word in options.words() {
        words.push(',');
        words.push_str(&word);
    }
    command.arg("-plugin").arg(OsString::from(words));
    if let Some(cpu) = cpu {
        command.args(["-cpu", cpu]);
    }
    if let Some(called) = &program.called {
        command.arg("-0").arg(called);
    }
    command.arg(&program.binary).args(&program.arguments);
    command
}

/// Runs it to its end and hands signals on to it meanwhile. Also true when it had to be killed at
/// its time limit.
pub(super) fn run(
    mut command: Command,
    duration: Option<Duration>,
) -> io::Result<(ExitStatus, bool)> {
    let handed_on = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let mut signals = SignalsInfo::<WithOrigin>::new(handed_on)?;
    let handle = signals.handle();
    let mut child = command.spawn()?;
    let target = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let relay = thread::spawn(move || {
        for origin in signals.forever() {
            if let (Some(target), true) = (target, is_for_us_alone(&origin))
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // The child may be gone already.
                let _ = kill_process(target, signal);
            }
        }
    });
    let status = wait(&mut child, duration);
    handle.close();
    let _ = relay.join();
    status
}

/// A signal from the terminal has reached the whole foreground group, the child included.
fn is_for_us_alone(origin: &Origin) -> bool {
    matches!(origin.cause, Cause::Sent(_))
}

fn wait(child: &mut Child, duration: Option<Duration>) -> io::Result<(ExitStatus, bool)> {
    let Some(duration) = duration else { return Ok((child.wait()?, false)) };
    let started = Instant::now();
    while started.elapsed() < duration + GRACE {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    Ok((child.wait()?, true))
}
