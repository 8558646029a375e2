use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuId, CpuSet, Machine};
use proptest::prelude::*;

use super::*;
use crate::{Action, Scope, ScopedRate, ThreadId, ThreadView, fixture};

/// Threads with these measured miss rates, held on CPUs 0, 1, ..
fn held(machine: &Machine, mpki: &[f64]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; mpki.len()]);
    for (thread, &mpki) in threads.iter_mut().zip(mpki) {
        thread.rates.instructions_per_s = Some(1e9);
        let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
        thread.rates.llc_misses = Some(rate);
        thread.cpu = Some(CpuId(thread.id.0 as u32));
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    threads
}

/// Where each thread is after a decision.
fn decided(machine: &Machine, mpki: &[f64]) -> Vec<CpuId> {
    decided_for(machine, &held(machine, mpki))
}

fn decided_for(machine: &Machine, threads: &[ThreadView]) -> Vec<CpuId> {
    let plan = DioPower::new(&BuildOptions::default()).decide(&fixture::view(machine, threads));
    let mut at: BTreeMap<ThreadId, CpuId> =
        threads.iter().map(|thread| (thread.id, thread.cpu.unwrap())).collect();
    for step in plan.steps {
        match step.action {
            Action::Allow { thread, cpus } => {
                at.insert(thread, cpus.first().unwrap());
            }
            Action::Swap { first, second } => {
                let (one, other) = (at[&first], at[&second]);
                at.insert(first, other);
                at.insert(second, one);
            }
            other => panic!("{other:?}"),
        }
    }
    at.into_values().collect()
}

fn llc(machine: &Machine, cpu: CpuId) -> usize {
    machine.cpus()[machine.cpu_index(cpu).unwrap()].llc
}

#[test]
fn four_turtles_share_one_package() {
    // Table V, first workload: all NAMD on one package.
    let machine = fixture::x5365();
    let llcs: BTreeSet<usize> =
        decided(&machine, &[0.1; 4]).into_iter().map(|cpu| llc(&machine, cpu)).collect();
    assert_eq!(llcs, BTreeSet::from([0, 1]));
}

#[test]
fn two_devils_and_two_turtles_share_a_package_with_a_devil_an_llc() {
    // Table V, second workload: MCF, NAMD | MCF, NAMD on one package.
    let machine = fixture::x5365();
    let at = decided(&machine, &[30.0, 25.0, 0.1, 0.2]);
    let llcs: Vec<usize> = at.iter().map(|&cpu| llc(&machine, cpu)).collect();
    assert_eq!(BTreeSet::from_iter(llcs.iter().copied()), BTreeSet::from([0, 1]), "{llcs:?}");
    assert_ne!(llcs[0], llcs[1]);
    assert_ne!(llcs[2], llcs[3]);
}

#[test]
fn three_and_four_devils_have_an_llc_each() {
    let machine = fixture::x5365();
    for devils in [3, 4] {
        let mpki: Vec<f64> = (0..4).map(|one| if one < devils { 20.0 } else { 0.1 }).collect();
        let llcs: BTreeSet<usize> =
            decided(&machine, &mpki)[..devils].iter().map(|&cpu| llc(&machine, cpu)).collect();
        assert_eq!(llcs.len(), devils);
    }
}

#[test]
fn more_devils_than_llcs_are_placed_as_dio_places_them() {
    let machine = fixture::x5365();
    let at = decided(&machine, &[30.0, 25.0, 20.0, 15.0, 10.0, 5.0, 0.2, 0.1]);
    assert_eq!(BTreeSet::from_iter(at.iter().copied()).len(), 8);
    // Heaviest beside lightest.
    let beside = |one: usize, other: usize| llc(&machine, at[one]) == llc(&machine, at[other]);
    assert!(beside(0, 7) && beside(3, 4), "{at:?}");
}

#[test]
fn a_thread_bound_elsewhere_keeps_what_its_user_gave_it() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[0.1, 0.1]);
    threads[1].may_run_on = "6".parse().unwrap();
    threads[1].cpu = Some(CpuId(6));
    threads[1].allowed = threads[1].may_run_on.clone();
    let plan = DioPower::new(&BuildOptions::default()).decide(&fixture::view(&machine, &threads));
    assert!(plan.steps.is_empty(), "{plan:?}");
}

/// A container has one core of each LLC: two turtles need two LLCs, and three with a devil among them three.
#[test]
fn cores_that_nobody_may_use_give_no_thread_a_core() {
    let machine = fixture::x5365();
    for (mpki, used) in [(&[0.1, 0.1][..], 2), (&[20.0, 0.1, 0.1], 3)] {
        let mut threads = held(&machine, mpki);
        for thread in &mut threads {
            thread.may_run_on = "1,3,5,7".parse().unwrap();
            (thread.cpu, thread.allowed) = (Some(CpuId(1)), thread.may_run_on.clone());
        }
        let mut policy = DioPower::new(&BuildOptions::default());
        let plan = policy.decide(&fixture::view(&machine, &threads));
        let cpus = plan.steps.iter().map(|step| match &step.action {
            Action::Allow { cpus, .. } => cpus.first().unwrap(),
            other => panic!("{other:?}"),
        });
        assert_eq!(BTreeSet::from_iter(cpus).len(), used, "{plan:?}");
    }
}

/// A container has one core of each of LLCs 0 and 1, and both of LLC 2. The sort by cores alone would send two of three
/// devils to LLC 2.
#[test]
fn no_two_devils_share_an_llc_where_llcs_have_unlike_numbers_of_cores() {
    let machine = fixture::x5365();
    let mut threads = held(&machine, &[30.0, 20.0, 10.0]);
    for (thread, cpu) in threads.iter_mut().zip([0, 2, 4]) {
        thread.may_run_on = "0,2,4-5".parse().unwrap();
        thread.cpu = Some(CpuId(cpu));
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    let at = decided_for(&machine, &threads);
    let llcs: BTreeSet<usize> = at.iter().map(|&cpu| llc(&machine, cpu)).collect();
    assert_eq!(llcs, BTreeSet::from([0, 1, 2]), "{at:?}");
}

proptest! {
    /// The same in a container of any CPUs.
    #[test]
    fn devils_have_an_llc_each_on_any_cpus(
        usable in proptest::collection::btree_set(0u32..8, 1..=8),
        mpki in proptest::collection::vec(prop_oneof![0.0..1.9f64, 2.0..60.0], 1..=8),
    ) {
        let machine = fixture::x5365();
        let mut threads = held(&machine, &mpki[..mpki.len().min(usable.len())]);
        for (thread, &cpu) in threads.iter_mut().zip(&usable) {
            thread.may_run_on = usable.iter().map(|&cpu| CpuId(cpu)).collect();
            thread.cpu = Some(CpuId(cpu));
            thread.allowed = CpuSet::from_iter(thread.cpu);
        }
        let at = decided_for(&machine, &threads);
        prop_assert_eq!(BTreeSet::from_iter(at.iter().copied()).len(), threads.len());
        let of = |cpus: &mut dyn Iterator<Item = CpuId>| -> BTreeSet<usize> {
            cpus.map(|cpu| llc(&machine, cpu)).collect()
        };
        let llcs = of(&mut usable.iter().map(|&cpu| CpuId(cpu))).len();
        let devils = (0..threads.len()).filter(|&one| mpki[one] >= 2.0);
        let apart = of(&mut devils.clone().map(|one| at[one])).len();
        prop_assert_eq!(apart, devils.count().min(llcs));
    }

    /// Every thread has a core of its own while there are cores, no two devils share an LLC while
    /// there are LLCs, and no more LLCs are in use than that takes.
    #[test]
    fn as_few_llcs_as_devils_and_threads_need(
        mpki in proptest::collection::vec(prop_oneof![0.0..1.9f64, 2.0..60.0], 1..=8),
    ) {
        let machine = fixture::x5365();
        let at = decided(&machine, &mpki);
        prop_assert_eq!(BTreeSet::from_iter(at.iter().copied()).len(), mpki.len());
        let devils: Vec<usize> =
            (0..mpki.len()).filter(|&one| mpki[one] >= 2.0).map(|one| llc(&machine, at[one])).collect();
        let distinct = BTreeSet::from_iter(devils.iter().copied()).len();
        prop_assert_eq!(distinct, devils.len().min(4));
        let used = BTreeSet::from_iter(at.iter().map(|&cpu| llc(&machine, cpu))).len();
        prop_assert!(used <= devils.len().max(mpki.len().div_ceil(2)).min(4));
    }
}
