//! From figures to a machine: what Linux shows of it, with what was measured laid over it.

mod cores;
mod domains;

use std::collections::BTreeMap;

use corun_machine::{
    AccessRates, CacheType, KernelCosts, LineTransfer, Machine, MachineSpec, ObjectSpec,
    ObjectType, SpecError,
};

use crate::estimate::FigureRange;
use crate::figure::{CacheFigure, Distance, Figure, KernelFigure, Rate, node_domain};

/// What a machine file's figures are rounded to: nothing that is measured here repeats better.
const SIGNIFICANT_DIGITS: i32 = 4;

/// The machine with its figures, their spread and their sources.
///
/// # Errors
/// [`SpecError`] where the figures make no machine.
pub(crate) fn spec(
    found: &Machine,
    figures: &BTreeMap<Figure, FigureRange>,
    by: &str,
) -> Result<MachineSpec, SpecError> {
    let mut spec = found.spec().clone();
    "this".clone_into(&mut spec.name);
    for (figure, estimate) in figures {
        place(&mut spec, found, figure, rounded(estimate.value));
    }
    for (core_type, one) in spec.core_types.iter_mut().enumerate() {
        one.tlb = cores::tlb(core_type, figures);
        one.own_loaded_latency = domains::own_curve(core_type, figures);
    }
    spec.memory_latency_ns = memory_latencies(found, figures);
    spec.bandwidth_domains = domains::all(found, figures);
    for object in &mut spec.objects {
        instruction_caches(object, None);
        raise_to_nearer(object);
    }
    sources(&mut spec, figures, by);
    // Checked before the spread, which names what the machine has.
    let machine = Machine::from_spec(spec)?;
    let mut spec = machine.spec().clone();
    spec.spread = spread(&spec, found, figures);
    Ok(spec)
}

/// A value with as many digits as mean something.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = SIGNIFICANT_DIGITS - 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(digits.abs());
    if digits >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

fn whole(value: f64) -> u32 {
    value.round().clamp(1.0, f64::from(u32::MAX)) as u32
}

fn place(spec: &mut MachineSpec, found: &Machine, figure: &Figure, value: f64) {
    match *figure {
        Figure::Core(core_type, what) => {
            if let Some(one) = spec.core_types.get_mut(core_type) {
                cores::place(one, what, value);
            }
        }
        Figure::Cache(core_type, level, what) => {
            let name = &found.core_types()[core_type].name;
            for object in &mut spec.objects {
                of_caches(object, false, name, level, &|cache| match what {
                    CacheFigure::LatencyCycles | CacheFigure::LeftAtOnce => {}
                    CacheFigure::LatencyNs => cache.latency_ns = Some(value),
                    CacheFigure::EffectiveKib => {
                        // Measured, the step of a whole cache can lie a little beyond its size.
                        let held = u64::from(whole(value));
                        cache.effective_kib =
                            Some(cache.size_kib.map_or(held, |size| size.min(held)));
                    }
                    // By rising pauses: so the figures are sorted. Of a cache that cores of two types
                    // see, the first type's count.
                    CacheFigure::IdleSurvival(ms) => {
                        let (ms, points) = (f64::from(ms), &mut cache.idle_survival);
                        if points.last().is_none_or(|last| last.0 < ms) {
                            points.push((ms, value));
                        }
                    }
                    CacheFigure::SingleUseLife => cache.single_use_life = Some(value),
                    CacheFigure::RandomUseLife => cache.random_use_life = Some(value),
                    CacheFigure::Rate(rate) => {
                        set_rate(cache.rates.get_or_insert_default(), rate, value);
                    }
                });
            }
        }
        Figure::LineTransfer(distance) => {
            let transfer: &mut LineTransfer = spec.line_transfer.get_or_insert_default();
            *match distance {
                Distance::SameCore => &mut transfer.same_core_ns,
                Distance::SameLlc => &mut transfer.same_llc_ns,
                Distance::OtherLlc => &mut transfer.other_llc_ns,
                Distance::OtherNode => &mut transfer.other_node_ns,
            } = Some(value);
        }
        Figure::Kernel(what) => {
            let kernel: &mut KernelCosts = spec.kernel.get_or_insert_default();
            *match what {
                KernelFigure::PageFault => &mut kernel.page_fault_ns,
                KernelFigure::HugePageFault => &mut kernel.huge_page_fault_ns,
                KernelFigure::FileFault => &mut kernel.file_fault_ns,
                KernelFigure::SystemCall => &mut kernel.system_call_ns,
                KernelFigure::FileCall => &mut kernel.file_call_ns,
                KernelFigure::MappingCall => &mut kernel.mapping_call_ns,
                KernelFigure::SleepingCall => &mut kernel.sleeping_call_ns,
                KernelFigure::TransferPerByte => &mut kernel.transfer_ns_per_byte,
                KernelFigure::FileWritePerByte => &mut kernel.file_write_ns_per_byte,
                KernelFigure::Process => &mut kernel.process_ns,
            } = Some(value);
        }
        // Parts of lists, which are made in one go, and what has no place in a machine file.
        Figure::MemoryLatency(..)
        | Figure::NodeRate(..)
        | Figure::LinkRate(_)
        | Figure::LlcRate(_)
        | Figure::Loaded(..)
        | Figure::SpeedBeside(..) => {}
    }
}

fn set_rate(rates: &mut AccessRates, rate: Rate, mb_per_s: f64) {
    *match rate {
        Rate::Read => &mut rates.read_mb_per_s,
        Rate::Write => &mut rates.write_mb_per_s,
        Rate::NonTemporalWrite => &mut rates.non_temporal_write_mb_per_s,
        Rate::Copy => &mut rates.copy_mb_per_s,
        Rate::Mixed => &mut rates.mixed_mb_per_s,
        Rate::RandomRead => &mut rates.random_read_mb_per_s,
    } = Some(mb_per_s);
}

/// The matrix of latencies, where any was measured. What was not follows from the kernel's distances.
fn memory_latencies(found: &Machine, figures: &BTreeMap<Figure, FigureRange>) -> Vec<Vec<f64>> {
    let nodes = found.nodes().len();
    let measured = |from, to| figures.get(&Figure::MemoryLatency(from, to)).map(|one| one.value);
    let Some(local) = (0..nodes).find_map(|node| measured(node, node)) else { return Vec::new() };
    let latency = |from, to| {
        let by_distance = local * found.latency_ratio(from, to);
        rounded(measured(from, to).unwrap_or(by_distance))
    };
    (0..nodes).map(|from| (0..nodes).map(|to| latency(from, to)).collect()).collect()
}

/// Changes the data caches of a level that cores of a type see, below `object`; `inside` says whether
/// the object is part of such a core.
fn of_caches(
    object: &mut ObjectSpec,
    inside: bool,
    core_type: &str,
    level: u32,
    change: &dyn Fn(&mut ObjectSpec),
) {
    let inside = inside || is_core_of(object, core_type);
    let is_meant = object.kind == ObjectType::Cache
        && object.level == Some(level)
        && object.holds() != CacheType::Instruction;
    if is_meant && (inside || has_core_of(object, core_type)) {
        change(object);
    }
    for child in &mut object.objects {
        of_caches(child, inside, core_type, level, change);
    }
}

/// Whether an object is a core of a type; without a name of its own it is of the only type.
fn is_core_of(object: &ObjectSpec, core_type: &str) -> bool {
    let named = object.core_type.as_ref().is_none_or(|name| name == core_type);
    object.kind == ObjectType::Core && named
}

fn has_core_of(object: &ObjectSpec, core_type: &str) -> bool {
    let below = |child: &ObjectSpec| is_core_of(child, core_type) || has_core_of(child, core_type);
    object.objects.iter().any(below)
}

/// Nothing here measures level-1 instruction caches: they count as fast as the data cache beside
/// them. `beside` is the latency of the data cache around the object, where there is one.
fn instruction_caches(object: &mut ObjectSpec, beside: Option<f64>) {
    let of_data = |object: &ObjectSpec| {
        let data = object.kind == ObjectType::Cache && object.holds() == CacheType::Data;
        object.latency_ns.filter(|_| data)
    };
    let here = of_data(object).or_else(|| object.objects.iter().find_map(of_data)).or(beside);
    if object.kind == ObjectType::Cache && object.holds() == CacheType::Instruction {
        object.latency_ns = object.latency_ns.or(here);
    }
    for child in &mut object.objects {
        instruction_caches(child, here);
    }
}

/// Where a farther cache was measured as faster than a nearer one, within what was measured or by cores of another type, it
/// counts as fast as that one. The latency of the slowest cache at or below the object.
fn raise_to_nearer(object: &mut ObjectSpec) -> f64 {
    let nearer = object.objects.iter_mut().map(raise_to_nearer).fold(0.0, f64::max);
    let own = object.latency_ns.as_mut();
    own.map_or(nearer, |own| {
        *own = own.max(nearer);
        *own
    })
}

/// The intervals of the figures that the machine has. Points of curves have their own.
fn spread(
    spec: &MachineSpec,
    found: &Machine,
    figures: &BTreeMap<Figure, FigureRange>,
) -> BTreeMap<String, (f64, f64)> {
    let known = spec.figures();
    let has = |path: &str| {
        let part = |known: &String| {
            path.strip_prefix(known.as_str()).map(|rest| rest.starts_with('.') || rest.is_empty())
        };
        known.iter().any(|known| part(known) == Some(true))
    };
    let mut spread = BTreeMap::new();
    for (figure, estimate) in figures.iter().filter(|(figure, _)| !figure.is_of_curve()) {
        let mut paths = vec![figure.path(found)];
        if let Figure::NodeRate(node, Rate::Mixed) = *figure {
            let domain = node_domain(found.nodes()[node].os_index);
            paths.push(format!("bandwidth.{domain}.peak_mb_per_s"));
        }
        for path in paths.into_iter().filter(|path| has(path)) {
            let (low, high) = (rounded(estimate.low), rounded(estimate.high));
            // Caches of one name around cores of two types share an entry.
            let entry = spread.entry(path).or_insert((low, high));
            *entry = (entry.0.min(low), entry.1.max(high));
        }
    }
    spread
}

fn sources(spec: &mut MachineSpec, figures: &BTreeMap<Figure, FigureRange>, by: &str) {
    let by = |how: &str| format!("{by}: {how}");
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    for key in [
        "tree",
        "cache",
        "core_type.threads",
        "core_type.capacity",
        "numa-node.memory_mib",
        "node_distance",
    ] {
        sources.insert(key.to_owned(), "Linux, in sysfs".to_owned());
    }
    sources.insert("core_type".to_owned(), "default of a machine file".to_owned());
    let assumed = "assumed: as that of the data cache";
    sources.insert("cache.L1i.latency_ns".to_owned(), assumed.to_owned());
    let peak = "all CPUs of the node, or of the LLC, at once: mixed reads and writes";
    sources.insert("bandwidth.peak_mb_per_s".to_owned(), by(peak));
    for figure in figures.keys() {
        let (key, how) = figure.source();
        sources.insert(key.to_owned(), by(how));
    }
    // A key that no figure goes by says nothing.
    spec.sources = sources;
    let known = spec.figures();
    let used: Vec<String> =
        known.iter().filter_map(|figure| spec.source_of(figure).map(str::to_owned)).collect();
    // Keys share a source: some of them may cover no figure.
    let mut probe = spec.clone();
    spec.sources.retain(|key, source| {
        probe.sources = [(key.clone(), String::new())].into();
        used.contains(source) && known.iter().any(|figure| probe.source_of(figure).is_some())
    });
}

#[cfg(test)]
mod tests;
