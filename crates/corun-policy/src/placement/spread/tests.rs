use corun_machine::Machine;
use proptest::prelude::*;

use super::*;
use crate::{Action, ThreadView, fixture};

/// The CPU of each thread, by the algorithm as printed.
fn printed(machine: &Machine, threads: &[ThreadView]) -> Vec<u32> {
    let view = fixture::view(machine, threads);
    let spread = Spread::new(&view, &solo(threads), &mut Memory::default());
    by_thread(&spread, &spread.sorted_as_printed())
}

fn solo(threads: &[ThreadView]) -> Vec<Option<f64>> {
    threads.iter().map(|thread| thread.solo.map(|solo| solo.llc_mpki)).collect()
}

fn by_thread(spread: &Spread<'_>, places: &Places) -> Vec<u32> {
    let mut cpus = vec![u32::MAX; spread.items.len()];
    for (item, &leaf) in spread.items.iter().zip(&places.0) {
        cpus[item.thread] = spread.tree.cpus[leaf].0;
    }
    cpus
}

/// Threads whose miss rates fall from the first to the last.
fn falling(machine: &Machine, count: usize) -> Vec<ThreadView> {
    let mpki: Vec<Option<f64>> = (0..count).map(|rank| Some((count - rank) as f64)).collect();
    fixture::threads(machine, &mpki)
}

/// Algorithm 2 by hand. CPUs 0-1 and 2-3 share an LLC on package 0, 4-5 and 6-7 on package 1.
/// After thread 2 both packages have one thread: their order turns, so 3 goes to package 1 again.
/// After 4 the packages' and the LLCs' orders turn: 5 goes to the second LLC of package 0, beside
/// 4; 6 beside 3, 7 beside 2, 8 beside 1.
#[test]
fn eight_threads_on_the_x5365() {
    let machine = fixture::x5365();
    assert_eq!(printed(&machine, &falling(&machine, 8)), [0, 4, 6, 2, 3, 7, 5, 1]);
}

#[test]
fn four_threads_on_the_x5365_get_an_llc_each() {
    let machine = fixture::x5365();
    assert_eq!(printed(&machine, &falling(&machine, 4)), [0, 4, 6, 2]);
}

/// Past a thread a core the same goes on: after 8 the cores' order has turned too, the packages'
/// and LLCs' are as at the start.
#[test]
fn twelve_threads_on_eight_cores() {
    let machine = fixture::x5365();
    let cpus = printed(&machine, &falling(&machine, 12));
    assert_eq!(cpus[8..], [1, 5, 7, 3]);
}

/// Workload 1 of the paper's Table III on two LLCs of two cores: the intensive soplex and sphinx
/// are split; reversal puts the heaviest with the lightest.
#[test]
fn soplex_sphinx_gamess_namd_on_two_llcs() {
    for machine in [fixture::tree(2, 1, 2), fixture::tree(1, 2, 2)] {
        let mpki = [Some(26.0), Some(13.0), Some(0.1), Some(0.05)];
        let threads = fixture::threads(&machine, &mpki);
        let [soplex, sphinx, gamess, namd] = printed(&machine, &threads)[..] else { panic!() };
        assert_eq!([soplex, namd], [0, 1]);
        assert_eq!([sphinx, gamess], [2, 3]);
    }
}

/// Two LLCs of four cores, as the paper's Opteron: 1, 4, 5, 8 and 2, 3, 6, 7.
#[test]
fn eight_threads_on_two_llcs_of_four() {
    let machine = fixture::tree(2, 1, 4);
    assert_eq!(printed(&machine, &falling(&machine, 8)), [0, 4, 5, 1, 2, 6, 7, 3]);
}

#[test]
fn order_is_by_miss_rate_then_thread_id_and_the_unknown_come_last() {
    let machine = fixture::x5365();
    let threads = fixture::threads(&machine, &[None, Some(1.0), Some(5.0), Some(1.0)]);
    assert_eq!(printed(&machine, &threads), [2, 4, 0, 6]);
}

#[test]
fn cores_come_before_second_hardware_threads() {
    let machine = fixture::machine_of_threads(
        2,
        "[[object]]\nkind = 'cache'\nlevel = 3\nsize_kib = 8192\n\
         [[object.object]]\nkind = 'core'\ncpus = '0,2'\n\
         [[object.object]]\nkind = 'core'\ncpus = '1,3'\n",
    );
    assert_eq!(printed(&machine, &falling(&machine, 4)), [0, 1, 3, 2]);
}

#[test]
fn an_entity_of_more_cores_gets_more_threads() {
    let machine = fixture::machine(
        "[[object]]\nkind = 'cache'\nlevel = 3\nsize_kib = 8192\n\
         [[object.object]]\nkind = 'core'\ncount = 4\n\
         [[object]]\nkind = 'cache'\nlevel = 3\nsize_kib = 8192\n\
         [[object.object]]\nkind = 'core'\ncount = 2\n",
    );
    let mut cpus = printed(&machine, &falling(&machine, 6));
    assert_eq!(cpus[..2].iter().filter(|&&cpu| cpu < 4).count(), 1);
    assert_eq!(cpus[..3].iter().filter(|&&cpu| cpu < 4).count(), 2);
    cpus.sort_unstable();
    assert_eq!(cpus, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn within_a_cpuset_the_rest_of_the_machine_does_not_count() {
    let machine = fixture::x5365();
    let mut threads = falling(&machine, 4);
    for thread in &mut threads {
        thread.may_run_on = "0-3".parse().unwrap();
    }
    assert_eq!(printed(&machine, &threads), [0, 2, 3, 1]);
}

#[test]
fn nobody_takes_the_only_cpu_of_a_bound_thread_while_others_are_free() {
    let machine = fixture::x5365();
    let mut threads = falling(&machine, 8);
    threads[7].may_run_on = "0".parse().unwrap();
    threads[3].may_run_on = "0,5".parse().unwrap();
    let mut cpus = printed(&machine, &threads);
    assert_eq!((cpus[7], cpus[3]), (0, 5));
    cpus.sort_unstable();
    assert_eq!(cpus, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Holds each thread where the plan puts it.
fn carry_out(threads: &mut [ThreadView], plan: &Plan) {
    let hold = |thread: &mut ThreadView, cpus: CpuSet| {
        thread.cpu = cpus.first();
        thread.allowed = cpus;
    };
    for step in &plan.steps {
        match &step.action {
            Action::Allow { thread, cpus } => hold(&mut threads[thread.0 as usize], cpus.clone()),
            Action::Swap { first, second } => {
                let (first, second) = (first.0 as usize, second.0 as usize);
                let (one, other) =
                    (threads[first].allowed.clone(), threads[second].allowed.clone());
                hold(&mut threads[first], other);
                hold(&mut threads[second], one);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn sort_plan(machine: &Machine, threads: &[ThreadView]) -> Plan {
    let view = fixture::view(machine, threads);
    let spread = Spread::new(&view, &solo(threads), &mut Memory::default());
    spread.plan(&spread.sorted(&mut Memory::default()), "MPKI")
}

#[test]
fn neighbours_in_rank_that_change_places_are_one_swap() {
    let machine = fixture::x5365();
    let mut threads = falling(&machine, 8);
    let first = sort_plan(&machine, &threads);
    assert_eq!(first.steps.len(), 8);
    assert_eq!(first.steps[0].reason, "program0: 8.0 MPKI, to CPU 0, LLC 0 (with program7)");
    carry_out(&mut threads, &first);
    assert_eq!(sort_plan(&machine, &threads), Plan::none());
    // The two heaviest exchange ranks, and so their partners: 1-8 and 2-7 become 2-8 and 1-7.
    let solo = threads[0].solo;
    (threads[0].solo, threads[1].solo) = (threads[1].solo, solo);
    let plan = sort_plan(&machine, &threads);
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    assert!(matches!(plan.steps[0].action, Action::Swap { .. }), "{plan:?}");
    carry_out(&mut threads, &plan);
    assert_eq!(sort_plan(&machine, &threads), Plan::none());
}

/// Four threads on four LLCs have no partners: whatever their ranks in a package, none moves.
#[test]
fn ranks_that_change_within_a_package_move_nobody() {
    let machine = fixture::x5365();
    let mut threads = falling(&machine, 4);
    let first = sort_plan(&machine, &threads);
    carry_out(&mut threads, &first);
    let solo = threads[1].solo;
    (threads[1].solo, threads[2].solo) = (threads[2].solo, solo);
    assert_eq!(sort_plan(&machine, &threads), Plan::none());
}

#[test]
fn twins_are_not_moved_to_exchange_them() {
    let machine = fixture::x5365();
    let mut threads = fixture::threads(&machine, &[Some(9.0), Some(9.0), Some(1.0), Some(1.0)]);
    let first = sort_plan(&machine, &threads);
    carry_out(&mut threads, &first);
    // As if the first had been started again under a higher id.
    threads.swap(0, 1);
    (threads[0].id, threads[1].id) = (threads[1].id, threads[0].id);
    assert_eq!(sort_plan(&machine, &threads), Plan::none());
}

#[test]
fn reasons_name_the_old_and_the_new_neighbours() {
    let machine = fixture::tree(1, 2, 2);
    let mpki = [Some(33.4), Some(20.0), Some(0.2), Some(0.1)];
    let mut threads = fixture::threads(&machine, &mpki);
    // Both heavy ones on LLC 0, and not held.
    for (thread, cpu) in threads.iter_mut().zip([0, 1, 2, 3]) {
        thread.cpu = Some(CpuId(cpu));
    }
    let plan = sort_plan(&machine, &threads);
    let reasons: Vec<&str> = plan.steps.iter().map(|step| step.reason.as_str()).collect();
    assert!(
        reasons
            .contains(&"program1: 20.0 MPKI, from LLC 0 (with program0) to LLC 1 (with program2)"),
        "{reasons:#?}"
    );
    assert!(
        reasons.contains(&"program0: 33.4 MPKI, held on CPU 0, LLC 0 (with program3)"),
        "{reasons:#?}"
    );
}

#[test]
fn a_newcomer_gets_the_emptiest_place_and_moves_nobody() {
    let machine = fixture::x5365();
    let mut threads = fixture::threads(&machine, &[None; 4]);
    for (thread, cpu) in threads.iter_mut().zip([0, 1, 4]) {
        thread.cpu = Some(CpuId(cpu));
    }
    let view = fixture::view(&machine, &threads);
    let spread = Spread::new(&view, &[None; 4], &mut Memory::default());
    assert_eq!(by_thread(&spread, &spread.arrived()), [0, 1, 4, 6]);
    let plan = spread.plan_for_newcomers(&spread.arrived(), "MPKI");
    assert_eq!(plan.steps.len(), 1);
    let reason = "program3: miss rate not known yet, to CPU 6, LLC 3";
    assert_eq!(plan.steps[0].reason, reason);
}

#[test]
fn the_heaviest_llc_is_that_of_the_largest_sum() {
    let machine = fixture::tree(1, 2, 2);
    let threads = falling(&machine, 4);
    let view = fixture::view(&machine, &threads);
    let spread = Spread::new(&view, &solo(&threads), &mut Memory::default());
    assert_eq!(spread.heaviest_llc_mpki(&Places(vec![0, 1, 2, 3])), 7.0);
    assert_eq!(spread.heaviest_llc_mpki(&spread.sorted(&mut Memory::default())), 5.0);
    assert_eq!(spread.unchanged(), None);
}

/// All ways to exchange siblings of [`fixture::x5365`]: for each leaf the one it is laid onto.
fn exchanges_of_x5365() -> Vec<Vec<usize>> {
    let flip = |bits: usize, bit: usize| bits >> bit & 1;
    (0..128)
        .map(|bits| {
            let leaf = |leaf: usize| {
                let (package, llc, core) = (leaf / 4, leaf / 2, leaf % 2);
                let core = core ^ flip(bits, 3 + llc);
                let llc_in_package = (llc % 2) ^ flip(bits, 1 + package);
                4 * (package ^ flip(bits, 0)) + 2 * llc_in_package + core
            };
            (0..8).map(leaf).collect()
        })
        .collect()
}

/// Items that can stay when these places go out to them, those of a class freely.
fn stays(items: &[Item], places: &[usize]) -> usize {
    let mut free: Vec<(usize, usize)> =
        items.iter().zip(places).map(|(item, &leaf)| (item.class, leaf)).collect();
    let mut count = 0;
    for item in items {
        let Some(at) = item.at else { continue };
        if let Some(found) = free.iter().position(|&place| place == (item.class, at)) {
            free.swap_remove(found);
            count += 1;
        }
    }
    count
}

/// More sets of CPUs than are kept, each asked for twice, and once more after all others.
#[test]
fn leaves_that_are_kept_are_those_of_the_tree() {
    let machine = fixture::tree(2, 2, 8);
    let mut memory = Memory::default();
    let tree = memory.tree(&machine, &machine.cpu_set());
    for round in 0..2 {
        for first in 0..30 {
            let cpus = CpuSet::from_iter([CpuId(first), CpuId(first + 1), CpuId(99)]);
            let leaves = [memory.leaves_of(&cpus), memory.leaves_of(&cpus)];
            assert!(leaves.iter().all(|one| **one == tree.leaves_of(&cpus)), "{round}: {first}");
            assert_eq!(leaves[0].len(), 2);
        }
    }
}

proptest! {
    /// What is kept from one sort to the next saves time alone.
    #[test]
    fn places_are_the_same_without_what_is_kept(
        rounds in prop::collection::vec(prop::collection::vec(0u32..4, 7), 1..6)
    ) {
        let machine = fixture::x5365();
        let threads = fixture::threads(&machine, &[None; 7]);
        let view = fixture::view(&machine, &threads);
        let mut memory = Memory::default();
        for figures in rounds {
            let known = |&one: &u32| (one > 0).then(|| f64::from(one));
            let mpki: Vec<Option<f64>> = figures.iter().map(known).collect();
            let with = Spread::new(&view, &mpki, &mut memory);
            let mut nothing = Memory::default();
            let without = Spread::new(&view, &mpki, &mut nothing);
            let order = |spread: &Spread<'_>| -> Vec<usize> {
                spread.items.iter().map(|item| item.thread).collect()
            };
            prop_assert_eq!(order(&with), order(&without));
            prop_assert_eq!(with.sorted(&mut memory), without.sorted(&mut nothing));
        }
    }

    #[test]
    fn no_exchange_keeps_more_threads_in_place(
        figures in prop::collection::vec((0u32..6, prop::option::of(0u32..8)), 1..14)
    ) {
        let machine = fixture::x5365();
        let mpki: Vec<Option<f64>> = figures.iter().map(|one| Some(f64::from(one.0))).collect();
        let mut threads = fixture::threads(&machine, &mpki);
        for (thread, (_, cpu)) in threads.iter_mut().zip(&figures) {
            thread.cpu = cpu.map(CpuId);
        }
        let view = fixture::view(&machine, &threads);
        let spread = Spread::new(&view, &mpki, &mut Memory::default());
        let printed = spread.sorted_as_printed().0;
        let sorted = spread.sorted(&mut Memory::default()).0;
        let laid = |onto: &[usize]| printed.iter().map(|&leaf| onto[leaf]).collect::<Vec<_>>();
        let exchanges = exchanges_of_x5365();
        let best = exchanges.iter().map(|onto| stays(&spread.items, &laid(onto))).max();
        let kept = spread.items.iter().zip(&sorted).filter(|(item, leaf)| item.at == Some(**leaf));
        prop_assert_eq!(Some(kept.count()), best);
        // And it is one of the exchanges, up to items of one class.
        let by_class = |places: &[usize]| {
            let pairs = spread.items.iter().zip(places);
            let mut pairs: Vec<_> = pairs.map(|(item, &leaf)| (item.class, leaf)).collect();
            pairs.sort_unstable();
            pairs
        };
        let wanted = by_class(&sorted);
        prop_assert!(exchanges.iter().any(|onto| by_class(&laid(onto)) == wanted));
        // Carried out, it is final.
        let plan = spread.plan(&spread.sorted(&mut Memory::default()), "MPKI");
        carry_out(&mut threads, &plan);
        prop_assert_eq!(sort_plan(&machine, &threads), Plan::none());
    }

    #[test]
    fn memory_changes_no_plan(
        rounds in prop::collection::vec(
            (prop::collection::vec((0u32..3, 0u32..8, any::<bool>()), 3..6), any::<bool>()), 2..8
        )
    ) {
        let machines = [fixture::x5365(), fixture::tree(1, 2, 4)];
        let mut memory = Memory::default();
        for (figures, second) in &rounds {
            let machine = &machines[usize::from(*second)];
            let mpki: Vec<Option<f64>> = figures.iter().map(|one| Some(f64::from(one.0))).collect();
            let mut threads = fixture::threads(machine, &mpki);
            for (thread, &(_, cpu, bound)) in threads.iter_mut().zip(figures) {
                thread.cpu = Some(CpuId(cpu));
                if bound {
                    thread.may_run_on = CpuSet::from_iter([CpuId(cpu), CpuId(0)]);
                }
            }
            // Twice: when the plan was carried out, too.
            for _ in 0..2 {
                let view = fixture::view(machine, &threads);
                let spread = Spread::new(&view, &mpki, &mut memory);
                let plan = spread.plan(&spread.sorted(&mut memory), "MPKI");
                prop_assert_eq!(&plan, &sort_plan(machine, &threads));
                carry_out(&mut threads, &plan);
            }
        }
    }

    #[test]
    fn bound_threads_stay_within_their_cpus_and_no_cpu_is_crowded_for_nothing(
        figures in prop::collection::vec((0u32..6, 0u32..8, any::<bool>(), 0u32..8), 1..14)
    ) {
        let machine = fixture::x5365();
        let mpki: Vec<Option<f64>> = figures.iter().map(|one| Some(f64::from(one.0))).collect();
        let mut threads = fixture::threads(&machine, &mpki);
        for (thread, &(_, cpu, bound, only)) in threads.iter_mut().zip(&figures) {
            thread.cpu = Some(CpuId(cpu));
            if bound {
                thread.may_run_on = CpuSet::from_iter([CpuId(only)]);
            }
        }
        let view = fixture::view(&machine, &threads);
        let spread = Spread::new(&view, &mpki, &mut Memory::default());
        let places = spread.sorted(&mut Memory::default());
        let mut load = [0; 8];
        for (item, &leaf) in spread.items.iter().zip(&places.0) {
            prop_assert!(item.may_use(leaf));
            load[spread.tree.cpus[leaf].0 as usize] += 1;
        }
        // A thread that may run anywhere sits beside another only when no CPU is free.
        let beside = spread.items.iter().zip(&places.0).any(|(item, &leaf)| {
            let bound = figures[item.thread].2;
            !bound && load[spread.tree.cpus[leaf].0 as usize] > 1
        });
        prop_assert!(!beside || !load.contains(&0));
    }
}
