//! Exercises corun's scheduler in the kernel, for the cases of `scripts/guest/kernel-cases` and `long-kernel-cases`:
//! threads of this process that are crowded, that wake each other, and that come and go while the scheduler does.
//!
//!   scx_exercise crowd SPILL_MS SECONDS    eight busy threads on CPUs 2-3; SPILL_MS may be `never`
//!   scx_exercise overload THREADS SECONDS  so many busy threads on each pair of CPUs: none is free for who waits
//!   scx_exercise wake ROUNDS CLASS [CPUS]  two threads wake each other on CPU 0 or these. CLASS: fair, ext, counted:
//!                                          ext that also counts who wakes whom, or kept: ext that also keeps when
//!                                          each thread was on which CPU
//!   scx_exercise cost REPEATS CPUS         the same in turns of all classes, each attached anew; prints nanoseconds a
//!                                          switch, which are instructions under QEMU's -icount shift=0
//!   scx_exercise switches COUNT [off]      rings of threads pass tokens on, on sets of one CPU and of several that change,
//!                                          some shared, until they were switched to so often: each wake-up is counted
//!                                          by who sends it and by who slept. off: meanwhile CPUs go off line and come
//!                                          back by turns
//!   scx_exercise storm TIMES [RATE]        attaches and detaches so often while threads come and go: at least RATE a
//!                                          second and little more, or as many as can be
//!   scx_exercise moves TIMES               a thread that sleeps gets another set of CPUs so often: it wakes there; then
//!                                          threads that run get others: they leave with the first tick at the latest
//!   scx_exercise groups TIMES              threads are born so often in a cgroup that has CPUs: they begin there, also after
//!                                          its CPUs changed and after the process went to another cgroup
//!   scx_exercise vanish TIMES              threads are woken for a CPU that goes off line and comes back so often; then
//!                                          it goes while all other CPUs are busy, and under threads that are within
//!                                          read sections of the kernel
//!   scx_exercise bounce FROM TO ROLE [MS]  passes a byte on from a FIFO to another, whose reader passes it back. ROLE:
//!                                          begins, or waits (MS milliseconds each time, or 0.3)
//!   scx_exercise refused                   the kernel is to refuse to let a CPU go off line: its threads stay there
//!   scx_exercise foreign SECONDS           puts a scheduler of another name in force for so long
//!   scx_exercise stall                     the scheduler serves its queues no more: the kernel's watchdog detaches it
//!
//! Prints what it saw, and fails where that is not as it must be.

mod bounce;
mod crowd;
mod groups;
mod moves;
mod rivals;
mod storm;
mod switches;
mod turns;
mod vanish;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use corun_linux::Roots;
use corun_scx::{Options, Scheduler};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seconds = |text: &str| -> Result<Duration> { Ok(Duration::from_secs(text.parse()?)) };
    match arguments[..] {
        ["crowd", spill_ms, time] => {
            let spill_after = match spill_ms {
                "never" => None,
                ms => Some(Duration::from_millis(ms.parse().context(ms.to_owned())?)),
            };
            crowd::crowd(spill_after, seconds(time)?)
        }
        ["overload", threads, time] => crowd::overload(threads.parse()?, seconds(time)?),
        ["wake", rounds, class] => wake::wake(rounds.parse()?, class, "0"),
        ["wake", rounds, class, cpus] => wake::wake(rounds.parse()?, class, cpus),
        ["cost", repeats, cpus] => wake::cost(repeats.parse()?, cpus),
        ["switches", count] => switches::switches(count.parse()?, false),
        ["switches", count, "off"] => switches::switches(count.parse()?, true),
        ["storm", times] => storm::storm(times.parse()?, None),
        ["storm", times, rate] => storm::storm(times.parse()?, Some(rate.parse()?)),
        ["breed"] => storm::breed(None),
        ["breed", pace] => storm::breed(Some(pace.parse()?)),
        ["moves", times] => moves::moves(times.parse()?),
        ["groups", times] => groups::groups(times.parse()?),
        ["vanish", times] => vanish::vanish(times.parse()?),
        ["bounce", from, to, role] => bounce::bounce(from, to, role, bounce::PAUSE),
        ["bounce", from, to, role, ms] => {
            bounce::bounce(from, to, role, Duration::from_millis(ms.parse()?))
        }
        ["refused"] => vanish::refused(),
        ["foreign", time] => rivals::foreign(seconds(time)?),
        ["stall"] => rivals::stall(),
        _ => bail!(
            "scx_exercise crowd|overload|moves|groups|wake|cost|switches|storm|vanish|bounce|foreign|stall; see the source"
        ),
    }
}

fn scheduler(options: Options) -> Result<Scheduler> {
    Ok(Scheduler::attach(options, &Roots::default())?)
}

fn own_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Some hundred instructions. At the pause that ends them an emulator goes on to the next CPU: often enough for threads of
/// several CPUs to run side by side, and no oftener, since that takes it as long as hundreds of instructions.
fn spin() {
    for step in 0..100 {
        std::hint::black_box(step);
    }
    std::hint::spin_loop();
}

/// Threads that count until told to stop.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<BusyThread>,
}

struct BusyThread {
    /// The kernel's number of the thread.
    tid: u32,
    /// How far it has counted.
    count: Arc<AtomicU64>,
    handle: thread::JoinHandle<()>,
}

impl Busy {
    fn start(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let one = || {
            let (stop, count) = (stop.clone(), Arc::new(AtomicU64::new(0)));
            let (send, number) = std::sync::mpsc::channel();
            let counted = count.clone();
            let handle = thread::spawn(move || {
                let _ = send.send(own_number());
                while !stop.load(Ordering::Relaxed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    spin();
                }
            });
            BusyThread { tid: number.recv().expect("a thread has a number"), count, handle }
        };
        let threads = (0..threads).map(|_| one()).collect();
        Self { stop, threads }
    }

    fn counted(&self) -> Vec<u64> {
        self.threads.iter().map(|one| one.count.load(Ordering::Relaxed)).collect()
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.handle.join();
        }
    }
}
