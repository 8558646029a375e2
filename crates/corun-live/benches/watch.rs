#![allow(unsafe_code)] // getrusage, which is how CPU time is charged.
//! What it costs to watch 256 threads of another process, at one round a second: CPU time by
//! getrusage and memory, beside `perf stat` with the same events where it is installed.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use corun_linux::perf::{Pmus, Sampling};
use corun_linux::{Roots, Task, raise_descriptor_limit};
use corun_live::{ProcessSelector, Processes, Rule, Scanner as _, Target};

const THREADS: usize = 256;
const EVENTS: [&str; 4] = ["task-clock", "context-switches", "cpu-migrations", "page-faults"];
const ROUND: Duration = Duration::from_secs(1);

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("watched") => watched(arguments.next().as_deref() == Some("busy")),
        // Whoever runs all benchmarks as tests wants to know only that they start.
        Some("--test") => {}
        _ => {
            for kind in ["sleeping", "busy"] {
                measure(kind);
            }
        }
    }
}

/// A process of 256 threads that sleep, or that compute for 0.2 ms in 100: half a CPU in all, so that
/// the watcher is not kept waiting.
fn watched(busy: bool) {
    for _ in 1..THREADS {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(if busy { 100 } else { 10_000 }));
                let begin = std::time::Instant::now();
                while busy && begin.elapsed() < Duration::from_micros(200) {}
            }
        });
    }
    loop {
        std::thread::park();
    }
}

fn measure(kind: &str) {
    let own = std::env::current_exe().expect("the kernel knows what runs");
    let started = Command::new(own).args(["watched", kind]).stdin(Stdio::null()).spawn();
    let mut child = started.expect("this program can be started again");
    std::thread::sleep(Duration::from_millis(500));
    let rounds = if std::env::args().any(|one| one == "--quick") { 3 } else { 10 };
    println!("{THREADS} threads, {kind}; {rounds} rounds, one a second; CPU ms a round:");
    let (first, then) = facts(&child, rounds);
    println!("  threads' facts               {then:.3} (the first look {first:.3})");
    println!("  and {} events a thread        {:.3}", EVENTS.len(), events(&child, rounds));
    println!("  memory                       {} kB", memory_kb());
    match perf(&child, rounds) {
        Some(ms) => println!("  perf stat, the same events   {ms:.3}"),
        None => println!("  perf stat                    not installed"),
    }
    child.kill().expect("it is ours");
    child.wait().expect("it was killed");
}

fn processes(child: &Child) -> Processes {
    let rule = Rule { pid: Some(child.id()), ..Rule::default() };
    let target = Target::new("watched", ProcessSelector::Rule(rule));
    Processes::new(&Roots::default(), vec![target]).expect("a rule by pid is sound")
}

/// The first look, in which everything is opened, and one of those after it.
fn facts(child: &Child, rounds: u32) -> (f64, f64) {
    let before = cpu_ms(libc::RUSAGE_SELF);
    let mut processes = processes(child);
    let mut look = || assert_eq!(processes.scan().expect("/proc can be read").len(), THREADS);
    look();
    let opened = cpu_ms(libc::RUSAGE_SELF);
    for _ in 0..rounds {
        std::thread::sleep(ROUND);
        look();
    }
    (opened - before, (cpu_ms(libc::RUSAGE_SELF) - opened) / f64::from(rounds))
}

fn events(child: &Child, rounds: u32) -> f64 {
    raise_descriptor_limit();
    let before = cpu_ms(libc::RUSAGE_SELF);
    let pmus = Pmus::default();
    let events = EVENTS.map(|name| pmus.event(name).expect("the kernel has it"));
    let mut sampling = Sampling::new(events.to_vec()).expect("it can be counted here");
    let mut processes = processes(child);
    for _ in 0..rounds {
        let found = processes.scan().expect("/proc can be read");
        let threads: Vec<Task> = found.iter().map(|one| one.facts.task).collect();
        assert!(sampling.watch(&threads).is_none());
        assert_eq!(sampling.threads(&threads).len(), THREADS);
        std::thread::sleep(ROUND);
    }
    (cpu_ms(libc::RUSAGE_SELF) - before) / f64::from(rounds)
}

/// perf's own CPU time, with its start.
fn perf(child: &Child, rounds: u32) -> Option<f64> {
    let before = cpu_ms(libc::RUSAGE_CHILDREN);
    let mut command = Command::new("perf");
    command.args([
        "stat",
        "--per-thread",
        "-I",
        "1000",
        "-e",
        &EVENTS.join(","),
        "-o",
        "/dev/null",
    ]);
    command.args(["-p", &child.id().to_string(), "--", "sleep", &rounds.to_string()]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| (cpu_ms(libc::RUSAGE_CHILDREN) - before) / f64::from(rounds))
}

fn cpu_ms(of: i32) -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the whole structure; all zeros, too, are one.
    let usage = unsafe {
        libc::getrusage(of, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 * 1e-3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

/// The most memory that this process ever held.
fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc can be read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
