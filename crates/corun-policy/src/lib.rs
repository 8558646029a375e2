//! Who goes where next? One file a policy.
//!
//! A [`Policy`] sees a [`View`] and answers with a [`Plan`]; it does not know how the plan is
//! carried out, nor whether the machine is real. [`registry()`] lists the policies there are,
//! [`build`] makes one by its name. docs/policies.md describes each, ARCHITECTURE.md walks through a new one.

mod asymmetry;
mod linear;
mod numa;
mod partitioning;
mod plan;
mod policies;
mod policy;
mod registry;
mod running_averages;
mod spread;
mod stored;
mod view;
mod ways_curve;

pub use asymmetry::speedup::{SpeedupPoint, fit_speedup};
pub use partitioning::{
    CacheClass, Cap, ClassLimits, Input, Partition, PartitionError, Partitioner, classify,
};
pub use plan::{Action, ActionKind, CachePart, Plan, Step};
pub use policies::{CascFindings, casc_observed, phase_hit_rate, registry};
pub use policy::{CounterKind, Event, Interval, Needs, Policy};
pub use registry::{
    Build, BuildError, BuildOptions, Parameter, PolicyEntry, PolicyKind, build, build_partitioner,
};
pub use stored::{solo_figures, ways_curve};
pub use view::{
    Counted, Counters, Nanoseconds, ProcessId, REQUEST_BYTES, Scope, ScopedRate, SoloFigures,
    Spinning, ThreadId, ThreadState, ThreadView, View,
};
pub use ways_curve::{WaysCurve, WaysPoint};

#[cfg(test)]
mod fixture;
