//! What is this hardware? Machine trees, presets and discovery.
//!
//! A [`Machine`] is a free-form tree of packages, dies, NUMA nodes, clusters, caches, cores and
//! CPUs, with the bandwidth domains on the way to memory. It knows nothing of programs.

mod assume;
mod build;
mod check;
mod clock;
mod cores;
mod cpu_set;
mod derive;
mod discover;
mod error;
mod file;
mod machine;
mod measured;
mod power;
mod presets;
mod sources;
mod spec;
mod this;
mod view;

pub use check::BANDWIDTH_MB_PER_S;
pub use cores::{NamedCore, core, core_names};
pub use cpu_set::{CpuId, CpuListError, CpuSet, MAX_CPU};
pub use discover::{DiscoverError, check_root, discover};
pub use error::{MachineError, SpecError};
pub use machine::{Cache, Core, Cpu, Llc, Machine, Node, Object, ObjectIndex, Package, Topology};
pub use measured::{
    AccessRates, ExecutionLatencies, Fetching, KernelCosts, LineTransfer, LoadedLatency,
    Measurement, PredictionError, Prefetching, Tlb,
};
pub use presets::{preset, presets, resolve};
pub use spec::{
    BandwidthDomain, BandwidthKind, CacheType, Calibration, CoreType, Inclusion,
    MACHINE_FILE_VERSION, MachineSpec, NumaPenaltyFit, ObjectSpec, ObjectType, PowerModel, Smt,
    SpeedupFit,
};
pub use this::{
    THIS_MACHINE, ThisMachineError, system_machine_file, this_machine, this_machine_files,
    user_machine_file,
};
