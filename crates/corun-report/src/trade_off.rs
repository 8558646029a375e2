//! Throughput against unfairness: where policies and placements lie, with the frontier of the best placements. The page
//! of `corun serve` draws the same marks; both have their style from `style.css`.

use maud::{Markup, html};

use crate::labels::{Area, Label, Labels};

/// The drawing's width and height, in units of which a letter is 14 high.
const SIZE: (f64, f64) = (400.0, 300.0);
/// Room on the left and right, above and below, for numbers, captions and the names of what is best, which lies on the right.
const ROOM: [f64; 4] = [48.0, 60.0, 26.0, 48.0];
/// How far a mark reaches.
const REACH: f64 = 8.0;

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
    /// Does the name stand beside the mark in any case? Others do where they hide nothing.
    pub is_named: bool,
}

impl TradeOffPoint {
    fn figures(&self) -> (f64, f64) {
        (self.stp, self.unfairness)
    }
}

/// The ends of an axis: those of the values with some room.
struct Span(f64, f64);

impl Span {
    /// `least`: no value can be below it.
    fn of(values: impl Iterator<Item = f64>, least: f64) -> Self {
        let (low, top) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, top), one| {
            (low.min(one), top.max(one))
        });
        let room = ((top - low) * 0.12).max(0.02);
        Self((low - room).max(least.min(low)), top + room)
    }

    fn part(&self, value: f64) -> f64 {
        (value - self.0) / (self.1 - self.0)
    }

    /// Round values from one end to the other, three to seven of them.
    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let rough = (self.1 - self.0) / 7.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|one| *one >= rough);
        let step = step.unwrap_or(10.0 * power);
        // A value at an end is not lost to rounding.
        let first = (self.0 / step - 1e-9).ceil() as i64;
        let last = (self.1 / step + 1e-9).floor() as i64;
        (first..=last).map(move |times| times as f64 * step)
    }
}

/// Both axes.
struct Axes {
    across: Span,
    upwards: Span,
}

impl Axes {
    fn x(&self, stp: f64) -> f64 {
        let [left, right, ..] = ROOM;
        left + self.across.part(stp) * (SIZE.0 - left - right)
    }

    fn y(&self, unfairness: f64) -> f64 {
        let [.., above, below] = ROOM;
        SIZE.1 - below - self.upwards.part(unfairness) * (SIZE.1 - above - below)
    }

    fn place(&self, (stp, unfairness): (f64, f64)) -> (f64, f64) {
        (self.x(stp), self.y(unfairness))
    }
}

/// Points, and the frontier (throughput and unfairness by rising throughput) as steps: between two of its placements the
/// best that is known is the corner. Empty where there is no point.
pub fn trade_off(points: &[TradeOffPoint], frontier: &[(f64, f64)]) -> Markup {
    if points.is_empty() {
        return html! {};
    }
    let all = || points.iter().map(TradeOffPoint::figures).chain(frontier.iter().copied());
    let axes = Axes {
        across: Span::of(all().map(|one| one.0), 0.0),
        // The largest slowdown over the smallest.
        upwards: Span::of(all().map(|one| one.1), 1.0),
    };
    let steps: Vec<(f64, f64)> = frontier.iter().map(|&one| axes.place(one)).collect();
    // A bound lies above a policy that does as well.
    let mut ordered: Vec<&TradeOffPoint> = points.iter().collect();
    ordered.sort_by_key(|one| one.kind != TradeOffKind::Policy);
    let labels = labels(&ordered, &axes, &steps);
    html! {
        svg.scatter.plot viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(words(points)) {
            (scales(&axes))
            @if !steps.is_empty() {
                path.frontier d=(path(&steps)) {}
                @for (x, y) in &steps { circle.frontier-point cx=(at(*x)) cy=(at(*y)) r="2.5" {} }
            }
            @for (one, label) in ordered.iter().zip(labels) { (point(one, axes.place(one.figures()), label)) }
        }
    }
}

/// The numbers and captions of the axes.
fn scales(axes: &Axes) -> Markup {
    let [left, right, _, below] = ROOM;
    html! {
        text.tick x="0" y="12" { "unfairness: less is better" }
        @for value in axes.upwards.ticks() {
            line.grid x1=(left) x2=(SIZE.0 - right) y1=(at(axes.y(value))) y2=(at(axes.y(value))) {}
            text.tick x=(left - 6.0) y=(at(axes.y(value) + 5.0)) text-anchor="end" { (two(value)) }
        }
        @for value in axes.across.ticks() {
            text.tick x=(at(axes.x(value))) y=(SIZE.1 - below + 18.0) text-anchor="middle" { (two(value)) }
        }
        text.tick x=(SIZE.0 - right) y=(SIZE.1 - 6.0) text-anchor="end" { "STP: more is better" }
    }
}

/// Where the names of the points stand, in their order; none where a name is left out.
fn labels(points: &[&TradeOffPoint], axes: &Axes, steps: &[(f64, f64)]) -> Vec<Option<Label>> {
    let [left, _, above, below] = ROOM;
    let frame = Area { left, top: above - 8.0, right: SIZE.0 - 4.0, bottom: SIZE.1 - below };
    let places: Vec<(f64, f64)> = points.iter().map(|one| axes.place(one.figures())).collect();
    let marks = places.iter().map(|&place| Area::around(place, REACH));
    let mut names = Labels::new(frame, marks.chain(covered(steps)).collect());
    let mut placed: Vec<Option<Label>> = vec![None; points.len()];
    // Those that have to be there choose first, the bounds' before that of a policy at the same place.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&at| (!points[at].is_named, points[at].kind == TradeOffKind::Policy));
    for at in order {
        let (name, place) = (&points[at].name, places[at]);
        placed[at] = match points[at].is_named {
            true => Some(names.place(name, place)),
            false => names.place_if_free(name, place),
        };
    }
    placed
}

/// What the steps and their points cover.
fn covered(steps: &[(f64, f64)]) -> Vec<Area> {
    let points = steps.iter().map(|&place| Area::around(place, 3.0));
    let between = steps.windows(2).flat_map(|pair| {
        let [(x0, y0), (x, y)] = [pair[0], pair[1]];
        [
            Area { left: x0 - 2.0, right: x0 + 2.0, top: y0.min(y), bottom: y0.max(y) },
            Area { left: x0.min(x), right: x0.max(x), top: y - 2.0, bottom: y + 2.0 },
        ]
    });
    points.chain(between).collect()
}

fn point(one: &TradeOffPoint, (x, y): (f64, f64), label: Option<Label>) -> Markup {
    let style = match one.kind {
        TradeOffKind::Policy => "policy",
        TradeOffKind::Optimal => "optimal",
        TradeOffKind::Expectation => "expectation",
        TradeOffKind::Worst => "worst",
    };
    html! {
        g class={ "dot-of " (style) } {
            title { (said(one)) }
            @match one.kind {
                TradeOffKind::Optimal => path d={ "M" (at(x)) " " (at(y - 8.0)) "l7 8-7 8-7-8z" } {},
                TradeOffKind::Worst => path d={ "M" (at(x - 6.0)) " " (at(y - 6.0)) "h12v12h-12z" } {},
                TradeOffKind::Policy | TradeOffKind::Expectation => circle cx=(at(x)) cy=(at(y)) r="6" {},
            }
            @if let Some(label) = label {
                text x=(at(label.x)) y=(at(label.y)) text-anchor=(label.anchor) { (one.name) }
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

fn path(steps: &[(f64, f64)]) -> String {
    let step = |(place, (x, y)): (usize, &(f64, f64))| {
        if place == 0 { format!("M{x:.1} {y:.1}") } else { format!("V{y:.1}H{x:.1}") }
    };
    steps.iter().enumerate().map(step).collect()
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
        // No unfairness is below 1, and the numbers are round.
        assert!(drawn.contains(">1.00</text>") && drawn.contains(">1.20</text>"), "{drawn}");
        assert!(!drawn.contains(">0."), "{drawn}");
    }

    /// The policy that has to be named lies under the best placement, and others lie where its name stood.
    #[test]
    fn a_name_stands_on_no_other_mark() {
        let points = [
            named("corun", TradeOffKind::Policy, 3.5, 1.1),
            TradeOffPoint { is_named: false, ..named("di", TradeOffKind::Policy, 3.5, 1.15) },
            TradeOffPoint { is_named: false, ..named("dio", TradeOffKind::Policy, 3.5, 1.05) },
            TradeOffPoint { is_named: false, ..named("far", TradeOffKind::Policy, 2.6, 1.6) },
            named("optimal", TradeOffKind::Optimal, 3.5, 1.1),
            named("worst", TradeOffKind::Worst, 2.5, 1.9),
        ];
        let drawn = trade_off(&points, &[]).into_string();
        for name in ["corun", "optimal", "worst", "far"] {
            assert!(drawn.contains(&format!(">{name}</text>")), "{name}: {drawn}");
        }
        let marks: Vec<(f64, f64)> = drawn
            .split("<circle cx=\"")
            .skip(1)
            .map(|text| {
                let mut numbers = text.split('"').step_by(2).map(|one| one.parse().unwrap());
                (numbers.next().unwrap(), numbers.next().unwrap())
            })
            .collect();
        assert_eq!(marks.len(), 4);
        // Where the text begins or ends is not within a mark of another.
        for text in drawn.split("<text x=\"").skip(1).filter(|text| text.contains(">corun<")) {
            let mut numbers = text.split('"').step_by(2).map(|one| one.parse::<f64>());
            let (x, y) = (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap());
            let is_on = |mark: &(f64, f64)| (mark.0 - x).hypot(mark.1 - y) < 8.0;
            assert!(!marks.iter().any(is_on), "{drawn}");
        }
    }
}
