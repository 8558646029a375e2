//! The page as a whole: head, summary, sections, foot.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::output::counted;

use super::document::{Entry, Kind, Report};
use super::{curves, distance, placements, slowdowns, time_line};

const STYLE: &str = include_str!("style.css");

/// The page may load nothing at all; its style is its own.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// The report as one HTML document. The same report gives the same bytes.
pub(crate) fn render(report: &Report) -> String {
    let title = format!("{} on {}", counted(report.programs.len(), "program"), report.machine.name);
    let body = html! {
        (head(report))
        main #main {
            (distance::section(report))
            (placements::section(report))
            (slowdowns::section(report))
            (curves::section(report))
            (time_line::section(report))
            (ground(report))
        }
        (foot(report))
    };
    document(&title, &report.version, &body)
}

/// A page that stands by itself. `body` has an element `main` for who skips to the results.
pub(super) fn document(title: &str, version: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "corun " (version) };
                title { (title) " · corun" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the results" }
                (body)
            }
        }
    };
    page.into_string()
}

fn head(report: &Report) -> Markup {
    html! {
        header.head {
            p.kicker { "corun compare" }
            h1 {
                (counted(report.programs.len(), "program")) " on " span.name { (report.machine.name) }
            }
            @if !report.machine.title.is_empty() { p.sub { (report.machine.title) } }
            (lead(report))
            (figures(report))
        }
    }
}

/// The result in a sentence.
fn lead(report: &Report) -> Markup {
    let Some(best) = report.best_policy() else { return html! {} };
    let worst = report.results.iter().find(|entry| entry.kind == Kind::Worst);
    html! {
        p.lead {
            strong { (best.name) } " comes closest: on average its programs take "
            strong { (format!("{:.3} times", best.mean_slowdown)) } " as long as alone"
            @if let Some(above) = best.above_optimal_percent {
                ", " strong { (percent(above.abs())) } " "
                @if above < -0.05 { "below" } @else { "above" }
                " the best placement " (known(report))
            }
            "."
            @if let Some(cost) = worst.and_then(|entry| entry.above_optimal_percent) {
                " The worst placement " @if !report.bounds_proven { "found " }
                "would cost " (percent(cost)) "."
            }
        }
    }
}

/// What can be said of the best placement.
pub(super) fn known(report: &Report) -> &'static str {
    if report.bounds_proven { "there is" } else { "found" }
}

fn figures(report: &Report) -> Markup {
    let card = |label: &str, entry: &Entry| {
        html! {
            div.figure {
                dt { (label) }
                dd {
                    span.big { (format!("{:.3}", entry.mean_slowdown)) }
                    span.note {
                        @match (entry.kind, entry.above_optimal_percent) {
                            (Kind::Optimal, _) | (_, None) => "mean slowdown",
                            (_, Some(above)) => (signed_percent(above)),
                        }
                    }
                }
            }
        }
    };
    let named = |name: &str| report.results.iter().find(|entry| entry.name == name);
    let of = |kind: Kind| report.results.iter().find(|entry| entry.kind == kind);
    let best = report.best_policy();
    let optimum = if report.bounds_proven { "Optimum" } else { "Best found" };
    html! {
        dl.figures {
            @if let Some(entry) = of(Kind::Optimal) { (card(optimum, entry)) }
            @if let Some(entry) = best { (card(&entry.name, entry)) }
            @if let Some(entry) = named("linux-default")
                && best.is_none_or(|best| best.name != entry.name) {
                (card("linux-default", entry))
            }
            @if let Some(entry) = of(Kind::Expectation) { (card("Random, expected", entry)) }
            @if let Some(entry) = of(Kind::Worst) { (card("Worst", entry)) }
        }
    }
}

/// A section with its heading, for readers of headings too.
pub(super) fn section(id: &str, heading: &str, about: &str, body: &Markup) -> Markup {
    let heading_id = format!("{id}-heading");
    html! {
        section id=(id) aria-labelledby=(heading_id) {
            h2 id=(heading_id) { (heading) }
            p.about { (about) }
            (body)
        }
    }
}

fn ground(report: &Report) -> Markup {
    let body = html! {
        dl.facts {
            @for (label, text) in &report.facts {
                dt { (label) }
                dd { (text) }
            }
            dt { "Extrapolated" }
            dd {
                @if report.extrapolated.is_empty() {
                    "Nothing: every figure was read inside the measured range."
                } @else {
                    ul { @for text in &report.extrapolated { li { (text) } } }
                }
            }
            dt { "Command" }
            dd { code.command { (report.command) } }
            dt { "Version" }
            dd { "corun " (report.version) }
        }
    };
    section("ground", "What this stands on", "", &body)
}

fn foot(report: &Report) -> Markup {
    html! {
        footer {
            p {
                "Made by corun " (report.version) ". Slowdown: completion time beside the others / "
                "completion time alone. MPKI: cache lines fetched from memory per 1000 instructions. "
                "STP: sum of 1 / slowdown. Unfairness: largest / smallest slowdown."
            }
        }
    }
}

/// `3.2 %`.
pub(super) fn percent(value: f64) -> String {
    // Values that would print as -0.0 are zero.
    let value = if value.abs() < 0.05 { 0.0 } else { value };
    format!("{value:.1}\u{a0}%")
}

/// `+3.2 %`, for a distance to the optimum.
pub(super) fn signed_percent(value: f64) -> String {
    let sign = if value < -0.05 { "\u{2212}" } else { "+" };
    format!("{sign}{}", percent(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_same_report_gives_the_same_bytes() {
        assert_eq!(render(&sample::report()), render(&sample::report()));
    }

    #[test]
    fn names_are_escaped() {
        let mut report = sample::report();
        report.programs[0].name = "<script>alert(1)</script>".to_owned();
        report.command = "corun compare --apps '<b>&\"'".to_owned();
        let page = render(&report);
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("<b>&"));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }

    #[test]
    fn the_page_reaches_for_nothing_outside() {
        let page = render(&sample::report());
        for word in ["http://", "https://", "url(", "<script", "<img", "@import", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn a_report_without_bounds_still_reads() {
        let mut report = sample::report();
        report.results.retain(|entry| entry.kind == Kind::Policy);
        for entry in &mut report.results {
            entry.above_optimal_percent = None;
        }
        let page = render(&report);
        assert!(page.contains("comes closest"));
        assert!(!page.contains("above the best placement"));
    }

    #[test]
    fn percents_have_no_negative_zero() {
        assert_eq!(signed_percent(-0.01), "+0.0\u{a0}%");
        assert_eq!(signed_percent(-1.25), "\u{2212}1.2\u{a0}%");
    }
}
