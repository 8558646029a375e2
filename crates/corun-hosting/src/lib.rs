//! A policy's host on this machine, from settings: its counters and actuators, and the programs that it starts, watches or
//! acts on for a person.
//!
//! [`HostBuilder`] makes a [`corun_live::Host`] from [`HostSettings`]. [`Started`] starts programs for a host,
//! [`Watch`] is a host that only looks, [`Learning`] one that learns what programs do, and [`Acting`] does what a person asks for. What is decided and what is undone is
//! put in words here, the same for all commands.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod acting;
mod builder;
mod decisions;
mod learning;
mod policy_choice;
mod programs;
mod recording;
mod settings;
pub mod undone;
mod watch;

pub use acting::{ActEntry, Acting, undo_at_the_end};
pub use builder::{HostBuilder, Look, check_same_caches, this_machine, undo_what_was_left};
pub use decisions::{
    DecisionLine, DecisionPrinter, NewDecisions, ToldOnce, action_by_process, action_in_words,
    decision_in_words, program_of,
};
pub use learning::{CountedGroup, Learning, LearningSettings};
pub use policy_choice::{AUTO_POLICY, ChosenPolicy, choose_policy, counts_instructions};
pub use programs::{ENDED_EVERY, Program, Run, Started};
pub use recording::load_recording;
pub use settings::{
    Counters, HostSettings, LEAST_INTERVAL_S, Placer, PlacerSettings, SPILL_AFTER_S, ThreadReading,
};
pub use watch::{Watch, WatchSettings};
