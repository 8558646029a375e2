//! What holds of the public table of SPEC solo figures, which is not part of corun. Ignored unless
//! asked for: `CORUN_SOLO_TABLE=FILE.csv cargo test -p corun-studies public_table -- --ignored`.

use serde_json::Value;

use crate::fixture::{Fixture, number, rows};

fn study(words: &[&str]) -> Value {
    let table = std::env::var("CORUN_SOLO_TABLE").expect("CORUN_SOLO_TABLE names the table");
    Fixture::new().run(&[words, &["--profiles", &table, "--format", "json"]].concat()).json()
}

#[test]
#[ignore = "needs the public table (CORUN_SOLO_TABLE)"]
fn what_placements_draw_is_near_what_the_paper_measured() {
    let study = study(&["dio-power", "--seeds", "1"]);
    for row in rows(&study, "table-v") {
        // The fit's largest residual is 27 W.
        assert!((number(row, 1) - number(row, 2)).abs() < 30.0, "{row}");
    }
}

/// The machines' files have the lines that the study fits, and the policies do what they are for.
#[test]
#[ignore = "needs the public table (CORUN_SOLO_TABLE)"]
fn the_experiments_of_n_mass_stand_on_the_machines_own_lines() {
    let study = study(&["n-mass"]);
    for row in rows(&study, "fits") {
        for (fitted, stored) in [(1, 4), (2, 5)] {
            assert!((number(row, fitted) - number(row, stored)).abs() <= 1e-4, "{row}");
        }
    }
    for row in rows(&study, "cases") {
        assert!(number(row, 2) > -5.0 && number(row, 3) > -5.0, "{row}");
    }
}
