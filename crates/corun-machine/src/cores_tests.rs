use std::path::Path;

use super::*;

#[test]
fn every_name_gives_its_core() {
    let names = core_names();
    for name in &names {
        let core = core(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(core.name(), *name);
        let (private, llc) = core.caches().unwrap();
        assert!(!private.is_empty(), "{name}");
        assert!(private.windows(2).all(|pair| pair[0].level < pair[1].level), "{name}");
        assert!(private.iter().all(|cache| cache.size_bytes < llc.size_bytes), "{name}");
    }
    for name in ["big-out-of-order", "small-in-order", "xeon-x5365", "juno-2b4s:little"] {
        assert!(names.iter().any(|one| one == name), "{name}");
    }
}

#[test]
fn a_machine_alone_is_its_fastest_core() {
    assert_eq!(core("juno-2b4s").unwrap().name(), "juno-2b4s:big");
    let (private, llc) = core("juno-2b4s:little").unwrap().caches().unwrap();
    assert_eq!(private.iter().map(|one| one.size_bytes).collect::<Vec<_>>(), [32 << 10]);
    assert_eq!(llc.size_bytes, 1 << 20);
    let (private, llc) = core("xeon-gold-6138").unwrap().caches().unwrap();
    let sizes: Vec<_> = private.iter().map(|one| (one.size_bytes, one.ways)).collect();
    assert_eq!(sizes, [(32 << 10, Some(8)), (1 << 20, Some(16))]);
    assert_eq!((llc.size_bytes, llc.ways), (28160 << 10, Some(11)));
}

#[test]
fn unknown_cores_say_what_there_is() {
    let error = core("juno-2b4s:middle").unwrap_err().to_string();
    assert_eq!(error, "juno-2b4s has no core type `middle`; it has big, little");
    assert!(matches!(core("jumo"), Err(MachineError::Unknown { .. })));
    assert!(matches!(core("jumo:big"), Err(MachineError::Unknown { .. })));
}

#[test]
fn every_figure_of_a_generic_core_names_its_source() {
    for name in ["big-out-of-order", "small-in-order"] {
        let core = core(name).unwrap();
        let spec = core.machine.spec();
        for figure in spec.figures() {
            assert!(spec.source_of(&figure).is_some_and(|one| one.len() > 8), "{name}: {figure}");
        }
        for (key, source) in &spec.sources {
            let used = spec.figures().iter().any(|one| spec.source_of(one) == Some(source));
            assert!(used, "{name}: no figure for the source of {key}");
        }
    }
}

/// The tables of docs/cores.md, from the files.
fn tables() -> String {
    let mut figures = String::from(
        "| core | type | clock MHz | width | reorder buffer | misses | branch penalty | private caches | LLC | memory ns |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut sources = String::from("| core | parameter | source |\n|---|---|---|\n");
    for name in core_names() {
        let core = core(&name).unwrap();
        let one = &core.machine.core_types()[core.core_type];
        let (private, llc) = core.caches().unwrap();
        let kib =
            |cache: &Cache| format!("{} KiB/{}", cache.size_bytes >> 10, cache.ways.unwrap_or(0));
        let private: Vec<String> = private.iter().map(kib).collect();
        let node = core.machine.cpus()[core.cpu()].node;
        let latency = core.machine.memory_latency_ns(node, node).unwrap();
        figures.push_str(&format!(
            "| `{name}` | {} | {} | {} | {} | {} | {} | {} | {} | {latency} |\n",
            one.name,
            one.clock_mhz,
            one.dispatch_width,
            one.reorder_buffer,
            one.outstanding_misses,
            one.branch_penalty_cycles,
            private.join(", "),
            kib(&llc)
        ));
        for field in [
            "clock_mhz",
            "dispatch_width",
            "reorder_buffer",
            "outstanding_misses",
            "branch_penalty_cycles",
        ] {
            let path = format!("core_type.{}.{field}", one.name);
            let source = core.machine.spec().source_of(&path).unwrap();
            sources.push_str(&format!("| `{name}` | `{field}` | {source} |\n"));
        }
    }
    format!("{figures}\n## Sources\n\n{sources}")
}

/// With `CORUN_REFRESH_DOCS` set the page is written anew.
#[test]
fn the_page_has_every_core() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cores.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, _) = text.split_once("| core |").unwrap();
    let expected = format!("{before}{}", tables());
    if std::env::var_os("CORUN_REFRESH_DOCS").is_some() {
        std::fs::write(&page, &expected).unwrap();
    } else {
        assert!(
            text == expected,
            "docs/cores.md is not what the files say: CORUN_REFRESH_DOCS=1 cargo test -p corun-machine"
        );
    }
}
