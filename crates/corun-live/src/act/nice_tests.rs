use corun_policy::ThreadId;

use super::*;
use crate::ManagedThread;
use crate::act::sleeper::Sleeper;
use crate::backend::fixture;

fn nice_now(sleeper: &Sleeper) -> i32 {
    Process::new(&Roots::default(), sleeper.task.pid)
        .thread_stat(sleeper.task.tid)
        .unwrap()
        .unwrap()
        .nice
}

fn prepared(
    nice: &mut Nice,
    sleeper: &Sleeper,
    weight: f64,
    until: Option<u64>,
) -> Result<Vec<Change>, String> {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let until = until.map(Nanoseconds);
    let action = Action::SetWeight { thread: ThreadId(1), weight, until };
    let thread = ManagedThread::new(fixture::facts(sleeper.task, &sleeper.found), 0, "sleeper");
    let threads = fixture::table([(1, thread)]);
    nice.prepare(&action, &machine, &threads, Nanoseconds(0)).map_err(|refusal| refusal.0)
}

/// May this process lower nice values again?
fn may_lower(sleeper: &Sleeper) -> bool {
    let may = Nice::new(&Roots::default()).lowest(&sleeper.task) <= nice_now(sleeper);
    if !may {
        eprintln!("skipped: this needs CAP_SYS_NICE");
    }
    may
}

#[test]
fn weights_are_the_kernel_s() {
    assert_eq!(nice_of(1.0), Some(0));
    assert_eq!(nice_of(820.0 / 1024.0), Some(1));
    assert_eq!(nice_of(3.05), Some(-5));
    assert_eq!((nice_of(1e9), nice_of(1e-9)), (Some(-20), Some(19)));
    assert_eq!([0.0, -1.0, f64::NAN, f64::INFINITY].map(nice_of), [None; 4]);
}

#[test]
fn a_weight_is_set_and_taken_back() {
    let sleeper = Sleeper::new();
    if !may_lower(&sleeper) {
        return;
    }
    let roots = Roots::default();
    let found = nice_now(&sleeper);
    let mut nice = Nice::new(&roots);
    let change = prepared(&mut nice, &sleeper, 0.02, None).unwrap().remove(0);
    change.apply(&roots).unwrap();
    assert_eq!(nice_now(&sleeper), 17);
    assert!(matches!(change.apply(&roots), Err(ActError::ChangedByOthers { .. })));
    assert_eq!(prepared(&mut nice, &sleeper, 0.02, None).unwrap(), []);
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(nice_now(&sleeper), found);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
    set(&sleeper.task, 7).unwrap();
    assert_eq!(change.revert(&roots).unwrap(), Reverted::ChangedByOthers { found: "7".to_owned() });
}

#[test]
fn a_weight_expires_to_what_was_there_at_first() {
    let sleeper = Sleeper::new();
    if !may_lower(&sleeper) {
        return;
    }
    let roots = Roots::default();
    let found = nice_now(&sleeper);
    let mut nice = Nice::new(&roots);
    // Nice 17 and 13: another than what tests are commonly started with, 0 and 10.
    for (weight, until) in [(0.02, 10), (0.05, 20)] {
        for change in prepared(&mut nice, &sleeper, weight, Some(until)).unwrap() {
            change.apply(&roots).unwrap();
        }
    }
    assert_eq!(nice.due(Nanoseconds(19)), []);
    let back = nice.due(Nanoseconds(20));
    assert_eq!(back.len(), 1);
    back[0].apply(&roots).unwrap();
    assert_eq!(nice_now(&sleeper), found);
    assert_eq!(nice.due(Nanoseconds(30)), []);
}

#[test]
fn what_could_not_be_undone_is_refused() {
    // This process as the kernel would show it without the capability and with a limit.
    let sleeper = Sleeper::new();
    let folder = tempfile::tempdir().unwrap();
    let Task { pid, tid, .. } = sleeper.task;
    let thread = folder.path().join(format!("{pid}/task/{tid}"));
    std::fs::create_dir_all(&thread).unwrap();
    std::fs::create_dir_all(folder.path().join("self")).unwrap();
    std::fs::copy(format!("/proc/{pid}/task/{tid}/stat"), thread.join("stat")).unwrap();
    std::fs::write(folder.path().join("self/status"), "CapEff:\t0000000000000000\n").unwrap();
    let limits = folder.path().join(format!("{pid}/limits"));
    let roots = Roots { proc: folder.path().into(), ..Roots::default() };
    let mut nice = Nice::new(&roots);
    let found = nice_now(&sleeper);
    for (limit, allowed) in [(0, false), (20 - found, true), (40, true)] {
        std::fs::write(&limits, format!("Max nice priority         {limit}  {limit}\n")).unwrap();
        let lowered = prepared(&mut nice, &sleeper, 0.01, None);
        assert_eq!(lowered.is_ok(), allowed, "{limit}: {lowered:?}");
    }
    std::fs::write(&limits, "Max nice priority         0  0\n").unwrap();
    let refused = prepared(&mut nice, &sleeper, 4.0, None).unwrap_err();
    assert!(refused.contains("CAP_SYS_NICE"), "{refused}");
    assert!(prepared(&mut nice, &sleeper, f64::NAN, None).unwrap_err().contains("no weight"));
}
