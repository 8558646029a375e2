//! `corun man`: the manual pages, from the definitions that `--help` comes from.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use corun_report::write_file;

use crate::cli::{ManArgs, definitions};
use crate::failure::{Failure, Outcome};

pub(super) fn run(arguments: &ManArgs) -> Outcome<String> {
    let mut top = definitions().disable_help_subcommand(true);
    top.build();
    let printed = |command| -> Outcome<String> {
        Ok(String::from_utf8_lossy(&page(command).map_err(Failure::failed)?).into_owned())
    };
    let Some(what) = &arguments.what else { return printed(&top) };
    let named = |text| find(&top, text).or_else(|| find(&top, &format!("corun-{text}")));
    if let Some(command) = what.to_str().and_then(named) {
        return printed(command);
    }
    // Whoever mistypes a command wants no folder of that name.
    if what.components().count() == 1 && !what.is_dir() {
        let shown = what.display();
        return Err(Failure::input(format!("no command and no folder is called `{shown}`"))
            .hint("corun man: all commands")
            .hint(format!("mkdir {shown}: for a folder of that name, into which the pages go")));
    }
    fs::create_dir_all(what).with_context(|| format!("cannot make {}", what.display()))?;
    write_pages(&top, what)?;
    Ok(String::new())
}

/// The command whose page has this name.
fn find<'a>(command: &'a Command, page: &str) -> Option<&'a Command> {
    let below = || shown(command).find_map(|one| find(one, page));
    if name(command) == page { Some(command) } else { below() }
}

/// The page of a command and those of all below it.
fn write_pages(command: &Command, folder: &Path) -> Outcome {
    write_file(&folder.join(file_name(command)), &page(command).map_err(Failure::failed)?)?;
    shown(command).try_for_each(|below| write_pages(below, folder))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// `corun-profiles-show`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn file_name(command: &Command) -> String {
    format!("{}.1", name(command))
}

/// A page in roff.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(format!("corun {}", env!("CARGO_PKG_VERSION")))
        .manual("corun");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    synopsis(command).to_writer(&mut out)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    if let Some(text) = command.get_after_help() {
        sections(&text.to_string(), &mut roff);
    }
    files(&mut roff);
    if name(command) != "corun" {
        roff.control("SH", ["SEE ALSO"]).text([bold("corun"), roman("(1)")]);
    }
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// The command line as `--help` shows it: options in one word, a program behind `--`.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let words: Vec<&str> = usage.split_whitespace().collect();
    let names = words.iter().take_while(|word| !word.starts_with(['[', '<', '-'])).count();
    let mut roff = Roff::new();
    let (first, rest) = words.split_at(names);
    roff.control("SH", ["SYNOPSIS"])
        .text([bold(first.join(" ")), roman(format!(" {}", rest.join(" ")))]);
    roff
}

/// What a page names and where it is.
fn files(roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    for (path, what) in FILES {
        roff.control("TP", []).text([bold(path)]).text([roman(what)]);
    }
}

const FILES: [(&str, &str); 3] = [
    (
        "/usr/share/doc/corun/",
        "README and docs/, which these pages name; PREFIX/share/doc/corun after make install",
    ),
    (
        "/etc/corun/config.toml",
        "The daemon's configuration; corun check-config --example writes one that explains each key",
    ),
    ("/run/corun/", "Journals, from which corun restore undoes what a killed corun left"),
];

/// The text below a command's help: paragraphs, among them one of examples and one of exit codes.
fn sections(text: &str, roff: &mut Roff) {
    let mut has_notes = false;
    for paragraph in text.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        match first {
            "Example:" | "Examples:" => {
                roff.control("SH", ["EXAMPLES"]).control("nf", []);
                for line in rest.lines() {
                    roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                }
                roff.control("fi", []);
            }
            _ => {
                let codes = paragraph.strip_prefix("Exit codes: ");
                if codes.is_some() {
                    roff.control("SH", ["EXIT STATUS"]);
                } else if !has_notes {
                    roff.control("SH", ["NOTES"]);
                    has_notes = true;
                } else {
                    roff.control("PP", []);
                }
                for line in codes.unwrap_or(paragraph).lines() {
                    roff.text([roman(line)]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(line: &[&str]) -> String {
        let mut top = definitions();
        top.build();
        let command =
            line.iter().fold(&top, |command, word| command.find_subcommand(word).unwrap());
        String::from_utf8(page(command).unwrap()).unwrap()
    }

    #[test]
    fn a_page_has_what_help_has() {
        let page = text_of(&["profiles", "show"]);
        for part in [
            ".TH corun-profiles-show 1",
            "corun\\-profiles\\-show \\- One program: its figures and its miss\\-rate curve",
            ".SH SYNOPSIS\n\\fBcorun profiles show\\fR [OPTIONS] <NAME|FILE>...",
            ".SH FILES\n.TP\n\\fB/usr/share/doc/corun/\\fR\nREADME",
            "\\fB\\-\\-svg\\fR",
            ".SH EXAMPLES\n.nf\ncorun profiles show gzip.toml\n",
            ".SH \"SEE ALSO\"\n\\fBcorun\\fR(1)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let top = text_of(&[]);
        assert!(
            top.contains("corun\\-doctor(1)") && top.contains(".SH \"EXIT STATUS\"\n0 done"),
            "{top}"
        );
        assert!(!top.contains("stand\\-in"), "hidden commands have no page");
    }

    #[test]
    fn a_command_is_found_by_the_name_of_its_page() {
        let mut top = definitions();
        top.build();
        let found = |page| find(&top, page).map(name);
        assert_eq!(found("corun-explain"), Some("corun-explain"));
        assert_eq!(found("corun-profiles-show"), Some("corun-profiles-show"));
        assert_eq!(found("corun-share/man/man1"), None);
        assert_eq!(found("corun-stand-in"), None);
    }

    #[test]
    fn paragraphs_become_sections() {
        let mut roff = Roff::new();
        sections("One.\n\nTwo\nlines.\n\nExample:\n  a\n    b", &mut roff);
        let text = roff.render();
        let text = text.split_once(".SH").map_or("", |(_, rest)| rest);
        assert_eq!(text, " NOTES\nOne.\n.PP\nTwo\nlines.\n.SH EXAMPLES\n.nf\na\n  b\n.fi\n");
    }
}
