use proptest::prelude::*;

use super::*;

fn items(pcmrs: &[f64]) -> Vec<Item> {
    pcmrs.iter().map(|&pcmr| Item { pcmr, cpus: None }).collect()
}

fn limits(threshold: f64) -> Limits {
    Limits { threshold, growth: 1.5, min_threads: 1 }
}

/// The threads of CASC's Fig. 4, t0 to t9; t1's PCMR is not in it.
const FIGURE_4: [f64; 9] = [1.0, 3.0, 11.0, 15.0, 12.0, 16.0, 9.0, 0.0, 5.0];

/// Who may run where with the figure's MAX_PCMRs 1, 5, 11 and 17.
#[test]
fn threads_run_where_figure_4_has_them() {
    let buckets = Buckets { max_pcmr: vec![1, 5, 11, 17], threshold: 8.5, met: true };
    assert_eq!(mean(&buckets.max_pcmr), 8.5);
    let first = |pcmr| (0..4).find(|&cpu| buckets.allows(pcmr, cpu)).unwrap();
    assert_eq!([1.0, 0.0, 3.0, 5.0, 11.0, 9.0].map(first), [0, 0, 1, 1, 2, 2]);
    assert_eq!([15.0, 12.0, 16.0].map(first), [3, 3, 3]);
}

/// Levels 0 1 3 5 9 11 12 15 16, threshold 8.5: four CPUs sum to 34 at most. They start at 16. Lowering any by one restricts
/// the thread at 16; CPUs 0 to 2 go to 15, CPU 3 is its last. Each step from a thread's level costs 1, so that those three
/// come down together: to 12, to 11, to 9 and 5, which is 31 in all with 16. The last of them needs 8 alone: 34.
#[test]
fn figure_4s_threads_by_hand() {
    let free = Limits { min_threads: 0, ..limits(8.5) };
    let buckets = bucketize(&items(&FIGURE_4), 4, &free);
    assert_eq!(buckets, Buckets { max_pcmr: vec![5, 5, 8, 16], threshold: 8.5, met: true });
    // Four threads for CPUs 0 to 2 (0, 1, 3, 5), nine for all: enough for m = 1.
    assert_eq!(bucketize(&items(&FIGURE_4), 4, &limits(8.5)), buckets);
}

/// Section 4.3.1: for a threshold of 5 the paper comes to 1, 1, 1, 17, where all but t0 and t8 run on CPU 3 alone and one of
/// three CPUs has no thread. Here the start is at 16, the largest PCMR: 1, 1, 2, 16, and the same threads.
#[test]
fn the_papers_example_of_idle_cpus_comes_out() {
    let free = Limits { min_threads: 0, ..limits(5.0) };
    let buckets = bucketize(&items(&FIGURE_4), 4, &free);
    assert_eq!(buckets, Buckets { max_pcmr: vec![1, 1, 2, 16], threshold: 5.0, met: true });
    let on_3_alone = |pcmr: &&f64| (0..3).all(|cpu| !buckets.allows(**pcmr, cpu));
    assert_eq!(FIGURE_4.iter().filter(on_3_alone).count(), FIGURE_4.len() - 2);
    // Too few for m = 1: the threshold grows to 7.5, where CPUs 0 to 2 have t0, t1 and t8 at least.
    let raised = bucketize(&items(&FIGURE_4), 4, &limits(5.0));
    assert_eq!(raised, Buckets { max_pcmr: vec![4, 5, 5, 16], threshold: 7.5, met: true });
}

/// Three programs of six threads each on eight CPUs, as in section 5: all CPUs but one come down together from 100, first past
/// the six that miss most. With the first of equals CPU 0 alone would go to 0, and no threshold below 87.5 would leave it
/// a thread.
#[test]
fn cpus_of_many_like_threads_come_down_together() {
    let pcmrs = [[100.0; 6], [60.0; 6], [40.0; 6]].concat();
    let buckets = bucketize(&items(&pcmrs), 8, &limits(15.0));
    // 15 x 1.5^3 = 50.6: 405 in all is 100, and seven CPUs from 40 to 60 with twelve threads.
    assert_eq!(buckets.max_pcmr, [40, 40, 40, 40, 40, 45, 60, 100]);
    assert_eq!((buckets.threshold, buckets.met), (50.625, true));
}

/// The greedy step takes the cheapest: 4 threads at 10 and 1 at 20 on 2 CPUs. From 20 CPU 0 goes to
/// 10 (one thread restricted, then nobody); the next step would restrict four: CPU 1's restricts the
/// one at 20, whose last CPU it is, so CPU 0 goes on.
#[test]
fn the_least_penalty_goes_first_and_never_the_last_cpu() {
    let five = items(&[10.0, 10.0, 10.0, 10.0, 20.0]);
    assert_eq!(bucketize(&five, 2, &limits(15.0)).max_pcmr, [10, 20]);
    let free = Limits { min_threads: 0, ..limits(14.0) };
    assert_eq!(bucketize(&five, 2, &free).max_pcmr, [8, 20]);
}

/// As the paper has it: with threads at 15 and more the mean cannot come down to 3.
#[test]
fn a_threshold_that_cannot_be_met_is_said_to_be_unmet() {
    let free = Limits { min_threads: 0, ..limits(3.0) };
    let buckets = bucketize(&items(&FIGURE_4), 4, &free);
    assert_eq!(buckets, Buckets { max_pcmr: vec![0, 0, 0, 16], threshold: 3.0, met: false });
}

/// Threads at 1, 1, 20, 20, 20 on 4 CPUs. A mean of 5 needs 1, 1, 1, 17 or less: unmet at 0, 0, 0, 20,
/// which leaves nobody for three CPUs. At 7.5 (30 in all) 0, 0, 10, 20; at 11.25 (45) 0, 5, 20, 20, at
/// 16.875 (67) 7, 20, 20, 20: two threads may run on CPU 0, five on all. Enough.
#[test]
fn the_threshold_grows_until_every_cpu_has_a_thread() {
    let buckets = bucketize(&items(&[1.0, 1.0, 20.0, 20.0, 20.0]), 4, &limits(5.0));
    assert_eq!(buckets, Buckets { max_pcmr: vec![7, 20, 20, 20], threshold: 16.875, met: true });
}

/// With m = 2 each CPU needs two: six threads for three CPUs of which four are at 1: two CPUs can be
/// low. With three CPUs and five threads there is one for each.
#[test]
fn more_threads_a_cpu_restrict_less() {
    let two = Limits { min_threads: 2, ..limits(7.0) };
    let six = items(&[1.0, 1.0, 1.0, 1.0, 20.0, 20.0]);
    // 60 - 39 = 21: CPU 0 to 0 would leave nobody there.
    let buckets = bucketize(&six, 3, &two);
    assert!(buckets.max_pcmr.iter().filter(|&&max| max < 20).all(|&max| max >= 1), "{buckets:?}");
    assert!(bucketize(&items(&[5.0; 5]), 3, &two).met);
}

#[test]
fn a_held_thread_keeps_a_cpu() {
    let mut three = items(&[1.0, 1.0, 30.0]);
    three[2].cpus = Some(vec![true, false, false]);
    let free = Limits { min_threads: 0, ..limits(5.0) };
    let buckets = bucketize(&three, 3, &free);
    assert_eq!(buckets.max_pcmr[0], 30, "{buckets:?}");
    assert!(buckets.allows(1.0, 1) || buckets.allows(1.0, 2) || buckets.allows(1.0, 0));
}

#[test]
fn nobody_to_run_is_no_problem() {
    let buckets = bucketize(&[], 4, &limits(15.0));
    assert_eq!(buckets, Buckets { max_pcmr: vec![0; 4], threshold: 15.0, met: true });
}

fn item(cpus: usize) -> impl Strategy<Value = Item> {
    let some = prop::collection::vec(any::<bool>(), cpus)
        .prop_filter("somewhere", |cpus| cpus.contains(&true));
    (0.0..120.0f64, prop_oneof![3 => Just(None), 1 => some.prop_map(Some)])
        .prop_map(|(pcmr, cpus)| Item { pcmr, cpus })
}

proptest! {
    #[test]
    fn everybody_has_a_cpu_and_the_mean_is_met_or_said_not_to_be(
        (cpus, threads) in (1usize..9).prop_flat_map(|cpus| {
            (Just(cpus), prop::collection::vec(item(cpus), 1..25))
        }),
        threshold in 0.0..100.0f64,
        min_threads in 0usize..4,
    ) {
        let limits = Limits { threshold, growth: 1.5, min_threads };
        let buckets = bucketize(&threads, cpus, &limits);
        for thread in &threads {
            let may = |&cpu: &usize| thread.may_use(cpu) && buckets.allows(thread.pcmr, cpu);
            prop_assert!((0..cpus).any(|cpu| may(&cpu)), "{:?} {:?}", thread, buckets);
        }
        prop_assert_eq!(buckets.met, mean(&buckets.max_pcmr) <= buckets.threshold + 1e-9);
        prop_assert!(buckets.threshold >= threshold.min(100.0));
        // A threshold that grew comes to what it would have come to at once.
        let at_once = Limits { threshold: buckets.threshold, growth: 1.5, min_threads: 0 };
        prop_assert_eq!(&bucketize(&threads, cpus, &at_once), &buckets);
        // Never raised.
        let highest = threads.iter().map(Item::level).max().unwrap();
        prop_assert!(buckets.max_pcmr.iter().all(|&max| max <= highest));
        if threads.iter().all(|thread| thread.cpus.is_none()) {
            prop_assert!(leaves_enough(&threads, &buckets.max_pcmr, min_threads) || buckets.threshold >= 100.0);
        }
    }

    /// Against the rule step by step, without any of the shortcuts.
    #[test]
    fn the_steps_are_those_of_the_rule(
        pcmrs in prop::collection::vec(0u32..30, 1..12),
        cpus in 1usize..6,
        threshold in 0.0..30.0f64,
    ) {
        let threads = items(&pcmrs.iter().map(|&one| f64::from(one)).collect::<Vec<_>>());
        let mut plain = vec![*pcmrs.iter().max().unwrap(); cpus];
        while mean(&plain) > threshold {
            let penalty = |cpu: &usize| pcmrs.iter().filter(|&&one| one == plain[*cpu]).count();
            let strands = |cpu: usize| {
                let open = |one: u32| plain.iter().filter(|&&max| max >= one).count();
                pcmrs.iter().any(|&one| one == plain[cpu] && open(one) == 1)
            };
            let able = (0..cpus).filter(|&cpu| plain[cpu] > 0 && !strands(cpu));
            let rank = |cpu: &usize| (penalty(cpu), std::cmp::Reverse(plain[*cpu]), *cpu);
            let Some(cpu) = able.min_by_key(rank) else { break };
            plain[cpu] -= 1;
        }
        let free = Limits { threshold, growth: 1.5, min_threads: 0 };
        prop_assert_eq!(bucketize(&threads, cpus, &free).max_pcmr, plain);
    }
}
