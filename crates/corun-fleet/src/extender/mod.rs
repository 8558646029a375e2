//! Kubernetes' scheduler asks which nodes suit a pod, and how well.
//!
//! A node says by annotations which machine it is and who runs there; its agent keeps them fresh. A pod says
//! by a label or an annotation which profile it runs by. What is not known is assumed and said, and never
//! keeps a pod from a node: then the cluster schedules as it does without corun.

mod expected;
mod learned;
pub(crate) mod protocol;
mod reported;
mod server;

pub use self::server::serve_extender;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_app::{Error, Result};
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use rayon::prelude::*;
use serde_json::value::RawValue;

use crate::agent::{bound_of, cpus_of, is_bound};
use crate::kind::{NodeKind, Prediction, Seats};
use crate::node::{Node, Resident};
use crate::objective::Objective;

use expected::{ExpectedPods, OnNode};
use learned::{Heeded, Kinds, LearnedName, LearnedPrograms};
use protocol::{
    ExtenderArgs, ExtenderFilterResult, HostPriority, KeptNodes, MAX_PRIORITY, NodeObject,
    NodeReport, Pod, ReportedProgram,
};
use reported::{Asked, PodCost, Reported};

/// Of a pod: its profile's name. Label or annotation.
pub(crate) const PROFILE_KEY: &str = "corun.dev/profile";
/// Of a pod: no program on its node may be predicted to be slower. Annotation.
pub(crate) const BOUND_KEY: &str = "corun.dev/slowdown-bound";
/// Of a node: its machine's name, as the extender knows it. Annotation.
pub(crate) const MACHINE_KEY: &str = "corun.dev/machine";
/// Of a node: who runs there. Annotation.
pub(crate) const PROGRAMS_KEY: &str = "corun.dev/programs";

/// Differences in slowdown, for each of a pod's CPUs, that are worth the whole range of scores at least.
const LEAST_SPAN: f64 = 0.05;
/// Score of a node of which nothing is known.
const UNKNOWN_SCORE: i64 = MAX_PRIORITY / 2;
/// Remembered nodes at most; more than that start anew.
const MOST_NODES: usize = 20_000;
/// Assumptions about pods of a node that are told: of several the first stand for all.
const MOST_TOLD: usize = 2;

/// An answer's body, and what was assumed on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtenderAnswer {
    /// JSON.
    pub body: String,
    /// What was not known, and what was assumed instead. The same unknown thing has the same text in each answer.
    pub assumed: Vec<String>,
}

/// Answers the scheduler's questions.
pub struct Extender {
    kinds: HashMap<String, usize>,
    /// What nodes learned of programs that were not recorded, and the kinds of node with all programs.
    learned: Mutex<LearnedPrograms>,
    /// By name, those that were recorded.
    programs: HashMap<String, usize>,
    oldest_s: u64,
    /// By node name: what is known of it.
    known: Mutex<HashMap<String, Known>>,
    /// Pods that were asked about lately and that no report has yet.
    expected: Mutex<ExpectedPods>,
}

/// What is known of a node.
struct Known {
    /// Its annotations when it was last asked about.
    notes: Notes,
    /// When they were made, as they say.
    at_s: u64,
    /// Who runs there by them, whatever their time.
    programs: String,
    /// Names of programs there that were not recorded, and by what they count.
    not_recorded: Vec<(String, Option<LearnedName>)>,
    reported: Arc<Reported>,
}

impl Known {
    /// Do all programs there that were not recorded count by the same as before?
    fn counts_by(&self, kinds: &Kinds) -> bool {
        self.not_recorded.iter().all(|(name, known)| kinds.learned.get(name) == known.as_ref())
    }
}

/// A node's two annotations.
type Notes = (String, String);

/// What is asked of nodes.
#[derive(Clone, Copy)]
struct Question<'a> {
    asked: &'a Asked,
    kinds: &'a Kinds,
    /// None where what is only guessed must not count: pods that are expected, profiles that were learned.
    expected: Option<&'a Expected>,
    now_s: u64,
}

/// By node, whom to expect there.
type Expected = HashMap<String, OnNode>;

impl Extender {
    /// Knows these machines, each by its name, and all programs of a library. What a node published more
    /// than `oldest_s` seconds ago, or from now on, is not believed.
    ///
    /// # Errors
    /// A machine or a profile with a figure that cannot be.
    pub fn new(
        machines: Vec<(String, corun_machine::Machine, Seats)>,
        library: &Library,
        options: ModelOptions,
        oldest_s: u64,
    ) -> Result<Self> {
        let profiles: Vec<Profile> = library.iter().cloned().collect();
        let mut kinds = HashMap::new();
        let mut all = Vec::new();
        for (name, machine, seats) in machines {
            if kinds.insert(name.clone(), all.len()).is_none() {
                all.push(NodeKind::new(machine, &profiles, seats, None, options)?);
            } else {
                return Err(Error::input(format!("machine `{name}` stands twice")));
            }
        }
        let names = profiles.into_iter().enumerate().map(|(at, profile)| (profile.name, at));
        let programs: HashMap<String, usize> = names.collect();
        let learned = Mutex::new(LearnedPrograms::new(all, programs.len()));
        Ok(Self {
            kinds,
            learned,
            programs,
            oldest_s,
            known: Mutex::default(),
            expected: Mutex::default(),
        })
    }

    /// Answers `filter`: nodes on which a bound on slowdown would be broken, the pod's own or that of somebody
    /// there, are left out.
    ///
    /// # Errors
    /// Bad input for a body that is no request.
    pub fn filter(&self, body: &[u8], now_s: u64) -> Result<ExtenderAnswer> {
        let request = read(body)?;
        let items = request.nodes.as_ref().and_then(|nodes| nodes.items.as_ref());
        let nodes = read_nodes(items.map_or(&[], Vec::as_slice))?;
        let mut assumed = Vec::new();
        let mut learned = self.learned();
        let kinds = self.heed(&mut learned, &nodes, now_s, &mut assumed);
        let asked = self.asked(&request.pod, &kinds, &mut assumed);
        let mut result = ExtenderFilterResult::default();
        if let Some(names) = &request.node_names {
            let bound = asked.as_ref().is_some_and(|asked| asked.bound.is_some());
            if bound && request.nodes.is_none() {
                let why =
                    "names of nodes alone say nothing: all are kept (nodeCacheCapable: false)";
                assumed.push(why.to_owned());
            }
            result.node_names = Some(names.iter().map(String::as_str).collect());
        }
        if let Some(items) = items {
            // What was learned is a guess, and no guess keeps a pod from a node.
            let costs = match asked.as_ref().filter(|asked| !asked.is_learned) {
                Some(asked) => {
                    let question = Question { asked, kinds: &kinds, expected: None, now_s };
                    self.costs(&question, &nodes, &mut assumed)
                }
                None => nodes.iter().map(|_| None).collect(),
            };
            let bound = asked.as_ref().and_then(|asked| asked.bound).unwrap_or(f64::INFINITY);
            let mut kept = Vec::new();
            for ((item, node), cost) in items.iter().zip(&nodes).zip(costs) {
                let why = match cost {
                    Some(cost) if cost.own > bound => {
                        format!(
                            "corun: it would be {:.2} times slower, its bound is {bound}",
                            cost.own
                        )
                    }
                    Some(cost) if cost.breaks => {
                        "corun: a program there would be slower than its bound".to_owned()
                    }
                    _ => {
                        kept.push(&**item);
                        continue;
                    }
                };
                result.failed_nodes.insert(node.metadata.name.clone(), why);
            }
            result.nodes = Some(KeptNodes { metadata: BTreeMap::new(), items: kept });
        }
        Ok(ExtenderAnswer { body: text(&result)?, assumed })
    }

    /// Answers `prioritize`: 10 for the node where all programs together lose least, the newcomer included. Pods that were
    /// asked about lately count where they are expected.
    ///
    /// # Errors
    /// Bad input for a body that is no request.
    pub fn prioritize(&self, body: &[u8], now_s: u64) -> Result<ExtenderAnswer> {
        let request = read(body)?;
        let items = request.nodes.as_ref().and_then(|nodes| nodes.items.as_ref());
        let nodes = read_nodes(items.map_or(&[], Vec::as_slice))?;
        let mut assumed = Vec::new();
        let mut learned = self.learned();
        let kinds = self.heed(&mut learned, &nodes, now_s, &mut assumed);
        let asked = self.asked(&request.pod, &kinds, &mut assumed);
        let mut names: Vec<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        if let Some(alone) = request.node_names.as_ref().filter(|_| nodes.is_empty()) {
            names = alone.iter().map(String::as_str).collect();
        }
        let pod = request.pod.full_name();
        let costs: Vec<Option<PodCost>> = match &asked {
            Some(asked) if !nodes.is_empty() => {
                let expected = self.expected(|pods| pods.by_node(&pod, now_s));
                let expected = Some(&expected);
                let question = Question { asked, kinds: &kinds, expected, now_s };
                self.costs(&question, &nodes, &mut assumed)
            }
            _ => names.iter().map(|_| None).collect(),
        };
        let known = || costs.iter().flatten().map(|cost| cost.marginal);
        let least = known().fold(f64::INFINITY, f64::min);
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        let cpus = asked.as_ref().map_or(1.0, |asked| f64::from(asked.cpus));
        let span = (most - least).max(LEAST_SPAN * cpus);
        let score = |cost: &Option<PodCost>| match cost {
            Some(cost) => {
                let lost = (cost.marginal - least) / span;
                (MAX_PRIORITY as f64 * (1.0 - lost)).round() as i64
            }
            None => UNKNOWN_SCORE,
        };
        let scored: Vec<HostPriority<'_>> = names
            .into_iter()
            .zip(&costs)
            .map(|(host, cost)| HostPriority { host, score: score(cost) })
            .collect();
        if let Some(asked) = asked.filter(|_| !request.pod.metadata.name.is_empty()) {
            let is_best = |one: &&HostPriority<'_>| one.score == MAX_PRIORITY;
            let best = scored.iter().filter(is_best).map(|one| one.host.to_owned()).collect();
            let shape = (asked.program, asked.cpus);
            self.expected(|pods| pods.expect(pod, shape, best, now_s));
        }
        Ok(ExtenderAnswer { body: text(&scored)?, assumed })
    }

    /// What nodes learned. Held until a request is answered: indices of learned programs mean the same meanwhile.
    fn learned(&self) -> MutexGuard<'_, LearnedPrograms> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what these nodes learned.
    fn heed(
        &self,
        learned: &mut LearnedPrograms,
        nodes: &[NodeObject],
        now_s: u64,
        assumed: &mut Vec<String>,
    ) -> Kinds {
        let times = (now_s, now_s.saturating_add(self.oldest_s));
        let Heeded { kinds, begins_anew } = learned.heed(nodes, &self.kinds, times, assumed);
        if begins_anew {
            self.expected(|pods| *pods = ExpectedPods::default());
            if let Ok(mut known) = self.known.lock() {
                known.clear();
            }
        }
        kinds
    }

    /// The program of a profile: one that was recorded, else as it was learned.
    fn program(&self, profile: &str, kinds: &Kinds) -> Option<(usize, Option<LearnedName>)> {
        if let Some(&recorded) = self.programs.get(profile) {
            return Some((recorded, None));
        }
        let learned = *kinds.learned.get(profile)?;
        Some((learned.program, Some(learned)))
    }

    /// What a pod asks for; none where it runs by no known profile.
    fn asked(&self, pod: &Pod, kinds: &Kinds, assumed: &mut Vec<String>) -> Option<Asked> {
        let name = pod.full_name();
        let Some(profile) = pod.metadata.note(PROFILE_KEY) else {
            assumed.push(format!("pod {name} has no {PROFILE_KEY}: every node suits it alike"));
            return None;
        };
        let Some((program, learned)) = self.program(profile, kinds) else {
            let why = format!("pod {name}: no profile {profile:?}: every node suits it alike");
            assumed.push(why);
            return None;
        };
        if let Some(learned) = learned {
            assumed.push(format!("pod {name}: {}", as_learned(profile, learned)));
        }
        let bound = bound_of(pod, &name, assumed);
        let cpus = cpus_of(pod, &name, assumed);
        Some(Asked { program, is_learned: learned.is_some(), cpus, bound })
    }

    /// Looks at the pods that are expected, or changes them.
    fn expected<T: Default>(&self, with: impl FnOnce(&mut ExpectedPods) -> T) -> T {
        self.expected.lock().map(|mut pods| with(&mut pods)).unwrap_or_default()
    }

    /// What a pod would cost on each node, with the pods that are expected there; none where that cannot be known.
    fn costs(
        &self,
        question: &Question<'_>,
        nodes: &[NodeObject],
        assumed: &mut Vec<String>,
    ) -> Vec<Option<PodCost>> {
        let Question { asked, kinds, expected, .. } = *question;
        let judged = |prediction: &mut Prediction, node: &NodeObject| {
            let reported = self.node(node, question, prediction)?;
            let node = &reported.node;
            if asked.cpus > node.free_cpus() {
                return Err(format!("node {}: too few CPUs are free by its report", node.name));
            }
            let kind = &kinds.all[node.kind];
            let cost = match expected.map(|expected| expected.get(&node.name)) {
                Some(Some(pods)) => {
                    let busier = reported.with_expected(kind, pods, asked.cpus, prediction);
                    busier.cost(kind, asked, prediction)
                }
                Some(None) => reported.cost(kind, asked, prediction),
                None => reported.by_records().cost(kind, asked, prediction),
            };
            Ok((cost, reported))
        };
        let found: Vec<std::result::Result<(PodCost, Arc<Reported>), String>> =
            nodes.par_iter().map_init(Prediction::default, judged).collect();
        for one in &found {
            match one {
                Ok((_, reported)) => assumed.extend(reported.assumed.iter().cloned()),
                Err(why) => assumed.push(format!("{why}: kept, in the middle")),
            }
        }
        found.into_iter().map(|one| one.ok().map(|one| one.0)).collect()
    }

    /// A node as its annotations say, predicted.
    fn node(
        &self,
        object: &NodeObject,
        &Question { kinds, now_s, .. }: &Question<'_>,
        prediction: &mut Prediction,
    ) -> std::result::Result<Arc<Reported>, String> {
        let name = &object.metadata.name;
        let note = |key: &str| {
            let found = object.metadata.annotations.as_ref().and_then(|notes| notes.get(key));
            found.ok_or_else(|| format!("node {name} has no {key}"))
        };
        let (machine, notes) = (note(MACHINE_KEY)?, note(PROGRAMS_KEY)?);
        let same =
            |one: &Known| one.notes.0 == *machine && one.notes.1 == *notes && one.counts_by(kinds);
        if let Some((at_s, reported)) = self.known(name, same) {
            self.believe(name, at_s, now_s)?;
            return Ok(reported);
        }
        let report: NodeReport = serde_json::from_str(notes)
            .map_err(|error| format!("node {name}: {PROGRAMS_KEY} cannot be read: {error}"))?;
        self.believe(name, report.at, now_s)?;
        self.expected(|pods| report.programs.iter().for_each(|one| pods.is_reported(&one.pod)));
        // The report's time changes with each report, and says nothing of who runs there.
        let programs = text(&report.programs).map_err(|error| error.to_string())?;
        let kind = *self
            .kinds
            .get(machine)
            .ok_or_else(|| format!("node {name}: no machine {machine:?} here"))?;
        let same = |one: &Known| {
            one.notes.0 == *machine && one.programs == programs && one.counts_by(kinds)
        };
        let reported = match self.known(name, same) {
            Some((_, reported)) => reported,
            None => Arc::new(self.reported((name, kind), &report, kinds, prediction)),
        };
        let not_recorded =
            report.programs.iter().filter(|one| !self.programs.contains_key(&one.profile));
        let not_recorded = not_recorded
            .map(|one| (one.profile.clone(), kinds.learned.get(&one.profile).copied()))
            .collect();
        if let Ok(mut known) = self.known.lock() {
            if known.len() >= MOST_NODES {
                known.clear();
            }
            let notes = (machine.clone(), notes.clone());
            let (at_s, reported) = (report.at, reported.clone());
            let new = Known { notes, at_s, programs, not_recorded, reported };
            known.insert(name.clone(), new);
        }
        Ok(reported)
    }

    /// What is known of a node, and from when, where that is still so.
    fn known(&self, name: &str, is_so: impl Fn(&Known) -> bool) -> Option<(u64, Arc<Reported>)> {
        let known = self.known.lock().ok()?;
        let one = known.get(name).filter(|one| is_so(one))?;
        Some((one.at_s, one.reported.clone()))
    }

    /// Is a report of this time believed?
    fn believe(&self, name: &str, at_s: u64, now_s: u64) -> std::result::Result<(), String> {
        let oldest_s = self.oldest_s;
        if now_s.abs_diff(at_s) <= oldest_s {
            return Ok(());
        }
        let when = if at_s > now_s { "ahead of this clock" } else { "old" };
        Err(format!("node {name}: its report is more than {oldest_s} s {when}"))
    }

    /// A node with those who run there by a report, predicted.
    fn reported(
        &self,
        node: (&str, usize),
        report: &NodeReport,
        kinds: &Kinds,
        prediction: &mut Prediction,
    ) -> Reported {
        let mut found = self.reported_by(node, report, kinds, prediction);
        let is_learned = |one: &ReportedProgram| {
            self.program(&one.profile, kinds).is_some_and(|(_, learned)| learned.is_some())
        };
        if report.programs.iter().any(is_learned) {
            let none = Kinds { learned: Arc::default(), ..kinds.clone() };
            let alone = self.reported_by(node, report, &none, prediction);
            found.recorded_alone = Some(Arc::new(alone));
        }
        found
    }

    fn reported_by(
        &self,
        (name, kind_index): (&str, usize),
        report: &NodeReport,
        kinds: &Kinds,
        prediction: &mut Prediction,
    ) -> Reported {
        let kind = &kinds.all[kind_index];
        let mut node = Node::new(name.to_owned(), kind_index, kind);
        let (mut bounds, mut assumed) = (Vec::new(), Vec::new());
        let mut assume = |pod: &str, what: String| {
            if assumed.len() < MOST_TOLD {
                assumed.push(format!("node {name}: pod {pod}: {what}"));
            }
        };
        for (pod, one) in report.programs.iter().enumerate() {
            let Some((program, learned)) = self.program(&one.profile, kinds) else {
                assume(&one.pod, format!("no profile {:?}: it counts as quiet", one.profile));
                continue;
            };
            if let Some(learned) = learned {
                assume(&one.pod, as_learned(&one.profile, learned));
            }
            let bound = one.bound.filter(|bound| is_bound(*bound));
            if let (None, Some(found)) = (bound, one.bound) {
                assume(&one.pod, format!("its bound is {found}, no number above 1: no bound"));
            }
            // More than the machine has: as many as there is room for.
            let cpus = node.cpus_as_linux(kind, one.busy_cpus().min(node.free_cpus()));
            if !cpus.is_empty() {
                let (slowdown, worst) = (1.0, 1.0);
                let resident = Resident { pod, workload: 0, program, cpus, slowdown, worst };
                node.insert(kind, resident, 0);
                bounds.push(bound.unwrap_or(f64::INFINITY));
            }
        }
        node.predict(kind, Objective::MeanSlowdown, prediction);
        if bounds.iter().all(|bound| bound.is_infinite()) {
            bounds.clear();
        }
        Reported::new(node, bounds, assumed)
    }
}

/// What is said of a pod whose profile was learned.
fn as_learned(profile: &str, learned: LearnedName) -> String {
    let sure = learned.percent();
    format!(
        "no profile {profile:?} was recorded: it counts by what nodes learned of it, {sure} % sure"
    )
}

fn read(body: &[u8]) -> Result<ExtenderArgs> {
    serde_json::from_slice(body).map_err(|error| Error::input(format!("no ExtenderArgs: {error}")))
}

fn read_nodes(items: &[Box<RawValue>]) -> Result<Vec<NodeObject>> {
    let wrong = |error| Error::input(format!("no node: {error}"));
    items.par_iter().map(|item| serde_json::from_str(item.get()).map_err(wrong)).collect()
}

fn text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::failed)
}
