//! `corun fleet place`: a plan for the programs of a fleet file.

use std::fmt::Write as _;

use anyhow::anyhow;
use corun_fleet::{FleetDescription, FleetDocument, FleetQuestion};
use corun_input::{TomlFile as _, TomlSource};
use corun_report::{Columns, counted, json, or_dash, print};

use crate::cli::{FleetPlaceArgs, TableFormat, model_options};
use crate::failure::{Failure, Outcome};

/// Programs that the table shows at most; JSON and CSV have all.
const MOST_SHOWN: usize = 60;

pub(super) fn run(arguments: &FleetPlaceArgs) -> Outcome<String> {
    let source = TomlSource::load(&arguments.fleet).map_err(corun_app::Error::from)?;
    let description = FleetDescription::from_toml(source.text(), source.file())
        .map_err(corun_app::Error::from)?;
    if description.program.is_empty() {
        let message = format!("{}: program: found none", arguments.fleet.display());
        return Err(Failure::input(message).hint("[[program]] entries, as in docs/fleet.md"));
    }
    let question = FleetQuestion::new(&description, &source, model_options(&arguments.model))?;
    let document = question.plan(arguments.optimal, arguments.seed)?;
    let text = match arguments.format {
        TableFormat::Table => table(&document),
        TableFormat::Json => json(&document)?,
        TableFormat::Csv => csv(&document)?,
    };
    let Some(first) = document.unplaced.first() else { return Ok(text) };
    print(&text)?;
    Err(Failure::Failed(anyhow!(
        "{} without a place, the first {}: {}",
        counted(document.unplaced.len(), "program"),
        first.program,
        first.reason
    )))
}

fn llcs(llcs: &[usize]) -> String {
    llcs.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}

fn csv(document: &FleetDocument) -> Outcome<String> {
    Columns::of(&document.programs)
        .left("program", |one| one.program.clone())
        .left("node", |one| one.node.clone())
        .right("cpus", |one| one.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
        .right("llcs", |one| llcs(&one.llcs))
        .right("slowdown", |one| one.slowdown)
        .left("reason", |one| one.reason.clone())
        .csv()
}

fn table(document: &FleetDocument) -> String {
    let shown = &document.programs[..document.programs.len().min(MOST_SHOWN)];
    let mut text = Columns::of(shown)
        .left("program", |one| one.program.clone())
        .left("node", |one| one.node.clone())
        .right("CPUs", |one| one.cpus.len())
        .right("LLC", |one| llcs(&one.llcs))
        .right("slowdown", |one| format!("{:.3}", one.slowdown))
        .left("reason", |one| one.reason.clone())
        .table();
    if shown.len() < document.programs.len() {
        let more = document.programs.len() - shown.len();
        let _ = writeln!(text, ".. and {more} more: --format csv has all");
    }
    text.push('\n');
    text.push_str(
        &Columns::of(&document.nodes)
            .left("node", |one| one.node.clone())
            .left("machine", |one| one.machine.clone())
            .right("programs", |one| one.programs)
            .right("CPUs used", |one| format!("{} of {}", one.cpus_used, one.cpus))
            .right("mean slowdown", |one| format!("{:.3}", one.mean_slowdown))
            .right("worst", |one| format!("{:.3}", one.worst_slowdown))
            .table(),
    );
    text.push('\n');
    let _ = writeln!(
        text,
        "mean slowdown {}, worst {}, {} in use, {}",
        or_dash(document.mean_slowdown, 3),
        or_dash(document.worst_slowdown, 3),
        counted(document.nodes_used, "node"),
        counted(document.moves, "move"),
    );
    text.push_str(&beside(document));
    let _ = writeln!(text, "profiles: {}", document.data.profiles);
    let data = &document.data;
    let _ = writeln!(text, "model: space {}, bandwidth {}", data.space, data.bandwidth_model);
    text
}

/// The plan's value beside what else there could be.
fn beside(document: &FleetDocument) -> String {
    let Some(value) = document.value else { return String::new() };
    let mut text = format!("{}: {value:.4}", document.objective);
    if let Some(optimum) = document.optimum {
        let _ = write!(text, ", optimum {optimum:.4}");
    } else if let Some(bound) = document.bound {
        // Rounded down, as no plan's value is below it. The document has more digits than shown.
        let shown = (bound * 1e4 + 1e-6).floor() / 1e4;
        let _ = write!(text, ", bound {shown:.4}");
    }
    if let Some(random) = &document.expectation {
        let _ = write!(text, ", random {:.4} +- {:.4}", random.mean, random.standard_error);
    }
    if let Some(worst) = document.worst {
        let _ = write!(text, ", worst {worst:.4}");
    }
    text.push('\n');
    match (document.proven, document.gap) {
        (Some(true), _) => text.push_str("proven: no plan is better\n"),
        (Some(false), Some(gap)) if document.optimum.is_some() => {
            let _ =
                writeln!(text, "{:.2} % from the optimum: --optimal shows that plan", gap * 100.0);
        }
        (Some(false), Some(gap)) => {
            let shown = (gap * 1e4 - 1e-6).ceil().max(0.0) / 100.0;
            let _ = writeln!(text, "not proven: at most {shown:.2} % from the bound");
        }
        (Some(false), None) if document.optimum.is_some() => {
            text.push_str("above the optimum: --optimal shows that plan\n");
        }
        (Some(false), None) => text.push_str("not proven\n"),
        _ => {}
    }
    text
}
