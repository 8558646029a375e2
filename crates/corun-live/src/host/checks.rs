//! Does this machine give a policy what it needs?

use corun_machine::Machine;
use corun_policy::{Interval, Nanoseconds, Needs, Policy};

use super::interval_of;
use crate::{Actuator, LiveError, Source};

pub(super) fn counters(
    policy: &str,
    needs: &Needs,
    sources: &[Box<dyn Source>],
) -> Result<(), LiveError> {
    let sources_named = || {
        let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    for &counter in &needs.counters {
        if !sources.iter().any(|source| source.counters().contains(&counter)) {
            let (policy, sources) = (policy.to_owned(), sources_named());
            return Err(LiveError::Counter { policy, counter, sources });
        }
    }
    let profiled = sources.iter().any(|source| source.knows_profiles());
    if (needs.solo_figures || needs.by_ways) && !profiled {
        return Err(LiveError::Profiles { policy: policy.to_owned(), sources: sources_named() });
    }
    Ok(())
}

/// What is lacking and the policy can do without, it is made to.
pub(super) fn controls(
    policy: &mut dyn Policy,
    actuators: &[Box<dyn Actuator>],
) -> Result<(), LiveError> {
    for kind in policy.needs().controls {
        let carried_out = actuators.iter().any(|actuator| actuator.kinds().contains(&kind));
        if carried_out {
            continue;
        }
        if !policy.do_without(kind) {
            return Err(LiveError::Control { policy: policy.name().to_owned(), kind });
        }
        tracing::warn!(policy = policy.name(), "does without {kind:?}: nothing here can do it");
    }
    Ok(())
}

/// A policy's interval: the one asked for, else its own; none for a policy that goes by events.
pub(super) fn interval(
    policy: &str,
    own: Interval,
    machine: &Machine,
    asked: Option<Nanoseconds>,
) -> Result<Option<Nanoseconds>, LiveError> {
    let Some(own) = interval_of(own, machine) else { return Ok(None) };
    let interval = asked.unwrap_or(own);
    if interval.0 == 0 {
        return Err(LiveError::Interval { policy: policy.to_owned() });
    }
    Ok(Some(interval))
}
