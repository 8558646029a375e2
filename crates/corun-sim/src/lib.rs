//! A machine that is not here: an event-driven simulator.
