use super::*;
use crate::{Action, ThreadView, fixture};

fn llc_partners(threads: &[ThreadView], plan: &Plan) -> Vec<Vec<String>> {
    let machine = fixture::x5365();
    let mut llcs = vec![Vec::new(); machine.llcs().len()];
    for step in &plan.steps {
        let Action::Allow { thread, cpus } = &step.action else { panic!("{step:?}") };
        let cpu = machine.cpu_index(cpus.first().unwrap()).unwrap();
        llcs[machine.cpus()[cpu].llc].push(threads[thread.0 as usize].program.clone());
    }
    llcs
}

/// The eight-thread workload of section 5.1: each of soplex, sphinx, gamess, namd twice. Each LLC
/// gets one that is above the average miss rate and one below it.
#[test]
fn each_llc_gets_a_heavy_and_a_light_thread() {
    let machine = fixture::x5365();
    let names = ["soplex", "sphinx", "gamess", "namd"];
    let mpki = [26.0, 13.0, 0.1, 0.05];
    let mut threads =
        fixture::threads(&machine, &mpki.repeat(2).into_iter().map(Some).collect::<Vec<_>>());
    for thread in &mut threads {
        thread.program = names[thread.id.0 as usize % 4].to_owned();
    }
    let view = fixture::view(&machine, &threads);
    let plan =
        DistributedIntensity::default().on_event(&Event::Arrived(threads[7].id), &view).unwrap();
    let partners = llc_partners(&threads, &plan);
    let wanted =
        [["soplex", "namd"], ["sphinx", "gamess"], ["soplex", "namd"], ["sphinx", "gamess"]];
    for (llc, pair) in partners.iter().zip(wanted) {
        assert_eq!(llc.len(), 2, "{partners:?}");
        assert!(pair.iter().all(|name| llc.iter().any(|one| one == name)), "{partners:?}");
    }
    assert_eq!(plan.steps[0].reason, "soplex: 26.0 MPKI solo, to CPU 0, LLC 0 (with namd)");
}

#[test]
fn an_exit_waits_for_the_interval_since_a_program_may_be_started_again_at_once() {
    let machine = fixture::x5365();
    let threads = fixture::threads(&machine, &[Some(1.0); 3]);
    let view = fixture::view(&machine, &threads);
    assert_eq!(
        DistributedIntensity::default().on_event(&Event::Exited(crate::ThreadId(9)), &view),
        None
    );
    assert_eq!(DistributedIntensity::default().decide(&view).steps.len(), 3);
}
