//! Tables for the terminal: aligned columns, no lines, no colours, the same wherever they go.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table with a header; lines end without blanks.
pub(crate) fn table(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let cell = |text: &str, align: Align| {
        Cell::new(text).set_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        })
    };
    table.set_header(header.iter().map(|&(name, align)| cell(name, align)));
    for row in rows {
        table.add_row(row.iter().zip(header).map(|(text, &(_, align))| cell(text, align)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_end_clean() {
        let header = [("policy", Align::Left), ("STP", Align::Right)];
        let rows = vec![
            vec!["linux-default".to_owned(), "6.1".to_owned()],
            vec!["di".to_owned(), "12.25".to_owned()],
        ];
        let expected = "policy           STP\nlinux-default    6.1\ndi             12.25\n";
        assert_eq!(table(&header, &rows), expected);
    }
}
