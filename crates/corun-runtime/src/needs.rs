//! Does the backend give a policy what it needs?

use corun_machine::Machine;
use corun_policy::{ActionKind, Interval, Nanoseconds, Needs, Policy};

use crate::{Capabilities, RuntimeError};

/// Checks a policy and returns its needs. What is lacking and it can do without, it is made to.
pub(crate) fn check(
    policy: &mut dyn Policy,
    machine: &Machine,
    given: &Capabilities,
) -> Result<Needs, RuntimeError> {
    let name = policy.name().to_owned();
    if let Some(why) = policy.unfit_for(machine) {
        let machine = machine.name().to_owned();
        return Err(RuntimeError::Unfit { policy: name, machine, why });
    }
    for kind in policy.needs().controls {
        if given.controls.contains(&kind) {
            continue;
        }
        if !policy.do_without(kind) {
            return Err(RuntimeError::Control { policy: name, kind });
        }
        tracing::warn!(policy = name, "does without {}: nothing here can do it", kind.name());
    }
    let needs = policy.needs();
    let lacks = |counter: &&_| !given.counters.contains(counter);
    if let Some(&counter) = needs.counters.iter().find(lacks) {
        let sources = given.sources.clone();
        return Err(RuntimeError::Counter { policy: name, counter, sources });
    }
    if (needs.solo_figures || needs.by_ways) && !given.profiles {
        return Err(RuntimeError::Profiles { policy: name, sources: given.sources.clone() });
    }
    if policy.goes_by_latency() && !given.latencies {
        return Err(RuntimeError::Latency { policy: name, sources: given.sources.clone() });
    }
    if needs.by_ways
        && let Some(llc) = llc_without_ways(machine)
    {
        return Err(RuntimeError::ByWays { policy: name, llc });
    }
    Ok(needs)
}

/// Of two policies that need the same kind of action, one that can do without leaves it to the other: the first
/// of the two that can.
pub(crate) fn leave_to_others(policies: &mut [Box<dyn Policy>]) {
    for kind in ActionKind::ALL {
        let mut takers: Vec<usize> = (0..policies.len())
            .filter(|&one| policies[one].needs().controls.contains(&kind))
            .collect();
        while takers.len() > 1 {
            let Some(place) = takers.iter().position(|&one| policies[one].do_without(kind)) else {
                break;
            };
            let other = takers[usize::from(place == 0)];
            let (policy, owner) = (policies[takers[place]].name(), policies[other].name());
            tracing::info!(policy, owner, "leaves {} to the other policy", kind.name());
            takers.remove(place);
        }
    }
}

fn llc_without_ways(machine: &Machine) -> Option<usize> {
    let known = |llc: &corun_machine::Llc| {
        let ways = llc.cache.and_then(|cache| cache.ways);
        ways.is_some_and(|ways| (1..=64).contains(&ways))
    };
    machine.llcs().iter().position(|llc| !known(llc))
}

/// A policy's interval: the one asked for, else its own; none for a policy that goes by events.
pub(crate) fn interval(
    policy: &str,
    own: Interval,
    machine: &Machine,
    asked: Option<Nanoseconds>,
) -> Result<Option<Nanoseconds>, RuntimeError> {
    let clocks = machine.core_types().iter().map(|core| core.clock_mhz);
    let fastest_hz = clocks.fold(0.0, f64::max) * 1e6;
    let own = match own {
        Interval::Never => return Ok(None),
        Interval::Time(time) => time,
        Interval::Cycles(cycles) => Nanoseconds::from_secs_f64(cycles as f64 / fastest_hz),
    };
    let interval = asked.unwrap_or(own);
    if interval.0 == 0 {
        return Err(RuntimeError::Interval { policy: policy.to_owned() });
    }
    Ok(Some(interval))
}

#[cfg(test)]
mod tests {
    use corun_policy::{Plan, View};

    use super::*;

    struct Wants {
        name: &'static str,
        kinds: Vec<ActionKind>,
        optional: Option<ActionKind>,
    }

    impl Policy for Wants {
        fn name(&self) -> &str {
            self.name
        }

        fn needs(&self) -> Needs {
            Needs { controls: self.kinds.clone(), ..Needs::default() }
        }

        fn do_without(&mut self, control: ActionKind) -> bool {
            if self.optional == Some(control) {
                self.kinds.retain(|&kind| kind != control);
            }
            self.optional == Some(control)
        }

        fn decide(&mut self, _: &View<'_>) -> Plan {
            Plan::none()
        }
    }

    /// The first that can do without leaves the action to the other; two that cannot keep it both, and are refused.
    #[test]
    fn who_can_do_without_leaves_an_action_to_the_other() {
        let wants = |name, optional| -> Box<dyn Policy> {
            Box::new(Wants { name, kinds: vec![ActionKind::Partition], optional })
        };
        let left = |optional: [Option<ActionKind>; 2]| {
            let mut policies = vec![wants("one", optional[0]), wants("other", optional[1])];
            leave_to_others(&mut policies);
            [0, 1].map(|place| !policies[place].needs().controls.is_empty())
        };
        let partition = Some(ActionKind::Partition);
        assert_eq!(left([partition, None]), [false, true]);
        assert_eq!(left([None, partition]), [true, false]);
        assert_eq!(left([partition, partition]), [false, true]);
        assert_eq!(left([None, None]), [true, true]);
        assert_eq!(left([Some(ActionKind::Place), None]), [true, true]);
    }
}
