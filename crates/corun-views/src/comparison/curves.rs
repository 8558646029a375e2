//! Miss-rate curves: one small chart a program, all with the same axes.

use corun_report::{
    Axis, Colour, Ends, Mark, Panel, Plot, Series, figures_table, folded, section, size,
};
use maud::{Markup, html};

use super::page::{ComparisonPage, Program};

/// Misses per 1000 instructions below which nothing is drawn: so few hurt nobody.
const LEAST_MPKI: f64 = 0.1;

/// The section; empty where no program has a curve.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let llcs = page.machine.llcs().iter().filter_map(|llc| llc.cache);
    let mut llc_bytes: Vec<f64> = llcs.map(|cache| cache.size_bytes as f64).collect();
    llc_bytes.sort_by(f64::total_cmp);
    llc_bytes.dedup();
    let mut shown: Vec<&Program> = Vec::new();
    for program in &page.programs {
        // Copies of a program have one curve.
        if program.curve.len() > 1 && !shown.iter().any(|one| one.curve == program.curve) {
            shown.push(program);
        }
    }
    if shown.is_empty() {
        return html! {};
    }
    let ends = ends(&page.programs, &llc_bytes);
    let panel =
        |program: &&Program| Panel { vertical_lines: llc_bytes.clone(), ..panel(program, ends) };
    let plot = Plot { panels: shown.iter().map(panel).collect() };
    let body = html! { (plot.inline("curve")) (as_table(&shown)) };
    let about = "Misses per 1000 instructions (up) against the cache a program has (across), both \
                 logarithmic and the same for all. The dashed line is the machine's last-level \
                 cache. A falling curve gains from space; a flat and high one only takes it.";
    section("curves", "Miss-rate curves", about, &body)
}

fn panel(program: &Program, ends: Ends) -> Panel {
    let above = |&(bytes, mpki): &(f64, f64)| (bytes, mpki.max(LEAST_MPKI));
    let curve = Series {
        name: String::new(),
        colour: Colour::Nth(0),
        mark: Mark::Line,
        points: program.curve.iter().map(above).collect(),
        titles: Vec::new(),
    };
    Panel {
        title: program.name.clone(),
        across: Axis::CacheSizes("cache".to_owned()),
        upwards: Axis::Logarithmic("MPKI".to_owned()),
        series: vec![curve],
        vertical_lines: Vec::new(),
        ends,
    }
}

/// The ends of all panels' axes: every size and the machine's caches, every miss rate up to a power
/// of ten.
fn ends(programs: &[Program], llc_bytes: &[f64]) -> Ends {
    let points = || programs.iter().flat_map(|program| &program.curve);
    let sizes = || points().map(|point| point.0).chain(llc_bytes.iter().copied());
    let most = points().map(|point| point.1).fold(1.0, f64::max);
    Ends {
        across: Some((sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max))),
        upwards: Some((LEAST_MPKI, 10f64.powf(most.log10().ceil()))),
    }
}

fn as_table(shown: &[&Program]) -> Markup {
    let rows = shown.iter().flat_map(|program| {
        let row = |&(bytes, mpki): &(f64, f64)| {
            vec![program.name.clone(), size(bytes), format!("{mpki:.2}")]
        };
        program.curve.iter().map(row)
    });
    let rows: Vec<Vec<String>> = rows.collect();
    folded(
        "As a table",
        &figures_table("Misses by program and cache", &["Program", "Cache", "MPKI"], &rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::page::tests::with_page;

    #[test]
    fn each_program_has_a_panel_and_one_without_a_curve_has_none() {
        let panels = |text: &str| text.matches("<svg").count();
        with_page(|_| {}, |page| assert_eq!(panels(&of(page).into_string()), 4));
        let no_curve =
            |page: &ComparisonPage<'_>| page.programs.iter().all(|one| one.curve.len() > 1);
        assert!(with_page(|_| {}, no_curve));
    }
}
