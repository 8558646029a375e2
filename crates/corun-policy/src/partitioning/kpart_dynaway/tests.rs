use crate::partitioning::online::bench::{Bench, Does};

fn needy(ways: u32, _: f64) -> Does {
    let few = f64::from(8 - ways.min(8));
    Does { ipc: 2.0 / (1.0 + 0.2 * few), llc_mpkc: 3.0 * few, memory_stalls: 0.0 }
}

fn stream(_: u32, _: f64) -> Does {
    Does { ipc: 1.0, llc_mpkc: 30.0, memory_stalls: 0.4 }
}

/// All way counts from 7 down to 1, of both; then the needy one gets the most.
#[test]
fn every_program_is_swept_over_all_ways() {
    let mut bench = Bench::new("kpart-dynaway");
    let (first, second) = (bench.arrive("needy", needy), bench.arrive("stream", stream));
    bench.run(3.0);
    let of = |name: &str| -> Vec<&str> {
        let sampling = format!("sampling {name} with ");
        let rest = bench.log.iter().filter_map(|(_, reason)| reason.split_once(&sampling));
        rest.map(|(_, rest)| &rest[..1]).collect()
    };
    let down = ["7", "6", "5", "4", "3", "2", "1"];
    assert_eq!(of("needy"), down);
    assert_eq!(of("stream"), down);
    let (_, decided) = bench.log.last().unwrap();
    assert!(decided.contains("7 of 8 ways: needy"), "{decided}");
    assert_eq!((bench.mask(first).count_ones(), bench.mask(second).count_ones()), (7, 1));
}

#[test]
fn a_program_is_swept_again_after_the_period() {
    let mut bench = Bench::with("kpart-dynaway", &[("period-s", 5.0)], 1);
    bench.arrive("needy", needy);
    bench.arrive("stream", stream);
    bench.run(4.0);
    let before = bench.log.len();
    bench.run(4.0);
    assert!(bench.log.len() >= before + 14, "{:?}", bench.log);
}
