//! The miss-rate curves as a drawing in a file.

use std::path::Path;

use corun_app::{Error, Result};
use corun_profile::{Profile, ProfileData};
use corun_report::{
    Axis, COLOURS, Colour, Ends, Mark, Panel, Plot, Series, check_target, size, write_file,
};

/// Points of a line: curves are straight in bytes, and so bent on a logarithmic axis.
const STEPS: u32 = 240;

/// Misses per 1000 instructions at which the axis begins: so few hurt nobody.
const LEAST_MPKI: f64 = 0.1;

/// Cache bytes, MPKI, and whether that was extrapolated.
type Point = (f64, f64, bool);

/// Checks what can be checked before there are curves.
///
/// # Errors
/// Bad input where there are more programs than colours, or nothing can be written there.
pub fn check_drawing(path: &Path, programs: usize) -> Result {
    if programs > COLOURS.len() {
        let most = COLOURS.len();
        let message = format!("--svg: found {programs} programs, expected at most {most}");
        return Err(Error::input(message));
    }
    check_target(path)
}

/// One program with its phases as thin lines, or several programs in one plot.
///
/// # Errors
/// Where no profile has a curve, and where the file cannot be written.
pub fn write_drawing(path: &Path, profiles: &[Profile]) -> Result {
    let sizes: Vec<u64> = profiles.iter().flat_map(Profile::measured_sizes).collect();
    let ends = sizes.iter().min().zip(sizes.iter().max());
    let Some((low, high)) = ends.filter(|(low, high)| low < high) else {
        return Err(Error::input("--svg: the profile has one point, expected a curve"));
    };
    let ends = (*low as f64, *high as f64);
    let lines: Vec<Vec<Point>> = profiles.iter().map(|one| line(one, ends, None)).collect();
    let mut series = Vec::new();
    if let [one] = profiles {
        series.extend(phases(one).flat_map(|phase| {
            let points = line(one, ends, Some(phase));
            Series::curve("its phases", Colour::Soft, Mark::Thin, &points)
        }));
    }
    for (place, (profile, points)) in profiles.iter().zip(&lines).enumerate() {
        series.extend(Series::curve(&profile.name, Colour::Nth(place), Mark::Line, points));
    }
    let values = series.iter().flat_map(|one| &one.points).map(|point| point.1);
    let most = values.fold(1.0, f64::max).log10().ceil();
    for point in series.iter_mut().flat_map(|one| &mut one.points) {
        point.1 = point.1.max(LEAST_MPKI);
    }
    let panel = Panel {
        title: String::new(),
        across: Axis::CacheSizes("cache size; dashed: extrapolated".to_owned()),
        upwards: Axis::Logarithmic("misses per 1000 instructions".to_owned()),
        series,
        vertical_lines: Vec::new(),
        ends: Ends { across: Some(ends), upwards: Some((LEAST_MPKI, 10f64.powf(most))) },
    };
    let title = match profiles {
        [one] => format!("Miss-rate curve of {}", one.name),
        _ => "Miss-rate curves".to_owned(),
    };
    let described: Vec<String> =
        profiles.iter().zip(&lines).map(|(one, line)| described(&one.name, line)).collect();
    write_file(path, Plot::of(panel).file(1, &title, &described.join("; ")).as_bytes())
}

/// The phases of a recording where there are several.
fn phases(profile: &Profile) -> std::ops::Range<usize> {
    match &profile.data {
        ProfileData::Recording(recording) if recording.phases.len() > 1 => {
            0..recording.phases.len()
        }
        _ => 0..0,
    }
}

/// A program's line, or that of one of its phases.
fn line(profile: &Profile, (low, high): (f64, f64), phase: Option<usize>) -> Vec<Point> {
    let read = |bytes: f64| match (&profile.data, phase) {
        (ProfileData::Recording(recording), Some(phase)) => {
            recording.phases[phase].curve.mpki(bytes)
        }
        _ => profile.solo_mpki(bytes),
    };
    let part = |step: u32| f64::from(step) / f64::from(STEPS);
    let even = (0..=STEPS).map(|step| low * (high / low).powf(part(step)));
    let own = profile.measured_sizes().into_iter().map(|bytes| bytes as f64);
    let mut sizes: Vec<f64> = even.chain(own).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup_by(|next, one| *next <= *one * (1.0 + 1e-9));
    let point = |bytes: f64| {
        let reading = read(bytes);
        (bytes, reading.value, reading.extrapolated)
    };
    sizes.into_iter().map(point).collect()
}

fn described(name: &str, line: &[Point]) -> String {
    let at = |point: &Point| format!("{:.2} at {}", point.1, size(point.0));
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
