//! Over folders as the kernels of several machines show them.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A folder with kinds of counters: each with its files and what they say.
struct Machine(TempDir);

impl Machine {
    fn new(cpuinfo: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        fs::write(folder.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        Self(folder).with("software", &[("type", "1")])
    }

    fn with(self, pmu: &str, files: &[(&str, &str)]) -> Self {
        let folder = self.0.path().join("sys/bus/event_source/devices").join(pmu);
        for (name, text) in files {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        self
    }

    fn roots(&self) -> Roots {
        let (proc, sys) = (self.0.path().join("proc"), self.0.path().join("sys"));
        Roots { proc, sys, ..Roots::default() }
    }

    fn pmus(&self) -> Pmus {
        Pmus::read(&self.roots())
    }

    fn meaning(&self, meaning: Meaning) -> Option<(Vec<(u32, u64)>, bool)> {
        let pmus = self.pmus();
        let PlatformEvent { event, with_prefetches: scope } =
            PlatformEvents::new(&self.roots(), &pmus).event(meaning)?;
        let words = event.encodings.iter().map(|one| (one.kind, one.config));
        Some((words.collect(), scope))
    }
}

const INTEL: &[(&str, &str)] = &[
    ("type", "4"),
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/edge", "config:18"),
    ("format/cmask", "config:24-31"),
    ("format/ldlat", "config1:0-15"),
    ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("events/topdown-total-slots", "event=0x3c,umask=0x0,any=1"),
    ("events/topdown-total-slots.scale", "4"),
];

fn xeon() -> Machine {
    let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n";
    Machine::new(cpuinfo)
        .with("cpu", INTEL)
        .with("uncore_imc_0", &[("type", "13"), ("cpumask", "0"), ("events/cas", "event=0x04")])
}

fn hybrid() -> Machine {
    let core = [INTEL, &[("cpus", "0-15")]].concat();
    let atom = [&INTEL[1..6], &[("type", "10"), ("cpus", "16-23")]].concat();
    let cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 151\n";
    Machine::new(cpuinfo).with("cpu_core", &core).with("cpu_atom", &atom)
}

fn zen(family: u32) -> Machine {
    let cpuinfo = format!("vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: 17\n");
    let files =
        [("type", "4"), ("format/event", "config:0-7,32-35"), ("format/umask", "config:8-15")];
    Machine::new(&cpuinfo).with("cpu", &files)
}

fn arm() -> Machine {
    let files = [
        ("type", "8"),
        ("cpus", "0-79"),
        ("format/event", "config:0-15"),
        ("events/inst_retired", "event=0x0008"),
        ("events/cpu_cycles", "event=0x0011"),
        ("events/ll_cache_miss_rd", "event=0x0037"),
    ];
    Machine::new("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")
        .with("armv8_pmuv3_0", &files)
}

/// The kind and the first two words of an event's encodings.
fn words(pmus: &Pmus, text: &str) -> Vec<(u32, u64, u64)> {
    let event = pmus.event(text).unwrap();
    event.encodings.iter().map(|one| (one.kind, one.config, one.config1)).collect()
}

fn fails(pmus: &Pmus, text: &str) -> String {
    pmus.event(text).unwrap_err().to_string()
}

#[test]
fn events_are_asked_for_by_name_number_and_parts() {
    let pmus = xeon().pmus();
    assert_eq!(words(&pmus, "instructions"), [(0, 1, 0)]);
    assert_eq!(words(&pmus, "LLC-load-misses"), [(3, 0x1_0002, 0)]);
    assert_eq!(words(&pmus, "task-clock"), [(1, 1, 0)]);
    assert_eq!(words(&pmus, "r1a2"), [(4, 0x1a2, 0)]);
    assert_eq!(words(&pmus, "mem-loads"), [(4, 0x1cd, 3)]);
    assert_eq!(words(&pmus, "cpu/mem-loads/"), [(4, 0x1cd, 3)]);
    assert_eq!(words(&pmus, "cpu/event=0x3c,umask=1,cmask=20,edge/"), [(4, 0x1404_013c, 0)]);
    assert_eq!(words(&pmus, "cpu/config=0x1a2,ldlat=7/"), [(4, 0x1a2, 7)]);
    let event = pmus.event("cpu/event=0x3c/u").unwrap();
    assert!(event.encodings[0].user_only && !event.encodings[0].kernel_only);
    assert!(pmus.event("cycles:k").unwrap().encodings[0].kernel_only);
    assert!(pmus.event("cpu-clock").unwrap().is_time && !pmus.event("cs").unwrap().is_time);
}

#[test]
fn on_a_hybrid_machine_an_event_is_counted_on_both_kinds_of_core() {
    let pmus = hybrid().pmus();
    assert_eq!(pmus.core_names(), ["cpu_atom", "cpu_core"]);
    assert_eq!(words(&pmus, "cycles"), [(0, 10 << 32, 0), (0, 4 << 32, 0)]);
    assert_eq!(words(&pmus, "r1a2"), [(10, 0x1a2, 0), (4, 0x1a2, 0)]);
    // Only the big cores have this one.
    assert_eq!(words(&pmus, "mem-loads"), [(4, 0x1cd, 3)]);
    let event = pmus.event("cpu_core/event=0xc0/").unwrap();
    assert_eq!(event.encodings[0].core, Some(1));
}

#[test]
fn errors_say_what_there_is() {
    let pmus = xeon().pmus();
    assert_eq!(fails(&pmus, "instuctions"), "unknown event `instuctions`");
    assert!(fails(&pmus, "gpu/event=1/").ends_with("it has cpu, software, uncore_imc_0"));
    assert!(fails(&pmus, "cpu/evnt=1/").contains("expected cmask, edge, event, ldlat, umask"));
    assert!(fails(&pmus, "cpu/event=0x1ff/").contains("`event=0x1ff`"));
    assert!(fails(&pmus, "cpu/event=?/").contains("expected a number"));
    assert!(fails(&pmus, "cycles:x").contains("found `:x`"));
    assert!(fails(&pmus, "uncore_imc_0/cas/").contains("machine as a whole"));
    assert!(pmus.known_names().contains(&"cpu/mem-loads/".to_owned()));
    assert!(!pmus.known_names().iter().any(|name| name.contains(".scale")));
}

#[test]
fn without_hardware_counters_only_the_kernels_own_events_are_there() {
    let pmus = Machine::new("").pmus();
    assert!(!pmus.has_hardware());
    assert!(fails(&pmus, "instructions").contains("no `cpu`"));
    assert_eq!(words(&pmus, "page-faults"), [(1, 2, 0)]);
    let names = pmus.known_names();
    assert!(names.contains(&"task-clock".to_owned()) && !names.contains(&"cycles".to_owned()));
}

#[test]
fn policies_get_events_that_mean_what_they_ask_for() {
    let (demand, both) = (false, true);
    let xeon = xeon();
    assert_eq!(xeon.meaning(Meaning::LlcMisses), Some((vec![(0, 3)], demand)));
    assert_eq!(xeon.meaning(Meaning::StallCycles), Some((vec![(4, 0x1400_14a3)], demand)));
    // On AMD the kernel's cache misses are the L2's.
    assert_eq!(zen(25).meaning(Meaning::LlcMisses), Some((vec![(4, 0x4844)], both)));
    assert_eq!(zen(23).meaning(Meaning::LlcMisses), Some((vec![(4, 0x4843)], demand)));
    assert_eq!(zen(21).meaning(Meaning::LlcMisses), None);
    assert_eq!(zen(25).meaning(Meaning::Instructions), Some((vec![(0, 1)], demand)));
    // On Arm they are the L1's; its own name is taken where the core has it.
    assert_eq!(arm().meaning(Meaning::LlcMisses), Some((vec![(8, 0x37)], demand)));
    assert_eq!(arm().meaning(Meaning::LlcReferences), None);
    assert_eq!(arm().meaning(Meaning::Cycles), Some((vec![(8, 0x11)], demand)));
    let both_kinds = Some((vec![(0, 3 | 10 << 32), (0, 3 | 4 << 32)], demand));
    assert_eq!(hybrid().meaning(Meaning::LlcMisses), both_kinds);
    assert_eq!(Machine::new("").meaning(Meaning::Cycles), None);
}

proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC*|(cpu|software)/[a-z0-9=,x]*/[uk]?|r[0-9a-f]*:?[uk]?") {
        let machine = Machine::new("").with("cpu", INTEL);
        let _ = machine.pmus().event(&text);
    }
}
