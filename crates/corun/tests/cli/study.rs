//! `corun study`.

use crate::fixture::{Fixture, RECORDING, public_table};

#[test]
fn the_optimum_and_the_worst_enclose_every_static_placement() {
    let Some(table) = public_table() else { return };
    let fixture = Fixture::new();
    let table = table.to_string_lossy();
    let words = ["study", "dio-mixes", "--profiles", &table, "--seeds", "1", "--format", "json"];
    let study = fixture.run(&words).json();
    // Then the runs against the default scheduler follow.
    let figures = study["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 6 + 3);
    for figure in &figures[..6] {
        let header = figure["header"].as_array().unwrap();
        let column = |name: &str| header.iter().position(|one| one == name);
        let rows = figure["rows"].as_array().unwrap();
        let (Some(optimal), Some(di), Some(random), Some(worst)) =
            (column("optimal"), column("di"), column("random (expected)"), column("worst"))
        else {
            for row in rows {
                let (mean, largest) = (row[1].as_f64().unwrap(), row[2].as_f64().unwrap());
                assert!((0.0..=largest).contains(&mean), "{row}");
            }
            continue;
        };
        assert_eq!(rows.len(), 9);
        for row in rows {
            let at = |place: usize| row[place].as_f64();
            assert!(at(optimal).is_none_or(|optimal| optimal >= 1.0), "{row}");
            // di never moves a program, so it can be no better than the best and no worse than
            // the worst.
            assert!((0.0..=at(worst).unwrap()).contains(&at(di).unwrap()), "{row}");
            assert!((0.0..=at(worst).unwrap()).contains(&at(random).unwrap()), "{row}");
        }
    }
}

#[test]
fn schemes_lie_between_the_optimum_and_the_worst() {
    let fixture = Fixture::new();
    let study = fixture.run(&["study", "classification", "--format", "json"]).json();
    let figure = &study["figures"][0];
    assert_eq!(figure["id"], "library-fig-3");
    let rows = figure["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let figures: Vec<f64> =
            row.as_array().unwrap()[2..].iter().map(|one| one.as_f64().unwrap()).collect();
        let worst = *figures.last().unwrap();
        assert!(worst > 0.0 && figures.iter().all(|one| (0.0..=worst).contains(one)), "{row}");
    }
}

#[test]
fn factors_sum_to_the_total() {
    let fixture = Fixture::new();
    let study = fixture.run(&["study", "factors", "--format", "json"]).json();
    let of_machine = fixture.run(&["study", "factors", "--machine", "i7-2600", "--format", "json"]);
    let figures = [
        study["figures"].as_array().unwrap().clone(),
        vec![of_machine.json()["figures"][0].clone()],
    ];
    assert_eq!(figures.concat().len(), 3);
    for figure in figures.concat() {
        for row in figure["rows"].as_array().unwrap() {
            let figures: Vec<f64> =
                row.as_array().unwrap()[1..].iter().map(|one| one.as_f64().unwrap()).collect();
            let sum: f64 = figures[1..].iter().sum();
            // Each is printed to 0.1.
            assert!((sum - figures[0]).abs() < 0.3, "{row}");
        }
    }
    fixture.run(&["study", "factors", "--machine", "nowhere"]).refused(&["nowhere"]);
}

#[test]
fn a_web_thread_alone_on_a_package_gains() {
    let fixture = Fixture::new();
    let study = fixture.run(&["study", "lamp", "--seeds", "1", "--format", "json"]).json();
    let figure = &study["figures"][1];
    assert_eq!(figure["id"], "xeon-x5365");
    let mean = |label: &str| {
        let rows = figure["rows"].as_array().unwrap();
        rows.iter().find(|row| row[0] == label).unwrap()[1].as_f64().unwrap()
    };
    let of = |policy: &str| mean(&format!("4 web, 4 database: {policy}, web 0"));
    assert!(of("dio, web 0 alone on a package") > of("dio") + 5.0);
}

#[test]
fn what_placements_draw_is_near_what_the_paper_measured() {
    let Some(table) = public_table() else { return };
    let fixture = Fixture::new();
    let table = table.to_string_lossy();
    let words = ["study", "dio-power", "--profiles", &table, "--seeds", "1", "--format", "json"];
    let study = fixture.run(&words).json();
    let rows = study["figures"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let (paper, ours) = (row[1].as_f64().unwrap(), row[2].as_f64().unwrap());
        // The fit's largest residual is 27 W.
        assert!((paper - ours).abs() < 30.0, "{row}");
    }
}

#[test]
fn all_studies_make_a_page_each_or_say_what_they_need() {
    let fixture = Fixture::new();
    let text = fixture.run(&["study", "all", "--out", "pages", "--seeds", "1"]).done();
    assert!(text.contains("dio-mixes: left out, needs --profiles"), "{text}");
    assert!(text.contains("mlb: left out, needs --profiles"), "{text}");
    assert!(fixture.path("pages/index.html").is_file());
    let refused = fixture.run(&["study", "dio-mixes"]);
    refused.refused(&["stands on SPEC CPU programs", "--profiles"]);
}

#[test]
fn a_table_without_the_studys_programs_is_refused() {
    let fixture = Fixture::new();
    fixture.run(&["study", "dio-mixes", "--profiles", "solo.csv"]).refused(&["soplex06"]);
    fixture.run(&["study", "dio-mixes", "--profiles", "none.csv"]).refused(&["none.csv"]);
    fixture.run(&["study", "dio-mix", "--profiles", "solo.csv"]).refused(&["dio-mixes"]);
}

/// A recording of one phase with 400 data accesses per 1000 instructions and a flat curve.
fn flat(name: &str, mpki: f64, rate: f64) -> String {
    format!(
        r#"version = 1
name = "{name}"
[origin]
command = ["{name}"]
sampling_rate = {rate}
complete = true
[[phase]]
instructions = 1000
data_accesses_pki = 400
mix = {{ loads_pki = 300, stores_pki = 100, branches_pki = 0, float_pki = 0, mispredicted_pki = 0 }}
prefetchable = 0
memory_level_parallelism = 1
dirty_share = 0
footprint_bytes = 4096
curve = [[1024, {mpki}], [1073741824, {mpki}]]
"#
    )
}

/// Folders `exact` and `sampled`: 0.005 apart, 0.04 apart, and a program of one folder alone.
fn two_folders() -> Fixture {
    let fixture = Fixture::new();
    for folder in ["exact", "sampled"] {
        std::fs::create_dir(fixture.path(folder)).unwrap();
    }
    fixture.write("exact/near.toml", &flat("near", 40.0, 1.0));
    fixture.write("sampled/near.toml", &flat("near", 42.0, 0.01));
    fixture.write("exact/far.toml", &flat("far", 40.0, 1.0));
    fixture.write("sampled/far.toml", &flat("far", 56.0, 0.01));
    fixture.write("exact/lone.toml", &flat("lone", 40.0, 1.0));
    fixture
}

#[test]
fn sampled_curves_are_held_against_exact_ones() {
    let fixture = two_folders();
    let words = ["study", "sampling", "--exact", "exact", "--sampled", "sampled"];
    let study = fixture.run(&[&words[..], &["--format", "json"]].concat()).json();
    assert_eq!(study["sizes"], 225);
    assert_eq!(
        (&study["smallest_bytes"], &study["largest_bytes"]),
        (&4096.into(), &67108864.into())
    );
    assert_eq!(study["unpaired"], serde_json::json!(["lone"]));
    let programs = study["programs"].as_array().unwrap();
    let found: Vec<_> = programs
        .iter()
        .map(|one| {
            let number = |field: &str| one[field].as_f64().unwrap();
            let differences = (number("mean_difference"), number("greatest_difference"));
            (one["name"].as_str().unwrap(), differences, one["reached"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(found, [("far", (0.04, 0.04), false), ("near", (0.005, 0.005), true)]);
    assert_eq!(programs[0]["second_sampling_rate"], 0.01);
    let text = fixture.run(&[&words[..], &["--svg", "accuracy.svg"]].concat()).done();
    assert!(text.contains("1 of 2 programs reach"), "{text}");
    let far = text.lines().find(|line| line.starts_with("far")).unwrap();
    assert!(far.ends_with("missed"), "{far}");
    assert!(text.contains("in one folder alone: lone"), "{text}");
    let drawn = std::fs::read_to_string(fixture.path("accuracy.svg")).unwrap();
    assert!(drawn.contains("<title id=\"title\">") && drawn.contains(">near<"), "{drawn}");
    let csv = fixture.run(&[&words[..], &["--format", "csv"]].concat()).done();
    assert_eq!(csv.lines().nth(2), Some("near,1,0.01,0.005,0.005,4096,true,false"));
}

#[test]
fn differences_lie_where_the_curves_part() {
    let fixture = two_folders();
    // Twice the misses up to 64 KiB, none apart from 1 MiB on; the whole of two phases counts.
    let other = RECORDING.replace("[32768, 40]", "[32768, 80]");
    fixture.write("exact/twophase.toml", RECORDING);
    fixture.write("sampled/twophase.toml", &other);
    let words = ["study", "rerecording", "--first", "exact", "--second", "sampled"];
    let study = fixture.run(&[&words[..], &["--format", "json"]].concat()).json();
    let programs = study["programs"].as_array().unwrap();
    let one = programs.iter().find(|one| one["name"] == "twophase").unwrap();
    // Below 32 KiB the power law holds, which rises with what it starts from: the greatest
    // difference is at 4 KiB, and read outside the recorded sizes.
    assert_eq!((&one["greatest_at_bytes"], &one["extrapolated"]), (&4096.into(), &true.into()));
    let text = fixture.run(&words).done();
    assert!(text.contains("first against second") && text.contains("* read in part"), "{text}");
}

#[test]
fn what_has_no_accesses_to_compare_is_refused() {
    let fixture = two_folders();
    let words = ["study", "sampling", "--exact", "exact", "--sampled"];
    fixture.run(&[&words[..], &["none"]].concat()).refused(&["none"]);
    fixture.run(&[&words[..], &["solo.csv"]].concat()).refused(&["no program in common"]);
    let tables = ["study", "sampling", "--exact", "solo.csv", "--sampled", "solo.csv"];
    fixture.run(&tables).refused(&["idler", "expected a recording"]);
    let still = flat("near", 0.0, 1.0).replace("data_accesses_pki = 400", "data_accesses_pki = 0");
    fixture.write("sampled/near.toml", &still);
    std::fs::remove_file(fixture.path("sampled/far.toml")).unwrap();
    fixture.run(&[&words[..], &["sampled"]].concat()).refused(&["near", "no data accesses"]);
    let nowhere = ["sampled", "--svg", "no/a.svg"];
    fixture.run(&[&words[..], &nowhere].concat()).refused(&["no: there is no such folder"]);
}

#[test]
fn partitions_and_clusters_are_studied_on_the_public_table() {
    let Some(solo) = public_table() else { return };
    let fixture = Fixture::new();
    let solo = solo.to_string_lossy();
    let words = ["study", "partitioning", "--profiles", &solo, "--mixes", "2"];
    let study =
        fixture.run(&[&words[..], &["--format", "json", "--report", "p.html"]].concat()).json();
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
    fixture.run(&["study", "partitioning", "--profiles", "none.csv"]).refused(&["none.csv"]);
}

/// The machines' files have the lines that the study fits, and the policies do what they are for.
#[test]
fn the_experiments_of_n_mass_stand_on_the_machines_own_lines() {
    let Some(table) = public_table() else { return };
    let fixture = Fixture::new();
    let table = table.to_string_lossy();
    let study = fixture.run(&["study", "n-mass", "--profiles", &table, "--format", "json"]).json();
    let rows = |id: &str| {
        let figures = study["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap();
        figure["rows"].as_array().unwrap().clone()
    };
    let fits = rows("fits");
    assert_eq!(fits.len(), 6, "built-in machines of several nodes");
    for row in fits {
        for (fitted, stored) in [(1, 4), (2, 5)] {
            let (fitted, stored) = (row[fitted].as_f64().unwrap(), row[stored].as_f64().unwrap());
            assert!((fitted - stored).abs() <= 1e-4, "{row}");
        }
    }
    let cases = rows("cases");
    assert_eq!(cases.len(), 9 * 8 + 2 + 3);
    for row in &cases {
        let improvement = |column: usize| row[column].as_f64().unwrap();
        assert!(improvement(2) > -5.0 && improvement(3) > -5.0, "{row}");
    }
    for row in rows("best") {
        let (best, n_mass) = (row[2].as_f64().unwrap(), row[3].as_f64().unwrap());
        // The best of all placements; where policies move, to what a second of moving is worth.
        assert!(n_mass <= best + 0.2, "{row}");
    }
}

#[test]
fn casc_is_shown_beside_the_default_at_every_size() {
    let fixture = Fixture::new();
    let study = fixture.run(&["study", "casc", "--seeds", "1", "--format", "json"]).json();
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
