//! Throughput against unfairness: where policies and placements lie, with the frontier of the best placements. The page
//! of `corun serve` draws the same marks; both have their style from `style.css`.

use maud::{Markup, html};

/// The drawing's width and height, in units of which a letter is 14 high.
const SIZE: (f64, f64) = (400.0, 280.0);
/// Room for the numbers and captions on the left and right, above and below.
const ROOM: [f64; 4] = [48.0, 14.0, 26.0, 48.0];
/// Parts of the axes at which a number stands.
const STEPS: [f64; 4] = [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0];

/// What lies at a point, which its mark tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TradeOffKind {
    /// A policy: a circle.
    Policy,
    /// The best placement: a diamond.
    Optimal,
    /// What placing at random gives: a grey circle.
    Expectation,
    /// The worst placement: a square.
    Worst,
}

/// A point of the drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct TradeOffPoint {
    /// Its name, under the pointer and to those who hear the page.
    pub name: String,
    /// What lies here.
    pub kind: TradeOffKind,
    /// Throughput: the sum of 1 / slowdown.
    pub stp: f64,
    /// The largest slowdown over the smallest.
    pub unfairness: f64,
    /// Does the name stand beside the mark?
    pub is_named: bool,
}

/// The ends of an axis: those of the values with some room.
struct Span(f64, f64);

impl Span {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, top) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, top), one| {
            (low.min(one), top.max(one))
        });
        let room = ((top - low) * 0.12).max(0.02);
        Self(low - room, top + room)
    }

    fn part(&self, value: f64) -> f64 {
        (value - self.0) / (self.1 - self.0)
    }

    fn at(&self, part: f64) -> f64 {
        self.0 + part * (self.1 - self.0)
    }
}

/// Points, and the frontier (throughput and unfairness by rising throughput) as steps: between two of its placements the
/// best that is known is the corner. Empty where there is no point.
pub fn trade_off(points: &[TradeOffPoint], frontier: &[(f64, f64)]) -> Markup {
    if points.is_empty() {
        return html! {};
    }
    let of = |one: &TradeOffPoint| (one.stp, one.unfairness);
    let all = || points.iter().map(of).chain(frontier.iter().copied());
    let across = Span::of(all().map(|one| one.0));
    let upwards = Span::of(all().map(|one| one.1));
    let [left, right, above, below] = ROOM;
    let x = |stp: f64| left + across.part(stp) * (SIZE.0 - left - right);
    let y = |unfairness: f64| SIZE.1 - below - upwards.part(unfairness) * (SIZE.1 - above - below);
    html! {
        svg.scatter.plot viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(words(points)) {
            text.tick x="0" y="12" { "unfairness: less is better" }
            @for part in STEPS {
                line.grid x1=(left) x2=(SIZE.0 - right) y1=(at(y(upwards.at(part)))) y2=(at(y(upwards.at(part)))) {}
                text.tick x=(left - 6.0) y=(at(y(upwards.at(part)) + 5.0)) text-anchor="end" { (two(upwards.at(part))) }
                text.tick x=(at(x(across.at(part)))) y=(SIZE.1 - below + 18.0)
                    text-anchor=(if part == 0.0 { "start" } else if part == 1.0 { "end" } else { "middle" }) {
                    (two(across.at(part)))
                }
            }
            text.tick x=(SIZE.0 - right) y=(SIZE.1 - 6.0) text-anchor="end" { "STP: more is better" }
            @if !frontier.is_empty() {
                path.frontier d=(steps(frontier.iter().map(|one| (x(one.0), y(one.1))))) {}
                @for one in frontier { circle.frontier-point cx=(at(x(one.0))) cy=(at(y(one.1))) r="2.5" {} }
            }
            // A bound lies above a policy that does as well.
            @for is_bound in [false, true] {
                @for one in points.iter().filter(|one| (one.kind != TradeOffKind::Policy) == is_bound) {
                    (point(one, x(one.stp), y(one.unfairness)))
                }
            }
        }
    }
}

fn point(one: &TradeOffPoint, x: f64, y: f64) -> Markup {
    let style = match one.kind {
        TradeOffKind::Policy => "policy",
        TradeOffKind::Optimal => "optimal",
        TradeOffKind::Expectation => "expectation",
        TradeOffKind::Worst => "worst",
    };
    let is_right = x > 0.6 * SIZE.0;
    // The frontier ends in the best placement, and the policy that is named may lie there too.
    let down = match one.kind {
        TradeOffKind::Optimal => -11.0,
        TradeOffKind::Policy => 20.0,
        TradeOffKind::Expectation | TradeOffKind::Worst => 5.0,
    };
    html! {
        g class={ "dot-of " (style) } {
            title { (said(one)) }
            @match one.kind {
                TradeOffKind::Optimal => path d={ "M" (at(x)) " " (at(y - 8.0)) "l7 8-7 8-7-8z" } {},
                TradeOffKind::Worst => path d={ "M" (at(x - 6.0)) " " (at(y - 6.0)) "h12v12h-12z" } {},
                TradeOffKind::Policy | TradeOffKind::Expectation => circle cx=(at(x)) cy=(at(y)) r="6" {},
            }
            @if one.is_named {
                text x=(at(if is_right { x - 11.0 } else { x + 11.0 })) y=(at(y + down))
                    text-anchor=(if is_right { "end" } else { "start" }) { (one.name) }
            }
        }
    }
}

fn said(one: &TradeOffPoint) -> String {
    format!("{}: STP {:.3}, unfairness {:.3}", one.name, one.stp, one.unfairness)
}

fn words(points: &[TradeOffPoint]) -> String {
    let each: Vec<String> = points.iter().map(said).collect();
    format!("Throughput against unfairness; lower right is best. {}", each.join("; "))
}

fn steps(points: impl Iterator<Item = (f64, f64)>) -> String {
    let step = |(place, (x, y)): (usize, (f64, f64))| {
        if place == 0 { format!("M{x:.1} {y:.1}") } else { format!("V{y:.1}H{x:.1}") }
    };
    points.enumerate().map(step).collect()
}

fn at(place: f64) -> String {
    format!("{place:.1}")
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, kind: TradeOffKind, stp: f64, unfairness: f64) -> TradeOffPoint {
        TradeOffPoint { name: name.to_owned(), kind, stp, unfairness, is_named: true }
    }

    #[test]
    fn better_lies_lower_and_to_the_right() {
        let points = [
            named("good", TradeOffKind::Policy, 3.5, 1.1),
            named("<bad>", TradeOffKind::Policy, 2.5, 1.9),
        ];
        let drawn = trade_off(&points, &[(3.0, 1.0), (3.6, 1.2)]).into_string();
        let circle = |place: usize| -> (f64, f64) {
            let text = drawn.split("<circle cx=\"").nth(place + 1).unwrap();
            let mut numbers = text.split('"').step_by(2).map(|one| one.parse::<f64>().unwrap());
            (numbers.next().unwrap(), numbers.next().unwrap())
        };
        let (good, bad) = (circle(0), circle(1));
        assert!(good.0 > bad.0 && good.1 > bad.1, "{drawn}");
        assert!(drawn.contains("&lt;bad&gt;") && !drawn.contains("<bad>"), "{drawn}");
        assert!(drawn.contains("good: STP 3.500, unfairness 1.100"), "{drawn}");
        assert!(drawn.matches("V").count() == 1 && !drawn.contains("NaN"), "{drawn}");
        assert_eq!(trade_off(&[], &[]).into_string(), "");
    }
}
