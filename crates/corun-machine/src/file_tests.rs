use corun_input::FileError;
use proptest::prelude::*;

use crate::{
    BandwidthDomain, BandwidthKind, CacheType, Calibration, CoreType, CpuId, Inclusion, Machine,
    MachineError, MachineSpec, NumaPenaltyFit, ObjectSpec, ObjectType, SpeedupFit,
};

const GOOD: &str = r#"version = 1
name = "m"
memory_latency_ns = [[90.0]]
offline_cpus = "9"

[[core_type]]
name = "c"
clock_mhz = 2000.0
threads = 2

[[bandwidth]]
name = "imc"
kind = "memory-controller"
stage = 0
peak_mb_per_s = 1000.0
from_cpus = "0-3"
to_nodes = [0]

[[object]]
kind = "package"

  [[object.object]]
  kind = "cache"
  level = 2
  size_kib = 512
  ways = 8
  line_bytes = 64

    [[object.object.object]]
    kind = "core"
    count = 2
"#;

fn refused(text: &str) -> FileError {
    match Machine::from_toml(text, "m.toml") {
        Err(MachineError::Invalid(error)) => {
            assert_eq!(error.file, "m.toml");
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_file_is_read_and_written_back() {
    let machine = Machine::from_toml(GOOD, "m.toml").unwrap();
    assert_eq!(machine.cpus().len(), 4);
    let again = Machine::from_toml(&machine.to_toml(), "again.toml").unwrap();
    assert_eq!(again, machine);
}

#[test]
fn errors_name_line_and_field() {
    // What is changed, the line and the field of the error, and part of what it says.
    let cases = [
        ("version = 1", "version = 2", 1, "version", "found 2, expected 1"),
        ("name = \"m\"", "name = \" \"", 2, "name", "empty"),
        ("name = \"m\"", "name = \"m\\n\"", 2, "name", "control"),
        ("name = \"m\"", "name = \"m\"\ntitle = \"\\u001b[1m\"", 3, "title", "control"),
        ("[[90.0]]", "[[-1.0]]", 3, "memory_latency_ns[0][0]", "found -1"),
        ("[[90.0]]", "[[nan]]", 3, "memory_latency_ns[0][0]", "found NaN"),
        ("[[90.0]]", "[[90.0, 90.0]]", 3, "memory_latency_ns", "expected 1 x 1"),
        ("\"9\"", "\"1,9\"", 4, "offline_cpus", "found 1"),
        ("= 2000.0", "= 0.0", 8, "core_type[0].clock_mhz", "found 0"),
        ("= 2000.0", "= 2.6", 8, "core_type[0].clock_mhz", "from 10 to 1000000 MHz"),
        ("= 2000.0", "= inf", 8, "core_type[0].clock_mhz", "found inf"),
        (
            "= 2000.0",
            "= 1e300",
            8,
            "core_type[0].clock_mhz",
            "found 1e300, expected a number from 1",
        ),
        ("= 1000.0", "= 1e-300", 15, "bandwidth[0].peak_mb_per_s", "found 1e-300"),
        ("[[90.0]]", "[[1e9]]", 3, "memory_latency_ns[0][0]", "to 1000000"),
        ("ways = 8", "latency_ns = 0.0", 26, "object[0].object[0].latency_ns", "found 0.0"),
        ("ways = 8", "latency_ns = 1e300", 26, "object[0].object[0].latency_ns", "to 1000000"),
        ("= 512", "= 99999999999999", 25, "object[0].object[0].size_kib", "expected at most"),
        ("threads = 2", "threads = 0", 9, "core_type[0].threads", "found 0"),
        ("threads = 2", "smt = \"fine-grained\"", 6, "core_type[0].threads", "found 1, expected 2"),
        ("threads = 2", "threads = 9\nsmt = \"fine-grained\"", 9, "core_type[0].threads", "2 to 8"),
        (
            "threads = 2",
            "threads = 2\nsmt = \"fine-grained\"",
            6,
            "core_type[0].reorder_buffer",
            "in order",
        ),
        ("threads = 2", "capacity = 1.5", 9, "core_type[0].capacity", "at most 1"),
        ("= 1000.0", "= -5", 15, "bandwidth[0].peak_mb_per_s", "found -5"),
        ("= 1000.0", "= 9\ntheoretical_mb_per_s = 5", 15, "bandwidth[0].peak_mb_per_s", "above"),
        ("\"0-3\"", "\"0-4\"", 16, "bandwidth[0].from_cpus", "found CPU 4"),
        ("\"0-3\"", "\"3-0\"", 16, "bandwidth[0].from_cpus", "not a CPU list"),
        ("[0]\n", "[7]\n", 17, "bandwidth[0].to_nodes", "found node 7"),
        ("[0]\n", "[0, 0]\n", 17, "bandwidth[0].to_nodes", "node 0 a second time"),
        ("level = 2", "level = 300", 24, "object[0].object[0].level", "expected 1 to 16"),
        ("= 64", "= 63", 27, "object[0].object[0].line_bytes", "a power of two"),
        ("ways = 8", "ways = 0", 26, "object[0].object[0].ways", "found 0"),
        ("ways = 8", "effective_kib = 513", 26, "object[0].object[0].effective_kib", "more than"),
        ("ways = 8", "ways = 9999", 26, "object[0].object[0].ways", "found 9999"),
        ("size_kib = 512", "size_kib = 0", 25, "object[0].object[0].size_kib", "found 0"),
        ("line_bytes = 64", "line_bytes = 0", 27, "object[0].object[0].line_bytes", "found 0"),
        ("level = 2", "level = \"x\"", 24, "object[0].object[0].level", "invalid type"),
        ("level = 2", "levl = 2", 24, "object[0].object[0].levl", "unknown field"),
        ("count = 2", "count = 0", 31, "object[0].object[0].object[0].count", "found 0"),
        ("count = 2", "count = 9000", 31, "object[0].object[0].object[0].count", "at most 8192"),
        ("count = 2", "count = 4294967295", 31, "object[0].object[0].object[0].count", "at most"),
        ("count = 2", "ways = 2", 31, "object[0].object[0].object[0].ways", "expected on a cache"),
        ("count = 2", "cpus = \"0-2\"", 31, "object[0].object[0].object[0].cpus", "found 3 CPUs"),
        (
            "count = 2",
            "count = 2\n    cpus = \"3\"",
            32,
            "object[0].object[0].object[0].cpus",
            "second core",
        ),
        (
            "count = 2",
            "core_type = \"d\"",
            31,
            "object[0].object[0].object[0].core_type",
            "one of: c",
        ),
        (
            "kind = \"package\"",
            "kind = \"core\"",
            30,
            "object[0].object[0].object[0].kind",
            "inside core",
        ),
        (
            "kind = \"package\"",
            "kind = \"cache\"\nlevel = 1\nsize_kib = 9",
            26,
            "object[0].object[0].level",
            "level 2 inside",
        ),
        (
            "kind = \"core\"",
            "kind = \"machine\"",
            30,
            "object[0].object[0].object[0].kind",
            "the file itself",
        ),
    ];
    for (old, new, line, field, part) in cases {
        assert!(GOOD.contains(old), "{old}");
        let found = refused(&GOOD.replacen(old, new, 1));
        let why = &found.why;
        assert_eq!((found.line, found.field.as_str()), (Some(line), field), "{new}: {why}");
        assert!(why.contains(part), "{new}: {why}");
    }
}

#[test]
fn a_node_is_nearest_to_its_own_memory() {
    let two = GOOD.replace("kind = \"package\"", "kind = \"numa-node\"\ncount = 2");
    let two = two.replace("from_cpus = \"0-3\"\n", "").replace("to_nodes = [0]\n", "");
    let with = |text: &str| refused(&two.replace("memory_latency_ns = [[90.0]]", text));
    let error = with("memory_latency_ns = [[185.0, 130.0], [130.0, 185.0]]");
    assert_eq!(error.field, "memory_latency_ns[0][1]", "{error}");
    let FileError { field, why, .. } = with("node_distance = [[10, 5], [5, 10]]");
    assert_eq!(field, "node_distance[0][1]");
    assert!(why.contains("found 5, nearer than the node's own 10"), "{why}");
}

#[test]
fn a_source_is_of_a_figure_that_is_there() {
    let with = |source: &str| {
        GOOD.replace("[[core_type]]", &format!("[sources]\n{source} = \"x\"\n[[core_type]]"))
    };
    for source in ["treee", "\"core_type.foo.clock_mhz\"", "power"] {
        let why = refused(&with(source)).why;
        assert!(why.contains("a figure that the file does not have"), "{source}: {why}");
    }
    for source in ["tree", "\"core_type.clock_mhz\"", "cache", "bandwidth"] {
        Machine::from_toml(&with(source), "m.toml").unwrap();
    }
}

/// A cache around one of 512 KiB, level 2 and 9 ns.
#[test]
fn caches_that_contradict_those_inside_them_are_refused() {
    let around = |outer: &str| {
        let inner = "  kind = \"cache\"\n  level = 2\n  latency_ns = 9.0";
        let text = GOOD.replacen("  kind = \"cache\"\n  level = 2", inner, 1);
        text.replacen("kind = \"package\"", &format!("kind = \"cache\"\n{outer}"), 1)
    };
    for (outer, line, field, part) in [
        ("level = 3\nsize_kib = 511\ninclusion = \"inclusive\"", 29, "size_kib", "found 512"),
        (
            "level = 3\nsize_kib = 4096\nlatency_ns = 8.9",
            28,
            "latency_ns",
            "found 9, more than the 8.9",
        ),
        ("level = 2\nsize_kib = 4096\nlatency_ns = 9.0", 27, "level", "level 2 inside"),
        ("level = 2\nholds = \"data\"\nsize_kib = 4096", 27, "level", "level 2 inside"),
    ] {
        let found = refused(&around(outer));
        let why = &found.why;
        assert_eq!(found.line, Some(line), "{outer}: {why}");
        assert_eq!(found.field, format!("object[0].object[0].{field}"), "{outer}: {why}");
        assert!(why.contains(part), "{outer}: {why}");
    }
    let measured = "[measurement]\nby = \"corun\"\nfinished = \"2026-11-21T10:00:00Z\"\nseconds = 9.0\nrounds = 2\n\
        busy_share = 0.0\ncpus = \"0\"\nhuge_pages = true\nnotes = []\n[[core_type]]";
    let noisy = around("level = 3\nsize_kib = 4096\nlatency_ns = 8.9\neffective_kib = 4100");
    let noisy = noisy.replacen("[[core_type]]", measured, 1);
    Machine::from_toml(&noisy, "this.toml").unwrap();
    for outer in [
        "level = 3\nsize_kib = 511\ninclusion = \"non-inclusive\"",
        "level = 3\nsize_kib = 511",
        "level = 3\nsize_kib = 512\ninclusion = \"inclusive\"\nlatency_ns = 9.0",
    ] {
        Machine::from_toml(&around(outer), "m.toml").unwrap();
    }
}

#[test]
fn duplicates_and_missing_parts_are_told() {
    let twice = |part: &str| refused(&GOOD.replacen(part, &format!("{part}\n{part}"), 1)).why;
    let domain = "[[bandwidth]]\nname = \"imc\"\nkind = \"link\"\nstage = 0\npeak_mb_per_s = 1.0\n";
    assert!(refused(&format!("{GOOD}\n{domain}")).why.contains("a second time"));
    assert!(
        refused(&format!("{GOOD}\n[[core_type]]\nname = \"c\"\nclock_mhz = 1.0"))
            .why
            .contains("a second time")
    );
    assert!(twice("name = \"m\"").contains("duplicate"));
    let nodes = GOOD.replace("kind = \"package\"", "kind = \"numa-node\"\ncount = 2\nos_index = 4");
    assert!(refused(&nodes).why.contains("two NUMA nodes with number 4"));
    let FileError { line, field, why, .. } = refused("version = 1");
    assert!(why.contains("missing field `name`"), "{why}");
    assert_eq!((line, field.as_str()), (None, ""), "no key that is there");
    assert!(refused("version = ").line.is_some());
    let FileError { line, field, why, .. } = refused(&GOOD.replace("size_kib = 512\n", ""));
    assert_eq!((line, field.as_str()), (Some(22), "object[0].object[0].size_kib"), "{why}");
}

#[test]
fn no_type_of_rusts_is_named() {
    for (from, to, expected) in [
        ("= 2000.0", "= \"2600\"", "expected a number"),
        ("threads = 2", "threads = 2.5", "expected a whole number"),
        ("threads = 2", "threads = 99999999999999999999", "expected a whole number"),
        ("[[90.0]]", "90.0", "expected a list"),
        ("offline_cpus = \"9\"", "[spread]\ntree = [1]\n", "expected a list of 2"),
        ("[[core_type]]", "[core_type]", "invalid type: table, expected a list"),
    ] {
        let why = refused(&GOOD.replacen(from, to, 1)).why;
        assert!(why.contains(expected) && !why.contains("i128"), "{to}: {why}");
    }
}

#[test]
fn an_error_reads_as_file_line_field_found_expected() {
    let error = Machine::from_toml(&GOOD.replace("ways = 8", "ways = 0"), "m.toml").unwrap_err();
    let text = "m.toml:26: object[0].object[0].ways: found 0, expected 1 or more";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_missing_file_is_named() {
    let error = Machine::load(std::path::Path::new("no/such.toml")).unwrap_err();
    assert!(error.to_string().starts_with("no/such.toml: "), "{error}");
}

#[test]
fn the_documentation_names_every_field() {
    let schema = concat!(include_str!("spec.rs"), include_str!("measured.rs"));
    let doc = include_str!("../../../docs/machine-file.md");
    let field = |line: &str| {
        let name = line.trim().strip_prefix("pub ")?.split_once(": ")?.0;
        Some(name.to_owned()).filter(|name| !name.contains(['(', ' ']))
    };
    // Names that a file writes otherwise.
    let renamed =
        [("core_types", "core_type"), ("bandwidth_domains", "bandwidth"), ("objects", "object")];
    let names: Vec<String> = schema.lines().filter_map(field).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let other = renamed.iter().find(|(inside, _)| *inside == name).map(|(_, written)| *written);
        let written = other.unwrap_or(&name);
        assert!(doc.contains(&format!("`{written}`")), "docs/machine-file.md lacks `{written}`");
    }
    let example = doc.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let machine = Machine::from_toml(example, "docs/machine-file.md").unwrap();
    assert_eq!(machine.llcs().len(), 2);
}

fn core_type(name: String) -> impl Strategy<Value = CoreType> {
    (1u32..4, 10.0..6000.0f64, 0.01..=1.0f64, 0u32..600, 1u32..32).prop_map(
        move |(threads, clock_mhz, capacity, reorder_buffer, outstanding_misses)| CoreType {
            capacity,
            reorder_buffer,
            outstanding_misses,
            smt_yield: (threads > 1).then_some(1.5),
            ..CoreType::new(&name, clock_mhz, threads)
        },
    )
}

fn llc(core_type: &'static str) -> impl Strategy<Value = ObjectSpec> {
    let inclusion = prop_oneof![
        Just(None),
        Just(Some(Inclusion::Inclusive)),
        Just(Some(Inclusion::NonInclusive)),
        Just(Some(Inclusion::Neither)),
    ];
    let figures = (1u32..4, 64u64..1 << 16, prop::option::of(1u32..32), inclusion);
    (figures, prop::option::of(0.01..100.0f64), 1u32..5).prop_map(
        move |((count, size_kib, ways, inclusion), latency_ns, cores)| {
            let mut core = ObjectSpec::new(ObjectType::Core);
            core.core_type = Some(core_type.to_owned());
            core.count = cores;
            let mut l1 = ObjectSpec::new(ObjectType::Cache);
            l1.level = Some(1);
            l1.holds = Some(CacheType::Data);
            l1.size_kib = Some(32);
            l1.objects = vec![core];
            let mut cache = ObjectSpec::new(ObjectType::Cache);
            cache.count = count;
            cache.level = Some(2);
            cache.size_kib = Some(size_kib);
            cache.ways = ways;
            cache.inclusion = inclusion;
            cache.latency_ns = latency_ns;
            cache.objects = vec![l1];
            cache
        },
    )
}

fn spec() -> impl Strategy<Value = MachineSpec> {
    let types = (core_type("big \"one\"".to_owned()), core_type("little".to_owned()));
    let trees = prop::collection::vec(prop_oneof![llc("big \"one\""), llc("little")], 1..4);
    (types, trees, 1u32..4, 1.0..1e6f64, "[ -~]{0,20}").prop_map(
        |((big, little), objects, nodes, peak, title)| {
            let mut node = ObjectSpec::new(ObjectType::NumaNode);
            node.count = nodes;
            node.memory_mib = Some(1024);
            node.objects = objects;
            let n = nodes as usize;
            MachineSpec {
                title,
                sources: [("tree".to_owned(), "a \"draw\"\n".to_owned())].into(),
                offline_cpus: [CpuId(9000)].into_iter().collect(),
                core_types: vec![big, little],
                memory_latency_ns: vec![vec![peak; n]; n],
                node_distance: vec![vec![10; n]; n],
                bandwidth_domains: vec![BandwidthDomain {
                    theoretical_mb_per_s: Some(peak * 1.5),
                    to_nodes: Some((0..nodes).collect()),
                    remote_only: n > 1,
                    ..BandwidthDomain::new("memory", BandwidthKind::MemoryController, 3, peak)
                }],
                calibration: (n > 1).then_some(Calibration {
                    numa_penalty: Some(NumaPenaltyFit { intercept: 1.05, per_mpki: peak * 1e-6 }),
                    link_threshold_mpki: Some(peak),
                    low_btr_mb_per_s: Some(peak * 0.5),
                    amp_threshold_ms: Some(80.0),
                    speedup_on_small: Some(SpeedupFit {
                        intercept: 2.5,
                        per_ipc: -peak * 1e-7,
                        per_mpki: 0.01,
                        per_apki: -0.002,
                    }),
                    ..Calibration::default()
                }),
                objects: vec![node],
                ..MachineSpec::new("random")
            }
        },
    )
}

proptest! {
    #[test]
    fn a_machine_survives_being_written_and_read(spec in spec()) {
        let machine = Machine::from_spec(spec.clone()).unwrap();
        let again = Machine::from_toml(&machine.to_toml(), "random").unwrap();
        prop_assert_eq!(again.spec(), &spec);
        prop_assert_eq!(again, machine);
    }

    #[test]
    fn no_text_panics(at in 0usize..GOOD.len(), cut in 0usize..40, new in ".{0,12}") {
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{new}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(error) = Machine::from_toml(&text, "m.toml") {
            prop_assert!(error.to_string().starts_with("m.toml"));
        }
    }
}
