//! Exercises corun's scheduler in the kernel, for the cases of `scripts/guest/kernel-cases`: threads of this
//! process that are crowded, that wake each other, and that come and go while the scheduler does.
//!
//!   scx_exercise crowd SPILL_MS SECONDS    five busy threads on CPUs 2-3; SPILL_MS may be `never`
//!   scx_exercise wake ROUNDS CLASS [CPUS]  two threads wake each other on CPU 0 or these; prints nanoseconds a
//!                                          switch, which are instructions under QEMU's -icount shift=0. CLASS: fair,
//!                                          ext, counted: ext that also counts who wakes whom, or kept: ext that
//!                                          also keeps when each thread was on which CPU
//!   scx_exercise switches COUNT            pairs of threads wake each other on sets of one CPU and of several, some
//!                                          shared, until they were switched to so often: a wake-up that is lost stops
//!                                          a pair for ever
//!   scx_exercise storm TIMES [RATE]        attaches and detaches so often while threads come and go, at least RATE a
//!                                          second
//!
//! Prints what it saw, and fails where that is not as it must be.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use corun_linux::Roots;
use corun_machine::{CpuId, CpuSet};
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, ThreadCounts, set_policy};

/// How long after its bound a thread may have to wait: three ticks of the kernel, 250 a second, were measured, and one
/// more is left. On a machine whose clock goes on while its CPUs stand still, as in an emulator with the host's clock,
/// longer waits say nothing of the scheduler.
const AFTER_BOUND: Duration = Duration::from_millis(16);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["crowd", spill_ms, seconds] => {
            let spill_after = match spill_ms {
                "never" => None,
                ms => Some(Duration::from_millis(ms.parse().context(ms.to_owned())?)),
            };
            crowd(spill_after, Duration::from_secs(seconds.parse()?))
        }
        ["wake", rounds, class] => wake(rounds.parse()?, class, "0"),
        ["wake", rounds, class, cpus] => wake(rounds.parse()?, class, cpus),
        ["switches", count] => switches(count.parse()?),
        ["storm", times] => storm(times.parse()?, 1),
        ["storm", times, rate] => storm(times.parse()?, rate.parse()?),
        _ => bail!("scx_exercise crowd|wake|switches|storm; see the source"),
    }
}

fn scheduler(options: Options) -> Result<Scheduler> {
    Ok(Scheduler::attach(options, &Roots::default())?)
}

fn own_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Threads that run until told to stop, with their numbers.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<(u32, thread::JoinHandle<()>)>,
}

impl Busy {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let one = || {
            let (stop, tid) = (stop.clone(), Arc::new(AtomicU64::new(0)));
            let told = tid.clone();
            let handle = thread::spawn(move || {
                told.store(own_number().into(), Ordering::SeqCst);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while tid.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            (tid.load(Ordering::SeqCst) as u32, handle)
        };
        let threads = (0..count).map(|_| one()).collect();
        Self { stop, threads }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.threads {
            let _ = thread.join();
        }
    }
}

/// The CPU on which a thread ran last.
fn cpu_of(tid: u32) -> Result<u32> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"))?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    Ok(after.split_whitespace().nth(36).context("no CPU")?.parse()?)
}

fn crowd(spill_after: Option<Duration>, time: Duration) -> Result<()> {
    const THREADS: usize = 5;
    let mut scheduler = scheduler(Options::default())?;
    let busy = Busy::start(THREADS);
    let cpus: CpuSet = "2-3".parse()?;
    for (tid, _) in &busy.threads {
        scheduler.plan(*tid, Plan { cpus: &cpus, spill_after })?;
        set_policy(*tid, SCHED_EXT)?;
    }
    // Whoever waits for the first time has run by then.
    thread::sleep(Duration::from_millis(200));
    let end = Instant::now() + time;
    let (mut at_home, mut elsewhere) = (0, 0);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
        for (tid, _) in &busy.threads {
            let at = cpu_of(*tid)?;
            if cpus.contains(CpuId(at)) {
                at_home += 1;
            } else {
                elsewhere += 1;
                if spill_after.is_none() {
                    let counts = scheduler.counts(*tid)?;
                    println!("look {}: thread {tid} is on CPU {at}: {counts:?}", at_home / THREADS);
                }
            }
        }
    }
    let counts: Vec<ThreadCounts> =
        busy.threads.iter().filter_map(|(tid, _)| scheduler.counts(*tid).ok().flatten()).collect();
    ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    busy.end();
    ensure!(counts.len() == THREADS, "{} of {THREADS} threads are counted", counts.len());
    let spilled: u64 = counts.iter().map(|one| one.spilled).sum();
    let longest = counts.iter().map(|one| one.longest_wait).max().unwrap_or_default();
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

/// Parts of a measurement, of which the median counts.
const PARTS: u64 = 20;

/// Two threads on one CPU: each round is two wake-ups and two switches. `rounds` is a multiple of [`PARTS`].
fn wake(rounds: u64, class: &str, cpus: &str) -> Result<()> {
    let cpus: CpuSet = cpus.parse()?;
    let (counts_wakers, keeps_stints) = (class == "counted", class == "kept");
    let mut scheduler = match class {
        "fair" => None,
        _ => Some(scheduler(Options { counts_wakers, keeps_stints })?),
    };
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let numbers = Arc::new(AtomicU64::new(0));
    let told = numbers.clone();
    let echo = thread::spawn(move || {
        told.store(own_number().into(), Ordering::SeqCst);
        let mut byte = [0];
        while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
    });
    while numbers.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let tids = [own_number(), numbers.load(Ordering::SeqCst) as u32];
    for tid in tids {
        match &mut scheduler {
            Some(scheduler) => {
                scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
                set_policy(tid, SCHED_EXT)?;
            }
            None => {
                let mut set = rustix::thread::CpuSet::new();
                cpus.iter().for_each(|cpu| set.set(cpu.0 as usize));
                let pid = rustix::process::Pid::from_raw(tid as i32);
                rustix::thread::sched_setaffinity(pid, &set)?;
            }
        }
    }
    let mut byte = [7];
    let mut round = || -> Result<()> {
        ours.write_all(&byte)?;
        ours.read_exact(&mut byte)?;
        Ok(())
    };
    for _ in 0..100 {
        round()?;
    }
    // The clock that counts instructions counts those of all CPUs: what others did meanwhile is left out by the median.
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        let started = Instant::now();
        for _ in 0..rounds / PARTS {
            round()?;
        }
        parts.push(started.elapsed().as_nanos() / u128::from(2 * (rounds / PARTS)));
    }
    parts.sort_unstable();
    println!(
        "{class} on {cpus}: {} ns a switch in the median of {PARTS} parts, {} to {}, over {} switches",
        parts[parts.len() / 2],
        parts[0],
        parts[parts.len() - 1],
        2 * rounds
    );
    if let Some(scheduler) = &scheduler {
        if class == "kept" {
            check_stints(scheduler, &tids)?;
        }
        let _counting = scheduler.count_cost()?;
        for _ in 0..rounds.min(1000) {
            round()?;
        }
        for program in scheduler.cost()?.iter().filter(|program| program.runs > 0) {
            let each = program.time.as_nanos() / u128::from(program.runs);
            println!("  {}: {} runs, {each} ns each", program.name, program.runs);
        }
        let counts = scheduler.counts(tids[1])?.context("not counted")?;
        println!("  the other thread: {counts:?}");
        ensure!(counts.wakeups >= rounds, "wake-ups are lost: {} of {rounds}", counts.wakeups);
        let pairs = scheduler.wakeups()?;
        println!("  who wakes whom: {pairs:?}");
        let both = [(tids[0], tids[1]), (tids[1], tids[0])];
        for (waker, wakee) in both.into_iter().filter(|_| class == "counted") {
            let pair = pairs.iter().find(|one| (one.waker, one.wakee) == (waker, wakee));
            ensure!(
                pair.is_some_and(|one| one.count >= rounds),
                "{waker} woke {wakee}: not counted"
            );
        }
    }
    drop(ours);
    let _ = echo.join();
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

/// Pairs of threads wake each other by turns until all of them were switched to so often.
fn switches(count: u64) -> Result<()> {
    const SETS: [&str; 6] = ["1", "1", "2-3", "2-3", "4-7", "0,4"];
    const STOPPED: Duration = Duration::from_secs(20);
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
    let mut reached = 0;
    while reached < count {
        thread::sleep(Duration::from_millis(500));
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
    println!("{reached} switches in {:.1?}, no wake-up lost", started.elapsed());
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

/// Threads come and go, each in the scheduler's class from birth, while the scheduler itself comes and goes.
fn storm(times: u32, least_a_second: u64) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let born = Arc::new(AtomicU64::new(0));
    let makers: Vec<_> = (0..2)
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
