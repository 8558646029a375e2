//! Eight runs on a machine with one node (section 3, eq. 4-8): alone, with the interfering program on
//! another package, on another LLC of the package and on the same LLC, each with prefetch and without.

use std::sync::Arc;

use corun_machine::{Machine, Prefetching};
use corun_model::BandwidthModel;
use corun_profile::ProfileData;

use super::{At, Breakdown, Cast, OnMachine, Rig, most_degraded};
use corun_app::{Error, Result};

const FACTORS: [&str; 4] = ["memory controller", "bus", "cache", "prefetch"];

/// The places: the program's CPU, then those of the interfering one. On a machine of one package, or with
/// one LLC a package, the other place away from the LLC stands for both, so that nothing is left for the bus.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    own: usize,
    /// On another package, and on another LLC of the same one; none on a machine of one LLC.
    apart: Option<(usize, usize)>,
    same_cache: usize,
}

pub(super) fn breakdown(machine: &Arc<Machine>, cast: &Cast<'_>) -> Result<OnMachine> {
    let places = places(machine)?;
    let mut with = Rig::new(machine, cast)?;
    // A table does not say what was prefetched: its runs are all with prefetch.
    let known = matches!(cast.library.get(cast.interfering)?.data, ProfileData::Recording(_));
    let off = &if known { without_prefetchers(machine)? } else { machine.clone() };
    let mut without = Rig::new(off, cast)?;
    // Where there is no place outside the LLC, bandwidth that costs nothing leaves what space does.
    let mut space_alone = match places.apart {
        Some(_) => None,
        None => Some(Rig::with_bandwidth(off, cast, BandwidthModel::None)?),
    };
    let here = |cpu| At { cpu, memory: None };
    let programs = (0..with.programs.len()).map(|program| {
        let own = here(places.own);
        let percent = |rig: &mut Rig, cpu| 100.0 * (rig.slowdown(program, own, &[here(cpu)]) - 1.0);
        let same = percent(&mut without, places.same_cache);
        let (controller, bus, space) = match (places.apart, &mut space_alone) {
            (Some((package, cache)), _) => {
                let [package, cache] = [package, cache].map(|cpu| percent(&mut without, cpu));
                (package, cache - package, same - cache)
            }
            (None, Some(rig)) => {
                let space = percent(rig, places.same_cache);
                (same - space, 0.0, space)
            }
            (None, None) => (0.0, 0.0, same),
        };
        let total = percent(&mut with, places.same_cache);
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

fn without_prefetchers(machine: &Machine) -> Result<Arc<Machine>> {
    let mut spec = machine.spec().clone();
    spec.core_types.iter_mut().for_each(|core| core.prefetching = Some(Prefetching::off()));
    Machine::from_spec(spec).map(Arc::new).map_err(Error::failed)
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
    let package = other_package.or(other_cache);
    let apart = package.zip(other_cache.or(other_package));
    Ok(Places { own: 0, apart, same_cache })
}

#[cfg(test)]
mod tests {
    use corun_app::Cancel;
    use corun_machine::preset;
    use corun_profile::Library;

    use super::*;

    fn cast<'a>(library: &'a Library, of: fn(&str) -> bool, cancel: &'a Cancel) -> Cast<'a> {
        let (interfering, its_neighbour) = ("numpy", "xz");
        Cast { id: "one", library, of, step: 1, interfering, its_neighbour, cancel }
    }

    #[test]
    fn places_come_ever_closer() {
        let places = places(&preset("xeon-x5365").unwrap()).unwrap();
        let machine = preset("xeon-x5365").unwrap();
        let at = |cpu: usize| &machine.cpus()[cpu];
        let (package, cache) = places.apart.unwrap();
        assert_ne!(at(places.own).package, at(package).package);
        assert_eq!(at(places.own).package, at(cache).package);
        assert_ne!(at(places.own).llc, at(cache).llc);
        assert_eq!(at(places.own).llc, at(places.same_cache).llc);
    }

    /// Where all cores share the one LLC, space is not counted as the memory controller's doing.
    #[test]
    fn on_one_llc_space_is_the_cache_s() {
        let machine = Arc::new(preset("i7-2600").unwrap());
        assert_eq!(places(&machine).unwrap().apart, None);
        let library = Library::shipped().unwrap();
        let of = |name: &str| name == "xalan";
        let cancel = Cancel::default();
        let cast = cast(&library, of, &cancel);
        let found = breakdown(&machine, &cast).unwrap();
        let [Some(controller), Some(bus), Some(cache), _] = found.programs[0].parts[..] else {
            panic!("four factors")
        };
        assert!(cache > 1.0 && cache > controller && bus == 0.0, "{controller} {bus} {cache}");
    }

    /// igraph reads its arrays in order: where nothing runs ahead, what company pushes out costs it more.
    #[test]
    fn prefetching_has_its_part() {
        let machine = Arc::new(preset("xeon-x5365").unwrap());
        let library = Library::shipped().unwrap();
        let of = |name: &str| name == "igraph";
        let cancel = Cancel::default();
        let cast = cast(&library, of, &cancel);
        let found = breakdown(&machine, &cast).unwrap();
        let [.., Some(prefetch)] = found.programs[0].parts[..] else { panic!("four factors") };
        assert!(prefetch < -0.1 * found.programs[0].total, "{prefetch}");
    }
}
