//! Tables for the terminal: aligned columns, no lines, no colours, the same wherever they go.

use std::fmt::Display;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::{csv_rows, fixed};

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A table with a header; lines end without blanks.
pub fn table(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
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

/// A table whose columns are declared one after the other, each with its head and its cells.
pub struct Columns<'a, T> {
    items: &'a [T],
    header: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl<'a, T> Columns<'a, T> {
    /// A row for each item.
    pub fn of(items: &'a [T]) -> Self {
        Self { items, header: Vec::new(), rows: vec![Vec::new(); items.len()] }
    }

    fn column<C: Display>(mut self, head: &str, align: Align, cell: impl Fn(&T) -> C) -> Self {
        self.header.push((head.to_owned(), align));
        for (row, item) in self.rows.iter_mut().zip(self.items) {
            row.push(cell(item).to_string());
        }
        self
    }

    /// A column of words.
    #[must_use]
    pub fn left<C: Display>(self, head: &str, cell: impl Fn(&T) -> C) -> Self {
        self.column(head, Align::Left, cell)
    }

    /// A column of figures.
    #[must_use]
    pub fn right<C: Display>(self, head: &str, cell: impl Fn(&T) -> C) -> Self {
        self.column(head, Align::Right, cell)
    }

    /// The table for the terminal.
    pub fn table(&self) -> String {
        let header: Vec<(&str, Align)> =
            self.header.iter().map(|(head, align)| (head.as_str(), *align)).collect();
        table(&header, &self.rows)
    }

    /// The table as CSV by RFC 4180 with a header.
    ///
    /// # Errors
    /// None that a table of at least one column has.
    pub fn csv(&self) -> corun_app::Result<String> {
        let header: Vec<&str> = self.header.iter().map(|(head, _)| head.as_str()).collect();
        csv_rows(&header, &self.rows)
    }
}

/// A figure that may be absent, as a cell of CSV: empty where it is.
pub fn or_empty<C: Display>(figure: Option<C>) -> String {
    figure.map(|figure| figure.to_string()).unwrap_or_default()
}

/// A figure that may be absent, as a cell of a table: so many decimals, or a dash.
pub fn or_dash(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| fixed(figure, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_declared_once_for_terminal_and_csv() {
        let items = [("di", Some(1.25)), ("a,b", None)];
        let columns = Columns::of(&items).left("policy", |one| one.0);
        let shown = columns.right("mean", |one| or_dash(one.1, 1)).table();
        assert_eq!(shown, "policy  mean\ndi       1.2\na,b        -\n");
        let columns = Columns::of(&items).left("policy", |one| one.0);
        let csv = columns.right("mean", |one| or_empty(one.1)).csv().unwrap();
        assert_eq!(csv, "policy,mean\ndi,1.25\n\"a,b\",\n");
    }

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
