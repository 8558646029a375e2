//! Steps of plans that are not carried out.

use std::sync::{Arc, Mutex};

use corun_policy::{
    Action, ActionKind, BuildOptions, Event, Interval, Nanoseconds, Plan, Policy, PolicyWrapper,
    View, WrappedPolicy, registry,
};
use corun_profile::Method;

use super::fixture::*;
use corun_sim::{AppSpec, Experiment, Observation, SimulationSettings};

/// What a policy under test asked for, and what it was told is not in force.
struct Tap {
    asked: Arc<Mutex<Vec<Action>>>,
    refused: Arc<Mutex<Vec<Action>>>,
}

impl Tap {
    fn note(&self, plan: &Plan) {
        self.asked.lock().unwrap().extend(plan.steps.iter().map(|step| step.action.clone()));
    }
}

impl PolicyWrapper for Tap {
    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        let plan = policy.on_event(event, view)?;
        self.note(&plan);
        Some(plan)
    }

    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        let plan = policy.decide(view);
        self.note(&plan);
        plan
    }

    fn not_in_force(&mut self, policy: &mut dyn Policy, action: &Action) {
        self.refused.lock().unwrap().push(action.clone());
        policy.not_in_force(action);
    }
}

/// What came of a policy where this share of its steps is not carried out.
struct Outcome {
    asked: Vec<Action>,
    refused: Vec<Action>,
    /// The last partition and the last caps that were made.
    parts: Option<Action>,
    caps: Vec<Action>,
}

const WINDOW: Nanoseconds = Nanoseconds(12 * SECOND);
/// The machine runs at 2 GHz.
const CYCLES_PER_NS: u64 = 2;

fn outcome(policy: &str, share: f64) -> Outcome {
    let model = model(machine(1, 1, 4, 1));
    let long = 1000 * SECOND;
    let programs = [
        sensitive(&model, long),
        hungry(&model, long),
        streaming(&model, long),
        calm(&model, long),
    ];
    let apps = programs.into_iter().map(AppSpec::new).collect();
    let settings = SimulationSettings { window: WINDOW, ..SimulationSettings::default() };
    let observation =
        Observation { latest: Nanoseconds(0), refused: share, ..Observation::as_live() };
    let experiment = Experiment {
        settings,
        observation: Some(observation),
        seed: 2,
        ..experiment(&model, apps, Method::Window)
    };
    let (asked, refused) = (Arc::default(), Arc::default());
    let tap = Tap { asked: Arc::clone(&asked), refused: Arc::clone(&refused) };
    let policy = corun_policy::build(policy, &BuildOptions::default()).unwrap();
    let log = run_under(&experiment, WrappedPolicy::new(policy, tap)).unwrap().log;
    let is_cap = |action: &&Action| action.kind() == ActionKind::CapBandwidth;
    let mut actions = log.iter().map(|entry| &entry.action);
    let caps = actions.clone().filter(is_cap).cloned().collect();
    let parts = actions.rfind(|action| action.kind() == ActionKind::Partition).cloned();
    let take = |of: Arc<Mutex<Vec<Action>>>| std::mem::take(&mut *of.lock().unwrap());
    Outcome { asked: take(asked), refused: take(refused), parts, caps }
}

/// Policies that decide by stored profiles want one partition. They get it, however often it is refused first.
#[test]
fn a_refused_partition_is_asked_for_until_it_is_in_force() {
    let of_profiles = |policy: &dyn Policy| {
        let needs = policy.needs();
        needs.by_ways && needs.controls.contains(&ActionKind::Partition)
    };
    let mut count = 0;
    for entry in registry() {
        let policy = corun_policy::build(entry.name, &BuildOptions::default()).unwrap();
        if !of_profiles(policy.as_ref()) {
            continue;
        }
        let name = entry.name;
        let (never, often) = (outcome(name, 0.0), outcome(name, 0.9));
        assert_eq!(never.refused, [], "{name}");
        assert!(!often.refused.is_empty() || never.asked.is_empty(), "{name}");
        assert_eq!(often.parts, never.parts, "{name}");
        assert_eq!(often.caps.last(), never.caps.last(), "{name}");
        count += usize::from(never.parts.is_some());
    }
    assert!(count >= 8, "only {count} policies parted the LLC");
}

/// What is never carried out is asked for at most once an interval, and the policy hears of each step.
#[test]
fn what_is_always_refused_is_asked_for_once_an_interval() {
    for name in ["ucp", "lfoc-caps", "copart", "balancer", "lfoc-online"] {
        let outcome = outcome(name, 1.0);
        assert_eq!(outcome.parts, None, "{name}");
        assert_eq!(outcome.asked, outcome.refused, "{name}");
        let parts = outcome.asked.iter().filter(|one| one.kind() == ActionKind::Partition);
        let count = parts.count();
        let policy = corun_policy::build(name, &BuildOptions::default()).unwrap();
        let most = match policy.needs().interval {
            Interval::Time(length) => WINDOW.0 / length.0,
            Interval::Cycles(cycles) => WINDOW.0 * CYCLES_PER_NS / cycles,
            Interval::Never => 1,
        };
        // Four programs come before the first interval, each of them an event.
        assert!((2..=4 + most as usize).contains(&count), "{name} asked {count} times");
    }
}
