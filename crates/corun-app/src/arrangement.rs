//! Placements that stand for others: what somebody sees first who gives no CPUs.

use corun_machine::Machine;

use crate::{Error, Result, counted};

/// A rule that gives each of some programs a CPU of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// One program a core, LLC after LLC.
    Packed,
    /// One program a core, on each LLC in turn.
    Spread,
    /// All hardware threads of a core, then the next core.
    Threads,
}

impl Arrangement {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Spread => "spread",
            Self::Threads => "threads",
        }
    }

    /// Its rule, for people.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Packed => "one program a core, LLC after LLC",
            Self::Spread => "one program a core, on each LLC in turn",
            Self::Threads => "all hardware threads of a core, then the next core",
        }
    }

    /// The CPUs (indices) in the order in which programs get them.
    fn cpus(self, machine: &Machine) -> Vec<usize> {
        let mut cpus: Vec<usize> = (0..machine.cpus().len()).collect();
        let thread = |cpu: usize| {
            let core = machine.cpus()[cpu].core;
            machine.cpus()[..cpu].iter().filter(|other| other.core == core).count()
        };
        let core_in_llc = |cpu: usize| {
            let one = &machine.cpus()[cpu];
            let before = machine.cpus()[..cpu].iter();
            let mut cores: Vec<usize> =
                before.filter(|other| other.llc == one.llc).map(|other| other.core).collect();
            cores.retain(|&core| core != one.core);
            cores.sort_unstable();
            cores.dedup();
            cores.len()
        };
        let llc = |cpu: usize| machine.cpus()[cpu].llc;
        let core = |cpu: usize| machine.cpus()[cpu].core;
        cpus.sort_by_cached_key(|&cpu| match self {
            Self::Packed => (thread(cpu), llc(cpu), core(cpu), cpu),
            Self::Spread => (thread(cpu), core_in_llc(cpu), llc(cpu), cpu),
            Self::Threads => (llc(cpu), core(cpu), thread(cpu), cpu),
        });
        cpus
    }
}

/// The arrangements of so many programs that differ on this machine, each with the CPU (an index) of
/// each program.
///
/// # Errors
/// More programs than CPUs.
pub fn arrangements(machine: &Machine, programs: usize) -> Result<Vec<(Arrangement, Vec<usize>)>> {
    let cpus = machine.cpus().len();
    if programs > cpus {
        let (programs, cpus) = (counted(programs, "program"), counted(cpus, "CPU"));
        let message = format!("{programs} for the {cpus} of {}", machine.name());
        return Err(Error::input(message).hint("corun compare, where CPUs are shared in time"));
    }
    let mut found: Vec<(Arrangement, Vec<usize>)> = Vec::new();
    for one in [Arrangement::Packed, Arrangement::Spread, Arrangement::Threads] {
        let mut places = one.cpus(machine);
        places.truncate(programs);
        if found.iter().all(|(_, others)| *others != places) {
            found.push((one, places));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    fn llcs(machine: &Machine, arrangement: Arrangement, programs: usize) -> Vec<usize> {
        let found = arrangements(machine, programs).unwrap();
        let (_, cpus) = found.iter().find(|(one, _)| *one == arrangement).unwrap();
        cpus.iter().map(|&cpu| machine.cpus()[cpu].llc).collect()
    }

    #[test]
    fn packed_fills_an_llc_and_spread_takes_turns() {
        // Two packages of two LLCs with two cores each.
        let machine = preset("xeon-x5365").unwrap();
        assert_eq!(llcs(&machine, Arrangement::Packed, 4), [0, 0, 1, 1]);
        assert_eq!(llcs(&machine, Arrangement::Spread, 4), [0, 1, 2, 3]);
        assert_eq!(llcs(&machine, Arrangement::Spread, 6), [0, 1, 2, 3, 0, 1]);
        // No hardware threads, and one program has one place.
        assert_eq!(arrangements(&machine, 4).unwrap().len(), 2);
        assert_eq!(arrangements(&machine, 1).unwrap().len(), 1);
        assert!(arrangements(&machine, 9).is_err());
    }

    #[test]
    fn threads_share_a_core_only_where_it_is_asked_for() {
        let machine = preset("i7-2600").unwrap();
        let cores = |arrangement| -> Vec<usize> {
            let found = arrangements(&machine, 4).unwrap();
            let (_, cpus) = found.into_iter().find(|(one, _)| *one == arrangement).unwrap();
            cpus.into_iter().map(|cpu| machine.cpus()[cpu].core).collect()
        };
        assert_eq!(cores(Arrangement::Packed), [0, 1, 2, 3]);
        assert_eq!(cores(Arrangement::Threads), [0, 0, 1, 1]);
    }
}
