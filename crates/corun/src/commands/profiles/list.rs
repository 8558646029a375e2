//! `corun profiles list`.

use corun_app::open_library;
use corun_profile::{Profile, ProfileData};
use serde::Serialize;

use super::class::{Classified, Classifier};
use super::count;
use crate::cli::{ListArgs, SortBy, TableFormat};
use crate::failure::Outcome;
use corun_report::size;
use corun_report::{Align, csv_rows, json, round, table};

/// Cache sizes at which the documents say the miss rate.
const SIZES: [u64; 4] = [256 << 10, 1 << 20, 4 << 20, 16 << 20];

#[derive(Debug, Serialize)]
struct Listing {
    profiles: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    kind: &'static str,
    instructions: u64,
    footprint_bytes: Option<u64>,
    on_machine: Classified,
    mpki: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Point {
    bytes: u64,
    mpki: f64,
    extrapolated: bool,
}

pub(super) fn run(arguments: &ListArgs) -> Outcome<String> {
    let library = open_library(arguments.library.profiles.as_deref())?;
    let classifier = Classifier::on(arguments.machine.as_deref())?;
    let mut profiles: Vec<Line> =
        library.iter().map(|profile| line(profile, &classifier)).collect::<Outcome<_>>()?;
    sort(&mut profiles, arguments.sort);
    match arguments.format {
        TableFormat::Json => json(&Listing { profiles }),
        TableFormat::Csv => as_csv(&profiles),
        TableFormat::Table => Ok(as_table(&profiles)),
    }
}

/// By the name within what is equal.
fn sort(profiles: &mut [Line], by: SortBy) {
    let falling = |figure: fn(&Classified) -> f64| {
        move |one: &Line, other: &Line| {
            figure(&other.on_machine).total_cmp(&figure(&one.on_machine))
        }
    };
    profiles.sort_by(|one, other| one.name.cmp(&other.name));
    match by {
        SortBy::Name => {}
        SortBy::Class => profiles.sort_by_key(|one| one.on_machine.class),
        SortBy::Intensity => profiles.sort_by(falling(|on| on.llc_mpki)),
        SortBy::Sensitivity => profiles.sort_by(falling(|on| on.one_way_slowdown)),
    }
}

fn line(profile: &Profile, classifier: &Classifier) -> Outcome<Line> {
    let point = |&bytes: &u64| {
        let reading = profile.solo_mpki(bytes as f64);
        Point { bytes, mpki: round(reading.value, 4), extrapolated: reading.extrapolated }
    };
    Ok(Line {
        name: profile.name.clone(),
        kind: match profile.data {
            ProfileData::Recording(_) => "recording",
            ProfileData::Table(_) => "table",
        },
        instructions: profile.instructions(),
        footprint_bytes: profile.footprint_bytes(),
        on_machine: classifier.classify(profile)?,
        mpki: SIZES.iter().map(point).collect(),
    })
}

/// A row a program and cache size.
fn as_csv(profiles: &[Line]) -> Outcome<String> {
    let header = [
        "name",
        "kind",
        "instructions",
        "footprint_bytes",
        "bytes",
        "mpki",
        "extrapolated",
        "machine",
        "class",
        "llc_mpki",
        "llc_mpkc",
        "one_way_slowdown",
        "class_extrapolated",
    ];
    let mut rows = Vec::with_capacity(profiles.len() * SIZES.len());
    for line in profiles {
        let on = &line.on_machine;
        rows.extend(line.mpki.iter().map(|point| {
            vec![
                line.name.clone(),
                line.kind.to_owned(),
                line.instructions.to_string(),
                line.footprint_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                point.bytes.to_string(),
                point.mpki.to_string(),
                point.extrapolated.to_string(),
                on.machine.clone(),
                on.class.name().to_owned(),
                on.llc_mpki.to_string(),
                on.llc_mpkc.to_string(),
                on.one_way_slowdown.to_string(),
                on.extrapolated.to_string(),
            ]
        }));
    }
    csv_rows(&header, &rows)
}

fn as_table(profiles: &[Line]) -> String {
    let Some(first) = profiles.first() else {
        return "The library holds no profile.\n".to_owned();
    };
    let header = [
        ("program", Align::Left),
        ("class", Align::Left),
        ("MPKI", Align::Right),
        ("MPKC", Align::Right),
        ("slowdown", Align::Right),
        ("footprint", Align::Right),
        ("instructions", Align::Right),
    ];
    let rows: Vec<Vec<String>> = profiles
        .iter()
        .map(|line| {
            let on = &line.on_machine;
            let mark = if on.extrapolated { "*" } else { " " };
            vec![
                line.name.clone(),
                on.class.name().to_owned(),
                format!("{:.2}{mark}", on.llc_mpki),
                format!("{:.2}{mark}", on.llc_mpkc),
                format!("{:.3}{mark}", on.one_way_slowdown),
                line.footprint_bytes.map_or("-".to_owned(), |bytes| size(bytes as f64)),
                count(line.instructions),
            ]
        })
        .collect();
    let on = &first.on_machine;
    let mut text = table(&header, &rows);
    text.push_str(&format!(
        "\nalone on {}: LLC misses with all {} ways, slowdown with one ({})\n",
        on.machine,
        on.ways,
        size(on.way_bytes)
    ));
    if profiles.iter().any(|line| line.on_machine.extrapolated) {
        text.push_str("* read in part outside the measured cache sizes\n");
    }
    text
}
