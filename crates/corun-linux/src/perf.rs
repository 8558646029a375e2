//! Events, by `perf_event_open`: which this machine has, and counting them.

mod counters;
mod events;
mod overflow;
mod permission;
mod sampling;

pub use counters::{CountTarget, EventGroups, GroupReader, GroupReading, OpenCounters, try_event};
pub use events::{
    Encoding, EventError, Meaning, PerfEvent, PlatformEvent, PlatformEvents, Pmu, Pmus,
};
pub use overflow::{OverflowError, OverflowSample, OverflowSampling};
pub use permission::counter_advice;
pub use sampling::{Increase, Sampling};
