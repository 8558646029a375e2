//! Events that the kernel names itself, on every machine (`linux/perf_event.h`).

pub(super) const HARDWARE: u32 = 0;
pub(super) const SOFTWARE: u32 = 1;
pub(super) const HARDWARE_CACHE: u32 = 3;
pub(super) const RAW: u32 = 4;

/// An event by the name that perf(1), too, gives it.
#[derive(Debug)]
pub(super) struct Generic {
    pub(super) name: &'static str,
    pub(super) kind: u32,
    pub(super) config: u64,
}

impl Generic {
    pub(super) fn is_software(&self) -> bool {
        self.kind == SOFTWARE
    }

    /// CPU clock and task clock.
    pub(super) fn is_time(&self) -> bool {
        self.kind == SOFTWARE && self.config <= 1
    }
}

pub(super) fn by_name(name: &str) -> Option<&'static Generic> {
    NAMES.iter().find(|one| one.name == name)
}

const fn hardware(name: &'static str, config: u64) -> Generic {
    Generic { name, kind: HARDWARE, config }
}

const fn software(name: &'static str, config: u64) -> Generic {
    Generic { name, kind: SOFTWARE, config }
}

/// Which cache, what it is asked (0: reads, 1: writes), what comes of it (0: all, 1: misses).
const fn cache(name: &'static str, cache: u64, operation: u64, result: u64) -> Generic {
    Generic { name, kind: HARDWARE_CACHE, config: cache | operation << 8 | result << 16 }
}

pub(super) const NAMES: &[Generic] = &[
    hardware("cycles", 0),
    hardware("cpu-cycles", 0),
    hardware("instructions", 1),
    hardware("cache-references", 2),
    hardware("cache-misses", 3),
    hardware("branches", 4),
    hardware("branch-instructions", 4),
    hardware("branch-misses", 5),
    hardware("bus-cycles", 6),
    hardware("stalled-cycles-frontend", 7),
    hardware("stalled-cycles-backend", 8),
    hardware("ref-cycles", 9),
    software("cpu-clock", 0),
    software("task-clock", 1),
    software("page-faults", 2),
    software("faults", 2),
    software("context-switches", 3),
    software("cs", 3),
    software("cpu-migrations", 4),
    software("migrations", 4),
    software("minor-faults", 5),
    software("major-faults", 6),
    software("alignment-faults", 7),
    software("emulation-faults", 8),
    software("cgroup-switches", 11),
    cache("L1-dcache-loads", 0, 0, 0),
    cache("L1-dcache-load-misses", 0, 0, 1),
    cache("L1-dcache-stores", 0, 1, 0),
    cache("L1-dcache-store-misses", 0, 1, 1),
    cache("L1-icache-loads", 1, 0, 0),
    cache("L1-icache-load-misses", 1, 0, 1),
    cache("LLC-loads", 2, 0, 0),
    cache("LLC-load-misses", 2, 0, 1),
    cache("LLC-stores", 2, 1, 0),
    cache("LLC-store-misses", 2, 1, 1),
    cache("dTLB-loads", 3, 0, 0),
    cache("dTLB-load-misses", 3, 0, 1),
    cache("dTLB-stores", 3, 1, 0),
    cache("dTLB-store-misses", 3, 1, 1),
    cache("iTLB-loads", 4, 0, 0),
    cache("iTLB-load-misses", 4, 0, 1),
    cache("branch-loads", 5, 0, 0),
    cache("branch-load-misses", 5, 0, 1),
    cache("node-loads", 6, 0, 0),
    cache("node-load-misses", 6, 0, 1),
];
