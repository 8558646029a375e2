//! A drawing as a file of its own.

use maud::{Markup, PreEscaped, html};

/// Lines of different colours there are: `l0`, `l1` ..
pub(crate) const LINES: usize = 8;

/// One colour scheme or the other; lines are distinct also for the colour-blind (Okabe and Ito,
/// "Color universal design", 2008, the darkest for light grounds).
const STYLE: &str = "
svg { color: #1d2127; background: #fbfaf7; max-width: 100%; height: auto;
  font: 12px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif; }
text { fill: currentColor; }
.title { font-size: 15px; font-weight: 650; }
.tick, .label { fill: currentColor; opacity: .72; }
.grid { stroke: currentColor; opacity: .16; }
polyline { fill: none; stroke: var(--c, currentColor); stroke-width: 2; stroke-linejoin: round; }
polyline.thin { stroke-width: 1; opacity: .6; }
polyline.over { stroke-width: 1; }
polyline.extrapolated { stroke-dasharray: 4 4; }
.l0 { --c: #0072b2; } .l1 { --c: #b86e00; } .l2 { --c: #009e73; } .l3 { --c: #b5548a; }
.l4 { --c: #5f6368; } .l5 { --c: #d55e00; } .l6 { --c: #857b00; } .l7 { --c: #6457a6; }
@media (prefers-color-scheme: dark) {
  svg { color: #e8e9eb; background: #14161a; }
  .l0 { --c: #4aa8e0; } .l1 { --c: #f0b03a; } .l2 { --c: #35c79d; } .l3 { --c: #e39bc4; }
  .l4 { --c: #c4c7cc; } .l5 { --c: #ff8a3d; } .l6 { --c: #d6cb3a; } .l7 { --c: #a99bea; }
}
";

/// An SVG document of `width` x `height` units, which shrinks with the page that it stands on.
pub(crate) fn document(
    (width, height): (f64, f64),
    title: &str,
    description: &str,
    body: &Markup,
) -> String {
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            width=(width) height=(height) role="img" aria-labelledby="title description" {
            title #title { (title) }
            desc #description { (description) }
            style { (PreEscaped(STYLE)) }
            (body)
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", svg.into_string())
}
