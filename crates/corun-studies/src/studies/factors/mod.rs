//! Where degradation comes from: Blagodurov, Zhuravlev and Fedorova, ACM TOCS 28(4), 2010, section 3
//! and appendix A. A program runs alone, then beside an interfering one ever closer to it; what each
//! step adds is the doing of what they share from there on.

mod chips;
mod figures;
mod nodes;

use std::sync::Arc;

use clap::Args;
use corun_app::{Cancel, Result, find_machine};
use corun_machine::{Machine, preset};
use corun_model::{BandwidthModel, LoadedProgram, Member, Model, ModelOptions, Running, Scratch};
use corun_profile::{Library, Profile};

use crate::harness::{Page, Programs, Study, StudyInputs};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "factors",
    summary: "What cache, bus, memory controller, link and prefetch add to degradation (DIO, section 3)",
    programs: Programs::BuiltInAndSpec,
    seeds: None,
    has_quick: true,
    options: FactorsArgs::augment_args,
    page,
    explained_in: "docs/studies/dio.md",
};

/// Its own options.
#[derive(Debug, Args)]
struct FactorsArgs {
    /// A preset, a machine file or `this`, instead of the paper's two machines
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
}

/// The paper's machines.
const MACHINES: [&str; 2] = ["xeon-x5365", "opteron-2350"];

/// Whose programs, and what runs beside them: the paper's milc, or the recorded program that misses
/// most often.
struct Cast<'a> {
    id: &'static str,
    library: &'a Library,
    /// Which of the library's programs, and the step through these.
    of: fn(&str) -> bool,
    step: usize,
    interfering: &'static str,
    /// What the interfering program runs beside.
    its_neighbour: &'static str,
    /// Set when the user wants to stop.
    cancel: &'a Cancel,
}

/// Programs shown, those that degrade most, as in the paper.
const SHOWN: usize = 6;

/// What each factor adds, in % of the program's time alone. They sum to the total, and are signed:
/// where two overlap, one may take back what another gave.
struct Breakdown {
    program: String,
    total: f64,
    /// By factor; none where it cannot be told.
    parts: Vec<Option<f64>>,
}

/// A machine's figure.
struct OnMachine {
    machine: Arc<Machine>,
    /// Which programs, and beside what.
    programs_of: &'static str,
    beside: &'static str,
    /// Names of the factors.
    factors: &'static [&'static str],
    /// Most degraded first.
    programs: Vec<Breakdown>,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let machines = match inputs.options::<FactorsArgs>()?.machine {
        Some(name) => vec![find_machine(&name)?],
        None => MACHINES.iter().map(|name| preset(name)).collect::<Result<_, _>>()?,
    };
    let mut casts = vec![Cast {
        id: "library",
        library: inputs.shipped()?,
        of: super::classification::is_program,
        step: super::classification::some_programs(inputs),
        interfering: "numpy",
        its_neighbour: "python3",
        cancel: &inputs.cancel,
    }];
    casts.extend(inputs.spec_if_given().map(|library| of_spec(library, &inputs.cancel)));
    let mut all = Vec::new();
    for machine in machines {
        let machine = Arc::new(machine);
        for cast in &casts {
            inputs.cancel.check()?;
            all.push(if machine.nodes().len() > 1 {
                nodes::breakdown(&machine, cast)?
            } else {
                chips::breakdown(&machine, cast)?
            });
        }
    }
    Ok(figures::page(&all))
}

/// The SPEC programs, as in the paper.
fn of_spec<'a>(library: &'a Library, cancel: &'a Cancel) -> Cast<'a> {
    let of = |name: &str| name.ends_with("06");
    Cast {
        id: "spec",
        library,
        of,
        step: 1,
        interfering: "milc06",
        its_neighbour: "sphinx306",
        cancel,
    }
}

/// A machine's model with the programs loaded, and a scratch to solve with.
struct Rig {
    model: Model,
    programs: Vec<LoadedProgram>,
    interfering: LoadedProgram,
    its_neighbour: LoadedProgram,
    scratch: Scratch,
}

/// Somebody at a CPU (index), with memory on a node (index; none: where it runs).
#[derive(Clone, Copy)]
struct At {
    cpu: usize,
    memory: Option<usize>,
}

impl Rig {
    fn new(machine: &Arc<Machine>, cast: &Cast<'_>) -> Result<Self> {
        Self::with_bandwidth(machine, cast, ModelOptions::default().bandwidth)
    }

    /// With another model of limited bandwidth.
    fn with_bandwidth(
        machine: &Arc<Machine>,
        cast: &Cast<'_>,
        bandwidth: BandwidthModel,
    ) -> Result<Self> {
        let options = ModelOptions { bandwidth, ..ModelOptions::default() };
        let model = Model::new(machine.clone(), options)?;
        let load = |profile: &Profile| -> Result<LoadedProgram> {
            cast.cancel.check()?;
            Ok(model.load(profile)?)
        };
        let own = cast.library.iter().filter(|profile| (cast.of)(&profile.name));
        let programs = own.step_by(cast.step).map(load).collect::<Result<_>>()?;
        let interfering = load(cast.library.get(cast.interfering)?)?;
        let its_neighbour = load(cast.library.get(cast.its_neighbour)?)?;
        Ok(Self { model, programs, interfering, its_neighbour, scratch: Scratch::default() })
    }

    /// A program's time beside interfering ones, by its time alone where memory is local.
    fn slowdown(&mut self, program: usize, at: At, beside: &[At]) -> f64 {
        let program = &self.programs[program];
        let is_itself = program.name == self.interfering.name;
        let other = if is_itself { &self.its_neighbour } else { &self.interfering };
        let count = self.model.machine().nodes().len();
        let home = |at: &At| -> Vec<f64> {
            at.memory.map_or_else(Vec::new, |node| {
                (0..count).map(|one| f64::from(u8::from(one == node))).collect()
            })
        };
        let homes: Vec<Vec<f64>> = std::iter::once(&at).chain(beside).map(home).collect();
        let everyone = std::iter::once((program, &at)).chain(beside.iter().map(|one| (other, one)));
        let running: Vec<Running<'_>> = everyone
            .zip(&homes)
            .map(|((program, at), home)| Running {
                member: Member { program, phase: LoadedProgram::WHOLE, cpu: at.cpu },
                home,
                group: None,
            })
            .collect();
        let mut out = Vec::new();
        self.model.solve(&running, &mut self.scratch, &mut out);
        out[0].slowdown
    }
}

/// The programs that degrade most, first.
fn most_degraded(mut programs: Vec<Breakdown>) -> Vec<Breakdown> {
    programs.sort_by(|one, other| other.total.total_cmp(&one.total));
    programs.truncate(SHOWN);
    programs
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What is said of the cache's share follows the rows, whoever stands for a name.
    #[test]
    fn what_is_said_of_the_cache_follows_the_rows() {
        let machine = Arc::new(preset("xeon-x5365").unwrap());
        let said = [None, Some(["milc06", "gamess06"])].map(|swapped| {
            let folder = tempfile::tempdir().unwrap();
            crate::stand_ins::write(folder.path(), 1, swapped);
            let library = Library::load(folder.path()).unwrap();
            let found = chips::breakdown(&machine, &of_spec(&library, &Cancel::default())).unwrap();
            let page = serde_json::to_value(figures::page(&[found])).unwrap();
            let rows = page["figures"][0]["rows"].as_array().unwrap();
            // Label, total, memory controller, bus, cache, prefetch.
            let number = |row: &Value, column: usize| row[column].as_f64().unwrap();
            for row in rows {
                let parts: f64 = (2..6).map(|column| number(row, column)).sum();
                // Each is rounded to 0.1.
                assert!((parts - number(row, 1)).abs() < 0.3, "{row}");
            }
            let below_half =
                rows.iter().filter(|row| number(row, 4) < 0.5 * number(row, 1)).count();
            let finding = &page["findings"][0];
            assert_eq!(
                finding["ours"],
                format!("less than half for {below_half} of {}", rows.len())
            );
            finding["difference"].as_str().unwrap().to_owned()
        });
        // Beside another program the shares of the factors are others.
        assert_ne!(said[0], said[1]);
    }
}
