//! The whole calibration: which experiments a machine needs, and what comes of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corun_linux::{NoiseMeter, Roots};
use corun_machine::{Machine, Measurement};
use serde::Serialize;

use crate::CalibrateError;
use crate::cpus::Cpus;
use crate::estimate::FigureRange;
use crate::figure::{CacheFigure, CoreFigure, Figure};
use crate::nearness::{Looks, References, ThisMachine};
use crate::notes::Findings;
use crate::plan::available_bytes;
use crate::rounds::{self, Budget, Curve};
use crate::setup::Setup;

/// How a machine is to be measured.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// In a few seconds, with fewer rounds and coarser steps.
    pub quick: bool,
    /// As if no more than so many bytes of memory were free.
    pub memory_bytes: Option<u64>,
    /// What an earlier calibration found of this machine: by its transfers of cache lines and additions a cycle it is told from the
    /// first look on which CPUs share a cache, and who has a core for itself. Without, the best that is seen is the reference.
    pub known: Option<Machine>,
    /// The program that measures, with its version, as the machine file names it.
    pub by: String,
}

impl CalibrateOptions {
    fn budget(&self) -> Budget {
        match self.quick {
            false => Budget { time: Duration::from_secs(100), least_rounds: 8, late_looks: 400 },
            true => Budget { time: Duration::from_secs(6), least_rounds: 2, late_looks: 40 },
        }
    }
}

/// A machine that was measured.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The machine with all figures, their spread and their sources.
    pub machine: Machine,
    /// What was measured, in the order of a report.
    pub figures: Vec<MeasuredFigure>,
    /// The curves behind the figures.
    pub curves: Vec<Curve>,
}

/// A figure as a report shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredFigure {
    /// Its path in the machine file.
    pub path: String,
    /// Its unit; empty for counts and shares.
    pub unit: &'static str,
    /// Its value and interval.
    #[serde(flatten)]
    pub estimate: FigureRange,
    /// How it was measured.
    pub source: &'static str,
}

/// Measures the machine that this runs on, which `found` is as Linux shows it. `tell` hears the share
/// of the work that is done, 0 to 1, and what is measured next; it says whether to go on.
///
/// # Errors
/// [`CalibrateError`]; a machine that is busy is no error, and stands in the measurement.
pub fn calibrate(
    found: &Machine,
    options: &CalibrateOptions,
    tell: &mut (dyn FnMut(f64, &'static str) -> bool + Send),
) -> Result<Calibrated, CalibrateError> {
    // A thread of its own: it is held on CPUs, and the caller's threads shall not be.
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || measure(found, options, tell));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(
    found: &Machine,
    options: &CalibrateOptions,
    tell: &mut (dyn FnMut(f64, &'static str) -> bool + Send),
) -> Result<Calibrated, CalibrateError> {
    let start = Instant::now();
    let cpus = Cpus::of_this_process(found)?;
    let meter = NoiseMeter::new(&Roots::default(), cpus.allowed.clone());
    let go_on = &mut || match tell(0.0, "memory to measure in") {
        true => Ok(()),
        false => Err(CalibrateError::Stopped),
    };
    let free = available_bytes();
    let memory_bytes = options.memory_bytes.map_or(free, |most| free.min(most as f64));
    let Setup { experiments, huge_pages, far_bytes, nodes_without_memory } =
        Setup::new(found, &cpus, options.quick, memory_bytes, go_on)?;
    let references = References::of_machine(found, options.known.as_ref());
    let looks = (&mut ThisMachine as &mut dyn Looks, references);
    let tell = &mut |share: f64, name: &'static str| tell(share, name);
    let rounds = rounds::run(experiments, options.budget(), looks, tell)?;
    let mut figures: BTreeMap<Figure, FigureRange> =
        rounds.measured.iter().flat_map(|one| one.figures()).collect();
    add_cache_times(&mut figures);
    for (&core_type, most) in &rounds.crowding.additions_per_cycle {
        let figure = Figure::Core(core_type, CoreFigure::AdditionsPerCycle);
        figures.insert(figure, FigureRange::new(most.known, [most.seen]));
    }
    let mut spec = crate::machine_file::spec(found, &figures, &options.by)?;
    let noise = meter.noise();
    let disturbed_share = rounds.disturbed_share;
    let findings = Findings {
        found,
        cpus: &cpus,
        figures: &figures,
        huge_pages,
        far_bytes,
        nodes_without_memory: &nodes_without_memory,
        noise,
        disturbed_share,
        sharing: &rounds.sharing,
        crowding: &rounds.crowding,
    };
    spec.measurement = Some(Measurement {
        by: options.by.clone(),
        finished: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
        seconds: start.elapsed().as_secs_f64().round(),
        rounds: rounds.rounds,
        quick: options.quick,
        busy_share: rounded_share(
            (noise.others_share + noise.stolen_share)
                .max(disturbed_share)
                .max(rounds.crowding.crowded_share())
                .min(1.0),
        ),
        cpus: cpus.allowed.clone(),
        huge_pages,
        notes: findings.notes(),
    });
    let lines = figures
        .iter()
        .map(|(figure, estimate)| MeasuredFigure {
            path: figure.path(found),
            unit: figure.unit(),
            estimate: *estimate,
            source: figure.source().1,
        })
        .collect();
    Ok(Calibrated {
        machine: Machine::from_spec(spec)?,
        figures: lines,
        curves: rounds.measured.iter().flat_map(|one| one.curves()).collect(),
    })
}

/// A share in whole thousandths.
fn rounded_share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// Cache latencies in ns, at the clock of a core alone: that is how they were measured.
fn add_cache_times(figures: &mut BTreeMap<Figure, FigureRange>) {
    let times: Vec<(Figure, FigureRange)> = figures
        .iter()
        .filter_map(|(figure, cycles)| {
            let Figure::Cache(core_type, level, CacheFigure::LatencyCycles) = *figure else {
                return None;
            };
            let clock = figures.get(&Figure::Core(core_type, CoreFigure::ClockAloneMhz))?;
            let ns = Figure::Cache(core_type, level, CacheFigure::LatencyNs);
            Some((ns, cycles.times(1e3 / clock.value)))
        })
        .collect();
    figures.extend(times);
}
