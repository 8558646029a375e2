//! The document as a table and as CSV.

use std::ops::Deref;

use corun_app::{ParetoEntry, PartitionDocument, PartitionEntry, PartitionFigures};

use crate::cli::TableFormat;
use crate::failure::Outcome;
use corun_report::size;
use corun_report::{Align, csv_rows, json, table};

/// The text for stdout.
pub(super) fn write(document: &PartitionDocument, format: TableFormat) -> Outcome<String> {
    match format {
        TableFormat::Json => json(document),
        TableFormat::Csv => View(document).csv(),
        TableFormat::Table => Ok(View(document).table()),
    }
}

struct View<'a>(&'a PartitionDocument);

impl Deref for View<'_> {
    type Target = PartitionDocument;

    fn deref(&self) -> &PartitionDocument {
        self.0
    }
}

impl View<'_> {
    /// The entries that have a partition.
    fn partitions(&self) -> impl Iterator<Item = &PartitionEntry> {
        let own = std::iter::once(&self.chosen).filter(|_| self.policies.is_empty());
        own.chain(&self.policies).filter(|entry| entry.error.is_none())
    }

    fn csv(&self) -> Outcome<String> {
        let header = [
            "policy",
            "app",
            "class",
            "ways",
            "cluster",
            "mask",
            "cap_mb_per_s",
            "slowdown",
            "ipc",
            "llc_mpki",
            "bandwidth_mb_per_s",
            "llc_occupancy_bytes",
            "extrapolated",
        ];
        let mut rows = Vec::new();
        for entry in self.partitions() {
            for (place, one) in entry.programs.iter().enumerate() {
                rows.push(vec![
                    entry.policy.clone(),
                    self.apps[place].clone(),
                    self.class[place].to_owned(),
                    entry.ways[place].to_string(),
                    entry.cluster[place].to_string(),
                    entry.mask[place].clone(),
                    entry.cap_mb_per_s[place].map(|cap| cap.to_string()).unwrap_or_default(),
                    entry.slowdown[place].to_string(),
                    one.ipc.to_string(),
                    one.llc_mpki.to_string(),
                    one.bandwidth_mb_per_s.to_string(),
                    one.llc_occupancy_bytes.to_string(),
                    one.extrapolated.to_string(),
                ]);
            }
        }
        csv_rows(&header, &rows)
    }

    fn table(&self) -> String {
        let mut text = String::new();
        if self.policies.is_empty() {
            text.push_str(&self.one(&self.chosen));
        } else {
            text.push_str(&self.all());
        }
        text.push_str(&self.front());
        text.push_str(&format!("profiles: {}\n", self.data.profiles));
        text.push_str(&format!(
            "model: space {}, bandwidth {}\n",
            self.data.space, self.data.bandwidth_model
        ));
        if let Some(words) = self.data.prediction_error_words() {
            text.push_str(&format!("measured here: {words}\n"));
        }
        let extrapolated =
            |entry: &PartitionEntry| entry.programs.iter().any(|one| one.extrapolated);
        if self.partitions().any(extrapolated) {
            text.push_str("* extrapolated: outside the measured range\n");
        }
        text
    }

    fn one(&self, entry: &PartitionEntry) -> String {
        let header = [
            ("program", Align::Left),
            ("class", Align::Left),
            ("cluster", Align::Right),
            ("ways", Align::Right),
            ("mask", Align::Right),
            ("slowdown", Align::Right),
            ("IPC", Align::Right),
            ("MPKI", Align::Right),
            ("MB/s", Align::Right),
            ("LLC held", Align::Right),
        ];
        let row = |(place, one): (usize, &PartitionFigures)| {
            let mark = if one.extrapolated { "*" } else { " " };
            vec![
                self.apps[place].clone(),
                self.class[place].to_owned(),
                entry.cluster[place].to_string(),
                entry.ways[place].to_string(),
                entry.mask[place].clone(),
                format!("{:.3}{mark}", entry.slowdown[place]),
                format!("{:.3}", one.ipc),
                format!("{:.2}", one.llc_mpki),
                format!("{:.0}", one.bandwidth_mb_per_s),
                size(one.llc_occupancy_bytes as f64),
            ]
        };
        let rows: Vec<Vec<String>> = entry.programs.iter().enumerate().map(row).collect();
        let mut text = format!(
            "{} on {}, {} ways of {}\n\n",
            entry.policy,
            self.machine,
            self.llc_ways,
            size(self.way_bytes as f64)
        );
        text.push_str(&table(&header, &rows));
        text.push_str(&format!(
            "\nmean slowdown {}, STP {}, unfairness {}\n",
            figure(entry.antt),
            figure(entry.stp),
            figure(entry.unfairness)
        ));
        text.push_str(&self.beside_target(entry));
        for (place, cap) in entry.cap_mb_per_s.iter().enumerate() {
            if let Some(cap) = cap {
                text.push_str(&format!(
                    "{}: its group draws {cap:.0} MB/s at most\n",
                    self.apps[place]
                ));
            }
        }
        match (entry.proven, entry.gap) {
            (Some(true), _) => text.push_str("proven: no partition is beyond it\n"),
            (Some(false), Some(gap)) => {
                text.push_str(&format!("not proven: at most {:.2} % from the bound\n", gap * 100.0))
            }
            (Some(false), None) => text.push_str("not proven: the best found\n"),
            (None, _) => {}
        }
        text
    }

    /// Who is slower than the target.
    fn beside_target(&self, entry: &PartitionEntry) -> String {
        let (Some(target), Some(slower)) = (self.target_slowdown, &entry.slower_than_target) else {
            return String::new();
        };
        if slower.is_empty() {
            return format!("nobody is slower than {target}\n");
        }
        format!("slower than {target}: {}\n", slower.join(", "))
    }

    /// The front of unfairness against throughput.
    fn front(&self) -> String {
        let Some(front) = &self.pareto else { return String::new() };
        let header = [
            ("STP", Align::Right),
            ("unfairness", Align::Right),
            ("worst", Align::Right),
            ("ways", Align::Left),
        ];
        let row = |point: &ParetoEntry| {
            vec![
                format!("{:.3}", point.stp),
                format!("{:.3}", point.unfairness),
                figure(point.max_slowdown),
                clusters(&self.apps, &point.cluster, &point.ways),
            ]
        };
        let rows: Vec<Vec<String>> = front.points.iter().map(row).collect();
        let kind = if front.clusters { "partitions with clusters" } else { "strict partitions" };
        let end = if front.proven { "" } else { "; the search was stopped before the fair end" };
        format!(
            "\nNone of all {kind} is both fairer and of higher STP than one of these{end}:\n\n{}\n",
            table(&header, &rows)
        )
    }

    fn all(&self) -> String {
        let header = [
            ("policy", Align::Left),
            ("from optimal", Align::Right),
            ("STP", Align::Right),
            ("unfairness", Align::Right),
            ("mean", Align::Right),
            ("worst", Align::Right),
            ("Jain", Align::Right),
            ("MB/s", Align::Right),
            ("ways", Align::Left),
        ];
        let row = |entry: &PartitionEntry| {
            let bandwidth = entry.bandwidth_mb_per_s.map(|one| format!("{one:.0}"));
            vec![
                entry.policy.clone(),
                entry.from_optimal_percent.map_or("-".to_owned(), |one| format!("{one:.2} %")),
                figure(entry.stp),
                figure(entry.unfairness),
                figure(entry.antt),
                figure(entry.max_slowdown),
                figure(entry.jain),
                bandwidth.unwrap_or("-".to_owned()),
                entry
                    .error
                    .clone()
                    .unwrap_or_else(|| clusters(&self.apps, &entry.cluster, &entry.ways)),
            ]
        };
        let rows: Vec<Vec<String>> = self.policies.iter().map(row).collect();
        let mut text = format!(
            "{} on {}, {} ways of {}, by {}\n\n",
            self.apps.join(", "),
            self.machine,
            self.llc_ways,
            size(self.way_bytes as f64),
            self.objective
        );
        text.push_str(&table(&header, &rows));
        text.push('\n');
        for entry in self.partitions() {
            if entry.slower_than_target.is_some() {
                text.push_str(&format!("{}: {}", entry.policy, self.beside_target(entry)));
            }
        }
        for entry in self.policies.iter().filter(|entry| entry.proven == Some(false)) {
            let gap =
                entry.gap.map_or("no bound".to_owned(), |gap| format!("{:.2} %", gap * 100.0));
            text.push_str(&format!("{} is not proven: gap {gap}\n", entry.policy));
        }
        text
    }
}

fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |one| format!("{one:.3}"))
}

/// `1 lbm+milc, 6 soplex, 4 gcc`: each cluster's ways and programs.
fn clusters(apps: &[String], cluster: &[usize], ways: &[u32]) -> String {
    let count = cluster.iter().max().map_or(0, |last| last + 1);
    let of = |number: usize| {
        let members = || (0..apps.len()).filter(|&one| cluster[one] == number);
        let ways = members().next().map_or(0, |one| ways[one]);
        let names: Vec<&str> = members().map(|one| apps[one].as_str()).collect();
        format!("{ways} {}", names.join("+"))
    };
    (0..count).map(of).collect::<Vec<_>>().join(", ")
}
