//! How long the requests of services took.

use corun_app::{Comparison, ComparisonRow, ServiceRow};
use corun_report::{Columns, figures_table, or_dash, section};
use maud::{Markup, html};

use super::page::ComparisonPage;

/// A table with a line for each service and policy; none where there is no service.
pub(super) fn table(comparison: &Comparison) -> Option<String> {
    let mut rows: Vec<(&ComparisonRow, &ServiceRow)> = comparison
        .distinct_rows()
        .flat_map(|row| row.services.iter().map(move |service| (row, service)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let place = |service: &ServiceRow| comparison.apps.iter().position(|app| *app == service.app);
    rows.sort_by_key(|(_, service)| place(service));
    let columns = Columns::of(&rows)
        .left("service", |(_, service)| service.app.clone())
        .left("policy", |(row, _)| row.policy.clone())
        .right("requests/s", |(_, service)| service.requests_per_s)
        .right("percentile", |(_, service)| format!("p{}", service.percentile))
        .right("latency ms", |(_, service)| or_dash(service.latency_ms, 3))
        .right("target ms", |(_, service)| service.target_ms)
        .right("target met", |(_, service)| met(service, comparison.seeds))
        .right("saturated at /s", |(_, service)| or_dash(service.saturated_per_s, 0));
    Some(columns.table())
}

fn met(service: &ServiceRow, seeds: u32) -> String {
    match service.met {
        met if met == seeds => "yes".to_owned(),
        0 => "no".to_owned(),
        met => format!("{met} of {seeds} seeds"),
    }
}

/// The section of the page.
pub(super) fn of(page: &ComparisonPage<'_>, seeds: u32) -> Markup {
    let rows = || page.rows.iter().flat_map(|(row, _)| row.services.iter().map(move |s| (row, s)));
    if rows().next().is_none() {
        return html! {};
    }
    let header = ["service", "policy", "latency", "target", "target met", "saturated at"];
    let cells: Vec<Vec<String>> = rows()
        .map(|(row, service)| {
            let latency = or_dash(service.latency_ms, 3);
            vec![
                service.app.clone(),
                row.policy.clone(),
                format!("p{} {latency} ms", service.percentile),
                format!("{} ms", service.target_ms),
                met(service, seeds),
                format!("{} /s", or_dash(service.saturated_per_s, 0)),
            ]
        })
        .collect();
    let body = figures_table("Latency of services", &header, &cells);
    let about = "From the arrival of a request to its answer. A service is saturated where its threads have a request \
                 all the time.";
    section("services", "Services", about, &body)
}
