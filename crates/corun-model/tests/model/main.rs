//! Tests of the model from outside.

mod by_hand;
mod by_ways;
mod cores;
mod coupling;
mod fixture;
mod machines;
mod masks;
mod numa;
mod page_sets;
mod pbbcache;
mod pipeline;
mod properties;
mod whole;
