//! What a processor says about its own caches, which Linux does not show.

use crate::{CacheType, Inclusion};

/// A unified cache as the processor that runs this describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) level: u32,
    pub(super) size_kib: u64,
    pub(super) inclusion: Inclusion,
}

/// The unified caches of the CPU that runs this, where it is an x86: `CPUID`, leaf 4 of Intel's and 8000001Dh of AMD's. A virtual
/// machine has the host's answers, or those that the host makes up.
#[cfg(target_arch = "x86_64")]
pub(super) fn told() -> Vec<Told> {
    use raw_cpuid::{CacheType, CpuId};
    let caches = CpuId::new().get_cache_parameters();
    let one = |cache: raw_cpuid::CacheParameter| {
        let parts = [
            cache.sets(),
            cache.associativity(),
            cache.coherency_line_size(),
            cache.physical_line_partitions(),
        ];
        let bytes = parts.into_iter().try_fold(1u64, |bytes, n| bytes.checked_mul(n as u64))?;
        let inclusion = match cache.is_inclusive() {
            true => Inclusion::Inclusive,
            false => Inclusion::NonInclusive,
        };
        Some(Told { level: cache.level().into(), size_kib: bytes / 1024, inclusion })
    };
    let unified = |cache: &raw_cpuid::CacheParameter| cache.cache_type() == CacheType::Unified;
    caches.into_iter().flatten().filter(unified).filter_map(one).collect()
}

/// Nothing: other processors do not tell.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn told() -> Vec<Told> {
    Vec::new()
}

/// Whether a cache holds what those before it hold, where a unified one of that level and size was told of.
pub(super) fn of(told: &[Told], level: u32, holds: CacheType, size_kib: u64) -> Option<Inclusion> {
    let same = |one: &&Told| (one.level, one.size_kib) == (level, size_kib);
    told.iter().find(same).filter(|_| holds == CacheType::Unified).map(|one| one.inclusion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_another_size_is_not_the_one_that_was_told_of() {
        let llc = Told { level: 3, size_kib: 32768, inclusion: Inclusion::NonInclusive };
        let found = |level, size_kib| of(&[llc], level, CacheType::Unified, size_kib);
        assert_eq!(found(3, 32768), Some(Inclusion::NonInclusive));
        assert_eq!(found(3, 16384), None);
        assert_eq!(found(2, 32768), None);
        assert_eq!(of(&[llc], 3, CacheType::Data, 32768), None);
        assert_eq!(of(&[], 3, CacheType::Unified, 32768), None);
    }
}
