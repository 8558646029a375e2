//! Messages of parsers, in words.

use crate::similar_names;

/// A parser's message that names types of Rust, in words. An unknown name gets the known one that is most like it.
pub(crate) fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        "path string" => "a path".to_owned(),
        "a boolean" => "true or false".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.replace("a tuple of size ", "a list of "),
    };
    let found = found.replace("` as i128", "`").replace(" as i128", "");
    let found = found.replace("type: map", "type: table").replace("type: sequence", "type: list");
    format!("{found}{}, expected {words}", meant(&found, &words))
}

/// Of an unknown name and a list of known ones: the one that is meant, where one is much like it.
fn meant(found: &str, expected: &str) -> String {
    let unknown = found.strip_prefix("unknown ").and_then(|what| what.split('`').nth(1));
    let (Some(unknown), Some(list)) = (unknown, expected.strip_prefix("one of ")) else {
        return String::new();
    };
    let known: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    did_you_mean(similar_names(unknown, &known).first().copied())
}

/// What stands behind an unknown name: the known one that is meant, if any, in brackets.
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// What a reader of JSON finds wrong, in words and without its place.
pub fn json_in_words(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    in_words(text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what))
}

/// A parser's message on one line.
pub(crate) fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_of_rusts_is_named() {
        for (message, words) in [
            ("found, expected u32", "found, expected a whole number"),
            ("integer `9` as i128, expected u32", "integer `9`, expected a whole number"),
            ("length 1, expected a tuple of size 2", "length 1, expected a list of 2"),
            ("invalid type: map, expected a sequence", "invalid type: table, expected a list"),
            ("unit, expected struct Line with 6 elements", "unit, expected a table"),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
        ] {
            assert_eq!(in_words(message), words);
        }
        let error = serde_json::from_str::<u32>("\"a\"").unwrap_err();
        let words = "invalid type: string \"a\", expected a whole number";
        assert_eq!(json_in_words(&error), words);
    }

    #[test]
    fn an_unknown_name_gets_the_known_one_that_is_like_it() {
        let known = "expected one of `apply`, `policy`, `counters`";
        for (name, meant) in [("polcy", " (did you mean `policy`?)"), ("zzz", "")] {
            let words = in_words(&format!("unknown field `{name}`, {known}"));
            assert_eq!(words, format!("unknown field `{name}`{meant}, {known}"));
        }
    }
}
