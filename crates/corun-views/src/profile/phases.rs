//! The phases of a recording, and which of them ran when.

use corun_profile::{CurvePoint, InstructionMix, Phase, Profile, ProfileData, Recording, Stretch};
use serde::Serialize;

use super::fact;
use corun_report::engineering;
use corun_report::{Columns, size};

/// Cache sizes in bytes whose misses the table names.
const SIZES: [u64; 3] = [32 << 10, 1 << 20, 16 << 20];

/// Characters of the strip that stands for the whole execution.
const STRIP: usize = 64;

/// A digit or letter for each phase; those beyond share the last one.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// What the document says of a recording's phases, beside how many they are.
#[derive(Debug, Serialize)]
pub(crate) struct PhasesDocument {
    phase: Vec<PhaseDocument>,
    sequence: Vec<StretchDocument>,
}

#[derive(Debug, Serialize)]
struct PhaseDocument {
    instructions: u64,
    threads: u32,
    data_accesses_pki: f64,
    mix: InstructionMix,
    prefetchable: f64,
    memory_level_parallelism: f64,
    dirty_share: f64,
    footprint_bytes: u64,
    curve: Vec<CurvePoint>,
}

#[derive(Debug, Serialize)]
struct StretchDocument {
    phase: usize,
    instructions: u64,
}

impl PhasesDocument {
    /// That of a recording; a table has none.
    pub(crate) fn new(profile: &Profile) -> Option<Self> {
        let ProfileData::Recording(recording) = &profile.data else { return None };
        let stretch =
            |one: &Stretch| StretchDocument { phase: one.phase, instructions: one.instructions };
        Some(Self {
            phase: recording.phases.iter().map(PhaseDocument::new).collect(),
            sequence: recording.sequence.iter().map(stretch).collect(),
        })
    }
}

impl PhaseDocument {
    fn new(phase: &Phase) -> Self {
        Self {
            instructions: phase.instructions,
            threads: phase.threads,
            data_accesses_pki: phase.data_accesses_pki,
            mix: phase.mix,
            prefetchable: phase.prefetchable,
            memory_level_parallelism: phase.memory_level_parallelism,
            dirty_share: phase.dirty_share,
            footprint_bytes: phase.footprint_bytes,
            curve: phase.curve.points().to_vec(),
        }
    }
}

/// A table of the phases and a strip of the sequence, where there are several.
pub(crate) fn section(profile: &Profile) -> Vec<String> {
    let ProfileData::Recording(recording) = &profile.data else { return Vec::new() };
    if recording.phases.len() < 2 {
        return Vec::new();
    }
    let all = recording.instructions() as f64;
    let phases: Vec<(usize, &Phase)> = recording.phases.iter().enumerate().collect();
    let share = |phase: &Phase| 100.0 * phase.instructions as f64 / all;
    let mut columns = Columns::of(&phases)
        .left("phase", |(place, _)| digit(*place))
        .right("length", |(_, phase)| engineering(phase.instructions))
        .right("share", |(_, phase)| format!("{:.1} %", share(phase)))
        .right("footprint", |(_, phase)| size(phase.footprint_bytes as f64));
    for bytes in SIZES {
        columns = columns.right(&format!("MPKI at {}", size(bytes as f64)), |(_, phase)| {
            let read = phase.curve.mpki(bytes as f64);
            format!("{:.2}{}", read.value, if read.extrapolated { "*" } else { "" })
        });
    }
    let table = columns.table();
    let mut lines: Vec<String> = table.lines().map(|line| format!("  {line}")).collect();
    lines.push(fact("in order", strip(recording)));
    if table.contains('*') {
        lines.push("  * extrapolated".to_owned());
    }
    lines
}

/// The phase that runs in the middle of each of [`STRIP`] equal parts of the execution.
fn strip(recording: &Recording) -> String {
    let mut stretches = recording.sequence.iter();
    let mut now = stretches.next();
    let mut end = now.map_or(0, |one| u128::from(one.instructions));
    let all = u128::from(recording.instructions());
    let mut strip = String::new();
    for part in 0..STRIP as u128 {
        let middle = (2 * part + 1) * all / (2 * STRIP as u128);
        while let Some(next) = stretches.as_slice().first()
            && middle >= end
        {
            end += u128::from(next.instructions);
            now = stretches.next();
        }
        strip.extend(now.map(|one| digit(one.phase)));
    }
    strip
}

fn digit(phase: usize) -> char {
    char::from(DIGITS[phase.min(DIGITS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(stretches: &[(usize, u64)]) -> Profile {
        let phases = 1 + stretches.iter().map(|one| one.0).max().unwrap();
        let length = |phase| stretches.iter().filter(|one| one.0 == phase).map(|one| one.1).sum();
        let mut text = String::from("version = 1\nname = \"a\"\nsequence = [");
        for (phase, instructions) in stretches {
            text += &format!("[{phase}, {instructions}], ");
        }
        text += "]\n[origin]\ncommand = [\"a\"]\nsampling_rate = 1\ncomplete = true\n";
        for phase in 0..phases {
            let instructions: u64 = length(phase);
            text += &format!(
                "[[phase]]\ninstructions = {instructions}\ndata_accesses_pki = 400\n\
                 mix = {{ loads_pki = 1, stores_pki = 1, branches_pki = 1, float_pki = 0, \
                 mispredicted_pki = 0 }}\nprefetchable = 0\nmemory_level_parallelism = 1\n\
                 dirty_share = 0\nfootprint_bytes = 4096\ncurve = [[4096, 30], [8388608, 10]]\n"
            );
        }
        Profile::from_toml(&text, "a.toml").unwrap()
    }

    #[test]
    fn a_strip_of_equal_parts() {
        let profile = profile(&[(0, 16), (1, 40), (0, 8)]);
        let lines = section(&profile);
        let strip = format!("{}{}{}", "0".repeat(16), "1".repeat(40), "0".repeat(8));
        assert_eq!(lines[3], format!("  in order      {strip}"));
        let row: Vec<&str> = lines[2].split_whitespace().collect();
        let expected = ["1", "40", "62.5", "%", "4", "KiB", "29.93", "27.51", "10.00*"];
        assert_eq!(row, expected);
        assert_eq!(lines[4], "  * extrapolated");
    }

    #[test]
    fn fewer_instructions_than_characters_and_a_single_phase() {
        let lines = section(&profile(&[(0, 1), (1, 1)]));
        assert!(lines[3].ends_with(&"0".repeat(32)) || lines[3].ends_with(&"1".repeat(32)));
        assert!(section(&profile(&[(0, 5)])).is_empty());
        assert_eq!(digit(99), 'z');
    }
}
