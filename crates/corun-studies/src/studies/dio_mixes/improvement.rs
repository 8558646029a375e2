//! DIO against the default scheduler, run by run: Fig. 7 and 8 (four programs), 10 to 12 (eight).

use corun_app::Result;
use corun_report::signed;
use corun_sim::AppSpec;

use super::MIXES;
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::simulate::{AgainstDefault, TunedPolicy, against_default, apps, by_seed, model_of};

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
pub(super) fn improvements(inputs: &StudyInputs) -> Result<(Vec<PaperClaim>, Vec<Figure>)> {
    let all = SETTINGS.iter().map(|setting| Improvement::new(inputs, setting));
    let all = all.collect::<Result<Vec<Improvement>>>()?;
    Ok((
        all.iter().map(Improvement::finding).collect(),
        all.iter().map(Improvement::figure).collect(),
    ))
}

impl Improvement {
    fn new(inputs: &StudyInputs, setting: &'static Setting) -> Result<Self> {
        let model = model_of(setting.machine)?;
        let mut mixes = Vec::new();
        for mix in &MIXES {
            let once = apps(&model, inputs.spec()?, mix)?;
            let count = once.len() * setting.copies;
            let all: Vec<AppSpec> = once.into_iter().cycle().take(count).collect();
            let default = by_seed(inputs, &model, &all, TunedPolicy::plain("linux-default"))?;
            let dio = by_seed(inputs, &model, &all, TunedPolicy::plain("dio-2010"))?;
            let of = |app: usize| against_default(&default, &dio, app..app + 1).worst_gain;
            let most = (0..count).map(of).fold(f64::NEG_INFINITY, f64::max);
            mixes.push((against_default(&default, &dio, 0..count), most));
        }
        Ok(Self { setting, mixes })
    }

    fn heading(&self) -> String {
        let Setting { machine, figures, .. } = self.setting;
        format!("DIO against the default scheduler on {machine} ({figures})")
    }

    fn finding(&self) -> PaperClaim {
        let means = || self.mixes.iter().map(|(all, _)| all.mean_gain);
        let most = self.mixes.iter().map(|(_, most)| *most).fold(f64::NEG_INFINITY, f64::max);
        let (least_mean, most_mean) =
            (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
        PaperClaim::new(
            self.heading(),
            self.setting.paper,
            format!(
                "{} to {} % on average; a program's worst run up to {} %",
                signed(least_mean, 1),
                signed(most_mean, 1),
                signed(most, 0)
            ),
        )
    }

    fn figure(&self) -> Figure {
        let mixes: Vec<_> = MIXES.iter().zip(&self.mixes).enumerate().collect();
        let about = "Over seeds, in %: gain in mean completion time, in the longest, in the longest of \
                     the program that gains most; and the times' standard deviation under the \
                     default and under DIO.";
        Figure::new(format!("{}-runs", self.setting.machine), self.heading(), about)
            .rows("programs", &mixes, |(_, (mix, _))| mix.join(", "))
            .labelled(|(place, _)| (place + 1).to_string())
            .column("mean", 1, |(_, (_, of))| of.0.mean_gain)
            .drawn("mean")
            .column("worst", 1, |(_, (_, of))| of.0.worst_gain)
            .drawn("worst run")
            .column("worst, one program", 1, |(_, (_, of))| of.1)
            .column("deviation, default", 1, |(_, (_, of))| of.0.default_deviation)
            .column("deviation, DIO", 1, |(_, (_, of))| of.0.deviation)
            .bars(0.0, "% gained by DIO")
    }
}
