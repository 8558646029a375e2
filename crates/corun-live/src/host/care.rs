//! The threads in the host's care: who they are, where they may run, who moved them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_policy::{
    CounterKind, Counts, Event, Nanoseconds, ProcessId, Rates, Scope, ScopedRate, ThreadId,
    ThreadView,
};

use crate::act::{group_of, names_of};
use crate::{
    Change, Followed, Held, HeldGroup, Hold, Observed, Reading, Roots, Scheduling, Target, Task,
    TaskFacts,
};

/// What a look at the machine found.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Who came, then who went, each in the order of the threads.
    pub(super) events: Vec<Event>,
    pub(super) left_alone: Vec<String>,
    /// Threads that were born with an affinity that is ours, not the user's.
    pub(super) inherited: Vec<Change>,
}

/// Where a thread is held, beside what others see of it.
#[derive(Debug, Clone)]
struct Place {
    /// Its affinity as corun last set or found it, off-line CPUs and all.
    expected: CpuSet,
    cpu_ns: u64,
}

/// All threads in care; the lists are by ascending id, one entry a thread in each.
#[derive(Debug)]
pub(super) struct Care {
    ids: BTreeMap<Task, ThreadId>,
    processes: BTreeMap<u32, (ProcessId, usize)>,
    /// By name: the threads of each cgroup that is held.
    groups: BTreeMap<Arc<str>, BTreeSet<ThreadId>>,
    held: Vec<Held>,
    observed: Vec<Observed>,
    followed: Vec<Followed>,
    views: Vec<ThreadView>,
    places: Vec<Place>,
    next_thread: u64,
    next_process: u64,
    roots: Roots,
    online: CpuSet,
    looked_at: Option<Nanoseconds>,
    read_at: Option<Nanoseconds>,
}

impl Care {
    pub(super) fn new(machine: &Machine, roots: &Roots) -> Self {
        Self {
            ids: BTreeMap::new(),
            processes: BTreeMap::new(),
            groups: BTreeMap::new(),
            held: Vec::new(),
            observed: Vec::new(),
            followed: Vec::new(),
            views: Vec::new(),
            places: Vec::new(),
            next_thread: 0,
            next_process: 0,
            roots: roots.clone(),
            online: machine.cpu_set(),
            looked_at: None,
            read_at: None,
        }
    }

    pub(super) fn looked_at(&self) -> Option<Nanoseconds> {
        self.looked_at
    }

    pub(super) fn views(&self) -> &[ThreadView] {
        &self.views
    }

    pub(super) fn observed(&self) -> &[Observed] {
        &self.observed
    }

    pub(super) fn followed(&self) -> &[Followed] {
        &self.followed
    }

    pub(super) fn online(&self) -> &CpuSet {
        &self.online
    }

    pub(super) fn held(&self) -> &[Held] {
        &self.held
    }

    /// How many entries each list has that has one a thread, and how many processes there are.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> ([usize; 6], usize) {
        let lists = [
            self.ids.len(),
            self.held.len(),
            self.observed.len(),
            self.followed.len(),
            self.views.len(),
            self.places.len(),
        ];
        (lists, self.processes.len())
    }

    /// Time since the sources were read last, which they are to be now; 0 the first time.
    pub(super) fn seconds_since_read(&mut self, now: Nanoseconds) -> f64 {
        let before = self.read_at.replace(now).unwrap_or(now);
        (now.0 - before.0) as f64 * 1e-9
    }

    /// Takes over what a look at the machine found. `acting`: are plans carried out?
    pub(super) fn update(
        &mut self,
        now: Nanoseconds,
        followed: Vec<Followed>,
        targets: &[Target],
        online: &CpuSet,
        acting: bool,
    ) -> News {
        let mut news = News::default();
        let was_online = std::mem::replace(&mut self.online, online.clone());
        let before = self.looked_at.replace(now);
        let seconds = before.map(|before| (now.0 - before.0) as f64 * 1e-9);
        let mut present = BTreeSet::new();
        for one in followed {
            if one.facts.scheduling == Scheduling::RealTime {
                continue;
            }
            present.insert(one.facts.task);
            match self.ids.get(&one.facts.task) {
                Some(&id) => {
                    let place = self.position(id);
                    self.refresh(place, &one.facts, seconds, &was_online, acting, &mut news);
                    self.followed[place] = one;
                }
                None => self.adopt(one, targets, &mut news),
            }
        }
        self.drop_absent(&present, &mut news);
        news
    }

    fn position(&self, id: ThreadId) -> usize {
        self.held.binary_search_by_key(&id, |held| held.id).expect("ids are those of the threads")
    }

    fn adopt(&mut self, one: Followed, targets: &[Target], news: &mut News) {
        let facts = one.facts.clone();
        let target = &targets[one.target];
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        let process = self.processes.entry(facts.task.pid).or_insert_with(|| {
            self.next_process += 1;
            (ProcessId(self.next_process - 1), 0)
        });
        process.1 += 1;
        let process = process.0;
        let group = (target.hold == Hold::Cgroups).then(|| self.group_of(&facts));
        let may_run_on = match self.inherited_from(&facts, group.as_ref()) {
            Some(theirs) => {
                let (before, after) = (theirs.clone(), facts.affinity.clone());
                if group.is_none() {
                    news.inherited.push(Change::Affinity { task: facts.task, before, after });
                }
                theirs
            }
            None => facts.affinity.clone(),
        };
        self.ids.insert(facts.task, id);
        if let Some(group) = &group {
            self.groups.entry(group.name.clone()).or_default().insert(id);
        }
        self.held.push(Held {
            id,
            task: facts.task,
            program: target.name.clone(),
            may_run_on: may_run_on.clone(),
            allowed: facts.affinity.clone(),
            cpu: facts.cpu,
            left_alone: false,
            group,
        });
        let profile = target.profile.as_deref().unwrap_or(&target.name);
        self.observed.push(Observed {
            id,
            task: facts.task,
            program: Arc::from(profile),
            cpu: facts.cpu,
            state: facts.state,
            cpu_share: None,
        });
        self.views.push(ThreadView {
            weight: weight(facts.nice),
            important: target.important,
            state: facts.state,
            cpu: Some(facts.cpu),
            allowed: facts.affinity.clone(),
            ..ThreadView::new(id, process, &*target.name, &may_run_on.intersection(&self.online))
        });
        self.places.push(Place { expected: facts.affinity, cpu_ns: facts.cpu_ns });
        self.followed.push(one);
        news.events.push(Event::Arrived(id));
    }

    /// The cgroup that a thread is in. One that cannot be read has no name, and is refused when it
    /// is to be held.
    fn group_of(&self, facts: &TaskFacts) -> HeldGroup {
        let name = group_of(&self.roots, &facts.task).ok().flatten().unwrap_or_default();
        let member = self.groups.get(&name).and_then(BTreeSet::first);
        let known = member.and_then(|&id| self.held[self.position(id)].group.clone());
        known.unwrap_or_else(|| HeldGroup { name, cpus: facts.affinity.clone() })
    }

    /// A thread is born with its maker's affinity, and in a cgroup with the group's. Where that is
    /// one that corun set, what the user allowed is what he allowed the maker.
    fn inherited_from(&self, facts: &TaskFacts, group: Option<&HeldGroup>) -> Option<CpuSet> {
        let makers = self.held.iter().zip(&self.places).filter(|(held, place)| {
            let is_maker = match group {
                Some(group) => held.group.as_ref().is_some_and(|one| one.name == group.name),
                None => held.task.pid == facts.task.pid || held.task.pid == facts.parent,
            };
            is_maker
                && !held.left_alone
                && held.may_run_on != place.expected
                && place.expected.intersection(&self.online) == facts.affinity
        });
        makers.map(|(held, _)| held.may_run_on.clone()).next()
    }

    fn refresh(
        &mut self,
        place: usize,
        facts: &TaskFacts,
        seconds: Option<f64>,
        was_online: &CpuSet,
        acting: bool,
        news: &mut News,
    ) {
        let kept = &mut self.places[place];
        let ran_s = facts.cpu_ns.saturating_sub(kept.cpu_ns) as f64 * 1e-9;
        kept.cpu_ns = facts.cpu_ns;
        let share = seconds.filter(|seconds| *seconds > 0.0).map(|s| (ran_s / s).min(1.0));
        let (held, observed, view) =
            (&mut self.held[place], &mut self.observed[place], &mut self.views[place]);
        (held.cpu, observed.cpu, view.cpu) = (facts.cpu, facts.cpu, Some(facts.cpu));
        (observed.state, view.state) = (facts.state, facts.state);
        observed.cpu_share = share;
        view.weight = weight(facts.nice);
        if self.online != *was_online {
            // A CPU that came back shows in the affinity of all that were never barred from it.
            let new = facts.affinity.intersection(&without(&self.online, was_online));
            if kept.expected.is_disjoint(&new) && held.may_run_on == kept.expected {
                held.may_run_on = held.may_run_on.union(&new);
            }
            kept.expected = kept.expected.union(&new);
        }
        let visible = kept.expected.intersection(&self.online);
        if visible.is_empty() {
            // All its CPUs went off line, and the kernel let it run elsewhere.
            kept.expected = facts.affinity.clone();
            held.allowed = facts.affinity.clone();
        } else if visible != facts.affinity && !held.left_alone {
            held.left_alone = true;
            news.left_alone.push(format!(
                "{} (thread {}): somebody set its affinity to {}, it was {visible}",
                held.program, held.task, facts.affinity
            ));
        }
        if held.left_alone {
            kept.expected = facts.affinity.clone();
            held.allowed = facts.affinity.clone();
            held.may_run_on = facts.affinity.clone();
        }
        if acting && held.group.is_none() {
            held.allowed = kept.expected.intersection(&self.online);
        }
        view.may_run_on = held.may_run_on.intersection(&self.online);
        view.allowed = held.allowed.intersection(&self.online);
    }

    fn drop_absent(&mut self, present: &BTreeSet<Task>, news: &mut News) {
        if present.len() == self.ids.len() {
            return;
        }
        let stays: Vec<bool> = self.held.iter().map(|held| present.contains(&held.task)).collect();
        for (held, _) in self.held.iter().zip(&stays).filter(|(_, stays)| !**stays) {
            news.events.push(Event::Exited(held.id));
            self.ids.remove(&held.task);
            let group = held.group.as_ref().map(|group| &group.name);
            if let Some(name) = group
                && let Some(members) = self.groups.get_mut(name)
            {
                members.remove(&held.id);
                if members.is_empty() {
                    self.groups.remove(name);
                }
            }
            if let Some((_, threads)) = self.processes.get_mut(&held.task.pid) {
                *threads -= 1;
                if *threads == 0 {
                    self.processes.remove(&held.task.pid);
                }
            }
        }
        retain(&mut self.held, &stays);
        retain(&mut self.observed, &stays);
        retain(&mut self.followed, &stays);
        retain(&mut self.views, &stays);
        retain(&mut self.places, &stays);
    }

    /// A reading for each thread, of what the kernel says by itself.
    pub(super) fn blank_readings(&self) -> Vec<Reading> {
        let blank = |thread: &Observed| Reading {
            counters: Rates { cpu_share: thread.cpu_share, ..Rates::default() },
            ..Reading::default()
        };
        self.observed.iter().map(blank).collect()
    }

    /// What sources say beside rates: counts since each thread came, from the rates of the last
    /// `seconds`, and the rest.
    pub(super) fn note(&mut self, seconds: f64, readings: &[Reading]) {
        for (view, reading) in self.views.iter_mut().zip(readings) {
            count(&mut view.counts, &reading.counters, seconds);
            view.llc_occupancy_bytes = reading.llc_occupancy_bytes;
            view.solo = reading.solo.or(view.solo);
            if reading.by_ways.is_some() {
                view.by_ways.clone_from(&reading.by_ways);
            }
            view.pages_by_node.clone_from(&reading.pages_by_node);
        }
    }

    /// Shows a policy what was counted for it.
    pub(super) fn show(&mut self, counted: &BTreeMap<ThreadId, Rates>) {
        for view in &mut self.views {
            view.rates = counted.get(&view.id).copied().unwrap_or_default();
        }
    }

    /// A thread is held elsewhere now, or shown so where nothing is carried out.
    pub(super) fn moved(&mut self, task: Task, to: &CpuSet, acting: bool) {
        let Some(&id) = self.ids.get(&task) else { return };
        let place = self.position(id);
        self.held[place].allowed = to.clone();
        self.views[place].allowed = to.clone();
        if acting {
            self.places[place].expected = to.clone();
        }
    }

    /// A thread that is held by its cgroup was sent there.
    pub(super) fn sent(&mut self, thread: ThreadId, to: &CpuSet) {
        let Ok(place) = self.held.binary_search_by_key(&thread, |held| held.id) else { return };
        if self.held[place].group.is_some() {
            let to = to.intersection(&self.held[place].may_run_on);
            self.views[place].allowed = to.clone();
            self.held[place].allowed = to;
        }
    }

    /// Places of the threads in the cgroups whose cpuset the file may be.
    fn members(&self, file: &Path) -> Vec<usize> {
        let groups = names_of(file).filter_map(|name| self.groups.get(name.as_str()));
        groups.flatten().map(|&id| self.position(id)).collect()
    }

    /// A cgroup is held there now, or shown so where nothing is carried out.
    pub(super) fn group_moved(&mut self, file: &Path, to: &CpuSet, acting: bool) {
        for place in self.members(file) {
            if let Some(group) = &mut self.held[place].group {
                group.cpus.clone_from(to);
            }
            if acting {
                self.places[place].expected.clone_from(to);
            }
        }
    }

    /// A cgroup is where it was, and so are its threads; an empty list is all that it may have.
    pub(super) fn group_was_not_moved(&mut self, file: &Path, before: &str) {
        for place in self.members(file) {
            let held = &mut self.held[place];
            let before = before.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty());
            let before = before.unwrap_or_else(|| held.may_run_on.clone());
            if let Some(group) = &mut held.group {
                group.cpus.clone_from(&before);
            }
            held.allowed.clone_from(&before);
            self.views[place].allowed = before.intersection(&self.online);
            self.places[place].expected = before;
        }
    }

    /// Somebody else was quicker.
    pub(super) fn leave_alone(&mut self, task: Task) {
        let Some(&id) = self.ids.get(&task) else { return };
        let place = self.position(id);
        self.held[place].left_alone = true;
    }

    /// Somebody else changed a cgroup.
    pub(super) fn leave_group_alone(&mut self, file: &Path) {
        for place in self.members(file) {
            self.held[place].left_alone = true;
        }
    }

    /// After everything was undone: each thread is where its user allowed it to be.
    pub(super) fn forget_places(&mut self) {
        for place in 0..self.held.len() {
            let own = self.held[place].may_run_on.clone();
            self.places[place].expected = own.clone();
            self.views[place].allowed = own.intersection(&self.online);
            if let Some(group) = &mut self.held[place].group {
                group.cpus = own.clone();
            }
            self.held[place].allowed = own;
        }
    }
}

/// Adds what was counted in `seconds` at these rates. What is not known now keeps its count.
fn count(counts: &mut Counts, rates: &Rates, seconds: f64) {
    use CounterKind as Kind;
    let elapsed = Nanoseconds::from_secs_f64(seconds);
    let stalled = rates.memory_stall_share.zip(rates.cycles_per_s);
    let scoped = |rate: Option<ScopedRate>| rate.map(|rate| (rate.per_s, rate.scope));
    let plain = |per_s: Option<f64>| per_s.map(|per_s| (per_s, Scope::Demand));
    for (kind, rate) in [
        (Kind::Instructions, plain(rates.instructions_per_s)),
        (Kind::Cycles, plain(rates.cycles_per_s)),
        (Kind::LlcReferences, scoped(rates.llc_references)),
        (Kind::LlcMisses, scoped(rates.llc_misses)),
        (Kind::MemoryStalls, plain(stalled.map(|(share, cycles)| share * cycles))),
    ] {
        if let Some((per_s, scope)) = rate {
            counts.add(kind, per_s * seconds, elapsed, scope);
        }
    }
    if let Some(share) = rates.cpu_share {
        let count = counts.cpu_time.get_or_insert_default();
        count.total += share * elapsed.0 as f64;
        count.known.0 += elapsed.0;
    }
}

fn retain<T>(list: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    list.retain(|_| *stays.next().expect("one for each"));
}

fn without(set: &CpuSet, other: &CpuSet) -> CpuSet {
    set.iter().filter(|&cpu| !other.contains(cpu)).collect()
}

/// The weight of a nice value against that of nice 0: a step is 1.25 (`sched_prio_to_weight` in
/// the kernel's `kernel/sched/core.c` rounds the same).
fn weight(nice: i32) -> f64 {
    1.25_f64.powi(-nice)
}

/// The CPUs that are on line; where the kernel does not say, all of the machine.
pub(super) fn online(roots: &Roots, machine: &Machine) -> CpuSet {
    let file = roots.sys.join("devices/system/cpu/online");
    let listed = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    listed.unwrap_or_else(|| machine.cpu_set())
}
