//! How the program does alone on the machine, and the class that this makes.

use super::class::Classified;
use super::fact;
use corun_report::size;

pub(crate) fn section(on: &Classified) -> Vec<String> {
    let marked = if on.extrapolated { ", extrapolated" } else { "" };
    let one_way = size(on.way_bytes);
    vec![
        format!("  alone on {}{marked}", on.machine),
        fact("class", on.class.name()),
        fact("LLC misses", format!("{:.2} MPKI, {:.2} MPKC", on.llc_mpki, on.llc_mpkc)),
        fact(
            "slowdown",
            format!("{:.3} with 1 of the LLC's {} ways ({one_way})", on.one_way_slowdown, on.ways),
        ),
    ]
}
