//! The lines of JSON between the daemon and those who look on at its socket.
//!
//! The daemon says which machine it is on and whether viewers may act ([`Message::Hello`]), then a look after each tick
//! ([`look_line`]); a viewer sends orders ([`NumberedOrder`]), each of which is answered.

use serde::{Deserialize, Serialize};

use crate::{ActAsked, Done, Undone};

/// The daemon's first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The daemon's version of corun.
    pub version: String,
    /// The machine, as a machine file.
    pub machine: String,
    /// May viewers act?
    pub acts: bool,
}

/// A line of the daemon's that is no look.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The first line.
    Hello(Hello),
    /// What came of the order of that number.
    Answer {
        /// The viewer's number of the order.
        number: u64,
        /// What was done, or why nothing was.
        answer: Result<Done, Undone>,
    },
}

const LOOK_BEGINS: &str = "{\"look\":";
const LOOK_ENDS: &str = "}";

/// The line of a look, of which there are many. Its document is put in as it is: JSON on one line.
pub fn look_line(document: &str) -> String {
    [LOOK_BEGINS, document, LOOK_ENDS, "\n"].concat()
}

/// The document of a look's line without its end; none of another line. The document is not read.
pub(crate) fn document_of_look(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(LOOK_BEGINS.as_bytes())?.strip_suffix(LOOK_ENDS.as_bytes())
}

/// A viewer's line.
#[derive(Debug, Serialize, Deserialize)]
pub struct NumberedOrder {
    /// The order's number, of the viewer's own.
    pub number: u64,
    /// The order.
    pub asked: ActAsked,
}

impl Message {
    /// The message as a line.
    pub fn line(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_told_from_other_lines_without_being_read() {
        let document = r#"{"machine":"a}\n","threads":[{"tid":1}]}"#;
        let text = look_line(document);
        let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(whole["look"]["machine"], "a}\n");
        assert_eq!(document_of_look(text.trim_end().as_bytes()), Some(document.as_bytes()));
        let answer = Message::Answer { number: 1, answer: Err(Undone::Outdated) }.line();
        assert_eq!(document_of_look(answer.trim_end().as_bytes()), None);
    }
}
