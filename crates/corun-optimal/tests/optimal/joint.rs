//! Placement and clustering together against every placement with every clustering, each judged by
//! the model with everybody running.

use std::sync::Arc;
use std::time::Duration;

use crate::every::every;
use crate::programs::program;
use corun_machine::{Machine, MachineSpec, preset};
use corun_model::{CacheGroup, LoadedProgram, Member, Model, ModelOptions, Running, Scratch};
use corun_optimal::partition::Kind;
use corun_optimal::{JointError, JointProblem, Objective, SearchLimits};
use proptest::prelude::*;

/// Ways and cores of each LLC, all ways of 512 KiB.
type Llcs = [(u32, u32); 2];
const UNEQUAL: Llcs = [(4, 2), (5, 3)];
const ALIKE: Llcs = [(5, 2), (5, 2)];
const WAY_BYTES: f64 = 524_288.0;

/// Two LLCs, each with a memory of its own.
fn machine(llcs: Llcs) -> Arc<Machine> {
    let mut text =
        "version = 1\nname = \"two\"\n[[core_type]]\nname = \"big\"\nclock_mhz = 3000\n".to_owned();
    let east = format!("2-{}", 1 + llcs[1].1);
    for (name, cpus) in [("west", "0-1"), ("east", &east)] {
        text += &format!(
            "[[bandwidth]]\nname = \"{name}\"\nkind = \"memory-controller\"\nstage = 0\n\
             peak_mb_per_s = 4000\nfrom_cpus = \"{cpus}\"\n"
        );
    }
    for (ways, cores) in llcs {
        text += &format!(
            "[[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = {}\nways = {ways}\n\
             [[object.object]]\nkind = \"core\"\ncount = {cores}\n",
            512 * ways
        );
    }
    let spec: MachineSpec = toml::from_str(&text).unwrap();
    Arc::new(Machine::from_spec(spec).unwrap())
}

/// Clusters on an LLC: the programs and the ways of each.
type Clusters = Vec<(usize, Vec<usize>, u32)>;

/// What everybody suffers, by program.
fn slowdowns(model: &Model, programs: &[Arc<LoadedProgram>], clusters: &Clusters) -> Vec<f64> {
    let first = [0, 2];
    let mut taken = [0; 2];
    let mut running = Vec::new();
    let mut order = Vec::new();
    for (id, (llc, group, ways)) in clusters.iter().enumerate() {
        let bytes = f64::from(*ways) * WAY_BYTES;
        let group_of = Some(CacheGroup { id: id as u32, bytes });
        for &program in group {
            let cpu = first[*llc] + taken[*llc];
            taken[*llc] += 1;
            let phase = LoadedProgram::WHOLE;
            let member = Member { program: &programs[program], phase, cpu };
            running.push(Running { member, home: &[], group: group_of });
            order.push(program);
        }
    }
    let mut outcomes = Vec::new();
    model.solve(&running, &mut Scratch::new(), &mut outcomes);
    let mut slowdowns = vec![0.0; order.len()];
    for (program, outcome) in order.into_iter().zip(outcomes) {
        slowdowns[program] = outcome.slowdown;
    }
    slowdowns
}

/// Every clustering of these programs on an LLC.
fn clusterings(llcs: Llcs, llc: usize, group: &[usize]) -> Vec<Clusters> {
    if group.is_empty() {
        return vec![Vec::new()];
    }
    let all = every(group.len(), llcs[llc].0, 1, Kind::Cluster).into_iter();
    all.map(|(clusters, ways)| {
        let named = |cluster: Vec<usize>| cluster.iter().map(|&one| group[one]).collect();
        clusters.into_iter().zip(ways).map(|(one, ways)| (llc, named(one), ways)).collect()
    })
    .collect()
}

fn best_of_all(
    llcs: Llcs,
    model: &Model,
    programs: &[Arc<LoadedProgram>],
    objective: Objective,
) -> f64 {
    let mut values = Vec::new();
    for set in 0..1_usize << programs.len() {
        let (west, east): (Vec<usize>, Vec<usize>) =
            (0..programs.len()).partition(|one| set >> one & 1 == 0);
        if west.len() > llcs[0].1 as usize || east.len() > llcs[1].1 as usize {
            continue;
        }
        for one in clusterings(llcs, 0, &west) {
            for other in clusterings(llcs, 1, &east) {
                let clusters = [one.clone(), other].concat();
                values.push(objective.value(&slowdowns(model, programs, &clusters), None).unwrap());
            }
        }
    }
    let largest = objective == Objective::Stp;
    let better = |a: f64, b: f64| if largest { a.max(b) } else { a.min(b) };
    values.into_iter().reduce(better).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_best_of_all_is_found(
        mixes in prop::collection::vec((0.1f64..40.0, 0.2f64..6.0), 1..6),
        which in 0usize..3,
        alike in any::<bool>(),
    ) {
        let llcs = if alike { ALIKE } else { UNEQUAL };
        let mixes = &mixes[..mixes.len().min((llcs[0].1 + llcs[1].1) as usize)];
        let objective = [Objective::MeanSlowdown, Objective::Stp, Objective::MaxSlowdown][which];
        let model = Model::new(machine(llcs), ModelOptions::default()).unwrap();
        let programs: Vec<Arc<LoadedProgram>> = mixes
            .iter()
            .map(|&(mpki, mib)| Arc::new(model.load(&program(mpki, mib)).unwrap()))
            .collect();
        let problem = JointProblem::new(&model, &programs).unwrap();
        let found = problem.solve(objective, &SearchLimits::default()).unwrap();
        prop_assert!(found.proven);
        for cluster in &found.clusters {
            for &one in &cluster.programs {
                prop_assert_eq!(model.machine().cpus()[found.cpu[one]].llc, cluster.llc);
            }
        }
        let clusters: Clusters =
            found.clusters.into_iter().map(|one| (one.llc, one.programs, one.ways)).collect();
        let value = objective.value(&slowdowns(&model, &programs, &clusters), None).unwrap();
        let best = best_of_all(llcs, &model, &programs, objective);
        prop_assert!((value - best).abs() <= 1e-9 * best, "{value} {best}");
    }
}

#[test]
fn what_has_no_answer_is_refused() {
    let model = Model::new(machine(UNEQUAL), ModelOptions::default()).unwrap();
    let load = |model: &Model, count: usize| -> Vec<Arc<LoadedProgram>> {
        let one = Arc::new(model.load(&program(10.0, 1.0)).unwrap());
        vec![one; count]
    };
    let programs = load(&model, 6);
    assert!(JointProblem::new(&model, &programs).is_err());
    let programs = load(&model, 17);
    assert_eq!(
        JointProblem::new(&model, &programs).unwrap_err(),
        JointError::TooManyPrograms { programs: 17 }
    );
    let programs = load(&model, 2);
    let problem = JointProblem::new(&model, &programs).unwrap();
    let refused = problem.solve(Objective::Unfairness, &SearchLimits::default());
    assert_eq!(refused, Err(JointError::Objective));
    let at_once = SearchLimits { time: Some(Duration::ZERO), ..SearchLimits::default() };
    assert!(!problem.solve(Objective::Stp, &at_once).unwrap().proven);
    let shared =
        Model::new(Arc::new(preset("xeon-x5365").unwrap()), ModelOptions::default()).unwrap();
    let programs = load(&shared, 2);
    assert_eq!(JointProblem::new(&shared, &programs).unwrap_err(), JointError::Coupled);
}
