use super::*;

const SECOND: Nanoseconds = Nanoseconds(1_000_000_000);

/// 100 events in 1 s and 600 in 3 s are 175 a second, however the time is cut; a time in which nothing
/// could be counted is in neither sum.
#[test]
fn a_rate_is_of_the_time_that_was_counted() {
    let mut counts = Counts::default();
    let start = counts;
    counts.add(CounterKind::Instructions, 100.0, SECOND, Scope::Demand);
    let middle = counts;
    counts.add(CounterKind::Instructions, 600.0, Nanoseconds(3 * SECOND.0), Scope::Demand);
    counts.add(CounterKind::LlcMisses, 8.0, SECOND, Scope::DemandAndPrefetch);
    let rates = counts.since(&start);
    assert_eq!(rates.instructions_per_s, Some(175.0));
    assert_eq!(counts.since(&middle).instructions_per_s, Some(200.0));
    let misses = ScopedRate { per_s: 8.0, scope: Scope::DemandAndPrefetch };
    assert_eq!(rates.llc_misses, Some(misses));
    assert_eq!(rates.branches_per_s, None);
    assert_eq!(counts.since(&counts), Rates::default());
}

/// A quarter of 100 cycles and three quarters of 300 stalled: 250 of 400. A thread that then sleeps for
/// as long again has stalled in the same share of its cycles.
#[test]
fn stalls_are_a_share_of_all_cycles() {
    let mut counts = Counts::default();
    let start = counts;
    for (cycles, share) in [(100.0, 0.25), (300.0, 0.75), (0.0, 0.0), (0.0, 0.0)] {
        counts.add(CounterKind::Cycles, cycles, SECOND, Scope::Demand);
        counts.add(CounterKind::MemoryStalls, cycles * share, SECOND, Scope::Demand);
    }
    assert_eq!(counts.since(&start).memory_stall_share, Some(0.625));
}

#[test]
fn times_are_shares() {
    let counts = |ran: u64, spun: u64, seconds: u64| {
        let totals =
            Totals { cpu_ns: ran * SECOND.0, spin_ns: spun * SECOND.0, ..Totals::default() };
        totals.counts(Nanoseconds(seconds * SECOND.0), Scope::Demand)
    };
    let rates = counts(5, 2, 10).since(&counts(1, 1, 2));
    assert_eq!((rates.cpu_share, rates.spin_share), (Some(0.5), Some(0.25)));
    let idle = counts(1, 1, 10).since(&counts(1, 1, 2));
    assert_eq!((idle.cpu_share, idle.spin_share), (Some(0.0), Some(0.0)));
    assert_eq!(counts(5, 0, 10).cpu_s(), Some(5.0));
}

#[test]
fn totals_add_up_counter_by_counter() {
    let one = Totals {
        cpu_ns: 1,
        spin_ns: 2,
        instructions: 3.0,
        memory_retries: 4.0,
        ..Totals::default()
    };
    let mut sum = one;
    sum.add(&one);
    let two = Totals {
        cpu_ns: 2,
        spin_ns: 4,
        instructions: 6.0,
        memory_retries: 8.0,
        ..Totals::default()
    };
    assert_eq!(sum, two);
    let counts = sum.counts(SECOND, Scope::DemandAndPrefetch);
    assert_eq!(
        counts.memory_retries,
        Some(Count { total: 8.0, known: SECOND, scope: Scope::DemandAndPrefetch })
    );
}

/// Rates added over a time come out again as rates; a thread that slept has stalled in no cycle.
#[test]
fn rates_become_counts_and_rates_again() {
    let busy = Rates {
        cycles_per_s: Some(2e9),
        llc_misses: Some(ScopedRate { per_s: 10.0, scope: Scope::DemandAndPrefetch }),
        memory_stall_share: Some(0.25),
        ..Rates::default()
    };
    let asleep = Rates { cycles_per_s: Some(0.0), ..Rates::default() };
    let mut counts = Counts::default();
    counts.add_rates(&asleep, SECOND);
    assert_eq!(counts.memory_stall_cycles, None, "nobody said that stalls are counted");
    let start = counts;
    counts.add_rates(&busy, SECOND);
    assert_eq!(counts.since(&start), busy);
    counts.add_rates(&asleep, SECOND);
    let half = Rates { cycles_per_s: Some(1e9), ..busy };
    assert_eq!(counts.since(&start), half);
}

/// What stands in recordings is written by field name and read again.
#[test]
fn rates_are_written_by_name_without_what_is_unknown() {
    let misses = ScopedRate { per_s: 2.5, scope: Scope::DemandAndPrefetch };
    let rates = Rates {
        cpu_share: Some(0.5),
        cycles_per_s: Some(1e9),
        llc_misses: Some(misses),
        ..Rates::default()
    };
    let text = serde_json::to_string(&rates).unwrap();
    assert_eq!(
        text,
        r#"{"cycles_per_s":1000000000.0,"llc_misses":{"per_s":2.5,"prefetches":true}}"#
    );
    let back: Rates = serde_json::from_str(&text).unwrap();
    assert_eq!(back, Rates { cpu_share: None, ..rates });
    assert_eq!(back.map(|rate| 2.0 * rate).llc_misses.unwrap().per_s, 5.0);
    let named: Vec<_> = back.named().filter_map(|(name, rate)| Some((name, rate?))).collect();
    assert_eq!(named, [("cycles_per_s", 1e9), ("llc_misses", 2.5)]);
}

#[test]
fn kinds_are_known_by_their_names() {
    for &kind in CounterKind::ALL {
        let quoted = format!("\"{}\"", kind.name());
        assert_eq!(serde_json::to_string(&kind).unwrap(), quoted);
        assert_eq!(serde_json::from_str::<CounterKind>(&quoted).unwrap(), kind);
    }
}

/// A page of the repository has this text, which comes from the table. With `CORUN_UPDATE=1` it is put there,
/// between the two marks.
fn check_generated(page: &str, marks: [&str; 2], text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let old = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = old.split_once(marks[0]).unwrap();
    let (_, after) = rest.split_once(marks[1]).unwrap();
    let new = format!("{before}{}\n{text}{}{after}", marks[0], marks[1]);
    if std::env::var_os("CORUN_UPDATE").is_some() {
        std::fs::write(&path, new).unwrap();
    } else {
        assert!(
            new == old,
            "{page} is not as the table has it: run with CORUN_UPDATE=1. Expected:\n{text}"
        );
    }
}

#[test]
fn the_documentation_has_the_table() {
    let mut table = "| counter | field | meaning |\n|---|---|---|\n".to_owned();
    for [name, _, rate, _, meaning] in rows() {
        table.push_str(&format!("| `{name}` | `{rate}` | {meaning} |\n"));
    }
    let marks =
        ["<!-- counters: made from crates/corun-policy/src/api/counters.rs -->", "<!-- end -->"];
    check_generated("docs/recording-file.md", marks, &table);
}

#[test]
fn python_has_an_attribute_for_each_rate_and_count() {
    let property = |name: &str, says: &str| {
        format!(
            "    @property\n    def {name}(self) -> float | None:\n        \"\"\"{says}.\"\"\"\n"
        )
    };
    let rows = rows();
    let counters = || rows.iter().filter(|row| !row[1].is_empty());
    let rates: String = counters().map(|row| property(row[3], row[4])).collect();
    let counts: String = counters().map(|row| property(row[1], row[4])).collect();
    let marks = |of: &str| {
        [format!("    # {of}: made from the table of counters"), format!("    # end of {of}\n")]
    };
    for (of, text) in [("rates", rates), ("counts", counts)] {
        let [start, end] = marks(of);
        check_generated("python/corun/_corun.pyi", [&start, &end], &text);
    }
}
