//! Studies of SPEC programs, on shipped programs that stand for them.

use std::sync::LazyLock;

use serde_json::Value;

use crate::fixture::{Fixture, number, rows};

/// The study dio-power in all forms.
pub(crate) struct Power {
    pub(crate) page: String,
    pub(crate) plot: String,
    study: Value,
}

/// Run once for all tests.
pub(crate) static POWER: LazyLock<Power> = LazyLock::new(|| {
    let fixture = Fixture::with_stand_ins();
    let files = ["--report", "page.html", "--svg", "plot.svg"];
    let study = study(&fixture, &[&["dio-power", "--seeds", "1"][..], &files].concat());
    let read = |name: &str| std::fs::read_to_string(fixture.path(name)).unwrap();
    Power { page: read("page.html"), plot: read("plot.svg"), study }
});

fn study(fixture: &Fixture, words: &[&str]) -> Value {
    fixture.run(&[words, &["--profiles", "spec", "--format", "json"]].concat()).json()
}

#[test]
fn the_optimum_and_the_worst_enclose_every_static_placement() {
    let study = study(&Fixture::with_stand_ins(), &["dio-mixes", "--seeds", "1"]);
    assert_eq!(study["figures"].as_array().unwrap().len(), 6 + 3);
    for machine in ["xeon-x5365-2llc", "xeon-x5365", "2x-gold-6138-4c"] {
        let figures = study["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["id"] == machine).unwrap();
        let header = figure["header"].as_array().unwrap();
        let column = |name: &str| header.iter().position(|one| one == name).unwrap();
        let rows = rows(&study, machine);
        assert_eq!(rows.len(), 9);
        for row in rows {
            let at = |name: &str| number(row, column(name));
            assert!(at("optimal") >= 1.0, "{row}");
            // di never moves a program, so it can be no better than the best and no worse than
            // the worst.
            assert!((0.0..=at("worst")).contains(&at("di")), "{row}");
            assert!((0.0..=at("worst")).contains(&at("random (expected)")), "{row}");
        }
        let models = crate::fixture::rows(&study, &format!("{machine}-models"));
        assert!(models.iter().all(|row| (0.0..=number(row, 2)).contains(&number(row, 1))));
    }
}

#[test]
fn n_mass_is_no_better_than_the_best_placement() {
    // A window of two minutes, in which nobody ends and starts again.
    let study = study(&Fixture::with_longer_stand_ins(1000), &["n-mass", "--quick"]);
    assert_eq!(rows(&study, "cases").len(), 9 * 2 + 2 + 3, "two of eight maps");
    assert_eq!(rows(&study, "fits").len(), 6, "built-in machines of several nodes");
    for row in rows(&study, "best") {
        // The best of all placements; where policies move, to what a second of moving is worth.
        assert!(number(row, 3) <= number(row, 2) + 0.2, "{row}");
    }
}

#[test]
fn power_is_drawn_by_every_placement() {
    let rows = rows(&POWER.study, "table-v");
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| (20.0..300.0).contains(&number(row, 2))), "{rows:?}");
}

#[test]
fn the_rivals_stand_beside_the_best_clustering() {
    let fixture = Fixture::with_stand_ins();
    let words = ["rivals", "--quick", "--mixes", "1", "--seeds", "1", "--instructions", "5"];
    let study = study(&fixture, &words);
    for (id, policies) in [("known", 13), ("measured", 9)] {
        let rows = rows(&study, id);
        assert_eq!(rows.len(), policies + 1);
        let best = number(rows.last().unwrap(), 1);
        assert!(best < 0.0, "the best clustering is fairer than no partitions: {best}");
        // None leaves the cache undivided throughout, in so few instructions too.
        let differs = |row: &Value| [1, 4, 6].iter().any(|&column| number(row, column) != 0.0);
        assert!(rows[..policies].iter().all(differs), "{rows:?}");
        // Every policy ran to its end: its turnaround is known.
        assert!(rows.iter().all(|row| number(row, 6).is_finite()));
    }
    assert_eq!(rows(&study, "sizes").len(), 13 + 9);
    for row in rows(&study, "nodes") {
        // A placement that is held moves nobody, and nothing is much better than the best one.
        assert!(number(row, 1) > -2.0, "{row}");
        if row[0].as_str().unwrap().ends_with("linux-default") {
            assert_eq!(number(row, 5), 0.0);
        }
    }
}

#[test]
fn partitions_and_clusters_are_studied() {
    let fixture = Fixture::with_stand_ins();
    let words = ["partitioning", "--mixes", "2", "--report", "p.html"];
    let study = study(&fixture, &words);
    assert_eq!(study["partitions"][1]["partitions"][9], 92_378);
    assert_eq!(study["partitions"][1]["tree_nodes"][7], 106_963);
    for row in study["search"].as_array().unwrap() {
        assert_eq!(row["all_proven"], true);
        // No policy is better than the optimum.
        for part in row["worst_of_optimal"].as_array().unwrap() {
            assert!((0.0..=1.0).contains(&part.as_f64().unwrap()), "{row}");
        }
    }
    for row in study["clustering"]["compared"].as_array().unwrap() {
        // Every partition is a clustering too.
        assert!(row["partitioning_to_clustering"].as_f64().unwrap() >= 1.0, "{row}");
    }
    let sizes = study["clustering"]["sizes"].as_array().unwrap();
    let sum = |name: &str| sizes.iter().map(|size| size[name].as_f64().unwrap()).sum::<f64>();
    let programs = sum("streaming") + sum("sensitive") + sum("light_sharing");
    assert!((programs - 10.0).abs() < 1e-2, "{programs}");
    for subject in study["bandwidth"].as_array().unwrap() {
        for point in subject["points"].as_array().unwrap() {
            // Only stalls on memory are stretched.
            let [morad, stalls] =
                ["slowdown_morad", "slowdown_stalls"].map(|name| point[name].as_f64().unwrap());
            assert!(1.0 <= stalls && stalls <= morad, "{point}");
        }
    }
    let page = std::fs::read_to_string(fixture.path("p.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 7);
}
