//! `corun fleet agent`: what runs on a node of Kubernetes, published and held.

mod api_server;
mod daemon;
mod learner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use corun_app::{Cancel, tell};
use corun_fleet::{
    AgentReport, PodGroups, PodLoads, PodMonitor, PodUsage, Publisher, RunningPod, UpdateRates,
    learned_annotation, now_s, running_pods,
};
use corun_linux::Roots;

use self::api_server::{ApiServer, Kubectl};
use self::daemon::Daemon;
use self::learner::Learner;
use super::roots_of;
use crate::cli::AgentArgs;
use crate::failure::{Failure, Outcome};

/// How often it is looked whether to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// A time, by both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Seconds since the agent began, by a clock that does not jump.
    clock_s: f64,
    /// Seconds since 1970, by which reports are dated.
    since_1970_s: u64,
}

pub(super) fn run(arguments: &AgentArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal_undoing()?;
    let server = Kubectl { node: arguments.node.clone(), cancel: cancel.clone() };
    let mut agent = Agent::new(arguments, server)?;
    agent.say();
    let began = Instant::now();
    loop {
        let next = Instant::now() + Duration::from_secs(arguments.every);
        let at = Moment { clock_s: began.elapsed().as_secs_f64(), since_1970_s: now_s() };
        let looked = agent.look(at);
        if arguments.once {
            agent.say_assumed();
            return looked.map(|()| String::new());
        }
        // One that is to stop asks no more, and has nothing to say of that.
        if !cancel.is_set() {
            agent.say();
        }
        while !cancel.is_set() && Instant::now() < next {
            std::thread::sleep(PAUSE);
        }
        if cancel.is_set() {
            agent.daemon.map_or(Ok(()), Daemon::stop)?;
            return Ok(String::new());
        }
    }
}

struct Agent<S> {
    /// The machine's name, as it is published.
    machine: String,
    server: S,
    roots: Roots,
    loads: PodLoads,
    monitor: Option<PodMonitor>,
    learner: Option<Learner>,
    publisher: Publisher,
    daemon: Option<Daemon>,
    /// The pods of the last list.
    pods: Vec<RunningPod>,
    /// Since when the API server does not answer, in seconds of the clock that does not jump.
    away_since_s: Option<f64>,
    /// What is so at the last look: what was assumed, what could not be read.
    is_so: BTreeSet<String>,
    /// What is to be said.
    new_words: Vec<String>,
}

impl<S: ApiServer> Agent<S> {
    fn new(arguments: &AgentArgs, server: S) -> Outcome<Self> {
        let roots = roots_of(&arguments.root);
        // Anything else is part of a path or of a query.
        let letter = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        if arguments.node.is_empty() || !arguments.node.chars().all(letter) {
            let found = &arguments.node;
            return Err(Failure::input(format!("--node: found {found:?}, expected a node's name")));
        }
        let monitor = arguments.caches.then(|| {
            PodMonitor::new(&roots).map_err(|error| {
                let shown = roots.resctrl.display();
                Failure::failed(anyhow!("--caches: {shown} monitors no cache: {error}"))
                    .hint("corun doctor says what this machine can measure")
            })
        });
        let mut new_words = Vec::new();
        let learner = match arguments.learn.then(|| Learner::by_hardware(arguments, &roots)) {
            Some(Ok(learner)) => Some(learner),
            // A node whose hardware counts nothing is published like all others.
            Some(Err(Failure::Failed(why))) => {
                new_words.push(format!("assumed: nothing is learned of pods: {why}"));
                None
            }
            Some(Err(wrong)) => return Err(wrong),
            None => None,
        };
        let daemon = arguments.hold.as_deref().map(Daemon::new).transpose()?;
        let machine = learner.as_ref().map_or(&*arguments.machine, Learner::machine).to_owned();
        Ok(Self {
            machine,
            server,
            roots,
            loads: PodLoads::default(),
            monitor: monitor.transpose()?,
            learner,
            publisher: Publisher::new(UpdateRates::default()),
            daemon,
            pods: Vec::new(),
            away_since_s: None,
            is_so: BTreeSet::new(),
            new_words,
        })
    }

    /// Says what is new since it was last said.
    fn say(&mut self) {
        self.new_words.drain(..).for_each(tell);
    }

    /// As [`Self::say`], without a failure, which is said where the command ends.
    fn say_assumed(&mut self) {
        self.new_words.retain(|word| self.is_so.contains(word));
        self.say();
    }

    /// One look: who runs, what they use, what of it is published and held. While the API server is away, the pods that ran
    /// last are taken to run on.
    fn look(&mut self, at: Moment) -> Outcome {
        let mut words = Vec::new();
        if self.publisher.is_waiting(at.clock_s as u64) {
            self.measure(at, &mut words);
            return Ok(());
        }
        let outcome = self.looked(at, &mut words);
        match &outcome {
            Err(failure) => {
                self.publisher.failed(at.clock_s as u64);
                if self.away_since_s.is_none() {
                    self.away_since_s = Some(at.clock_s);
                    let why = failure.report();
                    self.new_words.push(format!(
                        "assumed: the pods that ran last run on, and nothing is published until the API server \
                         answers: {}",
                        why.trim()
                    ));
                }
            }
            Ok(()) => {
                if let Some(since_s) = self.away_since_s.take() {
                    let s = at.clock_s - since_s;
                    self.new_words.push(format!("the API server answers again, after {s:.0} s"));
                }
                let words: BTreeSet<String> = words.into_iter().collect();
                self.new_words.extend(words.difference(&self.is_so).cloned());
                self.is_so = words;
            }
        }
        outcome
    }

    fn looked(&mut self, at: Moment, words: &mut Vec<String>) -> Outcome {
        let mut assumed = Vec::new();
        let list = self.server.pods()?;
        self.pods = running_pods(&list, &mut assumed)?;
        words.extend(assumed.into_iter().map(|one| format!("assumed: {one}")));
        if let Some(learner) = self.learner.as_mut().filter(|learner| learner.begins()) {
            learner.resume(learned_annotation(&self.server.node()?).as_deref());
        }
        let (groups, usage) = self.measure(at, words);
        if let Some(daemon) = &mut self.daemon
            && let Err(failure) = daemon.hold(&self.pods, &groups)
        {
            words.push(failure.report().trim().to_owned());
        }
        let report = AgentReport::new(&self.machine, &self.pods, &usage, at.since_1970_s);
        let clock_s = at.clock_s as u64;
        if self.publisher.is_due(clock_s, &report) {
            let learned = self.learner.as_ref().and_then(|learner| learner.due(at));
            self.server.patch_node(&report.patch(learned.as_ref()))?;
            self.publisher.published(clock_s, &report);
            if let (Some(learner), Some(learned)) = (&mut self.learner, learned) {
                learner.published(at, learned);
            }
        }
        Ok(())
    }

    /// What the pods of the last list use.
    fn measure(
        &mut self,
        at: Moment,
        words: &mut Vec<String>,
    ) -> (PodGroups, BTreeMap<String, PodUsage>) {
        let groups = PodGroups::find(&self.roots);
        let loads = self.loads.look(&groups, at.clock_s).into_iter();
        let mut usage: BTreeMap<String, PodUsage> = loads
            .map(|(uid, cpus)| (uid, PodUsage { cpus: Some(cpus), ..PodUsage::default() }))
            .collect();
        if let Some(monitor) = &mut self.monitor {
            let by_profile = self.pods.iter().filter(|pod| pod.profile.is_some());
            let uids: Vec<&str> = by_profile.map(|pod| pod.uid.as_str()).collect();
            let (found, outcome) = monitor.look(&uids, &groups, at.clock_s);
            for (uid, one) in found {
                let pod = usage.entry(uid).or_default();
                (pod.llc_mib, pod.mb_per_s) = (one.llc_mib, one.mb_per_s);
            }
            if let Err(error) = outcome {
                words.push(format!("resctrl: {error}: not all pods are monitored"));
            }
        }
        if let Some(learner) = &mut self.learner {
            learner.look(&self.pods, &groups, at, words);
        }
        (groups, usage)
    }
}
