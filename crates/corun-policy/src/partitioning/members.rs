//! Who is on which LLC, and what memory is behind it.

use corun_machine::{BandwidthKind, Machine};

use crate::{ProcessId, ThreadId, ThreadView, View};

/// The programs on an LLC and their threads there.
pub(crate) type Members = Vec<(ProcessId, Vec<ThreadId>)>;

/// Is a thread one of these?
pub(crate) fn is_among(members: &Members, thread: ThreadId) -> bool {
    members.iter().any(|(_, threads)| threads.contains(&thread))
}

/// By LLC, the programs with threads that are there or are on their way there, and those threads.
pub(crate) fn members(view: &View<'_>) -> Vec<Members> {
    let mut members = vec![Members::new(); view.machine.llcs().len()];
    let all = view.machine.cpu_set();
    for thread in view.threads {
        let Some(llc) = llc_of(thread, view.machine) else { continue };
        if thread.may_run_on.is_disjoint(&all) {
            continue;
        }
        let here = &mut members[llc];
        match here.iter_mut().find(|(process, _)| *process == thread.process) {
            Some((_, threads)) => threads.push(thread.id),
            None => here.push((thread.process, vec![thread.id])),
        }
    }
    members
}

/// The LLC that a thread uses. A thread that is held on one LLC is on its way there where it ran elsewhere last: a policy
/// that places sent it there in this round, or it waited too long for its CPUs and runs elsewhere for a moment.
pub(crate) fn llc_of(thread: &ThreadView, machine: &Machine) -> Option<usize> {
    let last = machine.cpu_index(thread.cpu?)?;
    let mut held = thread.allowed.iter().filter_map(|cpu| machine.cpu_index(cpu));
    let llc = |cpu: usize| machine.cpus()[cpu].llc;
    let first = held.next().map(llc);
    first.filter(|&first| held.all(|cpu| llc(cpu) == first)).or(Some(llc(last)))
}

/// The peak of the memory controllers between an LLC and its local memory; where several LLCs pass
/// one, each counts on its share.
pub(crate) fn peak_bytes_per_s(machine: &Machine, llc: usize) -> Option<f64> {
    let controllers = |llc: usize| {
        let cpu = machine.llcs()[llc].cpus.first().and_then(|cpu| machine.cpu_index(cpu))?;
        let path = machine.memory_path(cpu, machine.cpus()[cpu].node);
        let controller =
            |one: &usize| machine.bandwidth_domains()[*one].kind == BandwidthKind::MemoryController;
        path.into_iter().find(controller)
    };
    let own = controllers(llc)?;
    let sharers = (0..machine.llcs().len()).filter(|&one| controllers(one) == Some(own)).count();
    let peak = machine.bandwidth_domains()[own].peak_mb_per_s * 1e6;
    Some(peak / sharers as f64)
}
