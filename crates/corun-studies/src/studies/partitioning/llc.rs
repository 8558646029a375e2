//! The programs, the machine in both widths, and the mixes.

use std::sync::Arc;

use anyhow::anyhow;
use corun_app::{Error, Result};
use corun_machine::{Machine, MachineSpec, ObjectSpec, ObjectType, preset};
use corun_model::{LoadedProgram, Member, Model, ModelOptions};
use corun_optimal::partition::{Kind, PartitionProblem};
use corun_policy::{
    BuildOptions, CacheClass, ClassLimits, Input, Partition, WaysCurve, build_partitioner,
    classify, ways_curve,
};
use corun_profile::{Library, Profile};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_pcg::Pcg64Mcg;

/// The machine of the thesis's chapters 5 and 6 with measured programs.
pub(in crate::studies) const MACHINE: &str = "xeon-gold-6138";

/// Programs on one LLC whose ways are so many.
pub(in crate::studies) struct PartitionedLlc {
    pub(in crate::studies) model: Arc<Model>,
    pub(in crate::studies) ways: u32,
    pub(in crate::studies) names: Vec<String>,
    pub(in crate::studies) programs: Vec<Arc<LoadedProgram>>,
    pub(in crate::studies) curves: Vec<WaysCurve>,
    pub(in crate::studies) classes: Vec<CacheClass>,
    /// CPUs (indices) of the first LLC.
    cpus: Vec<usize>,
}

impl PartitionedLlc {
    /// All programs of a library on [`MACHINE`], its LLC of the same bytes in so many ways.
    pub(in crate::studies) fn new(
        library: &Library,
        ways: u32,
        options: ModelOptions,
    ) -> Result<Self> {
        let machine = in_ways(preset(MACHINE)?, ways)?;
        let llc = &machine.llcs()[0];
        let cpus: Vec<usize> = llc.cpus.iter().filter_map(|cpu| machine.cpu_index(cpu)).collect();
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let profiles: Vec<&Profile> = library.iter().collect();
        let mut llc = Self {
            model,
            ways,
            names: Vec::new(),
            programs: Vec::new(),
            curves: Vec::new(),
            classes: Vec::new(),
            cpus,
        };
        for profile in profiles {
            let program = llc.model.load(profile)?;
            let curve = ways_curve(&llc.model, &program, llc.cpus[0])
                .ok_or_else(|| anyhow!("{}: no figures by ways", profile.name))?;
            llc.names.push(profile.name.clone());
            llc.classes.push(classify(&curve, &ClassLimits::default()));
            llc.curves.push(curve);
            llc.programs.push(Arc::new(program));
        }
        Ok(llc)
    }

    /// These programs (indices), each on a CPU of its own.
    pub(in crate::studies) fn members(&self, mix: &[usize]) -> Vec<Member<'_>> {
        let member = |(&program, &cpu): (&usize, &usize)| Member {
            program: &self.programs[program],
            phase: LoadedProgram::WHOLE,
            cpu,
        };
        mix.iter().zip(&self.cpus).map(member).collect()
    }

    pub(in crate::studies) fn way_bytes(&self) -> f64 {
        let llc = &self.model.machine().llcs()[0];
        llc.cache.map_or(0.0, |cache| cache.size_bytes as f64) / f64::from(self.ways)
    }

    /// So many mixes of different programs, each set as likely as any other.
    pub(in crate::studies) fn mixes(
        &self,
        programs: usize,
        count: u32,
        seed: u64,
    ) -> Vec<Vec<usize>> {
        // Each size of mix has its own draws, so that one does not change with the others.
        let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | programs as u64);
        (0..count).map(|_| sample(&mut random, self.names.len(), programs).into_vec()).collect()
    }

    /// The search for the best partition of a mix.
    pub(in crate::studies) fn problem(
        &self,
        mix: &[usize],
        kind: Kind,
    ) -> Result<PartitionProblem<'_>> {
        PartitionProblem::new(&self.model, &self.members(mix), self.ways, 1, kind)
            .map_err(Error::input)
    }

    /// What a policy goes by to partition a mix; `curves` holds its curves.
    pub(in crate::studies) fn input<'a>(&self, curves: &'a [&'a WaysCurve]) -> Input<'a> {
        Input { curves, ways: self.ways, least_ways: 1, peak_bytes_per_s: None }
    }

    /// The curves of a mix.
    pub(in crate::studies) fn curves_of(&self, mix: &[usize]) -> Vec<&WaysCurve> {
        mix.iter().map(|&program| &self.curves[program]).collect()
    }

    /// How a policy partitions a mix by known curves.
    pub(in crate::studies) fn decided(
        &self,
        mix: &[usize],
        policy: &str,
        parameters: &[(&str, f64)],
    ) -> Result<Partition> {
        let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let options = BuildOptions { seed: 1, parameters };
        let mut partitioner = build_partitioner(policy, &options).map_err(Error::input)?;
        let mut found = Partition::default();
        let curves = self.curves_of(mix);
        partitioner.partition(&self.input(&curves), &mut found).map_err(Error::input)?;
        Ok(found)
    }
}

/// The machine with its LLC cut into so many ways.
fn in_ways(machine: Machine, ways: u32) -> Result<Machine> {
    fn cut(objects: &mut [ObjectSpec], level: Option<u32>, ways: u32) {
        for object in objects {
            if object.kind == ObjectType::Cache && object.level == level {
                object.ways = Some(ways);
            }
            cut(&mut object.objects, level, ways);
        }
    }
    let level = machine.llcs()[0].cache.map(|cache| cache.level);
    let mut spec: MachineSpec = machine.spec().clone();
    cut(&mut spec.objects, level, ways);
    Machine::from_spec(spec).map_err(Error::failed)
}
