//! The table of solo figures of the public PBBCache simulator: CSV, one row a program and way
//! count.

use std::collections::BTreeMap;

use corun_input::{FileError, line_at};

use crate::figures::Expected;
use crate::profile::check_name;
use crate::solo_table::{FIGURES, MeasuredOn, SoloRow, SoloTable, TableFigures};
use crate::{Profile, ProfileData};

/// Its columns: program, ways, then the figures in the order in which [`TableFigures`] has them.
/// `llc_usage_kb` counts KB of 1024 bytes.
pub(crate) const COLUMNS: [&str; FIGURES + 2] = [
    "BENCH",
    "NR_WAYS",
    "ipc",
    "llcrpki",
    "llcmpki",
    "llcrpkc",
    "llcmpkc",
    "llc_usage_kb",
    "bandwidth_mbps",
    "llcm_bandwidth",
    "stalls_l2_miss",
    "stalls_l3_miss",
    "stalls_total",
    "stalls_store_buf",
];

/// The place of `llcmpki` among [`COLUMNS`].
const LLC_MISSES: usize = 4;

/// A row and the byte at which it begins.
struct Found {
    byte: usize,
    figures: TableFigures,
}

/// Reads the table; `file` is named in errors. Columns may stand in any order, others are passed
/// over; rows may too. Profiles come by name.
///
/// # Errors
/// [`FileError`] with line and column: no row at all, a column missing or twice, a row too short or
/// too long, a figure that is no number or cannot be, a way count missing or twice for a program.
/// Every program needs each way count from 1 to the highest in the file.
pub fn import_csv(
    text: &str,
    file: &str,
    measured_on: &MeasuredOn,
) -> Result<Vec<Profile>, FileError> {
    measured_on.check().map_err(|fault| FileError::whole(file, format!("measured on: {fault}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let programs = read_programs(text, file)?;
    let all_ways = programs.values().filter_map(|rows| rows.keys().next_back()).max();
    let Some(&all_ways) = all_ways else {
        return Err(FileError::whole(file, "found no row, expected one a program and way count"));
    };
    let mut profiles = Vec::with_capacity(programs.len());
    for (name, found) in programs {
        let missing = (1..=all_ways).find(|ways| !found.contains_key(ways));
        if let (Some(ways), Some((_, last))) = (missing, found.last_key_value()) {
            let why = format!(
                "program {name:?} has no row for {ways} ways, expected all from 1 to {all_ways}"
            );
            return Err(FileError::at(file, row_line(text, last.byte), "NR_WAYS", why));
        }
        let rows = found.into_iter().map(|(ways, row)| SoloRow { ways, figures: row.figures });
        let table = SoloTable::new(measured_on.clone(), rows.collect())
            .map_err(|fault| FileError::whole(file, format!("program {name:?}: {fault}")))?;
        profiles.push(Profile { name, data: ProfileData::Table(table) });
    }
    Ok(profiles)
}

type Programs = BTreeMap<String, BTreeMap<u32, Found>>;

fn read_programs(text: &str, file: &str) -> Result<Programs, FileError> {
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| csv_error(file, &error))?.clone();
    let places = column_places(&header, file)?;
    let mut programs = Programs::new();
    for record in reader.records() {
        let record = record.map_err(|error| csv_error(file, &error))?;
        let byte = record.position().map_or(0, |position| position.byte() as usize);
        if record.len() != header.len() {
            let why = format!("found {} fields, expected {}", record.len(), header.len());
            return Err(FileError::at(file, row_line(text, byte), "", why));
        }
        let at = |column: usize, why: String| {
            FileError::at(file, row_line(text, byte), COLUMNS[column], why)
        };
        let name = &record[places[0]];
        check_name(name).map_err(|why| at(0, why))?;
        let ways = read_ways(&record[places[1]]).map_err(|why| at(1, why))?;
        let mut values = [0.0; FIGURES];
        for (figure, value) in values.iter_mut().enumerate() {
            let text = &record[places[figure + 2]];
            *value = read_figure(text, TableFigures::expected(figure))
                .map_err(|why| at(figure + 2, why))?;
        }
        let figures = TableFigures::from_array(values);
        figures.check_misses().map_err(|why| at(LLC_MISSES, why))?;
        let found = Found { byte, figures };
        if let Some(before) = programs.entry(name.to_owned()).or_default().insert(ways, found) {
            let why = format!(
                "found the row of {name:?} with {ways} ways again, first on line {}",
                row_line(text, before.byte)
            );
            return Err(at(1, why));
        }
    }
    Ok(programs)
}

/// The line of the row that begins at a byte. The reader counts a row from the end of the one
/// before it: empty lines between them, and the second half of a CR LF, are passed over here.
fn row_line(text: &str, byte: usize) -> u64 {
    let rest = &text.as_bytes()[byte.min(text.len())..];
    let ends = rest.iter().take_while(|one| matches!(one, b'\r' | b'\n')).count();
    line_at(text, byte + ends)
}

fn column_places(
    header: &csv::StringRecord,
    file: &str,
) -> Result<[usize; FIGURES + 2], FileError> {
    if header.is_empty() {
        return Err(FileError::whole(file, "is empty, expected a header line and rows"));
    }
    let mut places = [0; FIGURES + 2];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        let mut found = (0..header.len()).filter(|&index| &header[index] == name);
        *place = match (found.next(), found.next()) {
            (Some(index), None) => index,
            (None, _) => {
                let line = header.position().map_or(1, csv::Position::line);
                return Err(FileError::at(file, line, name, "missing column"));
            }
            _ => {
                let line = header.position().map_or(1, csv::Position::line);
                return Err(FileError::at(file, line, name, "found the column twice"));
            }
        };
    }
    Ok(places)
}

fn read_ways(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(ways) if ways >= 1 => Ok(ways),
        _ => Err(format!("found {text:?}, expected a whole number >= 1")),
    }
}

fn read_figure(text: &str, expected: Expected) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("found {text:?}, expected a number"))?;
    expected.test(value)?;
    Ok(value)
}

fn csv_error(file: &str, error: &csv::Error) -> FileError {
    let line = error.position().map(csv::Position::line);
    FileError { line, ..FileError::whole(file, format!("no CSV: {error}")) }
}

/// Writes the solo tables among the profiles as such a table, in the order given. Recordings are
/// passed over: what they would give on a machine is for a model to say.
pub fn export_csv<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> String {
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for profile in profiles {
        let ProfileData::Table(table) = &profile.data else { continue };
        for row in table.rows() {
            out.push_str(&quoted(&profile.name));
            out.push_str(&format!(",{}", row.ways));
            for value in row.figures.to_array() {
                out.push_str(&format!(",{value}"));
            }
            out.push('\n');
        }
    }
    out
}

/// A name as a CSV field. It holds no comma and no line end: [`check_name`].
fn quoted(name: &str) -> String {
    if name.contains('"') { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
#[path = "solo_csv_tests.rs"]
mod tests;
