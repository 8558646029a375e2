//! What a policy was shown and wanted, and a live host that is shown the same machine.

use std::sync::{Arc, Mutex};

use corun_linux::{Roots, Task, TaskFacts};
use corun_live::{
    Actuator, DryRunActuator, Host, HostOptions, Journal, LiveError, PlacementActuator,
    ProcessSelector, Rule, ScannedThread, Scanner, Source, SourceError, Target, Threads,
};
use corun_machine::{CpuSet, Machine};
use corun_policy::{
    Action, BuildOptions, CounterKind, Counts, Event, Nanoseconds, Plan, Policy, PolicyWrapper,
    Predictor, ThreadView, View, WrappedPolicy, build,
};

/// A question to a policy: what it was shown, and what it wanted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) now: Nanoseconds,
    /// None: it decides.
    pub(crate) event: Option<Event>,
    pub(crate) threads: Vec<ThreadView>,
    pub(crate) steps: Vec<(Action, String)>,
    /// What it said of its next interval.
    pub(crate) next: Option<Nanoseconds>,
}

/// Writes down a policy's questions and answers.
struct Tap {
    log: Arc<Mutex<Vec<Asked>>>,
}

/// A policy whose questions and answers are written down.
pub(crate) fn tapped(policy: &str, log: &Arc<Mutex<Vec<Asked>>>) -> Box<dyn Policy> {
    let policy = build(policy, &BuildOptions::default()).unwrap();
    Box::new(WrappedPolicy::new(policy, Tap { log: log.clone() }))
}

impl Tap {
    fn note(
        &self,
        policy: &dyn Policy,
        event: Option<&Event>,
        view: &View<'_>,
        plan: Option<&Plan>,
    ) {
        let steps = plan.into_iter().flat_map(|plan| &plan.steps);
        self.log.lock().unwrap().push(Asked {
            now: view.now,
            event: event.cloned(),
            threads: view.threads.to_vec(),
            steps: steps.map(|step| (step.action.clone(), step.reason.clone())).collect(),
            next: policy.next_interval(),
        });
    }
}

impl PolicyWrapper for Tap {
    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        let plan = policy.on_event(event, view);
        self.note(policy, Some(event), view, plan.as_ref());
        plan
    }

    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        let plan = policy.decide(view);
        self.note(policy, None, view, Some(&plan));
        plan
    }
}

/// The threads at the tick that is replayed.
type Present = Arc<Mutex<Vec<ThreadView>>>;

/// The task that stands for a simulated thread.
pub(crate) type StandIn = Arc<dyn Fn(&ThreadView) -> Task + Send + Sync>;

struct ReplayedThreads {
    present: Present,
    stand_in: StandIn,
    targets: Vec<Target>,
    online: CpuSet,
}

/// A task that is none of this machine's.
fn made_up(view: &ThreadView) -> Task {
    let number = |id: u64| u32::try_from(id + 1).unwrap();
    Task { pid: number(view.process.0), tid: number(view.id.0), start_ticks: view.id.0 + 1 }
}

impl Scanner for ReplayedThreads {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let found = self.present.lock().unwrap();
        let mut found: Vec<ScannedThread> = found
            .iter()
            .map(|view| ScannedThread {
                facts: TaskFacts {
                    task: (self.stand_in)(view),
                    parent: 1,
                    name: view.program.clone(),
                    wants_cpu: view.state != corun_policy::ThreadState::Sleeping,
                    cpu: view.cpu.unwrap(),
                    cpu_ns: view.counts.cpu_time.unwrap().total as u64,
                    nice: (-view.weight.ln() / 1.25_f64.ln()).round() as i32,
                    is_real_time: false,
                    // Nothing is changed in a dry run.
                    affinity: view.may_run_on.clone(),
                },
                state: view.state,
                target: target_of(&self.targets, view),
            })
            .collect();
        found.sort_by_key(|one| one.facts.task);
        Ok(found)
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        Some(self.online.clone())
    }
}

fn target_of(targets: &[Target], view: &ThreadView) -> usize {
    let is_its = |one: &Target| *one.name == *view.program && one.important == view.important;
    targets.iter().position(is_its).unwrap()
}

/// The counters and profiles of the simulated threads.
struct ReplayedCounters {
    present: Present,
    stand_in: StandIn,
}

impl Source for ReplayedCounters {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn counters(&self) -> Vec<CounterKind> {
        CounterKind::ALL.to_vec()
    }

    fn knows_profiles(&self) -> bool {
        true
    }

    fn count(&mut self, _now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let present = self.present.lock().unwrap();
        for (view, thread) in threads.iter_mut() {
            let same = present.iter().find(|one| (self.stand_in)(one) == thread.task()).unwrap();
            // How long a thread ran is what the kernel's files say.
            view.counts = Counts { cpu_time: view.counts.cpu_time, ..same.counts };
            view.solo = same.solo;
            view.profile.clone_from(&same.profile);
            view.by_ways.clone_from(&same.by_ways);
            view.llc_occupancy_bytes = same.llc_occupancy_bytes;
            view.pages_by_node.clone_from(&same.pages_by_node);
        }
        Ok(())
    }
}

/// A live host on which a policy's questions are asked again.
pub(crate) struct Stage<'a> {
    pub(crate) machine: &'a Arc<Machine>,
    pub(crate) predictor: &'a Arc<dyn Predictor>,
    pub(crate) stand_in: StandIn,
    pub(crate) actuators: Vec<Box<dyn Actuator>>,
    pub(crate) roots: Roots,
    /// None: it only looks.
    pub(crate) journal: Option<Journal>,
}

impl<'a> Stage<'a> {
    /// A dry run with tasks that are none of this machine's.
    pub(crate) fn dry(machine: &'a Arc<Machine>, predictor: &'a Arc<dyn Predictor>) -> Self {
        let roots = Roots { sys: "/nonexistent".into(), ..Roots::default() };
        Self {
            machine,
            predictor,
            stand_in: Arc::new(made_up),
            actuators: vec![
                Box::new(PlacementActuator::new(&roots)),
                Box::new(DryRunActuator::default()),
            ],
            roots,
            journal: None,
        }
    }

    /// What the policy is shown and wants there at the same moments. `after` is told what was asked at each moment, once
    /// that is done; at the end all that was done is undone.
    pub(crate) fn play(
        self,
        policy: &str,
        asked: &[Asked],
        mut after: impl FnMut(&[Asked]),
    ) -> Result<Vec<Asked>, LiveError> {
        let present = Present::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stand_in, machine) = (self.stand_in, self.machine.clone());
        let targets = targets_of(asked);
        let threads = ReplayedThreads {
            present: present.clone(),
            stand_in: stand_in.clone(),
            targets,
            online: machine.cpu_set(),
        };
        let source = ReplayedCounters { present: present.clone(), stand_in };
        let mut policy = tapped(policy, &log);
        policy.predict_by(self.predictor);
        let mut host = Host::new(
            machine,
            vec![policy],
            Box::new(threads),
            vec![Box::new(source)],
            self.actuators,
            self.roots,
            HostOptions::default(),
        )?;
        if let Some(journal) = self.journal {
            host.act_under(journal);
        }
        for moment in asked.chunk_by(|one, next| one.now == next.now) {
            present.lock().unwrap().clone_from(&moment[0].threads);
            host.tick_at(moment[0].now)?;
            after(moment);
        }
        let undone = host.undo();
        assert!(undone.iter().all(|one| one.outcome.is_ok()), "{undone:?}");
        drop(host);
        Ok(std::mem::take(&mut *log.lock().unwrap()))
    }
}

/// The programs of all threads that were shown.
fn targets_of(asked: &[Asked]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for view in asked.iter().flat_map(|one| &one.threads) {
        if !targets.iter().any(|one| *one.name == *view.program && one.important == view.important)
        {
            let nobody = ProcessSelector::Rule(Rule::default());
            targets
                .push(Target { important: view.important, ..Target::new(&*view.program, nobody) });
        }
    }
    targets
}
