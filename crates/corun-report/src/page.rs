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
}
