//! The study's page.

use super::{AtSize, BySize, COPIES, Overhead, POOR, Played, SETTLE_S, STUDY, WINDOW_S, Window};
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport, strings};

pub(super) fn report(
    seeds: u32,
    played: &[Played],
    fig_2: &BySize,
    fig_3: &BySize,
    overhead: &Overhead,
) -> StudyReport {
    let mut findings: Vec<Finding> = played.iter().flat_map(Played::findings).collect();
    findings.push(overhead.finding());
    let mut figures = vec![fig_2.fig_2(), fig_3.fig_3()];
    for one in played {
        figures.extend([one.fig_5(), one.fig_6(), one.fig_7(), one.accuracy(), one.locality()]);
    }
    figures.push(overhead.figure());
    StudyReport {
        name: STUDY.name,
        title: "CASC on a multithreaded chip".to_owned(),
        about: format!(
            "Fedorova et al., CASC, section 5, on {}: two cores of four contexts, L2 of 48 to 768 KB. \
             Three recorded programs of one phase, {COPIES} copies each, for the paper's: {}. {seeds} \
             seeds; {WINDOW_S} simulated seconds after {SETTLE_S}.",
            super::MACHINE,
            played.iter().map(Played::cast).collect::<Vec<_>>().join("; or "),
        ),
        findings,
        figures,
    }
}

fn number(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| number(value, 2))
}

impl Played {
    fn cast(&self) -> String {
        let [database, small, poor] = self.cast.programs;
        format!("{database} and {small} (good locality), {poor} (poor)")
    }

    fn id(&self, figure: &str) -> String {
        format!("{}-{figure}", self.cast.id)
    }

    /// The lowest and the highest of a figure over the sizes.
    fn range(&self, of: impl Fn(&AtSize) -> f64) -> (f64, f64) {
        let values: Vec<f64> = self.sizes.iter().map(of).collect();
        let fold = |start, pick: fn(f64, f64) -> f64| values.iter().copied().fold(start, pick);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    }

    fn findings(&self) -> Vec<Finding> {
        let with = self.cast.programs[POOR];
        let finding = |what: &str, paper: &str, ours: String, difference: &str| Finding {
            what: format!("{what}, with {with}"),
            paper: paper.to_owned(),
            ours,
            difference: difference.to_owned(),
        };
        let (least, most) = self.range(|one| -one.change_percent(Window::miss_ratio));
        let (slowest, fastest) = self.range(|one| one.change_percent(Window::throughput));
        let (few, many) = self.range(AtSize::right);
        let (_, unfair) = self.range(|one| one.means(Window::unfairness).1);
        let (_, default) = self.range(|one| one.means(Window::unfairness).0);
        let (idle, busy) = self.range(|one| 100.0 * one.means(Window::throughput).0 / one.peak);
        let (_, errors) = self.range(|one| one.group_errors().map_or(f64::NAN, |one| one.1));
        vec![
            finding(
                "L2 misses per reference fall by (Fig. 5)",
                "15 to 46 %",
                format!("{least:.0} to {most:.0} %"),
                "With 48 KB a thread has 6 KB, all our programs miss nearly always, and there is nobody to \
                 prefer; with 96 KB only one program does not. From 192 KB on localities differ, as the paper's \
                 do at all sizes.",
            ),
            finding(
                "Throughput rises by (Fig. 6)",
                "28 to 50 %",
                format!("{slowest:.0} to {fastest:.0} %"),
                &format!(
                    "The pipelines already issue {idle:.0} to {busy:.0} % of what they can without CASC, from 192 KB \
                     on over two thirds: four contexts hide most of what misses cost these programs, so fewer misses \
                     gain little. Whoever runs instead of the poor program waits for the pipeline."
                ),
            ),
            finding(
                "Standard deviation of CPU time over its mean, at worst (Fig. 7)",
                "90 % with CASC, 43 % without",
                format!("{unfair:.0} %, {default:.0} % without"),
                "The default here is a fair scheduler, the paper's a multi-level feedback queue.",
            ),
            finding(
                "Of 18 threads categorised rightly",
                "12 to 16",
                format!("{few:.1} to {many:.1}"),
                "Poor is a PCMR above the mean of all. At 48 KB PCMRs are all alike, at 96 KB one of the good \
                 programs misses as much as the poor one.",
            ),
            finding(
                "Error of a group's predicted miss ratio",
                "at most 30 %",
                format!("95 % of the time at most {errors:.0} %"),
                "Over single intervals between switches, in % of what was observed. A thread that misses runs \
                 slowly and so refers less: a group's ratio is below the mean of its threads', and measured PCMRs \
                 of the poor program are below the model's.",
            ),
        ]
    }

    fn by_size(&self, of: impl Fn(&Window) -> f64 + Copy) -> Vec<(String, (f64, f64))> {
        self.sizes.iter().map(|one| (format!("{} KB", one.l2_kib), one.means(of))).collect()
    }

    fn pair_figure(
        &self,
        (id, heading, about, upwards): (&str, &str, &str, &str),
        digits: usize,
        of: impl Fn(&Window) -> f64 + Copy,
    ) -> StudyFigure {
        let points = self.by_size(of);
        let series = |pick: fn(&(f64, f64)) -> f64| {
            points.iter().map(|(_, pair)| Some(pick(pair))).collect::<Vec<_>>()
        };
        let row = |(size, (default, casc)): &(String, (f64, f64))| {
            let change = 100.0 * (casc / default - 1.0);
            vec![size.clone(), number(*default, digits), number(*casc, digits), number(change, 1)]
        };
        StudyFigure {
            id: self.id(id),
            heading: format!("{heading}: {}", self.cast()),
            about: about.to_owned(),
            chart: Some(Chart {
                kind: ChartKind::BarsFrom(0.0),
                across: "size of the L2".to_owned(),
                upwards: upwards.to_owned(),
                labels: points.iter().map(|(size, _)| size.clone()).collect(),
                series: vec![
                    ("default".to_owned(), series(|pair| pair.0)),
                    ("CASC".to_owned(), series(|pair| pair.1)),
                ],
            }),
            header: strings(&["L2", "default", "CASC", "change %"]),
            rows: points.iter().map(row).collect(),
        }
    }

    fn fig_5(&self) -> StudyFigure {
        let about = "Misses per 100 references, all threads together. The paper: 15 to 46 % less, as much \
                     as a cache of twice the size.";
        let words = ("fig-5", "L2 miss ratio (Fig. 5)", about, "misses per 100 references");
        self.pair_figure(words, 1, Window::miss_ratio)
    }

    fn fig_6(&self) -> StudyFigure {
        let about = "1e9 instructions a second, all threads together. The paper: 28 to 50 % more.";
        let words = ("fig-6", "Throughput (Fig. 6)", about, "1e9 instructions a second");
        self.pair_figure(words, 3, Window::throughput)
    }

    /// The size where CASC is the least fair.
    fn fig_7(&self) -> StudyFigure {
        let unfair = |one: &&AtSize| one.means(Window::unfairness).1;
        let worst = self.sizes.iter().max_by(|a, b| unfair(a).total_cmp(&unfair(b)));
        let shares = worst.and_then(|one| one.runs.first());
        let (default, casc) =
            shares.map(|run| (run.0.shares(), run.1.shares())).unwrap_or_default();
        let name = |thread: usize| format!("{} {}", self.cast.programs[thread % 3], thread / 3 + 1);
        // One program's copies side by side.
        let order = (0..3).flat_map(|program| (0..COPIES).map(move |copy| copy * 3 + program));
        let rows = order.clone().filter(|&thread| thread < casc.len()).map(|thread| {
            let percent = |share: f64| number(100.0 * share, 2);
            vec![name(thread), percent(default[thread]), percent(casc[thread])]
        });
        let size = worst.map_or(0, |one| one.l2_kib);
        StudyFigure {
            id: self.id("fig-7"),
            heading: format!("Each thread's share of CPU time, {size} KB (Fig. 7)"),
            about: format!(
                "In %, with the L2 where CASC is the least fair, the first seed. Standard deviation over mean: \
                 {} % with CASC (paper 90), {} % without (43). All {} CPUs' time is used: {} and {}.",
                number(worst.map_or(f64::NAN, |one| one.means(Window::unfairness).1), 0),
                number(worst.map_or(f64::NAN, |one| one.means(Window::unfairness).0), 0),
                8,
                number(worst.map_or(f64::NAN, |one| one.means(Window::busy_cpus).1), 2),
                number(worst.map_or(f64::NAN, |one| one.means(Window::busy_cpus).0), 2),
            ),
            chart: None,
            header: strings(&["thread", "default", "CASC"]),
            rows: rows.collect(),
        }
    }

    fn accuracy(&self) -> StudyFigure {
        let rows = self.sizes.iter().map(|one| {
            let errors = one.group_errors();
            let (initial, all) = one.measured_s();
            let first = one.findings().next();
            let max_pcmr = first.map_or_else(String::new, |found| {
                found.max_pcmr.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
            });
            let threshold = first.map_or(f64::NAN, |found| found.threshold);
            vec![
                format!("{} KB", one.l2_kib),
                number(one.right(), 1),
                number(errors.map_or(f64::NAN, |one| one.0), 1),
                number(errors.map_or(f64::NAN, |one| one.1), 1),
                seconds(initial),
                seconds(all),
                number(threshold, 1),
                max_pcmr,
                one.findings().map(|found| found.measured_anew).sum::<u32>().to_string(),
            ]
        });
        StudyFigure {
            id: self.id("accuracy"),
            heading: "What CASC found out".to_owned(),
            about: "Threads categorised rightly of 18 (paper 12 to 16); errors of predicted group miss ratios in \
                    % (paper: at most 30); when the initial measurement (paper 9.8 s) and all measuring were over; \
                    the threshold that came out and MAX_PCMR by CPU, of the first seed; how often all was measured \
                    anew, all seeds."
                .to_owned(),
            chart: None,
            header: strings(&[
                "L2", "right", "error, mean", "error, 95 %", "initial s", "all s", "threshold", "MAX_PCMR",
                "anew",
            ]),
            rows: rows.collect(),
        }
    }

    /// PCMRs measured beside those of the model.
    fn locality(&self) -> StudyFigure {
        let mut rows = Vec::new();
        for one in &self.sizes {
            for (program, name) in self.cast.programs.iter().enumerate() {
                let found = one.findings().flat_map(AtSize::pcmrs);
                let of: Vec<f64> =
                    found.filter(|(thread, _)| thread % 3 == program).map(|one| one.1).collect();
                let least = of.iter().copied().fold(f64::INFINITY, f64::min);
                let most = of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                rows.push(vec![
                    format!("{} KB, {name}", one.l2_kib),
                    number(corun_metrics::mean(&of).unwrap_or(f64::NAN), 1),
                    number(least, 1),
                    number(most, 1),
                    number(one.partial[program], 1),
                ]);
            }
        }
        StudyFigure {
            id: self.id("pcmr"),
            heading: "PCMRs measured, and what they stand for".to_owned(),
            about: "Misses per 100 references: the PCMRs of a program's six threads over all seeds, and by the \
                    model the program with 1/8 of the L2 beside three others on its core."
                .to_owned(),
            chart: None,
            header: strings(&["L2, program", "mean", "least", "most", "model"]),
            rows,
        }
    }
}

impl BySize {
    fn figure(&self, words: [&str; 4], misses: &str, upwards: &str) -> StudyFigure {
        let [id, heading, about, across] = words;
        let row = |(size, ipc, misses): &(u64, f64, f64)| {
            vec![format!("{size} KB"), number(*ipc, 3), number(*misses, 1)]
        };
        StudyFigure {
            id: id.to_owned(),
            heading: heading.to_owned(),
            about: about.to_owned(),
            chart: Some(Chart {
                kind: ChartKind::LinesFrom(0.0),
                across: across.to_owned(),
                upwards: upwards.to_owned(),
                labels: self.points.iter().map(|one| format!("{} KB", one.0)).collect(),
                series: vec![(
                    "instructions per cycle of a core".to_owned(),
                    self.points.iter().map(|one| Some(one.1)).collect(),
                )],
            }),
            header: strings(&[across, "IPC of a core", misses]),
            rows: self.points.iter().map(row).collect(),
        }
    }

    fn fig_2(&self) -> StudyFigure {
        let about = "Four threads on one core with an L2 of 768 KB, its L1s (8 KB data, 16 KB instructions) at a \
                     quarter to four times their size. The paper: the miss rate varies dramatically, the IPC hardly, \
                     since the contexts hide the latency of the L2.";
        let words = ["fig-2", "IPC by the size of the L1 (Fig. 2)", about, "size of both L1"];
        self.figure(words, "L1 misses per 1000 instructions", "instructions per cycle")
    }

    fn fig_3(&self) -> StudyFigure {
        let about = "Eight threads on two cores. The paper: IPC falls as the L2 misses more, since the latency of \
                     memory cannot be hidden wholly.";
        let words = ["fig-3", "IPC by the size of the L2 (Fig. 3)", about, "size of the L2"];
        self.figure(words, "L2 misses per 100 references", "instructions per cycle")
    }
}

impl Overhead {
    fn means(&self) -> (f64, f64) {
        let mean = |all: &[f64]| corun_metrics::mean(all).unwrap_or(f64::NAN);
        (mean(&self.default_s), mean(&self.casc_s))
    }

    fn finding(&self) -> Finding {
        let (default, casc) = self.means();
        Finding {
            what: "Cost of measuring where nothing is gained (section 5.3.4)".to_owned(),
            paper: "63 minutes with and without".to_owned(),
            ours: format!("{casc:.2} s with, {default:.2} s without"),
            difference: "In the simulator decisions take no time: what is left is the cost of holding newcomers on one CPU \
                         and of letting five run ahead."
                .to_owned(),
        }
    }

    fn figure(&self) -> StudyFigure {
        let row = |(seed, (default, casc)): (usize, (&f64, &f64))| {
            vec![(seed + 1).to_string(), number(*default, 3), number(*casc, 3)]
        };
        StudyFigure {
            id: "overhead".to_owned(),
            heading: "What measuring costs (section 5.3.4)".to_owned(),
            about: format!(
                "Seconds until the last of {} programs has ended on four processors of 450 MHz with caches of their \
                 own, each run once; any miss ratio is allowed and a random thread is measured anew every 250 ms.",
                self.programs
            ),
            chart: None,
            header: strings(&["seed", "default", "CASC"]),
            rows: self.default_s.iter().zip(&self.casc_s).enumerate().map(row).collect(),
        }
    }
}
