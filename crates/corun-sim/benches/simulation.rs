//! How many simulated seconds a second: the main experiment of `corun compare`, and twice as many
//! threads as CPUs. The baseline is the same without memory of the model's solutions.
//!
//! `cargo bench -p corun-sim` prints simulated seconds per second, then the time of each; with arguments, such as a
//! filter, times alone.

use std::sync::Arc;
use std::time::Instant;

use corun_machine::{
    BandwidthDomain, BandwidthKind, CacheType, CoreType, Inclusion, Machine, MachineSpec,
    ObjectSpec, ObjectType,
};
use corun_model::{Model, ModelOptions};
use corun_policy::{BuildOptions, Nanoseconds};
use corun_profile::{
    CurvePoint, InstructionMix, Method, MissRateCurve, Origin, Phase, Profile, ProfileData,
    Recording,
};
use corun_sim::{AppSpec, Experiment, Hooks, RunResult, SimulationSettings, run};

const POLICIES: [&str; 4] = ["linux-default", "random", "di", "dio"];
const SEEDS: u64 = 10;

fn main() {
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        simulated_seconds_per_second();
    }
    divan::main();
}

fn object(kind: ObjectType, count: u32, objects: Vec<ObjectSpec>) -> ObjectSpec {
    ObjectSpec { count, objects, ..ObjectSpec::new(kind) }
}

/// Eight cores in two packages of two LLCs of 4 MiB, one bus a package, one controller.
fn eight_cores() -> Arc<Model> {
    let llc = ObjectSpec {
        level: Some(2),
        size_kib: Some(4096),
        ways: Some(16),
        line_bytes: Some(64),
        holds: Some(CacheType::Unified),
        inclusion: Some(Inclusion::Inclusive),
        ..object(ObjectType::Cache, 2, vec![object(ObjectType::Core, 2, vec![])])
    };
    let domain =
        |name: &str, kind, stage, peak_mb_per_s, from_cpus: Option<&str>| BandwidthDomain {
            from_cpus: from_cpus.map(|list| list.parse().expect("a list of CPUs")),
            ..BandwidthDomain::new(name, kind, stage, peak_mb_per_s)
        };
    let bus = BandwidthKind::FrontSideBus;
    let spec = MachineSpec {
        core_types: vec![CoreType {
            reorder_buffer: 96,
            outstanding_misses: 8,
            branch_penalty_cycles: 14.0,
            ..CoreType::new("core", 3000.0, 1)
        }],
        memory_latency_ns: vec![vec![100.0]],
        bandwidth_domains: vec![
            domain("bus 0", bus, 1, 6000.0, Some("0-3")),
            domain("bus 1", bus, 1, 6000.0, Some("4-7")),
            domain("controller", BandwidthKind::MemoryController, 2, 9000.0, None),
        ],
        objects: vec![object(ObjectType::Package, 2, vec![llc])],
        ..MachineSpec::new("eight-cores")
    };
    let machine = Machine::from_spec(spec).expect("a machine");
    Arc::new(Model::new(Arc::new(machine), ModelOptions::default()).expect("all figures"))
}

/// Programs of 150e9 instructions, from hungry to calm.
fn programs(model: &Model, count: usize) -> Vec<AppSpec> {
    let program = |place: usize| {
        let heat = 1.0 - place as f64 / count as f64;
        let points = (0..9).map(|step| CurvePoint {
            bytes: (1 << 16) << step,
            mpki: 40.0 * heat * 0.8f64.powi(step),
        });
        let phase = Phase {
            instructions: 150_000_000_000,
            threads: 1,
            data_accesses_pki: 300.0,
            mix: InstructionMix {
                branches_pki: 100.0,
                mispredicted_pki: 2.0,
                ..Default::default()
            },
            prefetchable: 0.3,
            memory_level_parallelism: 2.0,
            dirty_share: 0.2,
            footprint_bytes: 1 << 28,
            curve: MissRateCurve::new(points.collect()).expect("a curve"),
            core: None,
        };
        let origin = Origin { sampling_rate: 1.0, complete: true, ..Default::default() };
        let data = ProfileData::Recording(Recording::new(origin, vec![phase]));
        let profile = Profile { name: format!("program {place}"), data };
        AppSpec::new(Arc::new(model.load(&profile).expect("a profile")))
    };
    (0..count).map(program).collect()
}

fn under(policy: &str, experiment: &Experiment) -> RunResult {
    let options = BuildOptions { seed: experiment.seed, ..BuildOptions::default() };
    let policy = corun_policy::build(policy, &options).expect("a policy of the registry");
    run(experiment, vec![policy], Hooks::default()).expect("an experiment that ends")
}

/// 8 programs, 3 restarts, these policies, 10 seeds; simulated seconds in all.
fn compare(model: &Arc<Model>, policies: &[&str], memoise: bool) -> f64 {
    let apps = programs(model, 8);
    let mut simulated_s = 0.0;
    for policy in policies {
        for seed in 0..SEEDS {
            let settings = SimulationSettings { memoise, ..SimulationSettings::default() };
            let one = Experiment::new(Arc::clone(model), apps.clone(), Method::Restart3, seed);
            simulated_s += under(policy, &Experiment { settings, ..one }).simulated_s;
        }
    }
    simulated_s
}

/// 16 programs on 8 CPUs for so many simulated seconds.
fn oversubscribed(model: &Arc<Model>, seconds: u64, memoise: bool) -> RunResult {
    let window = Nanoseconds(seconds * 1_000_000_000);
    let settings = SimulationSettings { window, memoise, ..SimulationSettings::default() };
    let one = Experiment::new(Arc::clone(model), programs(model, 16), Method::Window, 1);
    under("linux-default", &Experiment { settings, ..one })
}

fn simulated_seconds_per_second() {
    let model = eight_cores();
    let line = |what: &str, simulated_s: f64, started: Instant| {
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{what:<44} {simulated_s:>9.0} s in {seconds:>7.3} s: {:>9.0} simulated s/s",
            simulated_s / seconds
        );
        simulated_s / seconds
    };
    for memoise in [true, false] {
        let how = if memoise { "" } else { ", baseline" };
        for policy in POLICIES {
            let started = Instant::now();
            let simulated_s = compare(&model, &[policy], memoise);
            line(&format!("8 on 8, 10 seeds, {policy}{how}"), simulated_s, started);
        }
    }
    let mut speeds = Vec::new();
    for memoise in [true, false] {
        let how = if memoise { "" } else { ", baseline" };
        let started = Instant::now();
        let result = oversubscribed(&model, 60, memoise);
        speeds.push(line(&format!("16 on 8, 3 ms slices{how}"), result.simulated_s, started));
        println!("  events {}, rates computed {}", result.events, result.rate_evaluations);
    }
    println!("16 on 8: {:.1} times the baseline", speeds[0] / speeds[1]);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn eight_programs_four_policies_ten_seeds(bencher: divan::Bencher<'_, '_>) {
    let model = eight_cores();
    bencher.bench(|| compare(&model, &POLICIES, true));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn sixteen_on_eight_for_10_s(bencher: divan::Bencher<'_, '_>) {
    let model = eight_cores();
    bencher.bench(|| oversubscribed(&model, 10, true));
}
