//! How contended the memory is, as MLB has it (Seo, Eom and Yeom, "MLB: A memory-aware load
//! balancing for mitigating memory contention").
//!
//! The contention level is the number of retries for each memory request that retires (eq. 1). Real
//! machines count it by their full request buffers. Here it follows from how busy the controller is:
//! a request that arrives while the controller is busy, which is a share U of the time, comes back
//! until it is free, on average U / (1 - U) times. A machine's own constant is left out: eq. 4's
//! constants are calibrated in the same unit, and it would cancel.

use corun_profile::{
    CurvePoint, InstructionMix, MissRateCurve, Origin, Phase, Profile, ProfileData, Recording,
};

use crate::error::ModelError;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::program::{Member, Running};
use crate::scratch::Scratch;

/// Beyond this a controller is taken to be wholly busy; keeps the retries finite.
const MOST_BUSY: f64 = 1.0 - 1e-6;

/// Requests sent again for each that a controller takes that is busy for this share of the time.
pub(crate) fn retries_per_request(busy: f64) -> f64 {
    let busy = busy.clamp(0.0, MOST_BUSY);
    busy / (1.0 - busy)
}

/// The contention level of all that runs together (eq. 1): retries over requests that retire. 0
/// where there is no traffic.
pub fn contention_level(outcomes: &[Outcome]) -> f64 {
    let requests: f64 = outcomes.iter().map(|one| one.bytes_per_s).sum();
    let again = |one: &Outcome| one.bytes_per_s * one.memory_retries_per_request;
    let retries: f64 = outcomes.iter().map(again).sum();
    if requests > 0.0 { retries / requests } else { 0.0 }
}

/// The contention level that so many streams make: `inclination * streams^2 + baseline` (eq. 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContentionLaw {
    /// What a further stream adds; above 0.
    pub inclination: f64,
    /// The level at which there is no contention yet; at least 0.
    pub baseline: f64,
}

impl ContentionLaw {
    /// The number of streams that make such a level, before it is made a whole number (eq. 4).
    pub fn streams(&self, level: f64) -> f64 {
        ((level - self.baseline) / self.inclination).max(0.0).sqrt()
    }

    /// The level that so many streams make.
    pub fn level(&self, streams: f64) -> f64 {
        self.inclination * streams * streams + self.baseline
    }

    /// The law nearest to these levels of 1, 2, .. streams by least squares, its baseline not below
    /// 0. None where the level does not rise.
    pub fn fit(levels: &[f64]) -> Option<Self> {
        let points = || (1..).zip(levels).map(|(n, &level)| (f64::from(n) * f64::from(n), level));
        let count = levels.len() as f64;
        let sum = |of: fn((f64, f64)) -> f64| points().map(of).sum::<f64>();
        let (x, y) = (sum(|(x, _)| x) / count, sum(|(_, y)| y) / count);
        let spread: f64 = points().map(|(at, _)| (at - x).powi(2)).sum();
        let together: f64 = points().map(|(at, level)| (at - x) * (level - y)).sum();
        let free = (spread > 0.0).then(|| together / spread);
        let free = free.filter(|inclination| y - inclination * x >= 0.0);
        let inclination = free.unwrap_or_else(|| sum(|(x, y)| x * y) / sum(|(x, _)| x * x));
        let baseline = (y - inclination * x).max(0.0);
        let law = Self { inclination, baseline };
        (inclination > 0.0 && inclination.is_finite()).then_some(law)
    }
}

impl Model {
    /// The contention level with 1, 2, .. streams, each on a core of its own, up to one a core.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn stream_levels(&self) -> Result<Vec<f64>, ModelError> {
        Ok(self.streams()?.iter().map(|outcomes| contention_level(outcomes)).collect())
    }

    /// What 1, 2, .. streams do, each on a core of its own, up to one a core.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn streams(&self) -> Result<Vec<Vec<Outcome>>, ModelError> {
        let program = self.load(&stream_profile())?;
        let machine = self.machine();
        let first = |core: &corun_machine::Core| machine.cpu_index(core.cpus.first()?);
        let cpus: Vec<usize> = machine.cores().iter().filter_map(first).collect();
        let on = |&cpu: &usize| Running {
            member: Member { program: &program, phase: 0, cpu },
            home: &[],
            group: None,
        };
        let mut scratch = Scratch::new();
        let solve = |count: usize| {
            let running: Vec<Running<'_>> = cpus[..count].iter().map(on).collect();
            let mut outcomes = Vec::new();
            self.solve(&running, &mut scratch, &mut outcomes);
            outcomes
        };
        Ok((1..=cpus.len()).map(solve).collect())
    }

    /// Eq. 4's constants for this machine, from 1, 2, .. streams. None where nothing bounds the
    /// machine's traffic, so that there is no contention.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn contention_law(&self) -> Result<Option<ContentionLaw>, ModelError> {
        Ok(ContentionLaw::fit(&self.stream_levels()?))
    }
}

/// A program that does nothing but stream through arrays far larger than any cache: a = b + s c
/// over doubles, as the benchmark STREAM has it. Its figures per instruction are those of the
/// library's recorded `kernel-triad`.
pub fn stream_profile() -> Profile {
    let bytes = 64;
    let curve = MissRateCurve::new(vec![CurvePoint { bytes, mpki: 115.0 }]);
    let phase = Phase {
        instructions: 1_000_000_000,
        threads: 1,
        data_accesses_pki: 460.0,
        mix: InstructionMix { loads_pki: 300.0, stores_pki: 160.0, ..InstructionMix::default() },
        prefetchable: 1.0,
        memory_level_parallelism: 20.0,
        dirty_share: 1.0 / 3.0,
        footprint_bytes: 1 << 40,
        curve: curve.unwrap_or_else(|_| unreachable!("one point is a curve")),
        core: None,
    };
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Origin::default() };
    let data = ProfileData::Recording(Recording::new(origin, vec![phase]));
    Profile { name: "stream".to_owned(), data }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::{BandwidthModel, ModelOptions};

    fn model(machine: &str, bandwidth: BandwidthModel) -> Model {
        let machine = corun_machine::preset(machine).unwrap();
        let options = ModelOptions { bandwidth, ..ModelOptions::default() };
        Model::new(Arc::new(machine), options).unwrap()
    }

    #[test]
    fn a_controller_that_is_busy_half_the_time_takes_two_attempts() {
        assert_eq!(retries_per_request(0.0), 0.0);
        assert_eq!(retries_per_request(0.5), 1.0);
        assert!((retries_per_request(0.9) - 9.0).abs() < 1e-12);
        assert!(retries_per_request(7.0).is_finite());
    }

    #[test]
    fn a_law_is_found_again_from_its_levels() {
        let law = ContentionLaw { inclination: 0.77, baseline: 0.54 };
        let levels: Vec<f64> = (1..=4).map(|n| law.level(f64::from(n))).collect();
        let found = ContentionLaw::fit(&levels).unwrap();
        assert!((found.inclination - 0.77).abs() < 1e-12, "{found:?}");
        assert!((found.baseline - 0.54).abs() < 1e-12, "{found:?}");
        // By hand: (11.6 - 0.54) / 0.77 = 14.36, whose root is 3.79.
        assert!((found.streams(11.6) - 3.79).abs() < 0.005);
        assert_eq!(found.streams(0.3), 0.0);
    }

    #[test]
    fn a_baseline_is_never_below_nothing() {
        // Steeper than any square from 0: the free fit would begin below 0.
        let law = ContentionLaw::fit(&[0.0, 1.0, 20.0]).unwrap();
        assert_eq!(law.baseline, 0.0);
        assert!((law.inclination - (4.0 + 180.0) / (1.0 + 16.0 + 81.0)).abs() < 1e-12);
        assert_eq!(ContentionLaw::fit(&[0.0, 0.0]), None);
        assert_eq!(ContentionLaw::fit(&[]), None);
        // One core, one level.
        assert_eq!(ContentionLaw::fit(&[2.0]).unwrap().inclination, 2.0);
    }

    /// Equal flows in Morad's model, worked by hand: with odds o = B / (1 - B) of a flow alone,
    /// n of them leave an idle share v with ((1 - v) / n)^2 + v (1 - v) / n = v o.
    #[test]
    fn streams_make_the_level_that_morads_model_says() {
        let model = model("xeon-e5-2690", BandwidthModel::Additive);
        let streams = model.streams().unwrap();
        assert_eq!(streams.len(), 8);
        let alone = streams[0][0].bytes_per_s / 50e9;
        let odds = alone / (1.0 - alone);
        for (n, outcomes) in (1..).map(f64::from).zip(&streams) {
            let level = contention_level(outcomes);
            let idle = 1.0 / (1.0 + level);
            let each = (1.0 - idle) / n;
            assert!((each * each + idle * each - idle * odds).abs() < 1e-9, "{n}: {level}");
        }
        let levels = model.stream_levels().unwrap();
        assert!(levels.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
        // It grows faster than in a straight line.
        assert!(levels[7] - levels[6] > levels[1] - levels[0], "{levels:?}");
    }

    #[test]
    fn less_bandwidth_is_a_steeper_law() {
        let law =
            |machine| model(machine, BandwidthModel::Additive).contention_law().unwrap().unwrap();
        assert!(law("i7-2600").inclination > 2.0 * law("xeon-e5-2690").inclination);
    }

    /// How busy the memory is does not depend on what that costs.
    #[test]
    fn the_level_is_one_for_all_models_of_bandwidth() {
        let own = model("i7-2600", BandwidthModel::Additive).stream_levels().unwrap();
        for bandwidth in [BandwidthModel::Simple, BandwidthModel::Morad, BandwidthModel::Stalls] {
            let levels = model("i7-2600", bandwidth).stream_levels().unwrap();
            for (own, level) in own.iter().zip(&levels) {
                assert!((own - level).abs() <= 1e-9 * own, "{bandwidth}: {own} {level}");
            }
        }
        // Unlimited bandwidth is never contended.
        let free = model("i7-2600", BandwidthModel::None).contention_law().unwrap();
        assert_eq!(free, None);
    }
}
