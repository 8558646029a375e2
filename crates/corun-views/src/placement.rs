//! A placement as a table and as CSV: what `place` and `predict` print.

use corun_app::{PlacementDocument, PlacementFigures, Result};
use corun_report::{Columns, or_empty, size};

use crate::basis::{beyond_target, drawn, proof, sources, together};

/// Placements as CSV, a row a program; their names stand in a first column where that has a head.
///
/// # Errors
/// None that a placement has.
pub fn csv<'a>(
    name_head: Option<&str>,
    placements: &[(&'static str, &'a PlacementDocument)],
) -> Result<String> {
    let programs = |&(name, of): &(&'static str, &'a PlacementDocument)| {
        (0..of.programs.len()).map(move |at| (name, of, at))
    };
    let rows: Vec<(&str, &PlacementDocument, usize)> =
        placements.iter().flat_map(programs).collect();
    let mut columns = Columns::of(&rows);
    if let Some(head) = name_head {
        columns = columns.left(head, |(name, ..)| *name);
    }
    columns = columns
        .left("app", |(_, of, at)| of.apps[*at].clone())
        .left("cpu", |(_, of, at)| of.cpu[*at])
        .left("llc", |(_, of, at)| of.llc[*at]);
    if placements.iter().any(|(_, of)| of.mask.is_some()) {
        columns = columns
            .left("mask", |(_, of, at)| or_empty(of.mask.as_ref().map(|masks| masks[*at].clone())));
    }
    columns
        .left("slowdown", |(_, of, at)| of.slowdown[*at])
        .left("ipc", |(_, of, at)| of.programs[*at].ipc)
        .left("llc_apki", |(_, of, at)| of.programs[*at].llc_apki)
        .left("llc_mpki", |(_, of, at)| of.programs[*at].llc_mpki)
        .left("bandwidth_mb_per_s", |(_, of, at)| of.programs[*at].bandwidth_mb_per_s)
        .left("llc_occupancy_bytes", |(_, of, at)| of.programs[*at].llc_occupancy_bytes)
        .left("memory_stall_share", |(_, of, at)| of.programs[*at].memory_stall_share)
        .left("extrapolated", |(_, of, at)| of.programs[*at].extrapolated)
        .csv()
}

/// For people: where each program is, and how it does there.
pub fn table(placement: &PlacementDocument) -> String {
    let programs: Vec<(usize, &PlacementFigures)> = placement.programs.iter().enumerate().collect();
    let slowdown = |(at, one): &(usize, &PlacementFigures)| {
        format!("{:.3}{}", placement.slowdown[*at], mark(one))
    };
    let mut columns = Columns::of(&programs)
        .left("program", |(at, _)| placement.apps[*at].clone())
        .right("CPU", |(at, _)| placement.cpu[*at])
        .right("LLC", |(at, _)| placement.llc[*at]);
    if let Some(masks) = &placement.mask {
        columns = columns.right("ways", |(at, _)| masks[*at].clone());
    }
    let columns = columns
        .right("slowdown", slowdown)
        .right("IPC", |(_, one)| format!("{:.3}", one.ipc))
        .right("MPKI", |(_, one)| format!("{:.2}", one.llc_mpki))
        .right("MB/s", |(_, one)| format!("{:.0}", one.bandwidth_mb_per_s))
        .right("LLC held", |(_, one)| size(one.llc_occupancy_bytes as f64));
    let mut text = match &placement.policy {
        Some(policy) => format!("{policy} on {}\n\n", placement.machine),
        None => format!("On {}\n\n", placement.machine),
    };
    text.push_str(&columns.table());
    text.push('\n');
    text.push_str(&together(placement.antt, placement.stp, placement.unfairness));
    if let Some(watts) = placement.power_above_idle_w {
        text.push_str(&drawn(
            watts,
            placement.energy_per_work_j,
            placement.energy_delay_per_work_j,
        ));
    }
    text.push_str(&beside_target(placement));
    text.push_str(&data_lines(placement));
    text.push_str(legend(&[placement]));
    text
}

/// What marks a figure outside the measured range, in the tables of placements.
pub fn mark(figures: &PlacementFigures) -> &'static str {
    if figures.extrapolated { "*" } else { " " }
}

/// What [`mark`] means; empty where no program of these placements has one.
pub fn legend(placements: &[&PlacementDocument]) -> &'static str {
    let is_marked =
        placements.iter().any(|of| of.programs.iter().any(|program| program.extrapolated));
    if is_marked { "* extrapolated: outside the measured range\n" } else { "" }
}

/// Who is slower than a target where there is one, and what is proven.
fn beside_target(placement: &PlacementDocument) -> String {
    let policy = placement.policy.as_deref();
    let (Some(target), Some(slower)) = (placement.target_slowdown, &placement.slower_than_target)
    else {
        return proof("placement", policy, placement.proven, placement.gap);
    };
    let who = beyond_target(target, slower);
    match placement.proven {
        Some(_) if slower.is_empty() => {
            who + &proof("placement within the target", policy, placement.proven, placement.gap)
        }
        Some(true) => format!(
            "{who}proven: no placement keeps everybody to {target}; this one's slowest is the least slow\n"
        ),
        Some(false) => {
            format!("{who}not proven: no placement was found that keeps everybody to {target}\n")
        }
        None => who,
    }
}

/// On what the figures stand, a line each.
pub fn data_lines(placement: &PlacementDocument) -> String {
    sources(&placement.data.model).map(|line| line + "\n").collect()
}
