//! The controller of one LLC: who has how many cores and ways, and the state machine that changes them.

use std::collections::VecDeque;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::ProcessId;

/// What is handed out, in units: a core, and a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Cores,
    Ways,
}

impl Resource {
    /// The next on the wheel.
    fn next(self) -> Self {
        match self {
            Self::Cores => Self::Ways,
            Self::Ways => Self::Cores,
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Cores => "core",
            Self::Ways => "way",
        }
    }
}

/// Resources on the wheel.
const RESOURCES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The thresholds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Slack below which a service gets more.
    pub(super) upsize: f64,
    /// Slack above which it gives something back.
    pub(super) downsize: f64,
    /// Readings after a change before it is judged.
    pub(super) readings: u32,
    /// Readings that the mean slack is of.
    pub(super) smoothed: usize,
    /// Readings after a change that was taken back before the service gives something back again.
    pub(super) rest: u32,
}

/// What there is on an LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) cores: u32,
    pub(super) ways: u32,
    /// The fewest ways of a partition.
    pub(super) least_ways: u32,
    /// Are there programs that are no services? A core and a partition of ways are left to them.
    pub(super) best_effort: bool,
}

/// A service.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub(super) process: ProcessId,
    /// Its cores, by place among those of the LLC.
    pub(super) cores: Vec<u32>,
    pub(super) ways: u32,
    /// Where its wheel stands; none before its first change.
    wheel: Option<(Direction, Resource)>,
    /// Its slack by the last readings that said something, the newest last.
    slacks: VecDeque<f64>,
    /// Its slack by the last reading; none where that said nothing.
    pub(super) slack: Option<f64>,
    /// Readings until it may give something back.
    rest: u32,
}

impl Tenant {
    fn mean_slack(&self) -> Option<f64> {
        let sum: f64 = self.slacks.iter().sum();
        (!self.slacks.is_empty()).then(|| sum / self.slacks.len() as f64)
    }

    /// Its slack now and its mean slack; none where the last reading said nothing.
    fn both(&self) -> Option<(f64, f64)> {
        Some((self.slack?, self.mean_slack()?))
    }

    fn turn_wheel(&mut self) {
        if let Some((_, resource)) = &mut self.wheel {
            *resource = resource.next();
        }
    }
}

/// A change whose effect is being watched.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// Place of the service.
    tenant: usize,
    direction: Direction,
    resource: Resource,
    /// Its slack before.
    before: Option<f64>,
    /// Readings so far, and how many more of them were good than bad.
    readings: u32,
    votes: i32,
}

/// Hands out cores and ways on one LLC.
#[derive(Debug)]
pub(super) struct Division {
    rule: Rule,
    total: Total,
    pub(super) tenants: Vec<Tenant>,
    /// Cores that no service has.
    pub(super) free_cores: Vec<u32>,
    pub(super) free_ways: u32,
    trial: Option<Trial>,
    /// Readings to let pass before the next change.
    pause: u32,
    random: Pcg64Mcg,
    /// The last change, in words.
    pub(super) changed: String,
}

impl Division {
    /// Equal parts for each of the services, and one for all other programs together where there are any. None where
    /// there is no service, or too little for each to have a part.
    pub(super) fn equal(
        services: &[ProcessId],
        total: Total,
        rule: Rule,
        random: Pcg64Mcg,
    ) -> Option<Self> {
        let parts = services.len() as u32 + u32::from(total.best_effort);
        if services.is_empty() || parts > total.cores || parts * total.least_ways > total.ways {
            return None;
        }
        let part = |of: u32, place: u32| of / parts + u32::from(place < of % parts);
        let mut cores = 0..total.cores;
        let tenants: Vec<Tenant> = (0..)
            .zip(services)
            .map(|(place, &process)| Tenant {
                process,
                cores: cores.by_ref().take(part(total.cores, place) as usize).collect(),
                ways: part(total.ways, place),
                wheel: None,
                slacks: VecDeque::new(),
                slack: None,
                rest: 0,
            })
            .collect();
        let given: u32 = tenants.iter().map(|one| one.ways).sum();
        Some(Self {
            rule,
            total,
            tenants,
            free_cores: cores.collect(),
            free_ways: total.ways - given,
            trial: None,
            pause: 0,
            random,
            changed: "equal parts".to_owned(),
        })
    }

    pub(super) fn is_of(&self, services: &[ProcessId]) -> bool {
        self.tenants.iter().map(|one| one.process).eq(services.iter().copied())
    }

    /// Takes over what there is now. Where programs came that are no services and nothing is free, the services with
    /// the most slack make room. False where they cannot, or where the machine is another.
    pub(super) fn adapt(&mut self, total: Total) -> bool {
        if self.total == total {
            return true;
        }
        let is_same_machine = Total { best_effort: total.best_effort, ..self.total } == total;
        self.total = total;
        is_same_machine
            && [Resource::Cores, Resource::Ways]
                .into_iter()
                .all(|resource| self.make_room(resource))
    }

    fn make_room(&mut self, resource: Resource) -> bool {
        while self.lacks_room(resource) {
            let Some(victim) = self.most_slack(resource, None) else { return false };
            self.take(victim, resource);
        }
        true
    }

    fn lacks_room(&self, resource: Resource) -> bool {
        let kept = u32::from(self.total.best_effort);
        match resource {
            Resource::Cores => (self.free_cores.len() as u32) < kept,
            Resource::Ways => self.free_ways < kept * self.total.least_ways,
        }
    }

    /// The service with the most slack that can lose a unit; the first of equals.
    fn most_slack(&self, resource: Resource, but: Option<usize>) -> Option<usize> {
        let mut most: Option<(usize, f64)> = None;
        for (place, one) in self.tenants.iter().enumerate() {
            let slack = one.slack.unwrap_or(f64::NEG_INFINITY);
            let can = Some(place) != but && self.can_lose(one, resource);
            if can && most.is_none_or(|(_, known)| slack > known) {
                most = Some((place, slack));
            }
        }
        most.map(|(place, _)| place)
    }

    /// A reading: the slack of each service, in their order, none where it is not known. Changes what has to change.
    pub(super) fn read(&mut self, slacks: &[Option<f64>]) {
        for (tenant, &slack) in self.tenants.iter_mut().zip(slacks) {
            tenant.rest = tenant.rest.saturating_sub(1);
            tenant.slack = slack;
            if let Some(slack) = slack {
                if tenant.slacks.len() == self.rule.smoothed {
                    tenant.slacks.pop_front();
                }
                tenant.slacks.push_back(slack);
            }
        }
        if let Some(trial) = self.trial.take()
            && !self.judge(trial)
        {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.choose();
    }

    /// One more reading after a change. True once the change is judged.
    fn judge(&mut self, mut trial: Trial) -> bool {
        let vote = match trial.direction {
            Direction::Up => {
                let now = self.tenants[trial.tenant].slack;
                now.zip(trial.before).map(|(now, before)| now > before)
            }
            // Is nobody short of slack?
            Direction::Down => {
                let mut known = self.tenants.iter().filter_map(|one| one.slack).peekable();
                let is_known = known.peek().is_some();
                is_known.then(|| known.all(|slack| slack >= self.rule.upsize))
            }
        };
        trial.readings += 1;
        trial.votes += vote.map_or(0, |good| if good { 1 } else { -1 });
        if trial.readings < self.rule.readings {
            self.trial = Some(trial);
            return false;
        }
        if trial.votes <= 0 {
            self.revert(trial);
        }
        true
    }

    /// A change did no good. What was taken away is given back; what was added stays, and the wheel goes on.
    fn revert(&mut self, trial: Trial) {
        if trial.direction == Direction::Down {
            self.give(trial.tenant, trial.resource);
            self.tenants[trial.tenant].rest = self.rule.rest;
            self.pause = self.rule.readings;
            self.changed = format!("a {} given back: slack was too short", trial.resource.unit());
        }
        self.tenants[trial.tenant].turn_wheel();
    }

    /// Who is to have more, else who can spare something.
    fn choose(&mut self) {
        let Rule { upsize, downsize, .. } = self.rule;
        let figures = || self.tenants.iter().enumerate().map(|(place, one)| (place, one.both()));
        let short = figures()
            .filter_map(|(place, both)| both.map(|both| (place, both)))
            .filter(|(_, (now, mean))| *now < upsize && *mean < upsize)
            .min_by(|(_, one), (_, other)| one.1.total_cmp(&other.1))
            .map(|(place, _)| place);
        if let Some(place) = short {
            self.start(place, Direction::Up);
            return;
        }
        let mut spare: Option<(usize, f64)> = None;
        for (place, both) in figures() {
            let Some((now, mean)) = both else { continue };
            let can = self.tenants[place].rest == 0 && now > downsize && mean > downsize;
            if can && spare.is_none_or(|(_, most)| now > most) {
                spare = Some((place, now));
            }
        }
        if let Some((place, _)) = spare {
            self.start(place, Direction::Down);
        }
    }

    /// Changes one resource of a service: that at which its wheel stands, or the next that can be changed.
    fn start(&mut self, place: usize, direction: Direction) {
        if self.tenants[place].wheel.is_none_or(|(known, _)| known != direction) {
            let drawn = if self.random.random::<bool>() { Resource::Cores } else { Resource::Ways };
            self.tenants[place].wheel = Some((direction, drawn));
        }
        for _ in 0..RESOURCES {
            let Some((_, resource)) = self.tenants[place].wheel else { return };
            let is_done = match direction {
                Direction::Up => self.upsize(place, resource),
                Direction::Down => self.take(place, resource),
            };
            if is_done {
                let before = self.tenants[place].slack;
                self.trial = Some(Trial {
                    tenant: place,
                    direction,
                    resource,
                    before,
                    readings: 0,
                    votes: 0,
                });
                return;
            }
            self.tenants[place].turn_wheel();
        }
    }

    /// A unit more for a service: a free one, else one of the service with the most slack.
    fn upsize(&mut self, place: usize, resource: Resource) -> bool {
        if !self.has_free(resource) {
            let Some(victim) = self.most_slack(resource, Some(place)) else { return false };
            self.take(victim, resource);
            // Two services must not hand the same unit to and fro.
            if self.tenants[victim].wheel == self.tenants[place].wheel {
                self.tenants[victim].turn_wheel();
            }
        }
        self.give(place, resource);
        self.changed = format!("a {} more for the one with the least slack", resource.unit());
        true
    }

    fn has_free(&self, resource: Resource) -> bool {
        let kept = u32::from(self.total.best_effort);
        match resource {
            Resource::Cores => self.free_cores.len() as u32 > kept,
            Resource::Ways => self.free_ways > kept * self.total.least_ways,
        }
    }

    fn can_lose(&self, one: &Tenant, resource: Resource) -> bool {
        match resource {
            Resource::Cores => one.cores.len() > 1,
            Resource::Ways => one.ways > self.total.least_ways,
        }
    }

    /// A free unit goes to a service.
    fn give(&mut self, place: usize, resource: Resource) {
        match resource {
            Resource::Cores => self.tenants[place].cores.extend(self.free_cores.pop()),
            Resource::Ways => {
                let given = self.free_ways.min(1);
                self.free_ways -= given;
                self.tenants[place].ways += given;
            }
        }
    }

    /// A unit of a service becomes free. False where it has none to lose.
    fn take(&mut self, place: usize, resource: Resource) -> bool {
        if !self.can_lose(&self.tenants[place], resource) {
            return false;
        }
        match resource {
            Resource::Cores => self.free_cores.extend(self.tenants[place].cores.pop()),
            Resource::Ways => {
                self.tenants[place].ways -= 1;
                self.free_ways += 1;
            }
        }
        self.changed = format!("a {} less for the one with the most slack", resource.unit());
        true
    }
}
