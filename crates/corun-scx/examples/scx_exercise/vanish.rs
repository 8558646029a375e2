//! The CPU on which threads are to run goes off line: they run elsewhere, without being told by user space.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, ThreadCounts, set_policy};

use crate::switches::set_online;
use crate::{Busy, own_number, scheduler};

/// The one CPU on which the threads are to run.
const CPU: usize = 1;
/// Threads that are woken, each by a thread of the kernel's own scheduler.
const PAIRS: usize = 6;
/// How often each is to answer while its CPU is off line: once is no proof, since who waits for a CPU of the kernel's own
/// scheduler gets a few percent of it.
const ANSWERS: u64 = 20;
/// How often each busy thread is to be switched to while its CPU is off line and all others are busy too.
const SWITCHES: u64 = 20;
/// For so long they may take for it: a hundred times what they take. In the guest the clock counts instructions.
const PATIENCE: Duration = Duration::from_secs(10);

/// A thread that answers each time that it is woken, and one that wakes it without a pause.
struct Woken {
    asked: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Woken {
    fn start(scheduler: &mut Scheduler, stop: &Arc<AtomicBool>) -> Result<Self> {
        let own = Self { asked: Arc::default(), answered: Arc::default() };
        let (send, number) = std::sync::mpsc::channel();
        let (asked, answered, ends) = (own.asked.clone(), own.answered.clone(), stop.clone());
        let woken = thread::spawn(move || {
            let _ = send.send(own_number());
            while !ends.load(Ordering::Relaxed) {
                thread::park();
                answered.store(asked.load(Ordering::Acquire), Ordering::Release);
            }
        });
        let tid = number.recv()?;
        let cpus: CpuSet = CPU.to_string().parse()?;
        scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(tid, SCHED_EXT)?;
        let (asked, answered, ends) = (own.asked.clone(), own.answered.clone(), stop.clone());
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let number = asked.fetch_add(1, Ordering::AcqRel) + 1;
                woken.thread().unpark();
                while answered.load(Ordering::Acquire) < number && !ends.load(Ordering::Relaxed) {
                    crate::spin();
                }
            }
            woken.thread().unpark();
        });
        Ok(own)
    }
}

/// How long it took until `is_done` is true of all numbers below `count`, and of how many it became true.
fn wait_for(count: usize, is_done: impl Fn(usize) -> Result<bool>) -> Result<(Duration, usize)> {
    let since = Instant::now();
    loop {
        let done = (0..count).map(&is_done).collect::<Result<Vec<_>>>()?;
        let done = done.into_iter().filter(|&one| one).count();
        if done == count || since.elapsed() > PATIENCE {
            return Ok((since.elapsed(), done));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The CPU goes off line and comes back so often, each time under threads that are woken for it by threads that keep all
/// other CPUs but one busy. While it is away they run on that one.
pub(crate) fn vanish(times: u32) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let all =
        (0..PAIRS).map(|_| Woken::start(&mut scheduler, &stop)).collect::<Result<Vec<_>>>()?;
    let (mut longest, mut starved) = (Duration::ZERO, 0);
    for _ in 0..times {
        thread::sleep(Duration::from_millis(50));
        set_online(CPU, false)?;
        let before: Vec<u64> = all.iter().map(|one| one.answered.load(Ordering::Acquire)).collect();
        let has_answered = |index: usize| {
            Ok(all[index].answered.load(Ordering::Acquire) >= before[index] + ANSWERS)
        };
        let (took, answered) = wait_for(PAIRS, has_answered)?;
        (longest, starved) = (longest.max(took), starved + PAIRS - answered);
        set_online(CPU, true)?;
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    stop.store(true, Ordering::Relaxed);
    let answered: u64 = all.iter().map(|one| one.answered.load(Ordering::Relaxed)).sum();
    println!(
        "CPU {CPU} went off line {times} times under {PAIRS} threads that were woken {answered} times for it: all \
         answered {ANSWERS} times elsewhere within {longest:?} but {starved}"
    );
    ensure!(starved == 0, "a thread waits for a CPU that is gone");
    drop(scheduler);
    all_busy()?;
    within_the_kernel(times)
}

/// The CPU goes off line under busy threads, and each other CPU has a busy thread of its own: none is ever idle, and the
/// threads whose CPU is gone have turns on the others' CPUs.
fn all_busy() -> Result<()> {
    const HOMELESS: usize = 2;
    let mut scheduler = scheduler(Options::default())?;
    let others: CpuSet = "0,2-7".parse()?;
    let busy = Busy::start(HOMELESS + others.len());
    let own: CpuSet = CPU.to_string().parse()?;
    let homes =
        std::iter::repeat_n(own, HOMELESS).chain(others.iter().map(|cpu| CpuSet::from_iter([cpu])));
    for (thread, cpus) in busy.threads.iter().zip(homes) {
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    thread::sleep(Duration::from_millis(50));
    set_online(CPU, false)?;
    let switches = |index: usize| -> Result<u64> {
        Ok(scheduler.counts(busy.threads[index].tid)?.context("not counted")?.switches)
    };
    let before = (0..busy.threads.len()).map(switches).collect::<Result<Vec<_>>>()?;
    let has_run = |index: usize| Ok(switches(index)? >= before[index] + SWITCHES);
    let (took, ran) = wait_for(HOMELESS, has_run)?;
    let counted = busy.counted();
    let (_, others_ran) =
        wait_for(busy.threads.len(), |index| Ok(busy.counted()[index] > counted[index]))?;
    set_online(CPU, true)?;
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    println!(
        "all other CPUs busy: {ran} of {HOMELESS} threads whose CPU is off line were switched to {SWITCHES} times within \
         {took:?}; {others_ran} of {} threads went on",
        counted.len()
    );
    ensure!(ran == HOMELESS, "a thread waits for a CPU that is gone");
    ensure!(others_ran == counted.len(), "a thread starves");
    busy.end();
    Ok(())
}

/// Threads of the CPU spend their time within read sections of the kernel, where the end of a turn preempts them. The kernel
/// waits for such threads before it tells the scheduler that the CPU goes: they have to run elsewhere before.
fn within_the_kernel(times: u32) -> Result<()> {
    const THREADS: usize = 4;
    /// Of this many folders a path is looked up within one read section.
    const DEPTH: usize = 400;
    let folder = tempfile::tempdir()?;
    let path: PathBuf =
        std::iter::once(folder.path()).chain((0..DEPTH).map(|_| Path::new("a"))).collect();
    std::fs::create_dir_all(&path)?;
    let mut scheduler = scheduler(Options::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let cpus: CpuSet = CPU.to_string().parse()?;
    for _ in 0..THREADS {
        let (ends, path) = (stop.clone(), path.clone());
        let (send, number) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let _ = send.send(own_number());
            while !ends.load(Ordering::Relaxed) {
                let _ = std::fs::metadata(&path);
            }
        });
        let tid = number.recv()?;
        scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(tid, SCHED_EXT)?;
    }
    let mut took = Vec::new();
    for _ in 0..times {
        thread::sleep(Duration::from_millis(50));
        let since = Instant::now();
        set_online(CPU, false)?;
        took.push(since.elapsed());
        set_online(CPU, true)?;
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    stop.store(true, Ordering::Relaxed);
    println!(
        "CPU {CPU} went off line under {THREADS} threads that look paths up within {took:.1?}"
    );
    ensure!(
        took.iter().all(|took| *took < PATIENCE / 2),
        "the kernel waited for a thread that waits for the CPU"
    );
    Ok(())
}

/// The kernel refuses to let the CPU go, since threads with deadlines need it. The threads whose CPU it is stay there.
pub(crate) fn refused() -> Result<()> {
    const THREADS: usize = 2;
    let mut scheduler = scheduler(Options::default())?;
    let busy = Busy::start(THREADS);
    let cpus: CpuSet = CPU.to_string().parse()?;
    for thread in &busy.threads {
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    thread::sleep(Duration::from_millis(50));
    ensure!(set_online(CPU, false).is_err(), "the kernel let CPU {CPU} go");
    let counts = |index: usize| -> Result<ThreadCounts> {
        scheduler.counts(busy.threads[index].tid)?.context("not counted")
    };
    let before = (0..THREADS).map(counts).collect::<Result<Vec<_>>>()?;
    let has_run = |index: usize| Ok(counts(index)?.switches >= before[index].switches + SWITCHES);
    let (_, ran) = wait_for(THREADS, has_run)?;
    ensure!(ran == THREADS, "a thread does not run");
    for (index, before) in before.iter().enumerate() {
        let without = counts(index)?.homeless - before.homeless;
        ensure!(
            without == 0,
            "a thread was queued {without} times without its CPU, which is there"
        );
    }
    busy.end();
    println!("CPU {CPU} was not let go, and {ran} threads went on there");
    Ok(())
}
