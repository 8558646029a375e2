use proptest::prelude::*;

use super::*;
use crate::MeasuredOn;

const HEADER: &str = "BENCH,NR_WAYS,ipc,llcrpki,llcmpki,llcrpkc,llcmpkc,llc_usage_kb,\
    bandwidth_mbps,llcm_bandwidth,stalls_l2_miss,stalls_l3_miss,stalls_total,stalls_store_buf";

fn row(name: &str, ways: u32) -> String {
    format!("{name},{ways},1.5,20,{},30,15,2048,500,400,0.2,0.1,0.4,0.01", 12 - ways)
}

fn import(text: &str) -> Result<Vec<Profile>, FileError> {
    import_csv(text, "t.csv", &MeasuredOn::xeon_gold_6138())
}

fn refusal(text: &str) -> String {
    import(text).unwrap_err().to_string()
}

#[test]
fn rows_and_columns_in_any_order_and_others_passed_over() {
    let text = format!("{HEADER}\n{}\n{}\n{}\n", row("b", 2), row("a", 1), row("b", 1));
    let text = format!("{text}{}\n", row("a", 2));
    let usual = import(&text).unwrap();
    assert_eq!(usual.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let turned: String = text
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split(',').collect();
            fields.push("extra");
            fields.reverse();
            fields.join(",") + "\r\n"
        })
        .collect();
    assert_eq!(import(&format!("\u{feff}{turned}")).unwrap(), usual);
}

#[test]
fn the_table_stands_behind_the_private_cache() {
    let text = format!("{HEADER}\n{}\n{}\n", row("a", 1), row("a", 2));
    let profiles = import(&text).unwrap();
    let ProfileData::Table(table) = &profiles[0].data else { panic!("expected a table") };
    let points: Vec<_> = table.curve().points().iter().map(|one| (one.bytes, one.mpki)).collect();
    const KIB: u64 = 1024;
    assert_eq!(points, [(1024 * KIB, 20.0), (3584 * KIB, 11.0), (6144 * KIB, 10.0)]);
}

#[test]
fn bad_tables_are_refused_with_line_and_column() {
    let good = row("a", 1);
    assert_eq!(refusal(""), "t.csv: is empty, expected a header line and rows");
    assert_eq!(refusal(HEADER), "t.csv: found no row, expected one a program and way count");
    let without = HEADER.replace("llcmpki,", "");
    assert_eq!(refusal(&format!("{without}\n{good}")), "t.csv:1: llcmpki: missing column");
    let twice = HEADER.replace("llcmpki,", "ipc,");
    assert_eq!(refusal(&format!("{twice}\n{good}")), "t.csv:1: ipc: found the column twice");
    for (from, to, expected) in [
        (",1.5,", ",-1.5,", "t.csv:2: ipc: found -1.5, expected a number above 0 and at most 100"),
        (",11,", ",NaN,", "t.csv:2: llcmpki: found NaN, expected a number from 0 to 1e9"),
        (",11,", ",inf,", "t.csv:2: llcmpki: found inf, expected a number from 0 to 1e9"),
        (
            ",11,",
            ",1e12,",
            "t.csv:2: llcmpki: found 1000000000000, expected a number from 0 to 1e9",
        ),
        (
            ",11,",
            ",900,",
            "t.csv:2: llcmpki: found 900 misses of 20 references, expected no more misses",
        ),
        (",11,", ",x,", "t.csv:2: llcmpki: found \"x\", expected a number"),
        (",11,", ",,", "t.csv:2: llcmpki: found \"\", expected a number"),
        (",0.4,", ",1.4,", "t.csv:2: stalls_total: found 1.4, expected a share from 0 to 1"),
        ("a,1,", "a,0,", "t.csv:2: NR_WAYS: found \"0\", expected a whole number >= 1"),
        ("a,1,", "a,1.5,", "t.csv:2: NR_WAYS: found \"1.5\", expected a whole number >= 1"),
        (",0.01", "", "t.csv:2: found 13 fields, expected 14"),
    ] {
        assert_eq!(refusal(&format!("{HEADER}\r\n{}\r\n", good.replacen(from, to, 1))), expected);
    }
    assert!(refusal(&format!("{HEADER}\n{}", good.replacen("a,", ",", 1))).contains("2: BENCH"));
}

#[test]
fn every_program_needs_every_way_count_once() {
    let text = format!("{HEADER}\n{}\n{}\n{}\n", row("a", 1), row("a", 2), row("b", 1));
    assert_eq!(
        refusal(&text),
        "t.csv:4: NR_WAYS: program \"b\" has no row for 2 ways, expected all from 1 to 2"
    );
    let text = format!("{HEADER}\n{}\n\n{}\n", row("a", 1), row("a", 1));
    assert_eq!(
        refusal(&text),
        "t.csv:4: NR_WAYS: found the row of \"a\" with 1 ways again, first on line 2"
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(import(&text).is_err());
        let _ = import(&format!("{HEADER}\n{text}"));
    }

    #[test]
    fn what_is_exported_is_imported_the_same(
        programs in proptest::collection::btree_map(
            "[a-z\"][a-z0-9 \".]{0,6}[a-z0-9\"]",
            proptest::collection::vec(
                (1e-9..100f64, proptest::array::uniform7(0.0..1e9f64),
                 proptest::array::uniform4(0.0..=1.0f64)), 3),
            1..4),
    ) {
        let profiles: Vec<Profile> = programs.into_iter().map(|(name, rows)| {
            let rows = rows.into_iter().zip(1..).map(|((ipc, rates, shares), ways)| {
                let mut values = [ipc; FIGURES];
                values[1..8].copy_from_slice(&rates);
                values[2] = values[2].min(2.0 * values[1]);
                values[8..].copy_from_slice(&shares);
                SoloRow { ways, figures: TableFigures::from_array(values) }
            });
            let table = SoloTable::new(MeasuredOn::xeon_gold_6138(), rows.collect()).unwrap();
            Profile { name, data: ProfileData::Table(table) }
        }).collect();
        prop_assert_eq!(import(&export_csv(&profiles)).unwrap(), profiles);
    }
}
