use super::*;
use crate::figure::{CodeSource, CoreFigure, CurvePart};
use crate::kernel::{ExecutionChain, Throughput};

fn estimate(value: f64) -> FigureRange {
    FigureRange { value, low: value * 0.9, high: value * 1.2 }
}

/// A machine of two core types, as discovery has it.
fn hybrid() -> Machine {
    let core = |kind: &str, cpu: u32| {
        format!(
            "[[object.object]]\nkind = \"cache\"\nlevel = 2\nsize_kib = 512\n\
             [[object.object.object]]\nkind = \"cache\"\nlevel = 1\nholds = \"instruction\"\n\
             size_kib = 32\n[[object.object.object.object]]\nkind = \"cache\"\nlevel = 1\n\
             holds = \"data\"\nsize_kib = 32\n[[object.object.object.object.object]]\n\
             kind = \"core\"\ncore_type = \"{kind}\"\ncpus = \"{cpu}\"\n"
        )
    };
    let text = format!(
        "version = 1\nname = \"discovered\"\ntitle = \"A CPU\"\n\
         [[core_type]]\nname = \"big\"\nclock_mhz = 1000.0\n\
         [[core_type]]\nname = \"little\"\nclock_mhz = 500.0\ncapacity = 0.5\n\
         [[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 8192\n{}{}",
        core("big", 0),
        core("little", 1)
    );
    Machine::from_toml(&text, "hybrid.toml").unwrap()
}

#[test]
fn what_was_measured_makes_a_machine_whatever_its_noise() {
    let figures = BTreeMap::from([
        (Figure::Cache(0, 1, CacheFigure::LatencyNs), estimate(1.0)),
        (Figure::Cache(0, 2, CacheFigure::LatencyNs), estimate(4.02)),
        (Figure::Cache(0, 3, CacheFigure::LatencyNs), estimate(4.01)),
        (Figure::Cache(0, 3, CacheFigure::EffectiveKib), estimate(9000.0)),
    ]);
    let spec = spec(&hybrid(), &figures, "corun 1").unwrap();
    assert_eq!(spec.objects[0].latency_ns, Some(4.02));
    assert_eq!(spec.objects[0].effective_kib, Some(8192));
}

#[test]
fn figures_go_to_the_core_types_and_caches_that_they_are_of() {
    let found = hybrid();
    let figures = BTreeMap::from([
        (Figure::Core(0, CoreFigure::ClockMhz), estimate(4012.34)),
        (Figure::Core(1, CoreFigure::LoadCycles), estimate(3.0)),
        (Figure::Core(1, CoreFigure::Throughput(Throughput::FpAdd)), estimate(1.95)),
        (Figure::Cache(0, 1, CacheFigure::LatencyNs), estimate(1.0)),
        (Figure::Cache(1, 1, CacheFigure::LatencyNs), estimate(2.0)),
        (Figure::Cache(0, 3, CacheFigure::EffectiveKib), estimate(5000.4)),
        (Figure::Cache(0, 3, CacheFigure::IdleSurvival(10)), estimate(0.5)),
        (Figure::Cache(0, 3, CacheFigure::IdleSurvival(2)), estimate(0.8)),
        (Figure::Cache(1, 3, CacheFigure::IdleSurvival(2)), estimate(0.7)),
        (Figure::Cache(0, 3, CacheFigure::SingleUseLife), estimate(0.1523)),
        (Figure::Cache(0, 3, CacheFigure::RandomUseLife), estimate(0.5812)),
        (Figure::MemoryLatency(0, 0), estimate(100.0)),
        (Figure::Kernel(KernelFigure::SystemCall), estimate(77.77)),
        (Figure::Kernel(KernelFigure::MappingCall), estimate(2500.0)),
        (Figure::Kernel(KernelFigure::SleepingCall), estimate(14_000.0)),
        (Figure::Kernel(KernelFigure::FileWritePerByte), estimate(0.4)),
    ]);
    let spec = spec(&found, &figures, "corun 1").unwrap();
    assert_eq!(spec.name, "this");
    assert_eq!((spec.core_types[0].clock_mhz, spec.core_types[1].clock_mhz), (4012.0, 500.0));
    let execution = spec.core_types[1].execution.unwrap();
    assert_eq!((execution.load_cycles, execution.fp_adds_per_cycle), (Some(3.0), Some(1.95)));
    let l2 = &spec.objects[0].objects;
    let l1 = |place: usize| &l2[place].objects[0].objects[0];
    assert_eq!((l1(0).latency_ns, l1(1).latency_ns), (Some(1.0), Some(2.0)));
    assert_eq!(l2[0].objects[0].latency_ns, Some(1.0), "the instruction cache beside it");
    assert_eq!(spec.objects[0].effective_kib, Some(5000));
    assert_eq!(spec.objects[0].idle_survival, [(2.0, 0.8), (10.0, 0.5)]);
    assert_eq!(spec.objects[0].single_use_life, Some(0.1523));
    assert_eq!(spec.objects[0].random_use_life, Some(0.5812));
    assert_eq!(spec.memory_latency_ns, [[100.0]]);
    let kernel = spec.kernel.unwrap();
    assert_eq!(kernel.system_call_ns, Some(77.77));
    assert_eq!((kernel.mapping_call_ns, kernel.sleeping_call_ns), (Some(2500.0), Some(14_000.0)));
    assert_eq!(kernel.file_write_ns_per_byte, Some(0.4));
    assert_eq!(spec.spread["core_type.big.clock_mhz"], (3611.0, 4815.0));
    assert_eq!(spec.spread["kernel.mapping_call_ns"], (2250.0, 3000.0));
    assert!(spec.source_of("kernel.sleeping_call_ns").unwrap().contains("sleeping for 100 us"));
    assert_eq!(spec.spread["memory_latency_ns.0.0"], (90.0, 120.0));
    let source = |figure: &str| spec.source_of(figure).unwrap().to_owned();
    assert!(source("core_type.big.clock_mhz").starts_with("corun 1: chain of"));
    assert_eq!(source("core_type.big.dispatch_width"), "default of a machine file");
    assert_eq!(source("cache.L2.size_kib"), "Linux, in sysfs");
    // What is written is a machine, and the same one.
    let machine = Machine::from_spec(spec).unwrap();
    assert_eq!(Machine::from_toml(&machine.to_toml(), "again").unwrap(), machine);
    assert_eq!(found.difference(&machine), None);
}

#[test]
fn lists_and_curves_are_put_together() {
    let found = hybrid();
    let core = |what| Figure::Core(0, what);
    let figures = BTreeMap::from([
        (core(CoreFigure::TlbEntries(1)), estimate(64.4)),
        (core(CoreFigure::TlbEntries(2)), estimate(1500.0)),
        (core(CoreFigure::TlbHitCycles(2)), estimate(7.0)),
        (core(CoreFigure::PageWalkCycles), estimate(30.0)),
        (core(CoreFigure::ReorderBuffer), estimate(447.6)),
        (core(CoreFigure::OutstandingMisses), estimate(0.2)),
        (
            core(CoreFigure::Execution(ExecutionChain::StoreForward)),
            FigureRange { value: -0.01, low: -0.02, high: 0.01 },
        ),
        (core(CoreFigure::TakenBranchCycles(16)), estimate(2.0)),
        (core(CoreFigure::TakenBranchCycles(4)), estimate(1.25)),
        (core(CoreFigure::LineCrossingCycles), estimate(1.0)),
        (core(CoreFigure::CodeLineCycles(CodeSource::Llc)), estimate(22.0)),
        (core(CoreFigure::HiddenByStride(-1)), estimate(0.5)),
        (core(CoreFigure::HiddenByStride(1)), estimate(0.75)),
        (core(CoreFigure::MemoryRate(Rate::Read)), estimate(20_000.0)),
        (core(CoreFigure::OwnLoaded(0, CurvePart::MbPerS)), estimate(700.0)),
        (core(CoreFigure::OwnLoaded(0, CurvePart::LatencyNs)), estimate(100.0)),
        (Figure::NodeRate(0, Rate::Mixed), estimate(50_000.0)),
        (Figure::NodeRate(0, Rate::Read), estimate(40_000.0)),
        (Figure::Loaded(1, CurvePart::MbPerS), estimate(30_000.0)),
        (Figure::Loaded(1, CurvePart::LatencyNs), estimate(150.0)),
        (Figure::Loaded(0, CurvePart::MbPerS), estimate(500.0)),
        (Figure::Loaded(0, CurvePart::LatencyNs), estimate(100.0)),
        // Without its latency it is no point.
        (Figure::Loaded(2, CurvePart::MbPerS), estimate(600.0)),
        (Figure::SpeedBeside(0, 1), estimate(0.9)),
    ]);
    let spec = spec(&found, &figures, "corun 1").unwrap();
    let one = &spec.core_types[0];
    let tlb: Vec<(u32, u32, f64)> =
        one.tlb.iter().map(|tlb| (tlb.level, tlb.entries, tlb.hit_cycles)).collect();
    assert_eq!(tlb, [(1, 64, 0.0), (2, 1500, 7.0)]);
    assert_eq!((one.reorder_buffer, one.outstanding_misses), (448, 1));
    assert_eq!(one.execution.unwrap().store_forward_cycles, Some(0.0));
    let fetching = one.fetching.as_ref().unwrap();
    assert_eq!(fetching.taken_branch_cycles, [(4, 1.25), (16, 2.0)]);
    assert_eq!((fetching.private_line_cycles, fetching.llc_line_cycles), (None, Some(22.0)));
    assert_eq!(fetching.line_crossing_cycles, Some(1.0));
    let prefetching = one.prefetching.as_ref().unwrap();
    assert_eq!(prefetching.hidden_by_stride, [(-1, 0.5), (1, 0.75)]);
    assert_eq!(one.own_loaded_latency.len(), 1);
    let [domain] = &spec.bandwidth_domains[..] else { panic!("{:?}", spec.bandwidth_domains) };
    assert_eq!((domain.name.as_str(), domain.peak_mb_per_s), ("memory0", 50_000.0));
    assert_eq!(domain.rates.unwrap().read_mb_per_s, Some(40_000.0));
    let curve: Vec<(f64, f64, f64)> = domain
        .loaded_latency
        .iter()
        .map(|point| (point.mb_per_s, point.latency_ns, point.high_ns))
        .collect();
    assert_eq!(curve, [(500.0, 100.0, 120.0), (30_000.0, 150.0, 180.0)]);
    assert_eq!(spec.spread["bandwidth.memory0.peak_mb_per_s"], (45_000.0, 60_000.0));
    assert_eq!(spec.spread["core_type.big.tlb.L2.entries"], (1350.0, 1800.0));
    assert_eq!(spec.spread["core_type.big.fetching.taken_branch_cycles.16"], (1.8, 2.4));
    assert!(spec.spread.keys().all(|key| !key.contains("speed_beside")));
    assert!(spec.spread.keys().all(|key| !key.contains("loaded_latency")));
    let machine = Machine::from_spec(spec).unwrap();
    assert_eq!(Machine::from_toml(&machine.to_toml(), "again").unwrap(), machine);
}

#[test]
fn nodes_that_were_not_measured_are_as_the_first() {
    let found = corun_machine::preset("2x-e5-2650").unwrap();
    let figures = BTreeMap::from([
        (Figure::MemoryLatency(0, 0), estimate(100.0)),
        (Figure::MemoryLatency(1, 0), estimate(170.0)),
        (Figure::NodeRate(0, Rate::Mixed), estimate(40_000.0)),
        (Figure::LinkRate(0), estimate(20_000.0)),
    ]);
    let spec = spec(&found, &figures, "corun 1").unwrap();
    let ratio = found.latency_ratio(0, 1);
    assert_eq!(spec.memory_latency_ns[0], [100.0, rounded(100.0 * ratio)]);
    assert_eq!(spec.memory_latency_ns[1], [170.0, 100.0]);
    let names: Vec<(&str, f64)> = spec
        .bandwidth_domains
        .iter()
        .map(|domain| (domain.name.as_str(), domain.peak_mb_per_s))
        .collect();
    assert_eq!(names, [("memory0", 40_000.0), ("link0", 20_000.0), ("memory1", 40_000.0)]);
    assert!(spec.bandwidth_domains[1].remote_only);
}

#[test]
fn values_keep_four_digits() {
    for (value, expected) in [
        (1234.56, 1235.0),
        (0.123456, 0.1235),
        (123_456.0, 123_500.0),
        (0.0, 0.0),
        (-2.00049, -2.0),
    ] {
        assert_eq!(rounded(value), expected);
    }
}
