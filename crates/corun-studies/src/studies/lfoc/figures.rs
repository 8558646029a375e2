//! The study's page.

use std::ops::Range;

use corun_report::{Axis, Mark, Panel, Plot, counted, fixed, round, signed};

use super::Measured;
use super::best::BesideBest;
use super::by_phase::KNOWING;
use super::runs::{MixRun, Mixed, ONLINE, SAMPLING, STATIC, normalised, place, policies, ratios_as_live};
use crate::harness::{Estimate, Figure, Page, PaperClaim};
use crate::simulate::TunedPolicy;
use crate::studies::partitioning::{MACHINE, PartitionedLlc};

/// Points of the curve over time.
const MOMENTS: usize = 60;

fn percent(ratio: f64) -> f64 {
    round(100.0 * (ratio - 1.0), 2)
}

/// A policy's unfairness over stock Linux's on average, in percent.
fn unfairness(mixed: &[Mixed], policy: usize) -> String {
    signed(percent(normalised(mixed, policy, |run| run.unfairness)), 1)
}

fn stp(mixed: &[Mixed], policy: usize) -> String {
    signed(percent(normalised(mixed, policy, |run| run.stp)), 1)
}

/// What policies that measure gain.
fn online(mixed: &[Mixed]) -> String {
    let [lfoc, dunn, kpart] = ["lfoc-online", "dunn-online", "kpart-dynaway"].map(place);
    format!(
        "unfairness {} % (dunn-online {} %, kpart-dynaway {} %), STP {} %",
        unfairness(mixed, lfoc),
        unfairness(mixed, dunn),
        unfairness(mixed, kpart),
        stp(mixed, lfoc),
    )
}

/// Numbers of programs, each once, rising.
fn sizes(of: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sizes: Vec<usize> = of.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Measured<'_> {
    /// The parts that were run, each with its figures and findings.
    pub(super) fn page(&self) -> Page {
        let [steady, changing] = [&self.steady, &self.changing].map(|mixed| !mixed.is_empty());
        let with_known_curves = || {
            self.against_stock(
                "static",
                "Fig. 6.6: with known curves",
                "The thesis, on its mixes: Dunn from 15.5 % less unfairness to 14 % more, KPart 8.6 % less \
                 on average, LFOC 14 % less on average and up to 27.3 %.",
                &self.steady,
                0..STATIC.len(),
            )
        };
        let online = || {
            self.against_stock(
                "online",
                "Fig. 6.7: by what they measure, the same mixes",
                "The thesis: LFOC 16.7 % less unfairness on average, 9 % less than Dunn; KPart-Dynaway did \
                 not run there.",
                &self.steady,
                STATIC.len()..STATIC.len() + ONLINE.len(),
            )
        };
        let with_phases = || {
            self.against_stock(
                "phases",
                "Fig. 6.7: mixes of eight with four programs that have phases",
                "Programs of the shipped library, traced, in mixes of eight; four of each have several \
                 phases.",
                &self.changing,
                0..STATIC.len() + ONLINE.len(),
            )
        };
        let figures = [
            changing.then(|| self.over_time()),
            steady.then(with_known_curves),
            (!self.beside.is_empty()).then(|| self.best()),
            steady.then(online),
            changing.then(with_phases),
            changing.then(|| self.by_phase()),
            steady.then(|| self.sampling()),
            (!self.times.is_empty()).then(|| self.times()),
            (steady || changing).then(|| self.every_mix()),
        ];
        let figures = figures.into_iter().flatten().collect();
        let about = format!(
            "García García, doctoral thesis (UCM, 2021), chapter 6, on {MACHINE} with 11 ways: {} of \
             8, 12 and 16 programs of the SPEC table, drawn by class (the thesis's mixes are lost with its \
             Fig. 6.5), and {} of 8 of the shipped library's; {}. 150e9 instructions a program, \
             until the longest has ended three times, geometric means. As live: policies that measure see the \
             machine so ({}).",
            counted(self.steady.len(), "mix"),
            counted(self.changing.len(), "mix"),
            counted(self.seeds as usize, "seed"),
            self.as_live,
        );
        let title = "Clusters of cache ways, from known curves and from sampled ones";
        Page::new(title, about, self.findings(), figures)
    }

    /// Of the parts that were run.
    fn findings(&self) -> Vec<PaperClaim> {
        let [steady, changing] = [&self.steady, &self.changing].map(|mixed| !mixed.is_empty());
        let best = !self.beside.is_empty();
        let findings = [
            steady.then(|| {
                PaperClaim::new(
                    "LFOC online against stock Linux (Fig. 6.7)",
                    "unfairness -16.7 % on average, 9 % less than Dunn",
                    online(&self.steady),
                )
            }),
            changing.then(|| {
                PaperClaim::new(
                    "The same on mixes with phases (Fig. 6.7)",
                    "as above, these mixes among them",
                    online(&self.changing),
                )
            }),
            (steady || changing).then(|| self.as_live()),
            steady.then(|| self.with_known_curves()),
            best.then(|| {
                PaperClaim::new(
                    "Its unfairness over that of the best clustering (Fig. 6.6)",
                    "1.8 % above on average",
                    format!(
                        "above on average, by the number of programs: {}",
                        self.over_best(|one| one.lfoc)
                    ),
                )
            }),
            (best || steady).then(|| self.of_fair_clusters()),
            steady.then(|| self.cost_of_sampling()),
        ];
        findings.into_iter().flatten().collect()
    }

    fn as_live(&self) -> PaperClaim {
        let live = |mixed: &[Mixed]| {
            let change = |figure: fn(&MixRun) -> f64| {
                let ratios = ratios_as_live(mixed, place("lfoc-online"), figure);
                Estimate::percent_above_one(&ratios.unwrap_or_default()).in_percent()
            };
            format!("unfairness {}, STP {}", change(|run| run.unfairness), change(|run| run.stp))
        };
        let what = match (self.steady.is_empty(), self.changing.is_empty()) {
            (false, false) => {
                "LFOC online as live against stock Linux, and the same on mixes with phases"
            }
            (true, _) => "LFOC online as live against stock Linux, on mixes with phases",
            (_, true) => "LFOC online as live against stock Linux",
        };
        let run = [&self.steady, &self.changing].into_iter().filter(|mixed| !mixed.is_empty());
        let ours = run.map(|mixed| live(mixed)).collect::<Vec<_>>().join("; ");
        PaperClaim::new(what, "on a real machine: as above", ours)
    }

    fn with_known_curves(&self) -> PaperClaim {
        let [lfoc, kpart, dunn] = ["lfoc", "kpart", "dunn"].map(place);
        PaperClaim::new(
            "LFOC with known curves against stock Linux (Fig. 6.6)",
            "unfairness -14 % on average, up to -27.3 %; STP above KPart's",
            format!(
                "unfairness {} % (kpart {} %, dunn {} %), STP {} %",
                unfairness(&self.steady, lfoc),
                unfairness(&self.steady, kpart),
                unfairness(&self.steady, dunn),
                stp(&self.steady, lfoc)
            ),
        )
        .noting(format!("STP of kpart {} %", stp(&self.steady, kpart)))
    }

    fn of_fair_clusters(&self) -> PaperClaim {
        let over_best =
            (!self.beside.is_empty()).then(|| self.over_best(|one| one.fair_clusters));
        let against_stock = (!self.steady.is_empty()).then(|| {
            format!(
                "against stock Linux unfairness {} %, STP {} %",
                unfairness(&self.steady, place("fair-clusters")),
                stp(&self.steady, place("fair-clusters"))
            )
        });
        let ours: Vec<String> = [over_best, against_stock].into_iter().flatten().collect();
        PaperClaim::new(
            "The same of corun's own fair-clusters",
            "not in the thesis",
            ours.join("; "),
        )
    }

    fn cost_of_sampling(&self) -> PaperClaim {
        let cost = |policy| {
            let lost = self.mean(policy, |run| run.sampling.lost_percent);
            (lost, self.mean(policy, |run| 100.0 * run.sampling.counted.share))
        };
        let [lfoc, full, dynaway, ours] =
            ["lfoc-online", "lfoc-online, full sweeps", "kpart-dynaway", "fair-clusters-online"]
                .map(|shown| cost(place(shown)));
        PaperClaim::new(
            "What sampling costs: STP lost meanwhile, and time in it",
            "few way counts suffice; no figure",
            format!(
                "{:.2} % in {:.1} % of the time; with full sweeps {:.2} % in {:.1} %; kpart-dynaway \
                 {:.2} % in {:.1} %; fair-clusters-online {:.3} % in {:.1} %",
                lfoc.0, lfoc.1, full.0, full.1, dynaway.0, dynaway.1, ours.0, ours.1
            ),
        )
    }

    fn mean(&self, policy: usize, of: fn(&MixRun) -> f64) -> f64 {
        let all: Vec<f64> = self.steady.iter().map(|one| of(&one.policies[policy])).collect();
        corun_metrics::mean(&all).unwrap_or(f64::NAN)
    }

    /// Fig. 6.4.
    fn over_time(&self) -> Figure {
        let programs = &self.shipped.programs;
        let mpkc = |program: usize, phase: usize| {
            let best = &programs[program].phases[phase].best;
            best.llc_mpki / best.cpi
        };
        let span = |program: &usize| {
            let all = (0..programs[*program].phases.len()).map(|one| mpkc(*program, one));
            let (low, high) = all
                .fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
            high - low
        };
        let program = (0..programs.len())
            .max_by(|one, other| span(one).total_cmp(&span(other)).then(other.cmp(one)))
            .unwrap_or(0);
        let sequence = &programs[program].sequence;
        let whole: f64 = sequence.iter().map(|one| one.instructions).sum();
        let part = |moment: usize| (moment as f64 + 0.5) / MOMENTS as f64;
        let at = |moment: usize| {
            let mut end = 0.0;
            let stretch = sequence.iter().find(|one| {
                end += one.instructions;
                part(moment) * whole < end
            });
            stretch.map_or(0.0, |one| mpkc(program, one.phase))
        };
        let moments: Vec<usize> = (0..MOMENTS).collect();
        let heading = format!("Fig. 6.4: misses of {} over time", self.shipped.names[program]);
        let about = "Misses per 1000 cycles alone with the whole LLC, of the library's program whose \
                     phases differ most. The thesis shows fotonik3d, of a suite that is not in the data: \
                     a short light-sharing phase, then streaming.";
        Figure::new("over-time", heading, about)
            .rows("1e9 instructions", &moments, |&one| fixed(part(one) * 150.0, 1))
            .column("MPKC", 2, |&one| at(one))
            .drawn("MPKC")
            .plotted(Mark::Line, Axis::Linear("MPKC".to_owned(), Some(0.0)))
    }

    /// Unfairness and STP by the number of programs, over stock Linux.
    fn against_stock(
        &self,
        id: &str,
        heading: &str,
        about: &str,
        mixed: &[Mixed],
        which: Range<usize>,
    ) -> Figure {
        let sizes = sizes(mixed.iter().map(|one| one.mix.len()));
        let of_size = |&size: &usize| {
            let of = mixed.iter().filter(|one| one.mix.len() == size).cloned();
            (format!("{size} programs"), of.collect())
        };
        let mut groups: Vec<(String, Vec<Mixed>)> = sizes.iter().map(of_size).collect();
        if sizes.len() > 1 {
            groups.push(("all".to_owned(), mixed.to_vec()));
        }
        let names: Vec<&str> = policies().map(|policy| policy.shown).collect();
        let rows: Vec<(&str, &[Mixed], usize)> = groups
            .iter()
            .flat_map(|(label, of)| which.clone().map(move |policy| (&label[..], &of[..], policy)))
            .collect();
        let ratios = |&(_, of, policy): &(&str, &[Mixed], usize)| -> Vec<f64> {
            let ratio = |one: &Mixed| one.policies[policy].unfairness / one.stock.unfairness;
            of.iter().map(ratio).collect()
        };
        let live = |&(_, of, policy): &(&str, &[Mixed], usize), figure: fn(&MixRun) -> f64| {
            ratios_as_live(of, policy, figure).map(|all| Estimate::percent_above_one(&all))
        };
        let mean = |of: fn(&MixRun) -> f64| {
            move |row: &(&str, &[Mixed], usize)| percent(normalised(row.1, row.2, of))
        };
        let series: Vec<(String, Vec<Option<f64>>)> = which
            .clone()
            .map(|policy| {
                let of = |(_, of): &(String, Vec<Mixed>)| {
                    Some(normalised(of, policy, |run| run.unfairness))
                };
                (names[policy].to_owned(), groups.iter().map(of).collect())
            })
            .collect();
        let labels = groups.iter().map(|one| one.0.clone()).collect();
        let upwards = Axis::Linear("unfairness / stock's".to_owned(), None);
        let panel = Panel::of_labels(Mark::Bars, "mixes", labels, upwards, &series);
        let about = format!("{about} Means over the mixes, against stock Linux (the LLC whole).");
        Figure::new(id, heading, about)
            .rows("mixes", &rows, |row| format!("{}: {}", row.0, names[row.2]))
            .column("unfairness %", 2, mean(|run| run.unfairness))
            .column("+- (95 %)", 2, |row| Estimate::percent_above_one(&ratios(row)).interval)
            .column("best mix %", 2, |row| ratios(row).into_iter().reduce(f64::min).map(percent))
            .column("worst mix %", 2, |row| ratios(row).into_iter().reduce(f64::max).map(percent))
            .column("STP %", 2, mean(|run| run.stp))
            .column("as live: unfairness %", 2, |row| live(row, |run| run.unfairness).map(|one| one.mean))
            .column("+- as live", 2, |row| live(row, |run| run.unfairness)?.interval)
            .column("as live: STP %", 2, |row| live(row, |run| run.stp).map(|one| one.mean))
            .table()
            .drawn(Plot::of(panel))
    }

    /// A policy's unfairness over the best's on average with its 95 % interval, by the number of programs.
    fn over_best(&self, unfairness: fn(&BesideBest) -> f64) -> String {
        let of = |size: &usize| {
            let all = self.beside.iter().filter(|one| one.programs == *size);
            let all: Vec<&BesideBest> = all.collect();
            let ratios: Vec<f64> = all.iter().map(|one| unfairness(one) / one.best).collect();
            let Estimate { mean, interval } = Estimate::percent_above_one(&ratios);
            let interval = interval.map_or_else(String::new, |half| format!(" +- {half:.2}"));
            let proven = all.iter().filter(|one| one.proven).count();
            format!("{mean:.2}{interval} % of {size} ({proven} of {} proven)", all.len())
        };
        let sizes = sizes(self.beside.iter().map(|one| one.programs));
        sizes.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    fn best(&self) -> Figure {
        let numbered: Vec<(usize, &BesideBest)> = (1..).zip(&self.beside).collect();
        let proven = |one: &BesideBest| match (one.proven, one.gap) {
            (true, _) => "yes".to_owned(),
            (false, None) => "no, gap unknown".to_owned(),
            (false, Some(gap)) => format!("no, at most {:.2} % above it", 100.0 * gap),
        };
        let about = "Unfairness over stock Linux's by the model alone, with nobody sampled and nobody \
                     restarted. Dunn without overlap. The best is exact where it is proven; else it is \
                     the best that was found within so many nodes of search.";
        Figure::new("best", "Fig. 6.6: beside the best clustering", about)
            .rows("mix", &numbered, |(number, _)| format!("S{number}"))
            .column("programs", 0, |(_, one)| one.programs as f64)
            .column("dunn", 4, |(_, one)| one.dunn / one.stock)
            .column("kpart", 4, |(_, one)| one.kpart / one.stock)
            .column("lfoc", 4, |(_, one)| one.lfoc / one.stock)
            .column("fair-clusters", 4, |(_, one)| one.fair_clusters / one.stock)
            .column("best", 4, |(_, one)| one.best / one.stock)
            .column("lfoc over best %", 2, |(_, one)| percent(one.lfoc / one.best))
            .column("fair-clusters over best %", 2, |(_, one)| {
                percent(one.fair_clusters / one.best)
            })
            .words("proven", |(_, one)| proven(one))
            .table()
    }

    /// Table 6.2.
    fn times(&self) -> Figure {
        let about = "With known curves: the algorithm alone, 500 times. By what they measure: each call of \
                     a run that ended in a plan, sampling and the reasons in words with it. Time on the \
                     machine that made this page, which is not the same twice. The thesis, 11 programs: \
                     LFOC 2.2 us, KPart 4140 us.";
        Figure::new("times", "Table 6.2: what a decision takes", about)
            .rows("policy", &self.times, |one| one.policy.to_owned())
            .column("programs", 0, |one| one.programs as f64)
            .column("decisions", 0, |one| one.decisions as f64)
            .column("median us", 1, |one| one.median_us)
            .column("nine in ten us", 1, |one| one.ninth_us)
            .table()
    }

    fn sampling(&self) -> Figure {
        let names: Vec<&str> = policies().map(|policy| policy.shown).collect();
        let sweeps = |&policy: &usize| self.mean(policy, |run| run.sampling.counted.sweeps as f64);
        let steps = |&policy: &usize| self.mean(policy, |run| run.sampling.counted.steps as f64);
        let about = "A sweep is a program's turn in the sampling partition. Lost: STP below that of the \
                     policy's own partitions while somebody is sampled, by the model with full caches, in \
                     % of the STP of the whole run. Mean of the mixes of SPEC programs.";
        Figure::new("sampling", "What sampling costs", about)
            .rows("policy", &SAMPLING.map(place), |&one| names[one].to_owned())
            .column("sweeps a run", 1, sweeps)
            .column("way counts a sweep", 2, |one| steps(one) / sweeps(one))
            .column("time %", 2, |&one| self.mean(one, |run| 100.0 * run.sampling.counted.share))
            .column("STP lost %", 3, |&one| self.mean(one, |run| run.sampling.lost_percent))
            .table()
    }

    /// What there is to gain where programs change.
    fn by_phase(&self) -> Figure {
        let about = "The same mixes of programs with phases by policies that know at each moment in which phase \
                     each program is: fair-clusters on the phases' curves, the same with each program's slowdown \
                     multiplied by its slowdown so far, and the exact least unfairness in these phases by the \
                     model. Nobody is fairer than without any slowdown.";
        let places: Vec<usize> = (0..=KNOWING.len()).collect();
        let ratios = |&place: &usize| -> Vec<f64> {
            let mixes = self.changing.iter().zip(&self.by_phase);
            let unfairness = |runs: &[MixRun]| runs.get(place).map_or(1.0, |run| run.unfairness);
            mixes.map(|(mix, runs)| unfairness(runs) / mix.stock.unfairness).collect()
        };
        let stp = |&place: &usize| -> f64 {
            let mixes = self.changing.iter().zip(&self.by_phase);
            let all: Option<Vec<f64>> =
                mixes.map(|(mix, runs)| Some(runs.get(place)?.stp / mix.stock.stp)).collect();
            all.and_then(|all| corun_metrics::mean(&all)).map_or(f64::NAN, percent)
        };
        let name = |&place: &usize| {
            KNOWING.get(place).map_or("all equally slow", |(_, name)| *name).to_owned()
        };
        let mean = |place: &usize| {
            percent(corun_metrics::mean(&ratios(place)).unwrap_or(f64::NAN))
        };
        Figure::new("by-phase", "What knowing the phases could be worth", about)
            .rows("policy", &places, name)
            .column("unfairness %", 2, mean)
            .column("+- (95 %)", 2, |place| Estimate::percent_above_one(&ratios(place)).interval)
            .column("STP %", 2, stp)
            .table()
    }

    fn every_mix(&self) -> Figure {
        let named = |llc: &PartitionedLlc, letter: &str, number: usize, one: &Mixed| {
            let names: Vec<&str> =
                one.mix.iter().map(|&program| llc.names[program].as_str()).collect();
            format!("{letter}{number}: {}", names.join(" "))
        };
        let mut rows: Vec<(String, &Mixed)> = Vec::new();
        for (llc, letter, mixed) in
            [(self.spec, "S", &self.steady), (self.shipped, "P", &self.changing)]
        {
            let named =
                (1..).zip(mixed).map(|(number, one)| (named(llc, letter, number, one), one));
            rows.extend(named);
        }
        let about = "Unfairness of stock Linux, and of each policy over it.";
        let mut table = Figure::new("every-mix", "Every mix", about)
            .rows("mix", &rows, |one| one.0.clone())
            .column("stock", 3, |one| one.1.stock.unfairness);
        for (place, TunedPolicy { shown, .. }) in policies().enumerate() {
            table = table
                .column(shown, 3, |one| one.1.policies[place].unfairness / one.1.stock.unfairness);
        }
        table.table()
    }
}
