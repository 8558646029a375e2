//! The fuzz targets over their kept corpus, and over inputs made from it by a seeded generator: what `make fuzz`
//! searches for longer, with a compiler for fuzzing. An input that once broke a parser belongs into its corpus.

// A target begins with `#![no_main]`, which means something to a crate of its own alone.
#![allow(unused_attributes)]

// The targets are written for this crate; here its macro makes each a function.
extern crate self as libfuzzer_sys;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Inputs made from the corpus, for each target.
const MADE: usize = 400;
/// The longest input that is made.
const MOST_BYTES: usize = 1 << 14;

// `no_main` is for the fuzzer's own binaries.
#[path = "../../../../fuzz/fuzz_targets/cgroup_tree.rs"]
mod cgroup_tree;
#[path = "../../../../fuzz/fuzz_targets/cpu_list.rs"]
mod cpu_list;
#[path = "../../../../fuzz/fuzz_targets/event_name.rs"]
mod event_name;
#[path = "../../../../fuzz/fuzz_targets/extender_request.rs"]
mod extender_request;
#[path = "../../../../fuzz/fuzz_targets/fleet_file.rs"]
mod fleet_file;
#[path = "../../../../fuzz/fuzz_targets/hwloc_xml.rs"]
mod hwloc_xml;
#[path = "../../../../fuzz/fuzz_targets/journal.rs"]
mod journal;
#[path = "../../../../fuzz/fuzz_targets/kernel_types.rs"]
mod kernel_types;
#[path = "../../../../fuzz/fuzz_targets/machine_file.rs"]
mod machine_file;
#[path = "../../../../fuzz/fuzz_targets/machine_tree.rs"]
mod machine_tree;
#[path = "../../../../fuzz/fuzz_targets/micro_traces.rs"]
mod micro_traces;
#[path = "../../../../fuzz/fuzz_targets/mix_file.rs"]
mod mix_file;
#[path = "../../../../fuzz/fuzz_targets/profile_file.rs"]
mod profile_file;
#[path = "../../../../fuzz/fuzz_targets/recording.rs"]
mod recording;
#[path = "../../../../fuzz/fuzz_targets/schemata.rs"]
mod schemata;
#[path = "../../../../fuzz/fuzz_targets/solo_csv.rs"]
mod solo_csv;
#[path = "../../../../fuzz/fuzz_targets/sweep_description.rs"]
mod sweep_description;
#[path = "../../../../fuzz/fuzz_targets/trace_file.rs"]
mod trace_file;

/// A target as a function of any bytes; what is no text is none that a target over texts reads.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub(crate) fn run($bytes: &[u8]) $body
    };
    (|$text:ident: &str| $body:block) => {
        pub(crate) fn run(bytes: &[u8]) {
            if let Ok($text) = std::str::from_utf8(bytes) $body
        }
    };
}

/// A test for each target.
macro_rules! run {
    ($($target:ident,)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];
        $(#[test]
        fn $target() {
            run_target(stringify!($target), $target::run);
        })*
    };
}

run! {
    cgroup_tree,
    cpu_list,
    event_name,
    extender_request,
    fleet_file,
    hwloc_xml,
    journal,
    kernel_types,
    machine_file,
    machine_tree,
    micro_traces,
    mix_file,
    profile_file,
    recording,
    schemata,
    solo_csv,
    sweep_description,
    trace_file,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn run_target(name: &str, target: fn(&[u8])) {
    let corpus = folder("corpus").join(name);
    let files = names(&corpus);
    let inputs: Vec<Vec<u8>> =
        files.iter().map(|file| std::fs::read(corpus.join(file)).unwrap()).collect();
    for (file, input) in files.iter().zip(&inputs) {
        // The test's output names the input that a panic is about.
        println!("{name}/{file}");
        target(input);
    }
    let seed = name.bytes().fold(0, |seed: u64, byte| seed.rotate_left(7) ^ u64::from(byte));
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for number in 0..MADE {
        let made = mutated(&inputs, &mut random);
        let caught = std::panic::catch_unwind(|| target(&made));
        assert!(caught.is_ok(), "input {number} broke {name}: {}", made.escape_ascii());
    }
}

/// An input of the corpus with some places changed: bytes, pieces left out, doubled or taken from another.
fn mutated(inputs: &[Vec<u8>], random: &mut Pcg64Mcg) -> Vec<u8> {
    let any = |random: &mut Pcg64Mcg| &inputs[random.random_range(0..inputs.len())];
    let mut made = any(random).clone();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=made.len());
        let end = (at + random.random_range(0..=32)).min(made.len());
        match random.random_range(0..6) {
            0 => made.truncate(at),
            1 => drop(made.drain(at..end)),
            2 => {
                let piece = made[at..end].to_vec();
                made.splice(at..at, piece);
            }
            3 => {
                let other = any(random);
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(0..=64)).min(other.len());
                made.splice(at..end, other[from..to].iter().copied());
            }
            4 => {
                let number = ["0", "-1", "1e308", "NaN", "18446744073709551616", "\u{1b}"];
                made.splice(at..at, number[random.random_range(0..6)].bytes());
            }
            _ => {
                if let Some(byte) = made.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
        }
    }
    made.truncate(MOST_BYTES);
    made
}

#[test]
fn each_target_has_a_corpus_an_entry_and_a_test() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|&name| name.to_owned()).collect();
    let files = names(&folder("fuzz_targets"));
    let files: BTreeSet<String> =
        files.iter().map(|file| file.strip_suffix(".rs").unwrap().to_owned()).collect();
    assert_eq!(files, listed);
    assert_eq!(names(&folder("corpus")), listed);
    let manifest = std::fs::read_to_string(folder("Cargo.toml")).unwrap();
    for name in &listed {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(!names(&folder("corpus").join(name)).is_empty(), "{name}");
    }
}
