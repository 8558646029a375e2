//! Studies of the shipped library, and what all studies share.

use crate::all::document;
use crate::fixture::{Fixture, number, rows};
use crate::recordings::undocumented;
use crate::stand_ins::{POWER, Power};

#[test]
fn factors_sum_to_the_total() {
    let study = document("factors");
    assert_eq!(undocumented(&study), Vec::<String>::new());
    let figures = study["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 2);
    for row in figures.iter().flat_map(|figure| figure["rows"].as_array().unwrap()) {
        let columns = row.as_array().unwrap().len();
        let sum: f64 = (2..columns).map(|column| number(row, column)).sum();
        // Each is printed to 0.1.
        assert!((sum - number(row, 1)).abs() < 0.3, "{row}");
    }
    Fixture::new().run(&["factors", "--machine", "nowhere"]).refused(&["nowhere"]);
}

#[test]
fn what_a_study_needs_and_does_not_find_is_refused() {
    let fixture = Fixture::with_stand_ins();
    fixture.run(&["dio-mixes"]).refused(&["stands on SPEC CPU programs", "--profiles"]);
    fixture.run(&["dio-mixes", "--profiles", "none.csv"]).refused(&["none.csv"]);
    fixture.run(&["dio-mix", "--profiles", "spec"]).refused(&["dio-mixes"]);
    std::fs::remove_file(fixture.path("spec/soplex06.toml")).unwrap();
    fixture.run(&["dio-mixes", "--profiles", "spec"]).refused(&["soplex06"]);
    let nowhere = ["classification", "--report", "no/page.html"];
    fixture.run(&nowhere).refused(&["no: there is no such folder"]);
    fixture.run(&["classification", "--seeds", "2"]).refused(&["--seeds"]);
}

#[test]
fn a_page_is_written_in_every_form() {
    let Power { page, plot, .. } = &*POWER;
    let fixture = Fixture::with_stand_ins();
    // A study of a second.
    let study = ["dio-power", "--profiles", "spec", "--seeds", "1", "--quick"];
    let csv = fixture.run(&[&study[..], &["--format", "csv"]].concat()).done();
    assert!(csv.starts_with("figure,label,column,value\ntable-v,"), "{csv}");
    assert!(page.contains("docs/studies/dio.md") && page.contains("<svg"), "{page}");
    assert!(plot.starts_with("<?xml") && plot.contains("Fig. 16"), "{plot}");
    let text = fixture.run(&study).done();
    assert!(
        text.contains(" --quick: one in 3 of the LAMP workloads; one in 4 of the mixes"),
        "{text}"
    );
    assert!(!page.contains(" --quick: "));
    assert!(
        text.contains("\n  paper: matches the better one on every workload\n  here:  "),
        "{text}"
    );
}

#[test]
fn services_meet_their_targets_up_to_a_load() {
    let study = document("parties");
    for (id, least) in [("two-services", 10.0), ("beside-batch", 0.0)] {
        let rows = rows(&study, id);
        assert_eq!(rows.len(), 1, "one in four of the loads");
        for row in rows {
            // linux-default, equal parts, three policies, the best of all divisions, of which equal parts are one.
            let loads: Vec<f64> = (1..=6).map(|place| number(row, place)).collect();
            let is_step = |load: &f64| (0.0..=100.0).contains(load) && load % 10.0 == 0.0;
            assert!(loads.iter().all(is_step), "{row}");
            assert!(loads[5] >= loads[1] && loads[5] >= least, "{row}");
        }
    }
}

/// A bound that allows more is no lower, and of all placements held the fairest is the fairest.
#[test]
fn the_best_stands_beside_camps() {
    let study = document("camps");
    for id in ["fig-4-11-best", "fig-4-12-best"] {
        let rows = rows(&study, id);
        assert!(rows.len() > 2, "{id}");
        for row in rows {
            let of = |column: usize| number(row, column);
            let [camps_asp, fair, its_asp, fast, most] = [2, 3, 4, 5, 6].map(of);
            assert!(fair <= fast && its_asp <= most, "{row}");
            // A dash where no shares are so fair, and from M9 on, where programs have several threads. Each is printed to
            // 0.001; the last row's means are over other mixes.
            let bounds: Vec<f64> = (7..10).filter_map(|column| row[column].as_f64()).collect();
            let label = row[0].as_str().unwrap();
            let mix: Option<u32> = label.strip_prefix('M').and_then(|rest| rest.parse().ok());
            let has_threads = mix.is_some_and(|mix| mix >= 9);
            assert_eq!(row[9].is_null(), has_threads, "{row}");
            assert!(
                row[0] == "mean" || bounds.windows(2).all(|pair| pair[0] <= pair[1] + 0.002),
                "{row}"
            );
            assert!(camps_asp > 0.0 && bounds.iter().all(|bound| *bound > 0.0), "{row}");
        }
    }
    for id in ["fig-4-11-live", "fig-4-12-live"] {
        for row in rows(&study, id) {
            assert!((1..=7).step_by(2).all(|column| row[column].is_number()), "{row}");
        }
    }
}

#[test]
fn a_placement_held_for_one_thread_serves_that_thread_best() {
    let study = document("lamp");
    for machine in ["opteron-2350", "xeon-x5365"] {
        let rows = rows(&study, machine);
        let gain = |workload: &str, policy: &str| {
            let label = format!("{workload}: {policy}, web 0");
            number(rows.iter().find(|row| row[0] == label).unwrap(), 2)
        };
        for workload in ["2 web, 6 database", "3 web, 5 database", "4 web, 4 database"] {
            let [all, own] = ["best placement held", "best placement held for web 0"]
                .map(|policy| gain(workload, policy));
            assert!(own >= all, "{machine}, {workload}: {own} < {all}");
        }
    }
}

/// CASC is simulated as live, too.
#[test]
fn casc_as_live_stands_beside_casc() {
    let study = document("casc");
    for id in ["join-fig-6", "zstd-fig-6", "shaped-fig-6"] {
        let figures = study["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap();
        let header = figure["header"].as_array().unwrap();
        let place = header.iter().position(|head| head == "CASC as live %").unwrap();
        for row in figure["rows"].as_array().unwrap() {
            assert!(number(row, place).abs() < 100.0, "{row}");
        }
    }
    Fixture::new().run(&["casc", "--as-live", "noise=loud"]).refused(&["noise: found `loud`"]);
}
