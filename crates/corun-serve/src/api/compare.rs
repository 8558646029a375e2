//! Policies side by side.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use corun_app::{
    Comparison, ComparisonHooks, ComparisonOutcome, ComparisonRequest, ComparisonSetup,
    FrontierEntry, PolicySpec, RowKind, Timeline, timeline,
};
use corun_profile::Mix;
use serde::{Deserialize, Serialize};

use super::answer::{Asked, Failure, Part};
use super::question::Question;
use super::{Desk, off_thread};

/// Most seeds of a request.
const MOST_SEEDS: u32 = 20;

/// Seeds where the request does not say: a page waits for the answer.
const SEEDS: u32 = 3;

/// Seconds for each of the two searches.
const SEARCH_S: f64 = 10.0;

/// What is set side by side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareAsked {
    question: Question,
    /// Absent: all that place and are for the machine.
    policies: Option<Vec<String>>,
    seeds: Option<u32>,
}

/// A comparison, and the first run of each policy.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    /// As `corun compare --format json` prints it.
    comparison: Comparison,
    /// By row of the comparison; null for bounds.
    timelines: Vec<Option<Timeline>>,
    /// Placements of which no other has more throughput without more unfairness.
    frontier: Vec<FrontierEntry>,
}

pub(crate) async fn compare(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<CompareAsked>,
) -> Result<Json<Compared>, Failure> {
    let _turn = desk.long_answers.acquire().await;
    let worker = desk.clone();
    off_thread(move |stop| {
        let seeds = asked.seeds.unwrap_or(SEEDS);
        if !(1..=MOST_SEEDS).contains(&seeds) {
            let message = format!("seeds: found {seeds}, expected 1 to {MOST_SEEDS}");
            return Err(Failure::new(Part::Request, message));
        }
        if asked.policies.as_ref().is_some_and(Vec::is_empty) {
            let message = "policies: found none, expected at least one; without `policies` all are \
                           compared that are for the machine";
            return Err(Failure::new(Part::Policy, message.to_owned()));
        }
        asked.question.check()?;
        let policies = asked.policies.as_deref().map(PolicySpec::parse_all).transpose();
        let mix = Mix::of_apps(&asked.question.apps);
        let mix = mix.map_err(|fault| Failure::new(Part::Programs, fault.to_string()))?;
        let setup = ComparisonSetup::new(ComparisonRequest {
            library: Some(worker.library(&asked.question.profiles)?),
            machine: Some(worker.machine(&asked.question.machine)?),
            mix: Some((mix, None)),
            policies: policies.map_err(Failure::of(Part::Policy))?,
            seeds: Some(seeds),
            instructions: None,
            options: Default::default(),
        })
        .map_err(Failure::of(Part::Programs))?;
        let hooks = ComparisonHooks { stop, step: &|| {} };
        let found = setup.compare(SEARCH_S, hooks).map_err(Failure::of(Part::Policy))?;
        let frontier = setup.frontier(SEARCH_S, stop).map_err(Failure::of(Part::Policy))?;
        Ok(compared(&setup, found, frontier))
    })
    .await
}

fn compared(
    setup: &ComparisonSetup,
    found: ComparisonOutcome,
    frontier: Vec<FrontierEntry>,
) -> Compared {
    let machine = setup.model.machine();
    let mut firsts = found.runs.iter().map(|of_policy| of_policy.first());
    let rows = found.comparison.policies.iter();
    let timelines = rows
        .map(|row| match row.kind {
            RowKind::Policy => Some(timeline(machine, firsts.next()??)),
            _ => None,
        })
        .collect();
    Compared { comparison: found.comparison, timelines, frontier }
}
