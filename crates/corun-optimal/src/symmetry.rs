//! Which LLCs are mirror images of one another.

use corun_machine::{Machine, ObjectIndex};

use crate::cpu_slots::CpuSlots;

/// Above this many LLCs only exchanges of two whole LLCs are looked for.
const LISTED_LLCS: usize = 6;

/// Renamings of the LLCs that change no placement's slowdowns, and nothing of what its packages draw, when the k-th CPU of an LLC takes
/// the part of the k-th CPU of its image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Symmetry {
    /// All of them: `maps[m][llc]` is the image. The first is the identity.
    Listed { maps: Vec<Vec<usize>>, representatives: Vec<Vec<(usize, f64)>> },
    /// LLCs of one class may be renamed at will: the class of each LLC.
    Classes(Vec<usize>),
}

impl Symmetry {
    /// `fixed_nodes`: NUMA nodes that hold somebody's pages by name, so that they cannot be
    /// renamed.
    pub(crate) fn of(machine: &Machine, slots: &[CpuSlots], fixed_nodes: &[usize]) -> Self {
        let figures = Figures::new(machine, slots, fixed_nodes);
        if slots.len() <= LISTED_LLCS {
            let mut maps = Vec::new();
            let mut map = Vec::new();
            list(&figures, &mut map, &mut maps);
            let representatives =
                (0..1usize << slots.len()).map(|used| of_listed(&maps, used)).collect();
            return Self::Listed { maps, representatives };
        }
        let mut classes: Vec<usize> = Vec::new();
        for llc in 0..slots.len() {
            let exchange = |other: usize| {
                let mut map: Vec<usize> = (0..slots.len()).collect();
                map.swap(llc, other);
                map
            };
            // Exchanges of a class generate all its renamings, so one member stands for all.
            let class = (0..llc)
                .find(|&other| classes[other] == other && figures.keeps(&exchange(other)))
                .unwrap_or(llc);
            classes.push(class);
        }
        Self::Classes(classes)
    }

    /// Of the LLCs that are not in `used`, one of each set of equals once the used ones are told
    /// apart, with the size of its set.
    pub(crate) fn representatives(&self, used: u64) -> Vec<(usize, f64)> {
        match self {
            Self::Listed { representatives, .. } => representatives[used as usize].clone(),
            Self::Classes(classes) => {
                let free = |class: usize| {
                    (0..classes.len())
                        .filter(move |&llc| classes[llc] == class && used & (1 << llc) == 0)
                };
                let lowest = |llc: &usize| free(classes[*llc]).next() == Some(*llc);
                (0..classes.len())
                    .filter(lowest)
                    .map(|llc| (llc, free(classes[llc]).count() as f64))
                    .collect()
            }
        }
    }

    /// The class of each LLC: the lowest LLC that it is a mirror image of.
    pub(crate) fn orbits(&self) -> Vec<usize> {
        match self {
            Self::Listed { maps, .. } => (0..maps[0].len())
                .map(|llc| maps.iter().map(|map| map[llc]).min().unwrap_or(llc))
                .collect(),
            Self::Classes(classes) => classes.clone(),
        }
    }

    /// The renamings to try when two placements are compared.
    pub(crate) fn maps(&self) -> Vec<Vec<usize>> {
        match self {
            Self::Listed { maps, .. } => maps.clone(),
            Self::Classes(classes) => vec![(0..classes.len()).collect()],
        }
    }
}

/// The orbits of the renamings that fix every used LLC.
fn of_listed(maps: &[Vec<usize>], used: usize) -> Vec<(usize, f64)> {
    let llcs = maps[0].len();
    let is_used = |llc: usize| used & (1 << llc) != 0;
    let fixing: Vec<&Vec<usize>> =
        maps.iter().filter(|map| (0..llcs).all(|llc| !is_used(llc) || map[llc] == llc)).collect();
    let mut representatives = Vec::new();
    for llc in (0..llcs).filter(|&llc| !is_used(llc)) {
        let mut images: Vec<usize> = fixing.iter().map(|map| map[llc]).collect();
        images.sort_unstable();
        images.dedup();
        if images[0] == llc {
            representatives.push((llc, images.len() as f64));
        }
    }
    representatives
}

fn list(figures: &Figures<'_>, map: &mut Vec<usize>, maps: &mut Vec<Vec<usize>>) {
    let llcs = figures.slots.len();
    if map.len() == llcs {
        if figures.keeps(map) {
            maps.push(map.clone());
        }
        return;
    }
    for image in 0..llcs {
        if !map.contains(&image) && figures.slots[map.len()].len() == figures.slots[image].len() {
            map.push(image);
            list(figures, map, maps);
            map.pop();
        }
    }
}

/// What a renaming must keep, looked up once.
struct Figures<'a> {
    machine: &'a Machine,
    slots: &'a [CpuSlots],
    fixed_nodes: &'a [usize],
    /// Of each CPU: the way to each node's memory.
    paths: Vec<Vec<Vec<usize>>>,
    /// Of each CPU: the objects above it inside its LLC, and the LLC's own.
    chains: Vec<Vec<ObjectIndex>>,
}

impl<'a> Figures<'a> {
    fn new(machine: &'a Machine, slots: &'a [CpuSlots], fixed_nodes: &'a [usize]) -> Self {
        let cpus = 0..machine.cpus().len();
        let nodes = machine.nodes().len();
        let paths = cpus
            .clone()
            .map(|cpu| (0..nodes).map(|node| machine.memory_path(cpu, node)).collect())
            .collect();
        let chains = cpus.map(|cpu| chain(machine, cpu)).collect();
        Self { machine, slots, fixed_nodes, paths, chains }
    }

    /// Is the renaming one that no slowdown can tell?
    fn keeps(&self, map: &[usize]) -> bool {
        let machine = self.machine;
        let mut image = vec![0; machine.cpus().len()];
        for (llc, &to) in map.iter().enumerate() {
            if machine.llcs()[llc].cache != machine.llcs()[to].cache
                || self.slots[llc].len() != self.slots[to].len()
            {
                return false;
            }
            for (&from, &to) in self.slots[llc].cpus.iter().zip(&self.slots[to].cpus) {
                image[from] = to;
            }
        }
        self.keeps_objects(&image) && self.keeps_memory(&image) && self.keeps_packages(&image)
    }

    /// Where packages draw power, those of one package stay together.
    fn keeps_packages(&self, image: &[usize]) -> bool {
        let cpus = self.machine.cpus();
        let draws = self.machine.power().is_some_and(|power| power.package_active_w > 0.0);
        let mut renamed = Renaming::new(self.machine.packages().len());
        !draws
            || (0..cpus.len()).all(|cpu| renamed.add(cpus[cpu].package, cpus[image[cpu]].package))
    }

    fn keeps_objects(&self, image: &[usize]) -> bool {
        let objects = self.machine.objects();
        let mut pairs = Renaming::new(objects.len());
        image.iter().enumerate().all(|(from, &to)| {
            let (here, there) = (&self.chains[from], &self.chains[to]);
            here.len() == there.len()
                && here.iter().zip(there).all(|(&a, &b)| {
                    objects[a].kind == objects[b].kind
                        && objects[a].cache == objects[b].cache
                        && objects[a].core_type == objects[b].core_type
                        && pairs.add(a, b)
                })
        })
    }

    fn keeps_memory(&self, image: &[usize]) -> bool {
        let machine = self.machine;
        let nodes = machine.nodes().len();
        let mut renamed = Renaming::new(nodes);
        let cpu_nodes = image
            .iter()
            .enumerate()
            .all(|(from, &to)| renamed.add(machine.cpus()[from].node, machine.cpus()[to].node));
        let fixed = self.fixed_nodes.iter().all(|&node| renamed.add(node, node));
        // Memory without CPUs keeps its name.
        let bare = (0..nodes)
            .filter(|&node| machine.nodes()[node].cpus.is_empty())
            .all(|node| renamed.add(node, node));
        if !(cpu_nodes && fixed && bare) {
            return false;
        }
        let to = |node: usize| renamed.image[node].unwrap_or(node);
        let same_distances = (0..nodes).all(|a| {
            (0..nodes).all(|b| machine.latency_ratio(a, b) == machine.latency_ratio(to(a), to(b)))
        });
        let domains = machine.bandwidth_domains();
        let mut pairs = Renaming::new(domains.len());
        same_distances
            && image.iter().enumerate().all(|(from, &cpu)| {
                (0..nodes).all(|node| {
                    let (here, there) = (&self.paths[from][node], &self.paths[cpu][to(node)]);
                    here.len() == there.len()
                        && here.iter().zip(there).all(|(&a, &b)| {
                            domains[a].stage == domains[b].stage
                                && domains[a].peak_mb_per_s == domains[b].peak_mb_per_s
                                && pairs.add(a, b)
                        })
                })
            })
    }
}

/// The objects above a CPU that lie within its LLC, nearest first.
fn chain(machine: &Machine, cpu: usize) -> Vec<ObjectIndex> {
    let of = &machine.cpus()[cpu];
    let llc = &machine.llcs()[of.llc].cpus;
    let objects = machine.objects();
    let mut chain = vec![];
    let mut at = Some(machine.cores()[of.core].object);
    while let Some(index) = at.filter(|&index| objects[index].cpus.is_subset(llc)) {
        chain.push(index);
        at = objects[index].parent;
    }
    chain
}

/// A one-to-one renaming that grows.
struct Renaming {
    image: Vec<Option<usize>>,
    source: Vec<Option<usize>>,
}

impl Renaming {
    fn new(len: usize) -> Self {
        Self { image: vec![None; len], source: vec![None; len] }
    }

    /// False when it contradicts what is there.
    fn add(&mut self, from: usize, to: usize) -> bool {
        *self.image[from].get_or_insert(to) == to && *self.source[to].get_or_insert(from) == from
    }
}
