//! resctrl driven against a file system that keeps the kernel's documented rules.

mod caches;
mod faults;
#[path = "../faults/inject.rs"]
#[allow(dead_code)] // resctrl takes no half of a write
mod inject;
mod kernel;
mod kinds;
mod mount;
mod mounted;
mod online;

use std::path::PathBuf;
use std::process::{Child, Command};

use corun_linux::{Roots, TaskFacts, facts};
use corun_live::{
    ActError, Actuator as _, Change, Journal, ManagedThread, Resctrl, RestoreOutcome, Reverted,
    Threads, Which, restore,
};
use corun_machine::Machine;
use corun_policy::{Action, CachePart, Nanoseconds, ProcessId, ThreadId, ThreadView};
use rand::{RngExt as _, SeedableRng as _};

use caches::write_caches;
use kernel::Kernel;
use mounted::Mounted;

/// Set in a process that is to be killed: where resctrl, sysfs and its journal are, and its threads.
const TO_BE_KILLED: &str = "CORUN_TEST_RESCTRL";

/// Programs that sleep, two on each LLC, and a machine whose kernel numbers its caches backwards.
struct Bench {
    mounted: Mounted,
    sys: tempfile::TempDir,
    roots: Roots,
    machine: Machine,
    programs: Vec<Child>,
    threads: Threads,
}

impl Bench {
    fn new() -> Option<Self> {
        let programs: Vec<Child> =
            (0..4).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        let tids: Vec<u32> = programs.iter().map(Child::id).collect();
        let counted = |tasks: &std::collections::BTreeSet<u32>, domain: u32| {
            (tasks.len() as u64 * 1_000_000, u64::from(domain + 1) * 64)
        };
        let Some(mounted) = Mounted::new(Kernel::new(&tids, Box::new(counted))) else {
            for mut program in programs {
                program.kill().unwrap();
                program.wait().unwrap();
            }
            return None;
        };
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        let sys = tempfile::tempdir().unwrap();
        let roots =
            Roots { resctrl: mounted.path().into(), sys: sys.path().into(), ..Roots::default() };
        write_caches(&roots, &machine);
        let threads = threads(&roots, &machine, &tids);
        Some(Self { mounted, sys, roots, machine, programs, threads })
    }

    /// A `/proc` with the programs alone.
    fn roots_without_own_process(&self) -> Roots {
        let proc = self.sys.path().join("proc");
        std::fs::create_dir(&proc).unwrap();
        let pids = self.programs.iter().map(|program| program.id().to_string());
        for name in pids.chain(["self", "sys"].map(str::to_owned)) {
            std::os::unix::fs::symlink(format!("/proc/{name}"), proc.join(name)).unwrap();
        }
        Roots { proc, ..self.roots.clone() }
    }

    fn actuator(&self) -> Resctrl {
        Resctrl::new(&self.roots).unwrap()
    }

    fn prepare(
        &self,
        resctrl: &mut Resctrl,
        action: &Action,
        now: u64,
    ) -> Result<Vec<Change>, String> {
        resctrl
            .prepare(action, &self.machine, &self.threads, Nanoseconds(now))
            .map_err(|refusal| refusal.0)
    }

    /// Prepares and makes the changes.
    fn act(&self, resctrl: &mut Resctrl, action: &Action, now: u64) -> Vec<Change> {
        let changes = self.prepare(resctrl, action, now).unwrap();
        changes.iter().for_each(|change| change.apply(&self.roots).unwrap());
        changes
    }

    fn undo(&self, changes: &[Change]) {
        for change in changes.iter().rev() {
            change.revert(&self.roots).unwrap();
        }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.mounted.path().join(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.mounted.path().join(path), text).unwrap();
    }

    fn mkdir(&self, path: &str) {
        std::fs::create_dir(self.mounted.path().join(path)).unwrap();
    }

    /// Groups of ours, sorted.
    fn ours(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.mounted.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("corun-"))
            .collect();
        names.sort();
        names
    }

    /// The mask with which a program uses a domain, and the group's name.
    fn mask(&self, program: usize, domain: usize) -> (String, String) {
        let tid = self.programs[program].id().to_string();
        let groups = self.ours().into_iter().chain(["others".to_owned(), ".".to_owned()]);
        let of = groups.into_iter().find(|group| {
            let tasks = std::fs::read_to_string(self.mounted.path().join(group).join("tasks"));
            tasks.is_ok_and(|tasks| tasks.lines().any(|line| line == tid))
        });
        let group = of.unwrap();
        let schemata = self.read(&format!("{group}/schemata"));
        let line = schemata.lines().find_map(|line| line.trim().strip_prefix("L3:")).unwrap();
        let mask = line.split(';').nth(domain).unwrap().split_once('=').unwrap().1;
        (mask.trim_start_matches('0').to_owned(), group)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Threads that may run anywhere, two on the CPUs of each LLC, by ascending number from 0.
fn threads(roots: &Roots, machine: &Machine, tids: &[u32]) -> Threads {
    let mut threads = Threads::new(0);
    for (place, &tid) in tids.iter().enumerate() {
        let cpu = machine.llcs()[place / 2].cpus.first().unwrap();
        let found = facts(roots, tid, tid).unwrap();
        let found = TaskFacts { cpu, affinity: machine.cpu_set(), ..found };
        let id = ThreadId(place as u64);
        let view = ThreadView::new(id, ProcessId(tid.into()), "sleep", &machine.cpu_set());
        threads.insert(view, ManagedThread::new(found, 0, "sleep"));
    }
    threads
}

fn partition(llc: usize, parts: &[(u64, &[u64])]) -> Action {
    let part = |&(mask, threads): &(u64, &[u64])| CachePart {
        mask,
        threads: threads.iter().map(|&id| ThreadId(id)).collect(),
    };
    Action::Partition { llc, parts: parts.iter().map(part).collect() }
}

#[test]
fn parts_of_both_llcs_share_classes_and_go_again() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    let mut done = bench.act(&mut resctrl, &partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]), 1);
    done.extend(bench.act(&mut resctrl, &partition(1, &[(0x001, &[2]), (0x7fe, &[3])]), 1));
    // LLC 0 is domain 1 and the other way round.
    assert_eq!([0, 1].map(|program| bench.mask(program, 1).0), ["f", "7f0"]);
    assert_eq!([2, 3].map(|program| bench.mask(program, 0).0), ["1", "7fe"]);
    assert_eq!(bench.ours().len(), 2);
    assert_eq!(bench.mask(0, 0).1, bench.mask(2, 0).1);
    bench.undo(&done);
    assert_eq!(bench.ours(), [""; 0]);
    assert_eq!((0..4).map(|program| bench.mask(program, 0).1).collect::<Vec<_>>(), ["."; 4]);
}

#[test]
fn a_repartition_changes_only_what_differs() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    let first = partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]);
    bench.act(&mut resctrl, &first, 1);
    assert_eq!(bench.prepare(&mut resctrl, &first, 2).unwrap(), []);
    let second = partition(0, &[(0x07f, &[0]), (0x780, &[1])]);
    let changes = bench.act(&mut resctrl, &second, 3);
    assert!(changes.iter().all(|one| matches!(one, Change::ResctrlSchemata { .. })), "{changes:?}");
    assert_eq!(changes.len(), 2);
    assert_eq!([0, 1].map(|program| bench.mask(program, 1).0), ["7f", "780"]);
    // The whole cache for all: back to the root group.
    bench.act(&mut resctrl, &partition(0, &[(0x7ff, &[0, 1])]), 4);
    assert_eq!([0, 1].map(|program| bench.mask(program, 1).1), [".", "."]);
}

#[test]
fn out_of_classes_is_said_with_who_has_them() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    for name in ["others", "more"] {
        bench.mkdir(name);
    }
    let both = partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]);
    let refused = bench.prepare(&mut resctrl, &both, 1).unwrap_err();
    assert!(
        refused.contains("4 classes, all in use: the root") && refused.contains("others"),
        "{refused}"
    );
    assert_eq!(bench.ours(), [""; 0]);
    // One that others take between preparing and making.
    let one = bench.prepare(&mut resctrl, &partition(0, &[(0x00f, &[0])]), 2).unwrap();
    bench.mkdir("late");
    let error = one[0].apply(&bench.roots).unwrap_err().to_string();
    assert!(error.contains("no class is free") && error.contains("late"), "{error}");
    assert!(error.contains("Out of CLOSIDs"), "{error}");
}

#[test]
fn masks_that_the_kernel_would_refuse_are_refused_before() {
    let Some(bench) = Bench::new() else { return };
    bench.mounted.kernel.lock().unwrap().min_cbm_bits = 2;
    let mut resctrl = bench.actuator();
    let mut refused =
        |mask| bench.prepare(&mut resctrl, &partition(0, &[(mask, &[0])]), mask).unwrap_err();
    assert!(refused(0x1).contains("fewer than 2 ways"));
    assert!(refused(0x0).contains("fewer than 2 ways"));
    assert!(refused(0x5).contains("gaps"));
    assert!(refused(0xf00).contains("beyond 7ff"));
    let stranger = bench.prepare(&mut resctrl, &partition(0, &[(0x3, &[9])]), 9).unwrap_err();
    assert!(stranger.contains("none of ours"), "{stranger}");
    let nowhere = bench.prepare(&mut resctrl, &partition(7, &[(0x3, &[0])]), 10).unwrap_err();
    assert!(nowhere.contains("which cache LLC 7 is"), "{nowhere}");
}

#[test]
fn what_others_have_for_themselves_is_respected() {
    for mode in ["exclusive\n", "pseudo-locked\n"] {
        let Some(bench) = Bench::new() else { return };
        bench.write("schemata", "L3:0=7f;1=7f\n");
        bench.mkdir("others");
        bench.write("others/schemata", "L3:0=780;1=780\n");
        bench.write("others/mode", mode);
        let mut resctrl = bench.actuator();
        let refused = bench.prepare(&mut resctrl, &partition(0, &[(0x7c0, &[0])]), 1).unwrap_err();
        assert!(refused.contains("beyond 7f"), "{refused}");
        bench.act(&mut resctrl, &partition(0, &[(0x03, &[0]), (0x7c, &[1])]), 2);
        assert_eq!([0, 1].map(|program| bench.mask(program, 1).0), ["3", "7c"]);
        assert!(bench.read("others/schemata").contains("L3:0=780;1=780"));
    }
}

#[test]
fn a_failed_write_says_what_the_kernel_says() {
    let Some(bench) = Bench::new() else { return };
    bench.mkdir("corun-x");
    let change = Change::ResctrlSchemata {
        group: "corun-x".into(),
        before: "L3:0=7ff;1=7ff".to_owned(),
        after: "L3:0=5;1=7ff".to_owned(),
    };
    let error = change.apply(&bench.roots).unwrap_err().to_string();
    assert!(error.contains("resctrl says: The mask 5 has non-consecutive 1-bits"), "{error}");
}

#[test]
fn threads_in_groups_of_others_stay_there() {
    let Some(bench) = Bench::new() else { return };
    bench.mkdir("others");
    bench.write("others/tasks", &format!("{}\n", bench.programs[0].id()));
    let mut resctrl = bench.actuator();
    bench.act(&mut resctrl, &partition(0, &[(0x00f, &[0, 1])]), 1);
    assert_eq!(bench.mask(0, 1).1, "others");
    assert_eq!(bench.mask(1, 1).0, "f");
    // Moved by somebody else between preparing and making.
    let changes = bench.prepare(&mut resctrl, &partition(1, &[(0x00f, &[2])]), 2).unwrap();
    bench.write("others/tasks", &format!("{}\n", bench.programs[2].id()));
    let error = changes.last().unwrap().apply(&bench.roots).unwrap_err();
    assert!(
        matches!(&error, ActError::ChangedByOthers { found, .. } if found == "others"),
        "{error}"
    );
}

#[test]
fn only_our_own_groups_are_made_and_removed() {
    let Some(bench) = Bench::new() else { return };
    bench.mkdir("others");
    for name in ["others", "info", "corun-x/../others", "../corun-x", "mon_groups/others", ""] {
        let change = Change::ResctrlGroup { group: name.into() };
        assert!(matches!(change.revert(&bench.roots), Err(ActError::Protected { .. })), "{name}");
        assert!(matches!(change.apply(&bench.roots), Err(ActError::Protected { .. })), "{name}");
    }
    let outside = Change::ResctrlSchemata {
        group: "../x".into(),
        before: "L3:0=1".to_owned(),
        after: "L3:0=3".to_owned(),
    };
    assert!(matches!(outside.apply(&bench.roots), Err(ActError::Protected { .. })));
    assert!(bench.mounted.path().join("others").is_dir());
}

#[test]
fn monitoring_groups_are_made_watched_and_removed() {
    let Some(bench) = Bench::new() else { return };
    let change = Change::ResctrlGroup { group: "mon_groups/corun-1".into() };
    change.apply(&bench.roots).unwrap();
    bench.write("mon_groups/corun-1/tasks", &format!("{}\n", bench.programs[0].id()));
    assert_eq!(bench.read("mon_groups/corun-1/mon_data/mon_L3_00/llc_occupancy"), "1000000\n");
    assert_eq!(bench.read("mon_data/mon_L3_01/mbm_total_bytes"), "128\n");
    assert!(matches!(change.apply(&bench.roots), Err(ActError::ChangedByOthers { .. })));
    assert_eq!(change.revert(&bench.roots).unwrap(), Reverted::Done);
    assert_eq!(change.revert(&bench.roots).unwrap(), Reverted::Gone);
}

#[test]
fn a_group_removed_under_us_is_made_again_and_restoring_knows() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    let action = partition(0, &[(0x00f, &[0])]);
    let first = bench.act(&mut resctrl, &action, 1);
    std::fs::remove_dir(bench.mounted.path().join(&bench.ours()[0])).unwrap();
    assert_eq!(bench.mask(0, 1).1, ".");
    let reverted = first.iter().rev().map(|change| change.revert(&bench.roots).unwrap());
    assert_eq!(
        reverted.collect::<Vec<_>>(),
        [Reverted::AsBefore, Reverted::AsBefore, Reverted::AsBefore, Reverted::Gone]
    );
    bench.act(&mut resctrl, &action, 2);
    assert_eq!(bench.mask(0, 1).0, "f");
}

#[test]
fn schemata_of_ours_that_somebody_else_sets_stay() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    bench.act(&mut resctrl, &partition(0, &[(0x00f, &[0])]), 1);
    let group = bench.ours().remove(0);
    bench.write(&format!("{group}/schemata"), "L3:0=7;1=7\n");
    let refused = bench.prepare(&mut resctrl, &partition(0, &[(0x01f, &[0])]), 2).unwrap_err();
    assert!(refused.contains("somebody else changed them"), "{refused}");
    assert!(bench.read(&format!("{group}/schemata")).contains("L3:0=007;1=007"));
}

#[test]
fn bandwidth_is_capped_and_lifted() {
    let Some(bench) = Bench::new() else { return };
    let mut resctrl = bench.actuator();
    let peak = bench.machine.bandwidth_domains().iter().map(|domain| domain.peak_mb_per_s);
    let half = peak.reduce(f64::min).unwrap() * 0.46;
    let cap = |mb_per_s| Action::CapBandwidth { threads: vec![ThreadId(0)], mb_per_s };
    bench.act(&mut resctrl, &cap(Some(half)), 1);
    let group = bench.ours().remove(0);
    // The thread is on LLC 0, which is domain 1; 46 % is 50 % in steps of 10.
    assert!(bench.read(&format!("{group}/schemata")).contains("MB:0=100;1= 50"));
    bench.act(&mut resctrl, &cap(None), 2);
    assert_eq!(bench.mask(0, 1).1, ".");
}

/// What the process that is killed does, and then kills itself.
#[test]
fn what_a_killed_process_left_is_restored() {
    if let Ok(task) = std::env::var(TO_BE_KILLED) {
        return be_killed(&task);
    }
    let Some(bench) = Bench::new() else { return };
    let folder = bench.sys.path().join("journals");
    for seed in 0..25 {
        let tids: Vec<String> = bench.programs.iter().map(|one| one.id().to_string()).collect();
        let [resctrl, sys] = [&bench.roots.resctrl, &bench.roots.sys].map(|one| one.display());
        let task = format!("{resctrl};{sys};{};{seed};{}", folder.display(), tids.join(","));
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["what_a_killed_process_left_is_restored", "--exact"])
            .env(TO_BE_KILLED, task)
            .output()
            .unwrap()
            .status;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
        let journals = restore(&folder, &bench.roots, Which::Dead).unwrap();
        assert_eq!(journals.len(), 1);
        assert_eq!(journals[0].outcome, RestoreOutcome::Undone, "{journals:?}");
        assert_eq!(bench.ours(), [""; 0]);
        assert_eq!((0..4).map(|program| bench.mask(program, 0).1).collect::<Vec<_>>(), ["."; 4]);
    }
}

fn be_killed(task: &str) {
    let words: Vec<&str> = task.split(';').collect();
    let roots = Roots {
        resctrl: PathBuf::from(words[0]),
        sys: PathBuf::from(words[1]),
        ..Roots::default()
    };
    let tids: Vec<u32> = words[4].split(',').map(|tid| tid.parse().unwrap()).collect();
    let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
    let threads = threads(&roots, &machine, &tids);
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(words[3].parse().unwrap());
    let mut journal = Journal::create(words[2].as_ref(), &roots).unwrap();
    let mut resctrl = Resctrl::new(&roots).unwrap();
    let mut left = random.random_range(1..12);
    for round in 0.. {
        let split = random.random_range(1..11);
        let parts = [((1 << split) - 1, &[0u64][..]), (0x7ff & !((1 << split) - 1), &[1u64][..])];
        let changes =
            resctrl.prepare(&partition(0, &parts), &machine, &threads, Nanoseconds(round)).unwrap();
        journal.write(&changes).unwrap();
        for change in &changes {
            change.apply(&roots).unwrap();
            left -= 1;
            if left == 0 {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        }
    }
}
