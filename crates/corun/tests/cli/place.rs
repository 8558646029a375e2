//! `corun predict` and `corun place`.

use std::path::Path;

use serde_json::Value;

use crate::fixture::{Fixture, Ran, public_table};

const APPS: &str = "stream,needy,middle,quiet";

fn figures(document: &Value, field: &str) -> Vec<f64> {
    document[field].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn predict(fixture: &Fixture, apps: &str, place: &str, more: &[&str]) -> Ran {
    let words = ["predict", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--apps"];
    fixture.run(&[&words[..], &[apps, "--place", place], more].concat())
}

fn place(fixture: &Fixture, apps: &str, policy: &str, more: &[&str]) -> Ran {
    let words = ["place", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--apps"];
    fixture.run(&[&words[..], &[apps, "--policy", policy, "--format", "json"], more].concat())
}

#[test]
fn a_program_alone_is_not_slowed() {
    let fixture = Fixture::new();
    let document = predict(&fixture, "needy", "0", &["--format", "json"]).json();
    assert!((figures(&document, "slowdown")[0] - 1.0).abs() < 1e-3, "{document}");
    assert_eq!(document["policy"], Value::Null);
    assert_eq!(document["llc"][0], 0);
}

/// The calibrated file that counts before that of all users is not this machine's.
#[test]
fn what_is_assumed_of_this_machine_is_said() {
    if Path::new("/var/lib/corun/this-machine.toml").exists() {
        println!("skipped: this machine is calibrated for all users");
        return;
    }
    let fixture = Fixture::new();
    let predict = || fixture.run(&["predict", "--machine", "this", "--apps", "xz", "--place", "0"]);
    let bare = predict();
    assert_eq!(bare.code(), 0, "{}", bare.stderr());
    assert_eq!(bare.stderr().matches("corun calibrate measures them").count(), 1);
    assert!(bare.stderr().contains("memory bandwidth is unknown: "), "{}", bare.stderr());
    assert!(!bare.stderr().contains("passed over"), "{}", bare.stderr());
    std::fs::create_dir(fixture.path("corun")).unwrap();
    let other = fixture.run(&["topology", "--machine", "i7-2600", "--format", "toml"]).done();
    fixture.write("corun/this-machine.toml", &other);
    let passed = predict();
    assert_eq!(passed.code(), 0, "{}", passed.stderr());
    assert_eq!(passed.stderr().matches("describes another machine").count(), 1);
    assert_eq!(passed.stdout(), bare.stdout());
}

#[test]
fn sharing_a_cache_with_a_streamer_hurts() {
    let fixture = Fixture::new();
    let beside = predict(&fixture, "stream,needy", "0,1", &["--format", "json"]).json();
    let apart = predict(&fixture, "stream,needy", "0,4", &["--format", "json"]).json();
    assert!(figures(&beside, "slowdown")[1] > figures(&apart, "slowdown")[1] + 0.01);
    assert_eq!(figures(&apart, "llc"), [0.0, 1.0]);
    let table = predict(&fixture, "stream,needy", "0,1", &[]).done();
    assert!(table.contains("slowdown") && table.contains("xeon-gold-6138"), "{table}");
    let csv = predict(&fixture, "stream,needy", "0,1", &["--format", "csv"]).done();
    assert!(csv.starts_with("app,cpu,llc,slowdown"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
}

#[test]
fn without_cpus_packed_and_spread_stand_side_by_side() {
    let fixture = Fixture::new();
    let words = ["predict", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv"];
    let run =
        |more: &[&str]| fixture.run(&[&words[..], &["--apps", "stream,needy"], more].concat());
    let document = run(&["--format", "json"]).json();
    let placements = document["placements"].as_array().unwrap();
    let names: Vec<&str> =
        placements.iter().map(|one| one["arrangement"].as_str().unwrap()).collect();
    assert_eq!(names, ["packed", "spread"]);
    assert_eq!(figures(&placements[0], "llc"), [0.0, 0.0]);
    assert_eq!(figures(&placements[1], "llc"), [0.0, 1.0]);
    // Each is what the same CPUs give when they are named.
    let given = predict(&fixture, "stream,needy", "0,1", &["--format", "json"]).json();
    assert_eq!(placements[0]["slowdown"], given["slowdown"]);
    let table = run(&[]).done();
    assert!(table.contains("packed: CPU") && table.contains("spread   mean slowdown"), "{table}");
    let csv = run(&["--format", "csv"]).done();
    assert!(csv.starts_with("arrangement,app,cpu,llc,slowdown"), "{csv}");
    assert_eq!(csv.lines().count(), 5);
    let nine = ["needy"; 9].join(",");
    let crowded = fixture.run(&[&words[..], &["--apps", &nine]].concat());
    crowded.refused(&["9 programs for the 8 CPUs", "corun compare"]);
}

#[test]
fn the_legend_of_marks_stands_below_marked_figures_alone() {
    let fixture = Fixture::new();
    fixture.run(&["profiles", "export", "-o", "x.csv", "xz", "gzip"]);
    fixture.run(&["profiles", "import", "x.csv", "--out-dir", "imp"]).done();
    let run = |apps: &str, format: &str| {
        let words = ["predict", "--machine", "xeon-gold-6138", "--profiles", "imp"];
        fixture.run(&[&words[..], &["--apps", apps, "--format", format]].concat()).done()
    };
    let (csv, both) = (run("xz,gzip", "csv"), run("xz,gzip", "table"));
    let row =
        |text: &str, name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    for name in ["xz", "gzip"] {
        let is_marked = row(&both, name).ends_with('*');
        assert_eq!(is_marked, row(&csv, name).ends_with(",true"), "{both}{csv}");
    }
    assert!(row(&both, "gzip").ends_with('*') && both.contains("\n* extrapolated: "), "{both}");
    let measured = run("xz", "table");
    assert!(run("xz", "csv").ends_with(",false\n") && !measured.contains('*'), "{measured}");
}

#[test]
fn models_and_laws_can_be_chosen() {
    let fixture = Fixture::new();
    let antt = |more: &[&str]| {
        let more = [&["--format", "json"], more].concat();
        let ran = predict(&fixture, "stream,stream,stream,needy", "0,1,2,3", &more);
        ran.json()["antt"].as_f64().unwrap()
    };
    let free = antt(&["--bandwidth-model", "none"]);
    let tight = antt(&["--bandwidth-model", "additive", "--peak-bandwidth", "8000"]);
    assert!(tight > free, "{tight} {free}");
    let law = |name: &str| antt(&["--bandwidth-model", "none", "--space", name]);
    assert!((law("fill-time") - law("proportional")).abs() > 1e-6);
    let pbbcache =
        predict(&fixture, "stream,needy", "0,1", &["--format", "json", "--compat", "pbbcache"]);
    assert_eq!(pbbcache.json()["data"]["space"], "whirlpool");
}

#[test]
fn bad_places_are_refused() {
    let fixture = Fixture::new();
    predict(&fixture, "stream", "x", &[]).refused(&["'--place", "expected a whole number"]);
    predict(&fixture, "stream,needy", "0", &[]).refused(&["1 CPU for 2 programs"]);
    predict(&fixture, "stream,needy", "0,99", &[]).refused(&["no CPU 99", "try: CPUs 0-7"]);
    predict(&fixture, "stream,needy", "3,3", &[]).refused(&["CPU 3 stands twice"]);
    predict(&fixture, "stream,neddy", "0,1", &[]).refused(&["neddy", "needy"]);
    predict(&fixture, "stream,needy", "0,x", &[]).refused(&["x"]);
}

#[test]
fn the_optimum_and_the_worst_enclose_every_policy() {
    let fixture = Fixture::new();
    let antt = |policy: &str| place(&fixture, APPS, policy, &[]).json()["antt"].as_f64().unwrap();
    let (best, worst) = (antt("optimal"), antt("worst"));
    assert!(best < worst);
    for policy in ["linux-default", "random", "di", "dio"] {
        let found = antt(policy);
        assert!(best - 1e-6 <= found && found <= worst + 1e-6, "{policy}: {found}");
    }
}

#[test]
fn the_optimum_is_proven_and_says_so() {
    let fixture = Fixture::new();
    let document = place(&fixture, APPS, "optimal", &["--objective", "stp"]).json();
    assert_eq!(document["objective"], "stp");
    assert_eq!(document["proven"], true);
    assert_eq!(document["gap"], 0.0);
    assert_eq!(document["value"], document["stp"]);
    assert!(document["solver_seconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(figures(&document, "cpu").len(), 4);
    // The two that hurt each other most sit apart.
    let llc = figures(&document, "llc");
    assert_ne!(llc[0], llc[1]);
    let words = ["place", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--apps", APPS];
    let unless_told = fixture.run(&words).done();
    assert!(unless_told.starts_with("optimal on "), "{unless_told}");
    assert!(unless_told.contains("\nproven: no placement is better\n"), "{unless_told}");
    let worst = fixture.run(&[&words[..], &["--policy", "worst"]].concat()).done();
    assert!(worst.contains("\nproven: no placement is worse\n"), "{worst}");
}

#[test]
fn a_program_may_stand_again() {
    let fixture = Fixture::new();
    let document = place(&fixture, "stream,stream,quiet,quiet", "optimal", &[]).json();
    let names: Vec<&str> =
        document["apps"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["stream", "stream#2", "quiet", "quiet#2"]);
    let llc = figures(&document, "llc");
    assert_ne!(llc[0], llc[1]);
}

#[test]
fn bad_decisions_are_refused() {
    let fixture = Fixture::new();
    place(&fixture, APPS, "optimum", &[]).refused(&["unknown policy `optimum`", "try: optimal"]);
    place(&fixture, APPS, "di", &["--objective", "speed"]).refused(&["speed", "unfairness"]);
    let nine = ["quiet"; 9].join(",");
    place(&fixture, &nine, "optimal", &[]).refused(&["9 programs", "8 CPUs", "try: "]);
    place(&fixture, &nine, "di", &[]).refused(&["9 programs", "8 CPUs"]);
}

#[test]
#[ignore = "needs the public table (CORUN_SOLO_TABLE)"]
fn programs_of_the_public_table_are_placed_apart() {
    let table = public_table();
    let fixture = Fixture::new();
    let document = fixture
        .run(&[
            "place",
            "--machine",
            "2x-gold-6138-4c",
            "--profiles",
            &table,
            "--apps",
            "mcf06,lbm06,namd06,povray06",
            "--policy",
            "optimal",
            "--format",
            "json",
        ])
        .json();
    let llc = figures(&document, "llc");
    assert_ne!(llc[0], llc[1]);
    assert_eq!(document["proven"], true);
}

#[test]
fn placement_and_clustering_together_beat_placement_alone() {
    let fixture = Fixture::new();
    let stp = ["--objective", "stp"];
    let alone = place(&fixture, APPS, "optimal", &stp).json();
    let together = place(&fixture, APPS, "optimal-cluster", &stp).json();
    assert_eq!(together["proven"], true);
    let value = |document: &Value| document["stp"].as_f64().unwrap();
    assert!(value(&together) > value(&alone), "{together} {alone}");
    assert!(alone.get("mask").is_none());
    let llcs = figures(&together, "llc");
    for llc in [0.0, 1.0] {
        let of = |one: &usize| llcs[*one] == llc;
        let masks = (0..llcs.len()).filter(of).map(|one| {
            let text = together["mask"][one].as_str().unwrap();
            u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
        });
        let all = masks.reduce(|all, one| all | one);
        assert!(all.is_none_or(|all| all == 0x7ff), "{together}");
    }
    let words = ["place", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv", "--apps"];
    let asked = [&words[..], &[APPS, "--policy", "optimal-cluster"]].concat();
    assert!(fixture.run(&asked).done().contains("LLC   ways"));
    let csv = fixture.run(&[&asked[..], &["--format", "csv"]].concat()).done();
    assert!(csv.starts_with("app,cpu,llc,mask,slowdown"), "{csv}");
}

#[test]
fn a_joint_optimum_that_cannot_be_had_is_refused() {
    let fixture = Fixture::new();
    let fair = place(&fixture, APPS, "optimal-cluster", &["--objective", "unfairness"]);
    fair.refused(&["unfairness", "max-slowdown"]);
    let words = ["place", "--machine", "xeon-x5365", "--apps", "xz,sort", "--policy"];
    fixture.run(&[&words[..], &["optimal-cluster"]].concat()).refused(&["share memory bandwidth"]);
}

/// The Xeon X5365 draws 41.9 W for each busy package, 5 W for each busy core and 8.1 W for each GB/s. Energy packs what
/// energy x delay spreads, and neither is known of a machine without power figures.
#[test]
fn energy_is_an_objective_where_power_is_known() {
    let fixture = Fixture::new();
    let apps = "sort,numpy,kernel-triad,hmmsearch";
    let place = |machine: &str, policy: &str, objective: &str, format: &str| {
        let words = ["place", "--machine", machine, "--apps", apps, "--policy", policy];
        fixture.run(&[&words[..], &["--objective", objective, "--format", format]].concat())
    };
    let packages = |document: &Value| {
        let mut packages: Vec<u64> =
            figures(document, "llc").iter().map(|&llc| llc as u64 / 2).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len() as f64
    };
    let mut on = Vec::new();
    for (objective, policy) in
        [("energy", "optimal"), ("energy-delay", "optimal"), ("energy", "worst"), ("antt", "di")]
    {
        let document = place("xeon-x5365", policy, objective, "json").json();
        let traffic: f64 = document["programs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["bandwidth_mb_per_s"].as_f64().unwrap() * 1e-3)
            .sum();
        let number = |field: &str| document[field].as_f64().unwrap();
        let watts = 41.9 * packages(&document) + 4.0 * 5.0 + 8.1 * traffic;
        assert!((number("power_above_idle_w") - watts).abs() < 1e-3, "{document}");
        let energy = watts / number("stp");
        assert!((number("energy_per_work_j") - energy).abs() < 1e-3, "{document}");
        let product = energy * 4.0 / number("stp");
        assert!((number("energy_delay_per_work_j") - product).abs() < 1e-3, "{document}");
        on.push((packages(&document), number("energy_per_work_j"), product));
        if policy != "di" {
            assert_eq!(document["proven"], true);
            let value = if objective == "energy" { energy } else { product };
            assert!((number("value") - value).abs() < 1e-3, "{document}");
        }
    }
    let [least, product, worst, di] = on[..] else { panic!("{on:?}") };
    assert_eq!((least.0, product.0), (1.0, 2.0));
    assert!(least.1 < product.1 && product.2 < least.2 && least.1 <= di.1 && di.1 <= worst.1);
    let table = place("xeon-x5365", "optimal", "energy", "table").done();
    assert!(table.contains(" W above idle; energy "), "{table}");
    place("opteron-2350", "optimal", "energy", "table")
        .refused(&["opteron-2350 has no power figures"]);
    place("xeon-gold-6138", "optimal-cluster", "energy", "table")
        .refused(&["xeon-gold-6138 has no power figures"]);
}

/// A package that sleeps saves most of the energy, and harms whoever shares a cache for it: the least energy within a target costs
/// more than without, and nobody is slower. A target that no placement keeps is told, with the placement that comes nearest.
#[test]
fn a_target_slowdown_is_kept_or_told() {
    let fixture = Fixture::new();
    let apps = "sort,numpy,kernel-triad,hmmsearch";
    let place = |policy: &str, more: &[&str]| {
        let words = ["place", "--machine", "xeon-x5365", "--apps", apps, "--policy", policy];
        fixture.run(&[&words[..], more].concat())
    };
    let energy = |more: &[&str]| {
        place("optimal", &[&["--objective", "energy", "--format", "json"], more].concat()).json()
    };
    let worst = |document: &Value| figures(document, "slowdown").into_iter().fold(0.0, f64::max);
    let least = place("optimal", &["--objective", "max-slowdown", "--format", "json"]).json();
    let free = energy(&[]);
    let target = (worst(&least) + worst(&free)) / 2.0;
    let kept = energy(&["--target-slowdown", &target.to_string()]);
    assert!(worst(&least) < target && target < worst(&free), "{least} {free}");
    assert!(worst(&kept) <= target, "{kept}");
    assert_eq!(
        (&kept["proven"], &kept["slower_than_target"]),
        (&true.into(), &serde_json::json!([]))
    );
    let value = |document: &Value| document["value"].as_f64().unwrap();
    assert!(value(&free) < value(&kept), "{free} {kept}");
    assert_eq!(value(&energy(&["--target-slowdown", "100"])), value(&free));

    let beyond = (worst(&least) - 1e-3).to_string();
    let told = energy(&["--target-slowdown", &beyond]);
    assert_eq!((&told["objective"], &told["proven"]), (&"max-slowdown".into(), &true.into()));
    assert_eq!(value(&told), value(&least));
    assert!(!told["slower_than_target"].as_array().unwrap().is_empty(), "{told}");
    let table = place("optimal", &["--target-slowdown", &beyond]).done();
    assert!(table.contains("proven: no placement keeps everybody to"), "{table}");
    let table = place("optimal", &["--target-slowdown", "100"]).done();
    assert!(table.contains("nobody is slower than 100"), "{table}");

    let policy = place("corun", &["--target-slowdown", "100", "--format", "json"]).json();
    assert_eq!(policy["policy"], "corun:target-slowdown=100");
    let unaware = place("di", &["--target-slowdown", "1", "--format", "json"]).json();
    assert_eq!((&unaware["policy"], &unaware["proven"]), (&"di".into(), &Value::Null));
    assert!(!unaware["slower_than_target"].as_array().unwrap().is_empty(), "{unaware}");
    place("worst", &["--target-slowdown", "2"]).refused(&["keeps to no target slowdown"]);
    place("optimal", &["--target-slowdown", "0.9"]).refused(&["from 1 to"]);
}
