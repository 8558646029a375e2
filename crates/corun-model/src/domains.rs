//! The bandwidth domains of a machine, passed stage by stage from the cores outwards.

use std::sync::atomic::{AtomicU64, Ordering};

use corun_machine::{BandwidthKind, Machine};

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, morad};
use crate::contention;
use crate::error::ModelError;
use crate::options::ModelOptions;
use crate::stretch::PassedDomain;

/// The domains in the order in which they are solved, and every way through them.
#[derive(Debug, Clone)]
pub(crate) struct Domains {
    /// Peak in bytes a second, by place in the order.
    peaks: Vec<f64>,
    /// How latency rises with the traffic, by place in the order.
    latency: Vec<Latency>,
    /// Is it a memory controller? By place in the order.
    controllers: Vec<bool>,
    /// Which of `ways` leads there, by `cpu * nodes + node`.
    way_of: Vec<u32>,
    /// Places that a flow passes, nearest to the core first: ranges of `passed`, each once.
    ways: Vec<(u32, u32)>,
    passed: Vec<u32>,
    nodes: usize,
    /// The most that a flow alone draws of each peak.
    solo_share: f64,
    /// No other domains of this process have it, but for clones.
    identity: u64,
}

/// Numbers for [`Domains::identity`]; 0 is nobody's.
static IDENTITIES: AtomicU64 = AtomicU64::new(1);

fn next_identity() -> u64 {
    IDENTITIES.fetch_add(1, Ordering::Relaxed)
}

/// Traffic of one flow to one node.
#[derive(Debug, Clone, Copy)]
struct Part {
    flow: u32,
    way: u32,
    /// What it would draw alone, then what is left of it; bytes a second.
    bytes_per_s: f64,
    own: OwnWait,
    /// Requests sent again for each that a controller took.
    retries: f64,
}

/// Working memory.
#[derive(Debug, Default)]
pub(crate) struct DomainScratch {
    parts: Vec<Part>,
    /// Parts by domain: `members[starts[d]..starts[d + 1]]`.
    starts: Vec<u32>,
    members: Vec<u32>,
    /// What `starts` and `members` were sorted for: whose domains, and each part's way.
    sorted_for: u64,
    sorted_ways: Vec<u32>,
    solo: Vec<f64>,
    own: Vec<OwnWait>,
    /// How busy flows would keep a domain in which they do not queue.
    queued: Vec<f64>,
    /// By domain what its flows would have drawn alone when it was solved last, and what they got: of co-runs that follow
    /// each other most domains have the same.
    solved: Vec<Solved>,
}

/// What flows would draw alone, and what they get together; shares of a domain's peak.
#[derive(Debug, Default)]
struct Solved {
    solo: Vec<f64>,
    own: Vec<OwnWait>,
    shared: Vec<f64>,
}

impl Solved {
    /// What flows get that alone would draw `solo` and wait so for themselves; both are taken.
    fn shared(
        &mut self,
        (solo, own): (&mut Vec<f64>, &mut Vec<OwnWait>),
        latency: &Latency,
        model: &dyn LimitBandwidth,
    ) -> &[f64] {
        if self.solo != *solo || self.own != *own {
            std::mem::swap(&mut self.solo, solo);
            std::mem::swap(&mut self.own, own);
            self.shared.resize(self.solo.len(), 0.0);
            model.through(&self.solo, &self.own, latency, &mut self.shared);
        }
        &self.shared
    }
}

impl Domains {
    pub(crate) fn of(machine: &Machine, options: &ModelOptions) -> Result<Self, ModelError> {
        let peak_mb_per_s = options.peak_mb_per_s;
        let domains = machine.bandwidth_domains();
        let mut order: Vec<usize> = (0..domains.len()).collect();
        order.sort_by_key(|&index| (domains[index].stage, index));
        let mut place = vec![0; domains.len()];
        let mut peaks = Vec::with_capacity(domains.len());
        let mut latency = Vec::with_capacity(domains.len());
        let mut controllers = Vec::with_capacity(domains.len());
        for (at, &index) in order.iter().enumerate() {
            place[index] = at as u32;
            let domain = &domains[index];
            let controller = domain.kind == BandwidthKind::MemoryController;
            let peak = peak_mb_per_s.filter(|_| controller).unwrap_or(domain.peak_mb_per_s);
            if !peak.is_finite() || peak <= 0.0 {
                return Err(ModelError::Machine {
                    machine: machine.name().to_owned(),
                    figure: format!("peak_mb_per_s of bandwidth domain `{}`", domain.name),
                    found: peak.to_string(),
                    expected: "a number above 0",
                });
            }
            peaks.push(peak * 1e6);
            latency.push(Latency::of(domain, peak));
            controllers.push(controller);
        }
        let any_controller =
            domains.iter().any(|domain| domain.kind == BandwidthKind::MemoryController);
        // A peak that no controller of the machine takes bounds all traffic together, last.
        let all = peak_mb_per_s.filter(|_| !any_controller).map(|peak| {
            peaks.push(peak * 1e6);
            latency.push(Latency::usual());
            controllers.push(true);
            peaks.len() as u32 - 1
        });
        let nodes = machine.nodes().len();
        let mut way_of = Vec::with_capacity(machine.cpus().len() * nodes);
        let mut ways: Vec<(u32, u32)> = Vec::new();
        let mut passed: Vec<u32> = Vec::new();
        for cpu in 0..machine.cpus().len() {
            for node in 0..nodes {
                let first = passed.len();
                passed.extend(machine.memory_path(cpu, node).iter().map(|&index| place[index]));
                passed.extend(all);
                let is_same =
                    |way: &(u32, u32)| passed[way.0 as usize..way.1 as usize] == passed[first..];
                let known = ways.iter().position(is_same);
                if known.is_some() {
                    passed.truncate(first);
                } else {
                    ways.push((first as u32, passed.len() as u32));
                }
                way_of.push(known.unwrap_or(ways.len() - 1) as u32);
            }
        }
        let identity = next_identity();
        let solo_share = options.solo_share();
        Ok(Self { peaks, latency, controllers, way_of, ways, passed, nodes, solo_share, identity })
    }

    /// One domain for all traffic: PBBCache's view of a machine.
    pub(crate) fn single(machine: &Machine, options: &ModelOptions) -> Result<Self, ModelError> {
        let own = Self::of(machine, options)?;
        let controllers = machine.bandwidth_domains().iter();
        let of_controllers: f64 = controllers
            .filter(|domain| domain.kind == BandwidthKind::MemoryController)
            .map(|domain| domain.peak_mb_per_s)
            .sum();
        let peak = options.peak_mb_per_s.or(Some(of_controllers).filter(|&sum| sum > 0.0));
        let Some(peak) = peak else { return Ok(own) };
        Ok(Self {
            peaks: vec![peak * 1e6],
            latency: vec![Latency::usual()],
            controllers: vec![true],
            way_of: vec![0; own.way_of.len()],
            ways: vec![(0, 1)],
            passed: vec![0],
            nodes: own.nodes,
            solo_share: own.solo_share,
            identity: next_identity(),
        })
    }

    fn way(&self, cpu: usize, node: usize) -> &[u32] {
        let (first, end) = self.ways[self.way_of[cpu * self.nodes + node] as usize];
        &self.passed[first as usize..end as usize]
    }

    /// The domains on a way with their peaks, in the order in which they are solved.
    pub(crate) fn passed(&self, cpu: usize, node: usize) -> impl Iterator<Item = PassedDomain> {
        self.way(cpu, node).iter().map(|&domain| PassedDomain {
            domain: domain as usize,
            peak_bytes_per_s: self.peaks[domain as usize],
            queueing: self.latency[domain as usize].queueing(),
            is_queue: self.latency[domain as usize].is_queue(),
        })
    }

    /// How latency rises in a domain.
    pub(crate) fn latency(&self, domain: usize) -> &Latency {
        &self.latency[domain]
    }

    /// The lowest peak on a way, in bytes a second; infinite where nothing bounds it.
    pub(crate) fn lowest_peak(&self, cpu: usize, node: usize) -> f64 {
        let peaks = self.way(cpu, node).iter().map(|&domain| self.peaks[domain as usize]);
        peaks.fold(f64::INFINITY, f64::min)
    }

    /// Starts a new co-run.
    pub(crate) fn clear(&self, scratch: &mut DomainScratch) {
        scratch.parts.clear();
    }

    /// Adds a flow's traffic in parts, by the nodes of its pages ([`crate::Flow::home`]). `from`: its CPU and the node of that.
    /// How many parts there are, and the bytes a second of the last.
    pub(crate) fn add_flow(
        &self,
        scratch: &mut DomainScratch,
        flow: usize,
        from: (usize, usize),
        home: &[f64],
        (bytes_per_s, own): (f64, OwnWait),
    ) -> (u32, f64) {
        let pages: f64 = home.iter().sum();
        if pages <= 0.0 {
            self.add(scratch, flow, from, (bytes_per_s, own));
            return (1, bytes_per_s);
        }
        let mut added = (0, 0.0);
        for (node, &here) in home.iter().enumerate().filter(|(_, here)| **here > 0.0) {
            added = (added.0 + 1, bytes_per_s * here / pages);
            self.add(scratch, flow, (from.0, node), (added.1, own));
        }
        added
    }

    /// Adds a flow's traffic to one node, in bytes a second. Flows come by rising number.
    fn add(
        &self,
        scratch: &mut DomainScratch,
        flow: usize,
        (cpu, node): (usize, usize),
        (bytes_per_s, own): (f64, OwnWait),
    ) {
        let way = self.way_of[cpu * self.nodes + node];
        scratch.parts.push(Part { flow: flow as u32, way, bytes_per_s, own, retries: 0.0 });
    }

    /// Sends all parts through their domains. A domain sees what the domains before it let
    /// through, so that one bottleneck never counts twice (errata.md, thesis section 5.3.2.1).
    /// `through[flow]` becomes what is left of it at last, in bytes a second, `retries[flow]` its
    /// requests sent again for each that a memory controller took.
    pub(crate) fn solve(
        &self,
        model: &dyn LimitBandwidth,
        scratch: &mut DomainScratch,
        through: &mut [f64],
        retries: &mut [f64],
    ) {
        self.sort(scratch);
        let DomainScratch { parts, starts, members, solo, own, queued, solved, .. } = scratch;
        for (domain, &peak) in self.peaks.iter().enumerate() {
            let members = &members[starts[domain] as usize..starts[domain + 1] as usize];
            if members.is_empty() {
                continue;
            }
            // Parts of one flow stand side by side; to the domain they are one.
            solo.clear();
            own.clear();
            let mut last = None;
            for &part in members {
                let part = &parts[part as usize];
                let share = part.bytes_per_s / peak;
                match solo.last_mut() {
                    Some(sum) if last == Some(part.flow) => *sum += share,
                    _ => {
                        solo.push(share);
                        own.push(part.own);
                    }
                }
                last = Some(part.flow);
            }
            for one in solo.iter_mut() {
                *one = one.min(self.solo_share);
            }
            let busy = match (self.controllers[domain], model.queues()) {
                (true, false) => {
                    queued.resize(solo.len(), 0.0);
                    morad::through(solo, queued);
                    Some(queued.iter().sum())
                }
                _ => None,
            };
            let shared = solved[domain].shared((solo, own), &self.latency[domain], model);
            if self.controllers[domain] {
                let busy = busy.unwrap_or_else(|| shared.iter().sum());
                let again = contention::retries_per_request(busy);
                for &part in members {
                    parts[part as usize].retries += again;
                }
            }
            cut(parts, members, peak, shared);
        }
        through.fill(0.0);
        retries.fill(0.0);
        for part in parts.iter() {
            through[part.flow as usize] += part.bytes_per_s;
            retries[part.flow as usize] += part.bytes_per_s * part.retries;
        }
        for (retries, &through) in retries.iter_mut().zip(&*through) {
            *retries = if through > 0.0 { *retries / through } else { 0.0 };
        }
    }

    /// The same for flows with one part each. `through`: what each asks for, then what is left of it; bytes a second.
    pub(crate) fn solve_single(
        &self,
        model: &dyn LimitBandwidth,
        scratch: &mut DomainScratch,
        through: &mut [f64],
    ) {
        self.sort(scratch);
        let DomainScratch { parts, starts, members, solo, own, solved, .. } = scratch;
        for (domain, &peak) in self.peaks.iter().enumerate() {
            let members = &members[starts[domain] as usize..starts[domain + 1] as usize];
            if members.is_empty() {
                continue;
            }
            let share = |&flow: &u32| (through[flow as usize] / peak).min(self.solo_share);
            solo.clear();
            solo.extend(members.iter().map(share));
            own.clear();
            own.extend(members.iter().map(|&flow| parts[flow as usize].own));
            let shared = solved[domain].shared((solo, own), &self.latency[domain], model);
            for (&flow, &got) in members.iter().zip(shared) {
                let asked = through[flow as usize];
                let kept = if asked > 0.0 { (got * peak / asked).min(1.0) } else { 1.0 };
                through[flow as usize] = asked * kept;
            }
        }
    }

    /// Sorts the parts by domain, by counting. Co-runs that follow each other mostly go the same
    /// ways: then all is sorted already.
    fn sort(&self, scratch: &mut DomainScratch) {
        let DomainScratch { parts, starts, members, sorted_for, sorted_ways, solved, .. } = scratch;
        let ways = parts.iter().map(|part| part.way);
        if *sorted_for == self.identity && ways.clone().eq(sorted_ways.iter().copied()) {
            return;
        }
        if *sorted_for != self.identity {
            // What was solved was so by other latencies, and maybe another model.
            solved.clear();
            solved.resize_with(self.peaks.len(), Solved::default);
            *sorted_for = self.identity;
        }
        sorted_ways.clear();
        sorted_ways.extend(ways);
        starts.clear();
        starts.resize(self.peaks.len() + 2, 0);
        let way = |part: &Part| {
            let (first, end) = self.ways[part.way as usize];
            &self.passed[first as usize..end as usize]
        };
        // Counts stand two places on, so that after the second pass each start is its own.
        for part in parts.iter() {
            for &domain in way(part) {
                starts[domain as usize + 2] += 1;
            }
        }
        for domain in 1..starts.len() {
            starts[domain] += starts[domain - 1];
        }
        members.clear();
        members.resize(starts[starts.len() - 1] as usize, 0);
        for (index, part) in parts.iter().enumerate() {
            for &domain in way(part) {
                let place = &mut starts[domain as usize + 1];
                members[*place as usize] = index as u32;
                *place += 1;
            }
        }
    }
}

/// Cuts the parts to what their flows got through a domain.
fn cut(parts: &mut [Part], members: &[u32], peak: f64, shared: &[f64]) {
    let mut from = 0;
    for &got in shared {
        let flow = parts[members[from] as usize].flow;
        let end = members[from..]
            .iter()
            .position(|&part| parts[part as usize].flow != flow)
            .map_or(members.len(), |more| from + more);
        let asked: f64 =
            members[from..end].iter().map(|&part| parts[part as usize].bytes_per_s).sum();
        let kept = if asked > 0.0 { (got * peak / asked).min(1.0) } else { 1.0 };
        for &part in &members[from..end] {
            parts[part as usize].bytes_per_s *= kept;
        }
        from = end;
    }
}
