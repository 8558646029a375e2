//! The times of an earlier run, out of its JSON document: other models of the same machine can be held
//! against them without running anything.

use std::path::Path;

use corun_app::{Error, Result};
use corun_calibrate::NeighbourUse;
use corun_input::json_in_words;
use corun_linux::Noise;
use serde::Deserialize;

use crate::{
    CacheUse, ClockUse, CoreUse, Estimate, Measured, MeasuredGroup, MeasuredSolo, ProgramGroup,
    RoundPlan,
};

/// An earlier run: what is read of its document.
#[derive(Debug, Deserialize)]
pub struct EarlierRun {
    rounds: usize,
    load: Noise,
    core: CoreUse,
    /// Documents of earlier versions know none.
    #[serde(default)]
    cache: CacheUse,
    /// Documents of earlier versions know none.
    clock: Option<ClockUse>,
    neighbours: Option<NeighbourUse>,
    alone: Vec<Solo>,
    groups: Vec<Members>,
}

#[derive(Debug, Deserialize)]
struct Solo {
    name: String,
    measured_s: Estimate,
    had_core: bool,
    /// Documents of earlier versions know none.
    #[serde(default)]
    from_shared_runs: bool,
}

#[derive(Debug, Deserialize)]
struct Members {
    members: Vec<Member>,
    /// Documents of earlier versions know none.
    #[serde(default)]
    further_rounds: usize,
}

#[derive(Debug, Deserialize)]
struct Member {
    name: String,
    measured_slowdown: Estimate,
}

impl EarlierRun {
    /// Reads what `corun validate --format json` printed.
    ///
    /// # Errors
    /// Bad input where it is no such document.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::input(format!("{}: {error}", path.display())))?;
        serde_json::from_str(&text).map_err(|error| {
            let (line, why) = (error.line(), json_in_words(&error));
            let why = format!("{}:{line}: no document of corun validate: {why}", path.display());
            Error::input(why).hint("what corun validate --format json prints")
        })
    }

    /// The programs that were timed.
    pub fn names(&self) -> Vec<String> {
        self.alone.iter().map(|one| one.name.clone()).collect()
    }

    /// Of these programs, what was measured; groups with others are left out.
    pub fn measured(&self, names: &[String]) -> (RoundPlan, Measured, Noise) {
        let place = |name: &str| names.iter().position(|one| one == name);
        let solo = |name: &String| {
            let one = self.alone.iter().find(|one| &one.name == name)?;
            let &Solo { measured_s: cpu_s, had_core, from_shared_runs, .. } = one;
            Some(MeasuredSolo { cpu_s, had_core, from_shared_runs })
        };
        let of_known = self.groups.iter().filter_map(|group| {
            let members = group.members.iter().map(|one| place(&one.name));
            let slowdowns = group.members.iter().map(|one| one.measured_slowdown).collect();
            let further_rounds = group.further_rounds;
            let measured = MeasuredGroup { slowdowns, further_rounds };
            Some((members.collect::<Option<ProgramGroup>>()?, Some(measured)))
        });
        let (groups, of_groups) = of_known.unzip();
        let plan = RoundPlan { rounds: self.rounds, groups, ..RoundPlan::default() };
        let solo = names.iter().map(solo).collect();
        let measured = Measured {
            rounds: self.rounds,
            core: self.core,
            clock: self.clock,
            cache: self.cache,
            neighbours: self.neighbours.clone(),
            solo,
            groups: of_groups,
            left_out: Vec::new(),
        };
        (plan, measured, self.load)
    }
}
