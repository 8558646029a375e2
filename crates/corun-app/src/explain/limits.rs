//! What cgroups allow a program, and how often that held it back since the observer began.

use corun_linux::cpu_quota::{CpuQuota, quotas};
use corun_linux::memory_limit::{MemoryLimit, limits};
use corun_linux::{Roots, meminfo};

use super::facts::{MemoryLimitFacts, QuotaFacts};

/// The quotas and limits that hold for a process, as they were at the start.
#[derive(Debug)]
pub(super) struct LimitsAtStart {
    pid: u32,
    quotas: Vec<CpuQuota>,
    memory: Vec<MemoryLimit>,
}

impl LimitsAtStart {
    pub(super) fn read(roots: &Roots, pid: u32) -> Self {
        Self { pid, quotas: quotas(roots, pid), memory: limits(roots, pid) }
    }

    /// The quota that held its group back longest since then.
    pub(super) fn quota(&self, roots: &Roots) -> Option<QuotaFacts> {
        let now = quotas(roots, self.pid);
        let risen = now.into_iter().filter_map(|now| {
            let before = self.quotas.iter().find(|before| before.group == now.group)?;
            let periods = now.periods.saturating_sub(before.periods);
            let throttled = now.throttled_periods.saturating_sub(before.throttled_periods);
            Some(QuotaFacts {
                throttled_s: now.throttled.saturating_sub(before.throttled).as_secs_f64(),
                throttled_periods_share: throttled as f64 / periods.max(1) as f64,
                cpus: now.cpus,
                period_us: now.period_us,
                file: now.file,
                group: now.group,
            })
        });
        risen.max_by(|one, other| one.throttled_s.total_cmp(&other.throttled_s))
    }

    /// The limit of memory that was reached most often since then; none where none was.
    pub(super) fn memory(&self, roots: &Roots) -> Option<MemoryLimitFacts> {
        let risen = limits(roots, self.pid).into_iter().filter_map(|now| {
            let before = self.memory.iter().find(|before| before.file == now.file)?;
            let times_reached = now.times_reached.checked_sub(before.times_reached)?;
            Some(MemoryLimitFacts {
                group: now.group,
                file: now.file,
                bytes: now.bytes,
                used_bytes: now.used_bytes,
                times_reached,
                available_bytes: meminfo::available_bytes(roots),
            })
        });
        let reached = risen.filter(|one| one.times_reached > 0);
        // Of several the innermost, which comes first.
        reached.reduce(|most, one| if one.times_reached > most.times_reached { one } else { most })
    }
}
