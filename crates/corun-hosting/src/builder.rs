//! Makes a policy's host on this machine: shared by all commands that act here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use anyhow::anyhow;
use corun_linux::resctrl::ResctrlInfo;
use corun_linux::{Reach, Roots};
use corun_live::{
    Actuator, Gate, Host, HostOptions, Journal, KernelPlacement, MemoryByNode, ModelledSource,
    Nice, Pages, PerfSource, PlacementActuator, Processes, Resctrl, ResctrlMonitor, RestoreOutcome,
    Restored, RestoredJournal, SchedulerSource, SharedCounts, Source, StoredProfiles, Target,
    Which, default_folder, restore,
};
use corun_machine::Machine;
use corun_model::{LoadedProgram, Model};
use corun_policy::{CounterKind, LibraryPredictor, Nanoseconds, Policy, Predictor};
use corun_profile::{Library, Profile, TABLE_INSTRUCTIONS};
use corun_scx::{LoadError, Scheduler, ThreadReader, may_read};

use corun_app::{Error, Result, tell};

use crate::undone;
use crate::{Counters, HostSettings, Placer, PlacerSettings, ThreadReading};

/// What is counted whether a policy needs it or not, for people to see.
const SHOWN: [CounterKind; 3] =
    [CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses];

/// How a host looks at the machine beside what its policies need.
#[derive(Debug, Clone)]
pub struct Look {
    /// Time between two looks, at most.
    pub every: Nanoseconds,
    /// Counters to have, where there are any.
    pub counters: Vec<CounterKind>,
}

impl Default for Look {
    fn default() -> Self {
        Self { every: HostOptions::default().tick_every, counters: SHOWN.to_vec() }
    }
}

/// What a host is made of, checked and ready, before any program is started.
pub struct HostBuilder {
    machine: Arc<Machine>,
    library: Library,
    folder: PathBuf,
    roots: Roots,
}

impl HostBuilder {
    /// Looks at the machine, reads the profiles, and undoes what an earlier corun left behind.
    pub fn new(settings: &HostSettings) -> Result<Self> {
        // A host that only looks may look through the eyes of any policy.
        corun_app::check_live_form(&settings.policy, settings.untested || settings.dry_run)?;
        let roots = Roots::default();
        let machine = this_machine(settings.machine.as_deref())?;
        if let Some(reach) = Reach::of_self(&roots).filter(Reach::is_limited) {
            note_reach(&reach);
        }
        let resctrl = ResctrlInfo::probe(&roots).ok();
        let widened = resctrl.and_then(|resctrl| resctrl.widened(&machine));
        let machine = Arc::new(widened.unwrap_or(machine));
        let library = corun_app::open_library(settings.profiles.as_deref())?;
        let folder = settings.journals.clone().unwrap_or_else(default_folder);
        let own = Self { machine, library, folder, roots };
        if !settings.dry_run {
            undo_what_was_left(&own.folder, &own.roots)?;
        }
        Ok(own)
    }

    /// The machine that the host is on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The stored profiles.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Are profiles that a person named all there?
    ///
    /// # Errors
    /// Bad input for the first that is not, with what is near.
    pub fn check_profiles(&self, names: &[&str]) -> Result {
        names.iter().try_for_each(|name| Ok(self.library.get(name).map(|_| ())?))
    }

    /// The host of the policies that were asked for, over these programs. `profiles`: names of
    /// the stored profiles that they have, and programs that are to come will have.
    pub fn host(
        &self,
        settings: &HostSettings,
        targets: Vec<Target>,
        profiles: &[&str],
    ) -> Result<Host> {
        self.host_that_looks(settings, targets, profiles, &Look::default())
    }

    /// As [`Self::host`], for more than the policies.
    pub fn host_that_looks(
        &self,
        settings: &HostSettings,
        targets: Vec<Target>,
        profiles: &[&str],
        look: &Look,
    ) -> Result<Host> {
        self.host_with(settings, targets, profiles, look, |policies| policies)
    }

    /// As [`Self::host_that_looks`], with something around its policies.
    pub(crate) fn host_with(
        &self,
        settings: &HostSettings,
        targets: Vec<Target>,
        profiles: &[&str],
        look: &Look,
        around: impl FnOnce(Vec<Box<dyn Policy>>) -> Vec<Box<dyn Policy>>,
    ) -> Result<Host> {
        let mut policies =
            corun_app::build_policies_with(&settings.policy, &settings.build_options())?;
        let model = Arc::new(Model::new(self.machine.clone(), Default::default())?);
        let predictor: Arc<dyn Predictor> =
            Arc::new(LibraryPredictor::new(model.clone(), self.library.clone()));
        policies.iter_mut().for_each(|policy| policy.predict_by(&predictor));
        let needed = policies.iter().flat_map(|policy| policy.needs().counters);
        let wanted: Vec<CounterKind> = needed.chain(look.counters.iter().copied()).collect();
        let mut sources = self.sources(&model, settings.counters, &wanted, profiles)?;
        let options = corun_scx::Options {
            counts_wakers: settings.placing.counts_wakers
                || policies.iter().any(|policy| policy.hears_wakers()),
            keeps_stints: policies.iter().any(|policy| policy.hears_switches()),
        };
        let in_kernel = SharedCounts::default();
        let actuators = self.actuators(settings, options, &in_kernel)?;
        let scheduler = SchedulerSource::new(&self.roots, &wanted, in_kernel);
        if options.counts_wakers || !scheduler.counters().is_empty() {
            sources.push(Box::new(scheduler));
        }
        let mut processes = Processes::new(&self.roots, targets).map_err(Error::live)?;
        if let Some(reader) = self.thread_reader(settings.reading)? {
            processes.read_at_once(reader);
        }
        let options = HostOptions {
            interval: settings.interval_s.map(Nanoseconds::from_secs_f64),
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
        .map_err(Error::live)?;
        if let Some(options) = settings.gate {
            host.gate_by(Gate::new(model, self.library.clone(), options));
        }
        if !settings.dry_run {
            host.act_under(self.new_journal()?);
        }
        Ok(host)
    }

    /// What reads all threads of a process at once; none where their files are to be read.
    ///
    /// # Errors
    /// Where that is required and cannot be.
    fn thread_reader(&self, reading: ThreadReading) -> Result<Option<ThreadReader>> {
        let roots = &self.roots;
        let reader = match reading {
            ThreadReading::Files => return Ok(None),
            ThreadReading::Auto => may_read(roots).and_then(|()| ThreadReader::open(roots)),
            ThreadReading::Bpf => ThreadReader::open(roots),
        };
        match reader {
            Ok(reader) => Ok(Some(reader)),
            Err(why) if reading == ThreadReading::Bpf => {
                Err(Error::input(format!("threads cannot be read by a BPF program: {why}")))
            }
            Err(why) => {
                tracing::debug!(%why, "threads are read by their files");
                Ok(None)
            }
        }
    }

    /// A journal of this process, which has none.
    /// Can what is done be kept in the folder of journals, as far as can be told without making anything?
    ///
    /// # Errors
    /// Where it cannot.
    pub fn check_journals(&self) -> Result {
        Journal::check_folder(&self.folder).map_err(|error| Error::Failed(anyhow!(error)))
    }

    pub(crate) fn new_journal(&self) -> Result<Journal> {
        Journal::create(&self.folder, &self.roots).map_err(|error| Error::Failed(anyhow!(error)))
    }

    fn sources(
        &self,
        model: &Arc<Model>,
        counters: Counters,
        wanted: &[CounterKind],
        profiles: &[&str],
    ) -> Result<Vec<Box<dyn Source>>> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        match counters {
            Counters::Perf => {
                let perf = PerfSource::new(&self.roots, wanted).map_err(Error::input)?;
                sources.push(Box::new(perf));
            }
            // What it lacks shows when a policy needs it.
            Counters::Auto => {
                if let Ok(perf) = PerfSource::new(&self.roots, wanted) {
                    sources.push(Box::new(perf));
                }
                if let Ok(monitor) = ResctrlMonitor::new(&self.roots) {
                    sources.push(Box::new(monitor));
                }
            }
            Counters::Model => sources.push(Box::new(self.modelled(model.clone(), profiles)?)),
            Counters::Profiles => {}
        }
        let stored = StoredProfiles::new(&self.roots, model.clone(), self.library.clone());
        sources.push(Box::new(stored));
        if let Some(memory) = MemoryByNode::new(&self.roots, self.machine.clone()) {
            sources.push(Box::new(memory));
        }
        Ok(sources)
    }

    fn modelled(&self, model: Arc<Model>, profiles: &[&str]) -> Result<ModelledSource> {
        let stored: Vec<&Profile> =
            profiles.iter().map(|name| Ok(self.library.get(name)?)).collect::<Result<_>>()?;
        let names = profiles.iter().map(|&name| name.to_owned());
        let programs: BTreeMap<String, Arc<LoadedProgram>> =
            names.zip(model.load_all(&stored)?).collect();
        Ok(ModelledSource::new(model, programs, TABLE_INSTRUCTIONS as f64))
    }

    fn actuators(
        &self,
        settings: &HostSettings,
        options: corun_scx::Options,
        in_kernel: &SharedCounts,
    ) -> Result<Vec<Box<dyn Actuator>>> {
        let mut actuators: Vec<Box<dyn Actuator>> = vec![
            self.placement(settings, options, in_kernel)?,
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
        settings: &HostSettings,
        options: corun_scx::Options,
        in_kernel: &SharedCounts,
    ) -> Result<Box<dyn Actuator>> {
        let by_affinity = || Box::new(PlacementActuator::new(&self.roots));
        let PlacerSettings { placer, is_required, .. } = settings.placing;
        if placer == Placer::Affinity {
            return Ok(by_affinity());
        }
        let refused = |why: LoadError| Error::input(format!("no scheduler in the kernel: {why}"));
        if settings.dry_run {
            if is_required {
                corun_scx::check(&self.roots).map_err(refused)?;
            }
            return Ok(by_affinity());
        }
        Ok(match Scheduler::attach(options, &self.roots) {
            Ok(scheduler) => {
                let spill_after = settings.placing.spill_after();
                let in_kernel = in_kernel.clone();
                Box::new(KernelPlacement::new(&self.roots, scheduler, spill_after, in_kernel))
            }
            Err(why) if is_required => return Err(refused(why)),
            Err(why) => {
                if placer == Placer::SchedExt {
                    tell(format_args!("no scheduler in the kernel: {why}"));
                    tell("threads are placed by their affinities instead");
                }
                by_affinity()
            }
        })
    }
}

/// Programs that corun starts may use no more than corun may. Said once: a daemon is made ready again and again.
fn note_reach(reach: &Reach) {
    static SAID: Once = Once::new();
    SAID.call_once(|| tell(format_args!("this process may use {reach}")));
}

/// Undoes what dead coruns left in force, says so, and refuses to go on where something of it may still be in force.
pub fn undo_what_was_left(folder: &Path, roots: &Roots) -> Result {
    if !folder.exists() {
        return Ok(());
    }
    let left = restore(folder, roots, Which::Dead);
    let journals = left.map_err(|error| Error::Failed(anyhow!(error)))?;
    let is_dead = |one: &&RestoredJournal| one.outcome != RestoreOutcome::Running;
    let undone: Vec<&Restored> =
        journals.iter().filter(is_dead).flat_map(|one| &one.changes).collect();
    if !undone.is_empty() {
        tell(format_args!("an earlier corun did not end well: {}", undone::in_a_line(&undone)));
    }
    refuse_unresolved(&journals)
}

/// What a dead corun left in force would be taken for what users want.
fn refuse_unresolved(journals: &[RestoredJournal]) -> Result {
    let Some(one) = journals.iter().find(|one| one.is_unresolved()) else { return Ok(()) };
    let why = match &one.outcome {
        RestoreOutcome::Left { why } => why.as_str(),
        _ => "not all could be undone; corun restore says what",
    };
    let file = one.file.display();
    Err(Error::Failed(anyhow!("an earlier corun's journal cannot be restored: {file}: {why}")))
}

/// This machine as it is found, or as a file describes it.
///
/// # Errors
/// Where it cannot be found or the file is of another machine.
pub fn this_machine(described: Option<&Path>) -> Result<Machine> {
    let found = corun_app::find_machine("this")?;
    let Some(path) = described else { return Ok(found) };
    let machine = Machine::load(path).map_err(Error::input)?;
    check_same_caches(&machine, &found, &path.display().to_string())?;
    Ok(machine)
}

/// Do the same CPUs share caches in a description of a machine, which is `shown` as that, and on the machine that was found?
///
/// # Errors
/// Bad input where they do not, with both.
pub fn check_same_caches(described: &Machine, found: &Machine, shown: &str) -> Result {
    let sets = |machine: &Machine| -> BTreeSet<String> {
        machine.llcs().iter().map(|llc| llc.cpus.to_string()).collect()
    };
    let (its, ours) = (sets(described), sets(found));
    if its == ours {
        return Ok(());
    }
    let listed = |sets: BTreeSet<String>| sets.into_iter().collect::<Vec<_>>().join(" and ");
    let message = format!(
        "{shown}: CPUs {} each share a cache, and on this machine CPUs {}",
        listed(its),
        listed(ours)
    );
    Err(Error::input(message).hint("corun topology --format toml > machine.toml"))
}
