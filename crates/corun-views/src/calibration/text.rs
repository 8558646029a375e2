//! What was measured, for people: tables, two curves, and notes.

use std::path::Path;

use corun_calibrate::{Calibrated, Curve, CurveKind};
use corun_machine::{AccessRates, Cache, CacheType, Machine, MachineSpec};

use super::curve::{AxisShape, drawn, powers};
use corun_report::Columns;

/// Columns that notes are broken at.
const COLUMNS: usize = 100;
/// What stands for a figure that was not measured.
const UNKNOWN: &str = "-";

/// For people. `output`: where the machine file was written.
pub fn report(measured: &Calibrated, output: &Path) -> String {
    let machine = &measured.machine;
    let mut parts = vec![headline(machine), caches(machine), rates(machine)];
    parts.push(others(measured));
    parts.extend(measured.curves.iter().filter_map(ladder));
    parts.extend(loaded(machine));
    parts.push(notes(machine.spec()));
    parts.push(format!(
        "{}: this machine, with the spread and the source of each figure\n",
        output.display()
    ));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

pub(crate) fn headline(machine: &Machine) -> String {
    let Some(measurement) = &machine.spec().measurement else { return String::new() };
    format!(
        "{}: measured in {:.0} s, {} rounds; others used {:.1} % of the time\n",
        machine.title(),
        measurement.seconds,
        measurement.rounds,
        measurement.busy_share * 100.0
    )
}

/// A value with so many digits as tell something.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn known(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), figure)
}

fn interval(spec: &MachineSpec, path: &str) -> String {
    spec.spread
        .get(path)
        .map_or_else(String::new, |(low, high)| format!("{} to {}", figure(*low), figure(*high)))
}

/// MB/s as GB/s.
fn gb_per_s(mb_per_s: Option<f64>) -> String {
    known(mb_per_s.map(|rate| rate / 1e3))
}

/// The data caches, each kind once.
fn caches(machine: &Machine) -> String {
    let mut kinds: Vec<Cache> = Vec::new();
    for cache in machine.objects().iter().filter_map(|object| object.cache) {
        if cache.holds != CacheType::Instruction && !kinds.contains(&cache) {
            kinds.push(cache);
        }
    }
    kinds.sort_by_key(|cache| cache.level);
    let name = |cache: &Cache| {
        let kind = if cache.holds == CacheType::Data { "d" } else { "" };
        format!("L{}{kind}", cache.level)
    };
    let kib = |bytes: u64| (bytes / 1024).to_string();
    let interval_of = |cache: &Cache, figure: &str| {
        interval(machine.spec(), &format!("cache.{}.{figure}", name(cache)))
    };
    let rates = |cache: &Cache| cache.rates.unwrap_or_default();
    Columns::of(&kinds)
        .left("cache", name)
        .right("KiB", |cache| kib(cache.size_bytes))
        .right("KiB got", |cache| cache.effective_bytes.map_or_else(|| UNKNOWN.to_owned(), kib))
        .left("", |cache| interval_of(cache, "effective_kib"))
        .right("ns", |cache| known(cache.latency_ns))
        .left("", |cache| interval_of(cache, "latency_ns"))
        .right("read GB/s", |cache| gb_per_s(rates(cache).read_mb_per_s))
        .right("write", |cache| gb_per_s(rates(cache).write_mb_per_s))
        .right("copy", |cache| gb_per_s(rates(cache).copy_mb_per_s))
        .table()
}

/// Rates out of memory, of one core and of all.
fn rates(machine: &Machine) -> String {
    let types = machine.core_types();
    let of_cores = types.iter().filter_map(|one| {
        let name =
            if types.len() == 1 { "one core".to_owned() } else { format!("one {}", one.name) };
        Some((name, one.memory_rates?))
    });
    let domains = machine.bandwidth_domains();
    let of_all = domains.iter().filter_map(|domain| {
        let name = format!("all cores, {}", domain.name);
        Some((name, domain.rates?))
    });
    let rows: Vec<(String, AccessRates)> = of_cores.chain(of_all).collect();
    if rows.is_empty() {
        return String::new();
    }
    Columns::of(&rows)
        .left("memory, GB/s", |(name, _)| name.clone())
        .right("read", |(_, rates)| gb_per_s(rates.read_mb_per_s))
        .right("write", |(_, rates)| gb_per_s(rates.write_mb_per_s))
        .right("past caches", |(_, rates)| gb_per_s(rates.non_temporal_write_mb_per_s))
        .right("copy", |(_, rates)| gb_per_s(rates.copy_mb_per_s))
        .right("mixed", |(_, rates)| gb_per_s(rates.mixed_mb_per_s))
        .right("random read", |(_, rates)| gb_per_s(rates.random_read_mb_per_s))
        .table()
}

/// Figures that are in no other table.
fn others(measured: &Calibrated) -> String {
    const ELSEWHERE: [&str; 5] =
        ["cache.", "bandwidth.", ".memory_rates.", "own_loaded_latency", "latency_cycles"];
    let is_elsewhere = |path: &str| ELSEWHERE.iter().any(|part| path.contains(part));
    let figures: Vec<_> = measured.figures.iter().filter(|one| !is_elsewhere(&one.path)).collect();
    Columns::of(&figures)
        .left("figure", |one| one.path.clone())
        .right("value", |one| figure(one.estimate.value))
        .right("from", |one| figure(one.estimate.low))
        .right("to", |one| figure(one.estimate.high))
        .left("", |one| one.unit)
        .table()
}

/// Bytes in the largest unit that leaves a whole number.
fn bytes(value: f64) -> String {
    match value {
        size if size >= 1048576.0 => format!("{:.0} MiB", size / 1048576.0),
        size => format!("{:.0} KiB", size / 1024.0),
    }
}

fn ladder(curve: &Curve) -> Option<String> {
    if curve.kind != CurveKind::Ladder {
        return None;
    }
    let points: Vec<(f64, f64)> =
        curve.points.iter().map(|point| (point.x, point.y.value)).collect();
    let ticks = |values: Vec<f64>, text: &dyn Fn(f64) -> String| {
        values.into_iter().map(|value| (value, text(value))).collect()
    };
    let x = AxisShape {
        title: "",
        logarithmic: true,
        ticks: ticks(powers(points.iter().map(|point| point.0), 2.0, 6), &bytes),
    };
    let y = AxisShape {
        title: "cycles",
        logarithmic: true,
        ticks: ticks(powers(points.iter().map(|point| point.1), 10.0, 6), &|value| {
            format!("{value:.0}")
        }),
    };
    Some(format!("Latency of a load, by the bytes visited\n{}", drawn(&points, &x, &y)))
}

fn loaded(machine: &Machine) -> Option<String> {
    let curve = machine
        .bandwidth_domains()
        .iter()
        .find_map(|domain| Some(&domain.loaded_latency).filter(|curve| curve.len() > 1))?;
    let points: Vec<(f64, f64)> =
        curve.iter().map(|point| (point.mb_per_s / 1e3, point.latency_ns)).collect();
    let most = |values: &mut dyn Iterator<Item = f64>| {
        let highest = values.fold(0.0, f64::max);
        let step = 10f64.powf(highest.log10().floor());
        (highest / step).ceil() * step
    };
    let linear = |highest: f64| {
        let text = |value: f64| (value, figure(value));
        [0.0, highest / 2.0, highest].map(text).to_vec()
    };
    let x = AxisShape {
        title: "GB/s",
        logarithmic: false,
        ticks: linear(most(&mut points.iter().map(|point| point.0))),
    };
    let y = AxisShape {
        title: "ns",
        logarithmic: false,
        ticks: linear(most(&mut points.iter().map(|point| point.1))),
    };
    Some(format!("Latency of memory, by the traffic of all cores\n{}", drawn(&points, &x, &y)))
}

fn notes(spec: &MachineSpec) -> String {
    let notes = spec.measurement.iter().flat_map(|measurement| &measurement.notes);
    let options = textwrap::Options::new(COLUMNS).initial_indent("- ").subsequent_indent("  ");
    notes.map(|note| textwrap::fill(note, &options) + "\n").collect()
}
