//! The least unfairness, and what else asks how far apart slowdowns are.
//!
//! Regions of pressures and least slowdowns. In a region [x1, x2] x [a1, a2] a cluster may be in a
//! partition that is fairer than u only if nobody in it is slower than u a2 at x1 and nobody
//! faster than a1 at x2. Of these clusters the partitions of the least and the greatest pressure
//! say how far x1 and x2 can move together; the slowdowns that each program has in them, how far
//! a1 and a2 can.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::partition::additive::unfairness;
use crate::partition::completion::{NEVER, Values};
use crate::partition::family::{Kind, Set};
use crate::partition::law::Law;
use crate::partition::pressure::{End, ROOM, Stopped};
use crate::partition::table::{Partition, Table};
use crate::partition::walk::{Bounded, Effort, Matters, Walk, Window};
use crate::search::Stop;

/// How much fairer a partition must be to count.
const BETTER: f64 = 1e-11;

/// A region is looked at again while it loses so much of its width.
const SHRINKS: f64 = 0.7;

/// Pressures and least slowdowns, with a bound of the unfairness.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Region {
    x: (f64, f64),
    least: (f64, f64),
    bound: f64,
}

impl Eq for Region {}

impl PartialOrd for Region {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Region {
    /// The greatest has the lowest bound.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_bound = other.bound.total_cmp(&self.bound);
        let by_least = || other.least.0.total_cmp(&self.least.0);
        by_bound.then_with(by_least).then_with(|| other.x.0.total_cmp(&self.x.0))
    }
}

fn width((low, high): (f64, f64)) -> f64 {
    if high > low { (high - low) / high } else { 0.0 }
}

fn halves((low, high): (f64, f64)) -> [(f64, f64); 2] {
    let middle = 0.5 * (low + high);
    [(low, middle), (middle, high)]
}

pub(crate) struct Fairest<'a> {
    table: &'a Table,
    stop: &'a Stop<'a>,
    pub(crate) best: (f64, Partition),
    pub(crate) effort: Effort,
}

/// What is left of a region's clusters.
struct Left {
    window: Window,
    /// The balance at both ends.
    ends: [Bounded; 2],
}

impl<'a> Fairest<'a> {
    pub(crate) fn new(table: &'a Table, first: Partition, stop: &'a Stop<'a>) -> Self {
        let best = (unfairness(&table.judge(&first).slowdowns), first);
        Self { table, stop, best, effort: Effort::default() }
    }

    pub(crate) fn consider(&mut self, partition: &Partition) -> f64 {
        let judged = self.table.judge(partition);
        let unfairness = unfairness(&judged.slowdowns);
        if unfairness < self.best.0 * (1.0 - BETTER) {
            self.best = (unfairness, partition.clone());
        }
        judged.x
    }

    /// Unfairness that matters.
    fn most(&self) -> f64 {
        self.best.0 * (1.0 - BETTER)
    }

    /// Until it is proven; else the bound that is reached.
    pub(crate) fn run(&mut self) -> Option<f64> {
        let x = self.table.pressures();
        let spans = self.table.slowdowns(x);
        let floor = spans.iter().fold(f64::INFINITY, |floor, span| span.0.min(floor));
        let ceiling = spans.iter().fold(f64::INFINITY, |ceiling, span| span.1.min(ceiling));
        let mut open = BinaryHeap::from([Region { x, least: (floor, ceiling), bound: 1.0 }]);
        while let Some(region) = open.pop() {
            if region.bound > self.most() {
                return None;
            }
            if self.stop.is_due() || self.effort.nodes >= self.stop.nodes {
                return Some(region.bound);
            }
            match self.look(region) {
                Err(Stopped) => return Some(region.bound),
                Ok(left) => open.extend(left),
            }
        }
        None
    }

    fn look(&mut self, mut region: Region) -> Result<Vec<Region>, Stopped> {
        loop {
            self.effort.nodes += 1;
            let window = self.window(&region);
            if !self.narrow(&window, &mut region) {
                return Ok(Vec::new());
            }
            let before = region.x;
            let Some(left) = self.ends(window, &mut region)? else { return Ok(Vec::new()) };
            if width(region.x) < SHRINKS * width(before) {
                continue;
            }
            let is_a_point = width(region.x).max(width(region.least)) < 1e-13;
            let most_sets = if is_a_point { u64::MAX } else { self.walk_budget() };
            if self.walk(&left, most_sets) {
                return Ok(Vec::new());
            }
            if is_a_point {
                return Err(Stopped);
            }
            let halves = if width(region.x) > width(region.least) {
                halves(region.x).map(|x| Region { x, ..region })
            } else {
                halves(region.least).map(|least| Region { least, ..region })
            };
            return Ok(halves.to_vec());
        }
    }

    /// The slowdowns in each cluster that may matter in the region; [`NEVER`] in the others.
    fn window(&self, region: &Region) -> Window {
        let (table, law) = (self.table, self.table.law);
        let most = self.most() * region.least.1 * (1.0 + ROOM);
        let fewest = region.least.0 * (1.0 - ROOM);
        let slowest = Values::fill(table.family, |set, values| {
            for lines in table.row(set).members() {
                let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
                for (((value, &a), &c), &load) in each {
                    let least = a + c * law.y(load, region.x.0);
                    let highest = a + c * law.y(load, region.x.1);
                    let is_out = least > most || highest < fewest || *value == NEVER;
                    *value = if is_out { NEVER } else { value.max(least) };
                }
            }
        });
        let fastest = Values::fill(table.family, |set, values| {
            values.fill(f64::INFINITY);
            for lines in table.row(set).members() {
                let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
                for (((value, &a), &c), &load) in each {
                    *value = value.min(a + c * law.y(load, region.x.1));
                }
            }
            for (value, &slowest) in values.iter_mut().zip(slowest.row(set)) {
                if slowest == NEVER || slowest > self.most() * *value * (1.0 + ROOM) {
                    *value = NEVER;
                }
            }
        });
        Window { slowest, fastest, most: self.most() }
    }

    /// Moves the least slowdowns together, and raises the bound; false where nothing is left.
    fn narrow(&self, window: &Window, region: &mut Region) -> bool {
        let family = self.table.family;
        // Of each program: the least slowdown of the slowest in its clusters, and the most that it
        // can be the fastest by.
        let mut slowest = vec![f64::INFINITY; family.programs];
        let mut fastest = vec![0.0_f64; family.programs];
        for row in 0..family.rows() {
            if !window.fastest.any[row] {
                continue;
            }
            let set = family.set(row);
            for (&low, &high) in window.slowest.row(set).iter().zip(window.fastest.row(set)) {
                if high > NEVER {
                    for program in family.programs_of(set) {
                        slowest[program] = slowest[program].min(low);
                        fastest[program] = fastest[program].max(high);
                    }
                }
            }
        }
        let slowest = slowest.into_iter().fold(0.0, f64::max);
        let fastest = fastest.into_iter().fold(f64::INFINITY, f64::min);
        region.least.0 = region.least.0.max(slowest / window.most * (1.0 - ROOM));
        region.least.1 = region.least.1.min(fastest * (1.0 + ROOM));
        region.bound = region.bound.max(slowest / region.least.1);
        region.least.0 <= region.least.1
    }

    /// Moves the pressures together; none where nothing is left.
    fn ends(&mut self, window: Window, region: &mut Region) -> Result<Option<Left>, Stopped> {
        let may = |set: Set, values: &mut [f64]| {
            for (value, &fastest) in values.iter_mut().zip(window.fastest.row(set)) {
                if fastest == NEVER {
                    *value = NEVER;
                }
            }
        };
        let law = self.table.law;
        let least = self.table.extreme(region.x.0, End::Least, may, self.stop)?;
        let Some(least) = least else { return Ok(None) };
        self.consider(&least.partition);
        region.x.0 = region.x.0.max(least.x * (1.0 - ROOM));
        let most = self.table.extreme(region.x.1, End::Greatest, may, self.stop)?;
        let Some(most) = most else { return Ok(None) };
        self.consider(&most.partition);
        region.x.1 = region.x.1.min(most.x * (1.0 + ROOM));
        if region.x.0 > region.x.1 {
            return Ok(None);
        }
        let low = self.table.draws(region.x.1, End::Least, may);
        let high = self.table.draws(region.x.0, End::Greatest, may);
        // At pressure 0 of KPart's rule flows may draw less than the peak.
        let is_unloaded = law == Law::Simple && region.x.0 == 0.0;
        let enough = if is_unloaded { 0.0 } else { law.supply(region.x.0) };
        let bounded = (
            Bounded::new(low, -law.supply(region.x.1), self.stop),
            Bounded::new(high, enough, self.stop),
        );
        let (Some(low), Some(high)) = bounded else { return Err(Stopped) };
        Ok(Some(Left { window, ends: [low, high] }))
    }

    fn walk_budget(&self) -> u64 {
        let family = self.table.family;
        match family.kind {
            Kind::Strict => 20_000,
            Kind::Cluster => (3_u64.pow(family.programs as u32 - 1) / 2).max(2_000),
        }
    }

    fn walk(&mut self, left: &Left, most_sets: u64) -> bool {
        let (family, stop) = (self.table.family, self.stop);
        let most_nodes = stop.nodes.saturating_sub(self.effort.nodes);
        let matters = Matters { any: &[], all: &left.ends, window: Some(&left.window) };
        let leaf = |partition: &Partition| {
            self.consider(partition);
            0.0
        };
        let walk = Walk::new(family, matters, 0.0, (most_sets, most_nodes), stop, leaf);
        let (is_done, effort) = walk.run();
        self.effort.nodes += effort.nodes;
        self.effort.pruned += effort.pruned;
        self.effort.sets += effort.sets;
        is_done
    }
}
