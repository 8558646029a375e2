//! Bandwidth domains with what was measured of them, and curves.

use std::collections::BTreeMap;

use corun_machine::{BandwidthDomain, BandwidthKind, LoadedLatency, Machine};

use super::{rounded, set_rate};
use crate::analysis::loaded::curve;
use crate::estimate::FigureRange;
use crate::figure::{CoreFigure, CurvePart, Figure, Rate, link_domain, llc_domain, node_domain};

/// Domains are passed in this order: between an LLC and the rest, between nodes, into memory.
const LLC_STAGE: u32 = 0;
const LINK_STAGE: u32 = 1;
const MEMORY_STAGE: u32 = 2;

/// The domains of a machine: a controller for each node; a link from each node, and a bus of each
/// LLC, where those were measured. A node that was not measured is as the first that was.
pub(super) fn all(
    found: &Machine,
    figures: &BTreeMap<Figure, FigureRange>,
) -> Vec<BandwidthDomain> {
    let peak = |node: usize| figures.get(&Figure::NodeRate(node, Rate::Mixed));
    let nodes = 0..found.nodes().len();
    let Some(first) = nodes.clone().find(|&node| peak(node).is_some()) else { return Vec::new() };
    let loaded = loaded_curve(figures);
    let mut domains = Vec::new();
    for node in nodes {
        let measured = if peak(node).is_some() { node } else { first };
        let Some(mixed) = peak(measured) else { continue };
        let number = found.nodes()[node].os_index;
        let kind = BandwidthKind::MemoryController;
        let mut domain =
            BandwidthDomain::new(&node_domain(number), kind, MEMORY_STAGE, rounded(mixed.value));
        domain.to_nodes = Some(vec![number]);
        domain.loaded_latency = loaded.clone();
        for (figure, estimate) in figures {
            if let Figure::NodeRate(at, rate) = *figure
                && at == measured
            {
                set_rate(domain.rates.get_or_insert_default(), rate, rounded(estimate.value));
            }
        }
        domains.push(domain);
        if let Some(link) = figures.get(&Figure::LinkRate(node)) {
            let kind = BandwidthKind::Link;
            domains.push(BandwidthDomain {
                from_cpus: Some(found.nodes()[node].cpus.clone()),
                remote_only: true,
                ..BandwidthDomain::new(&link_domain(number), kind, LINK_STAGE, rounded(link.value))
            });
        }
    }
    // One LLC is measured, and the others count as it does.
    let bus = figures.iter().find_map(|(figure, estimate)| match figure {
        Figure::LlcRate(_) => Some(estimate),
        _ => None,
    });
    for (llc, bus) in (0..found.llcs().len()).filter_map(|llc| Some((llc, bus?))) {
        let kind = BandwidthKind::ClusterBus;
        domains.push(BandwidthDomain {
            from_cpus: Some(found.llcs()[llc].cpus.clone()),
            ..BandwidthDomain::new(&llc_domain(llc), kind, LLC_STAGE, rounded(bus.value))
        });
    }
    domains
}

/// The latency of a core beside others.
fn loaded_curve(figures: &BTreeMap<Figure, FigureRange>) -> Vec<LoadedLatency> {
    curve_of(figures, |figure| match *figure {
        Figure::Loaded(point, part) => Some((point, part)),
        _ => None,
    })
}

/// The latency of a core of a type beside its own traffic.
pub(super) fn own_curve(
    core_type: usize,
    figures: &BTreeMap<Figure, FigureRange>,
) -> Vec<LoadedLatency> {
    curve_of(figures, |figure| match *figure {
        Figure::Core(of, CoreFigure::OwnLoaded(point, part)) if of == core_type => {
            Some((point, part))
        }
        _ => None,
    })
}

fn curve_of(
    figures: &BTreeMap<Figure, FigureRange>,
    part_of: impl Fn(&Figure) -> Option<(usize, CurvePart)>,
) -> Vec<LoadedLatency> {
    let mut traffic = BTreeMap::new();
    let mut latency = BTreeMap::new();
    for (figure, estimate) in figures {
        match part_of(figure) {
            Some((point, CurvePart::MbPerS)) => drop(traffic.insert(point, estimate.value)),
            Some((point, CurvePart::LatencyNs)) => drop(latency.insert(point, *estimate)),
            None => {}
        }
    }
    let both = |(point, mb_per_s): (&usize, &f64)| Some((*mb_per_s, *latency.get(point)?));
    let points: Vec<(f64, FigureRange)> = traffic.iter().filter_map(both).collect();
    curve(&points)
        .into_iter()
        .map(|point| LoadedLatency {
            mb_per_s: rounded(point.mb_per_s),
            latency_ns: rounded(point.latency_ns),
            low_ns: rounded(point.low_ns),
            high_ns: rounded(point.high_ns),
        })
        .collect()
}
