//! What threads do: one trait, several sources.

mod homes;
mod modelled;
mod perf;
mod profiles;
mod recorded;
mod resctrl;
mod scheduler;
mod turns;

use corun_policy::{CounterKind, Nanoseconds};

pub use homes::MemoryByNode;
pub use modelled::ModelledSource;
pub use perf::PerfSource;
pub use profiles::{StoredProfiles, commands_of, profile_of};
pub use recorded::RecordingSource;
pub use resctrl::ResctrlMonitor;
pub use scheduler::{InKernelCounts, SchedulerSource, SharedCounts};
pub(crate) use turns::turns;

use crate::Threads;

/// Counts what threads do.
///
/// A source adds to the counts of each thread's view, with the time over which it counted
/// ([`corun_policy::Counts::add`]), or sets what is no count: occupancy, pages, figures of profiles. It opens
/// what it needs for a thread when it first sees the thread, and closes it when the thread is no longer there.
/// Each counter has one source: two that give the same counter would count twice.
pub trait Source: Send {
    /// What it is called in messages: "perf", "resctrl", "scheduler", "profiles", "model", "recording".
    fn name(&self) -> &'static str;

    /// Counters that it gives.
    fn counters(&self) -> Vec<CounterKind>;

    /// Does it give figures from stored profiles ([`corun_policy::ThreadView::solo`] and `by_ways`)?
    fn knows_profiles(&self) -> bool {
        false
    }

    /// Counts up to now, once a tick, after the kernel said which threads there are and how long each ran
    /// ([`crate::ManagedThread::ran`]). What cannot be read of a thread adds nothing: when it can be read
    /// again, what it counted meanwhile is added with the whole time since.
    ///
    /// # Errors
    ///
    /// When nothing at all can be read.
    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError>;
}

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{source_name}: {what}{}{}", advice_of(.advice), reason_of(.reason))]
pub struct SourceError {
    /// The source.
    pub source_name: &'static str,
    /// What failed.
    pub what: String,
    /// What would make it work.
    pub advice: Option<String>,
    /// The kernel's answer.
    #[source]
    pub reason: Option<std::io::Error>,
}

fn advice_of(advice: &Option<String>) -> String {
    advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default()
}

fn reason_of(reason: &Option<std::io::Error>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}
