//! The experiments: each measures one property of the machine with the kernels.

pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod fetching;
pub(crate) mod idle;
pub(crate) mod kernel;
pub(crate) mod ladder;
pub(crate) mod loaded;
pub(crate) mod memory;
pub(crate) mod memory_walk;
pub(crate) mod next_line;
pub(crate) mod parallelism;
pub(crate) mod predictor;
pub(crate) mod prefetching;
mod random_uses;
pub(crate) mod rates;
pub(crate) mod siblings;
pub(crate) mod streaming;
pub(crate) mod tlb;
pub(crate) mod transfer;
pub(crate) mod window;
