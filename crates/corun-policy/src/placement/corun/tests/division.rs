//! The ways of one LLC.

use corun_machine::ObjectSpec;
use corun_model::{CacheGroup, Pace};

use super::*;
use crate::Partition;
use crate::placement::corun::programs::Programs;

/// One LLC of 16 ways and 8 MiB, four cores: a machine whose LLC the hardware can divide, or not.
pub(super) fn one_llc(can_be_partitioned: bool) -> Machine {
    fn mark(objects: &mut [ObjectSpec], can_be_partitioned: bool) {
        for object in objects {
            if object.level == Some(3) {
                object.min_partition_ways = can_be_partitioned.then_some(1);
            }
            mark(&mut object.objects, can_be_partitioned);
        }
    }
    let mut spec = preset("i7-2600").unwrap().spec().clone();
    mark(&mut spec.objects, can_be_partitioned);
    Machine::from_spec(spec).unwrap()
}

const MIX: [&str; 4] = ["sort", "xz", "numpy", "sqlite3"];

fn paces(outcomes: &[Outcome]) -> Vec<Pace> {
    outcomes.iter().map(Outcome::pace).collect()
}

/// What the model says of programs with these ways of the machine's only LLC (0: all).
fn divided(predictor: &dyn Predictor, programs: &[&str], masks: &[u64]) -> Vec<Outcome> {
    let model = predictor.model();
    let cache = model.machine().llcs()[0].cache.unwrap();
    let way_bytes = cache.size_bytes as f64 / f64::from(cache.ways.unwrap());
    let loaded: Vec<Arc<LoadedProgram>> =
        programs.iter().map(|name| predictor.profiled(name).unwrap()).collect();
    let running: Vec<Running<'_>> = loaded
        .iter()
        .zip(masks)
        .enumerate()
        .map(|(index, (program, mask))| Running {
            member: Member {
                program,
                phase: LoadedProgram::WHOLE,
                cpu: index_of_core(model.machine(), index),
            },
            home: &[],
            group: (*mask != 0).then(|| CacheGroup {
                id: mask.trailing_zeros(),
                bytes: way_bytes * f64::from(mask.count_ones()),
            }),
        })
        .collect();
    let mut outcomes = Vec::new();
    model.solve(&running, &mut Scratch::default(), &mut outcomes);
    outcomes
}

/// The first CPU of each core.
fn index_of_core(machine: &Machine, core: usize) -> usize {
    (0..machine.cpus().len()).find(|&cpu| machine.cpus()[cpu].core == core).unwrap()
}

pub(super) fn on_cores(machine: &Machine, programs: &[&str]) -> Vec<ThreadView> {
    let cpus: Vec<usize> = (0..programs.len()).map(|core| index_of_core(machine, core)).collect();
    threads(machine, programs, &cpus)
}

/// Takes over what a plan says of ways.
fn take_ways(plan: &Plan, masks: &mut [u64]) {
    for step in &plan.steps {
        if let Action::Partition { llc: 0, parts } = &step.action {
            masks.fill(0);
            for CachePart { mask, threads } in parts {
                threads.iter().for_each(|thread| masks[thread.0 as usize] = *mask);
            }
        }
    }
}

/// Every division of so many ways among four programs.
fn all_divisions(ways: u32) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    for code in 0..256_usize {
        let cluster: Vec<usize> = (0..4).map(|program| code >> (2 * program) & 3).collect();
        let is_new = |place: usize| {
            cluster[place] <= cluster[..place].iter().map(|one| one + 1).max().unwrap_or(0)
        };
        if !(0..4).all(is_new) {
            continue;
        }
        let clusters = cluster.iter().max().unwrap() + 1;
        let mut shares = vec![vec![]];
        for _ in 0..clusters - 1 {
            shares = shares
                .iter()
                .flat_map(|known: &Vec<u32>| {
                    (1..ways).map(move |more| [known.clone(), vec![more]].concat())
                })
                .collect();
        }
        for mut share in shares {
            let Some(left) = ways.checked_sub(share.iter().sum()).filter(|&left| left > 0) else {
                continue;
            };
            share.push(left);
            let partition = Partition::of_clusters(&cluster, &share);
            all.push((0..4).map(|program| partition.mask(program)).collect());
        }
    }
    all
}

/// The 1 + 7 x 15 + 6 x 105 + 455 divisions of 16 ways among four programs: the one that the policy decides for
/// is as good as the best of them to within its least gain, by each objective.
#[test]
fn a_division_is_as_good_as_the_best_of_all() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let divisions = all_divisions(16);
    assert_eq!(divisions.len(), 1191);
    let each: Vec<Vec<Outcome>> =
        divisions.iter().map(|masks| divided(&*predictor, &MIX, masks)).collect();
    let mut gained = 0;
    let programs = Programs::of_one_thread(MIX.len());
    for (number, target) in [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (0.0, 1.2)] {
        let objective = Objective::of(number, target);
        let value = |paces: &[Pace]| objective.value(&programs, paces, None);
        let whole = value(&paces(&divided(&*predictor, &MIX, &[0; 4])));
        let best = each.iter().map(|outcomes| value(&paces(outcomes)));
        let best = best.fold(f64::INFINITY, f64::min);
        let parameters = [("objective", number), ("target-slowdown", target)];
        let mut policy = policy(&predictor, &parameters);
        let mut masks = vec![0; 4];
        let threads = on_cores(&machine, &MIX);
        take_ways(&policy.decide(&at(&machine, &threads, 60.0)), &mut masks);
        let reached = value(&paces(&divided(&*predictor, &MIX, &masks)));
        assert!(reached <= best * 1.006, "{number} {target}: {whole} to {reached}, best {best}");
        gained += usize::from(reached < whole * 0.995);
        // And it stays so.
        let again = policy.decide(&at(&machine, &threads, 61.0));
        assert!(!again.steps.iter().any(|step| matches!(step.action, Action::Partition { .. })));
    }
    assert!(gained >= 2, "{gained}");
}

/// A division that the host did not make is asked for again, in the next interval.
#[test]
fn a_division_that_is_not_in_force_is_asked_for_again() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let threads = on_cores(&machine, &MIX);
    let mut policy = policy(&predictor, &[("objective", 2.0)]);
    let mut division = |at_s, is_refused| {
        let plan = policy.decide(&at(&machine, &threads, at_s));
        let is_division = |step: &&Step| step.action.kind() == ActionKind::Partition;
        let action = plan.steps.iter().find(is_division).map(|step| step.action.clone());
        if let Some(action) = action.as_ref().filter(|_| is_refused) {
            policy.not_in_force(action);
        }
        action
    };
    let first = division(60.0, true);
    assert!(first.is_some());
    assert_eq!(division(61.0, false), first);
    assert_eq!(division(62.0, false), None);
}

/// A host that cannot divide caches gets none of it.
#[test]
fn without_the_control_and_without_the_parameter_no_way_is_touched() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let threads = on_cores(&machine, &MIX);
    let divides = |policy: &mut Corun| {
        let plan = policy.decide(&at(&machine, &threads, 60.0));
        plan.steps.iter().any(|step| matches!(step.action, Action::Partition { .. }))
    };
    let unfair = ("objective", 2.0);
    let whole = predictor_on(one_llc(false), &MIX);
    let plan = policy(&whole, &[unfair]).decide(&at(whole.model().machine(), &threads, 60.0));
    assert!(!plan.steps.iter().any(|step| matches!(step.action, Action::Partition { .. })));
    assert!(divides(&mut policy(&predictor, &[unfair])));
    assert!(!divides(&mut policy(&predictor, &[unfair, ("ways", 0.0)])));
    let mut without = policy(&predictor, &[unfair]);
    assert!(without.do_without(ActionKind::Partition));
    assert!(!divides(&mut without));
}

/// Nobody slower than 1.01, which nobody can promise: who is slower is named, once.
#[test]
fn who_is_slower_than_the_target_is_named() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let threads = on_cores(&machine, &MIX);
    let mut policy = policy(&predictor, &[("target-slowdown", 1.01)]);
    let mut reasons = String::new();
    let mut masks = vec![0; 4];
    for second in 0..4 {
        let plan = policy.decide(&at(&machine, &threads, 60.0 + f64::from(second)));
        take_ways(&plan, &mut masks);
        plan.steps.iter().for_each(|step| reasons.push_str(&format!("{}\n", step.reason)));
    }
    let outcomes = divided(&*predictor, &MIX, &masks);
    assert!(outcomes.iter().any(|one| one.slowdown > 1.01));
    for (program, outcome) in MIX.iter().zip(&outcomes) {
        let named = reasons
            .lines()
            .filter(|line| {
                line.starts_with(&format!("{program}: "))
                    && line.contains("slower than asked, 1.01")
            })
            .count();
        assert_eq!(named, usize::from(outcome.slowdown > 1.01), "{program}\n{reasons}");
    }
    // A target that all keep to names nobody.
    let mut easy = self::policy(&predictor, &[("target-slowdown", 50.0)]);
    let plan = easy.decide(&at(&machine, &threads, 60.0));
    assert!(plan.steps.iter().all(|step| !step.reason.contains("slower than asked")));
}

/// A program that ended and starts again has its former ways before anything is decided anew.
#[test]
fn a_program_that_starts_again_has_its_former_ways() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let mut threads = on_cores(&machine, &MIX);
    let mut policy = policy(&predictor, &[("objective", 2.0)]);
    let mut masks = vec![0; 5];
    take_ways(&policy.decide(&at(&machine, &threads, 60.0)), &mut masks);
    assert_ne!(masks[2], 0);
    let gone = threads.remove(2);
    assert_eq!(policy.on_event(&Event::Exited(gone.id), &at(&machine, &threads, 60.1)), None);
    threads.push(ThreadView { id: ThreadId(4), process: ProcessId(4), ..gone });
    let plan =
        policy.on_event(&Event::Arrived(ThreadId(4)), &at(&machine, &threads, 60.1)).unwrap();
    let before = masks.clone();
    take_ways(&plan, &mut masks);
    assert_eq!(masks, [before[0], before[1], 0, before[3], before[2]]);
    // Another program that comes has the ways of none that ended, but a part.
    let other = ThreadView {
        id: ThreadId(5),
        process: ProcessId(5),
        program: "flac".to_owned(),
        ..threads[0].clone()
    };
    threads.remove(0);
    threads.push(other);
    let plan =
        policy.on_event(&Event::Arrived(ThreadId(5)), &at(&machine, &threads, 60.2)).unwrap();
    masks.push(0);
    take_ways(&plan, &mut masks);
    assert_eq!(masks[..5], [0, before[1], 0, before[3], before[2]]);
    let widest = before[1..].iter().max_by_key(|mask| mask.count_ones()).unwrap();
    assert_eq!(masks[5].count_ones(), widest.count_ones());
}

/// Programs without profiles: from what they count, and from trials, the policy finds divisions that go at least a third of
/// the way from the whole cache to those that it finds with profiles, and are within a tenth of these on average; trials end.
#[test]
fn trials_find_a_division_without_profiles() {
    let mixes = [
        MIX,
        ["perl", "zstd", "metis", "cc1"],
        ["bzip2", "bwa", "ruby", "igraph"],
        ["python3", "gzip", "z3", "x264"],
    ];
    let mut ratios = 0.0;
    for mix in mixes {
        let predictor = predictor_on(one_llc(true), &mix);
        let whole = unfairness(&*predictor, &mix, &[0; 4]);
        let (known, none, _) = reached(&predictor, &mix, &[("objective", 2.0)]);
        assert_eq!(none, 0);
        let without = [("objective", 2.0), ("profiles", 0.0)];
        let (learnt, trials, last) = reached(&predictor, &mix, &without);
        assert!(trials > 0 && trials <= 16, "{mix:?}: {trials}, the last at {last} s");
        let way = (whole - learnt) / (whole - known);
        assert!(way > 1.0 / 3.0, "{mix:?}: {whole} to {learnt}, with profiles {known}");
        ratios += learnt / known;
    }
    let mean = ratios / mixes.len() as f64;
    assert!(mean < 1.1, "{mean}");
    let predictor = predictor_on(one_llc(true), &MIX);
    let off = [("objective", 2.0), ("profiles", 0.0), ("trials", 0.0)];
    assert_eq!(reached(&predictor, &MIX, &off).1, 0);
}

fn unfairness(predictor: &dyn Predictor, mix: &[&'static str; 4], masks: &[u64]) -> f64 {
    Objective::of(2.0, 0.0).value(
        &Programs::of_one_thread(mix.len()),
        &paces(&divided(predictor, mix, masks)),
        None,
    )
}

/// The unfairness of the division after a minute, the trials on the way, and when the last one was, in seconds.
fn reached(
    predictor: &Arc<dyn Predictor>,
    mix: &[&'static str; 4],
    parameters: &[(&str, f64)],
) -> (f64, usize, f64) {
    let machine = predictor.model().machine().clone();
    let clock_hz = machine.core_types()[0].clock_mhz * 1e6;
    let mut policy = policy(predictor, parameters);
    let mut threads = on_cores(&machine, mix);
    let (mut masks, mut now, mut trials, mut last) = (vec![0; 4], 0.0, 0, 0.0);
    while now < 60.0 {
        now += policy.next_interval().map_or(0.4, Nanoseconds::as_secs_f64);
        let outcomes = divided(&**predictor, mix, &masks);
        threads.iter_mut().zip(&outcomes).for_each(|(one, outcome)| count(one, outcome, clock_hz));
        let plan = policy.decide(&at(&machine, &threads, now));
        take_ways(&plan, &mut masks);
        if plan.steps.iter().any(|step| step.reason.contains("sampling")) {
            (trials, last) = (trials + 1, now);
        }
    }
    (unfairness(&**predictor, mix, &masks), trials, last)
}

/// No threads, one thread, counters that vanish, threads that end within the interval.
#[test]
fn bad_input_leaves_the_machine_alone() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let mut policy = policy(&predictor, &[("objective", 2.0), ("profiles", 0.0)]);
    assert_eq!(policy.decide(&at(&machine, &[], 0.0)), Plan::none());
    let mut threads = on_cores(&machine, &MIX);
    let clock_hz = machine.core_types()[0].clock_mhz * 1e6;
    let outcomes = divided(&*predictor, &MIX, &[0; 4]);
    threads.iter_mut().zip(&outcomes).for_each(|(one, outcome)| count(one, outcome, clock_hz));
    let one = policy.decide(&at(&machine, &threads[..1], 1.0));
    assert!(!one.steps.iter().any(|step| matches!(step.action, Action::Partition { .. })));
    for second in 2..60 {
        let now = f64::from(second);
        match second % 4 {
            0 => threads.iter_mut().for_each(|one| one.rates = crate::Rates::default()),
            1 => threads
                .iter_mut()
                .zip(&outcomes)
                .for_each(|(one, outcome)| count(one, outcome, clock_hz)),
            2 => threads[0].rates.instructions_per_s = Some(f64::NAN),
            _ => threads[1].rates.cycles_per_s = Some(0.0),
        }
        let shown = &threads[..usize::from(second % 7 > 0) * 4];
        let plan = policy.decide(&at(&machine, shown, now));
        for step in &plan.steps {
            if let Action::Partition { parts, .. } = &step.action {
                let named: Vec<ThreadId> =
                    parts.iter().flat_map(|part| part.threads.clone()).collect();
                assert!(named.iter().all(|id| shown.iter().any(|one| one.id == *id)), "{plan:?}");
                let masks: u64 = parts.iter().map(|part| part.mask).fold(0, |all, mask| {
                    assert_eq!(all & mask, 0, "{plan:?}");
                    all | mask
                });
                assert!(masks <= 0xffff);
            }
        }
    }
}

/// More threads than CPUs: the LLC is whole again.
#[test]
fn a_crowd_has_the_whole_cache() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let mut threads = on_cores(&machine, &MIX);
    let mut policy = policy(&predictor, &[("objective", 2.0)]);
    let mut masks = vec![0; 4];
    take_ways(&policy.decide(&at(&machine, &threads, 60.0)), &mut masks);
    assert!(masks.iter().all(|&mask| mask != 0));
    for more in 4..=machine.cpus().len() as u64 {
        let (id, process) = (ThreadId(more), ProcessId(more));
        threads.push(ThreadView { id, process, ..threads[0].clone() });
    }
    let last = threads.last().unwrap().id;
    let plan = policy.on_event(&Event::Arrived(last), &at(&machine, &threads, 61.0)).unwrap();
    let is_whole = |step: &Step| step.action == Action::Partition { llc: 0, parts: Vec::new() };
    assert_eq!(plan.steps.iter().filter(|step| is_whole(step)).count(), 1, "{plan:?}");
}

/// Divisions that follow one another add up to no more than a program may lose against the whole LLC.
#[test]
fn divisions_one_after_another_keep_the_bound() {
    let predictor = predictor_on(one_llc(true), &MIX);
    let machine = predictor.model().machine().clone();
    let whole = divided(&*predictor, &MIX, &[0; 4]);
    let threads = on_cores(&machine, &MIX);
    for percent in [0.5, 2.0] {
        let mut policy = policy(&predictor, &[("most-loss-percent", percent)]);
        policy.least_gain = 0.0;
        let mut masks = [0; 4];
        for second in 0..8 {
            policy.settled = None;
            take_ways(
                &policy.decide(&at(&machine, &threads, 60.0 + f64::from(second))),
                &mut masks,
            );
        }
        for (before, after) in whole.iter().zip(divided(&*predictor, &MIX, &masks)) {
            let lost = 1.0 - before.slowdown / after.slowdown;
            assert!(lost <= percent / 100.0 + 1e-9, "{percent}: {lost} {masks:x?}");
        }
    }
}
