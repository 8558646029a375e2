//! Text of others, made safe to show.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters that reorder text though they are no control characters (Unicode's Bidi_Control): what stands before
/// a name could then seem to stand behind it.
const REORDERING: [std::ops::RangeInclusive<char>; 4] = [
    '\u{61c}'..='\u{61c}',
    '\u{200e}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2066}'..='\u{2069}',
];

fn is_unsafe(letter: char) -> bool {
    letter.is_control() || REORDERING.iter().any(|range| range.contains(&letter))
}

/// A name with its control characters escaped as JSON escapes them (`\u001b`). Users choose the names of their
/// processes, and a terminal obeys what it is shown.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`escape_controls`], of a text of lines: ends of lines and tabulators stay.
pub fn escape_controls_in_lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| matches!(letter, '\n' | '\t'))
}

/// A word as a shell takes it (`$'..'`, which bash, zsh and POSIX of 2024 have), where it has characters that [`escape_controls`]
/// would escape: what is shown of it is then what is to be typed. None of another.
pub fn quoted_controls(word: &str) -> Option<String> {
    if !word.chars().any(is_unsafe) {
        return None;
    }
    let mut quoted = String::from("$'");
    for letter in word.chars() {
        let _ = match letter {
            '\\' | '\'' => write!(quoted, "\\{letter}"),
            _ if is_unsafe(letter) => write!(quoted, "\\u{:04x}", u32::from(letter)),
            _ => write!(quoted, "{letter}"),
        };
    }
    quoted.push('\'');
    Some(quoted)
}

fn escape(text: &str, stays: fn(char) -> bool) -> Cow<'_, str> {
    let escaped = |letter: char| is_unsafe(letter) && !stays(letter);
    if !text.chars().any(escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if escaped(letter) {
            // All of them are in the basic plane; writing into a string does not fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(letter));
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(escape_controls("a\u{1b}]0;x\u{7}\n"), "a\\u001b]0;x\\u0007\\u000a");
        assert_eq!(escape_controls("\u{9b}31m \u{202e}gpj"), "\\u009b31m \\u202egpj");
        assert_eq!(escape_controls("a\u{200e}\u{200f}\u{61c}b"), "a\\u200e\\u200f\\u061cb");
        assert_eq!(escape_controls_in_lines("a\tb\r\nc\n"), "a\tb\\u000d\nc\n");
        assert!(matches!(escape_controls("größer 8"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_shell_takes_back_what_was_quoted() {
        let word = "a \u{1b}[31m'\\n'\tb$HOME`x`";
        let quoted = quoted_controls(word).unwrap();
        assert_eq!(escape_controls(&quoted), quoted);
        let said = std::process::Command::new("bash")
            .env("LC_ALL", "C.UTF-8")
            .args(["-c", &format!("printf %s {quoted}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        assert_eq!(quoted_controls("it's plain"), None);
    }

    proptest! {
        #[test]
        fn nothing_else_is_changed(text: String) {
            let safe = escape_controls(&text);
            prop_assert!(!safe.chars().any(is_unsafe));
            let kept: String = text.chars().filter(|letter| !is_unsafe(*letter)).collect();
            if kept == text {
                prop_assert_eq!(safe, text.as_str());
            }
        }
    }
}
