use corun_input::FileError;

use crate::{
    AccessRates, ExecutionLatencies, Fetching, KernelCosts, LineTransfer, LoadedLatency, Machine,
    MachineError, MachineSpec, Measurement, Prefetching, Tlb,
};

/// A machine file with everything that can be measured.
const MEASURED: &str = r#"version = 1
name = "m"
memory_latency_ns = [[120.0]]

[spread]
"core_type.c.clock_mhz" = [3900.0, 4100.0]
"memory_latency_ns.0.0" = [115.0, 131.5]
"core_type.c.tlb.L2.entries" = [1400.0, 1600.0]
"cache.L2.rates.read_mb_per_s" = [1.0, 2.0]

[measurement]
by = "corun 0.1.0"
finished = "2026-11-21T10:00:00Z"
seconds = 95.5
rounds = 20
busy_share = 0.01
cpus = "0-1"
huge_pages = true
notes = ["one LLC: no latency between LLCs"]

[prediction_error]
by = "corun 0.1.0"
finished = "2026-11-22T10:00:00Z"
programs = 46
mean_error = 0.25
rank_correlation = 0.9
busy_share = 0.04
slowdowns = 12
mean_slowdown_error = 0.04

[[core_type]]
name = "c"
clock_mhz = 4000.0
clock_alone_mhz = 4200.0
clock_burst_mhz = 4300.0
large_predictor_share = 0.75
outstanding_llc_hits = 32
fetch_width = 6.0
fuses_branches = false
runs_wrong_path = false
store_buffer = 114
page_walk_cycles = 30.0
memory_page_walk_cycles = 200.0
memory_page_walk_pages = 32768

[core_type.execution]
integer_multiply_cycles = 3.0
integer_divide_cycles = 18.0
fp_add_cycles = 3.0
fp_multiply_cycles = 3.0
fp_divide_cycles = 13.0
fp_multiply_add_cycles = 4.0
vector_add_cycles = 1.0
load_cycles = 4.0
store_forward_cycles = 7.0
stack_forward_cycles = 1.0
vector_load_cycles = 6.0
transfer_cycles = 2.0
vector_forward_cycles = 9.0
additions_per_cycle = 4.75
fp_adds_per_cycle = 2.0
fp_multiplies_per_cycle = 2.0
vector_adds_per_cycle = 3.0
vector_shuffles_per_cycle = 2.0

[core_type.fetching]
taken_branch_cycles = [[4, 1.0], [16, 2.0]]
line_crossing_cycles = 1.0
private_line_cycles = 5.0
llc_line_cycles = 22.0

[[core_type.tlb]]
level = 1
page_kib = 4
entries = 64

[[core_type.tlb]]
level = 2
page_kib = 4
entries = 1536
hit_cycles = 7.0

[core_type.prefetching]
hidden_by_stride = [[1, 0.95], [-1, 0.9], [4, 0.1]]
hidden_in_random_pages = 0.6
next_line = 0.8
streams = 16

[core_type.memory_rates]
read_mb_per_s = 20000.0
write_mb_per_s = 10000.0
non_temporal_write_mb_per_s = 12000.0
copy_mb_per_s = 18000.0
mixed_mb_per_s = 19000.0
random_read_mb_per_s = 6000.0

[[core_type.own_loaded_latency]]
mb_per_s = 500.0
latency_ns = 120.0
low_ns = 118.0
high_ns = 125.0

[[bandwidth]]
name = "imc"
kind = "memory-controller"
stage = 0
peak_mb_per_s = 30000.0

[bandwidth.rates]
read_mb_per_s = 30000.0

[[bandwidth.loaded_latency]]
mb_per_s = 500.0
latency_ns = 120.0
low_ns = 118.0
high_ns = 125.0

[[bandwidth.loaded_latency]]
mb_per_s = 25000.0
latency_ns = 180.0
low_ns = 170.0
high_ns = 250.0

[line_transfer]
same_core_ns = 10.0
same_llc_ns = 40.0
other_llc_ns = 90.0
other_node_ns = 150.0

[kernel]
page_fault_ns = 500.0
page_fault_memory_share = 0.25
huge_page_fault_ns = 90000.0
file_fault_ns = 6000.0
system_call_ns = 80.0
file_call_ns = 400.0
mapping_call_ns = 2500.0
sleeping_call_ns = 14000.0
transfer_ns_per_byte = 0.08
file_write_ns_per_byte = 0.4
process_ns = 300000.0

[[object]]
kind = "cache"
level = 2
size_kib = 512
inclusion = "non-inclusive"
effective_kib = 500
single_use_life = 0.25
random_use_life = 0.75
rates = { read_mb_per_s = 100000.0 }
  [[object.object]]
  kind = "core"
  count = 2
"#;

#[test]
fn all_that_can_be_measured_is_read_and_written_back() {
    let machine = Machine::from_toml(MEASURED, "m.toml").unwrap();
    let again = Machine::from_toml(&machine.to_toml(), "again.toml").unwrap();
    assert_eq!(again, machine);
    assert_eq!(machine.unmeasured(), [""; 0]);
    let spec = machine.spec();
    assert_eq!(spec.spread["memory_latency_ns.0.0"], (115.0, 131.5));
    assert_eq!(machine.llcs()[0].cache.unwrap().effective_bytes, Some(500 * 1024));
    assert_eq!(machine.llcs()[0].cache.unwrap().single_use_life, 0.25);
    assert_eq!(machine.llcs()[0].cache.unwrap().random_use_life, Some(0.75));
    assert_eq!(spec.core_types[0].tlb[1].hit_cycles, 7.0);
    let figures = spec.figures();
    for figure in [
        "core_type.c.clock_burst_mhz",
        "core_type.c.fetch_width",
        "core_type.c.fuses_branches",
        "core_type.c.runs_wrong_path",
        "core_type.c.store_buffer",
        "core_type.c.execution.fp_divide_cycles",
        "core_type.c.tlb",
        "core_type.c.memory_rates.copy_mb_per_s",
        "bandwidth.imc.loaded_latency",
        "cache.L2.effective_kib",
        "cache.L2.single_use_life",
        "cache.L2.random_use_life",
        "cache.L2.rates.read_mb_per_s",
        "line_transfer.other_llc_ns",
        "kernel.system_call_ns",
    ] {
        assert!(figures.iter().any(|known| known == figure), "{figure}: {figures:?}");
    }
}

#[test]
fn errors_in_measured_parts_name_their_field() {
    let cases = [
        ("mean_error = 0.25", "mean_error = -1.0", "prediction_error.mean_error", "found -1"),
        ("busy_share = 0.04", "busy_share = 1.04", "prediction_error.busy_share", "found 1.04"),
        (
            "rank_correlation = 0.9",
            "rank_correlation = 2.0",
            "prediction_error.rank_correlation",
            "found 2",
        ),
        ("[3900.0, 4100.0]", "[4100.0, 3900.0]", "spread.core_type.c.clock_mhz", "low end first"),
        ("[3900.0, 4100.0]", "[nan, 1.0]", "spread.core_type.c.clock_mhz", "found NaN"),
        ("c.clock_mhz\" =", "d.clock_mhz\" =", "spread.core_type.d.clock_mhz", "does not have"),
        ("busy_share = 0.01", "busy_share = 1.5", "measurement.busy_share", "found 1.5"),
        ("= 4200.0", "= 0.0", "core_type[0].clock_alone_mhz", "found 0"),
        ("_share = 0.75", "_share = 1.1", "core_type[0].large_predictor_share", "found 1.1"),
        ("store_buffer = 114", "store_buffer = 0", "core_type[0].store_buffer", "found 0"),
        ("_hits = 32", "_hits = 0", "core_type[0].outstanding_llc_hits", "found 0"),
        ("_walk_cycles = 30.0", "_walk_cycles = -1.0", "core_type[0].page_walk_cycles", "found -1"),
        (
            "_walk_cycles = 200.0",
            "_walk_cycles = -1.0",
            "core_type[0].memory_page_walk_cycles",
            "found -1",
        ),
        ("pages = 32768", "pages = 0", "core_type[0].memory_page_walk_pages", "found 0"),
        (
            "_divide_cycles = 18.0",
            "_divide_cycles = inf",
            "core_type[0].execution.integer_divide_cycles",
            "found inf",
        ),
        (
            "[16, 2.0]",
            "[4, 2.0]",
            "core_type[0].fetching.taken_branch_cycles[1]",
            "found 4 KiB, expected ascending",
        ),
        ("[[4, 1.0]", "[[0, 1.0]", "core_type[0].fetching.taken_branch_cycles[0]", "above 0"),
        (
            "line_crossing_cycles = 1.0",
            "line_crossing_cycles = nan",
            "core_type[0].fetching.line_crossing_cycles",
            "found NaN",
        ),
        (
            "private_line_cycles = 5.0",
            "private_line_cycles = -5.0",
            "core_type[0].fetching.private_line_cycles",
            "found -5",
        ),
        (
            "level = 2\npage_kib = 4",
            "level = 1\npage_kib = 4",
            "core_type[0].tlb[1].level",
            "ascending",
        ),
        ("entries = 1536", "entries = 8", "core_type[0].tlb[1].entries", "fewer"),
        ("[-1, 0.9]", "[1, 0.9]", "core_type[0].prefetching.hidden_by_stride[1]", "each once"),
        ("[-1, 0.9]", "[-1, 1.9]", "core_type[0].prefetching.hidden_by_stride[1]", "found 1.9"),
        ("= 6000.0", "= 0.0", "core_type[0].memory_rates.random_read_mb_per_s", "found 0"),
        ("= 25000.0", "= 400.0", "bandwidth[0].loaded_latency[1].mb_per_s", "more than the point"),
        ("= 170.0", "= 190.0", "bandwidth[0].loaded_latency[1].latency_ns", "expected 190 to 250"),
        ("other_llc_ns = 90.0", "other_llc_ns = -9.0", "line_transfer.other_llc_ns", "found -9"),
        ("system_call_ns = 80.0", "system_call_ns = nan", "kernel.system_call_ns", "found NaN"),
        ("share = 0.25", "share = 1.25", "kernel.page_fault_memory_share", "from 0 to 1"),
        ("per_byte = 0.08", "per_byte = -1.0", "kernel.transfer_ns_per_byte", "found -1.0"),
        ("effective_kib = 500", "effective_kib = 0", "object[0].effective_kib", "found 0"),
        ("use_life = 0.25", "use_life = 0.0", "object[0].single_use_life", "found 0"),
        ("use_life = 0.25", "use_life = 1.5", "object[0].single_use_life", "0.001 to 1"),
        ("use_life = 0.75", "use_life = 0.0", "object[0].random_use_life", "found 0"),
        ("use_life = 0.25", "use_life = nan", "object[0].single_use_life", "found NaN"),
        (
            "{ read_mb_per_s = 100000.0 }",
            "{ read_mb_per_s = 0.0 }",
            "object[0].rates.read_mb_per_s",
            "found 0",
        ),
        (
            "count = 2",
            "effective_kib = 2",
            "object[0].object[0].effective_kib",
            "expected on a cache",
        ),
    ];
    for (old, new, field, part) in cases {
        assert!(MEASURED.contains(old), "{old}");
        match Machine::from_toml(&MEASURED.replacen(old, new, 1), "m.toml") {
            Err(MachineError::Invalid(FileError { line, field: found, why, .. })) => {
                assert_eq!(found, field, "{new}: {why}");
                assert!(line.is_some(), "{new}");
                assert!(why.contains(part), "{new}: {why}");
            }
            other => panic!("{new}: {other:?}"),
        }
    }
}

/// Building them by hand names every field, so that a new one is thought of here.
#[test]
fn a_spec_made_by_hand_is_the_file() {
    let machine = Machine::from_toml(MEASURED, "m.toml").unwrap();
    let spec = machine.spec();
    let one = &spec.core_types[0];
    assert_eq!(
        one.execution,
        Some(ExecutionLatencies {
            integer_multiply_cycles: Some(3.0),
            integer_divide_cycles: Some(18.0),
            fp_add_cycles: Some(3.0),
            fp_multiply_cycles: Some(3.0),
            fp_divide_cycles: Some(13.0),
            fp_multiply_add_cycles: Some(4.0),
            vector_add_cycles: Some(1.0),
            load_cycles: Some(4.0),
            vector_load_cycles: Some(6.0),
            transfer_cycles: Some(2.0),
            store_forward_cycles: Some(7.0),
            stack_forward_cycles: Some(1.0),
            vector_forward_cycles: Some(9.0),
            additions_per_cycle: Some(4.75),
            fp_adds_per_cycle: Some(2.0),
            fp_multiplies_per_cycle: Some(2.0),
            vector_adds_per_cycle: Some(3.0),
            vector_shuffles_per_cycle: Some(2.0),
        })
    );
    assert_eq!(
        one.fetching,
        Some(Fetching {
            taken_branch_cycles: vec![(4, 1.0), (16, 2.0)],
            line_crossing_cycles: Some(1.0),
            private_line_cycles: Some(5.0),
            llc_line_cycles: Some(22.0),
        })
    );
    assert_eq!(one.tlb[0], Tlb { level: 1, page_kib: 4, entries: 64, hit_cycles: 0.0 });
    assert_eq!(
        one.prefetching,
        Some(Prefetching {
            hidden_by_stride: vec![(1, 0.95), (-1, 0.9), (4, 0.1)],
            hidden_in_random_pages: Some(0.6),
            next_line: Some(0.8),
            streams: Some(16),
        })
    );
    assert_eq!(
        one.memory_rates,
        Some(AccessRates {
            read_mb_per_s: Some(20_000.0),
            write_mb_per_s: Some(10_000.0),
            non_temporal_write_mb_per_s: Some(12_000.0),
            copy_mb_per_s: Some(18_000.0),
            mixed_mb_per_s: Some(19_000.0),
            random_read_mb_per_s: Some(6_000.0),
        })
    );
    assert_eq!(
        spec.bandwidth_domains[0].loaded_latency[1],
        LoadedLatency { mb_per_s: 25_000.0, latency_ns: 180.0, low_ns: 170.0, high_ns: 250.0 }
    );
    assert_eq!(
        spec.line_transfer,
        Some(LineTransfer {
            same_core_ns: Some(10.0),
            same_llc_ns: Some(40.0),
            other_llc_ns: Some(90.0),
            other_node_ns: Some(150.0),
        })
    );
    assert_eq!(
        spec.kernel,
        Some(KernelCosts {
            page_fault_ns: Some(500.0),
            page_fault_memory_share: Some(0.25),
            huge_page_fault_ns: Some(90_000.0),
            file_fault_ns: Some(6000.0),
            system_call_ns: Some(80.0),
            file_call_ns: Some(400.0),
            mapping_call_ns: Some(2500.0),
            sleeping_call_ns: Some(14_000.0),
            transfer_ns_per_byte: Some(0.08),
            file_write_ns_per_byte: Some(0.4),
            process_ns: Some(300_000.0),
        })
    );
    assert_eq!(
        spec.measurement,
        Some(Measurement {
            by: "corun 0.1.0".to_owned(),
            finished: "2026-11-21T10:00:00Z".to_owned(),
            seconds: 95.5,
            rounds: 20,
            quick: false,
            busy_share: 0.01,
            cpus: "0-1".parse().unwrap(),
            huge_pages: true,
            notes: vec!["one LLC: no latency between LLCs".to_owned()],
        })
    );
    assert_eq!(MachineSpec::new("x").version, crate::MACHINE_FILE_VERSION);
}

const RANDOM_PAGES: &str = r#"
version = 1
name = "simulator"
memory_latency_ns = [[90.0]]
[[core_type]]
name = "c"
clock_mhz = 2000.0
[[object]]
kind = "cache"
level = 2
size_kib = 512
ways = 16
random_page_kib = 4
  [[object.object]]
  kind = "core"
"#;

#[test]
fn pages_at_random_go_with_an_lru_cache_of_known_ways() {
    let machine = Machine::from_toml(RANDOM_PAGES, "m.toml").unwrap();
    assert_eq!(machine.llcs()[0].cache.unwrap().random_page_bytes, Some(4096));
    assert_eq!(Machine::from_toml(&machine.to_toml(), "again.toml").unwrap(), machine);
    assert!(machine.spec().figures().contains(&"cache.L2.random_page_kib".to_owned()));
    let with = |line: &str| RANDOM_PAGES.replacen("random_page_kib = 4", line, 1);
    let cases = [
        (with("random_page_kib = 0"), "found 0"),
        (RANDOM_PAGES.replacen("ways = 16\n", "", 1), "without `ways`"),
        (with("random_page_kib = 4\neffective_kib = 400"), "beside `effective_kib`"),
        (with("random_page_kib = 4\nidle_survival = [[5.0, 0.5]]"), "beside `idle_survival`"),
        (with("random_page_kib = 4\nsingle_use_life = 0.5"), "beside `single_use_life`"),
        (with("random_page_kib = 4\nrandom_use_life = 0.5"), "beside `random_use_life`"),
    ];
    for (text, part) in cases {
        match Machine::from_toml(&text, "m.toml") {
            Err(MachineError::Invalid(FileError { field, why, .. })) => {
                assert_eq!(field, "object[0].random_page_kib", "{why}");
                assert!(why.contains(part), "{why}");
            }
            other => panic!("{part}: {other:?}"),
        }
    }
    let nearer = RANDOM_PAGES.replacen(
        "  [[object.object]]\n  kind = \"core\"",
        "  [[object.object]]\n  kind = \"cache\"\n  level = 1\n  size_kib = 64\n  ways = 16\n  random_page_kib = 4\n    \
         [[object.object.object]]\n    kind = \"core\"",
        1,
    );
    let why = Machine::from_toml(&nearer, "m.toml").unwrap_err().to_string();
    assert!(why.contains("random_page_kib") && why.contains("not the last-level one"), "{why}");
    // An LRU cache may be said to be one.
    assert!(
        Machine::from_toml(&with("random_page_kib = 4\nsingle_use_life = 1.0"), "m.toml").is_ok()
    );
}
