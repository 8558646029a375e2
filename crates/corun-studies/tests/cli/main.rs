//! The program from outside: what its studies print, write and refuse.

mod all;
// The browser is driven as in the tests of `corun serve`; what only those ask of it is unused here.
#[allow(dead_code)]
#[path = "../../../corun/tests/serve/browser.rs"]
mod browser;
mod fixture;
#[allow(dead_code)]
#[path = "../../../corun/tests/serve/http.rs"]
mod http;
mod pages;
mod prediction;
mod public_table;
mod recordings;
mod stand_ins;
mod studies;
