//! `corun study`.

use crate::fixture::{Fixture, public_table};

#[test]
fn the_optimum_and_the_worst_enclose_every_static_placement() {
    let Some(table) = public_table() else { return };
    let fixture = Fixture::new();
    let table = table.to_string_lossy();
    let words = ["study", "dio-mixes", "--profiles", &table, "--seeds", "1", "--format", "json"];
    let study = fixture.run(&words).json();
    let machines = study["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 3);
    for on in machines {
        let mixes = on["mixes"].as_array().unwrap();
        assert_eq!(mixes.len(), 8);
        for mix in mixes {
            assert!(mix["optimal_mean_slowdown"].as_f64().unwrap() >= 1.0, "{mix}");
            let percent = |name: &str| {
                let rows = mix["above_optimal_percent"].as_array().unwrap();
                rows.iter().find(|row| row["policy"] == name).unwrap()["percent"].as_f64().unwrap()
            };
            // di never moves a program, so it can be no better than the best and no worse than
            // the worst; the simulator's figures agree with the model's to 1e-4 %.
            let (di, worst) = (percent("di"), percent("worst"));
            assert!((-1e-3..=worst + 1e-3).contains(&di), "{mix}");
            assert!((0.0..=worst).contains(&percent("random (expected)")), "{mix}");
        }
        for variant in on["di_under"].as_array().unwrap() {
            let mean = variant["mean_percent"].as_f64().unwrap();
            assert!(mean <= variant["largest_percent"].as_f64().unwrap() && mean >= -1e-3);
        }
    }
}

#[test]
fn a_table_without_the_studys_programs_is_refused() {
    let fixture = Fixture::new();
    fixture.run(&["study", "dio-mixes", "--profiles", "solo.csv"]).refused(&["soplex06"]);
    fixture.run(&["study", "dio-mixes", "--profiles", "none.csv"]).refused(&["none.csv"]);
    fixture.run(&["study", "nosuch", "--profiles", "solo.csv"]).refused(&["dio-mixes"]);
}
