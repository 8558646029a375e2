//! `corun partition`.

use serde_json::Value;

use crate::fixture::{Fixture, Ran, public_table};

const APPS: &str = "stream,needy,middle,quiet";

const POLICIES: [&str; 11] = [
    "equal-part",
    "ucp",
    "ucp-slowdown",
    "yu-petrov",
    "kpart",
    "dunn",
    "lfoc",
    "lfoc-caps",
    "lfoc-plus",
    "fair-clusters",
    "overlap-annealing",
];

/// Those whose masks may overlap.
const OVERLAPPING: [&str; 2] = ["dunn", "overlap-annealing"];

fn partition(fixture: &Fixture, apps: &str, more: &[&str]) -> Ran {
    let words = ["partition", "--profiles", "solo.csv", "--apps", apps];
    fixture.run(&[&words[..], more].concat())
}

fn by(fixture: &Fixture, apps: &str, policy: &str, more: &[&str]) -> Value {
    let words = ["--policy", policy, "--format", "json"];
    partition(fixture, apps, &[&words[..], more].concat()).json()
}

fn numbers(document: &Value, field: &str) -> Vec<f64> {
    document[field].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn masks(document: &Value) -> Vec<u64> {
    let mask = |one: &Value| u64::from_str_radix(&one.as_str().unwrap()[2..], 16).unwrap();
    document["mask"].as_array().unwrap().iter().map(mask).collect()
}

#[test]
fn the_document_is_as_it_was_agreed() {
    let fixture = Fixture::new();
    let mut document = by(&fixture, APPS, "lfoc", &[]);
    for field in ["data", "programs"] {
        assert!(document.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    insta::assert_json_snapshot!(document);
}

#[test]
fn every_policy_hands_out_all_ways_once() {
    let fixture = Fixture::new();
    for policy in POLICIES {
        let document = by(&fixture, APPS, policy, &[]);
        let (masks, ways) = (masks(&document), numbers(&document, "ways"));
        let clusters = numbers(&document, "cluster");
        assert_eq!(masks.iter().fold(0, |all, mask| all | mask), 0x7ff, "{policy}");
        for (one, mask) in masks.iter().enumerate() {
            assert_eq!(f64::from(mask.count_ones()), ways[one], "{policy}");
            for (other, another) in masks.iter().enumerate() {
                let same = clusters[one] == clusters[other];
                assert_eq!(same, mask == another, "{policy}");
                let may_overlap = ["dunn", "overlap-annealing"].contains(&policy);
                assert!(same || mask & another == 0 || may_overlap, "{policy}");
            }
        }
        assert!(document["stp"].as_f64().unwrap() <= 4.0 + 1e-9, "{policy}");
        assert_eq!(document["value"], document["stp"]);
        assert_eq!(document["proven"], Value::Null);
        assert_eq!(document["policy"], policy);
    }
}

/// Every partition by itself is what a given one of the same masks is.
#[test]
fn given_masks_are_judged_alike() {
    let fixture = Fixture::new();
    for policy in POLICIES.into_iter().filter(|&name| name != "lfoc-caps") {
        let decided = by(&fixture, APPS, policy, &["--peak-bandwidth", "35000"]);
        let text: Vec<String> = masks(&decided).iter().map(|mask| format!("{mask:#x}")).collect();
        let masks = text.join(",");
        let words = ["--masks", &masks, "--format", "json", "--peak-bandwidth", "35000"];
        let overlap: &[&str] =
            if OVERLAPPING.contains(&policy) { &["--allow-overlap"] } else { &[] };
        let given = partition(&fixture, APPS, &[&words[..], overlap].concat()).json();
        assert_eq!(given["slowdown"], decided["slowdown"], "{policy}");
        assert_eq!(given["policy"], "user");
    }
}

#[test]
fn more_ways_slow_less_and_alone_nothing_is_lost() {
    let fixture = Fixture::new();
    let needy = |masks: &str| {
        let words = ["--masks", masks, "--format", "json", "--bandwidth-model", "none"];
        numbers(&partition(&fixture, "needy,stream", &words).json(), "slowdown")[0]
    };
    let slowdowns = [needy("0x1,0x7fe"), needy("0x1f,0x7e0"), needy("0x3ff,0x400")];
    assert!(slowdowns.is_sorted_by(|a, b| a > b), "{slowdowns:?}");
    let alone = partition(&fixture, "needy", &["--masks", "0x7ff", "--format", "json"]).json();
    assert!((numbers(&alone, "slowdown")[0] - 1.0).abs() < 1e-9);
}

#[test]
fn the_llc_can_have_fewer_ways() {
    let fixture = Fixture::new();
    let document = by(&fixture, APPS, "equal-part", &["--ways", "6"]);
    assert_eq!(numbers(&document, "ways"), [2.0, 2.0, 1.0, 1.0]);
    assert_eq!(document["llc_ways"], 6);
    // As much as the whole machine's with six ways alone, against six ways.
    let alone = partition(
        &fixture,
        "needy",
        &["--masks", "0x7", "--ways", "6", "--format", "json", "--bandwidth-model", "none"],
    );
    let ipc = |ways: f64| 0.7 + (ways - 1.0) / 10.0 * 0.9;
    let slowdown = numbers(&alone.json(), "slowdown")[0];
    assert!((slowdown - ipc(6.0) / ipc(3.0)).abs() < 1e-6, "{slowdown}");
}

#[test]
fn policies_stand_side_by_side() {
    let fixture = Fixture::new();
    let document = partition(&fixture, APPS, &["--all", "--format", "json"]).json();
    let entries = document["policies"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|one| one["policy"].as_str().unwrap()).collect();
    assert!(POLICIES.iter().all(|name| names.contains(name)), "{names:?}");
    let table = partition(&fixture, APPS, &["--all"]).done();
    assert!(POLICIES.iter().all(|name| table.contains(name)), "{table}");
    let csv = partition(&fixture, APPS, &["--all", "--format", "csv"]).done();
    assert!(csv.starts_with("policy,app,class,ways") && csv.contains("\nkpart,needy,sensitive,"));
    // Twelve programs: the strict ones have none, the others have.
    let many = ["quiet"; 12].join(",");
    let table = partition(&fixture, &many, &["--all"]).done();
    assert!(table.contains("equal-part: 12 programs") && table.contains("lfoc"), "{table}");
}

#[test]
fn the_optimum_and_the_worst_enclose_every_policy() {
    let fixture = Fixture::new();
    let apps = "stream,needy,middle,needy,small,stream";
    for objective in ["stp", "unfairness", "antt", "max-slowdown", "jain", "bandwidth"] {
        for model in ["stalls", "additive"] {
            let words = ["--objective", objective, "--bandwidth-model", model];
            let value = |policy: &str, more: &[&str]| {
                let document = by(&fixture, apps, policy, &[&words[..], more].concat());
                (document["value"].as_f64().unwrap(), document)
            };
            let (best, document) = value("optimal", &["--cluster"]);
            assert_eq!(document["proven"], true, "{objective}");
            let worst = value("worst", &["--cluster"]).0;
            let (low, high) = (best.min(worst) * (1.0 - 1e-6), best.max(worst) * (1.0 + 1e-6));
            // Masks that overlap and caps are beyond what partitions can do.
            let by_partitions = |one: &&str| !OVERLAPPING.contains(one) && *one != "lfoc-caps";
            for policy in POLICIES.into_iter().filter(by_partitions) {
                let found = value(policy, &[]).0;
                assert!(
                    (low..=high).contains(&found),
                    "{objective} {policy}: {found} {low} {high}"
                );
            }
            let strict = value("optimal", &[]).0;
            assert!((low..=high).contains(&strict), "{objective}");
        }
    }
}

#[test]
fn a_single_partition_is_a_table_too() {
    let fixture = Fixture::new();
    let table = partition(&fixture, APPS, &["--policy", "lfoc"]).done();
    assert!(table.starts_with("lfoc on xeon-gold-6138, 11 ways of 2.5 MiB"), "{table}");
    assert!(table.contains("streaming") && table.contains("unfairness"), "{table}");
    let caps = ["--policy", "lfoc-caps", "--set", "target-share=0.05"];
    let table = partition(&fixture, "stream,stream,needy", &caps).done();
    assert!(table.contains("its group draws"), "{table}");
}

#[test]
fn a_proof_names_the_partitions_that_were_searched() {
    let fixture = Fixture::new();
    for (more, proven) in [
        (&["optimal"][..], "proven: no strict partition that uses all ways is better\n"),
        (&["worst"], "proven: no strict partition that uses all ways is worse\n"),
        (
            &["optimal", "--cluster"],
            "proven: no partition with clusters that uses all ways is better\n",
        ),
        (
            &["worst", "--cluster"],
            "proven: no partition with clusters that uses all ways is worse\n",
        ),
    ] {
        let table = partition(&fixture, APPS, &[&["--policy"], more].concat()).done();
        assert!(table.contains(proven), "{table}");
    }
}

#[test]
fn the_page_stands_by_itself() {
    let fixture = Fixture::new();
    partition(&fixture, APPS, &["--all", "--report", "page.html"]).done();
    let page = std::fs::read_to_string(fixture.path("page.html")).unwrap();
    assert!(page.contains("corun partition --profiles solo.csv") && page.contains("lfoc"));
    assert!(!page.contains("http://") && !page.contains("<script"));
    let missing = ["--policy", "lfoc", "--report", "none/page.html"];
    partition(&fixture, APPS, &missing).refused(&["none"]);
}

#[test]
fn parameters_can_be_set() {
    let fixture = Fixture::new();
    let apart = by(&fixture, APPS, "dunn", &["--set", "overlap=0"]);
    assert_eq!(masks(&apart).iter().fold(0, |all, mask| all | mask), 0x7ff);
    let refused = |set: &str| partition(&fixture, APPS, &["--policy", "dunn", "--set", set]);
    refused("speed=1").refused(&["speed"]);
    refused("per-cycle=1").refused(&["dunn", "per-cycle", "overlap"]);
    refused("overlap=7").refused(&["overlap", "expected 0 (off) or 1 (on)"]);
    refused("overlap=0.5").refused(&["`overlap` is 0.5: expected 0 (off) or 1 (on)"]);
    refused("overlap=of").refused(&["found `of`, expected 0 (off) or 1 (on)"]);
    refused("least-ways=1.5").refused(&["expected a whole number from 1 to 64"]);
    assert_eq!(masks(&by(&fixture, APPS, "dunn", &["--set", "overlap=off"])), masks(&apart));
    refused("overlap").refused(&["NAME=VALUE"]);
    partition(&fixture, APPS, &["--all", "--set", "overlap=0"]).done();
    partition(&fixture, APPS, &["--all", "--set", "speed=0"]).refused(&["speed"]);
}

#[test]
fn who_is_slower_than_a_target_is_told() {
    let fixture = Fixture::new();
    let told = |more: &[&str]| partition(&fixture, APPS, more).done();
    let table = told(&["--target-slowdown", "100"]);
    assert!(table.starts_with("fair-clusters on"), "{table}");
    assert!(table.contains("nobody is slower than 100"), "{table}");
    let document = partition(
        &fixture,
        "needy,needy,needy,stream",
        &["--target-slowdown", "1.01", "--format", "json"],
    )
    .json();
    assert_eq!(document["policy"], "fair-clusters");
    let slowdowns = numbers(&document, "slowdown");
    let slower: Vec<&str> = slowdowns
        .iter()
        .zip(document["apps"].as_array().unwrap())
        .filter(|one| *one.0 > 1.01)
        .map(|one| one.1.as_str().unwrap())
        .collect();
    assert!(!slower.is_empty(), "{slowdowns:?}");
    assert_eq!(document["slower_than_target"], serde_json::json!(slower));
    assert_eq!(document["target_slowdown"], 1.01);
    let table = told(&["--policy", "lfoc", "--target-slowdown", "1"]);
    assert!(table.contains("slower than 1: "), "{table}");
    let table = told(&["--all", "--target-slowdown", "1.5"]);
    assert!(table.contains("optimal-cluster: ") && table.contains("ucp: "), "{table}");
    let none = told(&["--policy", "lfoc"]);
    assert!(!none.contains("slower than"), "{none}");
    partition(&fixture, APPS, &["--target-slowdown", "0.9"]).refused(&["from 1 to"]);
}

/// The ends of the front are the partitions of the highest STP and of the least unfairness.
#[test]
fn the_front_goes_from_throughput_to_fairness() {
    let fixture = Fixture::new();
    let apps = "stream,needy,middle,needy,small";
    let words = ["--pareto", "--cluster", "--format", "json"];
    let document = partition(&fixture, apps, &words).json();
    let front = &document["pareto"];
    assert_eq!((&front["clusters"], &front["proven"]), (&true.into(), &true.into()));
    let points = front["points"].as_array().unwrap();
    let of = |place: usize, field: &str| points[place][field].as_f64().unwrap();
    let ends = [("stp", 0), ("unfairness", points.len() - 1)];
    for (objective, place) in ends {
        let best = by(&fixture, apps, "optimal", &["--cluster", "--objective", objective]);
        let (found, value) = (of(place, objective), best["value"].as_f64().unwrap());
        assert!((found - value).abs() < 1e-5 * value, "{objective}: {found} {value}");
    }
    for place in 1..points.len() {
        assert!(of(place, "stp") < of(place - 1, "stp"));
        assert!(of(place, "unfairness") < of(place - 1, "unfairness"));
    }
    let csv = partition(&fixture, apps, &["--pareto", "--cluster", "--format", "csv"]).done();
    let last = csv.lines().last().unwrap();
    assert!(last.starts_with(&format!("pareto {},", points.len())), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 5 * (1 + points.len()), "{csv}");
    let table = partition(&fixture, apps, &["--pareto", "--policy", "lfoc"]).done();
    assert!(table.starts_with("lfoc on") && table.contains("strict partitions"), "{table}");
}

#[test]
fn bad_masks_are_refused() {
    let fixture = Fixture::new();
    let refused = |masks: &str, words: &[&str]| {
        partition(&fixture, "stream,needy", &["--masks", masks]).refused(words);
    };
    refused("0x1", &["1 mask for 2 programs"]);
    refused("0x0,0x1", &["stream", "0x0", "no way"]);
    refused("0x5,0x2", &["stream", "0x5", "not contiguous"]);
    refused("0x1,0x800", &["needy", "0x800", "beyond the LLC's 11"]);
    refused("0x3,0x6", &["stream", "needy", "overlap"]);
    refused("zz,0x6", &["hexadecimal"]);
    partition(&fixture, "stream,needy", &["--masks", "0x1,0x6", "--min-ways", "2"]).refused(&[
        "stream",
        "1 way:",
        "at least 2",
    ]);
    partition(&fixture, "stream,needy", &["--masks", "0x3,0x6", "--allow-overlap"]).done();
    partition(&fixture, "stream,needy", &["--masks", "0x3,0x3"]).done();
}

#[test]
fn bad_questions_are_refused() {
    let fixture = Fixture::new();
    let refused = |apps: &str, more: &[&str], words: &[&str]| {
        partition(&fixture, apps, more).refused(words);
    };
    refused(APPS, &[], &["--policy NAME", "--masks", "--all"]);
    refused(APPS, &["--policy", "lfocs"], &["lfocs", "try: lfoc"]);
    refused(&["quiet"; 12].join(","), &["--policy", "optimal"], &["12 programs", "--cluster"]);
    refused(APPS, &["--policy", "dio"], &["dio", "places", "corun place"]);
    let many = ["quiet"; 12].join(",");
    refused(&many, &["--policy", "ucp"], &["12 programs", "11", "try: ", "lfoc"]);
    refused(APPS, &["--policy", "ucp", "--min-ways", "3"], &["4 programs", "at least 3"]);
    refused(APPS, &["--policy", "ucp", "--ways", "12"], &["stream", "1 to 11 ways", "12"]);
    refused(APPS, &["--policy", "ucp", "--ways", "0"], &["0"]);
    refused(APPS, &["--policy", "ucp", "--ways", "2", "--min-ways", "3"], &["2 ways", "3"]);
    // stream draws 2222 MB/s alone with all ways.
    refused(APPS, &["--policy", "ucp", "--peak-bandwidth", "2000"], &["stream", "2000", "peak"]);
    refused("stream,nobody", &["--policy", "ucp"], &["nobody"]);
    let more = ["quiet"; 21].join(",");
    refused(&more, &["--policy", "lfoc"], &["21 programs", "20 CPUs"]);
}

#[test]
fn a_missing_row_is_named() {
    let fixture = Fixture::new();
    let text = std::fs::read_to_string(fixture.path("solo.csv")).unwrap();
    let cut: Vec<&str> = text.lines().filter(|line| !line.starts_with("needy,7,")).collect();
    fixture.write("cut.csv", &(cut.join("\n") + "\n"));
    let words = ["partition", "--profiles", "cut.csv", "--apps", "needy", "--policy", "ucp"];
    fixture.run(&words).refused(&["cut.csv", "needy", "no row for 7 ways"]);
}

#[test]
fn recorded_programs_can_be_partitioned_on_any_machine() {
    let fixture = Fixture::new();
    let words = ["partition", "--machine", "xeon-e5-2620v4", "--apps", "xz,sort,flac,kernel-triad"];
    let document = fixture.run(&[&words[..], &["--policy", "lfoc", "--format", "json"]].concat());
    let ways = numbers(&document.json(), "ways");
    assert_eq!(ways[3], 1.0, "{ways:?}");
}

#[test]
fn policies_place_and_partition_together_in_the_simulator() {
    let fixture = Fixture::new();
    let words = ["compare", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--apps"];
    let more = ["stream,needy,middle,quiet", "--seeds", "1", "--instructions", "2000000000"];
    let policies = ["--policy", "dio,dio+lfoc,ucp", "--format", "json"];
    let document = fixture.run(&[&words[..], &more, &policies].concat()).json();
    let rows = document["policies"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert!(names.contains(&"dio+lfoc") && names.contains(&"ucp"), "{names:?}");
    let both = [&words[..], &more, &["--policy", "kpart+lfoc"]].concat();
    fixture.run(&both).refused(&["kpart", "lfoc", "both partition"]);
}

/// García García, thesis, UCM 2021, Fig. 6.1: lbm streams, xalancbmk is sensitive.
#[test]
#[ignore = "needs the public table (CORUN_SOLO_TABLE)"]
fn programs_of_the_public_table_are_partitioned() {
    let table = public_table();
    let fixture = Fixture::new();
    let run = |policy: &str| {
        let words = [
            "partition",
            "--profiles",
            &table,
            "--apps",
            "lbm06,xalancbmk06,soplex06,povray06,libquantum06,omnetpp06,milc06,gamess06",
            "--compat",
            "pbbcache",
            "--policy",
            policy,
            "--format",
            "json",
        ];
        fixture.run(&words).json()
    };
    let lfoc = run("lfoc");
    assert_eq!(lfoc["class"][0], "streaming");
    assert_eq!(lfoc["class"][1], "sensitive");
    assert_eq!(lfoc["ways"][0], 1);
    let unfairness = |document: &Value| document["unfairness"].as_f64().unwrap();
    assert!(unfairness(&lfoc) < unfairness(&run("equal-part")));
    assert!(run("ucp-slowdown")["stp"].as_f64() > run("equal-part")["stp"].as_f64());
}
