use super::*;
use crate::partitioning::online::bench::{Bench, Does};
use crate::{ThreadId, WaysPoint, build_partitioner};

/// Cycles that a miss stalls.
const MISS_CYCLES: f64 = 40.0;

/// What a program of so many misses in 1000 instructions does.
fn missing(mpki: f64, core_cpi: f64) -> Does {
    let stalls = mpki * 1e-3 * MISS_CYCLES;
    let cpi = core_cpi + stalls;
    Does { ipc: 1.0 / cpi, llc_mpkc: mpki / cpi, memory_stalls: stalls / cpi }
}

fn stream(_: u32, _: f64) -> Does {
    missing(28.0, 0.5)
}

fn light(_: u32, _: f64) -> Does {
    missing(0.1, 0.4)
}

/// A cache of eight ways, whose sharers have equal parts.
fn bench(parameters: &[(&str, f64)]) -> Bench {
    let mut bench = Bench::with("fair-clusters-online", parameters, 1);
    bench.divides = true;
    bench
}

/// Misses that fall with every way.
fn needy_misses(ways: u32) -> f64 {
    24.0 / f64::from(ways) - 2.0
}

fn needy(ways: u32, _: f64) -> Does {
    missing(needy_misses(ways), 0.5)
}

/// A working set that fits into four ways.
fn stepwise(ways: u32, _: f64) -> Does {
    missing(if ways < 4 { 25.0 } else { 2.0 }, 0.6)
}

fn sampled_ways(bench: &Bench, name: &str) -> Vec<u32> {
    let sampling = format!("sampling {name} with ");
    let rest = bench.log.iter().filter_map(|(_, reason)| reason.split_once(&sampling));
    rest.map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// The partition by known curves of these programs on eight ways.
fn known_ways(programs: &[&dyn Fn(u32, f64) -> Does]) -> Vec<u32> {
    let curve = |does: &&dyn Fn(u32, f64) -> Does| {
        let all = does(8, 0.0);
        let point = |ways: u32| {
            let one = does(ways, 0.0);
            let (slowdown, llc_mpki) = (all.ipc / one.ipc, one.llc_mpkc / one.ipc);
            WaysPoint { slowdown, ipc: one.ipc, llc_mpki, ..WaysPoint::default() }
        };
        WaysCurve::new((1..=8).map(point).collect()).unwrap()
    };
    let curves: Vec<WaysCurve> = programs.iter().map(curve).collect();
    let curves: Vec<&WaysCurve> = curves.iter().collect();
    let input = crate::Input { curves: &curves, ways: 8, least_ways: 1, peak_bytes_per_s: None };
    let mut out = Partition::default();
    let mut inner = build_partitioner("fair-clusters", &BuildOptions::default()).unwrap();
    inner.partition(&input, &mut out).unwrap();
    (0..curves.len()).map(|place| out.ways(place)).collect()
}

/// The light program cannot gain or lose much, and is not sampled. Of 28 numbers of ways, seven for each program, less than
/// half are tried for the partition that known curves give.
#[test]
fn only_what_could_change_the_decision_is_sampled() {
    let mut bench = bench(&[]);
    let ids = [
        bench.arrive_referring("stream", 30.0, stream),
        bench.arrive_referring("light", 0.2, light),
        bench.arrive_referring("needy", 30.0, needy),
        bench.arrive_referring("stepwise", 30.0, stepwise),
    ];
    bench.run(3.0);
    assert_eq!(sampled_ways(&bench, "light"), [0; 0], "{:#?}", bench.log);
    let names = ["stream", "needy", "stepwise"];
    let tried: usize = names.iter().map(|name| sampled_ways(&bench, name).len()).sum();
    assert!((1..14).contains(&tried), "{:#?}", bench.log);
    let known = known_ways(&[&stream, &light, &needy, &stepwise]);
    // Where the light program stands makes no difference.
    for (id, known) in ids.into_iter().zip(known).skip(2) {
        assert_eq!(bench.mask(id).count_ones(), known, "{:#?}", bench.log);
    }
}

/// The next program of the name is known; not so where nothing is remembered.
#[test]
fn a_program_that_comes_again_is_known() {
    for (remember, is_sampled_again) in [(1.0, false), (0.0, true)] {
        let mut bench = bench(&[("remember", remember)]);
        bench.arrive_referring("stream", 30.0, stream);
        bench.arrive_referring("needy", 30.0, needy);
        let first = bench.arrive_referring("stepwise", 30.0, stepwise);
        bench.run(3.0);
        let ways = bench.mask(first).count_ones();
        let tried = sampled_ways(&bench, "stepwise").len();
        assert!(tried > 0, "{:#?}", bench.log);
        bench.exit(first);
        bench.run(0.2);
        let again = bench.arrive_referring("stepwise", 30.0, stepwise);
        let at_once = bench.mask(again).count_ones();
        bench.run(3.0);
        assert_eq!(sampled_ways(&bench, "stepwise").len() > tried, is_sampled_again, "{remember}");
        assert!(is_sampled_again || at_once == ways, "{at_once} {:#?}", bench.log);
    }
}

/// A phase that comes again has its curve; it is told by references and by speed beside memory.
#[test]
fn a_phase_that_comes_again_is_known() {
    let mut bench = bench(&[]);
    bench.arrive_referring("stream", 30.0, stream);
    bench.arrive_referring("needy", 30.0, needy);
    let turning = bench.arrive_referring("turning", 30.0, |ways, at| match (at / 5.0) as u32 % 2 {
        0 => missing(1.0, 1.5),
        _ => stepwise(ways, at),
    });
    let ways = |bench: &Bench, id: ThreadId| bench.mask(id).count_ones();
    bench.run(4.9);
    let calm = ways(&bench, turning);
    bench.run(5.0);
    let needed = ways(&bench, turning);
    assert!(!sampled_ways(&bench, "turning").is_empty(), "{:#?}", bench.log);
    assert_ne!(needed, calm, "{:#?}", bench.log);
    bench.run(5.0);
    assert_ne!(ways(&bench, turning), needed, "{:#?}", bench.log);
    let tried = sampled_ways(&bench, "turning");
    bench.run(5.0);
    assert_eq!(sampled_ways(&bench, "turning"), tried, "{:#?}", bench.log);
    assert_eq!(ways(&bench, turning), needed);
}

/// Where nobody counts what programs hold, a first number of ways is tried with everybody.
#[test]
fn without_occupancy_programs_are_sampled() {
    let mut bench = bench(&[]);
    bench.hides_occupancy = true;
    let needy_id = bench.arrive_referring("needy", 30.0, needy);
    let stream_id = bench.arrive_referring("stream", 30.0, stream);
    bench.run(3.0);
    assert!(!sampled_ways(&bench, "stream").is_empty(), "{:#?}", bench.log);
    assert_eq!([needy_id, stream_id].map(|id| bench.mask(id).count_ones()), [7, 1]);
}
