//! The frame of every HTML page: one file that needs nothing but itself.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The page may load nothing at all; its style is its own.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// A whole page. `version` is that of corun. `body` has an element `main`, to which a link skips.
pub fn document(title: &str, version: &str, body: &Markup) -> String {
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

/// A section with its heading, for readers of headings too. `about` says how to read it.
pub fn section(id: &str, heading: &str, about: &str, body: &Markup) -> Markup {
    let heading_id = format!("{id}-heading");
    html! {
        section id=(id) aria-labelledby=(heading_id) {
            h2 id=(heading_id) { (heading) }
            p.about { (about) }
            (body)
        }
    }
}

/// What stands above a page's sections: the command that made it, the heading, on what it stands (empty: nothing is said),
/// and the result in a sentence or in a few large figures.
pub fn head(made_by: &str, heading: &Markup, sub: &str, result: &Markup) -> Markup {
    html! {
        header.head {
            p.kicker { (made_by) }
            h1 { (heading) }
            @if !sub.is_empty() { p.sub { (sub) } }
            (result)
        }
    }
}

/// What stands below a page's sections: what made it, and what a reader has to know of its figures.
pub fn foot(made_by: &str, version: &str, words: &str) -> Markup {
    html! { footer { p { "Made by " (made_by) " " (version) ". " (words) } } }
}

/// A table that may be wider than the page: it scrolls in a box of its own, by keyboard too. `label` names the box to those
/// who hear the page.
pub fn scrolled(label: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// A table of figures. The first column names the rows; the others stand right. `label` says what the table holds.
pub fn figures_table<H: AsRef<str>>(label: &str, header: &[H], rows: &[Vec<String>]) -> Markup {
    let table = html! { table {
        thead { tr { @for (place, name) in header.iter().enumerate() {
            th class=[(place > 0).then_some("n")] scope="col" { (name.as_ref()) }
        } } }
        tbody { @for row in rows { tr { @for (place, cell) in row.iter().enumerate() {
            @if place == 0 { th scope="row" { (cell) } } @else { td.n { (cell) } }
        } } } }
    } };
    scrolled(label, &table)
}

/// What is shown when a reader asks for it, such as the numbers of a drawing.
pub fn folded(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } (body) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_nothing_and_escapes_what_it_is_given() {
        let body = html! { main #main { (section("one", "a<b", "", &html! {})) } };
        let page = document("<title>", "0", &body);
        for word in
            ["http://", "https://", "<script", "<img", "@import", "<link", "a<b", "<title><"]
        {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("a&lt;b") && page.contains("&lt;title&gt; · corun"));
    }

    #[test]
    fn a_table_of_figures_names_its_rows_and_columns() {
        let rows = vec![vec!["<xz>".to_owned(), "1.5".to_owned()]];
        let table = figures_table("times & more", &["program", "time, s"], &rows).into_string();
        for part in [
            "aria-label=\"times &amp; more\"",
            "<th scope=\"col\">program</th><th class=\"n\" scope=\"col\">time, s</th>",
            "<th scope=\"row\">&lt;xz&gt;</th><td class=\"n\">1.5</td>",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
    }

    #[test]
    fn series_have_the_same_colours_in_plots_as_on_pages() {
        for (place, colour) in crate::COLOURS.iter().enumerate() {
            assert!(STYLE.contains(&format!(".l{place} {{ --c: {colour}; }}")), "{colour}");
        }
    }
}
