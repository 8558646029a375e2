//! Studies of the shipped library, and what all studies share.

use crate::fixture::{Fixture, number, rows};

#[test]
fn schemes_lie_between_the_optimum_and_the_worst() {
    let study = Fixture::new().run(&["classification", "--format", "json"]).json();
    let rows = rows(&study, "library-fig-3");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let columns = row.as_array().unwrap().len();
        let worst = number(row, columns - 1);
        assert!(worst > 0.0);
        assert!((2..columns).all(|column| (0.0..=worst).contains(&number(row, column))), "{row}");
    }
}

#[test]
fn factors_sum_to_the_total() {
    let fixture = Fixture::new();
    let study = fixture.run(&["factors", "--format", "json"]).json();
    let chosen = fixture.run(&["factors", "--machine", "i7-2600", "--format", "json"]).json();
    let figures = [&study, &chosen].map(|study| study["figures"].as_array().unwrap().clone());
    let figures = figures.concat();
    assert_eq!(figures.len(), 3);
    for row in figures.iter().flat_map(|figure| figure["rows"].as_array().unwrap()) {
        let columns = row.as_array().unwrap().len();
        let sum: f64 = (2..columns).map(|column| number(row, column)).sum();
        // Each is printed to 0.1.
        assert!((sum - number(row, 1)).abs() < 0.3, "{row}");
    }
    fixture.run(&["factors", "--machine", "nowhere"]).refused(&["nowhere"]);
}

#[test]
fn a_web_thread_alone_on_a_package_gains() {
    let study = Fixture::new().run(&["lamp", "--seeds", "1", "--format", "json"]).json();
    let rows = rows(&study, "xeon-x5365");
    let of = |policy: &str| {
        let label = format!("4 web, 4 database: {policy}, web 0");
        number(rows.iter().find(|row| row[0] == label).unwrap(), 1)
    };
    assert!(of("dio-2010, web 0 alone on a package") > of("dio-2010") + 5.0);
}

#[test]
fn casc_is_shown_beside_the_default_at_every_size() {
    let study = Fixture::new().run(&["casc", "--seeds", "1", "--format", "json"]).json();
    let figures = study["figures"].as_array().unwrap();
    let figure = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap();
    for id in ["join-fig-5", "join-fig-6", "zstd-fig-5", "zstd-fig-6"] {
        let rows = figure(id)["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "{id}");
        for row in rows {
            assert!(
                row[1].as_f64().unwrap() > 0.0 && row[2].as_f64().unwrap() > 0.0,
                "{id}: {row}"
            );
        }
    }
    // All threads are measured before the window, at every size.
    for row in figure("join-accuracy")["rows"].as_array().unwrap() {
        let (right, all_known) = (row[1].as_f64().unwrap(), row[5].as_f64());
        assert!((0.0..=18.0).contains(&right), "{row}");
        assert!(all_known.is_some_and(|seconds| seconds < 5.0), "{row}");
    }
    // A bigger L2 never makes the chip slower.
    let rows = figure("fig-3")["rows"].as_array().unwrap();
    let ipc: Vec<f64> = rows.iter().map(|row| row[1].as_f64().unwrap()).collect();
    assert!(ipc.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{ipc:?}");
}

#[test]
fn all_studies_make_a_page_each_or_say_what_they_need() {
    let fixture = Fixture::new();
    let text = fixture.run(&["all", "--out", "pages", "--seeds", "1"]).done();
    for name in ["dio-mixes", "mlb", "partitioning"] {
        assert!(text.contains(&format!("{name}: left out, needs --profiles")), "{text}");
    }
    assert!(fixture.path("pages/index.html").is_file());
    assert!(
        fixture.path("pages/camps.html").is_file() && fixture.path("pages/camps.json").is_file()
    );
}

#[test]
fn what_a_study_needs_and_does_not_find_is_refused() {
    let fixture = Fixture::with_stand_ins(None);
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
    let fixture = Fixture::new();
    let words = ["classification", "--report", "page.html", "--svg", "plot.svg", "--format", "csv"];
    let csv = fixture.run(&words).done();
    assert!(csv.starts_with("figure,label,column,value\nlibrary-fig-3,"), "{csv}");
    let page = std::fs::read_to_string(fixture.path("page.html")).unwrap();
    assert!(page.contains("docs/studies/dio.md") && page.contains("<svg"), "{page}");
    let plot = std::fs::read_to_string(fixture.path("plot.svg")).unwrap();
    assert!(plot.starts_with("<?xml") && plot.contains("pain of misses"), "{plot}");
    let text = fixture.run(&["classification"]).done();
    assert!(text.contains("\n  paper: about 1 % on all systems\n  here:  "), "{text}");
}
