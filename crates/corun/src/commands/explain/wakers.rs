//! Who wakes a program: what corun's scheduler in the kernel counts while the program is looked at, of whichever corun it is.

use std::collections::BTreeMap;
use std::time::Instant;

use corun_app::{CountedWakeups, SeenThread, UncountedWakeups, WakeCount, WakeupFacts};
use corun_linux::Roots;
use corun_live::Host;
use corun_machine::Machine;
use corun_scx::{UncountedError, WakeupReader, Wakeups};

/// Wake-ups from a moment on.
pub(super) struct Watch {
    reader: WakeupReader,
    before: BTreeMap<(u32, u32), u64>,
    since: Instant,
    /// The LLC of each thread at that moment.
    llcs: BTreeMap<u32, usize>,
}

impl Watch {
    /// Of the program of these threads. `host` has just looked at all threads.
    pub(super) fn start(
        roots: &Roots,
        threads: &[u32],
        host: &Host,
        machine: &Machine,
    ) -> Result<Self, UncountedWakeups> {
        let reader = WakeupReader::open(roots).map_err(why)?;
        if !threads.iter().any(|&tid| corun_scx::is_in_class(tid).unwrap_or(false)) {
            return Err(UncountedWakeups::NotInScheduler);
        }
        let llcs = seats(host, machine).filter_map(|(tid, _, llc)| Some((tid, llc?))).collect();
        let before = reader.read().map_err(|error| why(error.into()))?;
        let before = before.into_iter().map(|one| ((one.waker, one.wakee), one.count)).collect();
        Ok(Self { reader, before, since: Instant::now(), llcs })
    }

    /// What was counted since.
    pub(super) fn read(&self) -> Result<(Vec<WakeCount>, f64), UncountedWakeups> {
        let now = self.reader.read().map_err(|error| why(error.into()))?;
        let since = |one: Wakeups| {
            let before = self.before.get(&(one.waker, one.wakee)).copied().unwrap_or(0);
            // A pair that was forgotten meanwhile begins anew.
            let count = one.count.checked_sub(before).unwrap_or(one.count);
            WakeCount { waker: one.waker, wakee: one.wakee, count }
        };
        let counts = now.into_iter().map(since).filter(|one| one.count > 0).collect();
        Ok((counts, self.since.elapsed().as_secs_f64()))
    }

    /// With whom the program of these processes shares its wake-ups. `host` has just looked at all threads.
    pub(super) fn counted(
        &self,
        (counts, interval_s): &(Vec<WakeCount>, f64),
        pids: &[u32],
        host: &Host,
        machine: &Machine,
    ) -> CountedWakeups {
        let seen = |(tid, thread, llc): (u32, SeenThread, Option<usize>)| {
            let llcs = [self.llcs.get(&tid).copied(), llc];
            (tid, SeenThread { llcs, ..thread })
        };
        let threads = seats(host, machine).map(seen).collect();
        CountedWakeups::of(pids, counts, &threads, machine, *interval_s)
    }
}

/// All threads with the LLC on which each ran last.
fn seats<'a>(
    host: &'a Host,
    machine: &'a Machine,
) -> impl Iterator<Item = (u32, SeenThread, Option<usize>)> + 'a {
    host.threads().map(|one| {
        let facts = &one.thread.facts;
        let llc = machine.cpu_index(facts.cpu).map(|cpu| machine.cpus()[cpu].llc);
        let thread =
            SeenThread { pid: facts.task.pid, name: facts.name.clone(), llcs: [None, llc] };
        (facts.task.tid, thread, llc)
    })
}

fn why(error: UncountedError) -> UncountedWakeups {
    match error {
        UncountedError::NotInForce => UncountedWakeups::NoScheduler,
        UncountedError::NotAsked => UncountedWakeups::NotAsked,
        UncountedError::NoRight => UncountedWakeups::NoRight,
        UncountedError::Kernel(error) => UncountedWakeups::Unreadable(error.to_string()),
    }
}

/// With what was counted, or why nothing was; none where nobody asked.
pub(super) fn with(
    seen: WakeupFacts,
    counted: Option<Result<CountedWakeups, UncountedWakeups>>,
) -> WakeupFacts {
    match counted {
        Some(Ok(counted)) => WakeupFacts { counted: Some(counted), ..seen },
        Some(Err(why)) => WakeupFacts { uncounted: Some(why), ..seen },
        None => seen,
    }
}
