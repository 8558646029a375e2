//! The page of a study: its figures one after another, each with the numbers it shows.

use maud::{Markup, html};

use super::page::{document, section};
use crate::failure::Outcome;
use crate::output::{Align, csv_rows, table};
use crate::plot::{Axis, LINES, number};

// A chart's geometry, in its own units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 10.0;
const BOTTOM: f64 = 44.0;

/// What the page shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StudyReport {
    /// The study's name on the command line.
    pub(crate) name: &'static str,
    /// Its heading.
    pub(crate) title: String,
    /// On what it stands.
    pub(crate) about: String,
    /// Its figures.
    pub(crate) figures: Vec<StudyFigure>,
}

/// A chart and the numbers it shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StudyFigure {
    /// The fragment by which it is linked.
    pub(crate) id: &'static str,
    /// Its heading.
    pub(crate) heading: String,
    /// What it is, what the paper has, and why they differ.
    pub(crate) about: String,
    /// The drawing; none: the numbers alone.
    pub(crate) chart: Option<Chart>,
    /// Column heads; the first column is of labels.
    pub(crate) header: Vec<String>,
    /// A row of cells each.
    pub(crate) rows: Vec<Vec<String>>,
}

/// A chart over labels in equal steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// Lines or bars.
    pub(crate) kind: ChartKind,
    /// What the labels are.
    pub(crate) across: String,
    /// What is drawn upwards, with its unit.
    pub(crate) upwards: String,
    /// The labels.
    pub(crate) labels: Vec<String>,
    /// Each with its name and a value a label; absent ones are not drawn.
    pub(crate) series: Vec<(String, Vec<Option<f64>>)>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ChartKind {
    /// Lines upwards from this value.
    LinesFrom(f64),
    /// Lines on a logarithmic axis.
    LogarithmicLines,
    /// Bars, one series on top of the other.
    Stacks,
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
                @for figure in &self.figures {
                    (section(figure.id, &figure.heading, &figure.about, &figure.body()))
                }
            }
            footer { p { "Made by corun " (version) "." } }
        };
        document(&self.title, version, &body)
    }

    /// The figures as tables.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.about);
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
                    rows.push(vec![figure.id.to_owned(), label, name.clone(), cell.clone()]);
                }
            }
        }
        csv_rows(&["figure", "label", "column", "value"], &rows)
    }
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

impl Chart {
    fn draw(&self) -> Markup {
        let floor = HEIGHT - BOTTOM;
        let axis = self.axis();
        let y = |value: f64| floor - axis.part(value) * (floor - TOP);
        let step = (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let x = |place: usize| LEFT + (place as f64 + 0.5) * step;
        // Some ten labels at most have room.
        let every = self.labels.len().div_ceil(12).max(1);
        html! {
            p.legend { @for (series, (name, _)) in self.series.iter().enumerate() {
                span class={ "l" (series % LINES) } { span.swatch {} " " (name) }
            } }
            svg.study viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label={ (self.upwards) " by " (self.across) } {
                @for value in axis.rate_ticks() {
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(number(y(value))) y2=(number(y(value))) {}
                    text.tick x=(LEFT - 6.0) y=(number(y(value) + 3.5)) text-anchor="end" {
                        (short(value))
                    }
                }
                @for (place, label) in self.labels.iter().enumerate().step_by(every) {
                    text.tick x=(number(x(place))) y=(floor + 15.0) text-anchor="middle" { (label) }
                }
                text.tick x=(LEFT) y=(HEIGHT - 8.0) { (self.upwards) " by " (self.across) }
                @if self.kind == ChartKind::Stacks { (self.stacks(&x, &y, step)) }
                @else { (self.lines(&x, &y)) }
            }
        }
    }

    fn axis(&self) -> Axis {
        let values = || self.series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let most = match self.kind {
            ChartKind::Stacks => {
                let sum = |place| self.series.iter().filter_map(|(_, one)| one[place]).sum::<f64>();
                (0..self.labels.len()).map(sum).fold(0.0, f64::max)
            }
            _ => values().fold(0.0, f64::max),
        };
        match self.kind {
            ChartKind::LogarithmicLines => Axis::logarithmic(values().fold(most, f64::min), most),
            ChartKind::LinesFrom(base) => Axis::from(base, most),
            ChartKind::Stacks => Axis::from(0.0, most),
        }
    }

    fn lines(&self, x: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64) -> Markup {
        html! { @for (series, (_, values)) in self.series.iter().enumerate() {
            @let drawn: Vec<(f64, f64)> = values.iter().enumerate()
                .filter_map(|(place, value)| Some((x(place), y((*value)?)))).collect();
            @let points: Vec<String> =
                drawn.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
            polyline class={ "l" (series % LINES) } points=(points.join(" "))
                style="fill:none;stroke:var(--c);stroke-width:2" {}
            @for (x, y) in drawn {
                circle class={ "l" (series % LINES) } cx=(number(x)) cy=(number(y)) r="2.5"
                    style="fill:var(--c)" {}
            }
        } }
    }

    fn stacks(&self, x: &dyn Fn(usize) -> f64, y: &dyn Fn(f64) -> f64, step: f64) -> Markup {
        let width = step * 0.7;
        html! { @for place in 0..self.labels.len() {
            @for (series, (name, values)) in self.series.iter().enumerate() {
                @if let Some(value) = values[place].filter(|value| *value > 0.0) {
                    @let below: f64 = self.series[..series].iter().filter_map(|(_, one)| one[place]).sum();
                    rect class={ "l" (series % LINES) } x=(number(x(place) - width / 2.0))
                        y=(number(y(below + value))) width=(number(width))
                        height=(number(y(below) - y(below + value))) style="fill:var(--c)" {
                        title { (name) ", " (self.labels[place]) ": " (short(value)) }
                    }
                }
            }
        } }
    }
}

/// A value as a label: a few digits, thousands as k and M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        big if big >= 1e6 => (value * 1e-6, "M"),
        big if big >= 1e4 => (value * 1e-3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: ChartKind) -> Chart {
        Chart {
            kind,
            across: "programs".to_owned(),
            upwards: "clusters".to_owned(),
            labels: vec!["1".to_owned(), "2".to_owned()],
            series: vec![
                ("a".to_owned(), vec![Some(1.0), Some(3.0)]),
                ("b".to_owned(), vec![None, Some(2.0)]),
            ],
        }
    }

    #[test]
    fn stacks_stand_on_one_another_and_nothing_is_left_out() {
        let chart = chart(ChartKind::Stacks);
        let drawn = chart.draw().into_string();
        assert_eq!(drawn.matches("<rect").count(), 3);
        assert!(drawn.contains("<title>b, 2: 2</title>"), "{drawn}");
        // The axis ends with 5, which both of the second label together reach.
        assert!((chart.axis().part(5.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_line_leaves_out_what_is_absent() {
        let drawn = chart(ChartKind::LogarithmicLines).draw().into_string();
        assert_eq!((drawn.matches("<polyline").count(), drawn.matches("<circle").count()), (2, 3));
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = [0.25, 12.0, 92_378.0, 1.5e6].map(short).to_vec();
        assert_eq!(labels, ["0.25", "12", "92.378k", "1.5M"]);
    }
}
