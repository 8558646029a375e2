//! From what was typed and the mix file to what is to be simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::Machine;
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_policy::{PolicyKind, registry};
use corun_profile::{Fault, Library, Method, Mix, MixSource, Profile, Step, TABLE_INSTRUCTIONS};
use corun_sim::{AppSpec, SimError, apps_from_mix};

use crate::cli::CompareArgs;
use crate::failure::{Failure, Outcome};
use crate::policy_names;
use crate::scenario::{self, DEFAULT_MACHINE, model_options};

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

/// All that is to be compared.
pub(super) struct Setup {
    pub(super) model: Arc<Model>,
    pub(super) apps: Vec<AppSpec>,
    /// Each app's profile.
    pub(super) profiles: Vec<Profile>,
    pub(super) method: Method,
    pub(super) seeds: u32,
    /// Names of the policies, in the order asked for.
    pub(super) policies: Vec<String>,
}

impl Setup {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Bad input in a file or a name that is not known.
    pub(super) fn new(arguments: &CompareArgs) -> Outcome<Self> {
        let policies = policies(&arguments.policy)?;
        let library = scenario::library(arguments.profiles.as_deref())?;
        let given = given_mix(arguments)?;
        let source = given.as_ref().and_then(|(_, source)| source.as_ref());
        let machine = match (&arguments.machine, &given) {
            (Some(name), _) => scenario::machine(name)?,
            (None, Some((Mix { machine: Some(name), .. }, _))) => scenario::machine(name)
                .map_err(|failure| at(source, vec![Step::Key("machine")], failure))?,
            _ => scenario::machine(DEFAULT_MACHINE)?,
        };
        let policies = fit_for(&machine, policies, !arguments.policy.is_empty())?;
        let mut mix = match &given {
            Some((mix, _)) => mix.clone(),
            None if arguments.profiles.is_none() => {
                Mix::of_apps(&DEMO).map_err(|fault| anyhow!("the demonstration mix: {fault}"))?
            }
            None => spread_mix(&library, machine.cpus().len())?,
        };
        // A recording is a sample: without a mix file all programs run as long as imported ones,
        // which gives policies that measure on line the time to act.
        let usual = arguments.mix.is_none().then_some(TABLE_INSTRUCTIONS);
        for app in &mut mix.apps {
            app.instructions = app.instructions.or(arguments.instructions).or(usual);
        }
        let options = model_options(&arguments.model);
        let seeds = arguments.seeds.or(mix.seeds).unwrap_or(DEFAULT_SEEDS);
        Self::of(&library, machine, options, &mix, source, seeds, policies)
    }

    /// A mix of a library's programs on a machine.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn of(
        library: &Library,
        machine: Machine,
        options: ModelOptions,
        mix: &Mix,
        source: Option<&MixSource>,
        seeds: u32,
        policies: Vec<String>,
    ) -> Outcome<Self> {
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let loaded = load(mix, source, library, &model)?;
        let mut apps = apps_from_mix(mix, model.machine(), |name| loaded.get(name).cloned())
            .map_err(|error| app_failure(mix, source, error))?;
        name_apart(&mut apps);
        let profiles = apps
            .iter()
            .map(|app| library.get(&app.program.name).cloned())
            .collect::<Result<_, _>>()?;
        if seeds > MOST_SEEDS {
            let message = format!("seeds: found {seeds}, expected at most {MOST_SEEDS}");
            return Err(Failure::input(message));
        }
        Ok(Self { model, apps, profiles, method: mix.method, seeds, policies })
    }

    /// Does every program run one thread all the time, so that one placement describes it? If
    /// not, why.
    pub(super) fn is_steady(&self) -> Result<(), String> {
        let threads: u64 = self.apps.iter().map(|app| u64::from(app.threads)).sum();
        let cpus = self.model.machine().cpus().len();
        if threads > cpus as u64 {
            return Err(format!("{threads} threads on {cpus} CPUs take turns"));
        }
        let comes_and_goes = |app: &&AppSpec| {
            app.start.0 > 0 || app.kill.is_some() || app.io.is_some() || app.restart == Some(false)
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

/// The mix of the file or of `--apps`, if either is given.
fn given_mix(arguments: &CompareArgs) -> Outcome<Option<(Mix, Option<MixSource>)>> {
    if let Some(path) = &arguments.mix {
        let (mix, source) = Mix::load_with_source(path)?;
        return Ok(Some((mix, Some(source))));
    }
    if arguments.apps.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = arguments.apps.iter().map(|app| app.trim()).collect();
    let mix = Mix::of_apps(&names);
    let mix = mix.map_err(|fault: Fault| Failure::input(format!("--apps: {fault}")))?;
    Ok(Some((mix, None)))
}

/// Programs of the library that spread evenly over its ranks by misses in a small cache, in the
/// order of their names.
fn spread_mix(library: &Library, cpus: usize) -> Outcome<Mix> {
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
        Failure::input("the library holds no program").hint("--profiles PATH --apps A,B,..")
    })
}

/// Every profile of the mix, loaded once.
fn load(
    mix: &Mix,
    source: Option<&MixSource>,
    library: &Library,
    model: &Model,
) -> Outcome<BTreeMap<String, Arc<LoadedProgram>>> {
    let mut loaded = BTreeMap::new();
    for (place, app) in mix.apps.iter().enumerate() {
        let Some(name) = app.profile.as_deref().filter(|&name| !loaded.contains_key(name)) else {
            continue;
        };
        let profile = library
            .get(name)
            .map_err(|unknown| at(source, app_field(place, "profile"), Failure::from(unknown)))?;
        loaded.insert(name.to_owned(), Arc::new(model.load(profile)?));
    }
    Ok(loaded)
}

fn app_field(place: usize, field: &'static str) -> Vec<Step> {
    vec![Step::Key("app"), Step::Index(place), Step::Key(field)]
}

/// Bad input in a mix, with file and line where the mix is a file.
fn at(source: Option<&MixSource>, path: Vec<Step>, failure: Failure) -> Failure {
    match source {
        Some(source) => failure.at(|why| source.error(&Fault { path, why })),
        None => failure,
    }
}

/// What the simulator finds wrong with a program of the mix.
fn app_failure(mix: &Mix, source: Option<&MixSource>, error: SimError) -> Failure {
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

/// The policies that were asked for, each once; by default all that place. `dio+lfoc` is two at a
/// time.
fn policies(asked: &[String]) -> Outcome<Vec<String>> {
    if asked.is_empty() {
        let placing = registry().iter().filter(|entry| entry.kind() == PolicyKind::Placement);
        return Ok(placing.map(|entry| entry.name.to_owned()).collect());
    }
    let mut policies: Vec<String> = Vec::new();
    for name in asked.iter().map(|name| name.trim()) {
        policy_names::together(name)?;
        if !policies.iter().any(|one| one == name) {
            policies.push(name.to_owned());
        }
    }
    Ok(policies)
}

/// Those that are for the machine. One that was asked for and is not is refused with its reason.
fn fit_for(machine: &Machine, policies: Vec<String>, asked: bool) -> Outcome<Vec<String>> {
    let mut fit = Vec::new();
    for name in policies {
        let built = policy_names::build(&name, 0)?;
        let unfit = built.iter().find_map(|one| Some((one.name(), one.unfit_for(machine)?)));
        match unfit {
            Some((policy, why)) if asked => {
                let (policy, machine) = (policy.to_owned(), machine.name().to_owned());
                return Err(SimError::Unfit { policy, machine, why }.into());
            }
            Some(_) => {}
            None => fit.push(name),
        }
    }
    Ok(fit)
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

    #[test]
    fn policies_keep_their_order_and_stand_once() {
        let asked = ["random", "linux-default", " random"].map(str::to_owned);
        assert_eq!(policies(&asked).unwrap(), ["random", "linux-default"]);
        assert!(policies(&["dioo".to_owned()]).unwrap_err().report().contains("unknown policy"));
        let all = policies(&[]).unwrap();
        assert!(
            ["linux-default", "random", "di", "dio"]
                .iter()
                .all(|name| all.contains(&(*name).to_owned()))
        );
    }

    #[test]
    fn a_policy_that_is_not_for_the_machine_is_left_out_unless_asked_for() {
        let machine = |name| corun_machine::preset(name).unwrap();
        let all = || policies(&[]).unwrap();
        let n_mass = "n-mass".to_owned();
        assert!(fit_for(&machine("xeon-e5520"), all(), false).unwrap().contains(&n_mass));
        assert!(!fit_for(&machine("xeon-x5365"), all(), false).unwrap().contains(&n_mass));
        let refused = fit_for(&machine("xeon-x5365"), vec![n_mass], true).unwrap_err().report();
        assert!(
            refused.contains("`n-mass` is not for machine `xeon-x5365`: it decides"),
            "{refused}"
        );
    }
}
