//! More threads than CPUs.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, ThreadCounts, set_policy};

use crate::turns::{Turns, Wait};
use crate::{Busy, scheduler};

/// How many turns may begin on a CPU while a thread of its queue has waited for longer than its bound: the tick that
/// ends the present turn finds it and wakes an idle CPU, and one turn begins until that has taken it. Where there is no
/// bound, eight threads on two CPUs see three.
const TURNS_AFTER_BOUND: usize = 1;

/// How many waits of a hundred may see more: of who comes after another in the queue, which is found first.
const LATE_PERCENT: usize = 5;

/// A thread's turn, unless it is cut short (`SLICE_NS` of the program in the kernel).
const SLICE_NS: u64 = 5_000_000;

/// How many slices another thread may have taken when it begins one more turn while one waits: fewer than this. Virtual
/// times in a queue are within a slice of that of the thread that ran last, before or after: who is last is behind two
/// slices of who is first.
const SLICES_BEFORE: f64 = 2.0;

/// The CPU on which a thread ran last.
fn cpu_of(tid: u32) -> Result<u32> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"))?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    Ok(after.split_whitespace().nth(36).context("no CPU")?.parse()?)
}

/// Keeps stints, by which waits are judged.
fn watched() -> Result<Scheduler> {
    scheduler(Options { keeps_stints: true, ..Options::default() })
}

/// Busy threads on two CPUs, the others free: who waited for longer than the bound runs elsewhere.
pub(crate) fn crowd(spill_after: Option<Duration>, time: Duration) -> Result<()> {
    const THREADS: usize = 8;
    let mut scheduler = watched()?;
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
    let turns = Turns::take(&scheduler)?;
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
            let after = |wait: &Wait| turns.most_after(bound.as_nanos() as u64, wait, &cpus);
            let after: Vec<usize> = turns.waits().iter().map(after).collect();
            let late = after.iter().filter(|&&turns| turns > TURNS_AFTER_BOUND).count();
            println!(
                "{} waits, at most {} turns on a CPU beyond the bound, more than {TURNS_AFTER_BOUND} in {late} waits",
                after.len(),
                after.iter().max().context("nobody waited")?
            );
            ensure!(late * 100 <= after.len() * LATE_PERCENT, "the bound does not hold");
        }
    }
    Ok(())
}

/// Each pair of CPUs has so many busy threads, so that no CPU is free for who waited too long: a thread waits for the
/// turns of those before it in its queue, and no longer.
pub(crate) fn overload(threads: usize, time: Duration) -> Result<()> {
    const PAIRS: [&str; 4] = ["0-1", "2-3", "4-5", "6-7"];
    let mut scheduler = watched()?;
    let busy = Busy::start(threads * PAIRS.len());
    let spill_after = Some(Duration::from_millis(4));
    for (index, thread) in busy.threads.iter().enumerate() {
        let cpus: CpuSet = PAIRS[index / threads].parse()?;
        scheduler.plan(thread.tid, Plan { cpus: &cpus, spill_after })?;
        set_policy(thread.tid, SCHED_EXT)?;
    }
    // The first ran while the others were not yet there.
    thread::sleep(Duration::from_millis(200));
    scheduler.take_stints()?;
    thread::sleep(time);
    let counts = counts_of(&scheduler, &busy);
    let turns = Turns::take(&scheduler)?;
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    let tids: Vec<u32> = busy.threads.iter().map(|thread| thread.tid).collect();
    busy.end();
    let waits = turns.waits();
    let queues = tids.chunks(threads).map(|queue| {
        let of_queue = waits.iter().filter(|wait| queue.contains(&wait.tid));
        let slices = |wait| turns.most_slices_of_another(wait, queue, SLICE_NS);
        of_queue.map(move |wait| (slices(wait), wait, queue))
    });
    let worst = queues.flatten().max_by(|one, other| one.0.total_cmp(&other.0));
    let (most_before, wait, queue) = worst.context("nobody waited")?;
    let longest = longest_wait(&counts);
    let switches = counts.iter().map(|one| one.switches);
    let (least, most) =
        (switches.clone().min().unwrap_or_default(), switches.max().unwrap_or_default());
    println!(
        "{threads} threads on each pair of CPUs: {} turns, at most {most_before:.2} slices of another before its last turn \
         while one waits, longest wait {longest:?}, {least} to {most} switches each",
        turns.count()
    );
    ensure!(counts.len() == tids.len(), "{} threads are counted", counts.len());
    ensure!(least > 0, "a thread never ran");
    if most_before >= SLICES_BEFORE {
        println!("{}", turns.around(wait, queue));
        bail!("another had {most_before:.2} slices and one more turn while one waited");
    }
    Ok(())
}

fn counts_of(scheduler: &Scheduler, busy: &Busy) -> Vec<ThreadCounts> {
    let counts = |tid: u32| scheduler.counts(tid).ok().flatten();
    busy.threads.iter().filter_map(|thread| counts(thread.tid)).collect()
}

fn longest_wait(counts: &[ThreadCounts]) -> Duration {
    counts.iter().map(|one| one.longest_wait).max().unwrap_or_default()
}
