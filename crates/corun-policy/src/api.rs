//! What policies and those who run them say to each other.

mod counters;
mod entry;
mod parameter_kind;
mod plan;
mod policy;
mod predictor;
mod stored;
mod view;
mod ways_curve;
mod wrapped;

pub use counters::{Count, CounterKind, Counts, Rates, Scope, ScopedRate, Totals};
pub use entry::{
    Build, BuildError, BuildOptions, LiveForm, Parameter, PolicyEntry, PolicyKind, build,
    build_partitioner,
};
pub use parameter_kind::{ParameterKind, deserialize_parameters, parse_parameter};
pub use plan::{Action, ActionKind, CachePart, Plan, Step};
pub use policy::{Event, Interval, Needs, Policy};
pub use predictor::{LibraryPredictor, LoadedPredictor, Predictor};
pub use stored::{solo_figures, ways_curve};
pub use view::{
    Nanoseconds, ProcessId, REQUEST_BYTES, ServiceLatency, SoloFigures, ThreadId, ThreadState,
    ThreadView, View, Waker,
};
pub use ways_curve::{WaysCurve, WaysPoint};
pub use wrapped::{PolicyWrapper, WrappedPolicy};
