//! The experiments of N-MASS (Majo and Gross, ISMM 2011): what caches and memory of their own are
//! worth to programs (Fig. 3 to 5), what it costs to have memory elsewhere (Fig. 7), and how
//! maximum-local and N-MASS do against every schedule that the kernel may choose (Fig. 9 to 12).

mod mappings;
mod maps;
mod penalty;
mod runs;
mod summary;
mod workloads;

use corun_app::{Result, profile_sources};
use corun_report::fixed;

use crate::harness::{Page, Programs, Study, StudyInputs, no_options};

/// The experiments.
pub(super) const STUDY: Study = Study {
    name: "n-mass",
    summary: "N-MASS and maximum-local on their workloads, against every schedule that the kernel may choose",
    programs: Programs::Spec,
    seeds: None,
    options: no_options,
    page,
    explained_in: "docs/studies/n-mass.md",
};

/// The paper's machine (Table 1).
const MACHINE: &str = "xeon-e5520";

fn page(inputs: &StudyInputs) -> Result<Page> {
    let runs = runs::Runs::new(inputs)?;
    let cases = maps::all(&runs)?;
    let (mut findings, mut figures) = mappings::page(&runs);
    let (penalty_findings, penalty_figures) = penalty::page(&runs)?;
    findings.extend(penalty_findings);
    findings.extend(summary::findings(&cases));
    figures.extend(penalty_figures);
    figures.push(workloads::total_mpki(&runs));
    figures.extend(maps::figures(&cases));
    figures.extend(workloads::figures(&cases));
    figures.push(summary::figure(&cases));
    figures.push(summary::best_placements(&runs, &cases));
    figures.push(summary::under_other_models(inputs)?);
    let about = format!(
        "Majo and Gross, ISMM 2011, on {MACHINE}, its machine. Profiles: {}. The default is the mean \
         over all schedules with as many programs on each processor.",
        profile_sources(&runs.profiles)
    );
    Ok(Page::new("N-MASS: near the memory, or apart in the caches", about, findings, figures))
}

/// A percentage with one digit.
fn percent(value: f64) -> String {
    fixed(value, 1)
}

fn mean(values: &[f64]) -> f64 {
    corun_metrics::mean(values).unwrap_or(f64::NAN)
}
