//! Programs that nodes learned: what the extender goes by where no profile of a name was recorded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use corun_model::LoadedProgram;

use super::protocol::NodeObject;
use crate::kind::NodeKind;
use crate::learned::{LEARNED_KEY, LearnedEntry, LearnedReport};

/// Confidence counts in so many steps, so that a program is not loaded anew as it grows older by a second.
const STEPS: f64 = 10.0;
/// Names that are known at a time; of more the surest.
const MOST_NAMES: usize = 128;
/// Programs that were loaded, versions that have been replaced included; of more all are loaded anew.
const MOST_LOADED: usize = 512;
/// Nodes that are remembered; of more all are read anew.
const MOST_NODES: usize = 20_000;
/// Seconds after which what was learned has aged.
const AGES_EVERY_S: u64 = 60;

/// A program that was learned, as the model has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LearnedName {
    /// Its index among the programs of each kind of node.
    pub(super) program: usize,
    /// How sure it is, in tenths.
    tenths: u32,
}

impl LearnedName {
    /// How sure it is, in %.
    pub(super) fn percent(self) -> u32 {
        self.tenths * 10
    }
}

/// The kinds of node with all programs, and the names of those that were learned.
#[derive(Clone)]
pub(super) struct Kinds {
    pub(super) all: Arc<Vec<NodeKind>>,
    pub(super) learned: Arc<HashMap<String, LearnedName>>,
}

/// What nodes published of what they learned.
pub(super) struct LearnedPrograms {
    /// Programs that were recorded: those that were learned come behind them.
    recorded: usize,
    nodes: HashMap<String, OfNode>,
    /// By kind: the programs that were loaded.
    loaded: Vec<Vec<Arc<LoadedProgram>>>,
    /// By name: which was loaded last, and from what. An entry that a kind of node cannot take has no program.
    current: HashMap<String, (Source, Option<LearnedName>)>,
    kinds: Kinds,
    /// Has a node published something else since the names were chosen?
    is_stale: bool,
    chosen_at_s: u64,
}

/// What a node published.
struct OfNode {
    text: String,
    /// Why it cannot be read, in words.
    outcome: Result<LearnedReport, String>,
}

/// What a program was loaded from.
#[derive(Debug, Clone)]
struct Source {
    entry: LearnedEntry,
    machine: String,
    tenths: u32,
}

/// Whether names changed so that what was known of nodes is worth nothing.
pub(super) struct Heeded {
    pub(super) kinds: Kinds,
    /// All indices of learned programs are others than before.
    pub(super) begins_anew: bool,
}

impl LearnedPrograms {
    /// Of kinds of node with the recorded programs alone.
    pub(super) fn new(all: Vec<NodeKind>, recorded: usize) -> Self {
        let loaded = vec![Vec::new(); all.len()];
        let kinds = Kinds { all: Arc::new(all), learned: Arc::default() };
        let (nodes, current) = (HashMap::new(), HashMap::new());
        Self { recorded, nodes, loaded, current, kinds, is_stale: false, chosen_at_s: 0 }
    }

    /// Reads what these nodes published. `machines`: the kinds by their names. What is published for a time later than
    /// `latest_s` is not believed. What cannot be read is added to `assumed`.
    pub(super) fn heed(
        &mut self,
        nodes: &[NodeObject],
        machines: &HashMap<String, usize>,
        (now_s, latest_s): (u64, u64),
        assumed: &mut Vec<String>,
    ) -> Heeded {
        if self.nodes.len() > MOST_NODES {
            self.nodes.clear();
        }
        for node in nodes {
            self.read(node, assumed);
        }
        let mut begins_anew = false;
        if self.is_stale || now_s.abs_diff(self.chosen_at_s) >= AGES_EVERY_S {
            (self.is_stale, self.chosen_at_s) = (false, now_s);
            begins_anew = self.choose(machines, now_s, latest_s);
        }
        Heeded { kinds: self.kinds.clone(), begins_anew }
    }

    fn read(&mut self, node: &NodeObject, assumed: &mut Vec<String>) {
        let name = &node.metadata.name;
        let text = node.metadata.annotations.as_ref().and_then(|notes| notes.get(LEARNED_KEY));
        let Some(text) = text else {
            self.is_stale |= self.nodes.remove(name).is_some();
            return;
        };
        if self.nodes.get(name).is_none_or(|known| known.text != *text) {
            let outcome = LearnedReport::read(text);
            self.nodes.insert(name.clone(), OfNode { text: text.clone(), outcome });
            self.is_stale = true;
        }
        if let Some(Err(why)) = self.nodes.get(name).map(|known| &known.outcome) {
            assumed.push(format!("node {name}: {LEARNED_KEY}: {why}: it is left out"));
        }
    }

    /// Chooses the surest entry for each name and loads what was not loaded yet; true where all indices are new.
    fn choose(&mut self, machines: &HashMap<String, usize>, now_s: u64, latest_s: u64) -> bool {
        let chosen = self.surest(machines, now_s, latest_s);
        if chosen.is_empty() && self.current.is_empty() {
            return false;
        }
        let loaded = self.loaded.first().map_or(0, Vec::len);
        let begins_anew = loaded + chosen.len() > MOST_LOADED;
        if begins_anew {
            self.current.clear();
            self.loaded.iter_mut().for_each(Vec::clear);
        }
        let mut current = HashMap::new();
        for (name, source) in chosen {
            let known = self.current.remove(&name).filter(|known| known.0 == source);
            let loaded = match known {
                Some(known) => known.1,
                None => self.load(&source, machines),
            };
            current.insert(name, (source, loaded));
        }
        self.current = current;
        let names = self.current.iter();
        let names = names.filter_map(|(name, (_, loaded))| Some((name.clone(), (*loaded)?)));
        self.kinds.learned = Arc::new(names.collect());
        if begins_anew || self.loaded.first().map_or(0, Vec::len) > loaded {
            let kinds = self.kinds.all.iter().zip(&self.loaded);
            let kinds = kinds.map(|(kind, more)| kind.with_programs_from(self.recorded, more));
            self.kinds.all = Arc::new(kinds.collect());
        }
        begins_anew
    }

    /// By name the surest entry of all nodes: of equal ones the latest, then that of the first node.
    fn surest(
        &self,
        machines: &HashMap<String, usize>,
        now_s: u64,
        latest_s: u64,
    ) -> BTreeMap<String, Source> {
        let mut best: BTreeMap<&str, Candidate<'_>> = BTreeMap::new();
        for (node, known) in &self.nodes {
            let Ok(report) = &known.outcome else { continue };
            if !machines.contains_key(&report.machine) {
                continue;
            }
            for entry in report.programs.iter().filter(|one| one.at <= latest_s) {
                let tenths = (entry.confidence(now_s) * STEPS).round() as u32;
                let new = Candidate { tenths, node, entry, machine: &report.machine };
                let known = best.get(&*entry.profile);
                if tenths > 0 && known.is_none_or(|known| new.rank() > known.rank()) {
                    best.insert(&entry.profile, new);
                }
            }
        }
        let mut best: Vec<Candidate<'_>> = best.into_values().collect();
        best.sort_by_key(|one| Reverse(one.tenths));
        best.truncate(MOST_NAMES);
        let source = |one: Candidate<'_>| {
            let Candidate { tenths, entry, machine, .. } = one;
            let (entry, machine) = (entry.clone(), machine.to_owned());
            (entry.profile.clone(), Source { entry, machine, tenths })
        };
        best.into_iter().map(source).collect()
    }

    /// Loads a program for all kinds of node; none where a kind cannot take it.
    fn load(&mut self, source: &Source, machines: &HashMap<String, usize>) -> Option<LearnedName> {
        let kinds = &self.kinds.all;
        let seen_on = kinds[*machines.get(&source.machine)?].machine();
        let share = f64::from(source.tenths) / STEPS;
        let of_kind = |kind: &NodeKind| source.entry.load(share, seen_on, kind.model());
        let loaded: Vec<LoadedProgram> = kinds.iter().map(of_kind).collect::<Option<_>>()?;
        let program = self.recorded + self.loaded.first()?.len();
        for (all, one) in self.loaded.iter_mut().zip(loaded) {
            all.push(Arc::new(one));
        }
        Some(LearnedName { program, tenths: source.tenths })
    }
}

/// What a node learned of a program.
struct Candidate<'a> {
    tenths: u32,
    node: &'a str,
    entry: &'a LearnedEntry,
    machine: &'a str,
}

impl Candidate<'_> {
    fn rank(&self) -> (u32, u64, Reverse<&str>) {
        (self.tenths, self.entry.at, Reverse(self.node))
    }
}

impl PartialEq for Source {
    /// A later time at which the same was found makes no other program.
    fn eq(&self, other: &Self) -> bool {
        self.tenths == other.tenths
            && self.machine == other.machine
            && self.entry.has_figures_of(&other.entry)
    }
}
