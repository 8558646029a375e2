//! `corun fleet simulate`: schedulers side by side over weeks of a cluster.

use std::fmt::Write as _;

use corun_app::{Cancel, tell};
use corun_fleet::{
    BOUND_MOMENTS, NodeGroup, SchedulerFigures, SchedulerName, Simulation, SimulationDocument,
    SimulationSettings,
};
use corun_report::{Columns, counted, json, or_dash, or_empty};

use crate::cli::{FleetSimulateArgs, TableFormat, model_options};
use crate::failure::Outcome;

/// The nodes where none are given: what stands in many racks, with a few large ones.
const DEFAULT_NODES: [(&str, u32); 3] =
    [("2x-e5-2695v3", 400), ("xeon-gold-6138", 400), ("epyc-9554", 200)];

pub(super) fn run(arguments: &FleetSimulateArgs) -> Outcome<String> {
    let nodes = match arguments.node.is_empty() {
        false => arguments.node.clone(),
        true => DEFAULT_NODES.map(|(machine, count)| NodeGroup::of(machine, count)).to_vec(),
    };
    let schedulers = match arguments.scheduler.is_empty() {
        false => arguments.scheduler.clone(),
        true => SchedulerName::ALL.map(|one| one.1).to_vec(),
    };
    let settings = SimulationSettings {
        nodes,
        arrivals: arguments.arrivals as usize,
        utilisation: arguments.utilisation,
        daily_depth: arguments.daily_depth,
        repair_h: arguments.repair_hours,
        move_s: arguments.move_seconds,
        slowdown_bound: arguments.slowdown_bound,
        schedulers,
        seed: arguments.seed,
    };
    let options = model_options(&arguments.model);
    let simulation = Simulation::new(settings, arguments.library.profiles.as_deref(), options)?;
    let document = simulation.run(&Cancel::on_signal()?)?;
    for one in &document.schedulers {
        tell(format_args!("{}: {:.0} decisions a second", one.scheduler, one.decisions_per_s));
    }
    match arguments.format {
        TableFormat::Table => Ok(table(&document)),
        TableFormat::Json => json(&document),
        TableFormat::Csv => csv(&document.schedulers),
    }
}

fn csv(schedulers: &[SchedulerFigures]) -> Outcome<String> {
    Columns::of(schedulers)
        .left("scheduler", |one| one.scheduler)
        .right("lost_work", |one| or_empty(one.lost_work))
        .right("saved", |one| or_empty(one.saved))
        .right("mean_slowdown", |one| or_empty(one.mean_slowdown))
        .right("slowdown_p99", |one| or_empty(one.slowdown_p99))
        .right("above_bound", |one| or_empty(one.above_bound))
        .right("machines_needed", |one| or_empty(one.machines_needed))
        .right("rejected", |one| one.rejected)
        .right("moves", |one| one.moves)
        .csv()
}

fn table(document: &SimulationDocument) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let percent_or_dash = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let mut text = Columns::of(&document.schedulers)
        .left("scheduler", |one| one.scheduler)
        .right("lost work", |one| percent_or_dash(one.lost_work))
        .right("saved", |one| {
            one.saved.map_or_else(|| "-".to_owned(), |one| format!("{:.0} %", one * 100.0))
        })
        .right("mean slowdown", |one| or_dash(one.mean_slowdown, 4))
        .right("99th percentile", |one| or_dash(one.slowdown_p99, 3))
        .right(&format!("slower than {}", document.slowdown_bound), |one| {
            percent_or_dash(one.above_bound)
        })
        .right("machines needed", |one| or_dash(one.machines_needed.map(|one| one as f64), 0))
        .right("rejected", |one| one.rejected)
        .right("moves", |one| one.moves)
        .table();
    text.push('\n');
    let _ = writeln!(
        text,
        "{} of {} in {:.0} hours on {} with {}, {} of them taken",
        counted(document.arrivals, "arrival"),
        counted(document.programs, "program"),
        document.hours,
        counted(document.nodes, "node"),
        counted(document.cpus as usize, "CPU"),
        percent(document.utilisation),
    );
    text.push_str(&lost_work_bound(document));
    let _ = writeln!(
        text,
        "machines needed: no program slower than {}, for {} of the busiest moment",
        document.slowdown_bound,
        counted(document.busiest_programs - document.busiest_left_out, "program"),
    );
    if document.busiest_left_out > 0 {
        let left = document.busiest_left_out;
        let _ = writeln!(
            text,
            "left out of them: {} slower even alone on a node",
            counted(left, "program")
        );
    }
    if let Some(bound) = document.machines_bound {
        let _ = writeln!(
            text,
            "bound: no plan needs fewer than {}",
            counted(bound.round() as usize, "machine")
        );
    }
    text
}

/// What is proven of the work that must be lost, as a sentence. Nothing is where a scheduler rejected programs: the
/// bound holds for plans of all that ask.
fn lost_work_bound(document: &SimulationDocument) -> String {
    match document.lost_work_bound {
        _ if document.schedulers.iter().any(|one| one.rejected > 0) => {
            "bound: none on lost work, as programs were rejected\n".to_owned()
        }
        Some(bound) => {
            // Rounded to the nearest it might be above what is proven. The document has more digits than shown.
            let shown = (bound * 1e4 + 1e-6).floor() / 1e4;
            format!(
                "bound: at {BOUND_MOMENTS} moments no plan of who ran then loses less than {:.2} % in the mean\n",
                shown * 100.0
            )
        }
        None => "bound: none on lost work, as the programs of a moment do not fit the fleet\n"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(lost_work_bound: Option<f64>, rejected: usize) -> SimulationDocument {
        let scheduler = SchedulerFigures {
            scheduler: "random",
            lost_work: Some(0.1),
            saved: None,
            mean_slowdown: Some(1.1),
            slowdown_p99: Some(2.0),
            above_bound: Some(0.2),
            machines_needed: None,
            rejected,
            moves: 0,
            decisions_per_s: 1.0,
        };
        SimulationDocument {
            nodes: 1,
            cpus: 4,
            arrivals: 1,
            hours: 1.0,
            utilisation: 0.5,
            seed: 1,
            programs: 1,
            slowdown_bound: 1.2,
            lost_work_bound,
            machines_bound: None,
            busiest_programs: 1,
            busiest_left_out: 0,
            schedulers: vec![scheduler],
        }
    }

    #[test]
    fn only_what_is_proven_is_said_of_the_work_that_must_be_lost() {
        let said = |bound, rejected| lost_work_bound(&document(bound, rejected));
        assert!(said(Some(0.0002), 0).contains("loses less than 0.02 %"));
        // 0.0199 % is not 0.02 %.
        assert!(said(Some(0.000_199), 0).contains("loses less than 0.01 %"));
        assert!(!said(Some(0.0002), 1).contains("no plan"));
        let rejected = "bound: none on lost work, as programs were rejected\n";
        assert_eq!((said(Some(0.0002), 1).as_str(), said(None, 1).as_str()), (rejected, rejected));
        assert!(said(None, 0).contains("do not fit the fleet"));
    }
}
