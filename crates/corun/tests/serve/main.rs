//! `corun serve`: the server as a process, and its page in a real browser. Some 30 s on 2 cores, of which most
//! wait for the browser.

mod act;
mod attach;
mod browser;
mod compare;
mod experiment;
mod http;
mod live;
mod measured;
mod page;
mod recordings;
mod refusals;
mod reports;
mod server;
mod strangers;
mod sweep;
