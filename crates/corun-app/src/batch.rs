//! The model on many mixes at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use corun_model::{LoadedProgram, Member, Model, Outcome, Running, Scratch};
use rayon::prelude::*;

use crate::{Result, check};

/// Mixes that one thread works on at a time.
const AT_A_TIME: usize = 64;

/// Figures of many mixes: those of the program at place `slot` of mix `mix` stand at
/// `mix * slots + slot`. NaN where the mix has no program there.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchFigures {
    /// Completion time beside the others / alone.
    pub slowdown: Vec<f64>,
    /// Instructions per cycle.
    pub ipc: Vec<f64>,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: Vec<f64>,
    /// Memory traffic, MB/s (1e6 bytes a second).
    pub bandwidth_mb_per_s: Vec<f64>,
    /// Bytes held of the LLC.
    pub llc_occupancy_bytes: Vec<f64>,
}

/// Mixes of the same number of slots. Each slot has a program (a place in `programs`; none: empty)
/// and a CPU (index); `cpus` holds one for each slot, or one for each slot of each mix.
#[derive(Debug, Clone, Copy)]
pub struct MixBatch<'a> {
    /// The programs that slots refer to.
    pub programs: &'a [Arc<LoadedProgram>],
    /// Slots of a mix.
    pub slots: usize,
    /// Mix after mix, the program of each slot.
    pub mixes: &'a [Option<usize>],
    /// The CPU index of each slot.
    pub cpus: &'a [usize],
}

impl MixBatch<'_> {
    /// The programs of a mix with their CPUs, by slot.
    fn mix(&self, mix: usize) -> impl Iterator<Item = (usize, Member<'_>)> {
        let first = mix * self.slots;
        let cpus = if self.cpus.len() == self.slots { 0 } else { first };
        let slots = self.mixes[first..first + self.slots].iter().enumerate();
        slots.filter_map(move |(slot, program)| {
            let program = &self.programs[(*program)?];
            let cpu = self.cpus[cpus + slot];
            Some((slot, Member { program, phase: LoadedProgram::WHOLE, cpu }))
        })
    }

    /// The figures of all mixes, each program as a whole with memory on its own node. Uses all
    /// cores.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] when the caller wants to stop.
    ///
    /// # Panics
    /// When a slot names a program that is not there or a CPU that the machine does not have, or
    /// the lengths do not agree.
    pub fn solve(&self, model: &Model, stop: &AtomicBool) -> Result<BatchFigures> {
        let empty = || vec![f64::NAN; self.mixes.len()];
        let mut figures = BatchFigures {
            slowdown: empty(),
            ipc: empty(),
            llc_mpki: empty(),
            bandwidth_mb_per_s: empty(),
            llc_occupancy_bytes: empty(),
        };
        if self.mixes.is_empty() {
            return Ok(figures);
        }
        let length = AT_A_TIME * self.slots;
        let chunks = figures
            .slowdown
            .par_chunks_mut(length)
            .zip(figures.ipc.par_chunks_mut(length))
            .zip(figures.llc_mpki.par_chunks_mut(length))
            .zip(figures.bandwidth_mb_per_s.par_chunks_mut(length))
            .zip(figures.llc_occupancy_bytes.par_chunks_mut(length))
            .enumerate();
        chunks.try_for_each(|(chunk, ((((slowdown, ipc), mpki), bandwidth), held))| {
            check(stop)?;
            let (mut scratch, mut outcomes) = (Scratch::default(), Vec::new());
            for within in 0..slowdown.len() / self.slots {
                self.solve_one(model, chunk * AT_A_TIME + within, &mut scratch, &mut outcomes);
                let slots = self.mix(chunk * AT_A_TIME + within).map(|(slot, _)| slot);
                for (slot, outcome) in slots.zip(&outcomes) {
                    let place = within * self.slots + slot;
                    slowdown[place] = outcome.slowdown;
                    ipc[place] = outcome.ipc;
                    mpki[place] = outcome.llc_mpki;
                    bandwidth[place] = outcome.bytes_per_s * 1e-6;
                    held[place] = outcome.occupancy_bytes;
                }
            }
            Ok::<(), crate::Error>(())
        })?;
        Ok(figures)
    }

    /// The model's outcomes for one mix, by filled slot.
    pub fn solve_one(
        &self,
        model: &Model,
        mix: usize,
        scratch: &mut Scratch,
        outcomes: &mut Vec<Outcome>,
    ) {
        let running: Vec<Running<'_>> =
            self.mix(mix).map(|(_, member)| Running { member, home: &[], group: None }).collect();
        outcomes.clear();
        if !running.is_empty() {
            model.solve(&running, scratch, outcomes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use corun_machine::preset;
    use corun_model::ModelOptions;
    use corun_profile::Library;

    use super::*;
    use crate::Scenario;

    #[test]
    fn a_batch_says_what_each_mix_says_alone() {
        let library = Library::shipped().unwrap();
        let apps = ["sort", "numpy", "xz", "flac"].map(str::to_owned);
        let machine = preset("xeon-x5365").unwrap();
        let scenario = Scenario::new(machine, &library, &apps, ModelOptions::default()).unwrap();
        let mixes: Vec<Option<usize>> = (0..300)
            .flat_map(|mix| [Some(mix % 4), (mix % 3 > 0).then_some(mix / 4 % 4), Some(0)])
            .collect();
        let cpus: Vec<usize> = (0..300).flat_map(|mix| [0, 1 + mix % 2, 5]).collect();
        let batch = MixBatch { programs: &scenario.programs, slots: 3, mixes: &mixes, cpus: &cpus };
        let all = batch.solve(&scenario.model, &AtomicBool::new(false)).unwrap();
        let mut scenarios: BTreeMap<Vec<String>, Scenario> = BTreeMap::new();
        for mix in 0..300 {
            let filled: Vec<usize> =
                (0..3).filter(|slot| mixes[mix * 3 + slot].is_some()).collect();
            let alone: Vec<String> =
                filled.iter().map(|slot| apps[mixes[mix * 3 + slot].unwrap()].clone()).collect();
            let one = scenarios.entry(alone).or_insert_with_key(|alone| {
                let machine = preset("xeon-x5365").unwrap();
                Scenario::new(machine, &library, alone, ModelOptions::default()).unwrap()
            });
            let places: Vec<usize> = filled.iter().map(|slot| cpus[mix * 3 + slot]).collect();
            for (slot, outcome) in filled.iter().zip(one.solve(&places)) {
                assert_eq!(all.slowdown[mix * 3 + slot], outcome.slowdown, "mix {mix} slot {slot}");
                assert_eq!(all.llc_occupancy_bytes[mix * 3 + slot], outcome.occupancy_bytes);
            }
            let empty = (0..3).filter(|slot| !filled.contains(slot));
            assert!(empty.into_iter().all(|slot| all.ipc[mix * 3 + slot].is_nan()));
        }
    }

    #[test]
    fn a_batch_stops_when_asked_to() {
        let library = Library::shipped().unwrap();
        let machine = preset("xeon-x5365").unwrap();
        let apps = ["xz".to_owned()];
        let scenario = Scenario::new(machine, &library, &apps, ModelOptions::default()).unwrap();
        let batch =
            MixBatch { programs: &scenario.programs, slots: 1, mixes: &[Some(0)], cpus: &[0] };
        let stopped = batch.solve(&scenario.model, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(crate::Error::Interrupted)));
    }
}
