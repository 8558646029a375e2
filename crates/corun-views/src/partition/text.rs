//! The document as a table and as CSV.

use std::ops::Deref;

use corun_app::{PartitionDocument, PartitionEntry, PartitionFigures};

use corun_app::Result;
use corun_report::{Columns, or_empty, size};

/// For people: who has which ways and what that does, or policies side by side.
pub fn table(document: &PartitionDocument) -> String {
    View(document).table()
}

/// A row a policy and program.
///
/// # Errors
/// None that a partition has.
pub fn csv(document: &PartitionDocument) -> Result<String> {
    View(document).csv()
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

    fn csv(&self) -> Result<String> {
        let of_entry = |entry| {
            let entry: &PartitionEntry = entry;
            entry.programs.iter().enumerate().map(move |(at, one)| (entry, at, one))
        };
        let rows: Vec<(&PartitionEntry, usize, &PartitionFigures)> =
            self.partitions().flat_map(of_entry).collect();
        Columns::of(&rows)
            .left("policy", |(entry, ..)| entry.policy.clone())
            .left("app", |(_, at, _)| self.apps[*at].clone())
            .left("class", |(_, at, _)| self.class[*at])
            .left("ways", |(entry, at, _)| entry.ways[*at])
            .left("cluster", |(entry, at, _)| entry.cluster[*at])
            .left("mask", |(entry, at, _)| entry.mask[*at].clone())
            .left("cap_mb_per_s", |(entry, at, _)| or_empty(entry.cap_mb_per_s[*at]))
            .left("slowdown", |(entry, at, _)| entry.slowdown[*at])
            .left("ipc", |(.., one)| one.ipc)
            .left("llc_mpki", |(.., one)| one.llc_mpki)
            .left("bandwidth_mb_per_s", |(.., one)| one.bandwidth_mb_per_s)
            .left("llc_occupancy_bytes", |(.., one)| one.llc_occupancy_bytes)
            .left("extrapolated", |(.., one)| one.extrapolated)
            .csv()
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
        let slowdown = |(at, one): &(usize, &PartitionFigures)| {
            format!("{:.3}{}", entry.slowdown[*at], if one.extrapolated { "*" } else { " " })
        };
        let programs: Vec<(usize, &PartitionFigures)> = entry.programs.iter().enumerate().collect();
        let columns = Columns::of(&programs)
            .left("program", |(at, _)| self.apps[*at].clone())
            .left("class", |(at, _)| self.class[*at])
            .right("cluster", |(at, _)| entry.cluster[*at])
            .right("ways", |(at, _)| entry.ways[*at])
            .right("mask", |(at, _)| entry.mask[*at].clone())
            .right("slowdown", slowdown)
            .right("IPC", |(_, one)| format!("{:.3}", one.ipc))
            .right("MPKI", |(_, one)| format!("{:.2}", one.llc_mpki))
            .right("MB/s", |(_, one)| format!("{:.0}", one.bandwidth_mb_per_s))
            .right("LLC held", |(_, one)| size(one.llc_occupancy_bytes as f64));
        let mut text = format!(
            "{} on {}, {} ways of {}\n\n",
            entry.policy,
            self.machine,
            self.llc_ways,
            size(self.way_bytes as f64)
        );
        text.push_str(&columns.table());
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
        let columns = Columns::of(&front.points)
            .right("STP", |point| format!("{:.3}", point.stp))
            .right("unfairness", |point| format!("{:.3}", point.unfairness))
            .right("worst", |point| figure(point.max_slowdown))
            .left("ways", |point| clusters(&self.apps, &point.cluster, &point.ways));
        let kind = if front.clusters { "partitions with clusters" } else { "strict partitions" };
        let end = if front.proven { "" } else { "; the search was stopped before the fair end" };
        format!(
            "\nNone of all {kind} is both fairer and of higher STP than one of these{end}:\n\n{}\n",
            columns.table()
        )
    }

    fn all(&self) -> String {
        let ways = |entry: &PartitionEntry| {
            let clusters = || clusters(&self.apps, &entry.cluster, &entry.ways);
            entry.error.clone().unwrap_or_else(clusters)
        };
        let from_optimal = |entry: &PartitionEntry| {
            entry.from_optimal_percent.map_or("-".to_owned(), |one| format!("{one:.2} %"))
        };
        let bandwidth = |entry: &PartitionEntry| {
            entry.bandwidth_mb_per_s.map_or("-".to_owned(), |one| format!("{one:.0}"))
        };
        let columns = Columns::of(&self.policies)
            .left("policy", |entry| entry.policy.clone())
            .right("from optimal", from_optimal)
            .right("STP", |entry| figure(entry.stp))
            .right("unfairness", |entry| figure(entry.unfairness))
            .right("mean", |entry| figure(entry.antt))
            .right("worst", |entry| figure(entry.max_slowdown))
            .right("Jain", |entry| figure(entry.jain))
            .right("MB/s", bandwidth)
            .left("ways", ways);
        let mut text = format!(
            "{} on {}, {} ways of {}, by {}\n\n",
            self.apps.join(", "),
            self.machine,
            self.llc_ways,
            size(self.way_bytes as f64),
            self.objective
        );
        text.push_str(&columns.table());
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
