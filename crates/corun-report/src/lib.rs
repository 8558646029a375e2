//! How an answer is shown: aligned tables, JSON and CSV documents, files, plots and HTML pages.
//!
//! Everything here turns finished figures into text. The same figures give the same bytes.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod document;
mod file;
mod labels;
mod page;
mod plot;
mod table;
mod trade_off;
mod wording;

pub use corun_app::counted;
pub use corun_app::round;
pub use document::{csv_rows, json};
pub use file::{check_target, check_targets, write_file};
pub use page::{document, figures_table, folded, foot, head, scrolled, section};
pub use plot::{Axis, COLOURS, Colour, Ends, Mark, Panel, Plot, Series};
pub use table::{Align, Columns, or_dash, or_empty, table};
pub use trade_off::{TradeOffKind, TradeOffPoint, trade_off};
pub use wording::{engineering, filled, fixed, percent, signed, signed_percent, size};

use std::io::Write as _;

use corun_linux::escape_controls_in_lines;

/// Writes a command's whole output to stdout, with control characters escaped: names in it are others'.
///
/// # Errors
/// [`corun_app::Error::ReaderGone`] when whoever read stdout stopped reading; any other failure to
/// write.
pub fn print(text: &str) -> corun_app::Result {
    let mut stdout = std::io::stdout().lock();
    let text = escape_controls_in_lines(text);
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(stdout_failed)
}

/// What it means that standard output could not be written to.
pub fn stdout_failed(error: std::io::Error) -> corun_app::Error {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return error.into();
    }
    corun_app::Error::failed(anyhow::Error::new(error).context("cannot write to standard output"))
}
