//! Cgroups that a scheduler in the kernel holds as a whole.

use corun_linux::cgroup::FolderIdentity;

use super::*;
use crate::{ActError, Actuator, Change, PinScope, Refusal};

/// Stands in for the scheduler: holds the cgroup of a thread where the thread is asked to be.
#[derive(Clone, Default)]
struct Kernel {
    made: Arc<Mutex<Vec<String>>>,
    /// It is full: no plan is taken.
    is_full: Arc<AtomicBool>,
    /// It was detached.
    is_detached: Arc<AtomicBool>,
}

impl Actuator for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![ActionKind::Place]
    }

    fn prepare(
        &mut self,
        action: &Action,
        _: &Machine,
        threads: &Threads,
        _: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let Action::Allow { thread, cpus } = action else { panic!("{action:?}") };
        let held = threads.at(threads.index_of(*thread).unwrap()).1.group.clone().unwrap();
        let folder = FolderIdentity { inode: 7, made_ns: None };
        let (group, before, after) = (held.name.to_string(), held.cpus, cpus.clone());
        let is_held = held.is_preferred && before == after;
        let change = Change::PreferGroup { group, folder, before, after };
        Ok((!is_held).then_some(change).into_iter().collect())
    }

    fn make(&mut self, change: &Change) -> Option<Result<(), ActError>> {
        if self.is_full.load(Ordering::Relaxed) {
            return Some(Err(ActError::Gone { what: "room".to_owned() }));
        }
        self.made.lock().unwrap().push(change.to_string());
        Some(Ok(()))
    }

    fn scanned(&mut self, _: &Threads) -> Option<String> {
        self.is_detached.load(Ordering::Relaxed).then(|| "detached".to_owned())
    }
}

fn host(ground: &Ground, told: &Told, kernel: &Kernel) -> Host {
    let mut told = told.clone();
    told.targets[0].pin = PinScope::Cgroup;
    let roots = ground.roots();
    let mut host = Host::new(
        Arc::new(preset("xeon-x5365-2llc").unwrap()),
        vec![Box::new(HoldOn(ground.cpus.clone()))],
        Box::new(told),
        vec![Box::new(TenMisses)],
        vec![Box::new(kernel.clone())],
        roots.clone(),
        HostOptions::default(),
    )
    .unwrap();
    host.act_under(Journal::create(&ground.folder.path().join("journals"), &roots).unwrap());
    host
}

/// Where each thread is held, and where its cgroup is.
fn held(host: &Host) -> Vec<(String, String, bool)> {
    let of = |one: SampledThread<'_>| {
        let group = one.thread.group.as_ref().unwrap();
        (one.view.allowed.to_string(), group.cpus.to_string(), group.is_preferred)
    };
    host.threads().map(of).collect()
}

fn all(count: usize, cpus: &str, is_preferred: bool) -> Vec<(String, String, bool)> {
    vec![(cpus.to_owned(), cpus.to_owned(), is_preferred); count]
}

#[test]
fn who_is_born_in_a_cgroup_that_the_kernel_holds_has_its_cpus() {
    // Numbers that no process has: their cgroup cannot be read, and they share the one without a name.
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let (ground, kernel) = (Ground::new("2"), Kernel::default());
    let mut host = host(&ground, &told, &kernel);
    host.tick().unwrap();
    assert_eq!(held(&host), all(1, "2", true));
    told.threads.lock().unwrap().push(thread(4_000_000, 4_000_001, "0-3"));
    host.tick().unwrap();
    assert_eq!(held(&host), all(2, "2", true));
    assert_eq!(*kernel.made.lock().unwrap(), ["preferred CPUs of cgroup : 0-3 to 2"]);
    // Its affinity is its own: it did not change, so that nobody else changed it either.
    assert!(host.threads().all(|one| !one.thread.left_alone));
    ground.tell("1");
    host.tick().unwrap();
    assert_eq!(held(&host), all(2, "1", true));
    // Where the kernel has no room for it, the cgroup stays where it was.
    kernel.is_full.store(true, Ordering::Relaxed);
    ground.tell("3");
    host.tick().unwrap();
    assert_eq!(held(&host), all(2, "1", true));
    kernel.is_full.store(false, Ordering::Relaxed);
    assert!(host.undo().is_empty(), "what ends with corun is in no journal");
    assert_eq!(held(&host), all(2, "0-3", false));
}

#[test]
fn a_cgroup_that_the_kernel_never_held_is_as_it_was() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let (ground, kernel) = (Ground::new("2"), Kernel::default());
    kernel.is_full.store(true, Ordering::Relaxed);
    let mut host = host(&ground, &told, &kernel);
    host.tick().unwrap();
    assert_eq!(held(&host), all(1, "0-3", false));
}

#[test]
fn a_scheduler_that_was_detached_holds_no_cgroup() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let (ground, kernel) = (Ground::new("2"), Kernel::default());
    let mut host = host(&ground, &told, &kernel);
    host.tick().unwrap();
    kernel.is_detached.store(true, Ordering::Relaxed);
    kernel.is_full.store(true, Ordering::Relaxed);
    host.tick().unwrap();
    assert_eq!(held(&host), all(1, "0-3", false));
}
