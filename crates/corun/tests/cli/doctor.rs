//! `corun doctor`.

use crate::fixture::Fixture;

/// A server with resctrl and two kinds of core, as files.
pub(crate) fn captured(fixture: &Fixture) {
    for (path, text) in [
        ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu rdt_a cat_l3 mba cqm_llc cqm_mbm_total\n"),
        ("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n"),
        ("proc/vmstat", "nr_free_pages 12\npgmigrate_success 0\n"),
        ("proc/sys/kernel/osrelease", "6.12.9\n"),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("sys/class/dmi/id/sys_vendor", "Example\n"),
        ("sys/bus/event_source/devices/cpu/type", "4\n"),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "1\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
        ("sys/fs/resctrl/schemata", "L3:0=7ff\nMB:0=100\n"),
        ("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n"),
        ("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n"),
        ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
        ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
        ("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n"),
        ("sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n"),
        ("sys/fs/resctrl/info/L3_MON/num_rmids", "176\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
    ] {
        put(fixture, path, text);
    }
    for cpu in 0..4 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        put(fixture, &format!("{folder}/topology/core_id"), &format!("{cpu}\n"));
        put(fixture, &format!("{folder}/topology/physical_package_id"), &format!("{}\n", cpu / 2));
        for (file, text) in [
            ("level", "3"),
            ("type", "Unified"),
            ("size", "28160K"),
            ("ways_of_associativity", "11"),
        ] {
            put(fixture, &format!("{folder}/cache/index3/{file}"), text);
        }
        let shared = if cpu < 2 { "0-1" } else { "2-3" };
        put(fixture, &format!("{folder}/cache/index3/shared_cpu_list"), shared);
    }
}

fn put(fixture: &Fixture, path: &str, text: &str) {
    let path = fixture.path(&format!("captured/{path}"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_captured_server_is_told_in_80_columns() {
    let fixture = Fixture::new();
    captured(&fixture);
    let text = fixture.run(&["doctor", "--root", "captured", "--policies"]).done();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!("doctor", text);
    let short = fixture.run(&["doctor", "--root", "captured"]).done();
    assert!(short.lines().count() < text.lines().count() - 10, "{short}");
    let unwrapped = short.replace("\n    ", " ");
    let names = "maximum-local, n-mass, hmp, hsp, rr, equal-progress, acfs, camps";
    let line = format!("\n  is for other machines: {names}\n");
    assert!(unwrapped.contains(&line), "{short}");
}

#[test]
fn all_policies_are_told_of_on_this_machine() {
    let fixture = Fixture::new();
    let here = fixture.run(&["doctor"]).done();
    for policy in corun_policy::registry() {
        assert!(here.contains(policy.name), "{} in {here}", policy.name);
    }
    assert!(here.lines().all(|line| line.chars().count() <= 80), "{here}");
}

#[test]
fn a_folder_that_is_no_root_is_refused() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("empty")).unwrap();
    for root in ["empty", "not-there"] {
        fixture.run(&["doctor", "--root", root]).refused(&[root, "proc/cpuinfo", "try: a folder"]);
    }
    std::fs::create_dir_all(fixture.path("captured/proc")).unwrap();
    fixture.write("captured/proc/cpuinfo", "processor\t: 0\n");
    let document = fixture.run(&["doctor", "--root", "captured", "--format", "json"]).json();
    assert_eq!(document["facts"]["here"], false);
}
