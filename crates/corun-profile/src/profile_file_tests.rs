use proptest::prelude::*;

use super::*;
use crate::EngineKind;

pub(crate) const EXAMPLE: &str = r#"version = 1
name = "xz"

[origin]
command = ["xz", "-9", "input"]
sampling_rate = 0.01
complete = true

[[phase]]
instructions = 1000000
data_accesses_pki = 400
mix = { loads_pki = 300, stores_pki = 100, branches_pki = 150, float_pki = 0, mispredicted_pki = 5 }
prefetchable = 0.3
memory_level_parallelism = 1.5
dirty_share = 0.25
footprint_bytes = 1048576
curve = [
  [4096, 100.0],
  [8192, 60.0],
  [1048576, 1.5],
]
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    Profile::from_toml(&EXAMPLE.replacen(from, to, 1), "p.toml").unwrap_err().to_string()
}

#[test]
fn the_example_is_read() {
    let profile = Profile::from_toml(EXAMPLE, "p.toml").unwrap();
    assert_eq!(profile.name, "xz");
    assert_eq!(profile.instructions(), 1_000_000);
    assert_eq!(profile.footprint_bytes(), Some(1 << 20));
    let ProfileData::Recording(recording) = &profile.data else { panic!("expected a recording") };
    assert_eq!(recording.phases[0].threads, 1);
    assert_eq!(recording.phases[0].curve.points().len(), 3);
    assert_eq!(Profile::from_toml(&profile.to_toml(), "again").unwrap(), profile);
}

#[test]
fn figures_that_cannot_be_are_refused_with_line_and_field() {
    for (from, to, expected) in [
        ("= 0.3", "= 1.3", "p.toml:13: phase[0].prefetchable: found 1.3, expected a share"),
        ("= 0.25", "= nan", "p.toml:15: phase[0].dirty_share: found NaN, expected a share"),
        ("= 1.5\n", "= 0.5\n", "p.toml:14: phase[0].memory_level_parallelism: found 0.5"),
        ("= 400", "= -400", "p.toml:11: phase[0].data_accesses_pki: found -400, expected a"),
        ("loads_pki = 300", "loads_pki = 1e10", "p.toml:12: phase[0].mix.loads_pki: found 1"),
        (
            "= 400",
            "= 2e9",
            "p.toml:11: phase[0].data_accesses_pki: found 2000000000, expected a number from 0 to 1e9",
        ),
        (
            "= 1000000\n",
            "= 1000000\nthreads = 4000000000\n",
            "p.toml:11: phase[0].threads: found 4000000000, expected a whole number from 1 to 4194304",
        ),
        (
            "= 1.5\n",
            "= 1e7\n",
            "p.toml:14: phase[0].memory_level_parallelism: found 10000000, expected a number from 1 to 1e6",
        ),
        ("loads_pki = 300", "loads_pki = inf", "p.toml:12: phase[0].mix.loads_pki: found inf"),
        ("pki = 5 ", "pki = 500 ", "p.toml:12: phase[0].mix.mispredicted_pki: found 500"),
        ("= 1000000\n", "= 0\n", "p.toml:10: phase[0].instructions: found 0, expected"),
        ("= 0.01", "= 0", "p.toml:6: origin.sampling_rate: found 0, expected a share above 0"),
        ("8192, 60.0", "4096, 60.0", "p.toml:19: phase[0].curve[1]: curve sizes must rise"),
        (
            "8192, 60.0",
            "8192, 1e300",
            "p.toml:19: phase[0].curve[1]: the miss rate at 8192 bytes is 1e300",
        ),
        ("8192, 60.0", "8192, -1", "p.toml:19: phase[0].curve[1]: the miss rate at 8192"),
        ("4096, 100.0", "0, 1.0", "p.toml:18: phase[0].curve[0]: a curve point at 0 bytes"),
        ("\"xz\"\n", "\"a,b\"\n", "p.toml:2: name: found \"a,b\", expected a name without"),
    ] {
        let found = refusal(from, to);
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let phase = EXAMPLE.find("[[phase]]").unwrap();
    let none = Profile::from_toml(&EXAMPLE[..phase], "p.toml").unwrap_err();
    assert_eq!(none.to_string(), "p.toml: phase: found none, expected at least one");
}

#[test]
fn a_sequence_must_sum_to_its_phases() {
    for (sequence, expected) in [
        ("[[0, 999999]]", "found 999999 instructions of phase 0, expected its 1000000"),
        ("[[1, 1000000]]", "[0]: found phase 1, expected one of 1, from 0"),
        ("[[0, 1000000], [0, 0]]", "[1]: found 0 instructions, expected at least 1"),
        ("[]", "found 0 instructions of phase 0, expected its 1000000"),
    ] {
        let text = EXAMPLE.replacen("\n[origin]", &format!("sequence = {sequence}\n[origin]"), 1);
        let found = Profile::from_toml(&text, "p").unwrap_err();
        assert_eq!(found.line, Some(3));
        assert!(found.to_string().ends_with(expected), "{found}");
    }
}

#[test]
fn the_wrong_shape_is_refused_with_line_and_field() {
    for (from, to, expected) in [
        (
            "version = 1",
            "version = 3",
            "p.toml:1: version: found 3, expected 2, the version this build reads, or 1",
        ),
        ("version = 1", "version = \"1\"", "p.toml:1: version: found a string, expected 2"),
        ("version = 1\n", "", "p.toml: version: missing; expected 2"),
        ("= 1000000\n", "= \"many\"\n", "p.toml:10: phase[0].instructions: invalid type"),
        ("complete = true\n", "", "p.toml:4: origin: missing field `complete`"),
        ("dirty_share", "dirty", "p.toml:15: phase[0].dirty: unknown field `dirty`"),
        ("8192, 60.0", "8192", "p.toml:19: phase[0].curve[1]: invalid length 1"),
        ("[origin]", "[origin", "p.toml:4: no TOML: "),
    ] {
        let found = refusal(from, to);
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

/// The example with what a core needs to know of it, and system calls of some kinds.
fn with_calls(kinds: &str) -> String {
    format!(
        "{EXAMPLE}\n[phase.core]\nmispredicted_large_pki = 1.0\ninstruction_curve = [[4096, 1.0]]\n\
         page_faults_pki = 0.0\nsystem_calls_pki = 3.0\n{kinds}transferred_bytes_pki = 0.0\n"
    )
}

#[test]
fn kinds_of_system_calls_are_optional_and_parts_of_all() {
    let calls = |kinds: &str| {
        let profile = Profile::from_toml(&with_calls(kinds), "p.toml")?;
        assert_eq!(Profile::from_toml(&profile.to_toml(), "again").unwrap(), profile);
        let ProfileData::Recording(recording) = &profile.data else { panic!("a recording") };
        let core = recording.phases[0].core.as_ref().unwrap();
        let found = [core.light_calls_pki, core.mapping_calls_pki, core.sleeping_calls_pki];
        Ok::<_, FileError>(found)
    };
    assert_eq!(calls("").unwrap(), [0.0, 0.0, 0.0]);
    let all = "light_calls_pki = 0.5\nmapping_calls_pki = 1.5\nsleeping_calls_pki = 1.0\n";
    assert_eq!(calls(all).unwrap(), [0.5, 1.5, 1.0]);
    for (kinds, expected) in [
        (
            "mapping_calls_pki = 3.5\n",
            "mapping_calls_pki: found 3.5, expected at most the 3 system calls",
        ),
        (
            "sleeping_calls_pki = 3.5\n",
            "sleeping_calls_pki: found 3.5, expected at most the 3 system calls",
        ),
        ("sleeping_calls_pki = -1.0\n", "sleeping_calls_pki: found -1, expected"),
        (
            "mapping_calls_pki = 2.0\nsleeping_calls_pki = 2.0\n",
            "system_calls_pki: found 4 light, mapping and sleeping calls, expected at most the 3",
        ),
    ] {
        let found = calls(kinds).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

fn a_rate() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 1e-12..1e9f64, 0.0..1000.0f64]
}

prop_compose! {
    fn a_phase()(
        counts in (1u64..1 << 50, 1u32..1000, 0u64..1 << 50),
        rates in proptest::array::uniform5(a_rate()),
        mispredicted in 0.0..=1.0f64,
        shares in proptest::array::uniform2(0.0..=1.0f64),
        memory_level_parallelism in 1.0..40.0f64,
        points in proptest::collection::btree_map(1u64..1 << 40, a_rate(), 1..30),
        (core, cleared) in any::<(bool, bool)>(),
    ) -> Phase {
        let (instructions, threads, footprint_bytes) = counts;
        let points = points.into_iter().map(|(bytes, mpki)| CurvePoint { bytes, mpki });
        let curve = MissRateCurve::new(points.collect()).unwrap();
        Phase {
            instructions, threads, footprint_bytes, memory_level_parallelism,
            data_accesses_pki: rates[0],
            mix: InstructionMix {
                loads_pki: rates[1], stores_pki: rates[2], float_pki: rates[3],
                branches_pki: rates[4], mispredicted_pki: rates[4] * mispredicted,
            },
            prefetchable: shares[0],
            dirty_share: shares[1],
            curve: curve.clone(),
            core: core.then(|| CoreDetail {
                mispredicted_large_pki: rates[4] * mispredicted,
                instruction_curve: MissRateCurve::new(vec![CurvePoint { bytes: 64, mpki: rates[0] }])
                    .unwrap(),
                cleared_curve: cleared.then_some(curve),
                zeroed_mpki: if cleared { 0.0 } else { rates[0] },
                page_faults_pki: rates[1],
                file_faults_pki: rates[1] * mispredicted,
                system_calls_pki: rates[2],
                light_calls_pki: rates[2] * mispredicted,
                mapping_calls_pki: rates[2] * (1.0 - mispredicted) * shares[0],
                sleeping_calls_pki: rates[2] * (1.0 - mispredicted) * (1.0 - shares[0]),
                transferred_bytes_pki: rates[3],
                file_written_bytes_pki: rates[3] * mispredicted,
                micro_traces: vec![(0, shares[0]), (7, shares[1])],
            }),
        }
    }
}

prop_compose! {
    fn a_thread_and_a_cache()(
        phase in a_phase(),
        counts in (any::<u32>(), 0..=u64::from(u32::MAX), 1u32..64),
        hits_pki in proptest::collection::vec(a_rate(), 1..20),
        misses_pki in a_rate(),
    ) -> (ThreadRecord, StackDistanceProfile) {
        let thread = ThreadRecord {
            process: 0,
            thread: counts.0,
            instructions: phase.instructions,
            data_accesses_pki: phase.data_accesses_pki,
            curve: phase.curve,
        };
        let private_caches = vec![(counts.1, counts.2)];
        (thread, StackDistanceProfile {
            sets: 64, line_bytes: 64, private_caches, hits_pki, misses_pki,
        })
    }
}

prop_compose! {
    fn a_recording()(
        name in "[a-zA-Z0-9é][a-z0-9 \"'._+-]{0,8}[a-z0-9]",
        texts in proptest::array::uniform5(any::<String>()),
        sampling_rate in 1e-6..=1.0f64,
        complete: bool,
        exit_code: Option<i32>,
        counts in (any::<bool>(), 0..=i64::MAX as u64),
        phases in proptest::collection::vec(a_phase(), 1..4),
        again: bool,
        parts in proptest::option::of(a_thread_and_a_cache()),
    ) -> Profile {
        let [word, program, input, date, tracer] = texts;
        let command = vec![name.clone(), word];
        let origin = Origin {
            command, program, input, date, tracer, sampling_rate, complete, exit_code,
            engine: if complete { EngineKind::Exact } else { EngineKind::FixedRate },
            instruction_fetches: counts.0,
            untraced_processes: counts.1,
        };
        let mut recording = Recording::new(origin, phases);
        let last = recording.sequence.len() - 1;
        if again && recording.sequence[last].instructions > 1 {
            // The last phase begins the execution too.
            recording.sequence[last].instructions -= 1;
            recording.sequence.insert(0, Stretch { phase: last, instructions: 1 });
        }
        if let Some((thread, cache)) = parts {
            recording.threads.push(thread);
            recording.stack_distances.push(cache);
            let command = recording.origin.command.clone();
            recording.processes.push(ProcessRecord { command, count: 3, instructions: 7, complete });
        }
        Profile { name, data: ProfileData::Recording(recording) }
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 5e-5 * one.abs()
}

fn a_table() -> Profile {
    let values: [f64; FIGURES] = std::array::from_fn(|place| 0.5 / (place + 1) as f64);
    let rows = vec![SoloRow { ways: 1, figures: TableFigures::from_array(values) }];
    let table = SoloTable::new(MeasuredOn::xeon_gold_6138(), rows).unwrap();
    Profile { name: "a".to_owned(), data: ProfileData::Table(table) }
}

#[test]
fn bad_solo_tables_are_refused_with_line_and_field() {
    let text = a_table().to_toml();
    for (from, to, expected) in [
        ("[1, ", "[2, ", "p.toml:7: rows[0]: found the row of 2 ways, expected 1"),
        ("[1, ", "[1.5, ", "p.toml:7: rows[0]: found 1.5 ways, expected a whole number >= 1"),
        (
            "[1, 0.5, ",
            "[1, -0.5, ",
            "p.toml:7: rows[0].ipc: found -0.5, expected a number above 0 and at most 100",
        ),
        ("[1, 0.5, ", "[1, ", "p.toml:7: rows[0]: found 12 figures, expected 13"),
        ("\"ipc\"", "\"cpi\"", "p.toml:3: columns: missing column \"ipc\""),
        ("\"ipc\"", "\"ways\"", "p.toml:3: columns: found column \"ways\" twice"),
        ("= 2000.0", "= -1", "p.toml:12: measured_on.clock_mhz: found -1, expected a number > 0"),
        ("[measured_on]", "[origin]", "p.toml:12: origin.clock_mhz: unknown field"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let bad = text.replacen(from, to, 1);
        let found = Profile::from_toml(&bad, "p.toml").unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let both = format!("{text}\n[origin]\ncommand = []\nsampling_rate = 1\ncomplete = true\n");
    let found = Profile::from_toml(&both, "p.toml").unwrap_err().to_string();
    assert_eq!(
        found,
        "p.toml:20: origin: found beside measured_on: a profile is a recording or a table"
    );
}

#[test]
fn endless_nesting_is_refused() {
    let deep = format!("version = 1\nname = {}", "[".repeat(100_000));
    assert!(Profile::from_toml(&deep, "p.toml").unwrap_err().why.starts_with("no TOML"));
    let tables = format!("version = 1\n{} = 1", ["a"; 20_000].join("."));
    assert!(Profile::from_toml(&tables, "p.toml").is_err());
}

#[test]
fn a_profile_that_cannot_be_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xz.toml");
    let mut profile = Profile::from_toml(EXAMPLE, "p").unwrap();
    profile.save(&path).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
    let before = std::fs::read(&path).unwrap();
    let ProfileData::Recording(recording) = &mut profile.data else { panic!("a recording") };
    recording.phases[0].dirty_share = f64::NAN;
    assert_eq!(profile.save(&path).unwrap_err().field, "phase[0].dirty_share");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(Profile::load(&folder.path().join("none")).unwrap_err().why.contains("be read"));
}

proptest! {
    #[test]
    fn a_recording_comes_back_but_for_the_rounding(profile in a_recording()) {
        let text = profile.to_toml();
        let back = Profile::from_toml(&text, "p").unwrap();
        prop_assert_eq!(back.to_toml(), text);
        prop_assert_eq!(&back.name, &profile.name);
        let (ProfileData::Recording(back), ProfileData::Recording(first)) =
            (back.data, profile.data) else { panic!("expected recordings") };
        prop_assert_eq!(back.origin, first.origin);
        prop_assert_eq!(&back.sequence, &first.sequence);
        prop_assert_eq!(&back.processes, &first.processes);
        for (back, first) in back.threads.iter().zip(&first.threads) {
            prop_assert_eq!((back.thread, back.instructions), (first.thread, first.instructions));
        }
        for (back, first) in back.stack_distances.iter().zip(&first.stack_distances) {
            prop_assert_eq!(&back.private_caches, &first.private_caches);
            prop_assert!(close(first.misses_pki, back.misses_pki));
            prop_assert_eq!(back.ways(), first.ways());
        }
        prop_assert_eq!(back.threads.len(), first.threads.len());
        prop_assert_eq!(back.phases.len(), first.phases.len());
        for (back, first) in back.phases.iter().zip(&first.phases) {
            prop_assert_eq!(back.instructions, first.instructions);
            prop_assert_eq!(back.threads, first.threads);
            prop_assert_eq!(back.footprint_bytes, first.footprint_bytes);
            prop_assert!(close(first.mix.float_pki, back.mix.float_pki));
            prop_assert!(close(first.memory_level_parallelism, back.memory_level_parallelism));
            for (back, first) in back.curve.points().iter().zip(first.curve.points()) {
                prop_assert_eq!(back.bytes, first.bytes);
                prop_assert!(close(first.mpki, back.mpki));
            }
        }
    }

    #[test]
    fn a_table_comes_back_the_same(
        values in proptest::collection::vec(
            (1e-9..100f64, proptest::array::uniform7(a_rate()),
             proptest::array::uniform4(0.0..=1.0f64)), 1..12),
        inclusive_llc: bool,
    ) {
        let rows = values.into_iter().zip(1..).map(|((ipc, rates, shares), ways)| {
            let mut values = [ipc; FIGURES];
            values[1..8].copy_from_slice(&rates);
            values[2] = values[2].min(2.0 * values[1]);
            values[8..].copy_from_slice(&shares);
            SoloRow { ways, figures: TableFigures::from_array(values) }
        });
        let machine = MeasuredOn { inclusive_llc, ..MeasuredOn::xeon_gold_6138() };
        let table = SoloTable::new(machine, rows.collect()).unwrap();
        let profile = Profile { name: "a".to_owned(), data: ProfileData::Table(table) };
        prop_assert_eq!(Profile::from_toml(&profile.to_toml(), "p").unwrap(), profile);
    }

    #[test]
    fn random_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(Profile::from_toml(&text, "p").is_err());
    }

    #[test]
    fn a_damaged_file_never_panics(
        at in 0..EXAMPLE.len(), len in 0usize..20, put in "[\\[\\]{}=\"0-9a-z\\-.\n]{0,6}",
    ) {
        // The example is ASCII: any index is a character's border.
        let end = (at + len).min(EXAMPLE.len());
        let damaged = format!("{}{put}{}", &EXAMPLE[..at], &EXAMPLE[end..]);
        if let Ok(profile) = Profile::from_toml(&damaged, "p") {
            let written = profile.to_toml();
            let again = Profile::from_toml(&written, "again").unwrap();
            prop_assert_eq!(again.to_toml(), written);
        }
    }
}

#[test]
fn damaged_micro_traces_are_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.toml");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/sort.toml");
    let good = std::fs::read_to_string(shipped).unwrap();
    let (head, data) = good.split_once("data = \"\"\"\n").unwrap();
    let line = head.lines().count() + 1;
    std::fs::write(&path, &good).unwrap();
    Profile::load(&path).unwrap();
    let (begin, rest) = data.split_at(4000);
    let damaged = format!("{head}data = \"\"\"\n{begin}{}{}", "AAAA".repeat(10), &rest[40..]);
    std::fs::write(&path, damaged).unwrap();
    let error = Profile::load(&path).unwrap_err().to_string();
    let expected = format!("{}:{line}: micro_traces.data: damaged: ", path.display());
    assert!(error.starts_with(&expected), "{error}; expected {expected}");
}
