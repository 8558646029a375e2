//! `corun partition`: who shares which ways of an LLC, by a policy, as given, or the best there is.

use corun_app::{PartitionRequest, PartitionScenario, open_library};
use corun_views::partition::{PartitionPage, csv, table};

use crate::cli::{PartitionArgs, TableFormat, model_options};
use crate::failure::Outcome;
use corun_app::Cancel;
use corun_report::{check_target, json, write_file};

pub(super) fn run(arguments: &PartitionArgs) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let asked = asked(arguments);
    asked.check()?;
    let scenario = PartitionScenario::new(
        super::predicted_machine(&arguments.machine)?,
        || open_library(arguments.library.profiles.as_deref()),
        &arguments.apps,
        model_options(&arguments.model),
        arguments.ways,
        arguments.min_ways,
    )?;
    let cancel = Cancel::on_signal()?;
    let document = asked.answer(&scenario, cancel.flag())?;
    let text = match arguments.format {
        TableFormat::Table => table(&document),
        TableFormat::Json => json(&document)?,
        TableFormat::Csv => csv(&document)?,
    };
    cancel.check()?;
    if let Some(path) = &arguments.report {
        let command = super::command_line();
        let page =
            PartitionPage { document: &document, curves: &scenario.curves, command: &command };
        write_file(path, page.render().as_bytes())?;
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
        target_slowdown: arguments.target_slowdown,
        pareto: arguments.pareto,
        set: arguments.set.clone(),
        seed: arguments.seed,
    }
}
