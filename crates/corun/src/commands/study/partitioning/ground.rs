//! The programs, the machine in both widths, and the mixes.

use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::{Machine, MachineSpec, ObjectSpec, ObjectType, preset};
use corun_model::{LoadedProgram, Member, Model, ModelOptions};
use corun_policy::{CacheClass, ClassLimits, WaysCurve, classify, ways_curve};
use corun_profile::{Library, Profile};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_pcg::Pcg64Mcg;

use crate::failure::Outcome;

/// The machine of the thesis's chapters 5 and 6 with measured programs.
pub(in crate::commands::study) const MACHINE: &str = "xeon-gold-6138";

/// Programs on one LLC whose ways are so many.
pub(in crate::commands::study) struct Ground {
    pub(in crate::commands::study) model: Arc<Model>,
    pub(in crate::commands::study) ways: u32,
    pub(in crate::commands::study) names: Vec<String>,
    pub(in crate::commands::study) programs: Vec<Arc<LoadedProgram>>,
    pub(in crate::commands::study) curves: Vec<WaysCurve>,
    pub(in crate::commands::study) classes: Vec<CacheClass>,
    /// CPUs (indices) of the first LLC.
    cpus: Vec<usize>,
}

impl Ground {
    /// All programs of a library on [`MACHINE`], its LLC of the same bytes in so many ways.
    pub(in crate::commands::study) fn new(
        library: &Library,
        ways: u32,
        options: ModelOptions,
    ) -> Outcome<Self> {
        let machine = in_ways(preset(MACHINE).map_err(|error| anyhow!(error))?, ways)?;
        let llc = &machine.llcs()[0];
        let cpus: Vec<usize> = llc.cpus.iter().filter_map(|cpu| machine.cpu_index(cpu)).collect();
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let profiles: Vec<&Profile> = library.iter().collect();
        let mut ground = Self {
            model,
            ways,
            names: Vec::new(),
            programs: Vec::new(),
            curves: Vec::new(),
            classes: Vec::new(),
            cpus,
        };
        for profile in profiles {
            let program = ground.model.load(profile)?;
            let curve = ways_curve(&ground.model, &program, ground.cpus[0])
                .ok_or_else(|| anyhow!("{}: no figures by ways", profile.name))?;
            ground.names.push(profile.name.clone());
            ground.classes.push(classify(&curve, &ClassLimits::default()));
            ground.curves.push(curve);
            ground.programs.push(Arc::new(program));
        }
        Ok(ground)
    }

    /// These programs (indices), each on a CPU of its own.
    pub(in crate::commands::study) fn members(&self, mix: &[usize]) -> Vec<Member<'_>> {
        let member = |(&program, &cpu): (&usize, &usize)| Member {
            program: &self.programs[program],
            phase: LoadedProgram::WHOLE,
            cpu,
        };
        mix.iter().zip(&self.cpus).map(member).collect()
    }

    /// Bytes of a way.
    pub(in crate::commands::study) fn way_bytes(&self) -> f64 {
        let llc = &self.model.machine().llcs()[0];
        llc.cache.map_or(0.0, |cache| cache.size_bytes as f64) / f64::from(self.ways)
    }

    /// So many mixes of different programs, each set as likely as any other.
    pub(in crate::commands::study) fn mixes(
        &self,
        programs: usize,
        count: u32,
        seed: u64,
    ) -> Vec<Vec<usize>> {
        // Each size of mix has its own draws, so that one does not change with the others.
        let mut random = Pcg64Mcg::seed_from_u64(seed << 8 | programs as u64);
        (0..count).map(|_| sample(&mut random, self.names.len(), programs).into_vec()).collect()
    }
}

/// The machine with its LLC cut into so many ways.
fn in_ways(machine: Machine, ways: u32) -> Outcome<Machine> {
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
    Ok(Machine::from_spec(spec).map_err(|error| anyhow!("{error}"))?)
}
