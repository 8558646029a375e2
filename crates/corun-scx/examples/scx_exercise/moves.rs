//! How soon a plan takes effect.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, Stint, set_policy};
use rustix::thread::sched_getcpu;
use rustix::time::{ClockId, clock_gettime};

use crate::{Busy, own_number, scheduler};

/// Sets of which no two that follow each other have a CPU in common.
const SETS: [&str; 4] = ["2", "3", "4-5", "6"];

fn set(time: usize) -> Result<CpuSet> {
    Ok(SETS[time % SETS.len()].parse()?)
}

/// A thread that sleeps gets another plan so often: each is in force when the thread wakes. Then the same of threads that
/// run.
pub(crate) fn moves(times: usize) -> Result<()> {
    let mut scheduler = scheduler(Options { keeps_stints: true, ..Options::default() })?;
    let (wake, woken) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let sleeper = thread::spawn(move || {
        let _ = tell.send(own_number());
        while woken.recv().is_ok() {
            let _ = tell.send(sched_getcpu() as u32);
        }
    });
    let tid = told.recv()?;
    for time in 0..times {
        let cpus = set(time)?;
        scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(tid, SCHED_EXT)?;
        // By then it sleeps.
        thread::sleep(Duration::from_millis(5));
        wake.send(())?;
        let at = told.recv()?;
        ensure!(cpus.contains(CpuId(at)), "a thread that was to wake on {cpus} woke on {at}");
    }
    drop(wake);
    let _ = sleeper.join();
    println!("{times} times a thread that slept woke where its plan says");
    moves_of_running(&mut scheduler, times)
}

/// Threads that run without a pause, each in a set of its own, change their sets by turns so often. A thread whose CPU is
/// taken away leaves it at once, or with the next tick of that CPU.
fn moves_of_running(scheduler: &mut Scheduler, times: usize) -> Result<()> {
    // For so long a thread may take to come to its new set; what counts is ticks and turns.
    const PATIENCE: Duration = Duration::from_secs(10);
    let busy = Busy::start(SETS.len() - 1);
    for (index, thread) in busy.threads.iter().enumerate() {
        scheduler.plan(thread.tid, Plan { cpus: &set(index)?, spill_after: None })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    thread::sleep(Duration::from_millis(50));
    scheduler.take_stints()?;
    let (mut at_once, mut by_tick, mut turns, mut outside) = (0, 0, 0, 0);
    for time in 0..times {
        let cpus: Vec<CpuSet> =
            (0..busy.threads.len()).map(|index| set(time + 1 + index)).collect::<Result<_>>()?;
        // From the last on: each set that a thread comes to was left before.
        for (thread, cpus) in busy.threads.iter().zip(&cpus).rev() {
            let tid = thread.tid;
            let ticks = |scheduler: &Scheduler| -> Result<u64> {
                Ok(scheduler.counts(tid)?.context("not counted")?.ticks_outside)
            };
            let before = ticks(scheduler)?;
            scheduler.plan(tid, Plan { cpus, spill_after: None })?;
            let since_ns = now_ns();
            let arrived = Instant::now();
            let mut stints: Vec<Stint> = Vec::new();
            // A turn in the new set that ended: the thread came there.
            while !stints.iter().any(|one| is_in(one, cpus)) {
                ensure!(
                    arrived.elapsed() < PATIENCE,
                    "thread {tid} does not come to {cpus}: {stints:?}"
                );
                thread::sleep(Duration::from_millis(1));
                stints.extend(scheduler.take_stints()?.into_iter().filter(|one| one.tid == tid));
            }
            // One may: it was put on its CPU while its plan was written.
            let begun_outside = stints.iter().filter(|one| {
                one.since_ns > since_ns && one.until_ns.is_some() && !is_in(one, cpus)
            });
            let begun_outside = begun_outside.count();
            ensure!(begun_outside <= 1, "thread {tid} is to run on {cpus}: {stints:?}");
            outside += begun_outside;
            turns += stints.iter().filter(|one| is_in(one, cpus)).count();
            match ticks(scheduler)? - before {
                0 => at_once += 1,
                1 => by_tick += 1,
                more => ensure!(false, "{more} ticks found thread {tid} outside of {cpus}"),
            }
        }
    }
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    busy.end();
    println!(
        "{} times a thread that ran left its CPU: {at_once} times before a tick found it there, {by_tick} times with the \
         first tick; {turns} turns began in the new set, {outside} outside of it",
        at_once + by_tick
    );
    Ok(())
}

fn is_in(stint: &Stint, cpus: &CpuSet) -> bool {
    stint.cpu.is_some_and(|cpu| cpus.contains(cpu))
}

/// The clock of stints.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec) as u64
}
