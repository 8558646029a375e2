use proptest::prelude::*;

use super::*;
use crate::fixture;

/// Threads by (CPU, MB/s while it runs).
fn on_cpus(machine: &corun_machine::Machine, places: &[(u32, f64)]) -> Vec<ThreadView> {
    let mut threads = fixture::threads(machine, &vec![None; places.len()]);
    for (thread, &(cpu, rate)) in threads.iter_mut().zip(places) {
        thread.cpu = Some(CpuId(cpu));
        thread.rates.cpu_share = Some(0.5);
        thread.rates.memory_bytes_per_s = Some(rate * 0.5e6);
    }
    threads
}

/// By CPU its threads in order, and the slot in ms.
fn orders(plan: &Plan) -> Vec<(u32, Vec<u64>, u64)> {
    let order = |step: &crate::Step| match &step.action {
        Action::OrderSlots { cpu, threads, slot } => {
            (cpu.0, threads.iter().map(|id| id.0).collect(), slot.0 / 1_000_000)
        }
        other => panic!("{other:?}"),
    };
    plan.steps.iter().map(order).collect()
}

fn vbsc(epoch_ms: f64) -> Vbsc {
    let parameters = [("epoch-ms".to_owned(), epoch_ms)].into();
    Vbsc::new(&BuildOptions { seed: 0, parameters })
}

/// MLB's Fig. 9: four intensive and four other programs on four cores, epochs of 600 ms. Each core
/// has one of either; two cores run their intensive one in the first 300 ms, two in the second.
#[test]
fn the_papers_epoch_by_hand() {
    let machine = fixture::tree(1, 1, 4);
    // lbm 9, libquantum 8, GemsFDTD 7, soplex 6 and four of 1, as they come to lie.
    let places = [(0, 9.0), (0, 8.0), (1, 7.0), (1, 6.0), (2, 1.0), (2, 1.0), (3, 1.0), (3, 1.0)];
    let threads = on_cpus(&machine, &places);
    let mut policy = vbsc(600.0);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    let found = orders(&plan);
    assert_eq!(found.len(), 4);
    for (_, threads, slot) in &found {
        assert_eq!((threads.len(), *slot), (2, 300), "{found:?}");
        assert_eq!(threads.iter().filter(|&&id| id < 4).count(), 1, "{found:?}");
    }
    let first_slot = found.iter().filter(|(_, threads, _)| threads[0] < 4).count();
    assert_eq!(first_slot, 2, "{found:?}");
    // 9 and 6 in one slot, 8 and 7 in the other.
    let slot_of = |id: u64| {
        found.iter().find_map(|(_, threads, _)| threads.iter().position(|&one| one == id))
    };
    assert_eq!(slot_of(0), slot_of(3));
    assert_eq!(slot_of(1), slot_of(2));
}

#[test]
fn a_thread_that_comes_goes_to_the_emptiest_cpu_and_an_empty_cpu_is_let_go() {
    let machine = fixture::tree(1, 1, 2);
    let mut threads = on_cpus(&machine, &[(0, 9.0), (0, 1.0), (0, 5.0)]);
    threads[2].cpu = None;
    let mut policy = vbsc(400.0);
    let plan = policy.decide(&fixture::view(&machine, &threads));
    assert_eq!(orders(&plan), [(0, vec![0, 1], 200), (1, vec![2], 400)]);
    threads[2].cpu = Some(CpuId(1));
    let plan = policy.decide(&fixture::view(&machine, &threads[..2]));
    // Loads are levelled: one thread each.
    assert_eq!(orders(&plan).iter().map(|(_, threads, _)| threads.len()).max(), Some(1));
    let plan = policy.decide(&fixture::view(&machine, &threads[..1]));
    assert!(orders(&plan).contains(&(1, vec![], 400)), "{plan:?}");
}

#[test]
fn an_intensity_counts_half_an_epoch_later() {
    let machine = fixture::tree(1, 1, 2);
    let mut policy = vbsc(400.0);
    let (busy, quiet) = (on_cpus(&machine, &[(0, 8.0)]), on_cpus(&machine, &[(0, 0.0)]));
    policy.intensity.measure(&fixture::view(&machine, &busy));
    policy.intensity.measure(&fixture::view(&machine, &quiet));
    assert_eq!(policy.intensity.by_thread(&fixture::view(&machine, &quiet)), [Some(4e6)]);
}

proptest! {
    #[test]
    fn every_thread_has_one_slot_where_it_may_run(
        places in proptest::collection::vec((0u32..4, 0.0..9.0f64, 1u8..16), 1..20),
    ) {
        let machine = fixture::tree(1, 2, 2);
        let at: Vec<(u32, f64)> = places.iter().map(|&(cpu, rate, _)| (cpu, rate)).collect();
        let mut threads = on_cpus(&machine, &at);
        for (thread, &(_, _, mask)) in threads.iter_mut().zip(&places) {
            let may = (0..4u32).filter(|cpu| mask >> cpu & 1 == 1).map(CpuId);
            thread.may_run_on = may.collect();
        }
        let plan = vbsc(400.0).decide(&fixture::view(&machine, &threads));
        let mut seen: Vec<u64> = Vec::new();
        for (cpu, order, slot) in orders(&plan) {
            prop_assert_eq!(slot, 400 / order.len() as u64);
            for id in order {
                prop_assert!(threads[id as usize].may_run_on.contains(CpuId(cpu)));
                seen.push(id);
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..threads.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn free_threads_are_spread_evenly_and_so_are_the_intensive(
        places in proptest::collection::vec((0u32..4, 0.0..9.0f64), 1..20),
    ) {
        let machine = fixture::tree(1, 2, 2);
        let threads = on_cpus(&machine, &places);
        let plan = vbsc(400.0).decide(&fixture::view(&machine, &threads));
        let mean = places.iter().map(|(_, rate)| rate).sum::<f64>() / places.len() as f64;
        let mut counts = vec![(0, 0); 4];
        for (cpu, order, _) in orders(&plan) {
            // Not on the mean itself: rounding decides there.
            let intensive = order.iter().filter(|&&id| places[id as usize].1 > mean + 1e-9);
            counts[cpu as usize] = (order.len(), intensive.count());
        }
        let spread = |of: fn(&(usize, usize)) -> usize| {
            counts.iter().map(of).max().unwrap() - counts.iter().map(of).min().unwrap()
        };
        prop_assert!(spread(|count| count.0) <= 1, "{:?}", counts);
        prop_assert!(spread(|count| count.1) <= 1, "{:?}", counts);
    }
}
