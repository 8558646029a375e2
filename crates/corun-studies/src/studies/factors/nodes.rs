//! Eight scenarios on a machine with several nodes (appendix A). The target runs on one node; it and
//! the three competing programs differ in where their memory is and whether they share its LLC:
//!
//! | scenario | competing programs | memory of the target | theirs | what the target meets |
//! |---|---|---|---|---|
//! | 0 | other node | local | theirs, local | nothing |
//! | 1 | other node | local | the target's node | controller |
//! | 2 | other node | remote | the target's node | link, distance |
//! | 3 | other node | remote | theirs, local | controller, distance |
//! | 4 | same LLC | local | remote | cache |
//! | 5 | same LLC | local | local | cache, controller |
//! | 6 | same LLC | remote | local | cache, distance |
//! | 7 | same LLC | remote | remote | all four |
//!
//! The paper's drawing of them (Fig. 18) is lost in its text; these are the eight that give each set
//! of factors it names (scenario 0, 2 and 7 are described in words). Five of them tell the factors
//! apart so that they sum to the worst case: cache is 4 - 0, controller 5 - 4, distance 6 - 4, and the
//! link has what is left of 7. Distance includes what the link's own rate costs the target alone.

use std::sync::Arc;

use corun_machine::Machine;

use super::{At, Breakdown, Cast, OnMachine, Rig, most_degraded};
use corun_app::{Error, Result};

const FACTORS: [&str; 4] = ["cache", "memory controller", "link", "distance"];

/// Competing programs at most: with the target they fill an LLC of four.
const COMPETING: usize = 3;

pub(super) fn breakdown(machine: &Arc<Machine>, cast: &Cast<'_>) -> Result<OnMachine> {
    let (own, near, far) = places(machine)?;
    let mut rig = Rig::new(machine, cast)?;
    let node = |cpu: usize| machine.cpus()[cpu].node;
    let (home, away) = (node(own), node(far[0]));
    let programs = (0..rig.programs.len()).map(|program| {
        let mut run = |memory: usize, cpus: &[usize], theirs: usize| {
            let beside: Vec<At> =
                cpus.iter().map(|&cpu| At { cpu, memory: Some(theirs) }).collect();
            rig.slowdown(program, At { cpu: own, memory: Some(memory) }, &beside)
        };
        let base = run(home, &far, away);
        let mut scenario = |memory, theirs| 100.0 * (run(memory, &near, theirs) / base - 1.0);
        let (cache, with_controller) = (scenario(home, away), scenario(home, home));
        let (with_distance, total) = (scenario(away, home), scenario(away, away));
        let (controller, distance) = (with_controller - cache, with_distance - cache);
        let link = total - cache - controller - distance;
        Breakdown {
            program: rig.programs[program].name.clone(),
            total,
            parts: [cache, controller, link, distance].map(Some).into(),
        }
    });
    let programs = most_degraded(programs.collect());
    Ok(OnMachine::new(machine, cast, &FACTORS, programs))
}

/// The target's CPU, those of the competing programs on its LLC, and as many on another node.
fn places(machine: &Machine) -> Result<(usize, Vec<usize>, Vec<usize>)> {
    let cpus = machine.cpus();
    let own = &cpus[0];
    let one_a_core = |fits: &dyn Fn(&corun_machine::Cpu) -> bool| -> Vec<usize> {
        let mut cores = vec![own.core];
        let mut found = Vec::new();
        for (place, cpu) in cpus.iter().enumerate().filter(|(_, cpu)| fits(cpu)) {
            if !cores.contains(&cpu.core) {
                cores.push(cpu.core);
                found.push(place);
            }
        }
        found
    };
    let mut near = one_a_core(&|cpu| cpu.llc == own.llc);
    let elsewhere = cpus.iter().find(|cpu| cpu.node != own.node).map(|cpu| cpu.llc);
    let mut far = one_a_core(&|cpu| Some(cpu.llc) == elsewhere);
    let count = near.len().min(far.len()).min(COMPETING);
    if count == 0 {
        let message =
            format!("{}: expected LLCs of two cores or more on two nodes", machine.name());
        return Err(Error::input(message));
    }
    near.truncate(count);
    far.truncate(count);
    Ok((0, near, far))
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    #[test]
    fn the_opteron_has_three_beside_the_target_and_three_across() {
        assert_eq!(
            places(&preset("opteron-2350").unwrap()).unwrap(),
            (0, vec![1, 2, 3], vec![4, 5, 6])
        );
    }
}
