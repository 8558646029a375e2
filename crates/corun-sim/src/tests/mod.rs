//! Tests of the simulator as a whole.

mod barriers;
mod divided;
mod fixture;
mod mix;
mod policies;
mod properties;
mod refusals;
mod schedule;
mod services;
mod slots;
mod steady;
