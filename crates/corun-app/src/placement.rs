//! A placement and its figures: by a policy, searched for, or given.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_machine::CpuId;
use corun_metrics as metrics;
use corun_model::Outcome;
use corun_optimal::{
    Goal, Objective, PlacementProblem, PlacementResult, SearchLimits, WithinTarget,
};
use corun_policy::{PolicyEntry, PolicyKind, registry};
use serde::Serialize;

use crate::data::DataSources;
use crate::decided::decided;
use crate::joint::joint;
use crate::policy_spec::PolicySpec;
use crate::scenario::Scenario;
use crate::what_if::Layout;
use crate::{Error, Result, check, counted, round};

/// Digits after the point in documents.
const DIGITS: i32 = 6;

/// By so much, relative, a slowdown may come out higher than a search has it.
const ROUNDING: f64 = 1e-9;

/// The parameter of policies that keep everybody to a slowdown.
pub(crate) const TARGET_SLOWDOWN: &str = "target-slowdown";

/// The JSON document of a placement. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub struct PlacementDocument {
    /// Who chose it; none when it was given.
    pub policy: Option<String>,
    /// What it is judged by.
    pub objective: &'static str,
    /// The machine's name.
    pub machine: String,
    /// The programs' names, all different.
    pub apps: Vec<String>,
    /// Each program's CPU, the machine's own number.
    pub cpu: Vec<u32>,
    /// The LLC of that CPU, an index.
    pub llc: Vec<usize>,
    /// Each program's ways of that LLC as a hexadecimal mask; none where LLCs are whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<Vec<String>>,
    /// The slowdown that nobody shall exceed, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_slowdown: Option<f64>,
    /// The programs that are slower than the target; none where no target was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_target: Option<Vec<String>>,
    /// Each program's.
    pub slowdown: Vec<f64>,
    /// Sum of 1 / slowdown.
    pub stp: Option<f64>,
    /// Largest / smallest slowdown.
    pub unfairness: Option<f64>,
    /// Mean slowdown.
    pub antt: Option<f64>,
    /// What the machine draws above idle, in watts; none where its power is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_above_idle_w: Option<f64>,
    /// Energy above idle for what a program does in a second alone, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_per_work_j: Option<f64>,
    /// The same times how many times as long that takes as alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_delay_per_work_j: Option<f64>,
    /// The objective's value.
    pub value: Option<f64>,
    /// Relative distance to the best bound; none where nothing was searched.
    pub gap: Option<f64>,
    /// Is it proven to be the best (the worst)? None where nothing was searched.
    pub proven: Option<bool>,
    /// Time the search took; none where nothing was searched.
    pub solver_seconds: Option<f64>,
    /// Each program's figures.
    pub programs: Vec<PlacementFigures>,
    /// On which data the figures stand.
    pub data: PlacementData,
}

/// A program's figures beside the others.
#[derive(Debug, Serialize)]
pub struct PlacementFigures {
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC references per 1000 instructions.
    pub llc_apki: f64,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: f64,
    /// Memory traffic, MB/s (1e6 bytes a second).
    pub bandwidth_mb_per_s: f64,
    /// What it holds of the LLC.
    pub llc_occupancy_bytes: u64,
    /// Share of cycles stalled on memory, 0 to 1.
    pub memory_stall_share: f64,
    /// Was a figure read outside the profile's measured range?
    pub extrapolated: bool,
}

/// On which data the figures stand.
#[derive(Debug, Serialize)]
pub struct PlacementData {
    /// Profiles and model.
    #[serde(flatten)]
    pub model: DataSources,
    /// Programs for which a figure was read outside the measured range.
    pub extrapolated: Vec<String>,
}

/// What a search for the best or the worst says of its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchProof {
    /// Relative distance to the best bound; none where nothing was searched.
    pub gap: Option<f64>,
    /// Is it proven to be the best? None where nothing was searched.
    pub proven: Option<bool>,
    /// How long the search took; none where nothing was searched.
    pub solver_seconds: Option<f64>,
}

impl PlacementDocument {
    /// The figures of programs on CPUs (indices), by the model.
    pub fn new(
        scenario: &Scenario,
        cpus: &[usize],
        policy: Option<&str>,
        objective: Objective,
        proof: SearchProof,
    ) -> Self {
        Self::of(scenario, cpus, &scenario.solve(cpus), policy, objective, proof)
    }

    /// These figures of programs on CPUs (indices).
    pub(crate) fn of(
        scenario: &Scenario,
        cpus: &[usize],
        outcomes: &[Outcome],
        policy: Option<&str>,
        objective: Objective,
        proof: SearchProof,
    ) -> Self {
        let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
        let rounded = |value: f64| round(value, DIGITS);
        let extrapolated = scenario.names.iter().zip(outcomes).filter(|(_, one)| one.extrapolated);
        let machine = scenario.machine();
        let bytes_per_s = outcomes.iter().map(|one| one.bytes_per_s).sum();
        let above_idle_w = machine.power_above_idle_w(cpus.iter().copied(), bytes_per_s);
        let energy = |of: Objective| of.value(&slowdowns, above_idle_w).map(rounded);
        Self {
            policy: policy.map(str::to_owned),
            objective: objective.name(),
            machine: machine.name().to_owned(),
            apps: scenario.names.clone(),
            cpu: cpus.iter().map(|&cpu| machine.cpus()[cpu].id.0).collect(),
            llc: cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect(),
            mask: None,
            target_slowdown: None,
            slower_than_target: None,
            slowdown: slowdowns.iter().copied().map(rounded).collect(),
            stp: metrics::stp(&slowdowns).map(rounded),
            unfairness: metrics::unfairness(&slowdowns).map(rounded),
            antt: metrics::antt(&slowdowns).map(rounded),
            power_above_idle_w: above_idle_w.map(rounded),
            energy_per_work_j: energy(Objective::Energy),
            energy_delay_per_work_j: energy(Objective::EnergyDelay),
            value: objective.value(&slowdowns, above_idle_w).map(rounded),
            gap: proof.gap,
            proven: proof.proven,
            solver_seconds: proof.solver_seconds,
            data: PlacementData {
                model: DataSources::of(
                    &scenario.profiles,
                    scenario.machine(),
                    scenario.model.options(),
                ),
                extrapolated: extrapolated.map(|(name, _)| name.clone()).collect(),
            },
            programs: outcomes
                .iter()
                .map(|one| PlacementFigures {
                    ipc: rounded(one.ipc),
                    llc_apki: rounded(one.llc_apki),
                    llc_mpki: rounded(one.llc_mpki),
                    bandwidth_mb_per_s: round(one.bytes_per_s / 1e6, 3),
                    llc_occupancy_bytes: one.occupancy_bytes.round() as u64,
                    memory_stall_share: rounded(one.memory_stall_share),
                    extrapolated: one.extrapolated,
                })
                .collect(),
        }
    }

    /// Says who is slower than a target.
    fn compare_with_target(&mut self, target: f64, outcomes: &[Outcome]) {
        let most = target * (1.0 + ROUNDING);
        let slower = self.apps.iter().zip(outcomes).filter(|one| one.1.slowdown > most);
        self.slower_than_target = Some(slower.map(|(name, _)| name.clone()).collect());
        self.target_slowdown = Some(target);
    }
}

/// A search among placements, which can be asked for as a policy can.
#[derive(Debug, Clone, Copy)]
pub struct PlacementSearch {
    /// By this name it is asked for.
    pub name: &'static str,
    /// A short name for people, for a button.
    pub label: &'static str,
    /// What it finds, a sentence.
    pub summary: &'static str,
    /// The search, for so many seconds at most.
    method: fn(Option<f64>) -> PlacementMethod,
}

/// All searches.
pub const PLACEMENT_SEARCHES: [PlacementSearch; 3] = [
    PlacementSearch {
        name: "optimal",
        label: "Best placement",
        summary: "The placement of least mean slowdown, with a proof",
        method: |time_limit_s| PlacementMethod::Search(Goal::Best, time_limit_s),
    },
    PlacementSearch {
        name: "optimal-cluster",
        label: "Best placement and ways",
        summary: "The best placement and division of the LLCs' ways together",
        method: PlacementMethod::Joint,
    },
    PlacementSearch {
        name: "worst",
        label: "Worst placement",
        summary: "The placement of highest mean slowdown",
        method: |time_limit_s| PlacementMethod::Search(Goal::Worst, time_limit_s),
    },
];

/// Who is asked where programs are to run.
#[derive(Debug, Clone)]
pub enum PlacementMethod {
    /// A search for the best or the worst, for so many seconds at most.
    Search(Goal, Option<f64>),
    /// A search for the best placement and division of the LLCs' ways together, for so many seconds at most.
    Joint(Option<f64>),
    /// A policy, with this seed.
    Policy(PolicySpec, u64),
}

impl PlacementMethod {
    /// A policy of the registry that places, or one of [`PLACEMENT_SEARCHES`].
    ///
    /// # Errors
    /// Bad input for any other name.
    pub fn named(name: &str, seed: u64, time_limit_s: Option<f64>) -> Result<Self> {
        let placing = registry().iter().filter(|entry| entry.kind() == PolicyKind::Placement);
        let searches = PLACEMENT_SEARCHES.iter().map(|search| search.name);
        let known: Vec<&str> = searches.chain(placing.map(|entry| entry.name)).collect();
        let other = PolicyEntry::named(name);
        if let Some(entry) = other.filter(|_| !known.contains(&name)) {
            let (why, command) = if entry.partitions_by_curves() {
                ("partitions caches and does not place programs", "partition")
            } else {
                ("decides by what it measures, and is not asked for a placement alone", "compare")
            };
            let message = format!("policy `{name}` {why}");
            return Err(Error::input(message).hint(format!("corun {command} --policy {name} ..")));
        }
        if let Some(search) = PLACEMENT_SEARCHES.iter().find(|search| search.name == name) {
            return Ok((search.method)(time_limit_s));
        }
        if !known.contains(&name) {
            return Err(Error::unknown("policy", name, known));
        }
        Ok(Self::Policy(PolicySpec::parse(name)?, seed))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Search(Goal::Best, _) => "optimal",
            Self::Search(Goal::Worst, _) => "worst",
            Self::Joint(_) => "optimal-cluster",
            Self::Policy(policy, _) => policy.name(),
        }
    }

    /// Where it has the programs, each on a CPU of its own.
    ///
    /// With a target slowdown nobody is to be slower than that: the placement is the best within the target, or that of a
    /// policy that knows such a target, and the document says who is slower all the same. Where a search finds no
    /// placement within the target it gives the one in which the slowest program is the least slow, judged by that.
    ///
    /// # Errors
    /// More programs than CPUs; a placement that the search or the policy cannot give; a target, for a search that knows
    /// none; [`Error::Interrupted`] when the caller wants to stop.
    pub fn place(
        &self,
        scenario: &Scenario,
        target_slowdown: Option<f64>,
        objective: Objective,
        stop: &AtomicBool,
    ) -> Result<PlacementDocument> {
        match target_slowdown {
            Some(target) => self.placed_within(scenario, target, objective, stop),
            None => self.placed(scenario, objective, stop),
        }
    }

    fn placed(
        &self,
        scenario: &Scenario,
        objective: Objective,
        stop: &AtomicBool,
    ) -> Result<PlacementDocument> {
        scenario.one_cpu_each()?;
        objective.check(scenario.machine())?;
        let (layout, proof) = match self {
            Self::Search(goal, time_limit_s) => {
                let (cpus, proof) = searched(scenario, objective, *goal, *time_limit_s, stop)?;
                (Layout { cpus, masks: Vec::new() }, proof)
            }
            Self::Joint(time_limit_s) => {
                return joint(scenario, objective, *time_limit_s, self.name(), stop);
            }
            Self::Policy(policy, seed) => {
                (decided(scenario, policy, *seed, stop)?, SearchProof::default())
            }
        };
        check(stop)?;
        let outcomes = scenario.outcomes(&layout)?;
        Ok(scenario.judged(&layout, &outcomes, Some(self.name()), (objective, proof)))
    }

    fn placed_within(
        &self,
        scenario: &Scenario,
        target_slowdown: f64,
        objective: Objective,
        stop: &AtomicBool,
    ) -> Result<PlacementDocument> {
        let mut document = match self {
            Self::Search(Goal::Best, time_limit_s) => {
                scenario.one_cpu_each()?;
                objective.check(scenario.machine())?;
                let limits = limits(*time_limit_s, stop);
                let problem = PlacementProblem::new(&scenario.model, &scenario.programs)?;
                let (found, judged_by) =
                    match problem.placer()?.solve_within(target_slowdown, objective, &limits) {
                        WithinTarget::Kept(found) => (found, objective),
                        WithinTarget::Exceeded(found) => (found, Objective::MaxSlowdown),
                    };
                check(stop)?;
                let (cpus, proof) = with_proof(found);
                PlacementDocument::new(scenario, &cpus, Some(self.name()), judged_by, proof)
            }
            Self::Search(Goal::Worst, _) | Self::Joint(_) => {
                let message = format!("`{}` keeps to no target slowdown", self.name());
                return Err(Error::input(message).hint("--policy optimal, or a policy"));
            }
            Self::Policy(policy, seed) => {
                let policy = kept_to(policy, target_slowdown)?;
                Self::Policy(policy, *seed).placed(scenario, objective, stop)?
            }
        };
        let outcomes = scenario.outcomes(&scenario.layout_of(&document)?)?;
        document.compare_with_target(target_slowdown, &outcomes);
        Ok(document)
    }
}

/// The CPUs (indices) of a given placement.
///
/// # Errors
/// Another number of CPUs than programs, a CPU that the machine does not have, or one twice.
pub fn placement_cpus(
    machine: &corun_machine::Machine,
    apps: usize,
    place: &[u32],
) -> Result<Vec<usize>> {
    let cpus = place.len();
    if apps != cpus {
        return Err(Error::input(format!(
            "found {} for {}: expected one CPU a program",
            counted(cpus, "CPU"),
            counted(apps, "program")
        )));
    }
    let mut places = Vec::with_capacity(cpus);
    for &number in place {
        let cpu = machine.cpu_index(CpuId(number)).ok_or_else(|| {
            let known = machine.cpu_set();
            Error::input(format!("{} has no CPU {number}", machine.name()))
                .hint(format!("CPUs {known}"))
        })?;
        if places.contains(&cpu) {
            let message = format!("CPU {number} stands twice");
            return Err(Error::input(message).hint("corun compare, where CPUs are shared in time"));
        }
        places.push(cpu);
    }
    Ok(places)
}

fn searched(
    scenario: &Scenario,
    objective: Objective,
    goal: Goal,
    time_limit_s: Option<f64>,
    stop: &AtomicBool,
) -> Result<(Vec<usize>, SearchProof)> {
    let problem = PlacementProblem::new(&scenario.model, &scenario.programs)?;
    Ok(with_proof(problem.placer()?.solve(objective, goal, &limits(time_limit_s, stop))))
}

fn limits(time_limit_s: Option<f64>, stop: &AtomicBool) -> SearchLimits<'_> {
    let time = time_limit_s.map(Duration::from_secs_f64);
    SearchLimits { time, cancel: Some(stop), ..SearchLimits::default() }
}

fn with_proof(found: PlacementResult) -> (Vec<usize>, SearchProof) {
    let PlacementResult { cpu, gap, proven, seconds, .. } = found;
    (cpu, SearchProof { gap, proven: Some(proven), solver_seconds: Some(seconds) })
}

/// The policy with the target as its parameter, where it has one and was not given another.
fn kept_to(policy: &PolicySpec, target_slowdown: f64) -> Result<PolicySpec> {
    let mut words = policy.name().split(':').map(str::trim);
    let entry = words.next().and_then(PolicyEntry::named);
    let knows =
        entry.is_some_and(|entry| entry.parameters.iter().any(|one| one.name == TARGET_SLOWDOWN));
    if !knows || words.any(|word| word.starts_with(TARGET_SLOWDOWN)) {
        return Ok(policy.clone());
    }
    PolicySpec::parse(&format!("{}:{TARGET_SLOWDOWN}={target_slowdown}", policy.name()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_model::ModelOptions;
    use corun_optimal::Objective;
    use corun_profile::Library;

    use super::{PLACEMENT_SEARCHES, PlacementMethod};
    use crate::{Error, Scenario};

    /// What a policy that divides caches decides is judged with these ways, not with whole caches.
    #[test]
    fn a_placement_has_the_ways_that_its_policy_gave() {
        let apps = ["sort", "xz", "zstd", "kernel-hash-join", "kernel-triad"].map(str::to_owned);
        let machine = corun_machine::preset("xeon-gold-6138").unwrap();
        let library = Library::shipped().unwrap();
        let scenario = Scenario::new(machine, &library, &apps, ModelOptions::default()).unwrap();
        let place = |name: &str, target| {
            let method = PlacementMethod::named(name, 1, None).unwrap();
            let stop = AtomicBool::new(false);
            method.place(&scenario, target, Objective::MeanSlowdown, &stop).unwrap()
        };
        let (whole, divided) = (place("di", None), place("corun", None));
        assert!(whole.mask.is_none());
        assert_eq!(divided.mask.as_ref().map(Vec::len), Some(apps.len()));
        let (whole, divided) = (whole.antt.unwrap(), divided.antt.unwrap());
        assert!(divided < 0.95 * whole, "{divided} {whole}");
        let within = place("corun", Some(1.2));
        assert_eq!(within.slower_than_target.as_deref(), Some(&[][..]), "{:?}", within.slowdown);
    }

    #[test]
    fn each_search_is_asked_for_by_its_name() {
        for search in PLACEMENT_SEARCHES {
            let method = PlacementMethod::named(search.name, 1, None).unwrap();
            assert_eq!(method.name(), search.name);
            assert!(!matches!(method, PlacementMethod::Policy(..)));
        }
    }

    #[test]
    fn who_places_nobody_is_said_to_with_a_command_that_takes_it() {
        for (name, command) in [("lfoc", "corun partition"), ("dio-lfoc", "corun compare")] {
            match PlacementMethod::named(name, 1, None) {
                Err(Error::Input { hints, .. }) => {
                    assert!(hints.iter().any(|hint| hint.starts_with(command)), "{hints:?}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
