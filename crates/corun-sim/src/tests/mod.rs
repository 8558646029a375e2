//! Tests of the simulator as a whole.

mod barriers;
mod fixture;
mod host;
mod mix;
mod properties;
mod schedule;
mod slots;
mod steady;
