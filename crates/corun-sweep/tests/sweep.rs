//! Sweeps on this machine: the same bytes whoever does what and when, resumed, and with tasks that
//! fail.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corun_app::Error;
use corun_input::TomlFile as _;
use corun_profile::Library;
use corun_sweep::{
    Description, LockedFolder, RESULTS, Runner, Store, SweepPlan, SweepRow, TaskKind, run_here,
    summaries,
};

const SMALL: &str = r#"
machines = ["xeon-x5365", "xeon-e5520"]
policies = ["linux-default", "di", { name = "random" }]
seeds = 2
bounds = ["worst", "optimal"]
instructions = 2000000000
[[mix]]
name = "named"
apps = ["sort", "flac", "xz"]
[[random]]
size = 4
count = 3
seed = 5
from = ["sort", "flac", "xz", "numpy", "perl", "gzip"]
"#;

fn plan(text: &str) -> SweepPlan {
    let description = Description::from_toml(text, "sweep.toml").unwrap();
    SweepPlan::new(&description, Path::new(".")).unwrap()
}

fn swept(text: &str, folder: &Path, jobs: usize) -> (Vec<SweepRow>, Vec<u8>, usize) {
    let runner = Runner::new(plan(text)).unwrap();
    let mut store = Store::open(folder).unwrap();
    let pending = store.pending(runner.plan(), runner.tasks());
    let mut done = 0;
    let stop = AtomicBool::new(false);
    run_here(&runner, &mut store, &pending, jobs, &stop, |more| done += more).unwrap();
    assert_eq!(done, pending.len());
    let rows = store.finish(runner.plan(), runner.tasks()).unwrap();
    (rows, std::fs::read(folder.join(RESULTS)).unwrap(), done)
}

fn refused(text: &str) -> String {
    match Description::from_toml(text, "sweep.toml") {
        Err(error) => error.to_string(),
        Ok(description) => match SweepPlan::new(&description, Path::new(".")) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted: {text}"),
        },
    }
}

#[test]
fn the_same_inputs_give_the_same_bytes_on_any_number_of_threads() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (rows, bytes, done) = swept(SMALL, one.path(), 1);
    let (_, again, _) = swept(SMALL, two.path(), 3);
    assert!(bytes == again);
    // Two machines, four mixes; three policies with two seeds, and one task for both bounds.
    assert_eq!((done, rows.len()), (2 * 4 * 7, 2 * 4 * 8));
    assert!(rows.iter().all(|row| row.error.is_none() && row.mean_slowdown >= Some(1.0 - 1e-9)));
    let optimal: Vec<&SweepRow> = rows.iter().filter(|row| row.kind == "optimal").collect();
    assert!(optimal.len() == 8 && optimal.iter().all(|row| row.proven == Some(true)));
    // A second time there is nothing to do, and the file stays as it is.
    let (_, third, done) = swept(SMALL, one.path(), 2);
    assert!(done == 0 && third == bytes);
    let summaries = summaries(&rows);
    assert_eq!(summaries.len(), 2 * 5);
    assert!(summaries.iter().all(|line| line.failed == 0 && line.rows > 0));
}

#[test]
fn a_sweep_that_was_interrupted_goes_on_where_it_was() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, bytes, all) = swept(SMALL, whole.path(), 2);
    let runner = Runner::new(plan(SMALL)).unwrap();
    let mut store = Store::open(broken.path()).unwrap();
    let pending = store.pending(runner.plan(), runner.tasks());
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let tell = |more: usize| {
        done.fetch_add(more, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
    };
    let ended = run_here(&runner, &mut store, &pending, 1, &stop, tell);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    let done = done.into_inner();
    assert!(done > 0 && done < all, "{done} of {all}");
    drop(store);
    let (_, resumed, rest) = swept(SMALL, broken.path(), 2);
    assert_eq!(rest, all - done);
    assert!(resumed == bytes);
    assert!(!broken.path().join("parts").exists());
}

/// More of a sweep computes the difference alone, and less loses nothing.
#[test]
fn what_is_done_is_known_by_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes, all) = swept(SMALL, folder.path(), 2);
    let more = SMALL.replace("seeds = 2", "seeds = [1, 2, 7]");
    let (_, _, done) = swept(&more, folder.path(), 2);
    assert_eq!(done, 2 * 4 * 3);
    let (_, again, done) = swept(SMALL, folder.path(), 2);
    assert!(done == 0 && again == bytes);
    let (_, _, done) = swept(&more, folder.path(), 2);
    assert_eq!(done, 0);
    let other = SMALL.replace("instructions = 2000000000", "instructions = 2000000001");
    let (_, _, done) = swept(&other, folder.path(), 2);
    assert_eq!(done, all);
}

#[test]
fn every_input_is_in_the_hash() {
    let hashes = |text: &str| -> BTreeSet<String> {
        let plan = plan(text);
        plan.tasks().iter().map(|task| plan.hash(task)).collect()
    };
    let own = hashes(SMALL);
    assert_eq!(own.len(), plan(SMALL).tasks().len());
    for (from, to) in [
        ("seeds = 2", "seeds = [8, 9]"),
        ("instructions = 2000000000", "instructions = 3000000000"),
        ("[[mix]]", "[model]\nbandwidth = \"stalls\"\n[[mix]]"),
        ("seeds = 2", "seeds = 2\nmethod = \"first-run\""),
    ] {
        let other = hashes(&SMALL.replace(from, to));
        let same = own.intersection(&other).count();
        let bounds = if to.contains("[8, 9]") { 2 * 4 } else { 0 };
        assert_eq!(same, bounds, "{from} -> {to}");
    }
    let tuned = SMALL.replace(r#"{ name = "random" }"#, r#""random""#);
    assert_eq!(hashes(&tuned), own);
}

#[test]
fn a_task_that_fails_loses_no_other() {
    let text = r#"
machines = ["xeon-x5365"]
policies = ["linux-default"]
bounds = ["optimal"]
[[mix]]
apps = ["sort"]
[[mix]]
file = "away.toml"
"#;
    let folder = tempfile::tempdir().unwrap();
    // Node 7 is not there, which shows only where the mix meets the machine.
    let mix = "[[app]]\nprofile = \"xz\"\nhome_node = 7\ninstructions = 1000000000\n";
    std::fs::write(folder.path().join("away.toml"), mix).unwrap();
    let description = Description::from_toml(text, "sweep.toml").unwrap();
    let runner = Runner::new(SweepPlan::new(&description, folder.path()).unwrap()).unwrap();
    let out = folder.path().join("out");
    let stop = AtomicBool::new(false);
    for _ in 0..2 {
        let mut store = Store::open(&out).unwrap();
        let pending = store.pending(runner.plan(), runner.tasks());
        run_here(&runner, &mut store, &pending, 2, &stop, |_| {}).unwrap();
        let rows = store.finish(runner.plan(), runner.tasks()).unwrap();
        let failed: Vec<&SweepRow> = rows.iter().filter(|row| row.error.is_some()).collect();
        assert_eq!((rows.len(), failed.len()), (4, 2));
        let why = failed[0].error.as_deref().unwrap();
        assert!(why.contains("home_node") && failed[0].mix == "away", "{why}");
    }
    // What failed is tried again.
    let store = Store::open(&out).unwrap();
    assert_eq!(store.pending(runner.plan(), runner.tasks()).len(), 2);
}

#[test]
fn generators_give_what_they_say() {
    let text = r#"
profiles = "library"
machines = ["xeon-x5365"]
policies = ["di"]
[[combinations]]
size = 2
from = ["sort", "xz", "flac", "numpy"]
[[random]]
size = 12
count = 1
from = ["sort", "xz"]
repeats = true
[[classes]]
count = 2
sensitive = 1
light_sharing = 2
[[workloads]]
file = "workloads.csv"
"#;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("workloads.csv"), "sort, xz\n# none\nflac,flac\n").unwrap();
    // To classify a program takes some tenths of a second.
    std::fs::create_dir(folder.path().join("library")).unwrap();
    let shipped = Library::shipped().unwrap();
    for name in ["sort", "xz", "flac", "numpy", "perl", "gzip", "sqlite3", "igraph"] {
        let file = folder.path().join("library").join(format!("{name}.toml"));
        std::fs::write(file, shipped.get(name).unwrap().to_toml()).unwrap();
    }
    let description = Description::from_toml(text, "sweep.toml").unwrap();
    let plan = SweepPlan::new(&description, folder.path()).unwrap();
    // Six pairs, of which the file has one again.
    assert_eq!(plan.tasks().len(), 6 + 1 + 2 + 1);
    assert!(plan.tasks().iter().all(|task| matches!(task.ask, TaskKind::Run { seed: 1, .. })));
    let sent = SweepPlan::from_bytes(&plan.to_bytes()).unwrap();
    assert_eq!(sent, plan);
    let hashes: Vec<String> = plan.tasks().iter().map(|task| plan.hash(task)).collect();
    let again = SweepPlan::new(&description, folder.path()).unwrap();
    assert!(again.tasks().iter().map(|task| again.hash(task)).eq(hashes));
}

#[test]
fn a_policy_that_is_not_for_a_machine_is_left_out_there() {
    let machines = "machines = [\"xeon-x5365\", \"xeon-e5520\"]";
    let plan = plan(&format!("{machines}\npolicies = [\"n-mass\"]\n[[mix]]\napps = [\"xz\"]"));
    assert_eq!((plan.tasks().len(), plan.unfit().len()), (1, 1));
    assert!(plan.unfit()[0].why.starts_with("n-mass on xeon-x5365: "), "{:?}", plan.unfit());
}

#[test]
fn a_plan_of_another_version_is_refused() {
    let mut plan = plan(SMALL);
    plan.version = "0.0.7".to_owned();
    let error = SweepPlan::from_bytes(&plan.to_bytes()).unwrap_err().to_string();
    assert!(error.contains("made by corun 0.0.7, and this is corun"), "{error}");
    assert!(SweepPlan::from_bytes(b"no plan").is_err());
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let small = |from: &str, to: &str| refused(&SMALL.replace(from, to));
    let tuned = "{ name = \"di\", parameters = { x = 1.0 } }";
    let with = |value: &str| {
        let tuned = format!("{{ name = \"corun\", parameters = {{ objective = {value} }} }}");
        small("{ name = \"random\" }", &tuned)
    };
    for (error, expected) in [
        (small("[[random]]", "[[randon]]"), "unknown field `randon`"),
        (small("count = 3", "cuont = 3"), "unknown field `cuont`"),
        (small("count = 3", "count = 0"), "random[0].count: found 0, expected 1 to"),
        (small("seeds = 2", "seeds = \"many\""), "a number of seeds, from 1 up, or a list"),
        (small("seeds = 2", "seeds = 0"), "sweep.toml:4: seeds: found 0 seeds"),
        (small("\"di\"", "\"dii\""), "unknown policy `dii`"),
        (small("{ name = \"random\" }", tuned), "`x`"),
        (with("\"speed\""), "parameters.objective: found `speed`, expected 0 (mean-slowdown), 1"),
        (with("1.5"), "parameter `objective` is 1.5: expected 0 (mean-slowdown), 1 "),
        (with("true"), "expected a number or the name of a choice"),
        (small("{ name = \"random\" }", "3"), "expected a policy's name, or { name = "),
        (small("\"xz\"", "\"xzz\""), "xzz"),
        (small("xeon-e5520", "xeon-e5521"), "xeon-e5521"),
        (small("size = 4", "size = 4000"), "expected at least 4000"),
        (small("\"xeon-x5365\", \"xeon-e5520\"", ""), "machines: found none"),
        (small("instructions", "version = 2\ninstructions"), "version: found 2, expected 1"),
        (small("[[mix]]", "[model]\nspace = \"square\"\n[[mix]]"), "space"),
        (
            small("[[mix]]", "[model]\npbbcache = true\nbandwidth = \"stalls\"\n[[mix]]"),
            "sweep.toml:9: model.bandwidth: pbbcache chooses space, bandwidth",
        ),
        (
            small("\"sort\", \"flac\", \"xz\"]\n[[random", "]\n[[random"),
            "mix[0].apps: found no program and no file",
        ),
        (small("name = \"named\"", "file = \"x.toml\""), "expected either apps or file"),
        (
            small(
                "from = [\"sort\", \"flac\", \"xz\", \"numpy\", \"perl\", \"gzip\"]",
                "from = []",
            ),
            "random[0].from: found none",
        ),
    ] {
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
    let start = "machines = [\"xeon-x5365\"]\npolicies = [\"di\"]";
    let all = refused(&format!("{start}\n[[combinations]]\nsize = 9"));
    assert!(all.contains("found more than 1000000 mixes"), "{all}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let empty = format!("{start}\n[[workloads]]\nfile = {:?}", file.path());
    assert!(refused(&empty).contains(": found no mix, expected lines"), "{}", refused(&empty));
    let many = "machines = [\"xeon-x5365\"]\npolicies = [\"di\"]\nseeds = 10000\n[[random]]\nsize = 4\ncount = 1001";
    let many = refused(many);
    assert!(many.starts_with("found 10010000 tasks, expected at most"), "{many}");
    let none = refused(start);
    assert!(none.contains("found no mix"), "{none}");
}

#[test]
fn a_folder_is_one_sweep_s_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = LockedFolder::new(folder.path()).unwrap();
    let error = LockedFolder::new(folder.path()).unwrap_err().to_string();
    assert!(error.contains("another sweep writes its results there"), "{error}");
    drop(first);
    assert!(LockedFolder::new(folder.path()).is_ok());
}

#[test]
fn a_folder_with_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(RESULTS), "not mine").unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no results of a sweep"), "{error}");
    let error = Store::open(&folder.path().join(RESULTS)).unwrap_err();
    let error = Error::from(error).report();
    assert_eq!(error.matches("os error").count(), 1, "{error}");
    assert_eq!(std::fs::read(folder.path().join(RESULTS)).unwrap(), b"not mine");
}
