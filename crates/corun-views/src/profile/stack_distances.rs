//! The stack-distance profiles: hits by LRU position of set-associative caches.

use corun_profile::{Profile, ProfileData, StackDistanceProfile};
use serde::Serialize;

use corun_report::{Columns, size};

/// What is worked out of a profile beside what its file says.
#[derive(Debug, Serialize)]
pub(crate) struct ShownStack {
    #[serde(flatten)]
    profile: StackDistanceProfile,
    /// Size of the cache in bytes.
    bytes: u64,
    /// Ways of the cache.
    ways: usize,
    /// Accesses that reach it, per 1000 instructions.
    accesses_pki: f64,
}

/// A recording's profiles; none of a table, nor where none was asked for.
pub(crate) fn of(profile: &Profile) -> Vec<ShownStack> {
    let ProfileData::Recording(recording) = &profile.data else { return Vec::new() };
    let shown = |one: &StackDistanceProfile| ShownStack {
        bytes: one.sets * one.line_bytes * one.ways() as u64,
        ways: one.ways(),
        accesses_pki: one.hits_pki.iter().sum::<f64>() + one.misses_pki,
        profile: one.clone(),
    };
    recording.stack_distances.iter().map(shown).collect()
}

pub(crate) fn section(profiles: &[ShownStack]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in profiles {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let private: Vec<String> = one
            .profile
            .private_caches
            .iter()
            .map(|&(bytes, ways)| format!("{} in {ways} ways", size(bytes as f64)))
            .collect();
        let behind = match private.len() {
            0 => "nothing in front".to_owned(),
            _ => format!("behind {}", private.join(" and ")),
        };
        lines.push(format!(
            "  LRU positions of {} in {} ways, {behind}; per 1000 instructions",
            size(one.bytes as f64),
            one.ways
        ));
        lines.extend(rows(one).lines().map(|line| format!("  {line}")));
    }
    lines
}

/// One row a position: its hits, and what a cache of so many of the ways misses.
fn rows(one: &ShownStack) -> String {
    let mut beyond = one.accesses_pki;
    let mut rows: Vec<(usize, f64, f64)> = Vec::with_capacity(one.ways);
    for (at, &hits) in one.profile.hits_pki.iter().enumerate() {
        // The last is what was counted, not what rounding left.
        beyond = if at + 1 == one.ways { one.profile.misses_pki } else { (beyond - hits).max(0.0) };
        rows.push((at + 1, hits, beyond));
    }
    Columns::of(&rows)
        .right("position", |row| row.0)
        .right("hits", |row| format!("{:.3}", row.1))
        .right("misses of so many ways", |row| format!("{:.3}", row.2))
        .table()
}
