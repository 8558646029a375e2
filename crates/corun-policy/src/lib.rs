//! Who goes where next? One file a policy.
//!
//! A [`Policy`] sees a [`View`] and answers with a [`Plan`]; it does not know how the plan is
//! carried out, nor whether the machine is real. [`registry()`] lists the policies there are,
//! [`build`] makes one by its name. docs/policies.md describes each, ARCHITECTURE.md walks through a new one.

mod api;
mod asymmetric;
mod coscheduling;
mod linear;
mod numa;
mod partitioning;
mod placement;
mod registry;

pub use api::{
    Action, ActionKind, Build, BuildError, BuildOptions, CachePart, Count, CounterKind, Counts,
    Event, Interval, LibraryPredictor, LiveForm, LoadedPredictor, Nanoseconds, Needs, Parameter,
    ParameterKind, Plan, Policy, PolicyEntry, PolicyKind, PolicyWrapper, Predictor, ProcessId,
    REQUEST_BYTES, Rates, Scope, ScopedRate, ServiceLatency, SoloFigures, Step, ThreadId,
    ThreadState, ThreadView, Totals, View, Waker, WaysCurve, WaysPoint, WrappedPolicy, build,
    build_partitioner, deserialize_parameters, parse_parameter, solo_figures, ways_curve,
};
pub use asymmetric::{SpeedupPoint, fit_speedup, phase_hit_rate};
pub use coscheduling::{CascFindings, casc_observed};
pub use partitioning::{
    CacheClass, Cap, ClassLimits, Input, Partition, PartitionError, Partitioner, classify,
};
pub use placement::{CurveLearner, LearnedProgram};
pub use registry::registry;

#[cfg(test)]
mod fixture;
