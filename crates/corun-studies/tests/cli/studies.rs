//! Studies of the shipped library, and what all studies share.

use crate::all::document;
use crate::fixture::{Fixture, number, rows};
use crate::recordings::undocumented;

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
    let fixture = Fixture::with_stand_ins();
    // A study of a second.
    let study = ["dio-power", "--profiles", "spec", "--seeds", "1"];
    let files = ["--report", "page.html", "--svg", "plot.svg", "--format", "csv"];
    let csv = fixture.run(&[&study[..], &files].concat()).done();
    assert!(csv.starts_with("figure,label,column,value\ntable-v,"), "{csv}");
    let page = std::fs::read_to_string(fixture.path("page.html")).unwrap();
    assert!(page.contains("docs/studies/dio.md") && page.contains("<svg"), "{page}");
    let plot = std::fs::read_to_string(fixture.path("plot.svg")).unwrap();
    assert!(plot.starts_with("<?xml") && plot.contains("Fig. 16"), "{plot}");
    let text = fixture.run(&study).done();
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
        assert_eq!(rows.len(), 2, "half of the loads");
        for row in rows {
            // linux-default, equal parts, three policies, the best of all divisions, of which equal parts are one.
            let loads: Vec<f64> = (1..=6).map(|place| number(row, place)).collect();
            let is_step = |load: &f64| (0.0..=100.0).contains(load) && load % 10.0 == 0.0;
            assert!(loads.iter().all(is_step), "{row}");
            assert!(loads[5] >= loads[1] && loads[5] >= least, "{row}");
        }
    }
}
