//! Where a process's memory is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use corun_linux::procfs::{Mapping, Process, mappings};
use corun_linux::{Roots, Task, is_gone, node_of_pages};
use corun_machine::Machine;
use corun_policy::{Action, ActionKind, Nanoseconds};

use super::syscalls::move_pages;
use super::{Actuator, ApplyMode, Change, Refusal, managed, still_there, touchable};
use crate::{ActError, Reverted, Threads};

/// A call that moves pages holds up the process; it shall be no longer than this.
const LONGEST_CALL: Duration = Duration::from_millis(20);
/// A change that takes longer than this stops; what is left stays where it is.
const LONGEST_CHANGE: Duration = Duration::from_secs(2);
/// Undoing one has longer, and what is left then is said.
const LONGEST_UNDOING: Duration = Duration::from_secs(20);
/// Pages of one call: at first, and within which bounds. Each call first asks all CPUs for the pages
/// that they hold back, which takes as long for few pages as for many.
const FIRST_BATCH: usize = 256;
const BATCHES: Range<usize> = 128..4096;
/// How often a page is moved back that was in use at that moment.
const MOST_ATTEMPTS: usize = 3;
/// Pages that are looked up at a time.
const PAGES_A_PART: usize = 512;

/// Moves a process's memory to a NUMA node, batch by batch (`move_pages`). Pages that other
/// processes map too stay where they are.
#[derive(Debug)]
pub struct Pages {
    roots: Roots,
}

impl Pages {
    /// For the machine whose file systems are there.
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone() }
    }
}

impl Actuator for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::MovePages]
    }

    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        _now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let Action::MovePages { thread, node } = action else {
            return Err(Refusal::not_by(self.name()));
        };
        let pid = managed(threads, *thread)?.1.task().pid;
        let node = machine.nodes().get(*node);
        let to = node.ok_or_else(|| Refusal("there is no such NUMA node".to_owned()))?.os_index;
        let stat = Process::new(&self.roots, pid).stat().ok().flatten();
        let stat = stat.ok_or_else(|| Refusal(format!("process {pid} is no more")))?;
        let task = Task { pid, tid: pid, start_ticks: stat.start_ticks };
        let before = mapped(&self.roots, &task).map_err(|error| Refusal(error.to_string()))?;
        // What others map too cannot be moved, and must not be asked for again and again.
        let own = before.iter().filter(|one| !one.is_shared);
        let own: Vec<u32> = own.flat_map(|one| one.by_node.keys().copied()).collect();
        let before: Vec<(u32, u64)> = by_node(&before).into_iter().collect();
        let all_there = own.iter().all(|node| *node == to);
        Ok(if all_there { Vec::new() } else { vec![Change::Pages { task, before, to }] })
    }
}

/// The memory of a process, where it can be read.
fn mapped(roots: &Roots, task: &Task) -> Result<Vec<Mapping>, ActError> {
    mappings(roots, task.pid)
        .map_err(|reason| failed(task, "reading its memory".to_owned(), reason))
}

fn by_node(all: &[Mapping]) -> BTreeMap<u32, u64> {
    let mut sum = BTreeMap::new();
    for (node, pages) in all.iter().flat_map(|one| &one.by_node) {
        *sum.entry(*node).or_default() += pages;
    }
    sum
}

/// Moves a process's memory to a node, if it is the process that was meant.
pub(super) fn apply(roots: &Roots, task: &Task, to: u32) -> Result<(), ActError> {
    touchable(roots, task)?;
    let elsewhere = |one: &Mapping| one.by_node.keys().any(|node| *node != to);
    let all: Vec<Mapping> = mapped(roots, task)?.into_iter().filter(elsewhere).collect();
    let all_moved = each_batch(roots, task, &all, LONGEST_CHANGE, |addresses| {
        let nodes = vec![to as i32; addresses.len()];
        move_pages(task.pid, addresses, &nodes).map(drop)
    })?;
    if !all_moved {
        tracing::info!(pid = task.pid, "moving pages stopped before all were moved");
    }
    Ok(())
}

/// Moves memory back to the nodes it came from, as many pages as were on each.
pub(super) fn revert(
    roots: &Roots,
    task: &Task,
    before: &[(u32, u64)],
    to: u32,
    mode: ApplyMode,
) -> Result<Reverted, ActError> {
    still_there(roots, task)?;
    let all = mapped(roots, task)?;
    let mut missing = missing(before, &by_node(&all), to);
    if missing.is_empty() {
        return Ok(Reverted::AsBefore);
    }
    if mode == ApplyMode::Apply {
        let there: Vec<Mapping> =
            all.into_iter().filter(|one| one.by_node.contains_key(&to)).collect();
        let mut stayed = 0;
        let in_time = each_batch(roots, task, &there, LONGEST_UNDOING, |addresses| {
            let found = node_of_pages(task.pid, addresses)?;
            let there = addresses.iter().zip(&found).filter(|&(_, node)| *node == to as i32);
            let back = there.map_while(|(&address, _)| Some((address, next_node(&mut missing)?)));
            stayed += move_back(task.pid, back.collect(), to)?;
            Ok(())
        })?;
        if !in_time || stayed > 0 {
            let what = match in_time {
                true => format!("{stayed} pages of process {} stay on node {to}", task.pid),
                false => format!("not all pages of process {} were moved back", task.pid),
            };
            let reason =
                if in_time { io::ErrorKind::ResourceBusy } else { io::ErrorKind::TimedOut };
            return Err(ActError::Kernel {
                what,
                reason: reason.into(),
                advice: Some("corun restore goes on with it".to_owned()),
            });
        }
    }
    Ok(Reverted::Done)
}

/// Moves pages from a node to others, page by page, and again what was in use at that moment. How many stayed?
fn move_back(pid: u32, mut pages: Vec<(usize, i32)>, from: u32) -> io::Result<usize> {
    for _ in 0..MOST_ATTEMPTS {
        let (addresses, nodes): (Vec<usize>, Vec<i32>) = pages.iter().copied().unzip();
        if pages.is_empty() || move_pages(pid, &addresses, &nodes)? {
            return Ok(0);
        }
        let found = node_of_pages(pid, &addresses)?;
        let mut found = found.iter();
        pages.retain(|_| found.next() == Some(&(from as i32)));
    }
    Ok(pages.len())
}

/// Pages that each node has fewer than before, as far as the node that got them has more.
fn missing(before: &[(u32, u64)], now: &BTreeMap<u32, u64>, to: u32) -> Vec<(u32, u64)> {
    let count = |node: &u32| now.get(node).copied().unwrap_or(0);
    let had = before.iter().find(|(node, _)| *node == to).map_or(0, |(_, pages)| *pages);
    let mut surplus = count(&to).saturating_sub(had);
    let mut missing = Vec::new();
    for (node, pages) in before.iter().filter(|(node, _)| *node != to) {
        let fewer = pages.saturating_sub(count(node)).min(surplus);
        surplus -= fewer;
        if fewer > 0 {
            missing.push((*node, fewer));
        }
    }
    missing
}

/// The node that the next page goes to.
fn next_node(missing: &mut Vec<(u32, u64)>) -> Option<i32> {
    let (node, left) = missing.first_mut()?;
    let node = *node as i32;
    *left -= 1;
    if *left == 0 {
        missing.remove(0);
    }
    Some(node)
}

/// Does something to all pages that can be moved, so many at a time that no call takes long; false
/// when the time was over before.
fn each_batch(
    roots: &Roots,
    task: &Task,
    all: &[Mapping],
    longest: Duration,
    mut act: impl FnMut(&[usize]) -> io::Result<()>,
) -> Result<bool, ActError> {
    let (begun, mut size) = (Instant::now(), FIRST_BATCH);
    let pagemap = File::open(roots.proc.join(format!("{}/pagemap", task.pid))).ok();
    let mut movable: Vec<usize> = Vec::new();
    let mut parts = all.iter().flat_map(parts).peekable();
    while let Some((addresses, page_bytes)) = parts.next() {
        movable.extend(movable_of(pagemap.as_ref(), addresses, page_bytes));
        let is_last = parts.peek().is_none();
        while movable.len() >= size || (is_last && !movable.is_empty()) {
            let batch: Vec<usize> = movable.drain(..size.min(movable.len())).collect();
            let call = Instant::now();
            act(&batch).map_err(|reason| failed(task, "moving pages".to_owned(), reason))?;
            size = next_size(size, call.elapsed());
            if begun.elapsed() > longest {
                return Ok(is_last && movable.is_empty());
            }
        }
        if begun.elapsed() > longest {
            return Ok(is_last);
        }
    }
    Ok(true)
}

/// The addresses of some memory in parts of so many pages.
fn parts(of: &Mapping) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
    let bytes = of.page_bytes * PAGES_A_PART;
    let begins = of.addresses.clone().step_by(bytes);
    begins.map(move |begin| (begin..(begin + bytes).min(of.addresses.end), of.page_bytes))
}

/// The pages that are there and that no other process maps. Those of which the kernel does not say
/// may be.
fn movable_of(pagemap: Option<&File>, addresses: Range<usize>, page_bytes: usize) -> Vec<usize> {
    const ENTRY_BYTES: usize = 8;
    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;
    let all = addresses.clone().step_by(page_bytes);
    let Some(pagemap) = pagemap.filter(|_| page_bytes == rustix::param::page_size()) else {
        return all.collect();
    };
    let mut entries = vec![0; all.len() * ENTRY_BYTES];
    let offset = (addresses.start / page_bytes * ENTRY_BYTES) as u64;
    if pagemap.read_exact_at(&mut entries, offset).is_err() {
        return all.collect();
    }
    let is_movable = |entry: &[u8]| {
        let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of 8 bytes"));
        entry & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE
    };
    let known = all.zip(entries.chunks_exact(ENTRY_BYTES));
    known.filter(|(_, entry)| is_movable(entry)).map(|(address, _)| address).collect()
}

/// How many pages the next call takes, by how long the last one took.
fn next_size(size: usize, took: Duration) -> usize {
    let next = match took {
        took if took > LONGEST_CALL / 2 => size / 2,
        took if took < LONGEST_CALL / 8 => size * 2,
        _ => size,
    };
    next.clamp(BATCHES.start, BATCHES.end)
}

fn failed(task: &Task, what: String, reason: io::Error) -> ActError {
    let what = format!("{what} of process {}", task.pid);
    if is_gone(&reason) {
        return ActError::Gone { what };
    }
    let advice = match reason.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            Some("run corun as the process's user or with CAP_SYS_NICE and CAP_SYS_PTRACE")
        }
        Some(libc::ENODEV) => Some("that node has no memory, or is off line"),
        _ => None,
    };
    ActError::Kernel { what, reason, advice: advice.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Task {
        let pid = std::process::id();
        let start_ticks = Process::new(&Roots::default(), pid).stat().unwrap().unwrap().start_ticks;
        Task { pid, tid: pid, start_ticks }
    }

    #[test]
    fn as_many_pages_go_back_as_came_from_each_node() {
        let now = |pages: &[(u32, u64)]| pages.iter().copied().collect::<BTreeMap<_, _>>();
        let before = [(0, 100), (1, 10), (2, 50)];
        assert_eq!(missing(&before, &now(&[(1, 160)]), 1), [(0, 100), (2, 50)]);
        // The process has freed most of them since.
        assert_eq!(missing(&before, &now(&[(1, 40)]), 1), [(0, 30)]);
        assert_eq!(missing(&before, &now(&[(0, 100), (1, 10), (2, 50)]), 1), []);
        let mut left = vec![(0, 2), (2, 1)];
        let nodes: Vec<i32> = std::iter::from_fn(|| next_node(&mut left)).collect();
        assert_eq!(nodes, [0, 0, 2]);
    }

    #[test]
    fn pages_that_are_not_there_are_passed_over() {
        let page = rustix::param::page_size();
        let Ok(map) = File::open("/proc/self/pagemap") else {
            eprintln!("skipped: this kernel has no pagemap");
            return;
        };
        // Far more than the kernel gives before it is written to; one page is.
        let mut room = Vec::<u8>::with_capacity(64 << 20);
        let begin = room.as_ptr() as usize;
        let first = begin.next_multiple_of(page) + 1000 * page;
        room.spare_capacity_mut()[first - begin].write(1);
        let found = movable_of(Some(&map), first..first + 100 * page, page);
        assert_eq!(found.first(), Some(&first));
        let far = first + 8000 * page;
        assert_eq!(movable_of(Some(&map), far..far + 100 * page, page), [0; 0]);
        assert_eq!(movable_of(None, far..far + 100 * page, page).len(), 100);
    }

    #[test]
    fn calls_stay_short() {
        assert_eq!(next_size(128, Duration::from_millis(1)), 256);
        assert_eq!(next_size(128, Duration::from_millis(5)), 128);
        assert_eq!(next_size(512, Duration::from_millis(15)), 256);
        assert_eq!(next_size(128, Duration::from_secs(1)), 128);
        assert_eq!(next_size(4096, Duration::ZERO), 4096);
    }

    #[test]
    fn own_pages_are_found_and_moving_them_where_they_are_changes_nothing() {
        let (roots, task) = (Roots::default(), own());
        let Ok(all) = mapped(&roots, &task) else {
            eprintln!("skipped: this kernel has no numa_maps");
            return;
        };
        let counts = by_node(&all);
        assert!(counts.values().sum::<u64>() > 0);
        let (&node, _) = counts.iter().max_by_key(|(_, pages)| **pages).unwrap();
        let before: Vec<(u32, u64)> = vec![(node, u64::MAX)];
        match apply(&roots, &task, node) {
            Ok(()) => {}
            Err(error) => {
                eprintln!("skipped: no pages can be moved here: {error}");
                return;
            }
        }
        let reverted = revert(&roots, &task, &before, node, ApplyMode::Apply).unwrap();
        assert_eq!(reverted, Reverted::AsBefore);
        let text = [7u8; 1];
        let address = text.as_ptr() as usize & !4095;
        assert!(counts.contains_key(&(node_of_pages(task.pid, &[address]).unwrap()[0] as u32)));
        let gone = Task { start_ticks: 1, ..task };
        assert!(matches!(apply(&roots, &gone, node), Err(ActError::Gone { .. })));
    }

    #[test]
    fn pages_go_to_another_node_and_come_back() {
        let (roots, task) = (Roots::default(), own());
        let online = std::fs::read_to_string("/sys/devices/system/node/has_memory");
        let nodes = online.ok().and_then(|text| text.parse::<corun_machine::CpuSet>().ok());
        if nodes.is_none_or(|nodes| nodes.len() < 2) {
            eprintln!("skipped: this needs two NUMA nodes with memory");
            return;
        }
        let counts = || by_node(&mapped(&roots, &task).unwrap());
        let memory = vec![1u8; 16 << 20];
        let node = node_of_pages(task.pid, &[memory.as_ptr() as usize & !4095]).unwrap()[0] as u32;
        let to = if node == 0 { 1 } else { 0 };
        let before: Vec<(u32, u64)> = counts().into_iter().collect();
        let had = before.iter().find(|(one, _)| *one == to).map_or(0, |(_, pages)| *pages);
        apply(&roots, &task, to).unwrap();
        let moved = counts()[&to] - had;
        assert!(moved >= 4096, "{moved}");
        assert_eq!(revert(&roots, &task, &before, to, ApplyMode::Apply).unwrap(), Reverted::Done);
        assert!(counts().get(&to).copied().unwrap_or(0) < had + moved / 10);
        assert!(memory.iter().all(|&byte| byte == 1));
    }
}
