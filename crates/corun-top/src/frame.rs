//! What a look at the machine found, as the view shows it: plain data, made from the host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use corun_linux::{NoiseMeter, Roots, escape_controls};
use corun_live::{Host, SampledThread, Tick};
use corun_machine::{CpuId, CpuSet, Machine};
use corun_policy::{ClassLimits, CounterKind, Rates, ThreadState, classify};
use serde::Serialize;

use crate::groups::Groups;
use crate::tree::{TreeLine, tree};
use corun_app::NO_POLICY;
use corun_hosting::{DecisionLine, NewDecisions};

/// Decisions that are kept, the newest ones.
const KEPT_DECISIONS: usize = 1000;

/// One look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Frame {
    pub(crate) machine: String,
    /// None where nothing is decided.
    pub(crate) policy: Option<String>,
    /// Time since the beginning.
    pub(crate) time_s: f64,
    pub(crate) programs: Vec<Line>,
    pub(crate) threads: Vec<Line>,
    /// By what people call the cgroups of processes; empty where that is not known, as in a recording.
    pub(crate) groups: Vec<Line>,
    pub(crate) tree: Vec<TreeLine>,
    /// What is not looked at; absent at the first look, and in a recording.
    pub(crate) others: Option<Others>,
    /// The newest first.
    pub(crate) decisions: Vec<Arc<DecisionLine>>,
    /// Figures that nothing here measures.
    pub(crate) not_measured: Vec<&'static str>,
    /// What went wrong in this look.
    pub(crate) notes: Vec<String>,
}

/// Who else takes the machine's CPUs, since the look before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Others {
    /// CPUs that processes which are not looked at keep busy, and the kernel.
    pub(crate) cpus_busy: f64,
    /// CPUs that the host of this virtual machine gave to others.
    pub(crate) cpus_stolen: f64,
    pub(crate) cpus: usize,
}

/// A program, a thread, or a unit, pod, container or other cgroup.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// The program's name, or that of the group.
    pub(crate) program: String,
    /// What people call the cgroup of its processes; absent where that is not known, or they are in several.
    pub(crate) group: Option<String>,
    pub(crate) of: Of,
    /// Where its threads run, or ran last.
    pub(crate) cpus: BTreeSet<CpuId>,
    /// Indices of the LLCs above these CPUs.
    pub(crate) llcs: BTreeSet<usize>,
    /// Where the policy would hold it, where that is not where it may run now.
    pub(crate) would: Option<CpuSet>,
    pub(crate) figures: Figures,
    /// By its stored profile.
    pub(crate) class: Option<&'static str>,
    /// LLC misses per 1000 instructions alone on this machine, by its stored profile.
    pub(crate) solo_mpki: Option<f64>,
}

/// What a line is of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Of {
    /// A program or a group.
    Program {
        processes: usize,
        threads: usize,
    },
    Thread {
        pid: u32,
        tid: u32,
        name: String,
        running: bool,
        allowed: String,
    },
}

/// Figures of threads together; absent is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Figures {
    /// CPUs kept busy.
    pub cpus_busy: Option<f64>,
    /// Instructions a second.
    pub instructions_per_s: Option<f64>,
    /// Instructions per cycle.
    pub ipc: Option<f64>,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: Option<f64>,
    /// Memory traffic, bytes a second.
    pub memory_bytes_per_s: Option<f64>,
    /// Bytes that they hold in LLCs.
    pub llc_occupancy_bytes: Option<f64>,
    /// Context switches a second.
    pub context_switches_per_s: Option<f64>,
    /// Wake-ups a second.
    pub wakeups_per_s: Option<f64>,
    /// Threads that wait for a CPU, on average.
    pub threads_waiting: Option<f64>,
}

/// Makes frames, and remembers what was decided.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    named: bool,
    groups: Option<Groups>,
    others: Option<OthersMeter>,
    decisions: VecDeque<Arc<DecisionLine>>,
    decided: NewDecisions,
}

impl Collector {
    /// `named`: do the targets' names tell programs apart? Else the processes' own do.
    pub(crate) fn new(named: bool) -> Self {
        Self { named, ..Self::default() }
    }

    /// The same, which also reads from the kernel: the cgroups of processes, and what others take of the CPUs.
    pub(crate) fn with_roots(self, roots: Roots) -> Self {
        let others = OthersMeter { roots: roots.clone(), meter: None };
        Self { groups: Some(Groups::new(roots)), others: Some(others), ..self }
    }

    /// The frame after a tick.
    pub(crate) fn frame(&mut self, host: &Host, policy: Option<&str>, tick: &Tick) -> Frame {
        self.note(host, tick);
        let machine = host.machine();
        let threads: Vec<SampledThread<'_>> = host.threads().collect();
        let names = self.names(&threads);
        let groups = match &mut self.groups {
            Some(groups) => groups.of(&threads),
            None => vec![None; threads.len()],
        };
        let lines: Vec<Line> = threads
            .iter()
            .zip(names)
            .zip(groups)
            .map(|((one, name), group)| thread_line(host, one, name, group))
            .collect();
        let programs = by(&lines, &threads, |line| Some(&line.program));
        let groups = by(&lines, &threads, |line| line.group.as_deref());
        let watched = programs.iter().filter_map(|line| line.figures.cpus_busy).sum();
        let others = self.others.as_mut().and_then(|meter| meter.others(machine, watched));
        let moved = tick.left_alone.iter().map(|moved| format!("left alone: {moved}"));
        Frame {
            machine: machine.name().to_owned(),
            policy: policy.filter(|name| *name != NO_POLICY).map(str::to_owned),
            time_s: tick.now.as_secs_f64(),
            programs,
            groups,
            tree: tree(machine, &lines, &threads),
            threads: lines,
            others,
            decisions: self.decisions.iter().rev().cloned().collect(),
            not_measured: not_measured(host),
            notes: tick.unread.iter().cloned().chain(moved).collect(),
        }
    }

    /// What each thread's program is called.
    fn names(&self, threads: &[SampledThread<'_>]) -> Vec<String> {
        let mut of_process: BTreeMap<u32, &str> = BTreeMap::new();
        for one in threads {
            let facts = &one.thread.facts;
            if facts.task.tid == facts.task.pid {
                of_process.insert(facts.task.pid, &facts.name);
            }
        }
        let name = |one: &SampledThread<'_>| {
            let facts = &one.thread.facts;
            match of_process.get(&facts.task.pid) {
                _ if self.named => one.view.program.clone(),
                Some(&name) => name.to_owned(),
                // Its first thread ended.
                None => facts.name.clone(),
            }
        };
        threads.iter().map(|one| escape_controls(&name(one)).into_owned()).collect()
    }

    /// Do the targets' names tell programs apart, from now on?
    pub(crate) fn go_by_targets(&mut self, named: bool) {
        self.named = named;
    }

    /// Takes note of what was decided in a tick.
    pub(crate) fn note(&mut self, host: &Host, tick: &Tick) {
        self.decisions.extend(self.decided.news(host, tick).into_iter().map(Arc::new));
        let surplus = self.decisions.len().saturating_sub(KEPT_DECISIONS);
        self.decisions.drain(..surplus);
    }
}

/// Reads who else takes CPUs.
#[derive(Debug)]
struct OthersMeter {
    roots: Roots,
    meter: Option<NoiseMeter>,
}

impl OthersMeter {
    /// Since it was last asked, where `watched` CPUs were kept busy by what is looked at.
    fn others(&mut self, machine: &Machine, watched: f64) -> Option<Others> {
        let Some(meter) = &mut self.meter else {
            let cpus: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
            self.meter = Some(NoiseMeter::new(&self.roots, cpus));
            return None;
        };
        let (noise, count) = (meter.lap()?, machine.cpus().len());
        Some(Others {
            cpus_busy: (noise.others_share * count as f64 - watched).max(0.0),
            cpus_stolen: noise.stolen_share * count as f64,
            cpus: count,
        })
    }
}

fn thread_line(
    host: &Host,
    one: &SampledThread<'_>,
    program: String,
    group: Option<String>,
) -> Line {
    let facts = &one.thread.facts;
    let machine = host.machine();
    let llc = machine.cpu_index(facts.cpu).map(|cpu| machine.cpus()[cpu].llc);
    let would = (one.view.allowed != facts.affinity).then(|| one.view.allowed.clone());
    let class = one.view.by_ways.as_ref();
    Line {
        program,
        group,
        of: Of::Thread {
            pid: facts.task.pid,
            tid: facts.task.tid,
            name: escape_controls(&facts.name).into_owned(),
            running: one.view.state == ThreadState::Running,
            allowed: facts.affinity.to_string(),
        },
        cpus: BTreeSet::from([facts.cpu]),
        llcs: llc.into_iter().collect(),
        would,
        figures: together([one]),
        class: class.map(|curve| classify(curve, &ClassLimits::default()).name()),
        solo_mpki: one.view.solo.map(|solo| solo.llc_mpki),
    }
}

/// A line for each name, in the names' order. Threads without a name are left out.
fn by<'a>(
    lines: &'a [Line],
    threads: &[SampledThread<'_>],
    name: impl Fn(&'a Line) -> Option<&'a str>,
) -> Vec<Line> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some(name) = name(line) {
            members.entry(name).or_default().push(index);
        }
    }
    let line = |(name, members): (&str, Vec<usize>)| sum_line(name, &members, lines, threads);
    members.into_iter().map(line).collect()
}

fn sum_line(name: &str, members: &[usize], lines: &[Line], threads: &[SampledThread<'_>]) -> Line {
    let own = || members.iter().map(|&index| &lines[index]);
    let group = own().next().and_then(|line| line.group.clone());
    let processes: BTreeSet<u32> =
        members.iter().map(|&index| threads[index].thread.facts.task.pid).collect();
    let would = own().filter_map(|line| line.would.clone()).reduce(|a, b| a.union(&b));
    Line {
        program: name.to_owned(),
        group: group.filter(|group| own().all(|line| line.group.as_ref() == Some(group))),
        of: Of::Program { processes: processes.len(), threads: members.len() },
        cpus: own().flat_map(|line| line.cpus.iter().copied()).collect(),
        llcs: own().flat_map(|line| line.llcs.iter().copied()).collect(),
        would,
        figures: together(members.iter().map(|&index| &threads[index])),
        class: own().find_map(|line| line.class),
        solo_mpki: own().find_map(|line| line.solo_mpki),
    }
}

/// Sums over threads. A ratio is that of the sums over the threads that have both.
pub fn together<'a, 'b: 'a>(threads: impl IntoIterator<Item = &'a SampledThread<'b>>) -> Figures {
    let threads: Vec<&SampledThread<'_>> = threads.into_iter().collect();
    let sum = |of: fn(&Rates) -> Option<f64>| {
        threads.iter().filter_map(|one| of(&one.rates)).reduce(|a, b| a + b)
    };
    let ratio = |above: fn(&Rates) -> Option<f64>, below: fn(&Rates) -> Option<f64>| {
        let both = threads.iter().filter_map(|one| above(&one.rates).zip(below(&one.rates)));
        let (above, below) = both.fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
        (below > 0.0).then(|| above / below)
    };
    let misses_per_instruction =
        ratio(|of| of.llc_misses.map(|rate| rate.per_s), |of| of.instructions_per_s);
    let held = threads.iter().filter_map(|one| one.view.llc_occupancy_bytes);
    Figures {
        cpus_busy: sum(|of| of.cpu_share),
        instructions_per_s: sum(|of| of.instructions_per_s),
        ipc: ratio(|of| of.instructions_per_s, |of| of.cycles_per_s),
        llc_mpki: misses_per_instruction.map(|per_one| 1000.0 * per_one),
        memory_bytes_per_s: sum(|of| of.memory_bytes_per_s),
        llc_occupancy_bytes: held.reduce(|a, b| a + b),
        context_switches_per_s: sum(|of| of.context_switches_per_s),
        wakeups_per_s: sum(|of| of.wakeups_per_s),
        // A wait counts when it ends, also what of it was before this look.
        threads_waiting: sum(|of| of.run_queue_wait_share.map(|share| share.min(1.0))),
    }
}

/// What the kernel always tells, and a daemon counts only where its policy goes by it.
const WAITING: &str = "waiting for a CPU";

/// Figures that no source gives, in the order of the columns.
fn not_measured(host: &Host) -> Vec<&'static str> {
    let has = host.counters();
    let known = |kinds: &[CounterKind]| kinds.iter().all(|kind| has.contains(kind));
    let figures: [(&'static str, &[CounterKind]); 6] = [
        ("IPC", &[CounterKind::Instructions, CounterKind::Cycles]),
        ("MPKI", &[CounterKind::Instructions, CounterKind::LlcMisses]),
        ("instructions", &[CounterKind::Instructions]),
        ("memory traffic", &[CounterKind::MemoryBytes]),
        ("LLC occupancy", &[CounterKind::LlcOccupancy]),
        (WAITING, &[CounterKind::RunQueueWait]),
    ];
    figures.into_iter().filter(|(_, kinds)| !known(kinds)).map(|(name, _)| name).collect()
}

impl Line {
    /// Has one of its names or numbers this text, which is in lower case?
    pub(crate) fn matches(&self, wanted: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(wanted);
        let of_thread = match &self.of {
            Of::Program { .. } => false,
            Of::Thread { pid, tid, name, .. } => {
                has(name) || tid.to_string() == wanted || pid.to_string() == wanted
            }
        };
        wanted.is_empty()
            || has(&self.program)
            || self.group.as_deref().is_some_and(has)
            || of_thread
    }
}

impl Others {
    /// What is less is not worth a word, in CPUs.
    const LEAST: f64 = 0.05;

    /// A few words for people; none where nobody else does much.
    pub(crate) fn text(&self) -> Option<String> {
        let Self { cpus_busy, cpus_stolen, cpus } = *self;
        let busy = (cpus_busy >= Self::LEAST)
            .then(|| format!("others keep {cpus_busy:.2} of {cpus} CPUs busy"));
        let stolen =
            (cpus_stolen >= Self::LEAST).then(|| format!("the host takes {cpus_stolen:.2}"));
        match (busy, stolen) {
            (Some(busy), Some(stolen)) => Some(format!("{busy}, {stolen}")),
            (Some(one), None) => Some(one),
            (None, Some(stolen)) => Some(format!("{stolen} of {cpus} CPUs")),
            (None, None) => None,
        }
    }
}

impl Frame {
    /// A line for people on who else takes the CPUs.
    pub(crate) fn others_text(&self) -> Option<String> {
        self.others.and_then(|others| others.text())
    }

    /// A line for people on what is not measured here.
    pub(crate) fn missing(&self) -> Option<String> {
        (!self.not_measured.is_empty()).then(|| {
            format!("not measured here: {} (corun doctor says why)", self.not_measured.join(", "))
        })
    }
}

#[cfg(test)]
mod tests;
