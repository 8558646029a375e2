//! The model of a machine.

use std::sync::Arc;

use corun_machine::Machine;
use corun_profile::{Phase, Profile, ProfileData, Stretch, TABLE_INSTRUCTIONS};
use rayon::prelude::*;

use crate::bandwidth::{self, LimitBandwidth, OwnWait};
use crate::domains::Domains;
use crate::error::ModelError;
use crate::imported;
use crate::interval;
use crate::known_replays::Replays;
use crate::options::{BandwidthModel, Compatibility, MAX_SOLO_PEAK_SHARE, ModelOptions, SpaceLaw};
use crate::outcome::{Demand, Outcome};
use crate::pipeline::{self, Context};
use crate::program::{Flow, LoadedPhase, LoadedProgram, LoadedStretch, Member, PhaseMix};
use crate::replayed;
use crate::scratch::{Scratch, recycle};
use crate::site::Site;
use crate::space::{self, DivideSpace};
use crate::table::PhaseTable;
use crate::whole;

/// How much programs hurt each other on one machine. Immutable: share it between threads, each
/// with a [`Scratch`] of its own.
pub struct Model {
    machine: Arc<Machine>,
    options: ModelOptions,
    law: &'static (dyn DivideSpace + Sync),
    bandwidth: &'static (dyn LimitBandwidth + Sync),
    domains: Domains,
    sites: Vec<Site>,
    /// Site by CPU index. On a fine-grained core that of a thread which has its core to itself; those
    /// with 2, 3 .. busy threads follow it.
    site_of: Vec<u32>,
    /// Is a core of the machine fine-grained?
    has_pipelines: bool,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("machine", &self.machine.name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Model {
    /// The model of a machine under these options. [`Compatibility::Pbbcache`] sets the law of
    /// space and the bandwidth model (see [`ModelOptions::pbbcache`]).
    ///
    /// # Errors
    /// [`ModelError`] when a figure that the model needs is missing or not usable: the size of a
    /// last-level cache, a clock, a peak bandwidth.
    pub fn new(machine: Arc<Machine>, options: ModelOptions) -> Result<Self, ModelError> {
        if let Some(found) = options.peak_mb_per_s.filter(|&peak| !(peak.is_finite() && peak > 0.0))
        {
            return Err(ModelError::Peak { found });
        }
        let usable = |share: f64| share > 0.0 && share <= MAX_SOLO_PEAK_SHARE;
        if let Some(found) = options.solo_peak_share.filter(|&share| !usable(share)) {
            return Err(ModelError::SoloPeakShare { found });
        }
        let compatible = options.compatibility == Compatibility::Pbbcache;
        let options =
            if compatible { ModelOptions::pbbcache(options.peak_mb_per_s) } else { options };
        let options = ModelOptions { bandwidth: options.bandwidth.on(&machine), ..options };
        let domains = if compatible {
            Domains::single(&machine, &options)?
        } else {
            Domains::of(&machine, &options)?
        };
        let mut sites: Vec<Site> = Vec::new();
        let mut site_of = Vec::with_capacity(machine.cpus().len());
        for (cpu, at) in machine.cpus().iter().enumerate() {
            let peak = domains.lowest_peak(cpu, at.node);
            let site = |sharers| {
                let site = Site {
                    has_measured_queue: options.bandwidth == BandwidthModel::Loaded
                        && domains.passed(cpu, at.node).any(|domain| !domain.is_queue),
                    ..Site::of(&machine, cpu, peak, options.solo_share(), sharers)?
                };
                // The papers' laws know no other lines than those of an LRU cache.
                let lru = options.space != SpaceLaw::FillTime;
                if lru {
                    return Ok(Site {
                        single_use_life: 1.0,
                        random_use_life: None,
                        page_sets: None,
                        ..site
                    });
                }
                Ok(site)
            };
            let alone = site(1)?;
            let known = sites.iter().position(|one| *one == alone);
            site_of.push(known.unwrap_or(sites.len()) as u32);
            if known.is_none() {
                let threads = if alone.is_fine_grained() { alone.core.threads } else { 1 };
                sites.push(alone);
                for sharers in 2..=threads {
                    sites.push(site(sharers)?);
                }
            }
        }
        let has_pipelines = sites.iter().any(Site::is_fine_grained);
        Ok(Self {
            law: space::law(options.space),
            bandwidth: bandwidth::model(options.bandwidth),
            machine,
            options,
            domains,
            sites,
            site_of,
            has_pipelines,
        })
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The options that are in force, with [`BandwidthModel::ByMachine`] decided.
    pub fn options(&self) -> ModelOptions {
        self.options
    }

    /// Tabulates a program for every kind of place of the machine. Takes milliseconds; once a
    /// program.
    ///
    /// # Errors
    /// [`ModelError`] when a figure of the profile is negative, not a number or out of its range,
    /// or when the program drew more than the peak on this very machine.
    pub fn load(&self, profile: &Profile) -> Result<LoadedProgram, ModelError> {
        profile
            .check()
            .map_err(|fault| ModelError::Profile { program: profile.name.clone(), fault })?;
        let phases: Vec<(f64, Option<PhaseMix>, Vec<PhaseTable>)> = match &profile.data {
            ProfileData::Recording(recording) => {
                let run_instructions = profile.instructions() as f64;
                let replays = Replays::of(&profile.name, recording);
                let phase = |phase: &Phase| {
                    let phase = &phase.with_curve_to_footprint();
                    let points = replays.points(phase, &self.sites)?;
                    let tables = self.sites.iter().enumerate().map(|(at, site)| match &points {
                        Some(points) => replayed::table(phase, &points[at], run_instructions, site),
                        None => interval::table(phase, site),
                    });
                    let mix = PhaseMix {
                        l1_accesses_pki: phase.data_accesses_pki,
                        branches_pki: phase.mix.branches_pki,
                    };
                    Ok((phase.instructions as f64, Some(mix), tables.collect()))
                };
                recording.phases.par_iter().map(phase).collect::<Result<_, ModelError>>()?
            }
            ProfileData::Table(table) => {
                let kind = self.options.compatibility;
                let tables: Result<Vec<PhaseTable>, ModelError> = self
                    .sites
                    .iter()
                    .map(|site| imported::table(profile, table, &self.machine, site, kind))
                    .collect();
                vec![(TABLE_INSTRUCTIONS as f64, None, tables?)]
            }
        };
        let phases: Vec<LoadedPhase> = phases
            .into_iter()
            .map(|(instructions, mix, tables)| self.phase(instructions, mix, tables))
            .collect();
        let sequence = match &profile.data {
            ProfileData::Recording(recording) => {
                let stretch = |one: &Stretch| LoadedStretch {
                    phase: one.phase,
                    instructions: one.instructions as f64,
                };
                recording.sequence.iter().map(stretch).collect()
            }
            ProfileData::Table(_) => {
                vec![LoadedStretch { phase: 0, instructions: TABLE_INSTRUCTIONS as f64 }]
            }
        };
        let whole = (phases.len() > 1).then(|| self.whole(&phases));
        let name = profile.name.clone();
        let mut program = LoadedProgram {
            name,
            phases,
            sequence,
            whole,
            numa_penalty: None,
            speedup_factor: None,
        };
        program.numa_penalty = self.numa_penalty(&program);
        program.speedup_factor = self.speedup_factor(&program);
        Ok(program)
    }

    /// [`Self::load`] of several programs, on all cores.
    ///
    /// # Errors
    /// That of the first program that cannot be loaded.
    pub fn load_all(&self, profiles: &[&Profile]) -> Result<Vec<Arc<LoadedProgram>>, ModelError> {
        let load = |profile: &&Profile| self.load(profile).map(Arc::new);
        let loaded: Vec<Result<_, _>> = profiles.par_iter().map(load).collect();
        loaded.into_iter().collect()
    }

    fn whole(&self, phases: &[LoadedPhase]) -> LoadedPhase {
        let tables = self.sites.iter().enumerate().map(|(site, at)| {
            let of_phases = phases.iter().map(|phase| (phase.instructions, &phase.tables[site]));
            whole::table(&of_phases.collect::<Vec<_>>(), at)
        });
        let instructions = phases.iter().map(|phase| phase.instructions).sum();
        self.phase(instructions, None, tables.collect())
    }

    fn phase(
        &self,
        instructions: f64,
        mix: Option<PhaseMix>,
        tables: Vec<PhaseTable>,
    ) -> LoadedPhase {
        let mut best = (0.0, Demand::default());
        for (site, table) in self.sites.iter().zip(&tables) {
            let whole = table.demand_alone(site, site.llc_bytes);
            let cpi = if self.options.compatibility == Compatibility::Pbbcache {
                table.least_cpi()
            } else {
                whole.cpi
            };
            let speed = site.clock_hz() / cpi;
            if speed > best.0 {
                best = (speed, whole);
            }
        }
        let (best_instructions_per_s, best) = best;
        LoadedPhase { instructions, best_instructions_per_s, best, mix, tables }
    }

    pub(crate) fn domains(&self) -> &Domains {
        &self.domains
    }

    pub(crate) fn bandwidth(&self) -> &'static (dyn LimitBandwidth + Sync) {
        self.bandwidth
    }

    pub(crate) fn has_pipelines(&self) -> bool {
        self.has_pipelines
    }

    /// Do programs fill the sets of all LLCs alike?
    pub(crate) fn fills_sets_alike(&self) -> bool {
        self.sites.iter().all(|site| site.page_sets.is_none())
    }

    pub(crate) fn law(&self) -> &'static (dyn DivideSpace + Sync) {
        self.law
    }

    pub(crate) fn site(&self, cpu: usize) -> &Site {
        &self.sites[self.site_of[cpu] as usize]
    }

    /// Which kind of place a CPU (index) is: on CPUs of one kind a program has the same figures, whoever else runs.
    pub fn kind_of_place(&self, cpu: usize) -> u32 {
        self.site_of[cpu]
    }

    /// The first CPU (index) of each kind of place.
    pub(crate) fn one_cpu_a_site(&self) -> impl Iterator<Item = usize> {
        let first = |site| self.site_of.iter().position(|&of| of as usize == site);
        (0..self.sites.len()).filter_map(first)
    }

    pub(crate) fn table<'a>(&self, member: &Member<'a>) -> &'a PhaseTable {
        debug_assert!(
            member.cpu < self.site_of.len(),
            "CPU index {} of {}",
            member.cpu,
            self.machine.name()
        );
        &member.phase().tables[self.site_of[member.cpu] as usize]
    }

    /// Its table when so many threads of its core are busy, itself included.
    pub(crate) fn table_beside<'a>(
        &self,
        member: &Member<'a>,
        busy_threads: u32,
    ) -> &'a PhaseTable {
        let site = self.site(member.cpu);
        if !site.is_fine_grained() {
            return self.table(member);
        }
        let others = busy_threads.clamp(1, site.core.threads) as usize - 1;
        &member.phase().tables[self.site_of[member.cpu] as usize + others]
    }

    /// Do the threads of a CPU's core divide its private caches among those that are busy? Then a
    /// program's figures depend on their number ([`Model::demand_beside`]).
    pub fn divides_private_caches(&self, cpu: usize) -> bool {
        self.site(cpu).is_fine_grained()
    }

    /// How many of these CPUs are threads of one's core.
    pub(crate) fn busy_threads(&self, cpu: usize, cpus: impl Iterator<Item = usize>) -> u32 {
        let core = self.machine.cpus()[cpu].core;
        cpus.filter(|&other| self.machine.cpus()[other].core == core).count() as u32
    }

    /// A program's phase (or [`LoadedProgram::WHOLE`]) alone on a CPU, with the whole LLC and local
    /// memory. Its slowdown is 1 on the fastest CPU and higher on slower ones.
    pub fn solo(&self, program: &LoadedProgram, phase: usize, cpu: usize) -> Outcome {
        let member = Member { program, phase, cpu };
        let demand = self.demand_alone(program, phase, cpu);
        self.outcome(&member, &demand, (demand.cpi, 1.0), demand.bytes_per_s)
    }

    /// Bytes of a CPU's LLC that those who run under it share, by CPU index.
    pub fn llc_bytes(&self, cpu: usize) -> f64 {
        self.site(cpu).llc_bytes
    }

    /// Stage B: bandwidth, memory latency and hardware threads couple everything that runs, with
    /// the demands as they are. Into `out` in the order of the flows.
    pub fn couple(&self, flows: &[Flow<'_>], scratch: &mut Scratch, out: &mut Vec<Outcome>) {
        self.couple_capped(flows, &[], scratch, out);
    }

    /// Stage B with caps on memory traffic, in bytes a second by flow: infinite for none, and none
    /// at all where the list is empty. A capped program goes as fast as the cap lets its bytes
    /// through, as though it drew no more alone: the hardware holds back its requests.
    pub fn couple_capped(
        &self,
        flows: &[Flow<'_>],
        caps: &[f64],
        scratch: &mut Scratch,
        out: &mut Vec<Outcome>,
    ) {
        if caps.is_empty() {
            return self.couple_demands(flows, scratch, out);
        }
        let mut capped: Vec<Flow<'_>> = recycle(std::mem::take(&mut scratch.capped));
        capped.extend(
            flows
                .iter()
                .zip(caps)
                .map(|(flow, &cap)| Flow { demand: flow.demand.capped(cap), ..*flow }),
        );
        self.couple_demands(&capped, scratch, out);
        scratch.capped = recycle(capped);
    }

    fn couple_demands(&self, flows: &[Flow<'_>], scratch: &mut Scratch, out: &mut Vec<Outcome>) {
        scratch.shares.clear();
        scratch.shares.resize(flows.len(), 0.0);
        scratch.speeds.clear();
        if self.has_pipelines {
            // In a pipeline that others use too, nobody asks as much of the memory as alone.
            scratch.cpis.clear();
            scratch.cpis.extend(flows.iter().map(|flow| {
                let node = self.machine.cpus()[flow.member.cpu].node;
                self.bandwidth.cpi(&flow.demand, self.latency_ratio(node, flow.home), 1.0)
            }));
            self.take_turns(flows, &scratch.cpis, &mut scratch.speeds);
        }
        self.domains.clear(&mut scratch.domains);
        for (index, flow) in flows.iter().enumerate() {
            let cpu = flow.member.cpu;
            let bytes = asked(flow, &scratch.speeds, index);
            let from = (cpu, self.machine.cpus()[cpu].node);
            let asked = (bytes, OwnWait::of(&flow.demand));
            self.domains.add_flow(&mut scratch.domains, index, from, flow.home, asked);
        }
        let Scratch { domains, shares, retries, busy_threads, speeds, cpis, .. } = scratch;
        retries.clear();
        retries.resize(flows.len(), 0.0);
        if self.options.bandwidth == BandwidthModel::None {
            for (index, (through, flow)) in shares.iter_mut().zip(flows).enumerate() {
                *through = asked(flow, speeds, index);
            }
        } else {
            self.domains.solve(self.bandwidth, domains, shares, retries);
        }
        busy_threads.clear();
        busy_threads.resize(self.machine.cores().len(), 0);
        for flow in flows {
            busy_threads[self.machine.cpus()[flow.member.cpu].core] += 1;
        }
        out.clear();
        if !self.has_pipelines {
            let through = shares.iter().zip(&*retries);
            out.extend(flows.iter().zip(through).map(|(flow, (&through, &retries))| {
                let at = self.machine.cpus()[flow.member.cpu];
                let cpi = self.cpi(flow, flow.demand.busy_bytes_per_s, through);
                let speed = self.site(flow.member.cpu).smt_speed(busy_threads[at.core]);
                let bytes = flow.demand.moved(through) * speed;
                let outcome = self.outcome(&flow.member, &flow.demand, (cpi, speed), bytes);
                Outcome { memory_retries_per_request: retries, ..outcome }
            }));
            return;
        }
        cpis.clear();
        cpis.extend(
            flows.iter().zip(&*shares).enumerate().map(|(index, (flow, &through))| {
                self.cpi(flow, asked(flow, speeds, index), through)
            }),
        );
        self.take_turns(flows, cpis, speeds);
        out.extend(flows.iter().enumerate().map(|(index, flow)| {
            let (cpi, mut speed, mut bytes) =
                (cpis[index], speeds[index], flow.demand.moved(shares[index]));
            let site = self.site(flow.member.cpu);
            if !site.is_fine_grained() {
                let core = self.machine.cpus()[flow.member.cpu].core;
                speed = site.smt_speed(busy_threads[core]);
                bytes *= speed;
            }
            let outcome = self.outcome(&flow.member, &flow.demand, (cpi, speed), bytes);
            Outcome { memory_retries_per_request: retries[index], ..outcome }
        }));
    }

    /// Cycles per instruction with the core to itself, of a flow that gets `through` of the bytes a
    /// second that it asks for.
    fn cpi(&self, flow: &Flow<'_>, asked: f64, through: f64) -> f64 {
        let at = self.machine.cpus()[flow.member.cpu];
        let ratio = if through > 0.0 { (asked / through).max(1.0) } else { 1.0 };
        let latency = self.latency_ratio(at.node, flow.home);
        self.bandwidth.cpi(&flow.demand, latency, ratio)
    }

    /// By flow the speed in its core's pipeline, relative to that with the pipeline to itself, at
    /// which it takes so many cycles per instruction; 1 on a core that is not fine-grained.
    fn take_turns(&self, flows: &[Flow<'_>], cpis: &[f64], speeds: &mut Vec<f64>) {
        speeds.clear();
        speeds.resize(flows.len(), 0.0);
        let core_of = |index: usize| self.machine.cpus()[flows[index].member.cpu].core;
        for first in 0..flows.len() {
            if speeds[first] > 0.0 {
                continue;
            }
            if !self.site(flows[first].member.cpu).is_fine_grained() {
                speeds[first] = 1.0;
                continue;
            }
            let mut who = [first; pipeline::MOST];
            let mut contexts = [Context::default(); pipeline::MOST];
            let mut count = 0;
            let of_core = (first..flows.len()).filter(|&index| core_of(index) == core_of(first));
            for index in of_core.filter(|&index| speeds[index] <= 0.0).take(pipeline::MOST) {
                let execution = flows[index].demand.execution_cpi.min(cpis[index]);
                contexts[count] = Context { execution, stall: cpis[index] - execution };
                who[count] = index;
                count += 1;
            }
            let mut rates = [0.0; pipeline::MOST];
            pipeline::rates(&contexts[..count], &mut rates);
            for (&index, rate) in who[..count].iter().zip(rates) {
                speeds[index] = rate * cpis[index];
            }
        }
    }

    pub(crate) fn latency_ratio(&self, from: usize, home: &[f64]) -> f64 {
        let pages: f64 = home.iter().sum();
        if pages <= 0.0 {
            return 1.0;
        }
        let weighed = home.iter().enumerate().filter(|(_, here)| **here > 0.0);
        weighed.map(|(node, here)| here * self.machine.latency_ratio(from, node)).sum::<f64>()
            / pages
    }

    /// `cpi`: with the core to itself, and the speed relative to that. Memory stalls hide in the
    /// time that the core's other threads take, so their share falls with it.
    fn outcome(
        &self,
        member: &Member<'_>,
        demand: &Demand,
        (cpi, speed): (f64, f64),
        bytes_per_s: f64,
    ) -> Outcome {
        let instructions_per_s = self.site(member.cpu).clock_hz() / cpi * speed;
        let memory_cpi = demand.memory_cpi + (cpi - demand.cpi).max(0.0);
        Outcome {
            instructions_per_s,
            slowdown: member.phase().best_instructions_per_s / instructions_per_s,
            ipc: speed / cpi,
            llc_apki: demand.llc_apki,
            llc_mpki: demand.llc_mpki,
            bytes_per_s,
            occupancy_bytes: demand.occupancy_bytes,
            memory_stall_share: (memory_cpi / cpi * speed).min(1.0),
            memory_retries_per_request: 0.0,
            extrapolated: demand.extrapolated,
        }
    }
}

/// What a flow asks for, as [`Demand::busy_bytes_per_s`]; `speeds`: of the pipelines, empty where there are none.
fn asked(flow: &Flow<'_>, speeds: &[f64], index: usize) -> f64 {
    flow.demand.busy_bytes_per_s * speeds.get(index).copied().unwrap_or(1.0)
}
