//! The scheduler extender's messages, as k8s.io/kube-scheduler/extender/v1 has them: its Go types carry no JSON
//! names, so that fields go by their Go names. Of pods and nodes only what is looked at is read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The highest score of a node (`MaxExtenderPriority`).
pub(crate) const MAX_PRIORITY: i64 = 10;

/// `ExtenderArgs`: the body of both requests.
#[derive(Debug, Deserialize)]
pub(crate) struct ExtenderArgs {
    #[serde(rename = "Pod")]
    pub(crate) pod: Pod,
    #[serde(rename = "Nodes", default)]
    pub(crate) nodes: Option<NodeList>,
    #[serde(rename = "NodeNames", default)]
    pub(crate) node_names: Option<Vec<String>>,
}

/// `NodeList`, each node as its text.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeList {
    pub(crate) items: Option<Vec<Box<RawValue>>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

impl Pod {
    /// Namespace and name.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct NodeObject {
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

/// Names and notes of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

impl Metadata {
    /// An annotation, or a label of that name.
    pub(crate) fn note(&self, key: &str) -> Option<&str> {
        // Annotations win: they are set for one pod, labels often for many.
        let found = [&self.annotations, &self.labels].into_iter();
        found.flatten().find_map(|notes| notes.get(key)).map(String::as_str)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PodSpec {
    #[serde(default)]
    pub(crate) containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PodStatus {
    #[serde(default)]
    pub(crate) phase: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Container {
    #[serde(default)]
    pub(crate) resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Resources {
    pub(crate) requests: Option<BTreeMap<String, Quantity>>,
}

/// A quantity, which YAML may have made a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Quantity {
    Text(String),
    Number(f64),
}

/// As it was written, a text in quotes.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Quantity {
    /// As CPUs; none where it is no quantity of CPUs.
    pub(crate) fn cpus(&self) -> Option<f64> {
        let found = match self {
            Self::Number(number) => *number,
            Self::Text(text) => match text.strip_suffix('m') {
                Some(thousandths) => thousandths.parse::<f64>().ok()? / 1000.0,
                None => text.parse().ok()?,
            },
        };
        (found.is_finite() && found >= 0.0).then_some(found)
    }
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ExtenderFilterResult<'a> {
    #[serde(rename = "Nodes")]
    pub(crate) nodes: Option<KeptNodes<'a>>,
    #[serde(rename = "NodeNames")]
    pub(crate) node_names: Option<Vec<&'a str>>,
    #[serde(rename = "FailedNodes")]
    pub(crate) failed_nodes: BTreeMap<String, String>,
    #[serde(rename = "FailedAndUnresolvableNodes")]
    pub(crate) failed_and_unresolvable_nodes: BTreeMap<String, String>,
    #[serde(rename = "Error")]
    pub(crate) error: String,
}

/// `NodeList` with the nodes as they came.
#[derive(Debug, Serialize)]
pub(crate) struct KeptNodes<'a> {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) items: Vec<&'a RawValue>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct HostPriority<'a> {
    #[serde(rename = "Host")]
    pub(crate) host: &'a str,
    #[serde(rename = "Score")]
    pub(crate) score: i64,
}

/// What a node's agent publishes of it, as the annotation's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    /// When, in seconds since 1970.
    pub(crate) at: u64,
    /// Who runs there.
    pub(crate) programs: Vec<ReportedProgram>,
}

/// A pod that runs on a node.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportedProgram {
    /// Namespace and name.
    pub(crate) pod: String,
    pub(crate) profile: String,
    /// CPUs that it asked for, rounded up.
    pub(crate) cpus: u32,
    /// It must not be predicted to be slower.
    pub(crate) bound: Option<f64>,
    /// CPUs that it was measured to keep busy.
    pub(crate) used_cpus: Option<f64>,
    /// MiB of the last-level caches that hold its lines.
    pub(crate) llc_mib: Option<f64>,
    /// Its memory traffic.
    pub(crate) mb_per_s: Option<f64>,
}

/// Of a CPU: less than that beyond whole ones is not another thread.
const SPARE_CPU: f64 = 0.1;

impl ReportedProgram {
    /// Threads that run at a time: as measured, else as many as it asked for.
    pub(crate) fn busy_cpus(&self) -> u32 {
        let measured = self.used_cpus.filter(|used| used.is_finite());
        measured.map_or(self.cpus, |used| (used - SPARE_CPU).ceil().clamp(1.0, 1e6) as u32)
    }
}
