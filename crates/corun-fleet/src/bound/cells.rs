//! The bound by pressure: how long an LLC's lines stay, and how idle its bandwidth domain is.
//!
//! Both are divided into ranges; a range of each is a *cell*. An LLC of any plan lies in a cell. There a thread holds at
//! least some bytes, keeps the domain busy for at least some time, and is no faster than some slowdown, whoever else is
//! there ([`corun_model::Model::least_between`]). The bytes of all threads fit the LLC, their times fit what the cell does
//! not leave idle, and they have CPUs. So the threads of all LLCs in a cell, summed up, fit as many times that room, and
//! cost at least the sum of their least costs: a linear program with a line for each program and each cell. Its dual is
//! solved by prices of the programs: at given prices a cell is a packing ([`corun_optimal::packing`]).

use std::sync::Mutex;

use corun_app::{Cancel, Result};
use corun_model::{LeastFigures, LoadedProgram, Member, Pressure};
use corun_optimal::packing::{Packing, PackingItem};
use rayon::prelude::*;

use super::groups::LlcKind;
use super::prices::{Column, Prices};
use crate::fleet::Ground;
use crate::kind::NodeKind;
use crate::objective::Objective;

/// Ranges of the life of lines, and of how idle a domain is.
const LIVES: usize = 32;
const IDLE: usize = 24;
/// Cells that one CPU packs at a time.
const PACKED_TOGETHER: usize = 128;
/// Columns that a round adds to the linear program, for each kind of LLC.
const ADDED: usize = 20;
/// Rounds after which the prices are taken as they are.
const MOST_ROUNDS: usize = 200;
/// A packing is new where it is overpaid by this much more than any column.
const LEAST_NEWS: f64 = 1e-9;
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

    /// What an LLC costs of which a node has so many.
    fn of_llc(self, on_a_node: f64) -> f64 {
        match self {
            Self::Cost(_) => 0.0,
            Self::Nodes { .. } => 1.0 / on_a_node,
        }
    }
}

/// The cells of all kinds of LLC.
pub(super) struct Cells {
    programs: Vec<usize>,
    aim: Aim,
    known: Mutex<Known>,
}

/// What earlier bounds left.
struct Known {
    llcs: Vec<CellsOfLlc>,
    /// Columns that decided them.
    columns: Vec<PackedCell>,
}

/// A packing of a cell as a column.
#[derive(Clone, PartialEq)]
struct PackedCell {
    cell: usize,
    column: Column,
}

struct CellsOfLlc {
    /// The kind of node, and the CPUs of the LLC there.
    kind: usize,
    seats: Vec<u32>,
    count: f64,
    /// What one costs in use.
    cost: f64,
    cells: Vec<Cell>,
}

struct Cell {
    /// Its ends: the shorter life of lines with the less idle domain, and the other.
    hard: Pressure,
    soft: Pressure,
    /// What a thread takes of the room at least, by program in the order of [`Cells::programs`], with what it is worth at the
    /// prices that were looked at last.
    items: Vec<PackingItem>,
    /// What a thread costs at least, infinite where it is not allowed.
    costs: Vec<f64>,
    packing: Packing,
}

impl Cell {
    /// Packs what the cell has room for at these prices by program, minus infinity for none, and gives what it earns at most.
    fn pack(&mut self, prices: &[f64]) -> f64 {
        for ((item, cost), price) in self.items.iter_mut().zip(&self.costs).zip(prices) {
            item.worth = price - cost;
        }
        self.packing.improve(&self.items)
    }

    /// What was packed last, on an LLC of this kind and cost. `programs`: of the fleet, of each item.
    fn column(&self, llc: usize, llc_cost: f64, programs: &[usize]) -> Column {
        let amounts = || self.packing.amounts();
        let cost: f64 = amounts().map(|(item, count)| self.costs[item] * count).sum();
        let programs = amounts().map(|(item, count)| (programs[item], count)).collect();
        Column { llc, part: 1.0, programs, cost: llc_cost + cost }
    }
}

/// The best prices so far, and what they prove.
struct Best {
    proven: f64,
    prices: Option<Prices>,
}

impl Cells {
    /// For the programs of which there are any. None where slowdowns on some LLC do not follow from its pressure.
    pub(super) fn new(
        ground: &Ground,
        llcs: &[LlcKind],
        programs: &[usize],
        aim: Aim,
    ) -> Option<Self> {
        let of_llc = |llc: &LlcKind| {
            let (kind, seats) = (llc.kind, llc.seats.clone());
            let cells = cells(&ground.kinds[kind], &seats, programs, aim)?;
            let cost = aim.of_llc(llc.on_a_node);
            Some(CellsOfLlc { kind, seats, count: llc.count, cost, cells })
        };
        let llcs = llcs.iter().map(of_llc).collect::<Option<Vec<_>>>()?;
        let known = Mutex::new(Known { llcs, columns: Vec::new() });
        Some(Self { programs: programs.to_vec(), aim, known })
    }

    /// The least that so many threads of each program cost, or a value below it.
    ///
    /// # Errors
    /// The caller wants to stop.
    pub(super) fn least(&self, ground: &Ground, threads: &[f64], cancel: &Cancel) -> Result<f64> {
        let Ok(mut known) = self.known.lock() else { return Ok(0.0) };
        let known = &mut *known;
        if known.columns.is_empty() {
            known.columns = self.of_one_program(&known.llcs, threads);
        }
        let mut best = Best { proven: 0.0, prices: None };
        let mut risen = [0.0; 2];
        for _ in 0..DIVISIONS {
            let last = self.solve(known, threads, (ROUGHLY_CLOSE, cancel), &mut best)?;
            let enough = risen[0] > 0.0 && best.proven < risen[0] * (1.0 + LEAST_RISE);
            risen = [risen[1], best.proven];
            let Some(prices) = last.filter(|_| !enough) else { break };
            if !self.divide(known, ground, threads, &prices) {
                break;
            }
        }
        self.solve(known, threads, (CLOSE, cancel), &mut best)?;
        Ok(best.proven)
    }

    /// Looks for the prices that prove most with the cells that there are. Gives the last prices, at which the columns that
    /// decide pay for themselves.
    fn solve(
        &self,
        known: &mut Known,
        threads: &[f64],
        (close, cancel): (f64, &Cancel),
        best: &mut Best,
    ) -> Result<Option<Prices>> {
        let counts: Vec<f64> = known.llcs.iter().map(|llc| llc.count).collect();
        let mut last = None;
        // Since cells were divided the best prices so far may prove more.
        if let Some(prices) = best.prices.clone() {
            let mut found = self.look(&mut known.llcs, threads, &prices, best);
            found.retain(|one| !known.columns.contains(one));
            known.columns.append(&mut found);
        }
        for _ in 0..MOST_ROUNDS {
            cancel.check()?;
            let all = known.columns.iter().map(|one| one.column.clone());
            let Some((ends, most)) = Prices::best(threads, &counts, all) else { break };
            let ends = &*last.insert(ends);
            if most - best.proven <= close * best.proven + 1e-9 {
                break;
            }
            let mut news = self.news(known, threads, ends, best);
            if news.is_empty() {
                break;
            }
            known.columns.retain(|one| ends.overpaid(&one.column) > -NEAR_DECISION);
            known.columns.append(&mut news);
        }
        Ok(last)
    }

    /// Packings that these prices overpay more than any column.
    fn news(
        &self,
        known: &mut Known,
        threads: &[f64],
        ends: &Prices,
        best: &mut Best,
    ) -> Vec<PackedCell> {
        // The solver meets columns to a tolerance of its own. What is overpaid no more than they are may be one of them, and
        // would come back each round.
        let columns = known.columns.iter().map(|one| ends.overpaid(&one.column));
        let least = columns.fold(0.0, f64::max) + LEAST_NEWS;
        // Half way to the best prices so far the packings tell more than at the far end.
        let half_way = best.prices.as_ref().map(|one| one.half_way_to(ends));
        for at in half_way.iter().chain([ends]) {
            let mut found = self.look(&mut known.llcs, threads, at, best);
            found.retain(|one| ends.overpaid(&one.column) > least);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Divides the cells that earn most at these prices into four each; false where there are enough.
    fn divide(&self, known: &mut Known, ground: &Ground, threads: &[f64], prices: &Prices) -> bool {
        let Known { llcs, columns } = known;
        let paid = self.paid(threads, prices);
        let mut any = false;
        for (at, llc) in llcs.iter_mut().enumerate().filter(|one| one.1.cells.len() < MOST_CELLS) {
            let mut order = llc.earned(&paid);
            order.truncate(DIVIDED);
            let kind = &ground.kinds[llc.kind];
            let quarters = |&(_, cell): &(f64, usize)| {
                let (hard, soft) = (llc.cells[cell].hard, llc.cells[cell].soft);
                let parts = quarters(hard, soft);
                cells_between(kind, &llc.seats, &self.programs, self.aim, &parts)
            };
            let divided: Vec<Option<Vec<Cell>>> = order.par_iter().map(quarters).collect();
            for ((_, cell), parts) in order.into_iter().zip(divided) {
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
        llcs: &mut [CellsOfLlc],
        threads: &[f64],
        prices: &Prices,
        best: &mut Best,
    ) -> Vec<PackedCell> {
        let mut proven: f64 =
            threads.iter().zip(&prices.programs).map(|(count, price)| count * price).sum();
        let paid = self.paid(threads, prices);
        let mut columns = Vec::new();
        for (at, llc) in llcs.iter_mut().enumerate() {
            let found = llc.earned(&paid);
            let rent = found.first().map_or(0.0, |one| (one.0 - llc.cost).max(0.0));
            proven -= rent * llc.count;
            columns.extend(found.iter().take(ADDED).map(|&(_, cell)| {
                let column = llc.cells[cell].column(at, llc.cost, &self.programs);
                PackedCell { cell, column }
            }));
        }
        if best.prices.is_none() || proven > best.proven {
            *best = Best { proven: proven.max(best.proven), prices: Some(prices.clone()) };
        }
        columns
    }

    /// The prices of the programs of cells; minus infinity of those of which there is none.
    fn paid(&self, threads: &[f64], prices: &Prices) -> Vec<f64> {
        let of = |&program: &usize| {
            if threads[program] > 0.0 { prices.programs[program] } else { f64::NEG_INFINITY }
        };
        self.programs.iter().map(of).collect()
    }

    /// LLCs with one program alone: where the search for prices begins.
    fn of_one_program(&self, llcs: &[CellsOfLlc], threads: &[f64]) -> Vec<PackedCell> {
        let mut columns = Vec::new();
        for (at, llc) in llcs.iter().enumerate() {
            for (index, &program) in self.programs.iter().enumerate() {
                let alone = |(cell, of): (usize, &Cell)| {
                    let count = of.items[index].most();
                    (of.costs[index].is_finite()).then(|| (count, of.costs[index] * count, cell))
                };
                let found = llc.cells.iter().enumerate().filter_map(alone);
                let best = found.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
                if let Some((count, cost, cell)) = best.filter(|_| threads[program] > 0.0) {
                    let (programs, cost) = (vec![(program, count)], cost + llc.cost);
                    let column = Column { llc: at, part: 1.0, programs, cost };
                    columns.push(PackedCell { cell, column });
                }
            }
        }
        columns
    }
}

impl CellsOfLlc {
    /// What each cell earns at most at these prices, the most first, and which cell.
    fn earned(&mut self, paid: &[f64]) -> Vec<(f64, usize)> {
        let earned = |(index, cell): (usize, &mut Cell)| (cell.pack(paid), index);
        let cells = self.cells.par_iter_mut().with_min_len(PACKED_TOGETHER).enumerate();
        let mut found: Vec<(f64, usize)> = cells.map(earned).collect();
        found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found
    }
}

/// The cells of an LLC; none where slowdowns do not follow from its pressure.
fn cells(kind: &NodeKind, seats: &[u32], programs: &[usize], aim: Aim) -> Option<Vec<Cell>> {
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
    cells_between(kind, seats, programs, aim, &ranges)
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
    aim: Aim,
    ranges: &[(Pressure, Pressure)],
) -> Option<Vec<Cell>> {
    let model = kind.model();
    let members = members(kind, seats, programs);
    let (capacity, cpus) = (model.llc_bytes(seats[0] as usize), seats.len() as f64);
    let cell = |&(hard, soft): &(Pressure, Pressure)| {
        let least = |member: &Member<'_>| model.least_between(member, hard, soft);
        let least: Vec<LeastFigures> = members.iter().map(least).collect::<Option<_>>()?;
        let busy_at_most = 1.0 - hard.idle + SLACK;
        let (mut items, mut costs) = (Vec::new(), Vec::new());
        for one in least {
            let bytes = one.bytes / (capacity * (1.0 + SLACK));
            let item = PackingItem::of_thread([bytes, one.busy / busy_at_most, 1.0 / cpus]);
            let cost = aim.of_thread(one.slowdown).filter(|_| item.is_some());
            items.push(item.unwrap_or(PackingItem::NEVER));
            costs.push(cost.unwrap_or(f64::INFINITY));
        }
        Some(Cell { hard, soft, items, costs, packing: Packing::empty() })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use corun_app::Error;
    use corun_machine::preset;
    use corun_model::ModelOptions;
    use corun_profile::{Library, Profile};

    use super::super::groups::of_kind;
    use super::*;
    use crate::kind::Seats;

    /// Two nodes of which the cells have next to no cost: threads of each program.
    const NEARLY_FREE: [(&str, f64); 4] =
        [("cc1", 1.0), ("graphviz", 6.0), ("kernel-stencil", 4.0), ("lemon", 1.0)];

    fn nearly_free() -> (Ground, Cells, Vec<f64>) {
        let profiles: Vec<Profile> = Library::shipped().unwrap().iter().cloned().collect();
        let machine = preset("xeon-x5365").unwrap();
        let options = ModelOptions::default();
        let kind = NodeKind::new(machine, &profiles, Seats::Cores, None, options).unwrap();
        let names: Vec<String> = profiles.into_iter().map(|one| one.name).collect();
        let threads = |name: &String| NEARLY_FREE.iter().find(|one| one.0 == name);
        let threads = names.iter().map(|name| threads(name).map_or(0.0, |one| one.1)).collect();
        let programs: Vec<usize> = (0..names.len()).collect();
        let (shares, objective) = (vec![1.0; names.len()], Objective::LostWork);
        let llcs = of_kind((0, &kind), 2, &programs);
        let ground = Ground::new(vec![kind], names, Vec::new(), &shares, objective, f64::INFINITY);
        let cells = Cells::new(&ground, &llcs, &programs, Aim::Cost(objective)).unwrap();
        (ground, cells, threads)
    }

    #[test]
    fn a_packing_that_is_known_is_not_taken_for_a_new_one() {
        let (ground, cells, threads) = nearly_free();
        let least = cells.least(&ground, &threads, &Cancel::default()).unwrap();
        let columns = &cells.known.lock().unwrap().columns;
        // Each round adds one at least, and none is worth enough to be dropped.
        assert!(columns.len() < 1000, "{} columns", columns.len());
        for (at, one) in columns.iter().enumerate() {
            assert!(!columns[..at].contains(one), "column {at} of cell {} twice", one.cell);
        }
        assert!(least > 0.0, "{least}");
    }

    #[test]
    fn who_wants_to_stop_waits_for_no_round() {
        let (ground, cells, threads) = nearly_free();
        let cancel = Cancel::default();
        cancel.flag().store(true, Ordering::SeqCst);
        let stopped = cells.least(&ground, &threads, &cancel);
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    }
}
