//! Tests of the model from outside.

mod by_hand;
mod fixture;
