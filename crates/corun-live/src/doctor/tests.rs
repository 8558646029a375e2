use std::fs;
use std::path::Path;

use corun_linux::Roots;
use corun_policy::{ActionKind, CounterKind, Needs, PolicyKind, registry};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A captured tree, made by hand.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cpus(self, count: u32) -> Self {
        self.write("sys/devices/system/cpu/online", &format!("0-{}\n", count - 1));
        for cpu in 0..count {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            self.write(&format!("{folder}/core_id"), &format!("{cpu}\n"));
            self.write(&format!("{folder}/physical_package_id"), "0\n");
        }
        self
    }

    fn facts(&self) -> Facts {
        probe(&Roots::below(self.0.path()), Beside::default())
    }
}

#[test]
fn how_many_threads_are_read_is_said_with_its_reason() {
    let told = |threads_at_once| {
        let facts = Facts { threads_at_once, ..Facts::default() };
        let finding = found(&findings(&facts), "many threads").clone();
        (finding.state, finding.found)
    };
    let no = ThreadsAtOnce::No { why: "it takes CAP_BPF".to_owned() };
    let by_files = "the daemon reads the files of each: it takes CAP_BPF";
    assert_eq!(told(Some(no)), (State::Yes, by_files.to_owned()));
    let at_once = "the daemon reads them at once, by a BPF program";
    assert_eq!(told(Some(ThreadsAtOnce::Works)), (State::Yes, at_once.to_owned()));
    assert_eq!(Tree::new(&[]).facts().threads_at_once, None);
    assert_eq!(told(None), (State::Unknown, "not tried".to_owned()));
}

fn found<'a>(all: &'a [Finding], name: &str) -> &'a Finding {
    all.iter().find(|finding| finding.name == name).unwrap()
}

fn of<'a>(all: &'a [PolicyVerdict], name: &str) -> &'a PolicyVerdict {
    all.iter().find(|verdict| verdict.policy == name).unwrap()
}

const INTEL: [(&str, &str); 13] = [
    ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu rdt_a cat_l3 mba cqm cqm_llc cqm_mbm_total\n"),
    ("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n\text4\n"),
    ("sys/fs/resctrl/schemata", "    L3:0=7ff\n    MB:0=100\n"),
    ("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n"),
    ("sys/fs/resctrl/info/L3/min_cbm_bits", "1\n"),
    ("sys/fs/resctrl/info/L3/num_closids", "16\n"),
    ("sys/fs/resctrl/info/L3/shareable_bits", "600\n"),
    ("sys/fs/resctrl/info/L3/sparse_masks", "0\n"),
    ("sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
    ("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n"),
    (
        "sys/fs/resctrl/info/L3_MON/mon_features",
        "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
    ),
    ("sys/fs/resctrl/info/L3_MON/num_rmids", "176\n"),
    ("sys/fs/resctrl/others/schemata", "    L3:0=003\n    MB:0=100\n"),
];

#[test]
fn a_mounted_resctrl_is_read() {
    let facts = Tree::new(&INTEL).cpus(4).facts();
    let [l3] = &facts.resctrl.caches[..] else { panic!("{:?}", facts.resctrl.caches) };
    assert_eq!((l3.ways, l3.min_ways, l3.classes), (Some(11), Some(1), Some(16)));
    assert_eq!((l3.shared_mask.as_deref(), l3.sparse), (Some("600"), Some(false)));
    let bandwidth = facts.resctrl.bandwidth.as_ref().unwrap();
    assert_eq!((bandwidth.least, bandwidth.step, bandwidth.classes), (Some(10), Some(10), None));
    assert_eq!(facts.resctrl.monitoring.as_ref().unwrap().groups, Some(176));
    assert_eq!(facts.resctrl.groups, Some(1));
    assert_eq!(facts.virtual_machine, Some(false));
    // Nothing was written: whether one may is not known of a captured tree.
    let all = findings(&facts);
    let ways = found(&all, "LLC ways");
    assert_eq!(ways.state, State::Unknown);
    let words = "11 ways, at least 1 each, 16 groups, devices share ways 0x600, 1 group in use";
    assert!(ways.found.starts_with(words), "{}", ways.found);
}

#[test]
fn a_writable_resctrl_lets_partitioning_policies_run() {
    let mut facts = Tree::new(&INTEL).cpus(4).facts();
    facts.resctrl.writable = Some(true);
    let all = verdicts(&facts);
    for name in ["ucp", "lfoc", "lfoc-caps"] {
        let verdict = of(&all, name);
        assert_eq!((verdict.runs, &verdict.missing), (Runs::WithProfiles, &vec![]), "{name}");
        assert_eq!(verdict.by, ["profiles", "resctrl"], "{name}");
    }
    facts.resctrl.writable = Some(false);
    let all = verdicts(&facts);
    assert_eq!(of(&all, "ucp").runs, Runs::No);
    assert_eq!(of(&all, "ucp").missing[0].remedy.as_deref(), Some("run as root"));
}

#[test]
fn an_unmounted_resctrl_is_told_how_to_mount() {
    let facts = Tree::new(&INTEL[..2]).cpus(2).facts();
    let all = findings(&facts);
    for name in ["LLC ways", "bandwidth caps", "cache occupancy", "memory traffic"] {
        let finding = found(&all, name);
        assert_eq!(finding.state, State::No, "{name}");
        let advice = finding.advice.as_deref();
        assert_eq!(advice, Some("mount -t resctrl resctrl /sys/fs/resctrl"), "{name}");
    }
    assert_eq!(of(&verdicts(&facts), "lfoc").runs, Runs::No);
}

#[test]
fn a_kernel_without_resctrl_and_a_processor_without_it_differ() {
    let without_kernel = Tree::new(&[INTEL[0], ("proc/filesystems", "nodev\tsysfs\n")]).cpus(2);
    let all = findings(&without_kernel.facts());
    assert_eq!(found(&all, "LLC ways").found, "the kernel was built without resctrl");
    let flags = "processor\t: 0\nflags\t\t: fpu hypervisor\n";
    let guest = Tree::new(&[("proc/cpuinfo", flags), INTEL[1]]).cpus(2);
    let all = findings(&guest.facts());
    let ways = found(&all, "LLC ways");
    assert!(ways.found.contains("virtual processor"), "{}", ways.found);
    assert!(ways.advice.as_deref().unwrap().contains("host"));
}

#[test]
fn an_amd_machine_has_gaps_in_masks_and_absolute_bandwidth() {
    let facts = Tree::new(&[
        ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu cat_l3 cdp_l3 mba cqm_llc abmc\n"),
        ("sys/class/dmi/id/sys_vendor", "Supermicro\n"),
        ("sys/class/dmi/id/product_name", "AS -1115\x1b[31mHS\n"),
        ("sys/fs/resctrl/schemata", "L3CODE:0=ffff\nL3DATA:0=ffff\n"),
        ("sys/fs/resctrl/info/L3CODE/cbm_mask", "ffff\n"),
        ("sys/fs/resctrl/info/L3DATA/cbm_mask", "ffff\n"),
        ("sys/fs/resctrl/info/L3DATA/sparse_masks", "1\n"),
        ("sys/fs/resctrl/info/MB/bandwidth_gran", "1\n"),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "12\n"),
    ])
    .cpus(2)
    .facts();
    let names: Vec<&str> = facts.resctrl.caches.iter().map(|one| one.resource.as_str()).collect();
    assert_eq!(names, ["L3CODE", "L3DATA"]);
    assert_eq!(facts.resctrl.caches[1].sparse, Some(true));
    assert_eq!(facts.resctrl.processor.as_ref().unwrap().len(), 5);
    assert_eq!(facts.energy[0].name, "package-0");
    // Names from firmware are printed: no control characters.
    assert_eq!(facts.maker.as_deref(), Some("Supermicro AS -1115[31mHS"));
}

#[test]
fn both_counting_units_of_a_hybrid_machine_are_seen() {
    let units = "sys/bus/event_source/devices";
    let tree = Tree::new(&[
        (&format!("{units}/cpu_core/cpus"), "0-1\n"),
        (&format!("{units}/cpu_core/type"), "4\n"),
        (&format!("{units}/cpu_atom/cpus"), "2-3\n"),
        (&format!("{units}/cpu_atom/type"), "10\n"),
        (&format!("{units}/uncore_imc_0/cpumask"), "0\n"),
        (&format!("{units}/power/type"), "12\n"),
        ("sys/devices/cpu_core/cpus", "0-1\n"),
        ("sys/devices/cpu_atom/cpus", "2-3\n"),
        ("proc/sys/kernel/perf_event_paranoid", "4\n"),
    ])
    .cpus(4);
    let mut facts = tree.facts();
    let unit = |core: &CoreCounters| core.unit.clone().unwrap();
    let names: Vec<String> = facts.perf.cores.iter().map(unit).collect();
    assert_eq!(names, ["cpu_atom", "cpu_core"]);
    assert_eq!(facts.perf.uncore, ["uncore_imc_0"]);
    assert_eq!(facts.perf.paranoid, Some(4));
    assert_eq!(found(&findings(&facts), "hardware counters").state, State::Unknown);
    assert_eq!(of(&verdicts(&facts), "dio").runs, Runs::Unknown);

    // A counter that one kind of core lacks does not serve a policy that moves threads over both.
    facts.affinity = Some(true);
    for core in &mut facts.perf.cores {
        core.events.iter_mut().for_each(|event| event.answer = CountOutcome::Works);
    }
    assert_eq!(of(&verdicts(&facts), "dio").runs, Runs::Yes);
    let misses = |event: &&mut Tried| event.counter == Some(CounterKind::LlcMisses);
    facts.perf.cores[0].events.iter_mut().find(misses).unwrap().answer = CountOutcome::Absent;
    let all = verdicts(&facts);
    assert_eq!(of(&all, "dio").runs, Runs::No);
    assert_eq!(of(&all, "dio").missing[0].what, "counters (LLC misses)");
    assert_eq!(of(&all, "dio").instead, ["di"]);
    let all = findings(&facts);
    let hardware = found(&all, "hardware counters");
    assert_eq!(hardware.state, State::Partly);
    assert!(hardware.found.contains("(not: LLC misses); cpu_core: "), "{}", hardware.found);

    // Memory traffic from resctrl stands in for misses.
    facts.resctrl.mounted = Some(true);
    let features = vec!["mbm_total_bytes".to_owned()];
    facts.resctrl.monitoring = Some(MonitoringFacts { features, groups: Some(8) });
    assert_eq!(of(&verdicts(&facts), "dio").by, ["affinity", "perf", "resctrl"]);
}

#[test]
fn what_the_kernel_forbids_is_told_how_to_allow() {
    let mut facts = Facts { here: true, capabilities: Some(Vec::new()), ..Facts::default() };
    facts.perf.paranoid = Some(3);
    let counter = Some(CounterKind::Instructions);
    let events = vec![Tried { event: "instructions", counter, answer: CountOutcome::Forbidden }];
    facts.perf.cores.push(CoreCounters { unit: Some("cpu".to_owned()), cpus: None, events });
    let all = findings(&facts);
    let advice = found(&all, "hardware counters").advice.as_deref().unwrap();
    assert!(advice.starts_with("sysctl kernel.perf_event_paranoid=1 (it is 3)"), "{advice}");
    assert_eq!(found(&all, "others' programs").state, State::No);
    facts.capabilities = Some(vec!["CAP_PERFMON".to_owned()]);
    assert_eq!(found(&findings(&facts), "others' programs").state, State::Yes);
}

#[test]
fn without_any_files_all_is_unknown_and_nothing_is_claimed() {
    let facts = Tree::new(&[]).facts();
    assert_eq!((&facts.shape, &facts.kernel, facts.virtual_machine), (&None, &None, None));
    for finding in findings(&facts) {
        let unknown = finding.state == State::Unknown;
        assert!(unknown || finding.name == "energy", "{finding:?}");
    }
    for verdict in verdicts(&facts) {
        let expected = match verdict.policy.as_str() {
            "linux-default" => Runs::Yes,
            // No machine has ordered slots, and none tells how long requests take.
            "vbsc" | "parties" => Runs::No,
            _ => Runs::Unknown,
        };
        assert_eq!(verdict.runs, expected, "{verdict:?}");
    }
}

#[test]
fn every_policy_has_a_verdict() {
    let names = |all: Vec<PolicyVerdict>| all.into_iter().map(|one| one.policy).collect::<Vec<_>>();
    let expected: Vec<String> = registry().iter().map(|entry| entry.name.to_owned()).collect();
    assert_eq!(names(verdicts(&Facts::default())), expected);
    assert_eq!(names(verdicts(&probe(&Roots::default(), Beside::default()))), expected);
}

#[test]
fn a_policy_between_nodes_lacks_a_second_one() {
    let why = "it decides between nodes".to_owned();
    let unfit = [("n-mass".to_owned(), why)].into();
    let facts = Facts { shape: Some(Shape { unfit, ..Shape::default() }), ..Facts::default() };
    let of = |name: &str| verdicts(&facts).into_iter().find(|one| one.policy == name).unwrap();
    assert_eq!(of("n-mass").runs, Runs::No);
    assert_eq!(of("n-mass").missing[0].what, "a machine that it is for (it decides between nodes)");
    assert_eq!(of("dio").runs, Runs::Unknown);
    // What a probe says of a machine is what the policy says.
    let here = probe(&Roots::default(), Beside::default());
    let nodes = here.shape.as_ref().map(|shape| shape.numa_nodes);
    let unfit = here.shape.is_some_and(|shape| shape.unfit.contains_key("n-mass"));
    assert!(nodes != Some(1) || unfit);
}

#[test]
fn what_stands_against_a_scheduler_in_the_kernel_is_told() {
    let judged = |sched_ext: SchedExt, capabilities: &[&str]| {
        let capabilities = Some(capabilities.iter().map(|one| (*one).to_owned()).collect());
        let facts = Facts { sched_ext: Some(sched_ext), capabilities, ..Facts::default() };
        let finding = found(&findings(&facts), "sched_ext").clone();
        (finding.state, finding.found, finding.advice.unwrap_or_default())
    };
    for held in [&["CAP_SYS_ADMIN"][..], &["CAP_BPF", "CAP_PERFMON"]] {
        assert_eq!(judged(SchedExt::Ready, held).0, State::Yes);
    }
    for held in [&["CAP_BPF"][..], &["CAP_PERFMON", "CAP_SYS_NICE"]] {
        let (state, _, advice) = judged(SchedExt::Ready, held);
        assert_eq!((state, &*advice), (State::No, "run as root or with CAP_BPF and CAP_PERFMON"));
    }
    let missing = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let (state, found, advice) = judged(SchedExt::Incomplete { missing }, &["CAP_SYS_ADMIN"]);
    assert_eq!((state, &*found), (State::No, "this kernel lacks a, b, c and 1 part more"));
    assert!(advice.starts_with("Linux 7.1 or newer"), "{advice}");
    assert_eq!(judged(SchedExt::Absent, &["CAP_SYS_ADMIN"]).0, State::No);
}

#[test]
fn another_scheduler_is_seen_in_a_captured_tree() {
    let facts = |files: &[(&str, &str)]| Tree::new(files).facts().sched_ext;
    assert_eq!(facts(&[]), None);
    let other = ("sys/kernel/sched_ext/root/ops", "rusty\n");
    let in_use = facts(&[("sys/kernel/sched_ext/state", "enabled\n"), other]);
    assert_eq!(in_use, Some(SchedExt::InUse { by: "rusty (enabled)".to_owned() }));
    // Nobody captured the types.
    assert_eq!(facts(&[("sys/kernel/sched_ext/state", "disabled\n")]), None);
}

#[test]
fn what_only_the_simulator_does_is_said() {
    let needs = Needs {
        counters: vec![],
        controls: vec![ActionKind::OrderSlots, ActionKind::SetWeight],
        ..Needs::default()
    };
    let verdict = verdict(&Facts::default(), "slots", PolicyKind::Placement, &needs);
    assert_eq!((verdict.runs, &verdict.missing[0].remedy), (Runs::No, &None));
    assert!(verdict.missing[0].what.contains("only in simulation"));
}

#[test]
fn this_machine_is_probed_without_failing() {
    let facts = probe(&Roots::default(), Beside::default());
    assert!(facts.here);
    let tried = |one: &Tried| one.answer != CountOutcome::NotTried;
    assert!(facts.perf.software.iter().all(tried));
    assert!(facts.perf.cores.iter().all(|core| core.events.iter().all(tried)));
    assert!(facts.allowed_cpus.is_some_and(|cpus| !cpus.is_empty()));
    serde_json::to_string(&findings(&probe(&Roots::default(), Beside::default()))).unwrap();
}

/// Files that are looked at, to be filled with anything.
const LOOKED_AT: [&str; 25] = [
    "proc/cpuinfo",
    "proc/filesystems",
    "proc/mounts",
    "proc/vmstat",
    "proc/self/status",
    "proc/self/limits",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/numa_balancing",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/core_id",
    "sys/bus/event_source/devices/cpu_core/cpus",
    "sys/bus/event_source/devices/cpu_core/type",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/powercap/intel-rapl:0/energy_uj",
    "sys/kernel/sched_ext/state",
    "sys/kernel/sched_ext/root/ops",
    "sys/kernel/btf/vmlinux",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/cpuset/cpuset.cpus",
    "sys/fs/resctrl/schemata",
    "sys/fs/resctrl/info/L3/cbm_mask",
    "sys/fs/resctrl/info/L3/num_closids",
    "sys/fs/resctrl/info/MB/min_bandwidth",
    "sys/fs/resctrl/info/L3_MON/mon_features",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        "[0-9a-f,-]{0,12}\n?".prop_map(String::into_bytes),
        "(processor|flags|model name)\t: [a-z0-9_ ]{0,30}\n".prop_map(String::into_bytes),
        Just(vec![b'9'; 400]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_in_files_never_panics(files in proptest::collection::vec(
        (0..LOOKED_AT.len(), proptest::option::of(content())), 0..30,
    )) {
        let folder = tempfile::tempdir().unwrap();
        for (at, content) in files {
            let path = folder.path().join(LOOKED_AT[at]);
            match content {
                Some(bytes) => put(&path, &bytes),
                // A folder where a file is expected.
                None => drop(fs::create_dir_all(&path)),
            }
        }
        let facts = probe(&Roots::below(folder.path()), Beside::default());
        prop_assert_eq!(verdicts(&facts).len(), registry().len());
        for finding in findings(&facts) {
            let plain = |text: &str| !text.chars().any(char::is_control);
            prop_assert!(plain(&finding.found), "{:?}", finding);
        }
        prop_assert!(serde_json::to_string(&facts).is_ok());
    }
}

fn put(path: &Path, bytes: &[u8]) {
    let made = fs::create_dir_all(path.parent().unwrap());
    // Where a folder stands already, it stays.
    if made.is_ok() && !path.is_dir() {
        fs::write(path, bytes).unwrap();
    }
}
