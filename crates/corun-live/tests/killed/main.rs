//! A corun that is killed at any moment leaves nothing that restoring does not undo.
//!
//! The threads belong to the test; who holds them is a second process, this very program started
//! again, so that it can be killed.

mod container;
mod holder;
mod strays;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use corun_linux::Roots;
use corun_live::{Change, Journal, RestoreOutcome, Restored, Reverted, Which, restore};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use container::Container;
use holder::{Ending, Holder};
use strays::Stray;
use threads::Threads;

struct Folder {
    _base: tempfile::TempDir,
    path: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        Self { path: base.path().join("corun"), _base: base }
    }

    /// Is no journal there? One that was killed at once has not made the folder yet.
    fn is_empty(&self) -> bool {
        match std::fs::read_dir(&self.path) {
            Ok(mut journals) => journals.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => panic!("{}: {error}", self.path.display()),
        }
    }
}

/// The threads of all tests are one process's: one test at a time, or restoring would take the
/// threads of another, born meanwhile, for what its own threads have started.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores and says how many changes were in force.
fn restored(folder: &Path) -> usize {
    let journals = restore(folder, &Roots::default(), Which::Dead).unwrap();
    let mut done = 0;
    for journal in &journals {
        assert_eq!(journal.outcome, RestoreOutcome::Undone, "{journal:?}");
        for change in &journal.changes {
            match &change.outcome {
                Ok(Reverted::Done) => done += 1,
                Ok(Reverted::AsBefore | Reverted::Gone) => {}
                // An orphan of somebody else on this machine, which is left alone. Our threads are this process's.
                Ok(Reverted::Unclear { .. }) if is_of_others(&change.change) => {}
                other => panic!("{other:?} of {}", change.change),
            }
        }
    }
    done
}

fn is_of_others(change: &Change) -> bool {
    matches!(change, Change::Affinity { task, .. } if task.pid != std::process::id())
}

#[test]
fn killed_at_random_moments_hundreds_of_times() {
    let _alone = alone();
    let Some(threads) = Threads::new(8) else { return };
    let folder = Folder::new();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut undone = 0;
    for round in 0..300 {
        let mut holder = Holder::start(&folder.path, &threads, Ending::Never, round);
        holder.wait_for_plans(random.random_range(0..6));
        // Amidst a plan, which takes some tens of microseconds.
        std::thread::sleep(std::time::Duration::from_micros(random.random_range(0..200)));
        holder.kill();
        undone += restored(&folder.path);
        threads.assert_as_before(&format!("after kill {round}"));
        assert!(folder.is_empty());
    }
    assert!(undone > 300, "only {undone} changes were in force when it was killed");
}

/// CPUs, nice values and a cgroup's CPU set, while some of the threads end and others begin. `CORUN_KILLS=1000` for
/// more kills than `make test` makes, `CORUN_KILLS_SEED` for other moments (scripts/kills.sh).
#[test]
fn killed_under_churn_with_nice_values_and_a_cgroup() {
    let _alone = alone();
    let Some(mut threads) = Threads::new(8) else { return };
    let Some(container) = Container::new() else { return };
    let folder = Folder::new();
    let given = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let kills: u64 = given("CORUN_KILLS", 100);
    let mut random = Pcg64Mcg::seed_from_u64(given("CORUN_KILLS_SEED", 2));
    let mut undone = 0;
    for round in 0..kills {
        let cpuset = Some(&container.cpuset);
        let mut holder = Holder::start_with(&folder.path, &threads, cpuset, Ending::Never, round);
        holder.wait_for_plans(random.random_range(0..4));
        threads.replace(random.random_range(0..4));
        std::thread::sleep(std::time::Duration::from_micros(random.random_range(0..400)));
        holder.kill();
        undone += restored(&folder.path);
        threads.assert_as_before(&format!("after kill {round}"));
        container.assert_as_before(&format!("after kill {round}"));
        assert!(folder.is_empty());
    }
    println!("{kills} kills, {undone} changes were in force and are undone");
    assert!(undone as u64 > kills, "only {undone} changes were in force when it was killed");
}

#[test]
fn killed_again_and_again_without_restoring_between() {
    let _alone = alone();
    let Some(threads) = Threads::new(4) else { return };
    let folder = Folder::new();
    for round in 0..20 {
        let mut holder = Holder::start(&folder.path, &threads, Ending::Never, round);
        holder.wait_for_plans(3);
        holder.kill();
        if round % 4 == 3 {
            // Each journal knows what was there when its writer came, so the newest has to go
            // first: its writer started last.
            restored(&folder.path);
            threads.assert_as_before(&format!("after {round}"));
        }
    }
}

#[test]
fn asked_to_stop_it_undoes_what_it_did() {
    let _alone = alone();
    let Some(threads) = Threads::new(8) else { return };
    let folder = Folder::new();
    for round in 0..20 {
        let mut holder = Holder::start(&folder.path, &threads, Ending::Never, round);
        holder.wait_for_plans(1 + round % 4);
        holder.terminate();
        threads.assert_as_before(&format!("after SIGTERM {round}"));
        assert!(folder.is_empty());
    }
}

#[test]
fn at_its_end_and_after_a_panic_it_undoes_what_it_did() {
    let _alone = alone();
    let Some(threads) = Threads::new(8) else { return };
    let folder = Folder::new();
    for (ending, code) in [(Ending::Normal, 0), (Ending::Panic, 101)] {
        let mut holder = Holder::start(&folder.path, &threads, ending, 1);
        assert_eq!(holder.wait().code(), Some(code));
        threads.assert_as_before("after its end");
        assert!(folder.is_empty());
    }
}

#[test]
fn restoring_stops_running_ones_when_asked_to() {
    let _alone = alone();
    let Some(threads) = Threads::new(4) else { return };
    let folder = Folder::new();
    let mut holder = Holder::start(&folder.path, &threads, Ending::Never, 1);
    holder.wait_for_plans(2);
    let journals = restore(&folder.path, &Roots::default(), Which::All).unwrap();
    assert_eq!(journals.len(), 1);
    assert_eq!(journals[0].outcome, RestoreOutcome::Stopped);
    threads.assert_as_before("after it was stopped");
    assert_eq!(holder.wait().code(), Some(0));
}

#[test]
fn threads_that_end_under_it_are_no_failure() {
    let _alone = alone();
    let Some(mut threads) = Threads::new(8) else { return };
    let folder = Folder::new();
    for round in 0..30 {
        let mut holder = Holder::start(&folder.path, &threads, Ending::Never, round);
        holder.wait_for_plans(1);
        threads.replace(3);
        holder.wait_for_plans(2);
        holder.kill();
        restored(&folder.path);
        threads.assert_as_before(&format!("after kill {round}"));
        assert!(folder.is_empty());
    }
}

#[test]
fn on_a_full_disk_and_in_a_read_only_folder_nothing_is_carried_out() {
    let _alone = alone();
    let Some(threads) = Threads::new(4) else { return };
    let Some(small) = threads::SmallDisk::new() else { return };
    let mut holder = Holder::start(&small.path().join("corun"), &threads, Ending::Never, 1);
    holder.wait_for_plans(2);
    small.fill();
    // It goes on until its journal is full, and then holds what it held.
    let status = holder.wait();
    assert_eq!(status.code(), Some(holder::NO_JOURNAL), "{status}");
    threads.assert_as_before("after the disk was full");
    small.make_read_only();
    let mut holder = Holder::start(&small.path().join("corun"), &threads, Ending::Never, 1);
    assert_eq!(holder.wait().code(), Some(holder::NO_JOURNAL));
    threads.assert_as_before("in a read-only folder");
}

/// What became of a stray's affinity.
fn outcome_of(stray: &Stray, restored: &[Restored]) -> Option<Result<Reverted, String>> {
    let change =
        |one: &&Restored| matches!(&one.change, Change::Affinity { task, .. } if *task == stray.0);
    restored.iter().find(change).map(|one| one.outcome.clone())
}

#[test]
fn a_child_that_left_its_family_is_found_and_given_back() {
    let _alone = alone();
    let Some([one, _, both]) = threads::places() else { return };
    let folder = Folder::new();
    let mut journal = Journal::create(&folder.path, &Roots::default()).unwrap();
    for _ in 0..20 {
        let stray = Stray::of_one_held(&both, &one, &mut journal);
        assert_eq!(threads::affinity(&stray.0), Some(one.clone()));
        let restored = journal.undo(&Roots::default());
        assert_eq!(outcome_of(&stray, &restored), Some(Ok(Reverted::Done)), "{restored:?}");
        assert_eq!(threads::affinity(&stray.0), Some(both.clone()));
        drop(journal);
        journal = Journal::create(&folder.path, &Roots::default()).unwrap();
    }
}

#[test]
fn a_stray_of_another_cgroup_is_named_and_left() {
    let _alone = alone();
    let Some([one, _, both]) = threads::places() else { return };
    let Some(cgroup) = threads::Cgroup::new() else { return };
    let folder = Folder::new();
    let mut journal = Journal::create(&folder.path, &Roots::default()).unwrap();
    let stray = Stray::of_one_held(&both, &one, &mut journal);
    cgroup.take(&stray.0);
    threads::set_affinity(&stray.0, &one);
    let restored = journal.undo(&Roots::default());
    let outcome = outcome_of(&stray, &restored);
    assert!(matches!(outcome, Some(Ok(Reverted::Unclear { .. }))), "{restored:?}");
    assert_eq!(threads::affinity(&stray.0), Some(one));
    drop(stray);
}

/// The second process: it holds threads as a host does until it is ended. Without a task of its
/// own it is a test like the others, of one that holds nothing.
#[test]
fn the_holder() {
    match holder::task() {
        Some(task) => std::process::exit(task.hold()),
        None => {
            let threads = Threads::none();
            let folder = Folder::new();
            let mut holder = Holder::start(&folder.path, &threads, Ending::Normal, 1);
            assert_eq!(holder.wait().code(), Some(0));
            assert!(folder.is_empty());
        }
    }
}
