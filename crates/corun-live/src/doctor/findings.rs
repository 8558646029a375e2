//! What the facts mean for somebody who wants to measure and to act, and what to do about it.

use corun_policy::CounterKind;
use serde::Serialize;

use super::facts::{CoreCounters, CountOutcome, Facts, Resctrl, SchedExt, ThreadsAtOnce, Tried};
use super::words::counted;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// What can be measured.
    Measure,
    /// What can be controlled.
    Control,
    /// What corun keeps and records.
    Keep,
}

/// Does it work here?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Yes.
    Yes,
    /// Some of it.
    Partly,
    /// No.
    No,
    /// It could not be found out.
    Unknown,
}

/// One thing that can or cannot be done here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub area: Area,
    /// What.
    pub name: &'static str,
    /// Does it work?
    pub state: State,
    /// What was found.
    pub found: String,
    /// What would make it work, or better.
    pub advice: Option<String>,
}

/// What can be measured and controlled, in the order in which it is shown.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    use Area::{Control, Keep, Measure};
    let all = [
        (Measure, "hardware counters", hardware(facts)),
        (Measure, "kernel counters", software(facts)),
        (Measure, "others' programs", others_counters(facts)),
        (Measure, "many threads", many_threads(facts)),
        (Measure, "cache occupancy", monitored(facts, "llc_occupancy", CounterKind::LlcOccupancy)),
        (Measure, "memory traffic", monitored(facts, "mbm_total_bytes", CounterKind::MemoryBytes)),
        (Measure, "energy", energy(facts)),
        (Control, "placing threads", affinity(facts)),
        (Control, "sched_ext", sched_ext(facts)),
        (Control, "others' threads", others_threads(facts)),
        (Control, "containers", containers(facts)),
        (Control, "LLC ways", ways(facts)),
        (Control, "bandwidth caps", caps(facts)),
        (Control, "moving pages", pages(facts)),
        (Keep, "undo journal", journal(facts)),
        (Keep, "recording programs", tracer(facts)),
    ];
    let finding = |(area, name, Judged { state, found, advice })| Finding {
        area,
        name,
        state,
        found,
        advice,
    };
    all.into_iter().map(finding).collect()
}

/// A finding without its name.
pub(super) struct Judged {
    pub(super) state: State,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

fn judged(state: State, found: impl Into<String>) -> Judged {
    Judged { state, found: found.into(), advice: None }
}

impl Judged {
    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

pub(super) fn has(facts: &Facts, capability: &str) -> bool {
    facts.capabilities.as_ref().is_some_and(|held| held.iter().any(|one| one == capability))
}

/// The answers that stand for a set of events.
fn answers<'a>(events: &'a [Tried], matching: &'a CountOutcome) -> impl Iterator<Item = &'a Tried> {
    events.iter().filter(move |one| one.answer == *matching)
}

fn hardware(facts: &Facts) -> Judged {
    let cores = &facts.perf.cores;
    let events = || cores.iter().flat_map(|core| &core.events);
    if events().all(|one| one.answer == CountOutcome::NotTried) {
        return judged(State::Unknown, "not tried");
    }
    if !events().any(|one| one.answer == CountOutcome::Works) {
        let why = if events().any(|one| one.answer == CountOutcome::Forbidden) {
            "the kernel forbids them to this user"
        } else if events().any(|one| one.answer == CountOutcome::Silent) {
            "they open and count nothing"
        } else {
            "the machine shows none"
        };
        return judged(State::No, why).advise(counters_remedy(facts));
    }
    let whole = events().all(|one| one.answer == CountOutcome::Works);
    let found = cores.iter().map(|core| core_line(core, cores.len() > 1)).collect::<Vec<_>>();
    let mut found = judged(if whole { State::Yes } else { State::Partly }, found.join("; "));
    if facts.perf.watchdog == Some(true) {
        found = found.advise("sysctl kernel.nmi_watchdog=0 frees one more counter");
    }
    found
}

fn core_line(core: &CoreCounters, name_it: bool) -> String {
    let list = |answer: &CountOutcome| {
        let names = answers(&core.events, answer).filter_map(|one| one.counter);
        names.map(CounterKind::in_words).collect::<Vec<_>>().join(", ")
    };
    let works = list(&CountOutcome::Works);
    let mut text = match (&core.unit, name_it) {
        (Some(unit), true) => format!("{unit}: "),
        _ => String::new(),
    };
    text.push_str(if works.is_empty() { "nothing" } else { &works });
    let absent = list(&CountOutcome::Absent);
    if !absent.is_empty() && !works.is_empty() {
        text.push_str(&format!(" (not: {absent})"));
    }
    text
}

/// What would give counters.
pub(super) fn counters_remedy(facts: &Facts) -> String {
    let events = || facts.perf.cores.iter().flat_map(|core| &core.events);
    if events().any(|one| one.answer == CountOutcome::Forbidden) {
        let level =
            facts.perf.paranoid.map_or_else(String::new, |level| format!(" (it is {level})"));
        return format!(
            "sysctl kernel.perf_event_paranoid=1{level}, or run as root or with CAP_PERFMON"
        );
    }
    if facts.virtual_machine == Some(true) {
        return "this is a virtual machine: its host can pass counters on (QEMU: -cpu \
                host,pmu=on; in a cloud, larger or bare-metal types)"
            .to_owned();
    }
    "look for counters (PMU) in the firmware's settings, and for CONFIG_PERF_EVENTS in the kernel"
        .to_owned()
}

fn software(facts: &Facts) -> Judged {
    let events = &facts.perf.software;
    let works: Vec<&str> = answers(events, &CountOutcome::Works).map(|one| one.event).collect();
    if !works.is_empty() {
        let state = if works.len() == events.len() { State::Yes } else { State::Partly };
        return judged(state, works.join(", "));
    }
    if events.iter().all(|one| one.answer == CountOutcome::NotTried) {
        return judged(State::Unknown, "not tried");
    }
    let forbidden = events.iter().any(|one| one.answer == CountOutcome::Forbidden);
    if forbidden {
        judged(State::No, "the kernel forbids them to this user").advise(
            "sysctl kernel.perf_event_paranoid=1; in a container also its seccomp profile has to \
             allow perf_event_open",
        )
    } else {
        judged(State::No, "perf_event_open does not work")
            .advise("a kernel with CONFIG_PERF_EVENTS")
    }
}

/// Counting programs of other users, and the whole machine.
fn others_counters(facts: &Facts) -> Judged {
    if has(facts, "CAP_PERFMON") || has(facts, "CAP_SYS_ADMIN") {
        return judged(State::Yes, "this user may count every program");
    }
    match (facts.perf.paranoid, &facts.capabilities) {
        (Some(level), Some(_)) if level <= 0 => {
            judged(State::Yes, format!("kernel.perf_event_paranoid is {level}"))
        }
        (Some(level), Some(_)) => {
            judged(State::No, format!("only own programs: kernel.perf_event_paranoid is {level}"))
                .advise("run as root or with CAP_PERFMON")
        }
        _ => judged(State::Unknown, "not known"),
    }
}

/// Does resctrl monitor this?
pub(super) fn monitors(facts: &Facts, feature: &str) -> bool {
    let features = facts.resctrl.monitoring.as_ref().map(|monitoring| &monitoring.features);
    features.is_some_and(|all| all.iter().any(|one| one == feature))
}

fn monitored(facts: &Facts, feature: &str, counter: CounterKind) -> Judged {
    if monitors(facts, feature) {
        let groups = facts.resctrl.monitoring.as_ref().and_then(|monitoring| monitoring.groups);
        let groups = groups.map_or_else(String::new, |groups| format!(", {groups} groups at once"));
        let found = format!("resctrl{groups}");
        return match facts.resctrl.writable {
            Some(false) => judged(State::Partly, format!("{found}; this user makes no groups"))
                .advise("run as root"),
            _ => judged(State::Yes, found),
        };
    }
    if facts.resctrl.mounted == Some(true) {
        return judged(State::No, format!("resctrl gives no {}", counter.in_words()));
    }
    let flags = ["cqm", "cqm_llc", "cqm_occup_llc", "cqm_mbm_total"];
    resctrl_missing(facts, &flags, "cannot be monitored")
}

/// Why there is no resctrl, and what would bring it. `flags` are the processor's for what is asked.
fn resctrl_missing(facts: &Facts, flags: &[&str], cannot: &str) -> Judged {
    let Resctrl { processor, kernel, mounted, .. } = &facts.resctrl;
    let able = processor.as_ref().map(|all| all.iter().any(|one| flags.contains(&one.as_str())));
    match (able, kernel, mounted) {
        (Some(false), ..) if facts.virtual_machine == Some(true) => {
            judged(State::No, format!("{cannot}: the virtual processor does not offer it"))
                .advise("run corun on the host, or on a bare-metal machine")
        }
        (Some(false), ..) => judged(State::No, format!("{cannot} on this processor"))
            .advise("processors with Intel RDT, AMD QoS or Arm MPAM can"),
        (_, Some(true), Some(false)) => judged(State::No, "resctrl is not mounted")
            .advise("mount -t resctrl resctrl /sys/fs/resctrl"),
        (Some(true), Some(false), _) => judged(State::No, "the kernel was built without resctrl")
            .advise("a kernel with CONFIG_X86_CPU_RESCTRL"),
        (None, Some(false), _) => judged(State::No, "the kernel has no resctrl")
            .advise("a kernel with resctrl for this processor (Arm: CONFIG_ARM64_MPAM)"),
        _ => judged(State::Unknown, "not known"),
    }
}

fn energy(facts: &Facts) -> Judged {
    let zones = &facts.energy;
    let names = |readable: bool| {
        let names = zones.iter().filter(|zone| zone.readable == readable);
        names.map(|zone| zone.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (open, closed) = (names(true), names(false));
    if zones.is_empty() {
        let found = judged(State::No, "the machine shows no energy counters");
        return if facts.virtual_machine == Some(true) {
            found
        } else {
            found.advise("modprobe intel_rapl_msr (Intel, AMD)")
        };
    }
    if closed.is_empty() {
        return judged(State::Yes, open);
    }
    let state = if open.is_empty() { State::No } else { State::Partly };
    judged(state, format!("this user may not read {closed}"))
        .advise("run as root, or chmod a+r /sys/class/powercap/*/energy_uj")
}

/// Either way all threads are seen: it is a matter of the daemon's own CPU time.
fn many_threads(facts: &Facts) -> Judged {
    match &facts.threads_at_once {
        None => judged(State::Unknown, "not tried"),
        Some(ThreadsAtOnce::Works) => {
            judged(State::Yes, "the daemon reads them at once, by a BPF program")
        }
        Some(ThreadsAtOnce::No { why }) => {
            judged(State::Yes, format!("the daemon reads the files of each: {why}"))
        }
    }
}

fn affinity(facts: &Facts) -> Judged {
    let cpus = facts.allowed_cpus.as_ref();
    let all = facts.shape.as_ref().map(|shape| shape.cpus);
    let on = cpus.map_or_else(String::new, |cpus| format!(" on CPUs {cpus}"));
    match facts.affinity {
        Some(true) => {
            let fewer = cpus.zip(all).is_some_and(|(cpus, all)| cpus.len() < all);
            let found = format!("own programs{on}");
            if fewer {
                judged(State::Partly, format!("{found} of {}", counted(all.unwrap_or(0), "CPU")))
                    .advise("a cgroup or taskset holds this process to them; widen it there")
            } else {
                judged(State::Yes, found)
            }
        }
        Some(false) => judged(State::No, "the kernel forbids sched_setaffinity")
            .advise("in a container, its seccomp profile has to allow sched_setaffinity"),
        None => judged(State::Unknown, "not tried"),
    }
}

/// Parts of the kernel that are named one by one; of more, the first.
const NAMED_PARTS: usize = 3;

fn sched_ext(facts: &Facts) -> Judged {
    const NEEDED: &str =
        "Linux 7.1 or newer with CONFIG_SCHED_CLASS_EXT; until then --backend affinity";
    match &facts.sched_ext {
        None => judged(State::Unknown, "not known"),
        Some(SchedExt::Absent) => judged(State::No, "this kernel has none").advise(NEEDED),
        Some(SchedExt::Incomplete { missing }) => {
            let (named, others) = missing.split_at(missing.len().min(NAMED_PARTS));
            let mut found = format!("this kernel lacks {}", named.join(", "));
            if !others.is_empty() {
                found.push_str(&format!(" and {} more", counted(others.len(), "part")));
            }
            judged(State::No, found).advise(NEEDED)
        }
        Some(SchedExt::InUse { by }) => {
            judged(State::No, format!("another scheduler is in force: {by}"))
                .advise("end that scheduler: the kernel takes one at a time")
        }
        Some(SchedExt::Unreadable { why }) => judged(State::Unknown, why.as_str()),
        Some(SchedExt::Ready) => match &facts.capabilities {
            None => judged(State::Unknown, "this kernel has what it takes; rights are not known"),
            Some(_) if may_load_programs(facts) => judged(State::Yes, "--backend sched-ext"),
            Some(_) => {
                judged(State::No, "this kernel has what it takes; this user may not load it")
                    .advise("run as root or with CAP_BPF and CAP_PERFMON")
            }
        },
    }
}

/// CAP_SYS_ADMIN stands for both in the kernel.
fn may_load_programs(facts: &Facts) -> bool {
    has(facts, "CAP_SYS_ADMIN") || (has(facts, "CAP_BPF") && has(facts, "CAP_PERFMON"))
}

fn others_threads(facts: &Facts) -> Judged {
    match &facts.capabilities {
        None => judged(State::Unknown, "not known"),
        Some(_) if has(facts, "CAP_SYS_NICE") => {
            judged(State::Yes, "placing them and raising priorities")
        }
        Some(_) => judged(State::No, "only own programs; priorities can only be lowered")
            .advise("run as root or with CAP_SYS_NICE"),
    }
}

fn containers(facts: &Facts) -> Judged {
    let cgroups = &facts.cgroups;
    match (cgroups.cpuset_version, cgroups.mounted, cgroups.writable) {
        (Some(version), _, Some(true)) => {
            judged(State::Yes, format!("CPU sets of cgroup version {version}"))
        }
        (Some(version), _, Some(false)) => {
            judged(State::No, format!("CPU sets of cgroup version {version}, not writable"))
                .advise("run as root, or have the cgroup delegated (systemd: Delegate=cpuset)")
        }
        (Some(version), _, None) => {
            judged(State::Unknown, format!("CPU sets of cgroup version {version}, not tried"))
        }
        (None, Some(true), _) => judged(State::No, "cgroups without CPU sets")
            .advise("a kernel with CONFIG_CPUSETS; in a container, ask for the cpuset controller"),
        (None, Some(false), _) => judged(State::No, "no cgroups are mounted")
            .advise("mount -t cgroup2 none /sys/fs/cgroup"),
        (None, None, _) => judged(State::Unknown, "not known"),
    }
}

pub(super) fn ways(facts: &Facts) -> Judged {
    let caches = &facts.resctrl.caches;
    let Some(cache) = caches.iter().find(|cache| cache.resource.starts_with("L3")) else {
        return if facts.resctrl.mounted == Some(true) {
            let other = caches.first().map(|cache| format!("; it has {}", cache.resource));
            judged(State::No, format!("resctrl has no L3{}", other.unwrap_or_default()))
                .advise("processors with Intel CAT, AMD QoS or Arm MPAM for the L3 can")
        } else {
            resctrl_missing(facts, &["cat_l3"], "cannot be partitioned")
        };
    };
    let count = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
    let mut found = format!(
        "{} ways, at least {} each, {} groups",
        count(cache.ways),
        count(cache.min_ways),
        count(cache.classes)
    );
    if let Some(mask) = cache.shared_mask.as_deref().filter(|mask| mask.contains(|bit| bit != '0'))
    {
        found.push_str(&format!(", devices share ways 0x{mask}"));
    }
    if let Some(groups) = facts.resctrl.groups.filter(|&groups| groups > 0) {
        found.push_str(&format!(", {} in use by others", counted(groups, "group")));
    }
    match facts.resctrl.writable {
        Some(false) => judged(State::No, format!("{found}; not writable")).advise("run as root"),
        Some(true) => judged(State::Yes, found),
        None => judged(State::Unknown, format!("{found}; not tried")),
    }
}

pub(super) fn caps(facts: &Facts) -> Judged {
    let Some(bandwidth) = &facts.resctrl.bandwidth else {
        return if facts.resctrl.mounted == Some(true) {
            judged(State::No, "resctrl has no MB")
        } else {
            resctrl_missing(facts, &["mba"], "cannot be capped")
        };
    };
    let count = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
    let found = format!("from {}, by {}", count(bandwidth.least), count(bandwidth.step));
    match facts.resctrl.writable {
        Some(false) => judged(State::No, format!("{found}; not writable")).advise("run as root"),
        Some(true) => judged(State::Yes, found),
        None => judged(State::Unknown, format!("{found}; not tried")),
    }
}

pub(super) fn pages(facts: &Facts) -> Judged {
    let memory = &facts.memory;
    match (memory.nodes, memory.migration) {
        (Some(0 | 1), _) => judged(State::No, "one NUMA node: there is nowhere to move to"),
        (_, Some(false)) => judged(State::No, "the kernel cannot move pages")
            .advise("a kernel with CONFIG_MIGRATION and CONFIG_NUMA"),
        (Some(nodes), Some(true)) => {
            let found = judged(State::Yes, format!("{nodes} NUMA nodes"));
            if memory.balancing == Some(true) {
                found.advise(
                    "the kernel moves pages too: sysctl kernel.numa_balancing=0 while a policy does",
                )
            } else {
                found
            }
        }
        _ => judged(State::Unknown, "not known"),
    }
}

fn journal(facts: &Facts) -> Judged {
    match &facts.journal {
        None => judged(State::Unknown, "not known"),
        Some(folder) if folder.writable => judged(State::Yes, folder.path.display().to_string()),
        Some(folder) => judged(State::No, format!("{} cannot be written", folder.path.display()))
            .advise("without a journal nothing is changed: make the folder writable"),
    }
}

fn tracer(facts: &Facts) -> Judged {
    match facts.tracer.as_ref().map(|tracer| &tracer.missing) {
        None => judged(State::Unknown, "not known"),
        Some(None) => judged(State::Yes, "corun profile -o FILE -- CMD"),
        Some(Some(missing)) => {
            judged(State::No, "corun profile does not run").advise(missing.clone())
        }
    }
}
