//! The optimal partition against every partition, each judged by the model itself.

mod programs;

use std::sync::Arc;

use corun_machine::{Machine, MachineSpec};
use corun_model::{
    BandwidthModel, Compatibility, LoadedProgram, Member, Model, ModelOptions, SpaceLaw,
};
use corun_optimal::partition::{Kind, PartitionError, PartitionObjective, PartitionProblem};
use corun_optimal::{Goal, Limits};
use programs::program;
use proptest::prelude::*;

/// One LLC of so many ways of 256 KiB over 8 cores, with a memory of this peak.
fn machine(ways: u32, peak_mb_per_s: f64) -> Arc<Machine> {
    let text = format!(
        "version = 1\nname = \"one\"\n[[core_type]]\nname = \"big\"\nclock_mhz = 3000\n\
         [[bandwidth]]\nname = \"memory\"\nkind = \"memory-controller\"\nstage = 0\n\
         peak_mb_per_s = {peak_mb_per_s}\n\
         [[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = {}\nways = {ways}\n\
         [[object.object]]\nkind = \"core\"\ncount = 8\n",
        256 * ways
    );
    let spec: MachineSpec = toml::from_str(&text).unwrap();
    Arc::new(Machine::from_spec(spec).unwrap())
}

fn members(programs: &[LoadedProgram]) -> Vec<Member<'_>> {
    let member = |(cpu, program)| Member { program, phase: 0, cpu };
    programs.iter().enumerate().map(member).collect()
}

/// Every partition of `programs` programs: clusters and their ways.
fn every(
    programs: usize,
    ways: u32,
    min_ways: u32,
    kind: Kind,
) -> Vec<(Vec<Vec<usize>>, Vec<u32>)> {
    let mut groupings: Vec<Vec<Vec<usize>>> = vec![vec![]];
    for program in 0..programs {
        let mut next = Vec::new();
        for grouping in groupings {
            for cluster in 0..=grouping.len() {
                let mut grown = grouping.clone();
                if cluster == grouping.len() {
                    grown.push(vec![program]);
                } else if kind == Kind::Cluster {
                    grown[cluster].push(program);
                } else {
                    continue;
                }
                next.push(grown);
            }
        }
        groupings = next;
    }
    let mut all = Vec::new();
    for grouping in groupings {
        let mut ways_of: Vec<Vec<u32>> = vec![vec![]];
        for cluster in 0..grouping.len() {
            let grow = |given: Vec<u32>| {
                let left = ways - given.iter().sum::<u32>();
                let is_last = cluster + 1 == grouping.len();
                let first = if is_last { left } else { min_ways };
                (first.max(min_ways)..=left).map(move |k| {
                    let mut grown = given.clone();
                    grown.push(k);
                    grown
                })
            };
            ways_of = ways_of.into_iter().flat_map(grow).collect();
        }
        all.extend(ways_of.into_iter().map(|ways| (grouping.clone(), ways)));
    }
    all
}

struct Enumerated {
    /// The best value; of unfairness, that of the highest STP among the fairest.
    best: f64,
    worst: f64,
    stp_of_best: f64,
}

fn enumerate(
    problem: &PartitionProblem<'_>,
    all: &[(Vec<Vec<usize>>, Vec<u32>)],
    objective: PartitionObjective,
) -> Enumerated {
    let judged: Vec<(f64, f64)> = all
        .iter()
        .map(|(clusters, ways)| {
            let outcomes = problem.evaluate(clusters, ways).unwrap();
            let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
            let bytes = outcomes.iter().map(|one| one.bytes_per_s).sum();
            let value = objective.value(&slowdowns, bytes).unwrap();
            (value, PartitionObjective::Stp.value(&slowdowns, bytes).unwrap())
        })
        .collect();
    let least = judged.iter().fold(f64::INFINITY, |least, one| one.0.min(least));
    let most = judged.iter().fold(f64::NEG_INFINITY, |most, one| one.0.max(most));
    let (best, worst) = if objective.highest_is_best() { (most, least) } else { (least, most) };
    let fair = judged.iter().filter(|one| one.0 <= least * (1.0 + 1e-6));
    let stp_of_best = fair.fold(0.0, |most: f64, one| one.1.max(most));
    Enumerated { best, worst, stp_of_best }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn check(model: &Model, programs: &[LoadedProgram], ways: u32, min_ways: u32) {
    let members = members(programs);
    for kind in [Kind::Strict, Kind::Cluster] {
        let problem = match PartitionProblem::new(model, &members, ways, min_ways, kind) {
            Ok(problem) => problem,
            Err(PartitionError::TooFewWays { .. }) if kind == Kind::Strict => continue,
            Err(error) => panic!("{error}"),
        };
        let all = every(programs.len(), ways, min_ways, kind);
        for objective in PartitionObjective::ALL {
            let what = format!("{:?} {kind:?} {ways} {objective:?}", model.options());
            let truth = enumerate(&problem, &all, objective);
            let best = problem.solve(objective, Goal::Best, &Limits::default()).unwrap();
            assert!(best.proven && best.gap == Some(0.0), "{what}: {best:?}");
            let value = |bytes| objective.value(&best.slowdowns, bytes).unwrap();
            let bytes = best.outcomes.iter().map(|one| one.bytes_per_s).sum();
            assert_eq!(value(bytes), best.value, "{what}");
            if objective == PartitionObjective::Unfairness {
                assert!(best.value <= truth.best * (1.0 + 1.000_001e-6), "{what}: {best:?}");
                let stp = PartitionObjective::Stp.value(&best.slowdowns, 0.0).unwrap();
                assert!(near(stp, truth.stp_of_best), "{what}: {best:?} {}", truth.stp_of_best);
            } else {
                assert!(near(best.value, truth.best), "{what}: {best:?} {}", truth.best);
            }
            let worst = problem.solve(objective, Goal::Worst, &Limits::default()).unwrap();
            assert!(worst.proven && near(worst.value, truth.worst), "{what}: {worst:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_optimum_agrees_with_enumeration(
        wants in prop::collection::vec((1.0f64..60.0, 0.2f64..3.0), 1..6),
        ways in 1u32..7,
        min_ways in 1u32..3,
        peak in 1000.0f64..12_000.0,
        twins in any::<bool>(),
        which in 0usize..3,
    ) {
        let mut wants = wants;
        if twins && wants.len() > 1 {
            wants[1] = wants[0];
        }
        let machine = machine(ways, peak);
        for (_, bandwidth) in BandwidthModel::ALL {
            let space = SpaceLaw::ALL[which].1;
            let options = ModelOptions { bandwidth, space, ..ModelOptions::default() };
            let model = Model::new(Arc::clone(&machine), options).unwrap();
            let load = |want: &(f64, f64)| model.load(&program(want.0, want.1)).unwrap();
            let programs: Vec<LoadedProgram> = wants.iter().map(load).collect();
            check(&model, &programs, ways, min_ways.min(ways));
        }
        let options =
            ModelOptions { compatibility: Compatibility::Pbbcache, ..ModelOptions::default() };
        let model = Model::new(Arc::clone(&machine), options).unwrap();
        let load = |want: &(f64, f64)| model.load(&program(want.0, want.1)).unwrap();
        let programs: Vec<LoadedProgram> = wants.iter().map(load).collect();
        check(&model, &programs, ways, min_ways.min(ways));
    }
}
