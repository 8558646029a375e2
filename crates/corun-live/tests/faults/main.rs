//! Every system call of acting, of the journal and of undoing fails once, in each way that calls fail.
//!
//! Whatever fails: what is in force stands in the journal, an outcome that says "done" is true, and what could not be
//! given back is given back by the next attempt. Some 4,900 runs, each with one failure, take a minute: unless
//! `CORUN_EVERY_FAULT` is set each way of failing takes every third call, each way from another one on.

mod inject;
mod orders;
mod pages;
mod world;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use corun_live::{
    Change, Journal, RestoreOutcome, Restored, RestoredJournal, Reverted, Which, restore,
    would_restore,
};

use inject::{Fault, run};
use world::World;

/// In which ways calls fail. `ESRCH` comes from a thread that ends just before.
const FAULTS: [Fault; 6] = [
    Fault::Error(libc::EPERM),
    Fault::Error(libc::EIO),
    Fault::Error(libc::ENOSPC),
    Fault::Error(libc::EINTR),
    Fault::ShortWrite,
    Fault::Before,
];

/// Runs with each fault at each place, at least so many. A run without a fault is the last one.
fn walk(least: u32, each: impl Fn(&mut World, usize, Fault) -> Option<i32>) {
    // What other tests start at the same time would have this one's journals open for a moment.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = inject::try_filter() {
        eprintln!("skipped: the kernel asks nobody about system calls here: {error}");
        return;
    }
    let Some(mut world) = World::new() else { return };
    let step = if std::env::var_os("CORUN_EVERY_FAULT").is_some() { 1 } else { 3 };
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let mut calls: BTreeMap<i32, u32> = BTreeMap::new();
        for place in (number % step..).step_by(step) {
            world.renew();
            let Some(call) = each(&mut world, place, fault) else { break };
            *calls.entry(call).or_default() += 1;
        }
        let places: u32 = calls.values().sum();
        println!("{fault:?}: {places} places, by call {calls:?}");
        // Undoing writes nothing to files, and acting needs room at few calls.
        let least = match fault {
            Fault::ShortWrite => 0,
            Fault::Error(libc::ENOSPC) => least / 5,
            _ => least,
        };
        assert!(places >= least / step as u32, "{fault:?}: only {places} calls were seen");
    }
}

/// What a host does with its plans: each into the journal, then made.
struct Acted {
    journal: Option<Journal>,
    made: Vec<(Change, Result<(), String>)>,
}

fn act(world: &World, plans: [Vec<Change>; 2]) -> Acted {
    let mut acted = Acted { journal: None, made: Vec::new() };
    let Ok(journal) = Journal::create(&world.folder(), &world.roots) else { return acted };
    let journal = acted.journal.insert(journal);
    for plan in plans {
        // As the threads are after the plan before.
        let failed = |target: &Change| {
            acted.made.iter().any(|(change, made)| made.is_err() && is_of_one(change, target))
        };
        let plan: Vec<Change> = plan
            .into_iter()
            .map(|change| match change {
                Change::Affinity { task, after, .. } if failed(&change) => {
                    Change::Affinity { task, before: world.both.clone(), after }
                }
                other => other,
            })
            .collect();
        let written = journal.write(&plan).map_err(|error| error.to_string());
        for change in plan {
            let made = written.clone();
            let made = made.and_then(|()| change.apply(&world.roots).map_err(|e| e.to_string()));
            acted.made.push((change, made));
        }
    }
    acted
}

/// Do both say where the same thread may run?
fn is_of_one(change: &Change, other: &Change) -> bool {
    match (change, other) {
        (Change::Affinity { task, .. }, Change::Affinity { task: other, .. }) => task == other,
        _ => false,
    }
}

/// The processes that a list of outcomes says are given back, or would be.
fn named(restored: &[Restored], is: impl Fn(&Result<Reverted, String>) -> bool) -> Vec<u32> {
    let named = restored.iter().filter(|one| is(&one.outcome));
    named.filter_map(|one| pid_of(&one.change)).collect()
}

fn pid_of(change: &Change) -> Option<u32> {
    match change {
        Change::Affinity { task, .. }
        | Change::Nice { task, .. }
        | Change::SchedulingPolicy { task, .. } => Some(task.pid),
        _ => None,
    }
}

fn is_empty(world: &World) -> bool {
    std::fs::read_dir(world.folder()).map_or(true, |mut names| names.next().is_none())
}

/// Can what was changed have ended? A resctrl group has where it was not made, or is removed.
fn is_gone(world: &World, change: &Change, fault: Fault) -> bool {
    match change {
        Change::ResctrlGroup { .. } => world.is_made(change) == Some(false),
        change => pid_of(change).is_some() && fault == Fault::Before,
    }
}

/// No outcome is another than "given back", "was so already", and "ended" of a program that did.
fn assert_all_undone(world: &World, restored: &[Restored], fault: Fault, when: &str) {
    for one in restored {
        match &one.outcome {
            Ok(Reverted::Done | Reverted::AsBefore) => {}
            Ok(Reverted::Gone) if is_gone(world, &one.change, fault) => {}
            other => panic!("{when}: {other:?} of {}", one.change),
        }
    }
    assert!(world.is_as_before(), "{when}: {:?} are not as before: {restored:?}", world.others());
}

#[test]
fn whatever_fails_while_acting_the_journal_knows_what_is_in_force() {
    walk(200, |world, place, fault| {
        let plans = world.plans();
        let ran = run(place, fault, || world.end_first(), || act(world, plans));
        let when = format!("{fault:?} at place {place}, call {:?}", ran.hit);
        let Acted { journal, made } = ran.answer;
        for (number, (change, outcome)) in made.iter().enumerate() {
            let is_later = |(other, made): &(Change, Result<(), String>)| {
                made.is_ok() && is_of_one(other, change)
            };
            let is_latest = !made[number + 1..].iter().any(is_later);
            if let Some(is_made) = world.is_made(change).filter(|_| is_latest) {
                assert_eq!(is_made, outcome.is_ok(), "{when}: {change} says {outcome:?}: {made:?}");
            }
        }
        let known = would_restore(&world.folder(), &world.roots, Which::Dead).unwrap();
        let known: Vec<Restored> = known.into_iter().flat_map(|one| one.changes).collect();
        let in_force = named(&known, |outcome| *outcome == Ok(Reverted::Done));
        for pid in world.others() {
            assert!(in_force.contains(&pid), "{when}: the journal has nothing of {pid}: {known:?}");
        }
        for (change, _) in made.iter().filter(|(change, _)| pid_of(change).is_none()) {
            let is_known =
                known.iter().any(|one| one.change == *change && one.outcome == Ok(Reverted::Done));
            assert_eq!(world.is_made(change), Some(is_known), "{when}: {change}: {known:?}");
        }
        let restored = journal.map(|mut journal| journal.undo(&world.roots)).unwrap_or_default();
        assert_all_undone(world, &restored, fault, &when);
        assert!(is_empty(world), "{when}");
        ran.hit
    });
}

/// Two plans are carried out, and between them the first program starts another.
fn acted_with_heir(world: &mut World) -> Journal {
    let mut journal = Journal::create(&world.folder(), &world.roots).unwrap();
    let mut carry_out = |plan: Vec<Change>| {
        journal.write(&plan).unwrap();
        plan.iter().for_each(|change| change.apply(&world.roots).unwrap());
    };
    let [first, second] = world.plans();
    carry_out(first);
    let heir = world.sleepers[0].start_another();
    carry_out(second);
    world.adds_heir(heir);
    journal
}

#[test]
fn whatever_fails_while_undoing_is_said_and_the_next_attempt_gives_it_back() {
    walk(200, |world, place, fault| {
        let mut journal = acted_with_heir(world);
        let ran = run(place, fault, || world.end_first(), || (journal.undo(&world.roots), journal));
        let (restored, mut journal) = ran.answer;
        let when = format!("{fault:?} at place {place}, call {:?}", ran.hit);
        assert_true(world, &restored, fault, &when);
        if restored.iter().all(|one| one.outcome.is_ok()) {
            assert_all_undone(world, &restored, fault, &when);
        } else {
            assert!(journal.path().exists(), "{when}: {restored:?}");
        }
        assert_all_undone(world, &journal.undo(&world.roots), fault, &format!("{when}, again"));
        assert!(is_empty(world), "{when}");
        ran.hit
    });
}

#[test]
fn whatever_fails_while_restoring_is_said_and_the_next_attempt_gives_it_back() {
    walk(200, |world, place, fault| {
        let journal = acted_with_heir(world);
        // As after a kill: the lock is free, and there is no such process.
        drop(journal);
        world.hides_own_process();
        let restored = || restore(&world.folder(), &world.roots, Which::Dead);
        let ran = run(place, fault, || world.end_first(), restored);
        let when = format!("{fault:?} at place {place}, call {:?}", ran.hit);
        if let Ok(journals) = &ran.answer {
            // What a running corun did is not undone: the changes are those that would be.
            for one in journals.iter().filter(|one| one.outcome != RestoreOutcome::Running) {
                assert_true(world, &one.changes, fault, &when);
            }
            if !journals.iter().any(RestoredJournal::is_left) {
                assert!(world.is_as_before() && is_empty(world), "{when}: {journals:?}");
            }
        }
        for one in restored().unwrap() {
            assert_eq!(one.outcome, RestoreOutcome::Undone, "{when}, again: {one:?}");
            assert_all_undone(world, &one.changes, fault, &format!("{when}, again"));
        }
        assert!(world.is_as_before() && is_empty(world), "{when}: {:?}", world.others());
        ran.hit
    });
}

/// What is said to be given back is; what is not given back is said.
fn assert_true(world: &World, restored: &[Restored], fault: Fault, when: &str) {
    for one in restored {
        let is_said_done = matches!(one.outcome, Ok(Reverted::Done | Reverted::AsBefore));
        if is_said_done {
            let is_in_force = world.is_made(&one.change) == Some(true);
            assert!(!is_in_force, "{when}: {} is said to be undone: {restored:?}", one.change);
        }
        let is_by_others =
            matches!(one.outcome, Ok(Reverted::ChangedByOthers { .. } | Reverted::Unclear { .. }));
        assert!(!is_by_others, "{when}: nobody else changed {}: {restored:?}", one.change);
        let is_said_gone = one.outcome == Ok(Reverted::Gone);
        let is_gone = is_gone(world, &one.change, fault);
        assert!(!is_said_gone || is_gone, "{when}: {} is there", one.change);
    }
}
