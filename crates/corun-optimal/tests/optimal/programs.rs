//! Made-up programs.

use corun_profile::{
    CurvePoint, InstructionMix, MissRateCurve, Origin, Phase, Profile, ProfileData, Recording,
};

/// A program of `mpki` misses per 1000 instructions at 64 KiB that reuses `mib` MiB.
pub(crate) fn program(mpki: f64, mib: f64) -> Profile {
    let points = (16..26)
        .map(|power| {
            let bytes = 1u64 << power;
            let fits = (bytes as f64 / (mib * 1048576.0)).min(1.0);
            CurvePoint { bytes, mpki: mpki * (1.0 - 0.9 * fits) }
        })
        .collect();
    let phase = Phase {
        instructions: 1_000_000_000,
        threads: 1,
        data_accesses_pki: 400.0,
        mix: InstructionMix { loads_pki: 300.0, stores_pki: 100.0, ..InstructionMix::default() },
        prefetchable: 0.2,
        memory_level_parallelism: 2.0,
        dirty_share: 0.3,
        footprint_bytes: (mib * 1048576.0) as u64,
        curve: MissRateCurve::new(points).unwrap(),
        core: None,
    };
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Origin::default() };
    let recording = Recording::new(origin, vec![phase]);
    Profile { name: format!("made-up-{mpki:.3}-{mib:.3}"), data: ProfileData::Recording(recording) }
}
