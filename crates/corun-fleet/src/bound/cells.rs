//! The bound by pressure: how long an LLC's lines stay, and how idle its bandwidth domain is.
//!
//! Both are divided into ranges; a range of each is a *cell*. An LLC of any plan lies in a cell. There a thread holds at
//! least some bytes, keeps the domain busy for at least some time, and is no faster than some slowdown, whoever else is
//! there ([`corun_model::Model::least_between`]). The bytes of all threads fit the LLC, their times fit what the cell does
//! not leave idle, and they have CPUs. So the threads of all LLCs in a cell, summed up, fit as many times that room, and
//! cost at least the sum of their least costs: a linear program with a line for each program and each cell. Its dual is
//! solved by prices of the programs: at given prices a cell is a packing with three resources.

use std::sync::{Arc, Mutex};

use corun_model::{LeastFigures, LoadedProgram, Member, Pressure};
use rayon::prelude::*;

use super::groups::LlcKind;
use super::packing::{Item, RESOURCES, pack};
use super::prices::{Column, Prices};
use crate::fleet::Ground;
use crate::kind::NodeKind;
use crate::objective::Objective;

/// Ranges of the life of lines, and of how idle a domain is.
const LIVES: usize = 32;
const IDLE: usize = 24;
/// Columns that a round adds to the linear program, for each kind of LLC.
const ADDED: usize = 20;
/// Rounds after which the prices are taken as they are.
const MOST_ROUNDS: usize = 200;
/// A column that is paid less than it costs by more than this decides nothing.
const NEAR_DECISION: f64 = 0.1;
/// A bound this near to what the columns so far allow, as a share of it, is near enough.
const CLOSE: f64 = 2e-3;
/// The same while cells are still to be divided.
const ROUGHLY_CLOSE: f64 = 5e-3;
/// How often cells are divided, at prices that were found for the cells before. Then so many times so many of each kind of LLC:
/// those that earn most.
const DIVISIONS: usize = 16;
/// The same for later bounds, which begin with the cells of those before.
const LATER_DIVISIONS: usize = 2;
const PASSES: usize = 4;
const DIVIDED: usize = 32;
/// Cells of a kind of LLC, at most.
const MOST_CELLS: usize = 6_000;
/// Cells that are looked at together.
const TOGETHER: usize = 64;
/// Divisions end once three of them raise the bound by less than this, as a share of it.
const LEAST_RISE: f64 = 5e-3;
/// Room beyond what there is, as a share of it, for what the model's own solutions leave open.
const SLACK: f64 = 1e-6;

/// What is least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Aim {
    /// What the threads cost.
    Cost(Objective),
    /// Parts of nodes, with no thread slower than this.
    Nodes { slowest: f64 },
}

impl Aim {
    /// What a thread costs; none where it is not allowed.
    fn of_thread(self, slowdown: f64) -> Option<f64> {
        match self {
            Self::Cost(objective) => Some(objective.thread_cost(slowdown.max(1.0))),
            Self::Nodes { slowest } => (slowdown <= slowest).then_some(0.0),
        }
    }

    fn of_llc(self, llc: &CellsOfLlc) -> f64 {
        match self {
            Self::Cost(_) => 0.0,
            Self::Nodes { .. } => 1.0 / llc.on_a_node,
        }
    }
}

/// The cells of all kinds of LLC.
pub(super) struct Cells {
    programs: Vec<usize>,
    known: Mutex<Known>,
}

/// What earlier bounds left.
struct Known {
    llcs: Vec<CellsOfLlc>,
    /// Columns that decided them.
    columns: Vec<PackedCell>,
}

/// A packing of a cell as a column.
#[derive(Clone)]
struct PackedCell {
    cell: usize,
    column: Column,
}

struct CellsOfLlc {
    /// The kind of node, and the CPUs of the LLC there.
    kind: usize,
    seats: Vec<u32>,
    count: f64,
    on_a_node: f64,
    cells: Vec<Cell>,
}

struct Cell {
    /// Its ends: the shorter life of lines with the less idle domain, and the other.
    hard: Pressure,
    soft: Pressure,
    room: [f64; RESOURCES],
    /// By program, in the order of [`Cells::programs`].
    least: Vec<Least>,
    earned: Option<Earned>,
}

/// What an LLC in a cell earned at most when that was last computed, and the prices of then.
#[derive(Clone)]
struct Earned {
    most: f64,
    at: Arc<[f64]>,
}

/// What a thread takes of a cell's room, and how slow it is, at least.
#[derive(Clone, Copy)]
struct Least {
    takes: [f64; RESOURCES],
    slowdown: f64,
}

/// The best prices so far, and what they prove.
struct Best {
    proven: f64,
    prices: Option<Prices>,
}

impl Cells {
    /// For the programs of which there are any. None where slowdowns on some LLC do not follow from its pressure.
    pub(super) fn new(ground: &Ground, llcs: &[LlcKind], programs: &[usize]) -> Option<Self> {
        let of_llc = |llc: &LlcKind| {
            let (kind, seats) = (llc.kind, llc.seats.clone());
            let cells = cells(&ground.kinds[kind], &seats, programs)?;
            let (count, on_a_node) = (llc.count, llc.on_a_node);
            Some(CellsOfLlc { kind, seats, count, on_a_node, cells })
        };
        let llcs = llcs.iter().map(of_llc).collect::<Option<Vec<_>>>()?;
        let known = Mutex::new(Known { llcs, columns: Vec::new() });
        Some(Self { programs: programs.to_vec(), known })
    }

    /// The least that so many threads of each program cost, or a value below it. All calls have the same aim.
    pub(super) fn least(&self, ground: &Ground, threads: &[f64], aim: Aim) -> f64 {
        let Ok(mut known) = self.known.lock() else { return 0.0 };
        let known = &mut *known;
        // Others had other programs.
        known.llcs.iter_mut().flat_map(|llc| &mut llc.cells).for_each(|cell| cell.earned = None);
        let is_first = known.columns.is_empty();
        if is_first {
            known.columns = self.of_one_program(&known.llcs, threads, aim);
        }
        let mut best = Best { proven: 0.0, prices: None };
        let mut risen = [0.0; 3];
        for _ in 0..if is_first { DIVISIONS } else { LATER_DIVISIONS } {
            let last = self.solve(known, (threads, aim), ROUGHLY_CLOSE, &mut best);
            let enough = risen[0] > 0.0 && best.proven < risen[0] * (1.0 + LEAST_RISE);
            risen = [risen[1], risen[2], best.proven];
            let Some(prices) = last.filter(|_| !enough) else { break };
            if !self.divide(known, ground, (threads, aim), &prices) {
                break;
            }
        }
        self.solve(known, (threads, aim), CLOSE, &mut best);
        best.proven
    }

    /// Looks for the prices that prove most with the cells that there are. Gives the last prices, by which the columns that
    /// decide pay for themselves.
    fn solve(
        &self,
        known: &mut Known,
        (threads, aim): (&[f64], Aim),
        close: f64,
        best: &mut Best,
    ) -> Option<Prices> {
        let Known { llcs, columns } = known;
        let counts: Vec<f64> = llcs.iter().map(|llc| llc.count).collect();
        let mut last = None;
        // Since cells were divided the best prices so far may prove more.
        if let Some(prices) = best.prices.clone() {
            columns.extend(self.look(llcs, (threads, aim), &prices, best));
        }
        for _ in 0..MOST_ROUNDS {
            let all = columns.iter().map(|one| one.column.clone());
            let Some((ends, most)) = Prices::best(threads, &counts, all) else { break };
            let ends = &*last.insert(ends);
            if most - best.proven <= close * best.proven + 1e-9 {
                break;
            }
            // Half way to the best prices so far the packings tell more than at the far end.
            let half_way = best.prices.as_ref().map(|one| one.half_way_to(ends));
            let mut added = Vec::new();
            for at in half_way.iter().chain([ends]) {
                added = self.look(llcs, (threads, aim), at, best);
                added.retain(|one| ends.overpaid(&one.column) > 1e-9);
                if !added.is_empty() {
                    break;
                }
            }
            if added.is_empty() {
                break;
            }
            columns.retain(|one| ends.overpaid(&one.column) > -NEAR_DECISION);
            columns.append(&mut added);
        }
        last
    }

    /// Divides the cells that earn most at these prices; false where there are enough.
    fn divide(
        &self,
        known: &mut Known,
        ground: &Ground,
        asked: (&[f64], Aim),
        prices: &Prices,
    ) -> bool {
        let Known { llcs, columns } = known;
        let mut any = false;
        for (at, llc) in llcs.iter_mut().enumerate() {
            for _ in 0..PASSES {
                if llc.cells.len() >= MOST_CELLS {
                    break;
                }
                let most = self.earn_most((at, &mut *llc), asked, prices, DIVIDED);
                let kind = &ground.kinds[llc.kind];
                let halves = |one: &(f64, PackedCell)| {
                    let cell = one.1.cell;
                    Some((cell, self.halves((at, &*llc), cell, kind, asked, prices)?))
                };
                let divided: Vec<Option<(usize, [Cell; 2])>> =
                    most.par_iter().map(halves).collect();
                for (cell, [one, other]) in divided.into_iter().flatten() {
                    llc.cells[cell] = one;
                    llc.cells.push(other);
                    columns.retain(|one| (one.column.llc, one.cell) != (at, cell));
                    any = true;
                }
            }
        }
        any
    }

    /// The two halves of a cell, by life or by idle time: whichever leaves less for the half that earns more.
    fn halves(
        &self,
        llc: (usize, &CellsOfLlc),
        cell: usize,
        kind: &NodeKind,
        asked: (&[f64], Aim),
        prices: &Prices,
    ) -> Option<[Cell; 2]> {
        let Cell { hard, soft, .. } = llc.1.cells[cell];
        let at: Arc<[f64]> = prices.programs.as_slice().into();
        let ways = by_life_and_by_idle(hard, soft).map(|ranges| {
            let mut parts = cells_between(kind, &llc.1.seats, &self.programs, &ranges)?;
            for part in &mut parts {
                let most = self.packed(llc, part, asked, prices).0;
                part.earned = Some(Earned { most, at: at.clone() });
            }
            let earned = parts.iter().filter_map(|part| Some(part.earned.as_ref()?.most));
            let most = earned.fold(f64::NEG_INFINITY, f64::max);
            Some((most, <[Cell; 2]>::try_from(parts).ok()?))
        });
        let [by_life, by_idle] = ways;
        let (by_life, by_idle) = (by_life?, by_idle?);
        Some(if by_life.0 <= by_idle.0 { by_life.1 } else { by_idle.1 })
    }

    /// What these prices prove, and the packings that they pay most.
    fn look(
        &self,
        llcs: &mut [CellsOfLlc],
        asked: (&[f64], Aim),
        prices: &Prices,
        best: &mut Best,
    ) -> Vec<PackedCell> {
        let mut proven: f64 =
            asked.0.iter().zip(&prices.programs).map(|(count, price)| count * price).sum();
        let mut columns = Vec::new();
        for (at, llc) in llcs.iter_mut().enumerate() {
            let found = self.earn_most((at, &mut *llc), asked, prices, ADDED);
            let rent = found.first().map_or(0.0, |one| one.0.max(0.0));
            proven -= rent * llc.count;
            columns.extend(found.into_iter().map(|one| one.1));
        }
        if best.prices.is_none() || proven > best.proven {
            *best = Best { proven: proven.max(best.proven), prices: Some(prices.clone()) };
        }
        columns
    }

    /// The cells that earn most at these prices, so many, those that earn more first. Others are not packed anew where they
    /// cannot earn as much: by what prices rose since, times the CPUs of an LLC, a cell earns more at most.
    fn earn_most(
        &self,
        (at, llc): (usize, &mut CellsOfLlc),
        asked: (&[f64], Aim),
        prices: &Prices,
        wanted: usize,
    ) -> Vec<(f64, PackedCell)> {
        let now: Arc<[f64]> = prices.programs.as_slice().into();
        let mut order = self.may_earn(llc, asked.0, &now);
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut found: Vec<(f64, PackedCell)> = Vec::new();
        for some in order.chunks(TOGETHER) {
            if found.len() >= wanted && found[wanted - 1].0 >= some[0].0 {
                break;
            }
            let packed = |&(_, cell): &(f64, usize)| {
                let (most, column) = self.packed((at, &*llc), &llc.cells[cell], asked, prices);
                (most, PackedCell { cell, column })
            };
            let packed: Vec<(f64, PackedCell)> = some.par_iter().map(packed).collect();
            for (most, one) in &packed {
                llc.cells[one.cell].earned = Some(Earned { most: *most, at: now.clone() });
            }
            found.extend(packed);
            found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cell.cmp(&b.1.cell)));
        }
        found.truncate(wanted);
        found
    }

    /// What each cell may earn at most at these prices, by what it earned at others; and which cell.
    fn may_earn(&self, llc: &CellsOfLlc, threads: &[f64], now: &[f64]) -> Vec<(f64, usize)> {
        let cpus = llc.seats.len() as f64;
        let present = || self.programs.iter().filter(|&&program| threads[program] > 0.0);
        // Cells that were looked at together have the same prices.
        let mut last: Option<(&Arc<[f64]>, f64)> = None;
        let mut found = Vec::with_capacity(llc.cells.len());
        for (index, cell) in llc.cells.iter().enumerate() {
            let Some(Earned { most, at }) = &cell.earned else {
                found.push((f64::INFINITY, index));
                continue;
            };
            let rise = match last {
                Some((known, rise)) if Arc::ptr_eq(known, at) => rise,
                _ => present().map(|&program| now[program] - at[program]).fold(0.0, f64::max),
            };
            last = Some((at, rise));
            found.push((most + cpus * rise, index));
        }
        found
    }

    /// What an LLC in a cell earns at most at these prices, and with whom.
    fn packed(
        &self,
        (at, llc): (usize, &CellsOfLlc),
        cell: &Cell,
        (threads, aim): (&[f64], Aim),
        prices: &Prices,
    ) -> (f64, Column) {
        let there = self.programs.iter().zip(&cell.least).filter(|one| threads[*one.0] > 0.0);
        let own: Vec<(usize, &Least, f64)> = there
            .filter_map(|(&program, least)| Some((program, least, aim.of_thread(least.slowdown)?)))
            .collect();
        let item = |&(program, least, cost): &(usize, &Least, f64)| Item {
            worth: prices.programs[program] - cost,
            takes: least.takes,
        };
        let items: Vec<Item> = own.iter().map(item).collect();
        let packing = pack(&items, cell.room);
        let base = aim.of_llc(llc);
        let cost: f64 = packing.amounts.iter().map(|&(item, count)| own[item].2 * count).sum();
        let programs = packing.amounts.iter().map(|&(item, count)| (own[item].0, count)).collect();
        (packing.most - base, Column { llc: at, part: 1.0, programs, cost: base + cost })
    }

    /// LLCs with one program alone: where the search for prices begins.
    fn of_one_program(&self, llcs: &[CellsOfLlc], threads: &[f64], aim: Aim) -> Vec<PackedCell> {
        let mut columns = Vec::new();
        for (at, llc) in llcs.iter().enumerate() {
            for (index, &program) in self.programs.iter().enumerate() {
                let alone = |(cell, of): (usize, &Cell)| {
                    let Least { takes, slowdown } = of.least[index];
                    let each = of.room.iter().zip(takes).map(|(room, takes)| room / takes);
                    let count = each.fold(f64::INFINITY, f64::min);
                    Some((count, aim.of_thread(slowdown)? * count, cell))
                };
                let found = llc.cells.iter().enumerate().filter_map(alone);
                let best = found.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
                if let Some((count, cost, cell)) = best.filter(|_| threads[program] > 0.0) {
                    let (programs, cost) = (vec![(program, count)], cost + aim.of_llc(llc));
                    let column = Column { llc: at, part: 1.0, programs, cost };
                    columns.push(PackedCell { cell, column });
                }
            }
        }
        columns
    }
}

/// The cells of an LLC; none where slowdowns do not follow from its pressure.
fn cells(kind: &NodeKind, seats: &[u32], programs: &[usize]) -> Option<Vec<Cell>> {
    let model = kind.model();
    let core_type = |cpu: u32| kind.machine().cpus()[cpu as usize].core_type;
    let alike = seats.iter().all(|&cpu| core_type(cpu) == core_type(seats[0]));
    if !alike || !model.is_told_by_pressure() {
        return None;
    }
    let members = members(kind, seats, programs);
    let lives = lives(members.iter().flat_map(|member| model.line_lives_s(member)).copied());
    let of =
        |line_life_s: f64, step: usize| Pressure { line_life_s, idle: step as f64 / IDLE as f64 };
    let ranges: Vec<(Pressure, Pressure)> = lives
        .windows(2)
        .flat_map(|life| (0..IDLE).map(move |step| (of(life[0], step), of(life[1], step + 1))))
        .collect();
    cells_between(kind, seats, programs, &ranges)
}

fn members<'a>(kind: &'a NodeKind, seats: &[u32], programs: &[usize]) -> Vec<Member<'a>> {
    let member = |&program: &usize| Member {
        program: kind.program(program),
        phase: LoadedProgram::WHOLE,
        cpu: seats[0] as usize,
    };
    programs.iter().map(member).collect()
}

/// The cells of an LLC between these pressures.
fn cells_between(
    kind: &NodeKind,
    seats: &[u32],
    programs: &[usize],
    ranges: &[(Pressure, Pressure)],
) -> Option<Vec<Cell>> {
    let model = kind.model();
    let members = members(kind, seats, programs);
    let capacity = model.llc_bytes(seats[0] as usize);
    let cell = |&(hard, soft): &(Pressure, Pressure)| {
        let least = |member: &Member<'_>| {
            let LeastFigures { bytes, busy, slowdown } = model.least_between(member, hard, soft)?;
            Some(Least { takes: [bytes / capacity, busy, 1.0], slowdown })
        };
        let least = members.iter().map(least).collect::<Option<Vec<_>>>()?;
        let room = [1.0 + SLACK, 1.0 - hard.idle + SLACK, seats.len() as f64];
        Some(Cell { hard, soft, room, least, earned: None })
    };
    ranges.par_iter().map(cell).collect()
}

/// What lies between two pressures, halved by the life of lines and by the idle time.
fn by_life_and_by_idle(hard: Pressure, soft: Pressure) -> [[(Pressure, Pressure); 2]; 2] {
    let line_life_s = match (hard.line_life_s, soft.line_life_s) {
        (0.0, most) if most.is_infinite() => 1.0,
        (0.0, most) => most / 4.0,
        (least, most) if most.is_infinite() => least * 4.0,
        (least, most) => (least * most).sqrt(),
    };
    let idle = (hard.idle + soft.idle) / 2.0;
    [
        [(hard, Pressure { line_life_s, ..soft }), (Pressure { line_life_s, ..hard }, soft)],
        [(hard, Pressure { idle, ..soft }), (Pressure { idle, ..hard }, soft)],
    ]
}

/// Where the ranges of the life of lines begin and end, from none to for ever: with as many of the times at which
/// programs' tables bend in each.
fn lives(bends: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut bends: Vec<f64> = bends.filter(|one| *one > 0.0 && one.is_finite()).collect();
    bends.sort_by(f64::total_cmp);
    let of = |part: usize| bends[part * (bends.len() - 1) / (LIVES - 2)];
    let inner = (0..if bends.is_empty() { 0 } else { LIVES - 1 }).map(of);
    let mut all: Vec<f64> = [0.0].into_iter().chain(inner).chain([f64::INFINITY]).collect();
    all.dedup();
    all
}
