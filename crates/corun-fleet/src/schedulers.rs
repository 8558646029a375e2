//! Who decides where programs go: what clusters do today, two published rules, and the model.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::PodId;
use crate::place::Hold;

/// Who decides.
///
/// In the order of the time that a simulation takes with each, the shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerName {
    /// The node of which the smallest share is taken (Kubernetes, `LeastAllocated`).
    LeastAllocated,
    /// The node of which the largest share is taken (Kubernetes, `MostAllocated`).
    MostAllocated,
    /// Any node with room.
    Random,
    /// Least allocated; a program whose cycles per instruction are beyond two standard deviations has its
    /// likeliest antagonist moved (after CPI2, EuroSys 2013).
    Cpi2,
    /// Tolerated and caused interference by two microbenchmarks (after Paragon, ASPLOS 2013).
    Paragon,
    /// Where the model says that it costs least; Linux places threads in the node.
    CorunNode,
    /// The same, and threads are held to the LLC where they cost least.
    Corun,
    /// The same, and once in a while what pays is moved.
    CorunRepair,
}

impl SchedulerName {
    /// All of them, with the names by which they are asked for.
    pub const ALL: [(&'static str, Self); 8] = [
        ("least-allocated", Self::LeastAllocated),
        ("most-allocated", Self::MostAllocated),
        ("random", Self::Random),
        ("cpi2", Self::Cpi2),
        ("paragon", Self::Paragon),
        ("corun-node", Self::CorunNode),
        ("corun", Self::Corun),
        ("corun-repair", Self::CorunRepair),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|one| one.1 == self).map_or("", |one| one.0)
    }

    /// Which CPUs of its node a program gets.
    pub(crate) fn hold(self) -> Hold {
        match self {
            Self::Corun | Self::CorunRepair => Hold::Either,
            _ => Hold::AsLinux,
        }
    }
}

/// A scheduler at work.
pub(crate) struct Scheduler {
    pub(crate) name: SchedulerName,
    generator: Pcg64,
    interference: Option<Interference>,
    specs: Vec<Spec>,
}

/// Cycles per instruction of a program on a kind of node, as seen so far: relative to those alone.
#[derive(Debug, Clone, Copy, Default)]
struct Spec {
    count: f64,
    mean: f64,
    squares: f64,
}

/// Observations before a program's spread is known (CPI2 asks for 100 samples a task).
const LEAST_OBSERVED: f64 = 100.0;

impl Spec {
    fn add(&mut self, seen: f64) {
        // Welford, Technometrics 4(3), 1962.
        self.count += 1.0;
        let off = seen - self.mean;
        self.mean += off / self.count;
        self.squares += off * (seen - self.mean);
    }

    /// As CPI2 has it: beyond the mean by two standard deviations.
    fn is_outlier(&self, seen: f64) -> bool {
        let deviation = (self.squares / (self.count - 1.0)).sqrt();
        self.count >= LEAST_OBSERVED && seen > self.mean + 2.0 * deviation
    }
}

impl Scheduler {
    /// `microbenchmarks`: as which of their programs the kinds of node have loaded [`MICROBENCHMARKS`].
    pub(crate) fn new(
        name: SchedulerName,
        fleet: &Fleet,
        seed: u64,
        microbenchmarks: [usize; 2],
    ) -> Self {
        let ground = fleet.ground();
        let measured = || Interference::measured(fleet, microbenchmarks);
        let interference = (name == SchedulerName::Paragon).then(measured);
        Self {
            name,
            generator: Pcg64::seed_from_u64(seed),
            interference,
            specs: vec![Spec::default(); ground.programs.len() * ground.kinds.len()],
        }
    }

    /// A node and CPUs for a workload; none where no node has room.
    pub(crate) fn choose(
        &mut self,
        fleet: &Fleet,
        workload: usize,
        prediction: &mut Prediction,
    ) -> Option<(usize, Vec<u32>)> {
        let node = match self.name {
            SchedulerName::LeastAllocated | SchedulerName::Cpi2 => {
                least_allocated(fleet, workload, None)?
            }
            SchedulerName::MostAllocated => most_allocated(fleet, workload)?,
            SchedulerName::Random => self.any(fleet, workload)?,
            SchedulerName::Paragon => self.interference.as_mut()?.choose(fleet, workload)?,
            SchedulerName::CorunNode | SchedulerName::Corun | SchedulerName::CorunRepair => {
                let place = fleet.best_place_held(workload, self.name.hold(), prediction).ok()?;
                return Some((place.node, place.cpus));
            }
        };
        Some((node, fleet.cpus_on(node, workload, self.name.hold())))
    }

    fn any(&mut self, fleet: &Fleet, workload: usize) -> Option<usize> {
        let workloads = &fleet.ground().workloads;
        let fits = |node: &usize| fleet.nodes[*node].obstacle(workload, workloads).is_none();
        // Most draws find room; of a full fleet all nodes with room are listed.
        for _ in 0..32 {
            let node = self.generator.random_range(0..fleet.nodes.len());
            if fits(&node) {
                return Some(node);
            }
        }
        let roomy: Vec<usize> = (0..fleet.nodes.len()).filter(fits).collect();
        (!roomy.is_empty()).then(|| roomy[self.generator.random_range(0..roomy.len())])
    }

    /// What it does once the programs of a node have run together: a program to move and where to.
    pub(crate) fn react(
        &mut self,
        fleet: &Fleet,
        node: usize,
    ) -> Option<(PodId, (usize, Vec<u32>))> {
        if self.name != SchedulerName::Cpi2 {
            return None;
        }
        let ground = fleet.ground();
        let at = &fleet.nodes[node];
        let mut victim: Option<(f64, PodId)> = None;
        for one in &at.residents {
            let spec = &mut self.specs[at.kind * ground.programs.len() + one.program];
            if spec.is_outlier(one.slowdown) && victim.is_none_or(|worst| one.slowdown > worst.0) {
                victim = Some((one.slowdown, one.pod));
            }
            spec.add(one.slowdown);
        }
        let (_, victim) = victim?;
        // The antagonist: who asks the memory for most.
        let kind = fleet.kind(node);
        let traffic = |one: &&crate::node::Resident| {
            let program = kind.program(one.program);
            program.phase(corun_model::LoadedProgram::WHOLE).best.bytes_per_s
                * one.cpus.len() as f64
        };
        let others = at.residents.iter().filter(|one| one.pod != victim);
        let antagonist =
            others.max_by(|a, b| traffic(a).total_cmp(&traffic(b)).then(b.pod.cmp(&a.pod)))?;
        let to = least_allocated(fleet, antagonist.workload, Some(node))?;
        Some((antagonist.pod, (to, fleet.cpus_on(to, antagonist.workload, Hold::AsLinux))))
    }
}

/// The node with room of which the least share of CPUs is taken; of equals the first.
fn least_allocated(fleet: &Fleet, workload: usize, but: Option<usize>) -> Option<usize> {
    with_least(fleet, workload, |node| (Some(node) != but).then(|| fleet.nodes[node].taken_share()))
}

/// The node with room of which the largest share of CPUs is taken; of equals the first.
fn most_allocated(fleet: &Fleet, workload: usize) -> Option<usize> {
    with_least(fleet, workload, |node| Some(-fleet.nodes[node].taken_share()))
}

/// The node with room that has the least key; of equals the first. A node without a key is left out.
fn with_least<K: PartialOrd>(
    fleet: &Fleet,
    workload: usize,
    mut key: impl FnMut(usize) -> Option<K>,
) -> Option<usize> {
    let mut best: Option<(K, usize)> = None;
    for (node, at) in fleet.nodes.iter().enumerate() {
        let Some(key) = key(node) else { continue };
        let better = best.as_ref().is_none_or(|best| key < best.0);
        if better && at.obstacle(workload, &fleet.ground().workloads).is_none() {
            best = Some((key, node));
        }
    }
    best.map(|best| best.1)
}

/// Microbenchmarks of the shipped library that stand for shared resources: memory bandwidth and cache.
pub(crate) const MICROBENCHMARKS: [&str; 2] = ["kernel-triad", "kernel-hash-join"];
/// Interference that a program tolerates: it keeps 95 % of its speed, as Paragon has it.
const TOLERATED_SLOWDOWN: f64 = 1.0 / 0.95;
/// Steps of a microbenchmark's intensity.
const STEPS: usize = 8;

/// By kind of node, program and microbenchmark: intensities from 0 to 1 of what is tolerated and caused.
/// Intensity 1 is the microbenchmark on all CPUs of a node but one.
struct Interference {
    programs: usize,
    tolerated: Vec<[f64; 2]>,
    caused: Vec<[f64; 2]>,
    nodes: Vec<NodeInterference>,
}

/// What the programs of a node tolerate and cause together, by microbenchmark, while the node is in a state.
#[derive(Debug, Clone, Copy, Default)]
struct NodeInterference {
    state: u64,
    tolerated: [f64; 2],
    caused: [f64; 2],
}

impl Interference {
    /// By co-runs with the microbenchmarks ([`MICROBENCHMARKS`], as each kind of node has loaded them), as
    /// Paragon profiles new programs; the model stands for the hardware.
    fn measured(fleet: &Fleet, bench: [usize; 2]) -> Self {
        let ground = fleet.ground();
        let programs = ground.programs.len();
        let nodes = vec![NodeInterference::default(); fleet.nodes.len()];
        let mut all = Self { programs, tolerated: Vec::new(), caused: Vec::new(), nodes };
        let mut prediction = Prediction::default();
        for kind in ground.kinds.iter() {
            // CPUs by turns over the LLCs, as Linux would fill them.
            let longest = kind.seats().iter().map(Vec::len).max().unwrap_or(0);
            let by_turns = (0..longest)
                .flat_map(|at| kind.seats().iter().filter_map(move |llc| llc.get(at).copied()));
            let cpus: Vec<u32> = by_turns.collect();
            let copies = |step: usize| (cpus.len() - 1) * step / STEPS;
            let mut first_slowdown = |program: usize, bench: usize, copies: usize| {
                let own = std::iter::once((program, cpus[0]));
                let others = cpus[1..].iter().take(copies).map(|&cpu| (bench, cpu));
                kind.slowdowns(own.chain(others), &mut prediction).next().unwrap_or(1.0)
            };
            let mut benches_own: Vec<Vec<f64>> = Vec::new();
            for &bench in &bench {
                let suffers = |step| first_slowdown(bench, bench, copies(step));
                benches_own.push((0..=STEPS).map(suffers).collect());
            }
            for program in 0..programs {
                let (mut tolerated, mut caused) = ([1.0; 2], [0.0; 2]);
                for (at, &bench) in bench.iter().enumerate() {
                    let alone = first_slowdown(program, bench, 0);
                    let too_much = (1..=STEPS).find(|&step| {
                        first_slowdown(program, bench, copies(step)) > alone * TOLERATED_SLOWDOWN
                    });
                    tolerated[at] = too_much.map_or(1.0, |step| (step - 1) as f64 / STEPS as f64);
                    // What all CPUs but one full of it do to the microbenchmark, as the intensity of the
                    // microbenchmark that does the same; a thread's part of it.
                    let harm = first_slowdown(bench, program, copies(STEPS));
                    let own = &benches_own[at];
                    let step = (0..=STEPS).find(|&step| own[step] >= harm).unwrap_or(STEPS);
                    caused[at] = step as f64 / STEPS as f64 / (cpus.len() - 1).max(1) as f64;
                }
                all.tolerated.push(tolerated);
                all.caused.push(caused);
            }
        }
        all
    }

    /// As Paragon chooses: of the nodes whose programs tolerate what the newcomer causes, and whose
    /// programs together cause no more than it tolerates, that with the least room to spare; where there is
    /// none, the node where least is lacking.
    fn choose(&mut self, fleet: &Fleet, workload: usize) -> Option<usize> {
        let asked = &fleet.ground().workloads[workload];
        with_least(fleet, workload, |node| {
            let there = self.of_node(fleet, node);
            let program = fleet.nodes[node].kind * self.programs + asked.program;
            let (mut spare, mut lacking) = (0.0, 0.0);
            for bench in 0..2 {
                let own = self.caused[program][bench] * f64::from(asked.cpus);
                let stands = there.tolerated[bench] - own;
                let newcomer = self.tolerated[program][bench] - there.caused[bench];
                spare += (stands + newcomer).abs();
                lacking += (-stands).max(0.0) + (-newcomer).max(0.0);
            }
            Some(if lacking > 0.0 { (true, lacking) } else { (false, spare) })
        })
    }

    /// Summed anew where somebody came to the node or went.
    fn of_node(&mut self, fleet: &Fleet, node: usize) -> NodeInterference {
        let at = &fleet.nodes[node];
        if self.nodes[node].state != at.state {
            let (mut tolerated, mut caused) = ([1.0_f64; 2], [0.0; 2]);
            for one in &at.residents {
                let program = at.kind * self.programs + one.program;
                for bench in 0..2 {
                    tolerated[bench] = tolerated[bench].min(self.tolerated[program][bench]);
                    caused[bench] += self.caused[program][bench] * one.cpus.len() as f64;
                }
            }
            self.nodes[node] = NodeInterference { state: at.state, tolerated, caused };
        }
        self.nodes[node]
    }
}
