//! The study's page.

use std::sync::Arc;

use corun_machine::Machine;

use super::{Breakdown, Cast, OnMachine, STUDY};
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport};

pub(super) fn report(machines: &[OnMachine]) -> StudyReport {
    StudyReport {
        name: STUDY.name,
        title: "Where degradation comes from".to_owned(),
        about: "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 3 and appendix A. Programs beside \
                one that misses often (the paper's: milc), those that degrade most."
            .to_owned(),
        findings: machines.iter().map(OnMachine::finding).collect(),
        figures: machines.iter().map(OnMachine::figure).collect(),
    }
}

impl Breakdown {
    /// The share of the cache in what all factors add.
    fn cache_share(&self, factors: &[&str]) -> f64 {
        let place = factors.iter().position(|name| *name == "cache").unwrap_or(0);
        100.0 * self.parts[place].unwrap_or(0.0) / self.total
    }
}

impl OnMachine {
    pub(super) fn new(
        machine: &Arc<Machine>,
        cast: &Cast<'_>,
        factors: &'static [&'static str],
        programs: Vec<Breakdown>,
    ) -> Self {
        let (programs_of, beside) = (cast.id, cast.interfering);
        Self { machine: machine.clone(), programs_of, beside, factors, programs }
    }

    fn has_nodes(&self) -> bool {
        self.machine.nodes().len() > 1
    }

    fn finding(&self) -> Finding {
        let below_half =
            self.programs.iter().filter(|one| one.cache_share(self.factors) < 50.0).count();
        let (what, paper) = if self.has_nodes() {
            ("Fig. 6", "the cache is not the main cause; controller and link are")
        } else {
            ("Fig. 5", "of five programs in six less than half is the cache")
        };
        Finding {
            what: format!(
                "Share of cache space on {}, {} programs ({what})",
                self.machine.name(),
                self.programs_of
            ),
            paper: paper.to_owned(),
            ours: format!("less than half for {below_half} of {}", self.programs.len()),
            difference: match self.programs_of {
                "library" if !self.has_nodes() => {
                    "The recorded programs keep their data in 4 MB and lose just that; SPEC's own behave \
                     as in the paper."
                }
                _ => "",
            }
            .to_owned(),
        }
    }

    fn figure(&self) -> StudyFigure {
        let rows = self.programs.iter().map(|one| {
            let mut row = vec![one.program.clone(), format!("{:.1}", one.total)];
            row.extend(
                one.parts
                    .iter()
                    .map(|part| part.map_or("-".to_owned(), |part| format!("{part:.1}"))),
            );
            row
        });
        let series = self.factors.iter().enumerate().map(|(place, name)| {
            let of = |one: &Breakdown| Some(100.0 * one.parts[place]? / one.total);
            ((*name).to_owned(), self.programs.iter().map(of).collect())
        });
        let (figure, how) = if self.has_nodes() {
            (
                "Fig. 6",
                "Three copies, the worst of eight scenarios (appendix A): the same LLC, and all memory \
                 on the other node. `link` is what sharing it adds, with what the factors add to one \
                 another.",
            )
        } else {
            (
                "Fig. 5",
                "One copy on the same LLC (eq. 4-8). `prefetch` is what is left: with prefetch on, a program \
                 asks for more bytes a second and waits less for each; a table does not tell it apart.",
            )
        };
        StudyFigure {
            id: format!("{}-{}", self.machine.name(), self.programs_of),
            heading: format!(
                "What the factors add on {}, {} programs ({figure})",
                self.machine.name(),
                self.programs_of
            ),
            about: format!(
                "Beside {}. {how} In % of the time alone; the drawing shows shares of the total.",
                self.beside
            ),
            chart: Some(Chart {
                kind: ChartKind::BarsFrom(0.0),
                across: "program".to_owned(),
                upwards: "% of the total".to_owned(),
                labels: self.programs.iter().map(|one| one.program.clone()).collect(),
                series: series.collect(),
            }),
            header: ["program", "total"]
                .iter()
                .chain(self.factors)
                .map(|&name| name.to_owned())
                .collect(),
            rows: rows.collect(),
        }
    }
}
