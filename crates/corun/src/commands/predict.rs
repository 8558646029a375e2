//! `corun predict`: the slowdowns of a given placement, or of those that stand for others.

use corun_app::{
    Arrangement, PlacementDocument, Scenario, SearchProof, arrangements, open_library,
    placement_cpus,
};
use corun_optimal::Objective;
use corun_report::{Columns, fixed, json, or_dash};
use corun_views::placement::{csv, data_lines, legend, mark};
use serde::Serialize;

use super::place::written;
use super::predicted_machine;
use crate::cli::{PredictArgs, TableFormat, model_options};
use crate::failure::Outcome;

pub(super) fn run(arguments: &PredictArgs) -> Outcome<String> {
    let programs = &arguments.programs;
    let machine = predicted_machine(&programs.machine)?;
    let given = if arguments.place.is_empty() {
        None
    } else {
        let cpus = placement_cpus(&machine, programs.apps.len(), &arguments.place);
        Some(cpus.map_err(|error| error.of_option("--place"))?)
    };
    let library = open_library(programs.library.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    match given {
        Some(places) => written(&placed(&scenario, &places), arguments.format),
        None => side_by_side(&scenario, arguments.format),
    }
}

fn placed(scenario: &Scenario, places: &[usize]) -> PlacementDocument {
    let objective = Objective::MeanSlowdown;
    PlacementDocument::new(scenario, places, None, objective, SearchProof::default())
}

/// The JSON document of a prediction without given CPUs. docs/json.md is its reference.
#[derive(Debug, Serialize)]
struct Predictions {
    placements: Vec<Arranged>,
}

#[derive(Debug, Serialize)]
struct Arranged {
    arrangement: &'static str,
    #[serde(flatten)]
    placement: PlacementDocument,
    #[serde(skip)]
    rule: &'static str,
}

fn side_by_side(scenario: &Scenario, format: TableFormat) -> Outcome<String> {
    let arranged = |(arrangement, places): (Arrangement, Vec<usize>)| Arranged {
        arrangement: arrangement.name(),
        placement: placed(scenario, &places),
        rule: arrangement.rule(),
    };
    let found = arrangements(scenario.machine(), scenario.names.len())?;
    let placements: Vec<Arranged> = found.into_iter().map(arranged).collect();
    match format {
        TableFormat::Json => json(&Predictions { placements }),
        TableFormat::Csv => {
            let named: Vec<(&str, &PlacementDocument)> =
                placements.iter().map(|one| (one.arrangement, &one.placement)).collect();
            csv(Some("arrangement"), &named)
        }
        TableFormat::Table => Ok(table(scenario, &placements)),
    }
}

/// A row a program, and for each arrangement where it is and how much slower.
fn table(scenario: &Scenario, placements: &[Arranged]) -> String {
    let programs: Vec<usize> = (0..scenario.names.len()).collect();
    let documents: Vec<&PlacementDocument> = placements.iter().map(|one| &one.placement).collect();
    let legend = legend(&documents);
    let mut columns = Columns::of(&programs).left("program", |&at| scenario.names[at].clone());
    for one in placements {
        let placement = &one.placement;
        columns = columns
            .right(&format!("{}: CPU", one.arrangement), |&at| placement.cpu[at].to_string())
            .right("LLC", |&at| placement.llc[at].to_string())
            .right("slowdown", move |&at| {
                let mark = if legend.is_empty() { "" } else { mark(&placement.programs[at]) };
                fixed(placement.slowdown[at], 3) + mark
            });
    }
    let mut text = format!("On {}\n\n{}\n", scenario.machine().name(), columns.table());
    for one in placements {
        text.push_str(&format!(
            "{:8} mean slowdown {}, STP {}, unfairness {} ({})\n",
            one.arrangement,
            or_dash(one.placement.antt, 3),
            or_dash(one.placement.stp, 3),
            or_dash(one.placement.unfairness, 3),
            one.rule,
        ));
    }
    if let Some(first) = placements.first() {
        text.push_str(&data_lines(&first.placement));
    }
    text.push_str(legend);
    text
}
