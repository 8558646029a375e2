//! The page of `corun partition`: policies side by side, who has which ways, slowdowns, curves.

use maud::{Markup, html};

use super::document::size;
use super::page::{self, document};

/// What the page shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionReport {
    /// The command line that made it.
    pub(crate) command: String,
    /// corun's version.
    pub(crate) version: String,
    /// The machine's name.
    pub(crate) machine: String,
    /// Ways of the LLC.
    pub(crate) ways: u32,
    /// Bytes of a way.
    pub(crate) way_bytes: f64,
    /// What partitions are judged by.
    pub(crate) objective: String,
    /// The programs.
    pub(crate) programs: Vec<PartitionProgram>,
    /// The partitions, in the order shown; at least one.
    pub(crate) entries: Vec<PartitionEntry>,
    /// How it was found out: label and text.
    pub(crate) facts: Vec<(String, String)>,
}

/// A program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionProgram {
    /// The name shown.
    pub(crate) name: String,
    /// Its class.
    pub(crate) class: String,
    /// Slowdown alone with 1, 2, 3 .. ways.
    pub(crate) slowdown_by_ways: Vec<f64>,
}

/// A partition and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionEntry {
    /// Who decided.
    pub(crate) name: String,
    /// Is it an optimum?
    pub(crate) is_optimum: bool,
    /// Percent from the optimum, where known.
    pub(crate) from_optimal_percent: Option<f64>,
    /// STP, unfairness, mean and worst slowdown, memory traffic in MB/s; none without a partition.
    pub(crate) figures: [Option<f64>; 5],
    /// By program: its ways, bit i for way i; empty without a partition.
    pub(crate) masks: Vec<u64>,
    /// By program: its cluster.
    pub(crate) cluster: Vec<usize>,
    /// By program.
    pub(crate) slowdowns: Vec<f64>,
    /// Why there is no partition.
    pub(crate) error: Option<String>,
}

impl PartitionReport {
    /// The page as one HTML document. The same report gives the same bytes.
    pub(crate) fn render(&self) -> String {
        let title = format!("{} ways of {}", self.ways, self.machine);
        let body = html! {
            header.head {
                p.kicker { "corun partition" }
                h1 { (self.ways) " ways for " (self.programs.len()) " programs on "
                    span.name { (self.machine) } }
                p.sub { "ways of " (size(self.way_bytes)) ", judged by " (self.objective) }
            }
            main #main {
                (self.side_by_side())
                (self.maps())
                (self.slowdowns())
                (self.curves())
                (self.ground())
            }
            footer { p {
                "Made by corun " (self.version) ". Slowdown: speed alone with the whole cache / speed "
                "beside the others. STP: sum of 1 / slowdown. Unfairness: largest / smallest slowdown."
            } }
        };
        document(&title, &self.version, &body)
    }

    fn side_by_side(&self) -> Markup {
        let figure = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "\u{2013}".to_owned(),
        };
        let body = html! {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "policy" }
                    th.n { "from the optimum" } th.n { "STP" } th.n { "unfairness" }
                    th.n { "mean slowdown" } th.n { "worst" } th.n { "MB/s" }
                } }
                tbody { @for entry in &self.entries {
                    tr class=[entry.is_optimum.then_some("optimal")] {
                        th scope="row" { (entry.name) }
                        @if let Some(error) = &entry.error { td colspan="6" { (error) } } @else {
                            td.n { (entry.from_optimal_percent.map_or_else(
                                || "\u{2013}".to_owned(), page::signed_percent)) }
                            @for (place, &value) in entry.figures.iter().enumerate() {
                                td.n { (figure(value, if place == 4 { 0 } else { 3 })) }
                            }
                        }
                    }
                } }
            } }
        };
        let about = "All programs together under each partition. The optimum is over all partitions, \
                     with clusters where it was searched.";
        page::section("policies", "Side by side", about, &body)
    }

    /// The entries that have a partition.
    fn partitions(&self) -> impl Iterator<Item = &PartitionEntry> {
        self.entries.iter().filter(|entry| entry.error.is_none())
    }

    fn maps(&self) -> Markup {
        let body = html! {
            div.programs { @for entry in self.partitions() {
                article.program { h3 { (entry.name) } (self.map(entry)) }
            } }
        };
        let about =
            "A row a cluster, a column a way. Programs in one row share the ways of that row.";
        page::section("ways", "Who has which ways", about, &body)
    }

    fn map(&self, entry: &PartitionEntry) -> Markup {
        const CELL: u32 = 16;
        let clusters = entry.cluster.iter().max().map_or(0, |last| last + 1);
        html! { @for cluster in 0..clusters {
            @let members: Vec<usize> =
                (0..entry.cluster.len()).filter(|&one| entry.cluster[one] == cluster).collect();
            @let mask = members.first().map_or(0, |&one| entry.masks[one]);
            @let names: Vec<&str> =
                members.iter().map(|&one| self.programs[one].name.as_str()).collect();
            p.place { (names.join(", ")) span.note { (mask.count_ones()) " ways" } }
            svg class={ "l" (cluster % 8) } width=(self.ways * CELL) height=(CELL) role="img"
                aria-label={ (mask.count_ones()) " of " (self.ways) " ways" } {
                @for way in 0..self.ways {
                    rect x=(way * CELL + 1) y="1" width=(CELL - 2) height=(CELL - 2) rx="2"
                        style={ "fill:" (if mask >> way & 1 == 1 { "var(--c)" } else { "var(--track)" }) }
                        {}
                }
            }
        } }
    }

    fn slowdowns(&self) -> Markup {
        let body = html! {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "program" } th { "class" }
                    @for entry in self.partitions() { th.n { (entry.name) } }
                } }
                tbody { @for (place, program) in self.programs.iter().enumerate() {
                    tr {
                        th scope="row" { (program.name) }
                        td { (program.class) }
                        @for entry in self.partitions() {
                            td.n { (format!("{:.3}", entry.slowdowns[place])) }
                        }
                    }
                } }
            } }
        };
        let about = "Time beside the others / time alone with the whole cache.";
        page::section("slowdowns", "Slowdown by program", about, &body)
    }

    fn curves(&self) -> Markup {
        let all = || self.programs.iter().flat_map(|program| &program.slowdown_by_ways);
        let most = all().fold(1.1, |most: f64, &one| most.max(one));
        let body = html! {
            div.curves { @for program in &self.programs { figure {
                figcaption { (program.name) " " span.note { (program.class) } }
                (curve(&program.slowdown_by_ways, most))
            } } }
        };
        let about = format!(
            "Slowdown alone with 1 to {} ways, left to right; the upper edge is {most:.2}, the lower 1.",
            self.ways
        );
        page::section("curves", "What ways are worth", &about, &body)
    }

    fn ground(&self) -> Markup {
        let body = html! {
            dl.facts {
                @for (label, text) in &self.facts { dt { (label) } dd { (text) } }
                dt { "Command" }
                dd { code.command { (self.command) } }
                dt { "Version" }
                dd { "corun " (self.version) }
            }
        };
        page::section("ground", "What this stands on", "", &body)
    }
}

fn curve(slowdowns: &[f64], most: f64) -> Markup {
    let (width, height) = (220.0, 90.0);
    let last = (slowdowns.len().max(2) - 1) as f64;
    let point = |(place, slowdown): (usize, &f64)| {
        let x = place as f64 / last * width;
        let y = height * (1.0 - ((slowdown - 1.0) / (most - 1.0)).clamp(0.0, 1.0));
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = slowdowns.iter().enumerate().map(point).collect();
    html! {
        svg viewBox={ "0 -2 " (width) " " (height + 4.0) } role="img"
            aria-label={ "slowdown with one way " (format!("{:.2}", slowdowns[0])) } {
            line.grid x1="0" x2=(width) y1=(height) y2=(height) {}
            polyline.curve points=(points.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> PartitionReport {
        let program = |name: &str| PartitionProgram {
            name: name.to_owned(),
            class: "sensitive".to_owned(),
            slowdown_by_ways: vec![2.0, 1.2, 1.0],
        };
        let entry = PartitionEntry {
            name: "optimal".to_owned(),
            is_optimum: true,
            from_optimal_percent: Some(0.0),
            figures: [Some(1.9), Some(1.1), Some(1.05), Some(1.1), Some(900.0)],
            masks: vec![0x1, 0x6],
            cluster: vec![0, 1],
            slowdowns: vec![1.1, 1.0],
            error: None,
        };
        let refused = PartitionEntry {
            name: "ucp".to_owned(),
            is_optimum: false,
            error: Some("too many programs".to_owned()),
            masks: vec![],
            cluster: vec![],
            slowdowns: vec![],
            figures: [None; 5],
            from_optimal_percent: None,
        };
        PartitionReport {
            command: "corun partition <x>".to_owned(),
            version: "0".to_owned(),
            machine: "gold".to_owned(),
            ways: 3,
            way_bytes: 2621440.0,
            objective: "stp".to_owned(),
            programs: vec![program("a<b"), program("c")],
            entries: vec![entry, refused],
            facts: vec![("Model".to_owned(), "fill-time".to_owned())],
        }
    }

    #[test]
    fn the_page_stands_by_itself_and_escapes_names() {
        let page = report().render();
        assert_eq!(page, report().render());
        for word in ["http://", "https://", "<script", "<img", "@import", "<link", "a<b", "<x>"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("a&lt;b") && page.contains("too many programs"));
        assert_eq!(page.matches("<rect").count(), 6);
    }
}
