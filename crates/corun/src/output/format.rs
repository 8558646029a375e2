//! JSON and CSV documents.

use anyhow::Context as _;
use serde::Serialize;

use crate::failure::Outcome;

/// One JSON document, indented, with a line end.
pub(crate) fn json<T: Serialize>(document: &T) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(document).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// CSV by RFC 4180 with a header; every row has as many fields as the header.
pub(crate) fn csv_rows(header: &[&str], rows: &[Vec<String>]) -> Outcome<String> {
    let write = || -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(header)?;
        for row in rows {
            writer.write_record(row)?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    };
    Ok(write().context("cannot write CSV")?)
}

/// `1 seed`, `2 seeds`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = vec![vec!["a,b".to_owned(), "1".to_owned()]];
        assert_eq!(csv_rows(&["name", "n"], &rows).unwrap(), "name,n\n\"a,b\",1\n");
    }
}
