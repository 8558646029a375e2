//! Runs policies, in the simulator and on a real machine alike.
//!
//! A [`Runtime`] holds the policies and the one [`ThreadTable`]. A [`Backend`] is a machine: it says which
//! threads there are, counts what they do, and carries out plans. [`Runtime::tick`] goes once around:
//!
//! 1. [`Backend::scan`] brings the table up to date with the threads that are there;
//! 2. [`Backend::count`] brings each thread's [`corun_policy::Counts`] up to date;
//! 3. each policy hears of the events and, where its interval is over, decides on rates over that interval;
//! 4. [`Backend::apply`] carries out each plan.
//!
//! Counts only grow, from the source that reads them to the policy that is asked; a rate is the difference of
//! two counts, and is computed in one place, at the end of a policy's interval ([`ThreadTable`]).

mod backend;
mod decision;
mod error;
mod modelled;
mod needs;
mod runtime;
mod table;

pub use backend::{Backend, Capabilities, Scan};
pub use decision::{Decision, NotAnnounced, Tick, Verdict};
pub use error::RuntimeError;
pub use modelled::totals_of;
pub use runtime::{Runtime, RuntimeOptions};
pub use table::ThreadTable;
