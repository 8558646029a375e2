//! The machine's tree with those who are on it.

use std::collections::BTreeMap;

use corun_live::SampledThread;
use corun_machine::{CpuId, CpuSet, Machine, Object, ObjectType};

use crate::frame::{Figures, Line, Of, together};
use corun_report::size;

/// An object of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TreeLine {
    pub(crate) depth: usize,
    pub(crate) label: String,
    /// Of an LLC: its index.
    pub(crate) llc: Option<usize>,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) cpus: CpuSet,
    /// Of an LLC and a CPU: what the threads that are on it do together.
    pub(crate) figures: Figures,
    /// Threads that are on it; counted of an LLC, named of a CPU.
    pub(crate) threads: usize,
    /// Of a CPU: who is on it, the busiest first.
    pub(crate) who: Vec<Who>,
}

/// A thread on a CPU.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Who {
    pub(crate) program: String,
    pub(crate) tid: u32,
    /// Share of the time that it was on the CPU.
    pub(crate) cpu_share: Option<f64>,
}

/// All lines, from the root's children down.
pub(crate) fn tree(
    machine: &Machine,
    lines: &[Line],
    threads: &[SampledThread<'_>],
) -> Vec<TreeLine> {
    let mut on_cpu: BTreeMap<CpuId, Vec<usize>> = BTreeMap::new();
    for (index, one) in threads.iter().enumerate() {
        on_cpu.entry(one.thread.facts.cpu).or_default().push(index);
    }
    let mut own = Tree { machine, lines, threads, on_cpu, found: Vec::new() };
    own.below(0, 0);
    own.found
}

struct Tree<'a> {
    machine: &'a Machine,
    lines: &'a [Line],
    threads: &'a [SampledThread<'a>],
    on_cpu: BTreeMap<CpuId, Vec<usize>>,
    found: Vec<TreeLine>,
}

impl Tree<'_> {
    fn below(&mut self, parent: usize, depth: usize) {
        let machine = self.machine;
        for &child in &machine.objects()[parent].children {
            let object = &machine.objects()[child];
            match self.label(child, object) {
                Some(label) => {
                    let line = self.line(child, object, depth, label);
                    self.found.push(line);
                    self.below(child, depth + 1);
                }
                // What people do not ask for: its children stand in its place.
                None => self.below(child, depth),
            }
        }
    }

    fn line(&self, index: usize, object: &Object, depth: usize, label: String) -> TreeLine {
        let llc = self.llc(index, object);
        let cpu = object.cpus.first().filter(|_| object.kind == ObjectType::Cpu);
        let here: Vec<usize> = object
            .cpus
            .iter()
            .flat_map(|cpu| self.on_cpu.get(&cpu).into_iter().flatten().copied())
            .collect();
        let shown = llc.is_some() || cpu.is_some();
        let figures = if shown {
            together(here.iter().map(|&index| &self.threads[index]))
        } else {
            Figures::default()
        };
        let who = if cpu.is_some() { self.who(&here) } else { Vec::new() };
        let cpus = object.cpus.clone();
        TreeLine { depth, label, llc, cpu, cpus, figures, threads: here.len(), who }
    }

    /// The LLC that an object is; a package stands in where the machine does not say.
    fn llc(&self, index: usize, object: &Object) -> Option<usize> {
        let stands_in = object.kind == ObjectType::Package;
        self.machine.llcs().iter().position(|llc| match llc.object {
            Some(own) => own == index,
            None => stands_in && llc.cpus == object.cpus,
        })
    }

    fn who(&self, here: &[usize]) -> Vec<Who> {
        let mut who: Vec<Who> = here
            .iter()
            .map(|&index| {
                let facts = &self.threads[index].thread.facts;
                Who {
                    program: self.lines[index].program.clone(),
                    tid: facts.task.tid,
                    cpu_share: self.lines[index].figures.cpus_busy,
                }
            })
            .collect();
        let busy = |one: &Who| one.cpu_share.unwrap_or(0.0);
        who.sort_by(|one, other| {
            busy(other).total_cmp(&busy(one)).then_with(|| one.tid.cmp(&other.tid))
        });
        who
    }

    /// None for what is left out: private caches, and cores of one CPU.
    fn label(&self, index: usize, object: &Object) -> Option<String> {
        let number = object.os_index.map(|number| format!(" {number}")).unwrap_or_default();
        match object.kind {
            ObjectType::Machine | ObjectType::Cluster => None,
            ObjectType::Package => Some(format!("Package{number}")),
            ObjectType::Die => Some(format!("Die{number}")),
            ObjectType::NumaNode if object.cpus.is_empty() => {
                Some(format!("Node{number} (memory only)"))
            }
            ObjectType::NumaNode => Some(format!("Node{number}")),
            ObjectType::Cache => {
                let llc = self.llc(index, object)?;
                let bytes =
                    object.cache.map(|cache| format!(", {}", size(cache.size_bytes as f64)));
                Some(format!("LLC {llc}{}", bytes.unwrap_or_default()))
            }
            ObjectType::Core => (object.cpus.len() > 1).then(|| format!("Core{number}")),
            ObjectType::Cpu => Some(format!("CPU{number}")),
        }
    }
}

impl Line {
    /// The thread's number.
    pub(crate) fn tid(&self) -> Option<u32> {
        match self.of {
            Of::Thread { tid, .. } => Some(tid),
            Of::Program { .. } => None,
        }
    }
}
