//! The study's page.

use super::{MACHINE, POLICIES, Placed, STUDY, Workload};
use crate::output::round;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, StudyReport};

pub(super) fn report(
    seeds: u32,
    placed: &[Placed],
    lamp: &[Workload],
    mixes: &[Workload],
) -> StudyReport {
    StudyReport {
        name: STUDY.name,
        title: "As few caches awake as contention allows".to_owned(),
        about: format!(
            "Blagodurov, Zhuravlev, Fedorova, ACM TOCS 28(4), 2010, section 6, on {MACHINE}: four programs on eight \
             cores, {seeds} seeds, until the longest has ended three times. Power is above idle; the machine file \
             says how it was fitted to Table V. EDP is energy x time / instructions (eq. 9)."
        ),
        findings: findings(lamp, mixes),
        figures: vec![
            table_v(placed),
            edp("lamp", "Fig. 16: web and database threads", lamp),
            edp("mixes", "Fig. 17: the mixes of Table III", mixes),
            all_figures(lamp, mixes),
        ],
    }
}

fn findings(lamp: &[Workload], mixes: &[Workload]) -> Vec<Finding> {
    let all = || lamp.iter().chain(mixes);
    let worse_than_best = all()
        .map(|one| {
            let best = one.of("dio").edp.min(one.of("linux-power-saving").edp);
            100.0 * (one.of("dio-power").edp / best - 1.0)
        })
        .fold(f64::NEG_INFINITY, f64::max);
    let most = |workloads: &[Workload]| {
        workloads.iter().map(|one| one.edp_gain("dio")).fold(f64::NEG_INFINITY, f64::max)
    };
    vec![
        Finding {
            what: "DIO-POWER against the better of spreading and packing always, by EDP (Fig. 16)".to_owned(),
            paper: "matches the better one on every workload".to_owned(),
            ours: format!("at worst {:+.1} % of the better one's EDP", round(worse_than_best, 1)),
            difference: "Algorithm 4 keeps intensive programs apart by caches alone. Two of them on one package \
                         share a front-side bus that in the model one of them nearly fills (mixes 3, 5, 7, 8), \
                         which costs more than a sleeping package saves; with mild ones (mixes 1, 2, 4, 6) \
                         dio-power is ahead of both."
                .to_owned(),
        },
        Finding {
            what: "Improvement in EDP over DIO, mixes of Table III (Fig. 17)".to_owned(),
            paper: "up to 78 %; mix 8 slightly worse".to_owned(),
            ours: format!(
                "up to {:.0} %; mix 8 {:+.1} %",
                most(mixes),
                mixes.last().map_or(f64::NAN, |one| round(one.edp_gain("dio"), 1))
            ),
            difference: String::new(),
        },
    ]
}

fn table_v(placed: &[Placed]) -> StudyFigure {
    let rows = placed.iter().map(|one| {
        vec![one.programs.clone(), format!("{:.0}", one.paper_w), format!("{:.0}", one.ours_w)]
    });
    StudyFigure {
        id: "table-v".to_owned(),
        heading: "What placements draw (Table V)".to_owned(),
        about: "W above idle. The power model's three figures are fitted to this table, so what it shows is how \
                well packages, cores and traffic explain it."
            .to_owned(),
        chart: None,
        header: ["programs and place", "paper", "here"].map(str::to_owned).into(),
        rows: rows.collect(),
    }
}

fn edp(id: &str, heading: &str, workloads: &[Workload]) -> StudyFigure {
    let others = || POLICIES.iter().filter(|asked| asked.policy != "dio-power");
    let rows = workloads.iter().map(|one| {
        let cells = others().map(|asked| format!("{:.1}", round(one.edp_gain(asked.policy), 1)));
        std::iter::once(one.name.clone()).chain(cells).collect()
    });
    let series = others().map(|asked| {
        let of = |one: &Workload| Some(one.edp_gain(asked.policy));
        (asked.policy.to_owned(), workloads.iter().map(of).collect())
    });
    StudyFigure {
        id: id.to_owned(),
        heading: heading.to_owned(),
        about: "How much higher the EDP of another policy is than dio-power's, in %: above 0 dio-power is better."
            .to_owned(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "workload".to_owned(),
            upwards: "% of EDP gained by dio-power".to_owned(),
            labels: (1..=workloads.len()).map(|one| one.to_string()).collect(),
            series: series.collect(),
        }),
        header: std::iter::once("workload")
            .chain(others().map(|asked| asked.policy))
            .map(str::to_owned)
            .collect(),
        rows: rows.collect(),
    }
}

fn all_figures(lamp: &[Workload], mixes: &[Workload]) -> StudyFigure {
    let rows = lamp.iter().chain(mixes).flat_map(|one| {
        POLICIES.iter().zip(&one.figures).map(|(asked, figures)| {
            vec![
                format!("{}; {}", one.name, asked.shown),
                format!("{:.3}", figures.mean_slowdown),
                format!("{:.0}", figures.power_w),
                format!("{:.3}", 1e9 * figures.edp),
            ]
        })
    });
    StudyFigure {
        id: "all".to_owned(),
        heading: "Speed, power and EDP".to_owned(),
        about: "Mean slowdown, mean power above idle in W, and EDP in J s per 1e9 instructions."
            .to_owned(),
        chart: None,
        header: ["workload and policy", "slowdown", "W", "EDP"].map(str::to_owned).into(),
        rows: rows.collect(),
    }
}
