//! Situations on fewer or on more packages, which single steps do not come to.
//!
//! A package draws power while any of its cores is busy. The first thread that leaves it saves nothing, and the first that
//! comes to one that sleeps wakes all of it: only the step after several others shows whether they paid. Where the
//! objective asks for power, the search of a placement therefore also starts from each number of packages.

use std::cmp::Reverse;

use super::search::{Predicted, Search, Situation};

impl Search<'_> {
    /// The situation with its threads on each number of packages that has CPUs for them, where the objective asks for
    /// power: those with most threads now, evenly filled. `memory`: pages go with their thread, where they can.
    pub(super) fn packed(&self, at: &Predicted, memory: bool) -> Vec<Situation> {
        let machine = self.model.machine();
        let packages = machine.packages().len();
        if !self.objective.is_of_power() || packages < 2 {
            return Vec::new();
        }
        let mut threads_on = vec![0_u32; packages];
        for &cpu in &at.situation.cpus {
            threads_on[machine.cpus()[cpu].package] += 1;
        }
        let mut order: Vec<usize> = (0..packages).collect();
        order.sort_by_key(|&package| (Reverse(threads_on[package]), package));
        let on = |count: usize| {
            let mut is_used = vec![false; packages];
            order[..count].iter().for_each(|&package| is_used[package] = true);
            self.filled(at, &is_used, memory)
        };
        (1..=packages).filter_map(on).filter(|next| *next != at.situation).collect()
    }

    /// The situation with all threads on CPUs of some packages, evenly; none where there are too few that they may run on.
    fn filled(&self, at: &Predicted, is_used: &[bool], memory: bool) -> Option<Situation> {
        let places = self.model.machine().cpus();
        let mut next = at.situation.clone();
        for thread in 0..next.cpus.len() {
            if !is_used[places[next.cpus[thread]].package] {
                let cpu = self.emptiest(thread, &next.cpus, is_used)?;
                self.put(thread, cpu, memory, &mut next);
            }
        }
        // Those who suffer most leave the fullest first. Each step evens out, so that there is an end.
        let mut order: Vec<usize> = (0..next.cpus.len()).collect();
        let slowdown = |thread: usize| at.outcomes[thread].slowdown;
        order.sort_by(|&one, &other| slowdown(other).total_cmp(&slowdown(one)));
        while let Some((thread, cpu)) = order.iter().find_map(|&thread| {
            let cpu = self.emptiest(thread, &next.cpus, is_used)?;
            self.is_evener(next.cpus[thread], cpu, &next.cpus).then_some((thread, cpu))
        }) {
            self.put(thread, cpu, memory, &mut next);
        }
        Some(next)
    }

    fn put(&self, thread: usize, cpu: usize, memory: bool, at: &mut Situation) {
        let places = self.model.machine().cpus();
        let is_far = places[at.cpus[thread]].node != places[cpu].node;
        at.cpus[thread] = cpu;
        if memory && is_far && self.threads[thread].moves_memory {
            self.bring_memory(thread, at);
        }
    }

    /// The idle CPU of some packages that a thread may run on with the fewest threads on its package, then on its LLC, then
    /// on its core; the first of several.
    fn emptiest(&self, thread: usize, cpus: &[usize], is_used: &[bool]) -> Option<usize> {
        let places = self.model.machine().cpus();
        let free = (0..places.len()).filter(|cpu| {
            is_used[places[*cpu].package] && self.threads[thread].may[*cpu] && !cpus.contains(cpu)
        });
        free.min_by_key(|&cpu| self.load(cpu, cpus))
    }

    /// Threads on a CPU's package, on its LLC and on its core.
    fn load(&self, cpu: usize, cpus: &[usize]) -> [usize; 3] {
        let places = self.model.machine().cpus();
        let own = &places[cpu];
        let count =
            |is_same: &dyn Fn(usize) -> bool| cpus.iter().filter(|&&on| is_same(on)).count();
        [
            count(&|on| places[on].package == own.package),
            count(&|on| places[on].llc == own.llc),
            count(&|on| places[on].core == own.core),
        ]
    }

    /// Is a thread's move evener: to a package with two threads less, or in its package to an LLC, or in its LLC to a core, with
    /// two less?
    fn is_evener(&self, from: usize, to: usize, cpus: &[usize]) -> bool {
        let places = self.model.machine().cpus();
        let (from, to, before, after) =
            (&places[from], &places[to], self.load(from, cpus), self.load(to, cpus));
        let level = if from.package != to.package {
            0
        } else if from.llc != to.llc {
            1
        } else {
            2
        };
        before[level] >= after[level] + 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use corun_machine::preset;
    use corun_model::{LoadedProgram, Model, ModelOptions};
    use corun_profile::Library;

    use super::super::learned::Worlds;
    use super::super::objective::Objective;
    use super::super::search::Thread;
    use super::*;
    use crate::ProcessId;

    fn packages(search: &Search<'_>, at: &Situation) -> BTreeSet<usize> {
        at.cpus.iter().map(|&cpu| search.model.machine().cpus()[cpu].package).collect()
    }

    /// Four threads on the four LLCs of two packages: all in one package, two on each LLC; from there on both again.
    #[test]
    fn threads_are_packed_and_spread_evenly() {
        let machine = preset("xeon-x5365").unwrap();
        let model = Model::new(Arc::new(machine), ModelOptions::default()).unwrap();
        let library = Library::shipped().unwrap();
        let program: Arc<LoadedProgram> =
            Arc::new(model.load(library.get("sort").unwrap()).unwrap());
        let thread = |process| Thread {
            worlds: Worlds::known(program.clone()),
            may: vec![true; 8],
            moves_memory: true,
            process: ProcessId(process),
        };
        let threads: Vec<Thread> = (0..4).map(thread).collect();
        let llcs: Vec<usize> = model.machine().cpus().iter().map(|cpu| cpu.llc).collect();
        let first = |llc: usize| llcs.iter().position(|&other| other == llc).unwrap();
        let spread = Situation {
            cpus: (0..4).map(first).collect(),
            homes: vec![Vec::new(); 4],
            masks: vec![0; 4],
        };
        let search = |threads, kind| Search::new(&model, threads, Objective::of(kind, 0.0), 0.5);
        let mut energy = search(&threads, 3.0);
        let at = energy.predicted(spread.clone());
        let found = energy.packed(&at, false);
        assert_eq!(found.len(), 1, "on two packages it is as it was: {found:?}");
        let mut on = found[0].cpus.iter().map(|&cpu| llcs[cpu]).collect::<Vec<usize>>();
        on.sort_unstable();
        assert_eq!((packages(&energy, &found[0]).len(), on), (1, vec![0, 0, 1, 1]));
        let packed = energy.predicted(found[0].clone());
        let again = energy.packed(&packed, false);
        let on: BTreeSet<usize> = again[0].cpus.iter().map(|&cpu| llcs[cpu]).collect();
        assert_eq!((again.len(), on.len()), (1, 4), "{again:?}");
        assert!(search(&threads, 0.0).packed(&at, false).is_empty(), "the mean asks for no power");
        // One that must stay on the last LLC keeps both packages busy.
        let mut bound: Vec<Thread> = (0..4).map(thread).collect();
        bound[3].may = llcs.iter().map(|&llc| llc == 3).collect();
        let kept = search(&bound, 3.0).packed(&at, false);
        assert!(kept.is_empty(), "{kept:?}");
    }
}
