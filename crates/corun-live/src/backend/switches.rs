//! Which threads were on CPUs at each moment since the last tick, for policies that go by switches.
//!
//! The scheduler in the kernel says when each thread was on which CPU. Counters are read once a tick: of what a
//! thread did in a tick, each part of its time on CPUs is taken to have an equal share.

use std::collections::{BTreeMap, BTreeSet};

use corun_linux::Task;
use corun_machine::{CpuId, Machine};
use corun_policy::{Counts, Event, Nanoseconds, ThreadId, ThreadState};
use corun_scx::Stint;

use super::Threads;

/// A CPU that is free for no longer between two threads went from one to the other: the kernel takes so long.
const SAME_MOMENT_NS: u64 = 20_000;

/// A time for which a thread was on a CPU, in the host's clock, within a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    thread: ThreadId,
    cpu: CpuId,
    since: u64,
    until: u64,
}

/// A change of the threads on CPUs.
#[derive(Debug, Clone, PartialEq)]
struct Switch {
    at: u64,
    event: Event,
    running: BTreeMap<ThreadId, CpuId>,
}

/// What the table showed before a moment of the past was shown in it.
#[derive(Debug, Clone, Copy)]
struct Present {
    state: ThreadState,
    cpu: Option<CpuId>,
    counts: Counts,
}

/// The switches of a tick.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// The tick before, and this one.
    last: u64,
    now: u64,
    spans: Vec<Span>,
    /// Of each thread its spans in order, each with the time on CPUs before it, and the time in all.
    ran: BTreeMap<ThreadId, (Vec<(Span, u64)>, u64)>,
    list: Vec<Switch>,
    /// Stints that go on after this tick.
    unfinished: Vec<Stint>,
    /// Who was on CPUs at the end of the tick before.
    running: BTreeMap<ThreadId, CpuId>,
    present: Vec<Present>,
}

impl Switches {
    /// Takes in the stints since the last tick. `offset_ns`: what to take from their clock for the host's.
    pub(super) fn begin_tick(
        &mut self,
        now: Nanoseconds,
        (stints, offset_ns): (Vec<Stint>, u64),
        ids: &BTreeMap<Task, ThreadId>,
        machine: &Machine,
        table: &Threads,
    ) {
        (self.last, self.now) = (self.now, now.0);
        self.list.clear();
        self.spans.clear();
        self.ran.clear();
        self.present.clear();
        let mut stints = stints;
        stints.splice(0..0, self.unfinished.drain(..));
        if stints.is_empty() && self.running.is_empty() {
            return;
        }
        let by_tid: BTreeMap<u32, ThreadId> =
            ids.iter().map(|(task, &id)| (task.tid, id)).collect();
        for stint in stints {
            let Some(&thread) = by_tid.get(&stint.tid) else { continue };
            let own = |ns: u64| ns.saturating_sub(offset_ns);
            let until = stint.until_ns.map_or(u64::MAX, own);
            if until > self.now && stint.until_ns.is_some() {
                self.unfinished.push(stint);
            }
            let cpu = stint.cpu.or_else(|| Some(table.at(table.index_of(thread)?).1.facts.cpu));
            let (since, until) = (own(stint.since_ns).max(self.last), until.min(self.now));
            if let Some(cpu) = cpu.filter(|_| since < until) {
                self.spans.push(Span { thread, cpu, since, until });
            }
        }
        join(&mut self.spans);
        self.spans.sort_unstable_by_key(|span| (span.since, span.thread, span.cpu));
        for &span in &self.spans {
            let (spans, in_all) = self.ran.entry(span.thread).or_default();
            spans.push((span, *in_all));
            *in_all += span.until - span.since;
        }
        self.find(machine);
    }

    /// Finds the switches between the spans.
    fn find(&mut self, machine: &Machine) {
        let ends = self.spans.iter().filter(|span| span.until < self.now);
        let mut moments: BTreeSet<u64> = ends.map(|span| span.until).collect();
        moments.extend(self.spans.iter().map(|span| span.since));
        let llc = |cpu: CpuId| machine.cpu_index(cpu).map(|index| machine.cpus()[index].llc);
        let mut before = std::mem::take(&mut self.running);
        let mut here: Vec<Span> = Vec::new();
        let mut coming = self.spans.iter().peekable();
        for at in moments {
            here.retain(|span| span.until > at);
            while let Some(&span) = coming.next_if(|span| span.since <= at) {
                here.push(span);
            }
            let running: BTreeMap<ThreadId, CpuId> =
                here.iter().map(|span| (span.thread, span.cpu)).collect();
            let missing = |from: &BTreeMap<ThreadId, CpuId>, other: &BTreeMap<ThreadId, CpuId>| {
                let is_there = |(id, cpu): &(&ThreadId, &CpuId)| {
                    other.get(id).is_some_and(|there| llc(*there) == llc(**cpu))
                };
                let gone = from.iter().filter(|one| !is_there(one));
                gone.map(|(&id, _)| id).collect::<Vec<_>>()
            };
            let (on, off) = (missing(&running, &before), missing(&before, &running));
            before.clone_from(&running);
            if !on.is_empty() || !off.is_empty() {
                self.list.push(Switch { at, event: Event::Switched { on, off }, running });
            }
        }
        self.running = before;
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Shows a switch in the table: states, CPUs and counts as they were right after it.
    pub(super) fn show(&mut self, index: usize, table: &mut Threads) -> (Nanoseconds, Event) {
        if self.present.is_empty() {
            self.present = table
                .iter()
                .map(|(view, _)| Present { state: view.state, cpu: view.cpu, counts: view.counts })
                .collect();
        }
        let switch = &self.list[index];
        let elapsed = (switch.at - self.last) as f64 / (self.now - self.last) as f64;
        for ((view, thread), present) in table.iter_mut().zip(&self.present) {
            let on = switch.running.get(&view.id);
            view.state = match (on, present.state) {
                (Some(_), _) => ThreadState::Running,
                (None, ThreadState::Running) => ThreadState::Runnable,
                (None, other) => other,
            };
            view.cpu = on.copied().or(present.cpu);
            let done = self.ran.get(&view.id).and_then(|(spans, in_all)| {
                let next = spans.partition_point(|(span, _)| span.since <= switch.at);
                let last = next.checked_sub(1).map(|last| spans[last]);
                let by_then = last.map_or(0, |(span, before)| {
                    before + span.until.min(switch.at).saturating_sub(span.since)
                });
                (*in_all > 0).then(|| by_then as f64 / *in_all as f64)
            });
            let done = done.unwrap_or(elapsed);
            view.counts = present.counts.between(&thread.before, done, elapsed);
        }
        (Nanoseconds(switch.at), switch.event.clone())
    }

    /// Shows the present again.
    pub(super) fn show_present(&mut self, table: &mut Threads) {
        for ((view, _), present) in table.iter_mut().zip(self.present.drain(..)) {
            (view.state, view.cpu, view.counts) = (present.state, present.cpu, present.counts);
        }
    }
}

/// Who leaves a CPU to another thread leaves it when the other comes.
fn join(spans: &mut [Span]) {
    spans.sort_unstable_by_key(|span| (span.cpu, span.since, span.thread));
    for index in 1..spans.len() {
        let (before, next) = (spans[index - 1], spans[index]);
        let is_followed = before.cpu == next.cpu && before.until < next.since;
        if is_followed && next.since - before.until < SAME_MOMENT_NS {
            spans[index - 1].until = next.since;
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::{CpuSet, preset};
    use corun_policy::{CounterKind, Scope, ThreadView};

    use super::*;
    use crate::ManagedThread;
    use crate::backend::fixture;

    const MS: u64 = 1_000_000;

    fn task(tid: u32) -> Task {
        Task { pid: tid, tid, start_ticks: 1 }
    }

    /// Threads 0 to 2 with the numbers 100 to 102, which made so many misses in the tick that ends at 10 ms.
    fn table(misses: [f64; 3]) -> (Threads, BTreeMap<Task, ThreadId>) {
        let cpus: CpuSet = "0-3".parse().unwrap();
        let mut table = Threads::new(1);
        let mut ids = BTreeMap::new();
        for (index, misses) in misses.into_iter().enumerate() {
            let (id, task) = (ThreadId(index as u64), task(100 + index as u32));
            ids.insert(task, id);
            let mut view = ThreadView::new(id, corun_policy::ProcessId(0), "p", &cpus);
            view.state = ThreadState::Running;
            view.counts.add(CounterKind::LlcMisses, misses, Nanoseconds(10 * MS), Scope::Demand);
            table.insert(view, ManagedThread::new(fixture::facts(task, &cpus), 0, "p"));
        }
        (table, ids)
    }

    fn stint(tid: u32, cpu: u32, since_ms: u64, until_ms: Option<u64>) -> Stint {
        let until_ns = until_ms.map(|until| until * MS);
        Stint { since_ns: since_ms * MS, until_ns, tid, cpu: until_ms.map(|_| CpuId(cpu)) }
    }

    fn switched(on: &[u64], off: &[u64]) -> Event {
        let ids = |of: &[u64]| of.iter().copied().map(ThreadId).collect();
        Event::Switched { on: ids(on), off: ids(off) }
    }

    /// On CPU 0 thread 0 runs from 0 to 4 ms and thread 1 from then on, on CPU 2 thread 2 from 6 to 8 ms. Of thread
    /// 0's eight misses half fall into the first 2 of its 4 ms, of thread 2's six all by 8 ms.
    #[test]
    fn each_switch_shows_who_ran_and_what_was_counted_by_then() {
        let machine = preset("xeon-x5365-2llc").unwrap();
        let (mut table, ids) = table([8.0, 12.0, 6.0]);
        let mut switches = Switches::default();
        // Their clock is 100 ms ahead of the host's; 5 us pass between one thread and the next.
        let mut stints = vec![stint(100, 0, 100, Some(104)), stint(102, 2, 106, Some(108))];
        stints.push(Stint { since_ns: 104 * MS + 5_000, ..stint(101, 0, 0, None) });
        switches.begin_tick(Nanoseconds(10 * MS), (stints, 100 * MS), &ids, &machine, &table);
        let mut seen = Vec::new();
        for index in 0..switches.len() {
            let (at, event) = switches.show(index, &mut table);
            let misses = |thread: usize| table.at(thread).0.counts.llc_misses.unwrap().total;
            let running = table.iter().filter(|(view, _)| view.state == ThreadState::Running);
            let running: Vec<u64> = running.map(|(view, _)| view.id.0).collect();
            seen.push((at.0 / 1000, event, running, [misses(0), misses(2)].map(f64::round)));
        }
        assert_eq!(
            seen,
            [
                (0, switched(&[0], &[]), vec![0], [0.0, 0.0]),
                (4005, switched(&[1], &[0]), vec![1], [8.0, 0.0]),
                (6000, switched(&[2], &[]), vec![1, 2], [8.0, 0.0]),
                (8000, switched(&[], &[2]), vec![1], [8.0, 6.0]),
            ]
        );
        switches.show_present(&mut table);
        let (view, _) = table.at(0);
        assert_eq!(
            (view.state, view.counts.llc_misses.unwrap().total),
            (ThreadState::Running, 8.0)
        );
    }

    /// A stint that ended after the tick is told in two parts; a change within an LLC is none.
    #[test]
    fn a_stint_goes_on_in_the_next_tick() {
        let machine = preset("xeon-x5365-2llc").unwrap();
        let (mut table, ids) = table([4.0, 0.0, 0.0]);
        let mut switches = Switches::default();
        let mut tick = |now_ms: u64, stints: Vec<Stint>| {
            let now = Nanoseconds(now_ms * MS);
            switches.begin_tick(now, (stints, 0), &ids, &machine, &table);
            let shown: Vec<_> =
                (0..switches.len()).map(|index| switches.show(index, &mut table)).collect();
            switches.show_present(&mut table);
            shown
        };
        let came = (Nanoseconds(8 * MS), switched(&[0], &[]));
        assert_eq!(tick(10, vec![stint(100, 0, 8, Some(11))]), [came]);
        let llcs = machine.llcs();
        let sibling = llcs[0].cpus.iter().nth(1).unwrap().0;
        let other = llcs[1].cpus.first().unwrap().0;
        let stints = vec![stint(100, sibling, 11, Some(15)), stint(100, other, 15, Some(18))];
        let expected = [
            (Nanoseconds(15 * MS), switched(&[0], &[0])),
            (Nanoseconds(18 * MS), switched(&[], &[0])),
        ];
        assert_eq!(tick(20, stints), expected);
        assert_eq!(tick(30, Vec::new()), []);
    }

    #[test]
    fn threads_that_are_not_in_the_table_are_left_out() {
        let machine = preset("xeon-x5365-2llc").unwrap();
        let (table, ids) = table([1.0; 3]);
        let mut switches = Switches::default();
        let stints = vec![stint(7, 0, 1, Some(2))];
        switches.begin_tick(Nanoseconds(10 * MS), (stints, 0), &ids, &machine, &table);
        assert_eq!(switches.len(), 0);
    }
}
