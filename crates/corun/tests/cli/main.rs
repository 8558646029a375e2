//! The command from outside: what it prints, writes, refuses and returns.

mod ab;
mod calibrate;
mod compare;
mod daemon;
mod doctor;
mod documentation;
mod documents;
mod explain;
mod fixture;
mod fleet;
mod hosting;
mod live_recording;
mod packaging;
mod partition;
mod place;
mod profiles;
mod recording;
mod replay;
mod restore;
mod slurm;
mod stat;
mod sweep;
mod top;
mod topology;
mod usage;
mod validate;
