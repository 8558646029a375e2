//! Throughput against unfairness, with the frontier of the best placements.

use corun_app::{ComparisonRow, RowKind};
use corun_report::{TradeOffKind, TradeOffPoint, section, trade_off};
use maud::{Markup, html};

use super::page::ComparisonPage;

/// The section; empty where no row has both figures.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let best = page.best_policy().map(|row| row.policy.as_str());
    let points: Vec<TradeOffPoint> =
        page.rows.iter().filter_map(|(row, _)| point(row, best)).collect();
    if points.is_empty() {
        return html! {};
    }
    let frontier: Vec<(f64, f64)> =
        page.frontier.iter().map(|one| (one.stp, one.unfairness)).collect();
    let line = "The line is the frontier: no placement that stays has more throughput without more \
                unfairness; policies that move programs can be beyond it.";
    let about = format!(
        "STP across, unfairness upwards: lower right is best. A diamond is the placement of least \
         mean slowdown, a square the worst, a circle a policy. {}",
        if frontier.len() > 1 { line } else { "" }
    );
    section("trade-off", "Throughput against unfairness", &about, &trade_off(&points, &frontier))
}

/// Bounds and the best policy have their names beside them; others where there is room, as all names would hide one another.
fn point(row: &ComparisonRow, best: Option<&str>) -> Option<TradeOffPoint> {
    let kind = match row.kind {
        RowKind::Policy => TradeOffKind::Policy,
        RowKind::Optimal => TradeOffKind::Optimal,
        RowKind::Expectation => TradeOffKind::Expectation,
        RowKind::Worst => TradeOffKind::Worst,
    };
    Some(TradeOffPoint {
        name: row.policy.clone(),
        kind,
        stp: row.stp?,
        unfairness: row.unfairness?,
        is_named: kind != TradeOffKind::Policy || best == Some(row.policy.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::page::tests::with_page;

    #[test]
    fn each_policy_and_each_bound_has_a_mark() {
        let drawn = with_page(|_| {}, |page| of(page).into_string());
        for (kind, marks) in [("policy", 2), ("optimal", 1), ("worst", 1)] {
            assert_eq!(drawn.matches(&format!("dot-of {kind}")).count(), marks, "{kind}: {drawn}");
        }
        let points = with_page(|_| {}, |page| page.frontier.len());
        assert_eq!(drawn.matches("class=\"frontier-point\"").count(), points);
        assert_eq!(drawn.contains("The line is the frontier"), points > 1);
    }
}
