//! The table of groups: who may share an LLC, what the first stage says of them, and between which
//! slowdowns each member will be, whoever else runs.

use std::ops::ControlFlow;

use rayon::prelude::*;

use crate::contention::{Contention, Coupling, CpuSlot};
use crate::cpu_slots::SlotAssignment;
use crate::objective::{Span, SpanEnds};
use crate::search_space::SearchSpace;

/// Programs assigned together in an LLC, on the CPUs of their orbit's lowest LLC.
#[derive(Debug, Clone)]
pub(crate) struct ProgramGroup<S> {
    /// Bit i: program i.
    pub(crate) set: u32,
    /// Index in [`SearchSpace::orbits`].
    pub(crate) orbit: usize,
    /// Members ascending.
    pub(crate) assignment: SlotAssignment,
    pub(crate) shares: Vec<S>,
    pub(crate) spans: Vec<Span>,
    /// Injective maps to the LLC's CPUs that this assignment stands for.
    pub(crate) maps: f64,
}

/// The most groups that are tabulated.
pub(crate) const MOST_GROUPS: usize = 400_000;

/// The most programs of an exact search: tables of 2^n sets.
pub(crate) const MOST_PROGRAMS: usize = 22;

/// All groups, by orbit, then by set; none when they are too many.
pub(crate) fn all<C: Contention>(space: &SearchSpace<C>) -> Option<Vec<ProgramGroup<C::Share>>> {
    let slot_assignments = slot_assignments(space)?;
    let mut groups: Vec<ProgramGroup<C::Share>> = slot_assignments
        .into_par_iter()
        .map_init(C::Scratch::default, |scratch, (orbit, set, assignment, maps)| {
            let llc = space.orbits[orbit].llcs[0];
            let slots = space.slots_of(llc, &assignment);
            let mut shares = Vec::with_capacity(slots.len());
            space.contention.share(&slots, scratch, &mut shares);
            ProgramGroup { set, orbit, assignment, shares, spans: Vec::new(), maps }
        })
        .collect();
    groups.sort_by_key(|group| (group.orbit, group.set));
    Some(groups)
}

type AssignedGroup = (usize, u32, SlotAssignment, f64);

fn slot_assignments<C: Contention>(space: &SearchSpace<C>) -> Option<Vec<AssignedGroup>> {
    if space.programs > MOST_PROGRAMS {
        return None;
    }
    let mut found: Vec<AssignedGroup> = Vec::new();
    for (orbit, of) in space.orbits.iter().enumerate() {
        let slots = &space.llcs[of.llcs[0]];
        let most = slots.len().min(space.programs);
        // The others must fit elsewhere.
        let least = space.programs.saturating_sub(space.cpus() - slots.len()).max(1);
        for set in 1..1u32 << space.programs {
            let size = set.count_ones() as usize;
            if size < least || size > most {
                continue;
            }
            let members: Vec<usize> = members(set).collect();
            let seen = slots.slot_assignments(&members, &mut |assignment, maps| {
                if found.len() == MOST_GROUPS {
                    return ControlFlow::Break(());
                }
                found.push((orbit, set, assignment.clone(), maps));
                ControlFlow::Continue(())
            });
            if seen.is_break() {
                return None;
            }
        }
    }
    Some(found)
}

/// The programs of a set, ascending.
pub(crate) fn members(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

/// The least and the most that each program weighs on others in any of the groups.
#[derive(Debug, Clone)]
pub(crate) struct Extremes<S> {
    pub(crate) least: Vec<S>,
    pub(crate) most: Vec<S>,
}

impl<S: Copy> Extremes<S> {
    pub(crate) fn of<C: Contention<Share = S>>(
        space: &SearchSpace<C>,
        groups: &[ProgramGroup<S>],
    ) -> Option<Self> {
        let mut least: Vec<Option<S>> = vec![None; space.programs];
        let mut most: Vec<Option<S>> = vec![None; space.programs];
        for group in groups {
            for (&(program, _), share) in group.assignment.iter().zip(&group.shares) {
                let low = least[program].get_or_insert(*share);
                *low = space.contention.lighter(low, share);
                let high = most[program].get_or_insert(*share);
                *high = space.contention.heavier(high, share);
            }
        }
        Some(Self {
            least: least.into_iter().collect::<Option<_>>()?,
            most: most.into_iter().collect::<Option<_>>()?,
        })
    }
}

/// Working memory for [`spans`].
pub(crate) struct Bounder<C: Contention> {
    pub(crate) scratch: C::Scratch,
    slots: Vec<CpuSlot>,
    shares: Vec<C::Share>,
    slowdowns: Vec<f64>,
}

impl<C: Contention> Default for Bounder<C> {
    fn default() -> Self {
        Self {
            scratch: C::Scratch::default(),
            slots: Vec::new(),
            shares: Vec::new(),
            slowdowns: Vec::new(),
        }
    }
}

impl<C: Contention> Bounder<C> {
    /// Between which slowdowns the assigned programs will be, whoever of `others` (a set) joins on
    /// LLCs that nobody of them uses. With `others` empty the spans are exact.
    #[allow(clippy::too_many_arguments)] // One call, four things looked up and one filled in.
    pub(crate) fn spans(
        &mut self,
        space: &SearchSpace<C>,
        slots: &[CpuSlot],
        shares: &[C::Share],
        others: u32,
        extremes: &Extremes<C::Share>,
        span_ends: SpanEnds,
        spans: &mut Vec<Span>,
    ) {
        spans.clear();
        let coupling = space.contention.coupling();
        if others == 0 || coupling == Coupling::Apart {
            self.couple(space, slots, shares);
            spans.extend(self.slowdowns.iter().map(|&one| Span { floor: one, ceiling: one }));
            return;
        }
        match coupling {
            Coupling::Common => {
                spans.resize(slots.len(), Span { floor: 0.0, ceiling: f64::INFINITY });
                if span_ends.floor {
                    self.couple_with(space, slots, shares, others, &extremes.least);
                    for (span, &floor) in spans.iter_mut().zip(&self.slowdowns) {
                        span.floor = floor;
                    }
                }
                if span_ends.ceiling {
                    self.couple_with(space, slots, shares, others, &extremes.most);
                    for (span, &ceiling) in spans.iter_mut().zip(&self.slowdowns) {
                        span.ceiling = ceiling;
                    }
                }
            }
            Coupling::Growing => {
                self.couple(space, slots, shares);
                let floors = self.slowdowns.iter();
                spans.extend(floors.map(|&floor| Span { floor, ceiling: f64::INFINITY }));
            }
            Coupling::Any | Coupling::Apart => {
                for (slot, share) in slots.iter().zip(shares) {
                    self.couple(space, &[*slot], &[*share]);
                    spans.push(Span { floor: self.slowdowns[0], ceiling: f64::INFINITY });
                }
            }
        }
    }

    pub(crate) fn couple(
        &mut self,
        space: &SearchSpace<C>,
        slots: &[CpuSlot],
        shares: &[C::Share],
    ) {
        self.slowdowns.clear();
        space.contention.couple(slots, shares, &mut self.scratch, &mut self.slowdowns);
    }

    pub(crate) fn slowdowns(&self) -> &[f64] {
        &self.slowdowns
    }

    /// With stand-ins for the others, all in one place, as place does not matter.
    fn couple_with(
        &mut self,
        space: &SearchSpace<C>,
        slots: &[CpuSlot],
        shares: &[C::Share],
        others: u32,
        stand_ins: &[C::Share],
    ) {
        self.slots.clear();
        self.shares.clear();
        self.slots.extend_from_slice(slots);
        self.shares.extend_from_slice(shares);
        // An LLC of its own, so that they take no hardware thread beside a assigned program.
        let is_free = |cpu: &usize| {
            let llc = space.place_of[*cpu].0;
            slots.iter().all(|slot| space.place_of[slot.cpu].0 != llc)
        };
        if let Some(cpu) = (0..space.cpus()).find(is_free) {
            for program in members(others) {
                self.slots.push(CpuSlot { program, cpu });
                self.shares.push(stand_ins[program]);
            }
        }
        self.slowdowns.clear();
        space.contention.couple(&self.slots, &self.shares, &mut self.scratch, &mut self.slowdowns);
    }
}

/// Fills in the groups' spans.
pub(crate) fn bound<C: Contention>(
    space: &SearchSpace<C>,
    groups: &mut [ProgramGroup<C::Share>],
    extremes: &Extremes<C::Share>,
    span_ends: SpanEnds,
) {
    let all = space.everybody();
    groups.par_iter_mut().for_each_init(Bounder::<C>::default, |bounder, group| {
        let slots = space.slots_of(space.orbits[group.orbit].llcs[0], &group.assignment);
        let others = all & !group.set;
        let shares = &group.shares;
        bounder.spans(space, &slots, shares, others, extremes, span_ends, &mut group.spans);
    });
}
