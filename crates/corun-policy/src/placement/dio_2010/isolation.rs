//! Important threads kept apart (section 5.3): an intensive thread that the user marked runs in a
//! domain without any other intensive thread.

use corun_machine::CpuSet;

use crate::View;
use crate::placement::spread::usable_cpus;

/// What an important thread is to have without other intensive ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::placement) enum Domain {
    Llc,
    Package,
}

impl Domain {
    /// By the value of the parameter; none: nobody is isolated.
    pub(in crate::placement) fn of(isolate_in: f64) -> Option<Self> {
        match isolate_in {
            off if off < 0.5 => None,
            llc if llc < 1.5 => Some(Self::Llc),
            _ => Some(Self::Package),
        }
    }
}

/// The CPUs of each thread of the view; none where nobody is to be isolated: no important thread
/// is intensive and would suffer, or there is no other intensive one that it could suffer from.
///
/// Each important intensive thread gets a domain, by falling miss rate: the one it is in, if nobody
/// has it yet, else the first that is free. The other intensive ones keep out of these domains;
/// threads that are not intensive may go anywhere. Where the paper is silent: the others must find
/// a CPU each outside, else the least intensive of the important ones is not isolated; and a thread
/// that its user allowed on none of the CPUs that are left keeps those its user allowed.
pub(in crate::placement) fn cpus(
    view: &View<'_>,
    mpki: &[Option<f64>],
    devil_mpki: f64,
    domain: Domain,
) -> Option<Vec<CpuSet>> {
    let devil = |thread: usize| mpki[thread].is_some_and(|mpki| mpki >= devil_mpki);
    let mut important: Vec<usize> =
        (0..view.threads.len()).filter(|&one| devil(one) && view.threads[one].important).collect();
    important
        .sort_by(|&one, &other| mpki[other].partial_cmp(&mpki[one]).unwrap_or(one.cmp(&other)));
    let devils = (0..view.threads.len()).filter(|&one| devil(one)).count();
    let domains = domains(view, domain);
    let mut reserved: Vec<(usize, usize)> = Vec::new();
    for &thread in &important {
        let left = devils - reserved.len() - 1;
        let Some(own) = free_domain(view, &domains, &reserved, thread) else { break };
        let outside: usize = (0..domains.len())
            .filter(|&place| place != own && reserved.iter().all(|&(_, taken)| taken != place))
            .map(|place| domains[place].len())
            .sum();
        if left == 0 || outside < left {
            break;
        }
        reserved.push((thread, own));
    }
    if reserved.is_empty() {
        return None;
    }
    let taken = reserved.iter().fold(CpuSet::new(), |all, &(_, place)| all.union(&domains[place]));
    let outside: CpuSet =
        view.machine.cpu_set().iter().filter(|&cpu| !taken.contains(cpu)).collect();
    let of = |thread: usize| {
        let may = &view.threads[thread].may_run_on;
        let narrowed = match reserved.iter().find(|(one, _)| *one == thread) {
            Some(&(_, place)) => may.intersection(&domains[place]),
            None if devil(thread) => may.intersection(&outside),
            None => may.clone(),
        };
        if narrowed.is_empty() { may.clone() } else { narrowed }
    };
    Some((0..view.threads.len()).map(of).collect())
}

/// The domain that the thread is in, else the first one that it may use, if nobody has it.
fn free_domain(
    view: &View<'_>,
    domains: &[CpuSet],
    reserved: &[(usize, usize)],
    thread: usize,
) -> Option<usize> {
    let thread = &view.threads[thread];
    let free = |place: &usize| {
        reserved.iter().all(|(_, taken)| taken != place)
            && !domains[*place].is_disjoint(&thread.may_run_on)
    };
    let here = (0..domains.len())
        .find(|&place| thread.cpu.is_some_and(|cpu| domains[place].contains(cpu)));
    here.filter(free).or_else(|| (0..domains.len()).find(free))
}

/// The usable CPUs of each domain.
fn domains(view: &View<'_>, domain: Domain) -> Vec<CpuSet> {
    let usable = usable_cpus(view, |thread| &view.threads[thread].may_run_on);
    let (llcs, packages) = (view.machine.llcs(), view.machine.packages());
    match domain {
        Domain::Llc => llcs.iter().map(|llc| llc.cpus.intersection(&usable)).collect(),
        Domain::Package => packages.iter().map(|one| one.cpus.intersection(&usable)).collect(),
    }
}
