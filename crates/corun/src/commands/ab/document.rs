//! The result as a document.

use corun_linux::Noise;
use corun_live::ab::{Conclusion, Done, Effect, Ended, HarmKind, NeededTime, PairProgress};
use serde::Serialize;

use crate::cli::{AbArgs, PlacerName};
use corun_report::round;

#[derive(Debug, Serialize)]
pub(super) struct Document {
    ended: &'static str,
    against: Option<&'static str>,
    harmed: Option<String>,
    error: Option<String>,
    over: Option<String>,
    confidence_percent: f64,
    pairs: usize,
    elapsed_seconds: f64,
    needed_seconds: Option<f64>,
    needed_until: Option<Done>,
    cpus_busy_share: Option<f64>,
    cpus_stolen_share: Option<f64>,
    overall: Figures,
    programs: Vec<Program>,
}

#[derive(Debug, Serialize)]
struct Program {
    name: String,
    #[serde(flatten)]
    effect: Figures,
}

#[derive(Debug, Serialize)]
struct Figures {
    percent: Option<f64>,
    low_percent: Option<f64>,
    high_percent: Option<f64>,
    pairs: usize,
}

impl From<Effect> for Figures {
    fn from(effect: Effect) -> Self {
        let figure = |value: Option<f64>| value.map(|value| round(value, 6));
        Self {
            percent: figure(effect.percent),
            low_percent: figure(effect.low),
            high_percent: figure(effect.high),
            pairs: effect.pairs,
        }
    }
}

/// An experiment's first line where its progress is written.
#[derive(Debug, Serialize)]
pub(super) struct About {
    /// The version of these lines.
    corun_ab: u32,
    /// What is turned on and off, in words.
    tried: String,
    against: Option<&'static str>,
    precision_percent: f64,
    confidence_percent: f64,
    less_is_better: bool,
}

impl About {
    pub(super) fn new(arguments: &AbArgs) -> Self {
        let tried = match (&arguments.on, &arguments.config) {
            (Some(on), _) => on.clone(),
            (None, _) if arguments.sched_cache => "SCHED_CACHE".to_owned(),
            (None, Some(config)) => format!("the policy of {}", config.display()),
            (None, None) => format!("the policy {}", arguments.chosen.policy),
        };
        Self {
            corun_ab: 1,
            tried,
            against: arguments.against.map(PlacerName::name),
            precision_percent: arguments.precision,
            confidence_percent: arguments.confidence,
            less_is_better: arguments.less_is_better,
        }
    }
}

/// A line after each pair of blocks.
#[derive(Debug, Serialize)]
pub(super) struct PairLine {
    pairs: usize,
    elapsed_seconds: f64,
    needed_seconds: Option<f64>,
    needed_until: Option<Done>,
    overall: Figures,
    programs: Vec<Program>,
}

impl From<&PairProgress> for PairLine {
    fn from(progress: &PairProgress) -> Self {
        let program = |(name, effect): (String, Effect)| Program { name, effect: effect.into() };
        Self {
            pairs: progress.pairs,
            elapsed_seconds: round(progress.elapsed.as_secs_f64(), 3),
            needed_seconds: progress.needed.map(seconds),
            needed_until: progress.needed.map(|needed| needed.until),
            overall: progress.overall.into(),
            programs: progress.programs.iter().cloned().map(program).collect(),
        }
    }
}

fn seconds(needed: NeededTime) -> f64 {
    round(needed.time.as_secs_f64(), 3)
}

pub(super) fn document(
    conclusion: &Conclusion,
    load: Option<Noise>,
    arguments: &AbArgs,
) -> Document {
    let (ended, harmed) = match &conclusion.ended {
        Ended::Done(Done::Precise) => ("precise", None),
        Ended::Done(Done::Clear) => ("clear", None),
        Ended::Harm(harm) => {
            let how = if harm.kind == HarmKind::Loss { "harm" } else { "collapse" };
            (how, Some(harm.program.clone()))
        }
        Ended::Time => ("time", None),
        Ended::Interrupted => ("interrupted", None),
        Ended::Over(_) => ("over", None),
        Ended::Failed(_) => ("failed", None),
    };
    let failed = match &conclusion.ended {
        Ended::Failed(error) => Some(error),
        _ => conclusion.unrestored.as_ref(),
    };
    let program = |(name, effect)| Program { name, effect: Figures::from(effect) };
    Document {
        ended,
        against: arguments.against.map(PlacerName::name),
        harmed,
        error: failed.map(ToString::to_string),
        over: match &conclusion.ended {
            Ended::Over(what) => Some(what.clone()),
            _ => None,
        },
        confidence_percent: arguments.confidence,
        pairs: conclusion.experiment.pairs(),
        elapsed_seconds: round(conclusion.elapsed.as_secs_f64(), 3),
        needed_seconds: conclusion.needed.map(seconds),
        needed_until: conclusion.needed.map(|needed| needed.until),
        cpus_busy_share: load.map(|load| round(load.others_share, 6)),
        cpus_stolen_share: load.map(|load| round(load.stolen_share, 6)),
        overall: conclusion.experiment.overall().into(),
        programs: conclusion.experiment.programs().into_iter().map(program).collect(),
    }
}
