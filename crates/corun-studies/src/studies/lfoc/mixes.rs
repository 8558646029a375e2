//! The mixes: the thesis's are lost with its Fig. 6.5.

use corun_policy::CacheClass;
use rand::seq::index::sample;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::studies::partitioning::PartitionedLlc;

/// Mixes of so many different programs (indices): one to a quarter of them streaming, two to half of
/// them sensitive, the rest light-sharing, as far as there are such programs.
pub(in crate::studies) fn by_class(
    llc: &PartitionedLlc,
    programs: usize,
    count: usize,
    seed: u64,
) -> Vec<Vec<usize>> {
    let of = |class| -> Vec<usize> {
        (0..llc.names.len()).filter(|&one| llc.classes[one] == class).collect()
    };
    let classes = [CacheClass::Streaming, CacheClass::Sensitive, CacheClass::LightSharing].map(of);
    // Each size of mix has its own draws, so that one does not change with the others.
    let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | programs as u64);
    let mut mix = || {
        let streaming = random.random_range(1..=programs / 4);
        let sensitive = random.random_range(2..=programs / 2);
        let mut mix = Vec::with_capacity(programs);
        for (of, count) in classes.iter().zip([streaming, sensitive, programs]) {
            let count = count.min(programs - mix.len()).min(of.len());
            mix.extend(sample(&mut random, of.len(), count).into_iter().map(|place| of[place]));
        }
        // Who is first decides ties: no class shall always be.
        mix.sort_unstable();
        mix
    };
    (0..count).map(|_| mix()).collect()
}

/// Mixes of so many different programs, half of them with phases that differ.
pub(super) fn with_phases(
    llc: &PartitionedLlc,
    programs: usize,
    count: usize,
    seed: u64,
) -> Vec<Vec<usize>> {
    let (changing, steady): (Vec<usize>, Vec<usize>) =
        (0..llc.names.len()).partition(|&one| llc.programs[one].phases.len() > 1);
    let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | programs as u64);
    let mut mix = || {
        let mut mix = Vec::with_capacity(programs);
        for (of, count) in [(&changing, programs / 2), (&steady, programs)] {
            let count = count.min(programs - mix.len()).min(of.len());
            mix.extend(sample(&mut random, of.len(), count).into_iter().map(|place| of[place]));
        }
        mix.sort_unstable();
        mix
    };
    (0..count).map(|_| mix()).collect()
}
