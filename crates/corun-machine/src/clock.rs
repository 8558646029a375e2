//! A measured machine at another clock than that of its file.

use crate::{KernelCosts, MachineSpec, ObjectSpec, ObjectType};

impl MachineSpec {
    /// Sets the clocks of all cores to `ratio` times what they are. What takes cycles takes as many as before: hits of the
    /// caches before the last one and the kernel's work, which the file has in ns. Hits of the last cache, memory and
    /// page walks over memory take as many ns as before.
    pub fn scale_clocks(&mut self, ratio: f64) {
        for core in &mut self.core_types {
            core.clock_mhz *= ratio;
            core.memory_page_walk_cycles.iter_mut().for_each(|cycles| *cycles *= ratio);
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.scale(1.0 / ratio);
        }
        self.objects.iter_mut().for_each(|object| scale_private_caches(object, false, ratio));
    }
}

fn scale_private_caches(object: &mut ObjectSpec, is_in_cache: bool, ratio: f64) {
    let is_cache = object.kind == ObjectType::Cache;
    if is_cache && is_in_cache {
        object.latency_ns.iter_mut().for_each(|ns| *ns /= ratio);
    }
    for inner in &mut object.objects {
        scale_private_caches(inner, is_in_cache || is_cache, ratio);
    }
}

impl KernelCosts {
    fn scale(&mut self, ratio: f64) {
        let costs = [
            &mut self.page_fault_ns,
            &mut self.huge_page_fault_ns,
            &mut self.file_fault_ns,
            &mut self.system_call_ns,
            &mut self.file_call_ns,
            &mut self.mapping_call_ns,
            &mut self.sleeping_call_ns,
            &mut self.transfer_ns_per_byte,
            &mut self.file_write_ns_per_byte,
            &mut self.process_ns,
        ];
        costs.into_iter().flatten().for_each(|ns| *ns *= ratio);
    }
}

#[cfg(test)]
mod tests {
    use crate::{KernelCosts, MachineSpec};

    #[test]
    fn all_of_the_kernels_work_takes_as_many_cycles() {
        let some = Some(8.0);
        let mut costs = KernelCosts {
            page_fault_ns: some,
            page_fault_memory_share: None,
            huge_page_fault_ns: some,
            file_fault_ns: some,
            system_call_ns: some,
            file_call_ns: some,
            mapping_call_ns: some,
            sleeping_call_ns: some,
            transfer_ns_per_byte: some,
            file_write_ns_per_byte: some,
            process_ns: some,
        };
        costs.scale(0.5);
        let text = toml::to_string(&costs).unwrap();
        assert!(text.lines().all(|line| line.ends_with(" = 4.0")), "{text}");
    }

    #[test]
    fn cycles_stay_and_memory_keeps_its_time() {
        let file = r#"
version = 1
name = "here"
memory_latency_ns = [[100.0]]
[kernel]
page_fault_ns = 600.0
transfer_ns_per_byte = 0.3
[[core_type]]
name = "core"
clock_mhz = 2000.0
branch_penalty_cycles = 20.0
memory_page_walk_cycles = 200.0
[[object]]
kind = "cache"
level = 3
size_kib = 32768
latency_ns = 30.0
[[object.object]]
kind = "cache"
level = 2
size_kib = 1024
latency_ns = 7.0
[[object.object.object]]
kind = "core"
"#;
        let mut spec: MachineSpec = toml::from_str(file).unwrap();
        spec.scale_clocks(1.25);
        let core = &spec.core_types[0];
        // 14 cycles of 0.4 ns in place of 0.5, 200 cycles of the walk are 100 ns and 250 cycles now.
        assert_eq!((core.clock_mhz, core.memory_page_walk_cycles), (2500.0, Some(250.0)));
        assert_eq!(core.branch_penalty_cycles, 20.0);
        let kernel = spec.kernel.unwrap();
        assert_eq!((kernel.page_fault_ns, kernel.transfer_ns_per_byte), (Some(480.0), Some(0.24)));
        assert_eq!(spec.memory_latency_ns, [[100.0]]);
        let llc = &spec.objects[0];
        assert_eq!((llc.latency_ns, llc.objects[0].latency_ns), (Some(30.0), Some(5.6)));
    }
}
