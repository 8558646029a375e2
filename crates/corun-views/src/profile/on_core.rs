//! The program alone on a core, by the size of its LLC: where the interval model's cycles go.

use std::sync::Arc;

use corun_machine::NamedCore;
use corun_model::{CAUSES, Cause, CpiStack, Model, ModelOptions, WaysFigures};
use corun_profile::Profile;
use serde::Serialize;

use corun_app::Result;
use corun_report::{Columns, round, size};

/// A program on one core.
#[derive(Debug, Serialize)]
pub(crate) struct OnCore {
    core: String,
    core_type: String,
    clock_mhz: f64,
    by_size: Vec<AtSize>,
}

/// Its figures with so much LLC.
#[derive(Debug, Serialize)]
struct AtSize {
    llc_bytes: u64,
    ways: u32,
    llc_mpki: f64,
    ipc: f64,
    total_stall_share: f64,
    memory_stall_share: f64,
    bandwidth_mb_per_s: f64,
    cpi: f64,
    cpi_stack: Option<Stack>,
    extrapolated: bool,
}

/// Cycles per instruction by cause, in the order of [`CAUSES`].
type Stack = serde_json::Map<String, serde_json::Value>;

/// A core with its model.
pub struct CoreModel {
    core: NamedCore,
    model: Model,
}

impl CoreModel {
    /// Of a core.
    ///
    /// # Errors
    /// Where its machine has none that the model can take.
    pub fn of(core: NamedCore) -> Result<Self> {
        let model = Model::new(Arc::new(core.machine.clone()), ModelOptions::default())?;
        Ok(Self { core, model })
    }

    pub(crate) fn on_core(&self, profile: &Profile) -> Result<OnCore> {
        let cpu = self.core.cpu();
        let one = &self.core.machine.core_types()[self.core.core_type];
        let llc = self.core.machine.cpus()[cpu].llc;
        let whole = self.core.machine.llcs()[llc].cache.map_or(0, |cache| cache.size_bytes);
        let curve = self.model.by_ways(&self.model.load(profile)?, cpu);
        let all = u64::from(curve.last().map_or(1, |last| last.ways));
        let at_size = |figures: &WaysFigures| at_size(figures, whole / all);
        Ok(OnCore {
            core: self.core.name(),
            core_type: one.name.clone(),
            clock_mhz: one.clock_mhz,
            by_size: curve.iter().map(at_size).collect(),
        })
    }
}

fn at_size(figures: &WaysFigures, way_bytes: u64) -> AtSize {
    let six = |value: f64| round(value, 6);
    let stack = |stack: CpiStack| -> Stack {
        CAUSES.iter().map(|&cause| (cause.name().to_owned(), six(stack.of(cause)).into())).collect()
    };
    AtSize {
        llc_bytes: way_bytes * u64::from(figures.ways),
        ways: figures.ways,
        llc_mpki: six(figures.llc_mpki),
        ipc: six(figures.ipc),
        total_stall_share: six(figures.total_stalls),
        memory_stall_share: six(figures.memory_stalls),
        bandwidth_mb_per_s: round(figures.bytes_per_s / 1e6, 3),
        cpi: six(1.0 / figures.ipc),
        cpi_stack: figures.stack.map(stack),
        extrapolated: figures.extrapolated,
    }
}

/// Rows that a person still takes in.
const MOST_ROWS: usize = 16;

/// Cycles an instruction that are worth a column.
const LEAST_SHOWN_CPI: f64 = 0.0005;

pub(crate) fn section(on: &OnCore) -> Vec<String> {
    // The whole LLC always, and as many even steps before it as there is room for.
    let every = on.by_size.len().div_ceil(MOST_ROWS).max(1);
    let first = on.by_size.len().saturating_sub(1) % every;
    let rows: Vec<&AtSize> = on.by_size.iter().skip(first).step_by(every).collect();
    let mut columns = Columns::of(&rows)
        .right("ways", |one| format!("{}{}", one.ways, if one.extrapolated { "*" } else { "" }))
        .right("LLC", |one| size(one.llc_bytes as f64))
        .right("MPKI", |one| format!("{:.2}", one.llc_mpki))
        .right("IPC", |one| format!("{:.2}", one.ipc))
        .right("stalls", |one| format!("{:.1} %", 100.0 * one.total_stall_share))
        .right("memory stalls", |one| format!("{:.1} %", 100.0 * one.memory_stall_share))
        .right("MB/s", |one| format!("{:.0}", one.bandwidth_mb_per_s))
        .right("CPI", |one| format!("{:.3}", one.cpi));
    for cause in CAUSES.into_iter().filter(|&cause| on.shows(cause)) {
        columns = columns.right(&cause.name().replace('_', " "), |one| {
            format!("{:.3}", one.part(cause).unwrap_or(0.0))
        });
    }
    let core = format!("{} ({} at {:.0} MHz)", on.core, on.core_type, on.clock_mhz);
    let mut lines =
        vec![format!("  alone on a core of {core}, by LLC size: shares and parts of cycles")];
    lines.extend(columns.table().lines().map(|line| format!("  {line}")));
    if on.by_size.iter().any(|one| one.extrapolated) {
        lines.push("  * extrapolated: outside the measured range".to_owned());
    }
    lines
}

impl OnCore {
    /// Is this cause told apart, and does it take anything worth a column?
    fn shows(&self, cause: Cause) -> bool {
        let least = if cause == Cause::Base { 0.0 } else { LEAST_SHOWN_CPI };
        self.by_size.iter().any(|one| one.part(cause).is_some_and(|cycles| cycles >= least))
    }
}

impl AtSize {
    fn part(&self, cause: Cause) -> Option<f64> {
        self.cpi_stack.as_ref()?.get(cause.name())?.as_f64()
    }
}
