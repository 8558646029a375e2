//! Placements that are tried out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use corun_app::{
    ExplainedPlacement, Layout, PlacementMethod, ProgramDetails, Scenario, arrangements,
    parse_way_mask, placement_cpus,
};
use corun_optimal::Objective;
use serde::Deserialize;

use super::answer::{Asked, Failure, Part};
use super::question::Question;
use super::{Desk, off_thread};

/// Longest search, in seconds.
const LONGEST_SEARCH_S: f64 = 60.0;

/// Seconds of a search where the request does not say.
const SEARCH_S: f64 = 10.0;

/// Where the programs are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PredictAsked {
    question: Question,
    /// Each program's CPU, the machine's own number; absent: one program a core, LLC after LLC.
    cpu: Option<Vec<u32>>,
    /// Each program's ways of its LLC as a hexadecimal mask, null for a program under an LLC that is whole;
    /// absent: all LLCs are whole.
    mask: Option<Vec<Option<String>>>,
}

/// Who is to place the programs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceAsked {
    question: Question,
    /// A policy that places, or a search.
    policy: String,
    seed: Option<u64>,
    /// For a search: it answers with the best found by then.
    time_limit_s: Option<f64>,
}

/// Which program is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramAsked {
    question: Question,
    cpu: Vec<u32>,
    mask: Option<Vec<Option<String>>>,
    /// Its place in the list of programs.
    program: usize,
}

pub(crate) async fn predict(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<PredictAsked>,
) -> Result<Json<ExplainedPlacement>, Failure> {
    off_thread(move |_| {
        let scenario = desk.scenario(&asked.question)?;
        let layout = layout(&scenario, asked.cpu.as_deref(), asked.mask.as_deref())?;
        scenario.explain(&layout, Objective::MeanSlowdown).map_err(Failure::of(Part::Placement))
    })
    .await
}

pub(crate) async fn place(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<PlaceAsked>,
) -> Result<Json<ExplainedPlacement>, Failure> {
    let _turn = desk.long_answers.acquire().await;
    let worker = desk.clone();
    off_thread(move |stop| {
        let wrong = Failure::of(Part::Policy);
        let limit = asked.time_limit_s.unwrap_or(SEARCH_S);
        if !(limit > 0.0 && limit <= LONGEST_SEARCH_S) {
            let message = format!("time_limit_s: found {limit}, expected up to {LONGEST_SEARCH_S}");
            return Err(Failure::new(Part::Request, message));
        }
        let seed = asked.seed.unwrap_or(1);
        let method = PlacementMethod::named(&asked.policy, seed, Some(limit)).map_err(&wrong)?;
        let scenario = worker.scenario(&asked.question)?;
        let found = method.place(&scenario, None, Objective::MeanSlowdown, stop).map_err(&wrong)?;
        scenario.explain_placement(found).map_err(&wrong)
    })
    .await
}

pub(crate) async fn program(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<ProgramAsked>,
) -> Result<Json<ProgramDetails>, Failure> {
    off_thread(move |stop| {
        let scenario = desk.scenario(&asked.question)?;
        let layout = layout(&scenario, Some(&asked.cpu), asked.mask.as_deref())?;
        let is_known = asked.program < scenario.names.len();
        let part = if is_known { Part::Placement } else { Part::Programs };
        scenario.details(&layout, asked.program, stop).map_err(Failure::of(part))
    })
    .await
}

fn layout(
    scenario: &Scenario,
    cpu: Option<&[u32]>,
    mask: Option<&[Option<String>]>,
) -> Result<Layout, Failure> {
    let wrong = Failure::of(Part::Placement);
    let programs = scenario.names.len();
    scenario.one_cpu_each().map_err(Failure::of(Part::Programs))?;
    let cpus = match cpu {
        Some(cpus) => placement_cpus(scenario.machine(), programs, cpus).map_err(&wrong)?,
        None => {
            let found = arrangements(scenario.machine(), programs).map_err(&wrong)?;
            found.into_iter().next().map(|(_, cpus)| cpus).unwrap_or_default()
        }
    };
    let masks = mask.unwrap_or_default().iter().map(ways).collect::<Result<_, _>>()?;
    Ok(Layout { cpus, masks })
}

fn ways(mask: &Option<String>) -> Result<Option<u64>, Failure> {
    let Some(text) = mask else { return Ok(None) };
    let wrong = || {
        let message = format!("mask: found `{text}`, expected ways such as 0x3f");
        Failure::new(Part::Placement, message)
    };
    parse_way_mask(text).map(Some).ok_or_else(wrong)
}
