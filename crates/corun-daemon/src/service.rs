//! The daemon's loop: a host by the configuration, ticked until a signal ends it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use corun_app::{Error, NO_POLICY, Result, tell};
use corun_hosting::{Acting, HostBuilder, HostSettings, Look, undone};
use corun_live::{Host, Tick};
use corun_report::counted;
use corun_serve::{Order, Undone};
use corun_top::{DaemonEntry, Looks};
use sd_notify::NotifyState;
use tracing::{error, info, warn};

use crate::config::Config;
use crate::listener::{self, Readers};
use crate::log::{self, TickLog, log_as, log_undone};
use crate::metrics::Metrics;
use crate::no_plan::{NoPlan, ToldReason};
use crate::signals::Signals;
use crate::viewers::Viewers;
use crate::watchdog::Watchdog;

/// The loop tells the watchdog at least as often that it goes on.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Reads a configuration as the daemon would, and does nothing. What it would do is the text.
///
/// # Errors
/// Where the daemon would not start by it.
pub fn check(path: &Path) -> Result<String> {
    let config = Config::load(path)?;
    let (builder, host) = built(&config, &config.host_settings(true)?)?;
    if let Some((at, error)) = config.metrics.and_then(|at| Some((at, listener::obstacle(at)?))) {
        tell(format_args!(
            "warning: metrics: {at}: {error}; the daemon would wait until it is free"
        ));
    }
    warn_of_what_is_missing(&config, &builder);
    let mode = if config.apply { "carries plans out" } else { "only logs what it would do" };
    let programs = counted(config.programs.len(), "program");
    let (machine, policy) = (host.machine().name(), &config.policy);
    let chosen = config.chosen.map_or(String::new(), |why| format!(" (auto: {why})"));
    let note = NoPlan::beforehand(&host).map_or(String::new(), |reason| reason.note() + "\n");
    let shown = path.display();
    Ok(format!("{shown}: good: {policy}{chosen} on {machine}, {programs}, {mode}\n{note}"))
}

/// Warns of what a configuration names and is not there or not safe, as far as this user can tell: the daemon may be another's.
fn warn_of_what_is_missing(config: &Config, builder: &HostBuilder) {
    let profiles = config.programs.iter().enumerate().filter_map(|(index, program)| {
        let checked = builder.check_profiles(&[program.profile.as_deref()?]);
        Some(checked.map_err(|failure| config.at(&config.profile_field(index), failure)))
    });
    let journals = config.may_act().then(|| builder.check_journals());
    for checked in profiles.chain(journals) {
        if let Err(failure) = checked {
            tell(format_args!("warning: {}", failure.report().trim()));
        }
    }
}

/// Schedules by a configuration until a signal ends it; undoes everything then. `dry_run`: nothing is done, whatever the
/// configuration says.
///
/// # Errors
/// Where the host cannot be as the configuration says, and where not all could be undone.
pub fn run(path: &Path, dry_run: bool) -> Result {
    let passed = corun_linux::passed_listener().map(Readers::Passed);
    let mut config = Config::load(path)?;
    log_as(config.log);
    let signals = Signals::new()?;
    let metrics = Arc::new(Metrics::new());
    if let Some(at) = config.metrics {
        listener::serve(metrics.clone(), passed.unwrap_or(Readers::At(at)))?;
    }
    let viewers = viewers(&config, &signals);
    loop {
        let only_looks = dry_run || !config.apply;
        let (host, acting) = if config.viewers_may_act && !dry_run {
            let (host, acting) = acting_host(&config)?;
            (host, Some(acting))
        } else {
            (host(&config, only_looks)?, None)
        };
        if let Some(viewers) = &viewers {
            viewers.greet(host.machine(), acting.is_some());
        }
        if let Some(why) = config.chosen {
            info!(policy = config.policy, "policy = \"auto\": {why}");
        }
        info!(
            policy = config.policy,
            machine = host.machine().name(),
            dry_run = only_looks,
            "started"
        );
        tell_systemd(&[NotifyState::Ready]);
        let patience = config.stall().map_err(|fault| config.source.error(&fault))?;
        let watchdog = Watchdog::start(host.undoer(), patience)?;
        let interval_s = config.interval_s.unwrap_or(Look::default().every.as_secs_f64());
        let mut session = Session {
            host,
            acting,
            viewers: viewers.as_ref(),
            looks: Looks::new(true, interval_s),
            policy: &config.policy,
            programs: config.programs.iter().map(|one| one.name.clone()).collect(),
            applies: !only_looks,
            metrics: &metrics,
            watchdog: &watchdog,
            log: TickLog::default(),
            no_plan: ToldReason::default(),
            longest_sleep: LONGEST_SLEEP.min(patience / 4),
        };
        let worked = session.work(&signals, || reloaded(path, &config));
        session.log.finish();
        let restored = session.host.undo();
        log_undone(&restored);
        watchdog.stop();
        let next = worked?;
        undone::all_or_error(&restored)?;
        let Some(next) = next else {
            tell_systemd(&[NotifyState::Stopping]);
            info!("stopped");
            return Ok(());
        };
        config = next;
    }
}

/// The host that a configuration asks for.
fn host(config: &Config, dry_run: bool) -> Result<Host> {
    host_as(config, &config.host_settings(dry_run)?)
}

/// Viewers where the configuration asks for them. Whether anybody can look on keeps nobody from being scheduled.
fn viewers(config: &Config, signals: &Signals) -> Option<Viewers> {
    let path = config.viewers.as_deref()?;
    let listening = signals.waker().and_then(|woken| Viewers::at(path, woken));
    listening.map_err(|failure| warn!("{}", failure.report().trim())).ok()
}

/// The host of a configuration by which viewers may act: the policy only proposes, and what a person asks for is done.
fn acting_host(config: &Config) -> Result<(Host, Acting)> {
    // A policy that only proposes need not have been evaluated.
    let settings = HostSettings { untested: true, gate: None, ..config.host_settings(false)? };
    let builder = HostBuilder::new(&settings).map_err(|failure| config.blamed(failure))?;
    let (targets, profiles) = (config.targets(), config.profile_names());
    let (host, acting) = Acting::host(builder, &settings, targets, &profiles, &Look::default())
        .map_err(|failure| config.blamed(failure))?;
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    Ok((host, acting.counting_from(since.as_millis() as u64)))
}

/// The host of what a configuration schedules, by these settings in the place of the configuration's.
///
/// # Errors
/// Where the host cannot be so.
pub fn host_as(config: &Config, settings: &HostSettings) -> Result<Host> {
    Ok(built(config, settings)?.1)
}

/// The host, and what it was built by.
fn built(config: &Config, settings: &HostSettings) -> Result<(HostBuilder, Host)> {
    let build = || {
        let builder = HostBuilder::new(settings)?;
        let host = builder.host(settings, config.targets(), &config.profile_names())?;
        Ok((builder, host))
    };
    build().map_err(|failure: Error| config.blamed(failure.in_settings()))
}

/// A host that watches what a configuration schedules, with no policy.
///
/// # Errors
/// Where the host cannot be so.
pub fn onlooker(config: &Config, look: &Look) -> Result<Host> {
    let policy = NO_POLICY.to_owned();
    let settings = HostSettings { policy, set: Vec::new(), ..config.host_settings(true)? };
    let build = || {
        let builder = HostBuilder::new(&settings)?;
        builder.host_that_looks(&settings, config.targets(), &config.profile_names(), look)
    };
    build().map_err(|failure| config.blamed(failure))
}

/// The configuration as it is now; none where it is no good, and the old one stays in force.
fn reloaded(path: &Path, old: &Config) -> Option<Config> {
    match Config::load(path).and_then(usable) {
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

/// A configuration by which the daemon can go on.
fn usable(new: Config) -> Result<Config> {
    let (builder, _) = built(&new, &new.host_settings(true)?)?;
    if new.may_act() {
        builder.check_journals()?;
    }
    Ok(new)
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
    no_plan: ToldReason,
    longest_sleep: Duration,
}

impl Session<'_> {
    /// Until told to stop, with no configuration, or to go on with another one. A configuration that is no
    /// good changes nothing.
    fn work(
        &mut self,
        signals: &Signals,
        reload: impl Fn() -> Option<Config>,
    ) -> Result<Option<Config>> {
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

    fn tick(&mut self) -> Result {
        let began = Instant::now();
        let mut tick = self.host.tick().map_err(Error::live)?;
        if let Some(acting) = &mut self.acting {
            tick.decisions.extend(acting.news(tick.now));
        }
        let took_s = began.elapsed().as_secs_f64();
        self.metrics.tick(&self.host, &tick, self.applies, took_s);
        for (target, name) in std::mem::take(&mut self.programs).iter().enumerate() {
            log::who_is_there(&self.host, target, name);
        }
        self.log.tick(&self.host, &tick);
        if let Some(reason) = self.no_plan.news(&self.host, &tick) {
            log::nothing_is_planned(reason);
        }
        self.metrics.no_plan(self.no_plan.now());
        tell_systemd(&[NotifyState::Watchdog]);
        self.show(&tick)
    }

    /// Shows viewers a look, where there are any.
    fn show(&mut self, tick: &Tick) -> Result {
        let Some(viewers) = self.viewers else { return Ok(()) };
        if !viewers.are_there() {
            self.looks.note(&self.host, tick);
            return Ok(());
        }
        let act = self.acting.as_ref().map(|acting| acting.entry(&self.host));
        let daemon = DaemonEntry {
            pid: std::process::id(),
            applies: self.applies,
            no_plan: self.no_plan.now().map(NoPlan::entry),
        };
        viewers.show(&self.looks.document((&self.host, tick), self.policy, act, daemon)?);
        Ok(())
    }

    fn obey(&mut self, order: Order) {
        match &mut self.acting {
            Some(acting) => {
                let answer = acting.obey(&mut self.host, &order);
                log::what_was_ordered(&answer);
                order.answer(answer);
            }
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
