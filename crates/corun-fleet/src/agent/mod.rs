//! What a node's agent publishes of its node: who runs there, and what was measured of them.

mod cgroups;
mod holding;
mod monitoring;
mod publisher;

use std::collections::BTreeMap;

use corun_app::{Error, Result};
use serde::Deserialize;
use serde_json::json;

use crate::extender::protocol::{NodeObject, NodeReport, Pod, ReportedProgram};
use crate::extender::{BOUND_KEY, MACHINE_KEY, PROFILE_KEY, PROGRAMS_KEY};
use crate::learned::{LEARNED_KEY, LearnedUpdate};

pub use cgroups::{PodGroups, PodLoads};
pub use holding::daemon_configuration;
pub use monitoring::{CacheUse, PodMonitor};
pub use publisher::{Publisher, UpdateRates};

/// A pod that runs on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningPod {
    /// Namespace and name: `default/web-0`.
    pub name: String,
    /// Kubernetes' own number of it, which names its cgroup.
    pub uid: String,
    /// The profile that it says it runs by.
    pub profile: Option<String>,
    /// CPUs that its containers ask for, rounded up, at least one.
    pub cpus: u32,
    /// It must not be predicted to be slower.
    pub bound: Option<f64>,
}

/// What was measured of a pod; what could not be measured is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PodUsage {
    /// CPUs that it kept busy in the mean.
    pub cpus: Option<f64>,
    /// MiB of the last-level caches that hold its lines.
    pub llc_mib: Option<f64>,
    /// Its memory traffic.
    pub mb_per_s: Option<f64>,
}

/// What the object of a node says that its agent learned; none where it says nothing, or is no node.
pub fn learned_annotation(node: &[u8]) -> Option<String> {
    let node: NodeObject = serde_json::from_slice(node).ok()?;
    node.metadata.annotations?.remove(LEARNED_KEY)
}

/// The pods of a `PodList` that have not ended, in the order of their names. What is not known of them is assumed and
/// added to `assumed`.
///
/// # Errors
/// Bad input for a text that is no `PodList`.
pub fn running_pods(list: &[u8], assumed: &mut Vec<String>) -> Result<Vec<RunningPod>> {
    #[derive(Deserialize)]
    struct PodList {
        items: Vec<Pod>,
    }
    let list: PodList = serde_json::from_slice(list)
        .map_err(|error| Error::input(format!("no list of pods: {error}")))?;
    let mut pods = Vec::new();
    for pod in &list.items {
        if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            continue;
        }
        let name = pod.full_name();
        let profile = pod.metadata.note(PROFILE_KEY).map(str::to_owned);
        if profile.is_none() {
            assumed.push(format!("pod {name} has no {PROFILE_KEY}: it counts as quiet"));
        }
        // What a pod that counts as quiet asks for changes nothing.
        let mut unused = Vec::new();
        let said = if profile.is_some() { &mut *assumed } else { &mut unused };
        let (cpus, bound) = (cpus_of(pod, &name, said), bound_of(pod, &name, said));
        pods.push(RunningPod { name, uid: pod.metadata.uid.clone(), profile, cpus, bound });
    }
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pods)
}

/// What an agent says of its node.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentReport {
    machine: String,
    report: NodeReport,
}

impl AgentReport {
    /// The pods that run by a profile, with what was measured of them, by their numbers.
    pub fn new(
        machine: &str,
        pods: &[RunningPod],
        usage: &BTreeMap<String, PodUsage>,
        now_s: u64,
    ) -> Self {
        let program = |pod: &RunningPod| {
            let used = usage.get(&pod.uid).copied().unwrap_or_default();
            Some(ReportedProgram {
                pod: pod.name.clone(),
                profile: pod.profile.clone()?,
                cpus: pod.cpus,
                bound: pod.bound,
                used_cpus: used.cpus.map(|cpus| rounded(cpus, 100.0)),
                llc_mib: used.llc_mib.map(|mib| rounded(mib, 10.0)),
                mb_per_s: used.mb_per_s.map(|mb| rounded(mb, 1.0)),
            })
        };
        let programs = pods.iter().filter_map(program).collect();
        Self { machine: machine.to_owned(), report: NodeReport { at: now_s, programs } }
    }

    /// As a patch of the node's object, which sets two annotations, and with what was learned a third.
    pub fn patch(&self, learned: Option<&LearnedUpdate>) -> String {
        let report = serde_json::to_string(&self.report).expect("a report has string keys alone");
        let mut notes = json!({MACHINE_KEY: self.machine, PROGRAMS_KEY: report});
        if let Some(learned) = learned {
            notes[LEARNED_KEY] = learned.text().into();
        }
        json!({"metadata": {"annotations": notes}}).to_string()
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// The bound on slowdown that a pod asks for.
pub(crate) fn bound_of(pod: &Pod, name: &str, assumed: &mut Vec<String>) -> Option<f64> {
    let typed = pod.metadata.note(BOUND_KEY)?;
    let found: Option<f64> = typed.trim().parse().ok();
    let found = found.filter(|bound| is_bound(*bound));
    if found.is_none() {
        assumed.push(format!("pod {name}: {BOUND_KEY} is {typed:?}, no number above 1: no bound"));
    }
    found
}

/// Can a slowdown be bound by it?
pub(crate) fn is_bound(bound: f64) -> bool {
    bound.is_finite() && bound > 1.0
}

/// CPUs that a pod's containers ask for, rounded up, at least one.
pub(crate) fn cpus_of(pod: &Pod, name: &str, assumed: &mut Vec<String>) -> u32 {
    let mut sum = 0.0;
    for container in &pod.spec.containers {
        let Some(asked) = container.resources.requests.as_ref().and_then(|all| all.get("cpu"))
        else {
            continue;
        };
        match asked.cpus() {
            Some(cpus) => sum += cpus,
            None => assumed.push(format!("pod {name}: {asked} is no number of CPUs: left out")),
        }
    }
    if sum <= 0.0 {
        assumed.push(format!("pod {name} asks for no CPU: it counts as one"));
    }
    // Beyond any machine no more is needed to know that it does not fit.
    (sum - 1e-9).ceil().clamp(1.0, 1e6) as u32
}
