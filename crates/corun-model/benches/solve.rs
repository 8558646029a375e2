//! Time of a whole solve. Baselines in the same run: the proportional law (the space law of the
//! papers, as a fixed point), stage B alone, and one law of space alone.

#[path = "../tests/model/fixture.rs"]
mod fixture;

use std::sync::Arc;

use corun_machine::{Machine, ObjectSpec};
use corun_model::{
    BandwidthModel, Demand, Flow, LoadedProgram, Member, Model, ModelOptions, Running, Scratch,
    SpaceLaw,
};
use divan::{AllocProfiler, Bencher, black_box};

/// Counts allocations: a solve makes none once its working memory has grown.
#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// A machine, by preset or fixture, and programs of many kinds: from 1 to 40 misses per 1000
/// instructions with nothing, which fall to a half or a tenth over 0.25 to 16 MB.
struct Bench {
    model: Model,
    programs: Vec<LoadedProgram>,
}

impl Bench {
    fn new(preset: &str, programs: usize, options: ModelOptions) -> Self {
        Self::on(corun_machine::preset(preset).expect("a shipped preset"), programs, options)
    }

    fn on(machine: Machine, programs: usize, options: ModelOptions) -> Self {
        let model = Model::new(Arc::new(machine), options).expect("presets have all figures");
        let program = |number: usize| {
            let most = 1.0 + (number * 7 % 40) as f64;
            let knee = fixture::MIB << (number % 7) >> 2;
            let points: Vec<(u64, f64)> = (0..40)
                .map(|step| {
                    let bytes = 4096.0 * 1.32_f64.powi(step);
                    let least = most * [0.5, 0.1][number % 2];
                    let mpki = least + (most - least) / (1.0 + (bytes / knee as f64).powi(2));
                    (bytes as u64, mpki)
                })
                .collect();
            let profile = fixture::recording("program", &points, |phase| {
                phase.memory_level_parallelism = 1.0 + (number % 5) as f64;
                phase.prefetchable = (number % 4) as f64 * 0.25;
            });
            fixture::load(&model, &profile)
        };
        let programs = (0..programs).map(program).collect();
        Self { model, programs }
    }

    fn running(&self) -> Vec<Running<'_>> {
        self.programs.iter().enumerate().map(|(cpu, one)| fixture::on(one, cpu)).collect()
    }
}

fn solve(bencher: Bencher<'_, '_>, bench: &Bench) {
    let running = bench.running();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    bench.model.solve(&running, &mut scratch, &mut out);
    bencher.bench_local(|| {
        bench.model.solve(black_box(&running), &mut scratch, &mut out);
        black_box(out.len())
    });
}

const LAWS: [SpaceLaw; 3] = [SpaceLaw::FillTime, SpaceLaw::Proportional, SpaceLaw::Whirlpool];

/// 8 programs on 4 LLCs of 2, front-side buses and a hub.
#[divan::bench(args = LAWS)]
fn eight_on_four_llcs(bencher: Bencher<'_, '_>, space: SpaceLaw) {
    solve(bencher, &Bench::new("xeon-x5365", 8, ModelOptions { space, ..Default::default() }));
}

/// 8 programs on one LLC.
#[divan::bench(args = LAWS)]
fn eight_on_one_llc(bencher: Bencher<'_, '_>, space: SpaceLaw) {
    solve(bencher, &Bench::new("xeon-gold-6138", 8, ModelOptions { space, ..Default::default() }));
}

/// 8 programs on one LLC whose sets get pages at random; the same with sets that are filled alike is the baseline.
#[divan::bench]
fn eight_on_sets_by_chance(bencher: Bencher<'_, '_>) {
    let mut spec =
        corun_machine::preset("xeon-gold-6138").expect("a shipped preset").spec().clone();
    with_random_pages(&mut spec.objects);
    let machine = Machine::from_spec(spec).expect("the preset is a machine");
    solve(bencher, &Bench::on(machine, 8, ModelOptions::default()));
}

fn with_random_pages(objects: &mut [ObjectSpec]) {
    for object in objects {
        object.random_page_kib = (object.level == Some(3)).then_some(4);
        with_random_pages(&mut object.objects);
    }
}

/// 64 programs on a machine of many LLCs.
#[divan::bench(args = LAWS)]
fn sixty_four_on_epyc(bencher: Bencher<'_, '_>, space: SpaceLaw) {
    solve(bencher, &Bench::new("epyc-9554", 64, ModelOptions { space, ..Default::default() }));
}

/// 64 programs on two LLCs, with two threads a core where the CPUs say so.
#[divan::bench(args = LAWS)]
fn sixty_four_on_two_llcs(bencher: Bencher<'_, '_>, space: SpaceLaw) {
    solve(bencher, &Bench::new("2x-xeon-8480", 64, ModelOptions { space, ..Default::default() }));
}

const MODELS: [BandwidthModel; 6] = [
    BandwidthModel::None,
    BandwidthModel::Simple,
    BandwidthModel::Morad,
    BandwidthModel::Stalls,
    BandwidthModel::Additive,
    BandwidthModel::Loaded,
];

/// Stage B alone for 8 programs.
#[divan::bench(args = MODELS)]
fn couple_eight(bencher: Bencher<'_, '_>, bandwidth: BandwidthModel) {
    let options = ModelOptions { bandwidth, ..Default::default() };
    let bench = Bench::new("xeon-x5365", 8, options);
    let flows: Vec<Flow<'_>> = bench
        .programs
        .iter()
        .enumerate()
        .map(|(cpu, program)| {
            let member = Member { program, phase: 0, cpu };
            Flow { member, demand: bench.model.demand_at(&member, 2e6), home: &[] }
        })
        .collect();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    bencher.bench_local(|| {
        bench.model.couple(black_box(&flows), &mut scratch, &mut out);
        black_box(out.len())
    });
}

/// Stage A alone for 8 programs on one LLC.
#[divan::bench(args = LAWS)]
fn share_eight(bencher: Bencher<'_, '_>, space: SpaceLaw) {
    let bench = Bench::new("xeon-gold-6138", 8, ModelOptions { space, ..Default::default() });
    let members: Vec<Member<'_>> = bench
        .programs
        .iter()
        .enumerate()
        .map(|(cpu, program)| Member { program, phase: 0, cpu })
        .collect();
    let (mut scratch, mut out): (Scratch, Vec<Demand>) = (Scratch::new(), Vec::new());
    bencher.bench_local(|| {
        bench.model.share(27.5e6, black_box(&members), &mut scratch, &mut out);
        black_box(out.len())
    });
}

/// A program's tables, once a program and machine.
#[divan::bench]
fn load(bencher: Bencher<'_, '_>) {
    let bench = Bench::new("xeon-x5365", 0, ModelOptions::default());
    let profile = fixture::solo_table("table", 12.0, 2.0);
    bencher.bench_local(|| fixture::load(&bench.model, black_box(&profile)));
}
