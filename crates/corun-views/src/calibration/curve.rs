//! A curve drawn with characters.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};

/// Cells of a drawing.
const WIDTH: u16 = 78;
const HEIGHT: u16 = 16;

/// An axis: its title, whether it is logarithmic, and the values that are named along it.
pub(crate) struct AxisShape {
    pub(crate) title: &'static str,
    pub(crate) logarithmic: bool,
    /// Values in ascending order, evenly spaced along the axis, with what is written there; the first
    /// and the last are the axis's ends.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl AxisShape {
    fn place(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    fn axis(&self) -> Axis<'_> {
        let end = |tick: Option<&(f64, String)>| tick.map_or(0.0, |(value, _)| self.place(*value));
        let labels: Vec<Line<'_>> =
            self.ticks.iter().map(|(_, text)| Line::from(text.as_str())).collect();
        Axis::default()
            .title(self.title)
            .bounds([end(self.ticks.first()), end(self.ticks.last())])
            .labels(labels)
    }
}

/// The points of a curve between two axes, as lines of text.
pub(crate) fn drawn(points: &[(f64, f64)], x: &AxisShape, y: &AxisShape) -> String {
    let placed: Vec<(f64, f64)> = points.iter().map(|&(a, b)| (x.place(a), y.place(b))).collect();
    let data = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::default())
        .data(&placed);
    let area = Rect::new(0, 0, WIDTH, HEIGHT);
    let mut buffer = Buffer::empty(area);
    Chart::new(vec![data]).x_axis(x.axis()).y_axis(y.axis()).render(area, &mut buffer);
    let mut text = String::new();
    for row in 0..HEIGHT {
        let line: String =
            (0..WIDTH).filter_map(|column| Some(buffer.cell((column, row))?.symbol())).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Powers of `base` around values, at most so many: for an axis on which ticks are evenly spaced.
pub(crate) fn powers(values: impl Iterator<Item = f64>, base: f64, most: usize) -> Vec<f64> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return Vec::new();
    }
    let first = low.log(base).floor() as i32;
    let spanned = (high.log(base).ceil() as i32 - first).max(1).unsigned_abs() as usize;
    let step = spanned.div_ceil(most.max(2) - 1);
    let count = spanned.div_ceil(step);
    (0..=count).map(|place| base.powi(first + (place * step) as i32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_enclose_the_values() {
        assert_eq!(powers([4.0, 700.0].into_iter(), 10.0, 9), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(powers([4096.0, 16_384.0].into_iter(), 2.0, 9), [4096.0, 8192.0, 16_384.0]);
        let few = powers([1.0, 1024.0].into_iter(), 2.0, 4);
        assert_eq!(few, [1.0, 16.0, 256.0, 4096.0]);
        assert_eq!(powers([5.0].into_iter(), 10.0, 4), [1.0, 10.0]);
        assert!(powers(std::iter::empty(), 2.0, 4).is_empty());
    }

    #[test]
    fn a_rising_line_goes_from_one_corner_to_the_other() {
        let axis = |title| AxisShape {
            title,
            logarithmic: true,
            ticks: vec![(1.0, "1".to_owned()), (100.0, "100".to_owned())],
        };
        let text = drawn(&[(1.0, 1.0), (100.0, 100.0)], &axis("size"), &axis("time"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), usize::from(HEIGHT));
        assert!(lines[0].contains("100") && text.contains("size") && text.contains("time"));
        let is_dot = |one: &char| ('\u{2801}'..='\u{28ff}').contains(one);
        let first = |line: &str| line.chars().position(|one| is_dot(&one));
        let top = lines.iter().find_map(|line| first(line)).unwrap();
        let bottom = lines.iter().rev().find_map(|line| first(line)).unwrap();
        assert!(top > bottom + 50, "{text}");
    }
}
