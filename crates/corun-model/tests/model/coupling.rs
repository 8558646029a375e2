//! Stage B on machines made by hand: domains in stages, remote memory, hardware threads, errors.

use corun_machine::{AccessRates, BandwidthDomain, BandwidthKind, LoadedLatency, MachineSpec};
use corun_model::{
    BandwidthModel, CacheGroup, Compatibility, Flow, LoadedProgram, Member, Model, ModelError,
    ModelOptions, Outcome, Running, Scratch,
};
use corun_profile::ProfileData;

use crate::fixture::*;
use crate::machines::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn with(bandwidth: BandwidthModel) -> ModelOptions {
    ModelOptions { bandwidth, ..Default::default() }
}

/// A stream of so many misses per 1000 instructions at any size, nothing foreseen.
fn stream(model: &Model, mpki: f64) -> LoadedProgram {
    load(model, &recording("stream", &[(4096, mpki), (64 * MIB, mpki)], |_| {}))
}

fn solve(model: &Model, running: &[Running<'_>]) -> Vec<Outcome> {
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    model.solve(running, &mut scratch, &mut out);
    out
}

/// Morad's B' of two equal flows, by bisection on T = 2 B'(T).
fn two_equal(b: f64) -> f64 {
    let odds = b / (1.0 - b);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let total = 0.5 * (low + high);
        let v: f64 = 1.0 - total;
        let shared = 0.5 * (-v + (v * v + 4.0 * v * odds).sqrt());
        if 2.0 * shared > total { low = total } else { high = total }
    }
    0.25 * (low + high)
}

/// How much longer two flows, each of this share of the peak alone, wait than one of them: T, what both get
/// together, by bisection of T λ(T) = 2 b λ(b), λ(T) = 1 + 0.4 T / (1 - T).
fn two_equal_queue(b: f64) -> f64 {
    let latency = |busy: f64| 1.0 + 0.4 * busy / (1.0 - busy);
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    for _ in 0..100 {
        let total = 0.5 * (low + high);
        if total * latency(total) > 2.0 * b * latency(b) { high = total } else { low = total }
    }
    latency(low) / latency(b)
}

#[test]
fn the_models_differ_as_their_formulas_do() {
    let mut spec = gold(1, 4);
    spec.bandwidth_domains[0].peak_mb_per_s = 4000.0;
    for (name, bandwidth) in BandwidthModel::ALL {
        let model = model(spec.clone(), with(bandwidth));
        let program = stream(&model, 20.0);
        let member = |cpu| Member { program: &program, phase: 0, cpu };
        let demand = model.demand_at(&member(0), MIB as f64);
        let b = demand.bytes_per_s / 4e9;
        assert!(b > 0.3 && b < 0.95, "{b}");
        let flow = |cpu| Flow { member: member(cpu), demand, home: &[] };
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        model.couple(&[flow(0), flow(1)], &mut scratch, &mut out);
        let ratio = b / two_equal(b);
        let additive = |ratio: f64| 1.0 + demand.memory_cpi / demand.cpi * (ratio - 1.0);
        let expected = match bandwidth {
            BandwidthModel::None => 1.0,
            BandwidthModel::Simple => (2.0 * b).max(1.0),
            BandwidthModel::Morad => ratio,
            BandwidthModel::Stalls => 1.0 + demand.memory_stall_share * (ratio - 1.0),
            // The domain has no curve of latency under load.
            BandwidthModel::Additive | BandwidthModel::ByMachine => additive(ratio),
            BandwidthModel::Loaded => additive(two_equal_queue(b)),
        };
        for outcome in &out {
            assert!(near(outcome.slowdown, expected), "{name}: {outcome:?} {expected}");
        }
    }
}

#[test]
fn one_bottleneck_never_counts_twice() {
    let bus = |peak| {
        let mut spec = gold(1, 4);
        spec.bandwidth_domains[0].peak_mb_per_s = 4000.0;
        spec.bandwidth_domains.push(BandwidthDomain {
            name: "bus".to_owned(),
            kind: BandwidthKind::FrontSideBus,
            stage: 1,
            to_nodes: None,
            ..controller("bus", 0, peak)
        });
        model(spec, with(BandwidthModel::Morad))
    };
    let slowdown = |peak| {
        let model = bus(peak);
        let program = stream(&model, 20.0);
        solve(&model, &[on(&program, 0), on(&program, 1)])[0].slowdown
    };
    // Behind a wide bus the controller decides; behind one of its own peak, the bus cuts first and
    // leaves the controller less to cut: less than the product of the two slowdowns.
    let controller_alone = slowdown(1e9);
    let both = slowdown(4000.0);
    assert!(both > controller_alone);
    assert!(both < controller_alone * controller_alone, "{both} {controller_alone}");
}

#[test]
fn remote_pages_pay_the_distance_and_load_the_far_controller() {
    let model = model(gold(2, 4), ModelOptions::default());
    let program = stream(&model, 10.0);
    let remote = Running { home: &[0.0, 1.0], ..on(&program, 0) };
    let half = Running { home: &[1.0, 1.0], ..on(&program, 0) };
    let demand = model.demand_at(&remote.member, 27.5e6);
    // Latencies are 90 and 150 ns; alone, bandwidth costs nothing.
    let slowdown = solve(&model, &[remote])[0].slowdown;
    assert!(near(slowdown, 1.0 + demand.memory_cpi / demand.cpi * (150.0 / 90.0 - 1.0)));
    let slowdown = solve(&model, &[half])[0].slowdown;
    assert!(near(slowdown, 1.0 + demand.memory_cpi / demand.cpi * (120.0 / 90.0 - 1.0)));
    // A program whose pages lie on node 1 slows the one that runs there, not its neighbour.
    let local = |cpu| on(&program, cpu);
    let alone = solve(&model, &[local(1), local(4)]);
    let beside = solve(&model, &[local(1), local(4), remote]);
    assert!(near(alone[0].slowdown, 1.0) && near(alone[1].slowdown, 1.0));
    assert!(near(beside[0].slowdown, 1.0), "{:?}", beside[0]);
    assert!(beside[1].slowdown > 1.0 + 1e-6, "{:?}", beside[1]);
}

#[test]
fn way_partitions_are_groups_of_their_own() {
    let model = model(gold(1, 4), ModelOptions::default());
    let program = load(&model, &solo_table("p", 12.0, 2.0));
    let part = |cpu, id, ways: u64| Running {
        group: Some(CacheGroup { id, bytes: (ways * WAY) as f64 }),
        ..on(&program, cpu)
    };
    let out = solve(&model, &[part(0, 0, 8), part(1, 1, 2), part(2, 1, 2)]);
    let ways: Vec<f64> = out.iter().map(|one| one.occupancy_bytes / WAY as f64).collect();
    assert!(near(ways[0], 8.0) && near(ways[1], 1.0) && near(ways[2], 1.0), "{ways:?}");
    assert!(near(out[0].llc_mpki, 5.0) && near(out[1].llc_mpki, 12.0));
}

#[test]
fn threads_of_a_core_share_its_yield() {
    let mut spec = gold(1, 2);
    spec.core_types[0].threads = 2;
    spec.core_types[0].smt_yield = Some(1.25);
    spec.bandwidth_domains.clear();
    let model = model(spec.clone(), ModelOptions::default());
    let idle = load(&model, &recording("idle", &[(4096, 0.0)], |phase| phase.footprint_bytes = 64));
    // CPUs 0 and 1 are threads of one core.
    let out = solve(&model, &[on(&idle, 0), on(&idle, 1), on(&idle, 2)]);
    let slowdowns: Vec<f64> = out.iter().map(|one| one.slowdown).collect();
    assert!(near(slowdowns[0], 2.0 / 1.25) && near(slowdowns[1], 2.0 / 1.25));
    assert!(near(slowdowns[2], 1.0), "{slowdowns:?}");
    // Without a figure, as much as Hyper-Threading gained.
    spec.core_types[0].smt_yield = None;
    let out = solve(
        &crate::machines::model(spec, ModelOptions::default()),
        &[on(&idle, 0), on(&idle, 1)],
    );
    assert!(near(out[0].slowdown, 2.0 / corun_model::DEFAULT_SMT_THROUGHPUT));
}

#[test]
fn a_small_core_is_slow_against_the_best() {
    let mut spec = gold(1, 2);
    spec.core_types[0].name = "big".to_owned();
    let small = corun_machine::CoreType {
        capacity: 0.5,
        clock_mhz: 1500.0,
        dispatch_width: 2.0,
        reorder_buffer: 0,
        ..core_type("little")
    };
    spec.core_types.push(small);
    let core = |name: &str| corun_machine::ObjectSpec {
        core_type: Some(name.to_owned()),
        ..object(corun_machine::ObjectType::Core, 1, vec![])
    };
    let llc = cache(2, 2048, 16, vec![core("big"), core("little")]);
    spec.objects = vec![object(corun_machine::ObjectType::NumaNode, 1, vec![llc])];
    let model = model(spec, ModelOptions::default());
    let program = load(&model, &recording("p", &[(4096, 0.0)], |phase| phase.footprint_bytes = 64));
    assert!(near(model.solo(&program, 0, 0).slowdown, 1.0));
    // 1/4 + 0.002 x 15 cycles at 2 GHz against 1/2 + 0.03 at 1.5 GHz.
    let expected = (0.53 / 1.5) / (0.28 / 2.0);
    assert!(near(model.solo(&program, 0, 1).slowdown, expected));
    let table = load(&model, &solo_table("t", 12.0, 2.0));
    assert!(model.solo(&table, 0, 1).slowdown > 1.2);
}

#[test]
fn alone_a_program_draws_at_most_95_percent_of_the_peak() {
    let mut spec = gold(1, 4);
    spec.bandwidth_domains[0].peak_mb_per_s = 1000.0;
    let model = model(spec, ModelOptions::default());
    let program = stream(&model, 40.0);
    let solo = model.solo(&program, 0, 0);
    assert!(near(solo.bytes_per_s, 0.95e9), "{solo:?}");
    assert!(near(solo.slowdown, 1.0));
}

#[test]
fn filling_goes_as_misses_bring_lines() {
    let model = model(gold(1, 4), ModelOptions::default());
    let program = stream(&model, 10.0);
    let member = Member { program: &program, phase: 0, cpu: 0 };
    let speed = model.solo(&program, 0, 0).instructions_per_s;
    // 0.64 bytes an instruction.
    let seconds = 2e6 / (0.64 * speed);
    assert!((model.filled_bytes(&member, 1e6, seconds) - 3e6).abs() < 2.0);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let error = |spec, options| corun_model::Model::new(machine(spec), options).unwrap_err();
    let peak = ModelOptions { peak_mb_per_s: Some(f64::NAN), ..Default::default() };
    assert!(matches!(error(gold(1, 1), peak), ModelError::Peak { .. }));
    let share = ModelOptions { solo_peak_share: Some(1.0), ..Default::default() };
    assert!(matches!(error(gold(1, 1), share), ModelError::SoloPeakShare { .. }));
    let mut spec = gold(1, 1);
    spec.objects = vec![object(
        corun_machine::ObjectType::Package,
        1,
        vec![object(corun_machine::ObjectType::Core, 1, vec![])],
    )];
    spec.bandwidth_domains[0].to_nodes = None;
    let text = error(spec, ModelOptions::default()).to_string();
    assert!(text.contains("`gold`: the size of the last-level cache"), "{text}");

    let model =
        model(gold(1, 1), ModelOptions { peak_mb_per_s: Some(100.0), ..Default::default() });
    let text = model.load(&solo_table("lbm", 30.0, 20.0)).unwrap_err().to_string();
    assert!(text.contains("`lbm` drew") && text.contains("the peak is 100 MB/s"), "{text}");
    let nan = recording("broken", &[(4096, 1.0)], |phase| phase.prefetchable = f64::NAN);
    let text = model.load(&nan).unwrap_err().to_string();
    assert!(text.contains("`broken`") && text.contains("prefetchable"), "{text}");
    let mut none = recording("empty", &[(4096, 1.0)], |_| {});
    if let ProfileData::Recording(recording) = &mut none.data {
        recording.phases.clear();
    }
    assert!(matches!(model.load(&none), Err(ModelError::Profile { .. })));
}

#[test]
fn compatibility_sets_law_and_model() {
    let options = ModelOptions { compatibility: Compatibility::Pbbcache, ..Default::default() };
    let model = model(gold(2, 4), options);
    assert_eq!(model.options(), ModelOptions::pbbcache(None));
}

/// A machine whose latency under load was measured goes by it, and no other does.
#[test]
fn a_measured_curve_is_used_without_being_asked_for() {
    let mut spec = gold(1, 4);
    let options = |spec: &MachineSpec| model(spec.clone(), ModelOptions::default()).options();
    assert_eq!(options(&spec).bandwidth, BandwidthModel::Additive);
    let point = |mb_per_s, latency_ns| LoadedLatency {
        mb_per_s,
        latency_ns,
        low_ns: latency_ns,
        high_ns: latency_ns,
    };
    spec.bandwidth_domains[0].loaded_latency = vec![point(100.0, 90.0), point(20_000.0, 90.0)];
    assert_eq!(options(&spec).bandwidth, BandwidthModel::Loaded);
    // A flat curve: two streams do not slow each other down, however near the peak they come.
    let model = model(spec, ModelOptions::default());
    let program = stream(&model, 20.0);
    let member = |cpu| Member { program: &program, phase: 0, cpu };
    let demand = model.demand_at(&member(0), MIB as f64);
    let flow = |cpu| Flow { member: member(cpu), demand, home: &[] };
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    model.couple(&[flow(0), flow(1)], &mut scratch, &mut out);
    assert!(out.iter().all(|outcome| outcome.slowdown < 1.01), "{out:?}");
}

/// A stream of which each line read is written back, or none.
fn heavy_stream(model: &Model, dirty_share: f64) -> LoadedProgram {
    let change = |phase: &mut corun_profile::Phase| {
        phase.memory_level_parallelism = 64.0;
        phase.dirty_share = dirty_share;
    };
    load(model, &recording("stream", &[(4096, 60.0), (64 * MIB, 60.0)], change))
}

/// 35 GB/s are read, or 5 GB/s written, which is 10 in both directions: a byte of which half are written keeps
/// this memory busy for as long as 3.5 that are read.
#[test]
fn written_lines_keep_a_memory_busy_for_as_long_as_was_measured() {
    let mut spec = gold(1, 4);
    spec.bandwidth_domains[0].rates = Some(AccessRates {
        read_mb_per_s: Some(35_000.0),
        write_mb_per_s: Some(5_000.0),
        ..AccessRates::default()
    });
    let rated = model(spec, ModelOptions::default());
    let plain = model(gold(1, 4), ModelOptions::default());
    let demand = |model: &Model, dirty_share| {
        let program = heavy_stream(model, dirty_share);
        model.demand_at(&Member { program: &program, phase: 0, cpu: 0 }, MIB as f64)
    };
    for (dirty_share, weight) in [(0.0, 1.0), (1.0, 3.5), (1.0 / 3.0, 2.25)] {
        let found = demand(&rated, dirty_share);
        assert!(near(found.busy_bytes_per_s, weight * found.bytes_per_s), "{found:?}");
        let unrated = demand(&plain, dirty_share);
        assert_eq!(unrated.busy_bytes_per_s, unrated.bytes_per_s);
    }
    // Together they get what the memory moves of this kind, and say so in bytes moved.
    for (dirty_share, least, peak) in [(0.0, 20e9, 35e9), (1.0, 8e9, 10e9)] {
        let program = heavy_stream(&rated, dirty_share);
        let running: Vec<Running<'_>> = (0..4).map(|cpu| on(&program, cpu)).collect();
        let bytes: f64 = solve(&rated, &running).iter().map(|one| one.bytes_per_s).sum();
        assert!(bytes > least && bytes < peak, "{bytes} of {peak}");
    }
}

#[test]
fn a_program_alone_draws_no_more_than_one_core_was_measured_to() {
    let drawn = |rates: Option<AccessRates>, dirty_share| {
        let mut spec = gold(1, 4);
        spec.core_types[0].memory_rates = rates;
        let model = model(spec, ModelOptions::default());
        model.solo(&heavy_stream(&model, dirty_share), 0, 0).bytes_per_s
    };
    let rates = AccessRates {
        read_mb_per_s: Some(4_000.0),
        write_mb_per_s: Some(1_000.0),
        ..AccessRates::default()
    };
    assert!(near(drawn(Some(rates), 0.0), 4e9));
    // 1 GB/s written is 2 in both directions.
    assert!(near(drawn(Some(rates), 1.0), 2e9));
    assert!(drawn(None, 0.0) > 5e9);
    let fast = AccessRates { read_mb_per_s: Some(30_000.0), ..AccessRates::default() };
    assert_eq!(drawn(Some(fast), 0.0), drawn(None, 0.0));
}
