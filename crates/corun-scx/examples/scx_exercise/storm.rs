//! The scheduler comes and goes while threads do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, set_policy};

use crate::{own_number, scheduler};

/// Threads come and go, each in the scheduler's class from birth, while the scheduler itself comes and goes.
pub(crate) fn storm(times: u32, least_a_second: u64) -> Result<()> {
    const MAKERS: usize = 4;
    let stop = Arc::new(AtomicBool::new(false));
    let born = Arc::new(AtomicU64::new(0));
    let makers: Vec<_> = (0..MAKERS)
        .map(|_| {
            let (stop, born) = (stop.clone(), born.clone());
            thread::spawn(move || {
                // Whom this thread makes is in the class too, with its plan.
                let _ = set_policy(own_number(), SCHED_EXT);
                while !stop.load(Ordering::Relaxed) {
                    let children: Vec<_> =
                        (0..8).map(|_| thread::spawn(thread::yield_now)).collect();
                    born.fetch_add(children.len() as u64, Ordering::Relaxed);
                    children.into_iter().for_each(|child| drop(child.join()));
                }
            })
        })
        .collect();
    let started = Instant::now();
    for time in 0..times {
        let mut scheduler = scheduler(Options { counts_wakers: true, keeps_stints: true })?;
        let set: CpuSet = ["0-1", "2", "4-7", "0-7"][time as usize % 4].parse()?;
        let threads = std::fs::read_dir("/proc/self/task")?;
        let numbers =
            threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for tid in numbers.filter(|&tid: &u32| tid != own_number()).collect::<Vec<_>>() {
            let spill_after = Some(Duration::from_millis(5));
            match scheduler.plan(tid, Plan { cpus: &set, spill_after }) {
                Ok(()) | Err(corun_scx::PlanError::Gone) => {}
                Err(other) => bail!(other),
            }
        }
        thread::sleep(Duration::from_millis(30));
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    stop.store(true, Ordering::Relaxed);
    makers.into_iter().for_each(|maker| drop(maker.join()));
    let (born, elapsed) = (born.load(Ordering::Relaxed), started.elapsed());
    let a_second = born * 1000 / elapsed.as_millis().max(1) as u64;
    println!("{times} times in {elapsed:.1?}, {a_second} threads a second");
    ensure!(a_second >= least_a_second, "no storm");
    Ok(())
}
