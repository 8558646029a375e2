//! How far the laws of space and the bandwidth models differ, on the programs of a solo table.
//!
//! `cargo run --release -p corun-model --example model_differences -- TABLE.csv`
//!
//! Every pair of its programs shares one LLC of the Xeon Gold 6138 with a peak of 35000 MB/s; then
//! groups of 4 and 8 programs. Laws are held against each other, models against `additive`. Last,
//! pairs on the Xeon X5365 by the share of the peak that a program draws alone. Prints Markdown.

use std::error::Error;
use std::sync::Arc;

use corun_model::{
    BandwidthModel, Demand, Flow, LoadedProgram, Member, Model, ModelOptions, Outcome, Scratch,
    SpaceLaw,
};
use corun_profile::{MeasuredOn, import_csv};

const PEAK_MB_PER_S: f64 = 35_000.0;
/// Groups of each size larger than two.
const GROUPS: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: model_differences TABLE.csv")?;
    let text = std::fs::read_to_string(&path)?;
    let profiles = import_csv(&text, &path, &MeasuredOn::xeon_gold_6138())?;
    let machine = Arc::new(corun_machine::preset("xeon-gold-6138")?);
    let models = |options: ModelOptions| Model::new(Arc::clone(&machine), options);
    let base = models(ModelOptions::default())?;
    let programs: Vec<LoadedProgram> =
        profiles.iter().map(|profile| base.load(profile)).collect::<Result<_, _>>()?;
    println!("{} programs, pairs and {GROUPS} groups of 4 and of 8.\n", programs.len());

    println!("| programs | laws | occupancy, mean / max (ways) | slowdown, mean / max (%) |");
    println!("|---|---|---|---|");
    let law = |space| models(ModelOptions { space, ..Default::default() });
    let pairs = [
        (SpaceLaw::FillTime, SpaceLaw::Proportional),
        (SpaceLaw::FillTime, SpaceLaw::Whirlpool),
        (SpaceLaw::Proportional, SpaceLaw::Whirlpool),
    ];
    for size in [2, 4, 8] {
        let groups = groups(programs.len(), size);
        for (one, two) in pairs {
            let spread = compare(&law(one)?, &law(two)?, &programs, &groups);
            println!("| {size} | {one}, {two} | {} | {} |", spread.ways, spread.slowdown);
        }
    }
    println!("\n| programs | model | slowdown, mean / max (%) | mean slowdown of the model |");
    println!("|---|---|---|---|");
    for size in [2, 4, 8] {
        let groups = groups(programs.len(), size);
        for (name, bandwidth) in BandwidthModel::ALL {
            let other = models(ModelOptions {
                bandwidth,
                peak_mb_per_s: Some(PEAK_MB_PER_S),
                ..Default::default()
            })?;
            let spread = compare(&base, &other, &programs, &groups);
            println!("| {size} | {name} | {} | {:.4} |", spread.slowdown, spread.mean);
        }
    }
    let compatible = models(ModelOptions::pbbcache(Some(PEAK_MB_PER_S)))?;
    let theirs: Vec<LoadedProgram> =
        profiles.iter().map(|profile| compatible.load(profile)).collect::<Result<_, _>>()?;
    println!("\n| programs | `--compat pbbcache` against the defaults, slowdown (%) |\n|---|---|");
    for size in [2, 4, 8] {
        let mut slowdown = Spread::default();
        for group in groups(programs.len(), size) {
            let (_, ours) = solve(&base, &programs, &group);
            let (_, their) = solve(&compatible, &theirs, &group);
            for (a, b) in ours.iter().zip(&their) {
                slowdown.add((b.slowdown / a.slowdown - 1.0).abs() * 100.0);
            }
        }
        println!("| {size} | {slowdown} |");
    }
    println!(
        "\n| solo share of the peak | pairs on one LLC of the Xeon X5365, mean / max slowdown |"
    );
    println!("|---|---|");
    let front_side_bus = Arc::new(corun_machine::preset("xeon-x5365")?);
    for share in [0.95, 0.9, 0.85, 0.8] {
        let options = ModelOptions { solo_peak_share: Some(share), ..Default::default() };
        let model = Model::new(Arc::clone(&front_side_bus), options)?;
        let programs: Vec<LoadedProgram> =
            profiles.iter().map(|profile| model.load(profile)).collect::<Result<_, _>>()?;
        let mut slowdown = Spread::default();
        for pair in groups(programs.len(), 2) {
            solve(&model, &programs, &pair).1.iter().for_each(|one| slowdown.add(one.slowdown));
        }
        println!("| {share} | {slowdown} |");
    }
    Ok(())
}

/// All pairs, or so many pseudo-random groups (a linear congruential generator, MMIX's).
fn groups(programs: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 2 {
        return (0..programs).flat_map(|a| (a + 1..programs).map(move |b| vec![a, b])).collect();
    }
    let mut state = size as u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % programs
    };
    (0..GROUPS).map(|_| (0..size).map(|_| draw()).collect()).collect()
}

fn solve(
    model: &Model,
    programs: &[LoadedProgram],
    group: &[usize],
) -> (Vec<Demand>, Vec<Outcome>) {
    let members: Vec<Member<'_>> = group
        .iter()
        .enumerate()
        .map(|(cpu, &program)| Member { program: &programs[program], phase: 0, cpu })
        .collect();
    let (mut scratch, mut demands, mut outcomes) = (Scratch::new(), Vec::new(), Vec::new());
    let capacity = model.machine().llcs()[0].cache.map_or(0.0, |cache| cache.size_bytes as f64);
    model.share(capacity, &members, &mut scratch, &mut demands);
    let flows: Vec<Flow<'_>> = members
        .iter()
        .zip(&demands)
        .map(|(&member, &demand)| Flow { member, demand, home: &[] })
        .collect();
    model.couple(&flows, &mut scratch, &mut outcomes);
    (demands, outcomes)
}

/// Mean and maximum of what is added.
#[derive(Default)]
struct Spread {
    sum: f64,
    max: f64,
    count: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.max = self.max.max(value);
        self.count += 1.0;
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} / {:.2}", self.sum / self.count, self.max)
    }
}

struct Comparison {
    ways: Spread,
    slowdown: Spread,
    mean: f64,
}

fn compare(
    base: &Model,
    other: &Model,
    programs: &[LoadedProgram],
    groups: &[Vec<usize>],
) -> Comparison {
    let way = MeasuredOn::xeon_gold_6138().way_bytes as f64;
    let (mut ways, mut slowdown, mut sum) = (Spread::default(), Spread::default(), 0.0);
    for group in groups {
        let (demands, outcomes) = solve(base, programs, group);
        let (other_demands, other_outcomes) = solve(other, programs, group);
        for (a, b) in demands.iter().zip(&other_demands) {
            ways.add((a.occupancy_bytes - b.occupancy_bytes).abs() / way);
        }
        for (a, b) in outcomes.iter().zip(&other_outcomes) {
            slowdown.add((b.slowdown / a.slowdown - 1.0).abs() * 100.0);
            sum += b.slowdown;
        }
    }
    Comparison { mean: sum / slowdown.count, ways, slowdown }
}
