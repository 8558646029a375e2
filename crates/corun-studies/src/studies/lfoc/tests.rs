use std::sync::LazyLock;

use clap::ArgMatches;
use corun_app::{Cancel, open_library};
use corun_model::ModelOptions;
use corun_policy::CacheClass;
use corun_sim::AppSpec;

use super::*;
use crate::simulate::{TunedPolicy, run};

/// Loading the library takes longest of all.
static SHIPPED: LazyLock<PartitionedLlc> = LazyLock::new(|| {
    PartitionedLlc::new(&open_library(None).unwrap(), WAYS, ModelOptions::default()).unwrap()
});

#[test]
fn mixes_are_drawn_by_seed_and_class() {
    let llc = &*SHIPPED;
    let drawn = mixes::by_class(llc, 8, 20, 1);
    assert_eq!(drawn, mixes::by_class(llc, 8, 20, 1));
    assert_ne!(drawn, mixes::by_class(llc, 8, 20, 2));
    for mix in &drawn {
        let of = |class| mix.iter().filter(|&&one| llc.classes[one] == class).count();
        assert!(
            mix.is_sorted() && of(CacheClass::Streaming) <= 2 && of(CacheClass::Sensitive) <= 4
        );
    }
    for mix in mixes::with_phases(llc, 8, 5, 1) {
        let changing = mix.iter().filter(|&&one| llc.programs[one].phases.len() > 1).count();
        assert_eq!((mix.len(), changing), (8, 4));
    }
}

/// Early stops save way counts and time, a policy that does not sample loses nothing, and one
/// partition in the whole run is the reference itself.
#[test]
fn sampling_is_counted_from_the_log() {
    let inputs = StudyInputs::new(None, 1, ArgMatches::default(), Cancel::default()).unwrap();
    let llc = &*SHIPPED;
    let mix = mixes::with_phases(llc, 4, 1, 1).remove(0);
    let of = |policy: TunedPolicy| {
        let app = |&program: &usize| AppSpec {
            instructions: Some(20_000_000_000),
            ..AppSpec::new(llc.programs[program].clone())
        };
        let apps: Vec<AppSpec> = mix.iter().map(app).collect();
        let result = run(&inputs, &llc.model, &apps, policy, 1).unwrap();
        sampling::sampling(llc, &mix, &result)
    };
    assert_eq!(of(runs::STOCK), sampling::Sampling::default());
    let [_, dynaway, online, full, ..] = runs::ONLINE;
    let [dynaway, online, full] = [dynaway, online, full].map(of);
    for one in [dynaway, online, full] {
        assert!(one.counted.share > 0.0 && one.counted.share < 1.0, "{one:?}");
        assert!(one.counted.sweeps >= mix.len() && one.lost_percent.abs() < 100.0, "{one:?}");
        assert!(one.counted.divisions > one.counted.steps, "{one:?}");
    }
    let [online, full] = [online, full].map(|one| one.counted);
    assert!(online.steps < full.steps && online.share < full.share, "{online:?} {full:?}");
    // Ten way counts, but where a program ended in its turn.
    assert!(full.steps <= 10 * full.sweeps && full.steps > 8 * full.sweeps, "{full:?}");
}

/// Whoever decides at all is timed, and a policy decides the same when somebody holds a clock.
#[test]
fn decisions_are_timed() {
    let inputs = StudyInputs::new(None, 1, ArgMatches::default(), Cancel::default()).unwrap();
    let llc = &*SHIPPED;
    let mix = mixes::with_phases(llc, 4, 1, 1).remove(0);
    for policy in runs::STATIC.into_iter().filter(times::is_partitioner) {
        let taken = times::with_curves(llc, &mix, policy).unwrap();
        assert_eq!(taken.len(), times::TIMES);
        assert!(taken.iter().all(|&us| us >= 0.0));
    }
    let found = times::measuring(&inputs, llc, &mix, runs::ONLINE[2]).unwrap();
    assert_eq!(found.len(), times::measuring(&inputs, llc, &mix, runs::ONLINE[2]).unwrap().len());
    assert!(found.len() > mix.len(), "{found:?}");
}

#[test]
fn of_parts_that_were_not_run_nothing_is_said() {
    let llc = &*SHIPPED;
    let only = |beside: Vec<BesideBest>, times: Vec<DecisionTime>| {
        let [steady, changing] = [Vec::new(), Vec::new()];
        let (by_phase, as_live) = (Vec::new(), "noise=0".to_owned());
        let (spec, shipped, seeds) = (llc, llc, 1);
        Measured { spec, shipped, steady, changing, by_phase, beside, times, seeds, as_live }.page()
    };
    let best = BesideBest {
        programs: 8,
        stock: 2.0,
        dunn: 1.6,
        kpart: 1.5,
        lfoc: 1.4,
        fair_clusters: 1.3,
        best: 1.25,
        proven: true,
        gap: None,
    };
    let page = only(vec![best], Vec::new());
    assert_eq!((page.findings.len(), page.figures.len()), (2, 1));
    let said = serde_json::to_string(&page).unwrap();
    assert!(said.contains("12.00 % of 8 (1 of 1 proven)") && !said.contains("NaN"), "{said}");
    let time =
        DecisionTime { policy: "lfoc", programs: 8, decisions: 1, median_us: 1.0, ninth_us: 2.0 };
    let page = only(Vec::new(), vec![time]);
    assert_eq!((page.findings.len(), page.figures.len()), (0, 1));
}
