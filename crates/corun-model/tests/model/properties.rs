//! Properties of whole solves.

use corun_machine::{AccessRates, Inclusion, LoadedLatency, MachineSpec, preset};
use corun_model::{
    BandwidthModel, Flow, LoadedProgram, Model, ModelOptions, Outcome, Pace, Pressure, Running,
    Scratch, SpaceLaw,
};
use corun_profile::Profile;
use proptest::prelude::*;

use crate::fixture::*;
use crate::machines::*;

/// Misses that fall with the size, and what else makes programs differ.
fn program() -> impl Strategy<Value = Profile> {
    let drops = prop::collection::vec(0.0..1.0f64, 10);
    (drops, 0.1..40.0f64, 0.0..1.0f64, 1.0..8.0f64, 0.0..1.0f64).prop_map(
        |(drops, most, prefetchable, parallelism, dirty)| {
            let sum: f64 = drops.iter().sum::<f64>().max(1e-3);
            let mut left = most;
            let mut points = vec![(16 * 1024, left)];
            for (step, drop) in drops.iter().enumerate() {
                left = (left - most * drop / sum * 0.99).max(0.0);
                points.push(((32 * 1024) << step, left));
            }
            recording("p", &points, |phase| {
                phase.prefetchable = prefetchable;
                phase.memory_level_parallelism = parallelism;
                phase.dirty_share = dirty;
            })
        },
    )
}

fn programs() -> impl Strategy<Value = Vec<Profile>> {
    prop::collection::vec(program(), 2..8)
}

fn options() -> impl Strategy<Value = ModelOptions> {
    let laws = prop::sample::select(SpaceLaw::ALL.map(|(_, law)| law).to_vec());
    let models = prop::sample::select(BandwidthModel::ALL.map(|(_, model)| model).to_vec());
    (laws, models, 1000.0..40_000.0f64).prop_map(|(space, bandwidth, peak)| ModelOptions {
        space,
        bandwidth,
        peak_mb_per_s: Some(peak),
        ..Default::default()
    })
}

/// Gold's packages, or those of a simulator.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// The latency under load and what one core draws were measured, and last-level caches keep what they give.
    Simulator,
    /// The same with pages that fall on sets at random.
    RandomPages,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Plain, Kind::Simulator, Kind::RandomPages])
}

fn gold_as(kind: Kind, packages: u32, cores: u32) -> MachineSpec {
    let mut spec = gold(packages, cores);
    if kind != Kind::Plain {
        for package in &mut spec.objects {
            let llc = &mut package.objects[0].objects[0];
            llc.inclusion = Some(Inclusion::Neither);
            llc.random_page_kib = (kind == Kind::RandomPages).then_some(4);
        }
        let point = |(mb_per_s, latency_ns)| LoadedLatency {
            mb_per_s,
            latency_ns,
            low_ns: latency_ns,
            high_ns: latency_ns,
        };
        let curve = [(100.0, 90.0), (4000.0, 99.0), (9000.0, 180.0), (20_000.0, 350.0)].map(point);
        for domain in &mut spec.bandwidth_domains {
            domain.loaded_latency = curve.to_vec();
        }
        let read_mb_per_s = Some(6000.0);
        spec.core_types[0].memory_rates = Some(AccessRates { read_mb_per_s, ..Default::default() });
    }
    spec
}

fn solve(model: &Model, running: &[Running<'_>]) -> Vec<Outcome> {
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    model.solve(running, &mut scratch, &mut out);
    out
}

fn load_all(model: &Model, profiles: &[Profile]) -> Vec<LoadedProgram> {
    profiles.iter().map(|profile| load(model, profile)).collect()
}

/// Pairs of pressures: ranges of the life of lines from none to for ever, each with ranges of idle time.
fn ranges_of_pressure(model: &Model, running: &[Running<'_>]) -> Vec<(Pressure, Pressure)> {
    let lives = running.iter().flat_map(|one| model.line_lives_s(&one.member));
    let mut lives: Vec<f64> = lives.copied().chain([0.0]).collect();
    lives.sort_by(f64::total_cmp);
    let lives: Vec<f64> = lives.iter().step_by(7).copied().chain([f64::INFINITY]).collect();
    let of = |line_life_s, step: u32| Pressure { line_life_s, idle: f64::from(step) / 20.0 };
    let ranges = lives.windows(2);
    ranges
        .flat_map(|life| (0..20).map(move |step| (of(life[0], step), of(life[1], step + 1))))
        .collect()
}

/// Does the time in which a program fills a size, at the speed that it has there, rise with the size throughout?
fn has_one_size(model: &Model, running: &Running<'_>) -> bool {
    const SIZES: u32 = 4000;
    let step = model.llc_bytes(0) / f64::from(SIZES);
    let (mut instructions, mut before) = (0.0, 0.0);
    (1..=SIZES).all(|size| {
        let demand = model.demand_at(&running.member, f64::from(size) * step);
        instructions += step / demand.llc_mpki.max(1e-6);
        let rises = instructions * demand.cpi > before;
        before = instructions * demand.cpi;
        rises
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What a bound on all co-runs rests on: some range of pressures holds of each.
    #[test]
    fn whoever_runs_there_is_a_pressure_that_says_what_they_are_at_least(
        profiles in programs(), options in options(), kind in kind(),
    ) {
        let model = model(gold_as(kind, 1, 8), options);
        if !model.is_told_by_pressure() {
            let lru = options.space == SpaceLaw::FillTime && kind != Kind::RandomPages;
            let free = [BandwidthModel::None, BandwidthModel::Simple];
            prop_assert!(!lru || free.contains(&model.options().bandwidth), "{options:?}");
            return Ok(());
        }
        let programs = load_all(&model, &profiles);
        let running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        let outcomes = solve(&model, &running);
        let holds = |&(hard, soft): &(Pressure, Pressure)| {
            let least = |one: &Running<'_>| model.least_between(&one.member, hard, soft).unwrap();
            let least: Vec<_> = running.iter().map(least).collect();
            let not_slower = |(least, one): (f64, &Outcome)| least <= one.slowdown * (1.0 + 1e-7);
            least.iter().map(|one| one.bytes).sum::<f64>() <= model.llc_bytes(0) * (1.0 + 1e-6)
                && least.iter().map(|one| one.busy).sum::<f64>() <= 1.0 - hard.idle + 1e-6
                && least.iter().map(|one| one.slowdown).zip(&outcomes).all(not_slower)
        };
        let ranges = ranges_of_pressure(&model, &running);
        prop_assert!(ranges.iter().any(holds), "{outcomes:?}");
    }

    /// Where slowdown and traffic alone are asked for they are those among all figures, wherever pages are.
    #[test]
    fn paces_are_those_of_all_figures(
        profiles in programs(), options in options(), other in any::<bool>(), seats in 1..8usize,
        pages in prop::collection::vec(0..5usize, 8), are_spread in any::<bool>(),
    ) {
        let homes: [&[f64]; 5] = [&[], &[0.7], &[1.0], &[0.0, 0.3], &[0.6, 0.2]];
        let spec = if other { preset("xeon-x5365").unwrap().spec().clone() } else { gold_as([Kind::Plain, Kind::Simulator][seats % 2], 2, 4) };
        let model = model(spec, options);
        let programs = load_all(&model, &profiles);
        let running = programs.iter().enumerate().map(|(i, one)| on(one, i * seats % 8));
        let flows: Vec<Flow<'_>> = running
            .enumerate()
            .map(|(at, one)| {
                let demand = model.demand_at(&one.member, at as f64 * 1e6);
                let nodes = model.machine().nodes().len();
                let known = homes.len() - usize::from(!are_spread);
                let home = homes[pages[at] % known];
                Flow { member: one.member, demand, home: &home[..home.len().min(nodes)] }
            })
            .collect();
        let (mut scratch, mut out, mut paces) = (Scratch::new(), Vec::new(), Vec::new());
        model.couple(&flows, &mut scratch, &mut out);
        let each = flows.iter().map(|flow| (flow.member, &flow.demand, flow.home));
        model.paces(each, &mut scratch, |pace| paces.push(pace));
        let expected: Vec<Pace> = out.iter().map(Outcome::pace).collect();
        prop_assert_eq!(paces, expected);
    }

    /// As many threads of one program divide LLC and bandwidth evenly: their pressure says exactly what they are.
    #[test]
    fn the_pressure_of_equals_says_what_they_are(
        profile in program(), count in 1..8usize, bandwidth in 0..4usize, peak in 1000.0..40_000.0f64,
    ) {
        use BandwidthModel::{Additive, Loaded, Morad, Stalls};
        let bandwidth = [Additive, Loaded, Morad, Stalls][bandwidth];
        let options = ModelOptions { bandwidth, peak_mb_per_s: Some(peak), ..Default::default() };
        let model = model(gold(1, 8), options);
        let program = load(&model, &profile);
        let running: Vec<_> = (0..count).map(|cpu| on(&program, cpu)).collect();
        let outcome = solve(&model, &running)[0];
        let idle = 1.0 - outcome.bytes_per_s * count as f64 / (peak * 1e6);
        let at = |line_life_s| {
            let pressure = Pressure { line_life_s, idle };
            model.least_between(&running[0].member, pressure, pressure).unwrap()
        };
        // The life at which one holds as much, by halving.
        let (mut low, mut high) = (0.0, 1e9);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if at(middle).bytes < outcome.occupancy_bytes { low = middle } else { high = middle }
        }
        let found = at(high);
        let shown = format!("{found:?} {outcome:?}");
        if (found.bytes / outcome.occupancy_bytes - 1.0).abs() < 1e-9 {
            prop_assert!(found.slowdown <= outcome.slowdown * (1.0 + 1e-6), "{shown}");
            // Of two sizes at one time the larger counts for what it is at least.
            if has_one_size(&model, &running[0]) {
                prop_assert!((found.slowdown / outcome.slowdown - 1.0).abs() < 1e-6, "{shown}");
                let busy = (1.0 - idle) / count as f64;
                prop_assert!((found.busy / busy - 1.0).abs() < 1e-6, "{shown}");
            }
        }
    }

    #[test]
    fn working_memory_remembers_nothing_that_matters(
        profiles in programs(), options in options(), other in options(),
    ) {
        // The same memory for two machines and for running sets that grow and shrink.
        let models = [model(gold_as(Kind::RandomPages, 2, 4), options), model(gold(1, 8), other)];
        let programs = models.each_ref().map(|model| load_all(model, &profiles));
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        for count in [profiles.len(), 1, profiles.len()] {
            for (model, programs) in models.iter().zip(&programs) {
                let running: Vec<_> =
                    programs[..count].iter().enumerate().map(|(i, one)| on(one, i)).collect();
                model.solve(&running, &mut scratch, &mut out);
                prop_assert_eq!(&out, &solve(model, &running));
            }
        }
    }

    #[test]
    fn company_never_speeds_up(
        profiles in programs(), options in options(), kind in kind(),
    ) {
        let model = model(gold_as(kind, 2, 4), options);
        let programs = load_all(&model, &profiles);
        let running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        for outcome in solve(&model, &running) {
            prop_assert!(outcome.slowdown >= 1.0 - 1e-9, "{outcome:?}");
            prop_assert!((0.0..=1.0).contains(&outcome.memory_stall_share));
            prop_assert!(outcome.bytes_per_s.is_finite() && outcome.ipc > 0.0);
        }
        // The walk hands space out step by step: a newcomer can change who takes which step.
        if options.space == SpaceLaw::Whirlpool {
            return Ok(());
        }
        let all = solve(&model, &running);
        let fewer = solve(&model, &running[..running.len() - 1]);
        for (with, without) in all.iter().zip(&fewer) {
            prop_assert!(with.slowdown >= without.slowdown * (1.0 - 1e-7), "{with:?} {without:?}");
        }
    }

    #[test]
    fn company_never_speeds_up_behind_buses(profiles in programs(), bandwidth in 1..5usize) {
        // Front-side buses, then a hub: what a bus cuts, the hub need not carry.
        let options =
            ModelOptions { bandwidth: BandwidthModel::ALL[bandwidth].1, ..Default::default() };
        let machine = corun_machine::preset("xeon-x5365").expect("a shipped preset");
        let model = Model::new(machine.into(), options).expect("presets have all figures");
        let programs = load_all(&model, &profiles);
        let running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        let all = solve(&model, &running);
        let fewer = solve(&model, &running[..running.len() - 1]);
        for (with, without) in all.iter().zip(&fewer) {
            prop_assert!(with.slowdown >= without.slowdown * (1.0 - 1e-7), "{with:?} {without:?}");
        }
    }

    #[test]
    fn what_gets_through_is_below_the_peak(
        profiles in programs(), options in options(), kind in kind(),
    ) {
        let model = model(gold_as(kind, 1, 8), options);
        let programs = load_all(&model, &profiles);
        let running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        let sum: f64 = solve(&model, &running).iter().map(|one| one.bytes_per_s).sum();
        let peak = options.peak_mb_per_s.unwrap_or(0.0) * 1e6;
        prop_assert!(options.bandwidth == BandwidthModel::None || sum <= peak * (1.0 + 1e-9));
    }

    #[test]
    fn order_does_not_matter(profiles in programs(), options in options()) {
        let model = model(gold(2, 4), options);
        let programs = load_all(&model, &profiles);
        let mut running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        let forth = solve(&model, &running);
        running.reverse();
        let mut back = solve(&model, &running);
        back.reverse();
        for (a, b) in forth.iter().zip(&back) {
            prop_assert!((a.slowdown - b.slowdown).abs() < 1e-6 * a.slowdown, "{a:?} {b:?}");
        }
    }

    #[test]
    fn working_memory_does_not_matter(profiles in programs(), options in options()) {
        let model = model(gold(1, 8), options);
        let programs = load_all(&model, &profiles);
        let running: Vec<_> = programs.iter().enumerate().map(|(i, one)| on(one, i)).collect();
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        model.solve(&running, &mut scratch, &mut out);
        let first = out.clone();
        model.solve(&running[..1], &mut scratch, &mut out);
        model.solve(&running, &mut scratch, &mut out);
        prop_assert_eq!(first, out);
    }
}
