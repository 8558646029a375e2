//! The command from outside: what it prints, writes, refuses and returns.

mod compare;
mod doctor;
mod documents;
mod fixture;
mod partition;
mod place;
mod prediction;
mod profiles;
mod recording;
mod replay;
mod study;
mod topology;
mod usage;
