use corun_linux::procfs::{Process, Stat};
use corun_linux::sysfs::online_file;
use corun_machine::CpuId;
use corun_policy::{Action, Nanoseconds, ThreadId};

use super::*;
use crate::act::sleeper::Sleeper;
use crate::act::{Actuator, PlacementActuator};
use crate::backend::fixture;

/// A sleeper in the host's care.
fn managed(sleeper: &Sleeper, may_run_on: &CpuSet) -> ManagedThread {
    let thread = ManagedThread::new(fixture::facts(sleeper.task, &sleeper.found), 0, "sleeper");
    ManagedThread { may_run_on: may_run_on.clone(), ..thread }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn a_thread_is_held_and_let_go() {
    let sleeper = Sleeper::new();
    let roots = Roots::default();
    let Some((one, _)) = sleeper.two_cpus() else { return };
    let change = sleeper.change(&one);
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::AsBefore);
    change.apply(&roots).unwrap();
    assert_eq!(sleeper.now(), one);
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(sleeper.now(), one);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(sleeper.now(), sleeper.found);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
}

#[test]
fn what_others_set_stays() {
    let sleeper = Sleeper::new();
    let roots = Roots::default();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    sleeper.set(&second);
    let change = sleeper.change(&first);
    let error = change.apply(&roots).unwrap_err();
    assert!(matches!(error, ActError::ChangedByOthers { .. }), "{error}");
    assert_eq!(
        change.revert(&roots).unwrap(),
        Reverted::ChangedByOthers { found: second.to_string() }
    );
    assert_eq!(sleeper.now(), second);
}

#[test]
fn an_ended_thread_and_a_reused_number_are_gone() {
    let mut sleeper = Sleeper::new();
    let roots = Roots::default();
    let one: CpuSet = sleeper.found.first().into_iter().collect();
    let reused = Task { start_ticks: sleeper.task.start_ticks + 1, ..sleeper.task };
    let on_reused =
        Change::Affinity { task: reused, before: sleeper.found.clone(), after: one.clone() };
    assert!(matches!(on_reused.apply(&roots), Err(ActError::Gone { .. })));
    assert_eq!(on_reused.revert(&roots).unwrap(), Reverted::Gone);
    assert_eq!(sleeper.now(), sleeper.found);
    sleeper.end();
    assert!(matches!(sleeper.change(&one).apply(&roots), Err(ActError::Gone { .. })));
    assert_eq!(sleeper.change(&one).revert(&roots).unwrap(), Reverted::Gone);
}

#[test]
fn kernel_threads_are_never_touched() {
    let roots = Roots::default();
    let Some(stat) = Process::new(&roots, 2).stat().unwrap().filter(Stat::is_kernel_thread) else {
        eprintln!("skipped: no kernel thread can be seen from here");
        return;
    };
    let task = Task { pid: 2, tid: 2, start_ticks: stat.start_ticks };
    let found = affinity(2).unwrap();
    let one: CpuSet = found.first().into_iter().collect();
    let error = Change::Affinity { task, before: found, after: one }.apply(&roots).unwrap_err();
    assert!(matches!(error, ActError::Protected { .. }), "{error}");
}

#[test]
fn real_time_threads_are_never_touched() {
    // The kernel's own view of a thread, as it would be with SCHED_FIFO.
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().into(), ..Roots::default() };
    let sleeper = Sleeper::new();
    let task = sleeper.task;
    let one: CpuSet = sleeper.found.first().into_iter().collect();
    let path = folder.path().join(format!("{}/task/{}", task.pid, task.tid));
    std::fs::create_dir_all(&path).unwrap();
    // Fields 3 to 52 of proc(5).
    let mut fields = vec!["0".to_owned(); 50];
    fields[3 - 3] = "S".to_owned();
    fields[22 - 3] = task.start_ticks.to_string();
    fields[41 - 3] = "1".to_owned();
    let line = format!("{} (x) {}\n", task.tid, fields.join(" "));
    std::fs::write(path.join("stat"), line).unwrap();
    let error = sleeper.change(&one).apply(&roots).unwrap_err();
    assert!(error.to_string().contains("scheduled in real time"), "{error}");
    assert_eq!(sleeper.now(), sleeper.found);
}

/// This machine with other CPUs on line than it has.
fn with_online(cpus: &CpuSet) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { sys: folder.path().into(), ..Roots::default() };
    std::fs::create_dir_all(folder.path().join("devices/system/cpu")).unwrap();
    std::fs::write(online_file(&roots), cpus.to_string()).unwrap();
    (folder, roots)
}

#[test]
fn a_cpu_that_is_off_line_is_given_back_with_the_others() {
    let sleeper = Sleeper::new();
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let (_folder, roots) = with_online(&first);
    // What the kernel shows of it while the other CPUs are off line.
    assert_eq!(asked_for(&roots, &sleeper.task, &first).unwrap(), Some(sleeper.found.clone()));
    let change = sleeper.change(&first);
    change.apply(&roots).unwrap();
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(sleeper.now(), sleeper.found);
}

/// A cgroup of version 1 with a CPU set.
struct Container(std::path::PathBuf);

impl Container {
    /// None, and a word about it, where none can be made.
    fn new(name: &str, cpus: &CpuSet) -> Option<Self> {
        let root = std::path::Path::new("/sys/fs/cgroup/cpuset");
        let folder = root.join(format!("corun-test-{}-{name}", std::process::id()));
        if !root.join("cpuset.cpus").is_file() || std::fs::create_dir(&folder).is_err() {
            eprintln!("skipped: no cgroup of version 1 with cpuset can be made here");
            return None;
        }
        let container = Self(folder);
        let mems = std::fs::read_to_string(root.join("cpuset.mems")).unwrap();
        std::fs::write(container.0.join("cpuset.mems"), mems).unwrap();
        container.set(cpus);
        Some(container)
    }

    fn set(&self, cpus: &CpuSet) {
        std::fs::write(self.0.join("cpuset.cpus"), format!("{cpus}\n")).unwrap();
    }

    fn take(&self, sleeper: &Sleeper) {
        std::fs::write(self.0.join("tasks"), sleeper.task.pid.to_string()).unwrap();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for _ in 0..1000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn a_container_that_is_widened_after_it_was_held_does_not_stay_narrow() {
    let roots = Roots::default();
    let Some(all) = sysfs::possible_cpus(&roots).unwrap() else { return };
    let one = CpuSet::from_iter(all.first());
    let Some(container) = Container::new("widened", &one) else { return };
    let sleeper = Sleeper::new();
    let Some((first, _)) = sleeper.two_cpus() else { return };
    container.take(&sleeper);
    // Nobody asked for an affinity: it may use what its container may.
    let asked = asked_for(&roots, &sleeper.task, &first).unwrap().unwrap();
    assert_eq!(asked, all);
    // What corun asks for is remembered by the kernel, though it changes nothing now.
    sleeper.set(&first);
    let change = Change::Affinity { task: sleeper.task, before: asked, after: first.clone() };
    assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
    container.set(&sleeper.found);
    assert_eq!(sleeper.now(), sleeper.found);
    // A user's own affinity within the container is no wish for all CPUs.
    sleeper.set(&first);
    assert_eq!(asked_for(&roots, &sleeper.task, &first).unwrap(), Some(first));
    drop(sleeper);
}

#[test]
fn an_affinity_that_was_changed_meanwhile_is_not_what_was_asked_for() {
    let sleeper = Sleeper::new();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    sleeper.set(&second);
    assert_eq!(asked_for(&Roots::default(), &sleeper.task, &first).unwrap(), None);
}

/// An actuator for a machine with these CPUs on line.
fn actuator(online: &str) -> (tempfile::TempDir, PlacementActuator) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { sys: folder.path().into(), ..Roots::default() };
    std::fs::create_dir_all(folder.path().join("devices/system/cpu")).unwrap();
    std::fs::write(online_file(&roots), online).unwrap();
    (folder, PlacementActuator::new(&roots))
}

fn prepared(
    affinity: &mut PlacementActuator,
    action: &Action,
    threads: &[(u64, ManagedThread)],
) -> Result<Vec<Change>, String> {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let threads = fixture::table(threads.iter().cloned());
    affinity.prepare(action, &machine, &threads, Nanoseconds(0)).map_err(|refusal| refusal.0)
}

fn allow(id: u64, list: &str) -> Action {
    Action::Allow { thread: ThreadId(id), cpus: cpus(list) }
}

#[test]
fn nothing_is_widened_and_nothing_goes_off_line() {
    let (_folder, mut affinity) = actuator("0-5");
    let sleeper = Sleeper::new();
    let held = [(7, ManagedThread { allowed: cpus("2-7"), ..managed(&sleeper, &cpus("2-7")) })];
    let after = |list: &str, affinity: &mut PlacementActuator| {
        prepared(affinity, &allow(7, list), &held).map(|changes| match changes.as_slice() {
            [] => "as it is".to_owned(),
            [Change::Affinity { after, before, .. }] if *before == cpus("2-7") => after.to_string(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(after("0-3", &mut affinity).unwrap(), "2-3");
    assert_eq!(after("4-7", &mut affinity).unwrap(), "4-5");
    assert!(after("0-1", &mut affinity).unwrap_err().contains("may run on CPUs 2-7 only"));
    assert!(after("6-7", &mut affinity).unwrap_err().contains("none of CPUs 6-7 is on line"));
    assert!(after("", &mut affinity).is_err());
    let same = [(7, ManagedThread { allowed: cpus("3"), ..held[0].1.clone() })];
    assert_eq!(prepared(&mut affinity, &allow(7, "3"), &same).unwrap(), []);
}

#[test]
fn a_swap_is_made_in_full_or_not_at_all() {
    let (_folder, mut affinity) = actuator("0-7");
    let (one, other) = (Sleeper::new(), Sleeper::new());
    let mut both = [
        (1, ManagedThread { allowed: cpus("1"), ..managed(&one, &cpus("0-7")) }),
        (2, ManagedThread { allowed: cpus("4"), ..managed(&other, &cpus("0-7")) }),
    ];
    let swap = Action::Swap { first: ThreadId(1), second: ThreadId(2) };
    let changes = prepared(&mut affinity, &swap, &both).unwrap();
    let expected = [(one.task, "1", "4"), (other.task, "4", "1")].map(|(task, before, after)| {
        Change::Affinity { task, before: cpus(before), after: cpus(after) }
    });
    assert_eq!(changes, expected);
    both[1].1.may_run_on = cpus("4-7");
    assert!(prepared(&mut affinity, &swap, &both).is_err());
}

#[test]
fn threads_left_alone_and_strangers_are_refused() {
    let (_folder, mut affinity) = actuator("0-7");
    let sleeper = Sleeper::new();
    let held = [(1, ManagedThread { left_alone: true, ..managed(&sleeper, &cpus("0-7")) })];
    let refused = |action: Action, affinity: &mut PlacementActuator| {
        prepared(affinity, &action, &held).unwrap_err()
    };
    assert!(refused(allow(1, "0"), &mut affinity).contains("left alone"));
    assert!(refused(allow(2, "0"), &mut affinity).contains("none of ours"));
    let other = Action::IdleCpu { cpu: CpuId(0), duration: Nanoseconds(1) };
    assert!(refused(other, &mut affinity).contains("no action of"));
}
