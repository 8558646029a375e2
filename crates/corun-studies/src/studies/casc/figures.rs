//! The study's page.

use corun_report::{counted, fixed};

use super::{
    AtSize, BySize, COPIES, MACHINE, OnAllSizes, Overhead, POOR, SETTLE_S, WINDOW_S, Window,
};
use crate::harness::{Figure, Page, PaperClaim};

pub(super) fn page(
    (seeds, as_live): (u32, &str),
    casts: &[OnAllSizes],
    fig_2: &BySize,
    fig_3: &BySize,
    overhead: &Overhead,
) -> Page {
    let mut findings: Vec<PaperClaim> = casts.iter().flat_map(OnAllSizes::findings).collect();
    findings.push(overhead.finding());
    let mut figures = vec![fig_2.fig_2(), fig_3.fig_3()];
    for one in casts {
        figures.extend([one.fig_5(), one.fig_6(), one.fig_7(), one.accuracy(), one.locality()]);
    }
    figures.push(overhead.figure());
    let about = format!(
        "Fedorova et al., CASC, section 5, on {MACHINE}: two cores of four contexts, L2 of 48 to 768 KB. \
         Three programs, {COPIES} copies each, for the paper's: {}. {}; \
         {WINDOW_S} simulated seconds after {SETTLE_S}. As live: CASC sees the machine so ({as_live}).",
        casts.iter().map(OnAllSizes::cast).collect::<Vec<_>>().join("; or "),
        counted(seeds as usize, "seed"),
    );
    Page::new("CASC on a multithreaded chip", about, findings, figures)
}

impl OnAllSizes {
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

    fn findings(&self) -> Vec<PaperClaim> {
        let with = self.cast.programs[POOR];
        let finding = |what: &str, paper: &str, ours: String| {
            PaperClaim::new(format!("{what}, with {with}"), paper, ours)
        };
        let (least, most) = self.range(|one| -one.change_percent(Window::miss_ratio));
        let (slowest, fastest) = self.range(|one| one.change_percent(Window::throughput));
        let (room_least, room) = self.range(|one| one.change_percent_in(&one.apart, Window::throughput));
        let (live_least, live_most) =
            self.range(|one| one.change_percent_in(&one.live, Window::throughput));
        let (few, many) = self.range(AtSize::right);
        let (_, unfair) = self.range(|one| one.means(Window::unfairness).1);
        let (_, default) = self.range(|one| one.means(Window::unfairness).0);
        let (idle, busy) = self.range(|one| 100.0 * one.means(Window::throughput).0 / one.peak);
        let (_, errors) = self.range(|one| one.group_errors().map_or(f64::NAN, |one| one.1));
        vec![
            finding(
                "L2 misses per reference fall by (Fig. 5)",
                "15 to 46 %",
                format!("{} to {} %", fixed(least, 0), fixed(most, 0)),
            )
            .noting(self.falls_as_in_the_paper()),
            finding(
                "Throughput rises by (Fig. 6)",
                "28 to 50 %",
                format!("{} to {} %", fixed(slowest, 0), fixed(fastest, 0)),
            )
            .noting(format!(
                "as live by {} to {} %; with all threads of {with} on a CPU of their own by {} to {} %; without CASC the pipelines issue \
                 {idle:.0} to {busy:.0} % of what they can",
                fixed(live_least, 0),
                fixed(live_most, 0),
                fixed(room_least, 0),
                fixed(room, 0)
            )),
            finding(
                "Standard deviation of CPU time over its mean, at worst (Fig. 7)",
                "90 % with CASC, 43 % without",
                format!("{unfair:.0} %, {default:.0} % without"),
            ),
            finding(
                "Of 18 threads categorised rightly",
                "12 to 16",
                format!("{few:.1} to {many:.1}"),
            ),
            finding(
                "Error of a group's predicted miss ratio",
                "at most 30 %",
                format!("95 % of the time at most {errors:.0} %"),
            )
            .against_limit(errors, 30.0),
        ]
    }

    /// At which sizes the miss ratio falls by as much as in the paper.
    fn falls_as_in_the_paper(&self) -> String {
        let falls = |one: &&AtSize| -one.change_percent(Window::miss_ratio) >= 15.0;
        let sizes: Vec<String> = self.sizes.iter().filter(falls).map(AtSize::size).collect();
        let sizes = if sizes.is_empty() { "no size".to_owned() } else { sizes.join(", ") };
        format!("by 15 % or more at {sizes}")
    }

    fn pair_figure(
        &self,
        (id, heading, about, upwards): (&str, &str, &str, &str),
        decimals: usize,
        of: impl Fn(&Window) -> f64 + Copy,
    ) -> Figure {
        Figure::new(self.id(id), format!("{heading}: {}", self.cast()), about)
            .rows("L2", &self.sizes, AtSize::size)
            .column("default", decimals, |one| one.means(of).0)
            .drawn("default")
            .column("CASC", decimals, |one| one.means(of).1)
            .drawn("CASC")
            .column("change %", 1, |one| one.change_percent(of))
            .column("+-", 1, |one| one.interval_in(one.runs.iter().map(|run| &run.1), of))
            .column("CASC as live %", 1, |one| one.change_percent_in(&one.live, of))
            .column("+- as live", 1, |one| one.interval_in(one.live.iter(), of))
            .column("poor apart %", 1, |one| one.change_percent_in(&one.apart, of))
            .bars(0.0, upwards)
    }

    fn fig_5(&self) -> Figure {
        let about = "Misses per 100 references, all threads together. The paper: 15 to 46 % less, as much \
                     as a cache of twice the size. +-: half of the 95 % interval over seeds. Last, the change with all threads of poor locality on a CPU of their own.";
        let words = ("fig-5", "L2 miss ratio (Fig. 5)", about, "misses per 100 references");
        self.pair_figure(words, 1, Window::miss_ratio)
    }

    fn fig_6(&self) -> Figure {
        let about = "1e9 instructions a second, all threads together. The paper: 28 to 50 % more. +-: half of the 95 % interval over seeds. Last, what is to be had \
                     by keeping all threads of poor locality on a CPU of their own, told beforehand.";
        let words = ("fig-6", "Throughput (Fig. 6)", about, "1e9 instructions a second");
        self.pair_figure(words, 3, Window::throughput)
    }

    /// The size where CASC is the least fair.
    fn fig_7(&self) -> Figure {
        let unfair = |one: &&AtSize| one.means(Window::unfairness).1;
        let worst = self.sizes.iter().max_by(|a, b| unfair(a).total_cmp(&unfair(b)));
        let shares = worst.and_then(|one| one.runs.first());
        let (default, casc) =
            shares.map(|run| (run.0.shares(), run.1.shares())).unwrap_or_default();
        let means =
            |of: fn(&Window) -> f64| worst.map_or((f64::NAN, f64::NAN), |one| one.means(of));
        let (unfairness, busy) = (means(Window::unfairness), means(Window::busy_cpus));
        let about = format!(
            "In %, with the L2 where CASC is the least fair, the first seed. Standard deviation over \
             mean: {:.0} % with CASC (paper 90), {:.0} % without (43). Busy CPUs of 8: {:.2} \
             and {:.2}.",
            unfairness.1, unfairness.0, busy.1, busy.0
        );
        let size = worst.map_or(0, |one| one.l2_kib);
        let heading = format!("Each thread's share of CPU time, {size} KB (Fig. 7)");
        // One program's copies side by side.
        let order = (0..3).flat_map(|program| (0..COPIES).map(move |copy| copy * 3 + program));
        let threads: Vec<usize> = order.filter(|&thread| thread < casc.len()).collect();
        Figure::new(self.id("fig-7"), heading, about)
            .rows("thread", &threads, |thread| {
                format!("{} {}", self.cast.programs[thread % 3], thread / 3 + 1)
            })
            .column("default", 2, |&thread| 100.0 * default[thread])
            .column("CASC", 2, |&thread| 100.0 * casc[thread])
            .table()
    }

    fn accuracy(&self) -> Figure {
        let about = "Threads categorised rightly of 18 (paper 12 to 16); errors of predicted group miss \
                     ratios in % (paper: at most 30); when the initial measurement (paper 9.8 s) and all \
                     measuring were over; the threshold that came out and MAX_PCMR by CPU, of the first \
                     seed; how often all was measured anew, all seeds. Last the same of CASC as live: threads \
                     categorised rightly, and when all measuring was over; a dash where some seed's was not.";
        let max_pcmr = |one: &AtSize| {
            let first = one.findings().next();
            first.map_or_else(String::new, |found| {
                found.max_pcmr.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
            })
        };
        let anew =
            |one: &AtSize| one.findings().map(|found| f64::from(found.measured_anew)).sum::<f64>();
        Figure::new(self.id("accuracy"), "What CASC found out", about)
            .rows("L2", &self.sizes, AtSize::size)
            .column("right", 1, AtSize::right)
            .column("error, mean", 1, |one| Some(one.group_errors()?.0))
            .column("error, 95 %", 1, |one| Some(one.group_errors()?.1))
            .column("initial s", 2, |one| AtSize::measured_s(one.findings()).0)
            .column("all s", 2, |one| AtSize::measured_s(one.findings()).1)
            .column("threshold", 1, |one| Some(one.findings().next()?.threshold))
            .words("MAX_PCMR", max_pcmr)
            .column("anew", 0, anew)
            .column("right as live", 1, |one| AtSize::right_in(one.findings_as_live()))
            .column("all s as live", 2, |one| AtSize::measured_s(one.findings_as_live()).1)
            .table()
    }

    /// PCMRs measured beside those of the model.
    fn locality(&self) -> Figure {
        let programs = 0..self.cast.programs.len();
        let rows: Vec<(&AtSize, usize)> = self
            .sizes
            .iter()
            .flat_map(|size| programs.clone().map(move |program| (size, program)))
            .collect();
        let measured = |&(size, program): &(&AtSize, usize)| -> Vec<f64> {
            let found = size.findings().flat_map(AtSize::pcmrs);
            found.filter(|(thread, _)| thread % 3 == program).map(|one| one.1).collect()
        };
        let about = "Misses per 100 references: the PCMRs of a program's six threads over all seeds, and \
                     by the model the program with 1/8 of the L2 beside three others on its core.";
        Figure::new(self.id("pcmr"), "PCMRs measured, and what they stand for", about)
            .rows("L2, program", &rows, |(size, program)| {
                format!("{}, {}", size.size(), self.cast.programs[*program])
            })
            .column("mean", 1, |one| corun_metrics::mean(&measured(one)))
            .column("least", 1, |one| measured(one).into_iter().reduce(f64::min))
            .column("most", 1, |one| measured(one).into_iter().reduce(f64::max))
            .column("model", 1, |(size, program)| size.partial[*program])
            .table()
    }
}

impl BySize {
    fn figure(&self, [id, heading, about, across]: [&str; 4], misses: &str) -> Figure {
        Figure::new(id, heading, about)
            .rows(across, &self.points, |one| format!("{} KB", one.0))
            .column("IPC of a core", 3, |one| one.1)
            .drawn("instructions per cycle of a core")
            .column(misses, 1, |one| one.2)
            .lines(0.0, "instructions per cycle")
    }

    fn fig_2(&self) -> Figure {
        let about = "Four threads on one core with an L2 of 768 KB, its L1s (8 KB data, 16 KB \
                     instructions) at a quarter to four times their size. The paper: the miss rate varies \
                     dramatically, the IPC hardly, since the contexts hide the latency of the L2.";
        let words = ["fig-2", "IPC by the size of the L1 (Fig. 2)", about, "size of both L1"];
        self.figure(words, "L1 misses per 1000 instructions")
    }

    fn fig_3(&self) -> Figure {
        let about = "Eight threads on two cores. The paper: IPC falls as the L2 misses more, since the \
                     latency of memory cannot be hidden wholly.";
        let words = ["fig-3", "IPC by the size of the L2 (Fig. 3)", about, "size of the L2"];
        self.figure(words, "L2 misses per 100 references")
    }
}

impl Overhead {
    fn finding(&self) -> PaperClaim {
        let mean = |all: &[f64]| corun_metrics::mean(all).unwrap_or(f64::NAN);
        let (default, casc) = (mean(&self.default_s), mean(&self.casc_s));
        PaperClaim::new(
            "Cost of measuring where nothing is gained (section 5.3.4)",
            "63 minutes with and without",
            format!("{casc:.2} s with, {default:.2} s without"),
        )
        .noting(format!("{} % more", fixed(100.0 * (casc / default - 1.0), 1)))
    }

    fn figure(&self) -> Figure {
        let about = format!(
            "Seconds until the last of {} programs has ended on four processors of 450 MHz with caches of \
             their own, each run once; any miss ratio is allowed and a random thread is measured anew \
             every 250 ms. Decisions take no time in the simulator.",
            self.programs
        );
        let seeds: Vec<usize> = (0..self.default_s.len()).collect();
        Figure::new("overhead", "What measuring costs (section 5.3.4)", about)
            .rows("seed", &seeds, |seed| (seed + 1).to_string())
            .column("default", 3, |&seed| self.default_s[seed])
            .column("CASC", 3, |&seed| self.casc_s[seed])
            .table()
    }
}
