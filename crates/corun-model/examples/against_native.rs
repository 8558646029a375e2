//! Predicted against measured: MACHINE FOLDER NATIVE.json
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let machine = Arc::new(corun_machine::resolve(&args[1]).unwrap());
    let model = corun_model::Model::new(machine, Default::default()).unwrap();
    let native: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&args[3]).unwrap()).unwrap();
    let clock = native["clock"].as_f64().unwrap();
    let mut rows = Vec::new();
    for (name, measured) in native["programs"].as_object().unwrap() {
        let path = format!("{}/{name}.toml", args[2]);
        let Ok(profile) = corun_profile::Profile::load(std::path::Path::new(&path)) else {
            continue;
        };
        let begin = std::time::Instant::now();
        let program = match model.load(&profile) {
            Ok(one) => one,
            Err(e) => {
                println!("{name}: {e}");
                continue;
            }
        };
        let load = begin.elapsed().as_secs_f64() * 1e3;
        let ways = *model.by_ways(&program, 0).last().unwrap();
        let instructions = profile.instructions() as f64;
        let cpu = measured["med"].as_f64().unwrap();
        let faults = measured["flt"].as_f64().unwrap();
        let per: f64 = std::env::var("FAULT_NS").ok().and_then(|s| s.parse().ok()).unwrap_or(0.0);
        let user = cpu - faults * per * 1e-9;
        let measured_cpi = user * clock * 1e6 / instructions;
        let cpi = 1.0 / ways.ipc;
        rows.push((name.clone(), measured_cpi, cpi, instructions, ways, load));
    }
    rows.sort_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)));
    let mut errors = Vec::new();
    for (name, measured, cpi, instructions, ways, load) in &rows {
        let stack = ways.stack.unwrap();
        let parts: Vec<String> = corun_model::CAUSES
            .iter()
            .map(|&c| format!("{}={:.2}", &c.name()[..4.min(c.name().len())], stack.of(c)))
            .collect();
        println!(
            "{name:16} {:6.0}M meas {measured:.3} pred {cpi:.3} ratio {:.2} load {load:.0}ms mpki {:.2} | {}",
            instructions / 1e6,
            cpi / measured,
            ways.llc_mpki,
            parts.join(" ")
        );
        errors.push((cpi / measured - 1.0).abs());
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let within = errors.iter().filter(|&&e| e <= 0.25).count();
    println!("mean error {:.1} %, within 25 %: {}/{}", 100.0 * mean, within, errors.len());
}
