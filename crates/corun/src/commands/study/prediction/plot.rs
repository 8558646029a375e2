//! Predicted against measured miss rates, as a picture that stands by itself.

use corun_model::SpaceLaw;
use maud::{Markup, html};

use super::{Caches, Point};

// The picture's geometry, in its own units: one square panel a law.
const PANEL: f64 = 260.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 30.0;
const GAP: f64 = 24.0;
const BOTTOM: f64 = 46.0;

/// Misses per 1000 instructions shown; less is drawn at the edge.
const MPKI: (f64, f64) = (0.01, 1000.0);

/// A colour a size, told apart by those who cannot see red or green (Okabe and Ito, 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000"];

/// Where a miss rate lies on an axis, 0 to 1.
fn part(mpki: f64) -> f64 {
    let (least, most) = MPKI;
    ((mpki.max(least) / least).ln() / (most / least).ln()).min(1.0)
}

/// Points in the first form of cache, as a rule the fully associative one.
pub(super) fn svg(names: &[String], caches: &Caches, points: &[Point]) -> String {
    let laws = SpaceLaw::ALL.len() as f64;
    let (width, height) = (LEFT + laws * PANEL + (laws - 1.0) * GAP + 8.0, TOP + PANEL + BOTTOM);
    let shown: Vec<&Point> = points.iter().filter(|point| point.form == caches.forms[0]).collect();
    let colour = |mib: u64| {
        let at = caches.sizes_mib.iter().position(|&size| size == mib).unwrap_or(0);
        COLOURS[at % COLOURS.len()]
    };
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            font-family="sans-serif" font-size="11" role="img"
            aria-label="Predicted against measured misses per 1000 instructions" {
            rect width=(width) height=(height) fill="#fff" {}
            @for (law, (name, _)) in SpaceLaw::ALL.iter().enumerate() {
                (panel((law, name), names, &shown, &colour))
            }
            text x=(LEFT) y=(height - 8.0) {
                "MPKI beside another program (cache: " (caches.forms[0].title())
                "), measured (across) and predicted (up); "
                @for &mib in &caches.sizes_mib {
                    tspan fill=(colour(mib)) { " ● " (mib) " MiB" }
                }
            }
        }
    };
    picture.into_string() + "\n"
}

fn panel(
    (law, name): (usize, &str),
    names: &[String],
    points: &[&Point],
    colour: &dyn Fn(u64) -> &'static str,
) -> Markup {
    let left = LEFT + law as f64 * (PANEL + GAP);
    let floor = TOP + PANEL;
    let x = |mpki: f64| format!("{:.1}", left + part(mpki) * PANEL);
    let y = |mpki: f64| format!("{:.1}", floor - part(mpki) * PANEL);
    let ticks: Vec<f64> = (-2..=3).map(|power| 10f64.powi(power)).collect();
    html! {
        text x=(left) y=(TOP - 10.0) font-size="13" font-weight="bold" { (name) }
        rect x=(left) y=(TOP) width=(PANEL) height=(PANEL) fill="none" stroke="#888" {}
        line x1=(left) y1=(floor) x2=(left + PANEL) y2=(TOP) stroke="#888" {}
        @for &tick in &ticks {
            text x=(x(tick)) y=(floor + 14.0) text-anchor="middle" fill="#555" { (tick) }
            @if law == 0 {
                text x=(left - 5.0) y=(y(tick)) text-anchor="end" fill="#555" { (tick) }
            }
        }
        @for point in points {
            circle cx=(x(point.beside.mpki())) cy=(y(point.predicted[law].mpki)) r="2.5"
                fill=(colour(point.mib)) fill-opacity="0.6" {
                title {
                    (names[point.pair[point.of]]) " beside " (names[point.pair[1 - point.of]])
                }
            }
        }
    }
}
