//! The study's page.

use super::{MACHINE, PROGRAMS, SCHEMES, SIZES, STUDY, Set};
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport};

/// What the sets are called in fragments.
const IDS: [&str; 2] = ["library", "spec"];

pub(super) fn report(sets: &[Set]) -> StudyReport {
    let about = format!(
        "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 2 and Fig. 3, on LLCs of {MACHINE}. Each \
         scheme ranks pairs, a perfect policy takes the pairs it calls best, and what those really suffer \
         is held against the best schedule. The {PROGRAMS} programs of a set stand for all of theirs by miss and \
         access rates; the paper does not name its own.",
    );
    let named = || sets.iter().zip(IDS);
    StudyReport {
        name: STUDY.name,
        title: "Which classification scheme?".to_owned(),
        about,
        findings: named().flat_map(|(set, id)| set.findings(id)).collect(),
        figures: named()
            .flat_map(|(set, id)| {
                [
                    set.figure_3(id),
                    set.under_models(id),
                    set.programs(id),
                    set.pairs(id),
                    set.changed_table(id),
                ]
            })
            .collect(),
    }
}

impl Set {
    fn mean_over_sizes(&self, scheme: &str) -> f64 {
        let place = SCHEMES.iter().position(|name| *name == scheme).unwrap_or(0);
        self.sizes.iter().map(|size| size.schemes[place]).sum::<f64>() / self.sizes.len() as f64
    }

    fn findings(&self, id: &str) -> Vec<Finding> {
        let percent = |scheme| format!("{:.2} %", self.mean_over_sizes(scheme));
        let random =
            self.sizes.iter().map(|size| size.random).sum::<f64>() / self.sizes.len() as f64;
        let finding = |what: &str, paper: &str, ours: String, difference: &str| Finding {
            what: format!("{what}, {id} programs"),
            paper: paper.to_owned(),
            ours,
            difference: difference.to_owned(),
        };
        vec![
            finding(
                "Pain above the optimum (Fig. 3)",
                "about 1 % on all systems",
                percent("pain"),
                &format!(
                    "Its intensity counts all references, also those that hit and take no space; with misses \
                     for references it comes to {}.",
                    percent("pain of misses")
                ),
            ),
            finding(
                "Miss Rate above the optimum (Fig. 3)",
                "almost as good as Pain",
                percent("miss-rate"),
                "",
            ),
            finding(
                "SDC above the optimum (Fig. 3)",
                "hardly better than random, worse than the other three",
                format!("{}; random {random:.2} %", percent("sdc")),
                "SDC sees cache space alone, and gives it to who reuses most, not to who misses most.",
            ),
        ]
    }

    fn figure_3(&self, id: &str) -> StudyFigure {
        let columns = || SCHEMES.into_iter().chain(["random", "worst"]);
        let figures = |place: usize| -> Vec<f64> {
            let size = &self.sizes[place];
            size.schemes.iter().copied().chain([size.random, size.worst]).collect()
        };
        let rows = (0..SIZES.len()).map(|place| {
            let size = &self.sizes[place];
            let mut row = vec![format!("{} cores, {} mixes", SIZES[place], size.mixes)];
            row.push(format!("{:.2}", size.optimal));
            row.extend(figures(place).into_iter().map(|one| format!("{one:.2}")));
            row
        });
        let series = columns().enumerate().map(|(column, name)| {
            (name.to_owned(), (0..SIZES.len()).map(|place| Some(figures(place)[column])).collect())
        });
        StudyFigure {
            id: format!("{id}-fig-3"),
            heading: format!("Above the optimum (Fig. 3): {}", self.about),
            about: "Mean degradation over all mixes, above that of the best schedule, in percentage points. \
                    The column of the optimum is its degradation itself."
                .to_owned(),
            chart: Some(Chart {
                kind: ChartKind::BarsFrom(0.0),
                across: "cores, two an LLC".to_owned(),
                upwards: "% above the optimum".to_owned(),
                labels: SIZES.iter().map(ToString::to_string).collect(),
                series: series.collect(),
            }),
            header: ["system", "optimal"].into_iter().chain(columns()).map(str::to_owned).collect(),
            rows: rows.collect(),
        }
    }

    fn under_models(&self, id: &str) -> StudyFigure {
        let rows = self.under.iter().map(|(model, schemes, random)| {
            let cells = schemes.iter().chain([random]).map(|one| format!("{one:.2}"));
            std::iter::once((*model).to_owned()).chain(cells).collect()
        });
        let columns = ["model"].into_iter().chain(SCHEMES).chain(["random"]);
        StudyFigure {
            id: format!("{id}-models"),
            heading: format!("Judged by other models of bandwidth, {id} programs"),
            about: "The mean of the four systems above. The schemes' schedules stay; what pairs suffer, and so the \
                    best schedule, is the model's."
                .to_owned(),
            chart: None,
            header: columns.map(str::to_owned).collect(),
            rows: rows.collect(),
        }
    }

    fn programs(&self, id: &str) -> StudyFigure {
        let rows = self.names.iter().zip(&self.profiles).zip(&self.classes).map(
            |((name, profile), class)| {
                vec![
                    name.clone(),
                    class.name().to_owned(),
                    format!("{:.3}", profile.misses_pki),
                    format!("{:.3}", profile.references_pki()),
                    format!("{:.3}", profile.sensitivity()),
                ]
            },
        );
        StudyFigure {
            id: format!("{id}-programs"),
            heading: format!("What the schemes know of each of the {id} programs"),
            about: "Alone with the whole LLC, per 1000 instructions: misses (with prefetches), references, and \
                    Pain's sensitivity (eq. 1)."
                .to_owned(),
            chart: None,
            header: ["program", "class", "misses", "references", "sensitivity"]
                .map(str::to_owned)
                .into(),
            rows: rows.collect(),
        }
    }

    /// As the paper's Table I.
    fn pairs(&self, id: &str) -> StudyFigure {
        let rows = self.names.iter().zip(&self.degradation).map(|(name, row)| {
            let cells = row.iter().map(|one| format!("{:.1}", 100.0 * one));
            std::iter::once(name.clone()).chain(cells).collect()
        });
        StudyFigure {
            id: format!("{id}-table-1"),
            heading: format!("What pairs of the {id} programs suffer (Table I)"),
            about: "Degradation of the row's program beside the column's, in %.".to_owned(),
            chart: None,
            header: std::iter::once("beside".to_owned())
                .chain(self.names.iter().cloned())
                .collect(),
            rows: rows.collect(),
        }
    }

    fn changed_table(&self, id: &str) -> StudyFigure {
        let animal = SCHEMES.iter().position(|name| *name == "animal").unwrap_or(0);
        let rows = SIZES.iter().zip(&self.sizes).zip(&self.animal_range).map(
            |((size, of_size), (least, most))| {
                let figures = [*least, of_size.schemes[animal], *most];
                let cells = figures.map(|one| format!("{one:.2}"));
                std::iter::once(format!("{size} cores")).chain(cells).collect()
            },
        );
        StudyFigure {
            id: format!("{id}-animals"),
            heading: format!("How far the animal scheme hangs on its table, {id} programs"),
            about: "Its distance to the optimum in percentage points, and the lowest and highest when one entry \
                    of the symbiosis table changes by 1."
                .to_owned(),
            chart: None,
            header: ["system", "lowest", "as shipped", "highest"].map(str::to_owned).into(),
            rows: rows.collect(),
        }
    }
}
