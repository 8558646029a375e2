//! The document as a table and as CSV.

use corun_app::{ParetoEntry, PartitionDocument, PartitionEntry, PartitionFigures, Result};
use corun_report::{Columns, counted, or_dash, or_empty, size};

use crate::basis::{beyond_target, proof, sources, together};

/// The entries that have a partition.
fn partitions(document: &PartitionDocument) -> impl Iterator<Item = &PartitionEntry> {
    let own = std::iter::once(&document.chosen).filter(|_| document.policies.is_empty());
    own.chain(&document.policies).filter(|entry| entry.error.is_none())
}

/// A program in a partition.
struct Row<'a> {
    partition: String,
    place: usize,
    ways: &'a [u32],
    cluster: &'a [usize],
    mask: &'a [String],
    slowdown: &'a [f64],
    /// None of a partition of the front.
    chosen: Option<(&'a PartitionEntry, &'a PartitionFigures)>,
}

/// A row a policy and program, then a row for each partition of the front, by number, and program.
///
/// # Errors
/// None that a partition has.
pub fn csv(document: &PartitionDocument) -> Result<String> {
    let of_entry = |entry| {
        let entry: &PartitionEntry = entry;
        entry.programs.iter().enumerate().map(move |(place, one)| Row {
            partition: entry.policy.clone(),
            place,
            ways: &entry.ways,
            cluster: &entry.cluster,
            mask: &entry.mask,
            slowdown: &entry.slowdown,
            chosen: Some((entry, one)),
        })
    };
    let points = document.pareto.iter().flat_map(|front| front.points.iter().enumerate());
    let of_point = |(number, point)| {
        let (number, point): (usize, &ParetoEntry) = (number, point);
        (0..document.apps.len()).map(move |place| Row {
            partition: format!("pareto {}", number + 1),
            place,
            ways: &point.ways,
            cluster: &point.cluster,
            mask: &point.mask,
            slowdown: &point.slowdown,
            chosen: None,
        })
    };
    let rows: Vec<Row<'_>> =
        partitions(document).flat_map(of_entry).chain(points.flat_map(of_point)).collect();
    let cap = |row: &Row<'_>| row.chosen.and_then(|(entry, _)| entry.cap_mb_per_s[row.place]);
    Columns::of(&rows)
        .left("policy", |row| row.partition.clone())
        .left("app", |row| document.apps[row.place].clone())
        .left("class", |row| document.class[row.place])
        .left("ways", |row| row.ways[row.place])
        .left("cluster", |row| row.cluster[row.place])
        .left("mask", |row| row.mask[row.place].clone())
        .left("cap_mb_per_s", |row| or_empty(cap(row)))
        .left("slowdown", |row| row.slowdown[row.place])
        .left("ipc", |row| or_empty(row.chosen.map(|(_, one)| one.ipc)))
        .left("llc_mpki", |row| or_empty(row.chosen.map(|(_, one)| one.llc_mpki)))
        .left("bandwidth_mb_per_s", |row| {
            or_empty(row.chosen.map(|(_, one)| one.bandwidth_mb_per_s))
        })
        .left("llc_occupancy_bytes", |row| {
            or_empty(row.chosen.map(|(_, one)| one.llc_occupancy_bytes))
        })
        .left("extrapolated", |row| or_empty(row.chosen.map(|(_, one)| one.extrapolated)))
        .csv()
}

/// For people: who has which ways and what that does, or policies side by side.
pub fn table(document: &PartitionDocument) -> String {
    let mut text = String::new();
    if document.policies.is_empty() {
        text.push_str(&one(document, &document.chosen));
    } else {
        text.push_str(&all(document));
    }
    text.push_str(&front(document));
    text.extend(sources(&document.data).map(|line| line + "\n"));
    let extrapolated = |entry: &PartitionEntry| entry.programs.iter().any(|one| one.extrapolated);
    if partitions(document).any(extrapolated) {
        text.push_str("* extrapolated: outside the measured range\n");
    }
    text
}

fn one(document: &PartitionDocument, entry: &PartitionEntry) -> String {
    let slowdown = |(at, one): &(usize, &PartitionFigures)| {
        format!("{:.3}{}", entry.slowdown[*at], if one.extrapolated { "*" } else { " " })
    };
    let programs: Vec<(usize, &PartitionFigures)> = entry.programs.iter().enumerate().collect();
    let columns = Columns::of(&programs)
        .left("program", |(at, _)| document.apps[*at].clone())
        .left("class", |(at, _)| document.class[*at])
        .right("cluster", |(at, _)| entry.cluster[*at])
        .right("ways", |(at, _)| entry.ways[*at])
        .right("mask", |(at, _)| entry.mask[*at].clone())
        .right("slowdown", slowdown)
        .right("IPC", |(_, one)| format!("{:.3}", one.ipc))
        .right("MPKI", |(_, one)| format!("{:.2}", one.llc_mpki))
        .right("MB/s", |(_, one)| format!("{:.0}", one.bandwidth_mb_per_s))
        .right("LLC held", |(_, one)| size(one.llc_occupancy_bytes as f64));
    let mut text = format!(
        "{} on {}, {} of {}\n\n",
        entry.policy,
        document.machine,
        counted(document.llc_ways as usize, "way"),
        size(document.way_bytes as f64)
    );
    text.push_str(&columns.table());
    text.push('\n');
    text.push_str(&together(entry.antt, entry.stp, entry.unfairness));
    text.push_str(&beside_target(document, entry));
    for (place, cap) in entry.cap_mb_per_s.iter().enumerate() {
        if let Some(cap) = cap {
            text.push_str(&format!(
                "{}: its group draws {cap:.0} MB/s at most\n",
                document.apps[place]
            ));
        }
    }
    text.push_str(&proven(entry));
    text
}

/// What a search has proven, of the partitions that it looks at: others leave ways free or overlap, and without `--cluster`
/// programs share none.
fn proven(entry: &PartitionEntry) -> String {
    let (goal, searched) = match entry.policy.strip_suffix("-cluster") {
        Some(goal) => (goal, "partition with clusters that uses all ways"),
        None => (entry.policy.as_str(), "strict partition that uses all ways"),
    };
    proof(searched, Some(goal), entry.proven, entry.gap)
}

/// Who is slower than the target.
fn beside_target(document: &PartitionDocument, entry: &PartitionEntry) -> String {
    let (Some(target), Some(slower)) = (document.target_slowdown, &entry.slower_than_target) else {
        return String::new();
    };
    beyond_target(target, slower)
}

/// The front of unfairness against throughput.
fn front(document: &PartitionDocument) -> String {
    let Some(front) = &document.pareto else { return String::new() };
    let columns = Columns::of(&front.points)
        .right("STP", |point| format!("{:.3}", point.stp))
        .right("unfairness", |point| format!("{:.3}", point.unfairness))
        .right("worst", |point| or_dash(point.max_slowdown, 3))
        .left("ways", |point| clusters(&document.apps, &point.cluster, &point.ways));
    let kind = if front.clusters { "partitions with clusters" } else { "strict partitions" };
    let end = if front.proven { "" } else { "; the search was stopped before the fair end" };
    format!(
        "\nNone of all {kind} is both fairer and of higher STP than one of these{end}:\n\n{}\n",
        columns.table()
    )
}

fn all(document: &PartitionDocument) -> String {
    let ways = |entry: &PartitionEntry| {
        let clusters = || clusters(&document.apps, &entry.cluster, &entry.ways);
        entry.error.clone().unwrap_or_else(clusters)
    };
    let from_optimal = |entry: &PartitionEntry| {
        entry.from_optimal_percent.map_or("-".to_owned(), |one| format!("{one:.2} %"))
    };
    let bandwidth = |entry: &PartitionEntry| {
        entry.bandwidth_mb_per_s.map_or("-".to_owned(), |one| format!("{one:.0}"))
    };
    let columns = Columns::of(&document.policies)
        .left("policy", |entry| entry.policy.clone())
        .right("from optimal", from_optimal)
        .right("STP", |entry| or_dash(entry.stp, 3))
        .right("unfairness", |entry| or_dash(entry.unfairness, 3))
        .right("mean", |entry| or_dash(entry.antt, 3))
        .right("worst", |entry| or_dash(entry.max_slowdown, 3))
        .right("Jain", |entry| or_dash(entry.jain, 3))
        .right("MB/s", bandwidth)
        .left("ways", ways);
    let mut text = format!(
        "{} on {}, {} of {}, by {}\n\n",
        document.apps.join(", "),
        document.machine,
        counted(document.llc_ways as usize, "way"),
        size(document.way_bytes as f64),
        document.objective
    );
    text.push_str(&columns.table());
    text.push('\n');
    for entry in partitions(document) {
        if entry.slower_than_target.is_some() {
            text.push_str(&format!("{}: {}", entry.policy, beside_target(document, entry)));
        }
    }
    for entry in document.policies.iter().filter(|entry| entry.proven == Some(false)) {
        let gap = entry.gap.map_or("no bound".to_owned(), |gap| format!("{:.2} %", gap * 100.0));
        text.push_str(&format!("{} is not proven: gap {gap}\n", entry.policy));
    }
    text
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
