//! A policy with something around it.

use std::sync::Arc;

use corun_machine::Machine;

use crate::{Action, ActionKind, Event, Nanoseconds, Needs, Plan, Policy, Predictor, View};

/// What stands around a policy: it watches the policy's answers or changes them. Each method is called in the place
/// of the policy's method of that name, and asks the policy and nothing more where it is not written.
pub trait PolicyWrapper: Send {
    /// In the place of [`Policy::needs`].
    fn needs(&self, policy: &dyn Policy) -> Needs {
        policy.needs()
    }

    /// In the place of [`Policy::on_event`].
    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        policy.on_event(event, view)
    }

    /// In the place of [`Policy::decide`].
    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        policy.decide(view)
    }

    /// In the place of [`Policy::not_in_force`].
    fn not_in_force(&mut self, policy: &mut dyn Policy, action: &Action) {
        policy.not_in_force(action);
    }
}

/// A policy in a wrapper. A host sees the policy but for what the wrapper changes.
pub struct WrappedPolicy<W> {
    policy: Box<dyn Policy>,
    wrapper: W,
}

impl<W: PolicyWrapper> WrappedPolicy<W> {
    /// Puts the policy in the wrapper.
    pub fn new(policy: Box<dyn Policy>, wrapper: W) -> Self {
        Self { policy, wrapper }
    }
}

impl<W: PolicyWrapper> Policy for WrappedPolicy<W> {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn needs(&self) -> Needs {
        self.wrapper.needs(self.policy.as_ref())
    }

    fn do_without(&mut self, control: ActionKind) -> bool {
        self.policy.do_without(control)
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        self.policy.unfit_for(machine)
    }

    fn predict_by(&mut self, predictor: &Arc<dyn Predictor>) {
        self.policy.predict_by(predictor);
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        self.wrapper.on_event(self.policy.as_mut(), event, view)
    }

    fn hears_switches(&self) -> bool {
        self.policy.hears_switches()
    }

    fn hears_wakers(&self) -> bool {
        self.policy.hears_wakers()
    }

    fn goes_by_latency(&self) -> bool {
        self.policy.goes_by_latency()
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.wrapper.decide(self.policy.as_mut(), view)
    }

    fn not_in_force(&mut self, action: &Action) {
        self.wrapper.not_in_force(self.policy.as_mut(), action);
    }

    fn failure(&self) -> Option<String> {
        self.policy.failure()
    }

    fn next_interval(&self) -> Option<Nanoseconds> {
        self.policy.next_interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildOptions, build};

    struct Nothing;

    impl PolicyWrapper for Nothing {}

    /// A method that has a default in [`Policy`] and is not handed on would be silent: this list is held against the
    /// trait's.
    #[test]
    fn every_method_is_handed_on() {
        let methods = |text: &str, of: &str| -> Vec<String> {
            let body = text.split(of).nth(1).unwrap().split("\n}\n").next().unwrap();
            let names = body.lines().filter_map(|line| line.strip_prefix("    fn "));
            names.map(|line| line.split('(').next().unwrap().to_owned()).collect()
        };
        let all = methods(include_str!("policy.rs"), "pub trait Policy: Send {");
        let on = methods(
            include_str!("wrapped.rs"),
            "impl<W: PolicyWrapper> Policy for WrappedPolicy<W> {",
        );
        assert_eq!(on, all);
    }

    #[test]
    fn a_policy_in_a_wrapper_hears_what_it_heard() {
        let wakes = BuildOptions {
            parameters: [("wakes-together".to_owned(), 1.0)].into(),
            ..BuildOptions::default()
        };
        for (name, options, switches, wakers) in [
            ("casc", BuildOptions::default(), true, false),
            ("linux-sched-cache", wakes, false, true),
            ("dio", BuildOptions::default(), false, false),
        ] {
            let policy = WrappedPolicy::new(build(name, &options).unwrap(), Nothing);
            let hears = (policy.hears_switches(), policy.hears_wakers());
            assert_eq!(hears, (switches, wakers), "{name}");
        }
    }
}
