//! How soon a plan takes effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, set_policy};
use rustix::thread::sched_getcpu;

use crate::{own_number, scheduler};

/// Sets of which no two that follow each other have a CPU in common.
const SETS: [&str; 4] = ["2", "3", "4-5", "6"];
const PATIENCE: Duration = Duration::from_secs(10);

/// A thread that runs and one that sleeps are moved so often: a plan is in force for who sleeps when it wakes, and for who
/// runs with the next switch.
pub(crate) fn moves(times: usize) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
    sleeping(&mut scheduler, times)?;
    running(&mut scheduler, times)
}

/// A thread that says on which CPU it wakes.
fn sleeping(scheduler: &mut Scheduler, times: usize) -> Result<()> {
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
    Ok(())
}

/// A thread that runs all the time, and notes on which CPU.
fn running(scheduler: &mut Scheduler, times: usize) -> Result<()> {
    let (stop, at) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (tell, told) = mpsc::channel();
    let (ends, noted) = (stop.clone(), at.clone());
    let runner = thread::spawn(move || {
        let _ = tell.send(own_number());
        while !ends.load(Ordering::Relaxed) {
            noted.store(sched_getcpu() as u32, Ordering::Relaxed);
        }
    });
    let tid = told.recv()?;
    let mut by_switches = [0; 3];
    for time in 0..times {
        let cpus = set(time)?;
        let switches = |scheduler: &Scheduler| {
            Ok::<_, anyhow::Error>(scheduler.counts(tid)?.map_or(0, |one| one.switches))
        };
        let before = switches(scheduler)?;
        scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(tid, SCHED_EXT)?;
        let since = Instant::now();
        while !cpus.contains(CpuId(at.load(Ordering::Relaxed))) {
            ensure!(since.elapsed() < PATIENCE, "a thread that runs does not come to {cpus}");
        }
        // The first time it comes to the scheduler.
        if time > 0 {
            let after = switches(scheduler)?.saturating_sub(before);
            *by_switches.get_mut(after.min(2) as usize).context("three")? += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let _ = runner.join();
    let [none, one, more] = by_switches;
    println!(
        "a thread that ran was where its plan says with the next switch {one} times, {none} at once, later {more} times"
    );
    // Who is taken off its CPU by the kernel's own threads just then comes a switch later.
    ensure!(more * 10 <= times, "plans take more than a switch");
    Ok(())
}

fn set(time: usize) -> Result<CpuSet> {
    Ok(SETS[time % SETS.len()].parse()?)
}
