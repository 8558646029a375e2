//! More threads than CPUs.

use std::collections::BTreeSet;

use corun_model::slowdowns_in_turns;

use super::*;

const EIGHT: [&str; 8] =
    ["sort", "sort", "numpy", "numpy", "flac", "flac", "hmmsearch", "hmmsearch"];

/// The mean slowdown of the eight where they are.
fn mean_in_turns(predictor: &dyn Predictor, cpus: &[usize]) -> f64 {
    let loaded = EIGHT.map(|name| predictor.profiled(name).unwrap());
    let running: Vec<Running<'_>> = loaded
        .iter()
        .zip(cpus)
        .map(|(program, &cpu)| Running::local(program, LoadedProgram::WHOLE, cpu))
        .collect();
    let model = predictor.model();
    let slowdowns = slowdowns_in_turns(model, &running, &mut Scratch::default());
    slowdowns.iter().sum::<f64>() / slowdowns.len() as f64
}

/// Every way to put eight threads on four CPUs by twos.
fn groupings() -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..8 {
        let mut longer = Vec::new();
        for one in &all {
            for cpu in 0..4 {
                if one.iter().filter(|&&at| at == cpu).count() < 2 {
                    let mut next = one.clone();
                    next.push(cpu);
                    longer.push(next);
                }
            }
        }
        all = longer;
    }
    all
}

/// Eight threads on four CPUs: each CPU has two, the grouping is as good as the best of all 2520 to within the least
/// gain, and it stays. A program that starts again gets its former CPU; a ninth thread is the kernel's to place, and
/// so are all others then.
#[test]
fn threads_in_groups_of_equal_size_share_a_cpu() {
    let predictor = predictor("xeon-x5365-2llc", &EIGHT);
    let machine = predictor.model().machine().clone();
    let all = groupings();
    assert_eq!(all.len(), 2520);
    let means = all.iter().step_by(7).map(|cpus| mean_in_turns(&*predictor, cpus));
    let means: Vec<f64> = means.collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let (worst, most) = means.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    assert!(*most > 1.01 * least, "{most} {least}");

    let mut threads = threads(&machine, &EIGHT, &all[7 * worst]);
    let mut policy = policy(&predictor, &[]);
    let mut reasons = Vec::new();
    for second in [0.0, 60.0] {
        let plan = policy.decide(&at(&machine, &threads, second));
        moved(&plan, &mut threads);
        reasons.extend(plan.steps.into_iter().map(|step| step.reason));
    }
    let reached = cpus(&machine, &threads);
    let on = |cpu: usize| reached.iter().filter(|&&one| one == cpu).count();
    assert_eq!([0, 1, 2, 3].map(on), [2; 4]);
    let mean = mean_in_turns(&*predictor, &reached);
    assert!(mean <= least * 1.005, "{mean} {least}");
    assert!(reasons.iter().any(|one| one.contains("shares a CPU with")), "{reasons:?}");
    assert_eq!(policy.decide(&at(&machine, &threads, 61.0)), Plan::none());
    // Looked for again after a long time, and kept.
    assert_eq!(policy.decide(&at(&machine, &threads, 6000.0)), Plan::none());

    // The last one ends and starts again, nowhere yet.
    let former = threads[7].allowed.clone();
    let mut again = ThreadView::new(ThreadId(8), ProcessId(8), EIGHT[7], &machine.cpu_set());
    again.profile = Some(EIGHT[7].into());
    threads[7] = again;
    let plan =
        policy.on_event(&Event::Arrived(ThreadId(8)), &at(&machine, &threads, 6001.0)).unwrap();
    let [Step { action: Action::Allow { thread, cpus }, .. }] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((*thread, cpus), (ThreadId(8), &former));
    threads[7].cpu = former.iter().next();
    threads[7].allowed = former;

    let ninth = ThreadView::new(ThreadId(9), ProcessId(9), "sort", &machine.cpu_set());
    threads.push(ninth);
    let plan =
        policy.on_event(&Event::Arrived(ThreadId(9)), &at(&machine, &threads, 6002.0)).unwrap();
    let freed: BTreeSet<ThreadId> = plan
        .steps
        .iter()
        .map(|step| match &step.action {
            Action::Allow { thread, cpus } if *cpus == machine.cpu_set() => *thread,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(freed.len(), 8);
}

/// Without profiles nobody is grouped: what runs beside whom changes too often to learn from.
#[test]
fn without_profiles_a_crowd_is_the_kernels() {
    let predictor = predictor("xeon-x5365-2llc", &EIGHT);
    let machine = predictor.model().machine().clone();
    let threads = threads(&machine, &EIGHT, &[0, 0, 1, 1, 2, 2, 3, 3]);
    let mut policy = policy(&predictor, &[("profiles", 0.0)]);
    assert_eq!(policy.decide(&at(&machine, &threads, 60.0)), Plan::none());
}
