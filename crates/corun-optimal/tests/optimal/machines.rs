//! Small machines to enumerate placements on.

use corun_machine::{Machine, MachineSpec, PowerModel};

/// What the machines draw.
pub(crate) const POWER: PowerModel =
    PowerModel { idle_w: 100.0, package_active_w: 30.0, core_w: 5.0, w_per_gb_per_s: 4.0 };

fn machine(text: &str) -> Machine {
    let spec: MachineSpec = toml::from_str(&format!("version = 1\n{text}")).unwrap();
    Machine::from_spec(MachineSpec { power: Some(POWER), ..spec }).unwrap()
}

const CORE: &str = r#"
[[core_type]]
name = "big"
clock_mhz = 3000
"#;

fn llc(indent: &str, kib: u32, cores: u32) -> String {
    format!(
        "[[{indent}]]\nkind = \"cache\"\nlevel = 3\nsize_kib = {kib}\nways = 16\n\
         [[{indent}.object]]\nkind = \"core\"\ncount = {cores}\n"
    )
}

fn domain(name: &str, stage: u32, peak: f64, cpus: Option<&str>, nodes: Option<&str>) -> String {
    let cpus = cpus.map_or(String::new(), |cpus| format!("from_cpus = \"{cpus}\"\n"));
    let nodes = nodes.map_or(String::new(), |nodes| format!("to_nodes = {nodes}\n"));
    format!(
        "[[bandwidth]]\nname = \"{name}\"\nkind = \"memory-controller\"\nstage = {stage}\n\
         peak_mb_per_s = {peak}\n{cpus}{nodes}"
    )
}

/// Two LLCs of two CPUs, one memory controller.
pub(crate) fn two_by_two() -> Machine {
    let (one, memory) = (llc("object", 4096, 2), domain("memory", 1, 8000.0, None, None));
    machine(&format!("name = \"2x2\"\n{CORE}{memory}{one}{one}"))
}

/// Two packages with a bus each and two LLCs of one CPU, one memory controller.
pub(crate) fn four_behind_buses() -> Machine {
    let package = format!("[[object]]\nkind = \"package\"\n{0}{0}", llc("object.object", 4096, 1));
    let domains = [
        domain("bus 0", 0, 5000.0, Some("0-1"), None),
        domain("bus 1", 0, 5000.0, Some("2-3"), None),
        domain("memory", 1, 8000.0, None, None),
    ]
    .concat();
    machine(&format!("name = \"4 behind buses\"\n{CORE}{domains}{package}{package}"))
}

/// Two packages of two LLCs of `cpus` CPUs each, one memory controller.
pub(crate) fn two_packages(cpus: u32) -> Machine {
    let package =
        format!("[[object]]\nkind = \"package\"\n{0}{0}", llc("object.object", 4096, cpus));
    let memory = domain("memory", 1, 8000.0, None, None);
    machine(&format!("name = \"2 packages\"\n{CORE}{memory}{package}{package}"))
}

/// The same with a measured latency under load, and cores that draw no more than a part of the peak.
pub(crate) fn two_measured_packages() -> Machine {
    let package = format!("[[object]]\nkind = \"package\"\n{0}{0}", llc("object.object", 4096, 1));
    let memory = domain("memory", 1, 8000.0, None, None);
    let curve: String = [(100.0, 90.0), (3000.0, 100.0), (6000.0, 150.0), (7600.0, 400.0)]
        .map(|(mb_per_s, ns)| {
            format!(
                "[[bandwidth.loaded_latency]]\nmb_per_s = {mb_per_s}\nlatency_ns = {ns}\nlow_ns = {ns}\n\
                 high_ns = {ns}\n"
            )
        })
        .concat();
    let rates = "[core_type.memory_rates]\nread_mb_per_s = 3000.0\nwrite_mb_per_s = 2000.0\n";
    machine(&format!(
        "name = \"2 measured packages\"\n{CORE}{rates}{memory}{curve}{package}{package}"
    ))
}

/// An LLC of two CPUs and one of three, of other sizes.
pub(crate) fn unequal() -> Machine {
    let memory = domain("memory", 1, 8000.0, None, None);
    let (small, large) = (llc("object", 2048, 2), llc("object", 8192, 3));
    machine(&format!("name = \"unequal\"\n{CORE}{memory}{small}{large}"))
}

/// One LLC with two big and two small cores, beside one with two small ones.
pub(crate) fn hybrid() -> Machine {
    let core = |kind: &str| {
        format!("[[object.object]]\nkind = \"core\"\ncount = 2\ncore_type = \"{kind}\"\n")
    };
    let cache = |kib: u32| {
        format!("[[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = {kib}\nways = 16\n")
    };
    machine(&format!(
        "name = \"hybrid\"\n{CORE}[[core_type]]\nname = \"small\"\ncapacity = 0.5\n\
         clock_mhz = 1500\n{}{}{}{}{}{}",
        domain("memory", 1, 8000.0, None, None),
        cache(4096),
        core("big"),
        core("small"),
        cache(2048),
        core("small"),
    ))
}

/// Two LLCs, each of one core of two hardware threads and one of one.
pub(crate) fn hardware_threads() -> Machine {
    let one = "[[object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 4096\nways = 16\n\
         [[object.object]]\nkind = \"core\"\ncore_type = \"twin\"\n\
         [[object.object]]\nkind = \"core\"\ncore_type = \"big\"\n";
    machine(&format!(
        "name = \"threads\"\n{CORE}[[core_type]]\nname = \"twin\"\nclock_mhz = 3000\n\
         threads = 2\n{}{one}{one}",
        domain("memory", 1, 8000.0, None, None),
    ))
}

/// Two nodes with an LLC of two CPUs and a controller each.
pub(crate) fn two_nodes() -> Machine {
    let node = |index: u32| {
        format!(
            "[[object]]\nkind = \"numa-node\"\nos_index = {index}\n{}",
            llc("object.object", 4096, 2)
        )
    };
    let domains = [
        domain("memory 0", 1, 6000.0, None, Some("[0]")),
        domain("memory 1", 1, 6000.0, None, Some("[1]")),
    ]
    .concat();
    machine(&format!(
        "name = \"2 nodes\"\nmemory_latency_ns = [[80, 120], [120, 80]]\n{CORE}{domains}{}{}",
        node(0),
        node(1)
    ))
}

/// Four LLCs of `cpus` CPUs, one memory controller.
pub(crate) fn four_by(cpus: u32) -> Machine {
    let (one, memory) = (llc("object", 8192, cpus), domain("memory", 1, 20000.0, None, None));
    machine(&format!("name = \"4x{cpus}\"\n{CORE}{memory}{one}{one}{one}{one}"))
}

/// All of the small ones.
pub(crate) fn all() -> Vec<Machine> {
    vec![
        two_by_two(),
        four_behind_buses(),
        two_packages(1),
        two_measured_packages(),
        unequal(),
        hybrid(),
        hardware_threads(),
        two_nodes(),
    ]
}
