//! What makes an effect clearer, where an experiment ends before anything is clear.

use std::fmt::Write as _;
use std::time::Duration;

use corun_linux::Noise;
use corun_live::ab::{Effect, NeededTime};

use super::text::{goal, time};

/// The share of the CPUs' time from which on what runs beside hides effects.
const BUSY: f64 = 0.5;
/// How much longer blocks are that even out load which comes and goes.
const LONGER_BLOCKS: f64 = 3.0;

/// Is it open whether the effect is above or below zero?
pub(super) fn is_unclear(overall: &Effect) -> bool {
    let surely_up = overall.low.is_some_and(|low| low > 0.0);
    let surely_down = overall.high.is_some_and(|high| high < 0.0);
    !surely_up && !surely_down
}

/// An experiment that ended with its effect unclear.
pub(super) struct Unclear {
    /// Was it one bad block of a program that ended it?
    pub(super) collapsed: bool,
    /// Pairs of blocks that are over.
    pub(super) pairs: usize,
    /// Pairs before which nothing is sure.
    pub(super) least_pairs: usize,
    /// How long it took.
    pub(super) elapsed: Duration,
    /// How much longer it would take until it is done, as far as can be told.
    pub(super) needed: Option<NeededTime>,
    /// The wanted precision.
    pub(super) precision_percent: f64,
    /// Mean length of a block.
    pub(super) block_s: f64,
    /// What the CPUs did meanwhile, where the kernel tells.
    pub(super) load: Option<Noise>,
}

impl Unclear {
    /// A list for people; empty where there is nothing to advise.
    pub(super) fn advice(&self) -> String {
        let load = self.load.filter(|load| load.others_share + load.stolen_share >= BUSY);
        let first = match (self.collapsed, load) {
            (false, _) => format!("a longer run    {}", self.longer_run()),
            (true, Some(_)) => {
                "going on        --collapse 100: others' load alone can halve a program for a block"
                    .to_owned()
            }
            (true, None) => return String::new(),
        };
        let mut text = format!("\nWhat makes it clearer\n  {first}\n");
        let Some(load) = load else { return text };
        let busy = 100.0 * load.others_share;
        let stolen = match 100.0 * load.stolen_share {
            percent if percent >= 1.0 => format!("; the host took {percent:.0} %"),
            _ => String::new(),
        };
        let block = round_up(LONGER_BLOCKS * self.block_s);
        let _ = writeln!(
            text,
            "  fewer others    the CPUs were {busy:.0} % busy, with what is measured{stolen}\n  \
             longer blocks   --block {block}, where load comes and goes",
        );
        text
    }

    fn longer_run(&self) -> String {
        let Self { pairs, least_pairs, precision_percent, .. } = self;
        match self.needed {
            Some(needed) => {
                let longest = round_up((self.elapsed + needed.time).as_secs_f64());
                let goal = goal(needed.until, *precision_percent);
                format!("--longest {longest}: {} more, {goal}", time(needed.time))
            }
            None if pairs < least_pairs => {
                format!("nothing is sure before {least_pairs} pairs of blocks; there were {pairs}")
            }
            None => "how much longer cannot be told yet".to_owned(),
        }
    }
}

/// To a number that people would write: two figures.
fn round_up(seconds: f64) -> f64 {
    let step = 10f64.powf((seconds.max(1.0).log10().floor() - 1.0).max(0.0));
    (seconds / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use corun_live::ab::Done;

    use super::*;

    #[test]
    fn seconds_are_rounded_up_to_two_figures() {
        let found = [0.3, 7.2, 61.0, 99.5, 2180.0].map(round_up);
        assert_eq!(found, [1.0, 8.0, 61.0, 100.0, 2200.0]);
    }

    #[test]
    fn an_effect_is_clear_on_one_side_of_zero_alone() {
        let of = |low, high| Effect { percent: Some(1.0), low, high, pairs: 9 };
        assert!(is_unclear(&of(Some(-1.0), Some(2.0))));
        assert!(is_unclear(&of(None, None)));
        assert!(!is_unclear(&of(Some(0.1), None)));
        assert!(!is_unclear(&of(None, Some(-0.1))));
    }

    #[test]
    fn load_is_named_where_there_is_some() {
        let of = |others_share, stolen_share| Unclear {
            collapsed: false,
            pairs: 10,
            least_pairs: 6,
            elapsed: Duration::from_secs(80),
            needed: Some(NeededTime { time: Duration::from_secs(2100), until: Done::Precise }),
            precision_percent: 2.0,
            block_s: 20.0,
            load: Some(Noise { others_share, stolen_share }),
        };
        let quiet = "\nWhat makes it clearer\n  \
                     a longer run    --longest 2200: 35 min more, to know it to 2 %\n";
        assert_eq!(of(0.3, 0.1).advice(), quiet);
        let loaded = "  fewer others    the CPUs were 97 % busy, with what is measured; the host took 2 %\n  \
                      longer blocks   --block 60, where load comes and goes\n";
        assert_eq!(of(0.97, 0.02).advice(), [quiet, loaded].concat());
        let collapsed = |share| Unclear { collapsed: true, ..of(share, 0.0) }.advice();
        assert_eq!(collapsed(0.3), "");
        assert!(collapsed(0.9).contains("  going on        --collapse 100: others' load"));
        let early = Unclear { pairs: 3, needed: None, ..of(0.97, 0.0) }.advice();
        assert!(
            early.contains("nothing is sure before 6 pairs of blocks; there were 3\n"),
            "{early}"
        );
        assert!(early.contains("the CPUs were 97 % busy, with what is measured\n"), "{early}");
    }
}
