//! Policies that partition and do nothing else, in the simulator, and on a live backend that makes their partitions in a
//! resctrl which keeps the kernel's rules: the threads there are processes that sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command};
use std::sync::Arc;

use corun_linux::resctrl::control_groups;
use corun_linux::{Roots, Task, facts, sysfs};
use corun_live::{Journal, Resctrl};
use corun_machine::{Machine, preset};
use corun_model::{Model, ModelOptions};
use corun_policy::{
    Action, ActionKind, BuildOptions, LoadedPredictor, Predictor, ThreadId, build, registry,
};
use corun_sim::AppSpec;

use crate::caches::write_caches;
use crate::kernel::Kernel;
use crate::mounted::Mounted;
use crate::replay::{Asked, Stage};
use crate::{apps, observation, simulated};

/// Two LLCs of 11 ways, as [`Kernel::new`] has them.
const MACHINE: &str = "2x-gold-6138-4c";
/// As many as a Gold 6138 has: more than there are parts.
const CLASSES: usize = 16;

/// `lfoc` and `lfoc-plus` leave the LLC whole where no program is sensitive by its curve, as here; `cpa` waits for a
/// program whose misses stand out.
const QUIET: [&str; 3] = ["lfoc", "lfoc-plus", "cpa"];

/// Processes that sleep, ascending by their ids.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn new(count: usize) -> Self {
        let sleeper = || Command::new("sleep").arg("1000").spawn().unwrap();
        let mut all: Vec<Child> = std::iter::repeat_with(sleeper).take(count).collect();
        all.sort_by_key(Child::id);
        Self(all)
    }

    fn ids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The masks that a policy's plans leave in force: by thread the LLC, and its ways there. One that is not named has all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Masks(BTreeMap<ThreadId, (usize, u64)>);

impl Masks {
    fn take(&mut self, asked: &Asked) {
        for (action, _) in &asked.steps {
            let Action::Partition { llc, parts } = action else { panic!("{action:?}") };
            self.0.retain(|_, (of, _)| of != llc);
            for part in parts {
                self.0.extend(part.threads.iter().map(|&thread| (thread, (*llc, part.mask))));
            }
        }
        let present: BTreeSet<ThreadId> = asked.threads.iter().map(|view| view.id).collect();
        self.0.retain(|thread, _| present.contains(thread));
    }
}

/// A resctrl, and the processes that stand for the simulator's threads.
struct Bench {
    machine: Arc<Machine>,
    model: Arc<Model>,
    apps: Vec<AppSpec>,
    /// By the number of the thread.
    tasks: Vec<Task>,
    roots: Roots,
    folder: tempfile::TempDir,
    _sleepers: Sleepers,
    _mounted: Mounted,
}

impl Bench {
    /// None where FUSE is missing.
    fn new() -> Option<Self> {
        let machine = Arc::new(preset(MACHINE).unwrap());
        let model = Arc::new(Model::new(machine.clone(), ModelOptions::default()).unwrap());
        // A process for each thread.
        let apps: Vec<AppSpec> =
            apps(&model).into_iter().map(|app| AppSpec { threads: 1, ..app }).collect();
        let sleepers = Sleepers::new(apps.len());
        let ids = sleepers.ids();
        let mut kernel = Kernel::new(&ids, Box::new(|_, _| (0, 0)));
        (kernel.num_closids, kernel.num_rmids) = (CLASSES, CLASSES);
        let mounted = Mounted::new(kernel)?;
        let folder = tempfile::tempdir().unwrap();
        let sys = folder.path().join("sys");
        let roots = Roots { resctrl: mounted.path().into(), sys, ..Roots::default() };
        write_caches(&roots, &machine);
        let tasks = ids.iter().map(|&id| facts(&roots, id, id).unwrap().task).collect();
        let (_sleepers, _mounted) = (sleepers, mounted);
        Some(Self { machine, model, apps, tasks, roots, folder, _sleepers, _mounted })
    }

    /// The mask that resctrl gives a thread on an LLC.
    fn mask(&self, thread: ThreadId, llc: usize) -> u64 {
        let task = self.tasks[usize::try_from(thread.0).unwrap()];
        let groups = control_groups(&self.roots).unwrap();
        let group = groups.values().find(|group| group.tasks.contains(&task.tid)).unwrap();
        let cpu = self.machine.llcs()[llc].cpus.first().unwrap();
        let domain = sysfs::cache_id(&self.roots, cpu, "3").unwrap();
        group.schemata.line("L3").and_then(|line| line.value(domain)).unwrap()
    }

    /// Lets a policy decide in the simulator, and again over the resctrl. Did it give any thread ways of its own?
    fn partitions(&self, policy: &str) -> bool {
        let there = simulated(&self.model, &self.apps, policy, observation()).unwrap();
        let programs = self.apps.iter().map(|app| app.program.clone());
        let predictor: Arc<dyn Predictor> =
            Arc::new(LoadedPredictor::new(self.model.clone(), programs));
        let tasks = self.tasks.clone();
        let journal = Journal::create(&self.folder.path().join(policy), &self.roots).unwrap();
        let stage = Stage {
            machine: &self.machine,
            predictor: &predictor,
            stand_in: Arc::new(move |view| tasks[usize::try_from(view.id.0).unwrap()]),
            actuators: vec![Box::new(Resctrl::new(&self.roots).unwrap())],
            roots: self.roots.clone(),
            journal: Some(journal),
        };
        let (mut masks, mut has_partitioned) = (Masks::default(), false);
        let here = stage.play(policy, &there, |moment| {
            moment.iter().for_each(|asked| masks.take(asked));
            for (&thread, &(llc, mask)) in &masks.0 {
                let at = format!("{policy}, thread {} at {} ns", thread.0, moment[0].now.0);
                assert_eq!(self.mask(thread, llc), mask, "{at}");
                has_partitioned = true;
            }
        });
        let steps = |asked: &[Asked]| -> Vec<Vec<(Action, String)>> {
            asked.iter().map(|one| one.steps.clone()).collect()
        };
        assert_eq!(steps(&here.unwrap()), steps(&there), "{policy}");
        has_partitioned
    }
}

/// After each of its decisions every thread has in resctrl the ways that the policy gave it in the simulator; in the end
/// all have all ways, in the root group.
#[test]
fn partitions_are_made_in_resctrl_as_they_are_decided_in_the_simulator() {
    let Some(bench) = Bench::new() else { return };
    let mut silent = Vec::new();
    for entry in registry() {
        let policy = build(entry.name, &BuildOptions::default()).unwrap();
        if policy.needs().controls != [ActionKind::Partition] {
            continue;
        }
        silent.extend((!bench.partitions(entry.name)).then_some(entry.name));
        let groups = control_groups(&bench.roots).unwrap();
        assert_eq!(groups.len(), 1, "{}: {groups:?}", entry.name);
    }
    assert_eq!(silent, QUIET, "policies that never partitioned");
}
