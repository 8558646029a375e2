//! From what is known of the threads to a plan: what is searched, whether it pays, and the steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_model::Model;

use super::Corun;
use super::cost::Cost;
use super::learned::{World, Worlds};
use super::programs::Programs;
use super::search::{Predicted, Search, Situation, Thread};
use super::ways::Divisible;
use crate::{Action, CachePart, Plan, ThreadId, ThreadView, View};

/// The longest time for which things are taken to stay as they are.
pub(super) const LONGEST_HORIZON_S: f64 = 60.0;
/// A placement that did not pay is looked at again when the horizon has grown by this factor.
const HORIZON_GROWN: f64 = 1.25;

/// A search that changed nothing: the same question has the same answer until the horizon has grown.
pub(super) struct Settled {
    at: Situation,
    /// Each thread's program and the CPUs that it may run on.
    threads: Vec<(Worlds, Vec<bool>)>,
    horizon_s: f64,
}

/// A change that is worth making, as predicted.
pub(super) struct Change {
    pub(super) from: Predicted,
    pub(super) to: Predicted,
    /// What it costs, as a share of all threads' time until the next change.
    pub(super) share: f64,
}

/// Between an interval and the longest horizon; an interval may be longer than that.
fn horizon_s(since_s: f64, interval_s: f64) -> f64 {
    since_s.clamp(interval_s, LONGEST_HORIZON_S.max(interval_s))
}

impl Settled {
    fn answers(&self, at: &Situation, threads: &[Thread], horizon_s: f64) -> bool {
        let same = |((worlds, may), now): (&(Worlds, Vec<bool>), &Thread)| {
            Arc::ptr_eq(&worlds.likely, &now.worlds.likely) && *may == now.may
        };
        self.at == *at
            && horizon_s < HORIZON_GROWN * self.horizon_s
            && self.threads.len() == threads.len()
            && self.threads.iter().zip(threads).all(same)
    }
}

impl Corun {
    pub(super) fn search<'a>(&self, model: &'a Model, threads: &'a [Thread]) -> Search<'a> {
        Search::new(model, threads, self.objective, self.most_loss)
    }

    /// For how long things are taken to stay as they are: as long as they did so far.
    pub(super) fn horizon_s(&self, view: &View<'_>) -> f64 {
        let since = view.now.as_secs_f64() - self.same_since.as_secs_f64();
        horizon_s(since, self.interval_s(view.machine))
    }

    pub(super) fn plan(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        threads: &[Thread],
        model: &Model,
    ) -> Plan {
        let Some(now) = self.situation(view.machine, running, &self.parts.decided) else {
            return Plan::none();
        };
        let horizon_s = self.horizon_s(view);
        let mut plan = Plan::none();
        if self.settled.as_ref().is_some_and(|one| one.answers(&now, threads, horizon_s)) {
            // A trial may have ended.
            self.divide(view, running, &now, None, &mut plan);
            return plan;
        }
        let mut search = self.search(model, threads);
        // After a trial of places the question is what is better than those before it.
        let origin = self.origin.take();
        let origin = origin.and_then(|one| self.before(view.machine, running, &now, &one));
        let start = origin.as_ref().unwrap_or(&now);
        match self.searched(view, running, horizon_s, &mut search, start) {
            Some(change) if self.wants_check(&search, &change.from, &change.to) => {
                self.begin_check(view.machine, running, &mut search, &change, &mut plan);
            }
            Some(change) => {
                self.steps(view, running, (&change.from, &change.to), &mut plan);
            }
            None => {
                self.divide(view, running, &now, None, &mut plan);
                let at = search.predicted(now.clone());
                self.tell_slower(running, &at, &mut plan);
                if let Some(origin) = &origin {
                    self.go_back(view, running, &mut search, (&at, origin), &mut plan);
                }
                if plan.steps.is_empty() {
                    self.try_places(view, running, &mut search, (&at, horizon_s), &mut plan);
                }
                if plan.steps.is_empty() {
                    self.try_ways(view, running, &mut search, &at, &mut plan);
                }
            }
        }
        self.settled = plan.steps.is_empty().then(|| Settled {
            at: now,
            threads: threads.iter().map(|one| (one.worlds.clone(), one.may.clone())).collect(),
            horizon_s,
        });
        plan
    }

    /// The present situation and one that is worth going to; none where there is no such.
    pub(super) fn searched(
        &self,
        view: &View<'_>,
        running: &[&ThreadView],
        horizon_s: f64,
        search: &mut Search<'_>,
        now: &Situation,
    ) -> Option<Change> {
        let machine = view.machine;
        let start = apart(machine, now, search.threads)?;
        // What the model says of two threads on one CPU is no measure of what they may lose.
        let is_apart = start == *now;
        let from = search.predicted(now.clone());
        // Placements are compared with LLCs that are whole: a division is for who is there.
        let start = start.whole();
        let start = if start == *now { from.clone() } else { search.predicted(start) };
        // What programs may lose is measured there, too: else they could lose as much with each new division.
        let bounds = search.bounds_between(&start, &from);
        let mut goals = Vec::new();
        if self.divides_ways && is_apart {
            goals.push(search.divided(from.clone(), World::Likely, &bounds));
        }
        let nodes = machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count();
        let memory = self.moves_pages && nodes > 1;
        let mut starts = vec![start];
        for packed in search.packed(&starts[0], memory) {
            let packed = search.predicted(packed);
            starts.push(packed);
        }
        for start in starts {
            let placed = search.better(start, memory);
            let is_elsewhere =
                placed.situation.cpus != now.cpus || placed.situation.homes != now.homes;
            if is_elsewhere || goals.is_empty() {
                if self.divides_ways && is_elsewhere {
                    goals.push(search.divided(placed.clone(), World::Likely, &bounds));
                }
                goals.push(placed);
            }
        }
        let loses = |goal: &Predicted| {
            goal.outcomes.iter().zip(&bounds).any(|(one, &bound)| one.slowdown > bound)
        };
        goals.retain(|goal| goal.situation != *now && !(is_apart && loses(goal)));
        // A placement whose LLCs stay whole was searched for divisions, too.
        goals.dedup_by(|one, other| one.situation == other.situation);
        if goals.is_empty() {
            return None;
        }
        let cost = Cost { model: search.model, footprint_bytes: self.footprint_bytes };
        // As a share of all threads' time until the next change.
        let time_s = horizon_s * search.threads.len() as f64;
        let situations: Vec<&Predicted> = std::iter::once(&from).chain(&goals).collect();
        let values = search.values_over_phases(&situations);
        let mut goals: Vec<(f64, f64, Predicted)> = goals
            .into_iter()
            .zip(&values[1..])
            .map(|(goal, value)| {
                let share = cost.thread_seconds(&from, &goal, search.threads) / time_s;
                let net = 1.0 - value / values[0] - share;
                (net, share, goal)
            })
            .collect();
        goals.sort_by(|one, other| other.0.total_cmp(&one.0));
        goals
            .into_iter()
            .find(|(net, share, goal)| {
                if self.wants_check(search, &from, goal) {
                    *net >= self.least_gain_to_check()
                        && !self.was_given_up(view, running, (&from, goal))
                } else {
                    *net >= self.least_gain_of(search)
                        && (search.are_known() || self.is_sure(search, *share, (&from, goal)))
                }
            })
            .map(|(_, share, goal)| Change { from, to: goal, share })
    }

    /// Is the gain of a change more than the estimate may be wrong by?
    fn is_sure(
        &self,
        search: &mut Search<'_>,
        share: f64,
        (from, to): (&Predicted, &Predicted),
    ) -> bool {
        let gain = search.gain(from, to);
        let least = self.least_gain_of(search);
        gain.likely - share >= least.max(self.caution * gain.error) && gain.least - share >= -least
    }

    /// By which share a change must lower the objective.
    fn least_gain_of(&self, search: &Search<'_>) -> f64 {
        if search.are_known() { self.least_gain } else { self.least_estimated_gain }
    }

    pub(super) fn steps(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        (from, to): (&Predicted, &Predicted),
        plan: &mut Plan,
    ) {
        let machine = view.machine;
        let (now, goal) = (&from.situation, &to.situation);
        let programs = Programs::of(running.iter().map(|thread| thread.process));
        let value = |at: &Predicted| {
            self.objective.value_at(machine, &programs, &at.situation.cpus, &at.paces())
        };
        let [before, after] = [from, to].map(value);
        let slower = self.objective.slower(&to.paces());
        for (index, thread) in running.iter().enumerate() {
            let cpu = machine.cpus()[goal.cpus[index]].id;
            let cpus: CpuSet = std::iter::once(cpu).collect();
            let (slowdown, then) = (from.outcomes[index].slowdown, to.outcomes[index].slowdown);
            let mut told = format!(
                "{}: {slowdown:.2} to {then:.2} times its time alone, all {before:.3} to {after:.3}, predicted",
                thread.program
            );
            if let Some(target) = self.objective.target().filter(|_| slower.contains(&index)) {
                let _ = write!(told, "; slower than asked, {target:.2}");
            }
            if thread.allowed != cpus {
                let reason = if now.cpus[index] == goal.cpus[index] {
                    format!("{told}; held where it is")
                } else {
                    told.clone()
                };
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
                self.held.insert(thread.id);
            }
            if now.homes[index] != goal.homes[index] {
                let node = goal.homes[index].iter().position(|&share| share > 0.5).unwrap_or(0);
                plan.push(Action::MovePages { thread: thread.id, node }, told);
                self.sent.insert(thread.id, node);
            }
        }
        self.divide(view, running, goal, Some((from, to)), plan);
        self.told_slower = slower.iter().map(|&index| running[index].id).collect();
    }

    /// Asks for the ways of a situation, LLC by LLC where they are not what was asked for last.
    pub(super) fn divide(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        goal: &Situation,
        predicted: Option<(&Predicted, &Predicted)>,
        plan: &mut Plan,
    ) {
        if !self.divides_ways {
            return;
        }
        let machine = view.machine;
        for llc in 0..machine.llcs().len() {
            let parts = parts_of(machine, running, goal, llc);
            let here = |index: &usize| machine.cpus()[goal.cpus[*index]].llc == llc;
            if !(0..running.len()).any(|index| here(&index)) {
                continue;
            }
            let reason = || self::reason(machine, running, llc, &parts, predicted);
            self.parts.ask((llc, parts.clone()), false, reason, (view, running), plan);
        }
    }

    /// Names those who are slower than the target where nothing better is found, once: they are held where they
    /// are.
    fn tell_slower(&mut self, running: &[&ThreadView], at: &Predicted, plan: &mut Plan) {
        let slower = self.objective.slower(&at.paces());
        let ids: Vec<ThreadId> = slower.iter().map(|&index| running[index].id).collect();
        if ids == self.told_slower {
            return;
        }
        let target = self.objective.target().unwrap_or_default();
        for &index in &slower {
            let (thread, slowdown) = (running[index], at.outcomes[index].slowdown);
            let reason = format!(
                "{}: {slowdown:.2} times its time alone, predicted; slower than asked, {target:.2}, and no \
                 better place or division is found",
                thread.program
            );
            if let Some(cpu) = thread.cpu {
                let cpus: CpuSet = std::iter::once(cpu).collect();
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
                self.held.insert(thread.id);
            }
        }
        self.told_slower = ids;
    }

    /// Puts a program on trial where what it does with other ways may change the decision.
    fn try_ways(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        search: &mut Search<'_>,
        at: &Predicted,
        plan: &mut Plan,
    ) {
        if !self.divides_ways || !self.trials.of_ways() || search.are_known() {
            return;
        }
        let Some(doubtful) = self.doubtful(search, at) else { return };
        for (index, mask) in doubtful {
            let llc = view.machine.cpus()[at.situation.cpus[index]].llc;
            let Some(divisible) = Divisible::of(view.machine, llc) else { continue };
            let most = divisible.ways - divisible.least;
            let ways = mask.count_ones().clamp(divisible.least, most);
            let program = &running[index].program;
            if !self.trials.may(program, ways, view.now) {
                continue;
            }
            let process = search.threads[index].process;
            let here = |other: &usize| view.machine.cpus()[at.situation.cpus[*other]].llc == llc;
            let own = |other: &usize| search.threads[*other].process == process;
            let ids = |of: &dyn Fn(&usize) -> bool| -> Vec<ThreadId> {
                (0..running.len()).filter(here).filter(of).map(|one| running[one].id).collect()
            };
            let own_mask = crate::partitioning::mask(0, ways);
            let parts = vec![
                CachePart { mask: own_mask, threads: ids(&own) },
                CachePart { mask: divisible.all() & !own_mask, threads: ids(&|one| !own(one)) },
            ];
            if parts.iter().any(|part| part.threads.is_empty()) {
                continue;
            }
            let reason =
                || format!("LLC {llc}: sampling {program} with {ways} of {} ways", divisible.ways);
            self.parts.ask((llc, parts), true, reason, (view, running), plan);
            self.trials.begin(program, ways, view.now, self.interval_s(view.machine));
            return;
        }
    }

    /// Of a division that pays with other curves and not surely: the threads by how unsure they make it, the most
    /// first, with the ways that they have in it.
    fn doubtful(&self, search: &mut Search<'_>, at: &Predicted) -> Option<Vec<(usize, u64)>> {
        let mut best: Option<(f64, Situation)> = None;
        for world in [World::Likely, World::Steep, World::Flat] {
            let outcomes = search.outcomes(world, &at.situation);
            let now = Predicted { situation: at.situation.clone(), outcomes };
            let bounds = search.bounds(&now);
            let before = search.value(&now);
            let to = search.divided(now, world, &bounds);
            let gain = 1.0 - search.value(&to) / before;
            if gain >= self.least_estimated_gain
                && best.as_ref().is_none_or(|(most, _)| gain > *most)
            {
                best = Some((gain, to.situation));
            }
        }
        let to = search.predicted(best?.1);
        let mut errors = search.errors(at, &to);
        errors.sort_by(|one, other| other.1.total_cmp(&one.1));
        let unsure = errors.into_iter().filter(|&(_, error)| error > 0.0);
        Some(unsure.map(|(index, _)| (index, to.situation.masks[index])).collect())
    }
}

/// The parts of an LLC in a situation, in the order of their ways; none where it is whole.
fn parts_of(
    machine: &Machine,
    running: &[&ThreadView],
    at: &Situation,
    llc: usize,
) -> Vec<CachePart> {
    let mut parts: BTreeMap<u32, CachePart> = BTreeMap::new();
    for (index, thread) in running.iter().enumerate() {
        let mask = at.masks[index];
        if machine.cpus()[at.cpus[index]].llc == llc && mask != 0 {
            let empty = || CachePart { mask, threads: Vec::new() };
            let part = parts.entry(mask.trailing_zeros()).or_insert_with(empty);
            part.threads.push(thread.id);
        }
    }
    parts.into_values().collect()
}

/// Why an LLC is divided so.
fn reason(
    machine: &Machine,
    running: &[&ThreadView],
    llc: usize,
    parts: &[CachePart],
    predicted: Option<(&Predicted, &Predicted)>,
) -> String {
    let ways = Divisible::of(machine, llc).map_or(0, |one| one.ways);
    let mut reason = format!("LLC {llc}");
    if parts.is_empty() {
        reason.push_str(" whole");
    }
    for part in parts {
        let _ = write!(reason, "; {} of {ways} ways:", part.mask.count_ones());
        let own = running.iter().enumerate().filter(|(_, one)| part.threads.contains(&one.id));
        for (number, (index, thread)) in own.enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(reason, "{comma} {}", thread.program);
            if let Some((from, to)) = predicted {
                let [before, after] = [from, to].map(|at| at.outcomes[index].slowdown);
                let _ = write!(reason, " ({before:.2} to {after:.2})");
            }
        }
    }
    reason
}

/// The situation with no two threads on one CPU: where the kernel has not spread them yet, those that came
/// later go to the nearest idle CPU. None where there is no idle CPU for one.
pub(super) fn apart(machine: &Machine, now: &Situation, threads: &[Thread]) -> Option<Situation> {
    let mut at = now.clone();
    let mut taken = vec![false; machine.cpus().len()];
    let mut without = Vec::new();
    for (index, &cpu) in now.cpus.iter().enumerate() {
        if taken[cpu] || !threads[index].may[cpu] {
            without.push(index);
        } else {
            taken[cpu] = true;
        }
    }
    for index in without {
        let from = machine.cpus()[now.cpus[index]];
        let idle = (0..taken.len()).filter(|&cpu| !taken[cpu] && threads[index].may[cpu]);
        let nearest = idle.min_by_key(|&cpu| {
            let to = machine.cpus()[cpu];
            let siblings = (0..taken.len())
                .filter(|&other| taken[other] && machine.cpus()[other].core == to.core);
            (siblings.count(), to.llc != from.llc, to.node != from.node, cpu)
        })?;
        taken[nearest] = true;
        at.cpus[index] = nearest;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_may_be_longer_than_the_longest_horizon() {
        assert_eq!(horizon_s(10.0, 1.0), 10.0);
        assert_eq!(horizon_s(0.0, 1.0), 1.0);
        assert_eq!(horizon_s(100.0, 1.0), LONGEST_HORIZON_S);
        assert_eq!(horizon_s(100.0, 75.0), 75.0);
    }
}
