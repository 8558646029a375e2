//! Exercises corun's scheduler in the kernel, for the cases of `scripts/guest/kernel-cases`: threads of this
//! process that are crowded, that wake each other, and that come and go while the scheduler does.
//!
//!   scx_exercise crowd SPILL_MS SECONDS    five busy threads on CPUs 2-3; SPILL_MS may be `never`
//!   scx_exercise wake ROUNDS CLASS         two threads wake each other on CPU 0; prints nanoseconds a switch, which
//!                                          are instructions under QEMU's -icount shift=0. CLASS: fair, ext, or
//!                                          counted: ext that also counts who wakes whom
//!   scx_exercise storm TIMES               attaches and detaches so often while threads come and go
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
        ["wake", rounds, class] => wake(rounds.parse()?, class),
        ["storm", times] => storm(times.parse()?),
        _ => bail!("scx_exercise crowd|wake|storm; see the source"),
    }
}

fn scheduler(counts_wakers: bool) -> Result<Scheduler> {
    Ok(Scheduler::attach(Options { counts_wakers }, &Roots::default())?)
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
    let mut scheduler = scheduler(false)?;
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

/// Two threads on one CPU: each round is two wake-ups and two switches.
fn wake(rounds: u64, class: &str) -> Result<()> {
    let cpus: CpuSet = "0".parse()?;
    let mut scheduler = match class {
        "ext" | "counted" => Some(scheduler(class == "counted")?),
        _ => None,
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
                set.set(0);
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
    let started = Instant::now();
    for _ in 0..rounds {
        round()?;
    }
    let elapsed = started.elapsed();
    println!(
        "{} ns a switch over {} switches",
        elapsed.as_nanos() / (2 * rounds) as u128,
        2 * rounds
    );
    if let Some(scheduler) = &scheduler {
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

/// Threads come and go, each in the scheduler's class from birth, while the scheduler itself comes and goes.
fn storm(times: u32) -> Result<()> {
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
        let mut scheduler = scheduler(true)?;
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
    println!(
        "{times} times in {elapsed:.1?}, {} threads a second",
        born * 1000 / elapsed.as_millis() as u64
    );
    ensure!(born > u64::from(times), "no storm");
    Ok(())
}
