//! What a person is told beside an answer.

use std::fmt;
use std::io::Write as _;

use corun_linux::escape_controls_in_lines;

/// Writes a line to stderr, `corun: ` before it, with control characters escaped: names in it are others'.
///
/// Where the reader of stderr went away there is nobody to tell, and what is under way goes on to its end and is
/// undone. `eprintln!` would panic; a lint forbids it where commands are made.
pub fn tell(line: impl fmt::Display) {
    let line = format!("corun: {line}");
    let _ = writeln!(std::io::stderr(), "{}", escape_controls_in_lines(&line));
}
