//! What is known of a program's use of caches: by counters, and by the stored profiles of the program and of its
//! neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use corun_app::{CacheFacts, Layout, Neighbour, PredictedFactors, ProgramDetails, Scenario};
use corun_hosting::HostBuilder;
use corun_live::{Host, SampledThread};
use corun_machine::{CpuId, Machine};
use corun_model::ModelOptions;
use corun_optimal::Objective;
use corun_top::together;

use crate::cli::{CountersName, ExplainArgs};
use crate::failure::Outcome;

/// A neighbour is on its CPU for this share of the time at least.
const BUSY: f64 = 0.2;

/// A CPU is better where the predicted slowdown falls by so much at least.
const BETTER: f64 = 0.95;

/// A process on the CPU where it ran last, with its profile where one is known.
#[derive(Debug, Clone)]
struct Seated {
    pid: u32,
    name: String,
    cpu: usize,
    cpu_share: f64,
    profile: Option<String>,
}

/// `pids`: the program's processes.
pub(super) fn facts(
    host: &Host,
    ground: &HostBuilder,
    pids: &[u32],
    arguments: &ExplainArgs,
) -> Outcome<CacheFacts> {
    let threads: Vec<SampledThread<'_>> = host.threads().collect();
    let is_own = |one: &&SampledThread<'_>| pids.contains(&one.thread.facts.task.pid);
    let own: Vec<&SampledThread<'_>> = threads.iter().filter(is_own).collect();
    let figures = together(own.iter().copied());
    let mut found = CacheFacts {
        llc_mpki: figures.llc_mpki,
        ipc: figures.ipc,
        is_modelled: arguments.counters == CountersName::Model,
        profiles: arguments.profiles.as_ref().map(|path| path.display().to_string()),
        ..CacheFacts::default()
    };
    let machine = ground.machine();
    let seats = seats(&threads, machine);
    let own_seats = seats.iter().filter(|one| pids.contains(&one.pid));
    let Some(target) = own_seats.max_by(|one, other| one.cpu_share.total_cmp(&other.cpu_share))
    else {
        return Ok(found);
    };
    let scenario = |names: &[String]| {
        Scenario::new(machine.clone(), ground.library(), names, ModelOptions::default())
    };
    // One that draws more than this machine has tells nothing here.
    let is_loaded = |profile: &String| scenario(std::slice::from_ref(profile)).is_ok();
    let stored = || target.profile.clone().filter(is_loaded);
    let Some(profile) = arguments.profile.clone().or_else(stored) else { return Ok(found) };
    // The program's other processes may have other profiles.
    let of_target = own.iter().filter(|one| one.thread.facts.task.pid == target.pid);
    found.solo_llc_mpki =
        of_target.filter_map(|one| one.view.solo).map(|solo| solo.llc_mpki).next();
    let llc = |cpu: usize| machine.cpus()[cpu].llc;
    let own_llcs: BTreeSet<usize> = own_llcs(&seats, pids, machine);
    let mut neighbours = Vec::new();
    let mut taken = BTreeSet::from([target.cpu]);
    let others = seats.iter().filter(|one| !pids.contains(&one.pid) && one.cpu_share >= BUSY);
    for other in others {
        let is_known = other.profile.as_ref().is_some_and(is_loaded);
        if is_known && taken.insert(other.cpu) {
            neighbours.push(other);
        } else if !is_known && own_llcs.contains(&llc(other.cpu)) {
            found.unknown_neighbours.push(other.name.clone());
        }
    }
    found.unknown_neighbours.sort_unstable();
    found.unknown_neighbours.dedup();
    predict(&mut found, &scenario, (&profile, target.cpu), &neighbours)?;
    found.profile = Some(profile);
    Ok(found)
}

/// Each process by its busiest thread, the busiest first.
fn seats(threads: &[SampledThread<'_>], machine: &Machine) -> Vec<Seated> {
    // A process is called by its first thread, which others of its threads may call something else.
    let first_names: BTreeMap<u32, &str> = threads
        .iter()
        .map(|one| &one.thread.facts)
        .filter(|facts| facts.task.tid == facts.task.pid)
        .map(|facts| (facts.task.pid, facts.name.as_str()))
        .collect();
    let mut by_pid: BTreeMap<u32, Seated> = BTreeMap::new();
    for one in threads {
        let facts = &one.thread.facts;
        let Some(cpu) = machine.cpu_index(facts.cpu) else { continue };
        let cpu_share = one.thread.cpu_share().unwrap_or(0.0);
        let seated = Seated {
            pid: facts.task.pid,
            name: first_names
                .get(&facts.task.pid)
                .map_or_else(|| facts.name.clone(), |&name| name.to_owned()),
            cpu,
            cpu_share,
            profile: one.view.profile.as_deref().map(str::to_owned),
        };
        let is_busier = by_pid.get(&seated.pid).is_none_or(|known| known.cpu_share < cpu_share);
        if is_busier {
            by_pid.insert(seated.pid, seated);
        }
    }
    let mut seats: Vec<Seated> = by_pid.into_values().collect();
    seats.sort_by(|one, other| other.cpu_share.total_cmp(&one.cpu_share));
    seats
}

fn own_llcs(seats: &[Seated], pids: &[u32], machine: &Machine) -> BTreeSet<usize> {
    let own = seats.iter().filter(|one| pids.contains(&one.pid));
    own.map(|one| machine.cpus()[one.cpu].llc).collect()
}

/// What the model says of the program on its CPU, alone and beside its neighbours.
fn predict(
    found: &mut CacheFacts,
    scenario: &dyn Fn(&[String]) -> corun_app::Result<Scenario>,
    (profile, cpu): (&str, usize),
    neighbours: &[&Seated],
) -> Outcome {
    // The question is answered in milliseconds.
    let never = AtomicBool::new(false);
    let alone = scenario(&[profile.to_owned()])?;
    let layout = Layout { cpus: vec![cpu], masks: Vec::new() };
    found.solo_memory_cycles_share = memory_cycles_share(&alone.details(&layout, 0, &never)?);
    if neighbours.is_empty() {
        return Ok(());
    }
    let profiles = neighbours.iter().filter_map(|one| one.profile.clone());
    let names: Vec<String> = std::iter::once(profile.to_owned()).chain(profiles).collect();
    let together = scenario(&names)?;
    let cpus = std::iter::once(cpu).chain(neighbours.iter().map(|one| one.cpu)).collect();
    let layout = Layout { cpus, masks: Vec::new() };
    let placement = together.explain(&layout, Objective::MeanSlowdown)?;
    let factors = placement.because[0];
    found.predicted = Some(PredictedFactors {
        cache: factors.cache,
        hardware_threads: factors.hardware_threads,
        memory: factors.memory,
    });
    let details = together.details(&layout, 0, &never)?;
    let id = |cpu: usize| together.machine().cpus()[cpu].id;
    let culprits = details.slowed_by.iter().flatten();
    let neighbour = culprits.map(|one| {
        let other = neighbours[one.program - 1];
        Neighbour {
            pid: other.pid,
            profile: other.profile.clone().unwrap_or_default(),
            cpu: id(other.cpu),
            factor: one.factor,
        }
    });
    found.neighbours = neighbour.collect();
    let now = placement.placement.slowdown[0];
    let free = details.moves.iter().filter(|one| one.with.is_none());
    let best = free.min_by(|one, other| one.slowdown.total_cmp(&other.slowdown));
    let better = best.filter(|one| one.slowdown < now * BETTER);
    found.better_cpu = better.map(|one| (CpuId(one.cpu), one.slowdown));
    Ok(())
}

/// Share of the cycles in which the program waits for memory.
fn memory_cycles_share(details: &ProgramDetails) -> Option<f64> {
    let of = |entry: &corun_app::CauseEntry| entry.cycles_per_instruction;
    let all: f64 = details.cycles.iter().map(of).sum();
    let memory = details.cycles.iter().find(|entry| entry.cause == "memory").map(of)?;
    (all > 0.0).then(|| memory / all)
}
