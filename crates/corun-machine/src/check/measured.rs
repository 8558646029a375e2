//! What the measured parts of a machine file must satisfy.

use std::ops::RangeInclusive;

use serde::Serialize;
use toml::Value;

use super::{
    BANDWIDTH_MB_PER_S, CLOCK_MHZ, Checked, OPERATIONS_PER_CYCLE, PENALTY_CYCLES, not_zero, within,
    wrong,
};
use crate::SpecError;
use crate::measured::{AccessRates, ExecutionLatencies, Fetching, LoadedLatency, Prefetching, Tlb};
use crate::spec::{BandwidthDomain, CoreType, MachineSpec};

const LATENCY_NS: RangeInclusive<f64> = 0.0..=1e9;
const TRAFFIC_MB_PER_S: RangeInclusive<f64> = 0.0..=1e9;
const SECONDS: RangeInclusive<f64> = 0.0..=1e9;
const ERROR: RangeInclusive<f64> = 0.0..=1e9;
const CORRELATION: RangeInclusive<f64> = -1.0..=1.0;
const SHARE: RangeInclusive<f64> = 0.0..=1.0;

/// The machine's own fields.
pub(super) fn machine(spec: &MachineSpec) -> Checked {
    if let Some(measurement) = &spec.measurement {
        within("measurement.seconds".to_owned(), measurement.seconds, &SECONDS)?;
        within("measurement.busy_share".to_owned(), measurement.busy_share, &SHARE)?;
    }
    if let Some(found) = &spec.prediction_error {
        within("prediction_error.mean_error".to_owned(), found.mean_error, &ERROR)?;
        if let Some(error) = found.mean_slowdown_error {
            within("prediction_error.mean_slowdown_error".to_owned(), error, &ERROR)?;
        }
        if let Some(rank) = found.rank_correlation {
            within("prediction_error.rank_correlation".to_owned(), rank, &CORRELATION)?;
        }
        if let Some(share) = found.busy_share {
            within("prediction_error.busy_share".to_owned(), share, &SHARE)?;
        }
    }
    if let Some(transfer) = &spec.line_transfer {
        each(transfer, "line_transfer", "_ns", &LATENCY_NS)?;
    }
    if let Some(kernel) = &spec.kernel {
        each(kernel, "kernel", "_ns", &LATENCY_NS)?;
        each(kernel, "kernel", "_ns_per_byte", &LATENCY_NS)?;
        if let Some(share) = kernel.page_fault_memory_share {
            within("kernel.page_fault_memory_share".to_owned(), share, &SHARE)?;
        }
    }
    spread(spec)
}

fn spread(spec: &MachineSpec) -> Checked {
    if spec.spread.is_empty() {
        return Ok(());
    }
    let figures = spec.figures();
    let covers = |key: &str, figure: &String| {
        key.strip_prefix(figure.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for (key, &(low, high)) in &spec.spread {
        let field = || format!("spread.{key}");
        if !figures.iter().any(|figure| covers(key, figure)) {
            return wrong(field(), "found the spread of a figure that the file does not have");
        }
        if !(low.is_finite() && high.is_finite() && low <= high) {
            let why = format!("found {low:?} to {high:?}, expected the low end first");
            return wrong(field(), why);
        }
    }
    Ok(())
}

/// The measured fields of a core type.
pub(super) fn core_type(one: &CoreType, at: &str) -> Checked {
    for (name, value, range) in [
        ("clock_alone_mhz", one.clock_alone_mhz, &CLOCK_MHZ),
        ("clock_burst_mhz", one.clock_burst_mhz, &CLOCK_MHZ),
        ("page_walk_cycles", one.page_walk_cycles, &PENALTY_CYCLES),
        ("memory_page_walk_cycles", one.memory_page_walk_cycles, &PENALTY_CYCLES),
    ] {
        if let Some(value) = value {
            within(format!("{at}.{name}"), value, range)?;
        }
    }
    if let Some(share) = one.large_predictor_share {
        within(format!("{at}.large_predictor_share"), share, &SHARE)?;
    }
    if let Some(stores) = one.store_buffer {
        not_zero(format!("{at}.store_buffer"), u64::from(stores))?;
    }
    if let Some(hits) = one.outstanding_llc_hits {
        not_zero(format!("{at}.outstanding_llc_hits"), u64::from(hits))?;
    }
    if let Some(pages) = one.memory_page_walk_pages {
        not_zero(format!("{at}.memory_page_walk_pages"), u64::from(pages))?;
    }
    if let Some(execution) = &one.execution {
        latencies(execution, &format!("{at}.execution"))?;
    }
    if let Some(fetching) = &one.fetching {
        fetch(fetching, &format!("{at}.fetching"))?;
    }
    tlb(&one.tlb, at)?;
    if let Some(prefetching) = &one.prefetching {
        prefetchers(prefetching, &format!("{at}.prefetching"))?;
    }
    if let Some(access) = &one.memory_rates {
        rates(access, &format!("{at}.memory_rates"))?;
    }
    curve(&one.own_loaded_latency, &format!("{at}.own_loaded_latency"))
}

/// The measured fields of a bandwidth domain.
pub(super) fn domain(domain: &BandwidthDomain, at: &str) -> Checked {
    if let Some(access) = &domain.rates {
        rates(access, &format!("{at}.rates"))?;
    }
    curve(&domain.loaded_latency, &format!("{at}.loaded_latency"))
}

pub(super) fn rates(access: &AccessRates, at: &str) -> Checked {
    each(access, at, "_mb_per_s", &BANDWIDTH_MB_PER_S)
}

fn latencies(execution: &ExecutionLatencies, at: &str) -> Checked {
    each(execution, at, "_cycles", &PENALTY_CYCLES)?;
    each(execution, at, "_per_cycle", &OPERATIONS_PER_CYCLE)
}

fn fetch(fetching: &Fetching, at: &str) -> Checked {
    let ladder = &fetching.taken_branch_cycles;
    for (place, &(kib, cycles)) in ladder.iter().enumerate() {
        let field = format!("{at}.taken_branch_cycles[{place}]");
        within(field.clone(), cycles, &PENALTY_CYCLES)?;
        if kib <= place.checked_sub(1).map_or(0, |before| ladder[before].0) {
            return wrong(field, format!("found {kib} KiB, expected ascending sizes above 0"));
        }
    }
    each(fetching, at, "_cycles", &PENALTY_CYCLES)
}

fn tlb(levels: &[Tlb], at: &str) -> Checked {
    for (place, one) in levels.iter().enumerate() {
        let field = |name: &str| format!("{at}.tlb[{place}].{name}");
        not_zero(field("level"), u64::from(one.level))?;
        not_zero(field("page_kib"), one.page_kib)?;
        not_zero(field("entries"), u64::from(one.entries))?;
        within(field("hit_cycles"), one.hit_cycles, &PENALTY_CYCLES)?;
        let above = levels[..place].iter().rev().find(|other| other.page_kib == one.page_kib);
        if above.is_some_and(|above| above.level >= one.level) {
            let why = format!("found {}, expected ascending levels", one.level);
            return wrong(field("level"), why);
        }
        if above.is_some_and(|above| above.entries > one.entries) {
            let why = format!("found {}, fewer than the level before", one.entries);
            return wrong(field("entries"), why);
        }
    }
    Ok(())
}

fn prefetchers(prefetching: &Prefetching, at: &str) -> Checked {
    let strides = &prefetching.hidden_by_stride;
    for (place, &(stride, share)) in strides.iter().enumerate() {
        let field = format!("{at}.hidden_by_stride[{place}]");
        within(field.clone(), share, &SHARE)?;
        if stride == 0 || strides[..place].iter().any(|&(other, _)| other == stride) {
            let why = format!("found stride {stride}, expected each once and none of 0");
            return wrong(field, why);
        }
    }
    if let Some(share) = prefetching.hidden_in_random_pages {
        within(format!("{at}.hidden_in_random_pages"), share, &SHARE)?;
    }
    if let Some(share) = prefetching.next_line {
        within(format!("{at}.next_line"), share, &SHARE)?;
    }
    prefetching
        .streams
        .map_or(Ok(()), |streams| not_zero(format!("{at}.streams"), u64::from(streams)))
}

fn curve(points: &[LoadedLatency], at: &str) -> Checked {
    for (place, point) in points.iter().enumerate() {
        let field = |name: &str| format!("{at}[{place}].{name}");
        within(field("mb_per_s"), point.mb_per_s, &TRAFFIC_MB_PER_S)?;
        within(field("latency_ns"), point.latency_ns, &LATENCY_NS)?;
        if place > 0 && point.mb_per_s <= points[place - 1].mb_per_s {
            let why = format!("found {}, expected more than the point before", point.mb_per_s);
            return wrong(field("mb_per_s"), why);
        }
        if !(point.low_ns <= point.latency_ns && point.latency_ns <= point.high_ns) {
            let LoadedLatency { latency_ns, low_ns, high_ns, .. } = point;
            let why = format!("found {latency_ns}, expected {low_ns} to {high_ns}");
            return wrong(field("latency_ns"), why);
        }
        within(field("low_ns"), point.low_ns, &LATENCY_NS)?;
        within(field("high_ns"), point.high_ns, &LATENCY_NS)?;
    }
    Ok(())
}

/// Checks the numbers of a part whose names end in this unit.
fn each(part: &impl Serialize, at: &str, unit: &str, range: &RangeInclusive<f64>) -> Checked {
    let fields =
        toml::Table::try_from(part).map_err(|error| SpecError::new(at, error.to_string()))?;
    for (name, value) in &fields {
        if let (true, Value::Float(value)) = (name.ends_with(unit), value) {
            within(format!("{at}.{name}"), *value, range)?;
        }
    }
    Ok(())
}
