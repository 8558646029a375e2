use super::*;

fn figures(ipc: f64, references: f64, misses: f64, stalls_l2: f64, stalls_l3: f64) -> TableFigures {
    TableFigures {
        ipc,
        llc_references_pki: references,
        llc_misses_pki: misses,
        llc_references_pkc: references * ipc,
        llc_misses_pkc: misses * ipc,
        llc_usage_kib: 2048.0,
        bandwidth_mb_per_s: 1000.0,
        miss_bandwidth_mb_per_s: 800.0,
        stalls_l2_miss: stalls_l2,
        stalls_l3_miss: stalls_l3,
        stalls_total: 0.5,
        stalls_store_buffer: 0.01,
    }
}

fn table() -> SoloTable {
    let rows = [
        figures(1.0, 20.0, 10.0, 0.35, 0.3),
        figures(1.2, 20.0, 6.0, 0.3, 0.2),
        figures(1.4, 20.0, 4.0, 0.25, 0.1),
    ];
    let rows = rows.into_iter().zip(1..).map(|(figures, ways)| SoloRow { ways, figures });
    SoloTable::new(MeasuredOn::xeon_gold_6138(), rows.collect()).unwrap()
}

#[test]
fn straight_between_rows_and_flat_above() {
    let between = table().at_ways(1.5, Extension::default());
    assert!((between.figures.ipc - 1.1).abs() < 1e-12);
    assert!((between.figures.llc_misses_pki - 8.0).abs() < 1e-12);
    assert!(!between.extrapolated);
    let all = table().at_ways(3.0, Extension::default());
    assert_eq!((all.figures, all.extrapolated), (table().rows()[2].figures, false));
    let above = table().at_ways(3.5, Extension::default());
    assert_eq!((above.ways, above.figures, above.extrapolated), (3.0, all.figures, true));
}

#[test]
fn sizes_are_one_plus_two_and_a_half_mib_a_way() {
    let table = table();
    let mib = f64::from(1 << 20);
    let reading = table.at_bytes(6.0 * mib, Extension::default());
    assert_eq!((reading.ways, reading.figures), (2.0, table.rows()[1].figures));
    assert_eq!(table.measured_on().total_bytes(2.0), 6.0 * mib);
}

#[test]
fn below_one_way_misses_follow_the_anchor_and_cost_what_misses_cost() {
    // Half a way is half the distance from 10 misses to the anchor's 20: 15, and 5 hits of the
    // 10 are left. A miss costs 0.03 cycles of the first row's, a hit 0.005.
    let half = table().at_ways(0.5, Extension::Anchored);
    assert!(half.extrapolated);
    assert!((half.figures.llc_misses_pki - 15.0).abs() < 1e-9);
    let cycles = 1.0 + 5.0 * 0.03 - 5.0 * 0.005;
    assert!((half.figures.ipc - 1.0 / cycles).abs() < 1e-9);
    assert!((half.figures.stalls_l3_miss - 0.45 / cycles).abs() < 1e-9);
    assert!((half.figures.bandwidth_mb_per_s - 1500.0 / cycles).abs() < 1e-6);
    let none = table().at_ways(0.0, Extension::Anchored);
    assert!((none.figures.llc_misses_pki - 20.0).abs() < 1e-9);
}

#[test]
fn below_the_private_cache_misses_follow_the_curve() {
    let table = table();
    let bytes = f64::from(1 << 19);
    let reading = table.at_bytes(bytes, Extension::Anchored);
    assert_eq!(reading.figures.llc_misses_pki, table.curve().mpki(bytes).value);
    assert!(reading.figures.llc_misses_pki > 20.0 && reading.extrapolated);
    assert!(reading.figures.ipc < table.at_ways(0.0, Extension::Anchored).figures.ipc);
}

#[test]
fn a_miss_costs_at_most_the_memory_latency() {
    // 0.5 of the cycles over 0.001 misses would be 500 cycles a miss and instruction of 1000;
    // 90 ns at 2 GHz are 180.
    let rows = vec![SoloRow { ways: 1, figures: figures(1.0, 1.001, 0.001, 0.5, 0.5) }];
    let table = SoloTable::new(MeasuredOn::xeon_gold_6138(), rows).unwrap();
    let none = table.at_ways(0.0, Extension::Anchored).figures;
    assert!((none.ipc - 1.0 / 1.18).abs() < 1e-9);
}

#[test]
fn the_simulators_line_through_the_first_two_rows() {
    // At zero ways 1.0 + (1.0 - 1.2) and 10 + (10 - 6); the store buffer's stalls stay.
    let quarter = table().at_ways(0.25, Extension::Linear);
    assert!((quarter.figures.ipc - (0.75 * 0.8 + 0.25)).abs() < 1e-12);
    assert!((quarter.figures.llc_misses_pki - (0.75 * 14.0 + 0.25 * 10.0)).abs() < 1e-12);
    assert!(quarter.extrapolated);
    let rows = [figures(1.0, 20.0, 10.0, 0.35, 0.3), figures(2.5, 20.0, 6.0, 0.3, 0.2)];
    let rows = rows.into_iter().zip(1..).map(|(figures, ways)| SoloRow { ways, figures });
    let steep = SoloTable::new(MeasuredOn::xeon_gold_6138(), rows.collect()).unwrap();
    assert_eq!(steep.at_ways(0.0, Extension::Linear).figures.ipc, 1e-6);
    let held = steep.at_ways(0.0, Extension::Hold);
    assert_eq!((held.figures, held.extrapolated), (steep.rows()[0].figures, true));
}

#[test]
fn an_inclusive_llc_holds_the_private_cache() {
    let machine = MeasuredOn { inclusive_llc: true, ..MeasuredOn::xeon_gold_6138() };
    let table = SoloTable::new(machine.clone(), table().rows().to_vec()).unwrap();
    let sizes: Vec<u64> = table.curve().points().iter().map(|one| one.bytes).collect();
    let kib = [1024, 2560, 5120, 7680];
    assert_eq!(sizes, kib.map(|size| size * 1024));
    assert_eq!(table.at_bytes(5120.0 * 1024.0, Extension::default()).ways, 2.0);
    let small = MeasuredOn { way_bytes: 1 << 20, ..machine };
    assert!(SoloTable::new(small, table.rows().to_vec()).is_err());
}

#[test]
fn bad_tables_are_refused() {
    let rows = table().rows().to_vec();
    let new = |rows| SoloTable::new(MeasuredOn::xeon_gold_6138(), rows);
    assert!(new(vec![]).is_err());
    assert_eq!(new(rows[1..].to_vec()).unwrap_err().field(), "rows[0]");
    let mut bad = rows.clone();
    bad[1].figures.llc_misses_pki = f64::NAN;
    assert_eq!(new(bad).unwrap_err().field(), "rows[1].llc_misses_pki");
    let machine = MeasuredOn { clock_mhz: 0.0, ..MeasuredOn::xeon_gold_6138() };
    assert_eq!(SoloTable::new(machine, rows).unwrap_err().field(), "measured_on.clock_mhz");
}
