//! The figures of machine files that the policies go by: limits of bus transfer rates from synthetic
//! streams, the threshold of progress by bisection, and the fit of speedup factors.

use std::sync::Arc;

use corun_app::Result;
use corun_machine::SpeedupFit;
use corun_model::{LoadedProgram, Outcome as Rates, Running, Scratch};
use corun_policy::{Action, SpeedupPoint, fit_speedup};
use corun_profile::Method;
use corun_sim::LogEntry;

use super::big_little::BigLittle;
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::simulate::stream;
use crate::studies::classification::is_program;

/// The machines of several core types.
const MACHINES: [&str; 4] = ["juno-2b4s", "odroid-4b4s", "quickia-2b2s", "core-i9-12900k"];

/// "Hardly suffers": by less than this.
const SLIGHT: f64 = 1.05;

/// Mean time between swaps that the threshold is for.
const SWAP_EVERY_S: f64 = 0.4;

/// What the bisection plays: a program of each kind, twice or four times over where there are more CPUs.
const TYPICAL: [&str; 6] = ["GemsFDTD", "bzip2", "galgel", "perlbench", "povray", "astar"];
const WINDOW_S: f64 = 40.0;
const HALVINGS: u32 = 9;
const LEAST_AND_MOST_MS: (f64, f64) = (1.0, 10_000.0);

/// A machine's figures.
pub(super) struct CalibratedMachine {
    pub(super) low_mb_per_s: f64,
    pub(super) high_mb_per_s: f64,
    pub(super) on_big: Option<SpeedupFit>,
    pub(super) on_small: Option<SpeedupFit>,
    /// Mean error of a factor whose program is not among those of the fit, in %.
    pub(super) left_out: [f64; 2],
}

/// Loads and stores per 1000 instructions of each stream.
pub(super) const ACCESSES_PKI: f64 = 300.0;

/// Misses of an aggressor: all its accesses miss.
pub(super) const AGGRESSOR_MPKI: f64 = ACCESSES_PKI;

/// Programs on CPUs (indices), each for itself.
pub(super) fn together(machine: &BigLittle, running: &[(&LoadedProgram, usize)]) -> Vec<Rates> {
    let running: Vec<Running<'_>> = running
        .iter()
        .map(|&(program, cpu)| Running::local(program, LoadedProgram::WHOLE, cpu))
        .collect();
    let mut out = Vec::new();
    machine.model.solve(&running, &mut Scratch::new(), &mut out);
    out
}

/// Lines read, in MB/s (equation 4.1).
fn btr(rates: &Rates) -> f64 {
    rates.llc_mpki * 1e-3 * rates.instructions_per_s * 64.0 * 1e-6
}

/// The highest rate at which a stream of it is slowed down slightly at most, by halving the range of
/// misses per 1000 instructions. `beside`: what runs with it. Gives the rate of all that count.
fn limit(machine: &BigLittle, run: impl Fn(&LoadedProgram) -> (f64, f64)) -> Result<f64> {
    let (mut low, mut high) = (0.0, AGGRESSOR_MPKI);
    let mut found = 0.0;
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        let program = machine.load(&stream(middle, ACCESSES_PKI))?;
        let (slowdown, rate) = run(&program);
        if slowdown <= SLIGHT {
            (low, found) = (middle, rate);
        } else {
            high = middle;
        }
    }
    Ok(found)
}

/// One CPU of each big core of a cluster.
fn cluster(machine: &BigLittle) -> Vec<usize> {
    let all = machine.model.machine().cpus();
    let llc = all[machine.big].llc;
    let mut cores: Vec<usize> = Vec::new();
    let mut cpus = machine.like(machine.big);
    cpus.retain(|&cpu| all[cpu].llc == llc);
    cpus.retain(|&cpu| {
        let core = all[cpu].core;
        let fresh = !cores.contains(&core);
        cores.push(core);
        fresh
    });
    cpus
}

/// `low_btr`: a stream beside aggressors on all other big cores; `high_btr`: as many equal streams as
/// big cores.
fn limits(machine: &BigLittle) -> Result<(f64, f64)> {
    let cpus = cluster(machine);
    let aggressor = machine.load(&stream(AGGRESSOR_MPKI, ACCESSES_PKI))?;
    let low = limit(machine, |program| {
        let mut running = vec![(program, cpus[0])];
        running.extend(cpus[1..].iter().map(|&cpu| (&*aggressor, cpu)));
        let out = together(machine, &running);
        let alone = together(machine, &running[..1]);
        (alone[0].instructions_per_s / out[0].instructions_per_s, btr(&alone[0]))
    })?;
    let high = limit(machine, |program| {
        let running: Vec<(&LoadedProgram, usize)> =
            cpus.iter().map(|&cpu| (program, cpu)).collect();
        let out = together(machine, &running);
        let alone = together(machine, &running[..1]);
        let slowdown = alone[0].instructions_per_s / out[0].instructions_per_s;
        (slowdown, out.iter().map(btr).sum())
    })?;
    Ok((low, high))
}

/// Each phase of each program of the library, counted on a core; a program's phases count as one.
fn points(
    machine: &BigLittle,
    programs: &[Arc<LoadedProgram>],
    cpu: usize,
) -> Vec<Vec<SpeedupPoint>> {
    let of = |program: &Arc<LoadedProgram>| {
        let phases = program.phases.iter().enumerate();
        phases
            .map(|(place, phase)| {
                let at = |cpu| machine.model.solo(program, place, cpu);
                let here = at(cpu);
                SpeedupPoint {
                    ipc: here.ipc,
                    mpki: here.llc_mpki,
                    apki: here.llc_apki,
                    factor: at(machine.big).instructions_per_s
                        / at(machine.small).instructions_per_s,
                    weight: phase.instructions / program.instructions(),
                }
            })
            .collect()
    };
    programs.iter().map(of).collect()
}

/// The fit over all programs, and the mean error in % of each left out in turn.
fn fit(points: &[Vec<SpeedupPoint>]) -> (Option<SpeedupFit>, f64) {
    let without = |left: Option<usize>| {
        let kept = points.iter().enumerate().filter(|(place, _)| Some(*place) != left);
        fit_speedup(&kept.flat_map(|(_, of)| of.iter().copied()).collect::<Vec<_>>())
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    for (place, of) in points.iter().enumerate() {
        let Some(fit) = without(Some(place)) else { continue };
        for point in of {
            let error = fit.at(point.ipc, point.mpki, point.apki) / point.factor - 1.0;
            sum += point.weight * error.abs();
            weights += point.weight;
        }
    }
    (without(None), 100.0 * sum / weights)
}

/// `programs`: those of the library, loaded for the machine.
pub(super) fn calibrate(
    machine: &BigLittle,
    programs: &[Arc<LoadedProgram>],
) -> Result<CalibratedMachine> {
    let (low_mb_per_s, high_mb_per_s) = limits(machine)?;
    let (on_big, big_error) = fit(&points(machine, programs, machine.big));
    let (on_small, small_error) = fit(&points(machine, programs, machine.small));
    Ok(CalibratedMachine {
        low_mb_per_s,
        high_mb_per_s,
        on_big,
        on_small,
        left_out: [big_error, small_error],
    })
}

/// The threshold of progress, in ms, at which CAMPS swaps two threads every 400 ms on average. None where
/// it swaps more seldom whatever the threshold.
fn threshold_ms(inputs: &StudyInputs, machine: &BigLittle) -> Result<Option<f64>> {
    let cpus = machine.model.machine().cpus().len();
    let mix: Vec<(&str, u32)> = TYPICAL.iter().cycle().take(cpus).map(|&name| (name, 1)).collect();
    let apps = machine.apps(inputs, &mix, 10.0)?;
    let window_s = inputs.length_s(WINDOW_S);
    let (mut low, mut high) = LEAST_AND_MOST_MS;
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        let policy = ("camps", &[("amp-threshold-ms", middle)][..]);
        let run = machine.run(inputs, &apps, policy, (Method::Window, window_s, 1))?;
        let is_swap = |entry: &&LogEntry| matches!(entry.action, Action::Swap { .. });
        let swaps = run.log.iter().filter(is_swap).count() as f64;
        if swaps / run.simulated_s > 1.0 / SWAP_EVERY_S {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low > LEAST_AND_MOST_MS.0).then(|| (low * high).sqrt()))
}

/// What comes out beside what the machine files have.
pub(super) fn figures(inputs: &StudyInputs) -> Result<(PaperClaim, Vec<Figure>)> {
    let mut machines = Vec::new();
    for name in MACHINES {
        let machine = BigLittle::new(name)?;
        let names = inputs.shipped()?.iter().map(|profile| &profile.name);
        let programs = names
            .filter(|name| is_program(name))
            .map(|name| inputs.shipped_on(&machine.model, name))
            .collect::<Result<Vec<_>>>()?;
        let found = calibrate(&machine, &programs)?;
        let stored = machine.model.machine().calibration();
        machines.push((name, found, threshold_ms(inputs, &machine)?, stored));
    }
    let mut fits: Vec<(String, SpeedupFit, f64, bool)> = Vec::new();
    for (name, found, _, stored) in &machines {
        let sides = [
            ("big", found.on_big, stored.speedup_on_big),
            ("small", found.on_small, stored.speedup_on_small),
        ];
        let known =
            sides.into_iter().zip(found.left_out).filter_map(|((side, fit, stored), error)| {
                let fit = fit?;
                let in_file = stored.is_some_and(|stored| is_as_stored(&fit, &stored));
                Some((format!("{name}, {side}"), fit, error, in_file))
            });
        fits.extend(known);
    }
    let most = fits.iter().map(|one| one.2).fold(0.0, f64::max);
    let finding = PaperClaim::new(
        "Error of estimated speedup factors, each program left out of the fit in turn",
        "-",
        format!("{most:.0} % at most, the mean of a machine and core type"),
    );
    let about = "low_btr: the highest rate of a stream that is slowed down by 5 % at most beside \
                 aggressors on all other big cores. high_btr: the highest rate of as many equal streams as \
                 there are big cores. amp_threshold: by bisection, so that two threads swap every 400 ms \
                 on average; none where they swap more seldom whatever the threshold. Each beside what the \
                 machine file has.";
    let heading = "Limits of bus transfer rates, and the threshold of progress";
    let limits = Figure::new("calibration", heading, about)
        .rows("machine", &machines, |one| one.0.to_owned())
        .column("low_btr, MB/s", 1, |one| one.1.low_mb_per_s)
        .column("in its file", 1, |one| one.3.low_btr_mb_per_s)
        .column("high_btr, MB/s", 1, |one| one.1.high_mb_per_s)
        .column("file's", 1, |one| one.3.high_btr_mb_per_s)
        .column("amp_threshold, ms", 1, |one| one.2)
        .column("the file's", 1, |one| one.3.amp_threshold_ms)
        .table();
    let about = "By least squares over all phases of the library's programs, each program counting once; \
                 `in the file` says whether the machine file has these figures; the last column is the mean \
                 error of a program that is left out of the fit.";
    let fits = Figure::new("speedup-fits", "Speedup factors by counters", about)
        .rows("machine, core", &fits, |one| one.0.clone())
        .column("intercept", 4, |one| one.1.intercept)
        .column("per IPC", 4, |one| one.1.per_ipc)
        .column("per MPKI", 5, |one| one.1.per_mpki)
        .column("per APKI", 5, |one| one.1.per_apki)
        .words("in the file", |one| if one.3 { "yes" } else { "no" }.to_owned())
        .column("error, %", 1, |one| one.2)
        .table();
    Ok((finding, vec![limits, fits]))
}

/// Whether a machine file has a fit's figures, to the digits that machine files have.
fn is_as_stored(found: &SpeedupFit, stored: &SpeedupFit) -> bool {
    near(stored.intercept, found.intercept, 4)
        && near(stored.per_ipc, found.per_ipc, 4)
        && near(stored.per_mpki, found.per_mpki, 5)
        && near(stored.per_apki, found.per_apki, 5)
}

/// Whether a machine file's figure is what was found, rounded to so many digits behind the point.
fn near(stored: f64, found: f64, digits: i32) -> bool {
    (stored - found).abs() <= 0.51 * 0.1f64.powi(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_below_the_low_limit_hardly_suffers_and_one_above_does() {
        let machine = BigLittle::new("juno-2b4s").unwrap();
        let (low, high) = limits(&machine).unwrap();
        assert!(0.0 < low && low < high);
        let aggressor = machine.load(&stream(AGGRESSOR_MPKI, ACCESSES_PKI)).unwrap();
        let cpus = cluster(&machine);
        let slowdown = |mpki: f64| {
            let program = machine.load(&stream(mpki, ACCESSES_PKI)).unwrap();
            let running = [(&*program, cpus[0]), (&*aggressor, cpus[1])];
            let alone = together(&machine, &running[..1]);
            let out = together(&machine, &running);
            (btr(&alone[0]), alone[0].instructions_per_s / out[0].instructions_per_s)
        };
        for mpki in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
            let (rate, slowdown) = slowdown(mpki);
            assert_eq!(rate <= low, slowdown <= SLIGHT, "{mpki}: {rate} MB/s, {slowdown}");
        }
    }
}
