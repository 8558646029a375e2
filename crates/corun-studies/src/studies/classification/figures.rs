//! The study's page.

use corun_report::counted;

use super::{MACHINE, OfSize, PROGRAMS, SCHEMES, SIZES, Set};
use crate::harness::{Figure, Page, PaperClaim};

/// What the sets are called in fragments.
const IDS: [&str; 2] = ["library", "spec"];

/// Of [`SCHEMES`], those of the paper.
const OF_THE_PAPER: [&str; 4] = ["pain", "miss-rate", "animal", "sdc"];

pub(super) fn page(sets: &[Set]) -> Page {
    let about = format!(
        "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 2 and Fig. 3, on LLCs of \
         {MACHINE}. Each scheme ranks pairs, a perfect policy takes the pairs it calls best, and \
         what those really suffer is held against the best schedule. The {PROGRAMS} programs of a \
         set stand for all of theirs by miss and access rates; the paper does not name its own.",
    );
    let findings = sets.iter().zip(IDS).flat_map(|(set, id)| set.findings(id)).collect();
    let figures = sets.iter().zip(IDS).flat_map(|(set, id)| {
        let (programs, table) = (set.programs(id), set.changed_table(id));
        [set.figure_3(id), set.under_models(id), programs, set.pairs(id), table]
    });
    Page::new("Which classification scheme?", about, findings, figures.collect())
}

fn place(scheme: &str) -> usize {
    SCHEMES.iter().position(|name| *name == scheme).unwrap_or(0)
}

impl Set {
    fn mean_over_sizes(&self, of: impl Fn(&OfSize) -> f64) -> f64 {
        self.sizes.iter().map(of).sum::<f64>() / self.sizes.len() as f64
    }

    fn of_scheme(&self, scheme: &str) -> f64 {
        self.mean_over_sizes(|size| size.schemes[place(scheme)])
    }

    /// `2 of 4`: how many of the paper's schemes are no further from the optimum.
    fn rank(&self, scheme: &str) -> String {
        let own = self.of_scheme(scheme);
        let rank = OF_THE_PAPER.iter().filter(|one| self.of_scheme(one) <= own).count();
        format!("{rank} of {}", OF_THE_PAPER.len())
    }

    fn findings(&self, id: &str) -> Vec<PaperClaim> {
        let percent = |scheme| format!("{:.2} %", self.of_scheme(scheme));
        let random = self.mean_over_sizes(|size| size.random);
        let of = |what: &str| format!("{what}, {id} programs");
        let pain = PaperClaim::new(
            of("Pain above the optimum (Fig. 3)"),
            "about 1 % on all systems",
            percent("pain"),
        );
        let miss_rate = PaperClaim::new(
            of("Miss Rate above the optimum (Fig. 3)"),
            "almost as good as Pain",
            percent("miss-rate"),
        );
        let sdc = PaperClaim::new(
            of("SDC above the optimum (Fig. 3)"),
            "hardly better than random, worse than the other three",
            format!("{}; random {random:.2} %", percent("sdc")),
        );
        let with_misses = percent("pain of misses");
        vec![
            pain.against_value(self.of_scheme("pain"), 1.0)
                .noting(format!("with misses in the place of references {with_misses}")),
            miss_rate.noting(format!(
                "rank {}, Pain {}",
                self.rank("miss-rate"),
                self.rank("pain")
            )),
            sdc.noting(format!("rank {}", self.rank("sdc"))),
        ]
    }

    fn figure_3(&self, id: &str) -> Figure {
        let systems: Vec<(usize, &OfSize)> = SIZES.into_iter().zip(&self.sizes).collect();
        let heading = format!("Above the optimum (Fig. 3): {}", self.about);
        let about = "Mean degradation over all mixes, above that of the best schedule, in percentage \
                     points. The column of the optimum is its degradation itself.";
        let mut rows = Figure::new(format!("{id}-fig-3"), heading, about)
            .rows("system", &systems, |(cores, one)| format!("{cores} cores, {}", counted(one.mixes, "mix")))
            .labelled(|(cores, _)| cores.to_string())
            .column("optimal", 2, |(_, one)| one.optimal);
        for scheme in SCHEMES {
            rows = rows.column(scheme, 2, |(_, one)| one.schemes[place(scheme)]).drawn(scheme);
        }
        rows.column("random", 2, |(_, one)| one.random)
            .drawn("random")
            .column("worst", 2, |(_, one)| one.worst)
            .drawn("worst")
            .bars(0.0, "% above the optimum")
    }

    fn under_models(&self, id: &str) -> Figure {
        let about = "The mean of the four systems above. The schemes' schedules stay; what pairs \
                     suffer, and so the best schedule, is the model's.";
        let heading = format!("Judged by other models of bandwidth, {id} programs");
        let mut rows =
            Figure::new(format!("{id}-models"), heading, about)
                .rows("model", &self.under, |one| one.0.to_owned());
        for scheme in SCHEMES {
            rows = rows.column(scheme, 2, |one| one.1[place(scheme)]);
        }
        rows.column("random", 2, |one| one.2).table()
    }

    fn programs(&self, id: &str) -> Figure {
        let programs: Vec<usize> = (0..self.names.len()).collect();
        let about = "Alone with the whole LLC, per 1000 instructions: misses (with prefetches), \
                     references, and Pain's sensitivity (eq. 1).";
        let heading = format!("What the schemes know of each of the {id} programs");
        Figure::new(format!("{id}-programs"), heading, about)
            .rows("program", &programs, |&one| self.names[one].clone())
            .words("class", |&one| self.classes[one].name().to_owned())
            .column("misses", 3, |&one| self.profiles[one].misses_pki)
            .column("references", 3, |&one| self.profiles[one].references_pki())
            .column("sensitivity", 3, |&one| self.profiles[one].sensitivity())
            .table()
    }

    /// As the paper's Table I.
    fn pairs(&self, id: &str) -> Figure {
        let programs: Vec<usize> = (0..self.names.len()).collect();
        let about = "Degradation of the row's program beside the column's, in %.";
        let heading = format!("What pairs of the {id} programs suffer (Table I)");
        let mut rows = Figure::new(format!("{id}-table-1"), heading, about).rows(
            "beside",
            &programs,
            |&one| self.names[one].clone(),
        );
        for (other, name) in self.names.iter().enumerate() {
            rows = rows.column(name, 1, |&one| 100.0 * self.degradation[one][other]);
        }
        rows.table()
    }

    fn changed_table(&self, id: &str) -> Figure {
        let systems: Vec<usize> = (0..SIZES.len()).collect();
        let about = "Its distance to the optimum in percentage points, and the lowest and highest \
                     when one entry of the symbiosis table changes by 1.";
        let heading = format!("How far the animal scheme hangs on its table, {id} programs");
        Figure::new(format!("{id}-animals"), heading, about)
            .rows("system", &systems, |&one| format!("{} cores", SIZES[one]))
            .column("lowest", 2, |&one| self.animal_range[one].0)
            .column("as shipped", 2, |&one| self.sizes[one].schemes[place("animal")])
            .column("highest", 2, |&one| self.animal_range[one].1)
            .table()
    }
}
