//! Which figure of a machine file comes from where.

use crate::spec::{MachineSpec, ObjectSpec, ObjectType, Smt};

impl MachineSpec {
    /// The paths of all figures that the machine states, each once: `tree` (what contains what, and
    /// how many), `cache.L2.size_kib`, `numa-node.memory_mib`, `core_type.NAME.clock_mhz`,
    /// `bandwidth.NAME.peak_mb_per_s`, `memory_latency_ns`, `node_distance`, `power.idle_w`, `calibration.numa_penalty`.
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
        }
        for domain in &self.bandwidth_domains {
            figures.push(format!("bandwidth.{}.peak_mb_per_s", domain.name));
            if domain.theoretical_mb_per_s.is_some() {
                figures.push(format!("bandwidth.{}.theoretical_mb_per_s", domain.name));
            }
        }
        if !self.memory_latency_ns.is_empty() {
            figures.push("memory_latency_ns".to_owned());
        }
        if !self.node_distance.is_empty() {
            figures.push("node_distance".to_owned());
        }
        if self.power.is_some() {
            let fields = ["idle_w", "package_active_w", "core_w", "w_per_gb_per_s"];
            figures.extend(fields.iter().map(|field| format!("power.{field}")));
        }
        if let Some(calibration) = &self.calibration {
            let mut add = |name: &str, stated: bool| {
                if stated {
                    figures.push(format!("calibration.{name}"));
                }
            };
            add("numa_penalty", calibration.numa_penalty.is_some());
            add("link_threshold_mpki", calibration.link_threshold_mpki.is_some());
            add("low_btr_mb_per_s", calibration.low_btr_mb_per_s.is_some());
            add("high_btr_mb_per_s", calibration.high_btr_mb_per_s.is_some());
            add("amp_threshold_ms", calibration.amp_threshold_ms.is_some());
            add("speedup_on_big", calibration.speedup_on_big.is_some());
            add("speedup_on_small", calibration.speedup_on_small.is_some());
        }
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

fn covers(key: &str, figure: &str) -> bool {
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
    }
    if object.memory_mib.is_some() {
        figures.push("numa-node.memory_mib".to_owned());
    }
    for child in &object.objects {
        of_object(child, figures);
    }
}
