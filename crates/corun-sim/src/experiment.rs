//! What is to be simulated.

use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_model::{LoadedProgram, Model};
use corun_policy::Nanoseconds;
use corun_profile::{Barrier, Io, Method, Mix, Service};

use crate::{Observation, SimError};

/// An experiment: programs on a machine, by a method, with a seed.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The machine and its model.
    pub model: Arc<Model>,
    /// The programs.
    pub apps: Vec<AppSpec>,
    /// When the experiment ends and what counts.
    pub method: Method,
    /// What placement ties, slice phases and lengths and waits are drawn from.
    pub seed: u64,
    /// The simulator's settings.
    pub settings: SimulationSettings,
    /// How poor the policies' view of the machine is; none: they see all of it at once.
    pub observation: Option<Observation>,
}

/// A program to run.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The program, loaded by the experiment's model.
    pub program: Arc<LoadedProgram>,
    /// The name shown.
    pub name: String,
    /// Its threads; each executes an equal part of every phase, see `docs/simulator.md`.
    pub threads: u32,
    /// When it arrives.
    pub start: Nanoseconds,
    /// When it is killed.
    pub kill: Option<Nanoseconds>,
    /// Its weight in the scheduler; 1 is that of nice 0.
    pub weight: f64,
    /// Is it to be protected?
    pub important: bool,
    /// Index of the NUMA node of its memory; none: the node where it first runs.
    pub home: Option<usize>,
    /// Is it started again when it ends? None: as the method says.
    pub restart: Option<bool>,
    /// Its length in instructions, all threads together; its phases are stretched alike. None:
    /// the profile's.
    pub instructions: Option<u64>,
    /// Alternates between running and waiting.
    pub io: Option<Io>,
    /// Its threads wait for each other every so many instructions; none: they never do.
    pub barrier: Option<Barrier>,
    /// Its threads answer requests, over and over through its phases, until the experiment ends.
    pub service: Option<Service>,
    /// CPUs it may run on; none: all.
    pub may_run_on: Option<CpuSet>,
    /// Its memory in bytes, for the cost of moving it; none: [`SimulationSettings::footprint_bytes`].
    pub footprint_bytes: Option<u64>,
}

impl AppSpec {
    /// One thread of a program from the start, of weight 1, by the method's rules.
    pub fn new(program: Arc<LoadedProgram>) -> Self {
        Self {
            name: program.name.clone(),
            program,
            threads: 1,
            start: Nanoseconds(0),
            kill: None,
            weight: 1.0,
            important: false,
            home: None,
            restart: None,
            instructions: None,
            io: None,
            barrier: None,
            service: None,
            may_run_on: None,
            footprint_bytes: None,
        }
    }

    /// Length of a run in instructions, all threads together.
    pub fn run_instructions(&self) -> f64 {
        self.instructions.map_or_else(|| self.program.instructions(), |count| count as f64)
    }

    pub(crate) fn restarts(&self, method: Method) -> bool {
        self.restart.unwrap_or(method != Method::FirstRun)
    }

    fn check(&self, machine: &Machine) -> Result<(), SimError> {
        let wrong = |field, found: String, expected| {
            Err(SimError::App { app: self.name.clone(), field, found, expected })
        };
        if self.threads == 0 {
            return wrong("threads", "0".to_owned(), "at least 1");
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return wrong("weight", self.weight.to_string(), "a number above 0");
        }
        let instructions = self.run_instructions();
        // Counts are kept exact in f64.
        if !(1.0..=9e15).contains(&instructions) {
            return wrong("instructions", instructions.to_string(), "1 to 9e15");
        }
        if let Some(kill_s) =
            self.kill.filter(|&kill| kill <= self.start).map(Nanoseconds::as_secs_f64)
        {
            return wrong("kill_s", format!("{kill_s}"), "a number above start_s");
        }
        if let Some(node) = self.home.filter(|&node| node >= machine.nodes().len()) {
            return wrong("home", node.to_string(), "an index of a NUMA node");
        }
        for (name, ms) in
            self.io.iter().flat_map(|io| [("cpu_ms", io.cpu_ms), ("wait_ms", io.wait_ms)])
        {
            if !(1e-3..=1e9).contains(&ms) {
                return wrong("io", format!("{name} = {ms:?}"), "0.001 ms to 1e9 ms");
            }
        }
        if let Some(barrier) = self.barrier {
            if barrier.every_instructions < Barrier::LEAST_INSTRUCTIONS {
                let found = barrier.every_instructions.to_string();
                return wrong("barrier", found, "at least 1000 instructions");
            }
            if self.io.is_some() {
                return wrong("barrier", "io beside it".to_owned(), "one of the two");
            }
        }
        if let Some(service) = self.service {
            if service.check().is_err() {
                return wrong(
                    "service",
                    format!("{service:?}"),
                    "figures that a mix file may have",
                );
            }
            if self.io.is_some() || self.barrier.is_some() {
                return wrong("service", "io or barrier beside it".to_owned(), "one of them");
            }
        }
        if let Some(cpus) = &self.may_run_on
            && (cpus.is_empty() || !cpus.is_subset(&machine.cpu_set()))
        {
            return wrong("may_run_on", cpus.to_string(), "CPUs of the machine, at least one");
        }
        Ok(())
    }
}

/// The simulator's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulationSettings {
    /// Length of a timeslice when others wait, before its jitter.
    pub slice: Nanoseconds,
    /// Slices and waits are longer or shorter by up to this share, 0 to 1.
    pub jitter: f64,
    /// Length of an experiment by [`Method::Window`].
    pub window: Nanoseconds,
    /// Longest experiment by the other methods.
    pub limit: Nanoseconds,
    /// Pages of 4 KiB that move between nodes in a second.
    pub pages_per_s: f64,
    /// Memory of a program that does not say.
    pub footprint_bytes: u64,
    /// Remember solutions of the model. Results are the same without, and slower.
    pub memoise: bool,
    /// Placements kept in the result at most.
    pub placements: usize,
    /// Wake-ups kept in the result at most.
    pub wake_ups: usize,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            slice: Nanoseconds(3_000_000),
            jitter: 0.2,
            window: Nanoseconds(60_000_000_000),
            limit: Nanoseconds(1_000_000_000_000_000),
            pages_per_s: 150_000.0,
            footprint_bytes: 256 << 20,
            memoise: true,
            placements: 20_000,
            wake_ups: 0,
        }
    }
}

impl SimulationSettings {
    fn check(&self) -> Result<(), SimError> {
        let wrong =
            |field, found: String, expected| Err(SimError::Setting { field, found, expected });
        if self.slice.0 < 1000 {
            return wrong("slice", format!("{} ns", self.slice.0), "at least 1000 ns");
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return wrong("jitter", self.jitter.to_string(), "0 up to below 1");
        }
        if self.window.0 == 0 || self.limit.0 == 0 {
            return wrong("window or limit", "0 ns".to_owned(), "a length above 0");
        }
        if !(self.pages_per_s.is_finite() && self.pages_per_s > 0.0) {
            return wrong("pages_per_s", self.pages_per_s.to_string(), "a number above 0");
        }
        Ok(())
    }
}

impl Experiment {
    /// An experiment with the default settings.
    pub fn new(model: Arc<Model>, apps: Vec<AppSpec>, method: Method, seed: u64) -> Self {
        Self {
            model,
            apps,
            method,
            seed,
            settings: SimulationSettings::default(),
            observation: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        if self.apps.is_empty() {
            return Err(SimError::NoApps);
        }
        self.settings.check()?;
        self.observation.as_ref().map_or(Ok(()), Observation::check)?;
        check_end(self.method, &self.apps)?;
        self.apps.iter().try_for_each(|app| app.check(self.model.machine()))
    }
}

/// Does anything end the run? A service does not by itself.
///
/// # Errors
/// [`SimError::App`] of the first service that nothing ends, where there are services alone and no time is fixed.
pub fn check_end(method: Method, apps: &[AppSpec]) -> Result<(), SimError> {
    if method == Method::Window || apps.iter().any(|app| app.service.is_none()) {
        return Ok(());
    }
    let Some(app) = apps.iter().find(|app| app.kill.is_none()) else { return Ok(()) };
    Err(SimError::App {
        app: app.name.clone(),
        field: "service",
        found: "no other program beside it".to_owned(),
        expected: "a program that ends, or the method window: a service never ends",
    })
}

/// The programs of a mix, in its order, copies numbered `name#2` and up. `program` finds a loaded
/// program by its profile's name.
///
/// # Errors
/// [`SimError::App`] for a program that the simulator cannot run (a command), is unknown to
/// `program`, or has a figure that is not usable.
pub fn apps_from_mix(
    mix: &Mix,
    machine: &Machine,
    mut program: impl FnMut(&str) -> Option<Arc<LoadedProgram>>,
) -> Result<Vec<AppSpec>, SimError> {
    let mut specs = Vec::new();
    for (place, app) in mix.apps.iter().enumerate() {
        let shown = app.name.clone().or_else(|| app.profile.clone());
        let shown = shown.unwrap_or_else(|| format!("app {}", place + 1));
        let wrong = |field, found: String, expected| SimError::App {
            app: shown.clone(),
            field,
            found,
            expected,
        };
        let profile = app.profile.as_deref().ok_or_else(|| {
            wrong("profile", "absent".to_owned(), "a profile: the simulator runs no commands")
        })?;
        let loaded = program(profile)
            .ok_or_else(|| wrong("profile", profile.to_owned(), "a profile of the library"))?;
        let seconds = |field, value: f64| {
            if (0.0..1e9).contains(&value) {
                Ok(Nanoseconds::from_secs_f64(value))
            } else {
                Err(wrong(field, value.to_string(), "0 to 1e9 seconds"))
            }
        };
        let home = app.home_node.map(|number| {
            let node = machine.nodes().iter().position(|node| node.os_index == number);
            node.ok_or_else(|| wrong("home_node", number.to_string(), "a NUMA node's number"))
        });
        let spec = AppSpec {
            threads: app.threads,
            start: seconds("start_s", app.start_s)?,
            kill: app.kill_s.map(|kill| seconds("kill_s", kill)).transpose()?,
            weight: app.weight,
            important: app.important,
            home: home.transpose()?,
            restart: app.restart,
            instructions: app.instructions,
            io: app.io,
            barrier: app.barrier,
            service: app.service,
            ..AppSpec::new(loaded)
        };
        for copy in 1..=app.count {
            let name = if copy == 1 { shown.clone() } else { format!("{shown}#{copy}") };
            specs.push(AppSpec { name, ..spec.clone() });
        }
    }
    for spec in &specs {
        spec.check(machine)?;
    }
    Ok(specs)
}
