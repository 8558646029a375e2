//! The bound by pressure: how long an LLC's lines stay, and how idle its bandwidth domain is.
//!
//! Both are divided into ranges; a range of each is a *cell*. An LLC of any plan lies in a cell. There a thread holds at
//! least some bytes, keeps the domain busy for at least some time, and is no faster than some slowdown, whoever else is
//! there ([`corun_model::Model::least_between`]). The bytes of all threads fit the LLC, their times fit what the cell does
//! not leave idle, and they have CPUs. So the threads of all LLCs in a cell, summed up, fit as many times that room, and
//! cost at least the sum of their least costs: a linear program with a line for each program and each cell. Its dual is
//! solved by prices of the programs: at given prices a cell is a packing with three resources.

use std::sync::Mutex;

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
const ROUGHLY_CLOSE: f64 = 1e-2;
/// How often cells are divided, and how many of each kind of LLC then: those that earn most.
const DIVISIONS: usize = 12;
const DIVIDED: usize = 24;
/// Cells of a kind of LLC, at most.
const MOST_CELLS: usize = 3_000;
/// Divisions end once two of them raise the bound by less than this, as a share of it.
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
        if known.columns.is_empty() {
            known.columns = self.of_one_program(&known.llcs, threads, aim);
        }
        let mut best = Best { proven: 0.0, prices: None };
        let mut risen = [0.0; 2];
        for _ in 0..DIVISIONS {
            self.solve(known, (threads, aim), ROUGHLY_CLOSE, &mut best);
            let enough = risen[0] > 0.0 && best.proven < risen[0] * (1.0 + LEAST_RISE);
            risen = [risen[1], best.proven];
            let Some(prices) = best.prices.as_ref().filter(|_| !enough) else { break };
            if !self.divide(known, ground, (threads, aim), prices) {
                break;
            }
        }
        self.solve(known, (threads, aim), CLOSE, &mut best);
        best.proven
    }

    /// Looks for the prices that prove most with the cells that there are.
    fn solve(&self, known: &mut Known, (threads, aim): (&[f64], Aim), close: f64, best: &mut Best) {
        let Known { llcs, columns } = known;
        let counts: Vec<f64> = llcs.iter().map(|llc| llc.count).collect();
        for _ in 0..MOST_ROUNDS {
            let all = columns.iter().map(|one| one.column.clone());
            let Some((ends, most)) = Prices::best(threads, &counts, all) else { break };
            if most - best.proven <= close * best.proven + 1e-9 {
                break;
            }
            // Half way to the best prices so far the packings tell more than at the far end.
            let half_way = best.prices.as_ref().map(|one| one.half_way_to(&ends));
            let mut added = Vec::new();
            for at in half_way.iter().chain([&ends]) {
                added = self.look(llcs, threads, aim, at, best);
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
    }

    /// Divides the cells that earn most at these prices into four each; false where there are enough.
    fn divide(
        &self,
        known: &mut Known,
        ground: &Ground,
        asked: (&[f64], Aim),
        prices: &Prices,
    ) -> bool {
        let Known { llcs, columns } = known;
        let mut any = false;
        for (at, llc) in llcs.iter_mut().enumerate().filter(|one| one.1.cells.len() < MOST_CELLS) {
            let earns = |cell: &Cell| self.packed((at, &*llc), cell, asked, prices).0;
            let earned: Vec<f64> = llc.cells.par_iter().map(earns).collect();
            let mut order: Vec<usize> = (0..earned.len()).collect();
            order.sort_by(|&a, &b| earned[b].total_cmp(&earned[a]).then(a.cmp(&b)));
            order.truncate(DIVIDED);
            let kind = &ground.kinds[llc.kind];
            let quarters = |&cell: &usize| {
                let (hard, soft) = (llc.cells[cell].hard, llc.cells[cell].soft);
                cells_between(kind, &llc.seats, &self.programs, &quarters(hard, soft))
            };
            let divided: Vec<Option<Vec<Cell>>> = order.par_iter().map(quarters).collect();
            for (cell, parts) in order.into_iter().zip(divided) {
                let Some(mut parts) = parts else { continue };
                let Some(last) = parts.pop() else { continue };
                llc.cells[cell] = last;
                llc.cells.append(&mut parts);
                columns.retain(|one| (one.column.llc, one.cell) != (at, cell));
                any = true;
            }
        }
        any
    }

    /// What these prices prove, and the packings that they pay most.
    fn look(
        &self,
        llcs: &[CellsOfLlc],
        threads: &[f64],
        aim: Aim,
        prices: &Prices,
        best: &mut Best,
    ) -> Vec<PackedCell> {
        let mut proven: f64 =
            threads.iter().zip(&prices.programs).map(|(count, price)| count * price).sum();
        let mut columns = Vec::new();
        for (at, llc) in llcs.iter().enumerate() {
            let packed = |(index, cell): (usize, &Cell)| {
                let (earned, column) = self.packed((at, llc), cell, (threads, aim), prices);
                (earned, PackedCell { cell: index, column })
            };
            let mut found: Vec<(f64, PackedCell)> =
                llc.cells.par_iter().enumerate().map(packed).collect();
            let rent = found.iter().map(|one| one.0).fold(0.0, f64::max);
            proven -= rent * llc.count;
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            columns.extend(found.into_iter().take(ADDED).map(|one| one.1));
        }
        if best.prices.is_none() || proven > best.proven {
            *best = Best { proven: proven.max(best.proven), prices: Some(prices.clone()) };
        }
        columns
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
        Some(Cell { hard, soft, room, least })
    };
    ranges.par_iter().map(cell).collect()
}

/// The four parts of what lies between two pressures.
fn quarters(hard: Pressure, soft: Pressure) -> [(Pressure, Pressure); 4] {
    let life = match (hard.line_life_s, soft.line_life_s) {
        (0.0, most) if most.is_infinite() => 1.0,
        (0.0, most) => most / 4.0,
        (least, most) if most.is_infinite() => least * 4.0,
        (least, most) => (least * most).sqrt(),
    };
    let middle = Pressure { line_life_s: life, idle: (hard.idle + soft.idle) / 2.0 };
    let with = |one: Pressure, other: Pressure| Pressure { line_life_s: one.line_life_s, ..other };
    [
        (hard, middle),
        (with(hard, middle), with(middle, soft)),
        (with(middle, hard), with(soft, middle)),
        (middle, soft),
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
