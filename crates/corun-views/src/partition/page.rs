//! The page of `corun partition`: policies side by side, who has which ways, slowdowns, curves.

use std::sync::Arc;

use corun_app::{PartitionDocument, PartitionEntry, parse_way_mask};
use corun_policy::WaysCurve;
use corun_report::{
    Axis, Ends, Mark, Panel, Plot, counted, document, foot, head, scrolled, section,
    signed_percent, size,
};
use maud::{Markup, html};

/// What the page shows.
pub struct PartitionPage<'a> {
    /// The partitions and what they are judged by.
    pub document: &'a PartitionDocument,
    /// Each program's figures by ways.
    pub curves: &'a [Arc<WaysCurve>],
    /// The command line that made it.
    pub command: &'a str,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl PartitionPage<'_> {
    /// The page as one HTML document. The same document gives the same bytes.
    pub fn render(&self) -> String {
        let title = format!("{} ways of {}", self.document.llc_ways, self.document.machine);
        let heading = html! {
            (self.document.llc_ways) " ways for " (self.document.apps.len()) " programs on "
            span.name { (self.document.machine) }
        };
        let way = size(self.document.way_bytes as f64);
        let sub = format!("ways of {way}, judged by {}", self.document.objective);
        let body = html! {
            (head("corun partition", &heading, &sub, &html! {}))
            main #main {
                (self.side_by_side())
                (self.maps())
                (self.slowdowns())
                (self.curves())
                (self.basis())
            }
            (foot("corun", VERSION, "Slowdown: speed alone with the whole cache / speed beside the others. \
                STP: sum of 1 / slowdown. Unfairness: largest / smallest slowdown."))
        };
        document(&title, VERSION, &body)
    }

    fn side_by_side(&self) -> Markup {
        let figure = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "\u{2013}".to_owned(),
        };
        let table = html! {
            table {
                thead { tr {
                    th scope="col" { "policy" }
                    @for name in ["from the optimum", "STP", "unfairness", "mean slowdown", "worst", "MB/s"] {
                        th.n scope="col" { (name) }
                    }
                } }
                tbody { @for entry in self.entries() {
                    tr class=[entry.proven.map(|_| "optimal")] {
                        th scope="row" { (entry.policy) }
                        @if let Some(error) = &entry.error { td colspan="6" { (error) } } @else {
                            td.n { (entry.from_optimal_percent.map_or_else(
                                || "\u{2013}".to_owned(), signed_percent)) }
                            td.n { (figure(entry.stp, 3)) }
                            td.n { (figure(entry.unfairness, 3)) }
                            td.n { (figure(entry.antt, 3)) }
                            td.n { (figure(entry.max_slowdown, 3)) }
                            td.n { (figure(entry.bandwidth_mb_per_s, 0)) }
                        }
                    }
                } }
            }
        };
        let body = scrolled("Partitions side by side", &table);
        let about = "All programs together under each partition. The optimum is over all partitions, \
                     with clusters where it was searched.";
        section("policies", "Side by side", about, &body)
    }

    /// All that were asked for.
    fn entries(&self) -> &[PartitionEntry] {
        let all = &self.document.policies;
        if all.is_empty() { std::slice::from_ref(&self.document.chosen) } else { all }
    }

    /// The entries that have a partition.
    fn partitions(&self) -> impl Iterator<Item = &PartitionEntry> {
        self.entries().iter().filter(|entry| entry.error.is_none())
    }

    fn maps(&self) -> Markup {
        let body = html! {
            div.programs { @for entry in self.partitions() {
                article.program { h3 { (entry.policy) } (self.map(entry)) }
            } }
        };
        let about =
            "A row a cluster, a column a way. Programs in one row share the ways of that row.";
        section("ways", "Who has which ways", about, &body)
    }

    fn map(&self, entry: &PartitionEntry) -> Markup {
        const CELL: u32 = 16;
        let clusters = entry.cluster.iter().max().map_or(0, |last| last + 1);
        html! { @for cluster in 0..clusters {
            @let members: Vec<usize> =
                (0..entry.cluster.len()).filter(|&one| entry.cluster[one] == cluster).collect();
            @let mask = members.first().and_then(|&one| parse_way_mask(&entry.mask[one])).unwrap_or(0);
            @let names: Vec<&str> =
                members.iter().map(|&one| self.document.apps[one].as_str()).collect();
            p.place { (names.join(", ")) span.note { (counted(mask.count_ones() as usize, "way")) } }
            svg class={ "l" (cluster % 8) } width=(self.document.llc_ways * CELL) height=(CELL) role="img"
                aria-label={ (mask.count_ones()) " of " (self.document.llc_ways) " ways" } {
                @for way in 0..self.document.llc_ways {
                    rect x=(way * CELL + 1) y="1" width=(CELL - 2) height=(CELL - 2) rx="2"
                        style={ "fill:" (if mask >> way & 1 == 1 { "var(--c)" } else { "var(--track)" }) }
                        {}
                }
            }
        } }
    }

    fn slowdowns(&self) -> Markup {
        let table = html! {
            table {
                thead { tr {
                    th scope="col" { "program" } th scope="col" { "class" }
                    @for entry in self.partitions() { th.n scope="col" { (entry.policy) } }
                } }
                tbody { @for (place, program) in self.document.apps.iter().enumerate() {
                    tr {
                        th scope="row" { (program) }
                        td { (self.document.class[place]) }
                        @for entry in self.partitions() {
                            td.n { (format!("{:.3}", entry.slowdown[place])) }
                        }
                    }
                } }
            }
        };
        let body = scrolled("Slowdown by program and partition", &table);
        let about = "Time beside the others / time alone with the whole cache.";
        section("slowdowns", "Slowdown by program", about, &body)
    }

    fn curves(&self) -> Markup {
        let slowdowns = |curve: &WaysCurve| -> Vec<f64> {
            curve.points().iter().map(|point| point.slowdown).collect()
        };
        let all = self.curves.iter().flat_map(|curve| slowdowns(curve));
        let most = all.fold(1.1, f64::max);
        let panels = self.document.apps.iter().zip(&self.document.class).zip(self.curves);
        let panel = |((name, class), curve): ((&String, &&str), &Arc<WaysCurve>)| {
            let values = slowdowns(curve).into_iter().map(Some).collect::<Vec<_>>();
            let labels = (1..=values.len()).map(|ways| ways.to_string()).collect();
            let upwards = Axis::Linear("slowdown".to_owned(), None);
            let series = [(String::new(), values)];
            let panel = Panel::of_labels(Mark::Line, "ways", labels, upwards, &series);
            let ends = Ends { across: None, upwards: Some((1.0, most)) };
            Panel { title: format!("{name}, {class}"), ends, ..panel }
        };
        let body = Plot { panels: panels.map(panel).collect() }.inline("curve");
        let about = "Slowdown alone with so many ways. The upper end is the same for all.";
        section("curves", "What ways are worth", about, &body)
    }

    fn basis(&self) -> Markup {
        let data = &self.document.data;
        let body = html! {
            dl.facts {
                dt { "Profiles" } dd { (data.profiles) }
                dt { "Model" } dd { "space " (data.space) ", bandwidth " (data.bandwidth_model) }
                dt { "Command" }
                dd { code.command { (self.command) } }
                dt { "Version" }
                dd { "corun " (VERSION) }
            }
        };
        section("ground", "What this stands on", "", &body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_app::{PartitionRequest, PartitionScenario};
    use corun_optimal::partition::PartitionObjective;
    use corun_profile::Library;

    use super::*;

    #[test]
    fn the_page_stands_by_itself_and_shows_who_has_which_ways() {
        let machine = corun_machine::preset("xeon-gold-6138").unwrap();
        let apps = ["sort", "xz"].map(str::to_owned);
        let library = || Ok(Library::shipped()?);
        let scenario =
            PartitionScenario::new(machine, library, &apps, Default::default(), Some(4), None)
                .unwrap();
        let request = PartitionRequest {
            masks: vec![0x1, 0xe],
            policy: None,
            allow_overlap: false,
            cluster: false,
            all: false,
            objective: PartitionObjective::Stp,
            time_limit_s: None,
            target_slowdown: None,
            pareto: false,
            set: Vec::new(),
            seed: 1,
        };
        let document = request.answer(&scenario, &AtomicBool::new(false)).unwrap();
        let page =
            PartitionPage { document: &document, curves: &scenario.curves, command: "corun <x>" };
        let text = page.render();
        assert_eq!(text, page.render());
        for word in ["http://", "https://", "<script", "<img", "@import", "<link", "<x>"] {
            assert!(!text.contains(word), "{word}");
        }
        // A row of four ways for each of two clusters.
        assert_eq!(text.matches("rx=\"2\"").count(), 8);
        assert!(text.contains("1 of 4 ways") && text.contains("3 of 4 ways"), "{text}");
    }
}
