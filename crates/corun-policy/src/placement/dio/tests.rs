use corun_machine::{CpuId, CpuSet, Machine};
use proptest::prelude::*;

use super::*;
use crate::{Action, Scope, ScopedRate, ThreadView, fixture};

fn count(thread: &mut ThreadView, mpki: f64) {
    thread.rates.instructions_per_s = Some(1e9);
    let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
    thread.rates.llc_misses = Some(rate);
}

/// Threads held on these CPUs.
fn held(machine: &Machine, cpus: &[u32]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; cpus.len()]);
    for (thread, &cpu) in threads.iter_mut().zip(cpus) {
        thread.cpu = Some(CpuId(cpu));
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    threads
}

/// So many intervals in which threads have these miss rates, each by a factor of the interval's; where the
/// threads are afterwards, and how many moved.
fn intervals(
    machine: &Machine,
    threads: &mut [ThreadView],
    mpki: &[f64],
    factors: impl Iterator<Item = Vec<f64>>,
) -> usize {
    let mut dio = Dio::new(&BuildOptions::default());
    let mut moves = 0;
    for factors in factors {
        for ((thread, &mpki), factor) in threads.iter_mut().zip(mpki).zip(factors) {
            count(thread, mpki * factor);
        }
        for step in dio.decide(&fixture::view(machine, threads)).steps {
            let (all, cpu) = (threads.to_vec(), |one: &ThreadView| one.cpu);
            let mut put = |thread: u64, cpu: Option<CpuId>| {
                moves += usize::from(threads[thread as usize].cpu != cpu);
                threads[thread as usize].cpu = cpu;
                threads[thread as usize].allowed = CpuSet::from_iter(cpu);
            };
            match step.action {
                Action::Allow { thread, cpus } => put(thread.0, cpus.first()),
                Action::Swap { first, second } => {
                    put(first.0, cpu(&all[second.0 as usize]));
                    put(second.0, cpu(&all[first.0 as usize]));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    moves
}

fn steady(threads: usize, count: usize) -> impl Iterator<Item = Vec<f64>> {
    (0..count).map(move |_| vec![1.0; threads])
}

fn llcs(machine: &Machine, threads: &[ThreadView]) -> Vec<usize> {
    let llc =
        |thread: &ThreadView| machine.cpus()[machine.cpu_index(thread.cpu.unwrap()).unwrap()].llc;
    threads.iter().map(llc).collect()
}

/// Two heavy threads on one LLC, two light ones on the other: one swap, and then nobody moves again.
#[test]
fn two_heavy_threads_are_parted_once() {
    let machine = fixture::tree(1, 2, 2);
    let mut threads = held(&machine, &[0, 1, 2, 3]);
    let mpki = [33.4, 20.0, 0.2, 0.1];
    assert_eq!(intervals(&machine, &mut threads, &mpki, steady(4, 30)), 2);
    let at = llcs(&machine, &threads);
    assert_ne!(at[0], at[1]);
}

/// On two nodes the same threads stay: the memory of the heavy ones would stay behind.
#[test]
fn nobody_leaves_the_node_of_its_memory() {
    let machine = fixture::numa(2, 1, 2);
    let mut threads = held(&machine, &[0, 1, 2, 3]);
    assert_eq!(intervals(&machine, &mut threads, &[33.4, 20.0, 0.2, 0.1], steady(4, 30)), 0);
    // Three on two cores, and the other node empty: one goes there.
    let mut threads = held(&machine, &[0, 1, 1]);
    intervals(&machine, &mut threads, &[33.4, 20.0, 0.2], steady(3, 30));
    let nodes: Vec<usize> = llcs(&machine, &threads);
    assert!(nodes.contains(&0) && nodes.contains(&1), "{nodes:?}");
    // Inside a node threads are spread.
    let machine = fixture::numa(2, 2, 2);
    let mut threads = held(&machine, &[0, 1, 2, 3, 4]);
    intervals(&machine, &mut threads, &[33.4, 20.0, 0.2, 0.1, 0.3], steady(5, 30));
    let at = llcs(&machine, &threads);
    assert!(at[0] != at[1] && at[0] < 2 && at[1] < 2 && at[4] == 2, "{at:?}");
}

/// A swap that saves fewer misses than the moved threads fetch anew is left: 65 536 lines each here.
#[test]
fn a_gain_below_the_refill_moves_nobody() {
    let machine = fixture::tree(1, 2, 2);
    let of = |mpki: [f64; 4]| {
        let mut threads = held(&machine, &[0, 1, 2, 3]);
        intervals(&machine, &mut threads, &mpki, steady(4, 30))
    };
    assert_eq!(of([0.004, 0.004, 0.0, 0.0]), 0);
    assert_eq!(of([4.0, 4.0, 0.0, 0.0]), 2);
}

proptest! {
    /// Threads that are alike but for the counters' noise do not change places, interval after interval:
    /// some 1 in 20 pairs looks different by chance at a time.
    #[test]
    fn alike_threads_do_not_change_places(
        noise in prop::collection::vec(prop::collection::vec(0.8..1.25_f64, 8), 100),
    ) {
        let machine = fixture::tree(2, 2, 2);
        let mut threads = held(&machine, &[0, 2, 4, 6, 1, 3, 5, 7]);
        let mpki = [78.3, 78.3, 78.3, 78.3, 1.2, 1.2, 1.2, 1.2];
        let moves = intervals(&machine, &mut threads, &mpki, noise.into_iter());
        prop_assert!(moves <= 40, "{moves} moves in 100 intervals");
        let at = llcs(&machine, &threads);
        let heavy: std::collections::BTreeSet<usize> = at[..4].iter().copied().collect();
        prop_assert_eq!(heavy.len(), 4);
    }
}
