//! Does the backend give a policy what it needs?

use corun_machine::Machine;
use corun_policy::{Interval, Nanoseconds, Needs, Policy};

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
    if needs.by_ways
        && let Some(llc) = llc_without_ways(machine)
    {
        return Err(RuntimeError::ByWays { policy: name, llc });
    }
    Ok(needs)
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
