//! What the model says: one shared cache, no private ones, and the same time an instruction and a
//! miss as in the replay.

use std::sync::Arc;

use corun_app::{Error, Result};
use corun_machine::{CacheType, CoreType, Inclusion, Machine, MachineSpec, ObjectSpec, ObjectType};
use corun_model::{
    BandwidthModel, LoadedProgram, Model, ModelOptions, Running, Scratch, SpaceLaw,
};
use corun_profile::{
    CoreDetail, CurvePoint, MissRateCurve, Phase, Profile, ProfileData, Recording,
};

use super::{CLOCK_MHZ, CPI, LATENCY_NS, Prediction};

/// A model of two cores that share one cache of so many bytes, under a law of space.
pub(super) struct SharedCache {
    model: Model,
    programs: Vec<LoadedProgram>,
}

impl SharedCache {
    pub(super) fn new(bytes: u64, law: SpaceLaw, profiles: &[Profile]) -> Result<Self> {
        let options =
            ModelOptions { space: law, bandwidth: BandwidthModel::None, ..ModelOptions::default() };
        let model = Model::new(Arc::new(machine(bytes)?), options)?;
        let programs =
            profiles.iter().map(|profile| model.load(profile)).collect::<Result<_, _>>()?;
        Ok(Self { model, programs })
    }

    /// Two programs beside each other, each repeated for ever: every phase of the one meets every
    /// phase of the other, for as long as both last.
    pub(super) fn pair(&self, pair: [usize; 2]) -> [Prediction; 2] {
        let programs = pair.map(|one| &self.programs[one]);
        let meetings = self.meetings(programs);
        let instructions = programs.map(|program| -> Vec<f64> {
            program.phases.iter().map(|phase| phase.instructions).collect()
        });
        let mut shares = instructions.clone().map(|lengths| of_sum(&lengths));
        for _ in 0..ROUNDS {
            shares = [0, 1].map(|of| {
                let speed = |phase| weighed(&meetings, of, phase, &shares[1 - of], |one| one.speed);
                let lengths = instructions[of].iter().enumerate();
                of_sum(&lengths.map(|(phase, length)| length / speed(phase)).collect::<Vec<_>>())
            });
        }
        [0, 1].map(|of| {
            let (mut seconds, mut alone, mut misses) = (0.0, 0.0, 0.0);
            for (phase, length) in instructions[of].iter().enumerate() {
                let other = &shares[1 - of];
                let speed = weighed(&meetings, of, phase, other, |one| one.speed);
                let missed = weighed(&meetings, of, phase, other, |one| one.speed * one.mpki);
                seconds += length / speed;
                alone += length / programs[of].phases[phase].best_instructions_per_s;
                misses += length * missed / speed;
            }
            let all: f64 = instructions[of].iter().sum();
            Prediction { mpki: misses / all, slowdown: seconds / alone }
        })
    }

    /// Each phase of the first program, then each of the second, beside each other.
    fn meetings(&self, programs: [&LoadedProgram; 2]) -> Vec<Vec<[Meeting; 2]>> {
        let (mut scratch, mut outcomes) = (Scratch::default(), Vec::new());
        let mut meet = |phases: [usize; 2]| {
            let members = [0, 1].map(|cpu| Running::local(programs[cpu], phases[cpu], cpu));
            self.model.solve(&members, &mut scratch, &mut outcomes);
            [0, 1].map(|at| Meeting {
                speed: outcomes[at].instructions_per_s,
                mpki: outcomes[at].llc_mpki,
            })
        };
        let second = 0..programs[1].phases.len();
        (0..programs[0].phases.len())
            .map(|first| second.clone().map(|second| meet([first, second])).collect())
            .collect()
    }
}

/// Rounds in which the time that each phase takes and the time it meets the other's settle.
const ROUNDS: usize = 50;

/// A program's figures while its phase meets another's.
#[derive(Clone, Copy)]
struct Meeting {
    /// Instructions a second.
    speed: f64,
    mpki: f64,
}

/// A figure of a phase, weighed by the share of time of the other program's phases.
fn weighed(
    meetings: &[Vec<[Meeting; 2]>],
    of: usize,
    phase: usize,
    other: &[f64],
    figure: impl Fn(&Meeting) -> f64,
) -> f64 {
    let met = |other: usize| {
        let pair = if of == 0 { &meetings[phase][other] } else { &meetings[other][phase] };
        figure(&pair[of])
    };
    other.iter().enumerate().map(|(other, share)| share * met(other)).sum()
}

fn of_sum(parts: &[f64]) -> Vec<f64> {
    let sum: f64 = parts.iter().sum();
    parts.iter().map(|part| part / sum).collect()
}

/// Two cores of which every instruction takes [`CPI`] cycles and every miss [`LATENCY_NS`] more:
/// one instruction and one miss at a time, nothing hidden, nothing mispredicted.
fn machine(bytes: u64) -> Result<Machine> {
    let core_type = CoreType {
        dispatch_width: 1.0 / CPI,
        reorder_buffer: 0,
        outstanding_misses: 1,
        branch_penalty_cycles: 0.0,
        ..CoreType::new("one-at-a-time", CLOCK_MHZ, 1)
    };
    let core = |cpu: u32| ObjectSpec {
        core_type: Some(core_type.name.clone()),
        cpus: Some([corun_machine::CpuId(cpu)].into_iter().collect()),
        ..ObjectSpec::new(ObjectType::Core)
    };
    let cache = ObjectSpec {
        level: Some(2),
        holds: Some(CacheType::Unified),
        size_kib: Some(bytes / 1024),
        ways: Some(16),
        line_bytes: Some(64),
        inclusion: Some(Inclusion::Inclusive),
        objects: vec![core(0), core(1)],
        ..ObjectSpec::new(ObjectType::Cache)
    };
    let package = ObjectSpec { objects: vec![cache], ..ObjectSpec::new(ObjectType::Package) };
    let node = ObjectSpec { objects: vec![package], ..ObjectSpec::new(ObjectType::NumaNode) };
    let spec = MachineSpec {
        core_types: vec![core_type],
        memory_latency_ns: vec![vec![LATENCY_NS]],
        objects: vec![node],
        ..MachineSpec::new("one-shared-cache")
    };
    Machine::from_spec(spec).map_err(Error::failed)
}

/// The profile repeated for ever as a new process each time: its lines have no end, so it has no
/// footprint beyond which it would take no more. A trace holds the program's accesses alone, to so many lines in all: lines
/// that the kernel cleared come in with the program's first touch, a miss, and those that it never touches not at all.
pub(super) fn repeated(profile: &Profile, traced_lines: u64) -> Result<Profile> {
    let ProfileData::Recording(recording) = &profile.data else {
        let name = &profile.name;
        return Err(Error::input(format!("{name}: a table of solo figures, expected a recording")));
    };
    let touched = touched_share(&recording.phases, traced_lines);
    let endless = |phase: &Phase| Phase {
        footprint_bytes: i64::MAX as u64,
        curve: with_cleared(phase, touched),
        core: phase.core.clone().map(|core| CoreDetail { cleared_curve: None, ..core }),
        ..phase.clone()
    };
    let phases = recording.phases.iter().map(endless).collect();
    let recording = Recording::new(recording.origin.clone(), phases);
    Ok(Profile { name: profile.name.clone(), data: ProfileData::Recording(recording) })
}

/// Of the lines that the kernel cleared, the share that the program touches where it touches so many in all.
fn touched_share(phases: &[Phase], traced_lines: u64) -> f64 {
    let all = |mpki: &dyn Fn(&Phase) -> f64| -> f64 {
        phases.iter().map(|phase| mpki(phase) * phase.instructions as f64 / 1000.0).sum()
    };
    let own = all(&|phase| phase.curve.mpki(f64::MAX).value);
    let cleared = all(&|phase| phase.cleared_mpki(f64::MAX));
    if cleared > 0.0 { ((traced_lines as f64 - own) / cleared).clamp(0.0, 1.0) } else { 1.0 }
}

/// The phase's own curve and such a share of what the kernel cleared.
fn with_cleared(phase: &Phase, share: f64) -> MissRateCurve {
    let cleared = phase.core.as_ref().and_then(|core| core.cleared_curve.as_ref());
    let Some(cleared) = cleared else { return phase.curve.clone() };
    let scaled = |point: &CurvePoint| CurvePoint { mpki: share * point.mpki, ..*point };
    let touched = MissRateCurve::new(cleared.points().iter().map(scaled).collect());
    phase.curve.plus(&touched.expect("as many points, no higher"))
}

#[cfg(test)]
mod tests {
    use corun_profile::Library;

    use super::*;

    #[test]
    fn what_the_kernel_cleared_misses_as_in_a_trace() {
        let library = Library::shipped().unwrap();
        let phases = |profile: &Profile| match &profile.data {
            ProfileData::Recording(recording) => recording.phases.clone(),
            ProfileData::Table(_) => panic!("a recording"),
        };
        let profile = library.get("sort").unwrap();
        let thousands = |phase: &Phase| phase.instructions as f64 / 1000.0;
        let of = |mpki: fn(&Phase) -> f64| -> f64 {
            phases(profile).iter().map(|phase| mpki(phase) * thousands(phase)).sum()
        };
        let own = of(|phase| phase.curve.mpki(f64::MAX).value);
        let cleared = of(|phase| phase.cleared_mpki(f64::MAX));
        for share in [0.75, 1.0] {
            let lines = (own + share * cleared).round() as u64;
            let replayed = phases(&repeated(profile, lines).unwrap());
            for (phase, replayed) in phases(profile).iter().zip(replayed) {
                let mpki = |phase: &Phase| phase.curve.mpki(1048576.0).value;
                let expected = mpki(phase) + share * phase.cleared_mpki(1048576.0);
                assert!((expected / mpki(&replayed) - 1.0).abs() < 1e-5, "{expected}");
                assert_eq!(replayed.cleared_mpki(1048576.0), 0.0);
            }
        }
        assert!(phases(profile).iter().any(|phase| phase.cleared_mpki(1048576.0) > 1.0));
    }
}
