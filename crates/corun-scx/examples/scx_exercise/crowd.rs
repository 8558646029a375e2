//! More threads than CPUs.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, ThreadCounts, set_policy};

use crate::{Busy, scheduler};

/// How long after its bound a thread may have to wait: three ticks of the kernel, 250 a second, were measured, and one
/// more is left. On a machine whose clock goes on while its CPUs stand still, as in an emulator with the host's clock,
/// longer waits say nothing of the scheduler.
const AFTER_BOUND: Duration = Duration::from_millis(16);

/// How long a thread may have a CPU while others wait: its slice, and the tick that ends it.
const TURN: Duration = Duration::from_millis(5 + 4);

/// The CPU on which a thread ran last.
fn cpu_of(tid: u32) -> Result<u32> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"))?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    Ok(after.split_whitespace().nth(36).context("no CPU")?.parse()?)
}

/// Busy threads on two CPUs, the others free: who waited for longer than the bound runs elsewhere.
pub(crate) fn crowd(spill_after: Option<Duration>, time: Duration) -> Result<()> {
    const THREADS: usize = 5;
    let mut scheduler = scheduler(Options::default())?;
    let busy = Busy::start(THREADS);
    let cpus: CpuSet = "2-3".parse()?;
    for thread in &busy.threads {
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    // Whoever waits for the first time has run by then.
    thread::sleep(Duration::from_millis(200));
    let end = Instant::now() + time;
    let (mut at_home, mut elsewhere) = (0, 0);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
        for tid in busy.threads.iter().map(|thread| thread.tid) {
            let at = cpu_of(tid)?;
            if cpus.contains(CpuId(at)) {
                at_home += 1;
            } else {
                elsewhere += 1;
                if spill_after.is_none() {
                    let counts = scheduler.counts(tid)?;
                    println!("look {}: thread {tid} is on CPU {at}: {counts:?}", at_home / THREADS);
                }
            }
        }
    }
    let counts = counts_of(&scheduler, &busy);
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    busy.end();
    ensure!(counts.len() == THREADS, "{} of {THREADS} threads are counted", counts.len());
    let spilled: u64 = counts.iter().map(|one| one.spilled).sum();
    let longest = longest_wait(&counts);
    let least = counts.iter().map(|one| one.switches).min().unwrap_or_default();
    println!(
        "spill after {spill_after:?}: {at_home} looks at home, {elsewhere} elsewhere, {spilled} spills, \
         longest wait {longest:?}, at least {least} switches each"
    );
    ensure!(least > 0, "a thread never ran");
    match spill_after {
        None => ensure!(spilled == 0 && elsewhere == 0, "a thread left its CPUs"),
        Some(bound) => {
            ensure!(spilled > 0, "nobody left crowded CPUs");
            ensure!(longest <= bound + AFTER_BOUND, "the bound does not hold");
        }
    }
    Ok(())
}

/// Each pair of CPUs has so many busy threads, so that no CPU is free for who waited too long: a thread waits for the
/// turns of those before it in its queue, and no longer.
pub(crate) fn overload(threads: usize, time: Duration) -> Result<()> {
    const PAIRS: [&str; 4] = ["0-1", "2-3", "4-5", "6-7"];
    let mut scheduler = scheduler(Options::default())?;
    let busy = Busy::start(threads * PAIRS.len());
    let spill_after = Some(Duration::from_millis(4));
    for (index, thread) in busy.threads.iter().enumerate() {
        let cpus: CpuSet = PAIRS[index / threads].parse()?;
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    thread::sleep(time);
    let counts = counts_of(&scheduler, &busy);
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    busy.end();
    let longest = longest_wait(&counts);
    let switches = counts.iter().map(|one| one.switches);
    let (least, most) =
        (switches.clone().min().unwrap_or_default(), switches.max().unwrap_or_default());
    // Two CPUs serve the queue. Who comes to it is behind all others at most, and the two on the CPUs have a turn left.
    let bound = TURN * threads.div_ceil(2) as u32 + AFTER_BOUND;
    println!(
        "{threads} threads on each pair of CPUs: longest wait {longest:?}, bound {bound:?}, {least} to {most} \
         switches each"
    );
    ensure!(counts.len() == threads * PAIRS.len(), "{} threads are counted", counts.len());
    ensure!(least > 0, "a thread never ran");
    ensure!(longest <= bound, "a thread waited for longer than the turns of all others take");
    Ok(())
}

fn counts_of(scheduler: &corun_scx::Scheduler, busy: &Busy) -> Vec<ThreadCounts> {
    let counts = |tid: u32| scheduler.counts(tid).ok().flatten();
    busy.threads.iter().filter_map(|thread| counts(thread.tid)).collect()
}

fn longest_wait(counts: &[ThreadCounts]) -> Duration {
    counts.iter().map(|one| one.longest_wait).max().unwrap_or_default()
}
