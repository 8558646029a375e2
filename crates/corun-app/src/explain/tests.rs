//! Cases with a known cause, and cases in which nobody could tell.

use corun_linux::cpu_weight::CpuGroup;
use corun_machine::{CpuId, CpuSet};

use super::*;

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A program of one thread that computes all the time for 10 s on a machine of one kind of core and one node, with a
/// profile that says that it fits in its cache.
pub(super) fn calm() -> ProgramFacts {
    ProgramFacts {
        program: "solver".to_owned(),
        pids: vec![7],
        threads: 1,
        interval_s: 10.0,
        unit: None,
        nice: Some(NiceFacts { value: 0, may_be_0: true, threads: 1, is_idle_policy: false }),
        place: SchedulingPlace::default(),
        time: ThreadTime { on_cpu_s: 10.0, waiting_s: Some(0.0), ..ThreadTime::default() },
        stolen_share: 0.0,
        may_run_on: cpus("0-7"),
        all_may_run_on_same: true,
        command: None,
        command_folder: None,
        idle_cpus: CpuSet::default(),
        barred_cpus: CpuSet::default(),
        competitors: Vec::new(),
        quota: None,
        memory_limit: None,
        memory_pressure: None,
        io_pressure: None,
        major_faults_per_s: 0.0,
        swapped_bytes: Some(0),
        cores: None,
        memory: None,
        memory_unseen: None,
        cache: CacheFacts {
            profile: Some("solver".to_owned()),
            solo_llc_mpki: Some(0.1),
            solo_memory_cycles_share: Some(0.02),
            predicted: Some(PredictedFactors { cache: 1.0, hardware_threads: 1.0, memory: 1.0 }),
            ..CacheFacts::default()
        },
        standstill: StandstillFacts::default(),
        wakeups: WakeupFacts::default(),
    }
}

fn waited(on_cpu_s: f64, waiting_s: f64) -> ThreadTime {
    ThreadTime { on_cpu_s, waiting_s: Some(waiting_s), ..ThreadTime::default() }
}

fn blocked(on_cpu_s: f64, blocked_s: f64) -> ThreadTime {
    ThreadTime { on_cpu_s, waiting_s: Some(0.0), blocked_s, ..ThreadTime::default() }
}

fn quota(cpus: f64, throttled_s: f64) -> Option<QuotaFacts> {
    Some(QuotaFacts {
        group: "/system.slice/solver.service".to_owned(),
        file: "/sys/fs/cgroup/system.slice/solver.service/cpu.max".into(),
        cpus,
        period_us: 100_000.0,
        throttled_s,
        throttled_periods_share: 0.9,
    })
}

fn pressure(some_share: f64) -> Option<PressureFacts> {
    Some(PressureFacts {
        group: Some("/a".to_owned()),
        is_of_program_alone: true,
        some_share,
        full_share: some_share / 2.0,
    })
}

fn memory(home_share: f64, far_share: f64, latency_ratio: f64) -> Option<MemoryFacts> {
    Some(MemoryFacts {
        home_node: 1,
        home_share,
        ran_on_node: 0,
        far_share,
        latency_ratio,
        home_cpus: cpus("4-7"),
        may_run_at_home: true,
    })
}

fn factors(cache: f64, hardware_threads: f64, memory: f64) -> Option<PredictedFactors> {
    Some(PredictedFactors { cache, hardware_threads, memory })
}

fn neighbour(factor: f64) -> Vec<Neighbour> {
    vec![Neighbour { pid: 9, profile: "stream".to_owned(), cpu: CpuId(1), factor }]
}

/// What the case is, the cause to be named first, and what differs from [`calm`].
type Case = (&'static str, CauseKind, fn(&mut ProgramFacts));

const CASES: [Case; 20] = [
    ("two on one CPU", CauseKind::WaitingForCpu, |one| one.time = waited(5.0, 5.0)),
    ("four on one CPU", CauseKind::WaitingForCpu, |one| one.time = waited(2.5, 7.5)),
    ("starved and asleep by turns", CauseKind::WaitingForCpu, |one| {
        one.time = ThreadTime { asleep_s: 8.0, ..waited(0.5, 1.5) };
    }),
    ("starved beside a small quota", CauseKind::WaitingForCpu, |one| {
        one.time = waited(3.0, 7.0);
        one.quota = quota(4.0, 0.5);
    }),
    ("half a CPU, the kernel counts no waiting for it", CauseKind::ThrottledByQuota, |one| {
        one.time = waited(5.0, 0.0);
        one.quota = quota(0.5, 5.0);
    }),
    ("half a CPU, the kernel counts it as waiting", CauseKind::ThrottledByQuota, |one| {
        one.time = waited(5.0, 5.0);
        one.quota = quota(0.5, 5.0);
    }),
    ("a tenth of a CPU for four threads", CauseKind::ThrottledByQuota, |one| {
        one.threads = 4;
        one.time = waited(1.0, 39.0);
        // Held back on four CPUs at once.
        one.quota = quota(0.1, 38.0);
    }),
    ("the host has the CPU", CauseKind::StolenByHost, |one| one.stolen_share = 0.4),
    ("swapped out", CauseKind::WaitingForMemory, |one| {
        one.time = blocked(2.0, 8.0);
        one.major_faults_per_s = 900.0;
        one.swapped_bytes = Some(1 << 30);
    }),
    ("held at its group's limit of memory", CauseKind::WaitingForMemory, |one| {
        one.time = blocked(4.0, 6.0);
        one.memory_pressure = pressure(0.6);
        one.io_pressure = pressure(0.1);
    }),
    ("its own code is thrown out and read again", CauseKind::WaitingForMemory, |one| {
        one.time = blocked(6.0, 4.0);
        one.major_faults_per_s = 60.0;
        one.io_pressure = pressure(0.5);
    }),
    ("reads a large file", CauseKind::WaitingForDisk, |one| {
        one.time = blocked(1.0, 9.0);
        one.io_pressure = pressure(0.8);
    }),
    ("waits for its log to be on disk, pressure unknown", CauseKind::WaitingForDisk, |one| {
        one.time = ThreadTime { asleep_s: 5.0, ..blocked(1.0, 4.0) };
    }),
    ("does not fit in any cache", CauseKind::CacheByItsNature, |one| {
        one.cache.solo_memory_cycles_share = Some(0.7);
        one.cache.predicted = factors(1.05, 1.0, 1.1);
    }),
    ("streams alone on the machine", CauseKind::CacheByItsNature, |one| {
        one.cache.solo_memory_cycles_share = Some(0.4);
        one.cache.predicted = None;
    }),
    ("a stream beside it takes its cache", CauseKind::CacheBecauseOfNeighbour, |one| {
        one.cache.predicted = factors(1.8, 1.0, 1.1);
        one.cache.neighbours = neighbour(1.9);
        one.cache.solo_memory_cycles_share = Some(0.1);
    }),
    ("memory's bandwidth is used up", CauseKind::CacheBecauseOfNeighbour, |one| {
        one.cache.predicted = factors(1.0, 1.0, 1.6);
        one.cache.neighbours = neighbour(1.5);
        one.cache.solo_memory_cycles_share = Some(0.2);
    }),
    ("on small cores", CauseKind::SlowCore, |one| {
        one.cores = Some(CoreFacts { speed: 0.45, slow_share: 1.0, fast_cpus: cpus("0-3") });
    }),
    ("all its memory on the other node", CauseKind::FarNode, |one| {
        one.memory = memory(0.97, 0.97, 2.1);
        one.cache = CacheFacts { llc_mpki: Some(0.5), ..CacheFacts::default() };
    }),
    ("half of its memory on the other node", CauseKind::PagesElsewhere, |one| {
        one.memory = memory(0.55, 0.55, 1.7);
        one.cache = CacheFacts { llc_mpki: Some(0.5), ..CacheFacts::default() };
    }),
];

#[test]
fn the_right_cause_is_named_first_in_twenty_cases() {
    for (what, expected, change) in CASES {
        let mut facts = calm();
        change(&mut facts);
        let found = diagnose(&facts);
        let kinds: Vec<CauseKind> = found.causes.iter().map(|cause| cause.kind).collect();
        assert_eq!(kinds.first(), Some(&expected), "{what}: {kinds:?}, {}", found.verdict);
        let share = found.causes[0].lost.share();
        assert!((0.05..=1.0).contains(&share), "{what}: {share}");
        // Each cause says what would help.
        let helps = found.causes[0].advice.iter().all(|one| !one.command.is_empty());
        assert!(helps && !found.causes[0].advice.is_empty(), "{what}");
    }
}

/// What the case is, what cannot be told first of all, and what differs from [`calm`].
type OpenCase = (&'static str, UnknownKind, fn(&mut ProgramFacts));

const OPEN_CASES: [OpenCase; 5] = [
    ("no counters and no profile", UnknownKind::Cache, |one| one.cache = CacheFacts::default()),
    ("it misses, and nobody knows whether it would alone", UnknownKind::CacheOrNeighbour, |one| {
        one.cache = CacheFacts { llc_mpki: Some(25.0), ..CacheFacts::default() };
    }),
    ("asleep", UnknownKind::Sleep, |one| {
        one.time = ThreadTime { asleep_s: 10.0, ..waited(0.0, 0.0) };
    }),
    ("another user's memory", UnknownKind::Memory, |one| {
        one.memory_unseen = Some("Permission denied".to_owned());
    }),
    ("a kernel that counts no waiting", UnknownKind::WaitingForCpu, |one| {
        one.time = ThreadTime { on_cpu_s: 5.0, asleep_s: 5.0, ..ThreadTime::default() };
    }),
];

#[test]
fn five_cases_cannot_be_told() {
    for (what, expected, change) in OPEN_CASES {
        let mut facts = calm();
        change(&mut facts);
        let found = diagnose(&facts);
        assert!(found.cannot_tell(), "{what}: {found:?}");
        assert_eq!(found.unknown[0].kind, expected, "{what}: {found:?}");
        assert!(found.verdict.starts_with("Cannot tell why solver is slow: "), "{}", found.verdict);
        assert_eq!(found.verdict.contains("it slept by its own wish"), what == "asleep");
        assert!(!found.unknown[0].advice.is_empty(), "{what}");
    }
}

/// Half of its active time was waiting, and that was 10 ms of 10 s.
#[test]
fn a_program_that_nearly_always_sleeps_has_no_other_cause() {
    let mut facts = calm();
    facts.time = ThreadTime { asleep_s: 9.98, ..waited(0.01, 0.01) };
    facts.cache = CacheFacts::default();
    let found = diagnose(&facts);
    let unknown: Vec<UnknownKind> = found.unknown.iter().map(|one| one.kind).collect();
    assert_eq!((found.causes.len(), unknown), (0, vec![UnknownKind::Sleep]), "{found:?}");
}

#[test]
fn nothing_is_wrong_with_a_calm_program() {
    let found = diagnose(&calm());
    assert_eq!((found.causes.len(), found.unknown.len()), (0, 0), "{found:?}");
    assert!(found.verdict.contains("Nothing here slows solver down"), "{}", found.verdict);
}

/// 10 s: 4 on CPUs, 3 held back and 3 more of waiting, of which the kernel says 6 of waiting.
#[test]
fn time_held_back_is_not_counted_twice() {
    let mut facts = calm();
    facts.time = waited(4.0, 6.0);
    facts.quota = quota(0.5, 3.0);
    let found = diagnose(&facts);
    let shares: Vec<f64> = found.causes.iter().map(|cause| cause.lost.share()).collect();
    assert_eq!(shares, [0.3, 0.3]);
    let kinds = [found.causes[0].kind, found.causes[1].kind];
    assert_eq!(kinds, [CauseKind::WaitingForCpu, CauseKind::ThrottledByQuota]);
    assert!(found.causes[1].advice[0].command.contains("CPUQuota=100%"), "{found:?}");
    // A group that is no unit has a file to write to, which is another one in version 1 of cgroups.
    let command = |group: &str, file: &str| {
        let mut facts = facts.clone();
        let quota = facts.quota.as_mut().unwrap();
        (quota.group, quota.file) = (group.to_owned(), file.into());
        diagnose(&facts).causes[1].advice[0].command.clone()
    };
    assert_eq!(command("/a", "/g/a/cpu.max"), "echo '100000 100000' > /g/a/cpu.max");
    assert_eq!(
        command("/a", "/g/cpu/a/cpu.cfs_quota_us"),
        "echo 100000 > /g/cpu/a/cpu.cfs_quota_us"
    );
}

/// Far memory at twice the latency: a program that waits for memory in 60 % of its cycles takes 1.6 times as long, and
/// without a profile nobody knows more than that it takes 2 times as long at most.
#[test]
fn far_memory_costs_what_the_program_waits_for_memory() {
    let mut facts = calm();
    facts.memory = memory(1.0, 1.0, 2.0);
    facts.cache.solo_memory_cycles_share = Some(0.6);
    let far = |facts: &ProgramFacts| {
        let causes = diagnose(facts).causes;
        causes.into_iter().find(|cause| cause.kind == CauseKind::FarNode).unwrap()
    };
    let LostShare::Predicted(share) = far(&facts).lost else { panic!("a profile is known") };
    assert!((share - (1.0 - 1.0 / 1.6)).abs() < 1e-12, "{share}");
    facts.cache = CacheFacts::default();
    let LostShare::AtMost(share) = far(&facts).lost else { panic!("no profile is known") };
    assert!((share - 0.5).abs() < 1e-12, "{share}");
    // Where it may not run at home, its pages have to come.
    facts.memory.as_mut().unwrap().may_run_at_home = false;
    assert!(far(&facts).advice[0].command.starts_with("migratepages 7"));
}

#[test]
fn waiting_that_samples_tell_is_no_measurement() {
    let mut facts = calm();
    facts.time = waited(5.0, 5.0);
    assert_eq!(diagnose(&facts).causes[0].lost, LostShare::Measured(0.5));
    facts.time.waiting_is_sampled = true;
    let found = diagnose(&facts);
    assert_eq!(found.causes[0].lost, LostShare::Estimated(0.5));
    assert!(found.verdict.ends_with("50 % of its active time, estimated from samples."));
}

/// systemd escapes a dash of a name by a backslash, which a shell would take away; anybody names a group of their own.
#[test]
fn names_in_commands_are_single_words_to_a_shell() {
    let mut facts = calm();
    facts.time = waited(4.0, 6.0);
    facts.quota = quota(0.5, 3.0);
    facts.place.cgroups = vec![CpuGroup {
        path: r"/system.slice/a\x2db.service".to_owned(),
        file: "/sys/fs/cgroup/x/cpu.weight".into(),
        is_weighed: true,
        may_be_weighed: true,
        weight: Some(100.0),
    }];
    let commands = |facts: &ProgramFacts| -> Vec<String> {
        let causes = diagnose(facts).causes;
        causes.iter().map(|cause| cause.advice[0].command.clone()).collect()
    };
    assert_eq!(
        commands(&facts)[0],
        r#"systemctl set-property --runtime "a\\x2db.service" CPUWeight=1000"#
    );
    let quota = facts.quota.as_mut().unwrap();
    (quota.group, quota.file) = ("/a;b".to_owned(), "/g/a;b $(c)/cpu.max".into());
    assert_eq!(commands(&facts)[1], "echo '100000 100000' > '/g/a;b $(c)/cpu.max'");
}

#[test]
fn advice_names_the_idle_cpus_and_every_process() {
    let mut facts = calm();
    facts.time = waited(5.0, 5.0);
    facts.may_run_on = cpus("0");
    facts.idle_cpus = cpus("2-3");
    let cause = &diagnose(&facts).causes[0];
    assert_eq!(cause.advice[0].command, "taskset -a -cp 0,2-3 7");
    assert_eq!(cause.advice[0].does, "lets it run on CPUs 2-3 too, which are idle");
    assert_eq!(cause.found, "Runnable and without a CPU for 5.00 s, beside 5.00 s on CPU 0.");
    facts.idle_cpus = cpus("3");
    let does = &diagnose(&facts).causes[0].advice[0].does;
    assert_eq!(does, "lets it run on CPU 3 too, which is idle");
    facts.idle_cpus = cpus("2-3");
    facts.pids = vec![7, 8];
    let command = &diagnose(&facts).causes[0].advice[0].command;
    assert_eq!(command, "for pid in 7 8; do taskset -a -cp 0,2-3 $pid; done");
}

/// A busy CPU more is worth a share of it: without this only the competitor would be told to give way.
#[test]
fn a_pin_is_named_where_no_other_cpu_is_idle() {
    let mut facts = calm();
    facts.time = waited(5.0, 5.0);
    facts.may_run_on = cpus("0");
    facts.barred_cpus = cpus("1");
    let cause = &diagnose(&facts).causes[0];
    assert!(cause.found.contains("It may not run on CPU 1"), "{}", cause.found);
    assert_eq!(cause.advice[0].command, "taskset -a -cp 0-1 7");
    assert!(cause.advice[0].does.contains("others keep busy"), "{}", cause.advice[0].does);
    facts.idle_cpus = cpus("1");
    let does = &diagnose(&facts).causes[0].advice[0].does;
    assert_eq!(does, "lets it run on CPU 1 too, which is idle");
}

/// Its own profile is known: what is to be recorded is who runs beside it.
#[test]
fn of_a_neighbour_without_a_profile_the_neighbour_is_recorded() {
    let mut facts = calm();
    facts.cache.unknown_neighbours = vec!["rustc".to_owned(), "web server".to_owned()];
    let unknown = &diagnose(&facts).unknown[0];
    assert!(unknown.why.ends_with("rustc, web server"), "{}", unknown.why);
    let commands: Vec<&str> = unknown.advice.iter().map(|one| one.command.as_str()).collect();
    let expected = [
        "corun profile -o rustc.toml -- rustc ARGUMENTS",
        "corun explain 7 --profiles 'rustc.toml,shipped'",
    ];
    assert_eq!(commands, expected);
}

/// The policy needs counters, and refuses to start where nothing counts.
#[test]
fn the_policy_that_is_advised_runs_with_and_without_counters() {
    let mut facts = calm();
    facts.cache.predicted =
        Some(PredictedFactors { cache: 1.5, hardware_threads: 1.0, memory: 1.0 });
    let command = |facts: &ProgramFacts| {
        let cause = &diagnose(facts).causes[0];
        assert_eq!(cause.kind, CauseKind::CacheBecauseOfNeighbour);
        cause.advice.last().unwrap().command.clone()
    };
    assert_eq!(command(&facts), "corun top --policy corun --counters model -p 7");
    facts.cache.ipc = Some(1.2);
    assert_eq!(command(&facts), "corun top --policy corun -p 7");
    facts.cache.is_modelled = true;
    assert_eq!(command(&facts), "corun top --policy corun --counters model -p 7");
}

#[test]
fn the_profiles_that_were_asked_for_are_asked_for_again() {
    let mut facts = calm();
    facts.cache.profiles = Some("my lib".to_owned());
    facts.cache.solo_memory_cycles_share = Some(0.5);
    facts.cache.predicted =
        Some(PredictedFactors { cache: 1.5, hardware_threads: 1.0, memory: 1.0 });
    facts.cache.unknown_neighbours = vec!["rustc".to_owned()];
    let found = diagnose(&facts);
    let commands = |advice: &[Advice]| advice.last().unwrap().command.clone();
    let mut all: Vec<String> = found.causes.iter().map(|one| commands(&one.advice)).collect();
    all.push(commands(&found.unknown[0].advice));
    let expected = [
        "corun profiles show solver --machine this --profiles 'my lib'",
        "corun top --policy corun --counters model --profiles 'my lib' -p 7",
        "corun explain 7 --profiles 'rustc.toml,my lib'",
    ];
    assert_eq!(all, expected);
}

#[test]
fn what_helps_says_how_it_is_taken_back() {
    let mut facts = calm();
    facts.time = waited(5.0, 5.0);
    facts.may_run_on = cpus("0");
    facts.idle_cpus = cpus("2-3");
    let other = |nice, threads| Competitor {
        pid: 9,
        name: "batch".to_owned(),
        cpus_busy: 1.0,
        nice,
        may_be_given_back: true,
        is_weighed: true,
        threads,
        place: SchedulingPlace::default(),
    };
    facts.competitors = vec![other(0, 1)];
    let advice = diagnose(&facts).causes[0].advice.clone();
    assert_eq!(advice[0].undo.as_deref(), Some("taskset -a -cp 0 7"));
    let renice = |advice: &Advice| (advice.command.clone(), advice.undo.clone().unwrap());
    let typed = |command: &str, undo: &str| (command.to_owned(), undo.to_owned());
    assert_eq!(renice(&advice[1]), typed("renice -n 10 -p 9", "renice -n 0 -p 9"));
    // Threads that may run on different CPUs have no affinity that could be given back to all.
    facts.all_may_run_on_same = false;
    facts.competitors = vec![other(10, 4)];
    let advice = diagnose(&facts).causes[0].advice.clone();
    assert_eq!(advice[0].undo, None);
    let threads = "-p $(ls /proc/9/task)";
    let expected = (format!("renice -n 19 {threads}"), format!("renice -n 10 {threads}"));
    assert_eq!(renice(&advice[1]), expected);
    facts.competitors = vec![other(19, 1)];
    assert_eq!(diagnose(&facts).causes[0].advice[1].command, "corun top");
    facts.time = waited(5.0, 5.0);
    facts.quota = quota(0.5, 5.0);
    let causes = diagnose(&facts).causes;
    let quota = causes.iter().find(|one| one.kind == CauseKind::ThrottledByQuota).unwrap();
    let set = |of| format!("systemctl set-property --runtime solver.service CPUQuota={of}%");
    assert_eq!(renice(&quota.advice[0]), (set(100), set(50)));
}

#[test]
fn a_program_without_a_profile_is_recorded_by_its_own_command_line() {
    let mut facts = calm();
    facts.cache = CacheFacts::default();
    let commands = |facts: &ProgramFacts| -> Vec<String> {
        diagnose(facts).unknown[0].advice.iter().map(|one| one.command.clone()).collect()
    };
    assert_eq!(commands(&facts)[0], "corun profile -o mine.toml -- PROGRAM ARGUMENTS");
    facts.command = Some(["/opt/my solver", "-x", "a b"].map(str::to_owned).to_vec());
    assert_eq!(
        commands(&facts)[..2],
        [
            "corun profile -o 'my solver.toml' -- '/opt/my solver' -x 'a b'",
            "corun explain 7 --profiles 'my solver.toml,shipped' --profile 'my solver'"
        ]
    );
    // From the folder in which the program's own relative names are meant.
    facts.command_folder = Some("/srv/the data".into());
    facts.command = Some(["./solver", "in"].map(str::to_owned).to_vec());
    assert_eq!(
        commands(&facts)[0],
        "cd '/srv/the data' && corun profile -o solver.toml -- ./solver in"
    );
    let long = vec!["solver".to_owned(), "x".repeat(400)];
    facts = ProgramFacts { command: Some(long), command_folder: None, ..facts };
    assert_eq!(commands(&facts)[0], "corun profile -o solver.toml -- PROGRAM ARGUMENTS");
}

/// As read in a guest of dd and awk, which go through more memory than their groups may have, with swap in compressed
/// memory: no sample found them blocked, and they were on their CPUs all the time.
#[test]
fn pages_that_come_from_compressed_memory_are_paid_for_on_the_cpu() {
    for (faults, swapped, share) in [(10_399.8, 42_328_064, 0.419), (1732.8, 15_519_744, 0.261)] {
        let mut facts = calm();
        facts.cache = CacheFacts::default();
        facts.major_faults_per_s = faults;
        facts.swapped_bytes = Some(swapped);
        facts.memory_pressure =
            Some(PressureFacts { full_share: share, ..pressure(share).unwrap() });
        let first = &diagnose(&facts).causes[0];
        assert_eq!(first.kind, CauseKind::WaitingForMemory);
        assert!(
            matches!(first.lost, LostShare::Estimated(lost) if (lost - share).abs() < 1e-9),
            "{first:?}"
        );
        // A kernel that counts no pressure leaves a bound: all time in the kernel.
        facts.memory_pressure = None;
        facts.time.in_kernel_s = 6.0;
        let first = &diagnose(&facts).causes[0];
        assert_eq!((first.kind, first.lost), (CauseKind::WaitingForMemory, LostShare::AtMost(0.6)));
    }
}

#[test]
fn pressure_counts_as_far_as_it_is_the_programs() {
    let named = |change: fn(&mut ProgramFacts)| {
        let mut facts = calm();
        facts.memory_pressure = Some(PressureFacts { full_share: 0.0, ..pressure(0.4).unwrap() });
        change(&mut facts);
        diagnose(&facts).causes.first().map(|cause| (cause.kind, cause.lost.share()))
    };
    let short = |share| Some((CauseKind::WaitingForMemory, share));
    assert_eq!(named(|_| ()), short(0.4));
    let share_group = |facts: &mut ProgramFacts, full_share: f64| {
        let pressure = facts.memory_pressure.as_mut().unwrap();
        (pressure.is_of_program_alone, pressure.full_share) = (false, full_share);
    };
    // Of a group with other processes, some of which waited.
    assert_eq!(
        named(|facts| (facts.memory_pressure.as_mut().unwrap()).is_of_program_alone = false),
        None
    );
    let mut facts = calm();
    facts.memory_pressure = pressure(0.4);
    share_group(&mut facts, 0.2);
    // All of which waited for a fifth of the time.
    assert_eq!(diagnose(&facts).causes[0].lost, LostShare::Estimated(0.2));
    // The machine's pressure says nothing of a program without page faults.
    facts.memory_pressure.as_mut().unwrap().group = None;
    assert!(diagnose(&facts).causes.is_empty());
    facts.major_faults_per_s = 577.0;
    assert_eq!(diagnose(&facts).causes[0].lost, LostShare::Estimated(0.4));
}

/// Pages of a file that come for the first time are page faults too, without pressure on memory.
#[test]
fn a_file_that_is_mapped_and_read_is_a_disks_matter() {
    let mut facts = calm();
    facts.time = blocked(5.0, 5.0);
    facts.major_faults_per_s = 300.0;
    facts.memory_pressure = pressure(0.0);
    facts.io_pressure = pressure(0.5);
    assert_eq!(diagnose(&facts).causes[0].kind, CauseKind::WaitingForDisk);
    facts.memory_pressure = pressure(0.3);
    assert_eq!(diagnose(&facts).causes[0].kind, CauseKind::WaitingForMemory);
}

/// Of little activity a large share is still little.
#[test]
fn the_verdict_on_a_program_that_mostly_sleeps_says_so() {
    let mut facts = calm();
    facts.time = ThreadTime { asleep_s: 9.5, ..waited(0.2, 0.3) };
    let verdict = diagnose(&facts).verdict;
    assert!(verdict.ends_with("60 % of its active time, measured; it slept for 95 % of the time."));
}

/// A limit of 48 MiB on a machine that has memory to spare.
#[test]
fn a_limit_of_memory_that_was_reached_is_named_and_raised() {
    let mut facts = calm();
    facts.time = blocked(4.0, 6.0);
    facts.major_faults_per_s = 60.0;
    facts.memory_limit = Some(MemoryLimitFacts {
        group: "/kubepods/pod1".to_owned(),
        file: "/sys/fs/cgroup/kubepods/pod1/memory.max".into(),
        bytes: 48 << 20,
        used_bytes: 48 << 20,
        times_reached: 321,
        available_bytes: Some(4 << 30),
    });
    let cause = |facts: &ProgramFacts| diagnose(facts).causes.remove(0);
    let found = cause(&facts);
    assert_eq!(found.kind, CauseKind::WaitingForMemory);
    let said = "/kubepods/pod1 may have 48 MiB, and wanted more 321 times meanwhile, while the machine has 4096 MiB left.";
    assert!(found.found.ends_with(said), "{}", found.found);
    let [first] = found.advice.as_slice() else { panic!("{found:?}") };
    let file = "/sys/fs/cgroup/kubepods/pod1/memory.max";
    assert_eq!(first.command, format!("echo 100663296 > {file}"));
    assert_eq!(first.undo, Some(format!("echo 50331648 > {file}")));
    // A unit has its limit from systemd, by the name of the limit that was reached.
    let limit = facts.memory_limit.as_mut().unwrap();
    limit.group = "/system.slice/db.service".to_owned();
    limit.file = "/sys/fs/cgroup/system.slice/db.service/memory.high".into();
    let command = &cause(&facts).advice[0].command;
    assert_eq!(command, "systemctl set-property --runtime db.service MemoryHigh=100663296");
    // Where the machine has nothing left, a larger limit gives nothing.
    facts.memory_limit.as_mut().unwrap().available_bytes = Some(10 << 20);
    let found = cause(&facts);
    assert!(found.advice[0].command.starts_with("ps "), "{found:?}");
}
