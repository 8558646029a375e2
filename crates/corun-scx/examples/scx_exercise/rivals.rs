//! Who else is there: another's scheduler, and the kernel's watchdog.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use corun_linux::Roots;
use corun_machine::CpuSet;
use corun_scx::{BareScheduler, Options, Plan, PlanError, SCHED_EXT, Scheduler, set_policy};

use crate::{Busy, scheduler};

/// A scheduler of another name, which has all threads of the machine.
pub(crate) fn foreign(time: Duration) -> Result<()> {
    let _foreign = BareScheduler::attach("foreign", &Roots::default())?;
    println!("foreign: in force");
    thread::sleep(time);
    Ok(())
}

/// The scheduler serves none of its queues any more, as one would that has an error. The kernel's watchdog finds the
/// threads that wait, detaches the scheduler, and has the threads run.
pub(crate) fn stall() -> Result<()> {
    // The kernel's longest time for its watchdog is 30 s.
    const PATIENCE: Duration = Duration::from_secs(90);
    let mut scheduler = scheduler(Options::default())?;
    let busy = Busy::start(3);
    let cpus: CpuSet = "2".parse()?;
    for thread in &busy.threads {
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    thread::sleep(Duration::from_millis(200));
    ensure!(scheduler.ended().is_none(), "detached before anything stalled");
    serve_late(&scheduler, &busy)?;
    scheduler.serve_nobody()?;
    let started = Instant::now();
    // Who is on the CPU comes to the queue with the end of its slice.
    thread::sleep(Duration::from_secs(1));
    let before = busy.counted();
    thread::sleep(Duration::from_secs(1));
    // One that is on its own CPU needs no queue to go on there, since nobody comes to take its place.
    let after = busy.counted();
    let waiting = before.iter().zip(&after).filter(|(before, after)| before == after).count();
    ensure!(waiting >= 2, "{} of 3 threads run whose queue nobody serves", 3 - waiting);
    let why = loop {
        if let Some(why) = scheduler.ended() {
            break why;
        }
        ensure!(started.elapsed() < PATIENCE, "the watchdog has not detached the scheduler");
        thread::sleep(Duration::from_millis(100));
    };
    let detached = started.elapsed();
    let before = busy.counted();
    thread::sleep(Duration::from_secs(1));
    let after = busy.counted();
    let ran = before.iter().zip(&after).filter(|(before, after)| after > before).count();
    println!(
        "the kernel detached the scheduler after {detached:.1?} ({why}); {ran} of 3 threads ran within a second"
    );
    ensure!(ran == 3, "a thread does not run");
    let late = scheduler.plan(busy.threads[0].tid, Plan { cpus: &cpus, spill_after: None });
    ensure!(
        matches!(late, Err(PlanError::Ended(_))),
        "a plan is taken that is not in force: {late:?}"
    );
    busy.end();
    Ok(())
}

/// Their CPU serves the threads no more, and all others are idle: each runs elsewhere after the longest time that a thread
/// may wait.
fn serve_late(scheduler: &Scheduler, busy: &Busy) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(25);
    let spilled = || -> Result<usize> {
        let counts = busy.threads.iter().map(|thread| scheduler.counts(thread.tid));
        let counts: Vec<_> = counts.collect::<Result<_, _>>()?;
        Ok(counts.into_iter().flatten().filter(|one| one.spilled > 0).count())
    };
    ensure!(spilled()? == 0, "a thread left the CPU that serves it");
    scheduler.serve_late()?;
    let started = Instant::now();
    while spilled()? < 3 {
        ensure!(started.elapsed() < PATIENCE, "a thread waits for a CPU that serves nobody");
        thread::sleep(Duration::from_millis(100));
    }
    println!("threads whose CPU serves nobody ran elsewhere after {:.1?}", started.elapsed());
    Ok(())
}
