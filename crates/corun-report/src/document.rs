//! JSON and CSV documents.

use anyhow::Context as _;
use corun_app::Result;
use serde::Serialize;

/// One JSON document, indented, with a line end.
///
/// # Errors
/// A document that cannot be written as JSON, such as a map whose keys are no strings.
pub fn json<T: Serialize>(document: &T) -> Result<String> {
    let mut text = serde_json::to_string_pretty(document).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// CSV by RFC 4180 with a header.
///
/// # Errors
/// A row with another number of fields than the header.
pub fn csv_rows(header: &[&str], rows: &[Vec<String>]) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = vec![vec!["a,b".to_owned(), "1".to_owned()]];
        assert_eq!(csv_rows(&["name", "n"], &rows).unwrap(), "name,n\n\"a,b\",1\n");
    }
}
