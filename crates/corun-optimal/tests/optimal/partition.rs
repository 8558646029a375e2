//! The optimal partition against every partition, each judged by the model itself.

use std::sync::Arc;
use std::time::Duration;

use crate::every::every;
use crate::programs::program;
use corun_machine::{AccessRates, Machine, MachineSpec, preset};
use corun_model::{
    BandwidthModel, Compatibility, LoadedProgram, Member, Model, ModelOptions, SpaceLaw,
};
use corun_optimal::partition::{
    Kind, ParetoPoint, PartitionObjective, PartitionProblem, PartitionResult, PartitionSearchError,
};
use corun_optimal::{Goal, SearchLimits};
use corun_profile::{Library, MeasuredOn, Profile, import_csv};
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
            Err(PartitionSearchError::TooFewWays { .. }) if kind == Kind::Strict => continue,
            Err(error) => panic!("{error}"),
        };
        let all = every(programs.len(), ways, min_ways, kind);
        for objective in PartitionObjective::ALL {
            let what = format!("{:?} {kind:?} {ways} {objective:?}", model.options());
            let truth = enumerate(&problem, &all, objective);
            let best = problem.solve(objective, Goal::Best, &SearchLimits::default()).unwrap();
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
            let worst = problem.solve(objective, Goal::Worst, &SearchLimits::default()).unwrap();
            assert!(worst.proven && near(worst.value, truth.worst), "{what}: {worst:?}");
        }
    }
}

/// Where a machine says what written lines take of its memory, the search adds up how busy that is: no proof of
/// the least bytes, while slowdowns follow from it as before.
#[test]
fn the_least_traffic_is_not_proven_where_written_lines_weigh_more() {
    let plain = machine(4, 4000.0);
    let mut spec = plain.spec().clone();
    spec.bandwidth_domains[0].rates = Some(AccessRates {
        read_mb_per_s: Some(4000.0),
        write_mb_per_s: Some(500.0),
        ..AccessRates::default()
    });
    let rated = Arc::new(Machine::from_spec(spec).unwrap());
    for (machine, says) in [(plain, true), (rated, false)] {
        let model = Model::new(machine, ModelOptions::default()).unwrap();
        let programs: Vec<LoadedProgram> =
            [40.0, 20.0, 10.0].map(|mpki| model.load(&program(mpki, 1.0)).unwrap()).into();
        let members = members(&programs);
        let problem = PartitionProblem::new(&model, &members, 4, 1, Kind::Cluster).unwrap();
        let proven = |objective| {
            problem.solve(objective, Goal::Best, &SearchLimits::default()).unwrap().proven
        };
        assert_eq!(proven(PartitionObjective::Bandwidth), says);
        assert!(proven(PartitionObjective::Stp));
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

/// Searches five of these programs, every ninth from one on, under several models of bandwidth.
fn check_some_of(profiles: &[Profile]) {
    let stalls = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    for (options, first) in [
        (stalls, 0),
        (ModelOptions::default(), 3),
        (ModelOptions::pbbcache(Some(35_000.0)), 5),
        (ModelOptions::pbbcache(Some(10_000.0)), 1),
    ] {
        let machine = Arc::new(preset("xeon-gold-6138").unwrap());
        let model = Model::new(machine, options).unwrap();
        // At a low peak some drew more than it: the model refuses them.
        let ninth = profiles.iter().skip(first).step_by(9);
        let programs: Vec<LoadedProgram> =
            ninth.filter_map(|profile| model.load(profile).ok()).take(5).collect();
        check(&model, &programs, 11, 1);
    }
}

#[test]
fn a_cache_that_resists_streams() {
    fn visit(object: &mut corun_machine::ObjectSpec) {
        if object.level == Some(3) {
            object.single_use_life = Some(0.15);
        }
        object.objects.iter_mut().for_each(visit);
    }
    let mut spec = preset("xeon-gold-6138").unwrap().spec().clone();
    spec.objects.iter_mut().for_each(visit);
    let machine = Arc::new(Machine::from_spec(spec).unwrap());
    assert_eq!(machine.llcs()[0].cache.unwrap().single_use_life, 0.15);
    let model = Model::new(machine, ModelOptions::default()).unwrap();
    let profiles = Library::shipped().unwrap();
    let programs: Vec<LoadedProgram> =
        profiles.iter().step_by(11).take(4).map(|profile| model.load(profile).unwrap()).collect();
    check(&model, &programs, 11, 1);
}

#[test]
fn programs_of_the_shipped_library() {
    let profiles: Vec<Profile> = Library::shipped().unwrap().iter().cloned().collect();
    check_some_of(&profiles);
}

/// The public table of SPEC solo figures is not part of corun.
#[test]
#[ignore = "needs the public table (CORUN_SOLO_TABLE)"]
fn programs_of_the_public_table() {
    let table = std::env::var("CORUN_SOLO_TABLE").expect("CORUN_SOLO_TABLE names the table");
    let text = std::fs::read_to_string(&table).unwrap();
    check_some_of(&import_csv(&text, "solo.csv", &MeasuredOn::xeon_gold_6138()).unwrap());
}

#[test]
fn threads_change_nothing() {
    let machine = machine(8, 9000.0);
    let model = Model::new(machine, ModelOptions::default()).unwrap();
    let programs: Vec<LoadedProgram> = (0..8)
        .map(|i| program(2.0 + 7.0 * f64::from(i * 5 % 8), 0.2 + 0.4 * f64::from(i * 3 % 8)))
        .map(|profile| model.load(&profile).unwrap())
        .collect();
    let members = members(&programs);
    for objective in PartitionObjective::ALL {
        let limits = SearchLimits { nodes: 20_000, ..SearchLimits::default() };
        let found = [1, 2].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let problem = PartitionProblem::new(&model, &members, 8, 1, Kind::Cluster).unwrap();
                let found = problem.solve(objective, Goal::Best, &limits).unwrap();
                PartitionResult { solver_seconds: 0.0, ..found }
            })
        });
        assert_eq!(found[0], found[1], "{objective:?}");
    }
}

#[test]
fn a_search_cut_short_says_how_far_it_is() {
    let machine = machine(11, 6000.0);
    let model = Model::new(machine, ModelOptions::default()).unwrap();
    let programs: Vec<LoadedProgram> = (0..7)
        .map(|i| program(3.0 + 8.0 * f64::from(i * 3 % 7), 0.3 + 0.5 * f64::from(i * 2 % 7)))
        .map(|profile| model.load(&profile).unwrap())
        .collect();
    let members = members(&programs);
    let problem = PartitionProblem::new(&model, &members, 11, 1, Kind::Cluster).unwrap();
    for objective in PartitionObjective::ALL {
        if objective == PartitionObjective::Bandwidth {
            // One step.
            continue;
        }
        let whole = problem.solve(objective, Goal::Best, &SearchLimits::default()).unwrap();
        assert!(whole.proven, "{objective:?}");
        for nodes in [1, 2, 3, 5, 9, 20] {
            let limits = SearchLimits { nodes, ..SearchLimits::default() };
            let cut = problem.solve(objective, Goal::Best, &limits).unwrap();
            let sign = if objective.highest_is_best() { -1.0 } else { 1.0 };
            let room = 2e-6 * whole.value;
            assert!(sign * (cut.value - whole.value) >= -room, "{objective:?} {nodes}");
            if let Some(bound) = cut.bound {
                assert!(sign * (whole.value - bound) >= -room, "{objective:?} {nodes} {bound}");
            }
            assert_eq!(cut.gap.is_some(), cut.bound.is_some());
        }
    }
    // No time at all: a partition all the same, without a proof.
    let limits = SearchLimits { time: Some(Duration::ZERO), ..SearchLimits::default() };
    let fresh = PartitionProblem::new(&model, &members, 11, 1, Kind::Cluster).unwrap();
    let found = fresh.solve(PartitionObjective::Stp, Goal::Best, &limits).unwrap();
    assert!(!found.proven && found.gap.is_none() && found.ways.iter().sum::<u32>() == 11);
}

#[test]
fn the_pareto_front_is_that_of_all_partitions() {
    let model = Model::new(machine(6, 5000.0), ModelOptions::default()).unwrap();
    let programs: Vec<LoadedProgram> = [(40.0, 0.5), (9.0, 2.5), (25.0, 1.5), (3.0, 0.8)]
        .map(|(mpki, mib)| model.load(&program(mpki, mib)).unwrap())
        .to_vec();
    let members = members(&programs);
    for kind in [Kind::Strict, Kind::Cluster] {
        let problem = PartitionProblem::new(&model, &members, 6, 1, kind).unwrap();
        let front = problem.pareto_front(&SearchLimits::default()).unwrap();
        assert!(front.proven && !front.points.is_empty());
        let judged: Vec<(f64, f64)> = every(4, 6, 1, kind)
            .iter()
            .map(|(clusters, ways)| {
                let outcomes = problem.evaluate(clusters, ways).unwrap();
                let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
                let value = |objective: PartitionObjective| objective.value(&slowdowns, 0.0);
                let stp = value(PartitionObjective::Stp).unwrap();
                (stp, value(PartitionObjective::Unfairness).unwrap())
            })
            .collect();
        for point in &front.points {
            let beats = |one: &&(f64, f64)| {
                one.0 > point.stp * (1.0 + 1e-9) && one.1 < point.unfairness * (1.0 - 2e-6)
            };
            assert_eq!(judged.iter().find(beats), None, "{point:?}");
        }
        for one in &judged {
            let covers = |point: &ParetoPoint| {
                point.stp >= one.0 * (1.0 - 1e-9) && point.unfairness <= one.1 * (1.0 + 2e-6)
            };
            assert!(front.points.iter().any(covers), "{one:?}");
        }
        let falls = |pair: &[ParetoPoint]| {
            pair[0].stp > pair[1].stp && pair[0].unfairness > pair[1].unfairness
        };
        assert!(front.points.windows(2).all(falls));
    }
}

#[test]
fn questions_without_an_answer_are_refused() {
    let model = Model::new(machine(4, 5000.0), ModelOptions::default()).unwrap();
    let programs: Vec<LoadedProgram> =
        (0..5).map(|i| model.load(&program(5.0 + f64::from(i), 1.0)).unwrap()).collect();
    let members = members(&programs);
    let new = |members: &[Member<'_>], ways, min_ways, kind| {
        PartitionProblem::new(&model, members, ways, min_ways, kind).map(|_| ()).unwrap_err()
    };
    let error = new(&members, 4, 1, Kind::Strict);
    assert_eq!(
        error.to_string(),
        "5 programs, each with 1 or more of 4 ways of its own: there is room for 4; clustering, \
         where programs may share ways, would do"
    );
    assert!(matches!(
        new(&members, 5, 1, Kind::Cluster),
        PartitionSearchError::Ways { llc_ways: 4, .. }
    ));
    assert!(matches!(new(&members, 4, 5, Kind::Cluster), PartitionSearchError::MinWays { .. }));
    assert!(matches!(new(&[], 4, 1, Kind::Cluster), PartitionSearchError::NoProgram));
    let twice = [members[0], members[0]];
    assert!(matches!(new(&twice, 4, 1, Kind::Cluster), PartitionSearchError::SameCpu { cpu: 0 }));
    let problem = PartitionProblem::new(&model, &members[..2], 4, 1, Kind::Strict).unwrap();
    for (clusters, ways) in [
        (vec![vec![0], vec![1]], vec![2, 1]),
        (vec![vec![0, 1]], vec![4]),
        (vec![vec![0], vec![0]], vec![2, 2]),
        (vec![vec![0], vec![2]], vec![2, 2]),
        (vec![vec![0]], vec![4]),
    ] {
        let given = problem.evaluate(&clusters, &ways);
        assert!(matches!(given, Err(PartitionSearchError::Given { .. })), "{clusters:?}");
    }
    let bus = Model::new(Arc::new(preset("xeon-x5365").unwrap()), ModelOptions::default()).unwrap();
    let programs: Vec<LoadedProgram> =
        (0..2).map(|i| bus.load(&program(5.0 + f64::from(i), 1.0)).unwrap()).collect();
    let llc = |cpu: usize| bus.machine().cpus()[cpu].llc;
    let beside = (1..8).find(|&cpu| llc(cpu) == llc(0)).unwrap();
    let apart = (1..8).find(|&cpu| llc(cpu) != llc(0)).unwrap();
    let on = |cpu| {
        let member = |index: usize, cpu| Member { program: &programs[index], phase: 0, cpu };
        PartitionProblem::new(&bus, &[member(0, 0), member(1, cpu)], 4, 1, Kind::Cluster)
    };
    assert!(matches!(on(beside), Err(PartitionSearchError::SeveralDomains { domains: 2 })));
    assert!(matches!(on(apart), Err(PartitionSearchError::SeveralLlcs { .. })));
}
