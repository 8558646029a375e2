//! `corun profiles list`.

use corun_app::open_library;
use corun_profile::{Profile, ProfileData};
use corun_views::profile::{Classified, Classifier};
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{ListArgs, SortBy, TableFormat};
use crate::failure::Outcome;
use corun_report::{Columns, engineering, json, or_empty, round, size};

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
    let all: Vec<&Profile> = library.iter().collect();
    let lines: Vec<Outcome<Line>> =
        all.par_iter().map(|profile| line(profile, &classifier)).collect();
    let mut profiles = lines.into_iter().collect::<Outcome<Vec<Line>>>()?;
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
    let points = |line| {
        let line: &Line = line;
        line.mpki.iter().map(move |point| (line, point))
    };
    let rows: Vec<(&Line, &Point)> = profiles.iter().flat_map(points).collect();
    Columns::of(&rows)
        .left("name", |(line, _)| line.name.clone())
        .left("kind", |(line, _)| line.kind)
        .left("instructions", |(line, _)| line.instructions)
        .left("footprint_bytes", |(line, _)| or_empty(line.footprint_bytes))
        .left("bytes", |(_, point)| point.bytes)
        .left("mpki", |(_, point)| point.mpki)
        .left("extrapolated", |(_, point)| point.extrapolated)
        .left("machine", |(line, _)| line.on_machine.machine.clone())
        .left("class", |(line, _)| line.on_machine.class.name())
        .left("llc_mpki", |(line, _)| line.on_machine.llc_mpki)
        .left("llc_mpkc", |(line, _)| line.on_machine.llc_mpkc)
        .left("one_way_slowdown", |(line, _)| line.on_machine.one_way_slowdown)
        .left("class_extrapolated", |(line, _)| line.on_machine.extrapolated)
        .csv()
}

fn as_table(profiles: &[Line]) -> String {
    let Some(first) = profiles.first() else {
        return "The library holds no profile.\n".to_owned();
    };
    let marked = |line: &Line, value: f64, decimals: usize| {
        let mark = if line.on_machine.extrapolated { "*" } else { " " };
        format!("{value:.decimals$}{mark}")
    };
    let footprint =
        |line: &Line| line.footprint_bytes.map_or("-".to_owned(), |bytes| size(bytes as f64));
    let mut text = Columns::of(profiles)
        .left("program", |line| line.name.clone())
        .left("class", |line| line.on_machine.class.name())
        .right("MPKI", |line| marked(line, line.on_machine.llc_mpki, 2))
        .right("MPKC", |line| marked(line, line.on_machine.llc_mpkc, 2))
        .right("slowdown", |line| marked(line, line.on_machine.one_way_slowdown, 3))
        .right("footprint", footprint)
        .right("instructions", |line| engineering(line.instructions))
        .table();
    let on = &first.on_machine;
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
