//! The page of a study: what was found beside what the paper has, then its figures one after
//! another, each with the numbers it shows.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::chart::Chart;
use super::page::{document, section};
use crate::failure::Outcome;
use crate::output::{Align, csv_rows, table};

/// What the page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StudyReport {
    /// The study's name on the command line.
    #[serde(rename = "study")]
    pub(crate) name: &'static str,
    /// Its heading.
    pub(crate) title: String,
    /// On what it stands.
    pub(crate) about: String,
    /// What came out, beside the paper's.
    pub(crate) findings: Vec<Finding>,
    /// Its figures.
    pub(crate) figures: Vec<StudyFigure>,
}

/// A number of the paper, ours, and why they differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// What it is about, with the paper's figure or table: "Pain above the optimum (Fig. 3)".
    pub(crate) what: String,
    /// What the paper has.
    pub(crate) paper: String,
    /// What came out here.
    pub(crate) ours: String,
    /// A sentence on the difference; empty where there is none.
    pub(crate) difference: String,
}

/// A chart and the numbers it shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StudyFigure {
    /// The fragment by which it is linked.
    pub(crate) id: String,
    /// Its heading.
    pub(crate) heading: String,
    /// What it is, what the paper has, and why they differ.
    pub(crate) about: String,
    /// The drawing; none: the numbers alone.
    #[serde(skip)]
    pub(crate) chart: Option<Chart>,
    /// Column heads; the first column is of labels.
    pub(crate) header: Vec<String>,
    /// A row of cells each.
    #[serde(serialize_with = "as_values")]
    pub(crate) rows: Vec<Vec<String>>,
}

/// Words as a row of cells or heads.
pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
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

impl StudyReport {
    /// The page as one HTML document. The same report gives the same bytes.
    pub(crate) fn render(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let body = html! {
            header.head {
                p.kicker { "corun study " (self.name) }
                h1 { (self.title) }
                p.sub { (self.about) }
            }
            main #main {
                @if !self.findings.is_empty() {
                    (section("findings", "Beside the paper", "", &self.findings_table()))
                }
                @for figure in &self.figures {
                    (section(&figure.id, &figure.heading, &figure.about, &figure.body()))
                }
            }
            footer { p { "Made by corun " (version) "." } }
        };
        document(&self.title, version, &body)
    }

    fn findings_table(&self) -> Markup {
        html! {
            div.scroll tabindex="0" { table.words {
                thead { tr { th { "What" } th { "Paper" } th { "Here" } th { "Why they differ" } } }
                tbody { @for one in &self.findings { tr {
                    th scope="row" { (one.what) }
                    td { (one.paper) }
                    td { (one.ours) }
                    td { (one.difference) }
                } } }
            } }
        }
    }

    /// The findings and the figures as tables.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.about);
        for one in &self.findings {
            text.push_str(&format!(
                "\n{}\n  paper: {}\n  here:  {}\n",
                one.what, one.paper, one.ours
            ));
            if !one.difference.is_empty() {
                text.push_str(&format!("  {}\n", one.difference));
            }
        }
        for figure in &self.figures {
            let columns = figure.header.iter().enumerate();
            let align = |place| if place == 0 { Align::Left } else { Align::Right };
            let header: Vec<(&str, Align)> =
                columns.map(|(place, name)| (name.as_str(), align(place))).collect();
            text.push_str(&format!("\n{}\n{}\n\n", figure.heading, figure.about));
            text.push_str(&table(&header, &figure.rows));
        }
        text
    }

    /// All numbers, one a line.
    pub(crate) fn csv(&self) -> Outcome<String> {
        let mut rows = Vec::new();
        for figure in &self.figures {
            for row in &figure.rows {
                for (name, cell) in figure.header.iter().zip(row).skip(1) {
                    let label = row[0].clone();
                    rows.push(vec![figure.id.clone(), label, name.clone(), cell.clone()]);
                }
            }
        }
        csv_rows(&["figure", "label", "column", "value"], &rows)
    }
}

/// A page that lists studies, each with its findings.
pub(crate) fn index_of_studies(studies: &[StudyReport]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let body = html! {
        header.head {
            p.kicker { "corun study all" }
            h1 { "The papers' experiments" }
            p.sub { "What the papers found, what came out here, and why they differ." }
        }
        main #main {
            @for study in studies {
                section id=(study.name) {
                    h2 { a href={ (study.name) ".html" } { (study.title) } }
                    p.about { (study.about) }
                    @if !study.findings.is_empty() { (study.findings_table()) }
                }
            }
        }
        footer { p { "Made by corun " (version) "." } }
    };
    document("The papers' experiments", version, &body)
}

impl StudyFigure {
    fn body(&self) -> Markup {
        html! {
            @if let Some(chart) = &self.chart {
                (chart.draw())
                details { summary { "The numbers" } (self.numbers()) }
            } @else { (self.numbers()) }
        }
    }

    fn numbers(&self) -> Markup {
        html! {
            div.scroll tabindex="0" { table {
                thead { tr {
                    @for (place, name) in self.header.iter().enumerate() {
                        th.n[place > 0] { (name) }
                    }
                } }
                tbody { @for row in &self.rows { tr {
                    @for (place, cell) in row.iter().enumerate() {
                        @if place == 0 { th scope="row" { (cell) } } @else { td.n { (cell) } }
                    }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_numbers_as_numbers_and_dashes_as_nothing() {
        let figure = StudyFigure {
            id: "one".to_owned(),
            heading: String::new(),
            about: String::new(),
            chart: None,
            header: vec!["ways".to_owned(), "a".to_owned(), "b".to_owned(), "c".to_owned()],
            rows: vec![["4", "0.5", "-", "x"].map(str::to_owned).to_vec()],
        };
        let document = serde_json::to_value(&figure).unwrap();
        assert_eq!(document["rows"], serde_json::json!([["4", 0.5, null, "x"]]));
        assert!(document.get("chart").is_none());
    }
}
