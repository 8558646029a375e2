//! Counters: which counting units there are, and what comes of using them.

use std::hint::black_box;
use std::io;
use std::path::Path;

use corun_linux::{Roots, files};
use corun_machine::{CpuId, CpuSet};
use corun_policy::CounterKind;
use perf_event::Builder;
use perf_event::events::Software;
use rustix::io::Errno;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::doctor::facts::{CoreCounters, CountOutcome, Perf, Shape, Tried};

/// An event as `perf_event_open` names it.
struct Named {
    name: &'static str,
    counter: Option<CounterKind>,
    kind: u32,
    config: u64,
    /// Any program makes it count.
    always: bool,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HARDWARE_CACHE: u32 = 3;

/// The kernel's generic events (`include/uapi/linux/perf_event.h`).
const CORE_EVENTS: [Named; 7] = [
    Named::core("instructions", CounterKind::Instructions, HARDWARE, 1, true),
    Named::core("cycles", CounterKind::Cycles, HARDWARE, 0, true),
    Named::core("cache-references", CounterKind::LlcReferences, HARDWARE, 2, false),
    Named::core("cache-misses", CounterKind::LlcMisses, HARDWARE, 3, false),
    Named::core("stalled-cycles-backend", CounterKind::MemoryStalls, HARDWARE, 8, false),
    Named::core("L1-dcache-loads", CounterKind::L1Accesses, HARDWARE_CACHE, 0, false),
    Named::core("branches", CounterKind::Branches, HARDWARE, 4, true),
];

const SOFTWARE_EVENTS: [Named; 4] = [
    Named::software("task-clock", 1, true),
    Named::software("context-switches", 3, false),
    Named::software("cpu-migrations", 4, false),
    Named::software("page-faults", 2, false),
];

impl Named {
    const fn core(
        name: &'static str,
        counter: CounterKind,
        kind: u32,
        config: u64,
        always: bool,
    ) -> Self {
        Self { name, counter: Some(counter), kind, config, always }
    }

    const fn software(name: &'static str, config: u64, always: bool) -> Self {
        Self { name, counter: None, kind: SOFTWARE, config, always }
    }
}

/// A counting unit as sysfs shows it.
struct Unit {
    name: String,
    /// The kernel's number of it.
    number: Option<u32>,
    cpus: Option<CpuSet>,
}

pub(super) fn perf(roots: &Roots, shape: Option<&Shape>) -> Perf {
    let folder = roots.sys.join("bus/event_source/devices");
    let listed = files::names(&folder);
    let told = listed.is_some();
    let names = listed.unwrap_or_default();
    let mut units: Vec<Unit> = names.iter().filter_map(|name| unit(&folder, name)).collect();
    if units.is_empty() {
        // Some kernels count without showing a unit.
        units.push(Unit { name: String::new(), number: None, cpus: None });
    }
    let outside = |name: &&String| folder.join(name).join("cpumask").is_file();
    let online: CpuSet = shape
        .map(|shape| shape.core_types.iter().flat_map(|kind| kind.cpus.iter()).collect())
        .unwrap_or_default();
    let core = |unit: Unit| {
        let there = |cpus: &CpuSet| online.is_empty() || !cpus.is_disjoint(&online);
        let usable = unit.cpus.as_ref().is_none_or(there);
        usable.then(|| core_counters(roots, unit, told))
    };
    Perf {
        paranoid: files::number(&roots.proc.join("sys/kernel/perf_event_paranoid")),
        cores: units.into_iter().filter_map(core).collect(),
        uncore: names.iter().filter(outside).cloned().collect(),
        software: if roots.are_here() {
            SOFTWARE_EVENTS.iter().map(|event| tried(event, count(event, 0))).collect()
        } else {
            SOFTWARE_EVENTS.iter().map(|event| tried(event, CountOutcome::NotTried)).collect()
        },
        watchdog: files::switch(&roots.proc.join("sys/kernel/nmi_watchdog")),
    }
}

/// A core's counting unit: `cpu`, or one that lists the CPUs it is for, as on hybrid machines and on
/// Arm. Units outside of the cores have a `cpumask` instead.
fn unit(folder: &Path, name: &str) -> Option<Unit> {
    let at = folder.join(name);
    let cpus = files::text(&at.join("cpus"));
    if name != "cpu" && cpus.is_none() || !at.is_dir() {
        return None;
    }
    Some(Unit {
        name: name.to_owned(),
        number: files::number(&at.join("type")),
        cpus: cpus.and_then(|cpus| cpus.parse().ok()),
    })
}

/// `told`: does sysfs list the units at all?
fn core_counters(roots: &Roots, unit: Unit, told: bool) -> CoreCounters {
    let events = if roots.are_here() {
        // A hybrid machine's unit is named in the upper half of the event's number.
        let upper = unit.cpus.as_ref().and(unit.number).map_or(0, |number| u64::from(number) << 32);
        let cpu = unit.cpus.as_ref().and_then(CpuSet::first);
        on_cpu(cpu, move || {
            CORE_EVENTS.iter().map(|event| tried(event, count(event, upper))).collect()
        })
    } else {
        let absent = told && unit.name.is_empty();
        let answer = if absent { CountOutcome::Absent } else { CountOutcome::NotTried };
        CORE_EVENTS.iter().map(|event| tried(event, answer.clone())).collect()
    };
    CoreCounters { unit: Some(unit.name).filter(|name| !name.is_empty()), cpus: unit.cpus, events }
}

fn tried(event: &Named, answer: CountOutcome) -> Tried {
    Tried { event: event.name, counter: event.counter, answer }
}

/// Runs something in a thread of its own, on a CPU where that is allowed.
fn on_cpu<T: Send + 'static>(
    cpu: Option<CpuId>,
    work: impl FnOnce() -> Vec<T> + Send + 'static,
) -> Vec<T> {
    let thread = std::thread::spawn(move || {
        let allowed = sched_getaffinity(None).ok();
        let there = |number: usize| allowed.as_ref().is_some_and(|set| set.is_set(number));
        if let Some(number) = cpu.map(|cpu| cpu.0 as usize)
            && number < rustix::thread::CpuSet::MAX_CPU
            && there(number)
        {
            let mut set = rustix::thread::CpuSet::new();
            set.set(number);
            // Elsewhere the unit counts nothing, and that is what will be said.
            let _ = sched_setaffinity(None, &set);
        }
        work()
    });
    thread.join().unwrap_or_default()
}

/// Counts an event of this thread for an instant.
fn count(event: &Named, upper: u64) -> CountOutcome {
    match counted(event, upper) {
        Ok(0) if event.always => CountOutcome::Silent,
        Ok(_) => CountOutcome::Works,
        Err(error) => refused(&error),
    }
}

fn counted(event: &Named, upper: u64) -> io::Result<u64> {
    let mut builder = Builder::new(Software::TASK_CLOCK);
    let attributes = builder.attrs_mut();
    attributes.type_ = event.kind;
    attributes.config = event.config | upper;
    let mut counter = builder.build()?;
    counter.enable()?;
    let sum = (0..100_000u64).fold(0, |sum: u64, one| black_box(sum ^ one));
    black_box(sum);
    counter.disable()?;
    counter.read()
}

fn refused(error: &io::Error) -> CountOutcome {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => CountOutcome::Forbidden,
        Some(
            Errno::NOENT
            | Errno::NODEV
            | Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::NOSYS
            | Errno::NXIO,
        ) => CountOutcome::Absent,
        _ => CountOutcome::Failed { why: error.to_string() },
    }
}
