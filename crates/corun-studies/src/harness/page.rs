//! What a study says: what came out beside what the paper has, then its figures one after another.
//! A page is written as text, JSON, CSV, HTML and SVG.

use corun_app::Result;
use corun_report::{csv_rows, document, foot, head, scrolled, section};
use maud::{Markup, html};
use serde::Serialize;

use super::figure::Figure;

/// What a study says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Page {
    /// The study's name on the command line.
    #[serde(rename = "study")]
    pub(crate) name: &'static str,
    /// Its heading.
    pub(crate) title: String,
    /// Its source, and on what it stands.
    pub(crate) about: String,
    /// What came out, beside the paper's.
    pub(crate) findings: Vec<PaperClaim>,
    pub(crate) figures: Vec<Figure>,
    /// The JSON of a study whose document has a shape of its own; else the page is the document.
    #[serde(skip)]
    pub(crate) own_json: Option<String>,
    /// The CSV of a study that has columns of its own; else every number of the page, one a line.
    #[serde(skip)]
    pub(crate) own_csv: Option<String>,
    /// Where a run is described, with the reasons for what differs.
    #[serde(skip)]
    pub(crate) explained_in: &'static str,
}

/// A claim of the paper and what came out here. What is said of this run is computed from it: the
/// reasons for a difference, which nobody can compute, stand beside a described run in docs/studies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PaperClaim {
    /// What it is about, with the paper's figure or table: "Pain above the optimum (Fig. 3)".
    what: String,
    /// What the paper has.
    paper: String,
    /// What came out here.
    ours: String,
    /// How the two compare, computed; empty where they are not numbers of one kind.
    difference: String,
}

impl PaperClaim {
    /// A claim of the paper, and what came out here.
    pub(crate) fn new(what: impl Into<String>, paper: impl Into<String>, ours: String) -> Self {
        Self { what: what.into(), paper: paper.into(), ours, difference: String::new() }
    }

    /// Says how a number of this run lies to a limit of the paper's.
    pub(crate) fn against_limit(self, ours: f64, limit: f64) -> Self {
        let beyond = ours - limit;
        let difference = if beyond <= 0.0 {
            "within the paper's limit".to_owned()
        } else {
            format!("{} beyond the paper's limit", corun_report::fixed(beyond, 1))
        };
        Self { difference, ..self }
    }

    /// Says how a number of this run compares with the paper's.
    pub(crate) fn against_value(self, ours: f64, paper: f64) -> Self {
        let apart = corun_report::fixed((ours - paper).abs(), 1);
        let difference = if apart.bytes().all(|one| matches!(one, b'0' | b'.')) {
            "as in the paper".to_owned()
        } else {
            format!("{apart} {} than the paper's", if ours > paper { "more" } else { "less" })
        };
        Self { difference, ..self }
    }

    /// Adds what the figures of this run say about the difference.
    pub(crate) fn noting(mut self, computed: String) -> Self {
        if !self.difference.is_empty() && !computed.is_empty() {
            self.difference.push_str("; ");
        }
        self.difference.push_str(&computed);
        self
    }
}

impl Page {
    /// A page of findings and figures. The harness fills in the rest.
    pub(crate) fn new(
        title: impl Into<String>,
        about: impl Into<String>,
        findings: Vec<PaperClaim>,
        figures: Vec<Figure>,
    ) -> Self {
        Self {
            name: "",
            title: title.into(),
            about: about.into(),
            findings,
            figures,
            own_json: None,
            own_csv: None,
            explained_in: "",
        }
    }

    /// The page as one HTML document. The same page gives the same bytes.
    pub(super) fn html(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let words = format!(
            "{} describes a run and says why its figures differ from the paper's.",
            self.explained_in
        );
        let body = html! {
            (head(&format!("corun-study {}", self.name), &html! { (self.title) }, &self.about, &html! {}))
            main #main {
                @if !self.findings.is_empty() {
                    (section("findings", "Beside the paper", "", &self.findings_table()))
                }
                @for figure in &self.figures { (figure.section()) }
            }
            (foot("corun-study", version, &words))
        };
        document(&self.title, version, &body)
    }

    fn findings_table(&self) -> Markup {
        let table = html! { table.words {
            thead { tr {
                th scope="col" { "What" } th scope="col" { "Paper" } th scope="col" { "Here" } th scope="col" { "Compared" }
            } }
            tbody { @for one in &self.findings { tr {
                th scope="row" { (one.what) }
                td data-head="Paper" { (one.paper) }
                td data-head="Here" { (one.ours) }
                td data-head="Compared" { (one.difference) }
            } } }
        } };
        scrolled(&format!("{}: beside the paper", self.title), &table)
    }

    /// The findings and the figures as tables.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.about);
        for one in &self.findings {
            let PaperClaim { what, paper, ours, difference } = one;
            text.push_str(&format!("\n{what}\n  paper: {paper}\n  here:  {ours}\n"));
            if !difference.is_empty() {
                text.push_str(&format!("  {difference}\n"));
            }
        }
        for figure in &self.figures {
            text.push_str(&figure.text());
        }
        text
    }

    /// The study's own CSV, or all numbers, one a line.
    pub(super) fn csv(&self) -> Result<String> {
        if let Some(own) = &self.own_csv {
            return Ok(own.clone());
        }
        let rows: Vec<Vec<String>> = self.figures.iter().flat_map(Figure::cells).collect();
        csv_rows(&["figure", "label", "column", "value"], &rows)
    }

    /// The first drawing as a file; none where nothing is drawn.
    pub(super) fn svg(&self) -> Option<String> {
        self.figures.iter().find_map(Figure::svg)
    }
}

/// A page that lists studies, each with its findings.
pub(super) fn index(pages: &[Page]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let body = html! {
        (head("corun-study all", &html! { "The papers' experiments" },
            "What the papers found, what came out here, and how the two compare.", &html! {}))
        main #main {
            @for page in pages {
                section id=(page.name) {
                    h2 { a href={ (page.name) ".html" } { (page.title) } }
                    p.about { (page.about) }
                    @if !page.findings.is_empty() { (page.findings_table()) }
                }
            }
        }
        (foot("corun-study", version, ""))
    };
    document("The papers' experiments", version, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_difference_follows_the_figures() {
        let of = |ours: f64| {
            let finding =
                PaperClaim::new("DI above the optimum", "at most 2 %", format!("{ours} %"));
            finding.against_limit(ours, 2.0).difference
        };
        assert_eq!(
            [of(1.4), of(3.5)],
            ["within the paper's limit", "1.5 beyond the paper's limit"]
        );
        let of = |ours: f64| {
            PaperClaim::new("a", "80", String::new()).against_value(ours, 80.0).difference
        };
        let said = ["3.0 more than the paper's", "as in the paper", "80.0 less than the paper's"];
        assert_eq!([of(83.0), of(80.01), of(0.0)], said);
    }

    #[test]
    fn notes_stand_behind_the_comparison() {
        let finding = PaperClaim::new("a", "80", "79".to_owned()).against_value(79.0, 80.0);
        let noted = finding.noting("lbm in 4 %".to_owned()).difference;
        assert_eq!(noted, "1.0 less than the paper's; lbm in 4 %");
    }
}
