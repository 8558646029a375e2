//! A plot's area: its grid, its labels, and lines in it.

use maud::{Markup, html};

use super::axis::{Axis, rate_label};
use crate::report::size;

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Cache size.
    pub(crate) bytes: f64,
    /// Rate or ratio.
    pub(crate) rate: f64,
    /// Was it read outside the measured range?
    pub(crate) extrapolated: bool,
}

/// The area between the axes, in the drawing's units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    /// Left edge.
    pub(crate) left: f64,
    /// Upper edge.
    pub(crate) top: f64,
    /// Width.
    pub(crate) width: f64,
    /// Height.
    pub(crate) height: f64,
    /// Cache sizes, from left to right.
    pub(crate) sizes: Axis,
    /// Rates, upwards.
    pub(crate) rates: Axis,
}

impl Frame {
    pub(crate) fn x(&self, bytes: f64) -> f64 {
        self.left + self.sizes.part(bytes) * self.width
    }

    pub(crate) fn y(&self, rate: f64) -> f64 {
        self.floor() - self.rates.part(rate) * self.height
    }

    /// The lower edge.
    pub(crate) fn floor(&self) -> f64 {
        self.top + self.height
    }

    /// Horizontal lines with their rates beside them, and some `sizes` cache sizes below.
    pub(crate) fn grid(&self, sizes: u32) -> Markup {
        let right = self.left + self.width;
        html! {
            @for rate in self.rates.rate_ticks() {
                line.grid x1=(number(self.left)) x2=(number(right))
                    y1=(number(self.y(rate))) y2=(number(self.y(rate))) {}
                text.tick x=(number(self.left - 5.0)) y=(number(self.y(rate) + 3.5))
                    text-anchor="end" {
                    // What is less lies on the floor of a logarithmic axis.
                    @if rate > 0.0 && self.rates.part(rate) == 0.0 { "≤" }
                    (rate_label(rate))
                }
            }
            @for bytes in self.sizes.size_ticks(sizes) {
                text.tick x=(number(self.x(bytes).clamp(self.left, right - 16.0)))
                    y=(number(self.floor() + 16.0)) text-anchor="middle" { (size(bytes)) }
            }
        }
    }

    /// A line as the points of a polyline.
    pub(crate) fn points(&self, line: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points = line
            .into_iter()
            .map(|(bytes, rate)| format!("{},{}", number(self.x(bytes)), number(self.y(rate))));
        points.collect::<Vec<_>>().join(" ")
    }

    /// A line through points by rising size. Its extrapolated parts are of class `extrapolated`.
    pub(crate) fn line(&self, points: &[Point], class: &str) -> Markup {
        // A part belongs to the measured range where both its ends do.
        let outside = |pair: &[Point]| pair[0].extrapolated || pair[1].extrapolated;
        let mut runs: Vec<(bool, Vec<(f64, f64)>)> = Vec::new();
        for pair in points.windows(2) {
            let (from, to) = ((pair[0].bytes, pair[0].rate), (pair[1].bytes, pair[1].rate));
            match runs.last_mut() {
                Some((kind, run)) if *kind == outside(pair) => run.push(to),
                _ => runs.push((outside(pair), vec![from, to])),
            }
        }
        html! {
            @for (extrapolated, run) in runs {
                @let class = if extrapolated { format!("{class} extrapolated") } else { class.to_owned() };
                polyline class=(class) points=(self.points(run)) {}
            }
        }
    }
}

/// A coordinate.
pub(crate) fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let sizes = Axis::of_sizes(1024.0, 4096.0).unwrap();
        let rates = Axis::from_zero(1.0);
        Frame { left: 10.0, top: 20.0, width: 100.0, height: 50.0, sizes, rates }
    }

    #[test]
    fn the_corners_are_the_ends_of_the_axes() {
        let frame = frame();
        assert_eq!((frame.x(1024.0), frame.y(0.0)), (10.0, 70.0));
        assert_eq!((frame.x(4096.0), frame.y(1.0)), (110.0, 20.0));
        assert_eq!(frame.points([(2048.0, 0.5)]), "60.0,45.0");
    }

    #[test]
    fn extrapolated_parts_are_lines_of_their_own() {
        let point = |bytes, extrapolated| Point { bytes, rate: 0.5, extrapolated };
        let points = [point(1024.0, true), point(2048.0, false), point(4096.0, false)];
        let text = frame().line(&points, "curve").into_string();
        assert_eq!(
            text,
            r#"<polyline class="curve extrapolated" points="10.0,45.0 60.0,45.0"></polyline><polyline class="curve" points="60.0,45.0 110.0,45.0"></polyline>"#
        );
    }
}
