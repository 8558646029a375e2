use corun_machine::{CpuId, CpuSet, Machine, MachineSpec, preset};
use proptest::prelude::*;

use super::progress::{Programs, Progress, Worth, dynamic_weights, there_and_back_ms};
use super::sides::Sides;
use super::*;
use crate::{Action, Event, Plan, ThreadState, ThreadView, View, build, fixture, registry};

/// 2 big cores of capacity 1 on one LLC, 4 small ones of capacity 0.4 on another.
pub(crate) fn two_and_four() -> Machine {
    let text = "version = 1\nname = 'test'\n\
        [[core_type]]\nname = 'big'\nclock_mhz = 1000\n\
        [[core_type]]\nname = 'little'\ncapacity = 0.4\nclock_mhz = 1000\n\
        [[bandwidth]]\nname = 'memory'\nkind = 'memory-controller'\nstage = 0\npeak_mb_per_s = 10000.0\n\
        [calibration]\nlow_btr_mb_per_s = 100.0\nhigh_btr_mb_per_s = 1000.0\namp_threshold_ms = 100.0\n\
        [[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 2048\nline_bytes = 64\n\
        [[object.object]]\nkind = 'core'\ncore_type = 'big'\ncount = 2\n\
        [[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 1024\nline_bytes = 64\n\
        [[object.object]]\nkind = 'core'\ncore_type = 'little'\ncount = 4\n";
    let spec: MachineSpec = toml::from_str(text).unwrap();
    Machine::from_spec(spec).unwrap()
}

/// Threads that run, each on the CPU of its number, held on its side of [`two_and_four`].
pub(crate) fn running(machine: &Machine, count: usize) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; count]);
    let cores = Cores::of(machine).unwrap();
    for (index, thread) in threads.iter_mut().enumerate() {
        let cpu = CpuId(index as u32 % 6);
        let side = if cores.big.contains(cpu) { Side::Big } else { Side::Small };
        thread.state = ThreadState::Running;
        thread.cpu = Some(cpu);
        thread.allowed = cores.cpus(side).clone();
        thread.rates.cpu_share = Some(1.0);
        thread.counts.cpu_time = fixture::cpu_time(0.0);
    }
    threads
}

/// What a plan leads to, as a host would carry it out; a moved thread goes to the first CPU it may
/// use, a swapped one to the other's.
pub(crate) fn carry_out(threads: &mut [ThreadView], plan: &Plan) {
    for step in &plan.steps {
        match &step.action {
            Action::Allow { thread, cpus } => {
                let one = &mut threads[thread.0 as usize];
                assert!(cpus.is_subset(&one.may_run_on) && !cpus.is_empty());
                if !one.cpu.is_some_and(|cpu| cpus.contains(cpu)) {
                    one.cpu = cpus.first();
                }
                one.allowed = cpus.clone();
            }
            Action::Swap { first, second } => {
                let (first, second) = (first.0 as usize, second.0 as usize);
                let (a, b) = (threads[first].clone(), threads[second].clone());
                (threads[first].cpu, threads[first].allowed) = (b.cpu, b.allowed);
                (threads[second].cpu, threads[second].allowed) = (a.cpu, a.allowed);
            }
            _ => {}
        }
    }
}

pub(crate) fn view_at<'a>(machine: &'a Machine, threads: &'a [ThreadView], ms: u64) -> View<'a> {
    View { machine, threads, now: Nanoseconds(ms * 1_000_000) }
}

fn side_of(thread: &ThreadView, cores: &Cores) -> Option<Side> {
    if thread.allowed.is_subset(&cores.big) {
        Some(Side::Big)
    } else {
        thread.allowed.is_subset(&cores.small).then_some(Side::Small)
    }
}

#[test]
fn big_are_the_cores_of_the_highest_capacity() {
    let cores = Cores::of(&two_and_four()).unwrap();
    assert_eq!((cores.big.to_string(), cores.small.to_string()), ("0-1".into(), "2-5".into()));
    assert!((cores.capacity_ratio - 2.5).abs() < 1e-12);
    assert!(Cores::of(&fixture::x5365()).is_none());
    assert!(one_core_type(&fixture::x5365()).unwrap().contains("one type"));
    for name in ["juno-2b4s", "odroid-4b4s", "quickia-2b2s", "core-i9-12900k"] {
        assert_eq!(one_core_type(&preset(name).unwrap()), None, "{name}");
    }
}

#[test]
fn new_threads_go_to_the_least_loaded_cpu_big_ones_first() {
    let machine = two_and_four();
    let cores = Cores::of(&machine).unwrap();
    let threads = fixture::threads(&machine, &[None; 9]);
    let mut sides = Sides::new(&fixture::view(&machine, &threads), &cores);
    sides.place_new();
    let big: Vec<usize> = (0..9).filter(|&one| sides.side(one) == Some(Side::Big)).collect();
    // Two on big cores, four on small ones, then again.
    assert_eq!(big, [0, 1, 6, 7]);
}

#[test]
fn idle_big_cores_are_filled_and_crowded_ones_relieved() {
    let machine = two_and_four();
    let cores = Cores::of(&machine).unwrap();
    let mut threads = running(&machine, 6);
    (threads[0].state, threads[1].state) = (ThreadState::Sleeping, ThreadState::Sleeping);
    let claims = [0.0, 0.0, 1.0, 3.0, 2.0, 0.5];
    let mut sides = Sides::new(&fixture::view(&machine, &threads), &cores);
    sides.balance(&claims);
    let plan = sides.plan;
    assert_eq!(plan.steps.len(), 2, "{plan:?}");
    carry_out(&mut threads, &plan);
    assert_eq!(side_of(&threads[3], &cores), Some(Side::Big));
    assert_eq!(side_of(&threads[4], &cores), Some(Side::Big));
    // They come back: four on two big cores while two small ones are idle.
    (threads[0].state, threads[1].state) = (ThreadState::Running, ThreadState::Running);
    let mut sides = Sides::new(&fixture::view(&machine, &threads), &cores);
    sides.balance(&[9.0, 1.0, 0.0, 8.0, 2.0, 0.0]);
    let plan = sides.plan;
    carry_out(&mut threads, &plan);
    assert_eq!(side_of(&threads[1], &cores), Some(Side::Small), "{plan:?}");
    let on_big = threads.iter().filter(|one| side_of(one, &cores) == Some(Side::Big)).count();
    assert!((2..=3).contains(&on_big), "{plan:?}");
}

/// An interval with these slowdowns and weights; on a small core all would be slowed down twice.
fn advance(progress: &mut Progress, view: &View<'_>, slowdowns: &[f64], weights: &[f64]) {
    let speedups = &vec![2.0; slowdowns.len()];
    let cores = Cores::of(view.machine).unwrap();
    progress.advance(view, &cores, Worth { slowdowns, speedups, weights });
}

/// A container has one of the two big CPUs: of five new threads one has that, four the small ones.
#[test]
fn cpus_that_nobody_may_use_take_no_threads() {
    let machine = two_and_four();
    let cores = Cores::of(&machine).unwrap();
    let mut threads = fixture::threads(&machine, &[None; 5]);
    for thread in &mut threads {
        thread.may_run_on = "0,2-5".parse().unwrap();
    }
    let mut sides = Sides::new(&fixture::view(&machine, &threads), &cores);
    sides.place_new();
    let on_big = (0..5).filter(|&one| sides.side(one) == Some(Side::Big)).count();
    assert_eq!(on_big, 1);
    // Who is awake there is enough: the big side is full.
    sides.balance(&[0.0; 5]);
    assert_eq!(sides.plan.steps.len(), 5);
    // Without any big CPU all stay where they are.
    for thread in &mut threads {
        thread.may_run_on = "2-5".parse().unwrap();
    }
    let mut sides = Sides::new(&fixture::view(&machine, &threads), &cores);
    sides.place_new();
    sides.balance(&[0.0; 5]);
    assert!(sides.plan.steps.is_empty());
}

#[test]
fn an_account_grows_by_time_over_slowdown_and_weight() {
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    let mut progress = Progress::default();
    progress.align(&view_at(&machine, &threads, 0));
    for thread in &mut threads {
        thread.counts.cpu_time = fixture::cpu_time(0.05);
    }
    // The thesis's example (Fig. 4.4): 100 at a slowdown of 1, 40 at 2.5; of 50 ms here.
    let (slowdowns, weights) = ([1.0, 2.5, 1.0], [1.0, 1.0, 2.0]);
    advance(&mut progress, &view_at(&machine, &threads, 50), &slowdowns, &weights);
    for (found, expected) in progress.progress_ms.iter().zip([50.0, 20.0, 25.0]) {
        assert!((found - expected).abs() < 1e-9, "{:?}", progress.progress_ms);
    }
    // A newcomer starts at the highest counter.
    threads.push(ThreadView { id: crate::ThreadId(7), ..threads[0].clone() });
    progress.align(&view_at(&machine, &threads, 50));
    assert!((progress.progress_ms[3] - 50.0).abs() < 1e-9);
}

#[test]
fn a_long_sleeper_comes_back_with_the_lowest_counter() {
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    let mut progress = Progress::default();
    progress.align(&view_at(&machine, &threads, 0));
    // At a slowdown of 2 and a threshold of 100 ms, a swap there and back takes 400 ms.
    assert!((there_and_back_ms(100.0, 2.0) - 400.0).abs() < 1e-9);
    let sleeper = threads[2].id;
    for thread in &mut threads {
        thread.counts.cpu_time = fixture::cpu_time(0.1);
    }
    let view = view_at(&machine, &threads, 100);
    advance(&mut progress, &view, &[1.0, 1.0, 2.0], &[1.0; 3]);
    threads[2].state = ThreadState::Sleeping;
    progress.slept(sleeper, Nanoseconds(100_000_000));
    threads[0].counts.cpu_time = fixture::cpu_time(1.0);
    threads[1].counts.cpu_time = fixture::cpu_time(0.6);
    advance(&mut progress, &view_at(&machine, &threads, 1000), &[1.0; 3], &[1.0; 3]);
    assert!((progress.progress_ms[2] - 50.0).abs() < 1e-9);
    // The machine's file has the threshold.
    progress.woke(sleeper, &view_at(&machine, &threads, 490));
    assert!((progress.progress_ms[2] - 50.0).abs() < 1e-9, "390 ms are not long");
    progress.slept(sleeper, Nanoseconds(500_000_000));
    progress.woke(sleeper, &view_at(&machine, &threads, 901));
    assert!((progress.progress_ms[2] - 600.0).abs() < 1e-9, "{:?}", progress.progress_ms);
}

/// A live host tells of no sleep. At looks every 50 ms a thread is seen asleep from 100 ms on: seen awake at 550 ms it slept
/// for 400 ms until then less the 50 that it ran, which is too short; at 650 ms it slept for long.
#[test]
fn a_long_sleep_shows_at_looks_where_nobody_tells_of_it() {
    let machine = two_and_four();
    for (wakes_at_ms, sleeps_again, expected_ms) in
        [(550, false, 75.0), (650, false, 625.0), (650, true, 625.0)]
    {
        let mut threads = running(&machine, 3);
        let mut progress = Progress::default();
        progress.align(&view_at(&machine, &threads, 0));
        for at_ms in (50..=wakes_at_ms).step_by(50) {
            for thread in &mut threads[..2] {
                thread.counts.cpu_time = fixture::cpu_time(at_ms as f64 * 1e-3);
            }
            let ran_ms = at_ms.min(100) + if at_ms == wakes_at_ms { 50 } else { 0 };
            threads[2].counts.cpu_time = fixture::cpu_time(ran_ms as f64 * 1e-3);
            threads[2].state = match at_ms {
                _ if at_ms == wakes_at_ms && !sleeps_again => ThreadState::Running,
                0..100 => ThreadState::Running,
                _ => ThreadState::Sleeping,
            };
            let view = view_at(&machine, &threads, at_ms);
            advance(&mut progress, &view, &[1.0, 1.0, 2.0], &[1.0; 3]);
        }
        // 150 ms at a slowdown of 2; or the others' 600 ms at the look before, and the 25 of the last look.
        assert!((progress.progress_ms[2] - expected_ms).abs() < 1e-9, "{:?}", progress.progress_ms);
    }
}

/// A thread that ran on a big core alone was never slowed down, and would be on a small one: by its speedup factor
/// of 2, or by the ratio of capacities of 2.5, where nobody knows better.
#[test]
fn a_sleeper_that_was_never_on_a_small_core_goes_by_what_it_would_be_slowed_down_there() {
    let machine = two_and_four();
    let cores = Cores::of(&machine).unwrap();
    for (speedup, there_and_back_ms) in [(2.0, 400), (1.0, 333)] {
        for (slept_ms, expected_ms) in [(there_and_back_ms, 100.0), (there_and_back_ms + 1, 600.0)]
        {
            let mut threads = running(&machine, 3);
            let mut progress = Progress::default();
            progress.align(&view_at(&machine, &threads, 0));
            let mut look = |threads: &[ThreadView], ms: u64| {
                let (slowdowns, speedups, weights) = (&[1.0; 3], &[speedup; 3], &[1.0; 3]);
                let worth = Worth { slowdowns, speedups, weights };
                progress.advance(&view_at(&machine, threads, ms), &cores, worth);
            };
            threads[0].counts.cpu_time = fixture::cpu_time(0.1);
            look(&threads, 100);
            threads[0].state = ThreadState::Sleeping;
            threads[1].counts.cpu_time = fixture::cpu_time(0.6);
            threads[2].counts.cpu_time = fixture::cpu_time(0.8);
            look(&threads, 1000);
            progress.slept(threads[0].id, Nanoseconds(1_000_000_000));
            progress.woke(threads[0].id, &view_at(&machine, &threads, 1000 + slept_ms));
            let found_ms = progress.progress_ms[0];
            assert!((found_ms - expected_ms).abs() < 1e-9, "{speedup} {slept_ms} {found_ms}");
        }
    }
}

#[test]
fn a_program_gains_by_one_big_core_as_much_less_as_it_has_threads() {
    let machine = two_and_four();
    let mut threads = running(&machine, 5);
    for thread in &mut threads[1..] {
        thread.process = crate::ProcessId(1);
    }
    threads[4].state = ThreadState::Sleeping;
    let mut slowdowns = [3.0; 5];
    Programs::of(&threads).share_out(&mut slowdowns);
    // Three of the second program's four threads are runnable: 1 + 2 / 3.
    for (found, expected) in slowdowns.iter().zip([3.0, 5.0 / 3.0, 5.0 / 3.0]) {
        assert!((found - expected).abs() < 1e-12, "{slowdowns:?}");
    }
}

#[test]
fn dynamic_weights_follow_equation_4_4() {
    let machine = two_and_four();
    let mut threads = running(&machine, 3);
    threads[2].weight = 2.0;
    assert_eq!(dynamic_weights(&threads, 1.0, &[1.5, 2.0, 3.5]), [1.0, 1.0, 2.0]);
    // (UF - 1) (S - Smin) / (Smax - Smin) = 4 x 0.25 for the second.
    assert_eq!(dynamic_weights(&threads, 5.0, &[1.5, 2.0, 3.5]), [1.0, 2.0, 10.0]);
    assert_eq!(dynamic_weights(&threads, 5.0, &[2.0; 3]), [1.0, 1.0, 2.0]);
}

#[test]
fn a_swap_waits_for_the_threshold_and_takes_the_partner_that_was_chosen() {
    let machine = two_and_four();
    let cores = Cores::of(&machine).unwrap();
    let threads = running(&machine, 6);
    let view = fixture::view(&machine, &threads);
    let progress = [300.0, 350.0, 290.0, 200.0, 240.0, 340.0];
    let mut sides = Sides::new(&view, &cores);
    let mut asked = Vec::new();
    sides.even_out(&progress, 100.0, |ahead, behind| {
        asked.push((ahead, behind.to_vec()));
        behind[behind.len() - 1]
    });
    // 1 is furthest ahead: 3 and 4 are over 100 ms behind. Then 0: only 3 is left.
    assert_eq!(asked, [(1, vec![3, 4])]);
    let swaps: Vec<_> = sides.plan.steps.iter().map(|step| step.action.clone()).collect();
    assert_eq!(swaps, [Action::Swap { first: threads[1].id, second: threads[4].id }]);
}

#[test]
fn one_core_type_is_left_alone() {
    let machine = fixture::x5365();
    let threads = fixture::threads(&machine, &[None; 12]);
    for name in ["hmp", "hsp", "rr", "equal-progress", "acfs", "camps"] {
        let mut policy = build(name, &Default::default()).unwrap();
        assert!(policy.unfit_for(&machine).unwrap().contains("one type"), "{name}");
        let view = fixture::view(&machine, &threads);
        for thread in &threads {
            let plan = policy.on_event(&Event::Arrived(thread.id), &view);
            assert!(plan.is_none_or(|plan| plan.steps.is_empty()), "{name}");
        }
        assert!(policy.decide(&view).steps.is_empty(), "{name}");
    }
}

/// Threads in any state, on any CPUs, with any counts.
fn any_threads() -> impl Strategy<Value = Vec<ThreadView>> {
    let one = (0u32..6, 0u8..3, 0u64..3, 0.0..1.0f64, 0.0..3e9f64, 0.0..5e7f64, 0u8..4);
    proptest::collection::vec(one, 0..14).prop_map(|list| {
        let machine = two_and_four();
        let mut threads = running(&machine, list.len());
        for (thread, (cpu, state, process, share, instructions, misses, user)) in
            threads.iter_mut().zip(list)
        {
            thread.cpu = Some(CpuId(cpu));
            thread.state = [ThreadState::Running, ThreadState::Runnable, ThreadState::Sleeping]
                [state as usize];
            thread.process = crate::ProcessId(process);
            thread.may_run_on = match user {
                0 => CpuSet::from_iter([CpuId(cpu)]),
                1 => "1-3".parse().unwrap(),
                _ => machine.cpu_set(),
            };
            thread.allowed = thread.may_run_on.clone();
            let counters = &mut thread.rates;
            counters.cpu_share = Some(share);
            counters.instructions_per_s = Some(instructions * share);
            counters.cycles_per_s = Some(1e9 * share);
            let scoped = |per_s| Some(crate::ScopedRate { per_s, scope: crate::Scope::Demand });
            (counters.llc_misses, counters.llc_references) = (scoped(misses), scoped(2.0 * misses));
            counters.l1_accesses_per_s = Some(0.3 * instructions * share);
            counters.branches_per_s = Some(0.1 * instructions * share);
        }
        threads
    })
}

proptest! {
    /// Whatever they see: threads stay where their users allow, nobody gets two steps in a plan but by
    /// a swap, and no policy leaves a big core idle while somebody free waits or is on a small one.
    #[test]
    fn plans_respect_users_and_keep_big_cores_busy(mut threads in any_threads(), rounds in 1u64..30) {
        let machine = two_and_four();
        let cores = Cores::of(&machine).unwrap();
        let may = |cpu: &CpuId| threads.iter().any(|one| one.may_run_on.contains(*cpu));
        let usable_big = cores.big.iter().filter(may).count();
        for entry in registry().iter().filter(|one| {
            ["hsp", "rr", "equal-progress", "acfs", "camps"].contains(&one.name)
        }) {
            let mut policy = build(entry.name, &Default::default()).unwrap();
            for round in 1..=rounds {
                let plan = policy.decide(&view_at(&machine, &threads, 50 * round));
                for step in &plan.steps {
                    prop_assert!(step.reason.contains("program"), "{}", step.reason);
                }
                carry_out(&mut threads, &plan);
            }
            let runs = |one: &&ThreadView| one.state != ThreadState::Sleeping;
            let on_big = threads.iter().filter(runs).filter(|one| one.allowed.is_subset(&cores.big));
            let free_on_small = threads.iter().filter(runs).any(|one| {
                one.allowed.is_subset(&cores.small) && !one.may_run_on.is_disjoint(&cores.big)
            });
            prop_assert!(on_big.count() >= usable_big || !free_on_small, "{}", entry.name);
            for thread in &threads {
                prop_assert!(thread.allowed.is_subset(&thread.may_run_on));
            }
        }
    }
}
