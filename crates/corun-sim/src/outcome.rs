//! From the engine's books to the result.

use corun_metrics::geometric_mean;
use corun_policy::{Nanoseconds, Totals};
use corun_profile::Method;

use crate::engine::{Engine, one_hot};
use crate::lifecycle::AppRun;
use crate::result::{AppResult, RunResult};
use crate::thread::State;
use crate::{AppSpec, Energy, Experiment, Hooks, SimError};

impl AppSpec {
    /// Its completion time in seconds alone on the experiment's machine. With one thread that
    /// never waits: its instructions at the model's best solo speed. So of a service, all of whose threads then work
    /// without a pause. Else from a simulation of it alone, with the same seed, since its threads share caches and its waits are drawn.
    fn solo_completion_s(&self, experiment: &Experiment, app: usize) -> Result<f64, SimError> {
        if self.service.is_some() {
            return Ok(self.best_thread_s() / f64::from(self.threads));
        }
        if self.threads == 1 && self.io.is_none() {
            return Ok(self.best_thread_s());
        }
        let before: u32 = experiment.apps[..app].iter().map(|app| app.threads).sum();
        let alone = Experiment {
            apps: vec![AppSpec {
                start: Nanoseconds(0),
                kill: None,
                restart: Some(false),
                may_run_on: None,
                home: None,
                ..self.clone()
            }],
            method: Method::FirstRun,
            ..experiment.clone()
        };
        let homes = one_hot(experiment.model.machine().nodes().len());
        let mut engine = Engine::new(&alone, Vec::new(), &homes, Vec::new())?;
        engine.waits_from = before as usize;
        engine.first_completion()
    }

    /// CPU time of a run in seconds at the model's best solo speed, all threads together.
    fn best_thread_s(&self) -> f64 {
        let stretch = self.run_instructions() / self.program.instructions();
        let phases = self.program.phases.iter();
        phases.map(|phase| phase.instructions * stretch / phase.best_instructions_per_s).sum()
    }
}

impl Engine<'_> {
    /// Runs until the first program has ended once; its completion time in seconds.
    fn first_completion(mut self) -> Result<f64, SimError> {
        loop {
            self.advance()?;
            if let Some(&seconds) = self.apps[0].completions.first() {
                return Ok(seconds);
            }
        }
    }

    /// The experiment's result so far.
    pub(crate) fn into_result(mut self) -> Result<RunResult, SimError> {
        for thread in self.threads.iter_mut().filter(|thread| thread.state == State::Running) {
            thread.account(self.now);
        }
        let apps = (0..self.apps.len()).map(|app| self.app_result(app));
        Ok(RunResult {
            apps: apps.collect::<Result<_, _>>()?,
            simulated_s: self.now as f64 * 1e-9,
            energy: self.energy(),
            events: self.events(),
            rate_evaluations: self.rates.evaluations,
            threads: self.records,
            placements: self.placements,
            placements_dropped: self.placements_dropped,
            wake_ups: self.wake_ups,
            wake_ups_dropped: self.wake_ups_dropped,
            log: self.log,
        })
    }

    fn energy(&self) -> Option<Energy> {
        let present = self.threads.iter().filter(|thread| thread.is_present());
        let bytes: f64 = present.map(|thread| thread.totals.memory_bytes).sum();
        let past: f64 = self.apps.iter().map(|app| app.past.memory_bytes).sum();
        Some(self.meter.as_ref()?.energy(self.now, bytes + past))
    }

    fn app_result(&self, app: usize) -> Result<AppResult, SimError> {
        let spec = &self.experiment.apps[app];
        let run = &self.apps[app];
        let solo_completion_s = spec.solo_completion_s(self.experiment, app)?;
        let mut totals = run.past;
        let mut spun_instructions = run.past_spun_instructions;
        let mut extrapolated = run.extrapolated;
        for thread in &self.threads[run.slots.clone()] {
            if thread.is_present() {
                totals.add(&thread.totals);
                spun_instructions += thread.spun_instructions;
                extrapolated |= thread.extrapolated;
            }
        }
        let there_s = run.left.unwrap_or(self.now).saturating_sub(spec.start.0) as f64 * 1e-9;
        let turns = run.service.as_ref().map_or(0.0, |service| service.turns as f64);
        let complete_runs = run.completions.len() as f64 + turns / f64::from(spec.threads);
        let progress_runs = complete_runs + run.unfinished + self.present_run(run);
        let mean_completion_s = geometric_mean(&run.completions);
        let cpu_s = totals.cpu_ns as f64 * 1e-9;
        let slowdown = match self.experiment.method {
            // Of a service that waits for requests, the time on CPUs counts.
            _ if spec.service.is_some() => {
                let best_s = progress_runs * spec.best_thread_s();
                (best_s > 0.0).then(|| cpu_s / best_s)
            }
            Method::Window if progress_runs > 0.0 => {
                Some(there_s / (progress_runs * solo_completion_s))
            }
            Method::Window => None,
            Method::Restart3 | Method::FirstRun => {
                mean_completion_s.map(|mean| mean / solo_completion_s)
            }
        };
        let Totals { spin_ns, llc_references, llc_misses, .. } = totals;
        let instructions = totals.instructions - spun_instructions;
        Ok(AppResult {
            name: spec.name.clone(),
            completion_s: run.completions.clone(),
            mean_completion_s,
            solo_completion_s,
            slowdown,
            progress_runs,
            migrations: run.migrations,
            llc_migrations: run.llc_migrations,
            cpu_share: if there_s > 0.0 { cpu_s / there_s / f64::from(spec.threads) } else { 0.0 },
            cpu_s,
            spin_s: spin_ns as f64 * 1e-9,
            instructions,
            llc_apki: (instructions > 0.0).then(|| 1000.0 * llc_references / instructions),
            llc_mpki: (instructions > 0.0).then(|| 1000.0 * llc_misses / instructions),
            extrapolated,
            service: self.service_result(app, there_s),
        })
    }

    /// The part of the present run that is done, in time at its solo speed.
    pub(crate) fn present_run(&self, run: &AppRun) -> f64 {
        let (mut done_s, mut all_s) = (0.0, 0.0);
        for thread in &self.threads[run.slots.clone()] {
            let program = self.tables.program(thread.program);
            for (place, (stretch, length)) in program.sequence.iter().zip(&run.lengths).enumerate()
            {
                let phase = &program.phases[stretch.phase];
                let done = match place.cmp(&thread.stretch) {
                    // A thread that has ended while others of its run go on did them all.
                    _ if !thread.is_present() => *length,
                    std::cmp::Ordering::Less => *length,
                    std::cmp::Ordering::Equal => thread.done.value(),
                    std::cmp::Ordering::Greater => 0.0,
                };
                done_s += done / phase.best_instructions_per_s;
                all_s += length / phase.best_instructions_per_s;
            }
        }
        if run.live > 0 { done_s / all_s } else { 0.0 }
    }
}

/// Runs an experiment with each thread held on a CPU from its start: `cpus` gives a CPU index for
/// each thread, program by program.
///
/// # Errors
/// As [`crate::run`]; [`SimError::Setting`] when `cpus` does not fit the threads and the machine.
pub fn run_pinned(
    experiment: &Experiment,
    cpus: &[usize],
    hooks: Hooks<'_>,
) -> Result<RunResult, SimError> {
    experiment.check()?;
    let machine = experiment.model.machine();
    let threads: u32 = experiment.apps.iter().map(|app| app.threads).sum();
    let wrong = |found: String, expected| Err(SimError::Setting { field: "cpus", found, expected });
    if cpus.len() != threads as usize {
        return wrong(format!("{} CPUs", cpus.len()), "one for each thread");
    }
    if let Some(cpu) = cpus.iter().find(|&&cpu| cpu >= machine.cpus().len()) {
        return wrong(cpu.to_string(), "indices of CPUs of the machine");
    }
    let homes = one_hot(machine.nodes().len());
    let mut engine = Engine::new(experiment, Vec::new(), &homes, cpus.to_vec())?;
    for (thread, &cpu) in engine.threads.iter_mut().zip(cpus) {
        thread.user.clear();
        thread.user.insert(cpu);
        thread.allowed = thread.user.clone();
    }
    engine.run(hooks)
}
