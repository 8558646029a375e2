//! Who goes where next? One file a policy.
//!
//! A [`Policy`] sees a [`View`] and answers with a [`Plan`]; it does not know how the plan is
//! carried out, nor whether the machine is real.

mod plan;
mod policy;
mod view;

pub use plan::{Action, ActionKind, CachePart, Plan, Step};
pub use policy::{CounterKind, Event, Interval, Needs, Policy};
pub use view::{
    Counters, Nanoseconds, ProcessId, Scope, ScopedRate, SoloFigures, ThreadId, ThreadState,
    ThreadView, View,
};
