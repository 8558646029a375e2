//! The study's page.

use super::best::Beside;
use super::runs::{Mixed, ONLINE, Run, STATIC, normalised, policies};
use super::times::Time;
use super::{MACHINE, Measured, STUDY};
use crate::output::round;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport};

/// Places in [`Mixed::policies`].
const LFOC: usize = 2;
const DUNN_ONLINE: usize = STATIC.len();
const DYNAWAY: usize = STATIC.len() + 1;
const LFOC_ONLINE: usize = STATIC.len() + 2;
const FULL_SWEEPS: usize = STATIC.len() + 3;

/// Points of the curve over time.
const MOMENTS: usize = 60;

fn percent(ratio: f64) -> f64 {
    round(100.0 * (ratio - 1.0), 2)
}

fn strings(of: &[&str]) -> Vec<String> {
    of.iter().map(|&one| one.to_owned()).collect()
}

impl Measured<'_> {
    pub(super) fn page(&self) -> StudyReport {
        let mut figures = vec![self.over_time()];
        figures.push(self.against_stock(
            "static",
            "Fig. 6.6: with known curves",
            "The thesis, on its mixes: Dunn from 15.5 % less unfairness to 14 % more, KPart 8.6 % less on \
             average, LFOC 14 % less on average and up to 27.3 %.",
            &self.steady,
            0..STATIC.len(),
        ));
        figures.push(self.best());
        figures.push(self.against_stock(
            "online",
            "Fig. 6.7: by what they measure, the same mixes",
            "The thesis: LFOC 16.7 % less unfairness on average, 9 % less than Dunn; KPart-Dynaway did not \
             run there.",
            &self.steady,
            STATIC.len()..STATIC.len() + ONLINE.len(),
        ));
        figures.push(self.against_stock(
            "phases",
            "Fig. 6.7: mixes of eight with four programs that have phases",
            "Programs of the shipped library, traced, in mixes of eight; four of each have several phases.",
            &self.changing,
            0..STATIC.len() + ONLINE.len(),
        ));
        figures.push(self.sampling());
        figures.push(self.times());
        figures.push(self.every_mix());
        StudyReport {
            name: STUDY.name,
            title: "Clusters of cache ways, from known curves and from sampled ones".to_owned(),
            about: format!(
                "García García, doctoral thesis (UCM, 2021), chapter 6, on {MACHINE} with 11 ways: {} mixes of 8, \
                 12 and 16 programs of the SPEC table, drawn by class (the thesis's mixes are lost with its \
                 Fig. 6.5), and {} mixes of 8 of the shipped library's; {} seed{}. 150e9 instructions a program, \
                 until the longest has ended three times, geometric means.",
                self.steady.len(),
                self.changing.len(),
                self.seeds,
                if self.seeds == 1 { "" } else { "s" },
            ),
            findings: self.findings(),
            figures,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let unfairness =
            |mixed: &[Mixed], policy| percent(normalised(mixed, policy, |run| run.unfairness));
        let stp = |mixed: &[Mixed], policy| percent(normalised(mixed, policy, |run| run.stp));
        let online = |mixed: &[Mixed]| {
            format!(
                "unfairness {:+.1} % (dunn-online {:+.1} %, kpart-dynaway {:+.1} %), STP {:+.1} %",
                unfairness(mixed, LFOC_ONLINE),
                unfairness(mixed, DUNN_ONLINE),
                unfairness(mixed, DYNAWAY),
                stp(mixed, LFOC_ONLINE),
            )
        };
        let lost = |policy| self.mean(policy, |run| run.sampling.lost_percent);
        let time = |policy| self.mean(policy, |run| 100.0 * run.sampling.share);
        vec![
            Finding {
                what: "LFOC online against stock Linux (Fig. 6.7)".to_owned(),
                paper: "unfairness -16.7 % on average, 9 % less than Dunn".to_owned(),
                ours: online(&self.steady),
                difference: String::new(),
            },
            Finding {
                what: "The same on mixes with phases (Fig. 6.7)".to_owned(),
                paper: "as above, these mixes among them".to_owned(),
                ours: online(&self.changing),
                difference: String::new(),
            },
            Finding {
                what: "LFOC with known curves against stock Linux (Fig. 6.6)".to_owned(),
                paper: "unfairness -14 % on average, up to -27.3 %; STP above KPart's".to_owned(),
                ours: format!(
                    "unfairness {:+.1} % (kpart {:+.1} %, dunn {:+.1} %), STP {:+.1} %",
                    unfairness(&self.steady, LFOC),
                    unfairness(&self.steady, 1),
                    unfairness(&self.steady, 0),
                    stp(&self.steady, LFOC)
                ),
                difference: String::new(),
            },
            Finding {
                what: "Its unfairness over that of the best clustering (Fig. 6.6)".to_owned(),
                paper: "1.8 % above on average".to_owned(),
                ours: format!("above on average, by the number of programs: {}", self.over_best()),
                difference:
                    "The thesis's best is approximated in its simulator and measured on a machine; \
                             ours is exact where it is proven, and both are judged by the model that it is best in."
                        .to_owned(),
            },
            Finding {
                what: "What sampling costs: STP lost meanwhile, and time in it".to_owned(),
                paper: "few way counts suffice; no figure".to_owned(),
                ours: format!(
                    "{:.2} % in {:.1} % of the time; with full sweeps {:.2} % in {:.1} %; kpart-dynaway \
                     {:.2} % in {:.1} %",
                    lost(LFOC_ONLINE),
                    time(LFOC_ONLINE),
                    lost(FULL_SWEEPS),
                    time(FULL_SWEEPS),
                    lost(DYNAWAY),
                    time(DYNAWAY)
                ),
                difference: String::new(),
            },
        ]
    }

    fn mean(&self, policy: usize, of: fn(&Run) -> f64) -> f64 {
        let all: Vec<f64> = self.steady.iter().map(|one| of(&one.policies[policy])).collect();
        corun_metrics::mean(&all).unwrap_or(f64::NAN)
    }

    /// Fig. 6.4.
    fn over_time(&self) -> StudyFigure {
        let mpkc = |program: usize, phase: usize| {
            let best = &self.shipped.programs[program].phases[phase].best;
            best.llc_mpki / best.cpi
        };
        let span = |program: &usize| {
            let all =
                (0..self.shipped.programs[*program].phases.len()).map(|one| mpkc(*program, one));
            let (low, high) = all
                .fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
            high - low
        };
        let program = (0..self.shipped.programs.len())
            .max_by(|one, other| span(one).total_cmp(&span(other)).then(other.cmp(one)))
            .unwrap_or(0);
        let sequence = &self.shipped.programs[program].sequence;
        let whole: f64 = sequence.iter().map(|one| one.instructions).sum();
        let at = |moment: usize| {
            let place = (moment as f64 + 0.5) / MOMENTS as f64 * whole;
            let mut end = 0.0;
            let stretch = sequence.iter().find(|one| {
                end += one.instructions;
                place < end
            });
            stretch.map_or(0.0, |one| mpkc(program, one.phase))
        };
        let values: Vec<f64> = (0..MOMENTS).map(at).collect();
        let labels: Vec<String> = (0..MOMENTS)
            .map(|one| format!("{:.1}", (one as f64 + 0.5) / MOMENTS as f64 * 150.0))
            .collect();
        let rows = labels.iter().zip(&values);
        StudyFigure {
            id: "over-time".to_owned(),
            heading: format!("Fig. 6.4: misses of {} over time", self.shipped.names[program]),
            about: "Misses per 1000 cycles alone with the whole LLC, of the library's program whose phases \
                    differ most. The thesis shows fotonik3d, of a suite that is not in the data: a short \
                    light-sharing phase, then streaming."
                .to_owned(),
            header: strings(&["1e9 instructions", "MPKC"]),
            rows: rows.map(|(at, mpkc)| vec![at.clone(), format!("{mpkc:.2}")]).collect(),
            chart: Some(Chart {
                kind: ChartKind::LinesFrom(0.0),
                across: "1e9 instructions".to_owned(),
                upwards: "MPKC".to_owned(),
                series: vec![("MPKC".to_owned(), values.into_iter().map(Some).collect())],
                labels,
            }),
        }
    }

    /// Unfairness and STP by the number of programs, over stock Linux.
    fn against_stock(
        &self,
        id: &str,
        heading: &str,
        about: &str,
        mixed: &[Mixed],
        which: std::ops::Range<usize>,
    ) -> StudyFigure {
        let mut sizes: Vec<usize> = mixed.iter().map(|one| one.mix.len()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let names: Vec<&str> = policies().map(|asked| asked.shown).collect();
        let mut rows = Vec::new();
        let mut series: Vec<(String, Vec<Option<f64>>)> =
            which.clone().map(|policy| (names[policy].to_owned(), Vec::new())).collect();
        let mut labels = Vec::new();
        let mut row = |label: String, of: &[Mixed]| {
            for (place, policy) in which.clone().enumerate() {
                let unfairness = normalised(of, policy, |run| run.unfairness);
                let stp = normalised(of, policy, |run| run.stp);
                let all =
                    of.iter().map(|one| one.policies[policy].unfairness / one.stock.unfairness);
                let (best, worst) = all.fold((f64::INFINITY, 0.0_f64), |(low, high), one| {
                    (low.min(one), high.max(one))
                });
                rows.push(vec![
                    format!("{label}: {}", names[policy]),
                    format!("{:.2}", percent(unfairness)),
                    format!("{:.2}", percent(best)),
                    format!("{:.2}", percent(worst)),
                    format!("{:.2}", percent(stp)),
                ]);
                series[place].1.push(Some(unfairness));
            }
            labels.push(label);
        };
        for &size in &sizes {
            let of: Vec<Mixed> =
                mixed.iter().filter(|one| one.mix.len() == size).cloned().collect();
            row(format!("{size} programs"), &of);
        }
        if sizes.len() > 1 {
            row("all".to_owned(), mixed);
        }
        StudyFigure {
            id: id.to_owned(),
            heading: heading.to_owned(),
            about: format!("{about} Means over the mixes, against stock Linux (the LLC whole)."),
            header: strings(&["mixes", "unfairness %", "best mix %", "worst mix %", "STP %"]),
            rows,
            chart: Some(Chart {
                kind: ChartKind::BarsFrom(1.0),
                across: "mixes".to_owned(),
                upwards: "unfairness / stock's".to_owned(),
                labels,
                series,
            }),
        }
    }

    /// LFOC's unfairness over the best's on average, by the number of programs.
    fn over_best(&self) -> String {
        let mut sizes: Vec<usize> = self.beside.iter().map(|one| one.programs).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let of = |size: &usize| {
            let all: Vec<&Beside> =
                self.beside.iter().filter(|one| one.programs == *size).collect();
            let ratios: Vec<f64> = all.iter().map(|one| one.lfoc / one.best).collect();
            let over = percent(corun_metrics::mean(&ratios).unwrap_or(f64::NAN));
            let proven = all.iter().filter(|one| one.proven).count();
            format!("{over:.1} % of {size} ({proven} of {} proven)", all.len())
        };
        sizes.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    fn best(&self) -> StudyFigure {
        let row = |(place, one): (usize, &Beside)| {
            let ratio = |value: f64| format!("{:.4}", value / one.stock);
            let gap = one.gap.map_or("no, gap unknown".to_owned(), |gap| {
                format!("no, at most {:.2} % above it", 100.0 * gap)
            });
            vec![
                format!("S{}", place + 1),
                one.programs.to_string(),
                ratio(one.dunn),
                ratio(one.kpart),
                ratio(one.lfoc),
                ratio(one.best),
                format!("{:.2}", percent(one.lfoc / one.best)),
                if one.proven { "yes".to_owned() } else { gap },
            ]
        };
        StudyFigure {
            id: "best".to_owned(),
            heading: "Fig. 6.6: beside the best clustering".to_owned(),
            about: "Unfairness over stock Linux's by the model alone, with nobody sampled and nobody restarted. \
                    Dunn without overlap. The best is exact where it is proven; else it is the best that was found \
                    within so many nodes of search."
                .to_owned(),
            header: strings(&[
                "mix",
                "programs",
                "dunn",
                "kpart",
                "lfoc",
                "best",
                "lfoc over best %",
                "proven",
            ]),
            rows: self.beside.iter().enumerate().map(row).collect(),
            chart: None,
        }
    }

    /// Table 6.2.
    fn times(&self) -> StudyFigure {
        let row = |one: &Time| {
            vec![
                one.policy.to_owned(),
                one.programs.to_string(),
                one.decisions.to_string(),
                format!("{:.1}", one.median_us),
                format!("{:.1}", one.ninth_us),
            ]
        };
        StudyFigure {
            id: "times".to_owned(),
            heading: "Table 6.2: what a decision takes".to_owned(),
            about: "With known curves: the algorithm alone, 500 times. By what they measure: each call of a run \
                    that ended in a plan, sampling and the reasons in words with it. Time on the machine that made \
                    this page, which is not the same twice. The thesis, 11 programs: LFOC 2.2 us, KPart 4140 us."
                .to_owned(),
            header: strings(&["policy", "programs", "decisions", "median us", "nine in ten us"]),
            rows: self.times.iter().map(row).collect(),
            chart: None,
        }
    }

    fn sampling(&self) -> StudyFigure {
        let row = |policy: usize, name: &str| {
            let mean = |of: fn(&Run) -> f64| self.mean(policy, of);
            let sweeps = mean(|run| run.sampling.sweeps as f64);
            let steps = mean(|run| run.sampling.steps as f64);
            vec![
                name.to_owned(),
                format!("{sweeps:.1}"),
                format!("{:.2}", steps / sweeps),
                format!("{:.2}", mean(|run| 100.0 * run.sampling.share)),
                format!("{:.3}", mean(|run| run.sampling.lost_percent)),
            ]
        };
        let names: Vec<&str> = policies().map(|asked| asked.shown).collect();
        StudyFigure {
            id: "sampling".to_owned(),
            heading: "What sampling costs".to_owned(),
            about: "A sweep is a program's turn in the sampling partition. Lost: STP below that of the \
                    policy's own partitions while somebody is sampled, by the model with full caches, in % \
                    of the STP of the whole run. Mean of the mixes of SPEC programs."
                .to_owned(),
            header: strings(&["policy", "sweeps a run", "way counts a sweep", "time %", "STP lost %"]),
            rows: [DYNAWAY, LFOC_ONLINE, FULL_SWEEPS]
                .map(|policy| row(policy, names[policy]))
                .to_vec(),
            chart: None,
        }
    }

    fn every_mix(&self) -> StudyFigure {
        let rows = |ground: &super::Ground, mixed: &[Mixed], letter: &str| -> Vec<Vec<String>> {
            let row = |(place, one): (usize, &Mixed)| {
                let names: Vec<&str> =
                    one.mix.iter().map(|&program| ground.names[program].as_str()).collect();
                let mut row = vec![format!("{letter}{}: {}", place + 1, names.join(" "))];
                row.push(format!("{:.3}", one.stock.unfairness));
                let ratio = |run: &Run| format!("{:.3}", run.unfairness / one.stock.unfairness);
                row.extend(one.policies.iter().map(ratio));
                row
            };
            mixed.iter().enumerate().map(row).collect()
        };
        let mut header = strings(&["mix", "stock"]);
        header.extend(policies().map(|asked| asked.shown.to_owned()));
        let mut all = rows(self.spec, &self.steady, "S");
        all.extend(rows(self.shipped, &self.changing, "P"));
        StudyFigure {
            id: "every-mix".to_owned(),
            heading: "Every mix".to_owned(),
            about: "Unfairness of stock Linux, and of each policy over it.".to_owned(),
            header,
            rows: all,
            chart: None,
        }
    }
}
