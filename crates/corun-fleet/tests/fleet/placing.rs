//! Placement, repair, search and bound against brute force, on small fleets of made-up programs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corun_app::{Cancel, Error, Result};
use corun_fleet::{
    Bounds, Fleet, Ground, NodeKind, Objective, Prediction, Repaired, Seats, Workload, by_loads,
    extremes, random_values, repair,
};
use corun_machine::preset;
use corun_model::ModelOptions;
use proptest::prelude::*;

/// A fleet of nodes of one machine and what asks for room, one a program.
struct Case {
    ground: Arc<Ground>,
    nodes: Vec<(String, usize)>,
    asked: Vec<usize>,
}

/// `asked`: misses and MiB of each program, and its CPUs.
fn case(machine: &str, nodes: usize, asked: &[(f64, f64, u32)], objective: Objective) -> Case {
    let profiles: Vec<_> =
        asked.iter().map(|&(mpki, mib, _)| crate::programs::program(mpki, mib)).collect();
    let machine = preset(machine).unwrap();
    let kind =
        NodeKind::new(machine, &profiles, Seats::Cores, None, ModelOptions::default()).unwrap();
    let workload = |(program, &(_, _, cpus)): (usize, &(f64, f64, u32))| Workload {
        name: format!("w{program}"),
        program,
        cpus,
        ..Workload::default()
    };
    let workloads: Vec<Workload> = asked.iter().enumerate().map(workload).collect();
    let names = profiles.into_iter().map(|profile| profile.name).collect();
    let shares: Vec<f64> = asked.iter().map(|one| f64::from(one.2)).collect();
    Case {
        ground: Arc::new(Ground::new(vec![kind], names, workloads, &shares, objective, 1.3)),
        nodes: (0..nodes).map(|node| (format!("n{node}"), 0)).collect(),
        asked: (0..asked.len()).collect(),
    }
}

/// The same with other workloads, judged by lost work.
fn with_workloads(
    machine: &str,
    nodes: usize,
    asked: &[(f64, f64, u32)],
    workloads: Vec<Workload>,
) -> Case {
    let profiles: Vec<_> =
        asked.iter().map(|&(mpki, mib, _)| crate::programs::program(mpki, mib)).collect();
    let options = ModelOptions::default();
    let kind = NodeKind::new(preset(machine).unwrap(), &profiles, Seats::Cores, None, options);
    let free = case(machine, nodes, asked, Objective::LostWork);
    let (names, shares) = (free.ground.programs.clone(), vec![1.0; asked.len()]);
    let (objective, none) = (Objective::LostWork, f64::INFINITY);
    let ground = Ground::new(vec![kind.unwrap()], names, workloads, &shares, objective, none);
    Case { ground: Arc::new(ground), ..free }
}

/// The least and the largest value of all plans, one by one: every set of free CPUs for every program.
fn every_plan(case: &Case) -> (f64, f64) {
    fn sets(free: &[u32], count: usize) -> Vec<Vec<u32>> {
        let Some((&first, rest)) = free.split_first() else {
            return if count == 0 { vec![Vec::new()] } else { Vec::new() };
        };
        let mut found = sets(rest, count);
        if count > 0 {
            let with = sets(rest, count - 1).into_iter();
            found.extend(with.map(|more| [vec![first], more].concat()));
        }
        found
    }
    fn visit(fleet: &mut Fleet, pod: usize, asked: &[usize], found: &mut (f64, f64)) {
        if pod == asked.len() {
            let bound = match fleet.ground().objective {
                Objective::Machines => fleet.ground().slowdown_bound,
                _ => f64::INFINITY,
            };
            if fleet.cost().worst <= bound {
                let value = fleet.value();
                *found = (found.0.min(value), found.1.max(value));
            }
            return;
        }
        let mut prediction = Prediction::default();
        let cpus = fleet.ground().workloads[asked[pod]].cpus as usize;
        for node in 0..fleet.nodes.len() {
            let residents = fleet.nodes[node].residents.iter();
            let taken: Vec<u32> = residents.flat_map(|one| one.cpus.iter().copied()).collect();
            let mut free = fleet.ground().kinds[0].seats().concat();
            free.retain(|cpu| !taken.contains(cpu));
            for set in sets(&free, cpus) {
                fleet.insert(pod, asked[pod], (node, set), &mut prediction);
                visit(fleet, pod + 1, asked, found);
                fleet.remove(pod, &mut prediction);
            }
        }
    }
    let mut fleet = Fleet::new(case.ground.clone(), case.nodes.clone());
    let mut found = (f64::INFINITY, f64::NEG_INFINITY);
    visit(&mut fleet, 0, &case.asked, &mut found);
    found
}

fn bound(case: &Case) -> Option<f64> {
    bound_unless(case, &Cancel::default()).unwrap()
}

fn bound_unless(case: &Case, cancel: &Cancel) -> Result<Option<f64>> {
    let present: Vec<usize> = (0..case.asked.len()).collect();
    let asked: Vec<(usize, u32, f64)> =
        case.ground.workloads.iter().map(|one| (one.program, one.cpus, 1.0)).collect();
    let bounds = Bounds::new(case.ground.clone(), &[case.nodes.len()], &present).unwrap();
    Ok(bounds.bound(&asked, cancel)?.map(|bound| bound.value))
}

/// First fit from a node on: a plan with something to mend.
fn first_fit(case: &Case, from: usize, prediction: &mut Prediction) -> Fleet {
    let mut fleet = Fleet::new(case.ground.clone(), case.nodes.clone());
    let nodes = fleet.nodes.len();
    for &workload in &case.asked {
        let cpus = case.ground.workloads[workload].cpus as usize;
        let mut by_turns = (0..nodes).map(|node| (node + from) % nodes);
        let roomy = by_turns.find(|&node| fleet.nodes[node].free_cpus() as usize >= cpus);
        let Some(node) = roomy else { continue };
        let residents = fleet.nodes[node].residents.iter();
        let taken: Vec<u32> = residents.flat_map(|one| one.cpus.clone()).collect();
        let seats = case.ground.kinds[0].seats().concat();
        let free: Vec<u32> =
            seats.into_iter().filter(|cpu| !taken.contains(cpu)).take(cpus).collect();
        fleet.insert(workload, workload, (node, free), prediction);
    }
    fleet
}

/// The greedy plan; none where somebody has no place.
fn greedy(case: &Case) -> Option<Fleet> {
    let mut fleet = Fleet::new(case.ground.clone(), case.nodes.clone());
    let mut prediction = Prediction::default();
    for &workload in &case.asked {
        let place = fleet.best_place(workload, &mut prediction).ok()?;
        fleet.insert(workload, workload, (place.node, place.cpus), &mut prediction);
    }
    Some(fleet)
}

fn asked(most: usize) -> impl Strategy<Value = Vec<(f64, f64, u32)>> {
    prop::collection::vec((0.1..60.0f64, 0.1..12.0f64, 1..=2u32), 2..=most)
}

fn objectives() -> impl Strategy<Value = Objective> {
    prop_oneof![
        Just(Objective::MeanSlowdown),
        Just(Objective::LostWork),
        Just(Objective::WorstSlowdown),
        Just(Objective::Machines),
    ]
}

#[test]
fn a_bound_ends_once_the_user_wants_to_stop() {
    let cancel = Cancel::default();
    cancel.flag().store(true, Ordering::SeqCst);
    for objective in [Objective::LostWork, Objective::WorstSlowdown, Objective::Machines] {
        let case = case("i7-2600", 2, &[(20.0, 4.0, 1), (9.0, 2.0, 2)], objective);
        let stopped = bound_unless(&case, &cancel);
        assert!(matches!(stopped, Err(Error::Interrupted)), "{objective:?}: {stopped:?}");
    }
}

/// Two nodes without a free CPU, the four heavy programs on one of them: no move helps, and by exchanges the worst slowdown comes
/// to the least that there is.
#[test]
fn full_nodes_exchange_programs_for_the_worst_slowdown() {
    let asked: Vec<(f64, f64, u32)> =
        (0..8).map(|one| if one < 4 { (40.0, 6.0, 1) } else { (0.5, 0.5, 1) }).collect();
    let case = case("i7-2600", 2, &asked, Objective::WorstSlowdown);
    let mut prediction = Prediction::default();
    let mut fleet = first_fit(&case, 0, &mut prediction);
    let before = fleet.value();
    let repaired = repair(&mut fleet, 0.01, 20_000, &mut prediction);
    let best = extremes(&case.ground, &case.nodes, &case.asked).unwrap().best.value();
    assert!(before > best * 1.05, "{before} {best}");
    assert!((fleet.value() - best).abs() < 1e-9, "{} {best}", fleet.value());
    assert_eq!(repaired.moves.len(), 4, "{:?}", repaired.moves);
}

/// Four LLCs of 2 cores behind two stages; one LLC of 4; two LLCs of 2.
const MACHINES: [&str; 3] = ["xeon-x5365", "i7-2600", "xeon-x5365-2llc"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_beats_the_bound_or_the_search(
        asked in asked(3),
        objective in objectives(),
        machine in 0..3usize,
    ) {
        let case = case(MACHINES[machine], 2, &asked, objective);
        let (least, most) = every_plan(&case);
        if let Some(found) = extremes(&case.ground, &case.nodes, &case.asked) {
            prop_assert!((found.best.value() - least).abs() < 1e-9, "{} {least}", found.best.value());
            if let Some(worst) = found.worst {
                prop_assert!((worst - most).abs() < 1e-9, "{worst} {most}");
            }
        } else {
            prop_assert!(least.is_infinite(), "{least}");
        }
        if least.is_finite() {
            let bound = bound(&case).unwrap();
            prop_assert!(bound <= least + 1e-9, "bound {bound} above {least}");
            if let Some(fleet) = greedy(&case) {
                prop_assert!(fleet.value() >= least - 1e-9, "{} {least}", fleet.value());
            }
        }
    }

    #[test]
    fn the_best_plan_by_loads_is_the_best_of_all(
        asked in asked(3),
        twice in any::<bool>(),
        objective in prop_oneof![Just(Objective::MeanSlowdown), Just(Objective::LostWork)],
        machine in 0..3usize,
    ) {
        let mut case = case(MACHINES[machine], 2, &asked, objective);
        if twice {
            // Equal programs are one row of the search.
            case.asked[1] = case.asked[0];
        }
        let (least, _) = every_plan(&case);
        let found = by_loads(&case.ground, &case.nodes, &case.asked, None).unwrap();
        match found.best {
            Some(best) => {
                prop_assert!(found.bound <= least + 1e-9, "{} {least}", found.bound);
                prop_assert!((best.value() - least).abs() < 1e-9, "{} {least}", best.value());
                prop_assert!(case.asked.iter().enumerate().all(|(pod, _)| best.node_of(pod).is_some()));
                // A plan that is known is returned where nothing beats it.
                let again = by_loads(&case.ground, &case.nodes, &case.asked, Some(&best)).unwrap();
                prop_assert!((again.best.unwrap().value() - least).abs() < 1e-9);
            }
            None => prop_assert!(least.is_infinite(), "{least}"),
        }
    }

    #[test]
    fn the_best_plan_by_loads_keeps_what_the_search_of_all_plans_keeps(
        asked in asked(4),
        slowest in 1.0..2.0f64,
        never in any::<bool>(),
    ) {
        let mut workloads = case("xeon-x5365-2llc", 2, &asked, Objective::LostWork).ground.workloads.clone();
        workloads[0].most_per_node = Some(1);
        workloads[1].slowdown_bound = Some(slowest);
        if never {
            workloads[1].never_beside = vec![0];
        }
        let case = with_workloads("xeon-x5365-2llc", 2, &asked, workloads);
        let pods: Vec<usize> = [0].into_iter().chain(case.asked.iter().copied()).collect();
        let all = extremes(&case.ground, &case.nodes, &pods).map(|found| found.best.value());
        let found = by_loads(&case.ground, &case.nodes, &pods, None).unwrap();
        match (all, found.best.map(|best| best.value())) {
            (Some(all), Some(by_loads)) => prop_assert!((all - by_loads).abs() < 1e-9, "{all} {by_loads}"),
            (all, by_loads) => prop_assert_eq!(all, by_loads),
        }
    }

    #[test]
    fn a_repair_never_makes_it_worse_and_pays_for_each_move(asked in asked(8), seed in 0..4usize) {
        let case = case("2x-gold-6138-4c", 3, &asked, Objective::MeanSlowdown);
        let mut prediction = Prediction::default();
        let mut fleet = first_fit(&case, seed, &mut prediction);
        let before = fleet.cost().sum;
        let nodes: Vec<_> = case.asked.iter().map(|&pod| fleet.node_of(pod)).collect();
        let Repaired { moves, saved } = repair(&mut fleet, 0.05, 20_000, &mut prediction);
        prop_assert!((before - saved - fleet.cost().sum).abs() < 1e-9);
        let moved: u32 = moves.iter().map(|one| asked[one.pod].2).sum();
        prop_assert!(saved >= 0.05 * f64::from(moved));
        for pod in case.asked {
            let to = fleet.node_of(pod);
            let told = moves.iter().find(|one| one.pod == pod).map(|one| (Some(one.from), Some(one.to)));
            prop_assert_eq!(told, (to != nodes[pod]).then_some((nodes[pod], to)));
        }
    }

    #[test]
    fn a_repair_never_makes_the_worst_slowdown_worse(asked in asked(10), seed in 0..4usize) {
        let case = case("2x-gold-6138-4c", 3, &asked, Objective::WorstSlowdown);
        let mut prediction = Prediction::default();
        let mut fleet = first_fit(&case, seed, &mut prediction);
        let before = fleet.value();
        repair(&mut fleet, 0.0, 20_000, &mut prediction);
        prop_assert!(fleet.value() <= before, "{} {before}", fleet.value());
    }

    #[test]
    fn a_thread_more_on_an_llc_makes_nobody_there_faster(
        asked in prop::collection::vec((0.1..60.0f64, 0.1..40.0f64), 2..=12),
        machine in 0..2usize,
    ) {
        // What the bound rests on, where one bandwidth domain is on the way to memory.
        let asked: Vec<(f64, f64, u32)> = asked.into_iter().map(|(mpki, mib)| (mpki, mib, 1)).collect();
        let case = case(["xeon-gold-6138", "i7-2600"][machine], 1, &asked, Objective::LostWork);
        let kind = &case.ground.kinds[0];
        prop_assert!(kind.company_only_slows());
        let threads = |count: usize| (0..count).zip(kind.seats()[0].iter().copied());
        let most = asked.len().min(kind.seats()[0].len());
        let mut prediction = Prediction::default();
        let few: Vec<f64> = kind.slowdowns(threads(most - 1), &mut prediction).collect();
        let more: Vec<f64> = kind.slowdowns(threads(most), &mut prediction).collect();
        for (few, more) in few.iter().zip(&more) {
            prop_assert!(*more >= few * (1.0 - 1e-9), "{few} {more}");
        }
    }

    #[test]
    fn what_is_kept_of_a_node_is_what_a_prediction_of_the_whole_node_says(
        asked in asked(7),
        machine in 0..3usize,
        order in prop::collection::vec((0..7usize, any::<bool>()), 1..24),
    ) {
        let case = case(MACHINES[machine], 1, &asked, Objective::LostWork);
        let kind = &case.ground.kinds[0];
        let mut fleet = Fleet::new(case.ground.clone(), case.nodes.clone());
        let mut prediction = Prediction::default();
        for (pod, linux) in order {
            let pod = pod % asked.len();
            if fleet.remove(pod, &mut prediction).is_none() {
                let Ok(place) = fleet.best_place(pod, &mut prediction) else { continue };
                // Also on CPUs that nobody would choose.
                let residents = fleet.nodes[0].residents.iter();
                let taken: Vec<u32> = residents.flat_map(|one| one.cpus.clone()).collect();
                let mut free = kind.seats().concat();
                free.retain(|cpu| !taken.contains(cpu));
                let cpus = if linux { free[..place.cpus.len()].to_vec() } else { place.cpus };
                let promised = fleet.cost_on((0, cpus.clone()), pod, &mut prediction);
                let before = fleet.cost().sum;
                fleet.insert(pod, pod, (0, cpus), &mut prediction);
                prop_assert_eq!(promised.marginal, fleet.cost().sum - before);
            }
            let residents = &fleet.nodes[0].residents;
            let threads = residents.iter().flat_map(|one| one.cpus.iter().map(|&cpu| (one.program, cpu)));
            let mut whole = Prediction::default();
            let mut slowdowns = kind.slowdowns(threads, &mut whole);
            for one in residents {
                let worst = slowdowns.by_ref().take(one.cpus.len()).fold(0.0, f64::max);
                prop_assert_eq!(one.worst, worst);
            }
        }
    }

    #[test]
    fn who_comes_and_goes_leaves_no_trace(asked in asked(6)) {
        let case = case("2x-gold-6138-4c", 2, &asked, Objective::LostWork);
        let Some(mut fleet) = greedy(&case) else { return Ok(()) };
        let mut prediction = Prediction::default();
        let cost = fleet.cost();
        let last = case.asked.len() - 1;
        let place = fleet.best_place(last, &mut prediction);
        if let Ok(place) = place {
            fleet.insert(99, last, (place.node, place.cpus), &mut prediction);
            prop_assert!((fleet.cost().sum - cost.sum - place.marginal).abs() < 1e-9);
            fleet.remove(99, &mut prediction);
        }
        prop_assert!((fleet.cost().sum - cost.sum).abs() < 1e-9);
        for pod in &case.asked {
            fleet.remove(*pod, &mut prediction);
        }
        prop_assert_eq!(fleet.nodes_used(), 0);
        prop_assert_eq!(fleet.cost().sum, 0.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Caches of 20 cores, of whose groups the small ones tell nothing: the bound goes by pressure.
    #[test]
    fn no_plan_of_large_caches_beats_the_bound(
        asked in asked(12),
        nodes in 1..=2usize,
        objective in prop_oneof![
            Just(Objective::MeanSlowdown), Just(Objective::LostWork), Just(Objective::Machines)
        ],
    ) {
        let case = case("xeon-gold-6138", nodes, &asked, objective);
        let bound = bound(&case);
        let Some(mut fleet) = greedy(&case) else { return Ok(()) };
        let bound = bound.unwrap();
        prop_assert!(bound <= fleet.value() + 1e-9, "bound {bound} above {}", fleet.value());
        let mut prediction = Prediction::default();
        repair(&mut fleet, 0.0, 20_000, &mut prediction);
        prop_assert!(bound <= fleet.value() + 1e-9, "bound {bound} above {}", fleet.value());
    }
}

/// Twenty streams on one cache leave nothing to choose: the bound is what they lose, but for the width of its ranges.
#[test]
fn where_there_is_nothing_to_choose_the_bound_is_what_is_lost() {
    let asked = [(30.0, 40.0, 2); 10];
    let case = case("xeon-gold-6138", 1, &asked, Objective::LostWork);
    let lost = greedy(&case).unwrap().value();
    let bound = bound(&case).unwrap();
    assert!(lost > 0.2 && bound <= lost + 1e-9 && bound > 0.9 * lost, "{bound} {lost}");
}

#[test]
fn with_llcs_of_two_the_bound_is_the_optimum_of_fractions() {
    // Two programs that hurt each other and two that do not care: each pair of one and one.
    let asked = [(40.0, 6.0, 1), (40.0, 6.0, 1), (0.1, 0.1, 1), (0.1, 0.1, 1)];
    let case = case("2x-gold-6138-4c", 1, &asked, Objective::MeanSlowdown);
    let (least, most) = every_plan(&case);
    let bound = bound(&case).unwrap();
    assert!(least < most);
    assert!(bound <= least + 1e-9 && bound > 1.0, "{bound} {least}");
}

/// No node has room for a program more, so that no single move is possible.
#[test]
fn programs_of_full_nodes_are_exchanged() {
    let (loud, quiet) = ((40.0, 6.0, 1), (0.1, 0.1, 1));
    let asked = [loud, loud, loud, loud, quiet, quiet, quiet, quiet];
    let case = case("i7-2600", 2, &asked, Objective::MeanSlowdown);
    let mut prediction = Prediction::default();
    let mut fleet = first_fit(&case, 0, &mut prediction);
    let on_first = |fleet: &Fleet| (0..4).filter(|&pod| fleet.node_of(pod) == Some(0)).count();
    assert_eq!(on_first(&fleet), 4);
    let before = fleet.cost().sum;
    let dear = repair(&mut fleet.clone(), before, 20_000, &mut prediction);
    assert_eq!((dear.moves, dear.saved), (Vec::new(), 0.0));
    let Repaired { moves, saved } = repair(&mut fleet, 0.0, 20_000, &mut prediction);
    assert_eq!((moves.len(), on_first(&fleet)), (4, 2));
    assert!(saved > 0.0 && (before - saved - fleet.cost().sum).abs() < 1e-9, "{saved}");
}

/// No program has the size of one of the other node: one of two CPUs changes places with two of one CPU.
#[test]
fn a_large_program_changes_places_with_two_small_ones() {
    let (loud, quiet) = ((40.0, 6.0, 2), (0.1, 0.1, 1));
    let case = case("i7-2600", 2, &[loud, loud, quiet, quiet, quiet, quiet], Objective::LostWork);
    let mut prediction = Prediction::default();
    let mut fleet = first_fit(&case, 0, &mut prediction);
    assert_eq!((fleet.node_of(0), fleet.node_of(1)), (Some(0), Some(0)));
    let Repaired { moves, saved } = repair(&mut fleet, 0.0, 20_000, &mut prediction);
    assert_ne!(fleet.node_of(0), fleet.node_of(1));
    assert!(moves.len() == 3 && saved > 0.0, "{moves:?} {saved}");
    // Without a try nobody is taken out of a node for another.
    let mut fleet = first_fit(&case, 0, &mut prediction);
    assert_eq!(repair(&mut fleet, 0.0, 0, &mut prediction).moves, []);
}

/// Threads that are held to another LLC of their node are no move, and cost none.
#[test]
fn a_repair_holds_programs_to_other_caches_of_their_node() {
    let loud = (40.0, 6.0, 1);
    let case = case("2x-gold-6138-4c", 1, &[loud, loud], Objective::LostWork);
    let mut prediction = Prediction::default();
    let mut fleet = Fleet::new(case.ground.clone(), case.nodes.clone());
    let llc = fleet.kind(0).seats()[0].clone();
    for (pod, &cpu) in llc.iter().take(2).enumerate() {
        fleet.insert(pod, pod, (0, vec![cpu]), &mut prediction);
    }
    let Repaired { moves, saved } = repair(&mut fleet, 1e6, 20_000, &mut prediction);
    assert!(moves.is_empty() && saved > 0.0, "{moves:?} {saved}");
    assert!(fleet.nodes[0].residents.iter().any(|one| !llc.contains(&one.cpus[0])));
}

#[test]
fn constraints_are_kept() {
    let asked = [(30.0, 4.0, 1), (30.0, 4.0, 1), (1.0, 1.0, 1)];
    let case = case("i7-2600", 2, &asked, Objective::MeanSlowdown);
    let mut workloads = case.ground.workloads.clone();
    workloads[0].most_per_node = Some(1);
    workloads[2].never_beside = vec![0];
    let profiles: Vec<_> = asked.iter().map(|one| crate::programs::program(one.0, one.1)).collect();
    let machine = preset("i7-2600").unwrap();
    let kind = NodeKind::new(machine, &profiles, Seats::Cores, Some(1024), ModelOptions::default());
    workloads[1].memory_mib = 2048;
    let names = case.ground.programs.clone();
    let ground = Ground::new(
        vec![kind.unwrap()],
        names,
        workloads,
        &[1.0; 3],
        Objective::MeanSlowdown,
        f64::INFINITY,
    );
    let mut fleet = Fleet::new(Arc::new(ground), case.nodes);
    let mut prediction = Prediction::default();
    let first = fleet.best_place(0, &mut prediction).unwrap();
    let node = first.node;
    fleet.insert(0, 0, (node, first.cpus), &mut prediction);
    // Another of the first spreads, the second has no memory anywhere, the third keeps away.
    assert_ne!(fleet.best_place(0, &mut prediction).unwrap().node, node);
    assert_eq!(fleet.best_place(1, &mut prediction), Err(corun_fleet::Obstacle::Memory));
    assert_ne!(fleet.best_place(2, &mut prediction).unwrap().node, node);
}

#[test]
fn random_plans_keep_bounds_on_slowdown() {
    // Two programs that slow each other on one node: with a bound each has a node of its own in every plan that counts.
    let asked = [(60.0, 12.0, 1), (60.0, 12.0, 1)];
    let free = case("i7-2600", 2, &asked, Objective::MeanSlowdown);
    let drawn = |case: &Case| random_values(&case.ground, &case.nodes, &case.asked, (40, 1));
    let apart = every_plan(&free).0;
    let values = drawn(&free);
    assert!(values.len() == 40 && values.iter().any(|&value| value > apart + 0.01), "{values:?}");
    let mut workloads = free.ground.workloads.clone();
    for one in &mut workloads {
        one.slowdown_bound = Some(1.0 + (apart - 1.0) * 1.01 + 1e-9);
    }
    let profiles: Vec<_> = asked.iter().map(|one| crate::programs::program(one.0, one.1)).collect();
    let machine = preset("i7-2600").unwrap();
    let kind = NodeKind::new(machine, &profiles, Seats::Cores, None, ModelOptions::default());
    let names = free.ground.programs.clone();
    let (shares, objective) = ([1.0; 2], Objective::MeanSlowdown);
    let ground =
        Ground::new(vec![kind.unwrap()], names, workloads, &shares, objective, f64::INFINITY);
    let bounded = Case { ground: Arc::new(ground), ..free };
    let values = drawn(&bounded);
    assert!(!values.is_empty() && values.len() < 40, "{values:?}");
    assert!(values.iter().all(|&value| (value - apart).abs() < 1e-9), "{values:?}");
}

#[test]
fn where_the_cpus_of_a_cache_differ_no_plan_is_called_the_best() {
    let profiles = [crate::programs::program(10.0, 2.0)];
    let machine = || preset("i7-2600").unwrap();
    for (seats, searched) in [(Seats::Cores, true), (Seats::Threads, false)] {
        let kind = NodeKind::new(machine(), &profiles, seats, None, ModelOptions::default());
        let workloads = vec![Workload { cpus: 2, ..Workload::default() }];
        let names = vec!["one".to_owned()];
        let objective = Objective::MeanSlowdown;
        let ground = Ground::new(vec![kind.unwrap()], names, workloads, &[1.0], objective, 2.0);
        let found = extremes(&Arc::new(ground), &[("n".to_owned(), 0)], &[0]);
        assert_eq!(found.is_some(), searched);
    }
}
