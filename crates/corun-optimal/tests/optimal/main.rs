//! The optimum against enumeration and against the search on one core.

mod distributed;
mod every;
mod joint;
mod machines;
mod made_up;
mod modelled;
mod partition;
mod programs;
mod synthetic;
