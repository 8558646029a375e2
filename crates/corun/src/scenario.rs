//! The programs, the machine and the model that a command is about.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::{Machine, NamedCore};
use corun_model::{LoadedProgram, Member, Model, ModelOptions, Running, Scratch};
use corun_profile::{Library, Profile, ProfileData};

use crate::cli::{Compat, ModelArgs};
use crate::failure::{Failure, Outcome};

/// The machine of a command that needs one and was told of none.
pub(crate) const DEFAULT_MACHINE: &str = "xeon-x5365";

/// A preset, a machine file, or `this` machine. Of the last, Linux does not tell bandwidths and
/// latencies: they are assumed, and the machine's warnings say so.
pub(crate) fn machine(name: &str) -> Outcome<Machine> {
    if name != "this" {
        return Ok(corun_machine::resolve(name)?);
    }
    let found = corun_machine::discover(Path::new("/")).map_err(|error| anyhow!(error))?;
    Ok(found.with_assumed_memory().map_err(|error| anyhow!(error))?)
}

/// A core by name: a generic one, `MACHINE` or `MACHINE:CORE_TYPE`, where the machine is a preset,
/// a machine file or `this`.
pub(crate) fn core(name: &str) -> Outcome<NamedCore> {
    let own = match name.split_once(':') {
        Some(("this", core_type)) => Some(Some(core_type)),
        None if name == "this" => Some(None),
        _ => None,
    };
    match own {
        Some(core_type) => Ok(NamedCore::of(machine("this")?, core_type)?),
        None => Ok(corun_machine::core(name)?),
    }
}

/// The library at a path, or the shipped one.
pub(crate) fn library(path: Option<&Path>) -> Outcome<Library> {
    let library = match path {
        Some(path) => Library::load(path)?,
        None => Library::shipped()?,
    };
    Ok(library)
}

/// The model's options as typed. Names and ranges were checked with the command line.
pub(crate) fn model_options(arguments: &ModelArgs) -> ModelOptions {
    let own = ModelOptions::default();
    match arguments.compat {
        Some(Compat::Pbbcache) => ModelOptions::pbbcache(arguments.peak_bandwidth),
        None => ModelOptions {
            space: arguments.space.unwrap_or(own.space),
            bandwidth: arguments.bandwidth_model.unwrap_or(own.bandwidth),
            peak_mb_per_s: arguments.peak_bandwidth,
            solo_peak_share: arguments.solo_peak_share,
            ..own
        },
    }
}

/// Programs, loaded on a machine's model.
pub(crate) struct Scenario {
    /// The model; it holds the machine.
    pub(crate) model: Arc<Model>,
    /// The names shown, one a program, all different: copies are `name#2` and up.
    pub(crate) names: Vec<String>,
    /// Each program's profile.
    pub(crate) profiles: Vec<Profile>,
    /// Each program as the model holds it; copies share one.
    pub(crate) programs: Vec<Arc<LoadedProgram>>,
}

impl Scenario {
    /// Looks the programs up and loads them.
    ///
    /// # Errors
    /// An unknown program, or a machine or profile with a figure that cannot be.
    pub(crate) fn new(
        machine: Machine,
        library: &Library,
        apps: &[String],
        options: ModelOptions,
    ) -> Outcome<Self> {
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let mut scenario =
            Self { model, names: Vec::new(), profiles: Vec::new(), programs: Vec::new() };
        for app in apps {
            scenario.add(library.get(app.trim())?)?;
        }
        Ok(scenario)
    }

    fn add(&mut self, profile: &Profile) -> Outcome {
        let same = |one: &Profile| one.name == profile.name;
        let copies = self.profiles.iter().filter(|one| same(one)).count();
        let program = match self.profiles.iter().position(same) {
            Some(first) => self.programs[first].clone(),
            None => Arc::new(self.model.load(profile)?),
        };
        self.names.push(match copies {
            0 => profile.name.clone(),
            copies => format!("{}#{}", profile.name, copies + 1),
        });
        self.profiles.push(profile.clone());
        self.programs.push(program);
        Ok(())
    }

    /// The machine.
    pub(crate) fn machine(&self) -> &Machine {
        self.model.machine()
    }

    /// The figures of all programs together, each as a whole on a CPU (index), with memory on its
    /// own node.
    pub(crate) fn solve(&self, cpus: &[usize]) -> Vec<corun_model::Outcome> {
        let running: Vec<Running<'_>> = self
            .programs
            .iter()
            .zip(cpus)
            .map(|(program, &cpu)| Running {
                member: Member { program, phase: LoadedProgram::WHOLE, cpu },
                home: &[],
                group: None,
            })
            .collect();
        let mut outcomes = Vec::new();
        self.model.solve(&running, &mut Scratch::default(), &mut outcomes);
        outcomes
    }

    /// # Errors
    /// Bad input when there are more programs than CPUs, where each needs one of its own.
    pub(crate) fn one_cpu_each(&self) -> Outcome {
        let (programs, cpus) = (self.names.len(), self.machine().cpus().len());
        if programs <= cpus {
            return Ok(());
        }
        Err(Failure::input(format!(
            "{programs} programs on {} with {cpus} CPUs: a placement gives each program a CPU of \
             its own",
            self.machine().name()
        ))
        .hint("fewer --apps, a larger --machine, or corun compare, which shares CPUs in time"))
    }
}

/// The profiles that stand behind figures, one phrase a kind; copies count once.
pub(crate) fn data_of(profiles: &[Profile]) -> String {
    let mut recordings = 0;
    let mut tables: Vec<(&str, usize)> = Vec::new();
    for (place, profile) in profiles.iter().enumerate() {
        if profiles[..place].iter().any(|one| one.name == profile.name) {
            continue;
        }
        match &profile.data {
            ProfileData::Recording(_) => recordings += 1,
            ProfileData::Table(table) => {
                let machine = table.measured_on().machine.as_str();
                match tables.iter_mut().find(|(known, _)| *known == machine) {
                    Some((_, count)) => *count += 1,
                    None => tables.push((machine, 1)),
                }
            }
        }
    }
    let mut phrases = Vec::new();
    if recordings > 0 {
        phrases.push(format!("{recordings} recorded from real programs by the tracer"));
    }
    phrases.extend(
        tables.iter().map(|(machine, count)| format!("{count} solo tables measured on {machine}")),
    );
    phrases.join("; ")
}
