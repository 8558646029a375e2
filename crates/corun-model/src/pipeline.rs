//! The pipeline of a fine-grained multithreaded core, which its hardware threads share.
//!
//! Each instruction holds the pipeline for its execution time e and then its thread for its stall time
//! s, in which the others have the pipeline to themselves. So the core is a closed network: one queue,
//! one customer a thread, each of a kind of its own. A thread's rate is 1 / (e (1 + Q) + s), where Q
//! are the instructions that it finds at the pipeline: those that would be there on average without it
//! (the arrival theorem; Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing
//! networks", JACM 27(2), 1980). The recursion over all subsets of the threads is exact.

use corun_machine::Smt;

/// Threads that a core can have; machines with more are refused.
pub(crate) const MOST: usize = Smt::MOST_FINE_GRAINED as usize;

/// What an instruction of a thread asks for, in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Context {
    /// In the pipeline.
    pub(crate) execution: f64,
    /// Outside.
    pub(crate) stall: f64,
}

/// Instructions a cycle of each of at most [`MOST`] threads of a core.
///
/// Nobody gets faster when a thread comes: by induction over subsets, one more thread leaves each
/// queue without some thread at least as long, so responses e (1 + Q) grow, and with them each
/// thread's own part of the queue, e (1 + Q) / (e (1 + Q) + s). And the pipeline is never more than
/// busy, since the solution is that of a real queue.
pub(crate) fn rates(contexts: &[Context], rates: &mut [f64]) {
    let everybody = (1usize << contexts.len()) - 1;
    // Mean instructions at the pipeline by subset of threads.
    let mut queued = [0.0; 1 << MOST];
    for set in 1..=everybody {
        for (place, context) in contexts.iter().enumerate() {
            let own = 1 << place;
            if set & own == 0 {
                continue;
            }
            let response = context.execution * (1.0 + queued[set ^ own]);
            let cycle = response + context.stall;
            queued[set] += response / cycle;
            if set == everybody {
                rates[place] = 1.0 / cycle;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn solved(contexts: &[(f64, f64)]) -> Vec<f64> {
        let contexts: Vec<Context> =
            contexts.iter().map(|&(execution, stall)| Context { execution, stall }).collect();
        let mut out = vec![0.0; contexts.len()];
        rates(&contexts, &mut out);
        out
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
    }

    #[test]
    fn pure_compute_shares_the_pipeline_equally() {
        for count in 1..=MOST {
            for rate in solved(&vec![(1.0, 0.0); count]) {
                assert!(near(rate, 1.0 / count as f64), "{count}: {rate}");
            }
        }
    }

    #[test]
    fn pure_stalls_slow_nobody() {
        for rate in solved(&[(0.0, 50.0); 4]) {
            assert!(near(rate, 1.0 / 50.0), "{rate}");
        }
    }

    /// e = 1, s = 3. One: 1 / 4, queue 1 / 4. Two: response 5 / 4, cycle 17 / 4, queue 2 x 5 / 17 =
    /// 10 / 17. Three: response 27 / 17, cycle 78 / 17, queue 3 x 27 / 78 = 27 / 26. Four: response
    /// 53 / 26, cycle 131 / 26.
    #[test]
    fn equal_threads_by_hand() {
        for (count, rate) in [(1, 1.0 / 4.0), (2, 4.0 / 17.0), (3, 17.0 / 78.0), (4, 26.0 / 131.0)]
        {
            let found = solved(&vec![(1.0, 3.0); count]);
            assert!(found.iter().all(|&one| near(one, rate)), "{count}: {found:?}");
        }
    }

    /// e = 1 each, s = 0 and 9. Alone each is queued for all or a tenth of the time. Together the
    /// first finds 1 / 10 of the other: 10 / 11; the second finds the first always: 1 / (2 + 9).
    #[test]
    fn unequal_threads_by_hand() {
        let found = solved(&[(1.0, 0.0), (1.0, 9.0)]);
        assert!(near(found[0], 10.0 / 11.0) && near(found[1], 1.0 / 11.0), "{found:?}");
    }

    fn context() -> impl Strategy<Value = (f64, f64)> {
        (0.05..4.0f64, prop_oneof![Just(0.0), 0.0..200.0f64])
    }

    proptest! {
        #[test]
        fn the_pipeline_is_never_more_than_busy(threads in prop::collection::vec(context(), 1..=MOST)) {
            let rates = solved(&threads);
            let busy: f64 = rates.iter().zip(&threads).map(|(rate, thread)| rate * thread.0).sum();
            prop_assert!(busy <= 1.0 + 1e-9, "{}", busy);
            for (rate, thread) in rates.iter().zip(&threads) {
                prop_assert!(*rate <= 1.0 / (thread.0 + thread.1) * (1.0 + 1e-12));
                // Never worse than taking turns with everybody.
                let turns: f64 = thread.0 * threads.len() as f64 + thread.1;
                prop_assert!(*rate >= 1.0 / turns * (1.0 - 1e-12));
            }
        }

        #[test]
        fn company_and_stalls_speed_nobody_up(
            threads in prop::collection::vec(context(), 2..=MOST),
            more_stall in 0.0..50.0f64,
        ) {
            let all = solved(&threads);
            let fewer = solved(&threads[..threads.len() - 1]);
            for (one, other) in fewer.iter().zip(&all) {
                prop_assert!(*one >= *other * (1.0 - 1e-12));
            }
            let mut slower = threads.clone();
            slower[0].1 += more_stall;
            prop_assert!(solved(&slower)[0] <= all[0] * (1.0 + 1e-12));
        }
    }
}
