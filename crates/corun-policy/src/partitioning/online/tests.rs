//! What holds for every policy that partitions by what it measures.

use proptest::prelude::*;

use super::bench::{Bench, Does};
use crate::{Counts, ThreadId, build, fixture};

const POLICIES: [&str; 9] = [
    "lfoc-online",
    "kpart-dynaway",
    "dunn-online",
    "fair-clusters-online",
    "lfoc-plus-online",
    "overlap-annealing-online",
    "cpa",
    "copart",
    "balancer",
];

/// Streaming, sensitive or light, by a number.
fn behaviour(kind: u8) -> impl Fn(u32, f64) -> Does + 'static {
    move |ways, _| {
        let few = f64::from(8 - ways.min(8));
        match kind % 3 {
            0 => Does { ipc: 0.8, llc_mpkc: 25.0, memory_stalls: 0.5 },
            1 => Does {
                ipc: 2.0 / (1.0 + 0.15 * few),
                llc_mpkc: 1.5 * few,
                memory_stalls: 0.05 * few,
            },
            _ => Does { ipc: 2.5, llc_mpkc: 0.2, memory_stalls: 0.01 },
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Arrive(u8),
    Exit(usize),
    /// A thread's counts become odd: which one, and how.
    Odd(usize, u8),
    Run(f64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..3).prop_map(Step::Arrive),
        (0usize..16).prop_map(Step::Exit),
        ((0usize..16), (0u8..5)).prop_map(|(which, how)| Step::Odd(which, how)),
        (0.01f64..0.7).prop_map(Step::Run),
        (0.01f64..0.7).prop_map(Step::Run),
    ]
}

fn make_odd(counts: &mut Counts, how: u8) {
    match how {
        0 => *counts = Counts::default(),
        1 => counts.instructions = fixture::count(f64::NAN),
        2 => counts.cycles = fixture::count(f64::INFINITY),
        3 => counts.llc_misses = fixture::count(-1e18),
        _ => counts.memory_stall_cycles = None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whoever comes and goes, and whatever is counted, all have ways that the hardware takes.
    #[test]
    fn masks_are_always_whole(
        steps in prop::collection::vec(step(), 1..40),
        policy in 0usize..POLICIES.len(),
        least_ways in 1u32..4,
    ) {
        let mut bench = Bench::with(POLICIES[policy], &[], least_ways);
        for step in steps {
            match step {
                Step::Arrive(kind) if bench.threads().len() < 12 => {
                    bench.arrive("program", behaviour(kind));
                }
                Step::Arrive(_) => {}
                Step::Exit(which) => {
                    let ids: Vec<ThreadId> = bench.threads().iter().map(|one| one.id).collect();
                    if let Some(&id) = ids.get(which) {
                        bench.exit(id);
                    }
                }
                Step::Odd(which, how) => {
                    if let Some(thread) = bench.threads().get_mut(which) {
                        make_odd(&mut thread.counts, how);
                    }
                }
                Step::Run(seconds) => bench.run(seconds),
            }
            prop_assert!(bench.is_whole(least_ways), "{:?}", bench.log.last());
        }
    }
}

#[test]
fn a_cache_with_too_few_ways_for_two_is_refused() {
    let narrow = fixture::machine(
        "[[object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 1024\nways = 4\nmin_partition_ways = 3\n\
         [[object.object]]\nkind = 'core'\ncount = 2\n",
    );
    for name in POLICIES {
        let policy = build(name, &Default::default()).unwrap();
        let why = policy.unfit_for(&narrow).unwrap();
        assert!(why.contains("two partitions"), "{name}: {why}");
        assert_eq!(policy.unfit_for(&fixture::x5365()), Some(why), "no ways at all");
    }
}

/// A program that never runs does not hold up the others: its turn ends.
#[test]
fn a_program_that_falls_asleep_loses_its_turn() {
    let mut bench = Bench::new("lfoc-online");
    let sleeper = bench.arrive("sleeper", |_, at| Does {
        ipc: if at < 0.15 { 4.0 } else { 0.0 },
        llc_mpkc: 20.0,
        memory_stalls: 0.0,
    });
    let stream = bench.arrive("stream", behaviour(0));
    let needy = bench.arrive("needy", behaviour(1));
    bench.run(3.0);
    let turns: Vec<&str> = bench.log.iter().map(|(_, reason)| reason.as_str()).collect();
    assert!(turns.iter().any(|turn| turn.contains("sampling sleeper with 1 of")), "{turns:#?}");
    assert!(!turns.iter().any(|turn| turn.contains("sampling sleeper with 2 of")), "{turns:#?}");
    let decided = turns.iter().rev().find(|reason| !reason.contains("sampling")).unwrap();
    assert!(decided.contains("sleeper (class unknown)"), "{turns:#?}");
    assert!(decided.contains("stream (streaming, 25.0 MPKC)"), "{turns:#?}");
    assert_ne!(bench.mask(stream), bench.mask(needy));
    bench.exit(sleeper);
    assert!(bench.is_whole(1));
}

/// The last two on an LLC end between two decisions: nobody is named where nobody is.
#[test]
fn a_cache_that_is_left_is_said_to_be_empty() {
    for name in ["lfoc-online", "kpart-dynaway", "dunn-online"] {
        let mut bench = Bench::new(name);
        let both = [bench.arrive("stream", behaviour(0)), bench.arrive("needy", behaviour(1))];
        bench.run(3.0);
        both.into_iter().for_each(|id| bench.exit(id));
        bench.run(3.0);
        let (_, last) = bench.log.last().unwrap();
        assert!(last.ends_with("whole: nobody is on it"), "{name}: {last}");
    }
}
