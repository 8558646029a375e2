//! A placement as a table and as CSV: what `place` and `predict` print.

use std::ops::Deref;

use corun_app::{PlacementDocument, PlacementFigures};

use corun_app::Result;
use corun_report::{Columns, or_empty, size};

/// For people: where each program is, and how it does there.
pub fn table(placement: &PlacementDocument) -> String {
    View(placement).table()
}

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

struct View<'a>(&'a PlacementDocument);

impl Deref for View<'_> {
    type Target = PlacementDocument;

    fn deref(&self) -> &PlacementDocument {
        self.0
    }
}

impl View<'_> {
    fn table(&self) -> String {
        let programs: Vec<(usize, &PlacementFigures)> = self.programs.iter().enumerate().collect();
        let slowdown = |(at, one): &(usize, &PlacementFigures)| {
            format!("{:.3}{}", self.slowdown[*at], if one.extrapolated { "*" } else { " " })
        };
        let mut columns = Columns::of(&programs)
            .left("program", |(at, _)| self.apps[*at].clone())
            .right("CPU", |(at, _)| self.cpu[*at])
            .right("LLC", |(at, _)| self.llc[*at]);
        if let Some(masks) = &self.mask {
            columns = columns.right("ways", |(at, _)| masks[*at].clone());
        }
        let columns = columns
            .right("slowdown", slowdown)
            .right("IPC", |(_, one)| format!("{:.3}", one.ipc))
            .right("MPKI", |(_, one)| format!("{:.2}", one.llc_mpki))
            .right("MB/s", |(_, one)| format!("{:.0}", one.bandwidth_mb_per_s))
            .right("LLC held", |(_, one)| size(one.llc_occupancy_bytes as f64));
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |one| format!("{one:.3}"));
        let mut text = match &self.policy {
            Some(policy) => format!("{policy} on {}\n\n", self.machine),
            None => format!("On {}\n\n", self.machine),
        };
        text.push_str(&columns.table());
        text.push_str(&format!(
            "\nmean slowdown {}, STP {}, unfairness {}\n",
            figure(self.antt),
            figure(self.stp),
            figure(self.unfairness)
        ));
        match (self.proven, self.gap) {
            (Some(true), _) => text.push_str("proven: no placement is beyond it\n"),
            (Some(false), Some(gap)) => {
                text.push_str(&format!("not proven: at most {:.2} % from the bound\n", gap * 100.0))
            }
            (Some(false), None) => text.push_str("not proven: the best found\n"),
            (None, _) => {}
        }
        text.push_str(&data_lines(self));
        text
    }
}

/// On what the figures stand, a line each.
pub fn data_lines(placement: &PlacementDocument) -> String {
    let mut text = String::new();
    text.push_str(&format!("profiles: {}\n", placement.data.model.profiles));
    text.push_str(&format!(
        "model: space {}, bandwidth {}\n",
        placement.data.model.space, placement.data.model.bandwidth_model
    ));
    if let Some(words) = placement.data.model.prediction_error_words() {
        text.push_str(&format!("measured here: {words}\n"));
    }
    if !placement.data.extrapolated.is_empty() {
        text.push_str("* extrapolated: outside the measured range\n");
    }
    text
}
