use super::*;
use crate::partitioning::mask;
use crate::partitioning::online::window::Sample;

const CACHE: Cache =
    Cache { ways: 8, least_ways: 1, bytes: 8e6, private_bytes: 0.0, peak_bytes_per_s: Some(8e9) };
const LIMITS: Limits =
    Limits { apkc: 1.0, miss_ratio: [0.01, 0.03], traffic: [0.5, 0.9], gain: 0.05, retries: 3 };

fn program(process: u64, ipc: f64, miss_ratio: f64, bytes_per_s: f64) -> Program {
    let sample = Sample {
        ipc,
        llc_mpki: 10.0 * miss_ratio,
        llc_apki: Some(10.0),
        llc_mpkc: 10.0 * miss_ratio * ipc,
        bytes_per_s,
        memory_stalls: None,
    };
    Program { process: ProcessId(process), sample: Some(sample), held_bytes: None }
}

/// A program that is as fast as its ways make it, and one that needs one way.
fn two(settings: &[Setting]) -> [Program; 2] {
    let ways = settings.first().map_or(8, |one| one.mask.count_ones());
    let ipc = f64::from(ways.min(6)) / 6.0;
    [program(1, ipc, 0.5, 1e9), program(2, 2.0, 0.001, 1e8)]
}

/// First each has 7 ways for two intervals, then both begin with 4 ways and 4 GB/s. The first program is 1.5 times
/// slower than with all and demands ways; the second spares them, one a round, until the first is as fast as it can
/// be with six ways. It draws less than half of its cap and nobody demands bandwidth.
#[test]
fn ways_go_to_the_slower_one_until_it_gains_no_more() {
    let mut policy = CoPart::new(LIMITS);
    let mut settings = Vec::new();
    let mut ways = Vec::new();
    for _ in 0..14 {
        settings = policy.step(&two(&settings), &CACHE);
        ways.push([0, 1].map(|one| settings[one].mask.count_ones()));
    }
    assert_eq!(ways[..2], [[7, 1], [7, 1]]);
    assert_eq!(ways[2..4], [[1, 7], [1, 7]]);
    assert_eq!(ways[4], [4, 4]);
    assert_eq!(ways[13], [6, 2], "{ways:?}");
    assert_eq!(policy.phase, Phase::Idle);
    assert_eq!(settings[0].cap_mb_per_s, Some(4000.0));
    assert!(settings[0].why.contains("1.00 x slower"), "{}", settings[0].why);
}

#[test]
fn a_program_that_comes_is_measured_and_all_begin_anew() {
    let mut policy = CoPart::new(LIMITS);
    let mut settings = Vec::new();
    for _ in 0..14 {
        settings = policy.step(&two(&settings), &CACHE);
    }
    let [first, second] = two(&settings);
    let third = program(3, 1.0, 0.02, 1e9);
    let settings = policy.step(&[first, second, third], &CACHE);
    // The third is measured; the others are known.
    assert_eq!(settings[2].mask, mask(0, 7));
    policy.step(&[first, second, third], &CACHE);
    let settings = policy.step(&[first, second, third], &CACHE);
    assert_eq!(settings.iter().map(|one| one.mask.count_ones()).sum::<u32>(), 8);
}

/// A program that never runs is given up after ten intervals, and neither gives nor takes.
#[test]
fn a_program_that_sleeps_is_not_waited_for() {
    let mut policy = CoPart::new(LIMITS);
    let asleep = Program { process: ProcessId(9), sample: None, held_bytes: None };
    let runs = program(1, 1.0, 0.5, 1e9);
    for _ in 0..12 {
        policy.step(&[asleep, runs], &CACHE);
    }
    assert!(matches!(policy.phase, Phase::Exploring(_) | Phase::Profiling(ProcessId(1), _)));
    for _ in 0..12 {
        policy.step(&[asleep, runs], &CACHE);
    }
    assert!(matches!(policy.phase, Phase::Exploring(_)));
}

#[test]
fn more_programs_than_partitions_have_all_ways() {
    let mut policy = CoPart::new(LIMITS);
    let many: Vec<Program> = (0..9).map(|one| program(one, 1.0, 0.5, 1e9)).collect();
    let settings = policy.step(&many, &CACHE);
    assert!(settings.iter().all(|one| one.mask == 0xff && one.cap_mb_per_s.is_none()));
}
