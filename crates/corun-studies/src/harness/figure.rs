//! A figure: a table, and a drawing of some of its columns. Both come from one declaration.

use corun_report::{Align, Axis, Mark, Panel, Plot, figures_table, fixed, folded, section, table};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

/// A table and its drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// The fragment by which it is linked.
    pub(crate) id: String,
    /// Its heading, with the paper's number.
    pub(crate) heading: String,
    /// How to read it, and what the paper has.
    pub(crate) about: String,
    /// Its columns' heads; the first column is of labels.
    pub(crate) header: Vec<String>,
    /// A row of cells each.
    #[serde(serialize_with = "as_values")]
    pub(crate) rows: Vec<Vec<String>>,
    /// The drawing.
    #[serde(skip)]
    plot: Option<Plot>,
}

/// Cells that are numbers become numbers; labels stay as they are.
fn as_values<S: serde::Serializer>(rows: &[Vec<String>], to: S) -> Result<S::Ok, S::Error> {
    let value = |(place, cell): (usize, &String)| match cell.parse::<f64>() {
        Ok(number) if place > 0 && number.is_finite() => Value::from(number),
        _ if cell == "-" => Value::Null,
        _ => Value::from(cell.as_str()),
    };
    let row = |row: &Vec<String>| row.iter().enumerate().map(value).collect::<Vec<Value>>();
    to.collect_seq(rows.iter().map(row))
}

impl Figure {
    /// A figure without rows yet.
    pub(crate) fn new(
        id: impl Into<String>,
        heading: impl Into<String>,
        about: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            heading: heading.into(),
            about: about.into(),
            header: Vec::new(),
            rows: Vec::new(),
            plot: None,
        }
    }

    /// A row for each item. `head` is the head of the column of labels.
    pub(crate) fn rows<'a, T>(
        self,
        head: &str,
        items: &'a [T],
        label: impl Fn(&T) -> String,
    ) -> Rows<'a, T> {
        let labels: Vec<String> = items.iter().map(label).collect();
        let header = vec![head.to_owned()];
        let rows = labels.iter().map(|label| vec![label.clone()]).collect();
        let figure = Self { header, rows, ..self };
        Rows { figure, items, labels, numbers: Vec::new(), series: Vec::new() }
    }

    /// The same with a drawing made by hand.
    pub(crate) fn drawn(self, plot: Plot) -> Self {
        Self { plot: Some(plot), ..self }
    }

    /// The cells of a column by its head; empty where there is no such column.
    #[cfg(test)]
    pub(crate) fn column(&self, name: &str) -> Vec<&str> {
        let place = self.header.iter().position(|head| head == name);
        place.map_or_else(Vec::new, |place| {
            self.rows.iter().map(|row| row[place].as_str()).collect()
        })
    }

    pub(super) fn section(&self) -> Markup {
        let label = format!("{}: the numbers", self.heading);
        let numbers = figures_table(&label, &self.header, &self.rows);
        let body = html! {
            @if let Some(plot) = &self.plot {
                (plot.inline(&self.id))
                (folded("The numbers", &numbers))
            } @else { (numbers) }
        };
        section(&self.id, &self.heading, &self.about, &body)
    }

    pub(super) fn text(&self) -> String {
        let align = |place| if place == 0 { Align::Left } else { Align::Right };
        let columns = self.header.iter().enumerate();
        let header: Vec<(&str, Align)> =
            columns.map(|(place, name)| (name.as_str(), align(place))).collect();
        format!("\n{}\n{}\n\n{}", self.heading, self.about, table(&header, &self.rows))
    }

    /// Each number with the figure, its row and its column.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let of_row = |row: &Vec<String>| {
            let named = self.header.iter().zip(row.clone()).skip(1);
            let line = |(name, cell): (&String, String)| {
                vec![self.id.clone(), row[0].clone(), name.clone(), cell]
            };
            named.map(line).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of_row).collect()
    }

    /// The drawing as a file of its own.
    pub(super) fn svg(&self) -> Option<String> {
        let plot = self.plot.as_ref()?;
        Some(plot.file(3, &self.heading, &self.about))
    }
}

/// A figure whose columns are being declared.
pub(crate) struct Rows<'a, T> {
    figure: Figure,
    items: &'a [T],
    labels: Vec<String>,
    /// By column of numbers: its values and its decimals.
    numbers: Vec<Option<(Vec<Option<f64>>, usize)>>,
    /// What is drawn: names and values.
    series: Vec<(String, Vec<Option<f64>>)>,
}

impl<T> Rows<'_, T> {
    /// A column of numbers with so many decimals; a dash where there is none.
    pub(crate) fn column<V: Into<Option<f64>>>(
        mut self,
        head: impl Into<String>,
        decimals: usize,
        value: impl Fn(&T) -> V,
    ) -> Self {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let values: Vec<Option<f64>> =
            self.items.iter().map(|item| finite(value(item).into())).collect();
        self.figure.header.push(head.into());
        for (row, value) in self.figure.rows.iter_mut().zip(&values) {
            row.push(value.map_or("-".to_owned(), |value| fixed(value, decimals)));
        }
        self.numbers.push(Some((values, decimals)));
        self
    }

    /// A column of words.
    pub(crate) fn words(mut self, head: &str, text: impl Fn(&T) -> String) -> Self {
        self.figure.header.push(head.to_owned());
        for (row, item) in self.figure.rows.iter_mut().zip(self.items) {
            row.push(text(item));
        }
        self.numbers.push(None);
        self
    }

    /// Draws the last column too, under this name.
    pub(crate) fn drawn(mut self, name: impl Into<String>) -> Self {
        if let Some(Some((values, _))) = self.numbers.last() {
            self.series.push((name.into(), values.clone()));
        }
        self
    }

    /// Draws values that are no column.
    pub(crate) fn series<V: Into<Option<f64>>>(
        mut self,
        name: impl Into<String>,
        value: impl Fn(&T) -> V,
    ) -> Self {
        let values = self.items.iter().map(|item| value(item).into()).collect();
        self.series.push((name.into(), values));
        self
    }

    /// A last row, computed from each column's numbers; not drawn.
    pub(crate) fn summary(mut self, label: &str, of: impl Fn(&[f64]) -> Option<f64>) -> Self {
        let cell = |column: &Option<(Vec<Option<f64>>, usize)>| {
            let (values, decimals) = column.as_ref()?;
            let present: Vec<f64> = values.iter().copied().flatten().collect();
            Some(fixed(of(&present)?, *decimals))
        };
        let cells = self.numbers.iter().map(|column| cell(column).unwrap_or("-".to_owned()));
        self.figure.rows.push(std::iter::once(label.to_owned()).chain(cells).collect());
        self
    }

    /// Other labels for the drawing than for the rows.
    pub(crate) fn labelled(mut self, label: impl Fn(&T) -> String) -> Self {
        self.labels = self.items.iter().map(label).collect();
        self
    }

    /// The table alone.
    pub(crate) fn table(self) -> Figure {
        self.figure
    }

    /// With bars from this value.
    pub(crate) fn bars(self, from: f64, upwards: &str) -> Figure {
        self.plotted(Mark::Bars, Axis::Linear(upwards.to_owned(), Some(from)))
    }

    /// With lines over an axis that begins with this value.
    pub(crate) fn lines(self, from: f64, upwards: &str) -> Figure {
        self.plotted(Mark::DottedLine, Axis::Linear(upwards.to_owned(), Some(from)))
    }

    /// With the drawn columns as the mark says.
    pub(crate) fn plotted(self, mark: Mark, upwards: Axis) -> Figure {
        let panel =
            Panel::of_labels(mark, &self.figure.header[0], self.labels, upwards, &self.series);
        self.figure.drawn(Plot::of(panel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let items = [("a", 1.04, None), ("b", -0.04, Some(3.0))];
        Figure::new("one", "One (Fig. 1)", "How.")
            .rows("program", &items, |one| one.0.to_owned())
            .column("slowdown", 1, |one| one.1)
            .drawn("all")
            .column("gain", 2, |one| one.2)
            .words("who", |one| one.0.to_uppercase())
            .summary("sum", |values| Some(values.iter().sum()))
            .bars(0.0, "slowdown")
    }

    #[test]
    fn rows_columns_and_summary_come_from_one_declaration() {
        let figure = figure();
        assert_eq!(figure.header, ["program", "slowdown", "gain", "who"]);
        assert_eq!(figure.rows[0], ["a", "1.0", "-", "A"]);
        assert_eq!(figure.rows[1], ["b", "0.0", "3.00", "B"]);
        assert_eq!(figure.rows[2], ["sum", "1.0", "3.00", "-"]);
        assert_eq!(figure.column("gain"), ["-", "3.00", "3.00"]);
    }

    #[test]
    fn a_document_has_numbers_as_numbers_and_dashes_as_nothing() {
        let document = serde_json::to_value(figure()).unwrap();
        let first = serde_json::json!(["a", 1.0, null, "A"]);
        assert_eq!(document["rows"][0], first);
        assert!(document.get("plot").is_none());
    }

    #[test]
    fn only_what_was_declared_drawn_is_drawn() {
        let drawn = figure().section().into_string();
        assert!(drawn.contains("all, a: 1.04") && !drawn.contains("gain, b"), "{drawn}");
    }
}
