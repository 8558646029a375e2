use std::process::{Child, Command};

use corun_machine::CpuId;
use corun_policy::ThreadId;

use super::*;
use crate::processes::facts;

/// A cgroup of version 1 on this kernel with a program in it.
struct Contained {
    folder: PathBuf,
    name: String,
    program: Child,
    thread: Held,
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
        let thread = Held {
            id: ThreadId(1),
            task: found.task,
            program: "sleep".into(),
            may_run_on: found.affinity.clone(),
            allowed: found.affinity,
            cpu: found.cpu,
            left_alone: false,
        };
        Some(Self { folder, name: format!("/{name}"), program, thread })
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

fn prepared(cpusets: &mut Cpusets, held: &Held, cpus: &str) -> Result<Vec<Change>, String> {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let action = Action::Allow { thread: ThreadId(1), cpus: cpus.parse().unwrap() };
    let held = [held.clone()];
    cpusets.prepare(&action, &machine, &held, Nanoseconds(0)).map_err(|refusal| refusal.0)
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
    let mut cpusets = Cpusets::new(&roots, std::slice::from_ref(&contained.name)).unwrap();
    let change = prepared(&mut cpusets, &contained.thread, &first.to_string()).unwrap().remove(0);
    change.apply(&roots).unwrap();
    assert_eq!(contained.cpus(), first.to_string());
    assert_eq!(prepared(&mut cpusets, &contained.thread, &first.to_string()).unwrap(), []);
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
    let mut cpusets = Cpusets::new(&roots, std::slice::from_ref(&contained.name)).unwrap();
    let pid = std::process::id();
    let task = facts(&roots, pid, pid).unwrap().task;
    let stranger = Held { task, ..contained.thread.clone() };
    let refused = prepared(&mut cpusets, &stranger, "0").unwrap_err();
    assert!(refused.contains("none of the given cgroups"), "{refused}");
    let wide = prepared(&mut cpusets, &contained.thread, "60000").unwrap_err();
    assert!(wide.contains("only"), "{wide}");
    let file = PathBuf::from("cpuset").join(contained.name.trim_start_matches('/'));
    let file = file.join("cpuset.cpus");
    drop(contained);
    let change = Change::Cpuset { file, before: "0-1".to_owned(), after: "0".to_owned() };
    assert!(matches!(change.apply(&roots), Err(ActError::Gone { .. })));
    assert_eq!(change.revert(&roots).unwrap(), Reverted::Gone);
}

/// A tree of version 2, as files.
fn version_2(cpus: &str) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("box.slice");
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cpuset.cpus"), cpus).unwrap();
    std::fs::write(group.join("cpuset.cpus.effective"), "0-7\n").unwrap();
    let roots = Roots { cgroup: folder.path().into(), ..Roots::default() };
    (folder, roots)
}

#[test]
fn an_empty_list_of_version_2_comes_back() {
    let (folder, roots) = version_2("\n");
    let found = Group::find(&roots, "/box.slice").unwrap().found;
    assert_eq!(found.to_string(), "0-7");
    let file = PathBuf::from("box.slice/cpuset.cpus");
    let change = Change::Cpuset { file, before: String::new(), after: "2-3".to_owned() };
    let text = || std::fs::read_to_string(folder.path().join("box.slice/cpuset.cpus")).unwrap();
    // A file keeps what is longer than the new text; the kernel's does not.
    std::fs::write(folder.path().join("box.slice/cpuset.cpus"), "").unwrap();
    change.apply(&roots).unwrap();
    assert_eq!(text(), "2-3\n");
    assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
}

#[test]
fn no_other_file_is_ever_written() {
    let (_folder, roots) = version_2("0-7\n");
    for file in ["../box.slice/cpuset.cpus", "/etc/passwd", "box.slice/cgroup.procs", ""] {
        let change =
            Change::Cpuset { file: file.into(), before: "0".to_owned(), after: "1".to_owned() };
        assert!(matches!(change.apply(&roots), Err(ActError::Protected { .. })), "{file}");
        assert!(matches!(change.revert(&roots), Err(ActError::Protected { .. })), "{file}");
    }
    for name in ["/", "/none", "/../box.slice"] {
        let error = Cpusets::new(&roots, &[name.to_owned()]).unwrap_err().to_string();
        assert!(error.contains("controller cpuset"), "{error}");
    }
}

#[test]
fn lines_of_both_versions_are_told_apart() {
    assert_eq!(cpuset_path("0::/a/b"), Some("/a/b"));
    assert_eq!(cpuset_path("7:cpuset,cpu:/x:y"), Some("/x:y"));
    assert_eq!(cpuset_path("3:memory:/x"), None);
    assert_eq!(cpuset_path("nonsense"), None);
}
