//! The table of groups: who may share an LLC, what stage one says of them, and between which
//! slowdowns each member will be, whoever else runs.

use rayon::prelude::*;

use crate::contention::{Contention, Coupling, Seat};
use crate::objective::{Sides, Span};
use crate::seats::Seating;
use crate::stage::Stage;

/// Programs seated together in an LLC, on the CPUs of their orbit's lowest LLC.
#[derive(Debug, Clone)]
pub(crate) struct Group<S> {
    /// Bit i: program i.
    pub(crate) set: u32,
    /// Index in [`Stage::orbits`].
    pub(crate) orbit: usize,
    /// Members ascending.
    pub(crate) seating: Seating,
    pub(crate) shares: Vec<S>,
    pub(crate) spans: Vec<Span>,
    /// Injective maps to the LLC's CPUs that this seating stands for.
    pub(crate) maps: f64,
}

/// The most groups that are tabulated.
pub(crate) const MOST_GROUPS: usize = 400_000;

/// The most programs of an exact search: tables of 2^n sets.
pub(crate) const MOST_PROGRAMS: usize = 22;

/// All groups, by orbit, then by set; none when they are too many.
pub(crate) fn all<C: Contention>(stage: &Stage<C>) -> Option<Vec<Group<C::Share>>> {
    let seatings = seatings(stage)?;
    let mut groups: Vec<Group<C::Share>> = seatings
        .into_par_iter()
        .map_init(C::Scratch::default, |scratch, (orbit, set, seating, maps)| {
            let llc = stage.orbits[orbit].llcs[0];
            let seats = stage.seats_of(llc, &seating);
            let mut shares = Vec::with_capacity(seats.len());
            stage.contention.share(&seats, scratch, &mut shares);
            Group { set, orbit, seating, shares, spans: Vec::new(), maps }
        })
        .collect();
    groups.sort_by_key(|group| (group.orbit, group.set));
    Some(groups)
}

type Seated = (usize, u32, Seating, f64);

fn seatings<C: Contention>(stage: &Stage<C>) -> Option<Vec<Seated>> {
    if stage.programs > MOST_PROGRAMS {
        return None;
    }
    let mut found: Vec<Seated> = Vec::new();
    for (orbit, of) in stage.orbits.iter().enumerate() {
        let seats = &stage.llcs[of.llcs[0]];
        let most = seats.len().min(stage.programs);
        // The others must fit elsewhere.
        let least = stage.programs.saturating_sub(stage.cpus() - seats.len()).max(1);
        for set in 1..1u32 << stage.programs {
            let size = set.count_ones() as usize;
            if size < least || size > most {
                continue;
            }
            let members: Vec<usize> = members(set).collect();
            seats.seatings(&members, &mut |seating, maps| {
                if found.len() <= MOST_GROUPS {
                    found.push((orbit, set, seating.clone(), maps));
                }
            });
            if found.len() > MOST_GROUPS {
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

/// The least and the most that each program asks for in any of the groups, by traffic.
#[derive(Debug, Clone)]
pub(crate) struct Extremes<S> {
    pub(crate) least: Vec<S>,
    pub(crate) most: Vec<S>,
}

impl<S: Copy> Extremes<S> {
    pub(crate) fn of<C: Contention<Share = S>>(
        stage: &Stage<C>,
        groups: &[Group<S>],
    ) -> Option<Self> {
        let mut least: Vec<Option<S>> = vec![None; stage.programs];
        let mut most: Vec<Option<S>> = vec![None; stage.programs];
        let traffic = |share: &S| stage.contention.traffic(share);
        for group in groups {
            for (&(program, _), share) in group.seating.iter().zip(&group.shares) {
                let low = least[program].get_or_insert(*share);
                if traffic(share) < traffic(low) {
                    *low = *share;
                }
                let high = most[program].get_or_insert(*share);
                if traffic(share) > traffic(high) {
                    *high = *share;
                }
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
    seats: Vec<Seat>,
    shares: Vec<C::Share>,
    slowdowns: Vec<f64>,
}

impl<C: Contention> Default for Bounder<C> {
    fn default() -> Self {
        Self {
            scratch: C::Scratch::default(),
            seats: Vec::new(),
            shares: Vec::new(),
            slowdowns: Vec::new(),
        }
    }
}

impl<C: Contention> Bounder<C> {
    /// Between which slowdowns the seated programs will be, whoever of `others` (a set) joins on
    /// LLCs that nobody of them uses. With `others` empty the spans are exact.
    #[allow(clippy::too_many_arguments)] // One call, four things looked up and one filled in.
    pub(crate) fn spans(
        &mut self,
        stage: &Stage<C>,
        seats: &[Seat],
        shares: &[C::Share],
        others: u32,
        extremes: &Extremes<C::Share>,
        sides: Sides,
        spans: &mut Vec<Span>,
    ) {
        spans.clear();
        let coupling = stage.contention.coupling();
        if others == 0 || coupling == Coupling::Apart {
            self.couple(stage, seats, shares);
            spans.extend(self.slowdowns.iter().map(|&one| Span { floor: one, ceiling: one }));
            return;
        }
        match coupling {
            Coupling::Common => {
                spans.resize(seats.len(), Span { floor: 0.0, ceiling: f64::INFINITY });
                if sides.floor {
                    self.couple_with(stage, seats, shares, others, &extremes.least);
                    for (span, &floor) in spans.iter_mut().zip(&self.slowdowns) {
                        span.floor = floor;
                    }
                }
                if sides.ceiling {
                    self.couple_with(stage, seats, shares, others, &extremes.most);
                    for (span, &ceiling) in spans.iter_mut().zip(&self.slowdowns) {
                        span.ceiling = ceiling;
                    }
                }
            }
            Coupling::Growing => {
                self.couple(stage, seats, shares);
                let floors = self.slowdowns.iter();
                spans.extend(floors.map(|&floor| Span { floor, ceiling: f64::INFINITY }));
            }
            Coupling::Any | Coupling::Apart => {
                for (seat, share) in seats.iter().zip(shares) {
                    self.couple(stage, &[*seat], &[*share]);
                    spans.push(Span { floor: self.slowdowns[0], ceiling: f64::INFINITY });
                }
            }
        }
    }

    pub(crate) fn couple(&mut self, stage: &Stage<C>, seats: &[Seat], shares: &[C::Share]) {
        self.slowdowns.clear();
        stage.contention.couple(seats, shares, &mut self.scratch, &mut self.slowdowns);
    }

    pub(crate) fn slowdowns(&self) -> &[f64] {
        &self.slowdowns
    }

    /// With stand-ins for the others, all in one place, as place does not matter.
    fn couple_with(
        &mut self,
        stage: &Stage<C>,
        seats: &[Seat],
        shares: &[C::Share],
        others: u32,
        stand_ins: &[C::Share],
    ) {
        self.seats.clear();
        self.shares.clear();
        self.seats.extend_from_slice(seats);
        self.shares.extend_from_slice(shares);
        // An LLC of its own, so that they take no hardware thread beside a seated program.
        let is_free = |cpu: &usize| {
            let llc = stage.place_of[*cpu].0;
            seats.iter().all(|seat| stage.place_of[seat.cpu].0 != llc)
        };
        if let Some(cpu) = (0..stage.cpus()).find(is_free) {
            for program in members(others) {
                self.seats.push(Seat { program, cpu });
                self.shares.push(stand_ins[program]);
            }
        }
        self.slowdowns.clear();
        stage.contention.couple(&self.seats, &self.shares, &mut self.scratch, &mut self.slowdowns);
    }
}

/// Fills in the groups' spans.
pub(crate) fn bound<C: Contention>(
    stage: &Stage<C>,
    groups: &mut [Group<C::Share>],
    extremes: &Extremes<C::Share>,
    sides: Sides,
) {
    let all = stage.everybody();
    groups.par_iter_mut().for_each_init(Bounder::<C>::default, |bounder, group| {
        let seats = stage.seats_of(stage.orbits[group.orbit].llcs[0], &group.seating);
        let others = all & !group.set;
        let shares = &group.shares;
        bounder.spans(stage, &seats, shares, others, extremes, sides, &mut group.spans);
    });
}
