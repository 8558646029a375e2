//! The public table of solo figures, where it is.

use std::env;
use std::fs::read_to_string;
use std::path::PathBuf;

use corun_profile::{Extension, MeasuredOn, Profile, ProfileData, export_csv, import_csv};

/// The public table, or `None`, said aloud, where it is absent.
fn public_table() -> Option<String> {
    let shared = env::var_os("CORUN_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = shared.join("data/spec-skylake-solo-by-ways.csv");
    let text = read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: no {}", path.display());
    }
    text
}

fn import(text: &str) -> Vec<Profile> {
    import_csv(text, "t.csv", &MeasuredOn::xeon_gold_6138()).unwrap()
}

#[test]
fn the_public_table_is_read_and_written_back() {
    let Some(text) = public_table() else { return };
    let profiles = import(&text);
    assert_eq!(profiles.len(), 55);
    for profile in &profiles {
        let ProfileData::Table(table) = &profile.data else { panic!("expected a table") };
        assert_eq!(table.max_ways(), 11);
        // The anchor is said (docs/errata.md) to be consistent in all 55: never below the first row.
        let curve = table.curve();
        let points = curve.points();
        assert!(points[0].mpki >= points[1].mpki, "{}", profile.name);
        for ways in [0.0, 0.25, 0.5, 0.99] {
            let reading = table.at_ways(ways, Extension::Anchored);
            assert!(reading.extrapolated);
            let first = table.rows()[0].figures;
            let figures = reading.figures;
            let rates = [
                figures.ipc,
                figures.llc_references_pki,
                figures.llc_misses_pki,
                figures.llc_references_pkc,
                figures.llc_misses_pkc,
                figures.llc_usage_kib,
                figures.bandwidth_mb_per_s,
                figures.miss_bandwidth_mb_per_s,
            ];
            let stalls = [
                figures.stalls_l2_miss,
                figures.stalls_l3_miss,
                figures.stalls_total,
                figures.stalls_store_buffer,
            ];
            let mut all = rates.iter().chain(&stalls);
            assert!(all.all(|value| value.is_finite() && *value >= 0.0), "{figures:?}");
            assert!(figures.ipc <= first.ipc + 1e-9, "{} {figures:?}", profile.name);
        }
    }
    assert_eq!(import(&export_csv(&profiles)), profiles);
}
