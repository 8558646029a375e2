//! `dry_run`: a policy over real threads that run, without acting on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_app::{Error, PolicySpec};
use corun_linux::{Roots, facts};
use corun_live::{
    Decision, DryRunActuator, Host, HostOptions, LiveError, MemoryByNode, ModelledSource, Nice,
    Pages, PlacementActuator, ProcessSelector, Processes, Source, StoredProfiles, Target, Verdict,
};
use corun_model::Model;
use corun_policy::Nanoseconds;
use corun_profile::TABLE_INSTRUCTIONS;
use corun_runtime::RuntimeError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{PolicyError, json, raised};
use crate::input;
use crate::long::long;
use crate::policy::{self, Slot, with_cause};
use crate::profile::Library;

/// Between two looks whether it is time.
const TICK: Duration = Duration::from_millis(20);

/// What a policy would have done.
#[derive(Serialize)]
struct Entry {
    at_s: f64,
    policy: String,
    kind: &'static str,
    action: String,
    reason: String,
    /// `proposed`, or `refused` with why.
    verdict: &'static str,
    why_not: Option<String>,
}

struct Asked<'a> {
    policy: PolicySpec,
    /// Process, its name, and its profile.
    targets: Vec<(u32, String, String)>,
    library: &'a corun_profile::Library,
    duration: Duration,
    interval: Option<Nanoseconds>,
    seed: u64,
}

/// What a policy would do with these processes (number, name, profile) for so many seconds; what
/// it is shown is counted by the model, from where the threads really are. Ends early when all
/// have ended. The decisions as JSON.
#[pyfunction]
pub(crate) fn dry_run(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    targets: Vec<(u32, String, String)>,
    library: &Library,
    duration_s: f64,
    interval_s: Option<f64>,
    seed: u64,
) -> PyResult<String> {
    let slot = Slot::default();
    let interval = interval_s.map(|value| input::seconds("interval_s", value)).transpose()?;
    let asked = Asked {
        policy: policy::one(policy, &slot)?,
        targets,
        library: &library.own,
        duration: Duration::from_secs_f64(input::seconds("duration_s", duration_s)?),
        interval: interval.map(Nanoseconds::from_secs_f64),
        seed,
    };
    let done = long(py, |stop| asked.watch(stop))?;
    json(&done.map_err(|failed| {
        let error = match failed {
            Failed::Live(fault @ LiveError::Runtime(RuntimeError::Policy { .. })) => {
                PolicyError::new_err(fault.to_string())
            }
            Failed::Live(other) => raised(Error::input(other)),
            Failed::Other(other) => raised(other),
        };
        with_cause(py, error, &slot)
    })?)
}

enum Failed {
    Live(LiveError),
    Other(Error),
}

impl From<LiveError> for Failed {
    fn from(error: LiveError) -> Self {
        Self::Live(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Asked<'_> {
    fn watch(&self, stop: &AtomicBool) -> Result<Vec<Entry>, Failed> {
        let mut host = self.host()?;
        let mut entries = Vec::new();
        let end = Nanoseconds(self.duration.as_nanos() as u64);
        let mut came = false;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted.into());
            }
            let now = host.now();
            if now >= host.next_tick() || !came {
                let tick = host.tick()?;
                came = true;
                entries.extend(tick.decisions.iter().filter_map(|one| entry(&host, one)));
                if host.views().is_empty() {
                    return Ok(entries);
                }
            }
            if now >= end {
                return Ok(entries);
            }
            std::thread::sleep(TICK);
        }
    }

    /// A host without a journal: it only looks.
    fn host(&self) -> Result<Host, Failed> {
        let roots = Roots::default();
        let machine = Arc::new(corun_app::find_machine("this")?);
        let model = Arc::new(Model::new(machine.clone(), Default::default()).map_err(Error::from)?);
        let mut programs = BTreeMap::new();
        for (_, _, name) in &self.targets {
            let profile = self.library.get(name).map_err(Error::from)?;
            let program = model.load(profile).map_err(Error::from)?;
            programs.insert(name.clone(), Arc::new(program));
        }
        let modelled = ModelledSource::new(model.clone(), programs, TABLE_INSTRUCTIONS as f64);
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(modelled),
            Box::new(StoredProfiles::new(&roots, model, self.library.clone())),
        ];
        if let Some(memory) = MemoryByNode::new(&roots, machine.clone()) {
            sources.push(Box::new(memory));
        }
        let targets = self.targets.iter().filter_map(|(pid, name, profile)| {
            // One that has ended by now is nobody's.
            let processes = ProcessSelector::Descendants(facts(&roots, *pid, *pid).ok()?.task);
            let (name, profile) = (Arc::from(name.as_str()), Some(profile.clone()));
            Some(Target { profile, ..Target::new(name, processes) })
        });
        let processes = Processes::new(&roots, targets.collect())?;
        Ok(Host::new(
            machine,
            self.policy.build(self.seed)?,
            Box::new(processes),
            sources,
            vec![
                Box::new(PlacementActuator::new(&roots)),
                Box::new(Nice::new(&roots)),
                Box::new(Pages::new(&roots)),
                Box::new(DryRunActuator::default()),
            ],
            roots,
            HostOptions { interval: self.interval, ..HostOptions::default() },
        )?)
    }
}

/// None where all was as asked already.
fn entry(host: &Host, decision: &Decision) -> Option<Entry> {
    let (verdict, why_not) = match &decision.verdict {
        Verdict::AsAsked => return None,
        Verdict::Done(_) | Verdict::Proposed(_) => ("proposed", None),
        Verdict::Refused(refusal) => ("refused", Some(refusal.0.clone())),
        Verdict::Failed(why) => ("refused", Some(why.clone())),
    };
    let name = |id| {
        let thread = host.views().iter().find(|thread| thread.id == id);
        thread.map_or_else(|| format!("thread {}", id.0), |thread| thread.program.clone())
    };
    Some(Entry {
        at_s: decision.at.as_secs_f64(),
        policy: decision.policy.clone(),
        kind: decision.action.kind().name(),
        action: decision.action.in_words(&name),
        reason: decision.reason.clone(),
        verdict,
        why_not,
    })
}
