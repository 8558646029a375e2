//! Why the policy caps no bandwidth: by the model no cap lowers the mean slowdown by as much as a decision must.

use corun_model::{Flow, Model};

use super::*;

/// Caps that are tried, as shares of what a program draws in the mix.
const SHARES: [f64; 4] = [0.9, 0.75, 0.5, 0.25];
/// Programs that draw on the memory, that wait for it, and some that do neither.
const POOL: [&str; 14] = [
    "kernel-triad",
    "sort",
    "libquantum",
    "kernel-chase",
    "numpy",
    "igraph",
    "xz",
    "metis",
    "kernel-stencil",
    "sqlite3",
    "redis",
    "glpsol",
    "hmmsearch",
    "flac",
];

/// Mean slowdowns of a mix without a cap and with the best cap of one program.
fn without_and_with(model: &Model, programs: &[Arc<LoadedProgram>]) -> (f64, f64) {
    let members: Vec<Member<'_>> = programs
        .iter()
        .enumerate()
        .map(|(cpu, program)| Member { program, phase: LoadedProgram::WHOLE, cpu })
        .collect();
    let mut scratch = Scratch::default();
    let mut demands = Vec::new();
    let bytes = model.machine().llcs()[0].cache.unwrap().size_bytes as f64;
    model.share(bytes, &members, &mut scratch, &mut demands);
    let flows: Vec<Flow<'_>> = members
        .iter()
        .zip(&demands)
        .map(|(&member, &demand)| Flow { member, demand, home: &[] })
        .collect();
    let mut mean = |caps: &[f64]| {
        let mut outcomes = Vec::new();
        model.couple_capped(&flows, caps, &mut scratch, &mut outcomes);
        mean_slowdown(&outcomes)
    };
    let without = mean(&[]);
    let mut best = without;
    for (place, demand) in demands.iter().enumerate() {
        for share in SHARES {
            let mut caps = vec![f64::INFINITY; flows.len()];
            caps[place] = share * demand.bytes_per_s;
            best = best.min(mean(&caps));
        }
    }
    (without, best)
}

/// Eight programs on one LLC, and as many of them twice as fill it: every run of the pool.
#[test]
fn no_cap_lowers_the_mean_slowdown_by_half_a_percent() {
    let library = Library::shipped().unwrap();
    for machine in ["xeon-gold-6138", "xeon-e5-2620v4"] {
        let machine = Arc::new(preset(machine).unwrap());
        let model = Model::new(machine.clone(), ModelOptions::default()).unwrap();
        let known = POOL.iter().filter_map(|name| library.find(name));
        let loaded: Vec<Arc<LoadedProgram>> =
            known.filter_map(|profile| model.load(profile).ok()).map(Arc::new).collect();
        assert!(loaded.len() >= 8, "{}", loaded.len());
        let most = machine.llcs()[0].cpus.len();
        let mut greatest: f64 = 0.0;
        for first in 0..loaded.len() {
            for count in [8.min(most), most] {
                let mix: Vec<Arc<LoadedProgram>> =
                    loaded.iter().cycle().skip(first).take(count).cloned().collect();
                let (without, best) = without_and_with(&model, &mix);
                assert!(best <= without);
                greatest = greatest.max(1.0 - best / without);
            }
        }

        assert!(greatest < 0.005, "{}: {greatest}", machine.name());
    }
}
