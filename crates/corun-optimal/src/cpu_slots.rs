//! The slots of an LLC: its CPUs, and which of them are alike.

use std::ops::ControlFlow;

use corun_machine::{Cache, Machine, ObjectIndex, ObjectType};

/// A group's slots: who sits at which position of the LLC's CPU list.
pub(crate) type SlotAssignment = Vec<(usize, usize)>;

/// A branch of an LLC's tree, down to its CPUs.
#[derive(Debug, Clone, PartialEq)]
struct Branch {
    /// Equal for branches that nothing distinguishes but who sits there.
    signature: usize,
    children: Vec<usize>,
    /// Of a leaf: the place in [`CpuSlots::cpus`].
    position: Option<usize>,
    slots: usize,
}

/// The CPUs of an LLC and the tree above them inside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuSlots {
    /// CPU indices, ascending.
    pub(crate) cpus: Vec<usize>,
    /// Parents before children; the first is the whole LLC.
    branches: Vec<Branch>,
    /// For each position its branches, from the whole LLC to the leaf.
    paths: Vec<Vec<usize>>,
}

/// A slot for the next program, and how many slots are its equals.
struct FreeSlot {
    position: usize,
    equals: f64,
}

impl CpuSlots {
    pub(crate) fn of_llc(machine: &Machine, llc: usize) -> Self {
        let cpus: Vec<usize> =
            (0..machine.cpus().len()).filter(|&cpu| machine.cpus()[cpu].llc == llc).collect();
        let mut grower = Grower { machine, cpus: &cpus, branches: Vec::new(), known: Vec::new() };
        grower.add(0);
        let branches = grower.branches;
        let mut paths = vec![Vec::new(); cpus.len()];
        add_paths(&branches, 0, &mut Vec::new(), &mut paths);
        Self { cpus, branches, paths }
    }

    pub(crate) fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Every way to give slots to `members` (ascending) that is no mirror image of another, with the
    /// number of injective maps that are its mirror images. The lowest slots come first. `visit` may end it: sixteen programs on
    /// eight large and sixteen small cores have more ways than anybody can wait for.
    pub(crate) fn slot_assignments(
        &self,
        members: &[usize],
        visit: &mut impl FnMut(&SlotAssignment, f64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut taken = vec![0; self.branches.len()];
        self.assign_next(members, &mut taken, &mut Vec::new(), 1.0, visit)
    }

    fn assign_next(
        &self,
        members: &[usize],
        taken: &mut Vec<usize>,
        assigned: &mut SlotAssignment,
        maps: f64,
        visit: &mut impl FnMut(&SlotAssignment, f64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((&member, rest)) = members.split_first() else {
            return visit(assigned, maps);
        };
        let mut candidates = Vec::new();
        self.candidates(0, taken, 1.0, &mut candidates);
        candidates.sort_by_key(|one| one.position);
        for candidate in candidates {
            self.mark(candidate.position, taken, true);
            assigned.push((member, candidate.position));
            self.assign_next(rest, taken, assigned, maps * candidate.equals, visit)?;
            assigned.pop();
            self.mark(candidate.position, taken, false);
        }
        ControlFlow::Continue(())
    }

    /// The positions that an assignment leaves free, one of each set that nothing tells apart.
    pub(crate) fn free_positions(&self, assignment: &SlotAssignment) -> Vec<usize> {
        let mut taken = vec![0; self.branches.len()];
        for &(_, position) in assignment {
            self.mark(position, &mut taken, true);
        }
        let mut free = Vec::new();
        self.candidates(0, &taken, 1.0, &mut free);
        free.into_iter().map(|slot| slot.position).collect()
    }

    fn candidates(&self, at: usize, taken: &[usize], equals: f64, found: &mut Vec<FreeSlot>) {
        let branch = &self.branches[at];
        if taken[at] == branch.slots {
            return;
        }
        if let Some(position) = branch.position {
            found.push(FreeSlot { position, equals });
        }
        for (place, &child) in branch.children.iter().enumerate() {
            let is_equal = |&other: &usize| {
                taken[other] == 0
                    && self.branches[other].signature == self.branches[child].signature
            };
            let mut factor = 1.0;
            if taken[child] == 0 {
                if branch.children[..place].iter().any(&is_equal) {
                    continue;
                }
                factor = branch.children.iter().filter(|other| is_equal(other)).count() as f64;
            }
            self.candidates(child, taken, equals * factor, found);
        }
    }

    fn mark(&self, position: usize, taken: &mut [usize], sits: bool) {
        for &branch in &self.paths[position] {
            if sits {
                taken[branch] += 1;
            } else {
                taken[branch] -= 1;
            }
        }
    }

    /// The mirror image of an assignment with the lowest positions, members taken in their order.
    pub(crate) fn lowest(&self, assignment: &SlotAssignment) -> SlotAssignment {
        let mut image: Vec<Option<usize>> = vec![None; self.branches.len()];
        let mut taken = vec![false; self.branches.len()];
        let mut lowest = Vec::with_capacity(assignment.len());
        for &(member, position) in assignment {
            let mut to = 0;
            for &child in self.paths[position].iter().skip(1) {
                let signature = self.branches[child].signature;
                to = *image[child].get_or_insert_with(|| {
                    let free = self.branches[to].children.iter().copied().find(|&other| {
                        !taken[other] && self.branches[other].signature == signature
                    });
                    free.unwrap_or(child)
                });
                taken[to] = true;
            }
            lowest.push((member, self.branches[to].position.unwrap_or(position)));
        }
        lowest
    }
}

/// Notes of each leaf below the branch the way to it from the whole LLC; `above`: that to the branch.
fn add_paths(branches: &[Branch], at: usize, above: &mut Vec<usize>, paths: &mut [Vec<usize>]) {
    let Some(branch) = branches.get(at) else { return };
    above.push(at);
    if let Some(position) = branch.position {
        paths[position].clone_from(above);
    }
    branch.children.iter().for_each(|&child| add_paths(branches, child, above, paths));
    above.pop();
}

/// What a branch is, regardless of which one it is.
#[derive(PartialEq)]
struct BranchKind {
    kind: ObjectType,
    cache: Option<Cache>,
    core_type: Option<usize>,
    children: Vec<usize>,
    /// Of a CPU: its NUMA node, and its way to each node's memory.
    node: Option<usize>,
    paths: Vec<Vec<usize>>,
}

struct Grower<'a> {
    machine: &'a Machine,
    cpus: &'a [usize],
    branches: Vec<Branch>,
    known: Vec<BranchKind>,
}

impl Grower<'_> {
    /// Adds the object's part in the LLC; none when it has no CPU there.
    fn add(&mut self, object: ObjectIndex) -> Option<usize> {
        let machine = self.machine;
        let inside =
            |&&cpu: &&usize| machine.objects()[object].cpus.contains(machine.cpus()[cpu].id);
        let slots = self.cpus.iter().filter(inside).count();
        if slots == 0 {
            return None;
        }
        let index = self.branches.len();
        self.branches.push(Branch { signature: 0, children: Vec::new(), position: None, slots });
        let of = &machine.objects()[object];
        let children: Vec<usize> =
            of.children.iter().filter_map(|&child| self.add(child)).collect();
        let position = (of.kind == ObjectType::Cpu)
            .then(|| self.cpus.iter().position(|&cpu| of.cpus.contains(machine.cpus()[cpu].id)))
            .flatten();
        let cpu = position.map(|position| self.cpus[position]);
        let mut below: Vec<usize> = children.iter().map(|&c| self.branches[c].signature).collect();
        below.sort_unstable();
        let kind = BranchKind {
            kind: of.kind,
            cache: of.cache,
            core_type: of.core_type,
            children: below,
            node: cpu.map(|cpu| machine.cpus()[cpu].node),
            paths: cpu.map_or_else(Vec::new, |cpu| {
                (0..machine.nodes().len()).map(|node| machine.memory_path(cpu, node)).collect()
            }),
        };
        let signature = self.known.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.known.push(kind);
            self.known.len() - 1
        });
        let branch = &mut self.branches[index];
        branch.signature = signature;
        branch.children = children;
        branch.position = position;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 large cores of two hardware threads and 16 small ones: nobody sees the last of these assignments.
    #[test]
    fn assignments_end_when_enough_were_seen() {
        let machine = corun_machine::preset("core-i9-12900k").unwrap();
        let slots = CpuSlots::of_llc(&machine, 0);
        let members: Vec<usize> = (0..16).collect();
        let mut seen = 0;
        let ended = slots.slot_assignments(&members, &mut |_, _| {
            seen += 1;
            if seen == 1000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((ended, seen), (ControlFlow::Break(()), 1000));
    }
}
