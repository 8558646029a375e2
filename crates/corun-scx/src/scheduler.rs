//! The scheduler in force, as user space uses it.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use corun_linux::sysfs::online_cpus;
use corun_linux::{Roots, files};
use corun_machine::CpuSet;

use crate::btf::Btf;
use crate::layout::{self, EXIT_BYTES, Request, Stint, THREAD_BYTES, ThreadCounts};
use crate::load::{Loaded, missing};
use crate::object_file::ObjectFile;
use crate::sets::{FullError, SetTable};
use crate::wakers::{self, Wakeups};
use crate::{LoadError, OBJECT, syscalls};

/// The policy of threads that the scheduler has (`linux/sched.h`).
pub const SCHED_EXT: i32 = 7;

/// The scheduler's name in the kernel.
pub(crate) const NAME: &str = "corun";

/// What the scheduler is to do beside placing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Count who wakes whom; some twenty instructions more at each wake-up by the same thread as before, some hundred by
    /// another.
    pub counts_wakers: bool,
    /// Keep for [`Scheduler::take_stints`] when each thread was on which CPU; some hundred instructions more at each
    /// switch.
    pub keeps_stints: bool,
}

/// What a thread is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan<'a> {
    /// The CPUs that it is to run on.
    pub cpus: &'a CpuSet,
    /// How long it may wait there before an idle CPU elsewhere may take it; none: for 10 s, which only a thread waits
    /// whose CPUs serve nobody.
    pub spill_after: Option<Duration>,
}

/// Why a plan is not in force.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The thread ended.
    #[error("the thread is no more")]
    Gone,
    /// The kernel detached the scheduler.
    #[error("the scheduler in the kernel is no longer in force: {0}")]
    Ended(String),
    /// There are more sets of CPUs than the scheduler has room for.
    #[error(transparent)]
    Full(#[from] FullError),
    /// The kernel said no.
    #[error("{0}")]
    Kernel(#[from] io::Error),
}

/// A part of the scheduler, and what it took while that was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its operation.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How long in all.
    pub time: Duration,
}

/// The scheduler in force.
#[derive(Debug)]
pub struct Scheduler {
    loaded: Loaded,
    /// Closing them detaches the scheduler; none where it was detached and could not be attached again.
    links: Vec<OwnedFd>,
    options: Options,
    sets: SetTable,
    /// By the kernel's number of the cgroup: the number of its set.
    groups: BTreeMap<u64, u32>,
}

impl Scheduler {
    /// Loads the scheduler and puts it in force. No thread is in it yet.
    ///
    /// # Errors
    /// When the kernel has no `sched_ext` or lacks a part of it, when another scheduler is in force, and
    /// without the rights.
    pub fn attach(options: Options, roots: &Roots) -> Result<Self, LoadError> {
        let types = kernel_types(roots)?;
        let (object, kernel) = (ObjectFile::parse(OBJECT)?, Btf::parse(&types)?);
        check_parts(&object, &kernel)?;
        let mut object = object;
        let kinds = [(options.keeps_stints, "stints"), (options.counts_wakers, "wakers")];
        let kinds = kinds.into_iter().filter_map(|(is_wanted, kind)| is_wanted.then_some(kind));
        object.choose(&kinds.collect::<Vec<_>>());
        let loaded = Loaded::load(&object, &kernel, NAME)?;
        let (links, sets, groups) = (Vec::new(), SetTable::default(), BTreeMap::new());
        let mut own = Self { loaded, links, options, sets, groups };
        own.put_in_force(roots)?;
        Ok(own)
    }

    /// Detaches the scheduler and puts it in force again, with the threads' plans as they were. To try that alone.
    ///
    /// # Errors
    /// As [`Self::attach`]; then it is not in force.
    pub fn attach_again(&mut self, roots: &Roots) -> Result<(), LoadError> {
        self.links.clear();
        self.put_in_force(roots)
    }

    fn put_in_force(&mut self, roots: &Roots) -> Result<(), LoadError> {
        let online =
            online_cpus(roots).map_err(LoadError::kernel("the CPUs on line".to_owned()))?;
        let (settings, exit) = (layout::settings(self.sets.end()), vec![0; EXIT_BYTES]);
        for (map, value) in
            [("settings", settings), ("online", layout::online(&online)), ("exits", exit)]
        {
            syscalls::update(self.map(map), &0u32.to_ne_bytes(), &value)
                .map_err(LoadError::kernel(format!("the map {map}")))?;
        }
        self.links = self.loaded.attach().map_err(|reason| match reason.raw_os_error() {
            Some(libc::EBUSY) => LoadError::Another("it came at the same moment".to_owned()),
            _ => LoadError::Kernel { what: "putting the scheduler in force".to_owned(), reason },
        })?;
        Ok(())
    }

    fn map(&self, name: &str) -> BorrowedFd<'_> {
        self.loaded.maps[name].as_fd()
    }

    /// What it does beside placing.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Why the kernel detached the scheduler; none while it is in force.
    pub fn ended(&self) -> Option<String> {
        let mut bytes = [0; EXIT_BYTES];
        syscalls::look_up(self.map("exits"), &0u32.to_ne_bytes(), &mut bytes).ok()?;
        layout::exit(&bytes)
    }

    /// Gives a thread a plan, from its next wake-up or end of a slice on. A thread that runs outside of its new CPUs
    /// leaves at once, at the latest with the next tick of the CPU on which it runs. The thread has to have the policy
    /// [`SCHED_EXT`] for it.
    ///
    /// # Errors
    /// When the thread is no more, when the scheduler is no longer in force, and when there are too many sets.
    pub fn plan(&mut self, tid: u32, plan: Plan<'_>) -> Result<(), PlanError> {
        if let Some(why) = self.ended() {
            return Err(PlanError::Ended(why));
        }
        let set = self.sets.enter(plan.cpus)?;
        let request = Request { tid, set, spill_after: plan.spill_after };
        let done = self.tell_sets().map_err(PlanError::Kernel).and_then(|()| self.request(request));
        match done {
            Ok(()) => self.sets.give(tid, set),
            Err(_) => self.sets.leave(set),
        }
        done
    }

    /// Gives a cgroup of version 2 a plan, by the number of its folder (`stat`): all its threads of the policy
    /// [`SCHED_EXT`] without a plan of their own have it, those that are yet to be born too, from their next wake-up or end
    /// of a slice on. When the CPUs change, threads that run on one that is no longer among them leave it at once.
    ///
    /// # Errors
    /// When the scheduler is no longer in force, and when there are too many sets or groups.
    pub fn plan_group(&mut self, group: u64, plan: Plan<'_>) -> Result<(), PlanError> {
        if let Some(why) = self.ended() {
            return Err(PlanError::Ended(why));
        }
        let Some(&set) = self.groups.get(&group) else { return self.plan_new_group(group, plan) };
        let before = self.sets.cpus(set).cloned().unwrap_or_default();
        self.sets.change(set, plan.cpus)?;
        self.tell_sets()?;
        for cpu in before.iter().filter(|&cpu| !plan.cpus.contains(cpu)) {
            let mut request = layout::leave(set, cpu);
            syscalls::run(self.loaded.programs["leave_cpu"].as_fd(), &mut request)?;
        }
        Ok(())
    }

    fn plan_new_group(&mut self, group: u64, plan: Plan<'_>) -> Result<(), PlanError> {
        if self.groups.len() >= layout::GROUPS {
            return Err(FullError::Groups.into());
        }
        let set = self.sets.enter_group(plan.cpus)?;
        let value = layout::group(set, plan.spill_after);
        let told = self.tell_sets();
        let told =
            told.and_then(|()| syscalls::update(self.map("groups"), &group.to_ne_bytes(), &value));
        match told {
            Ok(()) => drop(self.groups.insert(group, set)),
            Err(_) => self.sets.leave(set),
        }
        Ok(told?)
    }

    /// A cgroup has no plan any more: those of its threads that have it keep it, others get none. As a rule it has no
    /// threads.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn forget_group(&mut self, group: u64) -> io::Result<()> {
        let Some(set) = self.groups.remove(&group) else { return Ok(()) };
        self.sets.leave(set);
        syscalls::delete(self.map("groups"), &group.to_ne_bytes())
    }

    /// The CPUs of a cgroup's plan; none where it has none.
    pub fn cpus_of_group(&self, group: u64) -> Option<&CpuSet> {
        self.sets.cpus(*self.groups.get(&group)?)
    }

    fn request(&self, request: Request) -> Result<(), PlanError> {
        let mut bytes = request.bytes();
        syscalls::run(self.loaded.programs["plan_thread"].as_fd(), &mut bytes)?;
        match -Request::answer(&bytes) {
            0 => Ok(()),
            libc::ESRCH => Err(PlanError::Gone),
            error => Err(io::Error::from_raw_os_error(error).into()),
        }
    }

    /// Tells the kernel what changed of the sets. What it was not told after an error it is told the next time.
    fn tell_sets(&mut self) -> io::Result<()> {
        let Some(untold) = self.sets.untold() else { return Ok(()) };
        for number in &untold.numbers {
            let cpus = self.sets.cpus(*number).cloned().unwrap_or_default();
            let mut before = [0; layout::SET_BYTES];
            syscalls::look_up(self.map("sets"), &number.to_ne_bytes(), &mut before)?;
            let set = layout::set(&cpus, &before);
            syscalls::update(self.map("sets"), &number.to_ne_bytes(), &set)?;
        }
        for cpu in untold.cpus.iter().filter(|cpu| cpu.0 < layout::CPUS) {
            let sets: Vec<u32> = self.sets.of_cpu(cpu).collect();
            syscalls::update(self.map("cpus"), &cpu.0.to_ne_bytes(), &layout::cpu(&sets))?;
        }
        let settings = layout::settings(self.sets.end());
        syscalls::update(self.map("settings"), &0u32.to_ne_bytes(), &settings)?;
        self.sets.told();
        Ok(())
    }

    /// A thread is no longer looked after, or ended: its set has one user less.
    pub fn forget(&mut self, tid: u32) {
        self.sets.forget(tid);
    }

    /// The threads that have a plan by [`Self::plan`] or [`Self::found`].
    pub fn threads(&self) -> impl Iterator<Item = u32> + '_ {
        self.sets.threads()
    }

    /// Has the thread a plan by [`Self::plan`] or [`Self::found`]?
    pub fn has_plan(&self, tid: u32) -> bool {
        self.sets.has(tid)
    }

    /// Takes over a thread that was born with its maker's plan: the CPUs of that plan; none without.
    pub fn found(&mut self, tid: u32) -> Option<CpuSet> {
        let number = self.counts(tid).ok().flatten()?.set;
        self.sets.find(tid, number).cloned()
    }

    /// What was counted of a thread; none where it never had a plan, or ended.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn counts(&self, tid: u32) -> io::Result<Option<ThreadCounts>> {
        let thread = match syscalls::thread_descriptor(tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            other => other?,
        };
        let mut bytes = [0; THREAD_BYTES];
        let key = thread.as_raw_fd().to_ne_bytes();
        match syscalls::look_up(self.map("threads"), &key, &mut bytes) {
            Ok(()) => Ok(Some(ThreadCounts::parse(&bytes))),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Who woke whom how often, threads that have a plan alone; ascending. Empty without [`Options::counts_wakers`]. The
    /// numbers are those of the kernel's first namespace.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn wakeups(&self) -> io::Result<Vec<Wakeups>> {
        if !self.options.counts_wakers {
            return Ok(Vec::new());
        }
        wakers::read(self.map(wakers::MAP))
    }

    /// When threads that have a plan were on which CPU, as far as that was not taken before, in the order in which
    /// they left; then those that are on one now and have a plan by [`Self::plan`] or [`Self::found`]. Empty without
    /// [`Options::keeps_stints`]. Of more stints than there is room for the kernel forgets the oldest.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn take_stints(&self) -> io::Result<Vec<Stint>> {
        if !self.options.keeps_stints {
            return Ok(Vec::new());
        }
        // Before the queue is read: who leaves meanwhile is in the queue, with the same beginning.
        let mut present = Vec::new();
        for tid in self.threads() {
            let Some(counts) = self.counts(tid)? else { continue };
            if counts.runs_since_ns > 0 {
                let since_ns = counts.runs_since_ns;
                present.push(Stint { since_ns, until_ns: None, tid, cpu: None });
            }
        }
        let mut stints = Vec::new();
        let mut bytes = [0; layout::STINT_BYTES];
        while stints.len() < 2 * layout::STINTS && syscalls::pop(self.map("stints"), &mut bytes)? {
            stints.push(Stint::parse(&bytes));
        }
        let mut left: BTreeMap<u32, u64> = BTreeMap::new();
        for stint in &stints {
            left.insert(stint.tid, stint.until_ns.unwrap_or_default());
        }
        present.retain(|one| left.get(&one.tid).is_none_or(|&until| until <= one.since_ns));
        stints.extend(present);
        Ok(stints)
    }

    /// From now on the kernel counts what each part of the scheduler takes, until the answer is dropped.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn count_cost(&self) -> io::Result<OwnedFd> {
        syscalls::count_run_time()
    }

    /// From now on the kernel serves none of the scheduler's queues: who is in one waits until the kernel's watchdog
    /// detaches the scheduler. To try that alone.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn serve_nobody(&self) -> io::Result<()> {
        // Nor does an idle CPU look into any.
        let no_set = layout::settings(1);
        syscalls::update(self.map("settings"), &0u32.to_ne_bytes(), &no_set)?;
        self.serve_late()
    }

    /// From now on CPUs do not serve the queues of their sets: who is in one waits until an idle CPU takes it as one that
    /// waited for too long. To try that alone.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn serve_late(&self) -> io::Result<()> {
        let no_queue = layout::cpu(&[]);
        (0..layout::CPUS)
            .try_for_each(|cpu| syscalls::update(self.map("cpus"), &cpu.to_ne_bytes(), &no_queue))
    }

    /// What each part took while that was counted.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn cost(&self) -> io::Result<Vec<Program>> {
        let programs = self.loaded.programs.iter();
        programs
            .map(|(name, program)| {
                let (runs, time) = syscalls::run_time(program.as_fd())?;
                Ok(Program { name: name.clone(), runs, time: Duration::from_nanos(time) })
            })
            .collect()
    }
}

/// A scheduler in force that leaves everything to the defaults of `sched_ext`, and has all threads: what another
/// program's scheduler is to corun. To try what corun does beside one.
#[derive(Debug)]
pub struct BareScheduler {
    _loaded: Loaded,
    /// Closing them detaches the scheduler.
    _links: Vec<OwnedFd>,
}

impl BareScheduler {
    /// Puts a scheduler of this name in force.
    ///
    /// # Errors
    /// When the kernel has no `sched_ext`, has a scheduler in force already, or refuses it, and without the rights.
    pub fn attach(name: &str, roots: &Roots) -> Result<Self, LoadError> {
        let types = kernel_description(roots)?;
        let loaded = Loaded::bare(&Btf::parse(&types)?, name)?;
        let what = "putting the scheduler in force".to_owned();
        let links = loaded.attach().map_err(LoadError::kernel(what))?;
        Ok(Self { _loaded: loaded, _links: links })
    }
}

/// Could the scheduler be put in force, as far as reading tells? Rights are not looked at, and nothing is loaded.
///
/// # Errors
/// When the kernel has no `sched_ext` or lacks a part of it, and when another scheduler is in force.
pub fn check(roots: &Roots) -> Result<(), LoadError> {
    let types = kernel_types(roots)?;
    check_parts(&ObjectFile::parse(OBJECT)?, &Btf::parse(&types)?)
}

/// The kernel's description of its types, where the kernel has `sched_ext` and no scheduler is in force.
fn kernel_types(roots: &Roots) -> Result<Vec<u8>, LoadError> {
    let folder = roots.sys.join("kernel/sched_ext");
    let state = files::text(&folder.join("state")).ok_or(LoadError::NoSchedExt)?;
    if state != "disabled" {
        let name = files::text(&folder.join("root/ops")).unwrap_or_default();
        return Err(LoadError::Another(format!("{name} ({state})")));
    }
    kernel_description(roots)
}

pub(crate) fn kernel_description(roots: &Roots) -> Result<Vec<u8>, LoadError> {
    let path = roots.sys.join("kernel/btf/vmlinux");
    plain_file(&path)
        .map_err(|reason| LoadError::NoTypes { path: path.display().to_string(), reason })
}

/// A captured tree may have anything in the place of a file.
fn plain_file(path: &Path) -> io::Result<Vec<u8>> {
    const MOST_BYTES: u64 = 1 << 26;
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_parts(object: &ObjectFile, kernel: &Btf<'_>) -> Result<(), LoadError> {
    let missing = missing(object, kernel)?;
    if missing.is_empty() { Ok(()) } else { Err(LoadError::TooOld { missing }) }
}

/// Sets a thread's scheduling policy (`sched_setscheduler`); real-time policies are not for this.
///
/// # Errors
/// When the kernel says no: the thread ended, is another user's, or the policy is unknown.
pub fn set_policy(tid: u32, policy: i32) -> io::Result<()> {
    syscalls::set_policy(tid, policy)
}

/// Is a thread in the class of the schedulers of `sched_ext`, whichever is in force?
///
/// # Errors
/// When the kernel says no: the thread ended.
pub fn is_in_class(tid: u32) -> io::Result<bool> {
    // `SCHED_RESET_ON_FORK` is a bit beside the policy.
    policy_of(tid).map(|policy| policy & 0xff == SCHED_EXT)
}

/// A thread's scheduling policy: 0 `SCHED_OTHER`, 3 `SCHED_BATCH`, 5 `SCHED_IDLE`, 7 [`SCHED_EXT`].
///
/// # Errors
/// When the kernel says no: the thread ended.
pub fn policy_of(tid: u32) -> io::Result<i32> {
    syscalls::policy(tid)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use object::{Object as _, ObjectSection as _};

    use super::*;

    /// The shipped object describes the types of the kernel that it uses, and not those that the loader alone uses.
    #[test]
    fn what_stands_against_the_scheduler_is_found_before_anything_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        let put = |file: &str, bytes: &[u8]| {
            let path = roots.sys.join("kernel").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        assert!(matches!(check(&roots), Err(LoadError::NoSchedExt)));
        put("sched_ext/state", b"enabled\n");
        put("sched_ext/root/ops", b"rusty\n");
        assert!(
            matches!(check(&roots), Err(LoadError::Another(other)) if other == "rusty (enabled)")
        );
        put("sched_ext/state", b"disabled\n");
        assert!(matches!(check(&roots), Err(LoadError::NoTypes { .. })));
        let object = object::read::elf::ElfFile64::<object::LittleEndian>::parse(OBJECT).unwrap();
        put("btf/vmlinux", object.section_by_name(".BTF").unwrap().data().unwrap());
        let Err(why @ LoadError::TooOld { .. }) = check(&roots) else { panic!("it is no kernel") };
        let told = "corun's scheduler needs Linux 7.1 or newer: this kernel has no \
                    btf_trace_cgroup_attach_task (typedef), btf_trace_cpuhp_enter (typedef), \
                    btf_trace_cpuhp_exit (typedef), sched_ext_ops (struct), scx_ops_flags (enum64)";
        assert_eq!(why.to_string(), told);
    }
}
