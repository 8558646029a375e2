//! The drawings of a study's page.

use maud::{Markup, html};

use crate::plot::{Axis, LINES, number};

// A chart's geometry, in its own units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 10.0;
const BOTTOM: f64 = 44.0;

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
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChartKind {
    /// Lines upwards from this value.
    LinesFrom(f64),
    /// Lines on a logarithmic axis.
    LogarithmicLines,
    /// Bars, one series on top of the other.
    Stacks,
    /// Bars from this value up or down, one series beside the other.
    BarsFrom(f64),
    /// A dot for each label at this place across, with a straight line through them.
    Dots {
        /// Where each label lies across.
        across: Vec<f64>,
        /// The line's value at 0 and its slope.
        line: Option<(f64, f64)>,
    },
}

impl Chart {
    pub(super) fn draw(&self) -> Markup {
        let floor = HEIGHT - BOTTOM;
        let axis = self.axis();
        let y = |value: f64| floor - axis.part(value) * (floor - TOP);
        let step = (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let x = |place: usize| LEFT + (place as f64 + 0.5) * step;
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
                @for (place, label) in self.ticks(&x) {
                    text.tick x=(number(place)) y=(floor + 15.0) text-anchor="middle" { (label) }
                }
                text.tick x=(LEFT) y=(HEIGHT - 8.0) { (self.upwards) " by " (self.across) }
                @match &self.kind {
                    ChartKind::Stacks => { (self.stacks(&x, &y, step)) }
                    ChartKind::BarsFrom(base) => { (self.bars(*base, &x, &y, step)) }
                    ChartKind::Dots { across, line } => { (self.dots(across, *line, &y)) }
                    ChartKind::LinesFrom(_) | ChartKind::LogarithmicLines => { (self.lines(&x, &y)) }
                }
            }
        }
    }

    /// Places across that get a label, some ten at most.
    fn ticks(&self, x: &dyn Fn(usize) -> f64) -> Vec<(f64, String)> {
        if let ChartKind::Dots { across, .. } = &self.kind {
            let axis = axis_across(across);
            let tick = |value: f64| (place_across(&axis, value), short(value));
            return axis.rate_ticks().into_iter().map(tick).collect();
        }
        // Long labels have less room.
        let longest = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
        let room = (((WIDTH - LEFT - RIGHT) / (6.0 * longest as f64 + 6.0)) as usize).clamp(1, 12);
        let every = self.labels.len().div_ceil(room).max(1);
        let labels = self.labels.iter().enumerate().step_by(every);
        labels.map(|(place, label)| (x(place), label.clone())).collect()
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
            ChartKind::BarsFrom(base) => {
                let least = values().fold(base, f64::min);
                if least < base {
                    Axis::between(least, most.max(base))
                } else {
                    Axis::from(base, most)
                }
            }
            ChartKind::Stacks => Axis::from(0.0, most),
            ChartKind::Dots { .. } => Axis::between(values().fold(most, f64::min), most),
        }
    }

    fn bars(
        &self,
        base: f64,
        x: &dyn Fn(usize) -> f64,
        y: &dyn Fn(f64) -> f64,
        step: f64,
    ) -> Markup {
        let width = step * 0.8 / self.series.len().max(1) as f64;
        html! { @for (series, (name, values)) in self.series.iter().enumerate() {
            @for (place, value) in values.iter().enumerate() { @if let Some(value) = *value {
                @let left = x(place) + (series as f64 - self.series.len() as f64 / 2.0) * width;
                @let (top, end) = (y(value.max(base)), y(value.min(base)));
                rect class={ "l" (series % LINES) } x=(number(left)) y=(number(top))
                    width=(number(width)) height=(number((end - top).max(0.5))) style="fill:var(--c)" {
                    title { (name) ", " (self.labels[place]) ": " (short(value)) }
                }
            } }
        } }
    }

    fn dots(&self, across: &[f64], line: Option<(f64, f64)>, y: &dyn Fn(f64) -> f64) -> Markup {
        let axis = axis_across(across);
        html! {
            @if let Some((at_zero, slope)) = line {
                @let ends = [axis.at(0.0), axis.at(1.0)];
                line.curve x1=(number(place_across(&axis, ends[0]))) y1=(number(y(at_zero + slope * ends[0])))
                    x2=(number(place_across(&axis, ends[1]))) y2=(number(y(at_zero + slope * ends[1]))) {}
            }
            @for (series, (name, values)) in self.series.iter().enumerate() {
                @for (place, value) in values.iter().enumerate() { @if let Some(value) = *value {
                    circle class={ "l" (series % LINES) } cx=(number(place_across(&axis, across[place])))
                        cy=(number(y(value))) r="3.5" style="fill:var(--c)" {
                        title { (self.labels[place]) ", " (name) ": " (short(across[place])) ", " (short(value)) }
                    }
                } }
            }
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

fn axis_across(across: &[f64]) -> Axis {
    let (least, most) = across
        .iter()
        .fold((0.0, 0.0), |(least, most), &one| (f64::min(least, one), f64::max(most, one)));
    Axis::between(least, most)
}

fn place_across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.part(value) * (WIDTH - LEFT - RIGHT)
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
    fn bars_go_both_ways_from_their_base() {
        let mut chart = chart(ChartKind::BarsFrom(0.0));
        chart.series[0].1[0] = Some(-4.0);
        assert_eq!(chart.draw().into_string().matches("<rect").count(), 3);
        let axis = chart.axis();
        let (below, base, above) = (axis.part(-4.0), axis.part(0.0), axis.part(3.0));
        assert!(0.0 <= below && below < base && base < above && above <= 1.0);
    }

    #[test]
    fn dots_lie_where_they_belong_and_the_line_spans_the_axis() {
        let kind = ChartKind::Dots { across: vec![0.0, 30.0], line: Some((1.0, 0.05)) };
        let drawn = chart(kind).draw().into_string();
        assert_eq!(
            (drawn.matches("<circle").count(), drawn.matches("class=\"curve\"").count()),
            (3, 1)
        );
        assert!(drawn.contains("<title>2, b: 30, 2</title>"), "{drawn}");
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = [0.25, 12.0, 92_378.0, 1.5e6].map(short).to_vec();
        assert_eq!(labels, ["0.25", "12", "92.378k", "1.5M"]);
    }
}
