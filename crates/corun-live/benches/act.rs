//! What a decision and its actuation take for 256 threads: `dio` decides by modelled counters, and
//! every affinity is journalled and set by real system calls on threads of other processes. The
//! target is 10 ms.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_linux::Roots;
use corun_live::{
    Host, HostOptions, Journal, ModelledSource, PlacementActuator, ProcessSelector, Processes,
    Rule, Target, Tick, Verdict,
};
use corun_machine::{Machine, MachineSpec};
use corun_model::Model;
use corun_policy::{BuildOptions, Nanoseconds, build};
use corun_profile::Library;

/// As many processes as there are programs, 32 threads each.
const PROGRAMS: [&str; 8] = ["sort", "xz", "gzip", "numpy", "z3", "zstd", "bzip2", "redis"];
const THREADS: usize = 32;
/// DIO's own is a third of a second at 3 GHz; this is for a quicker benchmark.
const INTERVAL: Nanoseconds = Nanoseconds(150_000_000);

/// The first two CPUs of whatever machine this is, each below a cache of its own, so that there is
/// something to decide.
const MACHINE: &str = "
version = 1
name = 'two-caches'
[[core_type]]
name = 'core'
clock_mhz = 3000
[[bandwidth]]
name = 'memory'
kind = 'memory-controller'
stage = 0
peak_mb_per_s = 20000
[[object]]
kind = 'package'
[[object.object]]
kind = 'numa-node'
[[object.object.object]]
kind = 'cache'
level = 2
size_kib = 4096
count = 2
[[object.object.object.object]]
kind = 'core'
";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("watched") => watched(),
        // Whoever runs all benchmarks as tests wants to know only that they start.
        Some("--test") => {}
        _ => measure(),
    }
}

/// Threads that sleep, and wake up just often enough to be seen to run.
fn watched() {
    for _ in 1..THREADS {
        std::thread::spawn(nap);
    }
    nap();
}

fn nap() {
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(5) {}
    }
}

/// Milliseconds of each kind of round.
#[derive(Default)]
struct Figures {
    look: Vec<f64>,
    all_move: Vec<f64>,
    none_move: Vec<f64>,
    undo: Vec<f64>,
}

fn measure() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: one CPU alone, nothing can be moved");
        return;
    }
    let mut children: Vec<Child> = PROGRAMS.iter().map(|_| start()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let folder = tempfile::tempdir().expect("a folder for the journal");
    let ground = Ground::new();
    let mut figures = Figures::default();
    let times = if std::env::args().any(|one| one == "--quick") { 3 } else { 30 };
    for _ in 0..times {
        ground.decide(&children, &folder.path().join("journals"), &mut figures);
    }
    println!("{} threads of {} processes, {times} times; ms:", 8 * THREADS, PROGRAMS.len());
    let all = [
        ("a look, nothing due", &mut figures.look),
        ("look, decision, all 256 moved", &mut figures.all_move),
        ("look, decision, nobody moved", &mut figures.none_move),
        ("all undone", &mut figures.undo),
    ];
    for (what, taken) in all {
        taken.sort_by(f64::total_cmp);
        if let (Some(fastest), Some(median)) = (taken.first(), taken.get(taken.len() / 2)) {
            println!("  {what:<30} fastest {fastest:.2}, median {median:.2}");
        }
    }
    for child in &mut children {
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
    }
}

fn start() -> Child {
    let own = std::env::current_exe().expect("the kernel knows what runs");
    let started = Command::new(own).arg("watched").stdin(Stdio::null()).spawn();
    started.expect("this program can be started again")
}

struct Ground {
    machine: Arc<Machine>,
    model: Arc<Model>,
    library: Library,
}

impl Ground {
    fn new() -> Self {
        let spec: MachineSpec = toml::from_str(MACHINE).expect("the text above is a machine file");
        let machine = Arc::new(Machine::from_spec(spec).expect("its tree is sound"));
        let model = Model::new(machine.clone(), Default::default()).expect("it can be modelled");
        let library = Library::shipped().expect("the shipped profiles are sound");
        Self { machine, model: Arc::new(model), library }
    }

    /// One host from its start to its end: everybody comes, is placed, stays, and is let go.
    fn decide(&self, children: &[Child], journals: &std::path::Path, figures: &mut Figures) {
        let roots = Roots::default();
        let mut host = self.host(children, &roots);
        host.act_under(Journal::create(journals, &roots).expect("the folder is ours"));
        // Moments are given, so that what is due in each round does not hang on how long it took.
        let mut now = Nanoseconds(0);
        let mut round = |host: &mut Host, later: Nanoseconds| {
            std::thread::sleep(Duration::from_nanos(later.0));
            now = Nanoseconds(now.0 + later.0);
            timed(|| host.tick_at(now).expect("/proc can be read"))
        };
        assert_eq!(round(&mut host, Nanoseconds(0)).0.arrived, 8 * THREADS);
        figures.look.push(round(&mut host, Nanoseconds(INTERVAL.0 * 2 / 3)).1);
        let (first, ms) = round(&mut host, Nanoseconds(INTERVAL.0 / 2));
        assert_eq!(moved(&first), 8 * THREADS, "{:?}", first.decisions.first());
        figures.all_move.push(ms);
        let (second, ms) = round(&mut host, INTERVAL);
        // What threads do by the model may change, and with it where they are best off.
        if moved(&second) == 0 {
            figures.none_move.push(ms);
        }
        let (undone, ms) = timed(|| host.undo());
        assert!(undone.iter().all(|one| one.outcome.is_ok()), "{undone:?}");
        figures.undo.push(ms);
    }

    fn host(&self, children: &[Child], roots: &Roots) -> Host {
        let target = |(child, name): (&Child, &&str)| {
            let rule = Rule { pid: Some(child.id()), ..Rule::default() };
            Target {
                profile: Some((*name).into()),
                ..Target::new(*name, ProcessSelector::Rule(rule))
            }
        };
        let targets = children.iter().zip(&PROGRAMS).map(target).collect();
        let load = |name: &&str| {
            let profile = self.library.get(name).expect("it is shipped");
            let program = self.model.load(profile).expect("it can be modelled");
            ((*name).to_owned(), Arc::new(program))
        };
        let programs: BTreeMap<_, _> = PROGRAMS.iter().map(load).collect();
        let dio = build("dio", &BuildOptions::default()).expect("it is in the registry");
        let processes = Processes::new(roots, targets).expect("a rule by pid is sound");
        Host::new(
            self.machine.clone(),
            vec![dio],
            Box::new(processes),
            vec![Box::new(ModelledSource::new(self.model.clone(), programs, 1e10))],
            vec![Box::new(PlacementActuator::new(roots))],
            roots.clone(),
            HostOptions { interval: Some(INTERVAL), ..HostOptions::default() },
        )
        .expect("the model gives what dio needs")
    }
}

fn moved(tick: &Tick) -> usize {
    let done = tick.decisions.iter().filter(|one| matches!(one.verdict, Verdict::Done(_)));
    done.count()
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let done = what();
    (done, begin.elapsed().as_secs_f64() * 1e3)
}
