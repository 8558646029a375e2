//! CAMPS and its rivals on big and small cores: the experiments of García García's thesis (UCM 2021),
//! chapter 4.

mod aggressors;
mod barriers;
mod bench;
mod calibration;
mod history;
mod loads;
mod mixes;
mod shelter;
mod unfairness_factor;

use super::paper::{Ground, PaperStudy, StandsOn};
use crate::failure::Outcome;
use crate::report::{Chart, StudyFigure, StudyReport, strings};

/// The experiments.
pub(super) const STUDY: PaperStudy =
    PaperStudy { name: "camps", stands_on: StandsOn::Shipped, seeds: 2, page };

fn page(ground: &Ground) -> Outcome<StudyReport> {
    let juno = mixes::juno(ground)?;
    let odroid = mixes::odroid(ground)?;
    let (mut findings, mut figures) = (juno.findings(), juno.figures());
    findings.extend(odroid.findings());
    figures.extend(odroid.figures());
    let pairs = [
        history::hit_rates(ground)?,
        aggressors::slowdowns(ground)?,
        loads::spread(ground)?,
        loads::requests(ground)?,
        loads::latency(ground)?,
        barriers::spinning(ground)?,
        shelter::latency(ground)?,
    ];
    for (finding, figure) in pairs {
        findings.push(finding);
        figures.push(figure);
    }
    figures.extend(unfairness_factor::figures(ground)?);
    let (fits, tables) = calibration::figures(ground)?;
    findings.extend(fits);
    figures.extend(tables);
    figures.push(mixes::programs(ground)?);
    Ok(StudyReport {
        name: STUDY.name,
        title: "CAMPS: fair shares of big cores".to_owned(),
        about: format!(
            "García García, doctoral thesis (UCM, 2021), chapter 4, on its machines juno-2b4s and odroid-4b4s. \
             Profiles: those that corun ships, the nearest for each of the thesis's programs. Every program starts \
             again when it ends, until the longest has ended three times. {} seeds.",
            ground.seeds
        ),
        findings,
        figures,
    })
}

fn number(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

fn figure(
    id: &str,
    heading: &str,
    about: &str,
    chart: Option<Chart>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
) -> StudyFigure {
    let (id, heading, about) = (id.to_owned(), heading.to_owned(), about.to_owned());
    StudyFigure { id, heading, about, chart, header, rows }
}
