//! Gathers facts.

mod control;
mod perf;
mod resctrl;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corun_linux::procfs::Process;
use corun_linux::{CpuInfo, Roots, files};
use corun_machine::{Machine, discover};
use corun_policy::{BuildOptions, PolicyEntry, build, registry};

use super::facts::{CoreKind, Facts, Folder, Shape, ThreadsAtOnce, Tracer};

/// What the caller knows, because it belongs to other parts of corun.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beside {
    /// Can programs be recorded?
    pub tracer: Option<Tracer>,
    /// Where changes are journalled.
    pub journal: Option<PathBuf>,
}

/// The facts of the machine under these roots, for this user. Counters are tried for an instant, and
/// this process's own affinity is set to what it is; nothing else is touched. Of a captured tree
/// only the files are read.
pub fn probe(roots: &Roots, beside: Beside) -> Facts {
    let here = roots.are_here();
    let own = here.then(|| Process::of_self(roots));
    let shape = machine(roots).as_ref().map(shape);
    let cpuinfo = CpuInfo::read(roots);
    let flags = cpuinfo.as_ref().and_then(CpuInfo::flags);
    Facts {
        here,
        kernel: files::text(&roots.proc.join("sys/kernel/osrelease")).map(one_line),
        user: own.as_ref().and_then(Process::effective_user),
        capabilities: own.as_ref().and_then(Process::capabilities).map(capabilities),
        virtual_machine: virtual_machine(roots, flags.as_deref()),
        maker: maker(roots),
        perf: perf::perf(roots, shape.as_ref()),
        resctrl: resctrl::resctrl(roots, flags.as_deref()),
        energy: control::energy(roots),
        allowed_cpus: own.as_ref().and_then(Process::allowed_cpus),
        affinity: here.then(control::affinity).flatten(),
        sched_ext: control::sched_ext(roots),
        threads_at_once: here.then(|| threads_at_once(roots)),
        cgroups: control::cgroups(roots),
        memory: control::memory(roots, shape.as_ref()),
        open_files: own.as_ref().and_then(Process::most_open_files),
        tracer: beside.tracer.filter(|_| here),
        journal: beside.journal.filter(|_| here).map(folder),
        shape,
    }
}

/// Loads the program for an instant where the daemon would.
fn threads_at_once(roots: &Roots) -> ThreadsAtOnce {
    match corun_scx::may_read(roots).and_then(|()| corun_scx::ThreadReader::open(roots)) {
        Ok(_) => ThreadsAtOnce::Works,
        Err(why) => ThreadsAtOnce::No { why: one_line(why.to_string()) },
    }
}

/// Kernel files are printed: what is not a plain character is not.
fn one_line(text: String) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|one| !one.is_control()).collect()
}

fn machine(roots: &Roots) -> Option<Machine> {
    let root = roots.proc.parent().filter(|root| roots.sys.parent() == Some(root))?;
    discover(root).ok()
}

fn shape(machine: &Machine) -> Shape {
    let cache = machine.llcs().first().and_then(|llc| llc.cache);
    let kind = |(index, kind): (usize, &corun_machine::CoreType)| CoreKind {
        name: kind.name.clone(),
        cpus: machine
            .cpus()
            .iter()
            .filter(|cpu| cpu.core_type == index)
            .map(|cpu| cpu.id)
            .collect(),
    };
    Shape {
        packages: machine.packages().len(),
        cores: machine.cores().len(),
        cpus: machine.cpus().len(),
        llcs: machine.llcs().len(),
        llc_bytes: cache.map(|cache| cache.size_bytes),
        llc_ways: cache.and_then(|cache| cache.ways),
        numa_nodes: machine.nodes().len(),
        threads_per_core: machine.cores().iter().map(|core| core.cpus.len()).max().unwrap_or(1),
        core_types: machine.core_types().iter().enumerate().map(kind).collect(),
        unfit: unfit(machine),
    }
}

fn unfit(machine: &Machine) -> BTreeMap<String, String> {
    let why = |entry: &PolicyEntry| {
        // A policy of the registry is built with its own defaults.
        let policy = build(entry.name, &BuildOptions::default()).ok()?;
        Some((entry.name.to_owned(), policy.unfit_for(machine)?))
    };
    registry().iter().filter_map(why).collect()
}

fn virtual_machine(roots: &Roots, flags: Option<&[&str]>) -> Option<bool> {
    if files::text(&roots.sys.join("hypervisor/type")).is_some_and(|text| !text.is_empty()) {
        return Some(true);
    }
    flags.map(|flags| flags.contains(&"hypervisor"))
}

fn maker(roots: &Roots) -> Option<String> {
    let dmi = |name: &str| files::text(&roots.sys.join("class/dmi/id").join(name));
    let words = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().map(one_line);
    let mut words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.dedup();
    let dmi = Some(words.join(" ")).filter(|text| !text.is_empty());
    dmi.or_else(|| files::text(&roots.sys.join("hypervisor/type")).map(one_line))
        .filter(|text| !text.is_empty())
        .map(|text| text.chars().take(60).collect())
}

/// Those of the capabilities in effect that matter here.
fn capabilities(held: u64) -> Vec<String> {
    const KNOWN: [(u32, &str); 7] = [
        (1, "CAP_DAC_OVERRIDE"),
        (19, "CAP_SYS_PTRACE"),
        (21, "CAP_SYS_ADMIN"),
        (23, "CAP_SYS_NICE"),
        (24, "CAP_SYS_RESOURCE"),
        (38, "CAP_PERFMON"),
        (39, "CAP_BPF"),
    ];
    let known = KNOWN.iter().filter(|(bit, _)| held >> bit & 1 == 1);
    known.map(|(_, name)| (*name).to_owned()).collect()
}

/// A folder that is there or would be made.
fn folder(path: PathBuf) -> Folder {
    let nearest = path.ancestors().find(|one| one.exists()).unwrap_or(Path::new("/"));
    let writable = nearest.is_dir() && files::writable(nearest);
    Folder { writable, path }
}
