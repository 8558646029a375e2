//! A placement as JSON, CSV and a table: what `place` and `predict` print.

use std::ops::Deref;

use corun_app::PlacementDocument;

use crate::cli::TableFormat;
use crate::failure::Outcome;
use corun_report::size;
use corun_report::{Align, csv_rows, json, table};

/// The text for stdout.
pub(super) fn write(placement: &PlacementDocument, format: TableFormat) -> Outcome<String> {
    match format {
        TableFormat::Json => json(placement),
        TableFormat::Csv => {
            let (header, rows) = csv_of(placement);
            csv_rows(&header, &rows)
        }
        TableFormat::Table => Ok(View(placement).table()),
    }
}

/// Names and rows of a placement's CSV.
pub(super) fn csv_of(placement: &PlacementDocument) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut header = vec![
        "app",
        "cpu",
        "llc",
        "slowdown",
        "ipc",
        "llc_apki",
        "llc_mpki",
        "bandwidth_mb_per_s",
        "llc_occupancy_bytes",
        "memory_stall_share",
        "extrapolated",
    ];
    let mut rows: Vec<Vec<String>> = placement
        .programs
        .iter()
        .enumerate()
        .map(|(place, one)| {
            vec![
                placement.apps[place].clone(),
                placement.cpu[place].to_string(),
                placement.llc[place].to_string(),
                placement.slowdown[place].to_string(),
                one.ipc.to_string(),
                one.llc_apki.to_string(),
                one.llc_mpki.to_string(),
                one.bandwidth_mb_per_s.to_string(),
                one.llc_occupancy_bytes.to_string(),
                one.memory_stall_share.to_string(),
                one.extrapolated.to_string(),
            ]
        })
        .collect();
    if let Some(masks) = &placement.mask {
        insert(&mut header, "mask", &mut rows, masks);
    }
    (header, rows)
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
        let mut header = vec![
            ("program", Align::Left),
            ("CPU", Align::Right),
            ("LLC", Align::Right),
            ("slowdown", Align::Right),
            ("IPC", Align::Right),
            ("MPKI", Align::Right),
            ("MB/s", Align::Right),
            ("LLC held", Align::Right),
        ];
        let mut rows: Vec<Vec<String>> = self
            .programs
            .iter()
            .enumerate()
            .map(|(place, one)| {
                vec![
                    self.apps[place].clone(),
                    self.cpu[place].to_string(),
                    self.llc[place].to_string(),
                    format!(
                        "{:.3}{}",
                        self.slowdown[place],
                        if one.extrapolated { "*" } else { " " }
                    ),
                    format!("{:.3}", one.ipc),
                    format!("{:.2}", one.llc_mpki),
                    format!("{:.0}", one.bandwidth_mb_per_s),
                    size(one.llc_occupancy_bytes as f64),
                ]
            })
            .collect();
        if let Some(masks) = &self.mask {
            insert(&mut header, ("ways", Align::Right), &mut rows, masks);
        }
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |one| format!("{one:.3}"));
        let mut text = match &self.policy {
            Some(policy) => format!("{policy} on {}\n\n", self.machine),
            None => format!("On {}\n\n", self.machine),
        };
        text.push_str(&table(&header, &rows));
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
pub(super) fn data_lines(placement: &PlacementDocument) -> String {
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

/// Puts a column after the program, its CPU and its LLC.
fn insert<T>(header: &mut Vec<T>, name: T, rows: &mut [Vec<String>], cells: &[String]) {
    const PLACE: usize = 3;
    header.insert(PLACE, name);
    for (row, cell) in rows.iter_mut().zip(cells) {
        row.insert(PLACE, cell.clone());
    }
}
