//! `corun daemon`: schedules what already runs here, and `corun check-config`.

mod config;
mod listener;
mod log;
mod metrics;
mod viewers;
mod watchdog;

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use corun_live::{Host, Tick};
use corun_serve::{Order, Undone};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::{error, info, warn};

use self::config::EXAMPLE;
pub(super) use self::config::{Config, DEFAULT_PATH};
use self::listener::Readers;
use self::log::{TickLog, log_as, log_undone};
use self::metrics::Metrics;
use self::viewers::Viewers;
pub(super) use self::viewers::{Hello, Message, NumberedOrder, document_of_look};
use self::watchdog::Watchdog;
use super::acting::Acting;
use super::hosting::{Ground, Look};
use super::top::{DaemonEntry, Looks};
use super::watching::NO_POLICY;
use crate::cli::{CheckConfigArgs, DaemonArgs, HostArgs};
use crate::failure::{Failure, Outcome};
use corun_report::counted;

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
    let programs = counted(config.programs.len(), "program");
    let (machine, policy) = (host.machine().name(), &config.policy);
    Ok(format!("{}: good: {policy} on {machine}, {programs}, {mode}\n", path.display()))
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
    let viewers = viewers(&config, &signals);
    loop {
        let dry_run = arguments.dry_run || !config.apply;
        let (host, acting) = match config.viewers_may_act && !arguments.dry_run {
            true => acting_host(&config)?,
            false => (host(&config, dry_run)?, None),
        };
        if let Some(viewers) = &viewers {
            viewers.greet(host.machine(), acting.is_some());
        }
        info!(policy = config.policy, machine = host.machine().name(), dry_run, "started");
        tell_systemd(&[NotifyState::Ready]);
        let patience = config.stall().map_err(Failure::input)?;
        let watchdog = Watchdog::start(host.undoer(), patience)?;
        let interval_s = config.interval_s.unwrap_or(Look::default().every.as_secs_f64());
        let mut session = Session {
            host,
            acting,
            viewers: viewers.as_ref(),
            looks: Looks::new(true, interval_s),
            policy: &config.policy,
            programs: config.programs.iter().map(|one| one.name.clone()).collect(),
            applies: !dry_run,
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

/// Viewers where the configuration asks for them. Whether anybody can look on keeps nobody from being scheduled.
fn viewers(config: &Config, signals: &Signals) -> Option<Viewers> {
    let path = config.viewers.as_deref()?;
    let listening = signals.waker().and_then(|woken| Viewers::at(path, woken));
    listening.map_err(|failure| warn!("{}", failure.report().trim())).ok()
}

/// The host of a configuration by which viewers may act: the policy only proposes, and what a person asks for is done.
fn acting_host(config: &Config) -> Outcome<(Host, Option<Acting>)> {
    // A policy that only proposes need not have been evaluated.
    let arguments = HostArgs { untested: true, gate: None, ..config.host_args(false)? };
    let ground = Ground::new(&arguments)?;
    let mut acting = None;
    let (targets, look) = (config.targets(), Look::default());
    let host =
        ground.host_with(&arguments, targets, &config.profile_names(), &look, |policies| {
            let (acts, policies) = Acting::beside(policies);
            acting = Some(acts);
            policies
        })?;
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let acts = |acting: Acting| acting.on(ground).counting_from(since.as_millis() as u64);
    Ok((host, acting.map(acts)))
}

/// As [`host`], by these arguments in the place of the configuration's.
pub(super) fn host_as(config: &Config, arguments: &HostArgs) -> Outcome<Host> {
    Ground::new(arguments)?.host(arguments, config.targets(), &config.profile_names())
}

/// A host that watches what a configuration schedules, with no policy.
pub(super) fn onlooker(config: &Config, look: &Look) -> Outcome<Host> {
    let arguments =
        HostArgs { policy: NO_POLICY.to_owned(), set: Vec::new(), ..config.host_args(true)? };
    let ground = Ground::new(&arguments)?;
    ground.host_that_looks(&arguments, config.targets(), &config.profile_names(), look)
}

/// The configuration as it is now; none where it is no good, and the old one stays in force.
fn reloaded(path: &Path, old: &Config) -> Option<Config> {
    let loaded = Config::load(path).and_then(|new| host(&new, true).map(|_| new));
    match loaded {
        Ok(new) => {
            tell_systemd(&[NotifyState::Reloading]);
            if new.metrics != old.metrics || new.log != old.log || new.viewers != old.viewers {
                warn!("metrics, viewers and log are taken over at the next start only");
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
    /// Gets a byte with each signal and each order.
    woken: UnixStream,
    wakes: UnixStream,
}

impl Signals {
    fn new() -> Outcome<Self> {
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let own = Self { stop: Arc::default(), reload: Arc::default(), woken, wakes };
        // A second one changes nothing: undoing takes milliseconds, and must not be cut short.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, own.stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, own.reload.clone())?;
        // After the flags: who is woken finds them.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, own.wakes.try_clone()?)?;
        }
        Ok(own)
    }

    /// Where a byte ends [`Self::wait`].
    fn waker(&self) -> Outcome<UnixStream> {
        Ok(self.wakes.try_clone()?)
    }

    /// Sleeps for so long, or until the next signal or order.
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
    /// Does what viewers order, where they may.
    acting: Option<Acting>,
    viewers: Option<&'a Viewers>,
    looks: Looks,
    policy: &'a str,
    /// Programs of the configuration of which it was not yet said whether anybody is there.
    programs: Vec<String>,
    /// Are the policy's plans carried out?
    applies: bool,
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
            while let Some(order) = self.viewers.and_then(Viewers::order) {
                self.obey(order);
                self.tick()?;
            }
            if self.host.now() >= self.host.next_tick() {
                self.tick()?;
            }
            self.watchdog.beat();
            let until = self.host.next_tick().0.saturating_sub(self.host.now().0);
            signals.wait(Duration::from_nanos(until).min(self.longest_sleep));
        }
    }

    fn tick(&mut self) -> Outcome {
        let began = Instant::now();
        let tick = self.host.tick().map_err(Failure::live)?;
        self.metrics.tick(&self.host, &tick, began.elapsed().as_secs_f64());
        for (target, name) in std::mem::take(&mut self.programs).iter().enumerate() {
            log::who_is_there(&self.host, target, name);
        }
        self.log.tick(&self.host, &tick);
        tell_systemd(&[NotifyState::Watchdog]);
        self.show(&tick)
    }

    /// Shows viewers a look, where there are any.
    fn show(&mut self, tick: &Tick) -> Outcome {
        let Some(viewers) = self.viewers else { return Ok(()) };
        if !viewers.are_there() {
            self.looks.note(&self.host, tick);
            return Ok(());
        }
        let act = self.acting.as_ref().map(|acting| acting.entry(&self.host));
        let daemon = DaemonEntry { pid: std::process::id(), applies: self.applies };
        viewers.show(&self.looks.document((&self.host, tick), self.policy, act, daemon)?);
        Ok(())
    }

    fn obey(&mut self, order: Order) {
        match &mut self.acting {
            Some(acting) => acting.obey(&mut self.host, order),
            None => {
                let why = "this daemon only shows: viewers_may_act is false in its configuration";
                order.answer(Err(Undone::Refused(why.to_owned())));
            }
        }
    }
}

/// Where systemd does not listen there is nobody to tell.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd does not hear us");
    }
}
