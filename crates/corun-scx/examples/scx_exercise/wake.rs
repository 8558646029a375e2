//! What a switch of threads costs.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, set_policy};

use crate::{own_number, scheduler};

/// Parts of a measurement.
const PARTS: u64 = 20;
/// Rounds of a part of which the cost is compared.
const COST_ROUNDS: u64 = 100;
const SCHED_OTHER: i32 = 0;

/// This thread and another, which wake each other by a byte on a pair of sockets: each round is two wake-ups and two
/// switches.
struct Pair {
    ours: UnixStream,
    /// The kernel's numbers of this thread and the other.
    tids: [u32; 2],
    echo: thread::JoinHandle<()>,
}

impl Pair {
    fn new() -> Result<Self> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let (send, number) = std::sync::mpsc::channel();
        let echo = thread::spawn(move || {
            let _ = send.send(own_number());
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        });
        Ok(Self { ours, tids: [own_number(), number.recv()?], echo })
    }

    /// Both threads on these CPUs, by the scheduler or by their affinities.
    fn place(&self, cpus: &CpuSet, scheduler: Option<&mut Scheduler>) -> Result<()> {
        let Some(scheduler) = scheduler else {
            for tid in self.tids {
                let mut set = rustix::thread::CpuSet::new();
                cpus.iter().for_each(|cpu| set.set(cpu.0 as usize));
                let pid = rustix::process::Pid::from_raw(tid as i32);
                rustix::thread::sched_setaffinity(pid, &set)?;
            }
            return Ok(());
        };
        for tid in self.tids {
            scheduler.plan(tid, Plan { cpus, spill_after: None })?;
            set_policy(tid, SCHED_EXT)?;
        }
        Ok(())
    }

    fn rounds(&mut self, rounds: u64) -> Result<()> {
        let mut byte = [7];
        for _ in 0..rounds {
            self.ours.write_all(&byte)?;
            self.ours.read_exact(&mut byte)?;
        }
        Ok(())
    }

    /// Nanoseconds a switch in each of [`PARTS`] parts of so many rounds, ascending, after some that do not count.
    fn parts_ns(&mut self, rounds: u64) -> Result<Vec<f64>> {
        self.rounds(100)?;
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            let started = Instant::now();
            self.rounds(rounds)?;
            parts.push(started.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
        }
        parts.sort_unstable_by(f64::total_cmp);
        Ok(parts)
    }

    fn end(self) {
        drop(self.ours);
        let _ = self.echo.join();
    }
}

/// The scheduler of a class; none for the kernel's own.
fn of_class(class: &str) -> Result<Option<Scheduler>> {
    let options = |counts_wakers, keeps_stints| Options { counts_wakers, keeps_stints };
    Ok(match class {
        "fair" => None,
        "ext" => Some(scheduler(options(false, false))?),
        "counted" => Some(scheduler(options(true, false))?),
        "kept" => Some(scheduler(options(false, true))?),
        other => bail!("{other} is no class: fair, ext, counted, kept"),
    })
}

/// One measurement, and what the scheduler counted meanwhile. `rounds` is a multiple of [`PARTS`].
pub(crate) fn wake(rounds: u64, class: &str, cpus: &str) -> Result<()> {
    let cpus: CpuSet = cpus.parse()?;
    let mut scheduler = of_class(class)?;
    let mut pair = Pair::new()?;
    pair.place(&cpus, scheduler.as_mut())?;
    let parts = pair.parts_ns(rounds / PARTS)?;
    println!(
        "{class} on {cpus}: {:.0} ns a switch in the median of {PARTS} parts, {:.0} to {:.0}, over {} switches",
        parts[parts.len() / 2],
        parts[0],
        parts[parts.len() - 1],
        2 * rounds
    );
    if let Some(scheduler) = &scheduler {
        if class == "kept" {
            check_stints(scheduler, &pair.tids)?;
        }
        let _counting = scheduler.count_cost()?;
        pair.rounds(rounds.min(1000))?;
        for program in scheduler.cost()?.iter().filter(|program| program.runs > 0) {
            let each = program.time.as_nanos() / u128::from(program.runs);
            println!("  {}: {} runs, {each} ns each", program.name, program.runs);
        }
        check_counts(scheduler, &pair.tids, rounds, class == "counted")?;
    }
    pair.end();
    Ok(())
}

/// Every wake-up is counted, and where that is asked for, by whom.
fn check_counts(scheduler: &Scheduler, tids: &[u32; 2], rounds: u64, wakers: bool) -> Result<()> {
    let counts = scheduler.counts(tids[1])?.context("not counted")?;
    println!("  the other thread: {counts:?}");
    ensure!(counts.wakeups >= rounds, "wake-ups are lost: {} of {rounds}", counts.wakeups);
    let pairs = scheduler.wakeups()?;
    println!("  who wakes whom: {pairs:?}");
    let both = [(tids[0], tids[1]), (tids[1], tids[0])];
    for (waker, wakee) in both.into_iter().filter(|_| wakers) {
        let pair = pairs.iter().find(|one| (one.waker, one.wakee) == (waker, wakee));
        let is_counted = pair.is_some_and(|one| one.count >= rounds);
        ensure!(is_counted, "{waker} woke {wakee}: not counted");
    }
    Ok(())
}

/// The classes by turns, so often, each time with the scheduler attached anew. What the kernel does beside switching
/// (its ticks, its timers) only adds: the cheapest part of a turn is nearest to the cost of switching alone.
pub(crate) fn cost(repeats: u64, cpus: &str) -> Result<()> {
    const CLASSES: [&str; 4] = ["fair", "ext", "counted", "kept"];
    let cpus: CpuSet = cpus.parse()?;
    let mut all = [const { Vec::new() }; CLASSES.len()];
    for repeat in 1..=repeats {
        let mut line = format!("turn {repeat}:");
        for (class, all) in CLASSES.iter().zip(&mut all) {
            let mut scheduler = of_class(class)?;
            let mut pair = Pair::new()?;
            pair.place(&cpus, scheduler.as_mut())?;
            let parts = pair.parts_ns(COST_ROUNDS)?;
            set_policy(own_number(), SCHED_OTHER)?;
            pair.end();
            line += &format!(" {class} {:.0} (median {:.0})", parts[0], parts[parts.len() / 2]);
            all.push((parts[0], parts[parts.len() / 2]));
        }
        println!("{line}");
    }
    let lowest = |of: &[(f64, f64)]| of.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let fair = lowest(&all[0]);
    for (class, all) in CLASSES.iter().zip(&all) {
        let mut more: Vec<f64> = all.iter().map(|one| 100.0 * (one.0 / fair - 1.0)).collect();
        more.sort_unstable_by(f64::total_cmp);
        println!(
            "{class} on {cpus}: {:.0} ns a switch at least, {:+.1} % over fair; of {repeats} turns the cheapest parts \
             are {:+.1} to {:+.1} % over it, the median {:+.1} %",
            lowest(all),
            more[0],
            more[0],
            more[more.len() - 1],
            more[more.len() / 2]
        );
    }
    Ok(())
}

/// On one CPU the stints of two threads take turns and do not overlap.
fn check_stints(scheduler: &Scheduler, tids: &[u32]) -> Result<()> {
    let stints = scheduler.take_stints()?;
    println!("  {} stints, the last: {:?}", stints.len(), stints.last());
    ensure!(stints.len() > 100, "stints are missing");
    for two in stints.windows(2) {
        let until_ns = two[0].until_ns.context("one before the last has no end")?;
        ensure!(
            two.iter().all(|one| tids.contains(&one.tid)),
            "of a thread without a plan: {two:?}"
        );
        ensure!(two[0].since_ns <= until_ns, "ends before it begins: {two:?}");
        ensure!(until_ns <= two[1].since_ns, "two at a time on one CPU: {two:?}");
    }
    // This thread is on a CPU, or it was and its time there ended while the stints were read.
    ensure!(stints.last().is_some_and(|one| one.tid == own_number()), "this thread is on a CPU");
    ensure!(scheduler.take_stints()?.len() < stints.len(), "stints come twice");
    Ok(())
}
