//! `corun fleet agent`: what runs on a node of Kubernetes, published and held.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Seek as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use corun_app::{Cancel, tell};
use corun_fleet::{
    AgentReport, PodGroups, PodLoads, PodMonitor, PodUsage, Publisher, RunningPod, UpdateRates,
    daemon_configuration, now_s, running_pods,
};
use corun_linux::Roots;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use super::kubectl::kubectl;
use super::roots_of;
use crate::cli::AgentArgs;
use crate::failure::{Failure, Outcome};

/// How often it is looked whether to stop.
const PAUSE: Duration = Duration::from_millis(100);
/// For the daemon to undo what it did.
const UNDO_TIME: Duration = Duration::from_secs(20);

pub(super) fn run(arguments: &AgentArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal_undoing()?;
    let mut agent = Agent::new(arguments, cancel.clone())?;
    loop {
        let next = Instant::now() + Duration::from_secs(arguments.every);
        let looked = agent.look();
        if arguments.once {
            return looked.map(|()| String::new());
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

struct Agent<'a> {
    arguments: &'a AgentArgs,
    cancel: Cancel,
    roots: Roots,
    began: Instant,
    loads: PodLoads,
    monitor: Option<PodMonitor>,
    publisher: Publisher,
    daemon: Option<Daemon>,
    /// What was said of the last look.
    said: BTreeSet<String>,
}

impl<'a> Agent<'a> {
    fn new(arguments: &'a AgentArgs, cancel: Cancel) -> Outcome<Self> {
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
        let daemon = arguments.hold.as_deref().map(Daemon::new).transpose()?;
        Ok(Self {
            arguments,
            cancel,
            roots,
            began: Instant::now(),
            loads: PodLoads::default(),
            monitor: monitor.transpose()?,
            publisher: Publisher::new(UpdateRates::default()),
            daemon,
            said: BTreeSet::new(),
        })
    }

    /// One look: who runs, what they use, what of it is published and held. What is new is said.
    fn look(&mut self) -> Outcome {
        if self.publisher.is_waiting(self.now_s()) {
            return Ok(());
        }
        let mut words = Vec::new();
        let outcome = self.looked(&mut words);
        if let Err(failure) = &outcome {
            self.publisher.failed(self.now_s());
            // A single look's failure is said where the command ends. One that is to stop asks no more.
            if !self.arguments.once && !self.cancel.is_set() {
                words.push(failure.report().trim().to_owned());
            }
        }
        let words: BTreeSet<String> = words.into_iter().collect();
        for one in words.difference(&self.said) {
            tell(one);
        }
        self.said = words;
        outcome
    }

    /// Seconds since the agent began.
    fn now_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    fn looked(&mut self, words: &mut Vec<String>) -> Outcome {
        let mut assumed = Vec::new();
        // The API server answers this from its own memory (resourceVersion=0), as it does for kubelets.
        let query = format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{}&resourceVersion=0",
            self.arguments.node
        );
        let pods = kubectl(&["get", "--raw", &query], &self.cancel)
            .and_then(|list| running_pods(&list, &mut assumed))?;
        words.extend(assumed.into_iter().map(|one| format!("assumed: {one}")));
        let groups = PodGroups::find(&self.roots);
        let usage = self.usage(&pods, &groups, words);
        if let Some(daemon) = &mut self.daemon
            && let Err(failure) = daemon.hold(&pods, &groups)
        {
            words.push(failure.report().trim().to_owned());
        }
        let report = AgentReport::new(&self.arguments.machine, &pods, &usage, now_s());
        let now_s = self.now_s();
        if self.publisher.is_due(now_s, &report) {
            self.publish(&report)?;
            self.publisher.published(now_s, &report);
        }
        Ok(())
    }

    fn usage(
        &mut self,
        pods: &[RunningPod],
        groups: &PodGroups,
        words: &mut Vec<String>,
    ) -> BTreeMap<String, PodUsage> {
        let now_s = self.began.elapsed().as_secs_f64();
        let loads = self.loads.look(groups, now_s).into_iter();
        let mut usage: BTreeMap<String, PodUsage> = loads
            .map(|(uid, cpus)| (uid, PodUsage { cpus: Some(cpus), ..PodUsage::default() }))
            .collect();
        if let Some(monitor) = &mut self.monitor {
            let by_profile = pods.iter().filter(|pod| pod.profile.is_some());
            let uids: Vec<&str> = by_profile.map(|pod| pod.uid.as_str()).collect();
            let (found, outcome) = monitor.look(&uids, groups, now_s);
            for (uid, one) in found {
                let pod = usage.entry(uid).or_default();
                (pod.llc_mib, pod.mb_per_s) = (one.llc_mib, one.mb_per_s);
            }
            if let Err(error) = outcome {
                words.push(format!("resctrl: {error}: not all pods are monitored"));
            }
        }
        usage
    }

    fn publish(&self, report: &AgentReport) -> Outcome {
        let mut file = NamedTempFile::new()?;
        file.write_all(report.patch().as_bytes())?;
        let path = file.path().to_str().context("the folder for temporary files is no text")?;
        let words = ["patch", "node", &self.arguments.node, "--patch-file", path];
        kubectl(&words, &self.cancel).map(drop)
    }
}

/// The daemon that holds the pods, as a child.
struct Daemon {
    template: String,
    /// Its configuration; the journal lies where the template says.
    file: NamedTempFile,
    running: Option<(Child, String)>,
}

impl Daemon {
    fn new(template: &std::path::Path) -> Outcome<Self> {
        let shown = template.display();
        let text = fs::read_to_string(template)
            .map_err(|error| Failure::input(format!("{shown}: {error}")))?;
        let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        Ok(Self { template: text, file, running: None })
    }

    /// Has the daemon hold these pods: starts it for the first, tells it of others, ends it after the last.
    fn hold(&mut self, pods: &[RunningPod], groups: &PodGroups) -> Outcome {
        let wanted = daemon_configuration(&self.template, pods, groups);
        if let Some((child, held)) = &mut self.running {
            match (child.try_wait()?, &wanted) {
                (None, Some(wanted)) if wanted == held => return Ok(()),
                (None, Some(wanted)) => {
                    held.clone_from(wanted);
                    write(&mut self.file, wanted)?;
                    let told = kill_process(Pid::from_child(child), Signal::HUP);
                    return Ok(told.map_err(std::io::Error::from)?);
                }
                (None, None) => return self.ended(),
                (Some(status), _) => {
                    self.running = None;
                    return Err(Failure::Failed(anyhow!(
                        "corun daemon ended ({status}): pods run where the kernel has them"
                    )));
                }
            }
        }
        let Some(wanted) = wanted else { return Ok(()) };
        write(&mut self.file, &wanted)?;
        let own = std::env::current_exe()?;
        let mut command = Command::new(own);
        command.args(["daemon", "--config"]).arg(self.file.path()).stdin(Stdio::null());
        self.running = Some((command.spawn()?, wanted));
        Ok(())
    }

    fn stop(mut self) -> Outcome {
        self.ended()
    }

    /// The daemon undoes what it did and ends.
    fn ended(&mut self) -> Outcome {
        let Some((mut child, _)) = self.running.take() else { return Ok(()) };
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let until = Instant::now() + UNDO_TIME;
        while Instant::now() < until {
            if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                return Err(Failure::Failed(anyhow!("corun daemon ended ({status})")));
            }
            std::thread::sleep(PAUSE);
        }
        child.kill()?;
        child.wait()?;
        Err(Failure::Failed(anyhow!("corun daemon did not end: corun restore undoes what it did")))
    }
}

/// The same file with another text: the daemon knows it by its path.
fn write(file: &mut NamedTempFile, text: &str) -> Outcome {
    let file = file.as_file_mut();
    file.rewind()?;
    file.set_len(0)?;
    Ok(file.write_all(text.as_bytes())?)
}
