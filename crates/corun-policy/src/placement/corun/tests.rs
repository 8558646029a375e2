//! The policy against brute force, and each of its rules by itself.

use std::collections::BTreeMap;

use corun_machine::{CpuSet, preset};
use corun_model::{LoadedProgram, Member, Outcome, Running, Scratch};
use corun_profile::Library;

use super::phases::Moments;
use super::planning::Change;
use super::*;
use crate::{CachePart, ProcessId, Scope, ScopedRate, Step, ThreadState};

fn predictor(machine: &str, programs: &[&str]) -> Arc<dyn Predictor> {
    predictor_on(preset(machine).unwrap(), programs)
}

fn predictor_on(machine: Machine, programs: &[&str]) -> Arc<dyn Predictor> {
    let machine = Arc::new(machine);
    let model = Arc::new(Model::new(machine, ModelOptions::default()).unwrap());
    let library = Library::shipped().unwrap();
    let load = |name: &&str| Arc::new(model.load(library.get(name).unwrap()).unwrap());
    let programs: Vec<Arc<LoadedProgram>> = programs.iter().map(load).collect();
    Arc::new(LoadedPredictor::new(model.clone(), programs))
}

fn policy(predictor: &Arc<dyn Predictor>, parameters: &[(&str, f64)]) -> Corun {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let mut policy = Corun::new(&BuildOptions { seed: 0, parameters });
    policy.predict_by(predictor);
    policy
}

/// A thread of each program, on these CPUs by index.
fn threads(machine: &Machine, programs: &[&str], cpus: &[usize]) -> Vec<ThreadView> {
    let one = |(index, (&program, &cpu)): (usize, (&&str, &usize))| {
        let (id, process) = (ThreadId(index as u64), ProcessId(index as u64));
        ThreadView {
            profile: Some(program.into()),
            cpu: Some(machine.cpus()[cpu].id),
            state: ThreadState::Running,
            ..ThreadView::new(id, process, program, &machine.cpu_set())
        }
    };
    programs.iter().zip(cpus).enumerate().map(one).collect()
}

fn at<'a>(machine: &'a Machine, threads: &'a [ThreadView], seconds: f64) -> View<'a> {
    View { machine, threads, now: Nanoseconds::from_secs_f64(seconds) }
}

/// What the model says of these programs on CPUs by index.
fn outcomes(predictor: &dyn Predictor, programs: &[&str], cpus: &[usize]) -> Vec<Outcome> {
    let loaded: Vec<Arc<LoadedProgram>> =
        programs.iter().map(|name| predictor.profiled(name).unwrap()).collect();
    let running: Vec<Running<'_>> = loaded
        .iter()
        .zip(cpus)
        .map(|(program, &cpu)| Running::local(program, LoadedProgram::WHOLE, cpu))
        .collect();
    let mut outcomes = Vec::new();
    predictor.model().solve(&running, &mut Scratch::default(), &mut outcomes);
    outcomes
}

fn mean_slowdown(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|one| one.slowdown).sum::<f64>() / outcomes.len() as f64
}

/// Carries out what a plan says of places.
fn moved(plan: &Plan, threads: &mut [ThreadView]) {
    for step in &plan.steps {
        if let Action::Allow { thread, cpus } = &step.action {
            let view = &mut threads[thread.0 as usize];
            view.allowed = cpus.clone();
            view.cpu = cpus.iter().next();
        }
    }
}

fn cpus(machine: &Machine, threads: &[ThreadView]) -> Vec<usize> {
    threads.iter().map(|thread| machine.cpu_index(thread.cpu.unwrap()).unwrap()).collect()
}

const FOUR: [&str; 4] = ["sort", "numpy", "flac", "hmmsearch"];

/// Two LLCs of two cores: the policy comes to within its least gain of the best of all placements, from each
/// of them.
#[test]
fn from_any_placement_it_comes_to_the_best_one() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let mut all = Vec::new();
    for code in 0..256_usize {
        let places: Vec<usize> = (0..4).map(|thread| code >> (2 * thread) & 3).collect();
        if (0..4).all(|cpu| places.contains(&cpu)) {
            all.push(places);
        }
    }
    assert_eq!(all.len(), 24);
    let best = all.iter().map(|cpus| mean_slowdown(&outcomes(&*predictor, &FOUR, cpus)));
    let best = best.fold(f64::INFINITY, f64::min);
    let mut planned = 0;
    for start in &all {
        let mut threads = threads(&machine, &FOUR, start);
        let mut policy = policy(&predictor, &[]);
        let plan = policy.decide(&at(&machine, &threads, 60.0));
        planned += usize::from(!plan.steps.is_empty());
        moved(&plan, &mut threads);
        let reached = mean_slowdown(&outcomes(&*predictor, &FOUR, &cpus(&machine, &threads)));
        assert!(reached <= best * 1.0051, "{start:?}: {reached} {best}");
        // And stays there.
        let again = policy.decide(&at(&machine, &threads, 61.0));
        assert_eq!(again, Plan::none(), "{start:?}");
    }
    assert!(planned > 0 && planned < 24, "{planned}");
}

#[test]
fn a_gain_that_does_not_pay_for_the_refill_until_the_next_change_is_left() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    // The two that want the cache on one LLC.
    let threads = threads(&machine, &FOUR, &[0, 1, 2, 3]);
    // Caches of 4 MiB take milliseconds to fill: an interval of a thousandth of that never pays.
    let mut hasty = policy(&predictor, &[("interval-cycles", 1e5)]);
    assert_eq!(hasty.decide(&at(&machine, &threads, 0.0)), Plan::none());
    // The same programs are there for a minute.
    assert_ne!(hasty.decide(&at(&machine, &threads, 60.0)), Plan::none());
}

#[test]
fn nobody_loses_more_than_the_bound() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let start = [0, 1, 2, 3];
    let before = outcomes(&*predictor, &FOUR, &start);
    for percent in [0.0, 1.0, 3.0, 50.0] {
        let mut threads = threads(&machine, &FOUR, &start);
        let mut policy = policy(&predictor, &[("most-loss-percent", percent)]);
        moved(&policy.decide(&at(&machine, &threads, 60.0)), &mut threads);
        let after = outcomes(&*predictor, &FOUR, &cpus(&machine, &threads));
        for (one, other) in before.iter().zip(&after) {
            let lost = 1.0 - one.slowdown / other.slowdown;
            assert!(lost <= percent / 100.0 + 1e-9, "{percent}: {lost}");
        }
    }
}

/// The objective that is asked for is what falls.
#[test]
fn each_objective_is_made_smaller() {
    let programs = ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"];
    let predictor = predictor("xeon-x5365", &programs);
    let machine = predictor.model().machine().clone();
    let start = [0, 1, 2, 3, 4, 5, 6, 7];
    let worst = |outcomes: &[Outcome]| outcomes.iter().map(|one| one.slowdown).fold(0.0, f64::max);
    let reached = |objective: f64| {
        let mut threads = threads(&machine, &programs, &start);
        let mut policy = policy(&predictor, &[("objective", objective)]);
        moved(&policy.decide(&at(&machine, &threads, 60.0)), &mut threads);
        outcomes(&*predictor, &programs, &cpus(&machine, &threads))
    };
    let before = outcomes(&*predictor, &programs, &start);
    let [mean, most] = [reached(0.0), reached(1.0)];
    assert!(mean_slowdown(&mean) < mean_slowdown(&before));
    assert!(worst(&most) < worst(&before) && worst(&most) <= worst(&mean) + 1e-9);
    let unfair = |outcomes: &[Outcome]| {
        worst(outcomes) / outcomes.iter().map(|one| one.slowdown).fold(f64::INFINITY, f64::min)
    };
    assert!(unfair(&reached(2.0)) < unfair(&before));
}

/// What the objective with this number is worth where programs are on CPUs by index, by the formulas and not by the policy.
fn energy(predictor: &dyn Predictor, programs: &[&str], cpus: &[usize], kind: f64) -> f64 {
    let outcomes = outcomes(predictor, programs, cpus);
    let machine = predictor.model().machine();
    let power = machine.power().unwrap();
    let distinct = |of: &dyn Fn(usize) -> usize| {
        cpus.iter().map(|&cpu| of(cpu)).collect::<BTreeSet<usize>>().len() as f64
    };
    let watts = power.package_active_w * distinct(&|cpu| machine.cpus()[cpu].package)
        + power.core_w * distinct(&|cpu| machine.cpus()[cpu].core)
        + power.w_per_gb_per_s * outcomes.iter().map(|one| one.bytes_per_s * 1e-9).sum::<f64>();
    let work: f64 = outcomes.iter().map(|one| 1.0 / one.slowdown).sum();
    if kind == 3.0 { watts / work } else { watts / work * programs.len() as f64 / work }
}

/// Four programs on two packages of two LLCs: from any of several places it comes to within its least gain of what is best
/// of all 1,680, by energy and by energy x delay, and stays there. Nobody is slower than asked where that can be.
#[test]
fn by_energy_it_comes_to_the_best_of_all_placements() {
    let programs = ["sort", "numpy", "kernel-triad", "hmmsearch"];
    let predictor = predictor("xeon-x5365", &programs);
    let machine = predictor.model().machine().clone();
    let mut all = Vec::new();
    for code in 0..4096_usize {
        let places: Vec<usize> = (0..4).map(|thread| code >> (3 * thread) & 7).collect();
        if places.iter().collect::<BTreeSet<&usize>>().len() == 4 {
            all.push(places);
        }
    }
    assert_eq!(all.len(), 1680);
    let worst = |cpus: &[usize]| {
        let outcomes = outcomes(&*predictor, &programs, cpus);
        outcomes.iter().map(|one| one.slowdown).fold(0.0, f64::max)
    };
    let fastest = all.iter().map(|cpus| worst(cpus)).fold(f64::INFINITY, f64::min);
    let mut packages = BTreeSet::new();
    for (kind, target) in [(3.0, 0.0), (4.0, 0.0), (3.0, fastest * 1.01)] {
        let is_kept = |cpus: &&Vec<usize>| target == 0.0 || worst(cpus) <= target;
        let values =
            all.iter().filter(is_kept).map(|cpus| energy(&*predictor, &programs, cpus, kind));
        let best = values.fold(f64::INFINITY, f64::min);
        for start in all.iter().step_by(all.len() / 12) {
            let mut threads = threads(&machine, &programs, start);
            let parameters = [("objective", kind), ("target-slowdown", target)];
            let mut policy = policy(&predictor, &parameters);
            moved(&policy.decide(&at(&machine, &threads, 60.0)), &mut threads);
            let reached = cpus(&machine, &threads);
            let value = energy(&*predictor, &programs, &reached, kind);
            assert!(value <= best * 1.0051, "{kind} {start:?}: {value} {best} {reached:?}");
            assert!(target == 0.0 || worst(&reached) <= target, "{start:?} {reached:?}");
            assert_eq!(policy.decide(&at(&machine, &threads, 61.0)), Plan::none(), "{start:?}");
            let on: BTreeSet<usize> =
                reached.iter().map(|&cpu| machine.cpus()[cpu].package).collect();
            packages.insert((kind as u32, target > 0.0, on.len()));
        }
    }
    // Energy packs; who may not be slowed down is spread.
    assert!(packages.contains(&(3, false, 1)) && packages.contains(&(3, true, 2)), "{packages:?}");
}

#[test]
fn energy_asks_for_power_figures() {
    let power = |parameters: &[(&str, f64)], machine: &str| {
        policy(&predictor(machine, &FOUR), parameters).unfit_for(&preset(machine).unwrap())
    };
    for kind in [3.0, 4.0] {
        let why = power(&[("objective", kind)], "opteron-2350").unwrap();
        assert!(why.contains("no power figures ([power])"), "{why}");
        assert_eq!(power(&[("objective", kind)], "xeon-x5365"), None);
    }
    assert_eq!(power(&[("objective", 2.0)], "opteron-2350"), None);
}

/// A program away from its memory: pages follow, or the program goes back, once that pays.
#[test]
fn a_program_and_its_memory_come_together_where_that_pays() {
    let programs = ["sort", "flac"];
    let predictor = predictor("2x-gold-6138-4c", &programs);
    let machine = predictor.model().machine().clone();
    let node = |index: usize| machine.cpus()[index].node;
    let other = (0..machine.cpus().len()).find(|&cpu| node(cpu) == 1).unwrap();
    let mut threads = threads(&machine, &programs, &[0, other]);
    threads[0].pages_by_node = vec![0.0, 1.0];
    threads[1].pages_by_node = vec![0.0, 1.0];
    let mut policy = policy(&predictor, &[]);
    policy.decide(&at(&machine, &threads, 0.0));
    let plan = policy.decide(&at(&machine, &threads, 60.0));
    let page_moves =
        |step: &Step| matches!(step.action, Action::MovePages { thread: ThreadId(0), node: 0 });
    moved(&plan, &mut threads);
    let at_home = node(cpus(&machine, &threads)[0]) == 1;
    assert!(at_home || plan.steps.iter().any(page_moves), "{plan:?}");
    // It may not move pages: it goes where they are.
    let mut without = Corun::new(&BuildOptions::default());
    assert!(without.do_without(ActionKind::MovePages) && !without.do_without(ActionKind::Place));
    assert_eq!(without.needs().controls, [ActionKind::Place, ActionKind::Partition]);
}

#[test]
fn more_threads_than_cpus_are_the_kernels_again() {
    let names = ["sort", "numpy", "flac", "hmmsearch", "xz"];
    let predictor = predictor("xeon-x5365-2llc", &names);
    let machine = predictor.model().machine().clone();
    let mut threads = threads(&machine, &names, &[0, 1, 2, 3, 0]);
    let fifth = threads.pop().unwrap();
    let mut policy = policy(&predictor, &[]);
    moved(&policy.decide(&at(&machine, &threads, 60.0)), &mut threads);
    assert!(threads.iter().any(|thread| thread.allowed != thread.may_run_on));
    threads.push(fifth);
    let plan =
        policy.on_event(&Event::Arrived(ThreadId(4)), &at(&machine, &threads, 61.0)).unwrap();
    for step in &plan.steps {
        let Action::Allow { thread, cpus } = &step.action else { panic!("{step:?}") };
        threads[thread.0 as usize].allowed = cpus.clone();
    }
    assert!(threads.iter().all(|thread| thread.allowed == thread.may_run_on), "{plan:?}");
}

/// Four places and five threads, of which one sleeps: the others are placed as if it were not there, and it
/// is left to the kernel.
#[test]
fn threads_that_sleep_leave_their_cpus_to_others() {
    let names = ["sort", "numpy", "flac", "hmmsearch", "xz"];
    let predictor = predictor("xeon-x5365-2llc", &names);
    let machine = predictor.model().machine().clone();
    let mut threads = threads(&machine, &names, &[0, 1, 2, 3, 0]);
    let without = policy(&predictor, &[]).decide(&at(&machine, &threads[..4], 60.0));
    assert!(!without.steps.is_empty());
    threads[4].state = ThreadState::Sleeping;
    assert_eq!(policy(&predictor, &[]).decide(&at(&machine, &threads, 60.0)), without);
    // One that sleeps at the moment and ran for most of the interval takes part: five for four CPUs.
    threads[4].rates.cpu_share = Some(0.9);
    assert_eq!(policy(&predictor, &[]).decide(&at(&machine, &threads, 60.0)), Plan::none());
    // A thread that was held and falls asleep may run where its user lets it when it wakes.
    threads.truncate(4);
    let mut policy = policy(&predictor, &[]);
    moved(&policy.decide(&at(&machine, &threads, 60.0)), &mut threads);
    let held = threads.iter().position(|thread| thread.allowed != thread.may_run_on).unwrap();
    threads[held].state = ThreadState::Sleeping;
    moved(&policy.decide(&at(&machine, &threads, 61.0)), &mut threads);
    assert_eq!(threads[held].allowed, threads[held].may_run_on);
}

/// A thread that never ran is nowhere yet: the others need not wait for it.
#[test]
fn threads_that_never_ran_hold_nobody_up() {
    let names = ["sort", "numpy", "flac"];
    let predictor = predictor("xeon-x5365-2llc", &names);
    let machine = predictor.model().machine().clone();
    // The two that want the cache on one LLC.
    let mut threads = threads(&machine, &names, &[0, 1, 2]);
    let without = policy(&predictor, &[]).decide(&at(&machine, &threads[..2], 60.0));
    assert!(!without.steps.is_empty());
    threads[2].cpu = None;
    assert_eq!(policy(&predictor, &[]).decide(&at(&machine, &threads, 60.0)), without);
    // Nor one that may run nowhere here.
    threads[2].cpu = threads[1].cpu;
    threads[2].may_run_on = CpuSet::default();
    assert_eq!(policy(&predictor, &[]).decide(&at(&machine, &threads, 60.0)), without);
}

/// The first idle CPU of the other LLC is not for this thread, and the second one is.
#[test]
fn a_thread_moves_to_an_idle_cpu_that_it_may_run_on() {
    let names = ["sort", "numpy"];
    let predictor = predictor("xeon-x5365-2llc", &names);
    let machine = predictor.model().machine().clone();
    let mut threads = threads(&machine, &names, &[0, 1]);
    let id = |cpu: usize| machine.cpus()[cpu].id;
    assert_ne!(machine.cpus()[0].llc, machine.cpus()[3].llc);
    threads[0].may_run_on = [id(0), id(3)].into_iter().collect();
    threads[1].may_run_on = [id(1)].into_iter().collect();
    moved(&policy(&predictor, &[]).decide(&at(&machine, &threads, 60.0)), &mut threads);
    assert_eq!(threads[0].cpu, Some(id(3)));
}

/// What the search ends with is what the model says of it, and a program that is known is asked about once.
#[test]
fn no_situation_is_solved_twice() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let views = threads(&machine, &FOUR, &[0, 1, 2, 3]);
    let running: Vec<&ThreadView> = views.iter().collect();
    let mut policy = policy(&predictor, &[]);
    let view = at(&machine, &views, 60.0);
    let threads = policy.threads(&view, &running, &*predictor).unwrap();
    let now = policy.situation(&machine, &running, &policy.parts.decided).unwrap();
    let mut search = policy.search(predictor.model(), &threads);
    let Change { from, to, .. } =
        policy.searched(&view, &running, 60.0, &mut search, &now).unwrap();
    // Beside the search, here and there are asked about in each combination of phases.
    let of_search = search.questions - 2 * Moments::of(&threads).combinations.len();
    assert_eq!(from.outcomes, search.outcomes(World::Likely, &from.situation));
    assert_eq!(to.outcomes, search.outcomes(World::Likely, &to.situation));
    let mut again = policy.search(predictor.model(), &threads);
    let start = again.predicted(now);
    again.better(start, false);
    assert_eq!(again.questions, of_search);
}

#[test]
fn a_machine_without_a_model_is_said() {
    let without_caches = r#"
        version = 1
        name = "bare"
        [[core_type]]
        name = "c"
        clock_mhz = 2000.0
        [[object]]
        kind = "core"
        count = 4
    "#;
    let machine = Machine::from_toml(without_caches, "bare.toml").unwrap();
    let threads = threads(&machine, &FOUR, &[0, 1, 2, 3]);
    let mut policy = Corun::new(&BuildOptions::default());
    assert_eq!(policy.failure(), None);
    assert_eq!(policy.decide(&at(&machine, &threads, 60.0)), Plan::none());
    let failure = policy.failure().unwrap();
    assert!(failure.starts_with("no model of the machine: "), "{failure}");
}

/// Shows a thread what the model says of it, as exact counters over an interval.
fn count(thread: &mut ThreadView, outcome: &Outcome, clock_hz: f64) {
    let per_s = outcome.instructions_per_s;
    let scoped =
        |pki: f64| Some(ScopedRate { per_s: pki * 1e-3 * per_s, scope: Scope::DemandAndPrefetch });
    thread.rates.instructions_per_s = Some(per_s);
    thread.rates.cycles_per_s = Some(clock_hz);
    thread.rates.llc_references = scoped(outcome.llc_apki);
    thread.rates.llc_misses = scoped(outcome.llc_mpki);
    thread.rates.memory_bytes_per_s = Some(outcome.bytes_per_s);
    thread.rates.memory_stall_share = Some(outcome.memory_stall_share);
    thread.llc_occupancy_bytes = Some(outcome.occupancy_bytes);
}

/// Without profiles: from what is counted in a few places the policy finds a placement that is within 1 % of
/// the best of all.
#[test]
fn curves_learnt_from_counters_find_a_good_placement() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let clock_hz = machine.core_types()[0].clock_mhz * 1e6;
    let best = [[0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1]]
        .map(|cpus| mean_slowdown(&outcomes(&*predictor, &FOUR, &cpus)));
    let best = best.into_iter().fold(f64::INFINITY, f64::min);
    for start in [[0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1]] {
        let mut threads = threads(&machine, &FOUR, &start);
        let parameters = [("profiles", 0.0), ("least-estimated-gain-percent", 0.5)];
        let mut policy = policy(&predictor, &parameters);
        for tick in 1..30 {
            let now = outcomes(&*predictor, &FOUR, &cpus(&machine, &threads));
            threads.iter_mut().zip(&now).for_each(|(one, outcome)| count(one, outcome, clock_hz));
            let plan = policy.decide(&at(&machine, &threads, f64::from(tick)));
            moved(&plan, &mut threads);
        }
        let reached = mean_slowdown(&outcomes(&*predictor, &FOUR, &cpus(&machine, &threads)));
        assert!(reached <= best * 1.01, "{start:?}: {reached} {best}");
    }
}

/// Eight programs in pairs, each counted beside one neighbour: places are tried, what that teaches leads to no worse placement
/// than counters alone, to within what a placement must gain by an estimate to be taken up, and no trial is left standing.
#[test]
fn places_on_trial_lose_nothing() {
    let programs = ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"];
    let predictor = predictor("xeon-x5365", &programs);
    let machine = predictor.model().machine().clone();
    let clock_hz = machine.core_types()[0].clock_mhz * 1e6;
    let reached = |trials: f64| {
        let mut threads = threads(&machine, &programs, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let mut policy = policy(&predictor, &[("profiles", 0.0), ("trials", trials)]);
        let (mut seconds, mut sampled) = (0.0, 0);
        while seconds < 30.0 || policy.next_interval().is_some() {
            let interval = policy.next_interval().map_or(1.0 / 3.0, Nanoseconds::as_secs_f64);
            seconds += interval;
            let now = outcomes(&*predictor, &programs, &cpus(&machine, &threads));
            threads.iter_mut().zip(&now).for_each(|(one, outcome)| count(one, outcome, clock_hz));
            let plan = policy.decide(&at(&machine, &threads, seconds));
            sampled += usize::from(plan.steps.iter().any(|one| one.reason.contains("sampling ")));
            moved(&plan, &mut threads);
        }
        let outcomes = outcomes(&*predictor, &programs, &cpus(&machine, &threads));
        (sampled, mean_slowdown(&outcomes))
    };
    let [(without, counted), (with, sampled)] = [0.0, 2.0].map(reached);
    assert!(without == 0 && with > 0, "{with}");
    let alike = 1.0 + LEAST_ESTIMATED_GAIN.default / 100.0;
    assert!(sampled <= counted * alike, "{sampled} {counted}");
}

/// A thread of which instructions, cycles or misses were never counted is not guessed at.
#[test]
fn without_counters_and_profiles_nobody_moves() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let mut threads = threads(&machine, &FOUR, &[0, 1, 2, 3]);
    let parameters = BTreeMap::from([("profiles".to_owned(), 0.0)]);
    let mut policy = Corun::new(&BuildOptions { seed: 0, parameters });
    for second in 0..5 {
        for thread in &mut threads[..3] {
            thread.rates.instructions_per_s = Some(1e9);
            thread.rates.cycles_per_s = Some(3e9);
        }
        assert_eq!(policy.decide(&at(&machine, &threads, f64::from(second))), Plan::none());
    }
}

mod caps;
mod checks;
mod crowded;
mod division;
mod phases;
mod sheltered;
mod turns;
