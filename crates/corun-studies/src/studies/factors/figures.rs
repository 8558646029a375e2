//! The study's page.

use std::sync::Arc;

use corun_machine::Machine;
use corun_report::{Axis, Mark};

use super::{Breakdown, Cast, OnMachine};
use crate::harness::{Figure, Page, PaperClaim};

pub(super) fn page(machines: &[OnMachine]) -> Page {
    let about = "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 3 and appendix A. \
                 Programs beside one that misses often (the paper's: milc), those that degrade most.";
    let findings = machines.iter().map(OnMachine::finding).collect();
    let figures = machines.iter().map(OnMachine::figure).collect();
    Page::new("Where degradation comes from", about, findings, figures)
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

    /// The share of a factor in what all add to a program, in %.
    fn share(&self, program: &Breakdown, factor: usize) -> Option<f64> {
        Some(100.0 * program.parts[factor]? / program.total)
    }

    fn finding(&self) -> PaperClaim {
        let cache = self.factors.iter().position(|name| *name == "cache").unwrap_or(0);
        let of_cache = |one: &&Breakdown| self.share(one, cache).is_some_and(|share| share < 50.0);
        let below_half = self.programs.iter().filter(of_cache).count();
        let (figure, paper) = if self.has_nodes() {
            ("Fig. 6", "the cache is not the main cause; controller and link are")
        } else {
            ("Fig. 5", "of five programs in six less than half is the cache")
        };
        let (machine, programs) = (self.machine.name(), self.programs_of);
        PaperClaim::new(
            format!("Share of cache space on {machine}, {programs} programs ({figure})"),
            paper,
            format!("less than half for {below_half} of {}", self.programs.len()),
        )
        .noting(self.mean_shares())
    }

    /// `cache 52 %, link 20 %, ..`: the factors by their mean share, the greatest first.
    fn mean_shares(&self) -> String {
        let mean = |factor: usize| {
            let shares: Option<Vec<f64>> =
                self.programs.iter().map(|one| self.share(one, factor)).collect();
            corun_metrics::mean(&shares?)
        };
        let known =
            self.factors.iter().enumerate().filter_map(|(at, name)| Some((mean(at)?, name)));
        let mut shares: Vec<(f64, &&str)> = known.collect();
        shares.sort_by(|one, other| other.0.total_cmp(&one.0));
        let texts: Vec<String> =
            shares.iter().map(|(share, name)| format!("{name} {share:.0} %")).collect();
        format!("mean shares: {}", texts.join(", "))
    }

    fn figure(&self) -> Figure {
        let (figure, how) = if self.has_nodes() {
            (
                "Fig. 6",
                "Three copies, in the scenario of appendix A that meets all factors: the same LLC, and \
                 all memory on the other node. `link` is what sharing the link adds, with what the \
                 factors add to one another.",
            )
        } else {
            (
                "Fig. 5",
                "One copy on the same LLC (eq. 4-8). `prefetch` is what is left: with prefetch on, \
                 a program asks for more bytes a second and waits less for each; a table does not \
                 tell it apart.",
            )
        };
        let (machine, programs) = (self.machine.name(), self.programs_of);
        let heading = format!("What the factors add on {machine}, {programs} programs ({figure})");
        let about = format!(
            "Beside {}. {how} In % of the time alone; the drawing shows shares of the total.",
            self.beside
        );
        let mut rows = Figure::new(format!("{machine}-{programs}"), heading, about)
            .rows("program", &self.programs, |one| one.program.clone())
            .column("total", 1, |one| one.total);
        for (factor, &name) in self.factors.iter().enumerate() {
            rows = rows
                .column(name, 1, |one| one.parts[factor])
                .series(name, |one| self.share(one, factor));
        }
        rows.plotted(Mark::Bars, Axis::Linear("% of the total".to_owned(), Some(0.0)))
    }
}
