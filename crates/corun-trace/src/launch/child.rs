//! The emulated program as a child process: its signals, its end, and the end of those that it
//! started.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use super::Progress;
use crate::control::{Control, Stop};
use crate::report::Report;
use crate::report_folder::{OwnReports, names_folder, processes};

/// How much longer than the limits a program may run: the plug-ins stop it by themselves, unless
/// it sleeps.
const GRACE: Duration = Duration::from_secs(1);

/// How long processes that outlive the program are waited for.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// How long they have to hand in what they did until then.
const FAREWELL: Duration = Duration::from_millis(200);

/// Between two looks at what runs.
const POLL: Duration = Duration::from_millis(20);

/// How a program and the processes that it started came to their end.
pub(super) struct Ended {
    /// The number of the process that was started.
    pub(super) process: u32,
    /// How it ended.
    pub(super) status: ExitStatus,
    /// The limit that ended it all.
    pub(super) limit: Option<Stop>,
    /// Processes that run on.
    pub(super) left: usize,
}

/// Runs it to its end, tells `watch` how far it is, and hands signals on to it meanwhile. All its processes have the
/// folder's name in their command lines. `first_report`: how long after a limit whoever has told nothing yet may go on; none
/// where there is no limit.
pub(super) fn run(
    mut command: Command,
    folder: &OwnReports,
    first_report: Option<Duration>,
    watch: Option<&mut dyn FnMut(Progress)>,
) -> io::Result<Ended> {
    let handed_on = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let mut signals = SignalsInfo::<WithOrigin>::new(handed_on)?;
    let handle = signals.handle();
    let emulator = FileId::of(Path::new(command.get_program()));
    end_with_this_process(&mut command);
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
    let tree = Tree {
        control: &folder.control,
        folder: folder.outer(),
        reports: folder.inner(),
        emulator,
        first_report,
    };
    let ended = tree.wait(&mut child, watch);
    handle.close();
    let _ = relay.join();
    ended
}

/// Nobody would take what it records if this process were killed, and it would run on for long.
#[allow(unsafe_code)] // Runs in the child, before its program.
fn end_with_this_process(command: &mut Command) {
    let own = getpid();
    let end_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may be gone already.
        if getppid() == Some(own) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: two system calls, and no memory is asked for.
    unsafe { command.pre_exec(end_with_parent) };
}

/// A signal from the terminal has reached the whole foreground group, the child included.
fn is_for_us_alone(origin: &Origin) -> bool {
    matches!(origin.cause, Cause::Sent(_))
}

struct Tree<'a> {
    control: &'a Control,
    folder: &'a Path,
    reports: PathBuf,
    emulator: Option<FileId>,
    first_report: Option<Duration>,
}

/// A file, whatever its path.
#[derive(PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        Some(Self { device: data.dev(), inode: data.ino() })
    }
}

impl Tree<'_> {
    fn wait(
        &self,
        child: &mut Child,
        watch: Option<&mut dyn FnMut(Progress)>,
    ) -> io::Result<Ended> {
        let status = match watch {
            None if self.first_report.is_none() => child.wait()?,
            watch => self.look_until_over(child, watch)?,
        };
        let mut left = self.wait_for_others(AFTERWARDS);
        let limit = self.control.stop();
        if left > 0 {
            if limit.is_some() {
                self.wait_for_reports();
                self.kill();
            } else {
                self.control.set_stop(Stop::Leave);
            }
            left = self.wait_for_others(FAREWELL);
        }
        Ok(Ended { process: child.id(), status, limit, left })
    }

    fn look_until_over(
        &self,
        child: &mut Child,
        mut watch: Option<&mut dyn FnMut(Progress)>,
    ) -> io::Result<ExitStatus> {
        let started = Instant::now();
        let mut stopped: Option<Instant> = None;
        loop {
            if let Some(watch) = &mut watch {
                watch(Progress::new(started.elapsed(), self.control));
            }
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.control.stop().is_some()
                && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE
            {
                self.wait_for_reports();
                self.kill();
                return child.wait();
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until each program that began has told what it did so far, or can no more. A program that did not begin has
    /// told nothing: on a busy machine it may have no CPU before the limit.
    fn wait_for_reports(&self) {
        let most = self.first_report.unwrap_or_default();
        let started = Instant::now();
        let have_reported = || {
            let reports = Report::list(&self.reports).map_or(0, |reports| reports.len() as u64);
            reports > 0 && reports >= self.control.started()
        };
        // Who replaces itself has for a moment no command line by which to know it.
        let mut seen = started;
        while started.elapsed() < most && seen.elapsed() < AFTERWARDS && !have_reported() {
            if !self.running().is_empty() {
                seen = Instant::now();
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until no process of it runs, and returns how many still do in the end.
    fn wait_for_others(&self, most: Duration) -> usize {
        let started = Instant::now();
        loop {
            let running = self.running().len();
            if running == 0 || started.elapsed() >= most {
                return running;
            }
            thread::sleep(POLL);
        }
    }

    fn kill(&self) {
        for process in self.running() {
            // It may be gone already, and its number be another's: the number is fixed first.
            if let Ok(fixed) = pidfd_open(process, PidfdFlags::empty())
                && self.is_ours(process.as_raw_nonzero().get())
            {
                let _ = pidfd_send_signal(&fixed, Signal::KILL);
            }
        }
    }

    fn running(&self) -> Vec<Pid> {
        let ours = processes()
            .into_iter()
            .filter(|&number| self.is_ours(number) || self.is_replaced(number));
        ours.filter_map(Pid::from_raw).collect()
    }

    /// Is it replacing its program at this moment? Then it is the emulator already and its command line
    /// still empty. Of whose recording it is cannot be told, so it is only waited for.
    fn is_replaced(&self, process: i32) -> bool {
        self.emulator.is_some()
            && fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| line.is_empty())
            && FileId::of(Path::new(&format!("/proc/{process}/exe"))) == self.emulator
    }

    fn is_ours(&self, process: i32) -> bool {
        names_folder(process, self.folder)
    }
}
