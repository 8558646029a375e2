//! What a placement drawn at random is worth: all injective maps of programs to CPUs are equally
//! likely.

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64;
use rayon::prelude::*;

use crate::contention::{Contention, CpuSlot};
use crate::groups::{self, Bounder, ProgramGroup};
use crate::objective::Objective;
use crate::search::StopRule;
use crate::search_space::SearchSpace;

/// Up to so many placements that differ are visited one by one; beyond, placements are drawn.
pub const MOST_VISITED: u64 = 100_000;

/// Draws between two looks at the clock.
const CHUNK: usize = 512;

/// The expected value over random placements.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomExpectation {
    /// The objective's expected value.
    pub value: f64,
    /// Each program's expected slowdown.
    pub slowdown: Vec<f64>,
    /// Standard deviation of the objective over placements.
    pub deviation: f64,
    /// Standard error of `value`: 0 when it is exact.
    pub standard_error: f64,
    /// Is `value` exact: were all placements visited?
    pub exact: bool,
    /// Placements looked at.
    pub count: u64,
}

/// Sums over placements with weights.
#[derive(Debug, Clone)]
struct Sums {
    weight: f64,
    value: f64,
    square: f64,
    slowdown: Vec<f64>,
    count: u64,
}

impl Sums {
    fn new(programs: usize) -> Self {
        Self { weight: 0.0, value: 0.0, square: 0.0, slowdown: vec![0.0; programs], count: 0 }
    }

    /// `offset`: a value near the mean, so that squares lose no digits.
    fn add(&mut self, weight: f64, value: f64, offset: f64, slowdowns: &[f64]) {
        let from = value - offset;
        self.weight += weight;
        self.value += weight * from;
        self.square += weight * from * from;
        for (sum, slowdown) in self.slowdown.iter_mut().zip(slowdowns) {
            *sum += weight * slowdown;
        }
        self.count += 1;
    }

    fn join(&mut self, other: &Self) {
        self.weight += other.weight;
        self.value += other.value;
        self.square += other.square;
        for (sum, more) in self.slowdown.iter_mut().zip(&other.slowdown) {
            *sum += more;
        }
        self.count += other.count;
    }

    fn expectation(self, offset: f64, exact: bool) -> RandomExpectation {
        let mean = self.value / self.weight;
        let variance = (self.square / self.weight - mean * mean).max(0.0);
        let count = self.count as f64;
        // Drawn placements estimate the variance too.
        let variance = if exact { variance } else { variance * count / (count - 1.0).max(1.0) };
        RandomExpectation {
            value: offset + mean,
            slowdown: self.slowdown.iter().map(|sum| sum / self.weight).collect(),
            deviation: variance.sqrt(),
            standard_error: if exact { 0.0 } else { (variance / count).sqrt() },
            exact,
            count: self.count,
        }
    }
}

/// Exact where few placements differ, else from `draws` placements drawn by `seed`.
pub(crate) fn expect<C: Contention>(
    space: &SearchSpace<C>,
    objective: Objective,
    draws: u64,
    seed: u64,
    stop: &StopRule<'_>,
) -> Option<RandomExpectation> {
    let visited = groups::all(space)
        .and_then(|groups| Visit::new(space, &groups).placements(MOST_VISITED))
        .and_then(|placements| visit(space, objective, &placements, stop));
    match visited {
        Some(found) => Some(found),
        None => draw(space, objective, draws, seed, stop),
    }
}

/// A placement as CPUs, and how many maps it stands for.
type Weighted = (Vec<usize>, f64);

fn visit<C: Contention>(
    space: &SearchSpace<C>,
    objective: Objective,
    placements: &[Weighted],
    stop: &StopRule<'_>,
) -> Option<RandomExpectation> {
    let mut scratch = C::Scratch::default();
    let (first, above_idle_w) = space.judged(objective, &placements.first()?.0, &mut scratch);
    let offset = objective.value(&first, above_idle_w)?;
    let chunks: Vec<Option<Sums>> = placements
        .par_chunks(CHUNK)
        .map_init(Bounder::<C>::default, |bounder, chunk| {
            let mut sums = Sums::new(space.programs);
            for (cpus, maps) in chunk {
                let (slowdowns, above_idle_w) = space.judged(objective, cpus, &mut bounder.scratch);
                let value = objective.value(&slowdowns, above_idle_w)?;
                sums.add(*maps, value, offset, &slowdowns);
            }
            (!stop.is_due()).then_some(sums)
        })
        .collect();
    let mut sums = Sums::new(space.programs);
    for chunk in chunks {
        sums.join(&chunk?);
    }
    Some(sums.expectation(offset, true))
}

fn draw<C: Contention>(
    space: &SearchSpace<C>,
    objective: Objective,
    draws: u64,
    seed: u64,
    stop: &StopRule<'_>,
) -> Option<RandomExpectation> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut sums = Sums::new(space.programs);
    let mut scratch = C::Scratch::default();
    let mut offset = None;
    for count in 0..draws.max(2) {
        // At least two, so that there is a standard error.
        if count >= 2 && count % CHUNK as u64 == 0 && stop.is_due() {
            break;
        }
        let cpus = index::sample(&mut random, space.cpus(), space.programs).into_vec();
        let (slowdowns, above_idle_w) = space.judged(objective, &cpus, &mut scratch);
        let value = objective.value(&slowdowns, above_idle_w)?;
        sums.add(1.0, value, *offset.get_or_insert(value), &slowdowns);
    }
    Some(sums.expectation(offset?, false))
}

/// Visits every placement that is no mirror image of another.
pub(crate) struct Visit<'v, C: Contention> {
    space: &'v SearchSpace<'v, C>,
    groups: &'v [ProgramGroup<C::Share>],
    /// Groups by orbit and lowest program.
    lists: Vec<Vec<Vec<usize>>>,
}

struct At {
    left: u32,
    used: u64,
    room: usize,
    maps: f64,
    slots: Vec<CpuSlot>,
}

impl<'v, C: Contention> Visit<'v, C> {
    pub(crate) fn new(space: &'v SearchSpace<'v, C>, groups: &'v [ProgramGroup<C::Share>]) -> Self {
        let mut lists = vec![vec![Vec::new(); space.programs]; space.orbits.len()];
        for (index, group) in groups.iter().enumerate() {
            lists[group.orbit][group.set.trailing_zeros() as usize].push(index);
        }
        Self { space, groups, lists }
    }

    /// All of them; none when there are more than `most`.
    pub(crate) fn placements(&self, most: u64) -> Option<Vec<Weighted>> {
        let mut found = Vec::new();
        let at = At {
            left: self.space.everybody(),
            used: 0,
            room: self.space.cpus(),
            maps: 1.0,
            slots: Vec::new(),
        };
        self.descend(at, most, &mut found).then_some(found)
    }

    fn descend(&self, at: At, most: u64, found: &mut Vec<Weighted>) -> bool {
        if at.left == 0 {
            let mut cpus = vec![0; self.space.programs];
            for slot in &at.slots {
                cpus[slot.program] = slot.cpu;
            }
            found.push((cpus, at.maps));
            return found.len() as u64 <= most;
        }
        let lowest = at.left.trailing_zeros() as usize;
        for (llc, images) in self.space.symmetry.representatives(at.used) {
            let room = at.room - self.space.llcs[llc].len();
            for &index in &self.lists[self.space.orbit_of[llc]][lowest] {
                let group = &self.groups[index];
                let left = at.left & !group.set;
                if group.set & !at.left != 0 || left.count_ones() as usize > room {
                    continue;
                }
                let mut slots = at.slots.clone();
                slots.extend(self.space.slots_of(llc, &group.assignment));
                let used = at.used | 1 << llc;
                let next = At { left, used, room, maps: at.maps * images * group.maps, slots };
                if !self.descend(next, most, found) {
                    return false;
                }
            }
        }
        true
    }
}
