use super::*;
use crate::partitioning::online::window::Sample;

const CACHE: Cache =
    Cache { ways: 20, least_ways: 1, bytes: 20e6, private_bytes: 0.0, peak_bytes_per_s: None };

fn program(process: u64, ipc: f64, llc_mpki: f64) -> Program {
    let sample = Sample {
        ipc,
        llc_mpki,
        llc_apki: None,
        llc_mpkc: ipc * llc_mpki,
        bytes_per_s: 0.0,
        memory_stalls: None,
    };
    Program { process: ProcessId(process), sample: Some(sample), held_bytes: None }
}

fn controller(idle: u32) -> CriticalAware {
    CriticalAware::new(Rule { deviations: 3.0, change: 0.04, idle, warm_up: 0 })
}

fn masks(settings: &[Setting]) -> Vec<u64> {
    settings.iter().map(|one| one.mask).collect()
}

/// 12 ways of 20 at the end for the one whose misses stand out, 10 at the start for the others: two in common.
#[test]
fn one_critical_program_gets_12_ways_of_20() {
    let mut policy = controller(5);
    let programs = [program(1, 1.0, 1.0), program(2, 0.5, 20.0), program(3, 1.0, 1.0)];
    let settings = policy.step(&programs, &CACHE);
    assert_eq!(masks(&settings), [0x003ff, 0xfff00, 0x003ff]);
    assert!(settings[1].why.starts_with("critical, 20.0 MPKI, limit 7.3"), "{}", settings[1].why);
}

/// Equal IPCs: the others lose a way; equal again: the critical ones get one. Then 5 % more: nothing for two
/// intervals.
#[test]
fn ways_move_until_ipc_rises() {
    let mut policy = controller(2);
    let at = |ipc: f64| [program(1, ipc, 1.0), program(2, ipc, 20.0), program(3, ipc, 1.0)];
    let mut seen = Vec::new();
    for ipc in [1.0, 1.0, 1.0, 1.05, 1.05, 1.05, 1.05] {
        let settings = policy.step(&at(ipc), &CACHE);
        seen.push((settings[0].mask.count_ones(), settings[1].mask.count_ones()));
    }
    assert_eq!(seen, [(10, 12), (9, 12), (9, 13), (9, 13), (9, 13), (9, 13), (8, 13)]);
}

/// The others lose 10 %, the critical one nothing: it gives a way, and at the next loss of theirs they get one.
#[test]
fn a_loss_of_the_others_alone_is_mended_for_them() {
    let mut policy = controller(2);
    let at =
        |others: f64| [program(1, others, 1.0), program(2, 1.0, 20.0), program(3, others, 1.0)];
    let mut seen = Vec::new();
    for others in [1.0, 0.9, 0.8] {
        let settings = policy.step(&at(others), &CACHE);
        seen.push((settings[0].mask.count_ones(), settings[1].mask.count_ones()));
    }
    assert_eq!(seen, [(10, 12), (10, 11), (11, 11)]);
}

/// Another program becomes critical: whole for an interval, then 13 and 9 ways.
#[test]
fn a_new_critical_program_starts_anew() {
    let mut policy = controller(2);
    let at = |third: f64| [program(1, 1.0, 0.0), program(2, 1.0, 20.0), program(3, 1.0, third)];
    policy.step(&at(0.0), &CACHE);
    let whole = 0xfffff;
    assert_eq!(masks(&policy.step(&at(40.0), &CACHE)), [whole; 3]);
    let settings = policy.step(&at(40.0), &CACHE);
    // The running mean is (6.7 + 20 + 20) / 3 with a deviation of 6.3: 40 stands out, 20 does not, but it did
    // in half of its intervals.
    assert_eq!(masks(&settings), [0x001ff, 0xfff80, 0xfff80]);
}

/// Four critical programs of eight, or none: the cache is whole.
#[test]
fn too_many_or_no_critical_programs_leave_the_cache_whole() {
    let mut policy = controller(2);
    let many: Vec<Program> =
        (0..8).map(|one| program(one, 1.0, if one < 4 { 20.0 } else { 0.0 })).collect();
    assert_eq!(masks(&policy.step(&many, &CACHE)), [0xfffff; 8]);
    let mut policy = controller(2);
    let none: Vec<Program> = (0..3).map(|one| program(one, 1.0, 0.0)).collect();
    assert_eq!(masks(&policy.step(&none, &CACHE)), [0xfffff; 3]);
}

#[test]
fn what_is_not_counted_changes_nothing() {
    let mut policy = controller(2);
    let programs = [program(1, 1.0, 1.0), program(2, 0.5, 20.0)];
    let first = masks(&policy.step(&programs, &CACHE));
    let unknown = programs.map(|one| Program { sample: None, ..one });
    assert_eq!(masks(&policy.step(&unknown, &CACHE)), first);
}
