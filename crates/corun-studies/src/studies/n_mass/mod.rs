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
    has_quick: true,
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

#[cfg(test)]
mod tests {
    use clap::ArgMatches;
    use corun_app::Cancel;
    use serde_json::Value;

    use super::*;

    /// What is said of the programs themselves, with these two changed places.
    fn findings(swapped: Option<[&str; 2]>) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        crate::stand_ins::write(folder.path(), 1, swapped);
        let options = ArgMatches::default();
        let inputs = StudyInputs::new(Some(folder.path()), 1, options, Cancel::default()).unwrap();
        let runs = runs::Runs::new(&inputs).unwrap();
        let (mut findings, _) = mappings::page(&runs);
        findings.extend(penalty::page(&runs).unwrap().0);
        findings.iter().map(|one| serde_json::to_value(one).unwrap()).collect()
    }

    /// What is said of a finding, clause by clause.
    fn clauses(finding: &Value) -> Vec<String> {
        let said = ["ours", "difference"].map(|name| finding[name].as_str().unwrap());
        said.iter().flat_map(|text| text.split("; ")).map(str::to_owned).collect()
    }

    /// With two programs changed places, every clause that names them says something else: what a study
    /// says of its programs is computed from their figures.
    #[test]
    fn what_is_said_of_programs_follows_their_figures() {
        let (before, after) = (findings(None), findings(Some(["mcf06", "lbm06"])));
        let mut named = 0;
        for (one, other) in before.iter().zip(&after) {
            for (before, after) in clauses(one).into_iter().zip(clauses(other)) {
                if before.contains("mcf") || before.contains("lbm") {
                    assert_ne!(before, after, "{}", one["what"]);
                    named += 1;
                }
            }
        }
        assert!(named >= 3, "{named} clauses name the pair");
        // The very sentence that was once compiled in: whose misses fall steeply with cache.
        let of = |findings: &[Value]| -> Vec<String> {
            let said = findings[0]["difference"].as_str().unwrap();
            let (_, figures) = said.split_once(": mcf ").unwrap();
            figures.split(", lbm ").map(str::to_owned).collect()
        };
        let [mcf, lbm] = <[String; 2]>::try_from(of(&before)).unwrap();
        assert_eq!(of(&after), [lbm, mcf]);
    }
}
