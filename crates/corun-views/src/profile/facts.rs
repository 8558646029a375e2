//! What the program is and where its profile comes from.

use corun_profile::{Profile, ProfileDocument};

use super::fact;
use corun_report::engineering;
use corun_report::{counted, size};

pub(crate) fn section(profile: &Profile, document: &ProfileDocument) -> Vec<String> {
    let mut lines = vec![profile.name.clone()];
    if let Some(origin) = &document.origin {
        for (label, text) in [
            ("program", origin.program.clone()),
            ("input", origin.input.clone()),
            ("command", origin.command.join(" ")),
        ] {
            if !text.is_empty() {
                lines.push(fact(label, text));
            }
        }
        let whole = if origin.complete { "to its end" } else { "stopped before its end" };
        lines.push(fact("recorded", format!("{} by {}, {whole}", origin.date, origin.tracer)));
    }
    if let Some(on) = &document.measured_on {
        lines.push(fact("measured on", format!("{}, {:.0} MHz", on.machine, on.clock_mhz)));
    }
    let phases = counted(document.phases, "phase");
    lines.push(fact("instructions", format!("{} in {phases}", engineering(document.instructions))));
    if let Some(bytes) = document.footprint_bytes {
        lines.push(fact("footprint", size(bytes as f64)));
    }
    let marked = if document.llc_apki_extrapolated { ", extrapolated" } else { "" };
    let behind = size(document.private_cache_bytes as f64);
    lines.push(fact(
        "LLC accesses",
        format!("{:.2} APKI behind {behind}{marked}", document.llc_apki),
    ));
    lines
}
