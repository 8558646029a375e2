//! `corun place`: one placement, by a policy or a search.

use corun_compare::{Placer, Scenario, library, machine};

use super::placement::write;
use crate::cancel::Cancel;
use crate::cli::{PlaceArgs, model_options};
use crate::failure::Outcome;

pub(super) fn run(arguments: &PlaceArgs) -> Outcome<String> {
    let placer = Placer::named(&arguments.policy, arguments.seed, arguments.time_limit)?;
    let programs = &arguments.programs;
    let machine = machine(&programs.machine)?;
    let library = library(programs.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    scenario.one_cpu_each()?;
    let cancel = Cancel::on_signal()?;
    let objective = arguments.objective.objective();
    write(&placer.place(&scenario, objective, cancel.flag())?, arguments.format)
}
