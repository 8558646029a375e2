//! Time to the proven optimal partition.
//!
//! `cargo bench -p corun-optimal --bench partition` prints a table of all cases first; with arguments, such as a filter,
//! times alone. With `CORUN_SOLO_TABLE` naming the public table of solo figures by ways its programs are used (every so
//! many by name, `CORUN_BENCH_SKIP` of them left out first), else made-up ones. `CORUN_BENCH_PROGRAMS=16` adds the sizes
//! that take seconds, `CORUN_BENCH_ONLY=stp` leaves out the other objectives.

#[path = "../tests/optimal/programs.rs"]
mod programs;

use std::sync::Arc;
use std::time::Duration;

use corun_machine::{Machine, MachineSpec, preset};
use corun_model::{BandwidthModel, LoadedProgram, Member, Model, ModelOptions};
use corun_optimal::partition::{Kind, PartitionObjective, PartitionProblem};
use corun_optimal::{Goal, SearchLimits};
use corun_profile::{MeasuredOn, Profile, import_csv};
use divan::{Bencher, black_box};

fn main() {
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        show_all();
    }
    divan::main();
}

fn show_all() {
    let most: usize = number("CORUN_BENCH_PROGRAMS").unwrap_or(12);
    for (kind, ways, programs) in [
        (Kind::Strict, 11, 8),
        (Kind::Strict, 20, 8),
        (Kind::Strict, 20, 10),
        (Kind::Strict, 20, 16),
        (Kind::Cluster, 11, 8),
        (Kind::Cluster, 11, 10),
        (Kind::Cluster, 11, 12),
        (Kind::Cluster, 11, 14),
        (Kind::Cluster, 11, 16),
        (Kind::Cluster, 11, 18),
        (Kind::Cluster, 11, 20),
    ] {
        if programs <= most || kind == Kind::Strict {
            show(kind, ways, programs);
        }
    }
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn objectives() -> [(&'static str, PartitionObjective); 6] {
    [
        ("stp", PartitionObjective::Stp),
        ("mean slowdown", PartitionObjective::MeanSlowdown),
        ("bandwidth", PartitionObjective::Bandwidth),
        ("max slowdown", PartitionObjective::MaxSlowdown),
        ("unfairness", PartitionObjective::Unfairness),
        ("jain", PartitionObjective::Jain),
    ]
}

/// Prints what each objective's search does, the table of clusters by itself.
fn show(kind: Kind, ways: u32, count: usize) {
    let (model, programs) = set(ways, count);
    let members = members(&programs);
    let only = std::env::var("CORUN_BENCH_ONLY").ok();
    let limits = SearchLimits { time: Some(Duration::from_secs(60)), ..SearchLimits::default() };
    for (name, objective) in objectives() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let problem = PartitionProblem::new(&model, &members, ways, 1, kind).unwrap();
        let first = problem.solve(objective, Goal::Best, &limits).unwrap();
        let again = problem.solve(objective, Goal::Best, &limits).unwrap();
        println!(
            "{kind:?} {count} programs {ways} ways: {name} {:.9}, proven {}, gap {:?}, {} clusters, \
             {} nodes, {} pruned, {:.2} ms, {:.2} ms with a table",
            first.value,
            first.proven,
            first.gap,
            first.clusters.len(),
            first.nodes,
            first.pruned,
            first.solver_seconds * 1e3,
            again.solver_seconds * 1e3,
        );
    }
}

/// The Gold 6138, or its LLC of the same size in 20 ways.
fn machine(ways: u32) -> Machine {
    if ways == 11 {
        return preset("xeon-gold-6138").unwrap();
    }
    let text = include_str!("../../../machines/xeon-gold-6138.toml");
    let spec: MachineSpec = toml::from_str(&text.replace("ways = 11", "ways = 20")).unwrap();
    Machine::from_spec(spec).unwrap()
}

fn set(ways: u32, count: usize) -> (Model, Vec<LoadedProgram>) {
    let options = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    let model = Model::new(Arc::new(machine(ways)), options).unwrap();
    let profiles = profiles(count);
    let programs = profiles.iter().map(|profile| model.load(profile).unwrap()).collect();
    (model, programs)
}

fn members(programs: &[LoadedProgram]) -> Vec<Member<'_>> {
    let member = |(cpu, program)| Member { program, phase: 0, cpu };
    programs.iter().enumerate().map(member).collect()
}

fn profiles(count: usize) -> Vec<Profile> {
    match std::env::var("CORUN_SOLO_TABLE") {
        Ok(file) => {
            let text = std::fs::read_to_string(&file).unwrap();
            let all = import_csv(&text, &file, &MeasuredOn::xeon_gold_6138()).unwrap();
            let skip = number("CORUN_BENCH_SKIP").unwrap_or(0);
            let step = (all.len() - skip) / count;
            all.into_iter().skip(skip).step_by(step).take(count).collect()
        }
        Err(_) => (0..count)
            .map(|i| programs::program(2.0 + 3.0 * i as f64, 1.0 + (i * 5 % 16) as f64))
            .collect(),
    }
}

fn bench(bencher: Bencher<'_, '_>, kind: Kind, ways: u32, count: usize, of: PartitionObjective) {
    let (model, programs) = set(ways, count);
    let members = members(&programs);
    bencher.bench(|| {
        let problem = PartitionProblem::new(&model, &members, ways, 1, kind).unwrap();
        problem.solve(black_box(of), Goal::Best, &SearchLimits::default()).unwrap().value
    });
}

#[divan::bench(args = [(11, 8), (20, 8), (20, 10), (20, 16)], sample_count = 20, sample_size = 1)]
fn strict_stp(bencher: Bencher<'_, '_>, (ways, count): (u32, usize)) {
    bench(bencher, Kind::Strict, ways, count, PartitionObjective::Stp);
}

#[divan::bench(args = [(11, 8), (20, 8), (20, 10), (20, 16)], sample_count = 20, sample_size = 1)]
fn strict_unfairness(bencher: Bencher<'_, '_>, (ways, count): (u32, usize)) {
    bench(bencher, Kind::Strict, ways, count, PartitionObjective::Unfairness);
}

#[divan::bench(args = [8, 12], sample_count = 5, sample_size = 1)]
fn cluster_stp(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, Kind::Cluster, 11, count, PartitionObjective::Stp);
}

#[divan::bench(args = [8, 12], sample_count = 5, sample_size = 1)]
fn cluster_unfairness(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, Kind::Cluster, 11, count, PartitionObjective::Unfairness);
}
