//! CAMPS and its rivals on big and small cores: the experiments of García García's thesis (UCM 2021),
//! chapter 4.

mod aggressors;
mod barriers;
mod best;
mod big_little;
mod calibration;
mod frontier;
mod history;
mod loads;
mod mixes;
mod shelter;
mod unfairness_factor;

use clap::Args as _;
use corun_app::{Result, counted};

use crate::harness::{AsLiveArgs, Page, Programs, Study, StudyInputs};

/// The experiments.
pub(super) const STUDY: Study = Study {
    name: "camps",
    summary: "CAMPS and its rivals on big and small cores (García García's thesis, chapter 4)",
    programs: Programs::BuiltIn,
    seeds: Some(2),
    has_quick: true,
    options: AsLiveArgs::augment_args,
    page,
    explained_in: "docs/asymmetric.md",
};

fn page(inputs: &StudyInputs) -> Result<Page> {
    let as_live: AsLiveArgs = inputs.options()?;
    let observation = as_live.observation()?;
    let juno = mixes::juno(inputs, &observation)?;
    let odroid = mixes::odroid(inputs, &observation)?;
    let (mut findings, mut figures) = (juno.findings(), juno.figures());
    findings.extend(odroid.findings());
    figures.extend(odroid.figures());
    let (finding, figure) = frontier::figure(inputs, &juno)?;
    findings.push(finding);
    figures.push(figure);
    for (finding, figure) in [
        history::hit_rates(inputs)?,
        aggressors::slowdowns(inputs)?,
        loads::spread(inputs)?,
        loads::requests(inputs)?,
        loads::latency(inputs)?,
        barriers::spinning(inputs)?,
        shelter::latency(inputs)?,
    ] {
        findings.push(finding);
        figures.push(figure);
    }
    figures.extend(unfairness_factor::figures(inputs)?);
    let (finding, tables) = calibration::figures(inputs)?;
    findings.push(finding);
    figures.extend(tables);
    figures.push(mixes::programs(inputs)?);
    let about = format!(
        "García García, doctoral thesis (UCM, 2021), chapter 4, on its machines juno-2b4s and \
         odroid-4b4s. Profiles: those that corun ships, the nearest for each of the thesis's programs. \
         Every program starts again when it ends, until the longest has ended three times. {}. Policies have exact counts, and in the figures that say so \
         they see the machine as live ({}).",
        counted(inputs.seeds as usize, "seed"),
        as_live.settings()
    );
    Ok(Page::new("CAMPS: fair shares of big cores", about, findings, figures))
}

/// The mean; NaN of nothing.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
