//! `corun daemon`: schedules what already runs here, and `corun check-config`.

mod config;
mod listener;
mod log;
mod metrics;
mod watchdog;

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use corun_live::Host;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::{error, info, warn};

use self::config::EXAMPLE;
pub(super) use self::config::{Config, DEFAULT_PATH};
use self::listener::Readers;
use self::log::{TickLog, log_as, log_undone};
use self::metrics::Metrics;
use self::watchdog::Watchdog;
use super::hosting::{Ground, Look};
use super::watching::NO_POLICY;
use crate::cli::{CheckConfigArgs, DaemonArgs, HostArgs};
use crate::failure::{Failure, Outcome};

/// The loop tells the watchdog at least as often that it goes on.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// `corun check-config`: reads the configuration as the daemon would, and does nothing.
pub(super) fn check(arguments: &CheckConfigArgs) -> Outcome<String> {
    if arguments.example {
        return Ok(EXAMPLE.to_owned());
    }
    let path = arguments.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let config = Config::load(path)?;
    let host = host(&config, true)?;
    if let Some((at, error)) = config.metrics.and_then(|at| Some((at, listener::obstacle(at)?))) {
        eprintln!("warning: metrics: {at}: {error}; the daemon would wait until it is free");
    }
    let mode = if config.apply { "carries plans out" } else { "only logs what it would do" };
    let counted = config.programs.len();
    let (machine, policy) = (host.machine().name(), &config.policy);
    Ok(format!("{}: good: {policy} on {machine}, {counted} programs, {mode}\n", path.display()))
}

pub(super) fn run(arguments: &DaemonArgs) -> Outcome<String> {
    let passed = corun_linux::passed_listener().map(Readers::Passed);
    let path = arguments.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let mut config = Config::load(path)?;
    log_as(config.log);
    let signals = Signals::new()?;
    let metrics = Arc::new(Metrics::new());
    if let Some(at) = config.metrics {
        listener::serve(metrics.clone(), passed.unwrap_or(Readers::At(at)))?;
    }
    loop {
        let dry_run = arguments.dry_run || !config.apply;
        let host = host(&config, dry_run)?;
        info!(policy = config.policy, machine = host.machine().name(), dry_run, "started");
        tell_systemd(&[NotifyState::Ready]);
        let patience = config.stall().map_err(Failure::input)?;
        let watchdog = Watchdog::start(host.undoer(), patience)?;
        let mut session = Session {
            host,
            metrics: &metrics,
            watchdog: &watchdog,
            log: TickLog::default(),
            longest_sleep: LONGEST_SLEEP.min(patience / 4),
        };
        let worked = session.work(&signals, || reloaded(path, &config));
        session.log.finish();
        let undone = session.host.undo();
        log_undone(&undone);
        watchdog.stop();
        let next = worked?;
        if undone.iter().any(|one| one.outcome.is_err()) {
            return Err(Failure::Failed(anyhow!(
                "not all is undone: corun restore goes on with it"
            )));
        }
        let Some(next) = next else {
            tell_systemd(&[NotifyState::Stopping]);
            info!("stopped");
            return Ok(String::new());
        };
        config = next;
    }
}

/// The host that a configuration asks for.
pub(super) fn host(config: &Config, dry_run: bool) -> Outcome<Host> {
    host_as(config, &config.host_args(dry_run)?)
}

/// As [`host`], by these arguments in the place of the configuration's.
pub(super) fn host_as(config: &Config, arguments: &HostArgs) -> Outcome<Host> {
    Ground::new(arguments)?.host(arguments, config.targets(), &profiles(config))
}

/// A host that watches what a configuration schedules, with no policy.
pub(super) fn onlooker(config: &Config, look: &Look) -> Outcome<Host> {
    let arguments =
        HostArgs { policy: NO_POLICY.to_owned(), set: Vec::new(), ..config.host_args(true)? };
    let ground = Ground::new(&arguments)?;
    ground.host_that_looks(&arguments, config.targets(), &profiles(config), look)
}

/// The profile of each program: the one of its name where none is given.
fn profiles(config: &Config) -> Vec<&str> {
    config.programs.iter().map(|one| one.profile.as_deref().unwrap_or(&one.name)).collect()
}

/// The configuration as it is now; none where it is no good, and the old one stays in force.
fn reloaded(path: &Path, old: &Config) -> Option<Config> {
    let loaded = Config::load(path).and_then(|new| host(&new, true).map(|_| new));
    match loaded {
        Ok(new) => {
            tell_systemd(&[NotifyState::Reloading]);
            if new.metrics != old.metrics || new.log != old.log {
                warn!("metrics and log are taken over at the next start only");
            }
            info!("configuration read again");
            Some(new)
        }
        Err(failure) => {
            error!("the old configuration stays: {}", failure.report().trim());
            None
        }
    }
}

struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    /// Gets a byte with each signal.
    woken: UnixStream,
}

impl Signals {
    fn new() -> Outcome<Self> {
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let own = Self { stop: Arc::default(), reload: Arc::default(), woken };
        // A second one changes nothing: undoing takes milliseconds, and must not be cut short.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, own.stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, own.reload.clone())?;
        // After the flags: who is woken finds them.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, wakes.try_clone()?)?;
        }
        Ok(own)
    }

    /// Sleeps for so long, or until the next signal.
    fn wait(&self, longest: Duration) {
        let longest =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        let mut asked = [PollFd::new(&self.woken, PollFlags::IN)];
        // A signal that another thread took interrupts nothing; what interrupts this one is there to be read.
        if poll(&mut asked, Some(&longest)).is_ok_and(|ready| ready > 0) {
            let _ = (&self.woken).read(&mut [0; 64]);
        }
    }
}

struct Session<'a> {
    host: Host,
    metrics: &'a Metrics,
    watchdog: &'a Watchdog,
    log: TickLog,
    longest_sleep: Duration,
}

impl Session<'_> {
    /// Until told to stop, with no configuration, or to go on with another one. A configuration that is no
    /// good changes nothing.
    fn work(
        &mut self,
        signals: &Signals,
        reload: impl Fn() -> Option<Config>,
    ) -> Outcome<Option<Config>> {
        loop {
            if signals.stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            if signals.reload.swap(false, Ordering::SeqCst)
                && let Some(next) = reload()
            {
                return Ok(Some(next));
            }
            if self.host.now() >= self.host.next_tick() {
                let began = Instant::now();
                let tick = self.host.tick().map_err(Failure::live)?;
                self.metrics.tick(&self.host, &tick, began.elapsed().as_secs_f64());
                self.log.tick(&self.host, &tick);
                tell_systemd(&[NotifyState::Watchdog]);
            }
            self.watchdog.beat();
            let until = self.host.next_tick().0.saturating_sub(self.host.now().0);
            signals.wait(Duration::from_nanos(until).min(self.longest_sleep));
        }
    }
}

/// Where systemd does not listen there is nobody to tell.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd does not hear us");
    }
}
