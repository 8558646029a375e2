//! Discovery on small hand-made roots: old kernels, other architectures, contradictions, garbage.

use std::fs;
use std::path::Path;

use corun_machine::{DiscoverError, Machine, discover};
use proptest::prelude::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    // Generated paths may need a folder where a file stands already: such files are left out.
    if fs::create_dir_all(path.parent().unwrap()).is_ok() {
        let _ = fs::write(path, text);
    }
}

/// A root in which `cpuN/` and `nodeN/` stand for their folders in sysfs.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let full = match path.split('/').next().unwrap() {
            first if first.starts_with("cpu") => format!("sys/devices/system/cpu/{path}"),
            first if first.starts_with("node") => format!("sys/devices/system/node/{path}"),
            _ => (*path).to_owned(),
        };
        write(root.path(), &full, text);
    }
    root
}

fn machine(files: &[(&str, &str)]) -> Machine {
    discover(root(files).path()).unwrap()
}

fn sets(machine: &Machine) -> [Vec<String>; 4] {
    [
        machine.packages().iter().map(|one| one.cpus.to_string()).collect(),
        machine.cores().iter().map(|one| one.cpus.to_string()).collect(),
        machine.llcs().iter().map(|one| one.cpus.to_string()).collect(),
        machine.nodes().iter().map(|one| one.cpus.to_string()).collect(),
    ]
}

fn warned(machine: &Machine, part: &str) -> bool {
    machine.warnings().iter().any(|warning| warning.contains(part))
}

#[test]
fn a_machine_known_by_cpuinfo_alone() {
    let block = |cpu: u32, package: u32, core: u32| {
        format!(
            "processor\t: {cpu}\nmodel name\t: Old  CPU\ncpu MHz\t\t: 1500.5\n\
             physical id\t: {package}\ncore id\t\t: {core}\n\n"
        )
    };
    let blocks = [block(0, 0, 0), block(1, 3, 0), block(2, 0, 0), block(3, 3, 1)].concat();
    let machine = machine(&[("proc/cpuinfo", &blocks)]);
    let [packages, cores, llcs, nodes] = sets(&machine);
    assert_eq!(packages, ["0,2", "1,3"]);
    assert_eq!(cores, ["0,2", "1", "3"]);
    assert_eq!(llcs, packages);
    assert_eq!(nodes, ["0-3"]);
    assert_eq!(machine.core_types()[0].clock_mhz, 1500.5);
    assert_eq!(machine.core_types()[0].threads, 2);
    assert_eq!(machine.title(), "Old CPU");
    assert!(warned(&machine, "no cache") && warned(&machine, "last-level"));
}

#[test]
fn power_and_system_z_write_cpuinfo_their_own_way() {
    let power = "processor\t: 0\ncpu\t\t: POWER7\nclock\t\t: 3550.000000MHz\n\n\
        processor\t: 4\ncpu\t\t: POWER7\nclock\t\t: 3550.000000MHz\n\n\
        timebase\t: 512000000\nmachine\t\t: IBM\n";
    let machine = machine(&[("proc/cpuinfo", power)]);
    assert_eq!(machine.cpu_set().to_string(), "0,4");
    assert_eq!(machine.core_types()[0].clock_mhz, 3550.0);
    assert_eq!(sets(&machine)[0], ["0,4"]);
    let z = "vendor_id       : IBM/S390\n# processors    : 2\n\
        processor 0: version = FF,  identification = 1,  machine = 2964\n\
        processor 1: version = FF,  identification = 1,  machine = 2964\n";
    let machine = self::machine(&[("proc/cpuinfo", z)]);
    assert_eq!(machine.cpu_set().to_string(), "0-1");
}

#[test]
fn power_keeps_its_caches_in_the_device_tree() {
    let word = |n: u32| n.to_be_bytes();
    let root = root(&[
        ("proc/cpuinfo", "processor : 0\nprocessor : 1\nprocessor : 4\n"),
        ("cpu0/topology/thread_siblings_list", "0-1"),
        ("cpu1/topology/thread_siblings_list", "0-1"),
        ("cpu4/topology/thread_siblings_list", "4"),
    ]);
    let tree = |path: &str, words: &[u32]| {
        let path = root.path().join("proc/device-tree/cpus").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, words.iter().flat_map(|&n| word(n)).collect::<Vec<u8>>()).unwrap();
    };
    for (name, threads, l2) in [("POWER7@0", &[0, 1, 2, 3][..], 100), ("POWER7@4", &[4], 101)] {
        tree(&format!("{name}/ibm,ppc-interrupt-server#s"), threads);
        tree(&format!("{name}/d-cache-size"), &[32 << 10]);
        tree(&format!("{name}/d-cache-line-size"), &[128]);
        tree(&format!("{name}/d-cache-sets"), &[32]);
        tree(&format!("{name}/l2-cache"), &[l2]);
        tree(&format!("l2-{l2}/phandle"), &[l2]);
        tree(&format!("l2-{l2}/d-cache-size"), &[256 << 10]);
        tree(&format!("l2-{l2}/l2-cache"), &[200]);
    }
    tree("l3/ibm,phandle", &[200]);
    tree("l3/d-cache-size", &[4 << 20]);
    tree("l3/l2-cache", &[200]);
    let machine = discover(root.path()).unwrap();
    assert_eq!(sets(&machine)[2], ["0-1,4"]);
    let cache = machine.llcs()[0].cache.unwrap();
    // The third-level cache points at itself and is still one.
    assert_eq!((cache.level, cache.size_bytes), (3, 4 << 20));
    let l1 = machine.objects().iter().filter_map(|o| o.cache).find(|c| c.level == 1).unwrap();
    assert_eq!((l1.size_bytes, l1.ways, l1.line_bytes), (32 << 10, Some(8), Some(128)));
}

#[test]
fn an_old_kernel_with_masks_alone_and_cpus_off_line() {
    let machine = machine(&[
        ("cpu0/topology/core_siblings", "00000000,00000005"),
        ("cpu0/topology/thread_siblings", "00000000,00000005"),
        ("cpu0/topology/physical_package_id", "0"),
        ("cpu0/topology/core_id", "0"),
        ("cpu2/topology/core_siblings", "00000000,00000005"),
        ("cpu2/topology/thread_siblings", "00000000,00000005"),
        ("cpu2/topology/physical_package_id", "0"),
        ("cpu2/topology/core_id", "0"),
        ("cpu7/topology/core_siblings", "00000000,00000080"),
        ("cpu7/topology/thread_siblings", "00000000,00000080"),
        ("cpu7/topology/physical_package_id", "1"),
        ("cpu1/online", "0"),
        ("cpu3/nothing", ""),
    ]);
    let [packages, cores, _, _] = sets(&machine);
    assert_eq!(packages, ["0,2", "7"]);
    assert_eq!(cores, ["0,2", "7"]);
    assert_eq!(machine.spec().offline_cpus.to_string(), "1,3");
}

/// A tree that was not captured whole, or that somebody else made.
#[test]
fn a_list_of_on_line_cpus_that_says_nothing_is_told_and_none_hangs() {
    let files = [
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "1"),
    ];
    let list = "sys/devices/system/cpu/online";
    let is_told = |machine: &Machine| warned(machine, "list of on-line CPUs (cpu/online) is empty");
    for text in ["", "\n", "garbage", "0-\u{0}"] {
        let machine = machine(&[&files[..], &[(list, text)]].concat());
        assert!(is_told(&machine), "{text:?}: {:?}", machine.warnings());
        assert_eq!(machine.cpu_set().to_string(), "0-1");
    }
    let whole = machine(&[&files[..], &[(list, "0")]].concat());
    assert!(!is_told(&whole) && !is_told(&machine(&files)));
    let folder = root(&files);
    let list = folder.path().join(list);
    assert!(std::process::Command::new("mkfifo").arg(&list).status().unwrap().success());
    assert!(is_told(&discover(folder.path()).unwrap()));
    std::fs::remove_file(&list).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &list).unwrap();
    assert!(is_told(&discover(folder.path()).unwrap()));
}

#[test]
fn packages_without_numbers_are_told_apart_by_their_siblings() {
    let machine = machine(&[
        ("cpu0/topology/core_siblings_list", "0-1"),
        ("cpu0/topology/physical_package_id", "-1"),
        ("cpu0/topology/core_id", "-1"),
        ("cpu1/topology/core_siblings_list", "0-1"),
        ("cpu1/topology/physical_package_id", "-1"),
        ("cpu2/topology/core_siblings_list", "2"),
        ("cpu2/topology/physical_package_id", "-1"),
    ]);
    let [packages, cores, _, _] = sets(&machine);
    assert_eq!(packages, ["0-1", "2"]);
    assert_eq!(cores, ["0", "1", "2"]);
}

#[test]
fn nodes_without_cpus_count_and_an_accelerator_s_are_left_out() {
    let machine = machine(&[
        ("cpu0/topology/core_id", "0"),
        ("cpu1/topology/core_id", "1"),
        ("node/online", "0,2,8"),
        ("node0/cpumap", "3"),
        ("node0/distance", "10 20 80"),
        ("node0/meminfo", "Node 0 MemTotal:  2048 kB\n"),
        ("node2/cpulist", ""),
        ("node2/cpumap", "0"),
        ("node2/distance", "20 10 80"),
        ("node8/cpumap", "0"),
        ("node8/distance", "80 80 10"),
        ("node9/cpumap", "0"),
        ("proc/driver/nvidia/gpus/0004:04:00.0/numa_status", "Node: 8\nStatus: online\n"),
        ("sys/devices/system/node/online", "0,2,8"),
    ]);
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.os_index).collect();
    assert_eq!(numbers, [0, 2]);
    assert_eq!(machine.nodes()[0].memory_mib, Some(2));
    assert_eq!(machine.nodes()[1].memory_mib, None);
    assert!(machine.nodes()[1].cpus.is_empty());
    assert_eq!(machine.spec().node_distance, [[10, 20], [20, 10]]);
    assert!(warned(&machine, "memory of an accelerator are left out: 8"));
}

#[test]
fn a_set_that_contradicts_the_others_gives_way_to_numbers_and_to_the_other_sharers() {
    let mut files = Vec::new();
    for cpu in 0..6 {
        let package = cpu % 2;
        let siblings = if cpu == 1 { "0-1" } else { ["0,2,4", "1,3,5"][package] };
        let sharers = if cpu == 2 { "0-3" } else { ["0,2,4", "1,3,5"][package] };
        files.push((format!("cpu{cpu}/topology/core_siblings_list"), siblings.to_owned()));
        files.push((format!("cpu{cpu}/topology/physical_package_id"), package.to_string()));
        files.push((format!("cpu{cpu}/cache/index0/level"), "3".to_owned()));
        files.push((format!("cpu{cpu}/cache/index0/type"), "Unified".to_owned()));
        files.push((format!("cpu{cpu}/cache/index0/size"), "8M".to_owned()));
        files.push((format!("cpu{cpu}/cache/index0/shared_cpu_list"), sharers.to_owned()));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let machine = machine(&files);
    let [packages, _, llcs, _] = sets(&machine);
    assert_eq!(packages, ["0,2,4", "1,3,5"]);
    assert_eq!(llcs, packages);
    assert!(machine.llcs().iter().all(|llc| llc.cache.is_some()));
    assert!(warned(&machine, "its numbers count") && warned(&machine, "other sharers"));
}

#[test]
fn a_kernel_without_nodes_tells_the_memory_in_meminfo() {
    let meminfo = ("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n");
    let without = machine(&[("cpu0/online", "1"), meminfo]);
    assert_eq!((without.nodes().len(), without.nodes()[0].memory_mib), (1, Some(2)));
    assert!(warned(&without, "does not tell the cores") && warned(&without, "of the package are"));
    let silent = machine(&[("cpu0/online", "1"), ("node0/cpumap", "1"), meminfo]);
    assert_eq!(silent.nodes()[0].memory_mib, Some(2));
    let two = [("cpu0/online", "1"), ("node0/cpumap", "1"), ("node1/cpumap", "0"), meminfo];
    assert_eq!(machine(&two).nodes()[0].memory_mib, None);
}

#[test]
fn nodes_that_repeat_the_cpus_of_a_lower_one_are_left_out() {
    let machine = machine(&[
        ("cpu0/online", "1"),
        ("cpu1/online", "1"),
        ("node0/cpumap", "3"),
        ("node0/distance", "10 20 30"),
        ("node1/cpumap", "3"),
        ("node1/distance", "20 10 40"),
        ("node2/cpumap", "0"),
        ("node2/distance", "30 40 10"),
    ]);
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.os_index).collect();
    assert_eq!(numbers, [0, 2]);
    assert_eq!(machine.spec().node_distance, [[10, 30], [30, 10]]);
    assert!(warned(&machine, "no lower node has are left out: 1"));
}

#[test]
fn the_cpus_of_nodes_without_memory_count_as_the_nearest_s() {
    let machine = machine(&[
        ("cpu0/online", "1"),
        ("cpu1/online", "1"),
        ("sys/devices/system/node/has_memory", "2-3"),
        ("node0/cpumap", "1"),
        ("node0/distance", "10 20 17 11"),
        ("node1/cpumap", "2"),
        ("node1/distance", "20 10 12 21"),
        ("node2/cpumap", "0"),
        ("node2/distance", "17 12 10 28"),
        ("node3/cpumap", "0"),
        ("node3/distance", "11 21 28 10"),
    ]);
    let found: Vec<(u32, String)> =
        machine.nodes().iter().map(|node| (node.os_index, node.cpus.to_string())).collect();
    assert_eq!(found, [(2, "1".to_owned()), (3, "0".to_owned())]);
    assert_eq!(machine.spec().node_distance, [[10, 28], [28, 10]]);
    assert!(warned(
        &machine,
        "NUMA nodes without memory are left out, their CPUs count as the nearest other's: 0-1"
    ));
}

#[test]
fn hybrid_cores_are_two_types() {
    let machine = machine(&[
        ("cpu0/topology/thread_siblings_list", "0-1"),
        ("cpu1/topology/thread_siblings_list", "0-1"),
        ("cpu2/topology/thread_siblings_list", "2"),
        ("cpu0/cpu_capacity", "1024"),
        ("cpu1/cpu_capacity", "1009"),
        ("cpu2/cpu_capacity", "512"),
        ("cpu0/cpufreq/cpuinfo_max_freq", "5000000"),
        ("cpu2/cpufreq/cpuinfo_max_freq", "3700000"),
        ("sys/devices/cpu_core/cpus", "0-1"),
        ("sys/devices/cpu_atom/cpus", "2"),
    ]);
    let types = machine.core_types();
    let atom = types.iter().find(|one| one.name == "cpu_atom").unwrap();
    assert_eq!((atom.capacity, atom.clock_mhz, atom.threads), (0.5, 3700.0, 1));
    let core = types.iter().find(|one| one.name == "cpu_core").unwrap();
    assert_eq!((core.capacity, core.clock_mhz, core.threads), (1.0, 5000.0, 2));
    assert_eq!(types[machine.cpus()[2].core_type].name, "cpu_atom");
}

/// Three CPUs in a package, each with a cache of level 2 as told.
fn with_l2(shared: [&str; 3]) -> Machine {
    let mut files = Vec::new();
    for (cpu, shared) in shared.iter().enumerate() {
        files.push((format!("cpu{cpu}/topology/core_id"), cpu.to_string()));
        files.push((format!("cpu{cpu}/topology/physical_package_id"), "0".to_owned()));
        let cache = |name: &str| format!("cpu{cpu}/cache/index2/{name}");
        files.push((cache("level"), "2".to_owned()));
        files.push((cache("type"), "Unified".to_owned()));
        files.push((cache("size"), "512K".to_owned()));
        files.push((cache("ways_of_associativity"), "8".to_owned()));
        files.push((cache("shared_cpu_list"), (*shared).to_owned()));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    machine(&files)
}

#[test]
fn caches_that_contradict_each_other_leave_one_llc_a_package() {
    assert_eq!(sets(&with_l2(["0-1", "0-1", "2"]))[2], ["0-1", "2"]);
    for shared in [["0-1", "1-2", "1-2"], ["0-2", "1", "2"], ["0", "0-1", "2"]] {
        let machine = with_l2(shared);
        assert_eq!(sets(&machine)[2], ["0-2"], "{shared:?}");
        assert!(machine.llcs()[0].cache.is_none());
        assert!(warned(&machine, "contradict"), "{shared:?}");
    }
    // A CPU that its own cache does not name counts as alone.
    let machine = with_l2(["", "1", "nonsense"]);
    assert_eq!(sets(&machine)[2], ["0", "1", "2"]);
    assert!(warned(&machine, "who shares"));
}

#[test]
fn caches_may_span_nodes_and_nodes_may_cross_packages() {
    let cache = "cpu0/cache/index3";
    let spanning = machine(&[
        ("cpu0/topology/package_cpus_list", "0-1"),
        ("cpu1/topology/package_cpus_list", "0-1"),
        (&format!("{cache}/level"), "3"),
        (&format!("{cache}/type"), "Unified"),
        (&format!("{cache}/size"), "8M"),
        (&format!("{cache}/shared_cpu_map"), "3"),
        ("node0/cpumap", "1"),
        ("node1/cpumap", "2"),
    ]);
    let [packages, _, llcs, nodes] = sets(&spanning);
    assert_eq!((packages.len(), llcs.len(), nodes.len()), (1, 1, 2));
    let crossing = machine(&[
        ("cpu0/topology/package_cpus_list", "0-1"),
        ("cpu1/topology/package_cpus_list", "0-1"),
        ("cpu2/topology/package_cpus_list", "2-3"),
        ("cpu3/topology/package_cpus_list", "2-3"),
        ("node0/cpumap", "7"),
        ("node1/cpumap", "8"),
    ]);
    assert_eq!(sets(&crossing)[3], ["0-2", "3"]);
    assert_eq!(sets(&crossing)[0], ["0-3"]);
    assert!(warned(&crossing, "packages cross"));
    let inside = machine(&[
        ("cpu0/topology/package_cpus_list", "0"),
        ("cpu1/topology/package_cpus_list", "1"),
        ("node0/cpumap", "3"),
    ]);
    assert_eq!(sets(&inside)[0], ["0", "1"]);
    assert_eq!(sets(&inside)[3], ["0-1"]);
}

#[test]
fn a_die_that_cuts_a_core_is_left_out() {
    let machine = machine(&[
        ("cpu0/topology/thread_siblings_list", "0-1"),
        ("cpu1/topology/thread_siblings_list", "0-1"),
        ("cpu1/topology/die_cpus_list", "1"),
        ("cpu2/topology/cluster_cpus_list", "1-2"),
    ]);
    assert_eq!(sets(&machine)[1], ["0-1", "2"]);
    assert!(warned(&machine, "a die that cuts") && warned(&machine, "a cluster that cuts"));
}

#[test]
fn a_root_without_a_machine_is_an_error() {
    let none = discover(root(&[("etc/hostname", "x")]).path());
    assert!(matches!(none, Err(DiscoverError::NoMachine { .. })));
    let empty = discover(root(&[("proc/cpuinfo", "nothing here\n")]).path());
    assert!(matches!(empty, Err(DiscoverError::NoCpu)));
    let many = discover(
        root(&[("cpu/online", "0-65535"), ("sys/devices/system/cpu/online", "0-65535")]).path(),
    );
    assert!(matches!(many, Err(DiscoverError::TooMany { .. })));
}

#[test]
fn this_machine_is_found() {
    if !Path::new("/sys/devices/system/cpu").is_dir() && !Path::new("/proc/cpuinfo").is_file() {
        println!("skipped: no sysfs and no procfs here");
        return;
    }
    let here = discover(Path::new("/")).unwrap();
    assert!(!here.cpus().is_empty());
    assert!(here.with_assumed_memory().is_ok());
}

fn garbage() -> impl Strategy<Value = (String, String)> {
    let cpu_file = prop_oneof![
        Just("topology/physical_package_id"),
        Just("topology/core_id"),
        Just("topology/core_siblings"),
        Just("topology/thread_siblings_list"),
        Just("topology/die_cpus_list"),
        Just("topology/cluster_cpus_list"),
        Just("cache/index0/level"),
        Just("cache/index0/type"),
        Just("cache/index0/size"),
        Just("cache/index0/shared_cpu_map"),
        Just("cache/index1/level"),
        Just("cache/index1/type"),
        Just("cache/index1/size"),
        Just("cache/index1/shared_cpu_list"),
        Just("cache/index1/ways_of_associativity"),
        Just("cache/index1/number_of_sets"),
        Just("cache/index1/coherency_line_size"),
        Just("online"),
        Just("cpu_capacity"),
    ];
    let path = prop_oneof![
        8 => (0u32..6, cpu_file).prop_map(|(cpu, file)| format!("cpu/cpu{cpu}/{file}")),
        1 => (0u32..3).prop_map(|node| format!("node/node{node}/cpulist")),
        1 => (0u32..3).prop_map(|node| format!("node/node{node}/distance")),
        1 => Just("node/online".to_owned()),
        1 => Just("node/has_memory".to_owned()),
        1 => Just("cpu/online".to_owned()),
    ];
    let text = prop_oneof![
        4 => (0u32..4).prop_map(|n| n.to_string()),
        2 => prop_oneof![Just("0-1"), Just("0-3"), Just("2-5"), Just("1,4"), Just("f"), Just("3c")]
            .prop_map(str::to_owned),
        2 => prop_oneof![Just("Unified"), Just("Data"), Just("32K"), Just("4M"), Just("10 20 20")]
            .prop_map(str::to_owned),
        1 => prop_oneof![Just("-1"), Just("4294967295"), Just("99999999999999999999"), Just("")]
            .prop_map(str::to_owned),
        1 => ".{0,12}",
    ];
    (path, text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever stands in the files: a machine that makes sense or an error, never a panic.
    #[test]
    fn garbage_gives_a_sound_machine_or_an_error(
        files in prop::collection::vec(garbage(), 0..60),
    ) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/devices/system/cpu/cpu0/uevent", "");
        for (path, text) in &files {
            write(root.path(), &format!("sys/devices/system/{path}"), text);
        }
        match discover(root.path()) {
            Ok(machine) => {
                let again = Machine::from_toml(&machine.to_toml(), "discovered").unwrap();
                prop_assert_eq!(again.spec(), machine.spec());
                prop_assert!(machine.with_assumed_memory().is_ok());
                for cpu in machine.cpus() {
                    prop_assert!(machine.llcs()[cpu.llc].cpus.contains(cpu.id));
                    prop_assert!(machine.nodes()[cpu.node].cpus.contains(cpu.id));
                    prop_assert!(machine.packages()[cpu.package].cpus.contains(cpu.id));
                }
            }
            Err(error) => prop_assert!(matches!(error, DiscoverError::NoCpu), "{error}"),
        }
    }
}
