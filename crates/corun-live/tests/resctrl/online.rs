//! Policies that measure as they go, over resctrl: their decisions become groups, and all is undone.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use corun_linux::{Roots, Task, facts};
use corun_live::{
    Host, HostOptions, Journal, LiveError, ProcessSelector, Resctrl, ResctrlMonitor, ScannedThread,
    Scanner, Source, SourceError, Target, Threads, Verdict,
};
use corun_policy::{CounterKind, Nanoseconds, Rates, Scope, ScopedRate, ThreadState, build};

use super::Bench;

/// Children that sleep and are said to run; a name each.
type Programs = Arc<Mutex<Vec<(u32, &'static str)>>>;

struct Told {
    programs: Programs,
    targets: Vec<Target>,
    roots: Roots,
}

const NAMES: [&str; 3] = ["stream", "needy", "light"];

impl Told {
    fn new(programs: Programs, roots: &Roots) -> Self {
        let whom = ProcessSelector::Descendants(Task { pid: 1, tid: 1, start_ticks: 0 });
        let target = |name: &str| Target::new(name, whom.clone());
        Self { programs, targets: NAMES.map(target).into(), roots: roots.clone() }
    }
}

impl Scanner for Told {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let programs = self.programs.lock().unwrap().clone();
        let mut found: Vec<ScannedThread> = Vec::new();
        for (pid, name) in programs {
            let facts = facts(&self.roots, pid, pid).unwrap();
            let target = NAMES.iter().position(|one| *one == name).unwrap();
            found.push(ScannedThread { facts, state: ThreadState::Running, target });
        }
        found.sort_by_key(|one| one.facts.task);
        Ok(found)
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }
}

/// Counters by the ways that resctrl's files give each thread: 1e9 cycles a second each.
struct ByWays {
    root: PathBuf,
    domain: usize,
}

impl ByWays {
    fn ways(&self, tid: u32) -> u32 {
        let groups = std::fs::read_dir(&self.root).unwrap().flatten().map(|entry| entry.path());
        let has = |group: &Path| {
            let tasks = std::fs::read_to_string(group.join("tasks")).unwrap_or_default();
            tasks.lines().any(|line| line.trim() == tid.to_string())
        };
        let group = groups.filter(|path| path.is_dir()).find(|group| has(group));
        let schemata = group.unwrap_or_else(|| self.root.clone()).join("schemata");
        let text = std::fs::read_to_string(schemata).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("L3:")).unwrap();
        let mask = line.split(';').nth(self.domain).unwrap().split_once('=').unwrap().1;
        u64::from_str_radix(mask, 16).unwrap().count_ones()
    }
}

impl Source for ByWays {
    fn name(&self) -> &'static str {
        "by-ways"
    }

    fn counters(&self) -> Vec<CounterKind> {
        use CounterKind::{Cycles, Instructions, LlcMisses, MemoryStalls};
        vec![Instructions, Cycles, LlcMisses, MemoryStalls]
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        for (view, thread) in threads.iter_mut() {
            let few = f64::from(11 - self.ways(thread.task().tid));
            let (ipc, mpkc, stalls) = match &*thread.profile {
                "stream" => (1.0, 30.0, 0.5),
                "needy" => (1.5 / (1.0 + 0.1 * few), 2.0 * few, 0.05 * few),
                _ => (2.0, 0.1, 0.0),
            };
            // They sleep, and are said to run all the time.
            let asleep = thread.elapsed().0 - thread.ran().0;
            view.counts.cpu_time.get_or_insert_default().total += asleep as f64;
            let scope = Scope::DemandAndPrefetch;
            let rates = Rates {
                instructions_per_s: Some(1e9 * ipc),
                cycles_per_s: Some(1e9),
                llc_misses: Some(ScopedRate { per_s: 1e6 * mpkc, scope }),
                memory_stall_share: Some(stalls),
                ..Rates::default()
            };
            view.counts.add_rates(&rates, thread.elapsed());
        }
        Ok(())
    }
}

/// A host of a policy over the bench's resctrl.
struct Hosted {
    bench: Bench,
    host: Host,
    programs: Programs,
    more: Vec<Child>,
    now: u64,
    refused: Vec<String>,
}

impl Hosted {
    fn new(policy: &str, names: [&'static str; 4], classes: usize) -> Option<Self> {
        Self::with(policy, names, classes, 1)
    }

    fn with(
        policy: &str,
        names: [&'static str; 4],
        classes: usize,
        least_ways: u32,
    ) -> Option<Self> {
        let bench = Bench::new()?;
        bench.mounted.kernel.lock().unwrap().min_cbm_bits = least_ways;
        bench.mounted.kernel.lock().unwrap().num_closids = classes;
        let pids = bench.programs.iter().map(Child::id);
        let programs: Programs = Arc::new(Mutex::new(pids.zip(names).collect()));
        let follow = Told::new(programs.clone(), &bench.roots);
        // All threads here are on LLC 0, which is domain 1.
        let counted = ByWays { root: bench.roots.resctrl.clone(), domain: 1 };
        let monitor = ResctrlMonitor::new(&bench.roots).unwrap();
        let resctrl = Resctrl::new(&bench.roots).unwrap();
        let machine = resctrl.info().widened(&bench.machine);
        let mut host = Host::new(
            Arc::new(machine.unwrap_or_else(|| bench.machine.clone())),
            vec![build(policy, &Default::default()).unwrap()],
            Box::new(follow),
            vec![Box::new(counted), Box::new(monitor)],
            vec![Box::new(resctrl)],
            bench.roots.clone(),
            HostOptions::default(),
        )
        .unwrap();
        let journal = Journal::create(&bench.sys.path().join("journals"), &bench.roots).unwrap();
        host.act_under(journal);
        Some(Self { bench, host, programs, more: Vec::new(), now: 0, refused: Vec::new() })
    }

    /// Ticks when they are due, for so long, as if time passed.
    fn run(&mut self, seconds: f64) {
        let end = self.now + (seconds * 1e9) as u64;
        while self.now < end {
            let tick = self.host.tick_at(Nanoseconds(self.now)).unwrap();
            assert_eq!(tick.unread, [""; 0]);
            for decision in tick.decisions {
                match decision.verdict {
                    Verdict::Refused(refusal) => self.refused.push(refusal.0),
                    Verdict::Failed(why) => self.refused.push(why),
                    _ => {}
                }
            }
            self.now = self.host.next_tick().0.max(self.now + 1_000_000);
        }
    }

    /// A program's mask on its LLC, in hexadecimal.
    fn mask(&self, program: usize) -> String {
        self.bench.mask(program, 1).0
    }

    fn exchange(&mut self, round: usize) {
        let mut kernel = self.bench.mounted.kernel.lock().unwrap();
        let mut programs = self.programs.lock().unwrap();
        if let Some(mut old) = self.more.pop() {
            programs.retain(|(pid, _)| *pid != old.id());
            kernel.set_alive(old.id(), false);
            old.kill().unwrap();
            old.wait().unwrap();
        }
        let new = Command::new("sleep").arg("1000").spawn().unwrap();
        kernel.set_alive(new.id(), true);
        programs.push((new.id(), NAMES[round % 3]));
        self.more.push(new);
    }

    /// All as it was before.
    fn ends_well(mut self) {
        let left: Vec<_> = self.host.undo();
        assert!(!left.is_empty());
        assert_eq!(self.bench.ours(), [""; 0]);
        let groups: Vec<String> = (0..4).map(|program| self.bench.mask(program, 1).1).collect();
        assert_eq!(groups, ["."; 4]);
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        for child in &mut self.more {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn lfoc_samples_confines_and_gives_all_back() {
    let names = ["stream", "needy", "light", "needy"];
    let Some(mut hosted) = Hosted::new("lfoc-online", names, 8) else { return };
    hosted.run(3.0);
    assert_eq!(hosted.refused, [""; 0]);
    // A way for the streaming program with the light one, five for each of the needy ones.
    assert_eq!([0, 1, 2, 3].map(|one| hosted.mask(one)), ["1", "3e", "1", "7c0"]);
    assert_eq!(hosted.bench.ours().len(), 3);
    hosted.ends_well();
}

/// What the kernel refuses in part is taken back, the policy hears of it, and asks again once the kernel takes it.
#[test]
fn a_partition_that_the_kernel_refuses_is_no_half_partition_and_is_asked_for_again() {
    let names = ["stream", "needy", "light", "needy"];
    let Some(mut hosted) = Hosted::new("lfoc-online", names, 8) else { return };
    hosted.bench.mounted.kernel.lock().unwrap().refusals = 1001;
    while hosted.refused.len() < 3 {
        hosted.run(0.1);
        assert!(hosted.now < 20_000_000_000, "nothing was refused");
        let masks = [0, 1, 2, 3].map(|one| hosted.mask(one));
        assert_eq!(masks, ["7ff"; 4], "a half partition: {:?}", hosted.refused);
    }
    assert!(hosted.refused[0].contains("No permission to move task"), "{:?}", hosted.refused);
    hosted.bench.mounted.kernel.lock().unwrap().refusals = 0;
    hosted.refused.clear();
    hosted.run(4.0);
    assert_eq!(hosted.refused, [""; 0]);
    assert_eq!([0, 1, 2, 3].map(|one| hosted.mask(one)), ["1", "3e", "1", "7c0"]);
    hosted.ends_well();
}

/// Two classes beside the root's: the smallest neighbours share.
#[test]
fn with_few_classes_there_are_fewer_clusters() {
    let names = ["stream", "needy", "light", "needy"];
    let Some(mut hosted) = Hosted::new("lfoc-online", names, 3) else { return };
    hosted.run(3.0);
    assert_eq!(hosted.refused, [""; 0]);
    assert_eq!([0, 1, 2, 3].map(|one| hosted.mask(one)), ["3f", "3f", "3f", "7c0"]);
    hosted.ends_well();
}

/// Where a mask needs three ways, so does the streaming program.
#[test]
fn masks_are_as_wide_as_the_hardware_wants() {
    let names = ["stream", "needy", "light", "needy"];
    let Some(mut hosted) = Hosted::with("lfoc-online", names, 8, 3) else { return };
    hosted.run(3.0);
    assert_eq!(hosted.refused, [""; 0]);
    let masks = [0, 1, 2, 3].map(|one| u64::from_str_radix(&hosted.mask(one), 16).unwrap());
    assert_eq!((masks[0], masks[2], masks[1] | masks[3]), (0x7, 0x7, 0x7f8));
    assert!(masks.iter().all(|mask| mask.count_ones() >= 3), "{masks:x?}");
    hosted.ends_well();
}

#[test]
fn kpart_and_dunn_decide_and_give_all_back() {
    for policy in ["kpart-dynaway", "dunn-online"] {
        let names = ["stream", "needy", "light", "needy"];
        let Some(mut hosted) = Hosted::new(policy, names, 8) else { return };
        hosted.run(4.0);
        assert_eq!(hosted.refused, [""; 0], "{policy}");
        let masks = [0, 1, 2, 3].map(|one| hosted.mask(one));
        assert!(masks.iter().any(|mask| mask != "7ff"), "{policy}: {masks:?}");
        hosted.ends_well();
    }
}

/// A program ends and another comes every second, and the monitoring files say nothing.
#[test]
fn programs_that_come_and_go_and_no_figures() {
    let names = ["stream", "needy", "light", "needy"];
    let Some(mut hosted) = Hosted::new("lfoc-online", names, 8) else { return };
    hosted.bench.mounted.kernel.lock().unwrap().unavailable = true;
    for round in 0..8 {
        hosted.exchange(round);
        hosted.run(1.0);
    }
    assert_eq!(hosted.refused, [""; 0]);
    assert_eq!(hosted.mask(0), "1");
    hosted.ends_well();
}
