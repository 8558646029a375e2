//! What a partition is decided and judged on: programs on the CPUs of one LLC, and the model.

use anyhow::anyhow;
use std::collections::BTreeSet;
use std::sync::Arc;

use corun_machine::{BandwidthKind, Machine, MachineSpec, ObjectSpec, ObjectType};
use corun_model::{Flow, LoadedProgram, Member, ModelOptions, Outcome as Figures, Scratch};
use corun_policy::{Partition, WaysCurve, ways_curve};
use corun_profile::{Library, ProfileData};

use crate::scenario::Scenario;
use crate::{Error, Result, counted};

/// The ground of one question.
pub struct PartitionScenario {
    /// The programs and the model.
    pub scenario: Scenario,
    /// Each program's CPU (index), all under the machine's first LLC.
    cpus: Vec<usize>,
    /// Ways of that LLC.
    pub ways: u32,
    /// The fewest ways of a partition.
    pub least_ways: u32,
    /// Bytes of a way.
    pub way_bytes: f64,
    /// Peak of its memory controller.
    pub peak_bytes_per_s: Option<f64>,
    /// Each program's figures by ways.
    pub curves: Vec<Arc<WaysCurve>>,
}

impl PartitionScenario {
    /// The programs on the machine's first LLC, with so many of its ways and at least so many a
    /// partition where that is said. The library is looked up last: `library` gives it.
    ///
    /// # Errors
    /// An LLC without known ways, too many programs for its CPUs, a table with too few ways, or
    /// bad input as of [`Scenario::new`].
    pub fn new(
        mut machine: Machine,
        library: impl FnOnce() -> Result<Library>,
        apps: &[String],
        options: ModelOptions,
        ways: Option<u32>,
        least_ways: Option<u32>,
    ) -> Result<Self> {
        if apps.is_empty() {
            return Err(Error::input("found no program to share an LLC, expected at least one"));
        }
        let Some(cache) = machine.llcs().first().and_then(|llc| llc.cache) else {
            return Err(Error::input(format!(
                "{}: the size of its LLC is not known",
                machine.name()
            )));
        };
        let Some(all) = cache.ways else {
            let message = format!("{}: the ways of its LLC are not known", machine.name());
            return Err(Error::input(message).hint("a machine file that says `ways`"));
        };
        let ways = ways.unwrap_or(all);
        let least_ways = least_ways.unwrap_or(cache.min_partition_ways);
        if ways > 64 || least_ways > ways {
            return Err(Error::input(format!(
                "{} in partitions of at least {least_ways}: expected up to 64 ways, and partitions \
                 of no more than there are",
                counted(ways as usize, "way")
            )));
        }
        let way_bytes = cache.size_bytes as f64 / f64::from(all);
        if ways != all {
            machine = with_ways(&machine, ways)?;
        }
        let scenario = Scenario::new(machine, &library()?, apps, options)?;
        covered(&scenario, ways, way_bytes)?;
        let cpus = cpus(&scenario)?;
        let peak_bytes_per_s = peak(&scenario, cpus[0]);
        let curve = |(program, &cpu): (&Arc<_>, &usize)| {
            ways_curve(&scenario.model, program, cpu).map(Arc::new)
        };
        let curves = scenario.programs.iter().zip(&cpus).map(curve).collect::<Option<Vec<_>>>();
        let curves =
            curves.ok_or_else(|| Error::failed(anyhow!("a program without figures by ways")))?;
        Ok(Self { scenario, cpus, ways, least_ways, way_bytes, peak_bytes_per_s, curves })
    }

    /// Each program where it runs.
    pub fn members(&self) -> Vec<Member<'_>> {
        let programs = self.scenario.programs.iter().zip(&self.cpus);
        programs
            .map(|(program, &cpu)| Member { program, phase: LoadedProgram::WHOLE, cpu })
            .collect()
    }

    /// The programs' figures under a partition, all running together: space by the masks, then
    /// bandwidth with what the caps leave.
    pub fn evaluate(&self, partition: &Partition) -> Vec<Figures> {
        let members = self.members();
        let masks: Vec<u64> = (0..members.len()).map(|one| partition.mask(one)).collect();
        let mut scratch = Scratch::new();
        let mut demands = Vec::new();
        let model = &self.scenario.model;
        model.share_by_masks(&masks, &members, &mut scratch, &mut demands);
        let flows: Vec<Flow<'_>> = members
            .iter()
            .zip(&demands)
            .map(|(member, demand)| Flow { member: *member, demand: *demand, home: &[] })
            .collect();
        let drawn: Vec<f64> = demands.iter().map(|demand| demand.bytes_per_s).collect();
        let mut outcomes = Vec::new();
        model.couple_capped(&flows, &caps(partition, &drawn), &mut scratch, &mut outcomes);
        outcomes
    }
}

/// Each program's part of its group's cap, in proportion to what it would draw; infinite without.
pub(super) fn caps(partition: &Partition, drawn: &[f64]) -> Vec<f64> {
    let mut caps = vec![f64::INFINITY; drawn.len()];
    for cap in &partition.caps {
        let sum: f64 = cap.programs.iter().map(|&one| drawn[one]).sum();
        for &program in cap.programs.iter().filter(|_| sum > cap.bytes_per_s) {
            caps[program] = cap.bytes_per_s * drawn[program] / sum;
        }
    }
    caps
}

/// The machine whose LLCs have so many of their ways.
fn with_ways(machine: &Machine, ways: u32) -> Result<Machine> {
    let level = machine.llcs().iter().filter_map(|llc| llc.cache).map(|cache| cache.level).max();
    let mut spec: MachineSpec = machine.spec().clone();
    fn change(objects: &mut [ObjectSpec], level: Option<u32>, ways: u32) {
        for object in objects {
            let is_llc = object.kind == ObjectType::Cache && object.level == level;
            if let (true, Some(size_kib), Some(all)) = (is_llc, object.size_kib, object.ways) {
                object.size_kib = Some((size_kib as f64 * f64::from(ways) / f64::from(all)) as u64);
                object.ways = Some(ways);
            }
            change(&mut object.objects, level, ways);
        }
    }
    change(&mut spec.objects, level, ways);
    Machine::from_spec(spec).map_err(|error| Error::input(format!("--ways {ways}: {error}")))
}

/// Tables of ways of this size must have a row for every way.
fn covered(scenario: &Scenario, ways: u32, way_bytes: f64) -> Result {
    for profile in &scenario.profiles {
        let ProfileData::Table(table) = &profile.data else { continue };
        let same_ways = (table.measured_on().way_bytes as f64 / way_bytes - 1.0).abs() < 1e-3;
        if same_ways && table.max_ways() < ways {
            let known = match table.max_ways() {
                1 => "1 way".to_owned(),
                most => format!("1 to {most} ways"),
            };
            return Err(Error::input(format!(
                "program `{}` has figures for {known}, and the LLC has {ways}",
                profile.name
            ))
            .hint(format!("--ways {} or fewer", table.max_ways())));
        }
    }
    Ok(())
}

/// A CPU of the first LLC for each program, as many cores as there are before second threads.
fn cpus(scenario: &Scenario) -> Result<Vec<usize>> {
    let machine = scenario.machine();
    let mut all: Vec<usize> =
        machine.llcs()[0].cpus.iter().filter_map(|cpu| machine.cpu_index(cpu)).collect();
    let mut cores = BTreeSet::new();
    let (first, more): (Vec<usize>, Vec<usize>) =
        all.drain(..).partition(|&cpu| cores.insert(machine.cpus()[cpu].core));
    all.extend(first);
    all.extend(more);
    let programs = scenario.names.len();
    if programs > all.len() {
        return Err(Error::input(format!(
            "{} on an LLC of {} ({}): each runs on a CPU of its own",
            counted(programs, "program"),
            counted(all.len(), "CPU"),
            machine.name()
        ))
        .hint("fewer --apps, or a --machine with more CPUs under an LLC"));
    }
    all.truncate(programs);
    Ok(all)
}

/// The peak of the memory controller that a CPU's traffic passes.
fn peak(scenario: &Scenario, cpu: usize) -> Option<f64> {
    let machine = scenario.machine();
    let asked = scenario.model.options().peak_mb_per_s;
    let own = || {
        let path = machine.memory_path(cpu, machine.cpus()[cpu].node);
        let domains = machine.bandwidth_domains();
        let controller = |one: &&usize| domains[**one].kind == BandwidthKind::MemoryController;
        path.iter().find(controller).map(|&one| domains[one].peak_mb_per_s)
    };
    asked.or_else(own).map(|mb_per_s| mb_per_s * 1e6)
}
