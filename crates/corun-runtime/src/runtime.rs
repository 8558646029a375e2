//! The policies, the thread table, and one tick after the other.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use corun_machine::Machine;
use corun_policy::{Action, ActionKind, Event, Nanoseconds, Needs, Plan, Policy, Step, View};

use crate::{
    Backend, Capabilities, Decision, NotAnnounced, RuntimeError, ThreadTable, Tick, Verdict, needs,
};

/// How policies are run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RuntimeOptions {
    /// The interval of every policy that has one, in place of its own.
    pub interval: Option<Nanoseconds>,
    /// The shortest next interval that a policy gets when it asks for one ([`Policy::next_interval`]).
    pub shortest: Nanoseconds,
}

type TickOf<B> = Tick<<B as Backend>::Change, <B as Backend>::Refusal>;

struct Hosted {
    policy: Box<dyn Policy>,
    name: String,
    /// The interval of its needs.
    own_interval: Option<Nanoseconds>,
    /// The present interval.
    interval: Option<Nanoseconds>,
    /// When it decided last.
    decided: Nanoseconds,
    /// Is it told of switches between two ticks?
    hears_switches: bool,
    /// What it needs, without what it does without.
    needs: Needs,
}

/// Policies over one backend. Nothing happens by itself: each [`Runtime::tick`] goes once around, and
/// [`Runtime::next_due`] says when the next has to be.
pub struct Runtime<B: Backend> {
    policies: Vec<Hosted>,
    /// The policy that takes actions of a kind.
    owners: BTreeMap<ActionKind, usize>,
    table: ThreadTable<B::Thread>,
    options: RuntimeOptions,
}

impl<B: Backend> Runtime<B> {
    /// Checks that a machine and its backend give the policies what they need. Where two policies need the same
    /// kind of action, one that can do without leaves it to the other. A policy that announces no action and
    /// has no interval can neither change nor learn anything, and is left out.
    ///
    /// # Errors
    /// When a policy is not for the machine, needs a counter, an action or profiles that are not there, or
    /// asks for an interval of 0; when two policies need the same kind of action and neither can do without.
    pub fn new(
        machine: &Machine,
        policies: Vec<Box<dyn Policy>>,
        given: &Capabilities,
        options: RuntimeOptions,
    ) -> Result<Self, RuntimeError> {
        let mut policies = policies;
        needs::leave_to_others(&mut policies);
        let mut hosted: Vec<Hosted> = Vec::new();
        let mut owners = BTreeMap::new();
        for mut policy in policies {
            let needs = needs::check(policy.as_mut(), machine, given)?;
            let name = policy.name().to_owned();
            for &kind in &needs.controls {
                if let Some(owner) = owners.insert(kind, hosted.len())
                    && owner != hosted.len()
                {
                    let first = hosted[owner].name.clone();
                    return Err(RuntimeError::TwoOwners { first, second: name, kind });
                }
            }
            let interval = needs::interval(&name, needs.interval, machine, options.interval)?;
            if interval.is_some() || !needs.controls.is_empty() {
                let (decided, hears_switches) = (Nanoseconds(0), policy.hears_switches());
                let own_interval = interval;
                hosted.push(Hosted {
                    policy,
                    name,
                    own_interval,
                    interval,
                    decided,
                    hears_switches,
                    needs,
                });
            }
        }
        let table = ThreadTable::new(hosted.len());
        Ok(Self { policies: hosted, owners, table, options })
    }

    /// Is there no policy that could do anything?
    pub fn is_idle(&self) -> bool {
        self.policies.is_empty()
    }

    /// What each of its policies needs, without what the policy does without here.
    pub fn needs(&self) -> impl Iterator<Item = &Needs> {
        self.policies.iter().map(|one| &one.needs)
    }

    /// The name of a policy by its index; empty where there is none.
    pub fn name(&self, policy: usize) -> &str {
        self.policies.get(policy).map_or("", |one| &one.name)
    }

    /// The threads.
    pub fn table(&self) -> &ThreadTable<B::Thread> {
        &self.table
    }

    /// The threads, for a backend that shows something else in them between two ticks.
    pub fn table_mut(&mut self) -> &mut ThreadTable<B::Thread> {
        &mut self.table
    }

    /// When the first policy's interval ends; none where no policy has one.
    pub fn next_due(&self) -> Option<Nanoseconds> {
        self.policies.iter().filter_map(Hosted::due).min()
    }

    /// Goes once around at a moment, which must not be before the last.
    ///
    /// # Errors
    /// What the backend says when it cannot tell which threads there are; [`RuntimeError`] when a policy
    /// fails or panics, or asks for a next interval of 0.
    pub fn tick(
        &mut self,
        backend: &mut B,
        machine: &Machine,
        now: Nanoseconds,
    ) -> Result<TickOf<B>, B::Error> {
        let found = backend.scan(now, &mut self.table)?;
        let unread = backend.count(now, &mut self.table);
        let count = |of: fn(&Event) -> bool| found.events.iter().filter(|one| of(one)).count();
        let mut tick = Tick {
            now,
            decisions: Vec::new(),
            arrived: count(|event| matches!(event, Event::Arrived(_))),
            exited: count(|event| matches!(event, Event::Exited(_))),
            left_alone: found.left_alone,
            unread: found.unread,
        };
        tick.unread.extend(unread);
        for (policy, action) in backend.taken_back() {
            self.say_not_in_force(policy, &action)?;
        }
        for policy in 0..self.policies.len() {
            self.table.show(policy);
            for event in &found.events {
                let plan =
                    self.ask(policy, machine, now, |policy, view| policy.on_event(event, view))?;
                if let Some(plan) = plan {
                    self.carry_out(backend, policy, plan, &mut tick)?;
                }
            }
            if self.policies[policy].hears_switches {
                self.tell_switches(backend, machine, policy, &mut tick)?;
            }
            if self.policies[policy].due().is_some_and(|due| due <= now) {
                self.table.close(policy);
                self.table.show(policy);
                let plan = self.ask(policy, machine, now, |policy, view| policy.decide(view))?;
                self.carry_out(backend, policy, plan, &mut tick)?;
                self.policies[policy].begin_interval(now, &self.options)?;
            }
        }
        Ok(tick)
    }

    /// Tells a policy of each switch since the last tick, with the view of that moment. What it wants is carried out
    /// now.
    fn tell_switches(
        &mut self,
        backend: &mut B,
        machine: &Machine,
        policy: usize,
        tick: &mut TickOf<B>,
    ) -> Result<(), RuntimeError> {
        let switches = backend.switches();
        for index in 0..switches {
            let (at, event) = backend.show_switch(index, &mut self.table);
            let told = |policy: &mut dyn Policy, view: &View<'_>| policy.on_event(&event, view);
            if let Some(plan) = self.ask(policy, machine, at, told)? {
                self.carry_out(backend, policy, plan, tick)?;
            }
        }
        if switches > 0 {
            backend.show_present(&mut self.table);
        }
        Ok(())
    }

    /// Asks a policy. A panic must not take the caller's duty to restore with it.
    fn ask<T>(
        &mut self,
        policy: usize,
        machine: &Machine,
        now: Nanoseconds,
        question: impl FnOnce(&mut dyn Policy, &View<'_>) -> T,
    ) -> Result<T, RuntimeError> {
        let view = View { machine, threads: self.table.views(), now };
        let one = &mut self.policies[policy];
        let answer = catch_unwind(AssertUnwindSafe(|| question(one.policy.as_mut(), &view)));
        let answer = answer.map_err(|_| RuntimeError::Panicked { policy: one.name.clone() })?;
        match one.policy.failure() {
            None => Ok(answer),
            Some(why) => Err(RuntimeError::Policy { policy: one.name.clone(), at: now, why }),
        }
    }

    /// Tells a policy that an action of its plans is not in force.
    fn say_not_in_force(&mut self, policy: usize, action: &Action) -> Result<(), RuntimeError> {
        let Some(one) = self.policies.get_mut(policy) else { return Ok(()) };
        let told = catch_unwind(AssertUnwindSafe(|| one.policy.not_in_force(action)));
        told.map_err(|_| RuntimeError::Panicked { policy: one.name.clone() })
    }

    fn carry_out(
        &mut self,
        backend: &mut B,
        policy: usize,
        plan: Plan,
        tick: &mut TickOf<B>,
    ) -> Result<(), RuntimeError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let owns = |step: &Step| self.owners.get(&step.action.kind()) == Some(&policy);
        let announced: Vec<bool> = plan.steps.iter().map(owns).collect();
        let mut verdicts = if announced.iter().all(|announced| *announced) {
            backend.apply(tick.now, policy, &plan.steps, &mut self.table).into_iter()
        } else {
            let steps: Vec<Step> = plan.steps.iter().filter(|step| owns(step)).cloned().collect();
            backend.apply(tick.now, policy, &steps, &mut self.table).into_iter()
        };
        for (step, announced) in plan.steps.into_iter().zip(announced) {
            let verdict = if announced {
                // A backend may stop at a refusal.
                let Some(verdict) = verdicts.next() else { break };
                verdict
            } else {
                Verdict::Refused(NotAnnounced(step.action.kind()).into())
            };
            if matches!(verdict, Verdict::Refused(_) | Verdict::Failed(_)) {
                self.say_not_in_force(policy, &step.action)?;
            }
            tick.decisions.push(Decision {
                at: tick.now,
                policy: self.policies[policy].name.clone(),
                action: step.action,
                reason: step.reason,
                verdict,
            });
        }
        Ok(())
    }
}

impl Hosted {
    /// When its interval ends.
    fn due(&self) -> Option<Nanoseconds> {
        Some(Nanoseconds(self.decided.0.saturating_add(self.interval?.0)))
    }

    /// After a decision: the next interval is the one that it asks for, unless the user set one.
    fn begin_interval(
        &mut self,
        now: Nanoseconds,
        options: &RuntimeOptions,
    ) -> Result<(), RuntimeError> {
        self.decided = now;
        if options.interval.is_some() {
            return Ok(());
        }
        let asked = self.policy.next_interval();
        if asked == Some(Nanoseconds(0)) {
            return Err(RuntimeError::Interval { policy: self.name.clone() });
        }
        self.interval = asked.map(|asked| asked.max(options.shortest)).or(self.own_interval);
        Ok(())
    }
}
