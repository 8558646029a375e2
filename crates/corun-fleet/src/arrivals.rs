//! Programs that come and go, as in published traces of a real cloud.
//!
//! - **Sizes.** Azure's public trace of 2017 has 237,815,104 core hours in 104,371,713 hours of virtual
//!   machines (AzurePublicDatasetV1, "Main characteristics"): 2.28 cores in the mean. Of all distributions over
//!   1, 2, 4, 8 and 16 CPUs with that mean, the one of the highest entropy is drawn from: it assumes nothing else.
//! - **Life times.** The same page has 2,013,767 machines: 51.8 hours in the mean within its 30 days. More
//!   than 90 % of them live for less than a day (Cortez et al., Resource Central, SOSP 2017, section 3). So nine
//!   of ten lives are short: from the trace's step of 5 minutes to a day, as many for each factor of the length.
//!   The tenth is long: from a day to 30 days, of the highest entropy at the mean that is left for it.
//! - **Arrivals** come at random at a rate that rises and falls with the day. The paper shows the cycle and
//!   gives no figure for how deep it is, so its depth is a setting of the simulation.
//!
//! At the start those run who would in a long-running cluster: a life that is met at a random moment is the
//! longer the likelier, and is met at a random point.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// CPUs of a program.
pub(crate) const SIZES: [u32; 5] = [1, 2, 4, 8, 16];
/// Mean CPUs, weighed by life time as the trace's core hours are.
const MEAN_CPUS: f64 = 237_815_104.0 / 104_371_713.0;
/// Mean life, hours.
const MEAN_LIFE_H: f64 = 104_371_713.0 / 2_013_767.0;
/// The longest life, hours.
const LONGEST_LIFE_H: f64 = 720.0;

const DAY_H: f64 = 24.0;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrivalSettings {
    /// How many programs come, those that run at the start included.
    pub(crate) arrivals: usize,
    /// CPUs of the fleet.
    pub(crate) cpus: f64,
    /// Share of them that is taken in the mean, 0 to 1.
    pub(crate) utilisation: f64,
    /// How far the rate of arrivals rises above its mean in a day, as a share of it, 0 to 1.
    pub(crate) daily_depth: f64,
    /// The same seed draws the same.
    pub(crate) seed: u64,
}

/// A program that comes and goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    /// When it comes, hours.
    pub(crate) at_h: f64,
    /// When it goes.
    pub(crate) until_h: f64,
    pub(crate) program: usize,
    /// Index in [`SIZES`].
    pub(crate) size: usize,
}

/// Shares of [`SIZES`] with the highest entropy at the trace's mean.
pub(crate) fn size_shares() -> [f64; SIZES.len()] {
    let shares = |tilt: f64| {
        let weights = SIZES.map(|size| (-tilt * f64::from(size)).exp());
        let all: f64 = weights.iter().sum();
        weights.map(|weight| weight / all)
    };
    let mean = |tilt: f64| -> f64 {
        shares(tilt).iter().zip(SIZES).map(|(share, size)| share * f64::from(size)).sum()
    };
    shares(root(0.0, 5.0, |tilt| MEAN_CPUS - mean(tilt)))
}

/// The trace's step, hours: the shortest life.
const SHORTEST_LIFE_H: f64 = 5.0 / 60.0;
/// Lives of less than a day.
const SHORT: f64 = 0.9;

/// Short lives and long ones; the density of the long ones rises by this in an hour, as a power of e.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Lives {
    tilt: f64,
}

impl Lives {
    fn published() -> Self {
        let short = (DAY_H - SHORTEST_LIFE_H) / (DAY_H / SHORTEST_LIFE_H).ln();
        let long = (MEAN_LIFE_H - SHORT * short) / (1.0 - SHORT);
        Self { tilt: root(1e-6, 0.1, |tilt| mean_tilted(tilt) - long) }
    }

    fn draw(self, generator: &mut Pcg64) -> f64 {
        let (kind, at): (f64, f64) = (generator.random(), generator.random());
        if kind < SHORT {
            return SHORTEST_LIFE_H * (DAY_H / SHORTEST_LIFE_H).powf(at);
        }
        // The inverse of the distribution; the density's largest power of e is 0.
        let least = (self.tilt * (DAY_H - LONGEST_LIFE_H)).exp();
        LONGEST_LIFE_H + (least + at * (1.0 - least)).ln() / self.tilt
    }

    /// A life as it is met at a random moment, and what is left of it.
    fn draw_met(self, generator: &mut Pcg64) -> f64 {
        loop {
            let life = self.draw(generator);
            if generator.random::<f64>() * LONGEST_LIFE_H < life {
                return life * generator.random::<f64>();
            }
        }
    }
}

/// All arrivals in the order of time. `programs` is how many programs there are, each as likely.
pub(crate) fn arrivals(settings: &ArrivalSettings, programs: usize) -> Vec<Arrival> {
    let mut generator = Pcg64::seed_from_u64(settings.seed);
    let shares = size_shares();
    let lives = Lives::published();
    let running = settings.cpus * settings.utilisation / MEAN_CPUS;
    let drawn = |at_h: f64, life_h: f64, generator: &mut Pcg64| {
        let mut left = generator.random::<f64>();
        let size = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        let program = generator.random_range(0..programs);
        Arrival { at_h, until_h: at_h + life_h, program, size: size.unwrap_or(SIZES.len() - 1) }
    };
    let mut all = Vec::with_capacity(settings.arrivals);
    for _ in 0..(running.round() as usize).min(settings.arrivals) {
        let left = lives.draw_met(&mut generator);
        all.push(drawn(0.0, left, &mut generator));
    }
    let rate = running / MEAN_LIFE_H;
    let most = rate * (1.0 + settings.daily_depth);
    let mut now = 0.0;
    while all.len() < settings.arrivals {
        now += -(1.0 - generator.random::<f64>()).ln() / most;
        let daily = (2.0 * std::f64::consts::PI * now / DAY_H).sin();
        if generator.random::<f64>() * most < rate * (1.0 + settings.daily_depth * daily) {
            let life = lives.draw(&mut generator);
            all.push(drawn(now, life, &mut generator));
        }
    }
    all
}

/// Mean of lives from a day to the longest with density exp(tilt x).
fn mean_tilted(tilt: f64) -> f64 {
    let least = (tilt * (DAY_H - LONGEST_LIFE_H)).exp();
    (LONGEST_LIFE_H - DAY_H * least) / (1.0 - least) - 1.0 / tilt
}

/// Where a rising function is 0, by halving.
fn root(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if function(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lives_have_the_published_figures() {
        let mean: f64 =
            size_shares().iter().zip(SIZES).map(|(share, size)| share * f64::from(size)).sum();
        assert!((mean - MEAN_CPUS).abs() < 1e-9, "{mean}");
        let lives = Lives::published();
        let mut generator = Pcg64::seed_from_u64(1);
        let drawn: Vec<f64> = (0..50_000).map(|_| lives.draw(&mut generator)).collect();
        let short = drawn.iter().filter(|life| **life < DAY_H).count() as f64 / 50_000.0;
        assert!((short - 0.9).abs() < 0.005, "{short}");
        let mean = drawn.iter().sum::<f64>() / 50_000.0;
        assert!((mean / MEAN_LIFE_H - 1.0).abs() < 0.03, "{mean}");
        assert!(drawn.iter().all(|life| (SHORTEST_LIFE_H..=LONGEST_LIFE_H).contains(life)));
    }

    #[test]
    fn the_fleet_is_as_busy_as_asked_from_the_start() {
        let settings = ArrivalSettings {
            arrivals: 20_000,
            cpus: 4_000.0,
            utilisation: 0.5,
            daily_depth: 0.3,
            seed: 7,
        };
        let all = arrivals(&settings, 10);
        let end = all.last().unwrap().at_h;
        for moment in [0.0, 0.25 * end, 0.5 * end, 0.9 * end] {
            let runs = |one: &&Arrival| one.at_h <= moment && moment < one.until_h;
            let taken: f64 =
                all.iter().filter(runs).map(|one| f64::from(SIZES[one.size])).sum::<f64>();
            assert!((taken / settings.cpus - 0.5).abs() < 0.06, "{moment}: {}", taken / 4_000.0);
        }
        assert_eq!(all, arrivals(&settings, 10));
    }
}
