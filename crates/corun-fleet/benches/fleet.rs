//! Scoring a pod against 1000 nodes, repairing them, and simulating weeks of them.
//!
//! `cargo bench -p corun-fleet`. Nodes are `xeon-gold-6138` (20 cores), six in ten of their cores taken by
//! programs of the shipped library.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use corun_app::Cancel;
use corun_fleet::{
    Extender, Fleet, Ground, NodeGroup, NodeKind, Objective, Prediction, SchedulerName, Seats,
    Simulation, SimulationDocument, SimulationSettings, Workload, repair,
};
use corun_machine::preset;
use corun_model::ModelOptions;
use corun_profile::{Library, Profile};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

const NODES: usize = 1000;
const NOW: u64 = 1_764_000_000;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::shipped().unwrap());

fn extender() -> Extender {
    let machine = ("xeon-gold-6138".to_owned(), preset("xeon-gold-6138").unwrap(), Seats::Cores);
    Extender::new(vec![machine], &LIBRARY, ModelOptions::default(), 300).unwrap()
}

/// A request about all nodes, of some 2 kB each; `round` makes other residents.
fn request(round: usize) -> Vec<u8> {
    let names: Vec<&str> = LIBRARY.names().collect();
    let mut nodes = String::new();
    for node in 0..NODES {
        let mut programs = String::new();
        for one in 0..6 {
            let profile = names[(node * 7 + one * 11 + round) % names.len()];
            let comma = if one > 0 { "," } else { "" };
            let _ = write!(
                programs,
                "{comma}{{\\\"pod\\\":\\\"d/p{one}\\\",\\\"profile\\\":\\\"{profile}\\\",\\\"cpus\\\":2}}"
            );
        }
        let comma = if node > 0 { "," } else { "" };
        let filler = "x".repeat(1200);
        let _ = write!(
            nodes,
            "{comma}{{\"metadata\":{{\"name\":\"n{node}\",\"annotations\":{{\
             \"corun.dev/machine\":\"xeon-gold-6138\",\
             \"corun.dev/programs\":\"{{\\\"at\\\":{NOW},\\\"programs\\\":[{programs}]}}\"}}}},\
             \"status\":{{\"nodeInfo\":\"{filler}\"}}}}"
        );
    }
    format!(
        "{{\"Pod\":{{\"metadata\":{{\"name\":\"a\",\"namespace\":\"d\",\"labels\":\
         {{\"corun.dev/profile\":\"redis\"}}}},\"spec\":{{\"containers\":[{{\"resources\":\
         {{\"requests\":{{\"cpu\":\"2\"}}}}}}]}}}},\"Nodes\":{{\"items\":[{nodes}]}}}}"
    )
    .into_bytes()
}

/// A pod against 1000 nodes of which no report has changed since the last request.
#[divan::bench]
fn prioritize_known_nodes(bencher: Bencher<'_, '_>) {
    let (extender, body) = (extender(), request(0));
    extender.prioritize(&body, NOW).unwrap();
    bencher.bench_local(|| extender.prioritize(black_box(&body), NOW).unwrap());
}

/// The same where every node's report has changed.
#[divan::bench]
fn prioritize_changed_nodes(bencher: Bencher<'_, '_>) {
    let extender = extender();
    let bodies = [request(0), request(1)];
    let mut turn = 0;
    bencher.bench_local(|| {
        turn += 1;
        extender.prioritize(black_box(&bodies[turn % 2]), NOW).unwrap()
    });
}

/// One repair of 1000 nodes with 10,000 programs of one and of two CPUs, which were dealt out by turns.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn repair_a_fleet(bencher: Bencher<'_, '_>) {
    let profiles: Vec<Profile> = LIBRARY.iter().cloned().collect();
    let machine = preset("xeon-gold-6138").unwrap();
    let kind = NodeKind::new(machine, &profiles, Seats::Cores, None, ModelOptions::default());
    let names: Vec<String> = profiles.into_iter().map(|profile| profile.name).collect();
    let programs = names.len();
    let workload = |index| Workload {
        program: index % programs,
        cpus: 1 + (index / programs) as u32,
        ..Workload::default()
    };
    let workloads: Vec<Workload> = (0..2 * programs).map(workload).collect();
    let shares = vec![1.0; programs];
    let objective = Objective::LostWork;
    let ground = Ground::new(vec![kind.unwrap()], names, workloads, &shares, objective, 2.0);
    let nodes = (0..NODES).map(|node| (format!("n{node}"), 0)).collect();
    let mut fleet = Fleet::new(Arc::new(ground), nodes);
    let mut prediction = Prediction::default();
    for pod in 0..10 * NODES {
        let (node, at) = (pod % NODES, pod / NODES);
        let large = at % 2;
        let first = at / 2 * 3 + large;
        let seats = &fleet.ground().kinds[0].seats()[0];
        let cpus = seats[first..=first + large].to_vec();
        let workload = (node * 7 + at * 11) % programs + large * programs;
        fleet.insert(pod, workload, (node, cpus), &mut prediction);
    }
    bencher.with_inputs(|| fleet.clone()).bench_local_values(|mut fleet| {
        repair(&mut fleet, 0.002, 20_000, &mut Prediction::default()).moves.len()
    });
}

/// What `corun fleet simulate` does without options: 100,000 arrivals under every scheduler, with the bound and the
/// machines needed. Once.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn simulate_every_scheduler(bencher: Bencher<'_, '_>) {
    let schedulers = SchedulerName::ALL.map(|one| one.1);
    bencher.bench_local(|| simulated(&schedulers));
}

/// The same under `corun-repair` alone, which takes longest.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn simulate_repairs(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| simulated(&[SchedulerName::CorunRepair]));
}

fn simulated(schedulers: &[SchedulerName]) -> SimulationDocument {
    let groups = [("2x-e5-2695v3", 400), ("xeon-gold-6138", 400), ("epyc-9554", 200)];
    let settings = SimulationSettings {
        nodes: groups.map(|(machine, count)| NodeGroup::of(machine, count)).to_vec(),
        arrivals: 100_000,
        utilisation: 0.65,
        daily_depth: 0.3,
        repair_h: 6.0,
        move_s: 60.0,
        slowdown_bound: 1.2,
        schedulers: schedulers.to_vec(),
        seed: 1,
    };
    let simulation = Simulation::new(settings, None, ModelOptions::default()).unwrap();
    simulation.run(&Cancel::default()).unwrap()
}
