//! The result for people.

use std::time::Duration;

use corun_linux::Noise;
use corun_live::ab::{Conclusion, Done, Effect, Ended, HarmKind, PairProgress, least_pairs};

use super::unclear::{Unclear, is_unclear};
use crate::cli::AbArgs;
use corun_report::{Columns, counted};

pub(super) fn text(conclusion: &Conclusion, load: Option<Noise>, arguments: &AbArgs) -> String {
    let experiment = &conclusion.experiment;
    let overall = experiment.overall();
    let cell = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), percent);
    let programs = experiment.programs();
    let mut rows: Vec<(&str, &Effect)> =
        programs.iter().map(|(name, effect)| (name.as_ref(), effect)).collect();
    if programs.len() != 1 {
        rows.push(("all together", &overall));
    }
    let mut text = Columns::of(&rows)
        .left("program", |(name, _)| (*name).to_owned())
        .right("effect", |(_, effect)| cell(effect.percent))
        .right("from", |(_, effect)| cell(effect.low))
        .right("to", |(_, effect)| cell(effect.high))
        .right("pairs", |(_, effect)| effect.pairs)
        .table();
    text.push_str(&format!(
        "\n{}\nmeasured for {}, {} of blocks; from .. to: {} % sure\n",
        said(conclusion, &overall, arguments),
        time(conclusion.elapsed),
        counted(experiment.pairs(), "pair"),
        arguments.confidence,
    ));
    if let Some(against) = arguments.against {
        text.push_str(&format!("compared with the policy by {}\n", against.name()));
    }
    if let Some(needed) = conclusion.needed {
        let goal = goal(needed.until, arguments.precision);
        text.push_str(&format!("{goal}: {} more\n", time(needed.time)));
    }
    let collapsed =
        matches!(&conclusion.ended, Ended::Harm(harm) if harm.kind == HarmKind::Collapse);
    let is_settled = matches!(conclusion.ended, Ended::Done(_) | Ended::Harm(_)) && !collapsed;
    if is_unclear(&overall) && !is_settled {
        let unclear = Unclear {
            collapsed,
            pairs: experiment.pairs(),
            least_pairs: least_pairs(1.0 - arguments.confidence / 100.0),
            elapsed: conclusion.elapsed,
            needed: conclusion.needed,
            precision_percent: arguments.precision,
            block_s: arguments.block,
            load,
        };
        text.push_str(&unclear.advice());
    }
    text
}

/// Why it ended, and what is known.
fn said(conclusion: &Conclusion, overall: &Effect, arguments: &AbArgs) -> String {
    let ended = match &conclusion.ended {
        Ended::Done(Done::Precise) => {
            format!("The effect is known to {} % to either side.", arguments.precision)
        }
        Ended::Done(Done::Clear) => "The sign of the effect is clear.".to_owned(),
        Ended::Harm(harm) => match harm.kind {
            HarmKind::Loss => {
                format!("Stopped: {} surely loses more than {} %.", harm.program, arguments.harm)
            }
            HarmKind::Collapse => format!(
                "Stopped at once: {} lost more than {} % in a block.",
                harm.program, arguments.collapse
            ),
        },
        Ended::Time => "The time is up.".to_owned(),
        Ended::Over(what) => format!("{what}; this is what was known by then."),
        Ended::Interrupted => "Interrupted; this is what is known so far.".to_owned(),
        Ended::Failed(_) => "Something failed; this is what was known by then.".to_owned(),
    };
    let good = if arguments.less_is_better { "less is better" } else { "more is better" };
    let verdict = match (overall.low, overall.high) {
        (Some(low), _) if low > 0.0 => format!("It raises the metrics ({good})."),
        (_, Some(high)) if high < 0.0 => format!("It lowers the metrics ({good})."),
        (Some(low), Some(high)) => format!(
            "Whether it helps or harms is not clear: it is between {} and {}.",
            percent(low),
            percent(high)
        ),
        _ => "Nothing is sure yet.".to_owned(),
    };
    format!("{ended} {verdict}")
}

fn percent(value: f64) -> String {
    format!("{value:+.1} %")
}

/// `+3.1 % (-0.5 % .. +6.2 %)`.
pub(super) fn effect(effect: &Effect) -> String {
    let Some(middle) = effect.percent else { return "nothing known".to_owned() };
    match (effect.low, effect.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} .. {})", percent(middle), percent(low), percent(high))
        }
        (Some(low), None) => format!("{} (above {})", percent(middle), percent(low)),
        (None, Some(high)) => format!("{} (below {})", percent(middle), percent(high)),
        (None, None) => format!("{} (not sure yet)", percent(middle)),
    }
}

/// What is told before the first block: nothing else is for a whole pair of blocks.
pub(super) fn beginning(pair: Duration, least_pairs: usize, longest_s: f64) -> String {
    format!(
        "on and off by turns: a pair of blocks takes {} on average, and nothing is sure before {least_pairs} of them; it \
         ends with the block in which {} are over, or with Ctrl-C",
        time(pair),
        time(Duration::from_secs_f64(longest_s))
    )
}

/// What is known after a pair of blocks, and how much longer it takes.
pub(super) fn pair(progress: &PairProgress, precision_percent: f64, longest_s: f64) -> String {
    let PairProgress { pairs, overall, elapsed, needed, .. } = progress;
    let known = format!("pair {pairs}: {}", effect(overall));
    let Some(needed) = needed else { return format!("{known}, cannot tell yet how long it takes") };
    let goal = goal(needed.until, precision_percent);
    let left = Duration::from_secs_f64(longest_s).saturating_sub(*elapsed);
    let cut = if needed.time > left {
        format!("; --longest leaves {}", time(left))
    } else {
        String::new()
    };
    format!("{known}, {} more {goal}{cut}", time(needed.time))
}

/// What an experiment goes on for.
pub(super) fn goal(until: Done, precision_percent: f64) -> String {
    match until {
        Done::Precise => format!("to know it to {precision_percent} %"),
        Done::Clear => "until its sign is clear".to_owned(),
    }
}

/// A time as people say it.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use corun_live::ab::NeededTime;

    use super::*;

    #[test]
    fn before_the_first_pair_it_is_said_how_long_one_takes() {
        assert_eq!(
            beginning(Duration::from_secs(50), 6, 3600.0),
            "on and off by turns: a pair of blocks takes 50 s on average, and nothing is sure before 6 of them; it ends \
             with the block in which 60 min are over, or with Ctrl-C"
        );
    }

    #[test]
    fn after_a_pair_it_is_said_how_long_it_takes_and_what_cuts_it_short() {
        let needed = |seconds, until| NeededTime { time: Duration::from_secs(seconds), until };
        let at = |elapsed_s, needed| PairProgress {
            pairs: 5,
            overall: Effect { percent: Some(89.8), low: None, high: None, pairs: 5 },
            programs: Vec::new(),
            elapsed: Duration::from_secs(elapsed_s),
            needed,
        };
        let said = |elapsed_s, needed| pair(&at(elapsed_s, needed), 2.0, 3600.0);
        let known = "pair 5: +89.8 % (not sure yet), ";
        for (elapsed_s, needed, expected) in [
            (40, None, "cannot tell yet how long it takes"),
            (40, Some(needed(8, Done::Clear)), "8 s more until its sign is clear"),
            (40, Some(needed(600, Done::Precise)), "10 min more to know it to 2 %"),
            (
                3500,
                Some(needed(6900, Done::Precise)),
                "115 min more to know it to 2 %; --longest leaves 100 s",
            ),
        ] {
            assert_eq!(said(elapsed_s, needed), [known, expected].concat());
        }
    }

    #[test]
    fn effects_and_times_read_well() {
        let known = Effect { percent: Some(3.12), low: Some(-0.5), high: Some(6.2), pairs: 9 };
        assert_eq!(effect(&known), "+3.1 % (-0.5 % .. +6.2 %)");
        assert_eq!(effect(&Effect { high: None, ..known }), "+3.1 % (above -0.5 %)");
        let times = [30, 600, 9000, 200_000].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(times, ["30 s", "10 min", "2.5 h", "2.3 days"]);
    }
}
