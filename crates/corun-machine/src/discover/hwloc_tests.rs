//! hwloc's XML: what it says is read, what it does not is said, and what is wrong has a line.

use crate::{Inclusion, Machine, MachineError};

const VERSION_2: &str = include_str!("../../tests/hwloc/two-packages.xml");
const VERSION_1: &str = include_str!("../../tests/hwloc/two-packages-v1.xml");

fn read(text: &str) -> Machine {
    Machine::from_hwloc_xml(text, "a/two.xml").unwrap()
}

fn refused(text: &str) -> String {
    match Machine::from_hwloc_xml(text, "a.xml") {
        Err(error @ MachineError::Invalid { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_versions_of_the_format_are_the_same_machine() {
    let machine = read(VERSION_2);
    assert_eq!(machine.name(), "two");
    assert_eq!((machine.packages().len(), machine.nodes().len()), (2, 2));
    assert_eq!((machine.cores().len(), machine.cpus().len()), (4, 8));
    let llc = &machine.llcs()[1];
    assert_eq!(llc.cpus.to_string(), "4-7");
    let cache = llc.cache.unwrap();
    assert_eq!((cache.level, cache.size_bytes, cache.line_bytes), (3, 16 << 20, Some(64)));
    assert_eq!(cache.ways, None, "hwloc writes 0 for unknown");
    assert_eq!(machine.nodes()[1].memory_mib, Some(7629));
    assert!(machine.spec().node_distance.is_empty());
    let old = read(VERSION_1);
    assert_eq!(old.spec().objects, machine.spec().objects);
}

/// As a container of the upper package writes it, that has one thread of a core fewer.
#[test]
fn cpus_that_are_not_allowed_are_none_of_the_machine() {
    for text in [VERSION_2, VERSION_1] {
        let (before, after) = text.split_once("allowed_cpuset=\"").unwrap();
        let after = after.split_once('"').unwrap().1;
        let machine = read(&format!("{before}allowed_cpuset=\"0x00000070\"{after}"));
        assert_eq!(machine.cpu_set().to_string(), "4-6");
        assert_eq!((machine.packages().len(), machine.cores().len()), (1, 2));
        assert_eq!(machine.spec().offline_cpus.to_string(), "0-3,7");
        let told = machine.warnings().iter().any(|one| one.contains("CPUs 0-3,7"));
        assert!(told, "{:?}", machine.warnings());
        assert!(read(text).spec().offline_cpus.is_empty());
    }
    let none = VERSION_2.replace("allowed_cpuset=\"0x000000ff\"", "allowed_cpuset=\"0x0\"");
    assert!(refused(&none).contains("found no CPU"), "{}", refused(&none));
}

#[test]
fn distances_come_in_the_order_of_node_numbers() {
    let of = |kind: u32, values: &str| {
        let distances = format!(
            r#"<distances2 type="NUMANode" nbobjs="2" kind="{kind}"><indexes length="4">1 0 </indexes>
            <u64values length="5">10 21 </u64values><u64values length="5">{values} </u64values>
            </distances2></topology>"#
        );
        read(&VERSION_2.replace("</topology>", &distances))
    };
    assert_eq!(of(5, "31 10").spec().node_distance, [[10, 31], [21, 10]]);
    assert!(of(9, "31 10").spec().node_distance.is_empty(), "bandwidths are no distances");
    let cut = of(5, "31");
    assert!(cut.spec().node_distance.is_empty());
    assert!(cut.warnings().iter().any(|one| one.contains("distances between nodes")));
}

#[test]
fn what_the_file_does_not_tell_is_assumed_and_said() {
    let machine = read(VERSION_2);
    assert!(machine.bandwidth_domains().is_empty() && machine.spec().memory_latency_ns.is_empty());
    let warned =
        |machine: &Machine, word: &str| machine.warnings().iter().any(|one| one.contains(word));
    assert!(warned(&machine, "clock of the cores is unknown"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.xml");
    std::fs::write(&path, VERSION_2).unwrap();
    let loaded = crate::resolve(path.to_str().unwrap()).unwrap();
    assert_eq!(loaded.bandwidth_domains().len(), 2);
    assert!(warned(&loaded, "memory bandwidth is unknown") && warned(&loaded, "latency"));
    let again = Machine::from_toml(&loaded.to_toml(), "again.toml").unwrap();
    assert_eq!(again.spec(), loaded.spec());
}

#[test]
fn whether_a_cache_holds_what_those_below_hold_is_as_the_file_says() {
    let told = |value: &str| {
        let llc = r#"cache_type="0">"#;
        let told = format!(r#"{llc}<info name="Inclusive" value="{value}"/>"#);
        read(&VERSION_2.replace(llc, &told)).llcs()[0].cache.unwrap().inclusion
    };
    assert_eq!(told("1"), Inclusion::Inclusive);
    assert_eq!(told("0"), Inclusion::NonInclusive);
    assert_eq!(told("x"), read(VERSION_2).llcs()[0].cache.unwrap().inclusion);
}

#[test]
fn kinds_of_core_have_their_clocks() {
    let kinds = r#"<cpukind cpuset="0x0000000f"><info name="CoreType" value="IntelCore"/>
        <info name="FrequencyMaxMHz" value="5200"/></cpukind>
        <cpukind cpuset="0x000000f0"><info name="CoreType" value="IntelAtom"/>
        <info name="FrequencyMaxMHz" value="3900"/></cpukind></topology>"#;
    let machine = read(&VERSION_2.replace("</topology>", kinds));
    let types: Vec<(&str, f64, f64)> = machine
        .core_types()
        .iter()
        .map(|one| (one.name.as_str(), one.clock_mhz, one.capacity))
        .collect();
    assert_eq!(types, [("intelcore", 5200.0, 1.0), ("intelatom", 3900.0, 0.75)]);
}

#[test]
fn cpus_without_cores_are_cores_and_absent_ones_are_off_line() {
    let text = r#"<topology version="2.0"><object type="Machine" cpuset="0x5" complete_cpuset="0xf">
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="2" cpuset="0x4"/>
        </object></topology>"#;
    let machine = read(text);
    assert_eq!(machine.cores().len(), 2);
    assert_eq!(machine.spec().offline_cpus.to_string(), "1,3");
}

#[test]
fn two_memories_beside_the_same_cpus_are_one_of_theirs_and_one_without_cpus() {
    let text = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
        <object type="NUMANode" os_index="0" cpuset="0x3" local_memory="8589934592"/>
        <object type="NUMANode" os_index="1" cpuset="0x3" local_memory="1073741824"/>
        <object type="Core" os_index="0" cpuset="0x1"/><object type="Core" os_index="1" cpuset="0x2"/>
        </object></topology>"#;
    let machine = read(text);
    assert_eq!(machine.nodes().len(), 2);
    assert!(machine.nodes()[1].cpus.is_empty());
    assert!(machine.warnings().iter().any(|one| one.contains("next to the same CPUs")));
}

#[test]
fn bad_files_are_refused_with_what_was_found() {
    for (text, says) in [
        ("", "a.xml:1: "),
        ("<topology>", "a.xml:1: "),
        ("<html></html>", "found <html>, expected hwloc's <topology>"),
        ("<topology></topology>", "found no CPU"),
        ("<topology>\n<object type=\"PU\" cpuset=\"0xz\"/></topology>", "a.xml:2: the set of CPUs"),
        ("<topology><object type=\"PU\" cpuset=\"0xf...f\"/></topology>", "0xf...f"),
        (
            "<topology><object type=\"Core\" cpuset=\"0x1\" os_index=\"-1\"/></topology>",
            "os_index is `-1`",
        ),
        (
            "<!DOCTYPE t [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\"><!ENTITY c \"&b;&b;\">]>\
             <topology>&c;</topology>",
            "found no CPU",
        ),
    ] {
        let why = refused(text);
        assert!(why.contains(says), "{text}: {why}");
    }
}

#[test]
fn no_damaged_file_panics() {
    let mut read = 0;
    for text in [VERSION_1, VERSION_2] {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for (place, &at) in ends.iter().enumerate().step_by(7) {
            let until = ends[(place + 1 + place % 29).min(ends.len() - 1)];
            let cut = format!("{}{}", &text[..at], &text[until..]);
            let grown = format!("{}9{}", &text[..at], &text[at..]);
            for damaged in [cut, grown] {
                if let Ok(machine) = Machine::from_hwloc_xml(&damaged, "a.xml") {
                    let again = Machine::from_toml(&machine.to_toml(), "b.toml").unwrap();
                    assert_eq!(again.spec(), machine.spec());
                    read += 1;
                }
            }
        }
    }
    assert!(read > 100, "much damage does not matter: {read}");
}
