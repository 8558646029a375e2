//! A cgroup with a CPU set of its own and a program in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use corun_linux::cgroup::FolderIdentity;
use corun_live::Change;
use corun_machine::CpuSet;
use serde::{Deserialize, Serialize};

use crate::threads::State;

/// A cgroup, as the process that holds it knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cpuset {
    /// Below the root of cgroups.
    file: PathBuf,
}

/// A cgroup of version 1 or 2 with a program that sleeps.
pub(crate) struct Container {
    pub(crate) cpuset: Cpuset,
    program: Child,
    before: (String, Option<State>),
}

const ROOT: &str = "/sys/fs/cgroup";

impl Cpuset {
    fn path(&self) -> PathBuf {
        Path::new(ROOT).join(&self.file)
    }

    fn folder(&self) -> PathBuf {
        self.path().parent().unwrap().to_owned()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap().trim().to_owned()
    }

    /// The change that gives it these CPUs; none where it has them.
    pub(crate) fn change(&self, cpus: &CpuSet) -> Option<Change> {
        let (before, after) = (self.text(), cpus.to_string());
        let folder = Some(FolderIdentity::of(&self.folder()).ok()?);
        let file = self.file.clone();
        (before != after).then_some(Change::Cpuset { file, folder, before, after })
    }
}

impl Container {
    /// None, and a word about it, where none can be made.
    pub(crate) fn new() -> Option<Self> {
        let is_first = Path::new(ROOT).join("cpuset/cpuset.cpus").is_file();
        let name = format!("corun-test-{}-killed", std::process::id());
        let below = if is_first { Path::new("cpuset").join(&name) } else { name.into() };
        let cpuset = Cpuset { file: below.join("cpuset.cpus") };
        let made = || -> std::io::Result<()> {
            if !is_first {
                std::fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+cpuset")?;
            }
            std::fs::create_dir(cpuset.folder())?;
            let root = Path::new(ROOT).join(if is_first { "cpuset" } else { "" });
            let all = if is_first { "cpuset.cpus" } else { "cpuset.cpus.effective" };
            std::fs::write(cpuset.path(), std::fs::read(root.join(all))?)?;
            if is_first {
                let mems = std::fs::read(root.join("cpuset.mems"))?;
                std::fs::write(cpuset.folder().join("cpuset.mems"), mems)?;
            }
            Ok(())
        };
        if let Err(error) = made() {
            let _ = std::fs::remove_dir(cpuset.folder());
            eprintln!("skipped: no cgroup with a CPU set can be made here: {error}");
            return None;
        }
        let program = Command::new("sleep").arg("100000").spawn().unwrap();
        std::fs::write(cpuset.folder().join("cgroup.procs"), program.id().to_string()).unwrap();
        let before = (cpuset.text(), State::of(program.id(), program.id()));
        Some(Self { cpuset, program, before })
    }

    pub(crate) fn assert_as_before(&self, when: &str) {
        let pid = self.program.id();
        assert_eq!((self.cpuset.text(), State::of(pid, pid)), self.before, "{when}");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        // The kernel lets go of a process that was killed a moment later.
        for _ in 0..1000 {
            if std::fs::remove_dir(self.cpuset.folder()).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
