//! Programs made by hand, for the tests and benchmarks of the model.

use corun_model::{LoadedProgram, Member, Model, Running};
use corun_profile::{
    CurvePoint, InstructionMix, MeasuredOn, MissRateCurve, Origin, Phase, Profile, ProfileData,
    Recording, SoloRow, SoloTable, TableFigures,
};

pub(crate) const MIB: u64 = 1 << 20;
/// One way of the Gold 6138's LLC.
pub(crate) const WAY: u64 = 5 * MIB / 2;

/// A recording of one phase with this curve (bytes, MPKI).
pub(crate) fn recording(
    name: &str,
    points: &[(u64, f64)],
    change: impl FnOnce(&mut Phase),
) -> Profile {
    let points = points.iter().map(|&(bytes, mpki)| CurvePoint { bytes, mpki }).collect();
    let mut phase = Phase {
        instructions: 1_000_000_000,
        threads: 1,
        data_accesses_pki: 300.0,
        mix: InstructionMix { branches_pki: 100.0, mispredicted_pki: 2.0, ..Default::default() },
        prefetchable: 0.0,
        memory_level_parallelism: 2.0,
        dirty_share: 0.0,
        footprint_bytes: 1 << 40,
        curve: MissRateCurve::new(points).expect("the fixture is a curve"),
        core: None,
    };
    change(&mut phase);
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Default::default() };
    let data = ProfileData::Recording(Recording::new(origin, vec![phase]));
    Profile { name: name.to_owned(), data }
}

/// A table as the Gold 6138 would give it: 11 ways, misses falling from `first` to `last` per 1000
/// instructions in a straight line, each costing 60 cycles.
pub(crate) fn solo_table(name: &str, first: f64, last: f64) -> Profile {
    let row = |ways: u32| {
        let mpki = first + (last - first) * f64::from(ways - 1) / 10.0;
        let cpi = 0.5 + 0.06 * mpki;
        let figures = TableFigures {
            ipc: 1.0 / cpi,
            llc_references_pki: first + 2.0,
            llc_misses_pki: mpki,
            llc_references_pkc: (first + 2.0) / cpi,
            llc_misses_pkc: mpki / cpi,
            llc_usage_kib: f64::from(ways) * 2560.0,
            bandwidth_mb_per_s: mpki * 1e-3 * 64.0 / cpi * 2000.0,
            miss_bandwidth_mb_per_s: mpki * 1e-3 * 64.0 / cpi * 2000.0,
            stalls_l2_miss: (0.06 * mpki + 0.02) / cpi,
            stalls_l3_miss: 0.06 * mpki / cpi,
            stalls_total: (0.06 * mpki + 0.1) / cpi,
            stalls_store_buffer: 0.0,
        };
        SoloRow { ways, figures }
    };
    let measured_on = MeasuredOn {
        machine: "gold".to_owned(),
        clock_mhz: 2000.0,
        private_cache_bytes: MIB,
        inclusive_llc: false,
        way_bytes: WAY,
        line_bytes: 64,
        memory_latency_ns: 90.0,
        llc_latency_ns: 20.0,
    };
    let table = SoloTable::new(measured_on, (1..=11).map(row).collect());
    Profile { name: name.to_owned(), data: ProfileData::Table(table.expect("figures that can be")) }
}

pub(crate) fn load(model: &Model, profile: &Profile) -> LoadedProgram {
    model.load(profile).expect("the fixture is a profile")
}

pub(crate) fn on(program: &LoadedProgram, cpu: usize) -> Running<'_> {
    Running { member: Member { program, phase: 0, cpu }, home: &[], group: None }
}
