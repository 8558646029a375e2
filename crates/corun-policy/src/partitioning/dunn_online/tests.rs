use crate::partitioning::online::bench::{Bench, Does};

fn stalling(memory_stalls: f64) -> impl Fn(u32, f64) -> Does + 'static {
    move |_, _| Does { ipc: 1.0, llc_mpkc: 5.0, memory_stalls }
}

/// Two kinds of stalls are two clusters: 2 ways for those that stall least, all for the others.
#[test]
fn those_who_stall_more_get_more_ways() {
    let mut bench = Bench::new("dunn-online");
    let [quiet, noisy, other] =
        [0.1, 0.6, 0.12].map(|stalls| bench.arrive("program", stalling(stalls)));
    // Three windows of 0.1 s to warm up, then one that counts.
    bench.run(0.3);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
    bench.run(0.8);
    assert_eq!(bench.mask(noisy), 0xff);
    assert_eq!(bench.mask(quiet), bench.mask(other));
    assert_eq!(bench.mask(quiet).count_ones(), 2);
    let (at_ms, reason) = &bench.log[0];
    assert!((400..1100).contains(at_ms), "{at_ms}");
    assert!(reason.contains("60 % of cycles stalled on memory"), "{reason}");
}

#[test]
fn equal_stalls_share_all() {
    let mut bench = Bench::new("dunn-online");
    for _ in 0..3 {
        bench.arrive("program", stalling(0.3));
    }
    bench.run(2.0);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
}
