//! The study's figures, each beside what the thesis has.

use super::{Study, WAYS, search};
use crate::report::{Chart, ChartKind, StudyFigure, StudyReport, strings};

impl Study {
    pub(super) fn page(&self) -> StudyReport {
        StudyReport {
            name: self.study,
            title: "Partitions and clusters of a cache's ways".to_owned(),
            about: format!(
                "{}, on {}. Profiles: {}. Space {}, bandwidth {}; {} mixes of each size, seed {}.",
                self.source,
                self.machine,
                self.profiles,
                self.space,
                self.bandwidth_model,
                self.mixes,
                self.seed
            ),
            findings: Vec::new(),
            figures: vec![
                self.partitions(),
                self.bandwidth(0),
                self.bandwidth(1),
                self.policies("stp"),
                self.policies("unfairness"),
                self.search(),
                self.clustering(),
                self.sizes(),
            ],
        }
    }

    /// Fig. 5.1.
    fn partitions(&self) -> StudyFigure {
        let most = WAYS[1];
        let labels: Vec<String> = (1..=most).map(|programs| programs.to_string()).collect();
        let at = |place: usize, programs: usize| {
            self.partitions[place].partitions.get(programs).copied()
        };
        let series = WAYS.iter().enumerate().map(|(place, ways)| {
            let values = (0..most as usize).map(|one| Some(at(place, one)? as f64)).collect();
            (format!("{ways} ways"), values)
        });
        let rows = (0..most as usize).map(|programs| {
            let cell = |value: Option<u64>| value.map_or("-".to_owned(), |one| one.to_string());
            let nodes = self.partitions[1].tree_nodes[programs];
            vec![
                labels[programs].clone(),
                cell(at(0, programs)),
                cell(at(1, programs)),
                nodes.to_string(),
            ]
        });
        StudyFigure {
            id: "partitions".to_owned(),
            heading: "How many partitions there are (Fig. 5.1, eq. 5.5; nodes: Table 5.1)".to_owned(),
            about: "Ways to hand 11 and 20 cache ways to programs, one each at least; and the nodes of \
                    the tree of 20 ways, which for 3 to 8 programs are the thesis's."
                .to_owned(),
            rows: rows.collect(),
            header: strings(&["programs", "11 ways", "20 ways", "nodes, 20 ways"]),
            chart: Some(Chart {
                kind: ChartKind::LogarithmicLines,
                across: "programs".to_owned(),
                upwards: "partitions".to_owned(),
                series: series.collect(),
                labels,
            }),
        }
    }

    /// Fig. 5.3.
    fn bandwidth(&self, subject: usize) -> StudyFigure {
        let pressed = &self.bandwidth[subject];
        let labels: Vec<String> =
            pressed.points.iter().map(|one| one.aggressors.to_string()).collect();
        let series = |name: &str, figure: fn(&super::bandwidth::Point) -> f64| {
            (name.to_owned(), pressed.points.iter().map(|one| Some(figure(one))).collect())
        };
        let rows = pressed.points.iter().map(|one| {
            vec![
                one.aggressors.to_string(),
                format!("{:.0}", one.total_mb_per_s),
                format!("{:.0}", one.mb_per_s),
                format!("{:.3}", one.slowdown_morad),
                format!("{:.3}", one.slowdown_stalls),
            ]
        });
        StudyFigure {
            id: format!("bandwidth-{}", ["first", "second"][subject]),
            heading: format!("{} beside aggressors (Fig. 5.3)", pressed.program),
            about: format!(
                "In {} ways of its own, beside more and more of {} in the others. Morad's slowdown is \
                 B / B'; the other weighs that by the stalls on memory (eq. 5.10). The thesis measured \
                 up to 1.12 for omnetpp, close to both, and finds Morad's rule too high for \
                 libquantum. Its aggressor was a bandwidth benchmark.",
                pressed.ways, pressed.aggressor
            ),
            rows: rows.collect(),
            header: strings(&["aggressors", "all MB/s", "own MB/s", "Morad", "with stalls"]),
            chart: Some(Chart {
                kind: ChartKind::LinesFrom(1.0),
                across: "aggressors".to_owned(),
                upwards: "slowdown".to_owned(),
                labels,
                series: vec![
                    series("Morad", |one| one.slowdown_morad),
                    series("with stalls", |one| one.slowdown_stalls),
                ],
            }),
        }
    }

    /// Fig. 5.4.
    fn policies(&self, objective: &str) -> StudyFigure {
        let of = |ways: u32| {
            self.search.iter().filter(move |row| row.ways == ways && row.objective == objective)
        };
        let labels: Vec<String> = of(20).map(|row| row.programs.to_string()).collect();
        let series = search::POLICIES.iter().enumerate().map(|(place, name)| {
            ((*name).to_owned(), of(20).map(|row| Some(row.worst_of_optimal[place])).collect())
        });
        let rows = WAYS.iter().flat_map(|&ways| of(ways)).map(|row| {
            let mut cells = vec![format!("{} of {} ways", row.programs, row.ways)];
            cells.extend(row.worst_of_optimal.iter().map(|one| format!("{one:.3}")));
            cells
        });
        let (id, name, thesis) = if objective == "stp" {
            ("policies-stp", "STP", "In the thesis ucp-slowdown stays within 0.3 % of the optimum.")
        } else {
            ("policies-unfairness", "unfairness", "In the thesis ucp comes closest.")
        };
        StudyFigure {
            id: id.to_owned(),
            heading: format!("Simple policies by {name} (Fig. 5.4)"),
            about: format!(
                "The worst of {} mixes of each size, as a share of the optimum: 1 is as good. Drawn for \
                 20 ways. {thesis}",
                self.mixes
            ),
            header: ["programs"]
                .iter()
                .chain(&search::POLICIES)
                .map(|one| (*one).to_owned())
                .collect(),
            rows: rows.collect(),
            chart: Some(Chart {
                kind: ChartKind::LinesFrom(0.5),
                across: "programs".to_owned(),
                upwards: "share of the optimum".to_owned(),
                series: series.collect(),
                labels,
            }),
        }
    }

    /// Fig. 5.9.
    fn search(&self) -> StudyFigure {
        let rows = self.search.iter().map(|row| {
            let pruned = 100.0 * (1.0 - row.visited / row.tree_nodes as f64);
            vec![
                format!("{} of {} ways, {}", row.programs, row.ways, row.objective),
                row.tree_nodes.to_string(),
                format!("{:.0}", row.visited),
                format!("{:.1} %", pruned.max(0.0)),
                format!("{:.2}", row.mean_solver_seconds * 1e3),
                format!("{:.2}", row.longest_solver_seconds * 1e3),
                if row.all_proven { "yes" } else { "no" }.to_owned(),
            ]
        });
        StudyFigure {
            id: "search".to_owned(),
            heading: "How much of the tree is visited (Fig. 5.9)".to_owned(),
            about: "States and boxes that the search visits beside the nodes of the thesis's tree. \
                    They are not the same things: a state of a dynamic program stands for all \
                    partitions of what is left. The thesis prunes over 96.7 % from 6 programs on and \
                    needs up to 2 (unfairness) and 9 minutes (STP) for 8."
                .to_owned(),
            header: strings(&["programs", "tree", "visited", "not visited", "mean ms", "longest ms", "proven"]),
            rows: rows.collect(),
            chart: None,
        }
    }

    /// Fig. 6.2.
    fn clustering(&self) -> StudyFigure {
        let compared = &self.clustering.compared;
        let rows = compared.iter().map(|row| {
            vec![
                row.programs.to_string(),
                format!("{:.3}", row.unfairness_clustering),
                format!("{:.3}", row.unfairness_partitioning),
                format!("{:.3}", row.partitioning_to_clustering),
                format!("{:.2}", row.longest_solver_seconds),
                if row.all_proven { "yes" } else { "no" }.to_owned(),
            ]
        });
        let ratios = compared.iter().map(|row| Some(row.partitioning_to_clustering)).collect();
        StudyFigure {
            id: "clustering".to_owned(),
            heading: "Optimal partitioning against optimal clustering (Fig. 6.2)".to_owned(),
            about: "Least unfairness with strict partitioning / with clusters, mean of the mixes, on 11 \
                    ways. As in the thesis it rises with the programs, and where each program has but one \
                    way there is no choice left."
                .to_owned(),
            header: strings(&["programs", "clustering", "partitioning", "ratio", "longest s", "proven"]),
            rows: rows.collect(),
            chart: Some(Chart {
                kind: ChartKind::LinesFrom(1.0),
                across: "programs".to_owned(),
                upwards: "unfairness, partitioning / clustering".to_owned(),
                labels: compared.iter().map(|row| row.programs.to_string()).collect(),
                series: vec![("ratio".to_owned(), ratios)],
            }),
        }
    }

    /// Fig. 6.3.
    fn sizes(&self) -> StudyFigure {
        let clustering = &self.clustering;
        let series = |name: &str, figure: fn(&super::clusters::OfSize) -> f64| {
            (name.to_owned(), clustering.sizes.iter().map(|one| Some(figure(one))).collect())
        };
        let rows = clustering.sizes.iter().map(|size| {
            let mut cells = vec![size.ways.to_string()];
            let figures = [size.clusters, size.streaming, size.sensitive, size.light_sharing];
            cells.extend(figures.map(|figure| format!("{figure:.2}")));
            cells
        });
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        StudyFigure {
            id: "sizes".to_owned(),
            heading: "Who sits in clusters of which size (Fig. 6.3)".to_owned(),
            about: format!(
                "The fairest clusterings of {} mixes of {} programs: clusters of each size a mix, and the \
                 programs in them. Of the streaming programs {} are in 1-way clusters and {} in clusters \
                 of at most 2 ways (the thesis: 87 % and all), of the sensitive ones {} in clusters of 4 \
                 ways or more (77 %).",
                self.mixes,
                clustering.looked_into,
                percent(clustering.streaming_in_1_way),
                percent(clustering.streaming_in_2_ways),
                percent(clustering.sensitive_in_4_ways),
            ),
            header: strings(&["ways", "clusters", "streaming", "sensitive", "light-sharing"]),
            rows: rows.collect(),
            chart: Some(Chart {
                kind: ChartKind::Stacks,
                across: "ways of the cluster".to_owned(),
                upwards: "programs a mix".to_owned(),
                labels: clustering.sizes.iter().map(|size| size.ways.to_string()).collect(),
                series: vec![
                    series("streaming", |size| size.streaming),
                    series("sensitive", |size| size.sensitive),
                    series("light-sharing", |size| size.light_sharing),
                ],
            }),
        }
    }
}
