//! From what was typed and the mix file to what is to be simulated.

use anyhow::anyhow;
use std::collections::BTreeMap;
use std::sync::Arc;

use corun_input::{Fault, PathStep, TomlSource};
use corun_machine::Machine;
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_optimal::Objective;
use corun_profile::{Library, Method, Mix, Profile, TABLE_INSTRUCTIONS};
use corun_sim::{AppSpec, Observation, SimError, apps_from_mix, check_end};

use crate::lookup::{self, DEFAULT_MACHINE};
use crate::policy_spec::PolicySpec;
use crate::{Error, Result};

/// Seeds where neither says how many.
const DEFAULT_SEEDS: u32 = 10;

/// Shipped programs of a comparison that names neither programs nor a library: real ones, spread
/// evenly over the library's ranks by misses in 1 MiB, from those that feel every neighbour to those
/// that feel none.
const DEMO: [&str; 8] =
    ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"];

/// The cache at which programs are ranked to choose some, in bytes.
const RANKED_AT: f64 = (1 << 20) as f64;

/// Most seeds of a comparison.
const MOST_SEEDS: u32 = 10_000;

/// What a comparison is asked for; what is left open is chosen.
#[derive(Debug, Clone)]
pub struct ComparisonRequest {
    /// Where profiles are looked up; none: the shipped library.
    pub library: Option<Library>,
    /// None: the mix's, else [`DEFAULT_MACHINE`].
    pub machine: Option<Machine>,
    /// The programs and where they were read; none: eight programs of the library.
    pub mix: Option<(Mix, Option<TomlSource>)>,
    /// None: all of the registry that place and are for the machine.
    pub policies: Option<Vec<PolicySpec>>,
    /// Runs a policy; none: the mix's, else 10.
    pub seeds: Option<u32>,
    /// Length of the programs that do not say; none: 150e9 instructions, or the profile's where the
    /// mix was read from a file.
    pub instructions: Option<u64>,
    /// The model's options.
    pub options: ModelOptions,
}

/// All that is to be compared.
#[derive(Debug, Clone)]
pub struct ComparisonSetup {
    /// The machine's model.
    pub model: Arc<Model>,
    /// The programs.
    pub apps: Vec<AppSpec>,
    /// Each app's profile.
    pub profiles: Vec<Profile>,
    /// When a run ends and what counts.
    pub method: Method,
    /// Runs a policy, with the seeds 1 to this.
    pub seeds: u32,
    /// The policies, in the order asked for.
    pub policies: Vec<PolicySpec>,
    /// How poorly the policies see the machine; none: they see all of it at once.
    pub observation: Option<Observation>,
    /// By what the bounds are the best and the worst.
    pub objective: Objective,
}

impl ComparisonSetup {
    /// Chooses what is left open, and checks everything.
    ///
    /// # Errors
    /// Bad input in a mix or a name that is not known.
    pub fn new(asked: ComparisonRequest) -> Result<Self> {
        let ComparisonRequest {
            library,
            machine,
            mix: given,
            policies,
            seeds,
            instructions,
            options,
        } = asked;
        let is_shipped = library.is_none();
        let library = match library {
            Some(library) => library,
            None => Library::shipped()?,
        };
        let source = given.as_ref().and_then(|(_, source)| source.as_ref());
        let machine = match (machine, &given) {
            (Some(machine), _) => machine,
            (None, Some((Mix { machine: Some(name), .. }, _))) => lookup::find_machine(name)
                .map_err(|failure| at(source, vec![PathStep::Key("machine")], failure))?,
            _ => lookup::find_machine(DEFAULT_MACHINE)?,
        };
        let is_asked = policies.is_some();
        let policies = policies.map_or_else(|| PolicySpec::parse_all(&[]), Ok)?;
        let policies = PolicySpec::suitable_for(&machine, policies, is_asked)?;
        let mut mix = match &given {
            Some((mix, _)) => mix.clone(),
            None if is_shipped => Mix::of_apps(&DEMO)
                .map_err(|fault| Error::failed(anyhow!("the demonstration mix: {fault}")))?,
            None => spread_mix(&library, machine.cpus().len())?,
        };
        // A recording is a sample: without a mix file all programs run as long as imported ones,
        // which gives policies that measure on line the time to act.
        let usual = source.is_none().then_some(TABLE_INSTRUCTIONS);
        for app in &mut mix.apps {
            app.instructions = app.instructions.or(instructions).or(usual);
        }
        let seeds = seeds.or(mix.seeds).unwrap_or(DEFAULT_SEEDS);
        Self::of(&library, machine, options, &mix, source, seeds, policies)
    }

    /// A mix of a library's programs on a machine.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(
        library: &Library,
        machine: Machine,
        options: ModelOptions,
        mix: &Mix,
        source: Option<&TomlSource>,
        seeds: u32,
        policies: Vec<PolicySpec>,
    ) -> Result<Self> {
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let loaded = load(mix, source, library, &model)?;
        Self::on(model, library, &loaded, mix, source, seeds, policies)
    }

    /// A mix of programs that were loaded on a model before, by name, so that many mixes can share
    /// what that takes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on(
        model: Arc<Model>,
        library: &Library,
        loaded: &BTreeMap<String, Arc<LoadedProgram>>,
        mix: &Mix,
        source: Option<&TomlSource>,
        seeds: u32,
        policies: Vec<PolicySpec>,
    ) -> Result<Self> {
        let mut apps = apps_from_mix(mix, model.machine(), |name| loaded.get(name).cloned())
            .map_err(|error| app_failure(mix, source, error))?;
        check_end(mix.method, &apps).map_err(|error| app_failure(mix, source, error))?;
        name_apart(&mut apps);
        let profiles = apps
            .iter()
            .map(|app| library.get(&app.program.name).cloned())
            .collect::<std::result::Result<_, _>>()?;
        if seeds > MOST_SEEDS {
            let message = format!("seeds: found {seeds}, expected at most {MOST_SEEDS}");
            return Err(Error::input(message));
        }
        Ok(Self {
            model,
            apps,
            profiles,
            method: mix.method,
            seeds,
            policies,
            observation: None,
            objective: Objective::default(),
        })
    }

    /// From now on the bounds are the best and the worst by this objective.
    ///
    /// # Errors
    /// An objective that asks for power figures that the machine does not have; another one than the mean slowdown where
    /// programs take turns.
    pub fn judge_by(&mut self, objective: Objective) -> Result<()> {
        objective.check(self.model.machine())?;
        if self.takes_turns() && objective != Objective::MeanSlowdown {
            let message =
                "more programs than CPUs: groupings are searched by the mean slowdown alone";
            return Err(Error::input(message).hint("--objective antt"));
        }
        self.objective = objective;
        Ok(())
    }

    /// From now on policies see the machine as poorly as this. Policies that nobody asked for and that cannot
    /// start so are left out.
    ///
    /// # Errors
    /// Where a policy cannot be built.
    pub fn observe(
        &mut self,
        observation: Observation,
        policies_were_asked_for: bool,
    ) -> Result<()> {
        if !policies_were_asked_for {
            let mut kept = Vec::with_capacity(self.policies.len());
            for spec in std::mem::take(&mut self.policies) {
                let mut built = spec.build(1)?;
                if built.iter_mut().all(|policy| observation.suffices(policy.as_mut())) {
                    kept.push(spec);
                }
            }
            self.policies = kept;
        }
        self.observation = Some(observation);
        Ok(())
    }

    /// Does every program run one thread all the time, so that one placement describes it?
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn is_steady(&self) -> std::result::Result<(), String> {
        let threads: u64 = self.apps.iter().map(|app| u64::from(app.threads)).sum();
        let cpus = self.model.machine().cpus().len();
        if threads > cpus as u64 {
            return Err(format!("{threads} threads on {cpus} CPUs take turns"));
        }
        self.is_always_there()
    }

    /// Are there more programs than CPUs, of one thread each, that run all the time?
    pub(super) fn takes_turns(&self) -> bool {
        self.apps.len() > self.model.machine().cpus().len() && self.is_always_there().is_ok()
    }

    /// Does every program run one thread all the time? Why not, in words.
    fn is_always_there(&self) -> std::result::Result<(), String> {
        let comes_and_goes = |app: &&AppSpec| {
            app.start.0 > 0
                || app.kill.is_some()
                || app.io.is_some()
                || app.service.is_some()
                || app.restart == Some(false)
        };
        if let Some(app) = self.apps.iter().find(comes_and_goes) {
            return Err(format!("{} does not run all the time", app.name));
        }
        if let Some(app) = self.apps.iter().find(|app| app.threads > 1) {
            return Err(format!("{} has {} threads", app.name, app.threads));
        }
        Ok(())
    }
}

/// Programs of the library that spread evenly over its ranks by misses in a small cache, in the
/// order of their names.
fn spread_mix(library: &Library, cpus: usize) -> Result<Mix> {
    let mut ranked: Vec<(f64, &str)> = library
        .iter()
        .map(|profile| (profile.solo_mpki(RANKED_AT).value, profile.name.as_str()))
        .collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    let count = DEMO.len().min(cpus).min(ranked.len());
    let last = ranked.len().saturating_sub(1);
    let mut names: Vec<&str> = (0..count)
        .map(|place| ranked[(place * last).checked_div(count - 1).unwrap_or(0)].1)
        .collect();
    names.sort_unstable();
    Mix::of_apps(&names).map_err(|_| {
        Error::input("the library holds no program").hint("--profiles PATH --apps A,B,..")
    })
}

/// Every profile of the mix, loaded once.
fn load(
    mix: &Mix,
    source: Option<&TomlSource>,
    library: &Library,
    model: &Model,
) -> Result<BTreeMap<String, Arc<LoadedProgram>>> {
    let mut named: Vec<(&str, &Profile)> = Vec::new();
    for (place, app) in mix.apps.iter().enumerate() {
        let is_new = |name: &&str| named.iter().all(|one| one.0 != *name);
        let Some(name) = app.profile.as_deref().filter(is_new) else { continue };
        let profile = library
            .get(name)
            .map_err(|unknown| at(source, app_field(place, "profile"), Error::from(unknown)))?;
        named.push((name, profile));
    }
    let profiles: Vec<&Profile> = named.iter().map(|one| one.1).collect();
    let names = named.iter().map(|one| one.0.to_owned());
    Ok(names.zip(model.load_all(&profiles)?).collect())
}

fn app_field(place: usize, field: &'static str) -> Vec<PathStep> {
    vec![PathStep::Key("app"), PathStep::Index(place), PathStep::Key(field)]
}

/// Bad input in a mix, with file and line where the mix is a file.
fn at(source: Option<&TomlSource>, path: Vec<PathStep>, failure: Error) -> Error {
    match source {
        Some(source) => failure.at(|why| source.error(&Fault { path, why })),
        None => failure,
    }
}

/// What the simulator finds wrong with a program of the mix.
fn app_failure(mix: &Mix, source: Option<&TomlSource>, error: SimError) -> Error {
    let SimError::App { app, field, found, expected } = &error else { return error.into() };
    // A command has no name of its own there but its number.
    let is_meant = |place: &usize| {
        let one = &mix.apps[*place];
        one.shown_name() == app || (one.cmd.is_some() && *app == format!("app {}", place + 1))
    };
    let Some(place) = (0..mix.apps.len()).find(is_meant) else { return error.into() };
    let why = format!("found {found}, expected {expected}");
    match source {
        Some(source) => source.error(&Fault { path: app_field(place, field), why }).into(),
        None => error.into(),
    }
}

/// Gives later programs of a name that is taken a number: `mcf`, `mcf#2`.
fn name_apart(apps: &mut [AppSpec]) {
    for place in 1..apps.len() {
        let (before, rest) = apps.split_at_mut(place);
        let taken = |name: &str| before.iter().any(|one| one.name == name);
        let own = rest[0].name.clone();
        let mut number = 2;
        while taken(&rest[0].name) {
            rest[0].name = format!("{own}#{number}");
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demonstration_has_its_programs() {
        let library = Library::shipped().unwrap();
        assert!(DEMO.iter().all(|name| library.get(name).is_ok()));
    }

    #[test]
    fn a_library_without_a_mix_gives_programs_of_all_ranks() {
        let library = Library::shipped().unwrap();
        let mix = spread_mix(&library, 2).unwrap();
        let miss = |place: usize| {
            let name = mix.apps[place].profile.as_deref().unwrap();
            library.get(name).unwrap().solo_mpki(RANKED_AT).value
        };
        let all = || library.iter().map(|profile| profile.solo_mpki(RANKED_AT).value);
        assert_eq!(miss(0).max(miss(1)), all().fold(0.0, f64::max));
        assert_eq!(miss(0).min(miss(1)), all().fold(f64::INFINITY, f64::min));
        assert!(spread_mix(&Library::default(), 8).is_err());
    }
}
