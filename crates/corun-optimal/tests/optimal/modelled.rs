//! The model's own optimum against enumeration, for every bandwidth model on every kind of
//! machine.

use std::sync::Arc;

use crate::programs::program;
use corun_machine::Machine;
use corun_model::{BandwidthModel, Demand, LoadedProgram, Model, ModelOptions};
use corun_optimal::{
    Contention, Coupling, CpuSlot, EveryPlacement, Goal, ModelScratch, Objective, PlacementError,
    PlacementProblem, Placer, SearchLimits,
};
use corun_profile::{Origin, Phase, Profile, ProfileData, Recording};
use proptest::prelude::*;

fn check(machine: &Arc<Machine>, options: ModelOptions, wants: &[(f64, f64)], home: Option<usize>) {
    let model = Model::new(Arc::clone(machine), options).unwrap();
    let mut programs: Vec<Arc<LoadedProgram>> = Vec::new();
    for (index, want) in wants.iter().enumerate() {
        let twin = wants[..index].iter().position(|other| other == want);
        programs.push(match twin {
            Some(twin) => Arc::clone(&programs[twin]),
            None => Arc::new(model.load(&program(want.0, want.1)).unwrap()),
        });
    }
    let mut homes = vec![None; programs.len()];
    homes[0] = home;
    let problem = PlacementProblem::new(&model, &programs).unwrap().with_homes(&homes).unwrap();
    let placer = problem.placer().unwrap();
    let limits = SearchLimits::default();
    let every = EveryPlacement::new(machine, &problem, programs.len());
    for (_, objective) in Objective::NAMED {
        for goal in [Goal::Best, Goal::Worst] {
            let what = format!("{} {options:?} {objective:?} {goal:?} {wants:?}", machine.name());
            let all = every.first(objective, goal, f64::INFINITY).unwrap();
            let found = placer.solve(objective, goal, &limits);
            assert!(found.proven, "{what}");
            let error = (found.value - all.value).abs();
            // Unfairness of equal STP may differ within its room.
            assert!(error < 2e-6 * all.value, "{what}: {found:?} {all:?}");
            if objective != Objective::Unfairness {
                assert!(error < 1e-9 * all.value.max(1.0), "{what}: {found:?} {all:?}");
            }
            assert_eq!(placer.evaluate(&found.cpu).unwrap(), found.slowdown);
            if goal == Goal::Best {
                let expected = placer.expectation(objective, 10, 1, &limits).unwrap();
                assert!(
                    expected.exact && (expected.value - all.mean).abs() <= 1e-9 * all.mean.abs(),
                    "{what}: {expected:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn the_optimum_agrees_with_enumeration(
        wants in prop::collection::vec((1.0f64..60.0, 0.2f64..12.0), 2..5),
        twins in any::<bool>(),
        home in 0usize..2,
    ) {
        let mut wants = wants;
        if twins {
            wants[1] = wants[0];
        }
        for machine in crate::machines::all().into_iter().map(Arc::new) {
            let home = (machine.nodes().len() > home).then_some(home);
            for (_, bandwidth) in BandwidthModel::ALL {
                let options = ModelOptions { bandwidth, ..ModelOptions::default() };
                check(&machine, options, &wants, None);
                check(&machine, options, &wants, home);
            }
        }
    }
}

#[test]
fn eight_programs_on_the_papers_machine() {
    // DIO's Xeon X5365: two packages with a bus each, each with two LLCs of two CPUs.
    let machine = Arc::new(corun_machine::preset("xeon-x5365").unwrap());
    let model = Model::new(machine, ModelOptions::default()).unwrap();
    let programs: Vec<Arc<LoadedProgram>> = (0..8)
        .map(|i| program(2.0 + 6.0 * f64::from(i), 1.0 + f64::from(i * 3 % 8)))
        .map(|profile| Arc::new(model.load(&profile).unwrap()))
        .collect();
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    // 105 ways to pair up, times 3 ways to put four pairs into two like packages.
    let placer = problem.placer().unwrap();
    let limits = SearchLimits::default();
    let best = placer.solve(Objective::MeanSlowdown, Goal::Best, &limits);
    let worst = placer.solve(Objective::MeanSlowdown, Goal::Worst, &limits);
    let random = placer.expectation(Objective::MeanSlowdown, 10, 1, &limits).unwrap();
    assert!(best.proven && worst.proven && random.exact && random.count == 315);
    assert!(best.value < random.value && random.value < worst.value);
}

/// The same slowdowns, said to be coupled anyhow: the search then has hardly a bound.
struct AnyCoupling<'p>(&'p PlacementProblem<'p>);

impl Contention for AnyCoupling<'_> {
    type Share = Demand;
    type Scratch = ModelScratch;

    fn share(&self, group: &[CpuSlot], scratch: &mut ModelScratch, shares: &mut Vec<Demand>) {
        self.0.share(group, scratch, shares);
    }

    fn couple(
        &self,
        seats: &[CpuSlot],
        shares: &[Demand],
        scratch: &mut ModelScratch,
        slowdowns: &mut Vec<f64>,
    ) {
        self.0.couple(seats, shares, scratch, slowdowns);
    }

    fn lighter(&self, one: &Demand, other: &Demand) -> Demand {
        self.0.lighter(one, other)
    }

    fn heavier(&self, one: &Demand, other: &Demand) -> Demand {
        self.0.heavier(one, other)
    }

    fn traffic(&self, share: &Demand) -> f64 {
        self.0.traffic(share)
    }

    fn passing(&self, seats: &[CpuSlot], shares: &[Demand], scratch: &mut ModelScratch) -> f64 {
        self.0.passing(seats, shares, scratch)
    }

    fn coupling(&self) -> Coupling {
        Coupling::Any
    }
}

#[test]
fn bounds_cut_nothing_that_matters_among_ten_programs() {
    let machine = Arc::new(crate::machines::four_by(3));
    for (_, bandwidth) in BandwidthModel::ALL {
        let options = ModelOptions { bandwidth, ..ModelOptions::default() };
        let model = Model::new(Arc::clone(&machine), options).unwrap();
        let programs: Vec<Arc<LoadedProgram>> = (0..10)
            .map(|i| program(3.0 + 5.0 * f64::from(i * 7 % 10), 1.0 + f64::from(i * 3 % 8)))
            .map(|profile| Arc::new(model.load(&profile).unwrap()))
            .collect();
        let problem = PlacementProblem::new(&model, &programs).unwrap();
        let unbounded = AnyCoupling(&problem);
        let all = Placer::new(&machine, &unbounded, 10).unwrap();
        for goal in [Goal::Best, Goal::Worst] {
            let limits = SearchLimits::default();
            let cut = problem.placer().unwrap().solve(Objective::MeanSlowdown, goal, &limits);
            let whole = all.solve(Objective::MeanSlowdown, goal, &limits);
            assert!(cut.proven && whole.proven);
            assert_eq!(cut.llc, whole.llc, "{bandwidth} {goal:?}");
            assert_eq!(cut.slowdown, whole.slowdown);
        }
    }
}

/// A recording with the phases of these, of so many instructions each.
fn joined(parts: [(Profile, u64); 2]) -> Profile {
    let phases = parts.map(|(part, instructions)| match part.data {
        ProfileData::Recording(recording) => Phase { instructions, ..recording.phases[0].clone() },
        ProfileData::Table(_) => panic!("a recording is expected"),
    });
    let data = ProfileData::Recording(Recording::new(Origin::default(), phases.to_vec()));
    Profile { name: "joined".to_owned(), data }
}

/// A program that misses in the shorter of its two phases hurts less than by that one, and more
/// than by the longer.
#[test]
fn programs_are_placed_as_a_whole() {
    let model =
        Model::new(Arc::new(crate::machines::two_by_two()), ModelOptions::default()).unwrap();
    let load = |profile| Arc::new(model.load(&profile).unwrap());
    let bursts = load(joined([(program(0.2, 0.1), 5_000_000), (program(60.0, 50.0), 4_000_000)]));
    let (quiet, needy) = (load(program(0.2, 0.1)), load(program(20.0, 1.0)));
    let programs = [Arc::clone(&bursts), quiet, Arc::clone(&needy), needy];
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    let phases = |first| vec![first, 0, 0, 0];
    let slowdowns =
        |problem: &PlacementProblem<'_>| problem.placer().unwrap().evaluate(&[0, 2, 1, 3]).unwrap();
    let whole = problem.clone().with_phases(phases(LoadedProgram::WHOLE)).unwrap();
    assert_eq!(slowdowns(&problem), slowdowns(&whole));
    let [idle, busy] = [0, 1].map(|one| problem.clone().with_phases(phases(one)).unwrap());
    let beside = |problem| slowdowns(problem)[2];
    assert!(beside(&idle) < beside(&whole) && beside(&whole) < beside(&busy));
}

#[test]
fn homes_and_phases_that_do_not_exist_are_refused() {
    let model =
        Model::new(Arc::new(crate::machines::two_nodes()), ModelOptions::default()).unwrap();
    let programs = [Arc::new(model.load(&program(5.0, 2.0)).unwrap())];
    let problem = PlacementProblem::new(&model, &programs).unwrap();
    assert!(matches!(
        problem.clone().with_homes(&[Some(2)]),
        Err(PlacementError::Home { node: 2, nodes: 2, .. })
    ));
    assert!(matches!(
        problem.clone().with_homes(&[]),
        Err(PlacementError::Length { found: 0, programs: 1, .. })
    ));
    assert!(matches!(
        problem.with_phases(vec![1]),
        Err(PlacementError::Phase { phase: 1, phases: 1, .. })
    ));
    assert!(matches!(PlacementProblem::new(&model, &[]), Err(PlacementError::NoProgram)));
}

/// All maps of programs to CPUs.
fn maps(cpus: usize, programs: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..programs {
        let longer = |map: &Vec<usize>| {
            let free = (0..cpus).filter(|cpu| !map.contains(cpu));
            free.map(|cpu| [&map[..], &[cpu]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_placement_is_beyond_the_frontier(
        wants in prop::collection::vec((1.0f64..60.0, 0.2f64..12.0), 2..5),
    ) {
        for machine in crate::machines::all().into_iter().map(Arc::new) {
            let model = Model::new(Arc::clone(&machine), ModelOptions::default()).unwrap();
            let load = |want: &(f64, f64)| Arc::new(model.load(&program(want.0, want.1)).unwrap());
            let programs: Vec<Arc<LoadedProgram>> = wants.iter().map(load).collect();
            let problem = PlacementProblem::new(&model, &programs).unwrap();
            let placer = problem.placer().unwrap();
            let frontier = placer.frontier(&SearchLimits::default()).unwrap();
            prop_assert!(!frontier.is_empty());
            for pair in frontier.windows(2) {
                prop_assert!(pair[0].stp < pair[1].stp && pair[0].unfairness < pair[1].unfairness);
            }
            for point in &frontier {
                let slowdowns = placer.evaluate(&point.cpu).unwrap();
                prop_assert_eq!(Some(point.stp), corun_metrics::stp(&slowdowns));
                prop_assert_eq!(Some(point.unfairness), corun_metrics::unfairness(&slowdowns));
            }
            for cpus in maps(machine.cpus().len(), programs.len()) {
                let slowdowns = placer.evaluate(&cpus).unwrap();
                let stp = corun_metrics::stp(&slowdowns).unwrap();
                let unfairness = corun_metrics::unfairness(&slowdowns).unwrap();
                let as_good = |one: &corun_optimal::FrontierPoint| {
                    one.stp >= stp - 1e-9 && one.unfairness <= unfairness + 1e-9
                };
                prop_assert!(frontier.iter().any(as_good), "{} {cpus:?}: {stp} {unfairness}", machine.name());
            }
        }
    }
}
