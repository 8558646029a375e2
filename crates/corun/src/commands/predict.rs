//! `corun predict`: the slowdowns of a given placement.

use corun_machine::CpuId;

use super::placement::{Placement, Proof};
use crate::cli::{ObjectiveName, PredictArgs};
use crate::failure::{Failure, Outcome};
use crate::scenario::{Scenario, library, machine, model_options};

pub(super) fn run(arguments: &PredictArgs) -> Outcome<String> {
    let programs = &arguments.programs;
    let (apps, cpus) = (programs.apps.len(), arguments.place.len());
    if apps != cpus {
        return Err(Failure::input(format!(
            "--place names {cpus} CPUs for {apps} programs: expected one CPU a program"
        )));
    }
    let machine = machine(&programs.machine)?;
    let mut places = Vec::with_capacity(cpus);
    for &number in &arguments.place {
        let cpu = machine.cpu_index(CpuId(number)).ok_or_else(|| {
            let known = machine.cpu_set();
            Failure::input(format!("--place: {} has no CPU {number}", machine.name()))
                .hint(format!("CPUs {known}"))
        })?;
        if places.contains(&cpu) {
            let message = format!("--place: CPU {number} stands twice");
            return Err(
                Failure::input(message).hint("corun compare, where CPUs are shared in time")
            );
        }
        places.push(cpu);
    }
    let library = library(programs.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    let placement = Placement::new(&scenario, &places, None, ObjectiveName::Antt, Proof::default());
    placement.write(arguments.format)
}
