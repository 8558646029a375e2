//! Each system call of making and of undoing a partition fails once, in each way that calls fail. `CORUN_EVERY_FAULT`
//! takes every call, else each way of failing takes every third, from another one on.

use corun_live::{Change, Journal, RestoreOutcome, Restored, RestoredJournal, Which, restore};

use super::inject::{Fault, run, try_filter};
use super::{Bench, partition};

const FAULTS: [Fault; 4] = [
    Fault::Error(libc::EPERM),
    Fault::Error(libc::EIO),
    Fault::Error(libc::ENOSPC),
    Fault::Error(libc::EINTR),
];

type Made = Vec<Result<(), String>>;

/// The journal of a partition of two parts, and its changes. Nothing is made yet.
fn prepared(bench: &Bench) -> (Journal, Vec<Change>) {
    let mut resctrl = bench.actuator();
    let parts = partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]);
    let changes = bench.prepare(&mut resctrl, &parts, 1).unwrap();
    let mut journal = Journal::create(&bench.sys.path().join("journals"), &bench.roots).unwrap();
    journal.write(&changes).unwrap();
    (journal, changes)
}

fn make(bench: &Bench, changes: &[Change]) -> Made {
    changes.iter().map(|one| one.apply(&bench.roots).map_err(|error| error.to_string())).collect()
}

/// Is a change in force? None of a schemata line, which ends with its group.
fn is_in_force(bench: &Bench, change: &Change) -> Option<bool> {
    match change {
        Change::ResctrlGroup { group } => Some(bench.roots.resctrl.join(group).exists()),
        Change::ResctrlTask { task, after, .. } => {
            let tasks = std::fs::read_to_string(bench.roots.resctrl.join(after).join("tasks"));
            let tid = task.tid.to_string();
            Some(tasks.is_ok_and(|tasks| tasks.lines().any(|line| line.trim() == tid)))
        }
        _ => None,
    }
}

fn assert_as_before(bench: &Bench, restored: &[Restored], when: &str) {
    let failed: Vec<&Restored> = restored.iter().filter(|one| one.outcome.is_err()).collect();
    assert!(failed.is_empty(), "{when}: {failed:?}");
    assert_eq!(bench.ours(), [""; 0], "{when}: {restored:?}");
    assert_eq!([0, 1, 2, 3].map(|program| bench.mask(program, 1).1), ["."; 4], "{when}");
}

/// Runs with each fault at each place, until a run makes fewer calls.
fn walk(bench: &Bench, each: impl Fn(usize, Fault, &str) -> Option<i32>) {
    if let Err(error) = try_filter() {
        eprintln!("skipped: the kernel asks nobody about system calls here: {error}");
        return;
    }
    let step = if std::env::var_os("CORUN_EVERY_FAULT").is_some() { 1 } else { 3 };
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let mut places = 0;
        for place in (number % step..).step_by(step) {
            if each(place, fault, &format!("{fault:?} at place {place}")).is_none() {
                break;
            }
            places += 1;
        }
        println!("{fault:?}: {places} places");
        assert!(places * step >= 10, "{fault:?}: only {places} calls were seen");
    }
    assert_as_before(bench, &[], "at the end");
}

#[test]
fn whatever_fails_while_a_partition_is_made_what_is_in_force_is_told_and_given_back() {
    let Some(bench) = Bench::new() else { return };
    walk(&bench, |place, fault, when| {
        let (mut journal, changes) = prepared(&bench);
        let ran = run(place, fault, || (), || make(&bench, &changes));
        for (change, made) in changes.iter().zip(&ran.answer) {
            if let Some(is_in_force) = is_in_force(&bench, change) {
                assert_eq!(is_in_force, made.is_ok(), "{when}: {change} says {made:?}");
            }
        }
        assert_as_before(&bench, &journal.undo(&bench.roots), when);
        ran.hit
    });
}

#[test]
fn whatever_fails_while_a_partition_is_undone_is_said_and_the_next_attempt_gives_it_back() {
    let Some(bench) = Bench::new() else { return };
    walk(&bench, |place, fault, when| {
        let (mut journal, changes) = prepared(&bench);
        let made = make(&bench, &changes);
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        let ran = run(place, fault, || (), || journal.undo(&bench.roots));
        for one in &ran.answer {
            // A thread that could not be looked at falls to the root with its group.
            let is_in_force = is_in_force(&bench, &one.change) == Some(true);
            assert!(one.outcome.is_err() || !is_in_force, "{when}: {one:?}");
        }
        if ran.answer.iter().all(|one| one.outcome.is_ok()) {
            assert_as_before(&bench, &ran.answer, when);
        } else {
            assert!(journal.path().exists(), "{when}");
        }
        // Also where all is undone and the file alone could not be removed.
        assert_as_before(&bench, &journal.undo(&bench.roots), &format!("{when}, again"));
        ran.hit
    });
}

/// After a kill: the journal's writer is no more, and its lock is free.
#[test]
fn whatever_fails_while_a_partition_is_restored_is_said_and_the_next_attempt_gives_it_back() {
    let Some(bench) = Bench::new() else { return };
    let roots = bench.roots_without_own_process();
    let folder = bench.sys.path().join("journals");
    let restored = || restore(&folder, &roots, Which::Dead);
    walk(&bench, |place, fault, when| {
        let (journal, changes) = prepared(&bench);
        let made = make(&bench, &changes);
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        drop(journal);
        let ran = run(place, fault, || (), restored);
        if let Ok(journals) = &ran.answer {
            let tried = journals.iter().filter(|one| one.outcome != RestoreOutcome::Running);
            for one in tried.flat_map(|journal| &journal.changes) {
                let is_in_force = is_in_force(&bench, &one.change) == Some(true);
                assert!(one.outcome.is_err() || !is_in_force, "{when}: {one:?}");
            }
            if !journals.iter().any(RestoredJournal::is_left) {
                assert_as_before(&bench, &[], when);
            }
        }
        for one in restored().unwrap() {
            assert_eq!(one.outcome, RestoreOutcome::Undone, "{when}, again: {one:?}");
            assert_as_before(&bench, &one.changes, &format!("{when}, again"));
        }
        assert_as_before(&bench, &[], &format!("{when}, at the end"));
        ran.hit
    });
}
