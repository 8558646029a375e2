//! Programs that are slow for a known reason, from the kernel's files to the verdict: scripts write the files of `/proc`
//! and of cgroups as the kernel would while such a program is watched for 10 s, and how bad it is comes from a seed. What
//! neighbours do to each other's caches is the model's to say, as in `corun explain` itself.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use corun_linux::{Roots, facts};
use corun_machine::{CpuId, Machine, preset};
use corun_model::ModelOptions;
use corun_optimal::Objective;
use corun_profile::Library;

use super::*;
use crate::{Layout, Scenario};

const PID: u32 = 7;
const INTERVAL_S: f64 = 10.0;
const SAMPLES: u32 = 200;
const SEEDS: u64 = 4;

/// Numbers from a seed, of Steele, Lea and Flood's SplitMix64 (OOPSLA 2014, fig. 15).
struct Drawn(u64);

impl Drawn {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        low + (high - low) * (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What the program and the machine do in the 10 s.
#[derive(Debug, Clone, Default)]
struct Script {
    on_cpu_s: f64,
    /// Runnable without a CPU; throttled time is in it.
    runnable_s: f64,
    blocked_s: f64,
    /// What the scheduler counts as waiting; none: this kernel counts nothing.
    counted_wait_s: Option<f64>,
    competitors: u32,
    /// Its state where it is neither runnable nor blocked; none: asleep.
    held: Option<char>,
    /// The version of cgroups by which it is frozen.
    frozen: Option<u8>,
    quota: Option<Quota>,
    major_faults: u64,
    swapped_kib: u64,
    memory_pressure_s: f64,
    io_pressure_s: f64,
    /// Pages on each node.
    pages: Vec<u64>,
    /// `numa_maps` cannot be read.
    hides_memory: bool,
    cache: CacheFacts,
}

#[derive(Debug, Clone, Copy)]
struct Quota {
    version: u8,
    cpus: f64,
    throttled_s: f64,
}

/// The kernel's files of a machine.
struct KernelTree {
    _folder: tempfile::TempDir,
    roots: Roots,
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl KernelTree {
    fn new(machine: &Machine, script: &Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        write(roots.sys.join("devices/system/cpu/online"), &machine.cpu_set().to_string());
        let idle = |cpu: CpuId| format!("cpu{cpu} 0 0 0 0 0 0 0 0 0 0\n");
        let stat: String = machine.cpus().iter().map(|cpu| idle(cpu.id)).collect();
        write(roots.proc.join("stat"), &stat);
        let group = match (script.quota, script.frozen) {
            (Some(Quota { version: 1, .. }), _) => "4:cpu:/batch.slice\n0::/\n",
            (_, Some(1)) => "6:freezer:/batch.slice\n0::/\n",
            _ => "0::/batch.slice\n",
        };
        write(roots.proc.join("7/cgroup"), group);
        let own = Self { _folder: folder, roots };
        own.at(script, 0.0);
        own
    }

    /// The files at a share of the interval.
    fn at(&self, script: &Script, share: f64) {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let counted = |seconds: f64| (seconds * share * ticks).round() as u64;
        let ns = |seconds: f64| (seconds * share * 1e9).round() as u64;
        let us = |seconds: f64| (seconds * share * 1e6).round() as u64;
        let faults = (script.major_faults as f64 * share) as u64;
        self.process(PID, 'R', faults, counted(script.on_cpu_s));
        let own = self.roots.proc.join("7");
        let task = own.join("task/7");
        if let Some(wait_s) = script.counted_wait_s {
            let line = format!("{} {} 9\n", ns(script.on_cpu_s), ns(wait_s));
            write(task.join("schedstat"), &line);
        }
        let tracer = if script.held == Some('t') { 100 } else { 0 };
        let status = format!("Name:\tsolver\nTracerPid:\t{tracer}\nCpus_allowed_list:\t0\n");
        write(task.join("status"), &status);
        write(
            own.join("status"),
            &format!("Uid:\t0\t0\t0\t0\nVmSwap:\t{} kB\n", script.swapped_kib),
        );
        for other in 0..script.competitors {
            self.process(100 + other, 'R', 0, counted(script.on_cpu_s));
        }
        self.memory(script);
        self.group(script, share);
        for (name, seconds) in [("memory", script.memory_pressure_s), ("io", script.io_pressure_s)]
        {
            let line = |kind: &str, total: u64| {
                format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n")
            };
            let text = line("some", us(seconds)) + &line("full", us(seconds / 2.0));
            write(self.roots.cgroup.join(format!("batch.slice/{name}.pressure")), &text);
            write(self.roots.proc.join("pressure").join(name), &text);
        }
    }

    fn process(&self, pid: u32, state: char, faults: u64, ticks: u64) {
        let line = format!(
            "{pid} (solver) {state} 1 2 3 0 -1 0 100 0 {faults} 0 {ticks} 0 0 0 20 0 1 0 5 3133440 408 \
             18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
        );
        let own = self.roots.proc.join(pid.to_string());
        write(own.join("stat"), &line);
        write(own.join(format!("task/{pid}/stat")), &line);
    }

    /// One mapping, whose pages are where the script says.
    fn memory(&self, script: &Script) {
        let own = self.roots.proc.join("7");
        write(own.join("maps"), "10000000-20000000 rw-p 00000000 00:00 0\n");
        if script.hides_memory {
            // What cannot be read as a file, for root neither.
            let _ = fs::create_dir(own.join("numa_maps"));
            return;
        }
        let nodes = script.pages.iter().enumerate();
        let nodes: Vec<String> = nodes.map(|(node, pages)| format!("N{node}={pages}")).collect();
        let line = format!("10000000 default anon=9 {} kernelpagesize_kB=4\n", nodes.join(" "));
        write(own.join("numa_maps"), &line);
    }

    fn group(&self, script: &Script, share: f64) {
        let files: &[(&str, &str)] = match script.frozen {
            Some(1) => &[
                ("freezer/batch.slice/freezer.state", "FROZEN\n"),
                ("freezer/batch.slice/freezer.self_freezing", "1\n"),
            ],
            Some(_) => &[
                ("batch.slice/cgroup.freeze", "1\n"),
                ("batch.slice/cgroup.events", "populated 1\nfrozen 1\n"),
            ],
            None => &[],
        };
        files.iter().for_each(|(name, text)| write(self.roots.cgroup.join(name), text));
        let periods = (100.0 * share) as u64;
        let Some(Quota { version, cpus, throttled_s }) = script.quota else {
            return fs::create_dir_all(self.roots.cgroup.join("batch.slice")).unwrap();
        };
        let throttled_s = throttled_s * share;
        if version == 1 {
            let folder = self.roots.cgroup.join("cpu/batch.slice");
            write(folder.join("cpu.cfs_quota_us"), &format!("{:.0}\n", cpus * 1e5));
            write(folder.join("cpu.cfs_period_us"), "100000\n");
            let throttled_ns = (throttled_s * 1e9) as u64;
            let stat = format!(
                "nr_periods {periods}\nnr_throttled {periods}\nthrottled_time {throttled_ns}\n"
            );
            write(folder.join("cpu.stat"), &stat);
        } else {
            let folder = self.roots.cgroup.join("batch.slice");
            write(folder.join("cpu.max"), &format!("{:.0} 100000\n", cpus * 1e5));
            let throttled_us = (throttled_s * 1e6) as u64;
            let stat = format!(
                "nr_periods {periods}\nnr_throttled {periods}\nthrottled_usec {throttled_us}\n"
            );
            write(folder.join("cpu.stat"), &stat);
        }
    }

    /// What the program does at a sample: runnable first, then blocked, then asleep, in turns of 20 samples.
    fn sample(&self, script: &Script, sample: u32) {
        const TURN: u32 = 20;
        let place = f64::from(sample % TURN) + 0.5;
        let of_turn = |seconds: f64| seconds / INTERVAL_S * f64::from(TURN);
        let runnable = of_turn(script.on_cpu_s + script.runnable_s);
        let state = match place {
            place if place < runnable => 'R',
            place if place < runnable + of_turn(script.blocked_s) => 'D',
            _ => script.held.unwrap_or('S'),
        };
        let stat = self.roots.proc.join("7/task/7/stat");
        let line = fs::read_to_string(&stat).unwrap();
        let after = line.split_once(") ").unwrap().1;
        write(stat, &format!("7 (solver) {state}{}", &after[1..]));
    }
}

/// What is said of a program that does what a script says.
fn diagnosed(machine: &Machine, script: &Script) -> Diagnosis {
    let tree = KernelTree::new(machine, script);
    let threads = vec![facts(&tree.roots, PID, PID).unwrap()];
    let mut observer = ProgramObserver::start(&tree.roots, machine, threads).unwrap();
    for sample in 0..SAMPLES {
        tree.sample(script, sample);
        observer.sample();
    }
    tree.at(script, 1.0);
    let name = "solver (7)".to_owned();
    let facts = observer.finish_after(INTERVAL_S, machine, name, script.cache.clone()).unwrap();
    diagnose(&facts)
}

fn machine(name: &str) -> Machine {
    preset(name).unwrap()
}

/// A profile that fits in its cache, with nobody beside it.
fn at_ease() -> CacheFacts {
    CacheFacts {
        profile: Some("solver".to_owned()),
        solo_llc_mpki: Some(0.1),
        solo_memory_cycles_share: Some(0.02),
        predicted: Some(PredictedFactors { cache: 1.0, hardware_threads: 1.0, memory: 1.0 }),
        ..CacheFacts::default()
    }
}

/// Runs all the time.
fn busy() -> Script {
    Script {
        on_cpu_s: INTERVAL_S,
        counted_wait_s: Some(0.0),
        pages: vec![1000],
        cache: at_ease(),
        ..Script::default()
    }
}

/// Shares one CPU with 1 to 4 others.
fn starved(seed: u64) -> Script {
    let mut drawn = Drawn(seed);
    let competitors = 1 + seed as u32 % 4;
    let fair = INTERVAL_S / f64::from(competitors + 1);
    let on_cpu_s = fair * drawn.between(0.8, 1.2);
    let runnable_s = INTERVAL_S - on_cpu_s;
    // A wait that is not over is not counted.
    let counted_wait_s = Some(runnable_s * drawn.between(0.2, 1.0));
    Script { on_cpu_s, runnable_s, counted_wait_s, competitors, ..busy() }
}

/// Has a tenth to seven tenths of a CPU, by either version of cgroups, in kernels that count throttled time as waiting
/// and in those that do not.
fn throttled(seed: u64) -> Script {
    let mut drawn = Drawn(seed);
    let cpus = drawn.between(0.1, 0.7);
    let runnable_s = INTERVAL_S * (1.0 - cpus);
    let throttled_s = runnable_s * drawn.between(0.9, 1.0);
    let counted_wait_s = Some(if seed.is_multiple_of(2) { runnable_s } else { 0.0 });
    let quota = Some(Quota { version: 1 + (seed / 2 % 2) as u8, cpus, throttled_s });
    Script { on_cpu_s: INTERVAL_S * cpus, runnable_s, counted_wait_s, quota, ..busy() }
}

/// Its pages come back from swap; some of its waiting for the disk shows as pressure on the disk, too. In half of the
/// cases swap is compressed memory: no sample finds the program blocked, and it is on its CPU all the time.
fn swapped(seed: u64) -> Script {
    let mut drawn = Drawn(seed);
    let blocked_s = drawn.between(3.0, 9.0);
    if seed.is_multiple_of(2) {
        return Script {
            major_faults: drawn.between(5000.0, 100_000.0) as u64,
            swapped_kib: drawn.between(1e4, 1e6) as u64,
            memory_pressure_s: blocked_s,
            ..busy()
        };
    }
    Script {
        on_cpu_s: INTERVAL_S - blocked_s,
        blocked_s,
        major_faults: drawn.between(300.0, 20_000.0) as u64,
        swapped_kib: drawn.between(1e4, 1e6) as u64,
        memory_pressure_s: blocked_s * drawn.between(0.5, 1.0),
        io_pressure_s: blocked_s * drawn.between(0.5, 1.0),
        ..busy()
    }
}

/// Shares its LLC with a program that streams through it.
fn cache_victim(seed: u64) -> Script {
    let victim = ["glpsol", "clp", "gawk", "xz"][(seed - 1) as usize];
    Script { cache: beside(victim, "kernel-triad"), ..busy() }
}

/// What the model says of a program on CPU 0 beside another under the same LLC.
fn beside(victim: &str, other: &str) -> CacheFacts {
    let machine = machine("xeon-x5365");
    static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::shipped().unwrap());
    let scenario = |names: &[String]| {
        Scenario::new(machine.clone(), &LIBRARY, names, ModelOptions::default()).unwrap()
    };
    let never = AtomicBool::new(false);
    let neighbour = machine.llcs()[0].cpus.iter().nth(1).unwrap();
    let cpus = vec![0, machine.cpu_index(neighbour).unwrap()];
    let both = scenario(&[victim.to_owned(), other.to_owned()]);
    let factors =
        both.explain(&Layout { cpus, masks: Vec::new() }, Objective::MeanSlowdown).unwrap().because
            [0];
    let alone = scenario(&[victim.to_owned()]);
    let details = alone.details(&Layout { cpus: vec![0], masks: Vec::new() }, 0, &never).unwrap();
    let all: f64 = details.cycles.iter().map(|one| one.cycles_per_instruction).sum();
    let memory = details.cycles.iter().find(|one| one.cause == "memory");
    CacheFacts {
        profile: Some(victim.to_owned()),
        is_modelled: true,
        solo_memory_cycles_share: memory.map(|one| one.cycles_per_instruction / all),
        predicted: Some(PredictedFactors {
            cache: factors.cache,
            hardware_threads: factors.hardware_threads,
            memory: factors.memory,
        }),
        neighbours: vec![Neighbour {
            pid: 100,
            profile: other.to_owned(),
            cpu: neighbour,
            factor: factors.cache * factors.memory,
        }],
        ..CacheFacts::default()
    }
}

/// Runs on node 0 with nearly all of its pages on node 1, counted in half of the cases. No profile says how much it
/// waits for memory: with one, memory that it would wait for anywhere comes first.
fn far_memory(seed: u64) -> Script {
    let mut drawn = Drawn(seed);
    let far = drawn.between(0.93, 1.0);
    let pages = vec![(1e5 * (1.0 - far)) as u64, (1e5 * far) as u64];
    let llc_mpki = Some(drawn.between(1.0, 30.0)).filter(|_| seed.is_multiple_of(2));
    let cache = CacheFacts { llc_mpki, ..CacheFacts::default() };
    Script { pages, cache, ..busy() }
}

#[test]
fn twenty_seeded_programs_are_slow_for_the_reason_that_is_named() {
    type Maker = fn(u64) -> Script;
    let kinds: [(&str, CauseKind, &str, Maker); 5] = [
        ("starved", CauseKind::WaitingForCpu, "xeon-x5365", starved),
        ("throttled", CauseKind::ThrottledByQuota, "xeon-x5365", throttled),
        ("swapped", CauseKind::WaitingForMemory, "xeon-x5365", swapped),
        ("cache victim", CauseKind::CacheBecauseOfNeighbour, "xeon-x5365", cache_victim),
        ("far memory", CauseKind::FarNode, "2x-e5-2695v3", far_memory),
    ];
    for (what, expected, name, make) in kinds {
        let machine = machine(name);
        for seed in 1..=SEEDS {
            let script = make(seed);
            let found = diagnosed(&machine, &script);
            let kinds: Vec<CauseKind> = found.causes.iter().map(|cause| cause.kind).collect();
            assert_eq!(kinds.first(), Some(&expected), "{what} {seed}: {kinds:?} {script:?}");
            let first = &found.causes[0];
            assert!((0.05..=1.0).contains(&first.lost.share()), "{what} {seed}: {first:?}");
            assert!(!first.advice.is_empty(), "{what} {seed}");
        }
    }
}

/// For 9 of 10 s, and as the kernel shows each: a frozen thread is in one sleep or the other.
#[test]
fn a_program_that_somebody_holds_still_is_told_who_does_and_how_it_goes_on() {
    let machine = machine("xeon-x5365");
    let by = |held: char, frozen: Option<u8>| Script {
        on_cpu_s: 1.0,
        competitors: 1,
        held: Some(held),
        frozen,
        ..busy()
    };
    let stopped = ("stopped by a signal", CauseKind::Stopped);
    let traced = ("held by a debugger", CauseKind::HeldByTracer);
    let frozen = ("frozen", CauseKind::Frozen);
    for ((what, kind), script, command, named) in [
        (stopped, by('T', None), "kill -CONT 7", "Stopped"),
        (traced, by('t', None), "ps -fp 100", "solver (100)"),
        (frozen, by('D', Some(1)), "echo THAWED > ", "/batch.slice"),
        (frozen, by('S', Some(2)), "echo 0 > ", "/batch.slice"),
    ] {
        let found = diagnosed(&machine, &script);
        let first = found.causes.first().unwrap_or_else(|| panic!("{what}: {found:?}"));
        assert_eq!((first.kind, found.causes.len()), (kind, 1), "{what}: {found:?}");
        assert!((first.lost.share() - 0.9).abs() < 0.01, "{what}: {first:?}");
        assert!(first.advice[0].command.contains(command), "{what}: {first:?}");
        assert!(first.found.contains(named), "{what}: {first:?}");
        assert!(found.unknown.is_empty(), "{what}: {found:?}");
        assert!(!found.verdict.contains("slept"), "{what}: {}", found.verdict);
    }
}

#[test]
fn five_programs_of_which_nobody_could_tell() {
    let numa = machine("2x-e5-2695v3");
    let cases: [(&str, UnknownKind, Script); 5] = [
        (
            "no counters and no profile",
            UnknownKind::Cache,
            Script { cache: CacheFacts::default(), ..busy() },
        ),
        (
            "it misses, and has no profile",
            UnknownKind::CacheOrNeighbour,
            Script {
                cache: CacheFacts { llc_mpki: Some(25.0), ..CacheFacts::default() },
                ..busy()
            },
        ),
        ("asleep", UnknownKind::Sleep, Script { on_cpu_s: 0.0, ..busy() }),
        (
            "memory that cannot be looked at",
            UnknownKind::Memory,
            Script { hides_memory: true, ..busy() },
        ),
        (
            "a kernel that counts no waiting",
            UnknownKind::WaitingForCpu,
            Script { counted_wait_s: None, ..busy() },
        ),
    ];
    for (what, expected, script) in cases {
        let found = diagnosed(&numa, &script);
        assert!(found.cannot_tell(), "{what}: {found:?}");
        assert_eq!(found.unknown[0].kind, expected, "{what}: {found:?}");
        assert!(found.verdict.starts_with("Cannot tell"), "{what}: {}", found.verdict);
    }
}

/// Pages of shared libraries lie wherever they were read first. Where all of a program fits in its cache, that costs nothing.
#[test]
fn far_pages_that_fit_in_the_cache_are_no_cause() {
    let machine = machine("2x-e5-2695v3");
    let with_pages = |pages: [u64; 2]| {
        let cache = CacheFacts::default();
        diagnosed(&machine, &Script { pages: pages.to_vec(), cache, ..busy() })
    };
    let small = with_pages([500, 600]);
    assert!(small.cannot_tell(), "{small:?}");
    let large = with_pages([50_000, 60_000]);
    assert_eq!(large.causes[0].kind, CauseKind::PagesElsewhere, "{large:?}");
}

/// A program that is found, runs for 4 s while profiles are read, and has half of a CPU in the 10 s that follow: what it
/// ran before counts for nothing.
#[test]
fn what_a_program_ran_before_it_is_watched_does_not_count() {
    let machine = machine("xeon-x5365");
    let script = Script {
        on_cpu_s: 5.0,
        runnable_s: 5.0,
        counted_wait_s: Some(5.0),
        competitors: 1,
        ..busy()
    };
    let tree = KernelTree::new(&machine, &script);
    let found = vec![facts(&tree.roots, PID, PID).unwrap()];
    tree.at(&script, 0.8);
    let mut observer = ProgramObserver::start(&tree.roots, &machine, found).unwrap();
    for sample in 0..SAMPLES {
        tree.sample(&script, sample);
        observer.sample();
    }
    tree.at(&script, 1.8);
    let found = observer.finish_after(INTERVAL_S, &machine, "x".to_owned(), at_ease()).unwrap();
    assert!((found.time.on_cpu_s - 5.0).abs() < 0.01, "{:?}", found.time);
    assert_eq!(diagnose(&found).causes[0].kind, CauseKind::WaitingForCpu);
}

/// The files that the scripts write are read as they are meant: of 10 s it ran 2, waited 5 and was blocked for 3.
#[test]
fn the_scripts_files_say_what_the_scripts_say() {
    let machine = machine("xeon-x5365");
    let script = Script {
        on_cpu_s: 2.0,
        runnable_s: 5.0,
        blocked_s: 3.0,
        counted_wait_s: Some(5.0),
        ..busy()
    };
    let tree = KernelTree::new(&machine, &script);
    let threads = vec![facts(&tree.roots, PID, PID).unwrap()];
    let mut observer = ProgramObserver::start(&tree.roots, &machine, threads).unwrap();
    for sample in 0..SAMPLES {
        tree.sample(&script, sample);
        observer.sample();
    }
    tree.at(&script, 1.0);
    let found = observer.finish_after(INTERVAL_S, &machine, "x".to_owned(), at_ease()).unwrap();
    let time = found.time;
    let near = |value: f64, expected: f64| (value - expected).abs() < 0.01;
    assert!(near(time.on_cpu_s, 2.0) && near(time.blocked_s, 3.0), "{time:?}");
    assert!(near(time.waiting_s.unwrap(), 5.0) && near(time.asleep_s, 0.0), "{time:?}");
}
