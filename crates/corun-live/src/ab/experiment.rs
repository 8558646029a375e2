//! What an experiment has shown so far.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::design::SwitchbackBlock;
use super::sequence::{self, Interval, LARGEST_LOG};

/// Which way is good?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better: work done in a second.
    More,
    /// Less is better: a latency.
    Less,
}

/// What an experiment wants to know, and what it does not put up with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentSettings {
    /// Chance that an interval ever leaves out the true effect, such as 0.05.
    pub error: f64,
    /// Half width of the overall effect's interval at which the experiment is done, in percent.
    pub precision_percent: f64,
    /// The loss of a single program, in percent, that ends it once it is sure.
    pub harm_percent: f64,
    /// The loss in a single block that ends it at once, in percent of the worst block without the
    /// policy; none: never.
    pub collapse_percent: Option<f64>,
    /// Which way is good.
    pub better: Better,
    /// Is it also done as soon as the overall effect is surely above or surely below zero?
    pub until_clear: bool,
}

/// The policy's effect: how much the value with it is above that without.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// In percent, where there is a pair to tell it.
    pub percent: Option<f64>,
    /// Lower end of the interval; none while there is none.
    pub low: Option<f64>,
    /// Upper end of the interval; none while there is none.
    pub high: Option<f64>,
    /// Pairs of blocks that it stands on.
    pub pairs: usize,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Advice {
    /// Go on.
    Continue {
        /// What it takes from now on until the experiment is done, as far as can be told; none where nothing can be
        /// told yet or it takes more than a hundred thousand pairs.
        needed: Option<NeededPairs>,
    },
    /// A program is harmed: turn the policy off.
    StopHarm(Harm),
    /// What was asked is known.
    Done(Done),
}

/// How much longer an experiment goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededPairs {
    /// Pairs of blocks from now on.
    pub pairs: usize,
    /// What ends it then.
    pub until: Done,
}

/// A program that is harmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Harm {
    /// The program.
    pub program: String,
    /// How it is known.
    pub kind: HarmKind,
}

/// How harm is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HarmKind {
    /// Its loss is surely beyond the limit.
    Loss,
    /// It all but stood still in the last block.
    Collapse,
}

/// Why an experiment is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// The overall effect is known as precisely as wanted.
    Precise,
    /// The overall effect is surely not zero.
    Clear,
}

/// The most pairs that are looked ahead.
const FAR: usize = 100_000;

/// Sum and number of a block's values of one program.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Takes measurements in, by block, and says what they show.
///
/// A pair of blocks gives one figure a program: the logarithm of its mean with the policy over that
/// without. Over the programs, a pair's figure is their mean, so that the overall effect is a
/// geometric mean of ratios. Intervals may be looked at after every pair: see the module `sequence`.
#[derive(Debug, Clone)]
pub struct SwitchbackExperiment {
    settings: ExperimentSettings,
    /// By pair, program and whether the policy was on.
    means: BTreeMap<(usize, String, bool), Mean>,
    ended: BTreeSet<usize>,
    programs: Vec<String>,
    /// By program its log ratios, pair by pair.
    differences: BTreeMap<String, Vec<f64>>,
    overall: Vec<f64>,
    last_ended: Option<(usize, bool)>,
}

impl SwitchbackExperiment {
    /// An experiment without data.
    pub fn new(settings: ExperimentSettings) -> Self {
        Self {
            settings,
            means: BTreeMap::new(),
            ended: BTreeSet::new(),
            programs: Vec::new(),
            differences: BTreeMap::new(),
            overall: Vec::new(),
            last_ended: None,
        }
    }

    /// What it wants to know.
    pub fn settings(&self) -> &ExperimentSettings {
        &self.settings
    }

    /// Adds a value that was measured in a block, behind its washout. Values that are no number or
    /// below zero are passed over.
    pub fn add(&mut self, block: &SwitchbackBlock, program: &str, value: f64) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        if !self.programs.iter().any(|one| one == program) {
            self.programs.push(program.to_owned());
        }
        let key = (block.number / 2, program.to_owned(), block.on);
        let mean = self.means.entry(key).or_default();
        mean.sum += value;
        mean.count += 1;
    }

    /// A block is over. Nothing of a pair counts before both its blocks are: half a block would be a
    /// look at data that still changes.
    pub fn end(&mut self, block: &SwitchbackBlock) {
        self.ended.insert(block.number);
        let pair = block.number / 2;
        self.last_ended = Some((pair, block.on));
        if !(self.ended.contains(&(2 * pair)) && self.ended.contains(&(2 * pair + 1))) {
            return;
        }
        let mut sum = Mean::default();
        for program in &self.programs {
            let Some(difference) = self.difference(pair, program) else { continue };
            self.differences.entry(program.clone()).or_default().push(difference);
            sum.sum += difference;
            sum.count += 1;
        }
        self.overall.extend(sum.value());
    }

    fn mean(&self, pair: usize, program: &str, on: bool) -> Option<f64> {
        self.means.get(&(pair, program.to_owned(), on)).and_then(|mean| mean.value())
    }

    fn difference(&self, pair: usize, program: &str) -> Option<f64> {
        let on = self.mean(pair, program, true)?;
        let off = self.mean(pair, program, false)?;
        // Standing still both times says nothing; standing still once says much, yet not infinity.
        let log = (on / off).ln();
        (!log.is_nan()).then(|| log.clamp(-LARGEST_LOG, LARGEST_LOG))
    }

    /// A program's log ratios, or with an empty name those over all.
    #[cfg(test)]
    pub(super) fn log_ratios(&self, program: &str) -> &[f64] {
        if program.is_empty() {
            return &self.overall;
        }
        self.differences.get(program).map_or(&[], Vec::as_slice)
    }

    /// Pairs that are over.
    pub fn pairs(&self) -> usize {
        self.overall.len()
    }

    /// Each program's effect, in the order in which they were first seen.
    pub fn programs(&self) -> Vec<(String, Effect)> {
        let of = |program: &String| {
            let differences = self.differences.get(program).map_or(&[][..], Vec::as_slice);
            (program.clone(), self.effect(differences))
        };
        self.programs.iter().map(of).collect()
    }

    /// The effect over all programs: the geometric mean of their ratios.
    pub fn overall(&self) -> Effect {
        self.effect(&self.overall)
    }

    fn effect(&self, differences: &[f64]) -> Effect {
        let percent = |log: f64| 100.0 * log.exp_m1();
        let error = self.settings.error / 2.0;
        Effect {
            percent: sequence::centre(differences).map(percent),
            low: sequence::lower(differences, error, 1.0).map(percent),
            high: sequence::upper(differences, error, 1.0).map(percent),
            pairs: differences.len(),
        }
    }

    /// What to do now.
    pub fn advice(&self) -> Advice {
        if let Some(harm) = self.harm() {
            return Advice::StopHarm(harm);
        }
        let settings = &self.settings;
        let error = settings.error / 2.0;
        let half_width = (settings.precision_percent / 100.0).ln_1p();
        let narrow = |interval: &Interval| interval.is_within(half_width);
        let now = Interval::of(&self.overall, error, 1.0);
        if narrow(&now) {
            return Advice::Done(Done::Precise);
        }
        if settings.until_clear && now.leaves_out_zero() {
            return Advice::Done(Done::Clear);
        }
        let needed = |until, is_enough: &dyn Fn(&Interval) -> bool| {
            let all = sequence::needed(&self.overall, error, FAR, is_enough)?;
            Some(NeededPairs { pairs: all.saturating_sub(self.pairs()).max(1), until })
        };
        let clear = settings.until_clear.then(|| needed(Done::Clear, &Interval::leaves_out_zero));
        let first = [clear.flatten(), needed(Done::Precise, &narrow)];
        Advice::Continue { needed: first.into_iter().flatten().min_by_key(|one| one.pairs) }
    }

    /// The program that is harmed, where one is.
    pub fn harm(&self) -> Option<Harm> {
        let found = |kind: HarmKind| {
            move |program: &&String| match kind {
                HarmKind::Collapse => self.collapsed(program),
                HarmKind::Loss => self.surely_loses(program),
            }
        };
        [HarmKind::Collapse, HarmKind::Loss].into_iter().find_map(|kind| {
            let program = self.programs.iter().find(found(kind))?.clone();
            Some(Harm { program, kind })
        })
    }

    /// Is the program's loss beyond the limit? With none harmed beyond it, the chance that any of
    /// them is ever said to be is at most `error`: each has its share of it.
    fn surely_loses(&self, program: &str) -> bool {
        let Some(differences) = self.differences.get(program) else { return false };
        let error = self.settings.error / self.programs.len() as f64;
        let limit = self.settings.harm_percent / 100.0;
        match self.settings.better {
            Better::More => {
                let high = sequence::upper(differences, error, 1.0);
                high.is_some_and(|high| high < (-limit).ln_1p())
            }
            Better::Less => {
                let low = sequence::lower(differences, error, 1.0);
                low.is_some_and(|low| low > limit.ln_1p())
            }
        }
    }

    /// Did the program all but stand still in the block that just ended? A guard against disaster, no
    /// statistics: it needs two blocks without the policy to compare with.
    fn collapsed(&self, program: &str) -> bool {
        let (Some(percent), Some((pair, true))) = (self.settings.collapse_percent, self.last_ended)
        else {
            return false;
        };
        let Some(now) = self.mean(pair, program, true) else { return false };
        let ended = |one: &usize| {
            self.ended.contains(&(2 * one)) && self.ended.contains(&(2 * one + 1)) || *one == pair
        };
        let off: Vec<f64> =
            (0..=pair).filter(ended).filter_map(|one| self.mean(one, program, false)).collect();
        if off.len() < 2 {
            return false;
        }
        let kept = 1.0 - percent / 100.0;
        match self.settings.better {
            Better::More => now < kept * off.iter().copied().fold(f64::INFINITY, f64::min),
            Better::Less => now * kept > off.iter().copied().fold(0.0, f64::max),
        }
    }
}
