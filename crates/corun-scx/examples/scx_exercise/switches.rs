//! Threads that wake each other, each wake-up counted by who sent it and by who slept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use corun_machine::CpuSet;
use corun_scx::{Options, Plan, SCHED_EXT, Scheduler, ThreadCounts, set_policy};
use rustix::thread::futex;

use crate::{own_number, scheduler};

/// How many tokens others may pass on while one that waits for a thread is not taken: then its wake-up is lost. In the
/// guest a thread waits for some thousand while its CPU goes off line.
const LOST_AFTER: u64 = 1_000_000;
/// For so many looks nothing may move at the end, where threads have CPUs to themselves and tokens are still under way.
const QUIET_LOOKS: u32 = 40;
/// Time between two looks, by the guest's clock, which counts instructions.
const LOOK: Duration = Duration::from_millis(500);
const CPUS: usize = 8;

/// Threads in a ring pass tokens on to the next one: as many run at a time as there are tokens.
struct Kind {
    threads: usize,
    tokens: usize,
    spill_after: Option<Duration>,
}

const fn kind(threads: usize, tokens: usize, spill_ms: Option<u64>) -> Kind {
    let spill_after = match spill_ms {
        Some(ms) => Some(Duration::from_millis(ms)),
        None => None,
    };
    Kind { threads, tokens, spill_after }
}

const RINGS: [Kind; 7] = [
    kind(2, 1, None),
    kind(2, 1, None),
    kind(2, 1, Some(4)),
    kind(3, 2, None),
    kind(5, 3, None),
    kind(4, 2, Some(0)),
    kind(8, 5, Some(4)),
];
/// Of one CPU and of several, some shared. With each look all rings go on to the next.
const SETS: [&str; 7] = ["1", "1", "2-3", "2-3", "4-7", "0,4", "1-6"];

/// A thread's place in its ring.
#[derive(Default)]
struct Seat {
    /// Tokens that came, which wraps around; the thread sleeps on it.
    came: AtomicU32,
    /// Tokens that the thread took.
    taken: AtomicU64,
    /// Wake-ups that found the thread asleep, by the kernel's answer to who sent them.
    sent: AtomicU64,
    /// Sleeps that ended in a wake-up, by the thread's own count.
    woken: AtomicU64,
}

impl Seat {
    /// Does a token wait for the thread?
    fn is_behind(&self) -> bool {
        self.came.load(Ordering::Acquire) != self.taken.load(Ordering::Acquire) as u32
    }

    fn hand(&self) {
        self.came.fetch_add(1, Ordering::AcqRel);
        let found = futex::wake(&self.came, futex::Flags::PRIVATE, 1).unwrap_or_default();
        self.sent.fetch_add(found as u64, Ordering::AcqRel);
    }

    /// Waits for a token and takes it; false: the end.
    fn take(&self, ends: &AtomicBool) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        while self.came.load(Ordering::Acquire) == taken as u32 {
            if ends.load(Ordering::Acquire) {
                return false;
            }
            if futex::wait(&self.came, futex::Flags::PRIVATE, taken as u32, None).is_ok() {
                self.woken.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.taken.store(taken + 1, Ordering::Release);
        true
    }
}

/// Tells all threads what to do.
#[derive(Default)]
struct Orders {
    /// Tokens are no longer passed on.
    keeps_tokens: AtomicBool,
    ends: AtomicBool,
}

struct Ring {
    seats: Arc<Vec<Seat>>,
    tids: Vec<u32>,
    handles: Vec<JoinHandle<()>>,
    spill_after: Option<Duration>,
}

impl Ring {
    /// The threads, which wait for tokens.
    fn start(kind: &Kind, orders: &Arc<Orders>) -> Result<Self> {
        let seats: Arc<Vec<Seat>> = Arc::new((0..kind.threads).map(|_| Seat::default()).collect());
        let (send, number) = std::sync::mpsc::channel();
        let one = |at: usize| {
            let (seats, orders, send) = (seats.clone(), orders.clone(), send.clone());
            thread::spawn(move || {
                let _ = send.send(own_number());
                let (own, next) = (&seats[at], &seats[(at + 1) % seats.len()]);
                while own.take(&orders.ends) {
                    if !orders.keeps_tokens.load(Ordering::Acquire) {
                        next.hand();
                    }
                }
            })
        };
        let handles: Vec<_> = (0..kind.threads).map(one).collect();
        let tids = (0..kind.threads).map(|_| number.recv()).collect::<Result<_, _>>()?;
        Ok(Self { seats, tids, handles, spill_after: kind.spill_after })
    }

    fn plan(&self, scheduler: &mut Scheduler, cpus: &CpuSet) -> Result<()> {
        let plan = Plan { cpus, spill_after: self.spill_after };
        self.tids.iter().try_for_each(|&tid| Ok(scheduler.plan(tid, plan)?))
    }

    fn taken(&self) -> u64 {
        self.seats.iter().map(|seat| seat.taken.load(Ordering::Acquire)).sum()
    }

    fn counts(&self, scheduler: &Scheduler) -> Result<ThreadCounts> {
        let counts = |&tid: &u32| scheduler.counts(tid)?.context("not counted");
        let counts = self.tids.iter().map(counts).collect::<Result<Vec<_>>>()?;
        Ok(counts.iter().fold(ThreadCounts::default(), |sum, one| sum.plus(one)))
    }
}

/// Since how many tokens of all rings a thread has not taken one that waits for it, for each thread.
struct Waits(Vec<Option<(u64, u64)>>);

impl Waits {
    /// Fails where a token waits while others passed [`LOST_AFTER`] on.
    fn look(&mut self, rings: &[Ring]) -> Result<()> {
        let all: u64 = rings.iter().map(Ring::taken).sum();
        let seats = rings.iter().flat_map(|ring| ring.seats.iter().zip(&ring.tids));
        for ((seat, tid), since) in seats.zip(&mut self.0) {
            let taken = seat.taken.load(Ordering::Acquire);
            *since = match *since {
                _ if !seat.is_behind() => None,
                Some((before, at)) if before == taken => Some((before, at)),
                _ => Some((taken, all)),
            };
            let passed = since.map_or(0, |(_, at)| all - at);
            ensure!(
                passed < LOST_AFTER,
                "thread {tid} took no token while others took {passed}: a wake-up is lost"
            );
        }
        Ok(())
    }
}

/// Takes a CPU off line or brings it back.
pub(crate) fn set_online(cpu: usize, is_online: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(&file, if is_online { "1" } else { "0" }).context(file)
}

/// Rings of threads pass tokens on until all of them were switched to so often, each look on other CPUs. Meanwhile one CPU
/// after the other goes off line and comes back, where that is asked for.
pub(crate) fn switches(count: u64, takes_off_line: bool) -> Result<()> {
    let mut scheduler = scheduler(Options::default())?;
    let orders = Arc::new(Orders::default());
    let rings = RINGS.iter().map(|kind| Ring::start(kind, &orders)).collect::<Result<Vec<_>>>()?;
    let sets = SETS.iter().map(|cpus| Ok(cpus.parse()?)).collect::<Result<Vec<CpuSet>>>()?;
    for (ring, cpus) in rings.iter().zip(&sets) {
        ring.plan(&mut scheduler, cpus)?;
        ring.tids.iter().try_for_each(|&tid| set_policy(tid, SCHED_EXT))?;
    }
    let started = Instant::now();
    for (ring, kind) in rings.iter().zip(&RINGS) {
        ring.seats[..kind.tokens].iter().for_each(Seat::hand);
    }
    let mut waits = Waits(vec![None; rings.iter().map(|ring| ring.seats.len()).sum()]);
    let (mut reached, mut looks) = (0, 0);
    while reached < count || looks % 2 == 1 {
        thread::sleep(LOOK);
        if takes_off_line {
            // CPU 0 cannot go.
            set_online(1 + looks / 2 % (CPUS - 1), looks % 2 == 1)?;
        }
        looks += 1;
        for (index, ring) in rings.iter().enumerate() {
            ring.plan(&mut scheduler, &sets[(index + looks) % sets.len()])?;
        }
        let counts = rings.iter().map(|ring| Ok(ring.counts(&scheduler)?.switches));
        reached = counts.sum::<Result<u64>>()?;
        waits.look(&rings)?;
        ensure!(scheduler.ended().is_none(), "the kernel detached it: {:?}", scheduler.ended());
    }
    let times = if takes_off_line { looks / 2 } else { 0 };
    ensure!(!takes_off_line || times > 0, "no CPU went off line");
    orders.keeps_tokens.store(true, Ordering::Release);
    settle(&rings)?;
    println!(
        "{reached} switches in {:.1?}; CPUs went off line {times} times, each thread got other CPUs {looks} times",
        started.elapsed()
    );
    tell(&scheduler, &rings)?;
    orders.ends.store(true, Ordering::Release);
    end(rings);
    Ok(())
}

/// Waits until no token is under way.
fn settle(rings: &[Ring]) -> Result<()> {
    let (mut before, mut quiet) = (0, 0);
    while rings.iter().any(|ring| ring.seats.iter().any(Seat::is_behind)) {
        thread::sleep(LOOK);
        let taken = rings.iter().map(Ring::taken).sum();
        quiet = if taken == before { quiet + 1 } else { 0 };
        before = taken;
        ensure!(quiet < QUIET_LOOKS, "tokens wait for threads that do not run: a wake-up is lost");
    }
    Ok(())
}

/// Holds what was sent against what came, thread by thread, and tells the sums.
fn tell(scheduler: &Scheduler, rings: &[Ring]) -> Result<()> {
    let (mut all_sent, mut lost) = (0, 0);
    for (ring, kind) in rings.iter().zip(&RINGS) {
        for seat in ring.seats.iter() {
            let sent = seat.sent.load(Ordering::Acquire);
            lost += sent.abs_diff(seat.woken.load(Ordering::Acquire));
            all_sent += sent;
        }
        let counts = ring.counts(scheduler)?;
        println!(
            "  {} threads, {} tokens, spill after {:?}: {} tokens taken, {} switches, {} wake-ups, {} took an idle CPU, \
             {} queued, {} spilled, longest wait {:?}",
            kind.threads,
            kind.tokens,
            kind.spill_after,
            ring.taken(),
            counts.switches,
            counts.wakeups,
            counts.took_idle,
            counts.queued,
            counts.spilled,
            counts.longest_wait
        );
    }
    println!(
        "{all_sent} threads that slept were woken, {lost} of them did not wake by their own count"
    );
    ensure!(lost == 0, "a wake-up is lost");
    Ok(())
}

fn end(rings: Vec<Ring>) {
    for ring in rings {
        for seat in ring.seats.iter() {
            let _ = futex::wake(&seat.came, futex::Flags::PRIVATE, 1);
        }
        for handle in ring.handles {
            let _ = handle.join();
        }
    }
}
