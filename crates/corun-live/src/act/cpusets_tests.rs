use std::process::{Child, Command};

use corun_machine::CpuId;
use corun_policy::{Action, Nanoseconds, ThreadId};
use proptest::prelude::*;

use super::*;
use crate::act::{Actuator, PlacementActuator};
use crate::backend::fixture;

/// A cgroup of version 1 on this kernel with a program in it.
struct Contained {
    folder: PathBuf,
    name: String,
    program: Child,
    thread: ManagedThread,
}

impl Contained {
    /// None, and a word about it, where no such cgroup can be made.
    fn new(name: &str) -> Option<Self> {
        let name = format!("corun-test-{}-{name}", std::process::id());
        let root = Path::new("/sys/fs/cgroup/cpuset");
        let folder = root.join(&name);
        if !root.join("cpuset.cpus").is_file() || std::fs::create_dir(&folder).is_err() {
            eprintln!("skipped: no cgroup of version 1 with cpuset can be made here");
            return None;
        }
        for file in ["cpuset.cpus", "cpuset.mems"] {
            std::fs::write(folder.join(file), std::fs::read(root.join(file)).unwrap()).unwrap();
        }
        let program = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = program.id();
        std::fs::write(folder.join("tasks"), format!("{pid}\n")).unwrap();
        let found = facts(&Roots::default(), pid, pid).unwrap();
        let thread = ManagedThread::new(found, 0, "sleep");
        let name = format!("/{name}");
        let cpus = thread.may_run_on.clone();
        let group = Some(HeldGroup { name: name.as_str().into(), cpus, is_preferred: false });
        Some(Self { folder, name, program, thread: ManagedThread { group, ..thread } })
    }

    fn cpus(&self) -> String {
        std::fs::read_to_string(self.folder.join("cpuset.cpus")).unwrap().trim().to_owned()
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        // The kernel lets go of a dead program a moment after it was waited for.
        for _ in 0..1000 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn change(file: &Path, folder: Option<FolderIdentity>, before: &str, after: &str) -> Change {
    Change::Cpuset { file: file.to_owned(), folder, before: before.into(), after: after.into() }
}

/// Threads are numbered from 1.
fn table(threads: &[ManagedThread]) -> Threads {
    fixture::table((1..).zip(threads.iter().cloned()))
}

fn prepared(
    placement: &mut PlacementActuator,
    threads: &[ManagedThread],
    cpus: &str,
) -> Result<Vec<Change>, String> {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let action = Action::Allow { thread: ThreadId(1), cpus: cpus.parse().unwrap() };
    placement.begin_plan();
    let threads = table(threads);
    placement.prepare(&action, &machine, &threads, Nanoseconds(0)).map_err(|refusal| refusal.0)
}

#[test]
fn a_container_goes_where_its_thread_is_sent_and_back() {
    let Some(contained) = Contained::new("moved") else { return };
    let roots = Roots::default();
    let all = contained.cpus();
    let all_cpus: Vec<CpuId> = all.parse::<CpuSet>().unwrap().iter().take(2).collect();
    let &[first, second] = all_cpus.as_slice() else {
        eprintln!("skipped: one CPU only");
        return;
    };
    let mut placement = PlacementActuator::new(&roots);
    let mut held = [contained.thread.clone()];
    let change = prepared(&mut placement, &held, &first.to_string()).unwrap().remove(0);
    change.apply(&roots).unwrap();
    assert_eq!(contained.cpus(), first.to_string());
    held[0].group.as_mut().unwrap().cpus = CpuSet::from_iter([first]);
    assert_eq!(prepared(&mut placement, &held, &first.to_string()).unwrap(), []);
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
    std::fs::write(contained.folder.join("cpuset.cpus"), format!("{second}\n")).unwrap();
    assert!(matches!(change.apply(&roots), Err(ActError::ChangedByOthers { .. })));
    let found = second.to_string();
    assert_eq!(change.revert(&roots).unwrap(), Reverted::ChangedByOthers { found });
    std::fs::write(contained.folder.join("cpuset.cpus"), format!("{first}\n")).unwrap();
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(contained.cpus(), all);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
}

#[test]
fn a_removed_group_is_gone_and_a_stranger_is_refused() {
    let Some(contained) = Contained::new("gone") else { return };
    let roots = Roots::default();
    let mut placement = PlacementActuator::new(&roots);
    let pid = std::process::id();
    let mut stranger = contained.thread.clone();
    stranger.facts = facts(&roots, pid, pid).unwrap();
    let refused = prepared(&mut placement, &[stranger], "0").unwrap_err();
    assert!(refused.contains("no longer in cgroup"), "{refused}");
    let wide = prepared(&mut placement, std::slice::from_ref(&contained.thread), "60000");
    assert!(wide.as_ref().unwrap_err().contains("only"), "{wide:?}");
    let file = file_of("cpuset", &contained.name);
    drop(contained);
    let change = change(&file, None, "0-1", "0");
    assert!(matches!(change.apply(&roots), Err(ActError::Gone { .. })));
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Gone);
}

/// A thread by number in `box.slice`, which is held where it was found.
fn member(roots: &Roots, id: u64) -> ManagedThread {
    let task = Task { pid: 10, tid: 10 + id as u32, start_ticks: 5 };
    let folder = roots.proc.join(format!("10/task/{}", task.tid));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cgroup"), "0::/box.slice\n").unwrap();
    boxed(task, Some("/box.slice"))
}

/// A thread that may run on CPUs 0 to 7, in a cgroup that may use them.
fn boxed(task: Task, group: Option<&str>) -> ManagedThread {
    let cpus: CpuSet = "0-7".parse().unwrap();
    let thread = ManagedThread::new(fixture::facts(task, &cpus), 0, "boxed");
    let group = group.map(|name| HeldGroup { name: name.into(), cpus, is_preferred: false });
    ManagedThread { group, ..thread }
}

#[test]
fn a_group_may_use_what_its_threads_were_sent_to_together() {
    let (_folder, roots) = version_2("\n");
    let mut placement = PlacementActuator::new(&roots);
    let mut held = [member(&roots, 1), member(&roots, 2)];
    // The second has not been sent anywhere.
    assert_eq!(prepared(&mut placement, &held, "2").unwrap(), []);
    held[1].allowed = "3".parse().unwrap();
    let file = PathBuf::from("box.slice/cpuset.cpus");
    let change = |before: &str, after: &str| {
        let folder = identity(&roots, &file).unwrap();
        vec![self::change(&file, folder, before, after)]
    };
    assert_eq!(prepared(&mut placement, &held, "2").unwrap(), change("", "2-3"));
    for one in &mut held {
        one.group.as_mut().unwrap().cpus = "2-3".parse().unwrap();
    }
    assert_eq!(prepared(&mut placement, &held, "6").unwrap(), change("2-3", "3,6"));
}

/// Somebody in `box.slice` who is scheduled in real time.
fn real_time_stranger(roots: &Roots) {
    let stat = "33 (rt) R 1 1 1 0 -1 0 1 0 0 0 70 30 0 0 20 5 1 0 99 31 40 18 1 1 1 0 0 0 0 0 0 0 0 0 \
                17 4 50 1 0 0 0 0 1 1 1 1 1 1 1 0\n";
    let folder = roots.proc.join("33/task/33");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in
        [("stat", stat), ("schedstat", "1 2 3"), ("status", "Cpus_allowed_list:\t0-7\n")]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(roots.cgroup.join("box.slice/cgroup.threads"), "11\n12\n33\n").unwrap();
}

#[test]
fn a_group_with_one_who_must_not_be_moved_is_left_as_it_is() {
    let (_folder, roots) = version_2("0-7\n");
    let mut placement = PlacementActuator::new(&roots);
    let both = [member(&roots, 1), member(&roots, 2)];
    let mut refused = |change: fn(&mut ManagedThread)| {
        let mut held = both.clone();
        change(&mut held[1]);
        prepared(&mut placement, &held, "2").unwrap_err()
    };
    let own = refused(|held| held.may_run_on = "0-3".parse().unwrap());
    assert!(own.contains("affinity of its own"), "{own}");
    let alone = refused(|held| held.left_alone = true);
    assert!(alone.contains("left alone"), "{alone}");
    let below = refused(|held| held.group.as_mut().unwrap().name = "/box.slice/inner".into());
    assert!(below.contains("below it"), "{below}");
    real_time_stranger(&roots);
    let real_time = prepared(&mut placement, &both, "2").unwrap_err();
    assert!(real_time.contains("real time"), "{real_time}");
}

/// What a step on the group must come to, from all threads: the definition.
fn wanted_of(threads: &Threads, one: usize, asked: &CpuSet) -> CpuSet {
    let group = |thread: &ManagedThread| thread.group.as_ref().map(|own| own.name.clone());
    let own = group(threads.at(one).1);
    let others = threads.iter().enumerate().filter(|(index, _)| *index != one);
    let others = others.filter(|(_, (_, other))| group(other) == own);
    others.fold(asked.clone(), |all, (_, (_, other))| all.union(&other.allowed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a plan goes on, counting as it does comes to what looking at everybody would.
    #[test]
    fn a_plan_counts_as_it_goes(
        groups in proptest::collection::vec(proptest::option::of(0u8..3), 1..8),
        steps in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..=255, any::<bool>()), 0..24),
    ) {
        let cpus = |bits: u8| CpuSet::from_iter((0..8).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId));
        let made: Vec<ManagedThread> = groups.iter().enumerate().map(|(number, group)| {
            let name = group.map(|group| format!("/{group}"));
            boxed(Task { pid: 10, tid: 10 + number as u32, start_ticks: 5 }, name.as_deref())
        }).collect();
        let mut threads = table(&made);
        let mut members = Members::new(&threads);
        for (one, bits, is_sent) in steps {
            let one = one.index(threads.len());
            let (view, thread) = threads.at(one);
            let Some(group) = thread.group.clone() else { continue };
            let asked = cpus(bits);
            members.catch_up(&threads);
            let needs = members.needs(&group.name, view.id, &asked, &threads);
            prop_assert_eq!(needs, wanted_of(&threads, one, &asked));
            // What is refused leaves the thread where it was.
            if is_sent {
                threads.at_mut(one).1.allowed = asked;
            }
        }
    }
}

#[test]
fn a_group_is_looked_at_once_a_plan() {
    let (_folder, roots) = version_2("0-7\n");
    let threads = table(&[member(&roots, 1), member(&roots, 2)]);
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let mut placement = PlacementActuator::new(&roots);
    let mut step = |begins: bool| {
        if begins {
            placement.begin_plan();
        }
        let action = Action::Allow { thread: ThreadId(1), cpus: "2".parse().unwrap() };
        placement.prepare(&action, &machine, &threads, Nanoseconds(0))
    };
    assert_eq!(step(true), Ok(Vec::new()));
    real_time_stranger(&roots);
    assert_eq!(step(false), Ok(Vec::new()));
    assert!(step(true).unwrap_err().0.contains("real time"));
}

#[test]
fn a_file_is_the_cpuset_of_its_group_wherever_groups_are() {
    for (place, name) in [("", "/a/b"), ("unified", "/a"), ("cpuset", "/x.service")] {
        let file = file_of(place, name);
        assert!(names_of(&file).any(|one| one == name), "{}", file.display());
    }
    assert_eq!(names_of(Path::new("a/cgroup.procs")).count(), 0);
}

/// A tree of version 2, as files.
fn version_2(cpus: &str) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("box.slice");
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cpuset.cpus"), cpus).unwrap();
    std::fs::write(group.join("cpuset.cpus.effective"), "0-7\n").unwrap();
    let below = |name: &str| folder.path().join(name);
    let roots = Roots {
        cgroup: folder.path().into(),
        proc: below("proc"),
        sys: below("sys"),
        ..Roots::default()
    };
    (folder, roots)
}

#[test]
fn an_empty_list_comes_back_as_one_that_means_the_same() {
    let Some(contained) = Contained::new("empty") else { return };
    let roots = Roots::default();
    let all = possible_cpus(&roots).unwrap().unwrap();
    let first = CpuSet::from_iter(all.first());
    std::fs::write(contained.folder.join("cpuset.cpus"), format!("{first}\n")).unwrap();
    // As with version 2, this group takes no empty list while a program is in it.
    let change = change(&file_of("cpuset", &contained.name), None, "", &first.to_string());
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
    assert_eq!(contained.cpus(), all.to_string());
    assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
}

#[test]
fn a_group_that_was_made_again_is_another() {
    let (folder, roots) = version_2("0-7\n");
    let mut placement = PlacementActuator::new(&roots);
    let held = [member(&roots, 1)];
    let change = prepared(&mut placement, &held, "2").unwrap().remove(0);
    let written = serde_json::to_string(&change).unwrap();
    assert_eq!(serde_json::from_str::<Change>(&written).unwrap(), change);
    let group = folder.path().join("box.slice");
    std::fs::remove_dir_all(&group).unwrap();
    std::fs::create_dir(&group).unwrap();
    // Its user wants what corun had made of the first one.
    std::fs::write(group.join("cpuset.cpus"), "2\n").unwrap();
    std::fs::write(group.join("cpuset.cpus.effective"), "2\n").unwrap();
    assert!(matches!(change.apply(&roots), Err(ActError::Gone { .. })));
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Gone);
    assert_eq!(std::fs::read_to_string(group.join("cpuset.cpus")).unwrap(), "2\n");
    // Nothing of the first one is remembered.
    let refused = prepared(&mut placement, &held, "0").unwrap_err();
    assert!(refused.contains("may use CPUs 2 only") || refused.contains("own"), "{refused}");
}

#[test]
fn no_other_file_is_ever_written() {
    let (_folder, roots) = version_2("0-7\n");
    for file in ["../box.slice/cpuset.cpus", "/etc/passwd", "box.slice/cgroup.procs", ""] {
        let change = change(Path::new(file), None, "0", "1");
        assert!(matches!(change.apply(&roots), Err(ActError::Protected { .. })), "{file}");
        assert!(matches!(change.revert(&roots), Err(ActError::Protected { .. })), "{file}");
    }
    for name in ["/", "/none", "/../box.slice"] {
        let error = Group::find(&roots, name).unwrap_err().to_string();
        assert!(error.contains("controller cpuset"), "{error}");
    }
}
