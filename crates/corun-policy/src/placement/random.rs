//! `random`: each thread on a random CPU, for good (RANDOM in Blagodurov et al., TOCS 2010,
//! section 5.2: "all schedules with equal probability").

use std::collections::BTreeMap;

use corun_machine::{CpuId, CpuSet};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    Action, ActionKind, Build, BuildOptions, Event, LiveForm, Needs, Plan, Policy, PolicyEntry,
    ThreadId, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    summary: "puts each arriving thread on a random free CPU and leaves it there",
    source: "Blagodurov et al., TOCS 2010, section 5.2 (RANDOM)",
    parameters: &[],
    build: Build::Policy(|options: &BuildOptions| Box::new(Random::new(options.seed))),
    live: LiveForm::AS_LIVE,
};

struct Random {
    seed: u64,
    generator: Pcg64Mcg,
    placed: BTreeMap<ThreadId, CpuId>,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { seed, generator: Pcg64Mcg::seed_from_u64(seed), placed: BTreeMap::new() }
    }

    /// Places the threads that have no place yet: all placements of them that put at most
    /// ceil(threads / CPUs) on a CPU are equally likely, those already placed staying where they
    /// are. Threads that may run on the same CPUs are drawn together, the narrowest sets first.
    fn place(&mut self, view: &View<'_>) -> Plan {
        let online = view.machine.cpu_set();
        self.placed.retain(|&id, cpu| view.thread(id).is_some() && online.contains(*cpu));
        let mut groups: Vec<(CpuSet, Vec<ThreadId>)> = Vec::new();
        for thread in view.threads.iter().filter(|thread| !self.placed.contains_key(&thread.id)) {
            let cpus = thread.may_run_on.intersection(&online);
            match groups.iter_mut().find(|group| group.0 == cpus) {
                Some(group) => group.1.push(thread.id),
                None => groups.push((cpus, vec![thread.id])),
            }
        }
        groups.sort_by_key(|(cpus, _)| cpus.len());
        for (cpus, threads) in groups.iter().filter(|(cpus, _)| !cpus.is_empty()) {
            self.draw(cpus, threads);
        }
        let mut plan = Plan::none();
        for thread in view.threads {
            let new = groups.iter().any(|(_, threads)| threads.contains(&thread.id));
            if let (true, Some(&cpu)) = (new, self.placed.get(&thread.id)) {
                let action = Action::Allow { thread: thread.id, cpus: CpuSet::from_iter([cpu]) };
                let reason =
                    format!("{}: drawn at random (seed {}), CPU {cpu}", thread.program, self.seed);
                plan.push(action, reason);
            }
        }
        plan
    }

    fn draw(&mut self, cpus: &CpuSet, threads: &[ThreadId]) {
        let load = |cpu: CpuId| self.placed.values().filter(|&&placed| placed == cpu).count();
        let loads: Vec<usize> = cpus.iter().map(load).collect();
        let total = loads.iter().sum::<usize>() + threads.len();
        let mut most = total.div_ceil(loads.len());
        // Narrower sets that were drawn before may have filled some CPUs beyond the even share.
        let room = |most: usize| loads.iter().map(|&load| most.saturating_sub(load)).sum::<usize>();
        while room(most) < threads.len() {
            most += 1;
        }
        let room: Vec<usize> = loads.iter().map(|&load| most.saturating_sub(load)).collect();
        let counts = counts_by_cpu(&room, threads.len(), &mut self.generator);
        let mut slots: Vec<CpuId> = Vec::with_capacity(threads.len());
        for (cpu, count) in cpus.iter().zip(counts) {
            slots.extend(std::iter::repeat_n(cpu, count));
        }
        slots.shuffle(&mut self.generator);
        self.placed.extend(threads.iter().copied().zip(slots));
    }
}

/// How many threads each CPU gets when all placements of `threads` distinct threads within the
/// room are equally likely: counts k have probability in proportion to 1 / (k_1! k_2! ..). The sum
/// of the room is at least `threads`.
fn counts_by_cpu(room: &[usize], threads: usize, generator: &mut Pcg64Mcg) -> Vec<usize> {
    // rest[i][m]: in proportion to the placements of m threads on CPU i and those after it.
    let mut rest = vec![vec![0.0; threads + 1]; room.len() + 1];
    rest[room.len()][0] = 1.0;
    for cpu in (0..room.len()).rev() {
        for left in 0..=threads {
            rest[cpu][left] = ways(&rest[cpu + 1], room[cpu], left).iter().sum();
        }
        // Only ratios within a row matter; unscaled, rows would leave the range of f64.
        let largest = rest[cpu].iter().copied().fold(0.0, f64::max);
        rest[cpu].iter_mut().for_each(|weight| *weight /= largest);
    }
    let mut left = threads;
    let mut counts = Vec::with_capacity(room.len());
    for (cpu, &room) in room.iter().enumerate() {
        let weights = ways(&rest[cpu + 1], room, left);
        let mut drawn = generator.random::<f64>() * weights.iter().sum::<f64>();
        let last = weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
        let mut count = 0;
        while count < last && (drawn >= weights[count]) {
            drawn -= weights[count];
            count += 1;
        }
        counts.push(count);
        left -= count;
    }
    counts
}

/// Weights of giving a CPU 0, 1, .. of the `left` threads, by what the CPUs after it can take.
fn ways(after: &[f64], room: usize, left: usize) -> Vec<f64> {
    let mut factorial = 1.0;
    (0..=room.min(left))
        .map(|count| {
            factorial *= count.max(1) as f64;
            after[left - count] / factorial
        })
        .collect()
}

impl Policy for Random {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs { controls: vec![ActionKind::Place], ..Needs::default() }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        match event {
            Event::Arrived(_) => Some(self.place(view)),
            Event::Exited(thread) => {
                self.placed.remove(thread);
                None
            }
            Event::Slept(_) | Event::Woke(_) | Event::Switched { .. } => None,
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.place(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn placement(plan: &Plan) -> Vec<u32> {
        let cpu = |action: &Action| match action {
            Action::Allow { cpus, .. } => cpus.first().unwrap().0,
            other => panic!("{other:?}"),
        };
        plan.steps.iter().map(|step| cpu(&step.action)).collect()
    }

    /// How often each placement of `threads` threads on 2 CPUs is drawn in 6000.
    fn frequencies(threads: usize) -> BTreeMap<Vec<u32>, usize> {
        let machine = fixture::machine("[[object]]\nkind = 'core'\ncount = 2");
        let threads = fixture::threads(&machine, &vec![None; threads]);
        let mut seen = BTreeMap::new();
        for seed in 0..6000 {
            let plan = Random::new(seed).decide(&fixture::view(&machine, &threads));
            *seen.entry(placement(&plan)).or_default() += 1;
        }
        seen
    }

    #[test]
    fn placements_within_the_even_share_are_equally_likely() {
        // 3 on 2 CPUs, at most 2 on each: 2^3 - 2 = 6 placements; 1000 each, deviation 29.
        let seen = frequencies(3);
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (850..=1150).contains(count)), "{seen:?}");
        assert_eq!(frequencies(2).len(), 2);
    }

    #[test]
    fn threads_are_drawn_once_and_arrivals_fill_the_free_cpus() {
        let machine = fixture::x5365();
        let threads = fixture::threads(&machine, &[None; 8]);
        let mut policy = Random::new(1);
        let mut cpus = placement(&policy.decide(&fixture::view(&machine, &threads[..5])));
        let later =
            policy.on_event(&Event::Arrived(ThreadId(5)), &fixture::view(&machine, &threads));
        cpus.extend(placement(&later.unwrap()));
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(policy.decide(&fixture::view(&machine, &threads)), Plan::none());
    }

    #[test]
    fn a_thread_stays_within_what_its_user_allowed() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None; 3]);
        for thread in &mut threads[..2] {
            thread.may_run_on = "3".parse().unwrap();
        }
        for seed in 0..50 {
            let plan = Random::new(seed).decide(&fixture::view(&machine, &threads));
            let cpus = placement(&plan);
            assert_eq!(cpus[..2], [3, 3]);
            assert_ne!(cpus[2], 3);
        }
    }
}
