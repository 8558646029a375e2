//! Real machines' sysfs trees, from hwloc's test suite: what discovery makes of each must be what
//! hwloc's lstopo prints for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use corun_machine::{CacheType, CpuId, CpuSet, Machine, Object, ObjectType, discover};

/// Level, d, i or nothing, CPUs, KiB, bytes a line, ways.
type Cache = (u32, String, String, u64, Option<u32>, Option<u32>);

/// What both sides are compared by. CPUs as lists.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    cpus: String,
    packages: BTreeSet<String>,
    cores: BTreeSet<String>,
    /// Number, CPUs, memory in MiB.
    nodes: BTreeSet<(u32, String, Option<u64>)>,
    caches: BTreeSet<Cache>,
    distances: Vec<Vec<u32>>,
}

/// The names of the captured machines, and where their files are.
fn captured() -> (PathBuf, Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let name = |file: String| file.strip_suffix(".tar.bz2").map(str::to_owned);
    let mut names: Vec<String> =
        files.filter_map(|file| name(file.into_string().unwrap())).collect();
    names.sort();
    assert_eq!(names.len(), 6, "{names:?}");
    (folder, names)
}

fn unpack(archive: &Path, into: &Path) -> PathBuf {
    let mut archive = tar::Archive::new(bzip2::read::BzDecoder::new(File::open(archive).unwrap()));
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(false);
    let wanted = ["/proc/", "/sys/devices/system/", "/sys/devices/cpu", "/sys/class/dmi/"];
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let skipped = path.contains("/hugepages/") || path.contains("/self/");
        if wanted.iter().any(|part| path.contains(part)) && !skipped {
            // `unpack_in` resolves every folder of every path again, which is not needed for archives of our own.
            let to = into.join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            entry.unpack(to).unwrap();
        }
    }
    let is_root = |folder: &PathBuf| folder.join("sys").is_dir() || folder.join("proc").is_dir();
    let entries = fs::read_dir(into).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(is_root).unwrap_or_else(|| into.to_owned())
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(&format!("{name}="))? + name.len() + 1;
    line[start..].split([' ', ')']).next()
}

fn number(line: &str) -> Option<u32> {
    line.split("P#").nth(1)?.split([' ', ')']).next()?.parse().ok()
}

/// Every object that lstopo prints: its line and the CPUs below it. A node is printed as the first
/// child of the object whose CPUs it has.
fn objects(output: &str) -> Vec<(&str, CpuSet)> {
    let lines: Vec<(usize, &str)> = output
        .lines()
        .take_while(|line| !line.trim_start().starts_with("depth"))
        .map(|line| (line.len() - line.trim_start().len(), line.trim_start()))
        .collect();
    let below = |at: usize| -> CpuSet {
        let inner = lines[at + 1..].iter().take_while(|(depth, _)| *depth > lines[at].0);
        let own = std::iter::once(&lines[at]).chain(inner);
        own.filter(|(_, line)| line.starts_with("PU "))
            .map(|(_, line)| CpuId(number(line).unwrap()))
            .collect()
    };
    let around = |at: usize| (0..at).rev().find(|&outer| lines[outer].0 < lines[at].0);
    (0..lines.len())
        .map(|at| {
            let line = lines[at].1;
            let holder = if line.starts_with("NUMANode") { around(at).unwrap_or(at) } else { at };
            (line, below(holder))
        })
        .collect()
}

fn expected(output: &str) -> Seen {
    let mut seen = Seen::default();
    for (line, set) in objects(output) {
        let cpus = set.to_string();
        // `L3Cache(MemorySideCache)` stands before a node's memory, not between it and cores alone.
        let kind = line.split([' ', '(']).next().unwrap_or_default();
        let positive = |name| field(line, name)?.parse().ok().filter(|&n: &u32| n > 0);
        let kib = |name| field(line, name)?.trim_end_matches("KB").parse::<u64>().ok();
        match kind {
            "Machine" => seen.cpus = cpus,
            "Package" => drop(seen.packages.insert(cpus)),
            "Core" => drop(seen.cores.insert(cpus)),
            "NUMANode" => {
                let memory = kib("local").map(|kib| kib / 1024);
                seen.nodes.insert((number(line).unwrap(), cpus, memory));
            }
            _ if kind.starts_with('L') && !line.contains("(MemorySideCache)") => {
                let name = kind.trim_start_matches('L').trim_end_matches("Cache");
                let level = name.trim_end_matches(['d', 'i']).parse().unwrap();
                let holds = name.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
                let geometry = (positive("linesize"), positive("ways"));
                let size = kib("size").unwrap();
                seen.caches.insert((level, holds, cpus, size, geometry.0, geometry.1));
            }
            _ => {}
        }
    }
    if seen.packages.is_empty() {
        seen.packages.insert(seen.cpus.clone());
    }
    let rows = output.lines().skip_while(|line| !line.contains("name NUMALatency")).skip(2);
    seen.distances = rows
        .map_while(|row| row.split_whitespace().skip(1).map(|n| n.parse().ok()).collect())
        .take(seen.nodes.len())
        .collect();
    seen
}

fn found(machine: &Machine) -> Seen {
    let cache = |object: &Object| {
        let cache = object.cache?;
        let holds = match cache.holds {
            CacheType::Unified => "",
            CacheType::Data => "d",
            CacheType::Instruction => "i",
        };
        let (kib, cpus) = (cache.size_bytes / 1024, object.cpus.to_string());
        Some((cache.level, holds.to_owned(), cpus, kib, cache.line_bytes, cache.ways))
    };
    let distances = &machine.spec().node_distance;
    Seen {
        cpus: machine.cpu_set().to_string(),
        packages: machine.packages().iter().map(|one| one.cpus.to_string()).collect(),
        cores: machine.cores().iter().map(|one| one.cpus.to_string()).collect(),
        nodes: machine
            .nodes()
            .iter()
            .map(|node| (node.os_index, node.cpus.to_string(), node.memory_mib))
            .collect(),
        caches: machine.objects().iter().filter_map(cache).collect(),
        distances: if distances.len() > 1 { distances.clone() } else { Vec::new() },
    }
}

/// Part by part, so that a failure shows the difference alone.
fn compare(name: &str, found: &Seen, expected: &Seen) {
    assert_eq!(found.cpus, expected.cpus, "{name}");
    assert_eq!(found.packages, expected.packages, "{name}");
    assert_eq!(found.cores, expected.cores, "{name}");
    assert_eq!(found.nodes, expected.nodes, "{name}");
    assert_eq!(found.distances, expected.distances, "{name}");
    let surplus: Vec<_> = found.caches.difference(&expected.caches).collect();
    let missing: Vec<_> = expected.caches.difference(&found.caches).collect();
    assert!(surplus.is_empty() && missing.is_empty(), "{name}: {surplus:?} for {missing:?}");
}

/// The XML that lstopo writes of a captured machine, by the kernel's files alone, or of this one. None where lstopo is not
/// installed.
fn xml_of(captured: Option<&Path>) -> Option<String> {
    let mut lstopo = std::process::Command::new("lstopo-no-graphics");
    lstopo.args(["--of", "xml", "--no-io", "-"]);
    if let Some(root) = captured {
        lstopo.env("HWLOC_FSROOT", root).env("HWLOC_COMPONENTS", "-x86");
    }
    let output = match lstopo.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The machine in lstopo's XML is the machine that the files tell of. False where lstopo is not installed.
fn xml_says_the_same(root: &Path, name: &str, expected: &Seen, discovered: &Machine) -> bool {
    let Some(xml) = xml_of(Some(root)) else { return false };
    let machine = Machine::from_hwloc_xml(&xml, &format!("{name}.xml")).unwrap();
    compare(name, &found(&machine), expected);
    assert_eq!(machine.spec().offline_cpus, discovered.spec().offline_cpus, "{name}");
    true
}

#[test]
fn captured_machines_are_as_lstopo_prints_them_and_says_in_xml() {
    let (folder, names) = captured();
    let mut compared = BTreeMap::new();
    let mut has_lstopo = true;
    for name in names {
        let output = fs::read_to_string(folder.join(format!("{name}.output"))).unwrap();
        let into = tempfile::tempdir().unwrap();
        let root = unpack(&folder.join(format!("{name}.tar.bz2")), into.path());
        let machine = discover(&root).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {:?}", machine.warnings());
        let expected = expected(&output);
        compare(&name, &found(&machine), &expected);
        has_lstopo = has_lstopo && xml_says_the_same(&root, &name, &expected, &machine);
        let again = Machine::from_toml(&machine.to_toml(), &name).unwrap();
        assert_eq!(again.spec(), machine.spec(), "{name}");
        compared.insert(name, machine);
    }
    let machine = &compared["8em64t-2s4c-heterogeneous"];
    // The package whose caches are incomplete counts as one LLC; the other has two.
    assert_eq!(machine.llcs().len(), 3);
    assert!(machine.warnings().iter().any(|warning| warning.contains("last-level")));
    let machine = &compared["16em64t-4s2c2t-offlines"];
    assert_eq!(machine.spec().offline_cpus.to_string(), "2,5,13-14");
    let machine = &compared["128arm-2pa2n8cluster4co"];
    let kind = |object: &&Object| object.kind == ObjectType::Cluster;
    assert_eq!(machine.objects().iter().filter(kind).count(), 32);
    let machine = &compared["8em64t-2s2ca2c"];
    assert_eq!(machine.llcs().len(), 4);
    assert_eq!(machine.warnings().len(), 1, "{:?}", machine.warnings());
    if !has_lstopo {
        eprintln!("skipped: the XML, since lstopo is not installed (apt-get install hwloc-nox)");
    }
}

/// hwloc asks an x86 by itself.
#[test]
fn this_machine_s_last_caches_hold_what_lstopo_says_that_they_do() {
    let Some(xml) = xml_of(None) else {
        println!("skipped: lstopo is not installed (apt-get install hwloc-nox)");
        return;
    };
    let inclusions = |machine: Machine| -> BTreeSet<String> {
        let caches = machine.llcs().iter().filter_map(|llc| llc.cache);
        caches.map(|cache| format!("{} {:?}", cache.size_bytes, cache.inclusion)).collect()
    };
    let told = Machine::from_hwloc_xml(&xml, "this.xml").unwrap();
    assert_eq!(inclusions(discover(Path::new("/")).unwrap()), inclusions(told));
}
