//! `corun predict`: the slowdowns of a given placement.

use corun_app::{
    PlacementDocument, Scenario, SearchProof, find_machine, open_library, placement_cpus,
};
use corun_optimal::Objective;

use super::placement::write;
use crate::cli::{PredictArgs, model_options};
use crate::failure::Outcome;

pub(super) fn run(arguments: &PredictArgs) -> Outcome<String> {
    let programs = &arguments.programs;
    let machine = find_machine(&programs.machine)?;
    let places = placement_cpus(&machine, programs.apps.len(), &arguments.place)?;
    let library = open_library(programs.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    let objective = Objective::MeanSlowdown;
    let placement =
        PlacementDocument::new(&scenario, &places, None, objective, SearchProof::default());
    write(&placement, arguments.format)
}
