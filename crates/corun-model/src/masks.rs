//! Stage A of members that are held to ways of an LLC: equal masks are one cache group; masks that
//! overlap share their common ways.

use crate::model::Model;
use crate::outcome::Demand;
use crate::program::Member;
use crate::scratch::{Scratch, recycle};
use crate::table::PhaseTable;

/// Rounds of the search for shares of overlapping ways; it is damped and settles in some dozens.
const ROUNDS: usize = 500;
/// A round that moves nobody by more than this part of a way is the last.
const SETTLED: f64 = 1e-9;

/// Working memory.
#[derive(Debug, Default)]
pub(crate) struct OverlapScratch {
    /// By member: its component, the lowest member with ways that are linked to its.
    component: Vec<usize>,
    shares: Vec<f64>,
    pull: Vec<f64>,
    next: Vec<f64>,
}

impl Model {
    /// What members of one LLC hold when each may use the ways of its mask alone (bit i: way i), into
    /// `out` in their order. Members of equal masks divide those ways by the law of space, as
    /// [`Self::share`] does. Where different masks have ways in common, every way is divided among
    /// those who may use it in proportion to their misses a second, each spread evenly over its own
    /// ways: the law of random replacement, whatever the law of space. Where pages fall on sets at random, each member's part
    /// of such ways counts as a cache of its own.
    pub fn share_by_masks(
        &self,
        masks: &[u64],
        members: &[Member<'_>],
        scratch: &mut Scratch,
        out: &mut Vec<Demand>,
    ) {
        out.clear();
        let Some(first) = members.first() else { return };
        let site = self.site(first.cpu);
        let way_bytes = site.way_bytes;
        let mut tables: Vec<&PhaseTable> = recycle(std::mem::take(&mut scratch.tables));
        tables.extend(members.iter().map(|member| self.table(member)));
        let mut group: Vec<&PhaseTable> = Vec::new();
        let mut overlap = std::mem::take(&mut scratch.overlap);
        link(masks, &mut overlap.component);
        out.resize(masks.len(), Demand::default());
        for lowest in 0..masks.len() {
            let members = || (0..masks.len()).filter(|&one| overlap.component[one] == lowest);
            if members().any(|one| masks[one] != masks[lowest]) {
                continue;
            }
            group.clear();
            group.extend(members().map(|one| tables[one]));
            if group.is_empty() {
                continue;
            }
            let capacity = way_bytes * f64::from(masks[lowest].count_ones());
            self.divide(site, capacity, &group, scratch);
            for (one, &demand) in members().zip(&scratch.divided) {
                out[one] = demand;
            }
        }
        for one in overlap.settle(masks, &tables, way_bytes) {
            let held = overlap.shares[one];
            out[one] = match site.page_sets {
                None => tables[one].demand(held),
                // What it may use counts, not what it fills of that.
                Some(_) => tables[one].demand_alone(site, overlap.next[one].max(held)),
            };
        }
        scratch.overlap = overlap;
        scratch.tables = recycle(tables);
    }
}

/// Links members whose masks have ways in common, directly or through others.
fn link(masks: &[u64], component: &mut Vec<usize>) {
    component.clear();
    component.extend(0..masks.len());
    let mut again = true;
    while again {
        again = false;
        for one in 0..masks.len() {
            for other in 0..one {
                let lowest = component[one].min(component[other]);
                if masks[one] & masks[other] != 0 && component[one] != component[other] {
                    (component[one], component[other]) = (lowest, lowest);
                    again = true;
                }
            }
        }
    }
}

impl OverlapScratch {
    /// Shares of the components with different masks, whose members it gives.
    fn settle(&mut self, masks: &[u64], tables: &[&PhaseTable], way_bytes: f64) -> Vec<usize> {
        let Self { component, shares, pull, next } = self;
        let mixed = |one: usize| {
            let same = |other: &usize| component[*other] == component[one];
            (0..masks.len()).filter(same).any(|other| masks[other] != masks[one])
        };
        let places: Vec<usize> = (0..masks.len()).filter(|&one| mixed(one)).collect();
        if places.is_empty() {
            return places;
        }
        shares.clear();
        shares.resize(masks.len(), 0.0);
        let users =
            |way: u32| places.iter().copied().filter(move |&one| masks[one] >> way & 1 == 1);
        for &one in &places {
            shares[one] = way_bytes;
        }
        pull.clear();
        pull.resize(masks.len(), 0.0);
        for _ in 0..ROUNDS {
            for &one in &places {
                let ways = f64::from(masks[one].count_ones());
                pull[one] = tables[one].misses_per_s(shares[one]) / ways;
            }
            next.clear();
            next.resize(masks.len(), 0.0);
            for way in 0..u64::BITS {
                let (sum, count) =
                    users(way).fold((0.0, 0.0), |(sum, n), one| (sum + pull[one], n + 1.0));
                for one in users(way) {
                    let part = if sum > 0.0 { pull[one] / sum } else { 1.0 / count };
                    next[one] += way_bytes * part;
                }
            }
            let mut moved = 0.0f64;
            for &one in &places {
                let target = next[one].min(tables[one].solo_bytes(f64::INFINITY));
                let step = 0.5 * (target - shares[one]);
                shares[one] += step;
                moved = moved.max(step.abs());
            }
            if moved <= SETTLED * way_bytes {
                break;
            }
        }
        places
    }
}
