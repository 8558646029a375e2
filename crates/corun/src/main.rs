//! Decides who runs beside whom on a multicore Linux machine.
fn main() {}
