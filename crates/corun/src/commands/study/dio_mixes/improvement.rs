//! DIO against the default scheduler, run by run: Fig. 7 and 8 (four programs), 10 to 12 (eight).

use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::preset;
use corun_model::{Model, ModelOptions};
use corun_sim::AppSpec;

use super::MIXES;
use crate::commands::study::paper::Ground;
use crate::commands::study::runs::{AgainstDefault, Asked, against_default, apps, by_seed};
use crate::failure::Outcome;
use crate::output::round;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

/// A machine, how often each program of a mix runs on it, the paper's figures, and what it has.
struct Setting {
    machine: &'static str,
    copies: usize,
    figures: &'static str,
    paper: &'static str,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        machine: "xeon-x5365-2llc",
        copies: 1,
        figures: "Fig. 7 and 8",
        paper: "worst runs of single programs up to twice as fast",
    },
    Setting {
        machine: "xeon-x5365",
        copies: 2,
        figures: "Fig. 10 to 12, Intel",
        paper: "up to 13 % better, at most 4 % worse on average",
    },
    Setting {
        machine: "opteron-2350",
        copies: 2,
        figures: "Fig. 10 to 12, AMD",
        paper: "up to 13 % better, at most 4 % worse on average",
    },
];

struct Improvement {
    setting: &'static Setting,
    /// By mix: all its programs, and the greatest gain of one program's worst run in %.
    mixes: Vec<(AgainstDefault, f64)>,
}

/// The findings and the figures.
pub(super) fn improvements(ground: &Ground) -> Outcome<(Vec<Finding>, Vec<StudyFigure>)> {
    let all = SETTINGS
        .iter()
        .map(|setting| Improvement::new(ground, setting))
        .collect::<Outcome<Vec<Improvement>>>()?;
    Ok((
        all.iter().map(Improvement::finding).collect(),
        all.iter().map(Improvement::figure).collect(),
    ))
}

impl Improvement {
    fn new(ground: &Ground, setting: &'static Setting) -> Outcome<Self> {
        let machine = Arc::new(preset(setting.machine).map_err(|error| anyhow!(error))?);
        let model = Arc::new(Model::new(machine, ModelOptions::default())?);
        let mut mixes = Vec::new();
        for mix in &MIXES {
            let once = apps(&model, ground.spec()?, mix)?;
            let count = once.len() * setting.copies;
            let all: Vec<AppSpec> = once.into_iter().cycle().take(count).collect();
            let default = by_seed(ground, &model, &all, Asked::plain("linux-default"))?;
            let dio = by_seed(ground, &model, &all, Asked::plain("dio"))?;
            let of = |app: usize| against_default(&default, &dio, app..app + 1).worst_gain;
            let most = (0..count).map(of).fold(f64::NEG_INFINITY, f64::max);
            mixes.push((against_default(&default, &dio, 0..count), most));
        }
        Ok(Self { setting, mixes })
    }

    fn finding(&self) -> Finding {
        let means = || self.mixes.iter().map(|(all, _)| all.mean_gain);
        let most = self.mixes.iter().map(|(_, most)| *most).fold(f64::NEG_INFINITY, f64::max);
        Finding {
            what: format!(
                "DIO against the default scheduler on {} ({})",
                self.setting.machine, self.setting.figures
            ),
            paper: self.setting.paper.to_owned(),
            ours: format!(
                "{:+.1} to {:+.1} % on average; a program's worst run up to {:+.0} %",
                round(means().fold(f64::INFINITY, f64::min), 1),
                round(means().fold(f64::NEG_INFINITY, f64::max), 1),
                round(most, 0)
            ),
            difference: if self.setting.machine == "opteron-2350" {
                "A program's memory stays on the node where it first ran, so that every move between the \
                 nodes costs; the paper leaves NUMA aside."
            } else {
                ""
            }
            .to_owned(),
        }
    }

    fn figure(&self) -> StudyFigure {
        let rows = MIXES.iter().zip(&self.mixes).map(|(mix, (all, most))| {
            let figures =
                [all.mean_gain, all.worst_gain, *most, all.default_deviation, all.deviation];
            let cells = figures.map(|one| format!("{:.1}", round(one, 1)));
            std::iter::once(mix.join(", ")).chain(cells).collect()
        });
        let series = |name: &str, of: &dyn Fn(&(AgainstDefault, f64)) -> f64| {
            (name.to_owned(), self.mixes.iter().map(|mix| Some(of(mix))).collect())
        };
        StudyFigure {
            id: format!("{}-runs", self.setting.machine),
            heading: format!(
                "DIO against the default scheduler on {} ({})",
                self.setting.machine, self.setting.figures
            ),
            about: "Over seeds, in %: gain in mean completion time, in the longest, in the longest of the program \
                    that gains most; and the times' standard deviation under the default and under DIO."
                .to_owned(),
            chart: Some(Chart {
                kind: ChartKind::BarsFrom(0.0),
                across: "mix".to_owned(),
                upwards: "% gained by DIO".to_owned(),
                labels: (1..=MIXES.len()).map(|mix| mix.to_string()).collect(),
                series: vec![
                    series("mean", &|mix| mix.0.mean_gain),
                    series("worst run", &|mix| mix.0.worst_gain),
                ],
            }),
            header: strings(&[
                "programs",
                "mean",
                "worst",
                "worst, one program",
                "deviation, default",
                "deviation, DIO",
            ]),
            rows: rows.collect(),
        }
    }
}
