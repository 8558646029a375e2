//! Figures of memory for a machine that does not tell them, so that it can be simulated.

use crate::SpecError;
use crate::machine::Machine;
use crate::spec::{BandwidthDomain, BandwidthKind, ObjectSpec, ObjectType};

/// Peak of a node's memory controllers for each of its cores: between the 1.9 GB/s of an Ampere
/// Altra and the 6.2 GB/s of a Xeon E5-2690 among the presets.
const PEAK_MB_PER_S_A_CORE: f64 = 4000.0;
/// The least peak of a node: one channel of DDR4-2133 or so.
const LEAST_PEAK_MB_PER_S: f64 = 10_000.0;
/// Latency of a node's own memory: that of most presets lies between 80 and 115 ns.
const LOCAL_LATENCY_NS: f64 = 90.0;
/// The distance between nodes where the kernel does not tell it; 10 is local.
const REMOTE_DISTANCE: u32 = 20;
/// Latency of a hit at levels 1, 2, and 3 and beyond.
const CACHE_LATENCY_NS: [f64; 3] = [1.3, 4.5, 18.0];

impl Machine {
    /// The machine with assumed figures where it tells none: one memory controller a NUMA node
    /// (4000 MB/s for each of its cores, at least 10000 MB/s), memory latencies (90 ns, times the
    /// kernel's relative distance), and cache latencies by level (1.3, 4.5, 18 ns). What was assumed
    /// is in the warnings. Figures that are known stay.
    ///
    /// # Errors
    /// [`SpecError`] where the machine had bandwidth domains or latencies that this contradicts;
    /// machines from [`crate::discover`] have none.
    pub fn with_assumed_memory(&self) -> Result<Self, SpecError> {
        let mut spec = self.spec().clone();
        let mut assumed = Vec::new();
        if spec.bandwidth_domains.is_empty() {
            for node in self.nodes() {
                let cores = self.cores().iter().filter(|core| core.cpus.is_subset(&node.cpus));
                let peak = cores.count() as f64 * PEAK_MB_PER_S_A_CORE;
                let name = format!("memory{}", node.os_index);
                let kind = BandwidthKind::MemoryController;
                let peak = peak.max(LEAST_PEAK_MB_PER_S);
                spec.bandwidth_domains.push(BandwidthDomain {
                    to_nodes: Some(vec![node.os_index]),
                    ..BandwidthDomain::new(&name, kind, 1, peak)
                });
            }
            assumed.push(format!(
                "memory bandwidth is unknown: {PEAK_MB_PER_S_A_CORE} MB/s a core of a node, at \
                 least {LEAST_PEAK_MB_PER_S} MB/s"
            ));
        }
        if spec.memory_latency_ns.is_empty() {
            spec.memory_latency_ns = self.assumed_latencies();
            assumed.push(format!(
                "memory latency is unknown: {LOCAL_LATENCY_NS} ns, times the relative distance"
            ));
        }
        let mut filled = false;
        for object in &mut spec.objects {
            fill_latencies(object, f64::INFINITY, &mut filled);
        }
        if filled {
            assumed.push(format!(
                "cache latencies are unknown: {CACHE_LATENCY_NS:?} ns at levels 1, 2, and 3 on"
            ));
        }
        let mut machine = Self::from_spec(spec)?;
        for warning in self.warnings().iter().chain(&assumed) {
            if !machine.warnings().contains(warning) {
                machine.warn(warning.clone());
            }
        }
        Ok(machine)
    }

    fn assumed_latencies(&self) -> Vec<Vec<f64>> {
        let nodes = self.nodes().len();
        let told = &self.spec().node_distance;
        let distance = |from: usize, to: usize| {
            let assumed = if from == to { 10 } else { REMOTE_DISTANCE };
            told.get(from).and_then(|row| row.get(to)).copied().unwrap_or(assumed)
        };
        let latency = |from: usize, to: usize| {
            LOCAL_LATENCY_NS * f64::from(distance(from, to)) / f64::from(distance(from, from))
        };
        (0..nodes).map(|from| (0..nodes).map(|to| latency(from, to)).collect()).collect()
    }
}

/// What is assumed lies between what is known of the caches inside and `most`, of the one around.
fn fill_latencies(object: &mut ObjectSpec, most: f64, filled: &mut bool) {
    if object.kind == ObjectType::Cache && object.latency_ns.is_none() {
        let level = object.level.unwrap_or(1) as usize;
        let usual = CACHE_LATENCY_NS[level.clamp(1, CACHE_LATENCY_NS.len()) - 1];
        object.latency_ns = Some(usual.max(slowest_inside(object)).min(most));
        *filled = true;
    }
    let most = object.latency_ns.unwrap_or(most);
    for child in &mut object.objects {
        fill_latencies(child, most, filled);
    }
}

fn slowest_inside(object: &ObjectSpec) -> f64 {
    let of = |inside: &ObjectSpec| inside.latency_ns.unwrap_or(0.0).max(slowest_inside(inside));
    object.objects.iter().map(of).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assumed_fits_what_is_known() {
        let text = "version = 1\nname = \"m\"\n\
            [[core_type]]\nname = \"c\"\nclock_mhz = 1000.0\n\
            [[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 4096\n\
            [[object.object]]\nkind = \"cache\"\nlevel = 2\nsize_kib = 512\nlatency_ns = 25.0\n\
            [[object.object.object]]\nkind = \"core\"\n";
        let full = Machine::from_toml(text, "m.toml").unwrap().with_assumed_memory().unwrap();
        assert_eq!(full.llcs()[0].cache.unwrap().latency_ns, Some(25.0));
    }

    #[test]
    fn what_is_unknown_is_filled_and_said() {
        let text = "version = 1\nname = \"m\"\nnode_distance = [[10, 21], [21, 10]]\n\
            [[core_type]]\nname = \"c\"\nclock_mhz = 1000.0\n\
            [[object]]\nkind = \"numa-node\"\ncount = 2\n\
            [[object.object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 1024\n\
            [[object.object.object]]\nkind = \"core\"\ncount = 4\n";
        let bare = Machine::from_toml(text, "m.toml").unwrap();
        let full = bare.with_assumed_memory().unwrap();
        assert_eq!(full.bandwidth_domains().len(), 2);
        assert_eq!(full.bandwidth_domains()[0].peak_mb_per_s, 16_000.0);
        assert_eq!(full.memory_path(0, 1), [1]);
        assert_eq!(full.memory_latency_ns(0, 1), Some(189.0));
        assert_eq!(full.llcs()[0].cache.unwrap().latency_ns, Some(18.0));
        assert_eq!(full.warnings().len(), 3);
        // Nothing is left to assume.
        assert_eq!(full.with_assumed_memory().unwrap(), full);
    }

    #[test]
    fn known_figures_stay() {
        let preset = crate::preset("xeon-x5365").unwrap();
        let full = preset.with_assumed_memory().unwrap();
        assert_eq!(full.bandwidth_domains(), preset.bandwidth_domains());
        assert_eq!(full.spec().memory_latency_ns, preset.spec().memory_latency_ns);
    }
}
