//! From samples to figures: pure functions of what was measured.

pub(crate) mod caches;
pub(crate) mod isotonic;
pub(crate) mod ladder;
pub(crate) mod loaded;
pub(crate) mod parallelism;
pub(crate) mod prefetch;
pub(crate) mod step;
