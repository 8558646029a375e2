//! Which CPUs a measurement runs on, and which caches they see.

use corun_machine::{Cache, CacheType, CpuId, CpuSet, Machine, ObjectIndex};
use rustix::thread::{CpuSet as Affinity, sched_getaffinity};

use crate::CalibrateError;

/// The CPUs of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cpus {
    /// Those that this process may use.
    pub(crate) allowed: CpuSet,
    /// Those that run at the same time: fewer where a quota does not give time for all.
    pub(crate) together: Vec<CpuId>,
    /// A core type of each kind that is allowed, as an index, and the CPU that it is measured on.
    pub(crate) of_types: Vec<(usize, CpuId)>,
}

impl Cpus {
    /// The CPUs of this process.
    ///
    /// # Errors
    /// [`CalibrateError::NoCpu`] where it may use none of the machine's.
    pub(crate) fn of_this_process(machine: &Machine) -> Result<Self, CalibrateError> {
        let affinity = sched_getaffinity(None).unwrap_or_else(|_| Affinity::new());
        let allowed: CpuSet = (0..Affinity::MAX_CPU)
            .filter(|&cpu| affinity.is_set(cpu))
            .map(|cpu| CpuId(cpu as u32))
            .collect();
        // Counts what a control group's quota gives, besides the affinity.
        let at_a_time =
            std::thread::available_parallelism().map_or(usize::MAX, |count| count.get());
        Self::new(machine, &allowed, at_a_time)
    }

    fn new(machine: &Machine, allowed: &CpuSet, at_a_time: usize) -> Result<Self, CalibrateError> {
        let allowed = allowed.intersection(&machine.cpu_set());
        let cpus: Vec<_> =
            machine.cpus().iter().filter(|cpu| allowed.contains(cpu.id)).copied().collect();
        if cpus.is_empty() {
            return Err(CalibrateError::NoCpu { cpus: machine.cpu_set().to_string() });
        }
        let mut of_types: Vec<(usize, CpuId)> = Vec::new();
        for core_type in 0..machine.core_types().len() {
            let mut same = cpus.iter().filter(|cpu| cpu.core_type == core_type);
            let Some(first) = same.next() else { continue };
            // Most interrupts go to the machine's first CPU.
            let second = same.find(|cpu| cpu.core != first.core && cpu.llc == first.llc);
            of_types.push((core_type, second.unwrap_or(first).id));
        }
        // A thread of each core first, so that a quota leaves as many cores as possible.
        let mut together: Vec<_> = cpus.clone();
        let thread_of_core = |cpu: &corun_machine::Cpu| {
            cpus.iter().filter(|other| other.core == cpu.core && other.id < cpu.id).count()
        };
        together.sort_by_key(|cpu| (thread_of_core(cpu), cpu.id));
        together.truncate(at_a_time.max(1));
        let together = together.into_iter().map(|cpu| cpu.id).collect();
        Ok(Self { allowed, together, of_types })
    }

    /// Whether a quota gives time for fewer CPUs than the process may use.
    pub(crate) fn has_quota(&self) -> bool {
        self.together.len() < self.allowed.len()
    }

    /// The CPUs that run together, one of them first.
    pub(crate) fn from(&self, first: CpuId) -> Vec<CpuId> {
        let others = self.together.iter().copied().filter(|&cpu| cpu != first);
        std::iter::once(first).chain(others).take(self.together.len()).collect()
    }
}

/// The CPUs of a process around one of them, by how far they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Neighbours {
    /// The other hardware threads of the core.
    pub(crate) same_core: Vec<CpuId>,
    /// A CPU of each other core under the same LLC.
    pub(crate) same_llc: Vec<CpuId>,
    /// The first CPU of each other LLC of the node.
    pub(crate) other_llcs: Vec<CpuId>,
    /// The first CPU of each other node.
    pub(crate) other_nodes: Vec<CpuId>,
}

impl Neighbours {
    /// Those of a CPU among the allowed ones.
    pub(crate) fn of(machine: &Machine, allowed: &CpuSet, cpu: CpuId) -> Self {
        let mut neighbours = Self::default();
        let Some(index) = machine.cpu_index(cpu) else { return neighbours };
        let here = machine.cpus()[index];
        let mut seen = (vec![here.core], vec![here.llc], vec![here.node]);
        let others = machine.cpus().iter().filter(|other| other.id != cpu);
        for other in others.filter(|other| allowed.contains(other.id)) {
            let first = |seen: &mut Vec<usize>, place: usize| {
                let first = !seen.contains(&place);
                seen.push(place);
                first
            };
            if other.core == here.core {
                neighbours.same_core.push(other.id);
            } else if other.llc == here.llc {
                if first(&mut seen.0, other.core) {
                    neighbours.same_llc.push(other.id);
                }
            } else if other.node == here.node {
                if first(&mut seen.1, other.llc) {
                    neighbours.other_llcs.push(other.id);
                }
            } else if first(&mut seen.2, other.node) {
                neighbours.other_nodes.push(other.id);
            }
        }
        neighbours
    }
}

/// The data caches that a CPU sees, nearest first: level and size in bytes. Caches of one level next
/// to each other count as one.
pub(crate) fn data_caches(machine: &Machine, cpu: CpuId) -> Vec<(u32, f64)> {
    let mut caches: Vec<(u32, f64)> = caches(machine, cpu)
        .filter(|cache| cache.holds != CacheType::Instruction)
        .map(|cache| (cache.level, cache.size_bytes as f64))
        .collect();
    caches.sort_by_key(|cache| cache.0);
    caches.dedup_by_key(|cache| cache.0);
    caches
}

/// Bytes of the level-1 cache that a CPU fetches instructions from.
pub(crate) fn code_cache_bytes(machine: &Machine, cpu: CpuId) -> Option<f64> {
    let first = |cache: &Cache| cache.level == 1 && cache.holds != CacheType::Data;
    caches(machine, cpu).find(first).map(|cache| cache.size_bytes as f64)
}

/// The caches that a CPU's core is in, or that are in it.
fn caches(machine: &Machine, cpu: CpuId) -> impl Iterator<Item = Cache> {
    let core =
        machine.cpu_index(cpu).map(|index| machine.cores()[machine.cpus()[index].core].object);
    machine
        .objects()
        .iter()
        .enumerate()
        .filter(move |(place, _)| {
            core.is_some_and(|core| {
                encloses(machine, *place, core) || encloses(machine, core, *place)
            })
        })
        .filter_map(|(_, object)| object.cache)
}

/// Whether one object is inside another, or the same.
fn encloses(machine: &Machine, outer: ObjectIndex, inner: ObjectIndex) -> bool {
    std::iter::successors(Some(inner), |&at| machine.objects()[at].parent).any(|at| at == outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(machine: &str, allowed: &str, at_a_time: usize) -> Cpus {
        let machine = corun_machine::preset(machine).unwrap();
        Cpus::new(&machine, &allowed.parse().unwrap(), at_a_time).unwrap()
    }

    #[test]
    fn each_core_type_is_measured_on_a_cpu_of_its_own() {
        // Eight large cores of two threads, CPUs 0-15, then eight small ones.
        let all = cpus("core-i9-12900k", "0-23", 24);
        assert_eq!(all.of_types, [(0, CpuId(2)), (1, CpuId(17))]);
        assert_eq!(all.together.len(), 24);
        assert!(!all.has_quota());
        // The first threads of all cores before any second one.
        assert_eq!(all.together[7], CpuId(14));
        assert_eq!(all.together[8], CpuId(16));
        assert_eq!(all.together[16], CpuId(1));
    }

    #[test]
    fn what_is_not_allowed_is_not_used() {
        let some = cpus("core-i9-12900k", "4-5", 24);
        assert_eq!(some.of_types, [(0, CpuId(4))]);
        assert_eq!(some.together, [CpuId(4), CpuId(5)]);
        let quota = cpus("core-i9-12900k", "0-23", 2);
        assert!(quota.has_quota());
        assert_eq!(quota.together, [CpuId(0), CpuId(2)]);
        assert_eq!(quota.from(CpuId(17)), [CpuId(17), CpuId(0)]);
        let machine = corun_machine::preset("i7-2600").unwrap();
        let none = Cpus::new(&machine, &"99".parse().unwrap(), 1);
        assert!(matches!(none, Err(CalibrateError::NoCpu { .. })));
    }

    #[test]
    fn neighbours_are_told_by_their_distance() {
        let machine = corun_machine::preset("epyc-9554").unwrap();
        let all = machine.cpu_set();
        let found = Neighbours::of(&machine, &all, CpuId(0));
        assert_eq!(found.same_core, [CpuId(1)]);
        assert_eq!(found.same_llc, [2, 4, 6, 8, 10, 12, 14].map(CpuId));
        assert_eq!(found.other_llcs, [16, 32, 48, 64, 80, 96, 112].map(CpuId));
        assert_eq!(found.other_nodes, []);
        let machine = corun_machine::preset("2x-e5-2650").unwrap();
        let found = Neighbours::of(&machine, &machine.cpu_set(), CpuId(1));
        assert_eq!((found.same_core.len(), found.same_llc.len()), (0, 7));
        assert_eq!((found.other_llcs.len(), found.other_nodes), (0, vec![CpuId(8)]));
        let alone = Neighbours::of(&machine, &"1".parse().unwrap(), CpuId(1));
        assert_eq!(alone, Neighbours::default());
    }

    #[test]
    fn a_cpu_sees_the_data_caches_on_its_way_to_memory() {
        let machine = corun_machine::preset("i7-2600").unwrap();
        let kib: Vec<(u32, f64)> = data_caches(&machine, CpuId(1))
            .into_iter()
            .map(|(level, bytes)| (level, bytes / 1024.0))
            .collect();
        assert_eq!(kib, [(1, 32.0), (2, 256.0), (3, 8192.0)]);
        assert_eq!(data_caches(&machine, CpuId(99)), []);
    }
}
