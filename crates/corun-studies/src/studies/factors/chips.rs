//! Eight runs on a machine with one node (section 3, eq. 4-8): alone, with the interfering program on
//! another package, on another LLC of the package and on the same LLC, each with prefetch and without.

use std::sync::Arc;

use corun_machine::Machine;
use corun_profile::Profile;

use super::{At, Rig, Breakdown, Cast, OnMachine, most_degraded};
use corun_app::{Error, Result};

const FACTORS: [&str; 4] = ["memory controller", "bus", "cache", "prefetch"];

/// The places: the program's CPU, then those of the interfering one. On a machine without one of
/// them the next closer stands for it, so that the factor between them is nothing.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    own: usize,
    other_package: usize,
    other_cache: usize,
    same_cache: usize,
}

pub(super) fn breakdown(machine: &Arc<Machine>, cast: &Cast<'_>) -> Result<OnMachine> {
    let places = places(machine)?;
    let mut with = Rig::new(machine, cast, Profile::clone)?;
    // A table does not say what was prefetched: its runs are all with prefetch.
    let known = cast.library.get(cast.interfering)?.without_prefetch().is_some();
    let off = |profile: &Profile| profile.without_prefetch().unwrap_or_else(|| profile.clone());
    let mut without = Rig::new(machine, cast, off)?;
    let here = |cpu| At { cpu, memory: None };
    let programs = (0..with.programs.len()).map(|program| {
        let own = here(places.own);
        let mut beside = |cpu| 100.0 * (without.slowdown(program, own, &[here(cpu)]) - 1.0);
        let (package, cache, same) =
            (beside(places.other_package), beside(places.other_cache), beside(places.same_cache));
        let total = 100.0 * (with.slowdown(program, own, &[here(places.same_cache)]) - 1.0);
        let (controller, bus, space) = (package, cache - package, same - cache);
        let prefetch = known.then_some(total - controller - bus - space);
        Breakdown {
            program: with.programs[program].name.clone(),
            total,
            parts: vec![Some(controller), Some(bus), Some(space), prefetch],
        }
    });
    let programs = most_degraded(programs.collect());
    Ok(OnMachine::new(machine, cast, &FACTORS, programs))
}

fn places(machine: &Machine) -> Result<Places> {
    let cpus = machine.cpus();
    let own = &cpus[0];
    // Hardware threads of one core share more than a cache.
    let find = |fits: &dyn Fn(&corun_machine::Cpu) -> bool| {
        cpus.iter().position(|cpu| cpu.core != own.core && fits(cpu))
    };
    let same_cache = find(&|cpu| cpu.llc == own.llc).ok_or_else(|| {
        Error::input(format!("{}: no two cores of it share an LLC", machine.name()))
            .hint("--machine NAME: `corun topology --list` names machines whose cores do")
    })?;
    let other_cache = find(&|cpu| cpu.package == own.package && cpu.llc != own.llc);
    let other_package = find(&|cpu| cpu.package != own.package);
    let other_cache = other_cache.or(other_package).unwrap_or(same_cache);
    let other_package = other_package.unwrap_or(other_cache);
    Ok(Places { own: 0, other_package, other_cache, same_cache })
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    #[test]
    fn places_come_ever_closer() {
        let places = places(&preset("xeon-x5365").unwrap()).unwrap();
        let machine = preset("xeon-x5365").unwrap();
        let at = |cpu: usize| &machine.cpus()[cpu];
        assert_ne!(at(places.own).package, at(places.other_package).package);
        assert_eq!(at(places.own).package, at(places.other_cache).package);
        assert_ne!(at(places.own).llc, at(places.other_cache).llc);
        assert_eq!(at(places.own).llc, at(places.same_cache).llc);
    }

    #[test]
    fn what_a_machine_has_not_is_no_factor() {
        let places = places(&preset("i7-2600").unwrap()).unwrap();
        assert_eq!(places.other_package, places.same_cache);
        assert_eq!(places.other_cache, places.same_cache);
    }
}
