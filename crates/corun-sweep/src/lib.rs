//! What comes out of many questions at once?
//!
//! A [`Description`] names machines, mixes or generators of mixes, policies and seeds. A [`SweepPlan`]
//! holds all that they need, and the list of tasks that follows from them, each with a hash of
//! everything that its answer depends on. A [`Runner`] answers tasks, in this process or in another
//! that was sent the plan. A [`Store`] keeps the answers as Parquet, knows what is done, and ends with
//! one file that holds the same bytes whoever did what and when.
//!
//! A [`SharedSearch`] is one question that is too large for one process: the best placement, searched
//! in parts by [`SearchWorker`]s.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod description;
mod generate;
mod local;
mod plan;
mod row;
mod runner;
mod search;
mod store;
mod summary;
mod table;
mod task;

pub use description::{
    Combinations, Description, DrawnByClass, DrawnMixes, ListedMix, ModelChoice, PolicyChoice,
    Seeds, TunedPolicy, WorkloadFile,
};
pub use local::{MOST_JOBS, run_here};
pub use plan::{SweepPlan, UnsuitedPolicy};
pub use row::SweepRow;
pub use runner::{Runner, TaskRows, answers, bytes_of};
pub use search::{SearchWorker, SharedSearch};
pub use store::{LockedFolder, RESULTS, Store, StoreError, rows_of_bytes, stored_rows};
pub use summary::{Summary, summaries};
pub use task::{Bound, SweepTask, TaskKind};

/// The version of corun, which is part of every task's hash.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
