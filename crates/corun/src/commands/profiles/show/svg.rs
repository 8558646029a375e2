//! The miss-rate curves as a drawing in a file.

use std::path::Path;

use corun_profile::{Profile, ProfileData};
use maud::{Markup, html};

use crate::failure::{Failure, Outcome};
use crate::output::{check_target, write_file};
use crate::plot::{Axis, Frame, LINES, Point, document, number};
use crate::report::size;

// The drawing's geometry, in its own units. It is still legible at 360 pixels.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 52.0;
const PLOT_HEIGHT: f64 = 230.0;
/// Below the plot: its sizes and what they are.
const BELOW: f64 = 40.0;
const LEGEND_LINE: f64 = 18.0;
const LEGEND_COLUMNS: usize = 3;

/// Points of a line: curves are straight in bytes, and so bent on a logarithmic axis.
const STEPS: u32 = 240;

/// Checks what can be checked before there are curves.
pub(super) fn check(path: &Path, programs: usize) -> Outcome {
    if programs > LINES {
        let message = format!("--svg: found {programs} programs, expected at most {LINES}");
        return Err(Failure::input(message));
    }
    check_target(path)
}

pub(super) fn write(path: &Path, profiles: &[Profile]) -> Outcome {
    write_file(path, draw(profiles)?.as_bytes())
}

/// One program with its phases as thin lines, or several programs in one plot.
fn draw(profiles: &[Profile]) -> Outcome<String> {
    let sizes: Vec<u64> = profiles.iter().flat_map(Profile::measured_sizes).collect();
    let ends = sizes.iter().min().zip(sizes.iter().max());
    let axis = ends.and_then(|(&low, &high)| Axis::of_sizes(low as f64, high as f64));
    let Some(axis) = axis else {
        return Err(Failure::input("--svg: the profile has one point, expected a curve"));
    };
    let lines: Vec<Vec<Point>> = profiles.iter().map(|one| line(one, &axis, None)).collect();
    let phases = match profiles {
        [one] => phases(one, &axis),
        _ => Vec::new(),
    };
    let most = lines.iter().chain(&phases).flatten().map(|point| point.rate).fold(0.0, f64::max);
    let frame = Frame {
        left: LEFT,
        top: TOP,
        width: WIDTH - LEFT - RIGHT,
        height: PLOT_HEIGHT,
        sizes: axis,
        rates: Axis::of_mpki(most),
    };
    let names: Vec<&str> = profiles.iter().map(|one| one.name.as_str()).collect();
    let title = match profiles {
        [one] => format!("Miss-rate curve of {}", one.name),
        _ => "Miss-rate curves".to_owned(),
    };
    let entries = legend(&names, !phases.is_empty(), &lines);
    let body = html! {
        text.title x="12" y="22" { (title) }
        text.label x="12" y="40" { "misses per 1000 instructions" }
        (frame.grid(6))
        @for phase in &phases { (frame.line(phase, "thin")) }
        @for (place, line) in lines.iter().enumerate() { (frame.line(line, &format!("l{place}"))) }
        text.label x=(number(WIDTH - RIGHT)) y=(number(frame.floor() + 34.0)) text-anchor="end" {
            "cache size"
        }
        (entries.0)
    };
    let description: Vec<String> =
        profiles.iter().zip(&lines).map(|(one, line)| described(&one.name, line)).collect();
    let height = frame.floor() + BELOW + entries.1;
    Ok(document((WIDTH, height), &title, &description.join("; "), &body))
}

/// A program's line, or that of one of its phases.
fn line(profile: &Profile, axis: &Axis, phase: Option<usize>) -> Vec<Point> {
    let read = |bytes: f64| match (&profile.data, phase) {
        (ProfileData::Recording(recording), Some(phase)) => {
            recording.phases[phase].curve.mpki(bytes)
        }
        _ => profile.solo_mpki(bytes),
    };
    let even = (0..=STEPS).map(|step| axis.at(f64::from(step) / f64::from(STEPS)));
    let own = profile.measured_sizes().into_iter().map(|bytes| bytes as f64);
    let mut sizes: Vec<f64> = even.chain(own).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup_by(|next, one| *next <= *one * (1.0 + 1e-9));
    let point = |bytes: f64| {
        let reading = read(bytes);
        Point { bytes, rate: reading.value, extrapolated: reading.extrapolated }
    };
    sizes.into_iter().map(point).collect()
}

/// The phases' lines where there are several.
fn phases(profile: &Profile, axis: &Axis) -> Vec<Vec<Point>> {
    match &profile.data {
        ProfileData::Recording(recording) if recording.phases.len() > 1 => {
            (0..recording.phases.len()).map(|phase| line(profile, axis, Some(phase))).collect()
        }
        _ => Vec::new(),
    }
}

/// Which line is what, and the height that it takes.
fn legend(names: &[&str], phases: bool, lines: &[Vec<Point>]) -> (Markup, f64) {
    let mut entries: Vec<(String, String)> = Vec::new();
    if names.len() > 1 || phases {
        let program = |(place, name): (usize, &&str)| (format!("l{place}"), (*name).to_owned());
        entries.extend(names.iter().enumerate().map(program));
    }
    if phases {
        entries.push(("thin".to_owned(), "its phases".to_owned()));
    }
    if lines.iter().flatten().any(|point| point.extrapolated) {
        entries.push(("extrapolated".to_owned(), "extrapolated".to_owned()));
    }
    let top = TOP + PLOT_HEIGHT + BELOW;
    let column = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS as f64;
    let place = |index: usize| {
        let (row, at) = (index / LEGEND_COLUMNS, index % LEGEND_COLUMNS);
        (LEFT + at as f64 * column, top + (row as f64 + 0.7) * LEGEND_LINE)
    };
    let body = html! {
        @for (index, (class, text)) in entries.iter().enumerate() {
            @let (x, y) = place(index);
            polyline class=(class)
                points={ (number(x)) "," (number(y - 4.0)) " " (number(x + 18.0)) "," (number(y - 4.0)) } {}
            text x=(number(x + 24.0)) y=(number(y)) { (shortened(text)) }
        }
    };
    (body, entries.len().div_ceil(LEGEND_COLUMNS) as f64 * LEGEND_LINE + 8.0)
}

/// A name that fits into its column.
fn shortened(name: &str) -> String {
    const MOST: usize = 16;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['\u{2026}']).collect()
}

fn described(name: &str, line: &[Point]) -> String {
    let at = |point: &Point| format!("{:.2} at {}", point.rate, size(point.bytes));
    match (line.first(), line.get(line.len() / 2), line.last()) {
        (Some(first), Some(middle), Some(last)) => format!(
            "{name}: {} misses per 1000 instructions, {}, {}",
            at(first),
            at(middle),
            at(last)
        ),
        _ => name.to_owned(),
    }
}
