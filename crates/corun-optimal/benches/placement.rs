//! Time to the proven optimum, beside its baseline: every placement that symmetry leaves, visited
//! without bounds.
//!
//! `cargo bench -p corun-optimal` prints a table of all cases first; with arguments, such as a filter, times alone. With
//! `CORUN_SOLO_TABLE` naming the public table of solo figures by ways its programs are used, else made-up ones.

#[path = "../tests/optimal/machines.rs"]
#[allow(dead_code)] // The tests use the others.
mod machines;
#[path = "../tests/optimal/programs.rs"]
mod programs;

use std::sync::Arc;

use corun_machine::{Machine, preset};
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_optimal::{Goal, Objective, PlacementProblem, SearchLimits};
use corun_profile::{MeasuredOn, Profile, import_csv};
use divan::{Bencher, black_box};

fn main() {
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        show();
    }
    divan::main();
}

/// Prints what each objective's search does in each case.
fn show() {
    for (what, machine, count) in cases() {
        let (model, programs) = set(machine, count);
        let problem = PlacementProblem::new(&model, &programs).unwrap();
        let placer = problem.placer().unwrap();
        for (name, objective) in objectives() {
            for goal in [Goal::Best, Goal::Worst] {
                let found = placer.solve(objective, goal, &SearchLimits::default());
                println!(
                    "{what}: {name} {goal:?} {:.6}, proven {}, {} nodes, {} pruned, {:.1} ms",
                    found.value,
                    found.proven,
                    found.nodes,
                    found.pruned,
                    found.seconds * 1e3
                );
            }
        }
        let limits = SearchLimits::default();
        let random = placer.expectation(Objective::MeanSlowdown, 10_000, 1, &limits);
        println!("{what}: {random:?}");
    }
}

fn objectives() -> [(&'static str, Objective); 4] {
    [
        ("mean slowdown", Objective::MeanSlowdown),
        ("stp", Objective::Stp),
        ("max slowdown", Objective::MaxSlowdown),
        ("unfairness", Objective::Unfairness),
    ]
}

fn cases() -> [(&'static str, Machine, usize); 4] {
    [
        ("8 on xeon-x5365", preset("xeon-x5365").unwrap(), 8),
        ("8 on 4x2, one controller", machines::four_by(2), 8),
        ("16 on 4x4, one controller", machines::four_by(4), 16),
        ("8 on 2x-gold-6138-4c", preset("2x-gold-6138-4c").unwrap(), 8),
    ]
}

/// So many programs, every other one of the table's by name.
fn set(machine: Machine, count: usize) -> (Model, Vec<Arc<LoadedProgram>>) {
    let model = Model::new(Arc::new(machine), ModelOptions::default()).unwrap();
    let profiles = profiles(count);
    let programs = profiles.iter().map(|profile| Arc::new(model.load(profile).unwrap())).collect();
    (model, programs)
}

fn profiles(count: usize) -> Vec<Profile> {
    match std::env::var("CORUN_SOLO_TABLE") {
        Ok(file) => {
            let text = std::fs::read_to_string(&file).unwrap();
            let all = import_csv(&text, &file, &MeasuredOn::xeon_gold_6138()).unwrap();
            let step = all.len() / count;
            all.into_iter().step_by(step).take(count).collect()
        }
        Err(_) => (0..count)
            .map(|i| programs::program(2.0 + 3.0 * i as f64, 1.0 + (i * 5 % 16) as f64))
            .collect(),
    }
}

#[divan::bench(args = [0, 1, 2, 3], sample_count = 5, sample_size = 1)]
fn optimum(bencher: Bencher<'_, '_>, case: usize) {
    let (_, machine, count) = cases().into_iter().nth(case).unwrap();
    let (model, programs) = set(machine, count);
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    let placer = problem.placer().unwrap();
    bencher.bench(|| {
        placer.solve(black_box(Objective::MeanSlowdown), Goal::Best, &SearchLimits::default()).value
    });
}

/// The baseline: every placement that symmetry leaves, for the cases that have up to
/// `MOST_VISITED` of them.
#[divan::bench(args = [0, 1, 3], sample_count = 5, sample_size = 1)]
fn every_placement(bencher: Bencher<'_, '_>, case: usize) {
    let (_, machine, count) = cases().into_iter().nth(case).unwrap();
    let (model, programs) = set(machine, count);
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    let placer = problem.placer().unwrap();
    let limits = SearchLimits::default();
    bencher.bench(|| {
        placer.expectation(black_box(Objective::MeanSlowdown), 2, 1, &limits).unwrap().value
    });
}

/// The baseline of the largest case, by the piece: ten thousand placements drawn and judged.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn ten_thousand_of_sixteen(bencher: Bencher<'_, '_>) {
    let (_, machine, count) = cases().into_iter().nth(2).unwrap();
    let (model, programs) = set(machine, count);
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    let placer = problem.placer().unwrap();
    let limits = SearchLimits::default();
    bencher.bench(|| {
        placer.expectation(black_box(Objective::MeanSlowdown), 10_000, 1, &limits).unwrap().value
    });
}
