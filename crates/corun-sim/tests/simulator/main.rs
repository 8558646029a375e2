//! The simulator as a whole, from outside.

mod barriers;
mod divided;
mod fixture;
mod mix;
mod policies;
mod properties;
mod refusals;
mod scenario;
mod schedule;
mod services;
mod slots;
mod steady;
