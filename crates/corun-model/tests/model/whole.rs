//! Programs as a whole: all phases as one.

use corun_machine::preset;
use corun_model::{LoadedProgram, Member, Model, ModelOptions, Outcome, Running, Scratch};
use corun_profile::{Library, Origin, Profile, ProfileData, Recording};
use proptest::prelude::*;

use crate::fixture::*;
use crate::machines::*;

const WHOLE: usize = LoadedProgram::WHOLE;
const MACHINES: [&str; 3] = ["xeon-x5365", "xeon-gold-6138", "core-i9-12900k"];

/// A recording with the phases of these, in their order.
pub(crate) fn joined(parts: &[Profile]) -> Profile {
    let phase = |one: &Profile| match &one.data {
        ProfileData::Recording(recording) => recording.phases[0].clone(),
        ProfileData::Table(_) => panic!("a recording is expected"),
    };
    let phases = parts.iter().map(phase).collect();
    let data = ProfileData::Recording(Recording::new(Origin::default(), phases));
    Profile { name: "joined".to_owned(), data }
}

/// Seconds that all phases take one after the other, and that the whole takes.
fn seconds(model: &Model, program: &LoadedProgram, cpu: usize) -> (f64, f64) {
    let speed = |phase| model.solo(program, phase, cpu).instructions_per_s;
    let one_by_one =
        (0..program.phases.len()).map(|phase| program.phases[phase].instructions / speed(phase));
    (one_by_one.sum(), program.instructions() / speed(WHOLE))
}

fn agree(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// One instruction in four misses 20 in 1000, the rest nothing: 5 in 1000. Bytes a second are
/// 5e-3 lines an instruction x 64 bytes at the joint speed, and the share of stalls is that of the
/// joint cycles.
#[test]
fn figures_are_means_by_instructions_and_rates_by_time() {
    let model = model(gold(1, 4), ModelOptions::default());
    let flat = |mpki: f64, instructions: u64| {
        recording("p", &[(4096, mpki), (64 * MIB, mpki)], |phase| phase.instructions = instructions)
    };
    let program = load(&model, &joined(&[flat(20.0, 1_000_000), flat(0.0, 3_000_000)]));
    let alone = |phase| model.solo(&program, phase, 0);
    let (busy, idle, whole) = (alone(0), alone(1), alone(WHOLE));
    let cpi = (1.0 / busy.ipc + 3.0 / idle.ipc) / 4.0;
    assert!(agree(whole.ipc, 1.0 / cpi), "{whole:?}");
    assert!(agree(whole.llc_mpki, 5.0) && agree(whole.llc_apki, 5.0), "{whole:?}");
    assert!(agree(whole.bytes_per_s, 5e-3 * 64.0 * 2e9 / cpi), "{whole:?}");
    let stalled = 0.25 * busy.memory_stall_share / busy.ipc;
    assert!(agree(whole.memory_stall_share, stalled / cpi), "{whole:?}");
    assert!(agree(whole.slowdown, 1.0), "{whole:?}");
    assert_eq!(program.phase(WHOLE).instructions, 4e6);
}

#[test]
fn alone_the_whole_takes_the_time_of_its_phases() {
    let library = Library::shipped().unwrap();
    let mut several = 0;
    // Each program on one of the machines.
    for (number, machine) in MACHINES.into_iter().enumerate() {
        let model = Model::new(preset(machine).unwrap().into(), ModelOptions::default()).unwrap();
        for profile in library.iter().skip(number).step_by(MACHINES.len()) {
            let program = load(&model, profile);
            several += usize::from(program.phases.len() > 1);
            for cpu in 0..model.machine().cpus().len() {
                let (phases, whole) = seconds(&model, &program, cpu);
                assert!(agree(phases, whole), "{} on {machine}, CPU index {cpu}", profile.name);
            }
        }
    }
    assert!(several > 0, "the library has programs with several phases");
}

/// What curves by ways said before there was a whole: the sum over phases, each with the ways.
#[test]
fn curves_by_ways_are_sums_over_phases() {
    let library = Library::shipped().unwrap();
    let model = model(gold(1, 4), ModelOptions::default());
    for profile in library.iter().step_by(4) {
        let ProfileData::Recording(mut recording) = profile.data.clone() else { continue };
        // A phase by itself is a program of fewer pages, which it lies no deeper than.
        for core in recording.phases.iter_mut().filter_map(|phase| phase.core.as_mut()) {
            (core.page_faults_pki, core.file_faults_pki) = (0.0, 0.0);
        }
        let of_all = ProfileData::Recording(recording.clone());
        let whole = Profile { name: profile.name.clone(), data: of_all };
        let whole = model.by_ways(&load(&model, &whole), 0);
        let mut cycles = vec![0.0; whole.len()];
        let mut misses = vec![0.0; whole.len()];
        for phase in &recording.phases {
            let alone = Recording {
                micro_traces: recording.micro_traces.clone(),
                ..Recording::new(Origin::default(), vec![phase.clone()])
            };
            let own = Profile { name: profile.name.clone(), data: ProfileData::Recording(alone) };
            for (place, one) in model.by_ways(&load(&model, &own), 0).iter().enumerate() {
                cycles[place] += phase.instructions as f64 / one.ipc;
                misses[place] += phase.instructions as f64 * one.llc_mpki;
            }
        }
        let instructions = recording.instructions() as f64;
        for (place, one) in whole.iter().enumerate() {
            assert!(agree(one.ipc, instructions / cycles[place]), "{}: {one:?}", profile.name);
            let mpki = misses[place] / instructions;
            assert!((one.llc_mpki - mpki).abs() <= 1e-9 * mpki + 1e-12, "{}", profile.name);
        }
    }
}

#[test]
fn one_phase_is_the_whole_to_the_bit() {
    let model = model(gold(1, 4), ModelOptions::default());
    let profiles =
        [recording("r", &[(4096, 30.0), (64 * MIB, 1.0)], |_| ()), solo_table("t", 12.0, 2.0)];
    for program in profiles.map(|profile| load(&model, &profile)) {
        let solve = |phase| -> Vec<Outcome> {
            let on = |cpu| Member { program: &program, phase, cpu };
            let running: Vec<Running<'_>> =
                (0..3).map(|cpu| Running { member: on(cpu), home: &[], group: None }).collect();
            let mut outcomes = Vec::new();
            model.solve(&running, &mut Scratch::default(), &mut outcomes);
            outcomes
        };
        assert_eq!(solve(0), solve(WHOLE));
        assert_eq!(model.solo(&program, 0, 0), model.solo(&program, WHOLE, 0));
    }
}

/// Twice the same phase is that phase: as a whole it shares a cache as the phase does.
#[test]
fn equal_phases_share_as_one() {
    let model = model(gold(1, 4), ModelOptions::default());
    let points = [(4096, 30.0), (MIB, 25.0), (12 * MIB, 20.0), (16 * MIB, 1.0), (64 * MIB, 0.5)];
    let one = recording("p", &points, |_| ());
    let (twice, other) = (joined(&[one.clone(), one.clone()]), solo_table("t", 12.0, 2.0));
    let [one, twice, other] = [&one, &twice, &other].map(|profile| load(&model, profile));
    let beside = |program, phase| {
        let mut demands = Vec::new();
        let members =
            [Member { program, phase, cpu: 0 }, Member { program: &other, phase: 0, cpu: 1 }];
        model.share(27.5 * MIB as f64, &members, &mut Scratch::default(), &mut demands);
        demands
    };
    for (a, b) in beside(&one, 0).iter().zip(beside(&twice, WHOLE)) {
        assert!(agree(a.occupancy_bytes, b.occupancy_bytes), "{a:?} {b:?}");
        assert!(agree(a.cpi, b.cpi) && agree(a.llc_mpki, b.llc_mpki), "{a:?} {b:?}");
        assert!(agree(a.bytes_per_s, b.bytes_per_s), "{a:?} {b:?}");
    }
}

/// A curve: how much of the misses is left at each size, the footprint, and the length.
fn part() -> impl Strategy<Value = Profile> {
    let left = prop::collection::vec(0.0f64..1.0, 6);
    (left, 0.1f64..60.0, 10u32..28, 1u64..1_000_000, 0.0f64..1.0).prop_map(
        |(left, first, footprint, instructions, prefetchable)| {
            let mut mpki = first;
            let mut points = vec![(4096, mpki)];
            for (place, part) in left.iter().enumerate() {
                mpki *= part;
                points.push((4096 << (3 * (place + 1)), mpki));
            }
            recording("part", &points, |phase| {
                phase.instructions = instructions * 1000;
                phase.prefetchable = prefetchable;
                phase.footprint_bytes = 1 << footprint;
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_whole_takes_the_time_of_any_phases(parts in prop::collection::vec(part(), 2..6)) {
        for machine in [gold(1, 4), preset("xeon-x5365").unwrap().spec().clone()] {
            let model = model(machine, ModelOptions::default());
            let (phases, whole) = seconds(&model, &load(&model, &joined(&parts)), 0);
            prop_assert!(agree(phases, whole), "{phases} {whole}");
        }
    }
}
