//! Plots as SVG, drawn by kuva. All that knows kuva is in this file.
//!
//! A [`Plot`] has one or more [`Panel`]s. On a page each panel is a drawing of its own, so that the
//! page can set them under one another on a narrow screen; as a file they stand in rows.

use std::sync::Arc;

use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::{LegendEntry, LegendShape};
use kuva::prelude::{BarPlot, LinePlot, Plot as Drawn, ScatterPlot};
use kuva::render::annotations::ReferenceLine;
use kuva::render::figure::{Figure, FigureLegendPosition};
use kuva::render::layout::{AxisLabelOverlap, Layout, TickFormat};
use kuva::render::render::{Scene, render_multiple};
use kuva::render::theme::Theme;
use maud::{Markup, PreEscaped, html};

use crate::size;

/// Colours that are told apart also by the colour-blind (Okabe and Ito, "Color universal design",
/// 2008), legible on light and dark ground. `.l0` to `.l7` of a page's style are the same.
pub const COLOURS: [&str; 8] =
    ["#0072b2", "#d98a00", "#009e73", "#c06898", "#3f9fd6", "#d55e00", "#958b00", "#7b6fb0"];

// Of everything that is no series. A page's style replaces these very values in dark surroundings.
const INK: &str = "#1d2127";
const SOFT: &str = "#565e69";
const RULE: &str = "#e3e0d8";

/// A panel's width and height.
const PANEL: (f64, f64) = (400.0, 240.0);

/// How the letters of a drawing are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lettering {
    /// On a page: 14 units high, which are 11 pixels where a panel is 328 pixels wide, as on a telephone. The page writes the
    /// title and what the values are above the panel, where a long caption has room.
    Page,
    /// In a file, which is shown as large as it is: 12 units high, all drawn with the panel.
    File,
}

impl Lettering {
    fn height(self) -> u32 {
        match self {
            Self::Page => 14,
            Self::File => 12,
        }
    }
}

/// Room above a panel of a page for a line of text.
const LINE: f64 = 20.0;

/// One or more panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// In the order in which they are read.
    pub panels: Vec<Panel>,
}

/// A plot's area with its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its heading; empty: none.
    pub title: String,
    /// From left to right.
    pub across: Axis,
    /// From bottom to top.
    pub upwards: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Dashed vertical lines at these places across.
    pub vertical_lines: Vec<f64>,
    /// Where the axes begin and end.
    pub ends: Ends,
}

/// Where axes begin and end; where the data do unless it is said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ends {
    /// The leftmost and the rightmost place.
    pub across: Option<(f64, f64)>,
    /// The lowest and the highest value.
    pub upwards: Option<(f64, f64)>,
}

/// An axis with its caption.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// Labels in equal steps: label 0 lies at 0, label 1 at 1.
    Labels(String, Vec<String>),
    /// Values from this one, where one is given.
    Linear(String, Option<f64>),
    /// The logarithm of values above 0.
    Logarithmic(String),
    /// The logarithm of cache sizes in bytes, labelled in KiB and MiB.
    CacheSizes(String),
}

/// A line, dots or bars of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of one name share an entry. Empty: no entry.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// How its points are drawn.
    pub mark: Mark,
    /// Places across and values.
    pub points: Vec<(f64, f64)>,
    /// What is said of each point under the pointer; empty: nothing.
    pub titles: Vec<String>,
}

/// The colour of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// One of [`COLOURS`], counted round.
    Nth(usize),
    /// That of captions, for what only guides the eye.
    Soft,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A line through the points, with a dot on each.
    DottedLine,
    /// A dashed line, for what was not measured.
    Dashed,
    /// A thin line.
    Thin,
    /// A dot at each point.
    Dots,
    /// Bars from 0, those of several series side by side.
    Bars,
    /// Bars from 0, those of several series on top of one another.
    Stack,
}

impl Colour {
    fn name(self) -> &'static str {
        match self {
            Self::Nth(place) => COLOURS[place % COLOURS.len()],
            Self::Soft => SOFT,
        }
    }
}

impl Axis {
    fn caption(&self) -> &str {
        match self {
            Self::Labels(name, _)
            | Self::Linear(name, _)
            | Self::Logarithmic(name)
            | Self::CacheSizes(name) => name,
        }
    }

    /// Where a value lies on a straight axis.
    fn place(&self, value: f64) -> f64 {
        if matches!(self, Self::CacheSizes(_)) { value.log2() } else { value }
    }
}

impl Series {
    /// A curve over cache sizes: points of size, value, and whether the value was extrapolated. Its
    /// extrapolated parts are dashed.
    pub fn curve(name: &str, colour: Colour, mark: Mark, points: &[(f64, f64, bool)]) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for pair in points.windows(2) {
            // A part belongs to the measured range where both its ends do.
            let mark = if pair[0].2 || pair[1].2 { Mark::Dashed } else { mark };
            let (from, to) = ((pair[0].0, pair[0].1), (pair[1].0, pair[1].1));
            match parts.last_mut() {
                Some(part) if part.mark == mark => part.points.push(to),
                _ => parts.push(Self {
                    name: name.to_owned(),
                    colour,
                    mark,
                    points: vec![from, to],
                    titles: Vec::new(),
                }),
            }
        }
        parts
    }

    fn drawn(&self, across: &Axis) -> Vec<Drawn> {
        let place = |&(x, y): &(f64, f64)| (across.place(x), y);
        let points: Vec<(f64, f64)> = self.points.iter().map(place).collect();
        let line = || LinePlot::new().with_data(points.clone()).with_color(self.colour.name());
        let dots = |radius: f64| {
            let dots = ScatterPlot::new().with_data(points.clone()).with_color(self.colour.name());
            let dots = dots.with_size(radius);
            if self.titles.is_empty() {
                return Drawn::from(dots);
            }
            dots.with_tooltips().with_tooltip_labels(self.titles.clone()).into()
        };
        match self.mark {
            Mark::Line => vec![line().with_stroke_width(2.0).into()],
            Mark::DottedLine => vec![line().with_stroke_width(2.0).into(), dots(2.5)],
            Mark::Dashed => vec![line().with_stroke_width(1.5).with_dashed().into()],
            Mark::Thin => vec![line().with_stroke_width(1.0).into()],
            Mark::Dots => vec![dots(3.0)],
            Mark::Bars | Mark::Stack => Vec::new(),
        }
    }
}

impl Panel {
    /// A panel of labels in equal steps with a series of values a name; absent values are left out.
    pub fn of_labels(
        mark: Mark,
        across: &str,
        labels: Vec<String>,
        upwards: Axis,
        series: &[(String, Vec<Option<f64>>)],
    ) -> Self {
        let series = series.iter().enumerate().map(|(number, (name, values))| {
            let present =
                values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?)));
            let titled = |(place, value): (usize, f64)| {
                format!("{name}, {}: {}", labels[place], short(value))
            };
            Series {
                name: name.clone(),
                colour: Colour::Nth(number),
                mark,
                points: present.clone().map(|(place, value)| (place as f64, value)).collect(),
                titles: present.map(titled).collect(),
            }
        });
        let series = series.collect();
        let across = Axis::Labels(across.to_owned(), labels);
        Self {
            title: String::new(),
            across,
            upwards,
            series,
            vertical_lines: Vec::new(),
            ends: Ends::default(),
        }
    }

    fn bars(&self) -> Option<Drawn> {
        let Axis::Labels(_, labels) = &self.across else { return None };
        let is_bar = |one: &&Series| matches!(one.mark, Mark::Bars | Mark::Stack);
        let series: Vec<&Series> = self.series.iter().filter(is_bar).collect();
        let stacked = series.first()?.mark == Mark::Stack;
        let mut bars = BarPlot::new().with_width(if series.len() > 1 { 0.8 } else { 0.6 });
        let mut titles = Vec::new();
        for (place, label) in labels.iter().enumerate() {
            let group = series.iter().map(|one| {
                let found = one.points.iter().position(|&(x, _)| x == place as f64);
                let title = found.and_then(|found| one.titles.get(found).cloned());
                titles.push(title.unwrap_or_default());
                (found.map_or(0.0, |found| one.points[found].1), one.colour.name())
            });
            bars = bars.with_group(label.clone(), group.collect::<Vec<_>>());
        }
        if stacked {
            bars = bars.with_stacked();
        }
        Some(bars.with_tooltips().with_tooltip_labels(titles).into())
    }

    fn parts(&self, lettering: Lettering) -> (Vec<Drawn>, Layout) {
        let lines = self.series.iter().flat_map(|one| one.drawn(&self.across));
        let bars = self.bars();
        let has_bars = bars.is_some();
        let drawn: Vec<Drawn> = bars.into_iter().chain(lines).collect();
        let letter = lettering.height();
        let mut layout = Layout::auto_from_plots(&drawn)
            .with_width(PANEL.0)
            .with_height(PANEL.1)
            .with_theme(theme())
            .with_tick_size(letter)
            .with_label_size(letter)
            .with_title_size(letter + 1)
            .with_x_label(self.across.caption())
            .with_x_label_overlap(AxisLabelOverlap::Thin)
            .with_y_tick_format(TickFormat::Custom(Arc::new(short)));
        if lettering == Lettering::File {
            layout = layout.with_y_label(self.upwards.caption());
            if !self.title.is_empty() {
                layout = layout.with_title(self.title.as_str()).with_height(PANEL.1 + 20.0);
            }
        }
        let ends = |of: fn(&(f64, f64)) -> f64| {
            let all = self.series.iter().flat_map(|one| &one.points).map(of);
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
                (least.min(one), most.max(one))
            })
        };
        match &self.upwards {
            Axis::Logarithmic(_) => layout = layout.with_log_y(),
            // Bars grow from 0 unless the axis begins elsewhere; what is below its beginning shows.
            Axis::Linear(_, Some(from)) if ends(|one| one.1).0 >= *from => {
                layout = layout.with_y_axis_min(*from);
            }
            _ => {}
        }
        match &self.across {
            Axis::Labels(_, labels) if !has_bars => {
                let labels = labels.clone();
                let label = move |at: f64| {
                    let whole = at.fract() == 0.0 && at >= 0.0;
                    if whole {
                        labels.get(at as usize).cloned().unwrap_or_default()
                    } else {
                        String::new()
                    }
                };
                let last = self.labels().saturating_sub(1) as f64;
                layout = layout
                    .with_x_tick_step(1.0)
                    .with_x_axis_min(-0.5)
                    .with_x_axis_max(last + 0.5)
                    .with_x_tick_format(TickFormat::Custom(Arc::new(label)));
            }
            Axis::CacheSizes(_) => {
                let (least, most) = self.ends.across.unwrap_or_else(|| ends(|one| one.0));
                let doublings = (most / least).log2();
                layout = layout
                    .with_x_tick_step((doublings / 4.0).ceil().max(1.0))
                    .with_x_axis_min(least.log2())
                    .with_x_axis_max(most.log2())
                    .with_x_tick_format(TickFormat::Custom(Arc::new(|at| size(at.exp2()))));
            }
            Axis::Logarithmic(_) => {
                layout =
                    layout.with_log_x().with_x_tick_format(TickFormat::Custom(Arc::new(short)));
            }
            _ => {}
        }
        if let Some((least, most)) = self.ends.upwards {
            layout = layout.with_y_axis_min(least).with_y_axis_max(most);
        }
        if let (Some((least, most)), false) =
            (self.ends.across, matches!(self.across, Axis::CacheSizes(_)))
        {
            layout = layout.with_x_axis_min(least).with_x_axis_max(most);
        }
        for &at in &self.vertical_lines {
            let line = ReferenceLine::vertical(self.across.place(at)).with_color(SOFT);
            layout = layout.with_reference_line(line);
        }
        (drawn, layout)
    }

    fn labels(&self) -> usize {
        if let Axis::Labels(_, labels) = &self.across { labels.len() } else { 0 }
    }

    /// The drawing by itself, to stand in a page. `id` is its own on the page.
    fn inline(&self, id: &str) -> Markup {
        let (drawn, layout) = self.parts(Lettering::Page);
        let svg = svg(&render_multiple(drawn, layout), id);
        let lines = if self.title.is_empty() { 1.0 } else { 2.0 };
        let spoken = format!("{} by {}", self.upwards.caption(), self.across.caption());
        let spoken =
            if self.title.is_empty() { spoken } else { format!("{}: {spoken}", self.title) };
        html! {
            svg.plot viewBox={ "0 " (-lines * LINE) " " (svg.width) " " (svg.height + lines * LINE) } role="img"
                aria-label=(spoken) {
                @if !self.title.is_empty() { text.plot-title x="0" y=(-1.3 * LINE) { (self.title) } }
                text.tick x="0" y=(-0.3 * LINE) { (self.upwards.caption()) }
                (PreEscaped(svg.body))
            }
        }
    }
}

impl Plot {
    /// A plot of one panel.
    pub fn of(panel: Panel) -> Self {
        Self { panels: vec![panel] }
    }

    /// Names in the legend with their colours, each once.
    fn legend(&self) -> Vec<(&str, Colour)> {
        let mut entries: Vec<(&str, Colour)> = Vec::new();
        for one in self.panels.iter().flat_map(|panel| &panel.series) {
            if !one.name.is_empty() && entries.iter().all(|(name, _)| *name != one.name) {
                entries.push((&one.name, one.colour));
            }
        }
        entries
    }

    /// The legend and the panels, to stand in a page. `id` is the plot's own on the page.
    pub fn inline(&self, id: &str) -> Markup {
        html! {
            p.legend { @for (name, colour) in self.legend() {
                span.key { span.swatch style={ "background:" (colour.name()) } {} (name) }
            } }
            div.plots { @for (place, panel) in self.panels.iter().enumerate() {
                (panel.inline(&format!("{id}-{place}")))
            } }
        }
    }

    /// An SVG document of the panels in rows of `columns`. `description` is for those who do not see
    /// the drawing.
    pub fn file(&self, columns: usize, title: &str, description: &str) -> String {
        let (drawn, layouts): (Vec<_>, Vec<_>) =
            self.panels.iter().map(|panel| panel.parts(Lettering::File)).unzip();
        let columns = columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let entries = self.legend().into_iter().map(|(name, colour)| LegendEntry {
            label: name.to_owned(),
            color: colour.name().to_owned(),
            shape: LegendShape::Rect,
            dasharray: None,
        });
        let entries: Vec<LegendEntry> = entries.collect();
        let (width, height) = (PANEL.0, PANEL.1 + 20.0);
        let mut figure = Figure::new(rows, columns)
            .with_plots(drawn)
            .with_layouts(layouts)
            .with_cell_size(width, height)
            .with_spacing(4.0)
            .with_title(title)
            .with_title_size(Lettering::File.height() + 3);
        if entries.len() > 1 {
            figure = figure
                .with_shared_legend_entries(entries)
                .with_shared_legend_position(FigureLegendPosition::BottomCenter);
        }
        let svg = svg(&figure.render(), "plot");
        let page = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (svg.width) " " (svg.height) }
                width=(svg.width) height=(svg.height) role="img" aria-labelledby="title description" {
                title #title { (title) }
                desc #description { (description) }
                style { (PreEscaped(FILE_STYLE)) }
                (PreEscaped(svg.body))
            }
        };
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", page.into_string())
    }
}

/// What is inside of an SVG element, and its size.
struct Svg {
    width: f64,
    height: f64,
    body: String,
}

fn svg(scene: &Scene, id: &str) -> Svg {
    let text = SvgBackend::new().render_scene(scene);
    let body = text.split_once('>').map_or("", |(_, rest)| rest).trim_end();
    let body = body.strip_suffix("</svg>").unwrap_or(body);
    Svg { width: scene.width, height: scene.height, body: named_apart(body, id) }
}

/// The drawing with names of its own for its clip paths. kuva counts them over the life of the
/// process; here they are counted from 0 in each drawing.
fn named_apart(body: &str, id: &str) -> String {
    const NAME: &str = "kuva-clip-";
    let mut parts = body.split(NAME);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        let digits = part.find(|one: char| !one.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let place = seen.iter().position(|one| *one == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        text.push_str(&format!("{id}-clip-{place}{rest}"));
    }
    text
}

fn theme() -> Theme {
    Theme {
        background: "none".to_owned(),
        axis_color: SOFT.to_owned(),
        grid_color: RULE.to_owned(),
        tick_color: SOFT.to_owned(),
        text_color: INK.to_owned(),
        legend_bg: "none".to_owned(),
        legend_border: "none".to_owned(),
        ..Theme::light()
    }
}

/// The style of a drawing in a file of its own, on light and on dark ground.
const FILE_STYLE: &str = "
svg { background: #fbfaf7; fill: #1d2127; max-width: 100%; height: auto;
  font-family: system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif; }
@media (prefers-color-scheme: dark) {
  svg { background: #14161a; fill: #e8e9eb; }
  [stroke='#e3e0d8'] { stroke: #30353d; } [stroke='#565e69'] { stroke: #a2a9b4; }
  [fill='#1d2127'] { fill: #e8e9eb; } [fill='#565e69'] { fill: #a2a9b4; }
}
";

/// A value as a label: a few digits, thousands as k and M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        big if big >= 1e6 => (value * 1e-6, "M"),
        big if big >= 1e4 => (value * 1e-3, "k"),
        _ => (value, ""),
    };
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:e}");
    }
    let text = crate::fixed(scaled, 3);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(mark: Mark) -> Panel {
        let series = [
            ("a<b".to_owned(), vec![Some(1.0), Some(3.0)]),
            ("c".to_owned(), vec![None, Some(2.0)]),
        ];
        let labels = vec!["one".to_owned(), "two".to_owned()];
        Panel::of_labels(
            mark,
            "programs",
            labels,
            Axis::Linear("clusters".to_owned(), None),
            &series,
        )
    }

    #[test]
    fn bars_say_what_they_are_and_names_are_escaped() {
        for mark in [Mark::Bars, Mark::Stack] {
            let drawn = Plot::of(panel(mark)).inline("x").into_string();
            assert!(drawn.contains("c, two: 2") && drawn.contains("a&lt;b, two: 3"), "{drawn}");
            assert!(!drawn.contains("a<b") && !drawn.contains("NaN"), "{drawn}");
        }
    }

    #[test]
    fn a_line_leaves_out_what_is_absent() {
        let drawn = Plot::of(panel(Mark::DottedLine)).inline("x").into_string();
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert!(drawn.contains("aria-label=\"clusters by programs\""), "{drawn}");
    }

    #[test]
    fn drawings_of_one_page_share_no_name() {
        let two = Plot { panels: vec![panel(Mark::Bars), panel(Mark::Line)] };
        let drawn = two.inline("fig").into_string();
        assert!(drawn.contains("id=\"fig-0-clip-0\"") && drawn.contains("id=\"fig-1-clip-0\""));
        assert!(!drawn.contains("http://"));
    }

    #[test]
    fn extrapolated_parts_are_dashed_lines_of_their_own() {
        let points = [(1024.0, 0.5, true), (2048.0, 0.5, false), (4096.0, 0.4, false)];
        let parts = Series::curve("xz", Colour::Nth(0), Mark::Line, &points);
        let marks: Vec<Mark> = parts.iter().map(|part| part.mark).collect();
        assert_eq!(marks, [Mark::Dashed, Mark::Line]);
        assert_eq!(parts[1].points, [(2048.0, 0.5), (4096.0, 0.4)]);
    }

    #[test]
    fn a_file_stands_by_itself_and_is_the_same_each_time() {
        let series = Series::curve(
            "xz",
            Colour::Nth(0),
            Mark::Line,
            &[(1024.0, 8.0, false), (1_048_576.0, 0.5, false)],
        );
        let panel = Panel {
            title: String::new(),
            across: Axis::CacheSizes("cache size".to_owned()),
            upwards: Axis::Logarithmic("MPKI".to_owned()),
            series,
            vertical_lines: vec![4096.0],
            ends: Ends { across: None, upwards: Some((0.1, 10.0)) },
        };
        let plot = Plot { panels: vec![panel.clone(), panel] };
        let file = plot.file(2, "Curves", "xz falls");
        assert_eq!(file, plot.file(2, "Curves", "xz falls"));
        assert!(file.starts_with("<?xml") && file.contains(">Curves</title>"), "{file}");
        assert!(file.contains("KiB") && file.contains("xz falls"), "{file}");
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = [0.0, 1e-4, 0.25, 12.0, 92_378.0, 1.5e6].map(short).to_vec();
        assert_eq!(labels, ["0", "1e-4", "0.25", "12", "92.378k", "1.5M"]);
    }
}
