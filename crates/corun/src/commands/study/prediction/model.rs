//! What the model says: one shared cache, no private ones, and the same time an instruction and a
//! miss as in the replay.

use std::sync::Arc;

use corun_machine::{
    CacheType, CoreType, Inclusion, MACHINE_FILE_VERSION, Machine, MachineSpec, ObjectSpec,
    ObjectType,
};
use corun_model::{
    BandwidthModel, LoadedProgram, Member, Model, ModelOptions, Running, Scratch, SpaceLaw,
};
use corun_profile::{CurvePoint, MissRateCurve, Phase, Profile, ProfileData, Recording};

use super::{CLOCK_MHZ, CPI, LATENCY_NS, Prediction};
use crate::failure::{Failure, Outcome};

/// A model of two cores that share one cache of so many bytes, under a law of space.
pub(super) struct SharedCache {
    model: Model,
    programs: Vec<LoadedProgram>,
}

impl SharedCache {
    pub(super) fn new(bytes: u64, law: SpaceLaw, profiles: &[Profile]) -> Outcome<Self> {
        let options =
            ModelOptions { space: law, bandwidth: BandwidthModel::None, ..ModelOptions::default() };
        let model = Model::new(Arc::new(machine(bytes)?), options)?;
        let programs =
            profiles.iter().map(|profile| model.load(profile)).collect::<Result<_, _>>()?;
        Ok(Self { model, programs })
    }

    /// Two programs beside each other.
    pub(super) fn pair(&self, pair: [usize; 2]) -> [Prediction; 2] {
        let members = [0, 1].map(|cpu| Running {
            member: Member { program: &self.programs[pair[cpu]], phase: 0, cpu },
            home: &[],
            group: None,
        });
        let mut outcomes = Vec::new();
        self.model.solve(&members, &mut Scratch::default(), &mut outcomes);
        [0, 1].map(|at| Prediction { mpki: outcomes[at].llc_mpki, slowdown: outcomes[at].slowdown })
    }
}

/// Two cores of which every instruction takes [`CPI`] cycles and every miss [`LATENCY_NS`] more:
/// one instruction and one miss at a time, nothing hidden, nothing mispredicted.
fn machine(bytes: u64) -> Outcome<Machine> {
    let core_type = CoreType {
        dispatch_width: 1.0 / CPI,
        reorder_buffer: 0,
        outstanding_misses: 1,
        branch_penalty_cycles: 0.0,
        ..CoreType::new("one-at-a-time", CLOCK_MHZ, 1)
    };
    let core = |cpu: u32| ObjectSpec {
        core_type: Some(core_type.name.clone()),
        cpus: Some([corun_machine::CpuId(cpu)].into_iter().collect()),
        ..ObjectSpec::new(ObjectType::Core)
    };
    let cache = ObjectSpec {
        level: Some(2),
        holds: Some(CacheType::Unified),
        size_kib: Some(bytes / 1024),
        ways: Some(16),
        line_bytes: Some(64),
        inclusion: Some(Inclusion::Inclusive),
        objects: vec![core(0), core(1)],
        ..ObjectSpec::new(ObjectType::Cache)
    };
    let package = ObjectSpec { objects: vec![cache], ..ObjectSpec::new(ObjectType::Package) };
    let node = ObjectSpec { objects: vec![package], ..ObjectSpec::new(ObjectType::NumaNode) };
    let spec = MachineSpec {
        version: MACHINE_FILE_VERSION,
        name: "one-shared-cache".to_owned(),
        title: String::new(),
        sources: Default::default(),
        offline_cpus: Default::default(),
        core_types: vec![core_type],
        memory_latency_ns: vec![vec![LATENCY_NS]],
        node_distance: Vec::new(),
        bandwidth_domains: Vec::new(),
        power: None,
        objects: vec![node],
    };
    Ok(Machine::from_spec(spec).map_err(|error| anyhow::anyhow!("{error}"))?)
}

/// The profile as one phase of the whole execution, repeated for ever as a new process each time:
/// its lines have no end, so it has no footprint beyond which it would take no more.
pub(super) fn repeated(profile: &Profile) -> Outcome<Profile> {
    let ProfileData::Recording(recording) = &profile.data else {
        let name = &profile.name;
        return Err(Failure::input(format!(
            "{name}: a table of solo figures, expected a recording"
        )));
    };
    let sizes = profile.measured_sizes();
    let points = sizes
        .iter()
        .map(|&bytes| CurvePoint { bytes, mpki: profile.solo_mpki(bytes as f64).value });
    let curve = MissRateCurve::new(points.collect())
        .map_err(|error| Failure::input(format!("{}: {error}", profile.name)))?;
    let instructions = recording.instructions();
    let data_accesses = recording
        .phases
        .iter()
        .map(|phase| phase.data_accesses_pki * (phase.instructions as f64 / instructions as f64));
    let whole = Phase {
        instructions,
        data_accesses_pki: data_accesses.sum(),
        footprint_bytes: i64::MAX as u64,
        curve,
        ..recording.phases[0].clone()
    };
    let recording = Recording::new(recording.origin.clone(), vec![whole]);
    Ok(Profile { name: profile.name.clone(), data: ProfileData::Recording(recording) })
}
