//! A placement is visited there and back before it is taken up.

use super::*;
use crate::placement::corun::checking::Checking;

/// The policy with its first visit begun, the threads there, and their CPUs here and there. On this machine `sort` and
/// `numpy` do better apart.
struct Visit {
    policy: Corun,
    machine: Arc<Machine>,
    threads: Vec<ThreadView>,
    here: Vec<usize>,
    there: Vec<usize>,
}

impl Visit {
    fn begin() -> Self {
        let predictor = predictor("xeon-x5365-2llc", &FOUR);
        let machine = predictor.model().machine().clone();
        let mut views = threads(&machine, &FOUR, &[0, 1, 2, 3]);
        let mut policy = policy(&predictor, &[]);
        let plan = {
            let running: Vec<&ThreadView> = views.iter().collect();
            let view = at(&machine, &views, 60.0);
            let threads = policy.threads(&view, &running, &*predictor).unwrap();
            let now = policy.situation(&machine, &running, &policy.parts.decided).unwrap();
            let mut search = policy.search(predictor.model(), &threads);
            let change = policy.searched(&view, &running, 60.0, &mut search, &now).unwrap();
            let mut plan = Plan::none();
            policy.begin_check(&machine, &running, &mut search, &change, &mut plan);
            plan
        };
        moved(&plan, &mut views);
        let there = cpus(&machine, &views);
        assert_ne!(there, [0, 1, 2, 3]);
        Self { policy, machine, threads: views, here: vec![0, 1, 2, 3], there }
    }

    /// What comes after an interval in which all threads get so much done there, and 1e9 instructions a second here.
    fn step(&mut self, there: f64, seconds: f64) -> Checking {
        let is_there = cpus(&self.machine, &self.threads) == self.there;
        for thread in &mut self.threads {
            thread.rates.instructions_per_s = Some(if is_there { there } else { 1e9 });
        }
        let running: Vec<&ThreadView> = self.threads.iter().collect();
        let now = Nanoseconds::from_secs_f64(seconds);
        self.policy.check(&self.machine, now, &running)
    }

    /// Steps until the check ends, and how many.
    fn end(&mut self, there: f64) -> (Checking, usize) {
        for steps in 1..200 {
            match self.step(there, 60.0 + steps as f64) {
                Checking::Busy(plan) => moved(&plan, &mut self.threads),
                ended => return (ended, steps),
            }
        }
        panic!("the check never ends");
    }
}

/// Twice as much there: taken up after four visits, of four steps and three rests.
#[test]
fn a_placement_that_does_better_is_taken_up() {
    let mut visit = Visit::begin();
    let (ended, steps) = visit.end(2e9);
    let Checking::Passed(places) = ended else { panic!("not passed") };
    assert_eq!(places.into_values().collect::<Vec<usize>>(), visit.there);
    assert_eq!(steps, 4 * 4 + 3);
    assert_eq!(cpus(&visit.machine, &visit.threads), visit.here, "taken up by the next plan");
    assert!(!visit.policy.checks.is_on());
}

/// Half as much there, whatever was predicted: all are back, and it is not looked at again within a minute.
#[test]
fn a_placement_that_does_worse_is_left() {
    let mut visit = Visit::begin();
    let (ended, _) = visit.end(5e8);
    let Checking::Off(plan) = ended else { panic!("it passed") };
    assert!(plan.steps.is_empty());
    assert_eq!(cpus(&visit.machine, &visit.threads), visit.here);
    assert!(visit.policy.checks.next_interval().is_none());
}

/// A thread that starts anew goes where its program belongs. One that ends, and a step that is not in force, end the check:
/// the others go back.
#[test]
fn a_check_outlives_a_restart_and_ends_with_a_program() {
    let mut visit = Visit::begin();
    let moved_one = (0..4).find(|&one| visit.here[one] != visit.there[one]).unwrap();
    visit.threads[moved_one].id = ThreadId(9);
    visit.threads[moved_one].allowed = visit.machine.cpu_set();
    let Checking::Busy(plan) = visit.step(1e9, 61.0) else { panic!("ended") };
    let [Step { action: Action::Allow { thread, cpus }, .. }] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    let there = visit.machine.cpus()[visit.there[moved_one]].id;
    assert_eq!((*thread, cpus.iter().collect::<Vec<_>>()), (ThreadId(9), vec![there]));

    // Another that runs the same program and may not go there is none of those in the check.
    let mut visit = Visit::begin();
    visit.threads[moved_one].id = ThreadId(9);
    visit.threads[moved_one].may_run_on =
        std::iter::once(visit.machine.cpus()[visit.here[moved_one]].id).collect();
    let Checking::Off(plan) = visit.step(1e9, 61.0) else { panic!("goes on") };
    let is_its = |step: &Step| matches!(step.action, Action::Allow { thread: ThreadId(9), .. });
    assert!(!plan.steps.iter().any(is_its), "{plan:?}");

    let mut visit = Visit::begin();
    let away = visit.here.iter().zip(&visit.there).skip(1).filter(|(here, there)| here != there);
    let away = away.count();
    visit.threads.remove(0);
    let Checking::Off(plan) = visit.step(1e9, 61.0) else { panic!("goes on") };
    assert_eq!(plan.steps.len(), away);

    let mut visit = Visit::begin();
    let cpus = CpuSet::default();
    visit.policy.not_in_force(&Action::Allow { thread: ThreadId(0), cpus });
    assert!(matches!(visit.step(1e9, 61.0), Checking::Off(plan) if !plan.steps.is_empty()));
}

/// A check at rest is given up because a thread went: what was counted until then is taken in once.
#[test]
fn what_is_counted_while_a_check_at_rest_is_given_up_counts_once() {
    let mut visit = Visit::begin();
    let mut seconds = 61.0;
    while visit.policy.checks.is_visiting() {
        let Checking::Busy(plan) = visit.step(1e9, seconds) else { panic!("ended") };
        moved(&plan, &mut visit.threads);
        seconds += 1.0;
    }
    visit.threads.remove(0);
    let taken_in = visit.policy.learned.intervals();
    visit.policy.decide(&at(&visit.machine, &visit.threads, seconds));
    assert!(!visit.policy.checks.is_visiting());
    assert_eq!(visit.policy.learned.intervals(), taken_in + 1);
}

/// On one node a place on trial is left also where it is predicted to be the better one: a check says more. Between nodes
/// it is kept.
#[test]
fn a_place_on_trial_is_left_where_it_can_be_checked() {
    for (name, is_left) in [("xeon-x5365-2llc", true), ("2x-gold-6138-4c", false)] {
        let predictor = predictor(name, &FOUR);
        let machine = predictor.model().machine().clone();
        let on = |llc: usize, nth: usize| {
            let cpus = machine.cpus().iter().enumerate();
            cpus.filter(|(_, cpu)| cpu.llc == llc).map(|(index, _)| index).nth(nth).unwrap()
        };
        let mut both =
            [[on(0, 0), on(0, 1), on(1, 0), on(1, 1)], [on(0, 0), on(1, 0), on(0, 1), on(1, 1)]];
        let value = |cpus: &[usize; 4]| mean_slowdown(&outcomes(&*predictor, &FOUR, cpus));
        both.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let views = threads(&machine, &FOUR, &both[0]);
        let running: Vec<&ThreadView> = views.iter().collect();
        let view = at(&machine, &views, 60.0);
        let mut policy = policy(&predictor, &[]);
        let known = policy.threads(&view, &running, &*predictor).unwrap();
        let there = policy.situation(&machine, &running, &policy.parts.decided).unwrap();
        let before = Situation { cpus: both[1].to_vec(), ..there.clone() };
        let mut search = policy.search(predictor.model(), &known);
        let there = search.predicted(there);
        let mut plan = Plan::none();
        policy.go_back(&view, &running, &mut search, (&there, &before), &mut plan);
        assert_eq!(!plan.steps.is_empty(), is_left, "{name}: {plan:?}");
    }
}
