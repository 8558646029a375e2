//! All studies of the shipped library in one run, which is long: by its name it is the first to begin.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::sync::LazyLock;

use serde_json::Value;

use crate::fixture::{Fixture, number, rows};

/// What was printed, and the text of each page by its file's name: once for all tests.
struct All {
    printed: String,
    pages: BTreeMap<String, String>,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let fixture = Fixture::new();
    let printed = fixture.run(&["all", "--out", "pages", "--seeds", "1", "--quick"]).done();
    let files = std::fs::read_dir(fixture.path("pages")).unwrap().map(|entry| entry.unwrap());
    let page = |entry: DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    };
    All { printed, pages: files.map(page).collect() }
});

/// The document of a study, as `--format json` prints it.
pub(crate) fn document(name: &str) -> Value {
    serde_json::from_str(&ALL.pages[&format!("{name}.json")]).unwrap()
}

#[test]
fn all_studies_make_a_page_each_or_say_what_they_need() {
    let All { printed, pages } = &*ALL;
    for name in ["dio-mixes", "mlb", "partitioning"] {
        let left_out = format!("{name}: left out, needs --profiles");
        assert!(printed.contains(&left_out), "{printed}");
    }
    for page in ["index.html", "camps.html", "camps.json"] {
        assert!(pages.contains_key(page), "{page}");
    }
    for name in ["ranking", "camps"] {
        assert!(document(name)["about"].as_str().unwrap().contains("--quick"), "{name}");
    }
    schemes_lie_between_the_optimum_and_the_worst(&document("classification"));
    a_web_thread_alone_on_a_package_gains(&document("lamp"));
    casc_is_shown_beside_the_default_at_every_size(&document("casc"));
    machine_files_have_what_the_calibration_finds(&document("camps"));
}

/// Classification.
fn schemes_lie_between_the_optimum_and_the_worst(study: &Value) {
    let rows = rows(study, "library-fig-3");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let columns = row.as_array().unwrap().len();
        let worst = number(row, columns - 1);
        assert!(worst > 0.0);
        assert!((2..columns).all(|column| (0.0..=worst).contains(&number(row, column))), "{row}");
    }
}

/// LAMP.
fn a_web_thread_alone_on_a_package_gains(study: &Value) {
    let rows = rows(study, "xeon-x5365");
    let of = |policy: &str| {
        let label = format!("4 web, 4 database: {policy}, web 0");
        number(rows.iter().find(|row| row[0] == label).unwrap(), 1)
    };
    assert!(of("dio-2010, web 0 alone on a package") > of("dio-2010") + 5.0);
}

fn casc_is_shown_beside_the_default_at_every_size(study: &Value) {
    let figures = study["figures"].as_array().unwrap();
    let figure = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap();
    for id in ["join-fig-5", "join-fig-6", "zstd-fig-5", "zstd-fig-6"] {
        let rows = figure(id)["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3, "every second size: {id}");
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

/// CAMPS.
fn machine_files_have_what_the_calibration_finds(study: &Value) {
    let limits = rows(study, "calibration");
    assert_eq!(limits.len(), 4);
    for row in limits {
        assert_eq!((&row[1], &row[3]), (&row[2], &row[4]), "limits of transfer rates: {row}");
    }
    let fits = rows(study, "speedup-fits");
    assert_eq!(fits.len(), 2 * limits.len());
    assert!(fits.iter().all(|row| row[5] == "yes"), "{fits:?}");
}
