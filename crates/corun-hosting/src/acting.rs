//! A person acts on what is watched: what is done stands in a journal first, and all of it can be undone.
//!
//! The policies only propose: each is asked as ever, and its newest plan is kept for the person to apply. What a
//! person asks for is done whole or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use corun_live::{Decision, Host, SampledThread, Target, Verdict};
use corun_machine::CpuSet;
use corun_policy::{
    Action, ActionKind, Event, Nanoseconds, Plan, Policy, PolicyWrapper, Step, ThreadId, View,
    WrappedPolicy,
};
use corun_serve::{Deed, Done, Order, Undone};
use serde::Serialize;

use corun_app::Result;
use corun_report::counted;

use crate::undone;
use crate::{HostBuilder, HostSettings, Look, action_by_process};

/// Things done that are remembered.
const KEPT: usize = 20;
/// Steps of a policy's answers to events that are kept until it decides anew.
const MOST_STEPS: usize = 1000;

/// The newest plan of a policy.
struct ProposedPlan {
    policy: String,
    steps: Arc<Mutex<Vec<Step>>>,
    /// What [`Self::news`] last saw of it.
    told: Vec<Action>,
}

impl ProposedPlan {
    fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The steps that were not in the plan the last time. The policy proposes the others again and again, since nobody makes
    /// them.
    fn news(&mut self, at: Nanoseconds) -> Vec<Decision> {
        let (policy, steps) = (&self.policy, self.steps());
        let before = std::mem::take(&mut self.told);
        self.told = steps.iter().map(|step| step.action.clone()).collect();
        if before == self.told {
            return Vec::new();
        }
        let new = steps.into_iter().filter(|step| !before.contains(&step.action));
        let proposed = |Step { action, reason }| Decision {
            at,
            policy: policy.clone(),
            action,
            reason,
            verdict: Verdict::Proposed(Vec::new()),
        };
        new.map(proposed).collect()
    }
}

/// Acts as a person asks.
pub struct Acting {
    plans: Vec<ProposedPlan>,
    builder: HostBuilder,
    revision: u64,
    log: Vec<String>,
}

/// What viewers are shown of it.
#[derive(Debug, Serialize)]
pub struct ActEntry {
    revision: u64,
    held: Vec<HeldEntry>,
    plan: Vec<PlanEntry>,
    log: Vec<String>,
}

#[derive(Debug, Serialize)]
struct HeldEntry {
    pid: u32,
    program: String,
    threads: usize,
    cpus: String,
}

#[derive(Debug, Serialize)]
struct PlanEntry {
    action: String,
    reason: String,
}

impl Acting {
    /// A host in which policies only propose, and what does there what a person asks for.
    ///
    /// # Errors
    /// Where the host cannot be as it was asked for.
    pub fn host(
        builder: HostBuilder,
        settings: &HostSettings,
        targets: Vec<Target>,
        profiles: &[&str],
        look: &Look,
    ) -> Result<(Host, Self)> {
        let mut plans = Vec::new();
        let host = builder.host_with(settings, targets, profiles, look, |policies| {
            let (own, proposing) = only_proposing(policies);
            plans = own;
            proposing
        })?;
        Ok((host, Self { plans, builder, revision: 0, log: Vec::new() }))
    }

    /// With states counted from a number on, so that nobody takes them for those of a host before.
    pub fn counting_from(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    /// Is something held that has to be looked after?
    pub fn is_holding(&self, host: &Host) -> bool {
        host.threads().any(|one| is_held(&one))
    }

    /// Does what was ordered. The answer is for whoever ordered it.
    ///
    /// # Errors
    /// Why nothing was done.
    pub fn obey(&mut self, host: &mut Host, order: &Order) -> Result<Done, Undone> {
        if order.seen != self.revision {
            return Err(Undone::Outdated);
        }
        match &order.deed {
            Deed::Hold { pid, cpus } => self.hold(host, *pid, cpus),
            Deed::ApplyPlan => self.apply_plan(host),
            Deed::UndoAll => self.undo_all(host),
        }
    }

    /// What the policies propose and did not propose when this was last asked.
    pub fn news(&mut self, at: Nanoseconds) -> Vec<Decision> {
        self.plans.iter_mut().flat_map(|plan| plan.news(at)).collect()
    }

    /// What viewers are shown.
    pub fn entry(&self, host: &Host) -> ActEntry {
        let mut held: BTreeMap<(u32, String), (String, usize)> = BTreeMap::new();
        for one in host.threads().filter(is_held) {
            let key = (one.thread.facts.task.pid, one.view.allowed.to_string());
            held.entry(key).or_insert_with(|| (one.view.program.clone(), 0)).1 += 1;
        }
        let held = held.into_iter().map(|((pid, cpus), (program, threads))| HeldEntry {
            pid,
            program,
            threads,
            cpus,
        });
        let plan = self.plan().into_iter().map(|step| PlanEntry {
            action: action_by_process(host, &step.action),
            reason: step.reason,
        });
        ActEntry {
            revision: self.revision,
            held: held.collect(),
            plan: plan.collect(),
            log: self.log.clone(),
        }
    }

    /// What all policies would do now.
    fn plan(&self) -> Vec<Step> {
        self.plans.iter().flat_map(ProposedPlan::steps).collect()
    }

    fn hold(&mut self, host: &mut Host, pid: u32, cpus: &CpuSet) -> Result<Done, Undone> {
        let threads = host.threads().filter(|one| one.thread.facts.task.pid == pid);
        let threads: Vec<(ThreadId, String)> =
            threads.map(|one| (one.view.id, one.view.program.clone())).collect();
        let Some((_, program)) = threads.first().cloned() else {
            return Err(Undone::Refused(format!(
                "no process {pid} is among those that are watched"
            )));
        };
        let known = host.machine().cpu_set();
        if let Some(cpu) = cpus.iter().find(|&cpu| !known.contains(cpu)) {
            return Err(Undone::Refused(format!("this machine has no CPU {}", cpu.0)));
        }
        let count = threads.len();
        let allow = |(thread, _): (ThreadId, String)| Step {
            action: Action::Allow { thread, cpus: cpus.clone() },
            reason: "asked for on the page".to_owned(),
        };
        all_or_none(host, threads.into_iter().map(allow).collect())?;
        let on = cpus.in_words();
        let what = format!("{program} (process {pid}): {} held on {on}", counted(count, "thread"));
        Ok(self.did(vec![what], Vec::new()))
    }

    fn apply_plan(&mut self, host: &mut Host) -> Result<Done, Undone> {
        let (places, others): (Vec<Step>, Vec<Step>) =
            self.plan().into_iter().partition(|step| step.action.kind() == ActionKind::Place);
        let others = others.iter().map(|step| {
            let action = action_by_process(host, &step.action);
            format!(
                "{action}: the page only places threads; corun run and corun daemon do the rest"
            )
        });
        let others: Vec<String> = others.collect();
        if places.is_empty() {
            let why = match others.first() {
                Some(first) => first.clone(),
                None => "the policy would change nothing now".to_owned(),
            };
            return Err(Undone::Refused(why));
        }
        let done = places
            .iter()
            .map(|step| format!("{} ({})", action_by_process(host, &step.action), step.reason));
        let done = done.collect();
        all_or_none(host, places)?;
        Ok(self.did(done, others))
    }

    fn undo_all(&mut self, host: &mut Host) -> Result<Done, Undone> {
        // Threads that were born since the last look are undone with the others.
        host.tick().map_err(|error| Undone::Refused(error.to_string()))?;
        let restored = host.undo();
        let line = match restored.as_slice() {
            [] => "there was nothing to undo".to_owned(),
            some => undone::in_a_line(&some.iter().collect::<Vec<_>>()),
        };
        let left = undone::not_given_back(&restored);
        if restored.iter().all(|one| one.outcome.is_ok()) {
            // What is undone takes its journal with it.
            match self.builder.new_journal() {
                Ok(journal) => host.act_under(journal),
                Err(failure) => return Err(Undone::Refused(failure.report().trim().to_owned())),
            }
        }
        Ok(self.did(vec![line], left))
    }

    fn did(&mut self, done: Vec<String>, not_done: Vec<String>) -> Done {
        self.revision += 1;
        self.log.extend(done.iter().cloned());
        let surplus = self.log.len().saturating_sub(KEPT);
        self.log.drain(..surplus);
        Done { revision: self.revision, done, not_done }
    }
}

/// Policies each of which only proposes, and where their newest plans are.
fn only_proposing(policies: Vec<Box<dyn Policy>>) -> (Vec<ProposedPlan>, Vec<Box<dyn Policy>>) {
    let propose = |policy: Box<dyn Policy>| {
        let (name, steps) = (policy.name().to_owned(), Arc::default());
        let wrapped = WrappedPolicy::new(policy, Proposing { plan: Arc::clone(&steps) });
        let plan = ProposedPlan { policy: name, steps, told: Vec::new() };
        (plan, Box::new(wrapped) as Box<dyn Policy>)
    };
    policies.into_iter().map(propose).unzip()
}

/// Makes all steps or none, and says in words why not all are made.
fn all_or_none(host: &mut Host, steps: Vec<Step>) -> Result<(), Undone> {
    host.carry_out_whole(steps).map_err(|half| Undone::Refused(half.to_string()))
}

/// Is a thread held elsewhere than where its user lets it run?
fn is_held(one: &SampledThread<'_>) -> bool {
    !one.thread.left_alone && one.view.allowed != one.view.may_run_on
}

/// Undoes what a person did on a host, and says on stderr what was undone.
///
/// # Errors
/// Where something could not be undone: it stays in the journal.
pub fn undo_at_the_end(host: &mut Host) -> Result {
    let restored = host.undo();
    undone::print(&restored);
    undone::all_or_error(&restored)
}

/// Keeps a policy's plans, so that they are not carried out.
struct Proposing {
    plan: Arc<Mutex<Vec<Step>>>,
}

impl Proposing {
    fn plan(&self) -> std::sync::MutexGuard<'_, Vec<Step>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PolicyWrapper for Proposing {
    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        let plan = policy.on_event(event, view).unwrap_or_default();
        let mut kept = self.plan();
        kept.extend(plan.steps);
        // Nothing can be done with threads that have ended.
        let is_there =
            |step: &Step| step.action.threads().iter().all(|&id| view.thread(id).is_some());
        kept.retain(is_there);
        let surplus = kept.len().saturating_sub(MOST_STEPS);
        kept.drain(..surplus);
        None
    }

    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        let plan = policy.decide(view);
        *self.plan() = plan.steps;
        Plan::none()
    }
}

#[cfg(test)]
mod tests {
    use corun_policy::{BuildOptions, Nanoseconds, ProcessId, ThreadView, build};

    use super::*;

    #[test]
    fn nothing_is_proposed_of_threads_that_ended() {
        let machine = corun_machine::preset("xeon-x5365").unwrap();
        let cpus = "0-7".parse().unwrap();
        let thread = |id: u64| ThreadView::new(ThreadId(id), ProcessId(id), "a", &cpus);
        let policies = vec![build("random", &BuildOptions::default()).unwrap()];
        let (mut plans, mut proposing) = only_proposing(policies);
        let mut hear = |event: Event, threads: &[ThreadView]| {
            let view = View { machine: &machine, threads, now: Nanoseconds(0) };
            assert!(proposing[0].on_event(&event, &view).is_none());
            plans[0].steps().iter().flat_map(|step| step.action.threads()).collect::<Vec<_>>()
        };
        hear(Event::Arrived(ThreadId(1)), &[thread(1)]);
        let both = hear(Event::Arrived(ThreadId(2)), &[thread(1), thread(2)]);
        assert!(both.contains(&ThreadId(1)) && both.contains(&ThreadId(2)), "{both:?}");
        let left = hear(Event::Exited(ThreadId(1)), &[thread(2)]);
        assert!(!left.contains(&ThreadId(1)) && left.contains(&ThreadId(2)), "{left:?}");
        // What is proposed is news once.
        let news = plans[0].news(Nanoseconds(3));
        assert!(news.iter().all(|one| matches!(one.verdict, Verdict::Proposed(_))), "{news:?}");
        assert_eq!((news.len(), news[0].policy.as_str()), (left.len(), "random"));
        assert_eq!(plans[0].news(Nanoseconds(4)), []);
    }

    /// What a real machine tells a policy only when asked to, it tells one that proposes too.
    #[test]
    fn policies_that_only_propose_hear_of_switches_and_wakers() {
        let parameters = [("wakes-together".to_owned(), 1.0)].into();
        let wakes = BuildOptions { parameters, ..BuildOptions::default() };
        let policies = [("casc", BuildOptions::default()), ("linux-sched-cache", wakes)];
        let policies = policies.map(|(name, options)| build(name, &options).unwrap());
        let (_, proposing) = only_proposing(policies.into());
        assert!(proposing[0].hears_switches() && !proposing[0].hears_wakers());
        assert!(proposing[1].hears_wakers() && !proposing[1].hears_switches());
    }
}
