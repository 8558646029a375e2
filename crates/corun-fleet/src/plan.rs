//! A fleet file's plan, with what else there could be beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corun_app::{Cancel, DataSources, Error, Result, find_machine, open_library, round};
use corun_input::{Fault, PathStep, TomlSource};
use corun_metrics::standard_error;
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use serde::Serialize;

use crate::bound::{Bounds, round_down};
use crate::description::FleetDescription;
use crate::exact::{extremes, random_values};
use crate::fleet::{Fleet, Ground};
use crate::kind::{NodeKind, Prediction};
use crate::objective::Objective;
use crate::optimum::by_loads;
use crate::place::Place;
use crate::repair::{Repaired, repair};
use crate::workload::Workload;

/// Digits after the point in documents.
const DIGITS: i32 = 6;
/// A bound below this has no relative distance.
const LEAST_BOUND: f64 = 1e-3;
/// Plans drawn at random.
const DRAWN: usize = 40;
/// Programs of a fleet for which random plans are drawn, at most.
const MOST_DRAWN: usize = 2_000;
/// What a move must save for each CPU where the file does not say.
pub(crate) const DEFAULT_MOVE_COST: f64 = 0.01;
/// How often a plan's repair takes others out of a node for a chain of moves, at most.
pub(crate) const REPAIR_TRIES: usize = 20_000;
/// Threads that may not be slower, where nothing says otherwise.
const NO_BOUND: f64 = f64::INFINITY;

/// The JSON document of a plan. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub struct FleetDocument {
    /// What the plan is judged by.
    pub objective: &'static str,
    /// The plan's value.
    pub value: Option<f64>,
    /// No plan's value is below it: the optimum where all plans could be searched.
    pub bound: Option<f64>,
    /// Relative distance of the value to the bound.
    pub gap: Option<f64>,
    /// Is the plan proven to be the best? None where somebody has no place.
    pub proven: Option<bool>,
    /// The value of the best plan, where all could be searched.
    pub optimum: Option<f64>,
    /// The value of the worst plan, where all could be looked at.
    pub worst: Option<f64>,
    /// What a plan drawn at random is worth.
    pub expectation: Option<Expectation>,
    /// Mean slowdown of all threads; none where nobody has a place.
    pub mean_slowdown: Option<f64>,
    /// The slowdown of the thread that suffers most; none where nobody has a place.
    pub worst_slowdown: Option<f64>,
    /// Nodes in use.
    pub nodes_used: usize,
    /// Moves made after the first placement.
    pub moves: usize,
    /// Where each program goes.
    pub programs: Vec<PlacedProgram>,
    /// Programs without a place.
    pub unplaced: Vec<Unplaced>,
    /// The nodes in use.
    pub nodes: Vec<NodeFigures>,
    /// On which data the figures stand.
    pub data: DataSources,
}

/// What a plan drawn at random is worth.
#[derive(Debug, Serialize)]
pub struct Expectation {
    /// Mean of the values.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Plans drawn.
    pub plans: usize,
}

/// Where a program goes, and why.
#[derive(Debug, Serialize)]
pub struct PlacedProgram {
    /// Its name.
    pub program: String,
    /// Its node.
    pub node: String,
    /// Its CPUs, the machine's own numbers.
    pub cpus: Vec<u32>,
    /// The LLCs of these CPUs, indices.
    pub llcs: Vec<usize>,
    /// Mean slowdown of its threads in the plan.
    pub slowdown: f64,
    /// Why there.
    pub reason: String,
}

/// A program without a place.
#[derive(Debug, Serialize)]
pub struct Unplaced {
    /// Its name.
    pub program: String,
    /// Why.
    pub reason: String,
}

/// A node in use.
#[derive(Debug, Serialize)]
pub struct NodeFigures {
    /// Its name.
    pub node: String,
    /// Its machine.
    pub machine: String,
    /// CPUs that are taken.
    pub cpus_used: u32,
    /// CPUs that are given out.
    pub cpus: u32,
    /// Programs there.
    pub programs: usize,
    /// Mean slowdown of the threads there.
    pub mean_slowdown: f64,
    /// The worst slowdown there.
    pub worst_slowdown: f64,
}

/// What is known of all plans.
#[derive(Default)]
struct AllPlans {
    /// The best one, where it was found.
    best: Option<Fleet>,
    /// The value of the worst one, where all were looked at.
    worst: Option<f64>,
    /// No plan's value is below it, where all loads of a node were looked at.
    bound: Option<f64>,
}

/// A fleet file with its machines and profiles looked up.
pub struct FleetQuestion {
    /// What does not change.
    pub ground: Arc<Ground>,
    /// Each node's name and kind.
    pub nodes: Vec<(String, usize)>,
    /// The workload of each program that asks, in the file's order.
    pub asked: Vec<usize>,
    move_cost: f64,
    data: DataSources,
}

impl FleetQuestion {
    /// Looks up what a file names. Paths are as the command's own.
    ///
    /// # Errors
    /// An unknown machine or program, or a figure that cannot be.
    pub fn new(
        description: &FleetDescription,
        source: &TomlSource,
        options: ModelOptions,
    ) -> Result<Self> {
        let at = |path: &[PathStep], failure: Error| {
            failure.at(|why| source.error(&Fault { path: path.to_vec(), why }))
        };
        let library = open_library(description.profiles.as_deref())
            .map_err(|failure| at(&[PathStep::Key("profiles")], failure))?;
        let (profiles, workloads) = wanted(description, &library).map_err(|(index, failure)| {
            at(
                &[PathStep::Key("program"), PathStep::Index(index), PathStep::Key("profile")],
                failure,
            )
        })?;
        let mut kinds = Vec::new();
        let mut nodes = Vec::new();
        let mut names = BTreeSet::new();
        for (index, group) in description.node.iter().enumerate() {
            let key = |key| [PathStep::Key("node"), PathStep::Index(index), PathStep::Key(key)];
            let machine =
                find_machine(&group.machine).map_err(|failure| at(&key("machine"), failure))?;
            let name = group.name.clone().unwrap_or_else(|| machine.name().to_owned());
            let memory_mib = group.memory_gib.map(|gib| (gib * 1024.0) as u64);
            let kind = NodeKind::new(machine, &profiles, group.seats, memory_mib, options)?;
            for one in (0..group.count).map(|one| format!("{name}-{one}")) {
                if !names.insert(one.clone()) {
                    let twice = Error::input(format!("two nodes are called `{one}`"));
                    let twice = twice.hint("name = \"..\" in one of the [[node]] groups");
                    return Err(at(&key("name"), twice));
                }
                nodes.push((one, kinds.len()));
            }
            kinds.push(kind);
        }
        let mut shares = vec![0.0; profiles.len()];
        for (entry, workload) in description.program.iter().zip(&workloads) {
            shares[workload.program] += f64::from(entry.count) * f64::from(entry.cpus);
        }
        let counts = description.program.iter().map(|entry| entry.count as usize).enumerate();
        let asked = counts.flat_map(|(index, count)| std::iter::repeat_n(index, count)).collect();
        let data = DataSources::of(&profiles, kinds[0].machine(), options);
        let ground = Ground::new(
            kinds,
            profiles.into_iter().map(|profile| profile.name).collect(),
            workloads,
            &shares,
            description.objective,
            description.slowdown_bound.unwrap_or(NO_BOUND),
        );
        let move_cost = description.move_cost.unwrap_or(DEFAULT_MOVE_COST);
        Ok(Self { ground: Arc::new(ground), nodes, asked, move_cost, data })
    }

    /// The plan: programs in the file's order, each where it costs least, then moves that pay. With `best`
    /// the best plan of all, which takes a small fleet. The seed is that of the plans drawn at random.
    ///
    /// # Errors
    /// A machine for which there can be no bound; `best` of a fleet that is too large.
    pub fn plan(self, best: bool, seed: u64) -> Result<FleetDocument> {
        if best {
            return self.best_plan(seed);
        }
        let mut fleet = Fleet::new(self.ground.clone(), self.nodes.clone());
        let mut prediction = Prediction::default();
        let mut reasons = vec![String::new(); self.asked.len()];
        let mut unplaced = Vec::new();
        for (pod, &workload) in self.asked.iter().enumerate() {
            let asked = &self.ground.workloads[workload];
            match fleet.best_place(workload, &mut prediction) {
                Ok(place) => {
                    reasons[pod] = self.reason(&fleet, &place);
                    let at = (place.node, place.cpus);
                    fleet.insert(pod, workload, at, &mut prediction);
                }
                Err(why) => unplaced.push(Unplaced {
                    program: asked.name.clone(),
                    reason: format!("no node can take it; on most of them {}", why.words()),
                }),
            }
        }
        let repaired = match self.ground.objective {
            Objective::Machines => Repaired { moves: Vec::new(), saved: 0.0 },
            _ => repair(&mut fleet, self.move_cost, REPAIR_TRIES, &mut prediction),
        };
        let count = repaired.moves.len();
        for one in &repaired.moves {
            let from = &fleet.nodes[one.from].name;
            reasons[one.pod] = match (self.ground.objective, count) {
                (Objective::WorstSlowdown, _) => {
                    format!("moved from {from}, so that the slowest are less slow")
                }
                (_, 1) => format!("moved from {from}, which costs all {:.4} less", repaired.saved),
                _ => {
                    let saved = repaired.saved;
                    format!("moved from {from}, one of {count} moves that cost all {saved:.4} less")
                }
            };
        }
        let whole = unplaced.is_empty() && !self.asked.is_empty();
        let all = if whole { self.all_plans(Some(&fleet)) } else { AllPlans::default() };
        self.document((fleet, all), &reasons, unplaced, count, seed)
    }

    fn best_plan(self, seed: u64) -> Result<FleetDocument> {
        let all = self.all_plans(None);
        let Some(best) = all.best.clone() else {
            let message = "no best plan: there are too many plans to look at, the programs do not fit, or CPUs of \
                 one cache differ (seats = \"threads\", unlike cores)";
            return Err(Error::input(message).hint("the same without --optimal, which has a bound"));
        };
        let reasons = vec!["part of the best plan".to_owned(); self.asked.len()];
        self.document((best, all), &reasons, Vec::new(), 0, seed)
    }

    /// Looks at all plans one by one, else at all loads of a node. `known`: a plan that may be the best.
    fn all_plans(&self, known: Option<&Fleet>) -> AllPlans {
        let (ground, nodes, asked) = (&self.ground, &self.nodes, &self.asked);
        if let Some(found) = extremes(ground, nodes, asked) {
            return AllPlans { best: Some(found.best), worst: found.worst, bound: None };
        }
        by_loads(ground, nodes, asked, known).map_or_else(AllPlans::default, |found| AllPlans {
            best: found.best,
            worst: None,
            bound: Some(found.bound),
        })
    }

    fn reason(&self, fleet: &Fleet, place: &Place) -> String {
        if self.ground.objective == Objective::WorstSlowdown {
            let where_to = match fleet.nodes[place.node].residents.len() {
                0 => "an empty node".to_owned(),
                count => format!("beside {count}"),
            };
            return format!("{where_to}: nobody there slower than {:.3}", place.worst);
        }
        let cost = match self.ground.objective {
            Objective::LostWork => "CPUs lost",
            _ => "slowdown",
        };
        let own = place.own.sum;
        let others = place.marginal - own;
        match fleet.nodes[place.node].residents.len() {
            0 => format!("an empty node: {cost} +{own:.3} over its own threads"),
            count => {
                let there = if count == 1 { "the one" } else { "those" };
                format!(
                    "beside {count}: {cost} +{own:.3} over its own threads, {others:+.3} over {there} there"
                )
            }
        }
    }

    /// The document of a plan, beside what is known of all plans.
    fn document(
        self,
        (fleet, all): (Fleet, AllPlans),
        reasons: &[String],
        unplaced: Vec<Unplaced>,
        moves: usize,
        seed: u64,
    ) -> Result<FleetDocument> {
        let rounded = |value: f64| round(value, DIGITS);
        let whole = unplaced.is_empty() && !self.asked.is_empty();
        let optimum = all.best.as_ref().map(Fleet::value);
        let value = whole.then(|| fleet.value());
        // A search of all plans is the best bound there is.
        let bound = match optimum {
            Some(optimum) => Some(optimum),
            None if whole => {
                let relaxed = self.bound(&fleet)?;
                relaxed.map(|bound| bound.max(all.bound.unwrap_or(bound)))
            }
            None => None,
        };
        let drawn = match whole && self.asked.len() <= MOST_DRAWN {
            true => random_values(&self.ground, &self.nodes, &self.asked, (DRAWN, seed)),
            false => Vec::new(),
        };
        // Beside a bound of next to nothing a distance is no share of it.
        let some = bound.filter(|bound| bound.abs() >= LEAST_BOUND);
        let gap = value.zip(some).map(|(value, bound)| (value - bound) / bound.abs());
        Ok(FleetDocument {
            objective: self.ground.objective.name(),
            value: value.map(rounded),
            bound: bound.map(|bound| match optimum {
                Some(_) => rounded(bound),
                None => round_down(bound, DIGITS),
            }),
            gap: gap.map(|gap| rounded(gap.max(0.0))),
            proven: value.zip(bound).map(|(value, bound)| value <= bound + 1e-9),
            optimum: optimum.map(rounded),
            worst: all.worst.map(rounded),
            expectation: expectation(&drawn),
            mean_slowdown: mean_slowdown(fleet.nodes.iter()).map(rounded),
            worst_slowdown: (fleet.nodes_used() > 0).then(|| rounded(fleet.cost().worst)),
            nodes_used: fleet.nodes_used(),
            moves,
            programs: self.placed(&fleet, reasons),
            unplaced,
            nodes: node_figures(&fleet),
            data: self.data,
        })
    }

    fn bound(&self, fleet: &Fleet) -> Result<Option<f64>> {
        let mut counts = vec![0; self.ground.kinds.len()];
        for node in &fleet.nodes {
            counts[node.kind] += 1;
        }
        let mut asked: BTreeMap<(usize, u32), f64> = BTreeMap::new();
        for &workload in &self.asked {
            let one = &self.ground.workloads[workload];
            *asked.entry((one.program, one.cpus)).or_default() += 1.0;
        }
        let asked: Vec<(usize, u32, f64)> =
            asked.into_iter().map(|((program, cpus), count)| (program, cpus, count)).collect();
        let mut present: Vec<usize> = asked.iter().map(|one| one.0).collect();
        present.dedup();
        let bounds = Bounds::new(self.ground.clone(), &counts, &present)?;
        Ok(bounds.bound(&asked, &Cancel::default())?.map(|bound| bound.value))
    }

    fn placed(&self, fleet: &Fleet, reasons: &[String]) -> Vec<PlacedProgram> {
        let mut placed = Vec::new();
        for (pod, reason) in reasons.iter().enumerate() {
            let Some(at) = fleet.node_of(pod) else { continue };
            let node = &fleet.nodes[at];
            let Some(one) = node.residents.iter().find(|one| one.pod == pod) else { continue };
            let machine = self.ground.kinds[node.kind].machine();
            let mut llcs: Vec<usize> =
                one.cpus.iter().map(|&cpu| machine.cpus()[cpu as usize].llc).collect();
            llcs.sort_unstable();
            llcs.dedup();
            placed.push(PlacedProgram {
                program: self.ground.workloads[one.workload].name.clone(),
                node: node.name.clone(),
                cpus: one.cpus.iter().map(|&cpu| machine.cpus()[cpu as usize].id.0).collect(),
                llcs,
                slowdown: round(one.slowdown, DIGITS),
                reason: reason.clone(),
            });
        }
        placed
    }
}

/// The profiles that a file names, each once, and its programs as workloads; or the program (index) whose profile is not there.
fn wanted(
    description: &FleetDescription,
    library: &Library,
) -> std::result::Result<(Vec<Profile>, Vec<Workload>), (usize, Error)> {
    let mut profiles: Vec<Profile> = Vec::new();
    let mut workloads = Vec::new();
    for (index, entry) in description.program.iter().enumerate() {
        let profile =
            library.get(entry.profile.trim()).map_err(|unknown| (index, unknown.into()))?;
        let known = profiles.iter().position(|one| one.name == profile.name);
        let program = known.unwrap_or(profiles.len());
        if known.is_none() {
            profiles.push(profile.clone());
        }
        let named =
            |name: &String| description.program.iter().position(|other| other.shown() == name);
        workloads.push(Workload {
            name: entry.shown().to_owned(),
            program,
            cpus: entry.cpus,
            memory_mib: (entry.memory_gib * 1024.0) as u64,
            most_per_node: entry.most_per_node,
            never_beside: entry.never_beside.iter().filter_map(named).collect(),
            slowdown_bound: entry.slowdown_bound,
        });
    }
    Ok((profiles, workloads))
}

fn expectation(values: &[f64]) -> Option<Expectation> {
    let standard_error = standard_error(values)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(Expectation {
        mean: round(mean, DIGITS),
        standard_error: round(standard_error, DIGITS),
        plans: values.len(),
    })
}

/// Mean slowdown of the threads on some nodes; none where nobody runs.
fn mean_slowdown<'a>(nodes: impl Iterator<Item = &'a crate::node::Node>) -> Option<f64> {
    let (mut sum, mut threads) = (0.0, 0.0);
    for one in nodes.flat_map(|node| &node.residents) {
        sum += one.slowdown * one.cpus.len() as f64;
        threads += one.cpus.len() as f64;
    }
    (threads > 0.0).then(|| sum / threads)
}

fn node_figures(fleet: &Fleet) -> Vec<NodeFigures> {
    let used = fleet.nodes.iter().filter(|node| !node.residents.is_empty());
    used.map(|node| {
        let kind = &fleet.ground().kinds[node.kind];
        NodeFigures {
            node: node.name.clone(),
            machine: kind.machine().name().to_owned(),
            cpus_used: node.threads(),
            cpus: kind.cpus(),
            programs: node.residents.len(),
            mean_slowdown: round(mean_slowdown(std::iter::once(node)).unwrap_or(1.0), DIGITS),
            worst_slowdown: round(node.cost().worst, DIGITS),
        }
    })
    .collect()
}
