//! Which figure of a machine file comes from where.

use serde::Serialize;

use crate::spec::{CoreType, MachineSpec, ObjectSpec, ObjectType, Smt};

impl MachineSpec {
    /// The paths of all figures that the machine states, each once: `tree` (what contains what, and
    /// how many), `cache.L2.size_kib`, `numa-node.memory_mib`, `core_type.NAME.clock_mhz`,
    /// `core_type.NAME.execution.fp_add_cycles`, `bandwidth.NAME.peak_mb_per_s`, `memory_latency_ns`,
    /// `node_distance`, `power.idle_w`, `calibration.numa_penalty`, `kernel.page_fault_ns`.
    /// Caches are called by level and, at level 1, by what they hold: `L1d`, `L1i`, `L2`.
    pub fn figures(&self) -> Vec<String> {
        let mut figures = vec!["tree".to_owned()];
        for object in &self.objects {
            of_object(object, &mut figures);
        }
        for one in &self.core_types {
            let mut add = |field: &str| figures.push(format!("core_type.{}.{field}", one.name));
            add("clock_mhz");
            add("dispatch_width");
            add("reorder_buffer");
            add("outstanding_misses");
            add("branch_penalty_cycles");
            add("threads");
            if one.smt_yield.is_some() {
                add("smt_yield");
            }
            if one.smt != Smt::default() {
                add("smt");
            }
            if self.core_types.len() > 1 {
                add("capacity");
            }
            measured_of_core_type(one, &mut figures);
        }
        for domain in &self.bandwidth_domains {
            figures.push(format!("bandwidth.{}.peak_mb_per_s", domain.name));
            if domain.theoretical_mb_per_s.is_some() {
                figures.push(format!("bandwidth.{}.theoretical_mb_per_s", domain.name));
            }
            let at = format!("bandwidth.{}", domain.name);
            stated(&domain.rates, &format!("{at}.rates"), &mut figures);
            if !domain.loaded_latency.is_empty() {
                figures.push(format!("{at}.loaded_latency"));
            }
        }
        if !self.memory_latency_ns.is_empty() {
            figures.push("memory_latency_ns".to_owned());
        }
        if !self.node_distance.is_empty() {
            figures.push("node_distance".to_owned());
        }
        stated(&self.power, "power", &mut figures);
        stated(&self.calibration, "calibration", &mut figures);
        stated(&self.line_transfer, "line_transfer", &mut figures);
        stated(&self.kernel, "kernel", &mut figures);
        figures.sort_unstable();
        figures.dedup();
        figures
    }

    /// Where a figure comes from. A key of `sources` covers a path when its parts occur in the
    /// path in their order, the first one first: `core_type.clock_mhz` covers that field of all
    /// core types, `cache.L2` all of the L2 caches' figures. The key with the most parts counts.
    pub fn source_of(&self, figure: &str) -> Option<&str> {
        let covering = self.sources.iter().filter(|(key, _)| covers(key, figure));
        let nearest = covering.max_by_key(|(key, _)| key.split('.').count());
        nearest.map(|(_, source)| source.as_str())
    }
}

fn measured_of_core_type(one: &CoreType, figures: &mut Vec<String>) {
    let at = format!("core_type.{}", one.name);
    let mut add = |field: &str, stated: bool| {
        if stated {
            figures.push(format!("{at}.{field}"));
        }
    };
    add("clock_alone_mhz", one.clock_alone_mhz.is_some());
    add("clock_burst_mhz", one.clock_burst_mhz.is_some());
    add("fetch_width", one.fetch_width.is_some());
    add("fuses_branches", !one.fuses_branches);
    add("runs_wrong_path", !one.runs_wrong_path);
    add("store_buffer", one.store_buffer.is_some());
    add("large_predictor_share", one.large_predictor_share.is_some());
    add("outstanding_llc_hits", one.outstanding_llc_hits.is_some());
    add("page_walk_cycles", one.page_walk_cycles.is_some());
    add("memory_page_walk_cycles", one.memory_page_walk_cycles.is_some());
    add("memory_page_walk_pages", one.memory_page_walk_pages.is_some());
    add("tlb", !one.tlb.is_empty());
    add("prefetching", one.prefetching.is_some());
    add("own_loaded_latency", !one.own_loaded_latency.is_empty());
    stated(&one.execution, &format!("{at}.execution"), figures);
    stated(&one.fetching, &format!("{at}.fetching"), figures);
    stated(&one.memory_rates, &format!("{at}.memory_rates"), figures);
}

/// Adds the fields of a table that are there: the others are left out when it is written.
fn stated<T: Serialize>(table: &Option<T>, at: &str, figures: &mut Vec<String>) {
    let written = table.as_ref().and_then(|table| serde_json::to_value(table).ok());
    let fields = written.as_ref().and_then(serde_json::Value::as_object);
    figures.extend(fields.into_iter().flatten().map(|(field, _)| format!("{at}.{field}")));
}

/// Does a key of `sources` cover a figure's path?
pub(crate) fn covers(key: &str, figure: &str) -> bool {
    let mut parts = figure.split('.');
    let mut wanted = key.split('.');
    wanted.next() == parts.next() && wanted.all(|part| parts.any(|other| other == part))
}

fn of_object(object: &ObjectSpec, figures: &mut Vec<String>) {
    if object.kind == ObjectType::Cache {
        let name = crate::view::cache_name(object.level.unwrap_or(0), object.holds());
        let mut add = |field: &str, stated: bool| {
            if stated {
                figures.push(format!("cache.{name}.{field}"));
            }
        };
        add("size_kib", object.size_kib.is_some());
        add("ways", object.ways.is_some());
        add("min_partition_ways", object.min_partition_ways.is_some());
        add("line_bytes", object.line_bytes.is_some());
        add("inclusion", object.inclusion.is_some());
        add("latency_ns", object.latency_ns.is_some());
        add("effective_kib", object.effective_kib.is_some());
        add("idle_survival", !object.idle_survival.is_empty());
        add("single_use_life", object.single_use_life.is_some());
        add("random_use_life", object.random_use_life.is_some());
        add("random_page_kib", object.random_page_kib.is_some());
        stated(&object.rates, &format!("cache.{name}.rates"), figures);
    }
    if object.memory_mib.is_some() {
        figures.push("numa-node.memory_mib".to_owned());
    }
    for child in &object.objects {
        of_object(child, figures);
    }
}
