//! The study's page.

use corun_report::{counted, fixed, signed};

use super::{MACHINE, MeanFigures, POLICIES, Placed, Workload};
use crate::harness::{Figure, Page, PaperClaim};

pub(super) fn page(seeds: u32, placed: &[Placed], lamp: &[Workload], mixes: &[Workload]) -> Page {
    let about = format!(
        "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 6, on {MACHINE}: four programs \
         on eight cores, {}, until the longest has ended three times. Power is above idle; \
         the machine file says how it was fitted to Table V. EDP is energy x time / instructions (eq. \
         9).",
        counted(seeds as usize, "seed")
    );
    let figures = vec![
        table_v(placed),
        edp("lamp", "Fig. 16: web and database threads", lamp),
        edp("mixes", "Fig. 17: the mixes of Table III", mixes),
        all_figures(lamp, mixes),
    ];
    Page::new("As few caches awake as contention allows", about, findings(lamp, mixes), figures)
}

impl Workload {
    /// How much higher dio-power's EDP is than the better one's of spreading and packing, in %.
    fn above_better(&self) -> f64 {
        let better = self.of("dio-2010").edp.min(self.of("linux-power-saving").edp);
        100.0 * (self.of("dio-power").edp / better - 1.0)
    }
}

fn findings(lamp: &[Workload], mixes: &[Workload]) -> Vec<PaperClaim> {
    let all = || lamp.iter().chain(mixes);
    let worst = all().map(Workload::above_better).fold(f64::NEG_INFINITY, f64::max);
    let most = mixes.iter().map(|one| one.edp_gain("dio-2010")).fold(f64::NEG_INFINITY, f64::max);
    let mix_8 = mixes.iter().find(|one| one.number == 8);
    let of_mix_8 = match mix_8.map(|one| one.edp_gain("dio-2010")) {
        Some(gain) => format!("mix 8 {} %", signed(gain, 1)),
        None => "mix 8 was not run".to_owned(),
    };
    let matched = all().filter(|one| one.above_better() <= 0.0).count();
    vec![
        PaperClaim::new(
            "DIO-POWER against the better of spreading and packing always, by EDP (Fig. 16)",
            "matches the better one on every workload",
            format!("at worst {} % of the better one's EDP", signed(worst, 1)),
        )
        .noting(format!(
            "no worse than the better one on {matched} of {}; its EDP is {} to {} % above that of the best placement held",
            all().count(),
            fixed(all().map(Workload::room).fold(f64::INFINITY, f64::min), 1),
            fixed(all().map(Workload::room).fold(f64::NEG_INFINITY, f64::max), 1)
        )),
        PaperClaim::new(
            "Improvement in EDP over DIO, mixes of Table III (Fig. 17)",
            "up to 78 %; mix 8 slightly worse",
            format!("up to {} %; {of_mix_8}", fixed(most, 0)),
        )
        .against_value(most, 78.0),
    ]
}

fn table_v(placed: &[Placed]) -> Figure {
    let about = "W above idle. The power model's three figures are fitted to this table, so what it \
                 shows is how well packages, cores and traffic explain it.";
    Figure::new("table-v", "What placements draw (Table V)", about)
        .rows("programs and place", placed, |one| one.programs.clone())
        .column("paper", 0, |one| one.paper_w)
        .column("here", 0, |one| one.ours_w)
        .table()
}

fn edp(id: &str, heading: &str, workloads: &[Workload]) -> Figure {
    let about = "How much higher the EDP of another policy is than dio-power's, in %: above 0 \
                 dio-power is better. Last the placement of the least EDP of all that differ, held throughout: \
                 below 0 is what dio-power leaves to be gained.";
    let mut rows = Figure::new(id, heading, about)
        .rows("workload", workloads, |one| one.name.clone())
        .labelled(|one| one.number.to_string());
    for other in POLICIES.iter().filter(|one| one.policy != "dio-power") {
        rows = rows.column(other.policy, 1, |one| one.edp_gain(other.policy)).drawn(other.policy);
    }
    rows = rows
        .column("best placement held", 1, |one| {
            100.0 * (one.best.edp / one.of("dio-power").edp - 1.0)
        })
        .drawn("best placement held");
    rows.bars(0.0, "% of EDP gained by dio-power")
}

fn all_figures(lamp: &[Workload], mixes: &[Workload]) -> Figure {
    let mut rows: Vec<(&Workload, (&str, &MeanFigures))> = Vec::new();
    for one in lamp.iter().chain(mixes) {
        let names = POLICIES.iter().map(|policy| policy.shown);
        rows.extend(names.zip(&one.figures).map(|under| (one, under)));
        rows.push((one, ("best placement held", &one.best)));
    }
    let about = "Mean slowdown, mean power above idle in W, and EDP in J s per 1e9 instructions.";
    Figure::new("all", "Speed, power and EDP", about)
        .rows("workload and policy", &rows, |(of, (policy, _))| format!("{}; {policy}", of.name))
        .column("slowdown", 3, |(_, (_, one))| one.mean_slowdown)
        .column("W", 0, |(_, (_, one))| one.power_w)
        .column("EDP", 3, |(_, (_, one))| 1e9 * one.edp)
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(number: usize) -> Workload {
        let figures = MeanFigures { mean_slowdown: 1.0, power_w: 100.0, edp: 1.0 };
        let figures = vec![figures; POLICIES.len()];
        Workload { number, name: format!("{number}: x"), best: figures[0], figures }
    }

    /// A first look runs mixes 1 and 5.
    #[test]
    fn a_mix_has_the_papers_number() {
        let said = |mixes: &[Workload]| format!("{:?}", findings(&[], mixes)[1]);
        let [first, all] = [5, 8].map(|last| said(&[workload(1), workload(last)]));
        assert!(first.contains("up to 0 %; mix 8 was not run"), "{first}");
        assert!(all.contains("up to 0 %; mix 8 +0.0 %"), "{all}");
        let drawn = edp("mixes", "Fig. 17", &[workload(1), workload(5)]);
        assert_eq!(drawn.rows[1][0], "5: x");
    }
}
