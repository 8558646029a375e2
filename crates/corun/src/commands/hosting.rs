//! A policy's host on this machine, from what was typed: shared by all commands that act here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use anyhow::anyhow;
use corun_linux::resctrl::ResctrlInfo;
use corun_linux::{Reach, Roots};
use corun_live::{
    Actuator, Decision, Gate, Host, HostOptions, Journal, KernelPlacement, MemoryByNode,
    ModelledSource, Nice, Pages, PerfSource, PlacementActuator, Processes, Resctrl, ResctrlMonitor,
    RestoreOutcome, Restored, RestoredJournal, SchedulerSource, SharedCounts, Source,
    StoredProfiles, Target, Tick, Verdict, Which, default_folder, restore,
};
use corun_machine::Machine;
use corun_model::{LoadedProgram, Model};
use corun_policy::{Action, CounterKind, LibraryPredictor, Nanoseconds, Policy, Predictor};
use corun_profile::{Library, TABLE_INSTRUCTIONS};
use corun_scx::{LoadError, Scheduler};

use super::undone;
use crate::cli::{BackendArgs, BackendName, CountersName, HostArgs};
use crate::failure::{Failure, Outcome};

/// What is counted whether a policy needs it or not, for people to see.
const SHOWN: [CounterKind; 3] =
    [CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses];

/// How a host looks at the machine beside what its policies need.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Time between two looks, at most.
    pub(crate) every: Nanoseconds,
    /// Counters to have, where there are any.
    pub(crate) counters: Vec<CounterKind>,
}

impl Default for Look {
    fn default() -> Self {
        Self { every: HostOptions::default().tick_every, counters: SHOWN.to_vec() }
    }
}

/// What a host is made of, checked and ready, before any program is started.
pub(crate) struct Ground {
    machine: Arc<Machine>,
    library: Library,
    folder: PathBuf,
    roots: Roots,
}

impl Ground {
    /// Looks at the machine, reads the profiles, and undoes what an earlier corun left behind.
    pub(crate) fn new(arguments: &HostArgs) -> Outcome<Self> {
        // A host that only looks may look through the eyes of any policy.
        corun_app::check_live_form(&arguments.policy, arguments.untested || arguments.dry_run)?;
        let roots = Roots::default();
        let machine = this_machine(arguments.machine.as_deref())?;
        if let Some(reach) = Reach::of_self(&roots).filter(Reach::is_limited) {
            note_reach(&reach);
        }
        let resctrl = ResctrlInfo::probe(&roots).ok();
        let widened = resctrl.and_then(|resctrl| resctrl.widened(&machine));
        let machine = Arc::new(widened.unwrap_or(machine));
        let library = corun_app::open_library(arguments.profiles.as_deref())?;
        let folder = arguments.journals.clone().unwrap_or_else(default_folder);
        let ground = Self { machine, library, folder, roots };
        if !arguments.dry_run && ground.folder.exists() {
            let left = restore(&ground.folder, &ground.roots, Which::Dead);
            let journals = left.map_err(|error| Failure::Failed(anyhow!(error)))?;
            let is_dead = |one: &&RestoredJournal| one.outcome != RestoreOutcome::Running;
            let undone: Vec<&Restored> =
                journals.iter().filter(is_dead).flat_map(|one| &one.changes).collect();
            if !undone.is_empty() {
                eprintln!(
                    "corun: an earlier corun did not end well: {}",
                    undone::in_a_line(&undone)
                );
            }
            refuse_unresolved(&journals)?;
        }
        Ok(ground)
    }

    /// The machine that the host is on.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The stored profiles.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// The host of the policies that were asked for, over these programs. `profiles`: names of
    /// the stored profiles that they have, and programs that are to come will have.
    pub(crate) fn host(
        &self,
        arguments: &HostArgs,
        targets: Vec<Target>,
        profiles: &[&str],
    ) -> Outcome<Host> {
        self.host_that_looks(arguments, targets, profiles, &Look::default())
    }

    /// As [`Self::host`], for more than the policies.
    pub(crate) fn host_that_looks(
        &self,
        arguments: &HostArgs,
        targets: Vec<Target>,
        profiles: &[&str],
        look: &Look,
    ) -> Outcome<Host> {
        self.host_with(arguments, targets, profiles, look, |policies| policies)
    }

    /// As [`Self::host_that_looks`], with something around its policies.
    pub(crate) fn host_with(
        &self,
        arguments: &HostArgs,
        targets: Vec<Target>,
        profiles: &[&str],
        look: &Look,
        around: impl FnOnce(Vec<Box<dyn Policy>>) -> Vec<Box<dyn Policy>>,
    ) -> Outcome<Host> {
        let mut policies =
            corun_app::build_policies_with(&arguments.policy, &arguments.build_options())?;
        let model = Arc::new(Model::new(self.machine.clone(), Default::default())?);
        let predictor: Arc<dyn Predictor> =
            Arc::new(LibraryPredictor::new(model.clone(), self.library.clone()));
        policies.iter_mut().for_each(|policy| policy.predict_by(&predictor));
        let needed = policies.iter().flat_map(|policy| policy.needs().counters);
        let wanted: Vec<CounterKind> = needed.chain(look.counters.iter().copied()).collect();
        let mut sources = self.sources(&model, arguments.counters, &wanted, profiles)?;
        let options = corun_scx::Options {
            counts_wakers: arguments.backend.counts_wakers
                || policies.iter().any(|policy| policy.hears_wakers()),
            keeps_stints: policies.iter().any(|policy| policy.hears_switches()),
        };
        let in_kernel = SharedCounts::default();
        let actuators = self.actuators(arguments, options, &in_kernel)?;
        let scheduler = SchedulerSource::new(&self.roots, &wanted, in_kernel);
        if options.counts_wakers || !scheduler.counters().is_empty() {
            sources.push(Box::new(scheduler));
        }
        let processes = Processes::new(&self.roots, targets).map_err(Failure::live)?;
        let options = HostOptions {
            interval: arguments.interval.map(Nanoseconds::from_secs_f64),
            tick_every: look.every,
        };
        let mut host = Host::new(
            self.machine.clone(),
            around(policies),
            Box::new(processes),
            sources,
            actuators,
            self.roots.clone(),
            options,
        )
        .map_err(Failure::live)?;
        if let Some(options) = arguments.gate {
            host.gate_by(Gate::new(model, self.library.clone(), options));
        }
        if !arguments.dry_run {
            host.act_under(self.new_journal()?);
        }
        Ok(host)
    }

    /// A journal of this process, which has none.
    pub(crate) fn new_journal(&self) -> Outcome<Journal> {
        Journal::create(&self.folder, &self.roots).map_err(|error| Failure::Failed(anyhow!(error)))
    }

    fn sources(
        &self,
        model: &Arc<Model>,
        counters: CountersName,
        wanted: &[CounterKind],
        profiles: &[&str],
    ) -> Outcome<Vec<Box<dyn Source>>> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        match counters {
            CountersName::Perf => {
                let perf = PerfSource::new(&self.roots, wanted).map_err(Failure::input)?;
                sources.push(Box::new(perf));
            }
            // What it lacks shows when a policy needs it.
            CountersName::Auto => {
                if let Ok(perf) = PerfSource::new(&self.roots, wanted) {
                    sources.push(Box::new(perf));
                }
                if let Ok(monitor) = ResctrlMonitor::new(&self.roots) {
                    sources.push(Box::new(monitor));
                }
            }
            CountersName::Model => sources.push(Box::new(self.modelled(model.clone(), profiles)?)),
            CountersName::Profiles => {}
        }
        let stored = StoredProfiles::new(&self.roots, model.clone(), self.library.clone());
        sources.push(Box::new(stored));
        if let Some(memory) = MemoryByNode::new(&self.roots, self.machine.clone()) {
            sources.push(Box::new(memory));
        }
        Ok(sources)
    }

    fn modelled(&self, model: Arc<Model>, profiles: &[&str]) -> Outcome<ModelledSource> {
        let mut programs: BTreeMap<String, Arc<LoadedProgram>> = BTreeMap::new();
        for &name in profiles {
            let profile = self.library.get(name)?;
            programs.insert(name.to_owned(), Arc::new(model.load(profile)?));
        }
        Ok(ModelledSource::new(model, programs, TABLE_INSTRUCTIONS as f64))
    }

    fn actuators(
        &self,
        arguments: &HostArgs,
        options: corun_scx::Options,
        in_kernel: &SharedCounts,
    ) -> Outcome<Vec<Box<dyn Actuator>>> {
        let mut actuators: Vec<Box<dyn Actuator>> = vec![
            self.placement(arguments, options, in_kernel)?,
            Box::new(Nice::new(&self.roots)),
            Box::new(Pages::new(&self.roots)),
        ];
        // Where it is not mounted, policies that partition are refused by what they need.
        if let Ok(resctrl) = Resctrl::new(&self.roots) {
            actuators.push(Box::new(resctrl));
        }
        Ok(actuators)
    }

    /// What places threads: the scheduler in the kernel where it was asked for and can be, else affinities. A
    /// host that changes nothing loads nothing. `options`: what the scheduler does beside placing, whose counts are put
    /// into `in_kernel`.
    ///
    /// # Errors
    /// Where the scheduler in the kernel is required and cannot be.
    fn placement(
        &self,
        arguments: &HostArgs,
        options: corun_scx::Options,
        in_kernel: &SharedCounts,
    ) -> Outcome<Box<dyn Actuator>> {
        let by_affinity = || Box::new(PlacementActuator::new(&self.roots));
        let BackendArgs { name, is_required, .. } = arguments.backend;
        if name == BackendName::Affinity {
            return Ok(by_affinity());
        }
        let refused = |why: LoadError| Failure::input(format!("no scheduler in the kernel: {why}"));
        if arguments.dry_run {
            if is_required {
                corun_scx::check(&self.roots).map_err(refused)?;
            }
            return Ok(by_affinity());
        }
        Ok(match Scheduler::attach(options, &self.roots) {
            Ok(scheduler) => {
                let spill_after = arguments.backend.spill_after();
                let in_kernel = in_kernel.clone();
                Box::new(KernelPlacement::new(&self.roots, scheduler, spill_after, in_kernel))
            }
            Err(why) if is_required => return Err(refused(why)),
            Err(why) => {
                if name == BackendName::SchedExt {
                    eprintln!("corun: no scheduler in the kernel: {why}");
                    eprintln!("corun: threads are placed by their affinities instead");
                }
                by_affinity()
            }
        })
    }
}

/// Programs that corun starts may use no more than corun may. Said once: a daemon is made ready again and again.
fn note_reach(reach: &Reach) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("corun: this process may use {reach}"));
}

/// What a dead corun left in force would be taken for what users want.
fn refuse_unresolved(journals: &[RestoredJournal]) -> Outcome {
    let Some(one) = journals.iter().find(|one| one.is_unresolved()) else { return Ok(()) };
    let why = match &one.outcome {
        RestoreOutcome::Left { why } => why.as_str(),
        _ => "not all could be undone; corun restore says what",
    };
    let file = one.file.display();
    Err(Failure::Failed(anyhow!("an earlier corun's journal cannot be restored: {file}: {why}")))
}

/// This machine as it is found, or as a file describes it.
fn this_machine(described: Option<&Path>) -> Outcome<Machine> {
    let found = corun_app::find_machine("this")?;
    let Some(path) = described else { return Ok(found) };
    let machine = Machine::load(path).map_err(Failure::input)?;
    let sets = |machine: &Machine| -> BTreeSet<String> {
        machine.llcs().iter().map(|llc| llc.cpus.to_string()).collect()
    };
    let (its, ours) = (sets(&machine), sets(&found));
    if its == ours {
        return Ok(machine);
    }
    let listed = |sets: BTreeSet<String>| sets.into_iter().collect::<Vec<_>>().join(" and ");
    let message = format!(
        "{}: CPUs {} each share a cache, and on this machine CPUs {}",
        path.display(),
        listed(its),
        listed(ours)
    );
    Err(Failure::input(message).hint("corun topology --format toml > machine.toml"))
}

/// Tells what happens on stderr, each thing once while it stays the same.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    /// What was refused or failed in the last tick.
    stuck: Vec<String>,
}

impl Teller {
    /// A tick's news.
    pub(crate) fn tick(&mut self, host: &Host, tick: &Tick) {
        for moved in &tick.left_alone {
            eprintln!("corun: left alone from now on: {moved}");
        }
        let mut stuck = Vec::new();
        let lines = tick.decisions.iter().filter_map(|one| {
            let line = decision_in_words(host, one)?;
            let is_stuck = matches!(one.verdict, Verdict::Refused(_) | Verdict::Failed(_));
            Some((line, is_stuck))
        });
        let unread = tick.unread.iter().map(|line| (line.clone(), true));
        for (line, is_stuck) in lines.chain(unread) {
            let known = is_stuck && self.stuck.contains(&line);
            if !known {
                eprintln!("corun: {:.1} s: {line}", tick.now.as_secs_f64());
            }
            if is_stuck {
                stuck.push(line);
            }
        }
        self.stuck = stuck;
    }
}

/// A decision for people; none when nothing had to be done.
pub(crate) fn decision_in_words(host: &Host, decision: &Decision) -> Option<String> {
    let action = action_in_words(host, &decision.action);
    let Decision { policy, reason, .. } = decision;
    match &decision.verdict {
        Verdict::AsAsked => None,
        Verdict::Done(_) => Some(format!("{policy}: {action} ({reason})")),
        Verdict::Proposed(_) => Some(format!("{policy} would: {action} ({reason})")),
        Verdict::Refused(why) => Some(format!("{policy}: {action}: not done: {why}")),
        Verdict::Failed(why) => Some(format!("{policy}: {action}: failed: {why}")),
    }
}

pub(crate) fn action_in_words(host: &Host, action: &Action) -> String {
    action.in_words(&|id| {
        let thread = host.views().iter().find(|thread| thread.id == id);
        thread.map_or_else(|| format!("thread {}", id.0), |thread| thread.program.clone())
    })
}

/// The program of the first thread that an action is about; empty where it is about none.
pub(crate) fn program_of(host: &Host, action: &Action) -> String {
    let thread = match action {
        Action::Allow { thread, .. }
        | Action::MovePages { thread, .. }
        | Action::SetWeight { thread, .. } => Some(*thread),
        Action::Swap { first, .. } => Some(*first),
        Action::CapBandwidth { threads, .. } | Action::OrderSlots { threads, .. } => {
            threads.first().copied()
        }
        Action::Partition { parts, .. } => {
            parts.iter().find_map(|part| part.threads.first().copied())
        }
        Action::IdleCpu { .. } => None,
    };
    let found = host.views().iter().find(|one| Some(one.id) == thread);
    found.map(|one| one.program.clone()).unwrap_or_default()
}
