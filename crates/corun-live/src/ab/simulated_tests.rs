//! Experiments on simulated machines whose true effect is known: noise that is correlated in time,
//! drift, and effects that set in and fade slowly.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::sequence;
use super::*;

/// A machine with two programs, a step of one second at a time.
struct Simulated {
    random: Pcg64Mcg,
    now: Duration,
    on: bool,
    /// How far the policy has set in, 0 to 1.
    share: f64,
    noise: Vec<f64>,
    truth: Truth,
    restored: u32,
    stop_after: Option<Duration>,
    fail_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Truth {
    /// Each program's effect, as a ratio.
    ratios: [f64; 2],
    /// Standard deviation of a second's value, as a share.
    noise: f64,
    /// Correlation of a second's noise with that of the second before.
    correlation: f64,
    /// Growth of all values in an hour, as a share.
    drift: f64,
    /// Seconds in which the policy's effect sets in and fades to 1/e.
    carry_over: f64,
}

const NOISY: Truth =
    Truth { ratios: [1.0, 1.0], noise: 0.1, correlation: 0.9, drift: 0.5, carry_over: 0.7 };

impl Simulated {
    fn new(truth: Truth, seed: u64) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(seed ^ 0x5eed),
            now: Duration::ZERO,
            on: false,
            share: 0.0,
            noise: vec![0.0; 2],
            truth,
            restored: 0,
            stop_after: None,
            fail_after: None,
        }
    }

    /// Nearly normal: the sum of twelve even draws.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.random_range(-0.5..0.5)).sum()
    }

    fn step(&mut self) {
        self.now += Duration::from_secs(1);
        let Truth { noise, correlation, carry_over, .. } = self.truth;
        let target = f64::from(u8::from(self.on));
        self.share = target + (self.share - target) * (-1.0 / carry_over).exp();
        for program in 0..2 {
            let fresh = self.normal() * noise * (1.0 - correlation * correlation).sqrt();
            self.noise[program] = correlation * self.noise[program] + fresh;
        }
    }
}

impl Subject for Simulated {
    fn set(&mut self, policy_on: bool) -> Result<(), SubjectError> {
        self.on = policy_on;
        Ok(())
    }

    fn measure(&mut self) -> Result<Vec<(String, f64)>, SubjectError> {
        if self.fail_after.is_some_and(|end| self.now >= end) {
            return Err(SubjectError("the meter broke".to_owned()));
        }
        let drift = self.truth.drift * self.now.as_secs_f64() / 3600.0;
        let value = |program: usize| {
            let effect = self.truth.ratios[program].ln() * self.share;
            100.0 * (effect + self.noise[program] + drift).exp()
        };
        Ok(vec![("a".to_owned(), value(0)), ("b".to_owned(), value(1))])
    }

    fn wait(&mut self, time: Duration) -> Result<Waited, SubjectError> {
        if self.stop_after.is_some_and(|end| self.now >= end) {
            return Ok(Waited::Interrupted);
        }
        for _ in 0..time.as_secs_f64().ceil() as u64 {
            self.step();
        }
        Ok(Waited::Passed)
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn restore(&mut self) -> Result<(), SubjectError> {
        self.on = false;
        self.restored += 1;
        Ok(())
    }
}

fn design(seed: u64) -> Design {
    let (block, washout) = (Duration::from_secs(15), Duration::from_secs(5));
    Design::new(DesignSettings { block, washout, seed })
}

const SETTINGS: ExperimentSettings = ExperimentSettings {
    error: 0.05,
    precision_percent: 3.0,
    harm_percent: 5.0,
    collapse_percent: Some(50.0),
    better: Better::More,
    until_clear: false,
};

/// Goes through `pairs` pairs; `look` sees the experiment after each block.
fn go_through(
    truth: Truth,
    seed: u64,
    pairs: usize,
    mut look: impl FnMut(&SwitchbackExperiment),
) -> SwitchbackExperiment {
    let mut machine = Simulated::new(truth, seed);
    let mut experiment = SwitchbackExperiment::new(SETTINGS);
    for block in design(seed).take(2 * pairs) {
        machine.set(block.on).unwrap();
        machine.wait(block.washout).unwrap();
        for _ in 0..block.measured.as_secs() {
            machine.wait(Duration::from_secs(1)).unwrap();
            for (program, value) in machine.measure().unwrap() {
                experiment.add(&block, &program, value);
            }
        }
        experiment.end(&block);
        look(&experiment);
    }
    experiment
}

/// The most misses of `trials` that a chance of 5 % lets expect: the mean and 3 standard deviations.
fn most_misses(trials: u32) -> u32 {
    let trials = f64::from(trials);
    (0.05 * trials + 3.0 * (0.05 * 0.95 * trials).sqrt()) as u32
}

const TRIALS: u32 = 400;

/// Experiments whose intervals ever leave the truth out, by program and overall, and those whose final
/// interval leaves out zero.
fn misses(truth: Truth, pairs: usize) -> ([u32; 3], u32, f64) {
    let logs = truth.ratios.map(f64::ln);
    let truths = [logs[0], logs[1], 0.5 * (logs[0] + logs[1])];
    let (mut missed, mut told, mut widths) = ([0; 3], 0, Vec::new());
    for seed in 0..u64::from(TRIALS) {
        let mut left = [false; 3];
        let experiment = go_through(truth, seed, pairs, |experiment| {
            for (one, truth) in truths.iter().enumerate() {
                let differences = experiment.log_ratios(["a", "b", ""][one]);
                left[one] |= sequence::refutes(differences, *truth, SETTINGS.error / 2.0);
            }
        });
        for (count, left) in missed.iter_mut().zip(left) {
            *count += u32::from(left);
        }
        let overall = experiment.overall();
        let (low, high) = (overall.low.unwrap(), overall.high.unwrap());
        assert!(low <= overall.percent.unwrap() && overall.percent.unwrap() <= high);
        told += u32::from(low > 0.0 || high < 0.0);
        widths.push(high - low);
    }
    widths.sort_by(f64::total_cmp);
    let width = widths[widths.len() / 2];
    eprintln!("{truth:?}: missed {missed:?} of {TRIALS}, told {told}, median width {width:.2} %");
    (missed, told, width)
}

#[test]
fn with_no_effect_the_intervals_cover_zero_at_every_moment() {
    let (missed, told, _) = misses(NOISY, 24);
    assert!(missed.iter().all(|&count| count <= most_misses(TRIALS)), "{missed:?}");
    assert!(told <= most_misses(TRIALS), "{told}");
}

#[test]
fn an_effect_is_covered_at_every_moment_and_found() {
    let truth = Truth { ratios: [1.15, 1.08], ..NOISY };
    let (missed, told, width) = misses(truth, 24);
    assert!(missed.iter().all(|&count| count <= most_misses(TRIALS)), "{missed:?}");
    // An interval that covers all would cover the truth too: it has to be of use.
    assert!(told >= TRIALS * 9 / 10, "{told}");
    assert!(width < 15.0, "{width}");
}

#[test]
fn steep_drift_and_slow_noise_cost_precision_alone() {
    let truth = Truth { drift: -3.0, correlation: 0.99, ratios: [0.9, 1.0], ..NOISY };
    let (missed, ..) = misses(truth, 24);
    assert!(missed.iter().all(|&count| count <= most_misses(TRIALS)), "{missed:?}");
}

#[test]
fn a_harm_at_the_limit_is_rarely_taken_for_more() {
    let truth = Truth { ratios: [0.95, 0.95], ..NOISY };
    let stopped = |seed: u64| {
        let mut stopped = false;
        go_through(truth, seed, 16, |experiment| stopped |= experiment.harm().is_some());
        stopped
    };
    let trials = 200;
    let count = (0..u64::from(trials)).filter(|&seed| stopped(seed)).count() as u32;
    assert!(count <= most_misses(trials), "{count}");
}

fn limits(seconds: u64) -> StoppingLimits {
    StoppingLimits { longest: Duration::from_secs(seconds), sample: Duration::from_secs(1) }
}

fn conducted(machine: &mut Simulated, settings: ExperimentSettings, seconds: u64) -> Conclusion {
    conduct(design(3), SwitchbackExperiment::new(settings), limits(seconds), machine, &mut |_| {})
}

#[test]
fn a_harmed_program_ends_it_early_and_off() {
    let truth = Truth { ratios: [1.1, 0.75], noise: 0.05, ..NOISY };
    let mut machine = Simulated::new(truth, 5);
    let conclusion = conducted(&mut machine, SETTINGS, 7200);
    let Ended::Harm(harm) = &conclusion.ended else { panic!("{:?}", conclusion.ended) };
    assert_eq!((harm.program.as_str(), harm.kind), ("b", HarmKind::Loss));
    assert!(conclusion.experiment.pairs() <= 16, "{}", conclusion.experiment.pairs());
    assert_eq!((machine.on, machine.restored), (false, 1));
    // Of a latency that falls as much, nobody is harmed.
    let settings = ExperimentSettings { better: Better::Less, ..SETTINGS };
    let truth = Truth { ratios: [0.9, 0.75], noise: 0.05, ..NOISY };
    let conclusion = conducted(&mut Simulated::new(truth, 5), settings, 2400);
    assert_eq!(conclusion.ended, Ended::Done(Done::Precise));
}

#[test]
fn a_program_that_stands_still_ends_it_in_that_block() {
    let truth = Truth { ratios: [1.0, 1e-9], noise: 0.01, ..NOISY };
    let mut machine = Simulated::new(truth, 1);
    let conclusion = conducted(&mut machine, SETTINGS, 7200);
    let Ended::Harm(harm) = &conclusion.ended else { panic!("{:?}", conclusion.ended) };
    assert_eq!((harm.program.as_str(), harm.kind), ("b", HarmKind::Collapse));
    assert!(conclusion.experiment.pairs() <= 3);
    assert!(!machine.on);
}

#[test]
fn it_ends_when_precise_and_said_about_how_long_before() {
    let mut ratios = Vec::new();
    for seed in 0..20 {
        let mut machine = Simulated::new(Truth { ratios: [1.1, 1.1], noise: 0.05, ..NOISY }, seed);
        let mut said = None;
        let conclusion = conduct(
            design(seed),
            SwitchbackExperiment::new(SETTINGS),
            limits(100_000),
            &mut machine,
            &mut |progress| {
                if progress.pairs == 12 {
                    said = progress.needed.map(|needed| (needed.time, progress.pairs));
                }
            },
        );
        assert_eq!(conclusion.ended, Ended::Done(Done::Precise));
        let overall = conclusion.experiment.overall();
        // Three percent to either side, around ten.
        assert!(overall.high.unwrap() - overall.low.unwrap() < 6.9, "{overall:?}");
        if let Some((needed, at)) = said {
            let pairs = needed.as_secs_f64() / design(0).pair_length().as_secs_f64();
            ratios.push((at as f64 + pairs) / conclusion.experiment.pairs() as f64);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!(ratios.len() >= 15 && (0.6..1.7).contains(&median), "{ratios:?}");
}

#[test]
fn it_ends_early_when_asked_to_once_the_sign_is_clear() {
    let truth = Truth { ratios: [1.3, 1.2], noise: 0.05, ..NOISY };
    let settings = ExperimentSettings { until_clear: true, precision_percent: 0.1, ..SETTINGS };
    let conclusion = conducted(&mut Simulated::new(truth, 2), settings, 7200);
    assert_eq!(conclusion.ended, Ended::Done(Done::Clear));
    assert!(conclusion.experiment.overall().low.unwrap() > 0.0);
    assert!(conclusion.experiment.pairs() <= 12);
}

/// Of an effect of +30 % with little noise the sign is clear after the least number of pairs, and 0.1 % to either side takes
/// hours: what was told after each pair but the first is what came, to a pair.
#[test]
fn until_its_sign_is_clear_it_says_how_long_that_takes() {
    let truth = Truth { ratios: [1.3, 1.3], noise: 0.05, ..NOISY };
    let settings = ExperimentSettings { until_clear: true, precision_percent: 0.1, ..SETTINGS };
    let mut told = Vec::new();
    let mut machine = Simulated::new(truth, 2);
    let experiment = SwitchbackExperiment::new(settings);
    let conclusion = conduct(design(3), experiment, limits(7200), &mut machine, &mut |progress| {
        told.push((progress.pairs, progress.needed));
    });
    assert_eq!(conclusion.ended, Ended::Done(Done::Clear));
    let (all, pair) = (conclusion.experiment.pairs(), design(3).pair_length());
    assert_eq!(told.len(), all - 1);
    for (pairs, needed) in &told[1..] {
        let NeededTime { time, until } = needed.unwrap();
        assert_eq!(until, Done::Clear);
        let pairs_told = time.as_secs_f64() / pair.as_secs_f64();
        assert!((pairs_told - (all - pairs) as f64).abs() <= 1.0, "{told:?}, {all} pairs");
    }
}

#[test]
fn whatever_happens_the_policy_ends_off_and_what_is_known_is_kept() {
    let mut machine = Simulated::new(NOISY, 1);
    machine.stop_after = Some(Duration::from_secs(200));
    let conclusion = conducted(&mut machine, SETTINGS, 7200);
    assert_eq!(conclusion.ended, Ended::Interrupted);
    assert_eq!((machine.on, machine.restored), (false, 1));
    assert!(conclusion.experiment.pairs() >= 2);

    let mut machine = Simulated::new(NOISY, 1);
    machine.fail_after = Some(Duration::from_secs(100));
    let conclusion = conducted(&mut machine, SETTINGS, 7200);
    assert!(matches!(conclusion.ended, Ended::Failed(_)));
    assert_eq!((machine.on, machine.restored), (false, 1));

    let mut machine = Simulated::new(NOISY, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut report = |_: &PairProgress| panic!("while reporting");
        conduct(
            design(1),
            SwitchbackExperiment::new(SETTINGS),
            limits(7200),
            &mut machine,
            &mut report,
        );
    }));
    assert!(panicked.is_err());
    assert_eq!((machine.on, machine.restored), (false, 1));
}

#[test]
fn same_seeds_same_results() {
    let run = || {
        let mut machine = Simulated::new(NOISY, 9);
        let conclusion = conducted(&mut machine, SETTINGS, 900);
        (conclusion.experiment.overall(), conclusion.experiment.programs(), conclusion.elapsed)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_program_without_values_in_a_block_leaves_its_pair_out() {
    let mut experiment = SwitchbackExperiment::new(SETTINGS);
    for block in design(1).take(4) {
        experiment.add(&block, "steady", if block.on { 2.0 } else { 1.0 });
        if block.number != 1 {
            experiment.add(&block, "late", 5.0);
        }
        experiment.add(&block, "broken", f64::NAN);
        experiment.end(&block);
    }
    let effects = experiment.programs();
    let names: Vec<&str> = effects.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["steady", "late"]);
    assert_eq!((effects[0].1.pairs, effects[1].1.pairs), (2, 1));
    assert!((effects[0].1.percent.unwrap() - 100.0).abs() < 1e-9);
    assert_eq!(effects[0].1.low, None);
}
