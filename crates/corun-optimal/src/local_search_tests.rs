use std::collections::BTreeSet;

use corun_machine::preset;

use super::*;
use crate::contention::{Coupling, CpuSlot};

/// Programs that do nothing to each other: steps depend on the machine alone.
struct Alone;

impl Contention for Alone {
    type Share = ();
    type Scratch = ();

    fn share(&self, group: &[CpuSlot], (): &mut (), shares: &mut Vec<()>) {
        shares.resize(group.len(), ());
    }

    fn couple(&self, slots: &[CpuSlot], _: &[()], (): &mut (), slowdowns: &mut Vec<f64>) {
        slowdowns.resize(slots.len(), 1.0);
    }

    fn lighter(&self, (): &(), (): &()) {}

    fn heavier(&self, (): &(), (): &()) {}

    fn traffic(&self, (): &()) -> f64 {
        0.0
    }

    fn passing(&self, _: &[CpuSlot], _: &[()], (): &mut ()) -> f64 {
        0.0
    }

    fn coupling(&self) -> Coupling {
        Coupling::Apart
    }
}

/// Every exchange of two programs and every move to a free CPU.
fn all_changes(space: &SearchSpace<'_, Alone>, cpus: &[usize]) -> Vec<Vec<usize>> {
    let exchanges = (0..cpus.len())
        .flat_map(|first| (0..first).map(move |second| Step::Exchange(first, second)));
    let moves = (0..cpus.len())
        .flat_map(|program| (0..space.cpus()).map(move |cpu| Step::Move(program, cpu)));
    exchanges.chain(moves).filter(|step| step.is_free(cpus)).map(|step| step.of(cpus)).collect()
}

#[test]
fn every_change_is_tried_or_the_mirror_image_of_one_that_is() {
    let mut left_out = 0;
    for name in ["xeon-x5365", "2x-e5-2650", "juno-2b4s", "xeon-gold-6138", "core-i9-12900k"] {
        let machine = preset(name).unwrap();
        let most = machine.cpus().len();
        for programs in [2, 3, 5] {
            let equals = (0..programs).map(|program| if program == 1 { 0 } else { program });
            let space = SearchSpace::new(&machine, &Alone, equals.collect(), &[]);
            for stride in [1, 3] {
                let by_stride = (0..stride).flat_map(|first| (first..most).step_by(stride));
                let cpus: Vec<usize> = by_stride.take(programs).collect();
                let tried: Vec<Vec<usize>> =
                    steps(&space, &cpus).iter().map(|step| step.of(&cpus)).collect();
                let mut images: BTreeSet<_> =
                    tried.iter().map(|changed| space.lowest(changed)).collect();
                images.insert(space.lowest(&cpus));
                let all = all_changes(&space, &cpus);
                for changed in &all {
                    let image = space.lowest(changed);
                    assert!(images.contains(&image), "{name}: {cpus:?} to {changed:?}");
                }
                assert!(tried.iter().all(|changed| all.contains(changed)), "{name}: {cpus:?}");
                left_out += all.len() - tried.len();
            }
        }
    }
    assert!(left_out > 100, "{left_out}");
}
