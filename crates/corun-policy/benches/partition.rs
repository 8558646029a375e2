//! How long a partitioning decision takes, the algorithm alone: García García (thesis, UCM 2021,
//! Table 6.2) has 2.2 us for LFOC and 4.1 ms for KPart with 11 programs.

use corun_policy::{
    BuildOptions, Input, Partition, Partitioner, WaysCurve, WaysPoint, build_partitioner,
};
use divan::{AllocProfiler, Bencher};

/// Counts allocations: a decision makes none once its working memory has grown.
#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Programs of all classes in turn: streaming, sensitive (each by another curve), light sharing.
fn curves(programs: usize, ways: u32) -> Vec<WaysCurve> {
    let curve = |program: usize| {
        let number = program as f64;
        let point = |way: u32| {
            let part = f64::from(way) / f64::from(ways - 1);
            let fall = (-(3.0 + number) * part).exp();
            let (mpki, slowdown) = match program % 3 {
                0 => (30.0 + number - part, 1.02 - 0.02 * part),
                1 => (12.0 * fall + 0.5, 1.0 + (0.4 + 0.1 * number) * fall),
                _ => (0.4 * fall + 0.01, 1.0 + 0.01 * fall),
            };
            let ipc = (0.5 + 0.1 * number) / slowdown;
            WaysPoint {
                slowdown,
                ipc,
                llc_mpki: mpki,
                llc_apki: mpki + 10.0,
                llc_mpkc: mpki * ipc,
                bytes_per_s: mpki * ipc * 128e6,
                l2_miss_stalls: 0.02 * mpki,
                memory_stalls: 0.02 * mpki,
                total_stalls: 0.3,
            }
        };
        WaysCurve::new((0..ways).map(point).collect()).expect("there are ways")
    };
    (0..programs).map(curve).collect()
}

fn decide(bencher: Bencher<'_, '_>, name: &str, programs: usize, ways: u32) {
    let curves = curves(programs, ways);
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = Input { curves: &curves, ways, least_ways: 1, peak_bytes_per_s: Some(35e9) };
    let mut policy: Box<dyn Partitioner> =
        build_partitioner(name, &BuildOptions::default()).expect("it is in the registry");
    let mut out = Partition::default();
    bencher.bench_local(|| policy.partition(&input, &mut out));
}

#[divan::bench(args = [4, 8, 11])]
fn lfoc_11_ways(bencher: Bencher, programs: usize) {
    decide(bencher, "lfoc", programs, 11);
}

#[divan::bench(args = [4, 8, 11])]
fn kpart_11_ways(bencher: Bencher, programs: usize) {
    decide(bencher, "kpart", programs, 11);
}

#[divan::bench(args = [8, 12, 16])]
fn fair_clusters_20_ways(bencher: Bencher, programs: usize) {
    decide(bencher, "fair-clusters", programs, 20);
}

#[divan::bench(args = ["equal-part", "ucp", "ucp-slowdown", "yu-petrov", "kpart", "dunn", "lfoc", "fair-clusters"])]
fn eight_programs_20_ways(bencher: Bencher, name: &str) {
    decide(bencher, name, 8, 20);
}
