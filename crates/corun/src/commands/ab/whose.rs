//! Whose policy is tried: a configuration's over its programs, or one over programs that run already or that are
//! started for it.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::thread;

use corun_daemon::{Config, host_as, onlooker};
use corun_hosting::{
    ENDED_EVERY, HostBuilder, HostSettings, Look, Placer, PlacerSettings, Program, Started,
};
use corun_live::{Host, Target};

use crate::failure::{Failure, Outcome};
use corun_app::{Cancel, NO_POLICY, tell};

/// The programs of an experiment and their policy.
pub(super) enum Whose {
    /// What a daemon's configuration names.
    Configured(Config),
    /// Programs that run already.
    Running(Running),
    /// Programs of our own.
    Ours(Ours),
}

/// Programs that run already, named by options.
pub(super) struct Running {
    /// The policy.
    pub(super) host: HostSettings,
    /// The programs.
    pub(super) targets: Vec<Target>,
}

impl Running {
    fn profiles(&self) -> Vec<&str> {
        self.targets.iter().filter_map(|target| target.profile.as_deref()).collect()
    }
}

/// Programs that are started for the experiment.
pub(super) struct Ours {
    host: HostSettings,
    started: Started,
    /// Of those that run or ran, by their place.
    targets: BTreeMap<usize, Target>,
    /// How many runs of each had ended when it was last looked at.
    ended: Vec<usize>,
}

/// What happened to our programs since they were looked at.
#[derive(Debug, Default)]
pub(super) struct News {
    /// To be followed from now on.
    pub(super) new: Vec<Target>,
    /// A program that is no more, in words: there is nothing left to compare.
    pub(super) over: Option<String>,
}

impl Whose {
    /// The policy over the programs as they are now. `dry_run`: nothing is done. `backend`: in the place of the
    /// chosen one, with nothing in its own place.
    pub(super) fn host(&self, dry_run: bool, backend: Option<Placer>) -> Outcome<Host> {
        let mut arguments = match self {
            Self::Configured(config) => config.host_settings(dry_run)?,
            Self::Running(running) => HostSettings { dry_run, ..running.host.clone() },
            Self::Ours(ours) => HostSettings { dry_run, ..ours.host.clone() },
        };
        if let Some(placer) = backend {
            arguments.placing = PlacerSettings { placer, is_required: true, ..arguments.placing };
        }
        match self {
            Self::Configured(config) => host_as(config, &arguments),
            Self::Running(running) => {
                let (targets, profiles) = (running.targets.clone(), running.profiles());
                let builder = HostBuilder::new(&arguments)?;
                builder.check_profiles(&profiles)?;
                builder.host(&arguments, targets, &profiles)
            }
            Self::Ours(ours) => {
                let targets = ours.targets.values().cloned().collect();
                let profiles = ours.started.profiles();
                let builder = HostBuilder::new(&arguments)?;
                builder.check_profiles(&profiles)?;
                builder.host(&arguments, targets, &profiles)
            }
        }
    }

    /// What was chosen to place threads.
    pub(super) fn backend(&self) -> Outcome<Placer> {
        match self {
            Self::Configured(config) => Ok(config.host_settings(true)?.placing.placer),
            Self::Running(running) => Ok(running.host.placing.placer),
            Self::Ours(ours) => Ok(ours.host.placing.placer),
        }
    }

    /// A host that watches the programs, with no policy.
    pub(super) fn onlooker(&self, look: &Look) -> Outcome<Host> {
        match self {
            Self::Configured(config) => onlooker(config, look),
            Self::Running(running) => {
                let (arguments, targets) = (looking(&running.host), running.targets.clone());
                let profiles = running.profiles();
                HostBuilder::new(&arguments)?.host_that_looks(&arguments, targets, &profiles, look)
            }
            Self::Ours(ours) => {
                let arguments = looking(&ours.host);
                let targets = ours.targets.values().cloned().collect();
                let profiles = ours.started.profiles();
                HostBuilder::new(&arguments)?.host_that_looks(&arguments, targets, &profiles, look)
            }
        }
    }

    /// Starts our programs, if any, and waits until all run; what is to be followed.
    pub(super) fn begin(&mut self, cancel: &Cancel) -> Outcome<Vec<Target>> {
        match self {
            Self::Configured(_) | Self::Running(_) => Ok(Vec::new()),
            Self::Ours(ours) => ours.begin(cancel),
        }
    }

    /// Ends our programs.
    pub(super) fn end(&mut self) -> Outcome {
        match self {
            Self::Configured(_) | Self::Running(_) => Ok(()),
            Self::Ours(ours) => ours.end(),
        }
    }

    /// Starts programs that are due and takes note of those that ended.
    pub(super) fn step(&mut self) -> Outcome<News> {
        match self {
            Self::Configured(_) | Self::Running(_) => Ok(News::default()),
            Self::Ours(ours) => ours.step(),
        }
    }
}

/// The same with no policy.
fn looking(host: &HostSettings) -> HostSettings {
    HostSettings { policy: NO_POLICY.to_owned(), set: Vec::new(), dry_run: true, ..host.clone() }
}

impl Ours {
    /// Nothing is started yet.
    pub(super) fn new(host: HostSettings, programs: Vec<Program>) -> Self {
        let programs: Vec<Program> = programs.into_iter().map(Program::beside_a_result).collect();
        let ended = vec![0; programs.len()];
        Self { host, started: Started::new(programs), targets: BTreeMap::new(), ended }
    }

    /// Starts all programs, and waits for those that are to start later: a block with some of them
    /// and a block with all would be no pair.
    fn begin(&mut self, cancel: &Cancel) -> Outcome<Vec<Target>> {
        self.started.begin()?;
        loop {
            let News { over, .. } = self.step()?;
            if cancel.is_set() {
                return Err(Failure::Interrupted);
            }
            // Without one of them it is over as soon as it begins.
            if over.is_some() || self.started.programs().iter().all(Program::has_begun) {
                return Ok(self.targets.values().cloned().collect());
            }
            thread::sleep(ENDED_EVERY);
        }
    }

    fn step(&mut self) -> Outcome<News> {
        let mut news = News::default();
        for (place, target) in self.started.step()? {
            self.targets.insert(place, target.clone());
            news.new.push(target);
        }
        for (program, ended) in self.started.programs().iter().zip(&mut self.ended) {
            let Some(last) = program.runs.last() else { continue };
            let how = in_words(last.status);
            if program.is_over() {
                let why = if last.ended_by_us { " as its mix says" } else { "" };
                news.over = Some(format!("{} ended{why} ({how})", program.name));
            } else if *ended == 0 {
                tell(format_args!("{} ended ({how}) and is started again each time", program.name));
            }
            *ended = program.runs.len();
        }
        Ok(news)
    }

    /// Ends what still runs, and says how often what was started again had ended.
    pub(super) fn end(&mut self) -> Outcome {
        let ended = self.started.end();
        for (program, &times) in self.started.programs().iter().zip(&self.ended) {
            if times > 1 {
                tell(format_args!("{} ended {times} times", program.name));
            }
        }
        ended
    }

    /// How a command ends whose program ended by itself.
    pub(super) fn exit(&self, is_mix: bool) -> Outcome<String> {
        self.started.exit(is_mix)
    }
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}
