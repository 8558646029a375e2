//! Partitions and caps as groups of resctrl.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;

use corun_linux::resctrl::{
    CacheControl, ControlGroup, ResctrlError, ResctrlInfo, Schemata, SchemataLine, bit_usage,
    control_groups,
};
use corun_linux::sysfs;
use corun_linux::{Roots, Task};
use corun_machine::Machine;
use corun_policy::{Action, ActionKind, CachePart, Nanoseconds, ThreadId};

use super::bandwidth::{cap_of, peak_mb_per_s};
use super::fewer::at_most;
use super::groups::OURS;
use crate::act::{Actuator, Change, Refusal, managed};
use crate::{ManagedThread, Threads};

/// Actions of which it is known what was wanted before them: those of one plan, and of the plan on trial.
const EARLIER: usize = 64;

/// Gives threads ways of the last-level cache, and caps their memory bandwidth.
///
/// A class of service is used by the n-th part of every LLC together, so that partitions of many
/// LLCs take as many classes as the largest has parts. Threads that others have put into groups of
/// theirs stay there.
#[derive(Debug)]
pub struct Resctrl {
    roots: Roots,
    info: ResctrlInfo,
    prefix: String,
    /// When `groups` was read.
    read_at: Option<Nanoseconds>,
    /// The groups as they will be once what was prepared is done.
    groups: BTreeMap<PathBuf, ControlGroup>,
    wanted: Wanted,
    /// What was wanted before each of the last actions.
    earlier: VecDeque<(Action, Wanted)>,
    /// The number of the group of each class that is in use.
    numbers: BTreeMap<Class, usize>,
    /// A line of a group of ours before and after we last set it.
    set: HashMap<(PathBuf, String), [SchemataLine; 2]>,
}

/// What plans have asked for so far.
#[derive(Debug, Clone, Default)]
struct Wanted {
    /// The LLC that a thread's part is of, and the part's place there.
    parts: BTreeMap<ThreadId, (usize, usize)>,
    /// Masks by LLC and place.
    masks: BTreeMap<(usize, usize), u64>,
    caps: BTreeMap<u64, Cap>,
    last_cap: u64,
}

#[derive(Debug, Clone)]
struct Cap {
    threads: Vec<ThreadId>,
    mb_per_s: f64,
}

impl Wanted {
    /// For what an action is about, what was wanted before it is wanted again.
    fn give_back(&mut self, action: &Action, before: &Self) {
        match action {
            Action::Partition { llc, .. } => {
                self.parts.retain(|_, (of, _)| of != llc);
                self.masks.retain(|(of, _), _| of != llc);
                self.parts.extend(before.parts.iter().filter(|(_, (of, _))| of == llc));
                self.masks.extend(before.masks.iter().filter(|((of, _), _)| of == llc));
            }
            Action::CapBandwidth { threads, .. } => {
                for cap in self.caps.values_mut() {
                    cap.threads.retain(|one| !threads.contains(one));
                }
                for (number, cap) in &before.caps {
                    let of_it = cap.threads.iter().filter(|one| threads.contains(one));
                    let new = || Cap { threads: Vec::new(), mb_per_s: cap.mb_per_s };
                    let known = self.caps.entry(*number).or_insert_with(new);
                    known.threads.extend(of_it);
                }
                self.caps.retain(|_, cap| !cap.threads.is_empty());
            }
            _ => {}
        }
    }
}

/// Threads of one class share a group: the place of their part, and their cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    place: Option<usize>,
    cap: Option<u64>,
}

impl Resctrl {
    /// For the machine whose file systems are there.
    ///
    /// # Errors
    /// When resctrl is not mounted there, or is not as the kernel documents it.
    pub fn new(roots: &Roots) -> Result<Self, ResctrlError> {
        Ok(Self {
            roots: roots.clone(),
            info: ResctrlInfo::probe(roots)?,
            prefix: format!("{OURS}{}-", std::process::id()),
            read_at: None,
            groups: BTreeMap::new(),
            wanted: Wanted::default(),
            earlier: VecDeque::new(),
            numbers: BTreeMap::new(),
            set: HashMap::new(),
        })
    }

    /// What resctrl can do here.
    pub fn info(&self) -> &ResctrlInfo {
        &self.info
    }

    /// The groups as they are, once a round; between actions of one plan, as they will be.
    fn look(&mut self, now: Nanoseconds) -> Result<(), Refusal> {
        if self.read_at != Some(now) {
            let read = control_groups(&self.roots);
            self.groups = read.map_err(|error| Refusal(format!("resctrl: {error}")))?;
            self.read_at = Some(now);
        }
        Ok(())
    }

    fn partition(
        &self,
        llc: usize,
        parts: &[CachePart],
        machine: &Machine,
        threads: &Threads,
    ) -> Result<Wanted, Refusal> {
        let domain = self.domain(machine, llc)?;
        for part in parts {
            self.check_mask(part.mask, domain)?;
        }
        let mut wanted = self.wanted.clone();
        wanted.parts.retain(|_, (of, _)| *of != llc);
        wanted.masks.retain(|(of, _), _| *of != llc);
        let mut taken = Vec::new();
        let parts = self.as_classes_allow(parts);
        for part in parts.iter().filter(|part| part.mask != self.whole(domain)) {
            let place = self.place(llc, part, &taken);
            taken.push(place);
            wanted.masks.insert((llc, place), part.mask);
            for &thread in &part.threads {
                managed(threads, thread)?;
                wanted.parts.insert(thread, (llc, place));
            }
        }
        Ok(wanted)
    }

    /// The parts, fewer where there are not as many classes: at least two are worth it, else all
    /// stay apart and are refused.
    fn as_classes_allow(&self, parts: &[CachePart]) -> Vec<CachePart> {
        let is_ours =
            |path: &&PathBuf| path.to_str().is_some_and(|name| name.starts_with(&self.prefix));
        let others = self.groups.keys().filter(|path| !is_ours(path)).count();
        let classes = self.info.num_closids().unwrap_or(0) as usize;
        let most = classes.saturating_sub(others);
        if parts.len() <= most || most < 2 {
            return parts.to_vec();
        }
        let fewer = at_most(parts, most);
        tracing::info!(
            asked = parts.len(),
            made = fewer.len(),
            classes,
            "fewer partitions than asked for: resctrl has no more classes"
        );
        fewer
    }

    /// The place where most of a part's threads are already, or the first that is free.
    fn place(&self, llc: usize, part: &CachePart, taken: &[usize]) -> usize {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for thread in &part.threads {
            if let Some(&(of, place)) = self.wanted.parts.get(thread)
                && of == llc
                && !taken.contains(&place)
            {
                *counts.entry(place).or_default() += 1;
            }
        }
        let most = counts.iter().max_by_key(|(place, count)| (**count, std::cmp::Reverse(**place)));
        most.map(|(place, _)| *place)
            .or_else(|| (0..).find(|place| !taken.contains(place)))
            .unwrap_or_default()
    }

    fn cap(
        &self,
        capped: &[ThreadId],
        mb_per_s: Option<f64>,
        threads: &Threads,
    ) -> Result<Wanted, Refusal> {
        for &thread in capped {
            managed(threads, thread)?;
        }
        let mut wanted = self.wanted.clone();
        for cap in wanted.caps.values_mut() {
            cap.threads.retain(|thread| !capped.contains(thread));
        }
        wanted.caps.retain(|_, cap| !cap.threads.is_empty());
        if let Some(mb_per_s) = mb_per_s {
            wanted.last_cap += 1;
            wanted.caps.insert(wanted.last_cap, Cap { threads: capped.to_vec(), mb_per_s });
        }
        Ok(wanted)
    }

    /// The ways of the root group: what lies beyond them somebody has kept for others. With code and
    /// data apart, those that it may use for both.
    fn whole(&self, domain: u32) -> u64 {
        let Some(root) = self.groups.get(&PathBuf::new()) else { return 0 };
        let line = |cache: &CacheControl| root.schemata.line(&cache.resource)?.value(domain);
        let masks = self.info.llc().into_iter().map(|cache| line(cache).unwrap_or_default());
        masks.reduce(|all, mask| all & mask).unwrap_or_default()
    }

    fn check_mask(&self, mask: u64, domain: u32) -> Result<(), Refusal> {
        let whole = self.whole(domain);
        if mask & !whole != 0 {
            return Err(Refusal(format!(
                "mask {mask:x} has ways beyond {whole:x}, those of resctrl's root group in domain {domain}"
            )));
        }
        for cache in self.info.llc() {
            let (resource, fewest) = (&cache.resource, cache.min_cbm_bits);
            if mask.count_ones() < fewest {
                return Err(Refusal(format!(
                    "{resource} takes no mask of fewer than {fewest} ways"
                )));
            }
            let gaps = (mask >> mask.trailing_zeros().min(63)).trailing_ones() != mask.count_ones();
            if gaps && !cache.sparse_masks {
                return Err(Refusal(format!(
                    "{resource} takes no mask with gaps, such as {mask:x}"
                )));
            }
            let file = self.roots.resctrl.join("info").join(resource).join("bit_usage");
            let usage = std::fs::read_to_string(file).unwrap_or_default();
            let usage = bit_usage(&usage, domain).unwrap_or_default();
            let kept = |(way, letter): (usize, &char)| {
                way < 64 && mask >> way & 1 == 1 && matches!(letter, 'E' | 'P')
            };
            if usage.iter().enumerate().any(kept) {
                return Err(Refusal(format!(
                    "mask {mask:x} has ways of {resource} that somebody else has for himself alone"
                )));
            }
        }
        Ok(())
    }

    /// The kernel's id of an LLC, from sysfs: the number of a domain in schemata.
    fn domain(&self, machine: &Machine, llc: usize) -> Result<u32, Refusal> {
        let unknown = || Refusal(format!("the kernel does not say which cache LLC {llc} is"));
        let cpu = machine.llcs().get(llc).and_then(|llc| llc.cpus.first()).ok_or_else(unknown)?;
        let level =
            self.info.llc().first().map(|cache| &cache.resource[1..2]).ok_or_else(unknown)?;
        sysfs::cache_id(&self.roots, cpu, level).ok_or_else(unknown)
    }

    /// The changes that lead from the groups as they are to what is wanted.
    fn changes(
        &mut self,
        wanted: &Wanted,
        machine: &Machine,
        threads: &Threads,
    ) -> Result<Vec<Change>, Refusal> {
        let mut classes: BTreeMap<Class, Vec<&ManagedThread>> = BTreeMap::new();
        for (view, thread) in threads.iter().filter(|(_, thread)| !thread.left_alone) {
            let cap = wanted.caps.iter().find(|(_, cap)| cap.threads.contains(&view.id));
            let place = wanted.parts.get(&view.id).map(|(_, place)| *place);
            classes.entry(Class { place, cap: cap.map(|(id, _)| *id) }).or_default().push(thread);
        }
        let (mut groups, mut numbers, mut set) =
            (self.groups.clone(), self.numbers.clone(), self.set.clone());
        numbers.retain(|class, _| classes.contains_key(class));
        let (mut made, mut lines, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for (&class, threads) in &classes {
            let mut path = PathBuf::new();
            if class.place.is_some() || class.cap.is_some() {
                let used: Vec<usize> = numbers.values().copied().collect();
                let free = (1..).find(|number| !used.contains(number)).unwrap_or_default();
                let number = *numbers.entry(class).or_insert(free);
                path = format!("{}{number}", self.prefix).into();
                let schemata = self.schemata(class, wanted, machine, threads)?;
                lines.extend(self.group_changes(
                    &path,
                    schemata,
                    &mut groups,
                    &mut set,
                    &mut made,
                )?);
            }
            for thread in threads {
                moved.extend(self.task_change(&thread.task(), &path, &mut groups));
            }
        }
        (self.groups, self.numbers, self.set) = (groups, numbers, set);
        Ok(made.into_iter().chain(lines).chain(moved).collect())
    }

    /// A group as it shall be: made where missing, its lines set where they differ.
    fn group_changes(
        &self,
        path: &PathBuf,
        schemata: Schemata,
        groups: &mut BTreeMap<PathBuf, ControlGroup>,
        set: &mut HashMap<(PathBuf, String), [SchemataLine; 2]>,
        made: &mut Vec<Change>,
    ) -> Result<Vec<Change>, Refusal> {
        let known = groups.get(path).map(|group| group.schemata.clone());
        if known.is_none() {
            self.check_capacity(groups)?;
            made.push(Change::ResctrlGroup { group: path.clone() });
        }
        let mut changes = Vec::new();
        for line in &schemata.lines {
            let before = known.as_ref().and_then(|known| known.line(&line.resource));
            let key = (path.clone(), line.resource.clone());
            if let (Some(before), Some(ours)) = (before, set.get(&key))
                && !ours.contains(before)
            {
                return Err(Refusal(format!(
                    "the schemata of {} are {before} now: somebody else changed them",
                    path.display()
                )));
            }
            if before != Some(line) {
                set.insert(key, [before.unwrap_or(line).clone(), line.clone()]);
                changes.push(Change::ResctrlSchemata {
                    group: path.clone(),
                    before: before.map(ToString::to_string).unwrap_or_default(),
                    after: line.to_string(),
                });
            }
        }
        let tasks = groups.get(path).map(|group| group.tasks.clone()).unwrap_or_default();
        groups.insert(path.clone(), ControlGroup { schemata, tasks });
        Ok(changes)
    }

    fn check_capacity(&self, groups: &BTreeMap<PathBuf, ControlGroup>) -> Result<(), Refusal> {
        let classes = self.info.num_closids().unwrap_or(0) as usize;
        if groups.len() < classes {
            return Ok(());
        }
        let names: Vec<String> = groups
            .keys()
            .map(|path| path.display().to_string())
            .map(|name| if name.is_empty() { "the root".to_owned() } else { name })
            .collect();
        Err(Refusal(format!("resctrl has {classes} classes, all in use: {}", names.join(", "))))
    }

    /// A thread's move to a group, if it is where we may take it from.
    fn task_change(
        &self,
        task: &Task,
        to: &PathBuf,
        groups: &mut BTreeMap<PathBuf, ControlGroup>,
    ) -> Option<Change> {
        let now = groups.iter().find(|(_, group)| group.tasks.contains(&task.tid))?.0.clone();
        let is_ours = now.to_str().is_some_and(|name| name.starts_with(&self.prefix));
        if now == *to || !(is_ours || now.as_os_str().is_empty()) {
            return None;
        }
        groups.get_mut(&now)?.tasks.retain(|tid| *tid != task.tid);
        groups.get_mut(to)?.tasks.push(task.tid);
        Some(Change::ResctrlTask { task: *task, before: now, after: to.clone() })
    }

    /// What a class may use: the root's share, but for its part and its cap.
    fn schemata(
        &self,
        class: Class,
        wanted: &Wanted,
        machine: &Machine,
        threads: &[&ManagedThread],
    ) -> Result<Schemata, Refusal> {
        let root = self.groups.get(&PathBuf::new()).map(|root| root.schemata.clone());
        let mut schemata = root.unwrap_or_default();
        let llcs: Vec<&str> = self.info.llc().iter().map(|one| one.resource.as_str()).collect();
        schemata
            .lines
            .retain(|line| llcs.contains(&line.resource.as_str()) || line.resource == "MB");
        for (&(llc, place), &mask) in &wanted.masks {
            if Some(place) != class.place {
                continue;
            }
            let domain = self.domain(machine, llc)?;
            for line in schemata.lines.iter_mut().filter(|line| line.resource != "MB") {
                *line = line.with(domain, mask);
            }
        }
        if let Some(cap) = class.cap.and_then(|cap| wanted.caps.get(&cap)) {
            let line = schemata.lines.iter_mut().find(|line| line.resource == "MB");
            let line =
                line.ok_or_else(|| Refusal("resctrl holds no bandwidth back here".to_owned()))?;
            *line = self.capped(line, cap, machine, threads)?;
        }
        Ok(schemata)
    }

    /// The line of bandwidth with a cap: each LLC gets the share of it that its threads are.
    fn capped(
        &self,
        line: &SchemataLine,
        cap: &Cap,
        machine: &Machine,
        threads: &[&ManagedThread],
    ) -> Result<SchemataLine, Refusal> {
        let mut line = line.clone();
        for (llc, of) in machine.llcs().iter().enumerate() {
            let here = threads.iter().filter(|thread| of.cpus.contains(thread.facts.cpu)).count();
            if here == 0 {
                continue;
            }
            let domain = self.domain(machine, llc)?;
            let most = line.value(domain).unwrap_or_default();
            let asked = cap.mb_per_s * here as f64 / cap.threads.len() as f64;
            let peak = peak_mb_per_s(machine, llc);
            let control = self.info.bandwidth.as_ref();
            let cap = control.and_then(|control| cap_of(control, asked, most, peak)).ok_or_else(|| {
                Refusal(format!(
                    "resctrl takes percent of the peak bandwidth of LLC {llc}, which is not known; \
                     name a machine file that has it"
                ))
            })?;
            tracing::info!(
                llc,
                asked_mb_per_s = asked,
                set_mb_per_s = cap.mb_per_s,
                value = cap.value,
                "bandwidth capped as near as resctrl can"
            );
            line = line.with(domain, cap.value);
        }
        Ok(line)
    }
}

impl Actuator for Resctrl {
    fn name(&self) -> &'static str {
        "resctrl"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        let ways = (!self.info.llc().is_empty()).then_some(ActionKind::Partition);
        let bandwidth = self.info.bandwidth.as_ref().map(|_| ActionKind::CapBandwidth);
        ways.into_iter().chain(bandwidth).collect()
    }

    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        self.look(now)?;
        let wanted = match action {
            Action::Partition { llc, parts } => self.partition(*llc, parts, machine, threads)?,
            Action::CapBandwidth { threads: capped, mb_per_s } => {
                self.cap(capped, *mb_per_s, threads)?
            }
            _ => return Err(Refusal::not_by(self.name())),
        };
        let changes = self.changes(&wanted, machine, threads)?;
        let before = std::mem::replace(&mut self.wanted, wanted);
        self.earlier.push_back((action.clone(), before));
        if self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
        Ok(changes)
    }

    /// What this action asked for is wanted no more, and the groups are to be read again.
    fn not_in_force(&mut self, action: &Action) {
        self.read_at = None;
        let Some(place) = self.earlier.iter().rposition(|(one, _)| one == action) else { return };
        if let Some((action, before)) = self.earlier.remove(place) {
            self.wanted.give_back(&action, &before);
        }
    }
}
