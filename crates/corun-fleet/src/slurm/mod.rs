//! Which nodes a Slurm job should prefer.
//!
//! Slurm's controller must not wait for a model: a table is written ahead, from what `sinfo` and `squeue` print, with a
//! line for each profile and number of CPUs. The hook of job submission reads one line of it
//! (`packaging/slurm/corun.lua`). A line has the nodes where such a job costs least; where all nodes are as good there
//! is no line, and Slurm chooses as it does without corun.

mod listing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use corun_app::{Error, Result};
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use rayon::prelude::*;

pub use listing::{SINFO_FORMAT, SQUEUE_FORMAT};

use crate::kind::{NodeKind, Prediction, Seats};
use crate::node::{Node, Resident};
use crate::objective::Objective;
use listing::{ListedJob, ListedNode};

/// The table's first line.
const HEADER: &str = "corun-nodes 1";
/// Nodes that cost more than the best by less than this, in slowdown for each of the job's CPUs, are as good: what a move must
/// save in a fleet file, too.
const AS_GOOD: f64 = 0.01;
/// Nodes of a line at most, the best of them.
const MOST_PREFERRED: usize = 64;

/// A table for the hook of job submission, and what was assumed on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTable {
    /// First the version, then `at` and the time in seconds since 1970. Each further line, between tabulators: profile,
    /// CPUs on a node, and the nodes, the best first, each with the job's own predicted slowdown (`n1=1.02`).
    pub text: String,
    /// What was not known, and what was assumed instead.
    pub assumed: Vec<String>,
}

/// What jobs would cost on a node: by program, then size.
type JobCosts = Arc<[Option<JobCost>]>;

/// Ranks the nodes of a Slurm cluster.
pub struct SlurmNodes {
    kinds: Vec<NodeKind>,
    profiles: Vec<String>,
    kind_of: HashMap<String, usize>,
    /// Numbers of CPUs for which the table has lines, rising.
    sizes: Vec<u32>,
    /// By kind and company: what the last table found.
    known: Mutex<HashMap<usize, HashMap<Company, JobCosts>>>,
}

/// Who runs on a node: by program and CPUs with the bound on slowdown as bits, sorted.
type Company = Vec<(usize, u32, u64)>;

/// What a job would cost on a node: what all lose more, and its own worst slowdown.
type JobCost = (f64, f64);

impl SlurmNodes {
    /// Knows which machine each node is: of each group a machine, how CPUs are counted, and Slurm's list of the nodes
    /// (`n[1-8]`). All programs of the library have lines.
    ///
    /// # Errors
    /// A list that cannot be read, a node of two groups, or a machine or profile with a figure that cannot be.
    pub fn new(
        groups: Vec<(corun_machine::Machine, Seats, String)>,
        library: &Library,
        options: ModelOptions,
    ) -> Result<Self> {
        let profiles: Vec<Profile> = library.iter().cloned().collect();
        let mut kind_of = HashMap::new();
        let mut kinds = Vec::new();
        for (machine, seats, list) in groups {
            let names = listing::names(&list).ok_or_else(|| {
                Error::input(format!(
                    "found {list:?}, expected Slurm's list of nodes, such as n[1-8]"
                ))
            })?;
            for name in names {
                if kind_of.insert(name.clone(), kinds.len()).is_some() {
                    return Err(Error::input(format!("node `{name}` stands twice")));
                }
            }
            kinds.push(NodeKind::new(machine, &profiles, seats, None, options)?);
        }
        let most = kinds.iter().map(NodeKind::cpus).max().unwrap_or(0);
        let mut sizes: Vec<u32> =
            (0..31).map(|power| 1 << power).take_while(|&size| size < most).collect();
        sizes.push(most);
        let profiles = profiles.into_iter().map(|profile| profile.name).collect();
        Ok(Self { kinds, profiles, kind_of, sizes, known: Mutex::default() })
    }

    /// The table of now, from what `sinfo` and `squeue` printed in the formats [`SINFO_FORMAT`] and [`SQUEUE_FORMAT`].
    pub fn table(&self, sinfo: &str, squeue: &str, now_s: u64) -> NodeTable {
        let mut assumed = Vec::new();
        let nodes = self.nodes(sinfo, &mut assumed);
        let companies = self.companies(squeue, &mut assumed);
        let nobody = Company::new();
        let company = |node: &ListedNode| companies.get(&node.name).unwrap_or(&nobody);
        // Nodes with the same company cost the same.
        let mut states: Vec<(usize, &Company)> =
            nodes.iter().map(|node| (self.kind_of[&node.name], company(node))).collect();
        states.sort_unstable();
        states.dedup();
        let costs = self.known_costs(&states);
        let state_of: Vec<usize> = nodes
            .iter()
            .map(|node| {
                let state = (self.kind_of[&node.name], company(node));
                states.binary_search(&state).expect("every node's state is listed")
            })
            .collect();
        let mut text = format!("{HEADER}\nat {now_s}\n");
        for (program, profile) in self.profiles.iter().enumerate() {
            for (size, &cpus) in self.sizes.iter().enumerate() {
                let at = program * self.sizes.len() + size;
                let with_room =
                    nodes.iter().zip(&state_of).filter(|(node, _)| node.idle_cpus >= cpus);
                let found: Vec<(&str, JobCost)> = with_room
                    .filter_map(|(node, &state)| Some((node.name.as_str(), costs[state][at]?)))
                    .collect();
                if let Some(line) = preferred(found, cpus) {
                    let _ = writeln!(text, "{profile}\t{cpus}\t{line}");
                }
            }
        }
        NodeTable { text, assumed }
    }

    /// The nodes on which jobs can start and which can be preferred, each once.
    fn nodes(&self, sinfo: &str, assumed: &mut Vec<String>) -> Vec<ListedNode> {
        let mut nodes: BTreeMap<String, ListedNode> = BTreeMap::new();
        let mut told = BTreeSet::new();
        for line in sinfo.lines().filter(|line| !line.trim().is_empty()) {
            match listing::node(line) {
                None => assumed.push(format!("sinfo: {line:?} cannot be read: left out")),
                Some(node) if !self.kind_of.contains_key(&node.name) => {
                    assumed.push(format!(
                        "node {} is of no known machine: never preferred",
                        node.name
                    ));
                }
                Some(node) if !node.has_own_feature => {
                    let name = &node.name;
                    assumed.push(format!("node {name} has no feature {name}: never preferred"));
                }
                Some(node) => {
                    let kind = self.kind_of[&node.name];
                    let counted = node.cpus.filter(|&cpus| cpus != self.kinds[kind].cpus());
                    if let Some(cpus) = counted.filter(|&cpus| told.insert((kind, cpus))) {
                        assumed.push(self.counted_otherwise(&node.name, kind, cpus));
                    }
                    if node.is_open {
                        nodes.insert(node.name.clone(), node);
                    }
                }
            }
        }
        assumed.sort();
        assumed.dedup();
        nodes.into_values().collect()
    }

    /// What is said of a node on which Slurm gives out another number of CPUs than its machine has here.
    fn counted_otherwise(&self, node: &str, kind: usize, cpus: u32) -> String {
        let kind = &self.kinds[kind];
        let (machine, counted) = (kind.machine().name(), kind.cpus());
        format!(
            "node {node} has {cpus} CPUs for Slurm, {machine} has {counted} here: {counted} are given out \
             (--threads counts hardware threads, else cores count)"
        )
    }

    /// Who runs on each node by which profile.
    fn companies(&self, squeue: &str, assumed: &mut Vec<String>) -> HashMap<String, Company> {
        let programs: HashMap<&str, usize> =
            self.profiles.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let mut companies: HashMap<String, Company> = HashMap::new();
        for line in squeue.lines().filter(|line| !line.trim().is_empty()) {
            let Some(job) = listing::job(line) else {
                assumed.push(format!("squeue: {line:?} cannot be read: left out"));
                continue;
            };
            let Some(profile) = &job.profile else { continue };
            let Some(&program) = programs.get(profile.as_str()) else {
                assumed.push(format!(
                    "job {}: no profile {profile:?}: it counts as quiet",
                    job.number
                ));
                continue;
            };
            let bound = bound(&job, assumed);
            let cpus = job.cpus.div_ceil(job.nodes.len() as u32).max(1);
            for node in job.nodes {
                companies.entry(node).or_default().push((program, cpus, bound.to_bits()));
            }
        }
        companies.values_mut().for_each(|company| company.sort_unstable());
        companies
    }

    /// What each job would cost in each of these states of nodes. States of the last table are not predicted again.
    fn known_costs(&self, states: &[(usize, &Company)]) -> Vec<JobCosts> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let costs: Vec<JobCosts> = states
            .par_iter()
            .map_init(Prediction::default, |prediction, &(kind, company)| {
                let found = known.get(&kind).and_then(|of_kind| of_kind.get(company));
                found.cloned().unwrap_or_else(|| self.costs(kind, company, prediction).into())
            })
            .collect();
        known.clear();
        for (&(kind, company), costs) in states.iter().zip(&costs) {
            known.entry(kind).or_default().insert(company.clone(), costs.clone());
        }
        costs
    }

    /// What each job would cost beside a company: by program, then size. None where there is no room, or somebody there
    /// would be slower than his bound.
    fn costs(
        &self,
        kind_index: usize,
        company: &Company,
        prediction: &mut Prediction,
    ) -> Vec<Option<JobCost>> {
        let kind = &self.kinds[kind_index];
        let objective = Objective::MeanSlowdown;
        let mut node = Node::new(String::new(), kind_index, kind);
        let mut bounds = Vec::new();
        for (pod, &(program, cpus, bound)) in company.iter().enumerate() {
            let cpus = node.cpus_as_linux(kind, cpus.min(node.free_cpus()));
            if cpus.is_empty() {
                continue;
            }
            let (slowdown, worst) = (1.0, 1.0);
            node.insert(kind, Resident { pod, workload: 0, program, cpus, slowdown, worst }, 0);
            bounds.push(f64::from_bits(bound));
        }
        node.predict(kind, objective, prediction);
        let mut costs = Vec::with_capacity(self.profiles.len() * self.sizes.len());
        for program in 0..self.profiles.len() {
            for &size in &self.sizes {
                costs.push((size <= node.free_cpus()).then_some(()).and_then(|()| {
                    let cpus = node.cpus_as_linux(kind, size);
                    let (all, own) =
                        node.with_newcomer(kind, objective, (program, &cpus), prediction);
                    let breaks = node.breaks_a_bound(kind, (program, &cpus), &bounds, prediction);
                    (!breaks).then_some((all.sum - node.cost().sum, own.worst))
                }));
            }
        }
        costs
    }
}

/// The nodes of a line, the best first; none where all are as good, or there are none.
fn preferred(mut found: Vec<(&str, JobCost)>, cpus: u32) -> Option<String> {
    found.sort_by(|one, other| one.1.0.total_cmp(&other.1.0).then_with(|| one.0.cmp(other.0)));
    let limit = found.first()?.1.0 + AS_GOOD * f64::from(cpus);
    let good = found.iter().take_while(|one| one.1.0 <= limit).count();
    if good == found.len() {
        return None;
    }
    let shown = found.iter().take(good.min(MOST_PREFERRED));
    Some(shown.map(|(name, (_, own))| format!("{name}={own:.4}")).collect::<Vec<_>>().join(" "))
}

/// The bound that a job's comment asks for; infinite where there is none.
fn bound(job: &ListedJob, assumed: &mut Vec<String>) -> f64 {
    let Some(typed) = &job.bound else { return f64::INFINITY };
    match typed.parse::<f64>() {
        Ok(bound) if bound.is_finite() && bound > 1.0 => bound,
        _ => {
            let number = &job.number;
            assumed.push(format!(
                "job {number}: corun.bound is {typed:?}, no number above 1: no bound"
            ));
            f64::INFINITY
        }
    }
}
