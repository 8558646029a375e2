//! What is learnt of each program while it runs, and the programs that the model makes of it.

mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::Machine;
use corun_model::{LoadedProgram, Model, Outcome};

use self::program::USUAL_LATENCY_NS;
use super::curve::{self, Counted, LEAST_MPKI, MissEstimate, Point};
use crate::{Rates, ThreadId, ThreadView, View};

pub use self::program::LearnedProgram;

/// Weight of the past in the averages of rates, an interval on.
const PAST: f64 = 0.7;
/// Of the intervals that are averaged, those of so long ago count 1/e: as long as things are taken to stay as they are.
const WINDOW_S: f64 = super::planning::LONGEST_HORIZON_S;
/// A program is loaded anew where a figure changed by more than this share.
const CHANGED: f64 = 0.03;
/// Programs that are remembered; more where more run at once.
pub(super) const MOST_PROGRAMS: usize = 256;
/// Most points kept of a program.
const MOST_POINTS: usize = 8;
/// Sizes that differ by less than this share are one.
const SAME_SIZE: f64 = 0.15;
/// The most by which a phase is taken to have more or fewer misses than the mean.
const MOST_PHASE: f64 = 3.0;
/// Misses of an interval that differ from those before by this (logarithm) are another phase's.
const OTHER_PHASE: f64 = 0.3;
/// How far phases' misses are from the mean before any were seen: the standard deviation of the logarithm, over the
/// programs on which thresholds were chosen; and what that counts as, in intervals.
const PHASES: f64 = 0.8;
const PHASES_COUNT: f64 = 8.0;
/// So many intervals of one phase count as another phase would.
const LONG_PHASE: f64 = 16.0;
/// Misses that a core is taken to have outstanding together where no counter says how long it waits.
const USUAL_OVERLAP: f64 = 2.0;
/// Most of a program's cycles that misses are made out to take where no counter says it.
const MOST_STALLS: f64 = 0.8;

/// How a program may behave as far as the counters tell: the likeliest curve, and one that falls more and
/// one that falls less steeply through what was counted.
#[derive(Debug, Clone)]
pub(super) struct Worlds {
    pub(super) likely: Arc<LoadedProgram>,
    pub(super) steep: Arc<LoadedProgram>,
    pub(super) flat: Arc<LoadedProgram>,
}

/// One of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    Likely,
    Steep,
    Flat,
}

impl Worlds {
    pub(super) fn of(&self, world: World) -> &LoadedProgram {
        match world {
            World::Likely => &self.likely,
            World::Steep => &self.steep,
            World::Flat => &self.flat,
        }
    }

    /// Is there nothing that the three differ in?
    pub(super) fn are_one(&self) -> bool {
        [&self.steep, &self.flat].iter().all(|other| Arc::ptr_eq(&self.likely, other))
    }

    /// Of a program that is known.
    pub(super) fn known(program: Arc<LoadedProgram>) -> Self {
        Self { likely: program.clone(), steep: program.clone(), flat: program }
    }
}

/// What is expected of a thread where it is.
pub(super) struct Expected {
    /// By the model; none where it cannot tell yet.
    pub(super) outcome: Option<Outcome>,
    /// Its part of the ways that it may use, shared equally: what it holds where nothing better is known.
    pub(super) equal_share_bytes: f64,
}

/// What an interval was in which threads were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spell {
    Usual,
    /// So short that it falls into one phase of a program, with other ways than just before.
    TrialOfWays,
    /// The same in other places.
    TrialOfPlaces,
}

/// What was learnt, by program and by thread.
#[derive(Default)]
pub(super) struct Learned {
    programs: BTreeMap<String, Known>,
    threads: BTreeMap<ThreadId, Averages>,
    /// What threads counted before the last trial.
    before_trial: BTreeMap<ThreadId, Point>,
    /// Intervals so far.
    intervals: u64,
    /// How long one is.
    pub(super) interval_s: f64,
    /// Of the intervals that are averaged, those of so long ago count 1/e; none: as long as a decision is made for.
    pub(super) window_s: Option<f64>,
}

/// What is known of a program by its name. It outlives the program's threads, as a prior for the next.
#[derive(Default)]
struct Known {
    points: Vec<Visited>,
    figures: Option<Figures>,
    /// In which anything was counted.
    intervals: u32,
    instructions: Weights,
    misses: Weights,
    /// Squares of how far (logarithm) intervals were from the mean at their size.
    squares: f64,
    /// The latest interval in which a thread of it ran.
    latest: u64,
    loaded: Option<(Figures, Worlds)>,
}

/// What was counted at a size, and in how many intervals.
#[derive(Debug, Clone, Copy)]
struct Visited {
    point: Point,
    intervals: u32,
    /// Changes of phase that were seen at this size.
    changes: u32,
    /// A trial was counted here, moments after another size: both are of the same phase.
    is_tried: bool,
    instructions: Weights,
}

impl Visited {
    /// Are both of the same size?
    fn is_near(&self, point: &Point) -> bool {
        let most = self.point.bytes.max(point.bytes);
        (self.point.bytes - point.bytes).abs() <= SAME_SIZE * most
    }

    /// How many phases the mean is of.
    fn phases(&self) -> f64 {
        1.0 + f64::from(self.changes) + f64::from(self.intervals) / LONG_PHASE
    }
}

/// The logarithm of one miss rate over another.
fn far_by(mpki: f64, other: f64) -> f64 {
    ((mpki + LEAST_MPKI) / (other + LEAST_MPKI)).ln()
}

/// What a weighted mean stands on: the sum of weights, of which the past fades.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Weights(f64);

impl Weights {
    /// The share in the mean that a value of this weight gets. `fades`: the share of the past that fades.
    fn share(&mut self, weight: f64, fades: f64) -> f64 {
        self.0 = (1.0 - fades) * self.0 + weight;
        if self.0 > 0.0 { weight / self.0 } else { 1.0 }
    }
}

/// A program's figures that do not depend on its cache. Cycles are those of the machine's fastest core type.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    apki: f64,
    /// Cycles per instruction without stalls on memory.
    core_cpi: f64,
    /// Cycles that a miss stalls when nobody else uses the memory.
    stall_per_miss: f64,
    bytes_per_miss: f64,
    /// The last point that was counted.
    point: Point,
    /// A second.
    instructions: f64,
}

/// Running averages of a thread's rates since its neighbours last changed. Counters that take turns are
/// each averaged over the intervals in which they were counted.
#[derive(Debug, Clone, Copy, Default)]
struct Averages {
    instructions: Option<f64>,
    cycles: Option<f64>,
    references: Option<f64>,
    misses: Option<f64>,
    bytes: Option<f64>,
    stalls: Option<f64>,
    /// Bytes of the LLC held, where they are counted.
    occupancy: Option<f64>,
    /// Misses per 1000 instructions of the latest interval, and of the one in which the phase began.
    latest_mpki: Option<f64>,
    phase_mpki: Option<f64>,
    has_other_phase: bool,
}

impl Averages {
    fn add(&mut self, rates: &Rates, occupancy: Option<f64>) {
        let blend = |old: &mut Option<f64>, new: Option<f64>| {
            let Some(new) = new.filter(|new| new.is_finite()) else { return };
            *old = Some(old.map_or(new, |old| PAST * old + (1.0 - PAST) * new));
        };
        blend(&mut self.instructions, rates.instructions_per_s);
        blend(&mut self.cycles, rates.cycles_per_s);
        blend(&mut self.references, rates.llc_references.map(|rate| rate.per_s));
        blend(&mut self.misses, rates.llc_misses.map(|rate| rate.per_s));
        blend(&mut self.bytes, rates.memory_bytes_per_s);
        blend(&mut self.stalls, rates.memory_stall_share);
        blend(&mut self.occupancy, occupancy);
        let mpki = rates.llc_misses.zip(rates.instructions_per_s);
        let mpki = mpki.filter(|(_, rate)| *rate > 0.0);
        self.latest_mpki = mpki.map(|(misses, rate)| (misses.per_s / rate * 1e3).max(0.0));
        self.has_other_phase = false;
        if let Some(latest) = self.latest_mpki {
            self.has_other_phase =
                self.phase_mpki.is_some_and(|began| far_by(latest, began).abs() > OTHER_PHASE);
            if self.has_other_phase || self.phase_mpki.is_none() {
                self.phase_mpki = Some(latest);
            }
        }
    }
}

impl Learned {
    /// Takes in an interval's counts of the threads that run. `expected` is what is expected of each where it is.
    pub(super) fn measure(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        model: &Model,
        expected: &[Expected],
        spell: Spell,
    ) {
        self.intervals += 1;
        let fades = (self.interval_s / self.window_s.unwrap_or(WINDOW_S)).min(1.0);
        self.threads.retain(|id, _| view.thread(*id).is_some());
        self.before_trial.retain(|id, _| view.thread(*id).is_some());
        for (thread, expected) in running.iter().zip(expected) {
            let averages = self.threads.entry(thread.id).or_default();
            averages.add(&thread.rates, thread.llc_occupancy_bytes);
            let known = self.programs.entry(thread.program.clone()).or_default();
            known.latest = self.intervals;
            let cpu = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            if let Some(cpu) = cpu
                && let Some(figures) = known.figures(averages, model, cpu, expected)
            {
                if spell == Spell::TrialOfPlaces {
                    let before = self.before_trial.get(&thread.id);
                    known.take_trial(figures.point, before, figures.instructions, fades);
                } else {
                    self.before_trial.insert(thread.id, figures.point);
                    known.take(figures, fades);
                    known.note_phase(averages, &figures.point, spell);
                }
            }
        }
        self.forget_programs();
    }

    /// Keeps the programs that run and, up to a number, those that ran last.
    fn forget_programs(&mut self) {
        while self.programs.len() > MOST_PROGRAMS {
            let gone = self.programs.iter().filter(|(_, known)| known.latest < self.intervals);
            let Some((oldest, _)) = gone.min_by_key(|(_, known)| known.latest) else { return };
            let oldest = oldest.clone();
            self.programs.remove(&oldest);
        }
    }

    /// What is known of each program that ran in the latest interval, by name.
    pub(super) fn running(&self, machine: &Machine) -> Vec<(String, LearnedProgram)> {
        let running = self.programs.iter().filter(|(_, known)| known.latest == self.intervals);
        running.filter_map(|(name, known)| Some((name.clone(), known.plain(machine)?))).collect()
    }

    /// All threads are others from now on: who they are is told anew.
    pub(super) fn forget_threads(&mut self) {
        self.threads.clear();
        self.before_trial.clear();
    }

    /// Intervals that were taken in.
    #[cfg(test)]
    pub(super) fn intervals(&self) -> u64 {
        self.intervals
    }

    /// The thread's neighbours or ways changed: what it counts from now on is of another size.
    pub(super) fn forget_rates(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Of a thread's program, as far as it is known; none where too little was counted.
    pub(super) fn worlds(&mut self, thread: &ThreadView, model: &Model) -> Option<Worlds> {
        let known = self.programs.get_mut(&thread.program)?;
        let figures = known.figures?;
        if let Some((of, worlds)) = &known.loaded
            && !figures.differ(of)
        {
            return Some(worlds.clone());
        }
        let worlds = known.load(figures, &thread.program, model)?;
        known.loaded = Some((figures, worlds.clone()));
        Some(worlds)
    }
}

impl Figures {
    /// The mean with later figures, whose instructions and misses are these shares of all. The point is the latest.
    fn blended(&self, latest: &Self, instructions: f64, misses: f64) -> Self {
        let mean = |share: f64, known: f64, latest: f64| known + share * (latest - known);
        Self {
            apki: mean(instructions, self.apki, latest.apki),
            core_cpi: mean(instructions, self.core_cpi, latest.core_cpi),
            stall_per_miss: mean(misses, self.stall_per_miss, latest.stall_per_miss),
            bytes_per_miss: mean(misses, self.bytes_per_miss, latest.bytes_per_miss),
            point: latest.point,
            instructions: latest.instructions,
        }
    }

    /// With these misses at the sizes that are told. More cache never makes more misses.
    fn with_misses(&self, mpki: impl Iterator<Item = f64>, confidence: f64) -> LearnedProgram {
        let mut falling: Vec<f64> = mpki.map(|mpki| mpki.clamp(0.0, self.apki)).collect();
        for place in (1..falling.len()).rev() {
            falling[place - 1] = falling[place - 1].max(falling[place]);
        }
        LearnedProgram {
            llc_apki: self.apki,
            core_cpi: self.core_cpi,
            stall_cycles_per_miss: self.stall_per_miss,
            bytes_per_miss: self.bytes_per_miss,
            llc_mpki: falling,
            confidence,
        }
    }

    fn differ(&self, other: &Self) -> bool {
        let far = |one: f64, other: f64, least: f64| {
            (one - other).abs() > CHANGED * one.abs().max(other.abs()).max(least)
        };
        far(self.apki, other.apki, 1.0)
            || far(self.core_cpi, other.core_cpi, 0.1)
            || far(self.stall_per_miss, other.stall_per_miss, 1.0)
            || far(self.bytes_per_miss, other.bytes_per_miss, 1.0)
            || far(self.point.mpki, other.point.mpki, 0.5)
            || far(self.point.bytes, other.point.bytes, 1.0)
    }
}

impl Known {
    /// What a thread's averages say; none where instructions, cycles or misses were not counted.
    fn figures(
        &self,
        counted: &Averages,
        model: &Model,
        cpu: usize,
        expected: &Expected,
    ) -> Option<Figures> {
        let machine = model.machine();
        let at = machine.cpus()[cpu];
        let instructions = counted.instructions.filter(|&rate| rate > 0.0)?;
        let cpi = counted.cycles.filter(|&rate| rate > 0.0)? / instructions;
        let mpki = (counted.misses? / instructions * 1e3).max(0.0);
        let known = self.figures;
        let apki = counted.references.map(|rate| rate / instructions * 1e3);
        let apki = apki.or(known.map(|one| one.apki)).unwrap_or(2.0 * mpki).max(mpki);
        let latency_ns = machine.memory_latency_ns(at.node, at.node).unwrap_or(USUAL_LATENCY_NS);
        let core = &machine.core_types()[at.core_type];
        let latency = latency_ns * core.clock_mhz * 1e-3;
        // A stall lasts as long on either core type; the rest goes with the core type's speed, as in profiles by tables.
        let fastest_mhz = machine.core_types()[machine.fastest_core_type()].clock_mhz;
        let (of_stalls, of_rest) =
            (fastest_mhz / core.clock_mhz, core.capacity * fastest_mhz / core.clock_mhz);
        let stalls = match counted.stalls {
            Some(share) => cpi * share.clamp(0.0, 1.0),
            None => (mpki * 1e-3 * latency / USUAL_OVERLAP).min(MOST_STALLS * cpi),
        };
        // What waits for others' traffic and for another node's memory is no part of what a miss costs
        // alone. The model says by how much it waits longer.
        let predicted = expected.outcome.as_ref();
        let longer = predicted.zip(known).map_or(1.0, |(outcome, known)| {
            let alone = known.stall_per_miss / of_stalls * outcome.llc_mpki * 1e-3;
            let here = outcome.memory_stall_share / outcome.ipc;
            if alone > 0.0 && here.is_finite() { (here / alone).clamp(1.0, 10.0) } else { 1.0 }
        });
        let per_miss = stalls / (mpki.max(1e-3) * 1e-3) / longer;
        let bytes_per_miss = match counted.bytes {
            Some(bytes) if mpki > 0.01 => bytes / instructions / (mpki * 1e-3),
            _ => crate::REQUEST_BYTES,
        };
        let whole = machine.llcs()[at.llc].cache.map_or(0.0, |cache| cache.size_bytes as f64);
        let held = counted.occupancy.or(predicted.map(|outcome| outcome.occupancy_bytes));
        Some(Figures {
            apki,
            core_cpi: (cpi - stalls).max(0.05 * cpi) * of_rest,
            // A program that hardly misses says nothing of what a miss costs.
            stall_per_miss: of_stalls
                * if mpki > 0.05 { per_miss.min(4.0 * latency) } else { latency },
            bytes_per_miss: bytes_per_miss.clamp(16.0, 1024.0),
            point: Point { bytes: held.unwrap_or(expected.equal_share_bytes).min(whole), mpki },
            instructions,
        })
    }

    /// Takes in what a thread counted. Figures are means over a program's phases, as the model takes profiles: those for
    /// an instruction weigh intervals by instructions, those for a miss by misses. Each size keeps its own mean.
    fn take(&mut self, figures: Figures, fades: f64) {
        self.take_point(figures.point, figures.instructions, fades);
        self.intervals += 1;
        let instructions = self.instructions.share(figures.instructions, fades);
        let misses = figures.instructions * (figures.point.mpki + 1e-3);
        let misses = self.misses.share(misses, fades);
        self.figures = Some(match self.figures {
            Some(known) => known.blended(&figures, instructions, misses),
            None => figures,
        });
    }

    /// Takes in what a thread counted in a trial. A trial is so short that it falls into one phase: its misses are
    /// to those before it, of the same phase, as the means at both sizes are to one another.
    fn take_trial(&mut self, point: Point, before: Option<&Point>, instructions: f64, fades: f64) {
        let Some(figures) = self.figures.as_mut() else { return };
        figures.point.bytes = point.bytes;
        let ratio = before.and_then(|before| {
            let mean = self.points.iter().find(|one| one.is_near(before))?.point.mpki;
            Some((mean + LEAST_MPKI) / (before.mpki + LEAST_MPKI))
        });
        let ratio = ratio.unwrap_or(1.0).clamp(1.0 / MOST_PHASE, MOST_PHASE);
        let mpki = (point.mpki * ratio).min(figures.apki);
        figures.point.mpki = mpki;
        self.take_point(Point { bytes: point.bytes, mpki }, instructions, fades);
    }

    fn take_point(&mut self, point: Point, instructions: f64, fades: f64) {
        match self.points.iter_mut().find(|one| one.is_near(&point)) {
            Some(visited) => {
                visited.intervals += 1;
                let weight = visited.instructions.share(instructions, fades);
                visited.point.bytes += weight * (point.bytes - visited.point.bytes);
                visited.point.mpki += weight * (point.mpki - visited.point.mpki);
            }
            None => {
                let instructions = Weights(instructions);
                self.points.push(Visited {
                    point,
                    intervals: 1,
                    changes: 0,
                    is_tried: false,
                    instructions,
                });
            }
        }
        if self.points.len() > MOST_POINTS {
            self.points.remove(0);
        }
    }

    /// How far an interval is from the mean at its size, and whether a phase began in it.
    fn note_phase(&mut self, averages: &Averages, point: &Point, spell: Spell) {
        let Some(latest) = averages.latest_mpki else { return };
        let Some(visited) = self.points.iter_mut().find(|one| one.is_near(point)) else { return };
        visited.changes += u32::from(averages.has_other_phase);
        visited.is_tried |= spell == Spell::TrialOfWays;
        self.squares += far_by(latest, visited.point.mpki).powi(2);
    }

    /// The points, with how far phases may have put each off. Where the mean over most phases is known, it is taken
    /// as it is: what is unsure is how the others compare with it. A trial is of the phase before it.
    fn counted(&self) -> Vec<Counted> {
        let (variance, most) = self.phases();
        let counted = |one: &Visited| {
            let is_sure = one.is_tried || one.phases() >= most;
            let deviation = variance * (1.0 / one.phases() + 1.0 / most);
            Counted { point: one.point, deviation: if is_sure { 0.0 } else { deviation.sqrt() } }
        };
        self.points.iter().map(counted).collect()
    }

    /// Misses at each of the sizes that are told, with how far they may be off.
    fn estimates(&self, figures: &Figures, machine: &Machine, sizes: &[f64]) -> Vec<MissEstimate> {
        let private = program::private_cache(machine);
        curve::estimate(figures.apki, &self.counted(), private, sizes)
    }

    /// How far the mean over so many phases as were seen may be from that of all: the square, as a share of the mean's.
    fn phase_error(&self) -> f64 {
        let (variance, most) = self.phases();
        (variance / most.max(1.0)).exp() - 1.0
    }

    /// The variance of phases (logarithm), and how many were seen at the size at which most were.
    fn phases(&self) -> (f64, f64) {
        let looked = f64::from(self.intervals) + PHASES_COUNT;
        let variance = (self.squares + PHASES.powi(2) * PHASES_COUNT) / looked;
        (variance, self.points.iter().map(Visited::phases).fold(0.0, f64::max))
    }

    /// In plain figures; none before anything was counted.
    fn plain(&self, machine: &Machine) -> Option<LearnedProgram> {
        let (figures, sizes) = (self.figures?, program::sizes(machine)?);
        let estimates = self.estimates(&figures, machine, &sizes);
        let square = |value: f64| (value + LEAST_MPKI).powi(2);
        let misses: f64 = estimates.iter().map(|one| square(one.mpki)).sum();
        let errors: f64 = estimates.iter().map(|one| one.deviation.powi(2)).sum();
        let confidence = 1.0 / (1.0 + errors / misses + self.phase_error());
        Some(figures.with_misses(estimates.iter().map(|one| one.mpki), confidence))
    }

    /// The program as the model takes it, in three worlds.
    fn load(&self, figures: Figures, name: &str, model: &Model) -> Option<Worlds> {
        let sizes = program::sizes(model.machine())?;
        let curve = self.estimates(&figures, model.machine(), &sizes);
        let world = |lean: f64| {
            let tilted = sizes.iter().zip(&curve).map(|(&size, estimate)| {
                let side = if size < figures.point.bytes { lean } else { -lean };
                estimate.mpki + side * estimate.deviation
            });
            let program = figures.with_misses(tilted, 1.0);
            program.load(name, model.machine(), model).map(Arc::new)
        };
        let (likely, steep, flat) = (world(0.0)?, world(1.0)?, world(-1.0)?);
        Some(Worlds { likely, steep, flat })
    }
}

#[cfg(test)]
mod tests;
