//! What policies and those who run them say to each other.

mod entry;
mod plan;
mod policy;
mod stored;
mod view;
mod ways_curve;

pub use entry::{
    Build, BuildError, BuildOptions, Parameter, PolicyEntry, PolicyKind, build, build_partitioner,
};
pub use plan::{Action, ActionKind, CachePart, Plan, Step};
pub use policy::{CounterKind, Event, Interval, Needs, Policy};
pub use stored::{solo_figures, ways_curve};
pub use view::{
    Counted, Counters, Nanoseconds, ProcessId, REQUEST_BYTES, Scope, ScopedRate, SoloFigures,
    Spinning, ThreadId, ThreadState, ThreadView, View,
};
pub use ways_curve::{WaysCurve, WaysPoint};
