//! Threads of a cgroup that has CPUs, none of which has a plan of its own.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use anyhow::{Context as _, Result, bail, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, set_policy};
use rustix::thread::sched_getcpu;

use crate::{own_number, scheduler};

const ROOT: &str = "/sys/fs/cgroup";
/// For so long a thread that runs may take to come to other CPUs; what counts is where those are that are born then.
const PATIENCE: Duration = Duration::from_secs(10);

/// A cgroup of ours.
struct Group {
    folder: PathBuf,
    /// The kernel's number of it.
    number: u64,
}

impl Group {
    fn new(name: &str) -> Result<Self> {
        let folder = Path::new(ROOT).join(name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let number = fs::metadata(&folder)?.ino();
        Ok(Self { folder, number })
    }

    fn plan(&self, scheduler: &mut Scheduler, cpus: &str) -> Result<CpuSet> {
        let cpus: CpuSet = cpus.parse()?;
        scheduler.plan_group(self.number, Plan { cpus: &cpus, spill_after: None })?;
        ensure!(scheduler.cpus_of_group(self.number) == Some(&cpus), "{cpus}: not its CPUs");
        Ok(cpus)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Moves this process with all its threads.
fn go_to(folder: &Path) -> Result<()> {
    let file = folder.join("cgroup.procs");
    fs::write(&file, process::id().to_string()).with_context(|| file.display().to_string())
}

/// A thread that runs without a pause and says where.
struct Runner {
    tid: u32,
    at: Arc<AtomicU32>,
}

impl Runner {
    /// Born by this thread, whose scheduling policy it inherits.
    fn new(stop: &Arc<AtomicBool>) -> Result<Self> {
        let (stop, at) = (stop.clone(), Arc::new(AtomicU32::new(u32::MAX)));
        let (send, number) = std::sync::mpsc::channel();
        let shown = at.clone();
        thread::spawn(move || {
            let _ = send.send(own_number());
            while !stop.load(Ordering::Relaxed) {
                shown.store(sched_getcpu() as u32, Ordering::Relaxed);
            }
        });
        Ok(Self { tid: number.recv()?, at })
    }

    fn comes_to(&self, cpus: &CpuSet) -> Result<()> {
        let since = Instant::now();
        while !cpus.contains(CpuId(self.at.load(Ordering::Relaxed))) {
            let at = self.at.load(Ordering::Relaxed);
            ensure!(since.elapsed() < PATIENCE, "thread {} runs on {at}, not on {cpus}", self.tid);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Threads are born so often by this one, all of which begin on these CPUs.
fn are_born_on(cpus: &CpuSet, times: usize) -> Result<()> {
    for _ in 0..times {
        let born = thread::spawn(|| sched_getcpu() as u32);
        let Ok(at) = born.join() else { bail!("it panicked") };
        ensure!(cpus.contains(CpuId(at)), "a thread was born on {at}, not on {cpus}");
    }
    Ok(())
}

pub(crate) fn groups(times: usize) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
    let (first, second) = (Group::new("first")?, Group::new("second")?);
    let cpus = first.plan(&mut scheduler, "2-3")?;
    let elsewhere = second.plan(&mut scheduler, "6")?;
    go_to(&first.folder)?;
    let made = in_groups(&mut scheduler, times, &first, &second, (cpus, elsewhere));
    go_to(Path::new(ROOT))?;
    set_policy(own_number(), 0)?;
    made
}

fn in_groups(
    scheduler: &mut Scheduler,
    times: usize,
    first: &Group,
    second: &Group,
    (cpus, elsewhere): (CpuSet, CpuSet),
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    set_policy(own_number(), SCHED_EXT)?;
    let runners = [Runner::new(&stop)?, Runner::new(&stop)?];
    runners.iter().try_for_each(|one| one.comes_to(&cpus))?;
    are_born_on(&cpus, times)?;
    // Who has a plan of its own goes by that.
    let own: CpuSet = "7".parse()?;
    scheduler.plan(runners[1].tid, Plan { cpus: &own, spill_after: None })?;
    runners[1].comes_to(&own)?;
    let cpus = first.plan(scheduler, "4-5")?;
    runners[0].comes_to(&cpus)?;
    are_born_on(&cpus, times)?;
    ensure!(own.contains(CpuId(runners[1].at.load(Ordering::Relaxed))), "it left its own CPU");
    go_to(&second.folder)?;
    are_born_on(&elsewhere, times)?;
    runners[0].comes_to(&elsewhere)?;
    // In a cgroup without a plan nobody is held.
    go_to(Path::new(ROOT))?;
    let free = Runner::new(&stop)?;
    ensure!(scheduler.found(free.tid).is_none(), "a thread was born with CPUs");
    scheduler.forget_group(second.number)?;
    ensure!(scheduler.cpus_of_group(second.number).is_none(), "it has CPUs yet");
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    stop.store(true, Ordering::Relaxed);
    println!("3 x {times} threads began on the CPUs of their cgroup");
    Ok(())
}
