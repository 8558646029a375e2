//! The scheduler comes and goes while threads do.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use corun_linux::Roots;
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, PlanError, SCHED_EXT, Scheduler, set_policy};

use crate::{own_number, scheduler};

/// Processes that make threads. Threads of one process on several CPUs would wait for each other's CPUs whenever
/// memory is given back, for as long as an emulator's turn takes.
const MAKERS: usize = 4;

/// Of so many attachments one loads the scheduler's programs; the others attach what is loaded.
const LOADED_EVERY: u32 = 20;

/// Threads come and go, each in the scheduler's class from birth, while the scheduler itself comes and goes. Where a rate is
/// given the threads come a quarter faster, and no faster: the CPUs are not taken from those who attach.
pub(crate) fn storm(times: u32, least_a_second: Option<u64>) -> Result<()> {
    let own = std::env::current_exe()?;
    let pace = least_a_second.map(|rate| (rate * 5 / 4).div_ceil(MAKERS as u64));
    let start = |_| -> Result<Child> {
        let piped = (Stdio::piped(), Stdio::piped());
        let pace = pace.map(|pace| pace.to_string());
        let mut maker = Command::new(&own);
        Ok(maker.arg("breed").args(pace).stdin(piped.0).stdout(piped.1).spawn()?)
    };
    let mut makers = (0..MAKERS).map(start).collect::<Result<Vec<_>>>()?;
    let started = Instant::now();
    let (mut attaching, mut loaded) = (Duration::ZERO, None);
    for time in 0..times {
        if time % LOADED_EVERY == 0 {
            drop(loaded.take());
        }
        let began = Instant::now();
        let scheduler = match &mut loaded {
            Some(scheduler) => {
                Scheduler::attach_again(scheduler, &Roots::default())?;
                scheduler
            }
            none => none.insert(scheduler(Options { counts_wakers: true, keeps_stints: true })?),
        };
        attaching += began.elapsed();
        for (index, maker) in makers.iter().enumerate() {
            let sets = ["0-1", "2", "4-7", "0-7"];
            let set: CpuSet = sets[(time as usize + index) % sets.len()].parse()?;
            let spill_after = Some(Duration::from_millis(5));
            let threads = std::fs::read_dir(format!("/proc/{}/task", maker.id()))?;
            let numbers =
                threads.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok());
            for tid in numbers.collect::<Vec<u32>>() {
                match scheduler.plan(tid, Plan { cpus: &set, spill_after }) {
                    Ok(()) | Err(PlanError::Gone) => {}
                    Err(other) => bail!(other),
                }
            }
        }
        thread::sleep(Duration::from_millis(30));
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    drop(loaded);
    let elapsed = started.elapsed();
    let mut born = 0;
    for maker in &mut makers {
        drop(maker.stdin.take());
        let mut told = String::new();
        maker.stdout.take().context("no output")?.read_to_string(&mut told)?;
        ensure!(maker.wait()?.success(), "a maker of threads failed");
        born += told.trim().parse::<u64>().context(told)?;
    }
    let a_second = born * 1000 / elapsed.as_millis().max(1) as u64;
    println!(
        "{times} times in {elapsed:.1?}, of which attaching took {attaching:.1?}; {born} threads, {a_second} a second"
    );
    ensure!(a_second >= least_a_second.unwrap_or(1), "no storm");
    Ok(())
}

/// Makes threads until its input ends, so many a second or as many as it can, and prints how many.
pub(crate) fn breed(pace: Option<u64>) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let listener = thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    // Whom this thread makes is in the class too, with its plan.
    set_policy(own_number(), SCHED_EXT)?;
    let mut born = 0u64;
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let children: Vec<_> = (0..8).map(|_| thread::spawn(thread::yield_now)).collect();
        born += children.len() as u64;
        children.into_iter().for_each(|child| drop(child.join()));
        let due = pace.map(|pace| Duration::from_millis(born * 1000 / pace.max(1)));
        thread::sleep(due.unwrap_or_default().saturating_sub(started.elapsed()));
    }
    println!("{born}");
    let _ = listener.join();
    Ok(())
}
