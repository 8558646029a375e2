//! Over a made-up `/proc`, where every case can be had, and over the real one.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use corun_linux::facts;
use corun_machine::CpuId;
use corun_policy::ThreadState;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A process in the made-up folder.
#[derive(Clone)]
struct Made {
    pid: u32,
    parent: u32,
    session: u32,
    group: u32,
    flags: u32,
    start: u64,
    stack: u64,
    threads: Vec<u32>,
    state: char,
    arguments: &'static str,
    executable: &'static str,
    cgroup: &'static str,
    user: u32,
}

impl Made {
    fn new(pid: u32, parent: u32) -> Self {
        Self {
            pid,
            parent,
            session: 1,
            group: 1,
            flags: 0x0040_0000,
            start: u64::from(pid) * 10,
            stack: 1,
            threads: vec![pid],
            state: 'S',
            arguments: "sleep\x00100\x00",
            executable: "/usr/bin/sleep",
            cgroup: "0::/user.slice\n",
            user: 1000,
        }
    }

    fn write(&self, proc: &Path) {
        let folder = proc.join(self.pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cmdline"), self.arguments).unwrap();
        fs::write(folder.join("cgroup"), self.cgroup).unwrap();
        let status = format!("Name:\tx\nUid:\t0\t{}\t0\t0\nCpus_allowed_list:\t0-1,4\n", self.user);
        fs::write(folder.join("status"), &status).unwrap();
        let _ = fs::remove_file(folder.join("exe"));
        symlink(self.executable, folder.join("exe")).unwrap();
        for &tid in &self.threads {
            let thread = folder.join(format!("task/{tid}"));
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("stat"), self.stat(tid)).unwrap();
            fs::write(thread.join("status"), &status).unwrap();
            fs::write(thread.join("schedstat"), "5000000 7 3\n").unwrap();
        }
    }

    fn stat(&self, tid: u32) -> String {
        let Self { parent, session, group, flags, start, stack, state, .. } = self;
        let threads = self.threads.len();
        format!(
            "{tid} (a (b) c) {state} {parent} {group} {session} 0 -1 {flags} 1 0 0 0 70 30 0 0 20 5 \
             {threads} 0 {start} 3133440 408 18446744073709551615 1 1 {stack} 0 0 0 0 0 0 0 0 0 17 4 0 0 0 \
             0 0 1 1 1 1 1 1 1 0\n"
        )
    }

    /// Empties the thread's files, as the kernel does when it ends.
    fn end(&self, proc: &Path, tid: u32) {
        let thread = proc.join(format!("{}/task/{tid}", self.pid));
        for file in ["stat", "schedstat"] {
            fs::write(thread.join(file), "").unwrap();
        }
        fs::remove_dir_all(thread).unwrap();
    }
}

fn made_up() -> (TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
    (folder, roots)
}

fn target(name: &str, whom: ProcessSelector) -> Target {
    Target::new(name, whom)
}

fn rule(rule: Rule) -> ProcessSelector {
    ProcessSelector::Rule(rule)
}

fn task(pid: u32) -> Task {
    Task { pid, tid: pid, start_ticks: u64::from(pid) * 10 }
}

fn pids(processes: &mut Processes) -> Vec<(u32, usize)> {
    let threads = processes.scan().unwrap();
    assert!(threads.is_sorted_by_key(|thread| thread.facts.task));
    threads.iter().map(|thread| (thread.facts.task.tid, thread.target)).collect()
}

/// The processes that a rule finds.
fn found(roots: &Roots, wanted: Rule) -> Vec<u32> {
    let mut processes = Processes::new(roots, vec![target("t", rule(wanted))]).unwrap();
    pids(&mut processes).into_iter().map(|(pid, _)| pid).collect()
}

const NONE: [u32; 0] = [];

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn facts_are_as_the_kernel_says_them() {
    let (folder, roots) = made_up();
    Made { threads: vec![7, 8], ..Made::new(7, 1) }.write(folder.path());
    let facts = facts(&roots, 7, 8).unwrap();
    assert_eq!(facts.task, Task { pid: 7, tid: 8, start_ticks: 70 });
    assert_eq!((facts.name.as_str(), facts.cpu, facts.cpu_ns), ("a (b) c", CpuId(4), 5_000_000));
    assert_eq!((facts.wants_cpu, facts.nice), (false, 5));
    assert_eq!((facts.is_real_time, facts.affinity), (false, "0-1,4".parse().unwrap()));
    let gone = corun_linux::facts(&roots, 7, 9).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn without_scheduler_counts_ticks_are_the_time() {
    let (folder, roots) = made_up();
    Made::new(7, 1).write(folder.path());
    fs::remove_file(folder.path().join("7/task/7/schedstat")).unwrap();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    assert_eq!(facts(&roots, 7, 7).unwrap().cpu_ns, 100 * tick_ns);
}

#[test]
fn each_part_of_a_rule_tells_processes_apart() {
    let (folder, roots) = made_up();
    let proc = folder.path();
    let docker = "12:cpuset:/docker/abc/inner\n1:name=systemd:/docker/abc/inner\n0::/\n";
    let nginx = "0::/system.slice/nginx.service\n";
    let java = "/opt/app/bin/java";
    Made {
        cgroup: nginx,
        arguments: "nginx: worker\0",
        executable: "/usr/sbin/nginx (deleted)",
        ..Made::new(11, 1)
    }
    .write(proc);
    Made { cgroup: docker, executable: java, arguments: "java\0-jar\0a.jar\0", ..Made::new(12, 1) }
        .write(proc);
    Made { user: 7, executable: java, arguments: "java\0-jar\0b.jar\0", ..Made::new(13, 1) }
        .write(proc);
    let by = |rule| found(&roots, rule);
    let any = Rule::default;
    assert_eq!(by(any()), NONE);
    assert_eq!(by(Rule { pid: Some(12), ..any() }), [12]);
    assert_eq!(by(Rule { user: text("7"), ..any() }), [13]);
    assert_eq!(by(Rule { command: text("nginx"), ..any() }), [11]);
    assert_eq!(by(Rule { command: text("/opt/*/bin/java"), ..any() }), [12, 13]);
    assert_eq!(by(Rule { command: text("/opt/*/java"), ..any() }), NONE);
    assert_eq!(by(Rule { command: text("ja?a"), arguments: text("*-jar b.jar"), ..any() }), [13]);
    assert_eq!(by(Rule { cgroup: text("docker/*"), ..any() }), [12]);
    assert_eq!(by(Rule { cgroup: text("/docker/abc/"), ..any() }), [12]);
    assert_eq!(by(Rule { cgroup: text("/docker/ab"), ..any() }), NONE);
    assert_eq!(by(Rule { cgroup: text("/"), ..any() }), [11, 12, 13]);
    assert_eq!(by(Rule { unit: text("nginx"), ..any() }), [11]);
    assert_eq!(by(Rule { unit: text("system.slice"), ..any() }), [11]);
    assert_eq!(by(Rule { unit: text("ngin"), ..any() }), NONE);
    assert_eq!(by(Rule { pid: Some(12), command: text("nginx"), ..any() }), NONE);
}

#[test]
fn nobody_becomes_a_unit_of_the_system_by_a_name() {
    let (folder, roots) = made_up();
    let own = "0::/user.slice/user-7.slice/user@7.service/app.slice/postgresql.service\n";
    Made { cgroup: "0::/system.slice/postgresql.service\n", ..Made::new(11, 1) }
        .write(folder.path());
    Made { cgroup: own, ..Made::new(12, 1) }.write(folder.path());
    let by = |unit| found(&roots, Rule { unit: text(unit), ..Rule::default() });
    assert_eq!(by("postgresql"), [11]);
    assert_eq!(by("app.slice"), NONE);
    assert_eq!(by("user@7.service"), [12]);
    let path = "/user.slice/*/user@7.service/*/postgresql.service";
    assert_eq!(found(&roots, Rule { cgroup: text(path), ..Rule::default() }), [12]);
}

#[test]
fn a_command_line_is_read_when_a_program_starts_and_not_at_each_look() {
    let (folder, roots) = made_up();
    let mut made = Made { arguments: "java\0-jar\0a.jar\0", ..Made::new(7, 1) };
    made.write(folder.path());
    let whom = rule(Rule { arguments: text("*b.jar"), ..Rule::default() });
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    assert_eq!(pids(&mut processes), []);
    // A program that writes its own text once it has started.
    made.arguments = "java b.jar\0";
    made.write(folder.path());
    assert!((0..4).any(|_| !pids(&mut processes).is_empty()));
    for _ in 0..100 {
        pids(&mut processes);
    }
    // Later on the same program's text is not read again..
    made.arguments = "java c.jar\0";
    made.write(folder.path());
    for _ in 0..2 * MOST_ROUNDS_UNSEEN {
        assert_eq!(pids(&mut processes), [(7, 0)]);
    }
    // .. until the process executes another program, whose stack is elsewhere.
    made.stack = 2;
    made.write(folder.path());
    for _ in 0..MOST_ROUNDS_UNSEEN {
        pids(&mut processes);
    }
    assert_eq!(pids(&mut processes), []);
}

#[test]
fn of_a_long_command_line_the_beginning_is_matched() {
    let (folder, roots) = made_up();
    let long: &'static str = Box::leak(format!("worker\0{}--last", "x".repeat(3 << 20)).into());
    Made { arguments: long, ..Made::new(7, 1) }.write(folder.path());
    let by = |pattern| found(&roots, Rule { arguments: text(pattern), ..Rule::default() });
    assert_eq!(by("worker*"), [7]);
    assert_eq!(by("*--last"), NONE);
}

#[test]
fn kernel_threads_zombies_and_corun_itself_are_never_followed() {
    let (folder, roots) = made_up();
    Made { flags: 0x0020_8040, ..Made::new(5, 2) }.write(folder.path());
    Made { state: 'Z', ..Made::new(6, 1) }.write(folder.path());
    Made::new(7, 1).write(folder.path());
    Made::new(8, 1).write(folder.path());
    symlink("7", folder.path().join("self")).unwrap();
    assert_eq!(found(&roots, Rule { command: text("*"), ..Rule::default() }), [8]);
}

#[test]
fn the_first_target_that_means_a_process_has_it() {
    let (folder, roots) = made_up();
    Made::new(7, 1).write(folder.path());
    Made::new(8, 1).write(folder.path());
    let one = rule(Rule { pid: Some(8), ..Rule::default() });
    let all = rule(Rule { command: text("sleep"), ..Rule::default() });
    let targets = vec![target("one", one), target("all", all)];
    let mut processes = Processes::new(&roots, targets).unwrap();
    assert_eq!(pids(&mut processes), [(7, 1), (8, 0)]);
}

#[test]
fn a_bad_pattern_and_an_unknown_user_are_said() {
    let roots = Roots::default();
    let fails = |wanted| Processes::new(&roots, vec![target("t", rule(wanted))]).unwrap_err();
    let bad = fails(Rule { command: text("[a"), ..Rule::default() });
    assert!(bad.to_string().starts_with("command: `[a` is no pattern"), "{bad}");
    let bad = fails(Rule { user: text("no-such-user"), ..Rule::default() });
    assert!(bad.to_string().contains("`no-such-user`"), "{bad}");
}

#[test]
fn threads_come_and_go() {
    let (folder, roots) = made_up();
    let proc = folder.path();
    let mut made = Made { threads: vec![7, 8, 9], ..Made::new(7, 1) };
    made.write(proc);
    let whom = rule(Rule { pid: Some(7), ..Rule::default() });
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    let tids = |processes: &mut Processes| -> Vec<u32> {
        pids(processes).into_iter().map(|(tid, _)| tid).collect()
    };
    assert_eq!(tids(&mut processes), [7, 8, 9]);
    // One ends as another starts: the count stays.
    made.end(proc, 8);
    made.threads = vec![7, 9, 10];
    made.write(proc);
    assert_eq!(tids(&mut processes), [7, 9, 10]);
    // The same number, another thread: the old one's files end.
    fs::write(proc.join("7/task/10/stat"), "").unwrap();
    fs::remove_dir_all(proc.join("7/task/10")).unwrap();
    made.start = 999;
    made.threads = vec![10];
    made.write(proc);
    let last = processes.scan().unwrap();
    let last = last.iter().find(|thread| thread.facts.task.tid == 10).unwrap();
    assert_eq!(last.facts.task.start_ticks, 999);
    for tid in [7, 9, 10] {
        made.end(proc, tid);
    }
    fs::remove_dir_all(proc.join("7")).unwrap();
    assert_eq!(tids(&mut processes), NONE);
    assert_eq!(processes.known.len(), 0);
}

#[test]
fn descent_is_followed_through_orphans_and_sessions() {
    let (folder, roots) = made_up();
    let proc = folder.path();
    Made::new(50, 1).write(proc);
    Made::new(60, 50).write(proc);
    // Its number is lower than its parent's.
    Made::new(20, 60).write(proc);
    Made::new(90, 1).write(proc);
    let whom = ProcessSelector::Descendants(task(50));
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    assert_eq!(pids(&mut processes), [(20, 0), (50, 0), (60, 0)]);
    // 60 makes a session and ends; 20 is init's now. 70 was 60's child and nobody saw it so.
    Made { session: 60, group: 60, ..Made::new(60, 50) }.write(proc);
    pids(&mut processes);
    fs::remove_dir_all(proc.join("60")).unwrap();
    Made { parent: 1, ..Made::new(20, 1) }.write(proc);
    Made { session: 60, group: 60, ..Made::new(70, 1) }.write(proc);
    assert_eq!(pids(&mut processes), [(20, 0), (50, 0), (70, 0)]);
    // A child of an orphan.
    Made::new(71, 20).write(proc);
    assert_eq!(pids(&mut processes), [(20, 0), (50, 0), (70, 0), (71, 0)]);
    // Once nobody of the session is left, its number means nothing.
    fs::remove_dir_all(proc.join("70")).unwrap();
    pids(&mut processes);
    pids(&mut processes);
    Made { session: 60, group: 60, ..Made::new(72, 1) }.write(proc);
    assert_eq!(pids(&mut processes), [(20, 0), (50, 0), (71, 0)]);
}

#[test]
fn another_process_of_the_same_number_is_not_the_target() {
    let (folder, roots) = made_up();
    let whom = ProcessSelector::Descendants(Task { start_ticks: 1, ..task(50) });
    Made::new(50, 1).write(folder.path());
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    assert!(pids(&mut processes).is_empty());
}

#[test]
fn a_process_that_becomes_another_program_is_found_in_time() {
    let (folder, roots) = made_up();
    let mut made = Made::new(7, 1);
    made.write(folder.path());
    let whom = rule(Rule { command: text("java"), ..Rule::default() });
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    for _ in 0..40 {
        assert!(pids(&mut processes).is_empty());
    }
    made.executable = "/usr/bin/java";
    made.write(folder.path());
    let rounds = (1..).find(|_| !pids(&mut processes).is_empty()).unwrap();
    assert!(rounds <= MOST_ROUNDS_UNSEEN, "{rounds}");
}

#[test]
fn a_target_that_comes_later_gets_who_was_nobodys_at_the_next_look() {
    let (folder, roots) = made_up();
    Made::new(7, 1).write(folder.path());
    Made::new(9, 1).write(folder.path());
    let by_number = rule(Rule { pid: Some(7), ..Rule::default() });
    let mut processes = Processes::new(&roots, vec![target("t", by_number)]).unwrap();
    for _ in 0..100 {
        assert_eq!(pids(&mut processes), [(7, 0)]);
    }
    let by_command = rule(Rule { command: text("sleep"), ..Rule::default() });
    processes.add(target("u", by_command)).unwrap();
    assert_eq!(pids(&mut processes), [(7, 0), (9, 1)]);
}

#[test]
fn a_folder_that_is_no_proc_is_said() {
    let roots = Roots { proc: "/nonexistent".into(), ..Roots::default() };
    let error = Processes::new(&roots, vec![]).unwrap().scan().unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent: "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a file of /proc holds, reading it ends well.
    #[test]
    fn any_bytes_are_read(stat in any::<Vec<u8>>(), other in any::<Vec<u8>>()) {
        let (folder, roots) = made_up();
        let made = Made::new(7, 1);
        made.write(folder.path());
        let process = folder.path().join("7");
        fs::write(process.join("task/7/stat"), stat).unwrap();
        fs::write(process.join("cgroup"), &other).unwrap();
        fs::write(process.join("cmdline"), &other).unwrap();
        let _ = facts(&roots, 7, 7);
        found(&roots, Rule { cgroup: text("a*"), arguments: text("*"), ..Rule::default() });
    }
}

/// A process that is ended with its group when the test is over.
struct Started(Child);

impl Started {
    fn shell(script: &str) -> Self {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }

    fn task(&self) -> Task {
        facts(&Roots::default(), self.0.id(), self.0.id()).unwrap().task
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Scans until something holds; the machine may be busy.
fn scan_until(
    processes: &mut Processes,
    holds: impl Fn(&[ScannedThread]) -> bool,
) -> Vec<ScannedThread> {
    for _ in 0..3000 {
        let threads = processes.scan().unwrap();
        if holds(&threads) {
            return threads;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not come about within 30 s");
}

#[test]
fn real_processes_are_followed_with_their_orphans() {
    let started =
        Started::shell("(sleep 1000 & sleep 1000 & exec sh -c 'exit 0'); exec sleep 1000");
    let whom = ProcessSelector::Descendants(started.task());
    let mut processes = Processes::new(&Roots::default(), vec![target("t", whom)]).unwrap();
    let three_sleep = |threads: &[ScannedThread]| {
        threads.len() == 3 && threads.iter().all(|thread| thread.facts.name == "sleep")
    };
    let threads = scan_until(&mut processes, three_sleep);
    let own = rustix::thread::sched_getaffinity(None).unwrap();
    for thread in &threads {
        assert_eq!(thread.facts.affinity.len(), own.count() as usize);
        assert!(!thread.facts.is_real_time);
    }
    drop(started);
    scan_until(&mut processes, |threads| threads.is_empty());
}

#[test]
fn real_time_on_a_cpu_is_counted() {
    let started = Started::shell("while :; do :; done");
    let whom = rule(Rule { pid: Some(started.0.id()), ..Rule::default() });
    let mut processes = Processes::new(&Roots::default(), vec![target("t", whom)]).unwrap();
    let first = processes.scan().unwrap()[0].facts.cpu_ns;
    let later = |threads: &[ScannedThread]| threads[0].facts.cpu_ns > first + 20_000_000;
    let thread = &scan_until(&mut processes, later)[0];
    assert_eq!(thread.state, ThreadState::Running);
}

#[test]
fn this_process_is_never_its_own_target() {
    let own = rule(Rule { pid: Some(std::process::id()), ..Rule::default() });
    let mut processes = Processes::new(&Roots::default(), vec![target("t", own)]).unwrap();
    assert!(pids(&mut processes).is_empty());
}

/// Files of this process's threads that this process has open.
fn open_thread_files() -> usize {
    let task = format!("/proc/{}/task/", std::process::id());
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with(&task)).count()
}

/// Held by tests that open or count the files of this process's own threads.
pub(super) static OWN_THREAD_FILES: Mutex<()> = Mutex::new(());

#[test]
fn a_storm_of_threads_leaks_nothing() {
    let _alone = OWN_THREAD_FILES.lock().unwrap_or_else(PoisonError::into_inner);
    // The real files of this process, in a folder that does not say that it is corun's own.
    let (folder, roots) = made_up();
    let pid = std::process::id();
    symlink(format!("/proc/{pid}"), folder.path().join(pid.to_string())).unwrap();
    let whom = rule(Rule { pid: Some(pid), ..Rule::default() });
    let mut processes = Processes::new(&roots, vec![target("t", whom)]).unwrap();
    let over = AtomicBool::new(false);
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..250 {
                let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(|| {})).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            most = most.max(processes.scan().unwrap().len());
        }
    });
    assert!(most > 0);
    // Those of the test's own threads and of other tests remain.
    let threads = processes.scan().unwrap().len();
    assert!(open_thread_files() <= 2 * threads, "{} > 2 x {threads}", open_thread_files());
    assert_eq!(processes.budget.used(), 2 * threads as u64);
    drop(processes);
    assert_eq!(open_thread_files(), 0);
}
