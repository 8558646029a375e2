//! The study's figures, each beside what the thesis has.

use corun_report::{Axis, Mark, Panel, Plot, counted, fixed};

use super::search::{POLICIES, Searched};
use super::space::TREE_NODES_OF_THESIS;
use super::{Partitioning, WAYS};
use crate::harness::{Figure, Page};

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

impl Partitioning {
    pub(super) fn page(&self) -> Page {
        let about = format!(
            "{}, on {}. Profiles: {}. Space {}, bandwidth {}; {} of each size, seed {}.",
            self.source,
            self.machine,
            self.profiles,
            self.space,
            self.bandwidth_model,
            counted(self.mixes as usize, "mix"),
            self.seed
        );
        let figures = vec![
            self.partitions(),
            self.bandwidth(0),
            self.bandwidth(1),
            self.policies("stp"),
            self.policies("unfairness"),
            self.search(),
            self.clustering(),
            self.sizes(),
        ];
        Page::new("Partitions and clusters of a cache's ways", about, Vec::new(), figures)
    }

    /// Fig. 5.1.
    fn partitions(&self) -> Figure {
        let programs: Vec<usize> = (0..WAYS[1] as usize).collect();
        let at = |place: usize, programs: usize| {
            self.partitions[place].partitions.get(programs).map(|&one| one as f64)
        };
        let about = "Ways to hand 11 and 20 cache ways to programs, one each at least; and the nodes of \
                     the tree of 20 ways, beside those of the thesis, which has 3 to 8 programs.";
        let of_thesis = |programs: usize| {
            TREE_NODES_OF_THESIS.iter().find(|of| of.0 == programs).map(|of| of.1 as f64)
        };
        let heading = "How many partitions there are (Fig. 5.1, eq. 5.5; nodes: Table 5.1)";
        let mut rows =
            Figure::new("partitions", heading, about)
                .rows("programs", &programs, |one| (one + 1).to_string());
        for (place, ways) in WAYS.iter().enumerate() {
            let name = format!("{ways} ways");
            rows = rows.column(&name, 0, |&one| at(place, one)).drawn(&name);
        }
        rows.column("nodes, 20 ways", 0, |&one| self.partitions[1].tree_nodes[one] as f64)
            .column("thesis", 0, |&one| of_thesis(one + 1))
            .plotted(Mark::DottedLine, Axis::Logarithmic("partitions".to_owned()))
    }

    /// Fig. 5.3.
    fn bandwidth(&self, subject: usize) -> Figure {
        let pressed = &self.bandwidth[subject];
        let about = format!(
            "In {} ways of its own, beside more and more of {} in the others. Morad's slowdown is B / B'; \
             the other weighs that by the stalls on memory (eq. 5.10). The thesis measured up to 1.12 for \
             omnetpp and finds Morad's rule too high for libquantum. Its aggressor was a bandwidth \
             benchmark.",
            pressed.ways, pressed.aggressor
        );
        let id = format!("bandwidth-{}", ["first", "second"][subject]);
        Figure::new(id, format!("{} beside aggressors (Fig. 5.3)", pressed.program), about)
            .rows("aggressors", &pressed.points, |one| one.aggressors.to_string())
            .column("all MB/s", 0, |one| one.total_mb_per_s)
            .column("own MB/s", 0, |one| one.mb_per_s)
            .column("Morad", 3, |one| one.slowdown_morad)
            .drawn("Morad")
            .column("with stalls", 3, |one| one.slowdown_stalls)
            .drawn("with stalls")
            .lines(1.0, "slowdown")
    }

    /// Fig. 5.4.
    fn policies(&self, objective: &str) -> Figure {
        let of = |ways: u32| {
            self.search.iter().filter(move |row| row.ways == ways && row.objective == objective)
        };
        let searched: Vec<&Searched> = WAYS.iter().flat_map(|&ways| of(ways)).collect();
        let (id, name, thesis) = if objective == "stp" {
            ("policies-stp", "STP", "In the thesis ucp-slowdown stays within 0.3 % of the optimum.")
        } else {
            ("policies-unfairness", "unfairness", "In the thesis ucp comes closest.")
        };
        let about = format!(
            "The worst of {} of each size, as a share of the optimum: 1 is as good. Drawn for 20 \
             ways. {thesis}",
            counted(self.mixes as usize, "mix")
        );
        let mut rows = Figure::new(id, format!("Simple policies by {name} (Fig. 5.4)"), about)
            .rows("programs", &searched, |row| format!("{} of {} ways", row.programs, row.ways));
        for (place, policy) in POLICIES.into_iter().enumerate() {
            rows = rows.column(policy, 3, |row| row.worst_of_optimal[place]);
        }
        let labels = of(WAYS[1]).map(|row| row.programs.to_string()).collect();
        let series = [0, 1, 2].map(|place| {
            let values = of(WAYS[1]).map(|row| Some(row.worst_of_optimal[place]));
            (POLICIES[place].to_owned(), values.collect())
        });
        let upwards = Axis::Linear("share of the optimum".to_owned(), Some(0.5));
        let panel = Panel::of_labels(Mark::DottedLine, "programs", labels, upwards, &series);
        rows.table().drawn(Plot::of(panel))
    }

    /// Fig. 5.9.
    fn search(&self) -> Figure {
        let pruned = |row: &Searched| {
            let part = 100.0 * (1.0 - row.visited / row.tree_nodes as f64);
            format!("{} %", fixed(part.max(0.0), 1))
        };
        let about = "States and boxes that the search visits beside the nodes of the thesis's tree. They \
                     are not the same things: a state of a dynamic program stands for all partitions of \
                     what is left. The thesis prunes over 96.7 % from 6 programs on and needs up to 2 \
                     (unfairness) and 9 minutes (STP) for 8.";
        Figure::new("search", "How much of the tree is visited (Fig. 5.9)", about)
            .rows("programs", &self.search, |row| {
                format!("{} of {} ways, {}", row.programs, row.ways, row.objective)
            })
            .column("tree", 0, |row| row.tree_nodes as f64)
            .column("visited", 0, |row| row.visited)
            .words("not visited", pruned)
            .column("mean ms", 2, |row| row.mean_solver_seconds * 1e3)
            .column("longest ms", 2, |row| row.longest_solver_seconds * 1e3)
            .words("proven", |row| yes(row.all_proven))
            .table()
    }

    /// Fig. 6.2.
    fn clustering(&self) -> Figure {
        let about = "Least unfairness with strict partitioning / with clusters, mean of the mixes, on 11 \
                     ways. In the thesis the ratio rises with the programs. Where each program has but one \
                     way there is no choice left.";
        let heading = "Optimal partitioning against optimal clustering (Fig. 6.2)";
        Figure::new("clustering", heading, about)
            .rows("programs", &self.clustering.compared, |row| row.programs.to_string())
            .column("clustering", 3, |row| row.unfairness_clustering)
            .column("partitioning", 3, |row| row.unfairness_partitioning)
            .column("ratio", 3, |row| row.partitioning_to_clustering)
            .drawn("ratio")
            .column("longest s", 2, |row| row.longest_solver_seconds)
            .words("proven", |row| yes(row.all_proven))
            .lines(1.0, "unfairness, partitioning / clustering")
    }

    /// Fig. 6.3.
    fn sizes(&self) -> Figure {
        let clustering = &self.clustering;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let about = format!(
            "The fairest clusterings of {} of {} programs: clusters of each size a mix, and the \
             programs in them. Of the streaming programs {} are in 1-way clusters and {} in clusters of at \
             most 2 ways (the thesis: 87 % and all), of the sensitive ones {} in clusters of 4 ways or \
             more (77 %).",
            counted(self.mixes as usize, "mix"),
            clustering.looked_into,
            percent(clustering.streaming_in_1_way),
            percent(clustering.streaming_in_2_ways),
            percent(clustering.sensitive_in_4_ways),
        );
        Figure::new("sizes", "Who sits in clusters of which size (Fig. 6.3)", about)
            .rows("ways", &clustering.sizes, |size| size.ways.to_string())
            .column("clusters", 2, |size| size.clusters)
            .column("streaming", 2, |size| size.streaming)
            .drawn("streaming")
            .column("sensitive", 2, |size| size.sensitive)
            .drawn("sensitive")
            .column("light-sharing", 2, |size| size.light_sharing)
            .drawn("light-sharing")
            .plotted(Mark::Stack, Axis::Linear("programs a mix".to_owned(), Some(0.0)))
    }
}
