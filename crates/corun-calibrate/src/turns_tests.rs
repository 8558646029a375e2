use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use corun_machine::{CpuId, LineTransfer};

use super::*;
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, Rate};
use crate::nearness::Sharers;
use crate::rounds::{Experiment, Planned};
use crate::surroundings::TimedCores;

/// Of a stream, which means nothing where CPUs are apart.
const LIFE: Figure = Figure::Cache(0, 3, CacheFigure::SingleUseLife);
/// Of two CPUs wherever they are.
const PEAK: Figure = Figure::NodeRate(0, Rate::Mixed);
const MEMORY: Figure = Figure::MemoryLatency(0, 0);

/// Samples are 1, 2, 3 and so on.
struct Counting {
    name: &'static str,
    points: usize,
    samples: u32,
    figure: Figure,
}

impl Experiment for Counting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn points(&self) -> usize {
        self.points
    }

    fn measure(&mut self, _: usize) -> Result<Sample, CalibrateError> {
        self.samples += 1;
        Ok(Sample::new(f64::from(self.samples), false))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        [(self.figure, values.at(self.points - 1, Estimator::Typical))].into()
    }
}

/// Of CPUs 0 and 1, under one cache.
fn beside(cache: SharedCache, points: usize, figure: Figure) -> Measured {
    let experiment = Counting { name: "beside", points, samples: 0, figure };
    let groups = vec![vec![CpuId(0), CpuId(1)]];
    let sharers = Some(Sharers { cache, groups });
    Measured::new(Planned { experiment: Box::new(experiment), sharers, cores: None })
}

/// On CPU 2, whose core has to be free.
fn on_core(points: usize) -> Measured {
    let experiment = Counting { name: "on a core", points, samples: 0, figure: PEAK };
    let cores = Some(TimedCores::one(0, CpuId(2)));
    Measured::new(Planned { experiment: Box::new(experiment), sharers: None, cores })
}

/// A load from memory takes so many ns.
fn memory(ns: u32) -> Measured {
    let experiment = Counting { name: "memory", points: 1, samples: ns - 1, figure: MEMORY };
    Measured::new(Planned { experiment: Box::new(experiment), sharers: None, cores: None })
}

/// Looks find what was written down, then always the same.
struct Modelled {
    transfers_ns: VecDeque<f64>,
    afterwards_ns: f64,
    additions: VecDeque<f64>,
    looks: usize,
    waits: usize,
}

impl Modelled {
    fn new(transfers_ns: &[f64], afterwards_ns: f64) -> Self {
        let transfers_ns = transfers_ns.iter().copied().collect();
        Self { transfers_ns, afterwards_ns, additions: VecDeque::new(), looks: 0, waits: 0 }
    }

    /// A core that does so many additions a cycle at each look, then always as many as at the last.
    fn of_core(additions: &[f64]) -> Self {
        Self { additions: additions.iter().copied().collect(), ..Self::new(&[], 40.0) }
    }
}

impl Looks for Modelled {
    fn farthest_ns(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError> {
        assert_eq!(cpus, [CpuId(0), CpuId(1)]);
        self.looks += 1;
        Ok(self.transfers_ns.pop_front().unwrap_or(self.afterwards_ns))
    }

    fn additions_per_cycle(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError> {
        assert_eq!(cpus, [CpuId(2)]);
        self.looks += 1;
        Ok(if self.additions.len() > 1 {
            self.additions.pop_front().unwrap()
        } else {
            self.additions[0]
        })
    }

    fn wait(&mut self) {
        self.waits += 1;
    }
}

const BUDGET: Budget = Budget { time: Duration::ZERO, least_rounds: 4, late_looks: 10 };

fn known(same_llc_ns: Option<f64>) -> References {
    References::new(LineTransfer { same_llc_ns, ..LineTransfer::default() }, &[])
}

/// So many rounds, each point in its order, and what is caught up.
fn measured(
    looks: &mut Modelled,
    references: References,
    experiments: Vec<Measured>,
    rounds: u32,
) -> Rounds {
    let mut turns = Turns::new(experiments, looks, references);
    for _ in 0..rounds {
        turns.round(&turns.all(), &mut |_, _| true).unwrap();
    }
    turns.catch_up(BUDGET, &mut |_| true).unwrap();
    turns.finish(rounds)
}

fn values(measured: &Measured) -> Vec<f64> {
    measured.samples.iter().map(|taken| taken.sample.value).collect()
}

#[test]
fn cpus_that_stay_near_are_looked_at_and_measured_once() {
    let mut looks = Modelled::new(&[], 40.0);
    let experiments = vec![beside(SharedCache::Last, 2, LIFE), memory(100)];
    let found = measured(&mut looks, known(None), experiments, 4);
    assert_eq!((looks.looks, looks.waits), (2 * 2 * 4, 0), "before and after each");
    let transfers_ns = Some((40.0, 40.0));
    assert_eq!(found.sharing, Sharing { turns: 8, transfers_ns, ..Sharing::default() });
    assert_eq!(values(&found.measured[0]).len(), 8);
    assert!(found.measured[0].figures().contains_key(&LIFE));
}

#[test]
fn what_starts_apart_is_put_off_and_what_ends_apart_is_measured_again() {
    // The first point's turn is good, the second's CPUs are apart before it, the third's after it. Then both have their turns.
    let mut looks = Modelled::new(&[40.0, 42.0, 180.0, 41.0, 190.0], 43.0);
    let experiments = vec![beside(SharedCache::Last, 3, LIFE)];
    let found = measured(&mut looks, known(None), experiments, 1);
    // Nothing was measured in the turn that began apart, and a sample, the second, was thrown away.
    assert_eq!(values(&found.measured[0]), [1.0, 3.0, 4.0]);
    assert_eq!(looks.looks, 5 + 4);
    let Sharing { turns, put_off, apart, transfers_ns, .. } = found.sharing;
    assert_eq!((turns, put_off, apart, transfers_ns), (3, 2, 0, Some((40.0, 190.0))));
}

#[test]
fn what_stays_apart_is_caught_up_after_the_rounds() {
    // Put off, apart again at the end of the round, twice apart afterwards, then near.
    let mut looks = Modelled::new(&[180.0, 180.0, 180.0, 180.0, 180.0], 40.0);
    let experiments = vec![beside(SharedCache::Last, 1, LIFE)];
    let found = measured(&mut looks, known(Some(44.0)), experiments, 1);
    assert_eq!((looks.looks, looks.waits), (3 + 2 + 2, 2));
    assert_eq!(values(&found.measured[0]), [2.0], "in the place of the first");
    let Sharing { put_off, apart, left_out, .. } = found.sharing;
    assert_eq!((put_off, apart, left_out), (1, 0, vec![]));
}

#[test]
fn who_has_half_of_the_rounds_is_not_waited_for() {
    // Of four rounds the first two are apart, before and at the end of the round.
    let mut looks = Modelled::new(&[180.0; 6], 40.0);
    let experiments = vec![beside(SharedCache::Last, 1, PEAK)];
    let found = measured(&mut looks, known(Some(40.0)), experiments, 4);
    assert_eq!((looks.looks, looks.waits), (3 + 3 + 2 + 2, 0));
    assert_eq!((found.sharing.put_off, found.sharing.apart), (2, 2));
    // Of 1, 2, 3 and 4 the last two count.
    assert_eq!(found.measured[0].figures()[&PEAK].value, 3.5);
}

#[test]
fn cpus_that_never_come_together_are_waited_for_up_to_a_limit() {
    let mut looks = Modelled::new(&[], 180.0);
    let both = vec![beside(SharedCache::Last, 1, LIFE), beside(SharedCache::Last, 2, PEAK)];
    let found = measured(&mut looks, known(Some(40.0)), both, 1);
    assert_eq!((looks.looks, looks.waits), (3 * 3 + 10, 10));
    let sharing = &found.sharing;
    assert_eq!((sharing.turns, sharing.put_off, sharing.apart), (3, 3, 3));
    assert_eq!(sharing.left_out, [LIFE]);
    assert_eq!(sharing.only_apart, BTreeSet::from(["beside"]));
    assert_eq!(found.measured[0].figures().len(), 0, "a stream elsewhere pushes nothing out");
    assert_eq!(found.measured[1].figures()[&PEAK].value, 2.0, "there is nothing better");
}

#[test]
fn a_nearer_transfer_tells_later_that_the_first_were_apart() {
    // Two rounds in which a line takes 180 ns, which counts as near until it takes 40.
    let mut looks = Modelled::new(&[180.0, 185.0, 181.0, 190.0], 40.0);
    let experiments = vec![beside(SharedCache::Last, 1, PEAK)];
    let found = measured(&mut looks, known(None), experiments, 3);
    // One of three is near, of four wanted two are: one is caught up, in the place of the second.
    assert_eq!(values(&found.measured[0]), [1.0, 4.0, 3.0]);
    assert_eq!((found.sharing.put_off, found.sharing.apart), (0, 1));
    assert_eq!(found.measured[0].figures()[&PEAK].value, 3.5);
}

#[test]
fn a_line_that_takes_as_long_as_memory_is_from_another_cache() {
    let all_apart = |memory_ns| {
        let mut looks = Modelled::new(&[], 180.0);
        let experiments = vec![beside(SharedCache::Last, 1, LIFE), memory(memory_ns)];
        measured(&mut looks, known(None), experiments, 1).sharing.left_out == [LIFE]
    };
    assert!(all_apart(120));
    assert!(!all_apart(250), "nothing tells it");
}

#[test]
fn threads_of_a_core_have_a_reference_of_their_own() {
    let mut looks = Modelled::new(&[10.0, 11.0], 40.0);
    let experiments =
        vec![beside(SharedCache::OfCore, 1, PEAK), beside(SharedCache::Last, 1, LIFE)];
    let found = measured(&mut looks, known(None), experiments, 1);
    let Sharing { put_off, apart, transfers_ns, .. } = found.sharing;
    assert_eq!((put_off, apart, transfers_ns), (0, 0, Some((40.0, 40.0))));
}

/// A machine whose free core does so many additions a cycle.
fn known_core(additions_per_cycle: Option<f64>) -> References {
    References::new(LineTransfer::default(), &[additions_per_cycle])
}

#[test]
fn a_busy_core_is_put_off() {
    // The first point's turn is good. Before the second's the core does half, after the third's. Then both have their turns.
    let mut looks = Modelled::of_core(&[4.0, 4.0, 2.0, 4.0, 2.0, 4.0]);
    let found = measured(&mut looks, known_core(None), vec![on_core(3)], 1);
    assert_eq!(values(&found.measured[0]), [1.0, 3.0, 4.0]);
    assert_eq!((looks.looks, looks.waits), (5 + 4, 0));
    let Crowding { turns, put_off, crowded, points, .. } = found.crowding;
    assert_eq!((turns, put_off, crowded, points), (3, 2, 0, 3));
    assert_eq!(found.sharing.put_off, 0);
}

#[test]
fn what_was_measured_beside_a_thread_is_not_measured_again_beside_it() {
    // Busy from the look after the sample on, for all of the round; ten late looks find it free at the third.
    let mut looks = Modelled::of_core(&[4.0, 2.0, 2.0, 2.0, 2.0, 4.0]);
    let found = measured(&mut looks, known_core(Some(4.0)), vec![on_core(1)], 1);
    assert_eq!((looks.looks, looks.waits), (2 + 1 + 2 + 2, 2));
    assert_eq!(values(&found.measured[0]), [2.0], "in the place of the first");
    assert_eq!((found.crowding.put_off, found.crowding.crowded), (1, 0));
    let most = found.crowding.additions_per_cycle[&0];
    assert_eq!(most, MostAdditions { known: 4.0, seen: 4.0 });
}

#[test]
fn a_core_that_is_never_free_is_told_by_what_is_known_of_it() {
    let mut looks = Modelled::of_core(&[2.0]);
    let found = measured(&mut looks, known_core(Some(4.0)), vec![on_core(2)], 1);
    assert_eq!((looks.looks, looks.waits), (2 * 3 + 10, 10));
    let crowding = &found.crowding;
    assert_eq!((crowding.put_off, crowding.crowded, crowding.crowded_points), (2, 2, 2));
    assert_eq!(crowding.crowded_share(), 1.0);
    assert_eq!(crowding.only_crowded, BTreeSet::from(["on a core"]));
    assert_eq!(crowding.additions_per_cycle[&0], MostAdditions { known: 4.0, seen: 2.0 });
    assert_eq!(found.measured[0].figures()[&PEAK].value, 2.0, "there is nothing better");
    // Nothing tells it without.
    let mut looks = Modelled::of_core(&[2.0]);
    let found = measured(&mut looks, known_core(None), vec![on_core(2)], 1);
    assert_eq!((found.crowding.put_off, found.crowding.crowded_share()), (0, 0.0));
}

#[test]
fn waiting_can_be_stopped() {
    let mut looks = Modelled::new(&[], 180.0);
    let experiments = vec![beside(SharedCache::Last, 1, LIFE)];
    let mut turns = Turns::new(experiments, &mut looks, known(Some(40.0)));
    turns.round(&turns.all(), &mut |_, _| true).unwrap();
    assert!(matches!(turns.catch_up(BUDGET, &mut |_| false), Err(CalibrateError::Stopped)));
}
