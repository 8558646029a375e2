//! What a machine file must satisfy, one rule in one place. [`before`] looks at the fields alone,
//! [`after`] at what they refer to, once the tree is built.

mod measured;
mod nested;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::machine::Machine;
use crate::sources::covers;
use crate::spec::{
    BandwidthDomain, Calibration, CoreType, MachineSpec, ObjectSpec, ObjectType, Smt,
};
use crate::{CpuSet, MACHINE_FILE_VERSION, SpecError};

/// The most CPUs a machine may have: the kernel's own limit (`CONFIG_NR_CPUS`).
pub(crate) const MAX_CPUS: u64 = 8192;
/// What a bandwidth in MB/s may be.
pub const BANDWIDTH_MB_PER_S: RangeInclusive<f64> = 1.0..=1e9;
/// Lower ones were meant as GHz.
const CLOCK_MHZ: RangeInclusive<f64> = 10.0..=1e6;
const DISPATCH_WIDTH: RangeInclusive<f64> = 0.1..=1e3;
const PENALTY_CYCLES: RangeInclusive<f64> = 0.0..=1e6;
const OPERATIONS_PER_CYCLE: RangeInclusive<f64> = 0.1..=1e3;
const MEMORY_LATENCY_NS: RangeInclusive<f64> = 0.1..=1e6;
/// Shorter lives of lines used once than this share could not be told from none.
const SINGLE_USE_LIFE: RangeInclusive<f64> = 0.001..=1.0;
const CACHE_LATENCY_NS: RangeInclusive<f64> = 0.01..=1e6;
/// A slowdown, and what a miss per 1000 instructions adds to one.
const PENALTY: RangeInclusive<f64> = 0.0..=1e3;
/// Of a line through speedup factors.
const COEFFICIENT: RangeInclusive<f64> = -1e3..=1e3;
const AMP_THRESHOLD_MS: RangeInclusive<f64> = 0.1..=1e6;
const MAX_CACHE_KIB: u64 = 1 << 32;
const MAX_OBJECTS: u64 = 16 * MAX_CPUS;
const MAX_DEPTH: usize = 32;
/// No cache has a higher level.
const MAX_LEVEL: u32 = 16;
/// 1 EiB.
const MAX_MEMORY_MIB: u64 = 1 << 40;

type Checked = Result<(), SpecError>;

fn wrong(field: impl Into<String>, why: impl Into<String>) -> Checked {
    Err(SpecError::new(field, why))
}

fn above_zero(field: String, value: f64) -> Checked {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    wrong(field, format!("found {value}, expected a number above 0"))
}

/// Of a figure that goes into times and rates: far beyond what is built on both sides, and near
/// enough that nothing computed from it overflows or vanishes.
fn within(field: String, value: f64, range: &RangeInclusive<f64>) -> Checked {
    if range.contains(&value) {
        return Ok(());
    }
    let least = range.start();
    let most = match *range.end() {
        most if most > 1e6 => format!("{most:e}"),
        most => most.to_string(),
    };
    wrong(field, format!("found {value:?}, expected a number from {least} to {most}"))
}

fn not_negative(field: String, value: f64) -> Checked {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    wrong(field, format!("found {value}, expected 0 or more"))
}

fn not_zero(field: String, value: u64) -> Checked {
    if value > 0 { Ok(()) } else { wrong(field, "found 0, expected 1 or more") }
}

/// Of a text that stands in tables and in lines of their own.
fn printable(field: &str, text: &str) -> Checked {
    if text.chars().any(char::is_control) {
        return wrong(field, format!("found {text:?}, expected no control characters"));
    }
    Ok(())
}

/// Checks the fields of a machine file one by one.
pub(crate) fn before(spec: &MachineSpec) -> Checked {
    if spec.version != MACHINE_FILE_VERSION {
        let why = format!("found {}, expected {MACHINE_FILE_VERSION}", spec.version);
        return wrong("version", why);
    }
    if spec.name.trim().is_empty() {
        return wrong("name", "found an empty name");
    }
    printable("name", &spec.name)?;
    printable("title", &spec.title)?;
    core_types(&spec.core_types)?;
    bandwidth(&spec.bandwidth_domains)?;
    for (row, values) in spec.memory_latency_ns.iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            within(format!("memory_latency_ns[{row}][{column}]"), value, &MEMORY_LATENCY_NS)?;
        }
    }
    for (row, values) in spec.node_distance.iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            not_zero(format!("node_distance[{row}][{column}]"), u64::from(value))?;
        }
    }
    if let Some(power) = &spec.power {
        not_negative("power.idle_w".to_owned(), power.idle_w)?;
        not_negative("power.package_active_w".to_owned(), power.package_active_w)?;
        not_negative("power.core_w".to_owned(), power.core_w)?;
        not_negative("power.w_per_gb_per_s".to_owned(), power.w_per_gb_per_s)?;
    }
    if let Some(calibration) = &spec.calibration {
        calibrations(calibration)?;
    }
    measured::machine(spec)?;
    let mut walk = Walk { spec, above: Vec::new() };
    let mut size = Size::default();
    for (place, object) in spec.objects.iter().enumerate() {
        size = size.and(walk.object(object, &format!("object[{place}]"))?);
    }
    size.bounded("object")
}

/// A source of nothing is a slip of the pen in a file that somebody wrote; a machine made of another one may lack figures.
pub(crate) fn sources(spec: &MachineSpec) -> Checked {
    if spec.measurement.is_some() || spec.sources.is_empty() {
        return Ok(());
    }
    let figures = spec.figures();
    match spec.sources.keys().find(|key| !figures.iter().any(|one| covers(key, one))) {
        Some(key) => {
            let why = "found the source of a figure that the file does not have";
            wrong(format!("sources.{key}"), why)
        }
        None => Ok(()),
    }
}

fn calibrations(calibration: &Calibration) -> Checked {
    if let Some(fit) = &calibration.numa_penalty {
        let field = |name: &str| format!("calibration.numa_penalty.{name}");
        within(field("intercept"), fit.intercept, &PENALTY)?;
        within(field("per_mpki"), fit.per_mpki, &PENALTY)?;
    }
    if let Some(threshold) = calibration.link_threshold_mpki {
        above_zero("calibration.link_threshold_mpki".to_owned(), threshold)?;
    }
    for (name, value, range) in [
        ("low_btr_mb_per_s", calibration.low_btr_mb_per_s, &BANDWIDTH_MB_PER_S),
        ("high_btr_mb_per_s", calibration.high_btr_mb_per_s, &BANDWIDTH_MB_PER_S),
        ("amp_threshold_ms", calibration.amp_threshold_ms, &AMP_THRESHOLD_MS),
    ] {
        if let Some(value) = value {
            within(format!("calibration.{name}"), value, range)?;
        }
    }
    for (name, fit) in [
        ("speedup_on_big", calibration.speedup_on_big),
        ("speedup_on_small", calibration.speedup_on_small),
    ] {
        let Some(fit) = fit else { continue };
        for (part, value) in [
            ("intercept", fit.intercept),
            ("per_ipc", fit.per_ipc),
            ("per_mpki", fit.per_mpki),
            ("per_apki", fit.per_apki),
        ] {
            within(format!("calibration.{name}.{part}"), value, &COEFFICIENT)?;
        }
    }
    Ok(())
}

fn core_types(types: &[CoreType]) -> Checked {
    if types.is_empty() {
        return wrong("core_type", "found none, expected at least one [[core_type]]");
    }
    let mut names = BTreeSet::new();
    for (place, one) in types.iter().enumerate() {
        let field = |name: &str| format!("core_type[{place}].{name}");
        if one.name.trim().is_empty() {
            return wrong(field("name"), "found an empty name");
        }
        if !names.insert(&one.name) {
            return wrong(field("name"), format!("found `{}` a second time", one.name));
        }
        above_zero(field("capacity"), one.capacity)?;
        if one.capacity > 1.0 {
            let why = format!("found {}, expected at most 1, the fastest core type", one.capacity);
            return wrong(field("capacity"), why);
        }
        within(field("clock_mhz"), one.clock_mhz, &CLOCK_MHZ)
            .map_err(|error| SpecError { why: format!("{} MHz", error.why), ..error })?;
        not_zero(field("threads"), u64::from(one.threads))?;
        if let Some(smt_yield) = one.smt_yield {
            above_zero(field("smt_yield"), smt_yield)?;
            if smt_yield > f64::from(one.threads) {
                let why = format!("found {smt_yield}, expected at most `threads`");
                return wrong(field("smt_yield"), why);
            }
        }
        within(field("dispatch_width"), one.dispatch_width, &DISPATCH_WIDTH)?;
        if let Some(width) = one.fetch_width {
            within(field("fetch_width"), width, &DISPATCH_WIDTH)?;
        }
        if one.smt == Smt::FineGrained {
            fine_grained(one, field)?;
        }
        not_zero(field("outstanding_misses"), u64::from(one.outstanding_misses))?;
        within(field("branch_penalty_cycles"), one.branch_penalty_cycles, &PENALTY_CYCLES)?;
        measured::core_type(one, &format!("core_type[{place}]"))?;
    }
    Ok(())
}

/// Its threads take turns in one pipeline: what that cannot be together with.
fn fine_grained(one: &CoreType, field: impl Fn(&str) -> String) -> Checked {
    let threads = one.threads;
    if !(2..=Smt::MOST_FINE_GRAINED).contains(&threads) {
        let most = Smt::MOST_FINE_GRAINED;
        let why = format!("found {threads}, expected 2 to {most} where `smt` is \"fine-grained\"");
        return wrong(field("threads"), why);
    }
    if one.reorder_buffer > 0 {
        let entries = one.reorder_buffer;
        let why = format!("found {entries}, expected 0 (in order) where `smt` is \"fine-grained\"");
        return wrong(field("reorder_buffer"), why);
    }
    if let Some(smt_yield) = one.smt_yield {
        let why = format!("found {smt_yield}, expected none: `smt` \"fine-grained\" has no yield");
        return wrong(field("smt_yield"), why);
    }
    Ok(())
}

fn bandwidth(domains: &[BandwidthDomain]) -> Checked {
    let mut names = BTreeSet::new();
    for (place, domain) in domains.iter().enumerate() {
        let field = |name: &str| format!("bandwidth[{place}].{name}");
        if domain.name.trim().is_empty() {
            return wrong(field("name"), "found an empty name");
        }
        if !names.insert(&domain.name) {
            return wrong(field("name"), format!("found `{}` a second time", domain.name));
        }
        within(field("peak_mb_per_s"), domain.peak_mb_per_s, &BANDWIDTH_MB_PER_S)?;
        if let Some(theoretical) = domain.theoretical_mb_per_s {
            within(field("theoretical_mb_per_s"), theoretical, &BANDWIDTH_MB_PER_S)?;
            if domain.peak_mb_per_s > theoretical {
                let peak = domain.peak_mb_per_s;
                let why = format!("found {peak}, above theoretical_mb_per_s = {theoretical}");
                return wrong(field("peak_mb_per_s"), why);
            }
        }
        measured::domain(domain, &format!("bandwidth[{place}]"))?;
        if domain.from_cpus.as_ref().is_some_and(CpuSet::is_empty) {
            return wrong(field("from_cpus"), "found no CPU, expected some or no such field");
        }
        if domain.to_nodes.as_ref().is_some_and(Vec::is_empty) {
            return wrong(field("to_nodes"), "found no node, expected some or no such field");
        }
        let mut nodes = BTreeSet::new();
        if let Some(node) = domain.to_nodes.iter().flatten().find(|&node| !nodes.insert(node)) {
            return wrong(field("to_nodes"), format!("found node {node} a second time"));
        }
    }
    Ok(())
}

/// How many objects and CPUs an entry stands for.
#[derive(Default, Clone, Copy)]
struct Size {
    objects: u64,
    cpus: u64,
}

impl Size {
    fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            cpus: self.cpus.saturating_add(other.cpus),
        }
    }

    fn times(self, count: u32) -> Self {
        let count = u64::from(count);
        Self { objects: self.objects.saturating_mul(count), cpus: self.cpus.saturating_mul(count) }
    }

    fn bounded(self, field: &str) -> Checked {
        if self.cpus > MAX_CPUS {
            let why = format!("found {} CPUs, expected at most {MAX_CPUS}", self.cpus);
            return wrong(field, why);
        }
        if self.objects > MAX_OBJECTS {
            let why = format!("found {} objects, expected at most {MAX_OBJECTS}", self.objects);
            return wrong(field, why);
        }
        Ok(())
    }
}

struct Walk<'a> {
    spec: &'a MachineSpec,
    above: Vec<&'a ObjectSpec>,
}

impl<'a> Walk<'a> {
    fn object(&mut self, object: &'a ObjectSpec, at: &str) -> Result<Size, SpecError> {
        if self.above.len() >= MAX_DEPTH {
            let why = format!("found more than {MAX_DEPTH} objects inside one another");
            return Err(SpecError::new(at, why));
        }
        not_zero(format!("{at}.count"), u64::from(object.count))?;
        fields(object, at)?;
        // What was measured may be off by its noise, as an older version wrote it.
        if self.spec.measurement.is_none() {
            nested::effective(object, at)?;
        }
        self.nesting(object, at)?;
        let mut size = Size { objects: 1, cpus: 0 };
        if object.kind == ObjectType::Core {
            size.cpus = self.core(object, at)?;
            size.objects += size.cpus;
        }
        self.above.push(object);
        for (place, child) in object.objects.iter().enumerate() {
            size = size.and(self.object(child, &format!("{at}.object[{place}]"))?);
        }
        self.above.pop();
        let size = size.times(object.count);
        size.bounded(&format!("{at}.count"))?;
        let inside_core = self.above.iter().any(|above| above.kind == ObjectType::Core);
        if object.kind == ObjectType::Cache && size.cpus == 0 && !inside_core {
            return Err(SpecError::new(at, "found a cache above no core"));
        }
        Ok(size)
    }

    /// What may stand inside what. Packages inside caches exist (System z), as do nodes inside
    /// packages, dies and caches, and packages inside nodes.
    fn nesting(&self, object: &ObjectSpec, at: &str) -> Checked {
        use ObjectType::{Cache, Cluster, Core, Cpu, Die, Machine, NumaNode, Package};
        let barred: &[ObjectType] = match object.kind {
            Machine => {
                return wrong(format!("{at}.kind"), "found machine: that is the file itself");
            }
            Cpu => return wrong(format!("{at}.kind"), "found cpu, expected `cpus` of a core"),
            Package => &[Package, Die, Cluster, Core],
            Die => &[Die, Cluster, Core],
            NumaNode => &[NumaNode, Core],
            Cluster => &[Cluster, Core],
            Cache => &[],
            Core => &[Core],
        };
        for above in &self.above {
            if barred.contains(&above.kind) {
                let why = format!("found {} inside {}", object.kind.name(), above.kind.name());
                return wrong(format!("{at}.kind"), why);
            }
            nested::within(object, above, at)?;
            if self.spec.measurement.is_none() {
                nested::slower_than_nearer(object, above, at)?;
            }
        }
        Ok(())
    }

    fn core(&self, core: &ObjectSpec, at: &str) -> Result<u64, SpecError> {
        let types = &self.spec.core_types;
        let field = || format!("{at}.core_type");
        let core_type = match &core.core_type {
            Some(name) => types.iter().find(|one| one.name == *name).ok_or_else(|| {
                let known: Vec<&str> = types.iter().map(|one| one.name.as_str()).collect();
                let why = format!("found `{name}`, expected one of: {}", known.join(", "));
                SpecError::new(field(), why)
            })?,
            None if types.len() == 1 => &types[0],
            None => {
                let why = "found none, while the machine has several core types";
                return Err(SpecError::new(field(), why));
            }
        };
        let Some(cpus) = &core.cpus else { return Ok(u64::from(core_type.threads)) };
        let found = cpus.len() as u64;
        let expected = u64::from(core_type.threads);
        if found == 0 || found > expected {
            let name = &core_type.name;
            let why =
                format!("found {found} CPUs, expected 1 to {expected}, the threads of `{name}`");
            return Err(SpecError::new(format!("{at}.cpus"), why));
        }
        Ok(found)
    }
}

/// Each kind of object has its own fields.
fn fields(object: &ObjectSpec, at: &str) -> Checked {
    use ObjectType::{Cache, Core, NumaNode};
    let owned = [
        ("level", Cache, object.level.is_some()),
        ("holds", Cache, object.holds.is_some()),
        ("size_kib", Cache, object.size_kib.is_some()),
        ("ways", Cache, object.ways.is_some()),
        ("min_partition_ways", Cache, object.min_partition_ways.is_some()),
        ("line_bytes", Cache, object.line_bytes.is_some()),
        ("inclusion", Cache, object.inclusion.is_some()),
        ("latency_ns", Cache, object.latency_ns.is_some()),
        ("effective_kib", Cache, object.effective_kib.is_some()),
        ("idle_survival", Cache, !object.idle_survival.is_empty()),
        ("single_use_life", Cache, object.single_use_life.is_some()),
        ("random_use_life", Cache, object.random_use_life.is_some()),
        ("random_page_kib", Cache, object.random_page_kib.is_some()),
        ("rates", Cache, object.rates.is_some()),
        ("core_type", Core, object.core_type.is_some()),
        ("cpus", Core, object.cpus.is_some()),
        ("memory_mib", NumaNode, object.memory_mib.is_some()),
    ];
    for (name, owner, present) in owned {
        if present && owner != object.kind {
            let why = format!("found on a {}, expected on a {}", object.kind.name(), owner.name());
            return wrong(format!("{at}.{name}"), why);
        }
        let needed = matches!(name, "level" | "size_kib");
        if needed && owner == object.kind && !present {
            return wrong(format!("{at}.{name}"), "missing: every cache needs it");
        }
    }
    let field = |name: &str| format!("{at}.{name}");
    if let Some(memory) = object.memory_mib.filter(|&memory| memory > MAX_MEMORY_MIB) {
        let why = format!("found {memory}, expected at most {MAX_MEMORY_MIB}");
        return wrong(field("memory_mib"), why);
    }
    if object.kind != Cache {
        return Ok(());
    }
    let level = object.level.unwrap_or(0);
    if !(1..=MAX_LEVEL).contains(&level) {
        return wrong(field("level"), format!("found {level}, expected 1 to {MAX_LEVEL}"));
    }
    let size_kib = object.size_kib.unwrap_or(0);
    not_zero(field("size_kib"), size_kib)?;
    if size_kib > MAX_CACHE_KIB {
        return wrong(
            field("size_kib"),
            format!("found {size_kib}, expected at most {MAX_CACHE_KIB}"),
        );
    }
    let size_bytes = size_kib * 1024;
    let line_bytes = object.line_bytes.unwrap_or(1);
    let ways = object.ways.unwrap_or(1);
    if !line_bytes.is_power_of_two() {
        return wrong(field("line_bytes"), format!("found {line_bytes}, expected a power of two"));
    }
    not_zero(field("ways"), u64::from(ways))?;
    if size_bytes < u64::from(ways) * u64::from(line_bytes) {
        let why =
            format!("found {ways}, more than {size_kib} KiB hold with lines of {line_bytes} bytes");
        return wrong(field("ways"), why);
    }
    let least = object.min_partition_ways.unwrap_or(1);
    not_zero(field("min_partition_ways"), u64::from(least))?;
    if object.ways.is_some_and(|ways| least > ways) {
        let why = format!("found {least}, more than the {ways} ways of the cache");
        return wrong(field("min_partition_ways"), why);
    }
    if let Some(effective_kib) = object.effective_kib {
        not_zero(field("effective_kib"), effective_kib)?;
        if effective_kib > MAX_CACHE_KIB {
            let why = format!("found {effective_kib}, expected at most {MAX_CACHE_KIB}");
            return wrong(field("effective_kib"), why);
        }
    }
    survival(&field("idle_survival"), &object.idle_survival)?;
    for (name, life) in
        [("single_use_life", object.single_use_life), ("random_use_life", object.random_use_life)]
    {
        life.map_or(Ok(()), |life| within(field(name), life, &SINGLE_USE_LIFE))?;
    }
    random_pages(object, field("random_page_kib"))?;
    if let Some(rates) = &object.rates {
        measured::rates(rates, &field("rates"))?;
    }
    object
        .latency_ns
        .map_or(Ok(()), |latency| within(field("latency_ns"), latency, &CACHE_LATENCY_NS))
}

/// Pages at random are the law of an LRU cache whose ways are known, and what was measured of a cache's size holds what they
/// cost already.
fn random_pages(object: &ObjectSpec, field: String) -> Checked {
    let Some(page_kib) = object.random_page_kib else { return Ok(()) };
    not_zero(field.clone(), page_kib)?;
    if page_kib > MAX_CACHE_KIB {
        return wrong(field, format!("found {page_kib}, expected at most {MAX_CACHE_KIB}"));
    }
    if object.ways.is_none() {
        return wrong(field, "found on a cache without `ways`, expected on one with them");
    }
    let others = [
        ("effective_kib", object.effective_kib.is_some()),
        ("idle_survival", !object.idle_survival.is_empty()),
        ("single_use_life", object.single_use_life.is_some_and(|life| life < 1.0)),
        ("random_use_life", object.random_use_life.is_some()),
    ];
    match others.into_iter().find(|other| other.1) {
        Some((other, _)) => {
            wrong(field, format!("found beside `{other}`, expected only one of the two"))
        }
        None => Ok(()),
    }
}

/// Times rise and shares do not.
fn survival(field: &str, points: &[(f64, f64)]) -> Checked {
    let mut before = (0.0, 1.0);
    for (place, &(ms, share)) in points.iter().enumerate() {
        let at = format!("{field}[{place}]");
        if !(ms.is_finite() && ms > before.0) {
            return wrong(at, format!("found {ms} ms, expected more than {} ms", before.0));
        }
        if !(0.0..=before.1).contains(&share) {
            return wrong(at, format!("found a share of {share}, expected 0 to {}", before.1));
        }
        before = (ms, share);
    }
    Ok(())
}

/// Checks what the fields refer to, once the tree is built.
pub(crate) fn after(machine: &Machine) -> Checked {
    let spec = machine.spec();
    let cpus = machine.cpu_set();
    let both = spec.offline_cpus.intersection(&cpus);
    if !both.is_empty() {
        return wrong("offline_cpus", format!("found {both}, which the tree has on line"));
    }
    let nodes: Vec<u32> = machine.nodes().iter().map(|node| node.os_index).collect();
    matrix("memory_latency_ns", &spec.memory_latency_ns, nodes.len())?;
    matrix("node_distance", &spec.node_distance, nodes.len())?;
    let is_llc = |object: usize| machine.llcs().iter().any(|llc| llc.object == Some(object));
    for (place, object) in machine.objects().iter().enumerate() {
        if object.cache.is_some_and(|cache| cache.random_page_bytes.is_some()) && !is_llc(place) {
            let why = "found on a cache that is not the last-level one, expected on that one alone";
            return wrong("random_page_kib", why);
        }
    }
    // What was measured may be off by its noise.
    if spec.measurement.is_none() {
        nested::nearest_is_local("memory_latency_ns", &spec.memory_latency_ns)?;
        nested::nearest_is_local("node_distance", &spec.node_distance)?;
    }
    for (place, domain) in spec.bandwidth_domains.iter().enumerate() {
        if let Some(from) = &domain.from_cpus {
            let missing = |cpu| !cpus.contains(cpu) && !spec.offline_cpus.contains(cpu);
            if let Some(cpu) = from.iter().find(|&cpu| missing(cpu)) {
                let why = format!("found CPU {cpu}, which the machine does not have ({cpus})");
                return wrong(format!("bandwidth[{place}].from_cpus"), why);
            }
        }
        for node in domain.to_nodes.iter().flatten() {
            if !nodes.contains(node) {
                let why = format!("found node {node}, expected some of {nodes:?}");
                return wrong(format!("bandwidth[{place}].to_nodes"), why);
            }
        }
    }
    Ok(())
}

fn matrix<T>(field: &str, rows: &[Vec<T>], nodes: usize) -> Checked {
    if rows.is_empty() || (rows.len() == nodes && rows.iter().all(|row| row.len() == nodes)) {
        return Ok(());
    }
    let row = rows.iter().find(|row| row.len() != nodes).map_or(nodes, Vec::len);
    let why =
        format!("found {} rows, one of {row}, expected {nodes} x {nodes}, by nodes", rows.len());
    wrong(field, why)
}
