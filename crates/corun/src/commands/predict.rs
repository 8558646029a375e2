//! `corun predict`: the slowdowns of a given placement.

use corun_compare::{Placement, Proof, Scenario, given, library, machine};
use corun_optimal::Objective;

use super::placement::write;
use crate::cli::{PredictArgs, model_options};
use crate::failure::Outcome;

pub(super) fn run(arguments: &PredictArgs) -> Outcome<String> {
    let programs = &arguments.programs;
    let machine = machine(&programs.machine)?;
    let places = given(&machine, programs.apps.len(), &arguments.place)?;
    let library = library(programs.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    let objective = Objective::MeanSlowdown;
    let placement = Placement::new(&scenario, &places, None, objective, Proof::default());
    write(&placement, arguments.format)
}
