//! `corun profiles list`.

use corun_profile::{Profile, ProfileData};
use serde::Serialize;

use super::count;
use crate::cli::{ListArgs, TableFormat};
use crate::failure::Outcome;
use crate::output::{Align, csv_rows, json, round, table};
use crate::report::size;
use crate::scenario::library;

/// Cache sizes at which the list says the miss rate.
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
    mpki: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Point {
    bytes: u64,
    mpki: f64,
    extrapolated: bool,
}

pub(super) fn run(arguments: &ListArgs) -> Outcome<String> {
    let library = library(arguments.profiles.as_deref())?;
    let profiles: Vec<Line> = library.iter().map(line).collect();
    match arguments.format {
        TableFormat::Json => json(&Listing { profiles }),
        TableFormat::Csv => as_csv(&profiles),
        TableFormat::Table => Ok(as_table(&profiles)),
    }
}

fn line(profile: &Profile) -> Line {
    let point = |&bytes: &u64| {
        let reading = profile.solo_mpki(bytes as f64);
        Point { bytes, mpki: round(reading.value, 4), extrapolated: reading.extrapolated }
    };
    Line {
        name: profile.name.clone(),
        kind: match profile.data {
            ProfileData::Recording(_) => "recording",
            ProfileData::Table(_) => "table",
        },
        instructions: profile.instructions(),
        footprint_bytes: profile.footprint_bytes(),
        mpki: SIZES.iter().map(point).collect(),
    }
}

fn as_csv(profiles: &[Line]) -> Outcome<String> {
    let header =
        ["name", "kind", "instructions", "footprint_bytes", "bytes", "mpki", "extrapolated"];
    let rows: Vec<Vec<String>> = profiles
        .iter()
        .flat_map(|line| {
            line.mpki.iter().map(|point| {
                vec![
                    line.name.clone(),
                    line.kind.to_owned(),
                    line.instructions.to_string(),
                    line.footprint_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                    point.bytes.to_string(),
                    point.mpki.to_string(),
                    point.extrapolated.to_string(),
                ]
            })
        })
        .collect();
    csv_rows(&header, &rows)
}

fn as_table(profiles: &[Line]) -> String {
    if profiles.is_empty() {
        return "The library holds no profile.\n".to_owned();
    }
    let sizes: Vec<String> =
        SIZES.iter().map(|&bytes| format!("MPKI at {}", size(bytes as f64))).collect();
    let mut header = vec![
        ("program", Align::Left),
        ("kind", Align::Left),
        ("instructions", Align::Right),
        ("footprint", Align::Right),
    ];
    header.extend(sizes.iter().map(|name| (name.as_str(), Align::Right)));
    let rows: Vec<Vec<String>> = profiles
        .iter()
        .map(|line| {
            let mut row = vec![
                line.name.clone(),
                line.kind.to_owned(),
                count(line.instructions),
                line.footprint_bytes.map_or("-".to_owned(), |bytes| size(bytes as f64)),
            ];
            row.extend(line.mpki.iter().map(|point| {
                format!("{:.2}{}", point.mpki, if point.extrapolated { "*" } else { " " })
            }));
            row
        })
        .collect();
    let mut text = table(&header, &rows);
    if profiles.iter().any(|line| line.mpki.iter().any(|point| point.extrapolated)) {
        text.push_str("\n* extrapolated: outside the measured range\n");
    }
    text
}
