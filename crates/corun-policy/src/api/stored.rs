//! What a view says of a program beforehand, from its stored profile.

use corun_model::{Compatibility, LoadedProgram, Model, WaysFigures};

use crate::{SoloFigures, WaysCurve, WaysPoint};

/// A program alone with each number of ways of the LLC of a CPU (index). Slowdowns are against its
/// speed with all ways; as PBBCache has them, against the highest speed there is. None where the
/// LLC has no way.
pub fn ways_curve(model: &Model, program: &LoadedProgram, cpu: usize) -> Option<WaysCurve> {
    let figures = model.by_ways(program, cpu);
    let scale = if model.options().compatibility == Compatibility::Pbbcache {
        let least = figures.iter().map(|one| one.slowdown).fold(f64::INFINITY, f64::min);
        1.0 / least
    } else {
        1.0
    };
    let point = |one: &WaysFigures| WaysPoint {
        slowdown: one.slowdown * scale,
        ipc: one.ipc,
        llc_mpki: one.llc_mpki,
        llc_apki: one.llc_apki,
        llc_mpkc: one.llc_mpkc,
        bytes_per_s: one.bytes_per_s,
        l2_miss_stalls: one.l2_miss_stalls,
        memory_stalls: one.memory_stalls,
        total_stalls: one.total_stalls,
    };
    WaysCurve::new(figures.iter().map(point).collect())
}

/// A program's figures alone on this machine: per instruction over all its phases, per second
/// over their time.
pub fn solo_figures(program: &LoadedProgram) -> SoloFigures {
    let (mut instructions, mut seconds) = (0.0, 0.0);
    let (mut misses, mut references, mut bytes) = (0.0, 0.0, 0.0);
    for phase in &program.phases {
        let time = phase.instructions / phase.best_instructions_per_s;
        instructions += phase.instructions;
        seconds += time;
        misses += phase.instructions * phase.best.llc_mpki;
        references += phase.instructions * phase.best.llc_apki;
        bytes += time * phase.best.bytes_per_s;
    }
    SoloFigures {
        llc_mpki: misses / instructions,
        llc_apki: references / instructions,
        instructions_per_s: instructions / seconds,
        memory_bytes_per_s: bytes / seconds,
        numa_penalty: program.numa_penalty,
        speedup_factor: program.speedup_factor,
    }
}
