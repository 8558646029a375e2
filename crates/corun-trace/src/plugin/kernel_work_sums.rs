//! What the kernel does for all threads of a process, added up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::syscalls::Kind;
use crate::engine::KernelWork;

/// What the kernel did since the engine was told, of all threads. A call is counted in one of these alone, so that no
/// thread can see a part of it.
#[derive(Default)]
pub(super) struct KernelWorkSums {
    light_calls: AtomicU64,
    mapping_calls: AtomicU64,
    sleeping_calls: AtomicU64,
    other_calls: AtomicU64,
    pub(super) other_transferred_bytes: AtomicU64,
    pub(super) file_written_bytes: AtomicU64,
}

impl KernelWorkSums {
    pub(super) fn add_call(&self, kind: Kind) {
        let sum = match kind {
            Kind::Light => &self.light_calls,
            Kind::Mapping => &self.mapping_calls,
            Kind::Sleeping => &self.sleeping_calls,
            Kind::Other => &self.other_calls,
        };
        sum.fetch_add(1, Relaxed);
    }

    /// The sums, which begin anew.
    pub(super) fn take(&self) -> KernelWork {
        let take = |sum: &AtomicU64| sum.swap(0, Relaxed);
        KernelWork {
            light_calls: take(&self.light_calls),
            mapping_calls: take(&self.mapping_calls),
            sleeping_calls: take(&self.sleeping_calls),
            other_calls: take(&self.other_calls),
            other_transferred_bytes: take(&self.other_transferred_bytes),
            file_written_bytes: take(&self.file_written_bytes),
        }
    }
}
