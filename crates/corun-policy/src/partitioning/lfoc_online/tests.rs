use super::*;
use crate::partitioning::online::bench::{Bench, Does};

fn stream(_: u32, _: f64) -> Does {
    Does { ipc: 1.0, llc_mpkc: 30.0, memory_stalls: 0.5 }
}

fn light(_: u32, _: f64) -> Does {
    Does { ipc: 2.0, llc_mpkc: 0.1, memory_stalls: 0.0 }
}

/// Slower by a tenth of its best for each way less than 6.
fn needy(ways: u32, _: f64) -> Does {
    let few = f64::from(6_u32.saturating_sub(ways));
    Does { ipc: 1.0 / (1.0 + 0.1 * few), llc_mpkc: 2.0 + 3.0 * few, memory_stalls: 0.1 * few }
}

fn sampled_ways(bench: &Bench, name: &str) -> Vec<u32> {
    let sampling = format!("sampling {name} with ");
    let rest = bench.log.iter().filter_map(|(_, reason)| reason.split_once(&sampling));
    rest.map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Three windows of 100 million instructions, at 2e9 a second: nothing in the first 150 ms. Then one
/// after the other: the streaming program stops after four way counts, the light one after one, the
/// sensitive one goes on to seven. Each takes two windows of 10 million instructions a way count.
#[test]
fn sampling_stops_as_soon_as_it_knows() {
    let mut bench = Bench::new("lfoc-online");
    let [stream, light, needy] = [
        bench.arrive("stream", stream),
        bench.arrive("light", light),
        bench.arrive("needy", needy),
    ];
    bench.run(0.14);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
    bench.run(2.0);
    assert_eq!(sampled_ways(&bench, "light"), [1]);
    assert_eq!(sampled_ways(&bench, "stream"), [1, 2, 3, 4]);
    assert_eq!(sampled_ways(&bench, "needy"), [1, 2, 3, 4, 5, 6, 7]);
    // Algorithm 6.1: a way for the streaming program with the light one, the rest for the needy one.
    assert_eq!(bench.mask(stream), bench.mask(light));
    assert_eq!(bench.mask(stream).count_ones(), 1);
    assert_eq!(bench.mask(needy).count_ones(), 7);
    let (_, reason) = bench.log.last().unwrap();
    assert!(reason.contains("stream (streaming, 30.0 MPKC), light (light-sharing"), "{reason}");
    assert!(reason.contains("needy (sensitive, 1.00 x slowdown"), "{reason}");
    // Nothing changes, so nothing is done any more.
    let steps = bench.log.len();
    bench.run(20.0);
    assert_eq!(bench.log.len(), steps, "{:?}", &bench.log[steps..]);
}

#[test]
fn full_sweeps_try_all_ways() {
    let mut bench = Bench::with("lfoc-online", &[("full-sweeps", 1.0)], 1);
    bench.arrive("stream", stream);
    bench.arrive("light", light);
    bench.run(2.0);
    for name in ["stream", "light"] {
        assert_eq!(sampled_ways(&bench, name), [1, 2, 3, 4, 5, 6, 7], "{name}");
    }
}

/// A light-sharing program that begins to stream after 5 s is sampled again, and confined.
#[test]
fn a_program_that_changes_is_sampled_again() {
    let mut bench = Bench::new("lfoc-online");
    let turning = bench
        .arrive("turning", |ways, at| if at < 5.0 { light(ways, at) } else { stream(ways, at) });
    let needy = bench.arrive("needy", needy);
    bench.run(4.9);
    assert_eq!(sampled_ways(&bench, "turning"), [1]);
    // No streaming program: both share all.
    assert_eq!((bench.mask(turning), bench.mask(needy)), (0xff, 0xff));
    bench.run(2.0);
    assert_eq!(sampled_ways(&bench, "turning"), [1, 1, 2, 3, 4]);
    assert_eq!((bench.mask(turning).count_ones(), bench.mask(needy).count_ones()), (1, 7));
    let (at_ms, _) = bench.log.iter().find(|(at_ms, _)| *at_ms >= 5000).unwrap();
    // The mean of five windows of 0.1 s exceeds 10 MPKC with the second that streams; windows that
    // were full before it began to are 0.05 s long.
    assert!((5100..5700).contains(at_ms), "{at_ms}");
}

/// A newcomer of unknown class joins without a partition of its own, until it was sampled.
#[test]
fn a_newcomer_shares_until_it_is_known() {
    let mut bench = Bench::new("lfoc-online");
    let (stream_id, needy_id) = (bench.arrive("stream", stream), bench.arrive("needy", needy));
    bench.run(2.0);
    let newcomer = bench.arrive("newcomer", stream);
    assert_eq!(bench.mask(newcomer), bench.mask(stream_id));
    assert!(bench.log.last().unwrap().1.contains("newcomer (class unknown)"));
    bench.run(2.0);
    assert_eq!(sampled_ways(&bench, "newcomer"), [1, 2, 3, 4]);
    assert_eq!(bench.mask(newcomer), bench.mask(stream_id));
    assert_eq!(bench.mask(needy_id).count_ones(), 7);
}

#[test]
fn a_program_alone_has_all() {
    let mut bench = Bench::new("lfoc-online");
    let needy_id = bench.arrive("needy", needy);
    bench.run(2.0);
    assert!(bench.log.is_empty());
    let stream_id = bench.arrive("stream", stream);
    bench.run(3.0);
    assert_eq!(bench.mask(needy_id).count_ones(), 7);
    bench.exit(stream_id);
    bench.run(0.2);
    assert_eq!(bench.mask(needy_id), 0xff);
}

#[test]
fn samples_that_say_enough() {
    let scheme = LfocOnline::new(
        "lfoc-online",
        Lfoc::new(&BuildOptions::default()),
        &BuildOptions::default(),
    );
    let sample = |ipc, llc_mpkc| Sample {
        ipc,
        llc_mpki: 1.0,
        llc_apki: None,
        llc_mpkc,
        bytes_per_s: 0.0,
        memory_stalls: None,
    };
    let enough = |samples: &[(f64, f64)]| {
        let samples: Vec<(u32, Sample)> = (1..)
            .zip(samples)
            .map(|(ways, &(ipc, llc_mpkc))| (ways, sample(ipc, llc_mpkc)))
            .collect();
        scheme.is_enough(&samples)
    };
    assert!(!enough(&[(1.0, 1.0)]) && enough(&[(1.0, 0.99)]));
    // Four way counts; at 3 % faster it gains by space.
    assert!(!enough(&[(1.0, 9.0); 3]) && enough(&[(1.0, 9.0); 4]));
    assert!(enough(&[(1.0, 9.0), (1.0, 9.0), (1.0, 9.0), (1.029, 9.0)]));
    assert!(!enough(&[(1.0, 9.0), (1.0, 9.0), (1.0, 9.0), (1.031, 9.0)]));
}
