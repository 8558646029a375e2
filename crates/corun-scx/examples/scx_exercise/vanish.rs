//! The CPU for which threads wait goes off line while they are woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, set_policy};

use crate::switches::set_online;
use crate::{own_number, scheduler};

/// The one CPU on which the woken threads are to run.
const CPU: usize = 1;
/// Threads that are woken, each by a thread of the kernel's own scheduler.
const PAIRS: usize = 6;
/// A thread that was asked and answered nothing for so long while its CPU was off line waits for it.
const LATE: Duration = Duration::from_millis(100);
/// For so long it may go on waiting once the scheduler was told to look for such threads.
const PATIENCE: Duration = Duration::from_millis(200);

/// A thread that answers each time that it is woken, and one that wakes it without a pause.
struct Woken {
    asked: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Woken {
    fn start(scheduler: &mut Scheduler, stop: &Arc<AtomicBool>) -> Result<Self> {
        let own = Self { asked: Arc::default(), answered: Arc::default() };
        let (send, number) = std::sync::mpsc::channel();
        let (asked, answered, ends) = (own.asked.clone(), own.answered.clone(), stop.clone());
        let woken = thread::spawn(move || {
            let _ = send.send(own_number());
            while !ends.load(Ordering::Relaxed) {
                thread::park();
                answered.store(asked.load(Ordering::Acquire), Ordering::Release);
            }
        });
        let tid = number.recv()?;
        let cpus: CpuSet = CPU.to_string().parse()?;
        scheduler.plan(tid, Plan { cpus: &cpus, spill_after: None })?;
        set_policy(tid, SCHED_EXT)?;
        let (asked, answered, ends) = (own.asked.clone(), own.answered.clone(), stop.clone());
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let number = asked.fetch_add(1, Ordering::AcqRel) + 1;
                woken.thread().unpark();
                while answered.load(Ordering::Acquire) < number && !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
            woken.thread().unpark();
        });
        Ok(own)
    }

    /// Did it answer nothing since `before`, although it was asked?
    fn is_stuck_since(&self, before: u64) -> bool {
        let answered = self.answered.load(Ordering::Acquire);
        answered == before && self.asked.load(Ordering::Acquire) > answered
    }
}

/// The CPU goes off line and comes back so often, each time under threads that are woken for it. While it is away they
/// run elsewhere, at the latest once they are looked for.
pub(crate) fn vanish(times: u32) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let all =
        (0..PAIRS).map(|_| Woken::start(&mut scheduler, &stop)).collect::<Result<Vec<_>>>()?;
    let (mut late, mut stuck) = (0, 0);
    for _ in 0..times {
        thread::sleep(Duration::from_millis(50));
        set_online(CPU, false)?;
        let before: Vec<u64> = all.iter().map(|one| one.answered.load(Ordering::Acquire)).collect();
        let waiting = || {
            let both = all.iter().zip(&before);
            both.filter(|(one, before)| one.is_stuck_since(**before)).count()
        };
        let waiting_after = |patience: Duration| {
            let since = Instant::now();
            while waiting() > 0 && since.elapsed() < patience {
                thread::sleep(Duration::from_millis(5));
            }
            waiting()
        };
        late += waiting_after(LATE);
        scheduler.settle()?;
        stuck += waiting_after(PATIENCE);
        set_online(CPU, true)?;
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    stop.store(true, Ordering::Relaxed);
    let answered: u64 = all.iter().map(|one| one.answered.load(Ordering::Relaxed)).sum();
    println!(
        "CPU {CPU} went off line {times} times under {PAIRS} threads that were woken {answered} times for it: {late} \
         waited for it until they were looked for, {stuck} also then"
    );
    ensure!(stuck == 0, "a thread waits for a CPU that is gone");
    Ok(())
}
