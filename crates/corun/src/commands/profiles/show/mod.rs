//! `corun profiles show`.

use std::path::Path;

use corun_profile::{Profile, ProfileDocument};

use super::{chart, count};
use crate::cli::{DocumentFormat, ShowArgs};
use crate::failure::Outcome;
use crate::output::{counted, json};
use crate::report::size;
use crate::scenario::library;

pub(super) fn run(arguments: &ShowArgs) -> Outcome<String> {
    let profile = find(arguments)?;
    let document = ProfileDocument::new(&profile, None);
    match arguments.format {
        DocumentFormat::Json => json(&document),
        DocumentFormat::Text => Ok(text(&document)),
    }
}

/// A name of the library first; else a file, which a name with a slash or `.toml` must be.
fn find(arguments: &ShowArgs) -> Outcome<Profile> {
    let path = Path::new(&arguments.program);
    let is_file = arguments.program.contains('/') || arguments.program.ends_with(".toml");
    if is_file || (arguments.profiles.is_none() && path.is_file()) {
        return Ok(Profile::load(path)?);
    }
    Ok(library(arguments.profiles.as_deref())?.get(&arguments.program)?.clone())
}

fn text(document: &ProfileDocument) -> String {
    let mut lines = vec![document.name.clone()];
    let mut fact = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {label:<14}{value}"));
        }
    };
    if let Some(origin) = &document.origin {
        fact("program", origin.program.clone());
        fact("input", origin.input.clone());
        fact("command", origin.command.join(" "));
        let whole = if origin.complete { "to its end" } else { "stopped before its end" };
        fact("recorded", format!("{} by {}, {whole}", origin.date, origin.tracer));
    }
    if let Some(on) = &document.measured_on {
        fact("measured on", format!("{}, {:.0} MHz", on.machine, on.clock_mhz));
    }
    fact(
        "instructions",
        format!("{} in {}", count(document.instructions), counted(document.phases, "phase")),
    );
    if let Some(bytes) = document.footprint_bytes {
        fact("footprint", size(bytes as f64));
    }
    let marked = if document.llc_apki_extrapolated { ", extrapolated" } else { "" };
    let behind = size(document.private_cache_bytes as f64);
    fact("LLC accesses", format!("{:.2} APKI behind {behind}{marked}", document.llc_apki));
    lines.push(String::new());
    lines.push("  MPKI against cache size".to_owned());
    let points: Vec<(f64, f64)> =
        document.curve.iter().map(|point| (point.bytes as f64, point.mpki)).collect();
    lines.extend(chart::draw(&points).into_iter().map(|line| format!("  {line}")));
    let mut text: String = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}
