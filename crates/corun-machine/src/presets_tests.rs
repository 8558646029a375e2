use super::*;
use crate::{BandwidthKind, Inclusion};

#[test]
fn all_presets_load_under_their_own_name() {
    for name in presets() {
        let machine = preset(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name(), name);
        assert_eq!(machine.warnings(), &[] as &[String], "{name}");
        assert!(machine.llcs().iter().all(|llc| llc.cache.is_some()), "{name}");
    }
}

#[test]
fn a_topology_is_that_of_its_machine_its_clones_and_its_equals() {
    let machine = preset("xeon-x5365").unwrap();
    let topology = machine.topology();
    assert!(topology.is_of(&machine) && topology.is_of(&machine.clone()));
    assert!(topology.is_of(&preset("xeon-x5365").unwrap()));
    assert!(!topology.is_of(&preset("xeon-x5365-2llc").unwrap()));
}

#[test]
fn the_promised_presets_are_there() {
    // Packages, cores, CPUs, LLCs, nodes.
    let promised = [
        ("xeon-x5365", [2, 8, 8, 4, 1]),
        ("xeon-x5365-2llc", [2, 4, 4, 2, 1]),
        ("xeon-x5365-2llc-same", [1, 4, 4, 2, 1]),
        ("opteron-2350", [2, 8, 8, 2, 2]),
        ("cmt-2x4", [1, 2, 8, 1, 1]),
        ("xeon-e5520", [2, 8, 8, 2, 2]),
        ("i7-2600", [1, 4, 8, 1, 1]),
        ("xeon-e5-2690", [1, 8, 16, 1, 1]),
        ("juno-2b4s", [1, 6, 6, 2, 1]),
        ("odroid-4b4s", [1, 8, 8, 2, 1]),
        ("quickia-2b2s", [2, 4, 4, 3, 1]),
        ("xeon-e5-2620v4", [1, 8, 8, 1, 1]),
        ("xeon-gold-6138", [1, 20, 20, 1, 1]),
        ("2x-gold-6138-4c", [2, 8, 8, 2, 2]),
        ("2x-e5-2695v3", [2, 28, 28, 2, 2]),
        ("2x-e5-2650", [2, 16, 16, 2, 2]),
        ("epyc-9554", [1, 64, 128, 8, 1]),
        ("2x-xeon-8480", [2, 112, 224, 2, 2]),
        ("core-i9-12900k", [1, 16, 24, 1, 1]),
        ("ampere-altra-mpam", [1, 80, 80, 1, 1]),
    ];
    for (name, counts) in promised {
        let m = preset(name).unwrap();
        let found =
            [m.packages().len(), m.cores().len(), m.cpus().len(), m.llcs().len(), m.nodes().len()];
        assert_eq!(found, counts, "{name}");
    }
    assert_eq!(promised.len(), presets().len());
}

#[test]
fn every_figure_of_a_preset_names_its_source_and_every_source_a_figure() {
    for name in presets() {
        let machine = preset(name).unwrap();
        let spec = machine.spec();
        let figures = spec.figures();
        for figure in &figures {
            let source = spec.source_of(figure);
            assert!(source.is_some_and(|source| source.len() > 8), "{name}: {figure}");
        }
        for key in spec.sources.keys() {
            assert!(
                figures.iter().any(|figure| spec.source_of(figure) == Some(&spec.sources[key])),
                "{name}: {key} is used by none"
            );
        }
    }
}

#[test]
fn every_preset_bounds_and_times_all_ways_to_memory() {
    for name in presets() {
        let machine = preset(name).unwrap();
        for cpu in 0..machine.cpus().len() {
            for node in 0..machine.nodes().len() {
                let path = machine.memory_path(cpu, node);
                let kinds: Vec<_> =
                    path.iter().map(|&domain| machine.bandwidth_domains()[domain].kind).collect();
                assert_eq!(kinds.last(), Some(&BandwidthKind::MemoryController), "{name}");
                let remote = machine.cpus()[cpu].node != node;
                assert_eq!(kinds.contains(&BandwidthKind::Link), remote, "{name}");
                let local = machine.memory_latency_ns(node, node).unwrap();
                let here = machine.memory_latency_ns(machine.cpus()[cpu].node, node).unwrap();
                assert_eq!(here > local, remote, "{name}");
            }
        }
    }
}

#[test]
fn figures_of_the_papers_are_as_printed() {
    let gold = preset("xeon-gold-6138").unwrap();
    let llc = gold.llcs()[0].cache.unwrap();
    assert_eq!((llc.size_bytes, llc.ways), (27_648 * 1024 + 512 * 1024, Some(11)));
    assert_eq!(llc.inclusion, Inclusion::NonInclusive);
    assert_eq!(gold.private_cache(0).unwrap().size_bytes, 1024 * 1024);
    let domain = &gold.bandwidth_domains()[0];
    assert_eq!((domain.peak_mb_per_s, domain.theoretical_mb_per_s), (35_000.0, Some(128_000.0)));
    let nehalem = preset("xeon-e5520").unwrap();
    assert_eq!(nehalem.memory_latency_ns(0, 1), Some(90.0));
    assert_eq!(nehalem.latency_ratio(0, 1), 1.8);
    assert_eq!(nehalem.memory_path(0, 1), [0, 2]);
    let clovertown = preset("xeon-x5365").unwrap();
    let llc = clovertown.llcs()[0].cache.unwrap();
    assert_eq!((llc.size_bytes, llc.ways), (4 << 20, Some(16)));
    assert_eq!(clovertown.memory_path(0, 0), [0, 2]);
    assert_eq!(clovertown.memory_path(7, 0), [1, 2]);
    assert_eq!(clovertown.private_cache(0).unwrap().size_bytes, 32 * 1024);
}

#[test]
fn an_unknown_name_lists_near_ones() {
    let near = |name: &str| match preset(name) {
        Err(MachineError::Unknown { near, .. }) => near,
        other => panic!("{other:?}"),
    };
    assert_eq!(near("x5365")[0], "xeon-x5365");
    assert_eq!(near("opteron2350"), ["opteron-2350"]);
    assert_eq!(near("zzzz").len(), presets().len());
}

#[test]
fn a_path_that_is_no_preset_is_read_as_a_file() {
    assert_eq!(resolve("i7-2600").unwrap().name(), "i7-2600");
    assert!(matches!(resolve("none/here.toml"), Err(MachineError::Read { .. })));
    assert!(matches!(resolve("here"), Err(MachineError::Unknown { .. })));
}
