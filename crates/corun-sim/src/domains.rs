//! Scheduling domains: the CPUs by package, node, LLC and core, as the kernel groups them.

use corun_machine::Machine;

use crate::thread::Mask;
use crate::timers::NEVER;

/// A set of CPUs between whose groups load is balanced.
#[derive(Debug, Clone)]
pub(crate) struct Domain {
    pub(crate) cpus: Mask,
    /// Its groups: the domains or CPUs below, in order of their first CPU.
    pub(crate) groups: Vec<Mask>,
    /// When it balances next; [`NEVER`] while it is even.
    pub(crate) due: u64,
    /// Times in a row that balancing found an imbalance that no move would lessen.
    pub(crate) failed: u32,
}

/// All domains, small ones first.
#[derive(Debug, Clone)]
pub(crate) struct Domains {
    pub(crate) list: Vec<Domain>,
    /// By CPU: the domains it is in, small ones first.
    pub(crate) above: Vec<Vec<usize>>,
}

impl Domains {
    pub(crate) fn new(machine: &Machine) -> Self {
        let count = machine.cpus().len();
        let mut levels = levels(machine);
        levels.sort_by_key(|level| level.iter().max().copied());
        let mut list: Vec<Domain> = Vec::new();
        // From the whole machine down: each level splits the groups of the one above.
        let whole: Mask = full(count);
        let mut parents = vec![whole];
        for level in &levels {
            let mut next = Vec::new();
            for parent in parents {
                let groups = split(&parent, level);
                if groups.len() > 1 {
                    list.push(Domain {
                        cpus: parent,
                        groups: groups.clone(),
                        due: NEVER,
                        failed: 0,
                    });
                }
                next.extend(groups);
            }
            parents = next;
        }
        list.sort_by_key(|domain| (domain.cpus.count_ones(..), domain.cpus.minimum()));
        let above = (0..count)
            .map(|cpu| (0..list.len()).filter(|&d| list[d].cpus.contains(cpu)).collect())
            .collect();
        Self { list, above }
    }
}

pub(crate) fn full(count: usize) -> Mask {
    let mut mask = Mask::with_capacity(count);
    mask.insert_range(..);
    mask
}

/// For each level the group number of every CPU.
fn levels(machine: &Machine) -> Vec<Vec<usize>> {
    let of = |number: fn(&corun_machine::Cpu) -> usize| {
        machine.cpus().iter().map(number).collect::<Vec<usize>>()
    };
    vec![
        of(|cpu| cpu.package),
        of(|cpu| cpu.node),
        of(|cpu| cpu.llc),
        of(|cpu| cpu.core),
        (0..machine.cpus().len()).collect(),
    ]
}

fn split(parent: &Mask, level: &[usize]) -> Vec<Mask> {
    let mut groups: Vec<(usize, Mask)> = Vec::new();
    for cpu in parent.ones() {
        let number = level[cpu];
        let place = groups.iter().position(|(other, _)| *other == number).unwrap_or_else(|| {
            groups.push((number, Mask::with_capacity(level.len())));
            groups.len() - 1
        });
        groups[place].1.insert(cpu);
    }
    groups.into_iter().map(|(_, mask)| mask).collect()
}
