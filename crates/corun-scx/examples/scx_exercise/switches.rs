//! Threads that wake each other by turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, ThreadCounts, set_policy};

use crate::{own_number, scheduler};

/// Takes a CPU off line or brings it back.
pub(crate) fn set_online(cpu: usize, is_online: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(&file, if is_online { "1" } else { "0" }).context(file)
}

/// Pairs of threads wake each other by turns until all of them were switched to so often. Meanwhile one CPU after the
/// other goes off line and comes back, where that is asked for.
pub(crate) fn switches(count: u64, takes_off_line: bool) -> Result<()> {
    const SETS: [&str; 6] = ["1", "1", "2-3", "2-3", "4-7", "0,4"];
    const STOPPED: Duration = Duration::from_secs(20);
    const CPUS: usize = 8;
    let mut scheduler = scheduler(Options::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut pairs = Vec::new();
    for cpus in SETS {
        let turns = Arc::new(AtomicU64::new(0));
        let side = |parity: u64| {
            let (stop, turns) = (stop.clone(), turns.clone());
            let (send, told) = std::sync::mpsc::channel::<thread::Thread>();
            let (number, numbered) = std::sync::mpsc::channel();
            let handle = thread::spawn(move || {
                let _ = number.send(own_number());
                let Ok(other) = told.recv() else { return };
                while !stop.load(Ordering::Relaxed) {
                    while turns.load(Ordering::Acquire) % 2 != parity {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        thread::park();
                    }
                    turns.fetch_add(1, Ordering::Release);
                    other.unpark();
                }
            });
            (handle, send, numbered)
        };
        let (one, other) = (side(0), side(1));
        let cpus: CpuSet = cpus.parse()?;
        let mut tids = Vec::new();
        for (_, _, numbered) in [&one, &other] {
            let tid = numbered.recv()?;
            scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
            set_policy(tid, SCHED_EXT)?;
            tids.push(tid);
        }
        one.1.send(other.0.thread().clone())?;
        other.1.send(one.0.thread().clone())?;
        pairs.push((cpus, turns, tids, [one.0, other.0]));
    }
    let started = Instant::now();
    let mut before = vec![(0, Instant::now()); pairs.len()];
    let (mut reached, mut looks) = (0, 0);
    while reached < count || looks % 2 == 1 {
        thread::sleep(Duration::from_millis(500));
        if takes_off_line {
            // CPU 0 cannot go.
            set_online(1 + looks / 2 % (CPUS - 1), looks % 2 == 1)?;
        }
        looks += 1;
        reached = 0;
        for ((cpus, turns, tids, _), (seen, at)) in pairs.iter().zip(&mut before) {
            for tid in tids {
                reached += scheduler.counts(*tid)?.context("not counted")?.switches;
            }
            let now = turns.load(Ordering::Relaxed);
            if now != *seen {
                (*seen, *at) = (now, Instant::now());
            }
            ensure!(at.elapsed() < STOPPED, "the pair on CPUs {cpus} stopped: a wake-up is lost");
        }
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    let times = if takes_off_line { looks / 2 } else { 0 };
    println!(
        "{reached} switches in {:.1?}, no wake-up lost, CPUs went off line {times} times",
        started.elapsed()
    );
    ensure!(!takes_off_line || times > 0, "no CPU went off line");
    for (cpus, turns, tids, _) in &pairs {
        let counts = tids.iter().filter_map(|tid| scheduler.counts(*tid).ok().flatten());
        let sum = counts.fold(ThreadCounts::default(), |sum, one| sum.plus(&one));
        println!(
            "  CPUs {cpus}: {} turns, {} switches, {} wake-ups, {} took an idle CPU, {} queued, longest wait {:?}",
            turns.load(Ordering::Relaxed),
            sum.switches,
            sum.wakeups,
            sum.took_idle,
            sum.queued,
            sum.longest_wait
        );
    }
    stop.store(true, Ordering::Relaxed);
    for handle in pairs.into_iter().flat_map(|(_, _, _, handles)| handles) {
        handle.thread().unpark();
        let _ = handle.join();
    }
    Ok(())
}
