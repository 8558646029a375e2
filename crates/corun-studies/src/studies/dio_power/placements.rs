//! Table V: what ten placements of four programs draw above idle.

use std::sync::Arc;

use corun_app::{Error, Result};
use corun_model::Model;
use corun_policy::Nanoseconds;
use corun_profile::{Library, Method};
use corun_sim::{Experiment, Hooks, run_pinned};

use crate::simulate::apps;

/// One package, both LLCs of it full; or a core of every LLC.
const PACKED: [usize; 4] = [0, 1, 2, 3];
const SPREAD: [usize; 4] = [0, 2, 4, 6];

/// Programs in the order of the CPUs, the CPUs, and the paper's watts above idle. Of the figures that
/// are garbled in the paper's text, 76, 90 and 171 follow from what it says of them in words.
const PLACEMENTS: [([&str; 4], [usize; 4], f64); 10] = [
    (["namd06", "namd06", "namd06", "namd06"], PACKED, 76.0),
    (["namd06", "namd06", "namd06", "namd06"], SPREAD, 94.0),
    (["mcf06", "namd06", "mcf06", "namd06"], PACKED, 90.0),
    (["mcf06", "mcf06", "namd06", "namd06"], PACKED, 94.0),
    (["mcf06", "mcf06", "namd06", "namd06"], SPREAD, 126.0),
    (["mcf06", "namd06", "mcf06", "namd06"], SPREAD, 171.0),
    (["milc06", "povray06", "milc06", "povray06"], PACKED, 104.0),
    (["milc06", "milc06", "povray06", "povray06"], PACKED, 101.0),
    (["milc06", "milc06", "povray06", "povray06"], SPREAD, 149.0),
    (["milc06", "povray06", "milc06", "povray06"], SPREAD, 154.0),
];

/// Long enough for all caches to be full.
const WINDOW: Nanoseconds = Nanoseconds(10_000_000_000);

/// A placement of four programs, with the watts above idle that it draws.
pub(super) struct Placed {
    pub(super) programs: String,
    pub(super) paper_w: f64,
    pub(super) ours_w: f64,
}

pub(super) fn placed(model: &Arc<Model>, spec: &Library) -> Result<Vec<Placed>> {
    let one = |&(programs, cpus, paper_w): &([&str; 4], [usize; 4], f64)| {
        let apps = apps(model, spec, &programs)?;
        let mut experiment = Experiment::new(model.clone(), apps, Method::Window, 1);
        experiment.settings.window = WINDOW;
        let result = run_pinned(&experiment, &cpus, Hooks::default())?;
        let ours_w = result
            .power_w()
            .ok_or_else(|| Error::input("the machine file has no power figures"))?;
        let where_to = if cpus == PACKED { "one package" } else { "a core of every LLC" };
        Ok(Placed { programs: format!("{}; {where_to}", programs.join(", ")), paper_w, ours_w })
    };
    PLACEMENTS.iter().map(one).collect()
}
