//! Services that share a machine, after the heat maps of PARTIES (Chen, Delimitrou and Martinez, ASPLOS 2019): the
//! greatest load of one service at which all targets are met, by the load of another.

mod division;
mod runs;

use clap::Args;
use corun_app::Result;
use corun_report::counted;
use rayon::prelude::*;

use self::runs::{Manner, REQUEST_S, SERVICES, Scene};
use crate::harness::{Figure, Page, PaperClaim, Programs, Study, StudyInputs};
use crate::simulate::model_of;

pub(super) const STUDY: Study = Study {
    name: "parties",
    summary: "The loads at which services that share a machine meet their targets, under PARTIES and under fixed divisions",
    programs: Programs::BuiltIn,
    seeds: Some(1),
    has_quick: true,
    options: PartiesArgs::augment_args,
    page,
    explained_in: "docs/studies/partitioning.md",
};

/// Its own options.
#[derive(Debug, Args)]
struct PartiesArgs {
    /// Seconds that count in each run
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Seconds before them, in which a policy finds its division
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    warm_up: u32,
    /// Step of the first service's load, in %; the other's is 10
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=100))]
    step: u32,
}

/// A Broadwell of one LLC of 20 ways, as the paper's machine.
const MACHINE: &str = "xeon-e5-2620v4";

/// A load of the first service, in %, and by manner the greatest load of the second.
struct Point {
    load: u32,
    greatest: Vec<u32>,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let PartiesArgs { seconds, warm_up, step } = inputs.options()?;
    let model = model_of(MACHINE)?;
    let mut figures = Vec::new();
    let mut findings = Vec::new();
    let mut scene = Scene::new(inputs, &model, (seconds, warm_up))?;
    let full_loads = scene.full_loads();
    for (id, batch) in [("two-services", 0), ("beside-batch", 2)] {
        scene.put_beside(inputs, batch)?;
        let mut loads: Vec<u32> =
            (1..=100 / step).map(|one| one * step).filter(|&load| load < 100).collect();
        loads.truncate(loads.len().div_ceil(inputs.every(4, "loads")));
        let jobs: Vec<(u32, Manner)> = loads
            .iter()
            .flat_map(|&load| Manner::ALL.into_iter().map(move |manner| (load, manner)))
            .collect();
        let greatest: Vec<u32> = jobs
            .into_par_iter()
            .map(|(load, manner)| scene.greatest(inputs, load, manner))
            .collect::<Result<_>>()?;
        let points: Vec<Point> = loads
            .iter()
            .zip(greatest.chunks(Manner::ALL.len()))
            .map(|(&load, greatest)| Point { load, greatest: greatest.to_vec() })
            .collect();
        findings.extend(claims(batch, &points));
        figures.push(figure(inputs, (id, batch), &scene, &points));
    }
    let about = format!(
        "Two services of {} threads each on {MACHINE}, {}. Requests come as a Poisson process; they take {} ms alone on \
         average, with a variation of {} (lognormal), and 99 % of them are to take {} ms at most. 100 % of a service's load \
         are the requests at which it just keeps to that alone on the machine: {}. A cell is the greatest load of the second \
         service, of 10, 20, .. 100 %, at which both targets are met in {seconds} s, after {} s under a fixed division and \
         after {warm_up} s under a policy, with each of {}; 0: at none of them. Loads are bisected: what is met at a \
         load is taken to be met below it.",
        runs::THREADS,
        SERVICES.join(" and "),
        1e3 * REQUEST_S,
        runs::VARIATION,
        1e3 * REQUEST_S * runs::TARGET,
        full_loads.join(", "),
        runs::SETTLING_S,
        counted(inputs.seeds as usize, "seed"),
    );
    Ok(Page::new("Services that share a machine", about, findings, figures))
}

fn figure(
    inputs: &StudyInputs,
    (id, batch): (&str, usize),
    scene: &Scene,
    points: &[Point],
) -> Figure {
    let [first, second] = SERVICES;
    let heading = match batch {
        0 => format!("{second} beside {first}"),
        count => format!("{second} beside {first} and {count} threads of {}", runs::BATCH),
    };
    let about = format!(
        "The greatest load of {second} in % by the load of {first}. For the best fixed division {} were tried: equal \
         parts, and all of the {} cores and of the ways in steps of {}.",
        scene.divisions(inputs),
        runs::CORES,
        division::WAYS_A_STEP,
    );
    let mut rows = Figure::new(id, heading, about).rows(first, points, |point| format!("{} %", point.load));
    for (place, manner) in Manner::ALL.into_iter().enumerate() {
        rows = rows.column(manner.name(), 0, move |point: &Point| f64::from(point.greatest[place])).drawn(manner.name());
    }
    rows.table()
}

/// What PARTIES does for the sum of the loads at which all targets are met, mean over the first service's loads.
fn claims(batch: usize, points: &[Point]) -> Vec<PaperClaim> {
    let total = |manner: Manner| -> f64 {
        let place = Manner::ALL.iter().position(|one| *one == manner).unwrap_or(0);
        let of = |point: &Point| match point.greatest[place] {
            // Together they meet nothing: neither counts.
            0 => 0,
            load => point.load + load,
        };
        points.iter().map(of).map(f64::from).sum()
    };
    let beside = if batch == 0 { "two services" } else { "two services beside batch" };
    let claim = |rival: Manner, paper: &str| {
        let (ours, theirs) = (total(Manner::Parties), total(rival));
        let change = match theirs > 0.0 {
            true => format!("{:+.0} %", 100.0 * (ours / theirs - 1.0)),
            false => "the other meets no target".to_owned(),
        };
        let what = format!("load under target, PARTIES against {} ({beside})", rival.name());
        PaperClaim::new(what, paper, change)
    };
    vec![
        claim(Manner::Unmanaged, "+61 % against other managers (abstract)"),
        claim(Manner::Equal, "+61 % against other managers (abstract)"),
        claim(Manner::BestFixed, "not in the abstract"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 + 60 and nothing against 20 + 40 and 40 + 20: 80 of 120 are a third less.
    #[test]
    fn loads_count_together_where_all_targets_are_met() {
        let place = |manner: Manner| Manner::ALL.iter().position(|one| *one == manner).unwrap();
        let point = |load, parties, unmanaged| {
            let mut greatest = vec![0; Manner::ALL.len()];
            greatest[place(Manner::Parties)] = parties;
            greatest[place(Manner::Unmanaged)] = unmanaged;
            Point { load, greatest }
        };
        let claims = claims(0, &[point(20, 60, 40), point(40, 0, 20)]);
        let shown = |claim: &PaperClaim| serde_json::to_value(claim).unwrap()["ours"].clone();
        assert_eq!(shown(&claims[0]), "-33 %");
        assert_eq!(shown(&claims[1]), "the other meets no target");
    }
}
