//! Who runs at the same time where several threads share a CPU.

use std::collections::BTreeMap;

/// Most combinations of threads that the model is asked about where several share a CPU.
const MOST_COMBINATIONS: usize = 16;

/// Combinations of threads that run at the same time, one of each CPU: the threads of a CPU take turns, and the CPU
/// with the most of them has each run once, up to a limit. Given the threads by CPU; answers with (thread, CPU).
pub(crate) fn turns(
    by_cpu: &BTreeMap<usize, Vec<usize>>,
) -> impl Iterator<Item = Vec<(usize, usize)>> + '_ {
    let most = by_cpu.values().map(Vec::len).max().unwrap_or(0).min(MOST_COMBINATIONS);
    let running =
        |turn: usize| by_cpu.iter().map(move |(&cpu, here)| (here[turn % here.len()], cpu));
    (0..most).map(move |turn| running(turn).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_of_the_fullest_cpu_has_a_turn() {
        let by_cpu = BTreeMap::from([(0, vec![5]), (3, vec![1, 2, 4])]);
        let all: Vec<_> = turns(&by_cpu).collect();
        assert_eq!(all, [[(5, 0), (1, 3)], [(5, 0), (2, 3)], [(5, 0), (4, 3)]]);
        assert_eq!(turns(&BTreeMap::from([(0, (0..99).collect())])).count(), MOST_COMBINATIONS);
        assert_eq!(turns(&BTreeMap::new()).count(), 0);
    }
}
