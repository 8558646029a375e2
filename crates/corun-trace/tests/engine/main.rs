//! The engine from outside, by the optimised library: against plain lists, sampled against exact, and with the pages that
//! the kernel clears.

mod cleared;
mod gaps;
mod whole;
