//! `corun sweep`.

use assert_cmd::Command;

use crate::fixture::{Fixture, Ran};

const SWEEP: &str = r#"
machines = ["2x-gold-6138-4c"]
profiles = "solo.csv"
policies = ["linux-default", "di"]
seeds = 2
bounds = ["optimal"]
instructions = 1000000000
[[mix]]
apps = ["stream", "needy", "quiet"]
[[workloads]]
file = "workloads.csv"
"#;

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("sweep.toml"), SWEEP).unwrap();
    std::fs::write(fixture.path("workloads.csv"), "stream,middle\n").unwrap();
    fixture
}

#[test]
fn a_sweep_writes_its_results_and_knows_them_again() {
    let fixture = fixture();
    let words = ["sweep", "sweep.toml", "-o", "results", "--jobs", "2", "--format"];
    let sweep = |format: &str| fixture.run(&[&words[..], &[format]].concat());
    let document = sweep("json").json();
    assert_eq!((document["rows"].as_u64(), document["failed"].as_u64()), (Some(10), Some(0)));
    assert_eq!(document["summary"][0]["policy"], "optimal");
    let bytes = std::fs::read(fixture.path("results/results.parquet")).unwrap();
    let csv = sweep("csv").done();
    assert!(csv.starts_with("machine,policy,kind,rows,failed,mean_slowdown"), "{csv}");
    assert_eq!(csv.lines().count(), 4);
    let table = sweep("table").done();
    assert!(table.contains("All 10 rows: results/results.parquet"), "{table}");
    assert!(std::fs::read(fixture.path("results/results.parquet")).unwrap() == bytes);
}

#[test]
fn a_task_that_fails_is_told_after_the_others() {
    let fixture = fixture();
    let away = "[[app]]\nprofile = \"needy\"\nhome_node = 7\ninstructions = 1000000000\n";
    std::fs::write(fixture.path("away.toml"), away).unwrap();
    let text = format!("{SWEEP}[[mix]]\nfile = \"away.toml\"\n");
    std::fs::write(fixture.path("sweep.toml"), text).unwrap();
    let ran = fixture.run(&["sweep", "sweep.toml", "-o", "results"]);
    assert_eq!(ran.code(), 1, "{}", ran.stderr());
    assert!(ran.stdout().contains("All 15 rows"), "{}", ran.stdout());
    let why = ran.stderr();
    assert!(why.contains("5 of 15 rows failed, the first (away on"), "{why}");
}

#[test]
fn mistakes_in_a_description_are_refused_with_their_line() {
    let fixture = fixture();
    std::fs::write(fixture.path("sweep.toml"), SWEEP.replace("seeds", "seed")).unwrap();
    let ran = fixture.run(&["sweep", "sweep.toml", "-o", "results"]);
    ran.refused(&["sweep.toml:5: seed: unknown field `seed`"]);
    assert!(!fixture.path("results").exists());
}

#[test]
fn without_python_dask_is_refused_with_what_to_install() {
    let fixture = fixture();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
    let words = ["sweep", "sweep.toml", "-o", "results", "--dask", "local"];
    command.current_dir(fixture.path(".")).args(words).env("PATH", "/nowhere");
    let ran = Ran::from(command.output().unwrap());
    ran.refused(&["python3 does not start", "pip install 'corun[dask]'"]);
    let place = ["place", "--machine", "2x-gold-6138-4c", "--profiles", "solo.csv"];
    let more = ["--apps", "stream,needy", "--policy", "di", "--dask", "local"];
    fixture.run(&[&place[..], &more].concat()).refused(&["--dask is for searches"]);
}
