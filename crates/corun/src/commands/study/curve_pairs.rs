//! Pairs of curves as small multiples: one plot a program, all with the same sizes.

use maud::{Markup, html};

use crate::plot::{Axis, Frame, Point, document, number};

/// A program's two curves.
pub(super) struct Pair {
    /// The program.
    pub(super) name: String,
    /// Miss ratios at the same sizes, two at least.
    pub(super) curves: (Vec<Point>, Vec<Point>),
    /// The greatest difference.
    pub(super) greatest: f64,
    /// Are the curves as near as they should be?
    pub(super) reached: bool,
}

// The drawing's geometry, in its own units.
const COLUMNS: usize = 3;
const CELL_WIDTH: f64 = 220.0;
const CELL_HEIGHT: f64 = 150.0;
const HEAD: f64 = 58.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = 12.0;
const ABOVE: f64 = 24.0;
const PLOT_HEIGHT: f64 = 92.0;

/// The SVG document. Each plot has its own scale of miss ratios, from 0.
pub(super) fn draw(pairs: &[Pair], sides: (&str, &str)) -> String {
    let title = format!("Miss ratio against cache size: {} and {}", sides.0, sides.1);
    let rows = pairs.len().div_ceil(COLUMNS);
    let width = COLUMNS as f64 * CELL_WIDTH;
    let height = HEAD + rows as f64 * CELL_HEIGHT + 8.0;
    let body = html! {
        text.title x="12" y="22" { (title) }
        (key(sides))
        @for (index, pair) in pairs.iter().enumerate() {
            @let at = ((index % COLUMNS) as f64 * CELL_WIDTH, (index / COLUMNS) as f64 * CELL_HEIGHT);
            (cell(pair, at.0, HEAD + at.1))
        }
    };
    let described = |pair: &Pair| format!("{}: at most {:.4} apart", pair.name, pair.greatest);
    let description: Vec<String> = pairs.iter().map(described).collect();
    document((width, height), &title, &description.join("; "), &body)
}

fn key(sides: (&str, &str)) -> Markup {
    let entry = |x: f64, class: &str, name: &str| {
        html! {
            polyline class=(class) points={ (number(x)) ",40 " (number(x + 18.0)) ",40" } {}
            text x=(number(x + 24.0)) y="44" { (name) }
        }
    };
    html! {
        (entry(12.0, "l4", sides.0))
        (entry(112.0, "l5 over", sides.1))
    }
}

fn cell(pair: &Pair, x: f64, y: f64) -> Markup {
    let (one, other) = (&pair.curves.0, &pair.curves.1);
    let most = one.iter().chain(other).map(|point| point.rate).fold(0.0, f64::max);
    let ends = one.first().zip(one.last());
    let axis = ends.and_then(|(first, last)| Axis::of_sizes(first.bytes, last.bytes));
    let Some(sizes) = axis else { return html! {} };
    let frame = Frame {
        left: x + LEFT,
        top: y + ABOVE,
        width: CELL_WIDTH - LEFT - RIGHT,
        height: PLOT_HEIGHT,
        sizes,
        rates: Axis::from_zero(most),
    };
    html! {
        text x=(number(x + LEFT)) y=(number(y + ABOVE - 8.0)) { (pair.name) }
        text.label x=(number(x + CELL_WIDTH - RIGHT)) y=(number(y + ABOVE - 8.0)) text-anchor="end" {
            (format!("≤ {:.4}", pair.greatest))
        }
        @if !pair.reached {
            text x=(number(x + CELL_WIDTH - RIGHT)) y=(number(y + ABOVE + 12.0)) text-anchor="end" {
                "missed"
            }
        }
        (frame.grid(3))
        (frame.line(one, "l4"))
        (frame.line(other, "l5 over"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_drawn_and_named() {
        let line = |rate| {
            let point = |bytes| Point { bytes, rate, extrapolated: false };
            [4096.0, 8192.0].map(point).to_vec()
        };
        let pair = |name: &str, reached| Pair {
            name: name.to_owned(),
            curves: (line(0.5), line(0.46)),
            greatest: 0.04,
            reached,
        };
        let text = draw(&[pair("a<b", false), pair("c", true)], ("exact", "sampled"));
        assert!(text.contains("a&lt;b: at most 0.0400 apart; c: at most 0.0400 apart"), "{text}");
        assert_eq!(text.matches("class=\"l5 over\"").count(), 3);
        assert_eq!(text.matches(">missed<").count(), 1);
    }
}
