//! Made-up slowdowns of each kind of coupling.

use corun_machine::Machine;
use corun_optimal::{Contention, Coupling, CpuSlot};

/// Programs with an appetite for cache, and a cost of contention.
#[derive(Debug)]
pub(crate) struct MadeUp<'m> {
    pub(crate) machine: &'m Machine,
    pub(crate) coupling: Coupling,
    /// Appetite and sensitivity of each program.
    pub(crate) programs: Vec<(f64, f64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Share {
    slowdown: f64,
    /// Bytes a second.
    traffic: f64,
}

impl Contention for MadeUp<'_> {
    type Share = Share;
    type Scratch = ();

    fn share(&self, group: &[CpuSlot], (): &mut (), shares: &mut Vec<Share>) {
        let appetite: f64 = group.iter().map(|seat| self.programs[seat.program].0).sum();
        shares.extend(group.iter().map(|seat| {
            let cpu = self.machine.cpus()[seat.cpu];
            let size = self.machine.llcs()[cpu.llc].cache.unwrap().size_bytes as f64 / 4e6;
            let on_core = group
                .iter()
                .filter(|other| self.machine.cpus()[other.cpu].core == cpu.core)
                .count() as f64;
            let miss = (appetite - self.programs[seat.program].0) / size;
            let speed = self.machine.core_types()[cpu.core_type].capacity / on_core;
            let slowdown = (1.0 + 0.3 * miss) / speed;
            Share { slowdown, traffic: 1e9 * self.programs[seat.program].0 * (1.0 + miss) * speed }
        }));
    }

    fn couple(&self, seats: &[CpuSlot], shares: &[Share], (): &mut (), slowdowns: &mut Vec<f64>) {
        let cpu = |seat: &CpuSlot| self.machine.cpus()[seat.cpu];
        slowdowns.extend(seats.iter().zip(shares).map(|(seat, share)| {
            let others: f64 = seats
                .iter()
                .zip(shares)
                .filter(|(other, _)| match self.coupling {
                    Coupling::Apart => cpu(other).llc == cpu(seat).llc,
                    Coupling::Growing => cpu(other).package == cpu(seat).package,
                    Coupling::Common | Coupling::Any => true,
                })
                .map(|(_, other)| other.traffic * 1e-9)
                .sum::<f64>()
                - share.traffic * 1e-9;
            let weight = self.programs[seat.program].1;
            let pressure = match self.coupling {
                // Neither rising nor falling.
                Coupling::Any => (3.0 * others).sin().abs(),
                _ => others * others / (1.0 + others),
            };
            share.slowdown * (1.0 + weight * pressure)
        }));
    }

    fn traffic(&self, share: &Share) -> f64 {
        share.traffic
    }

    fn lighter(&self, one: &Share, other: &Share) -> Share {
        if one.traffic <= other.traffic { *one } else { *other }
    }

    fn heavier(&self, one: &Share, other: &Share) -> Share {
        if one.traffic >= other.traffic { *one } else { *other }
    }

    /// Less than is asked for, by those whom others slow down.
    fn passing(&self, seats: &[CpuSlot], shares: &[Share], scratch: &mut ()) -> f64 {
        let mut slowdowns = Vec::new();
        self.couple(seats, shares, scratch, &mut slowdowns);
        let passing = shares.iter().zip(slowdowns);
        passing.map(|(share, slowdown)| share.traffic * share.slowdown / slowdown).sum()
    }

    fn coupling(&self) -> Coupling {
        self.coupling
    }
}
