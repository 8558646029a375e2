//! What is learnt of each program while it runs, and the programs that the model makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_model::{LoadedProgram, Model, ModelError, Outcome};
use corun_profile::{MeasuredOn, Profile, ProfileData, SoloRow, SoloTable, TableFigures};

use super::curve::{self, Point};
use crate::{Rates, ThreadId, ThreadView, View};

/// Rows of a table: sizes from one sixteenth of the LLC to all of it.
const ROWS: u32 = 16;
/// Weight of the past in the averages of rates, an interval on.
const PAST: f64 = 0.7;
/// The least weight of the latest interval in what is known of a program.
const LEAST_WEIGHT: f64 = 0.1;
/// A program is loaded anew where a figure changed by more than this share.
const CHANGED: f64 = 0.03;
/// Programs that are remembered; more where more run at once.
const MOST_PROGRAMS: usize = 256;
/// Most points kept of a program.
const MOST_POINTS: usize = 8;
/// Sizes that differ by less than this share are one.
const SAME_SIZE: f64 = 0.15;
/// Misses per 1000 instructions below which nothing is told apart.
const LEAST_MPKI: f64 = 0.05;
/// The most by which a phase is taken to have more or fewer misses than the mean.
const MOST_PHASE: f64 = 3.0;
/// Misses that a core is taken to have outstanding together where no counter says how long it waits.
const USUAL_OVERLAP: f64 = 2.0;
/// Most of a program's cycles that misses are made out to take where no counter says it.
const MOST_STALLS: f64 = 0.8;
/// Memory latency where the machine does not say, in ns.
const USUAL_LATENCY_NS: f64 = 90.0;
/// LLC latency where the machine does not say, in ns.
const USUAL_LLC_LATENCY_NS: f64 = 15.0;
/// Share of the lowest peak on its way that a program alone is taken to draw at most.
const MOST_OF_PEAK: f64 = 0.9;

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

/// What was learnt, by program and by thread.
#[derive(Default)]
pub(super) struct Learned {
    programs: BTreeMap<String, Known>,
    threads: BTreeMap<ThreadId, Averages>,
    /// What threads counted before the last trial.
    before_trial: BTreeMap<ThreadId, Point>,
    /// Intervals so far.
    intervals: u64,
}

/// What is known of a program by its name. It outlives the program's threads, as a prior for the next.
#[derive(Default)]
struct Known {
    points: Vec<Visited>,
    figures: Option<Figures>,
    /// In which anything was counted.
    intervals: u32,
    /// The latest interval in which a thread of it ran.
    latest: u64,
    loaded: Option<(Figures, Worlds)>,
}

/// What was counted at a size, and in how many intervals.
#[derive(Debug, Clone, Copy)]
struct Visited {
    point: Point,
    intervals: u32,
}

impl Visited {
    /// Are both of the same size?
    fn is_near(&self, point: &Point) -> bool {
        let most = self.point.bytes.max(point.bytes);
        (self.point.bytes - point.bytes).abs() <= SAME_SIZE * most
    }
}

/// The weight of the latest interval in a mean over so many.
fn weight_of_latest(intervals: u32) -> f64 {
    (1.0 / f64::from(intervals)).max(LEAST_WEIGHT)
}

/// A program's figures that do not depend on its cache.
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
    }
}

impl Learned {
    /// Takes in an interval's counts of the threads that run. `expected` is what is expected of each where it
    /// is. `is_trial`: they were counted in a moment's trial.
    pub(super) fn measure(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        model: &Model,
        expected: &[Expected],
        is_trial: bool,
    ) {
        self.intervals += 1;
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
                if is_trial {
                    known.take_trial(figures.point, self.before_trial.get(&thread.id));
                } else {
                    self.before_trial.insert(thread.id, figures.point);
                    known.take(figures);
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
    /// The mean with later figures, which have this weight. The point is the latest.
    fn blended(&self, latest: &Self, weight: f64) -> Self {
        let mean = |known: f64, latest: f64| known + weight * (latest - known);
        Self {
            apki: mean(self.apki, latest.apki),
            core_cpi: mean(self.core_cpi, latest.core_cpi),
            stall_per_miss: mean(self.stall_per_miss, latest.stall_per_miss),
            bytes_per_miss: mean(self.bytes_per_miss, latest.bytes_per_miss),
            point: latest.point,
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
        let latency = latency_ns * machine.core_types()[at.core_type].clock_mhz * 1e-3;
        let stalls = match counted.stalls {
            Some(share) => cpi * share.clamp(0.0, 1.0),
            None => (mpki * 1e-3 * latency / USUAL_OVERLAP).min(MOST_STALLS * cpi),
        };
        // What waits for others' traffic and for another node's memory is no part of what a miss costs
        // alone. The model says by how much it waits longer.
        let predicted = expected.outcome.as_ref();
        let longer = predicted.zip(known).map_or(1.0, |(outcome, known)| {
            let alone = known.stall_per_miss * outcome.llc_mpki * 1e-3;
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
            core_cpi: (cpi - stalls).max(0.05 * cpi),
            // A program that hardly misses says nothing of what a miss costs.
            stall_per_miss: if mpki > 0.05 { per_miss.min(4.0 * latency) } else { latency },
            bytes_per_miss: bytes_per_miss.clamp(16.0, 1024.0),
            point: Point { bytes: held.unwrap_or(expected.equal_share_bytes).min(whole), mpki },
        })
    }

    /// Takes in what a thread counted. Each size keeps the mean of what was counted there, of which the latest
    /// has at least its least weight: a program's phases are averaged, as the model takes profiles.
    fn take(&mut self, figures: Figures) {
        self.take_point(figures.point);
        self.intervals += 1;
        let weight = weight_of_latest(self.intervals);
        self.figures = Some(match self.figures {
            Some(known) => known.blended(&figures, weight),
            None => figures,
        });
    }

    /// Takes in what a thread counted in a trial. A trial is so short that it falls into one phase: its misses are
    /// to those before it, of the same phase, as the means at both sizes are to one another.
    fn take_trial(&mut self, point: Point, before: Option<&Point>) {
        let Some(figures) = self.figures.as_mut() else { return };
        figures.point.bytes = point.bytes;
        let ratio = before.and_then(|before| {
            let mean = self.points.iter().find(|one| one.is_near(before))?.point.mpki;
            Some((mean + LEAST_MPKI) / (before.mpki + LEAST_MPKI))
        });
        let ratio = ratio.unwrap_or(1.0).clamp(1.0 / MOST_PHASE, MOST_PHASE);
        let mpki = (point.mpki * ratio).min(figures.apki);
        figures.point.mpki = mpki;
        self.take_point(Point { bytes: point.bytes, mpki });
    }

    fn take_point(&mut self, point: Point) {
        match self.points.iter_mut().find(|one| one.is_near(&point)) {
            Some(visited) => {
                visited.intervals += 1;
                let weight = weight_of_latest(visited.intervals);
                visited.point.bytes += weight * (point.bytes - visited.point.bytes);
                visited.point.mpki += weight * (point.mpki - visited.point.mpki);
            }
            None => self.points.push(Visited { point, intervals: 1 }),
        }
        if self.points.len() > MOST_POINTS {
            self.points.remove(0);
        }
    }

    /// The program as the model takes it, in three worlds.
    fn load(&self, figures: Figures, name: &str, model: &Model) -> Option<Worlds> {
        let machine = model.machine();
        let llcs = machine.llcs().iter().filter_map(|llc| llc.cache);
        let cache = llcs.max_by_key(|cache| cache.size_bytes)?;
        let way_bytes = cache.size_bytes / u64::from(ROWS);
        let sizes: Vec<f64> = (1..=ROWS).map(|way| (u64::from(way) * way_bytes) as f64).collect();
        let points: Vec<Point> = self.points.iter().map(|visited| visited.point).collect();
        let curve = curve::estimate(figures.apki, &points, cache.size_bytes as f64, &sizes);
        let inclusive = cache.inclusion == corun_machine::Inclusion::Inclusive;
        let private = machine.private_cache(0).map_or(1, |cache| cache.size_bytes);
        let core = machine.core_types().first()?;
        let on = MeasuredOn {
            machine: machine.name().to_owned(),
            clock_mhz: core.clock_mhz,
            // LLC references are counted behind the private cache, whatever its size.
            private_cache_bytes: if inclusive { 64 } else { private },
            inclusive_llc: inclusive,
            way_bytes,
            line_bytes: cache.line_bytes.unwrap_or(64),
            memory_latency_ns: machine.memory_latency_ns(0, 0).unwrap_or(USUAL_LATENCY_NS),
            llc_latency_ns: cache.latency_ns.unwrap_or(USUAL_LLC_LATENCY_NS),
        };
        let world = |lean: f64| {
            let tilted = sizes.iter().zip(&curve).map(|(&size, estimate)| {
                let side = if size < figures.point.bytes { lean } else { -lean };
                (estimate.mpki + side * estimate.deviation).clamp(0.0, figures.apki)
            });
            let mut falling: Vec<f64> = tilted.collect();
            // More cache never makes more misses.
            for place in (1..falling.len()).rev() {
                falling[place - 1] = falling[place - 1].max(falling[place]);
            }
            load(model, name, &on, &falling, &figures).map(Arc::new)
        };
        let (likely, steep, flat) = (world(0.0)?, world(1.0)?, world(-1.0)?);
        Some(Worlds { likely, steep, flat })
    }
}

/// A program with so many misses per 1000 instructions in each row of a table.
fn load(
    model: &Model,
    name: &str,
    on: &MeasuredOn,
    mpki: &[f64],
    figures: &Figures,
) -> Option<LoadedProgram> {
    let attempt = |most_mb_per_s: f64| {
        let row = |(way, &mpki): (usize, &f64)| {
            let stalls = mpki * 1e-3 * figures.stall_per_miss;
            let cpi = figures.core_cpi + stalls;
            let per_cycle = 1.0 / cpi;
            let mb_per_s = mpki * 1e-3 * figures.bytes_per_miss * per_cycle * on.clock_mhz;
            let share = stalls / cpi;
            let row = TableFigures {
                ipc: per_cycle,
                llc_references_pki: figures.apki,
                llc_misses_pki: mpki,
                llc_references_pkc: figures.apki * per_cycle,
                llc_misses_pkc: mpki * per_cycle,
                llc_usage_kib: ((way as u64 + 1) * on.way_bytes) as f64 / 1024.0,
                bandwidth_mb_per_s: mb_per_s.min(most_mb_per_s),
                miss_bandwidth_mb_per_s: mb_per_s.min(most_mb_per_s),
                stalls_l2_miss: share,
                stalls_l3_miss: share,
                stalls_total: share,
                stalls_store_buffer: 0.0,
            };
            SoloRow { ways: way as u32 + 1, figures: row }
        };
        let rows = mpki.iter().enumerate().map(row).collect();
        let table = SoloTable::new(on.clone(), rows).ok();
        let profile = |table| Profile { name: name.to_owned(), data: ProfileData::Table(table) };
        table.map(|table| model.load(&profile(table)))
    };
    match attempt(f64::INFINITY)? {
        Ok(program) => Some(program),
        Err(ModelError::PeakTooLow { peak_mb_per_s, .. }) => {
            attempt(MOST_OF_PEAK * peak_mb_per_s)?.ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;
    use corun_model::ModelOptions;

    use super::*;
    use crate::{Nanoseconds, ProcessId};

    const FIGURES: Figures = Figures {
        apki: 20.0,
        core_cpi: 0.5,
        stall_per_miss: 100.0,
        bytes_per_miss: 64.0,
        point: Point { bytes: 1e6, mpki: 10.0 },
    };

    /// Each figure by itself makes a program be loaded anew.
    #[test]
    fn figures_that_differ_in_one_figure_differ() {
        let with = |change: fn(&mut Figures)| {
            let mut figures = FIGURES;
            change(&mut figures);
            figures
        };
        let changed = [
            with(|one| one.apki = 21.0),
            with(|one| one.core_cpi = 0.6),
            with(|one| one.stall_per_miss = 110.0),
            with(|one| one.bytes_per_miss = 96.0),
            with(|one| one.point.mpki = 11.0),
            with(|one| one.point.bytes = 2e6),
        ];
        assert!(changed.iter().all(|one| FIGURES.differ(one) && one.differ(&FIGURES)));
        assert!(!FIGURES.differ(&with(|one| one.bytes_per_miss = 65.0)));
    }

    /// A mean of 10 misses with 1 MB. The phase before the trial had 20, twice as many: the 6 of the trial with 2 MB
    /// are 3 on average. Without a reading before, they are taken as they are. Nothing else is learnt in a trial.
    #[test]
    fn a_trial_counts_as_its_phase_does_to_the_mean() {
        let mut known = Known::default();
        let trial = Point { bytes: 2e6, mpki: 6.0 };
        known.take_trial(trial, None);
        assert!(known.points.is_empty() && known.figures.is_none());
        known.take(FIGURES);
        known.take_trial(trial, Some(&Point { bytes: 1e6, mpki: 20.0 }));
        let mpki = known.points[1].point.mpki;
        assert!((mpki - 6.0 * 10.05 / 20.05).abs() < 1e-9, "{mpki}");
        assert_eq!((known.points[1].intervals, known.intervals), (1, 1));
        let mut without = Known::default();
        without.take(FIGURES);
        without.take_trial(trial, None);
        assert_eq!(without.points[1].point, trial);
        assert_eq!(without.figures.unwrap().apki, FIGURES.apki);
    }

    /// A machine on which programs come and go for ever: those that ran last are remembered.
    #[test]
    fn so_many_programs_are_remembered() {
        let machine = preset("xeon-x5365-2llc").unwrap();
        let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).unwrap();
        let mut learned = Learned::default();
        for number in 0..2 * MOST_PROGRAMS as u64 {
            let cpu = &machine.cpu_set();
            let program = format!("program {number}");
            let threads = [
                ThreadView::new(ThreadId(0), ProcessId(0), "always", cpu),
                ThreadView::new(ThreadId(1 + number), ProcessId(1 + number), program, cpu),
            ];
            let view = View { machine: &machine, threads: &threads, now: Nanoseconds(number) };
            let running: Vec<&ThreadView> = threads.iter().collect();
            let expected = [0, 1].map(|_| Expected { outcome: None, equal_share_bytes: 4e6 });
            learned.measure(&view, &running, &model, &expected, false);
        }
        assert_eq!(learned.programs.len(), MOST_PROGRAMS);
        let last = 2 * MOST_PROGRAMS - 1;
        let is_known = |program: &str| learned.programs.contains_key(program);
        assert!(is_known("always") && is_known(&format!("program {last}")));
        assert!(!is_known("program 0"));
    }
}
