//! The experiments of N-MASS (Majo and Gross, ISMM 2011): what caches and memory of their own are
//! worth to programs (Fig. 3 to 5), what it costs to have memory elsewhere (Fig. 7), and how
//! maximum-local and N-MASS do against every schedule that the kernel may choose (Fig. 9 to 12).

mod mappings;
mod maps;
mod penalty;
mod runs;
mod summary;
mod workloads;

use corun_app::profile_sources;

use super::paper::{Ground, PaperStudy, StandsOn};
use crate::failure::Outcome;
use crate::report::StudyReport;

/// The experiments.
pub(super) const STUDY: PaperStudy =
    PaperStudy { name: "n-mass", stands_on: StandsOn::Spec, seeds: 1, page };

/// The paper's machine (Table 1).
const MACHINE: &str = "xeon-e5520";

fn page(ground: &Ground) -> Outcome<StudyReport> {
    let runs = runs::Runs::new(ground)?;
    let cases = maps::all(&runs)?;
    let (mappings_findings, mappings_figures) = mappings::figures(&runs);
    let (penalty_findings, penalty_figures) = penalty::figures(&runs)?;
    let mut findings = mappings_findings;
    findings.extend(penalty_findings);
    findings.extend(summary::findings(&cases));
    let mut figures = mappings_figures;
    figures.extend(penalty_figures);
    figures.push(workloads::total_mpki(&runs));
    figures.extend(maps::figures(&cases));
    figures.extend(workloads::figures(&cases));
    figures.push(summary::figure(&cases));
    figures.push(summary::best_placements(&runs, &cases));
    figures.push(summary::under_other_models(ground)?);
    Ok(StudyReport {
        name: STUDY.name,
        title: "N-MASS: near the memory, or apart in the caches".to_owned(),
        about: format!(
            "Majo and Gross, ISMM 2011, on {MACHINE}, its machine. Profiles: {}. The default is the mean over all schedules with as many programs on each processor.",
            profile_sources(&runs.profiles)
        ),
        findings,
        figures,
    })
}

/// One digit; what would print as -0.0 is zero.
fn percent(value: f64) -> String {
    format!("{:.1}", if value.abs() < 0.05 { 0.0 } else { value })
}

fn mean(values: &[f64]) -> f64 {
    corun_metrics::mean(values).unwrap_or(f64::NAN)
}
