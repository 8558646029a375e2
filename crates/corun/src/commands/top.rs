//! `corun top`: who sits where now, or in a recording, what they do, and what a policy would do about it. It
//! only looks.

use std::io::IsTerminal as _;

use corun_app::tell;
use corun_top::{COUNTERS, Frame, Replay, ReplaySettings, Top};

use super::watching::{Asked, watch};
use crate::cli::{TableFormat, TopArgs};
use crate::failure::{Failure, Outcome};

/// Programs and threads in the tables of `--once` where nobody was named.
const BUSIEST: usize = 20;

pub(super) fn run(arguments: &TopArgs) -> Outcome<String> {
    let in_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !arguments.once && !in_terminal {
        return Err(Failure::input("the live view needs a terminal, and there is none here")
            .hint("corun top --once, which prints what one interval shows"));
    }
    if let Some(path) = &arguments.replay {
        let settings = ReplaySettings {
            policy: arguments.policy.clone(),
            seed: arguments.seed,
            at_s: arguments.at,
            from_end: arguments.once,
        };
        let mut replay = Replay::new(path, settings)?;
        if arguments.once {
            return written(&replay.first()?, replay.interval_s(), arguments.format, None);
        }
        replay.show()?;
        return Ok(String::new());
    }
    let mut top = Top::new(watch(&Asked {
        targets: &arguments.targets,
        figures: &arguments.figures,
        policy: arguments.policy.as_deref(),
        seed: arguments.seed,
        counters: COUNTERS.to_vec(),
        out_of_sight: true,
        act: false,
        journals: None,
        else_all: true,
    })?);
    if arguments.once {
        let interval_s = arguments.figures.interval;
        let frame = top.once(interval_s)?;
        let most = (!arguments.targets.is_given()).then_some(BUSIEST);
        if frame.is_empty() {
            tell("note: no process is what was asked for now");
        }
        return written(&frame, interval_s, arguments.format, most);
    }
    top.show()?;
    Ok(String::new())
}

/// A frame in a format; a table with so many lines at most.
fn written(
    frame: &Frame,
    interval_s: f64,
    format: TableFormat,
    most: Option<usize>,
) -> Outcome<String> {
    match format {
        TableFormat::Table => Ok(frame.table(most)),
        TableFormat::Json => frame.json(interval_s),
        TableFormat::Csv => frame.csv(),
    }
}
