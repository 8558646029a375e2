//! Discovery: real machines as hwloc sees them, and odd ones made by hand.

mod lstopo;
mod odd_machines;
