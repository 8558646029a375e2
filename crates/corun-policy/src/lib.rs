//! Who goes where next? One file a policy.
//!
//! A [`Policy`] sees a [`View`] and answers with a [`Plan`]; it does not know how the plan is
//! carried out, nor whether the machine is real. [`registry()`] lists the policies there are,
//! [`build`] makes one by its name. docs/policies.md describes each, ARCHITECTURE.md walks through a new one.

mod plan;
mod policies;
mod policy;
mod registry;
mod spread;
mod view;

pub use plan::{Action, ActionKind, CachePart, Plan, Step};
pub use policies::registry;
pub use policy::{CounterKind, Event, Interval, Needs, Policy};
pub use registry::{BuildError, BuildOptions, Parameter, PolicyEntry, build};
pub use view::{
    Counters, Nanoseconds, ProcessId, Scope, ScopedRate, SoloFigures, ThreadId, ThreadState,
    ThreadView, View,
};

#[cfg(test)]
mod fixture;
