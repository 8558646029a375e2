//! Fleets so small that their best plan can be found: how far from it are corun's plans, and what is the bound worth?

use corun_app::Result;
use corun_fleet::{ManyNodesPlan, NodeGroup, PlannedFleet, SmallFleets};
use corun_metrics::{mean, standard_error, student_t_95};
use corun_report::{counted, fixed};
use rayon::prelude::*;

use crate::harness::{Figure, Page, Programs, Study, StudyInputs, no_options};

pub(super) const STUDY: Study = Study {
    name: "small-fleets",
    summary: "Plans of small fleets against the best plan",
    programs: Programs::BuiltIn,
    seeds: Some(100),
    has_quick: true,
    options: no_options,
    page,
    explained_in: "docs/fleet.md",
};

/// Nodes by machine, and the share of their CPUs that programs take.
struct SmallFleet {
    nodes: &'static [(&'static str, u32)],
    utilisation: f64,
}

const FLEETS: [SmallFleet; 8] = [
    SmallFleet { nodes: &[("i7-2600", 6)], utilisation: 0.8 },
    SmallFleet { nodes: &[("xeon-x5365", 4)], utilisation: 0.65 },
    SmallFleet { nodes: &[("xeon-e5520", 3)], utilisation: 0.65 },
    SmallFleet { nodes: &[("xeon-e5-2620v4", 4)], utilisation: 0.65 },
    SmallFleet { nodes: &[("xeon-e5-2620v4", 6)], utilisation: 0.8 },
    SmallFleet { nodes: &[("xeon-gold-6138", 2)], utilisation: 0.65 },
    SmallFleet { nodes: &[("2x-e5-2650", 2)], utilisation: 0.65 },
    SmallFleet {
        nodes: &[("xeon-gold-6138", 1), ("xeon-e5520", 2), ("i7-2600", 2)],
        utilisation: 0.65,
    },
];

/// For a first look: each kind of node has the whole library loaded for it.
const OF_TWO_KINDS: SmallFleet =
    SmallFleet { nodes: &[("xeon-x5365", 1), ("i7-2600", 2)], utilisation: 0.65 };

/// Fleets of as many nodes as a cluster has, each so small that all its loads can be looked at.
const MANY_NODES: SmallFleet = SmallFleet { nodes: &[("i7-2600", 1000)], utilisation: 0.65 };
/// The same for a first look.
const FEWER_NODES: SmallFleet = SmallFleet { nodes: &[("i7-2600", 30)], utilisation: 0.65 };
/// Seeds of these, at most.
const FEW_SEEDS: u32 = 5;

/// What came of the seeds of a fleet of many nodes.
struct FoundMany {
    name: String,
    plans: Vec<ManyNodesPlan>,
}

/// What came of a fleet's seeds.
struct Found {
    name: String,
    /// Seeds for which every way to place has a plan, and the best one is known.
    planned: Vec<PlannedFleet>,
    /// Seeds for which it is not known.
    unknown: usize,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let is_short = inputs.has_smaller("one small fleet, and 30 nodes in place of 1000");
    let mut fleets: Vec<&SmallFleet> =
        if is_short { vec![&OF_TWO_KINDS] } else { FLEETS.iter().collect() };
    fleets.push(if is_short { &FEWER_NODES } else { &MANY_NODES });
    let groups: Vec<_> = fleets.iter().map(|fleet| fleet.groups()).collect();
    let loaded = SmallFleets::several(&groups, None, corun_model::ModelOptions::default(), &inputs.cancel)?;
    let mut fleets: Vec<_> = fleets.into_iter().zip(&loaded).collect();
    let many = fleets.split_off(fleets.len() - 1);
    let found = fleets.iter().map(|(fleet, loaded)| fleet.plan(loaded, inputs));
    let found = found.collect::<Result<Vec<Found>>>()?;
    let many = many.iter().map(|(fleet, loaded)| fleet.plan_many(loaded, inputs));
    let many = many.collect::<Result<Vec<FoundMany>>>()?;
    let unknown: usize = found.iter().map(|one| one.unknown).sum();
    let about = format!(
        "Programs of the shipped library come to small fleets until this share of the CPUs is taken: sizes as in corun \
         fleet simulate, but for those that no node has room for. Lost work in %, means of {} for each fleet; seeds \
         for which a program finds no place are left out, and {unknown} for which there are too many plans to find the best. \
         +-: half the width of the 95 % interval.",
        counted(inputs.seeds as usize, "seed")
    );
    Ok(Page::new(
        "Plans of small fleets against the best plan",
        about,
        Vec::new(),
        vec![lost_work(&found), above_the_optimum(&found), many_nodes(&many)],
    ))
}

impl SmallFleet {
    fn name(&self) -> String {
        let nodes: Vec<String> =
            self.nodes.iter().map(|(machine, count)| format!("{count} {machine}")).collect();
        format!("{}, {:.0} %", nodes.join(", "), self.utilisation * 100.0)
    }

    fn groups(&self) -> Vec<NodeGroup> {
        self.nodes.iter().map(|&(machine, count)| NodeGroup::of(machine, count)).collect()
    }

    fn plan_many(&self, fleets: &SmallFleets, inputs: &StudyInputs) -> Result<FoundMany> {
        let of_seed = |seed: u32| {
            inputs.cancel.check()?;
            Ok(fleets.plan_many(self.utilisation, u64::from(seed)))
        };
        let seeds = (1..=inputs.seeds.min(FEW_SEEDS)).into_par_iter();
        let plans = seeds.map(of_seed).collect::<Result<Vec<Option<ManyNodesPlan>>>>()?;
        Ok(FoundMany { name: self.name(), plans: plans.into_iter().flatten().collect() })
    }

    fn plan(&self, fleet: &SmallFleets, inputs: &StudyInputs) -> Result<Found> {
        let of_seed = |seed: u32| {
            inputs.cancel.check()?;
            fleet.plan(self.utilisation, u64::from(seed))
        };
        let plans = (1..=inputs.seeds)
            .into_par_iter()
            .map(of_seed)
            .collect::<Result<Vec<Option<PlannedFleet>>>>()?;
        let all = plans.iter().flatten().count();
        let known = plans.into_iter().flatten().filter(|one| one.optimum.is_some());
        let planned: Vec<PlannedFleet> = known.collect();
        Ok(Found { name: self.name(), unknown: all - planned.len(), planned })
    }
}

impl Found {
    /// In %.
    fn values(&self, of: impl Fn(&PlannedFleet) -> f64) -> Vec<f64> {
        self.planned.iter().map(|one| of(one) * 100.0).collect()
    }

    fn mean(&self, of: impl Fn(&PlannedFleet) -> f64) -> Option<f64> {
        mean(&self.values(of))
    }

    /// How far the sum over all seeds is above the optimum's, in % of that, with half the width of its interval.
    fn above(&self, of: impl Fn(&PlannedFleet) -> f64) -> Option<(f64, f64)> {
        let (plans, best) = (self.values(of), self.values(optimum));
        let (of_plans, of_best) = (mean(&plans)?, mean(&best)?);
        let ratio = of_plans / of_best;
        let apart: Vec<f64> =
            plans.iter().zip(&best).map(|(plan, best)| plan - ratio * best).collect();
        let quantile = student_t_95(apart.len().saturating_sub(1).max(1));
        let width = quantile * standard_error(&apart)? / of_best;
        Some(((ratio - 1.0) * 100.0, width * 100.0))
    }

    fn above_in_words(&self, of: impl Fn(&PlannedFleet) -> f64) -> String {
        self.above(of).map_or_else(
            || "-".to_owned(),
            |(above, width)| format!("{} +- {}", fixed(above, 1), fixed(width, 1)),
        )
    }

    /// How far below the optimum's the sum over all seeds is, in % of that.
    fn below_in_words(&self, of: impl Fn(&PlannedFleet) -> f64) -> String {
        self.above(of).map_or_else(|| "-".to_owned(), |above| fixed(-above.0, 1))
    }

    /// The largest distance to the optimum, in points of lost work.
    fn worst(&self, of: impl Fn(&PlannedFleet) -> f64) -> Option<f64> {
        let apart = self.values(|one| of(one) - optimum(one));
        apart.into_iter().max_by(f64::total_cmp)
    }
}

fn optimum(one: &PlannedFleet) -> f64 {
    one.optimum.unwrap_or(f64::NAN)
}

fn by_loads(one: &PlannedFleet) -> f64 {
    one.bound_by_loads.unwrap_or(f64::NAN)
}

fn lost_work(found: &[Found]) -> Figure {
    Figure::new("lost-work", "Lost work", "In % of the CPUs' work, with what the relaxation proves.")
        .rows("fleet", found, |one| one.name.clone())
        .column("seeds", 0, |one| one.planned.len() as f64)
        .column("programs", 1, |one| one.mean(|plan| plan.programs as f64 / 100.0))
        .column("least allocated", 3, |one| one.mean(|plan| plan.least_allocated))
        .drawn("least allocated")
        .column("greedy", 3, |one| one.mean(|plan| plan.greedy))
        .drawn("greedy")
        .column("repaired", 3, |one| one.mean(|plan| plan.repaired))
        .drawn("repaired")
        .column("moves", 1, |one| one.mean(|plan| plan.moves as f64 / 100.0))
        .column("optimum", 3, |one| one.mean(optimum))
        .drawn("optimum")
        .column("bound by loads", 3, |one| one.mean(by_loads))
        .column("bound", 3, |one| one.mean(|plan| plan.bound))
        .drawn("bound")
        .bars(0.0, "lost work, %")
}

fn above_the_optimum(found: &[Found]) -> Figure {
    Figure::new(
        "above-optimum",
        "Above the optimum",
        "By how much the lost work of all seeds together is above the optimum's, in % of that, and the worst seed, in points \
         of lost work. Repaired freely: moves cost nothing.",
    )
    .rows("fleet", found, |one| one.name.clone())
    .words("greedy", |one| one.above_in_words(|plan| plan.greedy))
    .words("repaired", |one| one.above_in_words(|plan| plan.repaired))
    .words("repaired freely", |one| one.above_in_words(|plan| plan.repaired_freely))
    .column("greedy, worst", 2, |one| one.worst(|plan| plan.greedy))
    .column("repaired, worst", 2, |one| one.worst(|plan| plan.repaired))
    .column("repaired freely, worst", 2, |one| one.worst(|plan| plan.repaired_freely))
    .words("bound by loads below", |one| one.below_in_words(by_loads))
    .words("bound below", |one| one.below_in_words(|plan| plan.bound))
    .table()
}

fn many_nodes(found: &[FoundMany]) -> Figure {
    let lost = |one: &FoundMany, of: fn(&ManyNodesPlan) -> f64| {
        mean(&one.plans.iter().map(|plan| of(plan) * 100.0).collect::<Vec<_>>())
    };
    Figure::new(
        "many-nodes",
        "Many nodes against a bound",
        "Lost work in %, and by how much the repaired plan is above the bound that all loads of a node give, in % of that. The \
         programs come largest first.",
    )
    .rows("fleet", found, |one| one.name.clone())
    .column("seeds", 0, |one| one.plans.len() as f64)
    .column("programs", 0, move |one| lost(one, |plan| plan.programs as f64 / 100.0))
    .column("least allocated", 3, move |one| lost(one, |plan| plan.least_allocated))
    .column("greedy", 3, move |one| lost(one, |plan| plan.greedy))
    .column("repaired", 3, move |one| lost(one, |plan| plan.repaired))
    .column("moves", 0, move |one| lost(one, |plan| plan.moves as f64 / 100.0))
    .column("bound by loads", 3, move |one| lost(one, |plan| plan.bound_by_loads))
    .column("above, %", 2, move |one| {
        let (repaired, bound) = (lost(one, |plan| plan.repaired)?, lost(one, |plan| plan.bound_by_loads)?);
        Some((repaired / bound - 1.0) * 100.0)
    })
    .table()
}
