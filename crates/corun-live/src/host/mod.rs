//! The policies' host on this machine: gives them a view, carries their plans out.

mod accumulate;
mod care;
mod carry_out;
mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use corun_machine::{CpuSet, Machine};
use corun_policy::{
    Action, ActionKind, CounterKind, Event, Interval, Nanoseconds, Plan, Policy, Rates, ThreadId,
    ThreadView, View,
};

use self::accumulate::Accumulated;
use self::care::Care;
use crate::{
    Actuator, Change, Followed, Journal, LiveError, Processes, Reading, Restored, Roots, Source,
    Target,
};

/// Finds the threads to schedule.
pub trait Follow: Send {
    /// The programs that the host was told to schedule.
    fn targets(&self) -> &[Target];

    /// All their threads now, ascending by task.
    ///
    /// # Errors
    /// When the kernel's list of processes cannot be read at all.
    fn scan(&mut self) -> Result<Vec<Followed>, LiveError>;

    /// One more program to schedule.
    ///
    /// # Errors
    /// When it says nothing that a process could be known by.
    fn add(&mut self, target: Target) -> Result<(), LiveError>;

    /// The CPUs that were on line when it scanned last; none where the running kernel is to say.
    fn online(&self) -> Option<CpuSet> {
        None
    }
}

impl Follow for Processes {
    fn targets(&self) -> &[Target] {
        self.targets()
    }

    fn scan(&mut self) -> Result<Vec<Followed>, LiveError> {
        self.scan()
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.add(target)
    }
}

/// How a host works.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOptions {
    /// Time between two looks at the machine where no policy asks for a shorter one.
    pub look_every: Nanoseconds,
    /// The interval of every policy that has one, in place of its own.
    pub interval: Option<Nanoseconds>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { look_every: Nanoseconds(1_000_000_000), interval: None }
    }
}

/// What became of an action that a policy asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It was carried out by these changes.
    Done(Vec<Change>),
    /// All was already as asked.
    AsAsked,
    /// These changes would carry it out; none was made, the host only looks.
    Proposed(Vec<Change>),
    /// It must not or cannot be carried out.
    Refused(String),
    /// It was begun and did not succeed.
    Failed(String),
}

/// An action that a policy asked for, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Nanoseconds,
    /// Whose.
    pub policy: String,
    /// What.
    pub action: Action,
    /// Why, in the policy's words.
    pub reason: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What happened in one look at the machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// When.
    pub now: Nanoseconds,
    /// What the policies asked for.
    pub decisions: Vec<Decision>,
    /// Threads that came.
    pub arrived: usize,
    /// Threads that ended.
    pub exited: usize,
    /// Programs of threads that somebody else moved; they are left alone from now on.
    pub left_alone: Vec<String>,
    /// What could not be read this time, and was left out.
    pub unread: Vec<String>,
}

/// A thread in the host's care, with all that the last look found of it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// As policies see it.
    pub view: &'a ThreadView,
    /// What the kernel says of it, and whose it is.
    pub followed: &'a Followed,
    /// What the sources say of the time since the look before.
    pub reading: &'a Reading,
}

/// The shortest interval that a policy gets: looking at all threads takes a millisecond or so.
const SHORTEST: Nanoseconds = Nanoseconds(5_000_000);

struct Hosted {
    policy: Box<dyn Policy>,
    name: String,
    /// That of its needs.
    own_interval: Option<Nanoseconds>,
    /// The present one.
    interval: Option<Nanoseconds>,
    last: Nanoseconds,
    counted: Accumulated,
    /// What it was shown at its last decision.
    shown: BTreeMap<ThreadId, Rates>,
}

impl Hosted {
    /// Its next interval: what it asks for, unless the user set one. At least [`SHORTEST`].
    fn ask_for_the_next(&mut self, set: Option<Nanoseconds>) {
        if set.is_none() {
            let asked = self.policy.next_interval().map(|asked| asked.max(SHORTEST));
            self.interval = asked.or(self.own_interval);
        }
    }
}

/// Runs policies on this machine. Nothing happens by itself: each [`Host::round`] is one look, and
/// [`Host::next_round`] says when the next is due.
///
/// Without a journal the host only looks: it prepares what a plan asks for, shows it to the policy
/// as if it were done, and changes nothing.
pub struct Host {
    machine: Arc<Machine>,
    hosted: Vec<Hosted>,
    owners: Vec<(ActionKind, usize)>,
    follow: Box<dyn Follow>,
    sources: Vec<Box<dyn Source>>,
    actuators: Vec<Box<dyn Actuator>>,
    journal: Option<Arc<Mutex<Journal>>>,
    roots: Roots,
    options: HostOptions,
    care: Care,
    /// Of the last look, in the order of the threads.
    readings: Vec<Reading>,
    started: Instant,
}

impl Host {
    /// Checks that this machine gives the policies what they need. The host only looks until
    /// [`Self::act_under`].
    ///
    /// # Errors
    /// When a policy needs a counter that no source gives or an action that no actuator carries
    /// out, when two policies need the same kind of action, and when a policy's interval is 0.
    pub fn new(
        machine: Arc<Machine>,
        policies: Vec<Box<dyn Policy>>,
        follow: Box<dyn Follow>,
        sources: Vec<Box<dyn Source>>,
        actuators: Vec<Box<dyn Actuator>>,
        roots: Roots,
        options: HostOptions,
    ) -> Result<Self, LiveError> {
        let mut owners: Vec<(ActionKind, usize)> = Vec::new();
        let mut hosted = Vec::new();
        for (place, mut policy) in policies.into_iter().enumerate() {
            let name = policy.name().to_owned();
            if let Some(why) = policy.unfit_for(&machine) {
                return Err(LiveError::Unfit { policy: name, why });
            }
            checks::controls(policy.as_mut(), &actuators)?;
            let needs = policy.needs();
            checks::counters(&name, &needs, &sources)?;
            for &kind in &needs.controls {
                if let Some(&(_, owner)) = owners.iter().find(|(owned, _)| *owned == kind) {
                    let first: &Hosted = &hosted[owner];
                    let first = first.name.clone();
                    return Err(LiveError::TwoOwners { first, second: name, kind });
                }
                owners.push((kind, place));
            }
            let interval = checks::interval(&name, needs.interval, &machine, options.interval)?;
            hosted.push(Hosted {
                policy,
                name,
                own_interval: interval,
                interval,
                last: Nanoseconds(0),
                counted: Accumulated::default(),
                shown: BTreeMap::new(),
            });
        }
        let care = Care::new(&machine, &roots);
        let started = Instant::now();
        Ok(Self {
            machine,
            hosted,
            owners,
            follow,
            sources,
            actuators,
            journal: None,
            roots,
            options,
            care,
            readings: Vec::new(),
            started,
        })
    }

    /// From now on plans are carried out, each written into this journal before.
    pub fn act_under(&mut self, journal: Journal) {
        self.journal = Some(Arc::new(Mutex::new(journal)));
    }

    /// Does it only look?
    pub fn is_dry_run(&self) -> bool {
        self.journal.is_none()
    }

    /// The machine that it schedules.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Time since it was made.
    pub fn now(&self) -> Nanoseconds {
        Nanoseconds(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Schedules one more program from now on.
    ///
    /// # Errors
    /// As [`Follow::add`].
    pub fn follow(&mut self, target: Target) -> Result<(), LiveError> {
        self.follow.add(target)
    }

    /// When the next round is due: at the end of the first interval to end, and at least as often
    /// as [`HostOptions::look_every`].
    pub fn next_round(&self) -> Nanoseconds {
        let looked = self.care.looked_at();
        let due =
            self.hosted.iter().filter_map(|one| Some(Nanoseconds(one.last.0 + one.interval?.0)));
        let look = Nanoseconds(looked.map_or(0, |at| at.0 + self.options.look_every.0));
        due.fold(look, Nanoseconds::min).max(looked.unwrap_or_default())
    }

    /// Threads in its care, as the policies see them, with what was counted last.
    pub fn threads(&self) -> &[ThreadView] {
        self.care.views()
    }

    /// The threads in its care, ascending by id, with what the last look found.
    pub fn seen(&self) -> impl Iterator<Item = Seen<'_>> {
        let threads = self.care.views().iter().zip(self.care.followed());
        let threads = threads.zip(&self.readings);
        threads.map(|((view, followed), reading)| Seen { view, followed, reading })
    }

    /// What its sources count.
    pub fn counters(&self) -> BTreeSet<CounterKind> {
        self.sources.iter().flat_map(|source| source.counters()).collect()
    }

    /// Does a source give figures from stored profiles?
    pub fn knows_profiles(&self) -> bool {
        self.sources.iter().any(|source| source.knows_profiles())
    }

    /// The programs that it was told to schedule.
    pub fn targets(&self) -> &[Target] {
        self.follow.targets()
    }

    /// The CPUs that were on line at the last look.
    pub fn online(&self) -> &CpuSet {
        self.care.online()
    }

    /// Looks once: who came and went, what they did, what the policies want; and does it.
    ///
    /// # Errors
    /// When the processes cannot be listed, when a source can read nothing any more, and when a
    /// policy panics. The caller undoes and stops.
    pub fn round(&mut self) -> Result<Round, LiveError> {
        self.round_at(self.now())
    }

    /// As [`Self::round`], at a moment that is given: for what is not the running machine. Moments
    /// must not go back.
    ///
    /// # Errors
    /// As [`Self::round`].
    pub fn round_at(&mut self, now: Nanoseconds) -> Result<Round, LiveError> {
        let followed = self.follow.scan()?;
        let online = self.follow.online();
        let online = online.unwrap_or_else(|| care::online(&self.roots, &self.machine));
        let mut round = Round { now, ..Round::default() };
        let acting = self.journal.is_some();
        let news = self.care.update(now, followed, self.follow.targets(), &online, acting);
        self.note_inherited(&news.inherited, &mut round);
        round.left_alone = news.left_alone;
        let events = news.events;
        round.arrived = events.iter().filter(|event| matches!(event, Event::Arrived(_))).count();
        round.exited = events.len() - round.arrived;
        self.read(now, &mut round);
        self.expire(now, &mut round);
        for policy in 0..self.hosted.len() {
            self.care.show(&self.hosted[policy].shown);
            for event in &events {
                if let Some(plan) =
                    self.ask(policy, now, |policy, view| policy.on_event(event, view))?
                {
                    self.carry_out(policy, now, plan, &mut round);
                }
            }
            let one = &mut self.hosted[policy];
            let due = one.interval.is_some_and(|interval| now.0 >= one.last.0 + interval.0);
            if due {
                one.shown = one.counted.close();
                one.last = now;
                self.care.show(&one.shown);
                if let Some(plan) =
                    self.ask(policy, now, |policy, view| Some(policy.decide(view)))?
                {
                    self.carry_out(policy, now, plan, &mut round);
                }
                self.hosted[policy].ask_for_the_next(self.options.interval);
            }
        }
        Ok(round)
    }

    /// Undoes everything that it did, newest first.
    pub fn undo(&mut self) -> Vec<Restored> {
        self.care.forget_places();
        self.journal.as_ref().map(|journal| locked(journal).undo(&self.roots)).unwrap_or_default()
    }

    /// What undoes everything while the host itself stands still, from another thread.
    pub fn undoer(&self) -> Undoer {
        Undoer { journal: self.journal.clone(), roots: self.roots.clone() }
    }

    /// Reads all sources. One that fails is left out this time; what it would have said is absent.
    fn read(&mut self, now: Nanoseconds, round: &mut Round) {
        let seconds = self.care.seconds_since_read(now);
        let mut readings = self.care.blank_readings();
        for source in &mut self.sources {
            if let Err(error) = source.read(now, self.care.observed(), &mut readings) {
                round.unread.push(error.to_string());
            }
        }
        self.care.note(seconds, &readings);
        for one in &mut self.hosted {
            one.counted.add(seconds, self.care.observed(), &readings);
        }
        self.readings = readings;
    }

    /// Threads that their makers handed an affinity of ours are undone with the others.
    fn note_inherited(&mut self, inherited: &[Change], round: &mut Round) {
        if let (Some(journal), false) = (&self.journal, inherited.is_empty())
            && let Err(error) = locked(journal).write(inherited)
        {
            round.unread.push(error.to_string());
        }
    }

    /// Changes that are due by time alone.
    fn expire(&mut self, now: Nanoseconds, round: &mut Round) {
        let due: Vec<Change> = self.actuators.iter_mut().flat_map(|one| one.due(now)).collect();
        if due.is_empty() || self.journal.is_none() {
            return;
        }
        for failure in self.change(&due).into_iter().flatten() {
            round.unread.push(failure);
        }
    }

    /// Asks a policy. One that panics must not take the host's duty to restore with it.
    fn ask(
        &mut self,
        policy: usize,
        now: Nanoseconds,
        question: impl FnOnce(&mut dyn Policy, &View<'_>) -> Option<Plan>,
    ) -> Result<Option<Plan>, LiveError> {
        let view = View { machine: &self.machine, threads: self.care.views(), now };
        let one = &mut self.hosted[policy];
        let answer = catch_unwind(AssertUnwindSafe(|| question(one.policy.as_mut(), &view)));
        let answer = answer.map_err(|_| LiveError::PolicyPanicked { policy: one.name.clone() })?;
        match one.policy.failure() {
            None => Ok(answer),
            Some(why) => Err(LiveError::Policy { policy: one.name.clone(), at: now, why }),
        }
    }

    fn owns(&self, policy: usize, kind: ActionKind) -> bool {
        self.owners.contains(&(kind, policy))
    }
}

/// Undoes what a host did. Clones are of the same host.
#[derive(Debug, Clone)]
pub struct Undoer {
    journal: Option<Arc<Mutex<Journal>>>,
    roots: Roots,
}

impl Undoer {
    /// Undoes everything, newest first; none when the journal is in use and stays so for a second.
    /// The host must do nothing any more.
    pub fn undo(&self) -> Option<Vec<Restored>> {
        let Some(journal) = &self.journal else { return Some(Vec::new()) };
        let since = Instant::now();
        loop {
            match journal.try_lock() {
                Ok(mut journal) => return Some(journal.undo(&self.roots)),
                Err(TryLockError::Poisoned(mut poisoned)) => {
                    return Some(poisoned.get_mut().undo(&self.roots));
                }
                Err(TryLockError::WouldBlock) if since.elapsed() > Duration::from_secs(1) => {
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// A journal is whole after every call, so that one that panicked leaves nothing broken.
fn locked(journal: &Mutex<Journal>) -> std::sync::MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The interval of a policy as time.
fn interval_of(interval: Interval, machine: &Machine) -> Option<Nanoseconds> {
    let clocks = machine.core_types().iter().map(|core| core.clock_mhz);
    let fastest_hz = clocks.fold(0.0, f64::max) * 1e6;
    match interval {
        Interval::Never => None,
        Interval::Time(time) => Some(time),
        Interval::Cycles(cycles) => Some(Nanoseconds::from_secs_f64(cycles as f64 / fastest_hz)),
    }
}

#[cfg(test)]
mod tests;
