//! What the wrong path asks for.

use super::*;

/// A simulator that runs traces has no wrong path.
#[test]
fn a_core_may_have_no_wrong_path() {
    let mut core = core("big-out-of-order").unwrap().machine.core_types()[0].clone();
    assert!(CoreParameters::of(&core, 5.0, 100.0).meets_again > 0.0);
    core.runs_wrong_path = false;
    assert_eq!(CoreParameters::of(&core, 5.0, 100.0).meets_again, 0.0);
}

/// A load that misses, and a branch on its value that is mispredicted.
fn probe(address_inputs: [u16; 2]) -> [Step; 2] {
    let mut branch = compute(Operation::None, [1, 0, 0]);
    branch.0.marks = Marks::MISPREDICTED_LARGE;
    [load(address_inputs, true), branch]
}

#[test]
fn the_wrong_path_asks_for_the_lines_that_follow() {
    let never = CoreParameters { meets_again: 0.0, ..wide() };
    let always = CoreParameters { meets_again: 1.0, ..wide() };
    // Each branch waits for memory, and lets the next load begin 15 cycles later.
    about(cycles(&never, &probe([0, 0])), f64::from(MEMORY_CYCLES) + 16.0);
    // While the first waits, those of the 8 misses that can be outstanding are on their way; then each
    // branch costs its refill, a hit and its dispatch.
    let found = cycles(&always, &probe([0, 0]));
    let least = f64::from(MEMORY_CYCLES) / 8.0;
    assert!((least..1.5 * least).contains(&found), "{found}");
}

/// The same, with an instruction that the other direction lacks behind the branch, on which the next load's address hangs
/// or not.
fn met(depends: bool, other_instructions: u16) -> [Step; 3] {
    let [load, mut branch] = probe([u16::from(depends), 0]);
    branch.0.reconvergence = Reconvergence::After { entries: 2, other_instructions };
    [load, branch, compute(Operation::Integer, [0, 0, 0])]
}

#[test]
fn what_both_directions_have_is_asked_for_by_the_wrong_one() {
    let share = |meets_again| CoreParameters { meets_again, ..wide() };
    // By the share alone, the instruction in between has been executed on either path.
    let ignored = cycles(&share(0.75), &met(false, 1));
    let least = f64::from(MEMORY_CYCLES) / 8.0;
    assert!((least..1.6 * least).contains(&ignored), "{ignored}");
    let waits = f64::from(MEMORY_CYCLES) + 16.0;
    let hangs = cycles(&share(0.75), &met(true, 1));
    assert!((hangs - waits).abs() < 3.0, "{hangs}");
    // A wrong direction that fills the reorder buffer never gets there, and some do not meet.
    let long = cycles(&share(0.75), &met(false, 5000));
    assert!((long - waits).abs() < 3.0, "{long}");
    let mut never = met(false, 1);
    never[1].0.reconvergence = Reconvergence::Never;
    assert_eq!(cycles(&share(1.0), &never), long);
    assert_eq!(cycles(&share(0.0), &met(false, 1)), long, "a core without a wrong path");
    // What the other direction writes is not there.
    let mut written = met(false, 1);
    written[0].0.hangs_on = 2;
    let hangs = cycles(&share(0.75), &written);
    assert!((hangs - waits).abs() < 3.0, "{hangs}");
}

/// A core without a prefetcher foresees nothing: its wrong path asks for a stream's lines as for any other.
#[test]
fn without_a_prefetcher_the_wrong_path_asks_for_streams_too() {
    let core = CoreParameters { meets_again: 1.0, prefetch_lines: 0, ..wide() };
    let [(op, misses), branch] = probe([0, 0]);
    let foreseen = (MicroOp { marks: op.marks.with(Marks::FORESEEN), ..op }, misses);
    assert_eq!(cycles(&core, &[foreseen, branch]), cycles(&core, &[(op, misses), branch]));
}

#[test]
fn the_wrong_path_cannot_follow_a_chase() {
    let of = |meets_again| cycles(&CoreParameters { meets_again, ..wide() }, &probe([2, 0]));
    about(of(1.0), of(0.0));
}

#[test]
fn a_core_in_order_waits_at_the_branch() {
    let of = |meets_again| cycles(&CoreParameters { meets_again, ..in_order() }, &probe([0, 0]));
    about(of(1.0), of(0.0));
}
