use corun_machine::Machine;

use super::*;
use crate::{Count, Counts, Scope, ScopedRate, fixture};

/// Three contexts on one shared cache.
fn three() -> Machine {
    fixture::tree(1, 1, 3)
}

fn casc(parameters: &[(&str, f64)]) -> Casc {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    Casc::new(&BuildOptions { seed: 1, parameters })
}

/// A host by hand: threads whose miss ratio is what their PCMR says, whoever runs beside them.
struct Hand {
    machine: Machine,
    threads: Vec<ThreadView>,
    pcmr: Vec<f64>,
    now: Nanoseconds,
}

impl Hand {
    fn new(machine: Machine, pcmr: &[f64]) -> Self {
        let mut threads = fixture::threads(&machine, &vec![None; pcmr.len()]);
        for thread in &mut threads {
            let none = Some(Count::default());
            thread.counts = Counts { llc_references: none, llc_misses: none, ..Counts::default() };
        }
        Self { machine, threads, pcmr: pcmr.to_vec(), now: Nanoseconds(0) }
    }

    fn view(&self) -> View<'_> {
        View { machine: &self.machine, threads: &self.threads, now: self.now }
    }

    /// These run for so long; then the host says that threads were switched.
    fn run(&mut self, policy: &mut Casc, who: &[usize], ms: f64) -> Option<Plan> {
        for (place, thread) in self.threads.iter_mut().enumerate() {
            let runs = who.contains(&place);
            thread.state = if runs { ThreadState::Running } else { ThreadState::Runnable };
        }
        let switched = Event::Switched { on: vec![], off: vec![] };
        policy.on_event(&switched, &self.view());
        self.now.0 += (ms * 1e6) as u64;
        for &place in who {
            let counts = &mut self.threads[place].counts;
            let references = 1000.0 * ms;
            counts.llc_references.as_mut().unwrap().total += references;
            counts.llc_misses.as_mut().unwrap().total += references * self.pcmr[place] * 0.01;
        }
        let plan = policy.on_event(&switched, &self.view());
        if let Some(plan) = &plan {
            self.carry_out(plan);
        }
        plan
    }

    fn carry_out(&mut self, plan: &Plan) {
        for step in &plan.steps {
            if let Action::Allow { thread, cpus } = &step.action {
                self.threads[thread.0 as usize].allowed = cpus.clone();
            }
        }
    }

    fn arrive(&mut self, policy: &mut Casc, place: usize) -> Option<Plan> {
        let event = Event::Arrived(ThreadId(place as u64));
        policy.on_event(&event, &self.view())
    }
}

fn near(found: Option<&f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

fn allowed(plan: &Plan) -> Vec<(u64, String)> {
    let of = |step: &crate::Step| match &step.action {
        Action::Allow { thread, cpus } => Some((thread.0, cpus.to_string())),
        _ => None,
    };
    plan.steps.iter().filter_map(of).collect()
}

/// PCMRs 3, 6, 12 and 30 on three CPUs, a mean of 15 (45 in all). CPU 2 is the last for the thread at 30; CPUs 0 and 1 come
/// down to 12 together (54), then CPU 0 to 6 and CPU 1 to 9.
#[test]
fn four_threads_on_three_cpus_by_hand() {
    let mut hand = Hand::new(three(), &[3.0, 6.0, 12.0, 30.0]);
    let mut policy = casc(&[]);
    assert_eq!(hand.arrive(&mut policy, 0), None, "nobody knows yet whether switches are told");
    let switched = Event::Switched { on: vec![], off: vec![] };
    let plan = policy.on_event(&switched, &hand.view()).unwrap();
    let raised = |step: &crate::Step| matches!(step.action, Action::SetWeight { weight, until: Some(_), .. } if weight == 16.0);
    assert_eq!(plan.steps.iter().filter(|step| raised(step)).count(), 3);
    let rows = [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]];
    hand.now.0 += 600_000;
    // 1.5 ms are not enough, and 0.1 ms more count for nothing.
    for row in rows {
        assert_eq!(hand.run(&mut policy, &row, 1.5), None);
    }
    for _ in 0..10 {
        for row in rows {
            assert_eq!(hand.run(&mut policy, &row, 0.1), None);
        }
    }
    let mut last = None;
    for row in rows {
        last = hand.run(&mut policy, &row, 0.5);
    }
    let plan = last.unwrap();
    for (thread, pcmr) in [3.0, 6.0, 12.0, 30.0].into_iter().enumerate() {
        assert!(near(policy.pcmr.get(&ThreadId(thread as u64)), pcmr), "{:?}", policy.pcmr);
    }
    let buckets = policy.buckets.as_ref().unwrap();
    assert_eq!((buckets.max_pcmr.as_slice(), buckets.threshold), ([6, 9, 30].as_slice(), 15.0));
    assert_eq!(allowed(&plan), [(2, "2".to_owned()), (3, "2".to_owned())]);
    let lowered = |step: &&crate::Step| matches!(step.action, Action::SetWeight { weight, until: None, .. } if weight == 1.0);
    assert_eq!(plan.steps.iter().filter(lowered).count(), 3);
}

/// The same in a container of three of six CPUs, and once it is given a fourth.
#[test]
fn cpus_that_nobody_may_use_have_no_bucket() {
    let mut hand = Hand::new(fixture::tree(1, 1, 6), &[3.0, 6.0, 12.0, 30.0]);
    for thread in &mut hand.threads {
        thread.may_run_on = "1-3".parse().unwrap();
        thread.allowed = thread.may_run_on.clone();
    }
    let mut policy = casc(&[]);
    hand.arrive(&mut policy, 0);
    hand.now.0 += 600_000;
    let plan = [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
        .into_iter()
        .find_map(|row| hand.run(&mut policy, &row, 3.0).filter(|_| policy.buckets.is_some()))
        .unwrap();
    assert_eq!(policy.buckets.as_ref().unwrap().max_pcmr, [6, 9, 30]);
    assert_eq!(allowed(&plan), [(2, "3".to_owned()), (3, "3".to_owned())]);
    for thread in &mut hand.threads {
        thread.may_run_on = "1-4".parse().unwrap();
    }
    // As many CPUs as threads: nothing is left to choose.
    let plan = policy.decide(&hand.view());
    assert_eq!(allowed(&plan).iter().map(|one| one.1.as_str()).collect::<Vec<_>>(), ["1-4"; 4]);
    assert!(policy.buckets.is_none());
}

/// The first look of a live host comes before the first switch that it knows of.
#[test]
fn groups_are_measured_once_switches_are_known_of() {
    let mut hand = Hand::new(three(), &[3.0, 6.0, 12.0, 30.0]);
    let mut policy = casc(&[]);
    assert_eq!(hand.arrive(&mut policy, 0), None, "nobody knows yet whether switches are told");
    for thread in &mut hand.threads {
        thread.rates.cpu_share = Some(0.75);
    }
    policy.decide(&hand.view());
    assert!(policy.rows.is_none());
    hand.now.0 += 600_000;
    for row in [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]] {
        hand.run(&mut policy, &row, 3.0);
    }
    assert!(near(policy.pcmr.get(&ThreadId(3)), 30.0), "{:?}", policy.pcmr);
    assert!(policy.buckets.is_some());
}

fn measured() -> (Hand, Casc) {
    let mut hand = Hand::new(three(), &[3.0, 6.0, 12.0, 30.0]);
    let mut policy = casc(&[]);
    hand.arrive(&mut policy, 0);
    hand.now.0 += 600_000;
    for row in [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]] {
        hand.run(&mut policy, &row, 3.0);
    }
    assert!(policy.buckets.is_some());
    (hand, policy)
}

/// The same after a fifth thread of PCMR 24 came.
fn with_a_newcomer() -> (Hand, Casc, Plan) {
    let (mut hand, mut policy) = measured();
    let mut newcomer = hand.threads[0].clone();
    newcomer.id = ThreadId(4);
    newcomer.program = "program4".to_owned();
    newcomer.allowed = hand.machine.cpu_set();
    newcomer.counts.llc_references = Some(Count::default());
    newcomer.counts.llc_misses = Some(Count::default());
    hand.threads.push(newcomer);
    hand.pcmr.push(24.0);
    let plan = hand.arrive(&mut policy, 4).unwrap();
    hand.carry_out(&plan);
    (hand, policy, plan)
}

/// The fifth thread is held on CPU 0, and beside 6 and 12 a ratio of 14 makes it 24.
#[test]
fn a_newcomer_is_measured_beside_known_threads() {
    let (mut hand, mut policy, plan) = with_a_newcomer();
    assert_eq!(allowed(&plan), [(4, "0".to_owned())]);
    // Too soon after its start.
    assert_eq!(hand.run(&mut policy, &[4, 1, 2], 5.0), None);
    assert!(!policy.pcmr.contains_key(&ThreadId(4)));
    hand.now.0 += 600_000;
    hand.run(&mut policy, &[4, 1, 2], 1.0);
    let plan = hand.run(&mut policy, &[4, 0, 1], 1.0).unwrap();
    assert!(near(policy.pcmr.get(&ThreadId(4)), 24.0), "{:?}", policy.pcmr);
    // 24 is less than the largest and the threshold was met: the CPUs stay as they are.
    assert_eq!(policy.buckets.as_ref().unwrap().max_pcmr, [6, 9, 30]);
    assert_eq!(allowed(&plan), [(4, "2".to_owned())]);
}

/// Three known threads sleep: two CPUs would be idle beside the one that the newcomer is held on, and no group runs.
#[test]
fn a_newcomer_is_held_only_while_there_are_threads_to_measure_it_beside() {
    let (mut hand, mut policy, _) = with_a_newcomer();
    for place in 0..3 {
        hand.threads[place].state = ThreadState::Sleeping;
    }
    let plan = policy.decide(&hand.view());
    assert_eq!(allowed(&plan), [(4, "0-2".to_owned())]);
    hand.carry_out(&plan);
    hand.threads[1].state = ThreadState::Runnable;
    assert_eq!(allowed(&policy.decide(&hand.view())), [(4, "0".to_owned())]);
}

/// Threads 2 and 3 are both held on CPU 2, so that CPU 1 is idle while the others sleep: three are awake, and never on CPUs
/// together. After 2 s the newcomer's own 24 of 100 count.
#[test]
fn a_newcomer_is_not_held_for_ever_where_no_group_runs() {
    let (mut hand, mut policy, _) = with_a_newcomer();
    hand.now.0 += 600_000;
    let mut looks = 0;
    while !policy.pcmr.contains_key(&ThreadId(4)) {
        assert!(looks < 200, "never known");
        hand.run(&mut policy, &[3, 4], 20.0);
        for place in 0..2 {
            hand.threads[place].state = ThreadState::Sleeping;
        }
        let plan = policy.decide(&hand.view());
        looks += 1;
        assert_eq!(allowed(&plan).is_empty(), looks < 100, "look {looks}: {plan:?}");
    }
    assert!(near(policy.pcmr.get(&ThreadId(4)), 24.0), "{:?}", policy.pcmr);
}

/// Thread 0 changes its ways from 3 to 60: groups with it miss more than was predicted.
#[test]
fn groups_that_part_from_what_was_predicted_are_measured_anew() {
    let (mut hand, mut policy) = measured();
    for _ in 0..100 {
        assert_eq!(hand.run(&mut policy, &[0, 1, 2], 5.0), None);
    }
    hand.pcmr[0] = 60.0;
    let anew = (0..120).find_map(|_| hand.run(&mut policy, &[0, 1, 2], 5.0)).unwrap();
    assert!(policy.buckets.is_none() && policy.rows.is_some());
    assert_eq!(allowed(&anew), [(2, "0-2".to_owned()), (3, "0-2".to_owned())]);
    for row in [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]] {
        hand.run(&mut policy, &row, 3.0);
    }
    assert!(near(policy.pcmr.get(&ThreadId(0)), 60.0), "{:?}", policy.pcmr);
}

#[test]
fn as_many_threads_as_contexts_are_left_alone() {
    let mut hand = Hand::new(three(), &[3.0, 6.0, 12.0]);
    let mut policy = casc(&[]);
    assert_eq!(hand.arrive(&mut policy, 0), None);
    assert_eq!(hand.run(&mut policy, &[0, 1, 2], 50.0), None);
    assert!(policy.decide(&hand.view()).steps.is_empty());
}

/// A look of a host without switches: of each thread its share of a CPU, its references each second on a CPU, and
/// how many of 100 miss. None: not counted in this look.
fn look(
    hand: &mut Hand,
    policy: &mut Casc,
    threads: &[(f64, Option<f64>, Option<f64>)],
) -> Vec<crate::Step> {
    hand.now.0 += 20_000_000;
    for (thread, &(share, references, missing)) in hand.threads.iter_mut().zip(threads) {
        let scope = Scope::DemandAndPrefetch;
        let rate = |per_s: f64| ScopedRate { per_s: share * per_s, scope };
        thread.state = ThreadState::Running;
        thread.rates.cpu_share = Some(share);
        thread.rates.llc_references = references.map(rate);
        thread.rates.llc_misses = missing.map(rate);
    }
    let plan = policy.decide(&hand.view());
    hand.carry_out(&plan);
    plan.steps
}

/// 4 threads share 3 CPUs, each now and then a little less of them than the others. All refer equally often, so
/// that the PCMR of each is its own miss ratio. Nothing is said before each has run for 0.25 s and been warm.
#[test]
fn shares_of_time_do_where_switches_are_not_told() {
    let truth = [3.0, 6.0, 12.0, 30.0];
    let mut hand = Hand::new(three(), &truth);
    let mut policy = casc(&[]);
    assert_eq!(hand.arrive(&mut policy, 0), None, "nobody's weight is raised");
    let mut decided = Vec::new();
    for step in 0..60 {
        let of = |place: usize| {
            let share = if place == step % 4 { 0.3 } else { 0.9 };
            (share, Some(1e6), Some(1e4 * truth[place]))
        };
        let threads: Vec<_> = (0..4).map(of).collect();
        decided.push(look(&mut hand, &mut policy, &threads));
    }
    let first = decided.iter().position(|steps| !steps.is_empty()).unwrap();
    // 100 ms are left out, and 0.25 s on a CPU are more than 12 looks.
    assert!((17..40).contains(&first), "{first}");
    assert_eq!(decided.iter().map(Vec::len).sum::<usize>(), 2);
    for (thread, pcmr) in truth.into_iter().enumerate() {
        assert!(near(policy.pcmr.get(&ThreadId(thread as u64)), pcmr), "{:?}", policy.pcmr);
    }
}

/// Five programs that fit into their own caches refer 100 times less often than a sixth, and miss whenever they do:
/// that is 1 of 100 references of the mean thread, and nobody's business.
#[test]
fn programs_that_hardly_use_the_shared_cache_are_left_alone_however_much_of_it_misses() {
    let mut hand = Hand::new(fixture::tree(1, 1, 2), &[0.0; 6]);
    let mut policy = casc(&[]);
    for place in 0..6 {
        hand.arrive(&mut policy, place);
    }
    for _ in 0..300 {
        let quiet = (0.33, Some(2e5), Some(2e5));
        let threads = [(0.33, Some(2e7), Some(4e5)), quiet, quiet, quiet, quiet, quiet];
        let steps = look(&mut hand, &mut policy, &threads);
        assert!(steps.is_empty(), "{steps:?}");
    }
    // The mean thread makes 3.5e6 references in a second on a CPU.
    assert!(near(policy.pcmr.get(&ThreadId(1)), 100.0 * 2e5 / 3.5e6), "{:?}", policy.pcmr);
}

/// One of the threads of the case by hand misses in each third look only: its interval reaches down to the MAX_PCMR
/// of 6 that would keep it from the first CPU. The one that always misses is kept from it.
#[test]
fn what_may_be_chance_holds_nobody() {
    let mut hand = Hand::new(three(), &[0.0; 4]);
    let mut policy = casc(&[]);
    for place in 0..4 {
        hand.arrive(&mut policy, place);
    }
    let mut held = Vec::new();
    for step in 0..40 {
        let of = |misses: f64| (0.75, Some(1e6), Some(misses));
        let unsteady = if step % 3 == 0 { 36e4 } else { 0.0 };
        let threads = [of(2.9e4), of(5.9e4), of(unsteady), of(29.9e4)];
        let steps = look(&mut hand, &mut policy, &threads);
        held.extend(allowed(&Plan { steps }));
    }
    assert_eq!(policy.buckets.as_ref().unwrap().max_pcmr, [6, 9, 30], "it was measured");
    assert_eq!(held, [(3, "2".to_owned())]);
}

/// References and misses are counted by turns.
#[test]
fn counters_that_take_turns_do() {
    let truth = [3.0, 6.0, 12.0, 30.0];
    let mut hand = Hand::new(three(), &truth);
    let mut policy = casc(&[]);
    hand.arrive(&mut policy, 0);
    for step in 0..120 {
        let of = |place: usize| {
            let (references, misses) = (Some(1e6), Some(1e4 * truth[place]));
            if step % 2 == 0 { (0.75, references, None) } else { (0.75, None, misses) }
        };
        let threads: Vec<_> = (0..4).map(of).collect();
        look(&mut hand, &mut policy, &threads);
    }
    for (thread, pcmr) in truth.into_iter().enumerate() {
        assert!(near(policy.pcmr.get(&ThreadId(thread as u64)), pcmr), "{:?}", policy.pcmr);
    }
}

#[test]
fn forgetting_a_thread_has_it_measured_again() {
    let (mut hand, _) = measured();
    let mut policy = casc(&[("remeasure-every-ms", 250.0)]);
    hand.arrive(&mut policy, 0);
    hand.now.0 += 600_000;
    for row in [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]] {
        hand.run(&mut policy, &row, 3.0);
    }
    hand.now.0 += 250_000_000;
    let plan = policy.decide(&hand.view());
    assert_eq!(policy.pcmr.len(), 3);
    assert_eq!(allowed(&plan).len(), 1);
    assert_eq!(allowed(&plan)[0].1, "0");
}
