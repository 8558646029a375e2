//! When the policy is on: pairs of blocks in random order, of random length.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// One stretch of time with the policy on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchbackBlock {
    /// Its number from 0; two and two are a pair.
    pub number: usize,
    /// Is the policy on?
    pub on: bool,
    /// Time at its start that does not count: caches refill, threads settle.
    pub washout: Duration,
    /// Time that counts.
    pub measured: Duration,
}

impl SwitchbackBlock {
    /// Its whole length.
    pub fn length(&self) -> Duration {
        self.washout + self.measured
    }
}

/// How blocks are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignSettings {
    /// Mean length of the part of a block that counts; each is drawn evenly from half to one and a
    /// half times it, so that blocks do not march in step with anything periodic.
    pub block: Duration,
    /// Time at the start of each block that does not count.
    pub washout: Duration,
    /// The seed; the same seed gives the same blocks.
    pub seed: u64,
}

/// The blocks of an experiment, without end: in each pair one block has the policy on and one off,
/// and a coin decides which comes first. The interval rests on that coin alone (see
/// [`super::SwitchbackExperiment`]).
#[derive(Debug, Clone)]
pub struct Design {
    settings: DesignSettings,
    random: Pcg64Mcg,
    /// Blocks drawn so far.
    drawn: usize,
    /// Was the policy on in the first block of the pair that has begun?
    first_on: bool,
}

impl Design {
    /// An experiment's blocks.
    pub fn new(settings: DesignSettings) -> Self {
        let random = Pcg64Mcg::seed_from_u64(settings.seed);
        Self { settings, random, drawn: 0, first_on: false }
    }

    /// How they are drawn.
    pub fn settings(&self) -> &DesignSettings {
        &self.settings
    }

    /// Mean time of a pair of blocks.
    pub(crate) fn pair_length(&self) -> Duration {
        2 * (self.settings.block + self.settings.washout)
    }
}

impl Iterator for Design {
    type Item = SwitchbackBlock;

    fn next(&mut self) -> Option<SwitchbackBlock> {
        let number = self.drawn;
        self.drawn += 1;
        if number.is_multiple_of(2) {
            self.first_on = self.random.random::<bool>();
        }
        let on = self.first_on == number.is_multiple_of(2);
        let share = self.random.random_range(0.5..1.5);
        let DesignSettings { block, washout, .. } = self.settings;
        Some(SwitchbackBlock { number, on, washout, measured: block.mul_f64(share) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(seed: u64) -> DesignSettings {
        let (block, washout) = (Duration::from_secs(10), Duration::from_secs(2));
        DesignSettings { block, washout, seed }
    }

    #[test]
    fn each_pair_has_one_of_either_in_random_order() {
        let blocks: Vec<SwitchbackBlock> = Design::new(settings(1)).take(2000).collect();
        let mut first_on = 0;
        for pair in blocks.chunks(2) {
            assert_ne!(pair[0].on, pair[1].on);
            first_on += usize::from(pair[0].on);
        }
        // 1000 tosses of a coin: 500 +- 5 standard deviations.
        assert!((420..=580).contains(&first_on), "{first_on}");
    }

    #[test]
    fn lengths_vary_around_their_mean_and_a_seed_fixes_all() {
        let blocks: Vec<SwitchbackBlock> = Design::new(settings(7)).take(2000).collect();
        let seconds = blocks.iter().map(|block| block.measured.as_secs_f64());
        let mean = seconds.clone().sum::<f64>() / 2000.0;
        assert!((mean - 10.0).abs() < 0.4, "{mean}");
        assert!(seconds.clone().all(|one| (5.0..15.0).contains(&one)));
        assert!(seconds.clone().any(|one| one < 6.0) && seconds.clone().any(|one| one > 14.0));
        let again: Vec<SwitchbackBlock> = Design::new(settings(7)).take(2000).collect();
        assert_eq!(blocks, again);
        assert_ne!(blocks, Design::new(settings(8)).take(2000).collect::<Vec<_>>());
    }
}
