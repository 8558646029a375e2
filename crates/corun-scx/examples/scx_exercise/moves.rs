//! How soon a plan takes effect.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, set_policy};
use rustix::thread::sched_getcpu;

use crate::{own_number, scheduler};

/// Sets of which no two that follow each other have a CPU in common.
const SETS: [&str; 4] = ["2", "3", "4-5", "6"];

/// A thread that sleeps gets another plan so often: each is in force when the thread wakes.
pub(crate) fn moves(times: usize) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
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

fn set(time: usize) -> Result<CpuSet> {
    Ok(SETS[time % SETS.len()].parse()?)
}
