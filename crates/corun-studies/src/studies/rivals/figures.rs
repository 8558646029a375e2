//! The study's page.

use corun_report::{counted, fixed, signed};

use super::Measured;
use super::nodes::{NodeMix, POLICIES};
use super::runs::{MixResult, MixRun, knows_curves, policies};
use crate::studies::lfoc::Counted;
use crate::harness::{Estimate, Figure, Page, PaperClaim};

/// A policy's place by the name that it is shown by.
fn place(shown: &str) -> Option<usize> {
    policies().position(|policy| policy.shown == shown)
}

impl Measured {
    pub(super) fn page(&self) -> Page {
        let figures =
            vec![
            self.curves("known", true),
            self.curves("measured", false),
            self.by_size(),
            self.on_nodes(),
        ];
        let title = "The rivals: ways, bandwidth and nodes, old policies and new ones";
        Page::new(title, self.about.clone(), self.findings(), figures)
    }

    /// By mix, a figure of a policy over the same of another run.
    fn ratios(
        &self,
        policy: usize,
        of: fn(&MixRun) -> f64,
        over: impl Fn(&MixResult) -> MixRun,
    ) -> Vec<f64> {
        self.llc.iter().map(|mix| of(&mix.by_policy[policy]) / of(&over(mix))).collect()
    }

    fn against_stock(&self, policy: usize, of: fn(&MixRun) -> f64) -> Estimate {
        Estimate::percent_above_one(&self.ratios(policy, of, |mix| mix.stock))
    }

    fn curves(&self, id: &str, known: bool) -> Figure {
        let rows: Vec<(String, Option<usize>)> = policies()
            .enumerate()
            .filter(|(place, _)| knows_curves(*place) == known)
            .map(|(place, policy)| (policy.shown.to_owned(), Some(place)))
            .chain([("the best clustering".to_owned(), None)])
            .collect();
        let proven = self.llc.iter().filter(|mix| mix.is_proven).count();
        let about = format!(
            "Means over {}, against stock Linux with the LLC whole; the interval holds 95 % of what the mean may be. \
             Over the best: unfairness above that of the clustering with the least unfairness by the model, held \
             throughout ({proven} of {} are proven). Turnaround: until the last program has ended for the first time. \
             Worst program: the greatest ratio of a slowdown to that of the same program under stock Linux. \
             Divisions: how often a policy asked for others; caches fill anew after each, in these figures too. \
             Sampled: share of the time in which a program was sampled.",
            counted(self.llc.len(), "mix"),
            self.llc.len(),
        );
        let of = |row: &(String, Option<usize>), of: fn(&MixRun) -> f64| match row.1 {
            Some(policy) => self.against_stock(policy, of),
            None => {
                let ratios: Vec<f64> =
                    self.llc.iter().map(|mix| of(&mix.best) / of(&mix.stock)).collect();
                Estimate::percent_above_one(&ratios)
            }
        };
        let over_best = |row: &(String, Option<usize>)| {
            Some(Estimate::percent_above_one(&self.ratios(row.1?, |run| run.unfairness, |mix| mix.best)).mean)
        };
        let worst_program = |row: &(String, Option<usize>)| {
            let of = |mix: &MixResult| match row.1 {
                Some(policy) => mix.by_policy[policy].worst_against_stock,
                None => mix.best.worst_against_stock,
            };
            self.llc.iter().map(of).reduce(f64::max)
        };
        let mean_count = |row: &(String, Option<usize>), of: fn(&Counted) -> f64| {
            let counts = |mix: &MixResult| {
                of(&row.1.map_or(mix.best, |policy| mix.by_policy[policy]).counted)
            };
            corun_metrics::mean(&self.llc.iter().map(counts).collect::<Vec<f64>>())
        };
        let heading = if known { "With known curves" } else { "By what they measure" };
        Figure::new(id, heading, about)
            .rows("policy", &rows, |row| row.0.clone())
            .column("unfairness %", 1, |row| of(row, |run| run.unfairness).mean)
            .drawn("unfairness")
            .column("+-", 1, |row| of(row, |run| run.unfairness).interval)
            .column("over the best %", 1, over_best)
            .column("STP %", 1, |row| of(row, |run| run.stp).mean)
            .drawn("STP")
            .column("+- ", 1, |row| of(row, |run| run.stp).interval)
            .column("turnaround %", 1, |row| of(row, |run| run.turnaround_s).mean)
            .column("+-  ", 1, |row| of(row, |run| run.turnaround_s).interval)
            .column("worst program", 2, worst_program)
            .column("divisions a run", 1, |row| mean_count(row, |counted| counted.divisions as f64))
            .column("sampled %", 2, |row| mean_count(row, |counted| 100.0 * counted.share))
            .bars(0.0, "% against stock Linux")
    }

    fn by_size(&self) -> Figure {
        let mut sizes: Vec<usize> = self.llc.iter().map(|mix| mix.programs).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let rows: Vec<(usize, &str)> =
            policies().enumerate().map(|(place, policy)| (place, policy.shown)).collect();
        let about = "Mean over mixes of unfairness against stock Linux, in %, by the number of programs.";
        let mut table = Figure::new("sizes", "Unfairness by the number of programs", about)
            .rows("policy", &rows, |row| row.1.to_owned());
        for size in sizes {
            let of = |row: &(usize, &str)| {
                let own = self.llc.iter().filter(|mix| mix.programs == size);
                let ratio = |mix: &MixResult| mix.by_policy[row.0].unfairness / mix.stock.unfairness;
                Estimate::percent_above_one(&own.map(ratio).collect::<Vec<f64>>())
            };
            table = table
                .column(format!("{size} programs"), 1, |row| of(row).mean)
                .column(format!("+- of {size}"), 1, |row| of(row).interval);
        }
        table.table()
    }

    fn on_nodes(&self) -> Figure {
        let mut machines: Vec<&str> = Vec::new();
        for mix in &self.nodes {
            if !machines.contains(&mix.machine) {
                machines.push(mix.machine);
            }
        }
        let rows: Vec<(&str, usize)> = machines
            .iter()
            .flat_map(|machine| (0..POLICIES.len()).map(move |policy| (*machine, policy)))
            .collect();
        let of = |row: &(&str, usize)| -> Vec<&NodeMix> {
            self.nodes.iter().filter(|mix| mix.machine == row.0).collect()
        };
        let over = |row: &(&str, usize), reference: fn(&NodeMix) -> f64| {
            let ratios: Vec<f64> =
                of(row).iter().map(|mix| mix.mean_slowdown[row.1] / reference(mix)).collect();
            Estimate::percent_above_one(&ratios)
        };
        let moves = |row: &(&str, usize)| {
            let all: Vec<f64> = of(row).iter().map(|mix| mix.migrations[row.1]).collect();
            corun_metrics::mean(&all)
        };
        let proven = self.nodes.iter().filter(|mix| mix.is_proven).count();
        let about = format!(
            "Mean slowdown on machines of two nodes: above that of the best placement held throughout ({proven} of {} \
             are proven), and against the kernel's scheduler; programs that take 15 s alone.",
            self.nodes.len()
        );
        Figure::new("nodes", "On two nodes", about)
            .rows("machine", &rows, |row| format!("{}: {}", row.0, POLICIES[row.1]))
            .column("over the best %", 2, |row| over(row, |mix| mix.best).mean)
            .drawn("mean slowdown")
            .column("+-", 2, |row| over(row, |mix| mix.best).interval)
            .column("against default %", 2, |row| over(row, |mix| mix.mean_slowdown[0]).mean)
            .column("+- ", 2, |row| over(row, |mix| mix.mean_slowdown[0]).interval)
            .column("moves a run", 0, moves)
            .bars(0.0, "% above the best placement")
    }

    fn findings(&self) -> Vec<PaperClaim> {
        let unfairness = |policy: &str| {
            place(policy).map_or(f64::NAN.to_string(), |policy| {
                self.against_stock(policy, |run| run.unfairness).in_percent()
            })
        };
        let beside = |policy: &str, other: &str, of: fn(&MixRun) -> f64| {
            let (Some(policy), Some(other)) = (place(policy), place(other)) else {
                return Estimate::percent_above_one(&[]);
            };
            Estimate::percent_above_one(&self.ratios(policy, of, |mix| mix.by_policy[other]))
        };
        let best_mix = |policy: &str, other: &str| {
            let (Some(policy), Some(other)) = (place(policy), place(other)) else { return f64::NAN };
            let ratios = self.ratios(policy, |run| run.unfairness, |mix| mix.by_policy[other]);
            100.0 * (ratios.into_iter().fold(f64::INFINITY, f64::min) - 1.0)
        };
        let stock = |policy: &str, of: fn(&MixRun) -> f64| {
            place(policy).map_or(Estimate::percent_above_one(&[]), |policy| self.against_stock(policy, of))
        };
        let plus = beside("lfoc-plus-online", "lfoc-online", |run| run.unfairness);
        let turnaround = stock("cpa", |run| run.turnaround_s);
        let copart = beside("copart", "equal-part", |run| run.variation);
        let few: Vec<f64> = place("copart")
            .zip(place("equal-part"))
            .map(|(policy, equal)| {
                let own = self.llc.iter().filter(|mix| mix.programs == self.fewest());
                own.map(|mix| mix.by_policy[policy].variation / mix.by_policy[equal].variation)
                    .collect()
            })
            .unwrap_or_default();
        let balancer = stock("balancer", |run| run.unfairness);
        let dino: Vec<f64> = self
            .nodes
            .iter()
            .map(|mix| mix.mean_slowdown[POLICIES.len() - 1] / mix.mean_slowdown[0])
            .collect();
        vec![
            PaperClaim::new(
                "LFOC+ against LFOC, unfairness",
                "4.9 % fairer on average, 20.6 % at most (abstract)",
                format!(
                    "online {}, {} % in the best mix; with known curves {}",
                    plus.in_percent(),
                    signed(best_mix("lfoc-plus-online", "lfoc-online"), 1),
                    beside("lfoc-plus", "lfoc", |run| run.unfairness).in_percent()
                ),
            )
            .against_value(-plus.mean, 4.9),
            PaperClaim::new(
                "Critical-Aware (cpa) against no partitions, turnaround",
                "15 % shorter on average, 40 % at most (abstract)",
                format!("{}; unfairness {}", turnaround.in_percent(), unfairness("cpa")),
            )
            .against_value(-turnaround.mean, 15.0),
            PaperClaim::new(
                "CoPart against equal parts, standard deviation of slowdowns over their mean",
                "57.3 % fairer on average (abstract)",
                format!(
                    "{}, of {} programs {}; against stock Linux unfairness {}",
                    copart.in_percent(),
                    self.fewest(),
                    Estimate::percent_above_one(&few).in_percent(),
                    unfairness("copart")
                ),
            )
            .against_value(-copart.mean, 57.3),
            PaperClaim::new(
                "BALANCER against no control, unfairness and performance",
                "unfairness -18.6 %, performance +7.1 % (abstract)",
                format!(
                    "unfairness {}, STP {}",
                    balancer.in_percent(),
                    stock("balancer", |run| run.stp).in_percent()
                ),
            )
            .against_value(-balancer.mean, 18.6),
            PaperClaim::new(
                "DCAPS: masks that overlap",
                "no figure in the abstract",
                format!(
                    "overlap-annealing: unfairness {} with known curves, {} online; beside fair-clusters {}",
                    unfairness("overlap-annealing"),
                    unfairness("overlap-annealing-online"),
                    beside("overlap-annealing", "fair-clusters", |run| run.unfairness).in_percent()
                ),
            ),
            PaperClaim::new(
                "corun's own fair-clusters-online against stock Linux, unfairness",
                "in no paper",
                format!(
                    "{}; beside fair-clusters with known curves {}, beside lfoc-online {}",
                    unfairness("fair-clusters-online"),
                    beside("fair-clusters-online", "fair-clusters", |run| run.unfairness).in_percent(),
                    beside("fair-clusters-online", "lfoc-online", |run| run.unfairness).in_percent()
                ),
            ),
            PaperClaim::new(
                "DINO against the kernel's scheduler, mean slowdown",
                "no figure in the introduction that could be read",
                Estimate::percent_above_one(&dino).in_percent(),
            ),
            PaperClaim::new(
                "LFOC with programs that need their first way counted as sensitive, unfairness",
                "not in the thesis",
                format!(
                    "{} beside the published rule; worst program {} times slower than under stock Linux, {} by the \
                     published rule",
                    beside("lfoc, sensitive-ways=1", "lfoc", |run| run.unfairness).in_percent(),
                    fixed(self.worst_program("lfoc, sensitive-ways=1"), 2),
                    fixed(self.worst_program("lfoc"), 2)
                ),
            ),
        ]
    }

    /// Programs of the smallest mixes.
    fn fewest(&self) -> usize {
        self.llc.iter().map(|mix| mix.programs).min().unwrap_or(0)
    }

    fn worst_program(&self, policy: &str) -> f64 {
        let Some(policy) = place(policy) else { return f64::NAN };
        let of = |mix: &MixResult| mix.by_policy[policy].worst_against_stock;
        self.llc.iter().map(of).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(unfairness: f64) -> MixRun {
        MixRun {
            unfairness,
            stp: 4.0,
            variation: unfairness - 1.0,
            turnaround_s: 10.0 * unfairness,
            worst_against_stock: unfairness,
            counted: Counted { divisions: 4, sweeps: 1, steps: 3, share: 0.02 },
        }
    }

    /// Two mixes; every policy has an unfairness of 1.5 and 1.2, stock Linux 2.0 and 1.2, the best 1.25 and 1.2.
    fn measured() -> Measured {
        let mix = |stock: f64, best: f64, policy: f64| MixResult {
            programs: 4,
            stock: run(stock),
            best: run(best),
            is_proven: true,
            by_policy: vec![run(policy); policies().count()],
        };
        let node = NodeMix {
            machine: "a",
            best: 1.0,
            is_proven: true,
            mean_slowdown: vec![1.2; POLICIES.len()],
            migrations: vec![3.0; POLICIES.len()],
        };
        Measured {
            about: String::new(),
            llc: vec![mix(2.0, 1.25, 1.5), mix(1.2, 1.2, 1.2)],
            nodes: vec![node],
        }
    }

    /// (0.75 + 1) / 2 - 1 = -12.5 % against stock; (1.2 + 1) / 2 - 1 = 10 % over the best. The ratios' standard error
    /// is 0.125, with one degree of freedom: 12.706 times that.
    #[test]
    fn means_and_intervals_are_those_worked_by_hand() {
        let measured = measured();
        for (id, known) in [("known", true), ("measured", false)] {
            let figure = measured.curves(id, known);
            assert!(figure.column("unfairness %").contains(&"-12.5"));
            assert!(figure.column("over the best %").contains(&"10.0"));
            assert!(figure.column("+-").contains(&"158.8"));
            assert!(figure.column("worst program").contains(&"1.50"));
            assert!(figure.column("divisions a run").contains(&"4.0"));
            assert!(figure.column("sampled %").contains(&"2.00"));
        }
        let nodes = measured.on_nodes();
        assert_eq!(nodes.column("over the best %"), ["20.00"; POLICIES.len()]);
        assert_eq!(nodes.column("against default %"), ["0.00"; POLICIES.len()]);
    }

    #[test]
    fn findings_name_policies_that_there_are() {
        for claim in measured().page().findings {
            assert!(!format!("{claim:?}").contains("NaN"), "{claim:?}");
        }
    }
}
