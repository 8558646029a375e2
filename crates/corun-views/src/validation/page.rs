//! The validation as a page: predicted against measured figures, a dot each.

use corun_report::{
    Axis, Colour, Ends, Mark, Panel, Plot, Series, counted, document, fixed, foot, head, scrolled,
    section, signed,
};
use corun_validate::{Alone, Estimate, Pair, Validation};
use maud::{Markup, html};

use super::text::{rounds, summary, worst};

/// Times alone, in s.
fn times(found: &Validation) -> Panel {
    let alone =
        found.alone.iter().map(|one| (titled(&one.name, &one.measured_s), one.pair())).collect();
    scatter("s", true, vec![("time alone", alone)])
}

/// Slowdowns of members of groups; no panel where there are none.
fn slowdowns(found: &Validation) -> Option<Panel> {
    let members = || found.groups.iter().flat_map(|group| &group.members);
    let dots = |clear: bool| -> Vec<(String, Pair)> {
        let of = members().filter(|one| one.clear == clear);
        of.map(|one| (titled(&one.name, &one.measured_slowdown), one.pair())).collect()
    };
    let sets = vec![("clear slowdown", dots(true)), ("within the noise", dots(false))];
    (!found.groups.is_empty()).then(|| scatter("slowdown", false, sets))
}

/// A dot's name, with the rounds behind it.
fn titled(name: &str, measured: &Estimate) -> String {
    format!("{name}, {}", counted(measured.rounds, "round"))
}

/// The plots as a drawing of their own.
pub fn drawing(found: &Validation) -> String {
    let panels: Vec<Panel> = std::iter::once(times(found)).chain(slowdowns(found)).collect();
    let columns = panels.len();
    let about = format!("{}; {}", rounds(found), summary(found).join("; "));
    Plot { panels }.file(columns, "Predicted against measured", &about)
}

/// The page as one HTML document.
pub fn page(found: &Validation) -> String {
    let (times, slowdowns) = (Plot::of(times(found)), slowdowns(found).map(Plot::of));
    let body = html! {
        (head("corun validate", &html! { "Predicted against measured on " span.name { (found.machine) } }, "", &html! {}))
        main #main {
            (section("summary", "How near", "Errors are predicted / measured - 1.", &html! {
                ul.plain {
                    li { (rounds(found)) }
                    @for line in summary(found) { li { (line) } }
                }
            }))
            (section("alone", "Programs alone",
                "A dot on the line is predicted exactly; one above it is predicted too slow.",
                &times.inline("alone")))
            @if let Some(slowdowns) = &slowdowns {
                (section("together", "Programs together",
                    "Slowdown of each member of each group. A slowdown is clear where it is at \
                     least three times the half width of its interval.",
                    &slowdowns.inline("together")))
            }
            (section("worst", "Worst alone", "The model's cycles per instruction by cause.",
                &worst_alone(found)))
            @if !found.left_out.is_empty() {
                (section("left-out", "Left out", "Programs that could not be timed.", &html! {
                    ul.plain { @for one in &found.left_out { li { (one.name) ": " (one.why) } } }
                }))
            }
        }
        (foot("corun", VERSION, "Slowdown: time beside the others / time alone. CPI: cycles an instruction."))
    };
    document("Predicted against measured", VERSION, &body)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn worst_alone(found: &Validation) -> Markup {
    let causes = |one: &Alone| {
        let all = one.cpi_stack.iter().flatten().filter_map(|(cause, cycles)| {
            let cycles = cycles.as_f64().filter(|cycles| *cycles >= 0.005)?;
            Some(format!("{} {}", cause.replace('_', " "), fixed(cycles, 2)))
        });
        all.collect::<Vec<_>>().join("; ")
    };
    let table = html! { table {
        thead { tr {
            th scope="col" { "program" }
            @for name in ["error, %", "measured CPI", "predicted CPI"] { th.n scope="col" { (name) } }
            th scope="col" { "of these" }
        } }
        tbody { @for one in worst(&found.alone) { tr {
            th scope="row" { (one.name) }
            td.n { (signed(100.0 * one.error, 1)) }
            td.n { (fixed(one.measured_cpi, 2)) }
            td.n { (fixed(one.predicted_cpi, 2)) }
            td.reason { (causes(one)) }
        } } }
    } };
    scrolled("Programs predicted worst", &table)
}

fn scatter(unit: &str, logarithmic: bool, sets: Vec<(&str, Vec<(String, Pair)>)>) -> Panel {
    let values = sets.iter().flat_map(|(_, pairs)| pairs).map(|(_, pair)| *pair);
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), pair| {
        (least.min(pair.measured.min(pair.predicted)), most.max(pair.measured.max(pair.predicted)))
    });
    let ends = if least < most { (0.95 * least, 1.05 * most) } else { (0.5, 2.0) };
    let mut series = vec![Series {
        name: "as measured".to_owned(),
        colour: Colour::Soft,
        mark: Mark::Dashed,
        points: vec![(ends.0, ends.0), (ends.1, ends.1)],
        titles: Vec::new(),
    }];
    for (number, (name, pairs)) in sets.into_iter().enumerate() {
        let said = |(name, pair): &(String, Pair)| {
            format!(
                "{name}: {} predicted, {} measured",
                fixed(pair.predicted, 3),
                fixed(pair.measured, 3)
            )
        };
        series.push(Series {
            name: name.to_owned(),
            colour: Colour::Nth(number),
            mark: Mark::Dots,
            points: pairs.iter().map(|(_, pair)| (pair.measured, pair.predicted)).collect(),
            titles: pairs.iter().map(said).collect(),
        });
    }
    let axis = |what: &str| {
        let caption = format!("{what}, {unit}");
        if logarithmic { Axis::Logarithmic(caption) } else { Axis::Linear(caption, None) }
    };
    Panel {
        title: String::new(),
        across: axis("measured"),
        upwards: axis("predicted"),
        series,
        vertical_lines: Vec::new(),
        ends: Ends { across: Some(ends), upwards: Some(ends) },
    }
}
