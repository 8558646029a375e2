//! What every study shares: the programs it stands on, the page it makes, and how it is asked for.

mod as_live;
mod command;
mod estimate;
mod figure;
mod inputs;
mod page;

pub(crate) use as_live::AsLiveArgs;
pub(crate) use command::run;
pub(crate) use estimate::Estimate;
pub(crate) use figure::Figure;
pub(crate) use inputs::{Programs, StudyInputs};
pub(crate) use page::{Page, PaperClaim};

use corun_app::Result;

/// A study. Each is a module of [`crate::studies`] and its line there.
pub(crate) struct Study {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// One line for the help.
    pub(crate) summary: &'static str,
    /// The programs that it stands on.
    pub(crate) programs: Programs,
    /// Seeds where the user does not say how many; none: nothing in it is left to chance.
    pub(crate) seeds: Option<u32>,
    /// Is there a first look, which does less ([`StudyInputs::every`] and the like)?
    pub(crate) has_quick: bool,
    /// Adds its own options to its command; [`no_options`] where it has none.
    pub(crate) options: fn(clap::Command) -> clap::Command,
    /// Runs it.
    pub(crate) page: fn(&StudyInputs) -> Result<Page>,
    /// The document of the repository that describes a run and says why its figures differ from the
    /// paper's.
    pub(crate) explained_in: &'static str,
}

/// A study without options of its own.
pub(crate) fn no_options(command: clap::Command) -> clap::Command {
    command
}
