//! `corun sweep`: many questions at once.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use corun_input::TomlFile as _;
use corun_sweep::{
    Description, LockedFolder, RESULTS, Runner, Store, Summary, SweepPlan, SweepRow, run_here,
    stored_rows, summaries,
};
use serde::Serialize;

use super::dask::handed_over;
use crate::cli::{SweepArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use corun_app::{Cancel, tell};
use corun_report::{Columns, json, or_dash, or_empty, print};

/// The JSON document of a sweep. docs/json.md is its reference.
#[derive(Debug, Serialize)]
struct SweepDocument {
    /// The Parquet file.
    results: PathBuf,
    rows: usize,
    failed: usize,
    /// Policies that are not for a machine, with the reason.
    left_out: Vec<String>,
    summary: Vec<Summary>,
}

pub(super) fn run(arguments: &SweepArgs) -> Outcome<String> {
    let description = Description::load(&arguments.description).map_err(corun_app::Error::from)?;
    let folder = arguments.description.parent().unwrap_or(Path::new("."));
    let plan = SweepPlan::new(&description, folder)?;
    let left_out: Vec<String> = plan.unfit().iter().map(|unfit| unfit.why.clone()).collect();
    for why in &left_out {
        tell(format_args!("left out: {why}"));
    }
    let rows = match &arguments.dask {
        Some(address) => on_dask(arguments, address)?,
        None => here(arguments, plan)?,
    };
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    let document = SweepDocument {
        results: arguments.output.join(RESULTS),
        rows: rows.len(),
        failed,
        left_out,
        summary: summaries(&rows),
    };
    let text = match arguments.format {
        TableFormat::Table => document.table(),
        TableFormat::Json => json(&document)?,
        TableFormat::Csv => document.csv()?,
    };
    let first = rows.iter().find_map(|row| Some((row, row.error.as_ref()?)));
    let Some((row, why)) = first else { return Ok(text) };
    print(&text)?;
    let of = format!("{} on {} with {}", row.mix, row.machine, row.policy);
    Err(Failure::Failed(anyhow!(
        "{failed} of {} rows failed, the first ({of}): {why}; the others are kept, and the column \
         `error` of {} has all reasons",
        rows.len(),
        document.results.display()
    )))
}

fn here(arguments: &SweepArgs, plan: SweepPlan) -> Outcome<Vec<SweepRow>> {
    let runner = Runner::new(plan)?;
    let _locked = LockedFolder::new(&arguments.output).map_err(corun_app::Error::from)?;
    let mut store = opened(&arguments.output)?;
    let pending = store.pending(runner.plan(), runner.tasks());
    let cancel = Cancel::on_signal()?;
    let (tasks, done) = (runner.tasks().len(), runner.tasks().len() - pending.len());
    let bar =
        corun_cli::progress_bar(tasks as u64, "{pos}/{len} tasks {eta}").with_position(done as u64);
    let jobs = usize::from(arguments.jobs.unwrap_or(0));
    let done = run_here(&runner, &mut store, &pending, jobs, cancel.flag(), |more| {
        bar.inc(more as u64);
    });
    bar.finish_and_clear();
    if let Err(corun_app::Error::Interrupted) = done {
        let left = store.pending(runner.plan(), runner.tasks()).len();
        tell(format_args!("{left} of {} tasks are left: the same command goes on", pending.len()));
    }
    done?;
    store.finish(runner.plan(), runner.tasks()).map_err(corun_app::Error::from)
}

fn on_dask(arguments: &SweepArgs, address: &str) -> Outcome<Vec<SweepRow>> {
    drop(opened(&arguments.output)?);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut words = vec!["sweep".to_owned(), text(&arguments.description)];
    words.extend(["--out".to_owned(), text(&arguments.output)]);
    words.extend(["--address".to_owned(), address.to_owned()]);
    if let Some(batch) = arguments.batch {
        words.extend(["--batch".to_owned(), batch.to_string()]);
    }
    handed_over(&words, "")?;
    stored_rows(&arguments.output).map_err(corun_app::Error::from)
}

fn opened(folder: &Path) -> Outcome<Store> {
    Store::open(folder).map_err(corun_app::Error::from)
}

impl SweepDocument {
    fn csv(&self) -> Outcome<String> {
        let figure = |value: Option<f64>| or_empty(value.map(|value| format!("{value:.4}")));
        Columns::of(&self.summary)
            .left("machine", |line| line.machine.clone())
            .left("policy", |line| line.policy.clone())
            .left("kind", |line| line.kind.clone())
            .left("rows", |line| line.rows)
            .left("failed", |line| line.failed)
            .left("mean_slowdown", |line| figure(line.mean_slowdown))
            .left("stp", |line| figure(line.stp))
            .left("unfairness", |line| figure(line.unfairness))
            .left("worst_slowdown", |line| figure(line.worst_slowdown))
            .csv()
    }

    fn table(&self) -> String {
        let table = Columns::of(&self.summary)
            .left("machine", |line| line.machine.clone())
            .left("policy", |line| line.policy.clone())
            .left("kind", |line| line.kind.clone())
            .right("rows", |line| line.rows)
            .right("failed", |line| line.failed)
            .right("mean slowdown", |line| or_dash(line.mean_slowdown, 4))
            .right("STP", |line| or_dash(line.stp, 4))
            .right("unfairness", |line| or_dash(line.unfairness, 4))
            .right("worst slowdown", |line| or_dash(line.worst_slowdown, 4))
            .table();
        let all =
            if self.rows == 1 { "The row".to_owned() } else { format!("All {} rows", self.rows) };
        format!("{table}\n{all}: {}\n", self.results.display())
    }
}
