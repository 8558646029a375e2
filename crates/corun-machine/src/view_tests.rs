use super::*;
use crate::preset;

#[test]
fn the_folded_tree_is_short_and_the_full_one_complete() {
    let machine = preset("xeon-x5365").unwrap();
    let folded = machine.tree_text(true);
    assert!(folded.contains("\n  NUMA node: CPUs 0-7\n"), "{folded}");
    assert!(folded.contains("    2 x Package: CPUs 0-3 | 4-7\n"), "{folded}");
    assert!(folded.contains("      2 x L2 4 MiB 16-way: CPUs 0-1 | 2-3\n"), "{folded}");
    assert!(
        folded.contains("        2 x L1i 32 KiB 8-way + L1d 32 KiB 8-way + Core: CPUs 0 | 1\n")
    );
    let full = machine.tree_text(false);
    assert_eq!(full.lines().filter(|line| line.contains("Core")).count(), 8, "{full}");
}

#[test]
fn different_siblings_are_not_folded() {
    let text = preset("juno-2b4s").unwrap().tree_text(true);
    assert!(
        text.contains("2 x L1i 48 KiB 3-way + L1d 32 KiB 2-way + Core (big): CPUs 0 | 1"),
        "{text}"
    );
    assert!(text.contains("Core (little): CPUs 2 | 3 | 4 | 5"), "{text}");
}

#[test]
fn the_document_has_the_promised_fields() {
    let document = preset("core-i9-12900k").unwrap().document();
    for (field, count) in [("packages", 1), ("cores", 16), ("cpus", 24), ("numa_nodes", 1)] {
        assert_eq!(document[field], count, "{field}");
    }
    let caches = document["caches"].as_array().unwrap();
    // One L3, ten L2, sixteen pairs of L1.
    assert_eq!(caches.len(), 1 + 10 + 32);
    let l3 = &caches[0];
    assert_eq!(l3["level"], 3);
    assert_eq!(l3["type"], "unified");
    assert_eq!(l3["size_bytes"], 30 << 20);
    assert_eq!(l3["ways"], 12);
    assert_eq!(l3["line_bytes"], 64);
    assert_eq!(l3["cpus"], "0-23");
    assert_eq!(document["tree"]["type"], "machine");
    assert_eq!(document["tree"]["children"][0]["type"], "package");
}

#[test]
fn sizes_are_in_the_largest_unit_that_shows_them() {
    assert_eq!(size(28_160 * 1024), "27.5 MiB");
    assert_eq!(size(1280 * 1024), "1280 KiB");
    assert_eq!(size(32 << 30), "32 GiB");
    assert_eq!(size(16_777_232 * 1024), "16777232 KiB");
    assert_eq!(size(u64::MAX), "18446744073709551615 bytes");
}
