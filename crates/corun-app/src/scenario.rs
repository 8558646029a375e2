//! The programs, the machine and the model that a question is about.

use std::sync::Arc;

use corun_machine::Machine;
use corun_model::{
    CacheGroup, Flow, LoadedProgram, Member, Model, ModelOptions, Outcome, Running, Scratch,
};
use corun_profile::{Library, Profile, ProfileData};

use crate::{Error, Result, counted};

/// Programs, loaded on a machine's model.
pub struct Scenario {
    /// The model; it holds the machine.
    pub model: Arc<Model>,
    /// The names shown, one a program, all different: copies are `name#2` and up.
    pub names: Vec<String>,
    /// Each program's profile.
    pub profiles: Vec<Profile>,
    /// Each program as the model holds it; copies share one.
    pub programs: Vec<Arc<LoadedProgram>>,
}

impl Scenario {
    /// Looks the programs up and loads them.
    ///
    /// # Errors
    /// An unknown program, or a machine or profile with a figure that cannot be.
    pub fn new(
        machine: Machine,
        library: &Library,
        apps: &[String],
        options: ModelOptions,
    ) -> Result<Self> {
        let profile = |app: &String| Ok(library.get(app.trim())?.clone());
        Self::of(machine, apps.iter().map(profile).collect::<Result<_>>()?, options)
    }

    /// The same programs on another machine.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on(&self, machine: Machine) -> Result<Self> {
        Self::of(machine, self.profiles.clone(), self.model.options())
    }

    fn of(machine: Machine, profiles: Vec<Profile>, options: ModelOptions) -> Result<Self> {
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let mut different: Vec<&Profile> = Vec::new();
        let mut names = Vec::with_capacity(profiles.len());
        let mut place_of = Vec::with_capacity(profiles.len());
        for (at, profile) in profiles.iter().enumerate() {
            let same = |one: &&Profile| one.name == profile.name;
            names.push(match profiles[..at].iter().filter(same).count() {
                0 => profile.name.clone(),
                copies => format!("{}#{}", profile.name, copies + 1),
            });
            place_of.push(different.iter().position(same).unwrap_or(different.len()));
            if place_of[at] == different.len() {
                different.push(profile);
            }
        }
        let loaded = model.load_all(&different)?;
        let programs = place_of.into_iter().map(|place| loaded[place].clone()).collect();
        Ok(Self { model, names, profiles, programs })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        self.model.machine()
    }

    /// The figures of all programs policy_names, each as a whole on a CPU (index), with memory on its
    /// own node.
    pub fn solve(&self, cpus: &[usize]) -> Vec<Outcome> {
        self.solve_in(cpus, |_| None)
    }

    /// The same with each program confined to its group's part of the LLC, where it has one.
    pub(crate) fn solve_in(
        &self,
        cpus: &[usize],
        group: impl Fn(usize) -> Option<CacheGroup>,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let running = self.running(cpus, group);
        self.model.solve(&running, &mut Scratch::default(), &mut outcomes);
        outcomes
    }

    /// The figures of all programs when only those count with whom they share a part of an LLC.
    pub(crate) fn share_in(
        &self,
        cpus: &[usize],
        group: impl Fn(usize) -> Option<CacheGroup>,
    ) -> Vec<Flow<'_>> {
        let mut flows = Vec::new();
        let running = self.running(cpus, group);
        self.model.share_all(&running, &mut Scratch::default(), &mut flows);
        flows
    }

    fn running(
        &self,
        cpus: &[usize],
        group: impl Fn(usize) -> Option<CacheGroup>,
    ) -> Vec<Running<'_>> {
        let places = self.programs.iter().zip(cpus).enumerate();
        places
            .map(|(place, (program, &cpu))| Running {
                member: Member { program, phase: LoadedProgram::WHOLE, cpu },
                home: &[],
                group: group(place),
            })
            .collect()
    }

    /// # Errors
    /// Bad input when there are more programs than CPUs, where each needs one of its own.
    pub fn one_cpu_each(&self) -> Result {
        let (programs, cpus) = (self.names.len(), self.machine().cpus().len());
        if programs <= cpus {
            return Ok(());
        }
        Err(Error::input(format!(
            "{} on {} with {}: a placement gives each program a CPU of its own",
            counted(programs, "program"),
            self.machine().name(),
            counted(cpus, "CPU")
        ))
        .hint("fewer --apps, a larger --machine, or corun compare, which shares CPUs in time"))
    }
}

/// A program as a table of solo figures by the ways of the model's machine, and whether it was
/// derived by the model: what was measured on that machine stays as it stands.
///
/// # Errors
/// A machine on which there can be no such table.
pub fn solo_table(model: &Model, profile: &Profile) -> Result<(Profile, bool)> {
    if let ProfileData::Table(table) = &profile.data
        && table.measured_on().machine == model.machine().name()
    {
        return Ok((profile.clone(), false));
    }
    let data = ProfileData::Table(model.solo_table(profile)?);
    Ok((Profile { name: profile.name.clone(), data }, true))
}
