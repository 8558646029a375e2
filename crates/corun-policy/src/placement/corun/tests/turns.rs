//! Turns on the fast cores of machines of several core types.

use super::*;
use crate::placement::corun::objective::Objective;
use crate::placement::corun::turns::{Put, worth_of_speeds};

/// Two big cores and four little ones.
const JUNO: &str = "juno-2b4s";
/// Eight big cores of two hardware threads and eight small ones, under one LLC.
const HYBRID: &str = "core-i9-12900k";

/// Programs on CPUs (indices) under the policy, looked at once a second as long as asked, counted as the model says.
struct Looked {
    predictor: Arc<dyn Predictor>,
    machine: Arc<Machine>,
    threads: Vec<ThreadView>,
    policy: Corun,
    /// Of each thread's time, what it would have taken alone.
    alone_s: Vec<f64>,
    looks: u32,
    moves: usize,
}

impl Looked {
    fn new(machine: &str, programs: &[&str], cpus: &[usize], parameters: &[(&str, f64)]) -> Self {
        let predictor = predictor(machine, programs);
        let machine = predictor.model().machine().clone();
        let threads = threads(&machine, programs, cpus);
        let policy = policy(&predictor, parameters);
        let alone_s = vec![0.0; programs.len()];
        Self { predictor, machine, threads, policy, alone_s, looks: 0, moves: 0 }
    }

    fn look(&mut self, programs: &[&str], times: u32) {
        for _ in 0..times {
            let on = cpus(&self.machine, &self.threads);
            let now = outcomes(&*self.predictor, programs, &on);
            for (index, outcome) in now.iter().enumerate() {
                let core_type = self.machine.cpus()[on[index]].core_type;
                let clock_hz = self.machine.core_types()[core_type].clock_mhz * 1e6;
                count(&mut self.threads[index], outcome, clock_hz);
                self.alone_s[index] += 1.0 / outcome.slowdown;
            }
            self.looks += 1;
            let view = at(&self.machine, &self.threads, f64::from(self.looks));
            let plan = self.policy.decide(&view);
            self.moves += plan.steps.len();
            moved(&plan, &mut self.threads);
        }
    }

    fn slowdowns(&self) -> Vec<f64> {
        self.alone_s.iter().map(|alone_s| f64::from(self.looks) / alone_s).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Three alike on two big cores and a small one, of which each is on a big one for two thirds of the time.
#[test]
fn threads_that_are_alike_get_alike() {
    let programs = ["perl", "perl", "perl"];
    let mut looked = Looked::new(JUNO, &programs, &[0, 1, 2], &[]);
    looked.look(&programs, 300);
    let slowdowns = looked.slowdowns();
    let held = outcomes(&*looked.predictor, &programs, &[0, 1, 2]);
    let turns = 3.0 / held.iter().map(|one| 1.0 / one.slowdown).sum::<f64>();
    assert!(held[2].slowdown > 2.0 * held[0].slowdown);
    for slowdown in &slowdowns {
        assert!((slowdown / turns - 1.0).abs() < 0.02, "{slowdowns:?} {turns}");
    }
    assert!(looked.moves < 600, "{}", looked.moves);
}

/// Two programs, a big core and a small one: of all shares of time that one may have of the big core, turns come to the best.
#[test]
fn turns_come_to_the_best_shares_of_time() {
    for (programs, cpus) in [(["perl", "numpy"], [0, 2]), (["hmmsearch", "sqlite3"], [2, 0])] {
        let mut looked = Looked::new(JUNO, &programs, &cpus, &[]);
        for thread in &mut looked.threads {
            let two = [0, 2].map(|cpu| looked.machine.cpus()[cpu].id);
            thread.may_run_on = two.into_iter().collect();
            thread.allowed = thread.may_run_on.clone();
        }
        looked.look(&programs, 600);
        let [one, other] = [[0, 2], [2, 0]].map(|cpus| {
            let outcomes = outcomes(&*looked.predictor, &programs, &cpus);
            [outcomes[0].slowdown, outcomes[1].slowdown]
        });
        let mixed = |share: f64| {
            let slowdown = |of: usize| 1.0 / (share / one[of] + (1.0 - share) / other[of]);
            f64::midpoint(slowdown(0), slowdown(1))
        };
        let best = (0..=1000).map(|step| mixed(f64::from(step) / 1000.0));
        let best = best.fold(f64::INFINITY, f64::min);
        let reached = mean(&looked.slowdowns());
        assert!(reached < best * 1.01, "{programs:?}: {reached} {best}");
        assert!(best < mixed(0.0).min(mixed(1.0)) * 0.95, "turns gain: {best}");
    }
}

/// The worst of four is less slow where the worst slowdown is made small than where the mean is.
#[test]
fn the_worst_has_more_turns_where_that_is_asked() {
    let programs = ["hmmsearch", "sqlite3", "numpy", "kernel-chase"];
    let worst = |objective: f64| {
        let parameters = [("objective", objective)];
        let mut looked = Looked::new(JUNO, &programs, &[0, 1, 2, 3], &parameters);
        looked.look(&programs, 400);
        looked.slowdowns().into_iter().fold(0.0, f64::max)
    };
    let (by_mean, by_worst) = (worst(0.0), worst(1.0));
    assert!(by_worst < by_mean * 0.98, "{by_worst} {by_mean}");
}

/// Threads 0 and 1 are one program, thread 2 another. Of the mean slowdown speed is worth 1 / speed^2 a program: two threads that
/// were equally fast share it. Of speeds of 1/2 and 1/4 the program's is (2^8 / 2 + 4^8 / 2)^(-1/8) = 32896^(-1/8), and the slower
/// thread's counts 2^9 times as much.
#[test]
fn a_program_of_several_threads_counts_once() {
    let machine = preset(JUNO).unwrap();
    let mut views = threads(&machine, &["perl"; 3], &[0, 1, 2]);
    views[1].process = views[0].process;
    let views: Vec<&ThreadView> = views.iter().collect();
    let of = |speeds: &[f64]| worth_of_speeds(Objective::of(0.0, 0.0), &views, speeds);
    let alike = of(&[0.5, 0.5, 0.5]);
    assert!(alike.iter().zip([2.0, 2.0, 4.0]).all(|(one, by_hand)| (one - by_hand).abs() < 1e-9));
    let unlike = of(&[0.5, 0.25, 0.25]);
    let program = 32896_f64.powf(-0.125);
    let slower = (program / 0.25).powi(9) / program.powi(2) / 2.0;
    assert!((unlike[1] / slower - 1.0).abs() < 1e-9, "{unlike:?} {slower}");
    assert!((unlike[1] / unlike[0] - 512.0).abs() < 1e-6, "{unlike:?}");
    assert!((unlike[2] - 16.0).abs() < 1e-9, "{unlike:?}");
}

/// Four threads of one program beside two other programs, with each program as slow as its slowest thread: it is better to count
/// programs than threads, and the four get alike.
#[test]
fn turns_are_for_programs_and_not_for_threads() {
    let programs = ["perl", "perl", "perl", "perl", "hmmsearch", "sqlite3"];
    let slowdowns = |together: bool| {
        let mut looked = Looked::new(JUNO, &programs, &[0, 1, 2, 3, 4, 5], &[]);
        if together {
            looked.threads[..4].iter_mut().for_each(|thread| thread.process = ProcessId(0));
        }
        looked.look(&programs, 600);
        looked.slowdowns()
    };
    let of_programs = |threads: &[f64]| {
        let slowest = threads[..4].iter().copied().fold(0.0, f64::max);
        mean(&[slowest, threads[4], threads[5]])
    };
    let [one, four] = [true, false].map(slowdowns);
    let (least, most) = one[..4]
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), &next| (least.min(next), most.max(next)));
    assert!(most / least < 1.03, "{one:?}");
    assert!(of_programs(&one) < of_programs(&four) * 0.97, "{one:?} {four:?}");
}

/// Without profiles turns themselves tell how much each program gains on a big core: within 3 % of what profiles lead to.
#[test]
fn without_profiles_turns_are_learnt_from() {
    let programs = ["zstd-mt", "cadical", "perl", "numpy"];
    let reached = [1.0, 0.0].map(|profiles| {
        let parameters = [("profiles", profiles)];
        let mut looked = Looked::new(JUNO, &programs, &[2, 3, 0, 1], &parameters);
        looked.look(&programs, 400);
        mean(&looked.slowdowns())
    });
    assert!(reached[1] < reached[0] * 1.03, "{reached:?}");
}

/// Ten programs: eight big cores first, one hardware thread of each, then small ones; nobody is moved for nothing.
#[test]
fn a_small_core_that_is_free_comes_before_a_second_hardware_thread() {
    let programs =
        ["sort", "numpy", "perl", "xz", "glpsol", "sqlite3", "hmmsearch", "flac", "gawk", "bzip2"];
    let predictor = predictor(HYBRID, &programs);
    let machine = predictor.model().machine().clone();
    let mut threads = threads(&machine, &programs, &[0; 10]);
    let mut policy = policy(&predictor, &[]);
    for thread in &mut threads {
        thread.cpu = None;
    }
    // All of them were there before the first was heard of.
    let event = Event::Arrived(ThreadId(0));
    let plan = policy.on_event(&event, &at(&machine, &threads, 0.0)).unwrap();
    assert_eq!(plan.steps.len(), 10);
    assert_eq!(plan.steps[0].reason, "sort: new, to an idle CPU of type P");
    moved(&plan, &mut threads);
    let on = cpus(&machine, &threads);
    let cores: BTreeSet<usize> = on.iter().map(|&cpu| machine.cpus()[cpu].core).collect();
    let big = on.iter().filter(|&&cpu| machine.cpus()[cpu].core_type == 0).count();
    assert_eq!((cores.len(), big), (10, 8));
    // Those that are seated already are not seated again.
    let again = policy.on_event(&event, &at(&machine, &threads, 0.0)).unwrap();
    assert_eq!(again, Plan::none());
}

/// What a program does before and after a move is of one phase. Over there it is 0.8 times as fast as predicted: with moves it
/// comes out so, the surer the more there are.
#[test]
fn predictions_are_mended_by_moves() {
    let programs = ["perl"];
    let mut looked = Looked::new(JUNO, &programs, &[2], &[]);
    let little = looked.machine.cpus()[2].core_type;
    let worlds = Worlds::known(looked.predictor.profiled("perl").unwrap());
    let mut turns = Turns::default();
    let mut corrections = Vec::new();
    for look in 1..200_u32 {
        let core_type = if look % 2 == 0 { little } else { 1 - little };
        let per_s = if core_type == little { 0.8 * 0.4e9 } else { 1e9 };
        looked.threads[0].rates.instructions_per_s = Some(per_s);
        let predicted = if core_type == little { 0.4 } else { 1.0 };
        let put = Put { core_type, predicted, likely: predicted };
        turns.put.insert(looked.threads[0].id, put);
        turns.note(&at(&looked.machine, &looked.threads, f64::from(look)));
        corrections.push(turns.corrections("perl", &worlds, looked.predictor.model())[little]);
    }
    // One move counts a fifth of ln 0.8.
    assert_eq!(corrections[0], 1.0);
    assert!((corrections[1] - 0.8_f64.powf(0.2)).abs() < 1e-12, "{}", corrections[1]);
    assert!((corrections.last().unwrap() / 0.8 - 1.0).abs() < 0.01, "{corrections:?}");
}

/// Power is drawn at a moment, and a machine of one core type has no fast cores.
#[test]
fn turns_are_for_speed_on_several_core_types() {
    let of = |kind: f64| policy(&predictor(JUNO, &[]), &[("objective", kind)]);
    let [juno, xeon] = [JUNO, "xeon-x5365"].map(|name| preset(name).unwrap());
    assert!(of(0.0).takes_turns(&juno) && of(2.0).takes_turns(&juno));
    assert!(!of(3.0).takes_turns(&juno) && !of(0.0).takes_turns(&xeon));
    assert_eq!(of(0.0).unfit_for(&juno), None);
}

/// The first look, when nobody had a turn yet, leads to within 2 % of the best placement of those that are held: four programs
/// on two big and four little cores, of which each CPU of a type is as good as another.
#[test]
fn the_first_placement_is_one_to_stay_in() {
    let programs = ["hmmsearch", "sqlite3", "numpy", "perl"];
    let mut looked = Looked::new(JUNO, &programs, &[2, 3, 4, 5], &[]);
    let mut best = f64::INFINITY;
    for big in 0..4 {
        for other in 0..4 {
            let seat = |index: usize| match index {
                _ if index == big => 0,
                _ if index == other => 1,
                _ => 2 + index,
            };
            let on: Vec<usize> = (0..4).map(seat).collect();
            best = best.min(mean_slowdown(&outcomes(&*looked.predictor, &programs, &on)));
        }
    }
    looked.look(&programs, 1);
    let on = cpus(&looked.machine, &looked.threads);
    let reached = mean_slowdown(&outcomes(&*looked.predictor, &programs, &on));
    assert!(reached <= best * 1.02, "{on:?}: {reached} {best}");
}
