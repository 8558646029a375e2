//! The program from outside: what its studies print, write and refuse.

mod all;
mod fixture;
mod prediction;
mod public_table;
mod recordings;
mod stand_ins;
mod studies;
