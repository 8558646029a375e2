use corun_profile::{CurvePoint, InstructionMix, MissRateCurve, Origin, Phase, Recording, Stretch};
use proptest::prelude::*;

use super::clusters::Behaviour;
use super::execution::Execution;
use super::*;

/// Windows that differ in their share of loads alone: two of share a and b are 2 |a - b| apart.
#[derive(Debug, Clone, PartialEq)]
struct Loads {
    instructions: u64,
    loads: f64,
}

impl Behaviour for Loads {
    fn vector(&self) -> BehaviourVector {
        let share = self.loads / self.instructions.max(1) as f64;
        BehaviourVector::new([share, 0.0, 0.0, 0.0], [0.0; 5])
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }

    fn merge(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
    }
}

fn window(share: f64) -> Loads {
    Loads { instructions: 100, loads: 100.0 * share }
}

fn phases(shares: &[f64], least: u64) -> (Vec<u64>, Vec<(usize, u64)>) {
    let mut execution = Execution::default();
    shares.iter().for_each(|&share| execution.add(window(share)));
    let nothing = Loads { instructions: 0, loads: 0.0 };
    let (phases, sequence) = execution.finish(nothing, least);
    let lengths = phases.iter().map(|phase| phase.instructions).collect();
    (lengths, sequence.iter().map(|one| (one.phase, one.instructions)).collect())
}

#[test]
fn what_returns_is_the_same_phase() {
    let (lengths, sequence) = phases(&[0.1, 0.1, 0.5, 0.11, 0.48, 0.52, 0.1, 0.5], 200);
    assert_eq!(lengths, [400, 400]);
    assert_eq!(sequence, [(0, 200), (1, 100), (0, 100), (1, 200), (0, 100), (1, 100)]);
}

#[test]
fn the_nearest_phase_wins_and_then_the_first() {
    // The third lies 5/16 from either: the first, which moves to 21/64. Then 0.46 is nearer to the
    // second.
    let (lengths, sequence) = phases(&[0.25, 0.5625, 0.40625, 0.46], 0);
    assert_eq!(lengths, [200, 200]);
    assert_eq!(sequence, [(0, 100), (1, 100), (0, 100), (1, 100)]);
}

#[test]
fn the_short_join_the_nearest() {
    // Three windows are too few for a phase of two windows each; one of 101 is under 1 %.
    assert_eq!(phases(&[0.1, 0.3, 0.9], 200), (vec![300], vec![(0, 300)]));
    let mut shares = vec![0.7; 101];
    shares[0] = 0.1;
    shares[50] = 1.0;
    assert_eq!(phases(&shares, 0).0, [10_100]);
    assert_eq!(phases(&shares[..90], 0).0, [100, 8800, 100]);
}

#[test]
fn what_only_passes_by_is_no_phase() {
    // 0.5 between the two is never there for two windows, though it is three in all.
    let turns = [0.1, 0.1, 0.1, 0.5, 0.9, 0.9, 0.9];
    let shares: Vec<f64> = turns.iter().cycle().take(21).copied().collect();
    let (lengths, sequence) = phases(&shares, 200);
    assert_eq!((lengths.len(), sequence.len()), (2, 6));
    // But two that change places with every window are two phases.
    let shares: Vec<f64> = [0.1, 0.9].iter().cycle().take(10).copied().collect();
    assert_eq!(phases(&shares, 200).0, [500, 500]);
}

#[test]
fn a_rest_is_no_phase_unless_alone() {
    let mut execution = Execution::default();
    let (found, sequence) = execution.clone().finish(window(0.4), 1000);
    assert_eq!((found, sequence.len()), (vec![window(0.4)], 1));
    execution.add(window(0.4));
    let (found, _) = execution.finish(window(0.9), 0);
    assert_eq!(found, [Loads { instructions: 200, loads: 130.0 }]);
    let (found, sequence) = Execution::default().finish(window(0.0), 0);
    assert_eq!((found.len(), sequence.len()), (1, 1));
}

fn phase(instructions: u64, loads_pki: f64, curve: &[(u64, f64)]) -> Phase {
    let points = curve.iter().map(|&(bytes, mpki)| CurvePoint { bytes, mpki }).collect();
    Phase {
        instructions,
        threads: 1,
        data_accesses_pki: loads_pki,
        mix: InstructionMix { loads_pki, ..InstructionMix::default() },
        prefetchable: 0.5,
        memory_level_parallelism: 2.0,
        dirty_share: 0.25,
        footprint_bytes: 4096,
        curve: MissRateCurve::new(points).unwrap(),
        core: None,
    }
}

#[test]
fn distances_by_hand() {
    let one = BehaviourVector::of_phase(&phase(1000, 300.0, &[(1024, 10.0)]));
    let other = BehaviourVector::of_phase(&phase(1000, 300.0, &[(1024, 0.0)]));
    // 10 MPKI cost 0.1, 0.3 and three times 1.0 cycles an instruction, half of whose logarithms
    // of 1 + x count.
    let by_hand = 0.5 * (1.1f64.ln() + 1.3f64.ln() + 3.0 * 2f64.ln());
    assert!((one.distance(&other) - by_hand).abs() < 1e-12);
    // A tenth of the instructions are loads and not integer: that counts twice.
    let other = BehaviourVector::of_phase(&phase(1000, 400.0, &[(1024, 10.0)]));
    assert!((one.distance(&other) - 0.2).abs() < 1e-12);
    assert_eq!(one.distance(&one), 0.0);
}

fn recording(phases: Vec<Phase>) -> Recording {
    Recording::new(Origin::default(), phases)
}

#[test]
fn similar_phases_of_a_recording_merge() {
    let cliff = |high: f64| [(4096, high), (1 << 20, 8.0), (2 << 20, 0.0)];
    let mut one = phase(1000, 300.0, &cliff(20.0));
    (one.prefetchable, one.memory_level_parallelism, one.footprint_bytes) = (0.0, 1.0, 100);
    let second = phase(3000, 320.0, &cliff(24.0));
    let mut merged = recording(vec![one, phase(500, 900.0, &[(4096, 0.0)]), second]);
    merge_similar(&mut merged);
    let lengths: Vec<u64> = merged.phases.iter().map(|phase| phase.instructions).collect();
    assert_eq!(lengths, [4000, 500]);
    let stretch = |phase, instructions| Stretch { phase, instructions };
    assert_eq!(merged.sequence, [stretch(0, 1000), stretch(1, 500), stretch(0, 3000)]);
    let first = &merged.phases[0];
    assert_eq!((first.mix.loads_pki, first.footprint_bytes), (315.0, 4096));
    assert_eq!(first.curve.mpki(4096.0).value, 23.0);
    assert_eq!(first.curve.mpki(1048576.0).value, 8.0);
    // At 256 KiB, a quarter of the way (252 of 1020 KiB) from 4 KiB to 1 MiB, they miss 17.035 and
    // 20.047 times: 17.0 and 60.1 thousands in all.
    let (few, many) = (1.0 * (20.0 - 12.0 * 252.0 / 1020.0), 3.0 * (24.0 - 16.0 * 252.0 / 1020.0));
    assert!((first.prefetchable - 0.5 * many / (few + many)).abs() < 1e-12);
    let parallelism = (few + many) / (few + many / 2.0);
    assert!((first.memory_level_parallelism - parallelism).abs() < 1e-12);
}

#[test]
fn thousands_of_like_children_are_one_phase() {
    let children = (0..3000).map(|at| phase(1000, 300.0 + f64::from(at % 10), &[(4096, 5.0)]));
    let mut merged = recording(children.collect());
    merge_similar(&mut merged);
    assert_eq!((merged.phases.len(), merged.sequence.len()), (1, 1));
    assert_eq!(merged.instructions(), 3_000_000);
    let before = merged.clone();
    merge_similar(&mut merged);
    assert_eq!(merged, before);
}

proptest! {
    #[test]
    fn whatever_comes_is_bounded_and_keeps_its_length(
        ran in prop::collection::vec((1u64..1000, 0.0f64..999.0, 0.0f64..200.0), 1..150),
        order in prop::collection::vec(0usize..1000, 1..150),
    ) {
        let phases = ran.iter().map(|&(length, loads, mpki)| {
            phase(length, loads, &[(1024, mpki), (1 << 20, mpki / 2.0)])
        });
        let mut merged = recording(phases.collect());
        // A sequence of halves in any order.
        let halves = merged.phases.iter_mut().enumerate().map(|(phase, one)| {
            one.instructions *= 2;
            Stretch { phase, instructions: one.instructions / 2 }
        });
        let mut sequence: Vec<Stretch> = halves.collect();
        sequence.extend(sequence.clone());
        for (at, with) in order.iter().enumerate() {
            let length = sequence.len();
            sequence.swap(at % length, with % length);
        }
        merged.sequence = sequence;
        let total = merged.instructions();
        merge_similar(&mut merged);
        prop_assert_eq!(merged.instructions(), total);
        prop_assert!(merged.phases.len() <= MOST_PHASES);
        prop_assert!(merged.sequence.len() <= MOST_STRETCHES);
        let mut lengths = vec![0; merged.phases.len()];
        let mut first = 0;
        for stretch in &merged.sequence {
            lengths[stretch.phase] += stretch.instructions;
            prop_assert!(stretch.phase <= first);
            first = first.max(stretch.phase + 1);
        }
        for (phase, length) in merged.phases.iter().zip(lengths) {
            prop_assert_eq!(phase.instructions, length);
        }
    }
}
