//! From the entries of a checked machine file to the tree of objects.

use crate::machine::{Cache, Object, ObjectIndex};
use crate::spec::{CacheType, Inclusion, MachineSpec, ObjectSpec, ObjectType};
use crate::{CpuId, CpuSet, MAX_CPU, SpecError};

/// The tree: the root first, parents before children.
pub(crate) fn objects(spec: &MachineSpec) -> Result<Vec<Object>, SpecError> {
    let mut builder = Builder { spec, objects: Vec::new(), unsaid: Vec::new(), next_cpu: 0 };
    builder.push(ObjectType::Machine, None);
    for (place, object) in spec.objects.iter().enumerate() {
        builder.add(object, 0, &format!("object[{place}]"))?;
    }
    let Builder { mut objects, unsaid, .. } = builder;
    guess_inclusion(&mut objects, &unsaid);
    Ok(objects)
}

struct Builder<'a> {
    spec: &'a MachineSpec,
    objects: Vec<Object>,
    /// The caches, in ascending order, whose inclusion the file does not say.
    unsaid: Vec<ObjectIndex>,
    next_cpu: u32,
}

impl Builder<'_> {
    fn push(&mut self, kind: ObjectType, parent: Option<ObjectIndex>) -> ObjectIndex {
        let index = self.objects.len();
        self.objects.push(Object {
            kind,
            os_index: None,
            parent,
            children: Vec::new(),
            cpus: CpuSet::new(),
            cache: None,
            idle_survival: Vec::new(),
            core_type: None,
            memory_mib: None,
        });
        if let Some(parent) = parent {
            self.objects[parent].children.push(index);
        }
        index
    }

    fn add(&mut self, spec: &ObjectSpec, parent: ObjectIndex, at: &str) -> Result<(), SpecError> {
        let places: Vec<String> =
            (0..spec.objects.len()).map(|place| format!("{at}.object[{place}]")).collect();
        for _ in 0..spec.count {
            let index = self.push(spec.kind, Some(parent));
            self.objects[index].os_index = spec.os_index;
            self.objects[index].memory_mib = spec.memory_mib;
            match spec.kind {
                ObjectType::Cache => self.add_cache(spec, index),
                ObjectType::Core => self.add_core(spec, index, at)?,
                _ => {}
            }
            for (child, place) in spec.objects.iter().zip(&places) {
                self.add(child, index, place)?;
            }
        }
        Ok(())
    }

    fn add_cache(&mut self, spec: &ObjectSpec, index: ObjectIndex) {
        if spec.inclusion.is_none() {
            self.unsaid.push(index);
        }
        self.objects[index].cache = Some(cache(spec));
        self.objects[index].idle_survival.clone_from(&spec.idle_survival);
    }

    fn add_core(
        &mut self,
        spec: &ObjectSpec,
        core: ObjectIndex,
        at: &str,
    ) -> Result<(), SpecError> {
        let types = &self.spec.core_types;
        let named = |name: &String| types.iter().position(|one| one.name == *name);
        let core_type = spec.core_type.as_ref().and_then(named).unwrap_or(0);
        self.objects[core].core_type = Some(core_type);
        let cpus: CpuSet = match &spec.cpus {
            Some(cpus) => cpus.clone(),
            None => {
                let first = self.next_cpu;
                self.next_cpu += types[core_type].threads;
                (first..self.next_cpu).map(CpuId).collect()
            }
        };
        for cpu in cpus.iter() {
            self.add_cpu(cpu, core, at)?;
        }
        Ok(())
    }

    fn add_cpu(&mut self, cpu: CpuId, core: ObjectIndex, at: &str) -> Result<(), SpecError> {
        let field = || format!("{at}.cpus");
        if cpu.0 > MAX_CPU {
            let why = format!("found CPU {cpu}, expected at most {MAX_CPU}");
            return Err(SpecError::new(field(), why));
        }
        if self.objects[0].cpus.contains(cpu) {
            let why = format!("found CPU {cpu} in a second core");
            return Err(SpecError::new(field(), why));
        }
        let leaf = self.push(ObjectType::Cpu, Some(core));
        self.objects[leaf].os_index = Some(cpu.0);
        let mut at = Some(leaf);
        while let Some(index) = at {
            self.objects[index].cpus.insert(cpu);
            at = self.objects[index].parent;
        }
        Ok(())
    }
}

fn cache(spec: &ObjectSpec) -> Cache {
    Cache {
        level: spec.level.unwrap_or(1),
        holds: spec.holds(),
        size_bytes: spec.size_kib.unwrap_or(0).saturating_mul(1024),
        ways: spec.ways,
        min_partition_ways: spec.min_partition_ways.unwrap_or(1),
        can_be_partitioned: spec.min_partition_ways.is_some(),
        line_bytes: spec.line_bytes,
        inclusion: spec.inclusion.unwrap_or(Inclusion::Inclusive),
        latency_ns: spec.latency_ns,
        effective_bytes: spec.effective_kib.map(|kib| kib.saturating_mul(1024)),
        single_use_life: spec.single_use_life.unwrap_or(1.0),
        random_use_life: spec.random_use_life,
        random_page_bytes: spec.random_page_kib.map(|kib| kib.saturating_mul(1024)),
        rates: spec.rates,
    }
}

/// Where a file does not say it, a cache counts as inclusive when it is at least twice as large as
/// the data caches next to it on the way to the cores: true of Clovertown (4 MB over 64 KB) and
/// Broadwell (20 MB over 2 MB), not of Skylake-SP (27.5 MB over 20 MB).
fn guess_inclusion(objects: &mut [Object], unsaid: &[ObjectIndex]) {
    // Children come after their parents, so that one pass from the end sees them first.
    let mut below = vec![0u64; objects.len()];
    for index in (0..objects.len()).rev() {
        let Some(parent) = objects[index].parent else { continue };
        let mut above = below[index];
        if let Some(cache) = &mut objects[index].cache {
            let small = cache.size_bytes < below[index].saturating_mul(2);
            if small && unsaid.binary_search(&index).is_ok() {
                cache.inclusion = Inclusion::NonInclusive;
            }
            if cache.holds != CacheType::Instruction {
                above = cache.size_bytes;
            }
        }
        below[parent] = below[parent].saturating_add(above);
    }
}
