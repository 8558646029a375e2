//! A program of a placement from near.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use corun_metrics as metrics;
use corun_model::{CAUSES, Outcome, WaysFigures};
use serde::Serialize;

use super::{DIGITS, Layout};
use crate::scenario::Scenario;
use crate::{Error, Result, check, round};

/// Most programs of which each is left out once to see whom it slows down.
const MOST_CULPRITS: usize = 96;

/// A program of a layout from near.
#[derive(Debug, Serialize)]
pub struct ProgramDetails {
    /// The program's name.
    pub app: String,
    /// The program alone on its CPU with each number of the LLC's ways, from 1.
    pub by_ways: Vec<WaysEntry>,
    /// Cycles an instruction by cause, at what the program holds now; the last cause is waiting for others.
    /// They sum to `1 / ipc`.
    pub cycles: Vec<CauseEntry>,
    /// Who slows the program down, the worst first; none where there are too many programs to leave each
    /// out once.
    pub slowed_by: Option<Vec<Culprit>>,
    /// What moves of this program would give, the best first. One free CPU stands for all that differ from it in
    /// nothing that the model knows. A free CPU under a divided LLC is left out: the program would have no ways.
    pub moves: Vec<MoveEntry>,
}

/// A program alone with some ways.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WaysEntry {
    /// Ways of the LLC.
    pub ways: u32,
    /// What the program holds of them.
    pub llc_occupancy_bytes: u64,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: f64,
    /// Speed with all ways / speed with these.
    pub slowdown: f64,
}

/// Cycles of a cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseEntry {
    /// The cause's name, as `corun profiles show --core` prints it, or `others`.
    pub cause: &'static str,
    /// Cycles an instruction.
    pub cycles_per_instruction: f64,
}

/// A program that slows another one down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Culprit {
    /// Its place in the list of programs.
    pub program: usize,
    /// Slowdown beside this program / slowdown if this program were gone.
    pub factor: f64,
}

/// What a move would give.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MoveEntry {
    /// The CPU, the machine's own number.
    pub cpu: u32,
    /// The program with which this one changes places; none where the CPU is free.
    pub with: Option<usize>,
    /// The program's slowdown after the move.
    pub slowdown: f64,
    /// The mean slowdown of all programs after the move.
    pub antt: f64,
}

impl Scenario {
    /// A program of a layout from near.
    ///
    /// # Errors
    /// No such program; masks that [`Layout`] does not allow; [`Error::Interrupted`] when the caller wants to stop.
    pub fn details(
        &self,
        layout: &Layout,
        program: usize,
        stop: &AtomicBool,
    ) -> Result<ProgramDetails> {
        let Some(&cpu) = layout.cpus.get(program) else {
            let message = format!("no program has the number {program}");
            return Err(Error::input(message));
        };
        let outcomes = self.outcomes(layout)?;
        let figures = self.model.by_ways(&self.programs[program], cpu);
        let entry = |one: &WaysFigures| WaysEntry {
            ways: one.ways,
            llc_occupancy_bytes: one.occupancy_bytes.round() as u64,
            llc_mpki: round(one.llc_mpki, DIGITS),
            slowdown: round(one.slowdown, DIGITS),
        };
        Ok(ProgramDetails {
            app: self.names[program].clone(),
            by_ways: figures.iter().map(entry).collect(),
            cycles: cycles(&figures, &outcomes[program]),
            slowed_by: self.culprits(layout, &outcomes, program, stop)?,
            moves: self.moves(layout, program, stop)?,
        })
    }

    fn culprits(
        &self,
        layout: &Layout,
        outcomes: &[Outcome],
        program: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Culprit>>> {
        if layout.cpus.len() > MOST_CULPRITS {
            return Ok(None);
        }
        let mut found = Vec::new();
        for other in (0..layout.cpus.len()).filter(|&other| other != program) {
            check(stop)?;
            let left = |one: &usize| *one != other;
            let kept: Vec<usize> = (0..layout.cpus.len()).filter(left).collect();
            let without = self.only(&kept);
            let cpus = kept.iter().map(|&one| layout.cpus[one]).collect();
            let masks = if layout.masks.is_empty() {
                Vec::new()
            } else {
                kept.iter().map(|&one| layout.masks[one]).collect()
            };
            let gone = without.outcomes(&Layout { cpus, masks })?;
            let place = if other < program { program - 1 } else { program };
            let factor = outcomes[program].slowdown / gone[place].slowdown;
            found.push(Culprit { program: other, factor: round(factor, DIGITS) });
        }
        found.sort_by(|one, other| other.factor.total_cmp(&one.factor));
        Ok(Some(found))
    }

    /// The same with these programs alone.
    fn only(&self, programs: &[usize]) -> Self {
        Self {
            model: self.model.clone(),
            names: programs.iter().map(|&one| self.names[one].clone()).collect(),
            profiles: Vec::new(),
            programs: programs.iter().map(|&one| self.programs[one].clone()).collect(),
        }
    }

    /// A CPU stands for all free ones that differ from it in nothing that the model knows: same kind of core,
    /// same LLC, as many busy threads on the core.
    fn moves(&self, layout: &Layout, program: usize, stop: &AtomicBool) -> Result<Vec<MoveEntry>> {
        let machine = self.machine();
        let mut on_cpu: BTreeMap<usize, usize> = BTreeMap::new();
        for (one, &cpu) in layout.cpus.iter().enumerate() {
            on_cpu.insert(cpu, one);
        }
        let mut seen = Vec::new();
        let mut moves = Vec::new();
        for cpu in (0..machine.cpus().len()).filter(|&cpu| cpu != layout.cpus[program]) {
            check(stop)?;
            let with = on_cpu.get(&cpu).copied();
            if with.is_none() {
                let at = &machine.cpus()[cpu];
                let core = |other: &usize| machine.cpus()[*other].core == at.core;
                let busy = on_cpu.keys().filter(|other| core(other)).count();
                // A busy core is like no other one: its threads run different programs.
                let class = (at.core_type, at.llc, (busy > 0).then_some(at.core));
                if seen.contains(&class) {
                    continue;
                }
                seen.push(class);
            }
            let Some(moved) = self.moved(layout, program, cpu, with) else { continue };
            let Ok(outcomes) = self.outcomes(&moved) else { continue };
            let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
            let Some(antt) = metrics::antt(&slowdowns) else { continue };
            moves.push(MoveEntry {
                cpu: machine.cpus()[cpu].id.0,
                with,
                slowdown: round(slowdowns[program], DIGITS),
                antt: round(antt, DIGITS),
            });
        }
        moves.sort_by(|one, other| one.antt.total_cmp(&other.antt).then(one.cpu.cmp(&other.cpu)));
        Ok(moves)
    }

    /// The layout after a move. Ways belong to places: who comes to an LLC that is divided takes the ways of
    /// the program whose place it takes; none where the CPU is free and its LLC is divided.
    fn moved(
        &self,
        layout: &Layout,
        program: usize,
        cpu: usize,
        with: Option<usize>,
    ) -> Option<Layout> {
        let mut moved = layout.clone();
        moved.cpus[program] = cpu;
        if let Some(other) = with {
            moved.cpus[other] = layout.cpus[program];
        }
        if !moved.masks.is_empty() {
            let llc = |cpu: usize| self.machine().cpus()[cpu].llc;
            if llc(cpu) != llc(layout.cpus[program]) {
                match with {
                    Some(other) => moved.masks.swap(program, other),
                    None => {
                        let divided = (0..layout.cpus.len()).any(|one| {
                            one != program
                                && llc(layout.cpus[one]) == llc(cpu)
                                && layout.masks[one].is_some()
                        });
                        if divided {
                            return None;
                        }
                        moved.masks[program] = None;
                    }
                }
            }
        }
        Some(moved)
    }
}

/// Cycles an instruction by cause at what the program holds, interpolated between whole ways; what the program
/// takes longer beside the others is the last entry.
fn cycles(by_ways: &[WaysFigures], now: &Outcome) -> Vec<CauseEntry> {
    let held = now.occupancy_bytes;
    let above = by_ways.iter().position(|one| one.occupancy_bytes >= held);
    let above = above.unwrap_or(by_ways.len().saturating_sub(1));
    let below = above.saturating_sub(1);
    let (low, high) = (&by_ways[below], &by_ways[above]);
    let width = high.occupancy_bytes - low.occupancy_bytes;
    let part =
        if width > 0.0 { ((held - low.occupancy_bytes) / width).clamp(0.0, 1.0) } else { 1.0 };
    let of = |figures: &WaysFigures| -> Vec<(&'static str, f64)> {
        let cpi = 1.0 / figures.ipc;
        match &figures.stack {
            Some(stack) => CAUSES.iter().map(|&one| (one.name(), stack.of(one))).collect(),
            None => {
                let rest = figures.total_stalls - figures.memory_stalls - figures.llc_hit_stalls;
                vec![
                    ("base", cpi * (1.0 - figures.total_stalls)),
                    ("other_stalls", cpi * rest.max(0.0)),
                    ("llc", cpi * figures.llc_hit_stalls),
                    ("memory", cpi * figures.memory_stalls),
                ]
            }
        }
    };
    let mut entries: Vec<(&'static str, f64)> = of(low)
        .into_iter()
        .zip(of(high))
        .map(|((cause, low), (_, high))| (cause, low + part * (high - low)))
        .collect();
    let own: f64 = entries.iter().map(|(_, cycles)| cycles).sum();
    let all = 1.0 / now.ipc;
    // Between knots the interpolated sum may be a hair more than all there is.
    if own > all {
        entries.iter_mut().for_each(|(_, cycles)| *cycles *= all / own);
    }
    entries.push(("others", (all - own).max(0.0)));
    let entry = |(cause, cycles): (&'static str, f64)| CauseEntry {
        cause,
        cycles_per_instruction: round(cycles, DIGITS),
    };
    entries.into_iter().map(entry).collect()
}
