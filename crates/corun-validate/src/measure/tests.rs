use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;

/// A machine on which each run of a program alone takes what was written down: seconds and additions a
/// cycle, the untimed run first; its clock has as many GHz. A program of which nothing was written down fails. Groups take two
/// seconds a member.
struct Modelled {
    runs: Vec<RefCell<VecDeque<(f64, f64)>>>,
    /// Of the first runs of groups; later ones take 40 ns.
    transfers_ns: RefCell<VecDeque<f64>>,
    same_llc_ns: Option<f64>,
    additions_per_cycle: Option<f64>,
    /// What each member's core does in runs of groups.
    beside: Option<f64>,
}

impl Modelled {
    fn of<const N: usize>(runs: [&[(f64, f64)]; N]) -> Self {
        let of_program = |runs: &[(f64, f64)]| RefCell::new(runs.iter().copied().collect());
        let runs = runs.map(of_program).into();
        Self {
            runs,
            transfers_ns: RefCell::default(),
            same_llc_ns: None,
            additions_per_cycle: None,
            beside: Some(4.0),
        }
    }

    fn measured(&self, rounds: usize, groups: Vec<Vec<usize>>) -> Measured {
        let names = vec!["one"; self.runs.len()];
        let plan = RoundPlan { rounds, groups, seed: 1, ..RoundPlan::default() };
        let known = (Nearness::new(self.same_llc_ns), FreeCore::new(self.additions_per_cycle));
        let found = measure_on(self, &names, &plan, known, &|_, _| true).unwrap();
        assert!(self.runs.iter().all(|left| left.borrow().is_empty()), "all were run");
        found
    }
}

impl Runner for Modelled {
    fn alone(&self, subject: usize, _: &(dyn Fn() -> bool + Sync)) -> Result<SoloRun, RunError> {
        let next = self.runs[subject].borrow_mut().pop_front();
        let (cpu_s, additions_per_cycle) = next.ok_or(RunError::Code(3))?;
        if cpu_s == LATE.0 {
            return Err(RunError::Limit(7.0));
        }
        let clock_mhz = 1e3 * additions_per_cycle;
        Ok(SoloRun { cpu_s, additions_per_cycle, clock_mhz })
    }

    fn together(
        &self,
        members: &[usize],
        _: &(dyn Fn() -> bool + Sync),
    ) -> Result<GroupRun, (usize, RunError)> {
        let next = self.transfers_ns.borrow_mut().pop_front();
        Ok(GroupRun {
            cpu_s: vec![2.0; members.len()],
            additions_per_cycle: vec![self.beside; members.len()],
            line_transfer_ns: next.unwrap_or(40.0),
        })
    }
}

const FREE: (f64, f64) = (1.0, 4.0);

/// A run that reaches a limit of 7 s.
const LATE: (f64, f64) = (f64::INFINITY, 4.0);

#[test]
fn all_run_alone_and_together_but_those_that_fail() {
    let found = Modelled::of([&[FREE; 4], &[], &[FREE; 4]])
        .measured(3, vec![vec![0, 2], vec![0, 1], vec![2, 2]]);
    let rounds = |at: usize| found.solo[at].as_ref().map(|solo| solo.cpu_s.rounds);
    assert_eq!([rounds(0), rounds(1), rounds(2)], [Some(3), None, Some(3)]);
    let slowdowns = |at: usize| {
        let group = found.groups[at].as_ref()?;
        Some(group.slowdowns.iter().map(|one| (one.median, one.rounds)).collect())
    };
    let doubled = Some(vec![(2.0, 3), (2.0, 3)]);
    assert_eq!([slowdowns(0), slowdowns(1), slowdowns(2)], [doubled.clone(), None, doubled]);
    assert_eq!(found.left_out.len(), 1);
    assert_eq!(found.left_out[0].subject, 1);
    assert_eq!(found.left_out[0].why.to_string(), "it ended with exit code 3");
}

#[test]
fn whole_rounds_before_a_stop_are_kept() {
    let machine = Modelled::of([&[FREE; 5], &[FREE; 5]]);
    let plan = RoundPlan { rounds: 4, groups: vec![vec![0, 1]], seed: 1, ..RoundPlan::default() };
    // In the third of four rounds.
    let found = measure_on(
        &machine,
        &["one", "two"],
        &plan,
        (Nearness::new(None), FreeCore::new(None)),
        &|done, _| done < 0.6,
    )
    .unwrap();
    assert_eq!(found.rounds, 2);
    assert!(found.solo.iter().all(|solo| solo.as_ref().unwrap().cpu_s.rounds == 2));
    assert_eq!(found.groups[0].as_ref().unwrap().slowdowns[0].rounds, 2);
    // None is told of less than a round.
    let machine = Modelled::of([&[FREE; 5], &[FREE; 5]]);
    let stopped = measure_on(
        &machine,
        &["one", "two"],
        &plan,
        (Nearness::new(None), FreeCore::new(None)),
        &|done, _| done < 0.1,
    );
    assert!(matches!(stopped, Err(RunError::Stopped)), "{stopped:?}");
}

/// A program whose core is shared in the second of three rounds, again and again.
const SHARED_ONCE: [(f64, f64); 7] =
    [(9.0, 4.0), (1.0, 4.0), (1.9, 2.6), (2.0, 2.5), (2.0, 2.5), (2.0, 2.5), (1.1, 3.8)];

#[test]
fn rounds_with_a_busy_sibling_do_not_count_where_others_have_none() {
    let found = Modelled::of([&SHARED_ONCE]).measured(3, Vec::new());
    let solo = found.solo[0].clone().unwrap();
    assert_eq!((solo.cpu_s.median, solo.cpu_s.rounds, solo.had_core), (1.05, 2, true));
    // Two free runs, and one with its three repetitions.
    // The first tries took 1, 1.9 and 1.1 s.
    let core = CoreUse {
        additions_per_cycle: 4.0,
        runs: 6,
        shared_runs: 4,
        times_as_long: Some(1.1 / 1.05),
    };
    assert_eq!(found.core, core);
    assert_eq!(found.clock, Some(ClockUse { looks: 2, mhz: 3900.0 }), "of the two free runs");
}

/// As the program of [`SHARED_ONCE`], in other rounds.
const LIKEWISE: [(f64, f64); 7] =
    [(9.0, 4.0), (1.9, 2.6), (2.0, 2.5), (2.0, 2.5), (2.0, 2.5), (1.0, 4.0), (1.1, 3.8)];

/// It runs at a quarter of its speed and three quarters of what it has of its core: at 0.625 and 0.7 of it, takes
/// 1 / 0.71875 and 1 / 0.775 s, and on a core of its own 1 s.
#[test]
fn runs_on_a_shared_core_tell_of_one_of_its_own() {
    let (slow, fast) = ((1.0 / 0.71875, 2.5), (1.0 / 0.8125, 3.0));
    let machine = Modelled::of([&[slow, slow, fast, slow, fast, fast, slow, slow, slow]]);
    let found = Modelled { additions_per_cycle: Some(4.0), ..machine }.measured(2, Vec::new());
    let solo = found.solo[0].clone().unwrap();
    assert!((solo.cpu_s.median - 1.0).abs() < 1e-9, "{solo:?}");
    assert_eq!((solo.cpu_s.rounds, solo.had_core, solo.from_shared_runs), (8, false, true));
    // A round of two with the core for itself is enough to need no line.
    let machine = Modelled::of([&[slow, slow, fast, slow, fast, FREE]]);
    let found = Modelled { additions_per_cycle: Some(4.0), ..machine }.measured(2, Vec::new());
    let solo = found.solo[0].clone().unwrap();
    assert_eq!((solo.cpu_s.rounds, solo.had_core, solo.from_shared_runs), (1, true, false));
}

/// What the untimed runs saw of a free core is known to the first timed one: a program whose core is
/// always shared is repeated in each round, and counts as shared.
#[test]
fn the_untimed_runs_tell_what_a_free_core_does() {
    let shared = [(2.0, 2.5); 5];
    let once_free = [FREE; 2];
    let found = Modelled::of([&shared, &once_free]).measured(1, Vec::new());
    let had_core = |at: usize| found.solo[at].as_ref().unwrap().had_core;
    assert_eq!([had_core(0), had_core(1)], [false, true]);
    assert_eq!((found.core.runs, found.core.shared_runs), (5, 4));
}

/// What the calibration saw of a free core is known to the first run: a core that is shared throughout is told.
#[test]
fn a_core_that_is_never_free_is_told_by_its_calibration() {
    let machine = || Modelled::of([&[(2.0, 2.5); 5]]);
    let known = Modelled { additions_per_cycle: Some(4.0), ..machine() };
    let found = known.measured(1, Vec::new());
    assert!(!found.solo[0].as_ref().unwrap().had_core);
    let core = CoreUse { additions_per_cycle: 4.0, runs: 4, shared_runs: 4, times_as_long: None };
    assert_eq!(found.core, core);
    let unknown = Modelled::of([&[(2.0, 2.5); 2]]).measured(1, Vec::new());
    assert!(unknown.solo[0].as_ref().unwrap().had_core, "nothing tells it");
}

/// A run that was taken for free is counted as shared when a later one shows what a free core does.
#[test]
fn shared_runs_are_counted_at_the_end() {
    let found = Modelled::of([&[(2.0, 2.5), (2.0, 2.5), (1.0, 4.0)]]).measured(2, Vec::new());
    assert_eq!((found.core.runs, found.core.shared_runs), (2, 1));
    assert_eq!(found.solo[0].as_ref().unwrap().cpu_s.median, 1.0);
}

/// Beside another, on a free core, it always takes 2 s. Against the rounds in which its core was free that is twice its
/// time alone; against the shared one it would be no slowdown at all, had it not been for what its core did.
#[test]
fn slowdowns_are_against_runs_alone_with_as_much_of_the_core() {
    let always_free = [FREE; 4];
    let found = Modelled::of([&SHARED_ONCE, &always_free]).measured(3, vec![vec![0, 1]]);
    let slowdowns = &found.groups[0].as_ref().unwrap().slowdowns;
    assert_eq!((slowdowns[0].low, slowdowns[0].high, slowdowns[0].rounds), (2.0 / 1.1, 2.0, 3));
    assert_eq!((slowdowns[1].median, slowdowns[1].rounds), (2.0, 3));
    // Where it had less of its core beside the other than in any run alone, nobody knows.
    let machine = Modelled { beside: Some(2.0), ..Modelled::of([&SHARED_ONCE, &always_free]) };
    assert_eq!(machine.measured(3, vec![vec![0, 1]]).groups, [None]);
    // As much as in the shared round: twice as long there is no slowdown.
    let machine = Modelled { beside: Some(2.5), ..Modelled::of([&SHARED_ONCE, &LIKEWISE]) };
    let found = machine.measured(3, vec![vec![0, 1]]);
    for slowdown in &found.groups[0].as_ref().unwrap().slowdowns {
        assert!((slowdown.median - 1.0).abs() < 0.1, "{slowdown:?}");
    }
    // Who never had a free core alone has no slowdown that one could tell.
    let shared = [(2.0, 2.5); 5];
    let found = Modelled::of([&shared, &always_free[..2]]).measured(1, vec![vec![0, 1]]);
    assert_eq!(found.groups, [None]);
    assert!(found.left_out.is_empty());
}

/// A group whose CPUs do not share a cache is run again, three times at most, and that round does not count if they never
/// do.
#[test]
fn groups_count_where_they_share_a_cache() {
    let machine = Modelled::of([&[FREE; 4], &[FREE; 4]]);
    // The second round's fourth try is the nearest and still apart; the third round's second is near.
    machine.transfers_ns.borrow_mut().extend([41.0, 210.0, 205.0, 220.0, 190.0, 200.0, 60.0]);
    let found = machine.measured(3, vec![vec![0, 1]]);
    assert_eq!(found.groups[0].as_ref().unwrap().slowdowns[0].rounds, 2);
    let cache = CacheUse { line_transfer_ns: 41.0, runs: 7, apart_runs: 5 };
    assert_eq!(found.cache, cache);
}

/// What is known of the machine tells that a group was apart in all rounds.
#[test]
fn a_group_that_never_shares_a_cache_does_not_count() {
    let apart = [190.0; 8];
    let mut machine = Modelled::of([&[FREE; 3], &[FREE; 3]]);
    machine.same_llc_ns = Some(42.0);
    machine.transfers_ns.borrow_mut().extend(apart);
    let found = machine.measured(2, vec![vec![0, 1]]);
    assert_eq!(found.groups, [None]);
    assert_eq!(found.cache, CacheUse { line_transfer_ns: 190.0, runs: 8, apart_runs: 8 });
    // Where nothing is known, the run's own fastest has to do.
    let machine = Modelled::of([&[FREE; 3], &[FREE; 3]]);
    machine.transfers_ns.borrow_mut().extend(apart);
    let found = machine.measured(2, vec![vec![0, 1]]);
    assert_eq!(found.cache, CacheUse { line_transfer_ns: 190.0, runs: 2, apart_runs: 0 });
    assert!(found.groups[0].is_some());
}

/// What reaches its limit once in a while loses that round and no other, and a group with it does.
#[test]
fn a_run_that_reaches_its_limit_is_lost_alone() {
    let always_free = [FREE; 4];
    // Untimed, then rounds of which the second is late.
    let late = [(1.0, 4.0), (1.0, 4.0), LATE, (1.25, 4.0)];
    let machine = Modelled::of([&late, &always_free]);
    let found = machine.measured(3, vec![vec![0, 1]]);
    assert!(found.left_out.is_empty(), "{:?}", found.left_out);
    assert_eq!(found.solo[0].as_ref().unwrap().cpu_s.rounds, 2);
    // Beside the other it takes 2 s: 2 and 1.6 times as long as in the same rounds alone.
    let slowdowns = &found.groups[0].as_ref().unwrap().slowdowns;
    assert_eq!((slowdowns[0].low, slowdowns[0].high, slowdowns[0].rounds), (1.6, 2.0, 2));
    assert_eq!((slowdowns[1].median, slowdowns[1].rounds), (2.0, 3));
}

/// A repeated run that reaches its limit leaves what the run before it told.
#[test]
fn a_late_repetition_leaves_the_run_before_it() {
    let found = Modelled::of([&[FREE, (2.0, 2.5), LATE]]).measured(1, Vec::new());
    let solo = found.solo[0].clone().unwrap();
    assert_eq!((solo.cpu_s.median, solo.had_core), (2.0, false));
}

/// One that never ends in time is left out, by its first run or by all later ones.
#[test]
fn who_never_ends_in_time_is_left_out() {
    for runs in [&[LATE][..], &[FREE, LATE, LATE]] {
        let found = Modelled::of([runs]).measured(2, Vec::new());
        assert_eq!(found.left_out.len(), 1, "{runs:?}");
        assert_eq!(found.left_out[0].why.to_string(), "it had not ended after 7 s");
        assert_eq!(found.solo, [None]);
    }
}
