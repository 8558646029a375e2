//! `corun partition`: who shares which ways of an LLC, by a policy, as given, or the best there is.

mod to_report;
mod view;

use corun_app::{PartitionRequest, PartitionScenario, find_machine, open_library};

use crate::cli::{PartitionArgs, model_options};
use crate::failure::Outcome;
use crate::output::{check_target, write_file};
use corun_app::Cancel;

pub(super) fn run(arguments: &PartitionArgs) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let asked = asked(arguments);
    asked.check()?;
    let ground = PartitionScenario::new(
        find_machine(&arguments.machine)?,
        || open_library(arguments.profiles.as_deref()),
        &arguments.apps,
        model_options(&arguments.model),
        arguments.ways,
        arguments.min_ways,
    )?;
    let cancel = Cancel::on_signal()?;
    let document = asked.answer(&ground, cancel.flag())?;
    let text = view::write(&document, arguments.format)?;
    cancel.check()?;
    if let Some(path) = &arguments.report {
        write_file(path, to_report::report(&document, &ground).render().as_bytes())?;
    }
    Ok(text)
}

fn asked(arguments: &PartitionArgs) -> PartitionRequest {
    PartitionRequest {
        masks: arguments.masks.clone(),
        policy: arguments.policy.clone(),
        allow_overlap: arguments.allow_overlap,
        cluster: arguments.cluster,
        all: arguments.all,
        objective: arguments.objective.objective(),
        time_limit_s: arguments.time_limit,
        set: arguments.set.clone(),
        seed: arguments.seed,
    }
}
