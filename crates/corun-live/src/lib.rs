//! The machine that is here: what its threads do, and acting on them so that all can be undone.
//!
//! Three parts meet in the host. A [`Source`] counts what watched threads do; a policy of
//! `corun-policy` sees that as it would in the simulator and answers with a plan; an [`Actuator`]
//! turns the plan's actions into [`Change`]s, each of which knows what was there before. Changes
//! stand in the journal before they are carried out, and restoring undoes what a journal
//! says: on exit, after a failure, and after a `kill -9`.

pub mod ab;
mod act;
mod backend;
pub mod bounded_command;
pub mod doctor;
mod error;
mod gate;
mod host;
mod journal;
mod launch;
mod observe;
mod processes;
mod recording;
mod resctrl;
mod restore;

pub use act::{
    ActError, Actuator, Change, DryRunActuator, KernelPlacement, Nice, Pages, PlacementActuator,
    Refusal, Reverted,
};
pub use backend::{Decision, HeldGroup, ManagedThread, Scanner, Threads, Tick, Verdict};
pub use error::LiveError;
pub use gate::{Gate, GateOptions};
pub use host::{HalfMade, Host, HostOptions, SampledThread, Undoer};
pub use journal::{Journal, JournalError, Restored, default_folder};
pub use launch::Launch;
pub use observe::{
    InKernelCounts, MemoryByNode, ModelledSource, PerfSource, RecordingSource, ResctrlMonitor,
    SchedulerSource, SharedCounts, Source, SourceError, StoredProfiles, commands_of, profile_of,
};
pub use processes::{PinScope, ProcessSelector, Processes, Rule, ScannedThread, Target};
pub use recording::{LiveRecording, Playback, RecordedThreads, RecordingError, RecordingWriter};
pub use resctrl::Resctrl;
pub use restore::{RestoreOutcome, RestoredJournal, Which, restore, would_restore};
