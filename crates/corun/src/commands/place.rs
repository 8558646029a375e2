//! `corun place`: one placement, by a policy or a search.

use anyhow::Context as _;
use corun_app::{
    PlacementDocument, PlacementMethod, Scenario, SearchProof, open_library, placement_cpus,
};
use corun_views::placement::{csv, table};
use serde::Deserialize;
use serde_json::json;

use super::dask::handed_over;
use crate::cli::{PlaceArgs, TableFormat, model_options};
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;

pub(super) fn run(arguments: &PlaceArgs) -> Outcome<String> {
    if let Some(address) = &arguments.dask {
        return on_dask(arguments, address);
    }
    let placer = PlacementMethod::named(&arguments.policy, arguments.seed, arguments.time_limit)?;
    let programs = &arguments.programs;
    let machine = super::predicted_machine(&programs.machine)?;
    let library = open_library(programs.library.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    scenario.one_cpu_each()?;
    let cancel = Cancel::on_signal()?;
    let objective = arguments.objective.objective();
    let placement = placer.place(&scenario, arguments.target_slowdown, objective, cancel.flag())?;
    written(&placement, arguments.format)
}

/// A placement in a format.
pub(super) fn written(placement: &PlacementDocument, format: TableFormat) -> Outcome<String> {
    match format {
        TableFormat::Table => Ok(table(placement)),
        TableFormat::Json => corun_report::json(placement),
        TableFormat::Csv => csv(None, &[("", placement)]),
    }
}

/// What the workers of a cluster found.
#[derive(Debug, Deserialize)]
struct Found {
    /// Each program's CPU, the machine's own number.
    cpu: Vec<u32>,
    gap: Option<f64>,
    proven: Option<bool>,
    solver_seconds: Option<f64>,
}

fn on_dask(arguments: &PlaceArgs, address: &str) -> Outcome<String> {
    let name = arguments.policy.as_str();
    if !matches!(PlacementMethod::named(name, 1, None)?, PlacementMethod::Search(..)) {
        let message = format!("policy `{name}` decides in one process: --dask is for searches");
        return Err(Failure::input(message).hint("--policy optimal, --policy worst"));
    }
    let programs = &arguments.programs;
    let machine = super::predicted_machine(&programs.machine)?;
    let library = open_library(programs.library.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    scenario.one_cpu_each()?;
    let mut profiles: Vec<String> = scenario.profiles.iter().map(|one| one.to_toml()).collect();
    profiles.sort_unstable();
    profiles.dedup();
    let pbbcache = arguments.model.compat.is_some();
    let objective = arguments.objective.objective();
    let question = json!({
        "machine": scenario.machine().to_toml(),
        "profiles": profiles,
        "apps": programs.apps.iter().map(|app| app.trim()).collect::<Vec<_>>(),
        "policy": name,
        "objective": objective.name(),
        "time_limit_s": arguments.time_limit,
        "options": {
            "space": (!pbbcache).then(|| options.space.to_string()),
            "bandwidth": (!pbbcache).then(|| options.bandwidth.to_string()),
            "peak_mb_per_s": options.peak_mb_per_s,
            "solo_peak_share": options.solo_peak_share.filter(|_| !pbbcache),
            "compat": pbbcache.then_some("pbbcache"),
        },
    });
    let words = ["place", "--address", address].map(str::to_owned);
    let answer = handed_over(&words, &question.to_string())?;
    let found: Found =
        serde_json::from_str(&answer).context("no answer from python3 -m corun.dask")?;
    let cpus = placement_cpus(scenario.machine(), scenario.names.len(), &found.cpu)?;
    let Found { gap, proven, solver_seconds, .. } = found;
    let proof = SearchProof { gap, proven, solver_seconds };
    let placement = PlacementDocument::new(&scenario, &cpus, Some(name), objective, proof);
    written(&placement, arguments.format)
}
