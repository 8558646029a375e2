//! Where in a TOML text a field stands, and which field stands at a place of it.
//!
//! The span of a table or of an item of an array of tables is that of its header, and that of a table which dotted
//! keys make is that of the key: what stands in such a table lies outside its span, and a header `[a.b]` lies in
//! that of `b` and holds that of `a`. Both searches therefore go through all values.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line, from 1, of a byte of a text.
pub fn line_at(text: &str, byte: usize) -> u64 {
    let before = &text.as_bytes()[..byte.min(text.len())];
    1 + before.iter().filter(|&&one| one == b'\n').count() as u64
}

/// The key that a line begins with, of a text that is no TOML and therefore has no tree.
pub(crate) fn key_of_line(text: &str, byte: usize) -> Option<String> {
    let line = text.lines().nth(line_at(text, byte) as usize - 1)?;
    let key = line.split_once('=')?.0.trim();
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    (!key.is_empty() && key.chars().all(is_bare)).then(|| key.to_owned())
}

/// The field whose key or value holds a span most closely, as `phase[1].threads`; of several that hold it alike the
/// innermost. Empty where none does.
pub(crate) fn field_at(table: &DeTable<'_>, span: &Range<usize>) -> String {
    let mut search = Search { span, closest: usize::MAX, field: String::new() };
    search.table(table, "");
    search.field
}

struct Search<'s> {
    span: &'s Range<usize>,
    closest: usize,
    field: String,
}

impl Search<'_> {
    fn table(&mut self, table: &DeTable<'_>, name: &str) {
        for (key, value) in table {
            let dot = if name.is_empty() { "" } else { "." };
            let name = format!("{name}{dot}{}", key.get_ref());
            self.offer(&key.span(), &name);
            self.value(value, &name);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, name: &str) {
        self.offer(&value.span(), name);
        match value.get_ref() {
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &format!("{name}[{index}]"));
                }
            }
            DeValue::Table(table) => self.table(table, name),
            _ => {}
        }
    }

    fn offer(&mut self, holder: &Range<usize>, name: &str) {
        let holds = holder.start <= self.span.start && self.span.end <= holder.end;
        if holds && holder.len() <= self.closest {
            self.closest = holder.len();
            name.clone_into(&mut self.field);
        }
    }
}

/// The span of a field such as `phase[1].threads`, or of the last part on the way to it that the text has.
pub(crate) fn span_of(table: &DeTable<'_>, field: &str) -> Option<Range<usize>> {
    let (value, rest) = child(table, field)?;
    let (mut value, mut rest) = (value, rest);
    loop {
        let next = match value.get_ref() {
            DeValue::Table(table) => rest.strip_prefix('.').and_then(|field| child(table, field)),
            DeValue::Array(items) => rest.strip_prefix('[').and_then(|step| {
                let (index, rest) = step.split_once(']')?;
                Some((items.get(index.parse::<usize>().ok()?)?, rest))
            }),
            _ => None,
        };
        let Some(next) = next else { return Some(value.span()) };
        (value, rest) = next;
    }
}

/// The value under the key that a way begins with, and the rest of the way. A key may hold dots: the longest counts.
fn child<'v, 'w, 't>(
    table: &'v DeTable<'t>,
    way: &'w str,
) -> Option<(&'v Spanned<DeValue<'t>>, &'w str)> {
    let begun = table.iter().filter_map(|(key, value)| {
        let rest = way.strip_prefix(key.get_ref().as_ref())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((value, rest))
    });
    begun.min_by_key(|(_, rest)| rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"gate.noise = 2
gate.rest.seconds = 3
list = [1, [2, 3]]
inline = { one = 1, two.three = 23, items = [{ four = 4 }] }

[[program]]
name = "first"

  [[program.sub]]
  key = 5

  [program.single]
  key = 6

[outer.middle.inner]
key = 7
"quoted.key" = 8

[[program]]
name = "second"

[[program.sub]]
key = 9
  [[program.sub]]
  key = 10
"#;

    fn tree() -> DeTable<'static> {
        DeTable::parse(TEXT).unwrap().into_inner()
    }

    /// Where a part of the text stands, that of the key or value in it which a parser names.
    fn span(line: &str, part: &str) -> Range<usize> {
        let start = TEXT.find(line).unwrap() + line.find(part).unwrap();
        start..start + part.len()
    }

    #[test]
    fn the_field_at_a_place_is_the_innermost() {
        let sub_of_second = TEXT.rfind("[[program.sub]]\nkey = 9").unwrap();
        let header = sub_of_second..sub_of_second + "[[program.sub]]".len();
        for (span, field) in [
            // Dotted keys: a figure, the table that they make, the key itself.
            (span("gate.noise = 2", "2"), "gate.noise"),
            (span("gate.noise = 2", "noise"), "gate.noise"),
            (span("gate.rest.seconds", "rest"), "gate.rest"),
            (span("gate.rest.seconds = 3", "3"), "gate.rest.seconds"),
            // Lists.
            (span("list = [1, [2, 3]]", "[1, [2, 3]]"), "list"),
            (span("list = [1, [2, 3]]", "[2, 3]"), "list[1]"),
            (span("list = [1, [2, 3]]", "3"), "list[1][1]"),
            // Inline tables.
            (span("inline = { one", "inline"), "inline"),
            (span("inline = { one = 1", "one"), "inline.one"),
            (span("{ one = 1, two.three = 23", "23"), "inline.two.three"),
            (span("{ one = 1, two.three = 23", "two"), "inline.two"),
            (span("items = [{ four = 4 }]", "{ four = 4 }"), "inline.items[0]"),
            (span("items = [{ four = 4 }]", "four"), "inline.items[0].four"),
            // Arrays of tables: what one lacks is told at its header.
            (span("[[program]]\nname = \"first\"", "[[program]]"), "program[0]"),
            (span("[[program]]\nname = \"second\"", "[[program]]"), "program[1]"),
            (span("name = \"second\"", "name"), "program[1].name"),
            (span("  [[program.sub]]\n  key = 5", "[[program.sub]]"), "program[0].sub[0]"),
            (header, "program[1].sub[0]"),
            (span("key = 10", "10"), "program[1].sub[1].key"),
            (span("key = 6", "6"), "program[0].single.key"),
            // Headers: the whole is of the last table, its parts are of those that hold it.
            (span("[outer.middle.inner]", "[outer.middle.inner]"), "outer.middle.inner"),
            (span("[outer.middle.inner]", "outer"), "outer"),
            (span("[outer.middle.inner]", "middle"), "outer.middle"),
            (span("key = 7", "7"), "outer.middle.inner.key"),
            (span("\"quoted.key\" = 8", "8"), "outer.middle.inner.quoted.key"),
            (0..TEXT.len(), ""),
        ] {
            assert_eq!(field_at(&tree(), &span), field, "{:?}", &TEXT[span]);
        }
    }

    #[test]
    fn what_is_no_toml_has_the_key_of_its_line() {
        let text = "one = 1\n  two.three = = 2\n[four\n\"five\" = 5\n";
        for (part, key) in [("= 2", Some("two.three")), ("[four", None), ("5", None)] {
            assert_eq!(key_of_line(text, text.find(part).unwrap()).as_deref(), key, "{part}");
        }
        assert_eq!(key_of_line("", 0), None);
    }

    #[test]
    fn a_field_is_found_where_it_stands() {
        let line = |of: &str| line_at(TEXT, TEXT.find(of).unwrap());
        for (field, expected) in [
            ("gate.noise", Some(1)),
            ("gate.rest.seconds", Some(2)),
            ("list[1][1]", Some(3)),
            ("inline.items[0].four", Some(4)),
            ("program[0]", Some(line("[[program]]"))),
            ("program[0].single.key", Some(line("key = 6"))),
            ("program[1].name", Some(line("name = \"second\""))),
            ("program[1].sub[1].key", Some(line("key = 10"))),
            ("outer.middle.inner.quoted.key", Some(line("\"quoted.key\""))),
            // What the text does not have stands in what it has of it.
            ("gate.most_loss", Some(1)),
            ("list[7]", Some(3)),
            ("program[1].pid", Some(line("[[program]]\nname = \"second\""))),
            ("program[2].pid", Some(line("[[program]]"))),
            ("outer.middle.inner.absent", Some(line("[outer"))),
            ("gates", None),
            ("", None),
        ] {
            let found = span_of(&tree(), field).map(|span| line_at(TEXT, span.start));
            assert_eq!(found, expected, "{field}");
        }
    }
}
