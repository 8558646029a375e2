//! Threads that come and go faster than anybody looks, under a host that acts on them.
//!
//! They belong to a second process, this very program started again: nothing that other tests start
//! can be taken for one of them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::{Rule, Which, restore};

/// Set in the second process.
const STORM: &str = "CORUN_TEST_STORM";
/// Threads that start in a second, as far as the machine keeps up.
const THREADS_PER_S: u64 = 2000;
const STORM_TIME: Duration = Duration::from_secs(3);
/// Rounds of the host at least, however slow the machine.
const ROUNDS: usize = 40;
/// Threads that stay.
const STAY: usize = 4;
/// Threads that hand on to another.
const RELAYS: usize = 4;

/// The second process: threads that live from 0 to 20 ms, every fourth with one of its own, until
/// a byte comes, and relays; then what stays sleeps until nobody listens. Without the variable it is
/// a test like the others, of one that starts nothing.
#[test]
fn the_storm() {
    if std::env::var_os(STORM).is_none() {
        return;
    }
    static LIVING: AtomicU64 = AtomicU64::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    fn live(number: u64) {
        if number.is_multiple_of(4) {
            start(number / 4 + 1);
        }
        std::thread::sleep(Duration::from_millis([0, 1, 3, 20][number as usize % 4]));
    }
    fn start(number: u64) {
        LIVING.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || {
            live(number);
            LIVING.fetch_sub(1, Ordering::SeqCst);
        });
    }
    // Each starts the next when it ends: whoever is let go may have handed on what he had.
    fn relay() {
        std::thread::sleep(Duration::from_millis(5));
        if !OVER.load(Ordering::SeqCst) {
            std::thread::spawn(relay);
        }
    }
    for _ in 0..RELAYS {
        std::thread::spawn(relay);
    }
    for _ in 0..STAY {
        std::thread::spawn(|| {
            loop {
                std::thread::park()
            }
        });
    }
    let storm = std::thread::spawn(|| {
        let begin = Instant::now();
        let mut started = 0;
        while !OVER.load(Ordering::SeqCst) {
            start(started);
            started += 1;
            let due = Duration::from_micros(started * 1_000_000 / THREADS_PER_S);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        started
    });
    let mut stdin = std::io::stdin();
    let _ = stdin.read(&mut [0]);
    OVER.store(true, Ordering::SeqCst);
    let started = storm.join().unwrap();
    while LIVING.load(Ordering::SeqCst) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A thread ends a moment after it has said so.
    std::thread::sleep(Duration::from_millis(50));
    eprintln!("{started}");
    let _ = stdin.read(&mut [0]);
    std::process::exit(0);
}

struct Storm {
    child: Child,
    stdin: ChildStdin,
    said: BufReader<ChildStderr>,
    _stdout: ChildStdout,
}

impl Storm {
    fn begin() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "host::tests::storm::the_storm",
                "--exact",
                "--nocapture",
                "--test-threads",
                "1",
            ])
            .env(STORM, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let _stdout = child.stdout.take().unwrap();
        Self { child, stdin, said, _stdout }
    }

    /// Ends it; how many threads it had started.
    fn end(&mut self) -> u64 {
        self.stdin.write_all(b".").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().parse().unwrap_or_else(|_| panic!("the storm said: {line}"))
    }

    /// The threads that it has now.
    fn threads(&self) -> Vec<TaskFacts> {
        let pid = self.child.id();
        let list = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let numbers = list.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.filter_map(|tid| facts(&Roots::default(), pid, tid).ok()).collect()
    }

    /// Files of its threads that this process has open.
    fn open_files(&self) -> usize {
        let below = format!("/proc/{}/", self.child.id());
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with(&below)).count()
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host that holds all threads of the storm on what it is told.
struct Watch {
    storm: Storm,
    host: Host,
    journals: PathBuf,
    cpus: Arc<Mutex<CpuSet>>,
    before: CpuSet,
    _folder: tempfile::TempDir,
}

impl Watch {
    /// None, and a word about it, where this process may run on one CPU alone.
    fn begin() -> Option<Self> {
        let roots = Roots::default();
        let own = std::process::id();
        let before = facts(&roots, own, own).unwrap().affinity;
        if before.len() < 2 {
            eprintln!("skipped: one CPU alone");
            return None;
        }
        let storm = Storm::begin();
        let rule = ProcessSelector::Rule(Rule { pid: Some(storm.child.id()), ..Rule::default() });
        let cpus = Arc::new(Mutex::new(before.clone()));
        let mut host = Host::new(
            Arc::new(preset("xeon-x5365").unwrap()),
            vec![Box::new(HoldOn(cpus.clone()))],
            Box::new(Processes::new(&roots, vec![Target::new("storm", rule)]).unwrap()),
            vec![Box::new(TenMisses)],
            vec![Box::new(PlacementActuator::new(&roots))],
            roots.clone(),
            HostOptions::default(),
        )
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let journals = folder.path().join("corun");
        host.act_under(Journal::create(&journals, &roots).unwrap());
        Some(Self { storm, host, journals, cpus, before, _folder: folder })
    }

    /// Rounds that hold all threads on one CPU and on another by turns; how many threads they saw
    /// come, and how many changes they made.
    fn rounds(&mut self) -> (usize, usize) {
        let begin = Instant::now();
        let (mut rounds, mut arrived, mut made) = (0, 0, 0);
        let places: Vec<CpuId> = self.before.iter().take(2).collect();
        while begin.elapsed() < STORM_TIME || rounds < ROUNDS {
            *self.cpus.lock().unwrap() = CpuSet::from_iter([places[rounds % 2]]);
            let round = self.host.tick().unwrap();
            arrived += round.arrived;
            let done = |one: &&Decision| matches!(one.verdict, Verdict::Done(_));
            made += round.decisions.iter().filter(done).count();
            for one in &round.decisions {
                if let Verdict::Failed(why) = &one.verdict {
                    assert!(why.ends_with("it is no more"), "{why}");
                }
            }
            rounds += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        (arrived, made)
    }

    /// Threads in the table, known by their tasks and in held cgroups, and processes.
    fn sizes(&self) -> [usize; 4] {
        let [tasks, grouped, processes] = self.host.backend.sizes();
        [self.host.runtime.table().len(), tasks, grouped, processes]
    }

    /// Undoes all; everybody is where the user allowed it to be, whenever it was born.
    fn undo(&mut self) {
        let undone = self.host.undo();
        let failed = undone.iter().find(|one| one.outcome.is_err());
        assert!(failed.is_none(), "{failed:?}");
        for one in self.storm.threads() {
            assert_eq!(one.affinity, self.before, "{}", one.task);
        }
        assert_eq!(std::fs::read_dir(&self.journals).unwrap().count(), 0);
        assert_eq!(restore(&self.journals, &Roots::default(), Which::All).unwrap(), []);
    }
}

#[test]
fn a_storm_of_threads_leaves_nothing_behind() {
    let Some(mut watch) = Watch::begin() else { return };
    let (arrived, made) = watch.rounds();
    let started = watch.storm.end();
    assert!(arrived > ROUNDS && made > ROUNDS && started > 0, "{arrived} {made} {started}");
    // The last relays may end between two looks.
    let mut there = 0;
    for _ in 0..100 {
        watch.host.tick().unwrap();
        there = watch.storm.threads().len();
        if watch.sizes() == [there, there, 0, 1] {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(there > STAY);
    assert_eq!(watch.sizes(), [there, there, 0, 1], "of {started} threads");
    // Those that stay, and the process itself.
    let open = watch.storm.open_files();
    assert!(open <= 2 * there + 8, "{open} files of {there} threads are open");
    let journal = std::fs::read_dir(&watch.journals).unwrap().next().unwrap().unwrap();
    let bytes = journal.metadata().unwrap().len();
    assert!(bytes < 3 << 20, "the journal has {bytes} bytes after {started} threads");
    watch.undo();
    println!("{started} threads, {arrived} seen, {made} changes, {bytes} bytes of journal");
}

#[test]
fn what_is_undone_amidst_a_storm_stays_undone() {
    let Some(mut watch) = Watch::begin() else { return };
    for _ in 0..ROUNDS / 4 {
        let first = watch.before.first().unwrap();
        *watch.cpus.lock().unwrap() = CpuSet::from_iter([first]);
        watch.host.tick().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    watch.undo();
    assert!(watch.storm.end() > 0);
    for one in watch.storm.threads() {
        assert_eq!(one.affinity, watch.before, "{}", one.task);
    }
}
