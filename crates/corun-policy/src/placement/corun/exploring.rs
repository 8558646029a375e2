//! Placements on trial: threads change places for a moment where what that teaches is worth more than it costs.
//!
//! A change whose gain is not sure may be a large one. What trying it is worth is the expected improvement (Mockus,
//! Tiesis and Zilinskas, "The application of Bayesian methods for seeking the extremum", 1978): the mean of the
//! gain over those of its values above 0, since a change that turns out badly is undone. What it costs is the
//! time that it takes at its predicted slowdowns, and the caches that fill again, there and back.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuSet, Machine};

use super::Corun;
use super::cost::Cost;
use super::learned::World;
use super::search::{Predicted, Search, Situation};
use super::trial::{Companions, TRIAL_PART, companions};
use crate::{Action, Plan, ThreadId, ThreadView, View};

/// What a trial must be expected to bring beyond its cost, as a share of the objective.
const LEAST_WORTH: f64 = 0.001;
/// Steps that are looked at, and those of them whose errors are propagated: bounds on a decision's time.
const MOST_STEPS: usize = 200;
const MOST_CANDIDATES: usize = 6;

/// A placement to try.
struct Candidate {
    /// Where threads go. Their memory stays until the placement is taken up for good.
    to: Situation,
    /// The LLCs that somebody comes to or leaves.
    llcs: BTreeSet<usize>,
    worth: f64,
}

impl Corun {
    /// Puts threads elsewhere for a moment, where that may teach enough.
    pub(super) fn try_places(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        search: &mut Search<'_>,
        (at, horizon_s): (&Predicted, f64),
        plan: &mut Plan,
    ) {
        if !self.trials.of_places() || search.are_known() {
            return;
        }
        let machine = view.machine;
        let Some(best) = self.worthwhile(view, running, search, (at, horizon_s)) else { return };
        let key = together(machine, running, &best);
        let names = |index: usize| running[index].program.as_str();
        let moved =
            (0..running.len()).filter(|&index| best.to.cpus[index] != at.situation.cpus[index]);
        let moved: Vec<usize> = moved.collect();
        let of: Vec<&str> = moved.iter().map(|&index| names(index)).collect();
        let origin = moved.iter().map(|&index| (running[index].id, at.situation.cpus[index]));
        self.origin = Some(origin.collect());
        for &index in &moved {
            let reason = format!(
                "sampling {} in other places, worth {:.1} % by what it may teach",
                of.join(" and "),
                100.0 * best.worth
            );
            self.hold(machine, running[index], best.to.cpus[index], reason, plan);
        }
        for &llc in &best.llcs {
            let reason = || format!("LLC {llc} whole while {} are sampled", of.join(" and "));
            self.parts.ask((llc, Vec::new()), true, reason, (view, running), plan);
        }
        self.trials.begin_places(key, view.now, self.interval_s(machine));
    }

    /// The placement whose trial is worth most, if one is.
    fn worthwhile(
        &self,
        view: &View<'_>,
        running: &[&ThreadView],
        search: &mut Search<'_>,
        (at, horizon_s): (&Predicted, f64),
    ) -> Option<Candidate> {
        let machine = view.machine;
        let whole = at.situation.clone().whole();
        let now = if whole == at.situation { at.clone() } else { search.predicted(whole) };
        let bounds = search.bounds(&now);
        let likely = search.value(&now);
        let worlds = [World::Steep, World::Flat];
        let values = worlds.map(|world| search.value_if(|_| world, &now.situation));
        let mut hopeful: Vec<(f64, Predicted)> = Vec::new();
        for next in search.neighbours(&now, MOST_STEPS) {
            let next = search.predicted(next);
            if next.outcomes.iter().zip(&bounds).any(|(one, &bound)| one.slowdown > bound) {
                continue;
            }
            let gain = 1.0 - search.value(&next) / likely;
            let spread: f64 = worlds
                .iter()
                .zip(values)
                .map(|(&world, before)| {
                    let value = search.value_if(|_| world, &next.situation);
                    (1.0 - value / before - gain).abs()
                })
                .sum();
            hopeful.push((gain + spread, next));
        }
        hopeful.sort_by(|one, other| other.0.total_cmp(&one.0));
        hopeful.truncate(MOST_CANDIDATES);
        let worth = |next: Predicted| self.worth(search, (at, &now), next, horizon_s);
        hopeful
            .into_iter()
            .map(|(_, next)| next)
            .map(worth)
            .filter(|one| one.worth > LEAST_WORTH)
            .filter(|one| self.trials.may_place(&together(machine, running, one), view.now))
            .max_by(|one, other| one.worth.total_cmp(&other.worth))
    }

    /// What trying a placement is worth beyond its cost.
    fn worth(
        &self,
        search: &mut Search<'_>,
        (at, now): (&Predicted, &Predicted),
        next: Predicted,
        horizon_s: f64,
    ) -> Candidate {
        let machine = search.model.machine();
        let llc = |cpu: usize| machine.cpus()[cpu].llc;
        let mut llcs = BTreeSet::new();
        for (&from, &to) in now.situation.cpus.iter().zip(&next.situation.cpus) {
            if from != to {
                llcs.extend([llc(from), llc(to)]);
            }
        }
        let cost = Cost { model: search.model, footprint_bytes: self.footprint_bytes };
        let time_s = horizon_s * search.threads.len() as f64;
        let value = |at: &Predicted| search.value(at);
        let gain = 1.0
            - value(&next) / value(now)
            - cost.thread_seconds(now, &next, search.threads) / time_s;
        let touched = |thread: usize| llcs.contains(&llc(now.situation.cpus[thread]));
        let to = Situation { homes: now.situation.homes.clone(), ..next.situation.clone() };
        let there = if to == next.situation { next.clone() } else { search.predicted(to) };
        let errors = search.errors_of(touched, now, &next);
        let error = errors.iter().map(|(_, error)| error.powi(2)).sum::<f64>().sqrt();
        let value = |at: &Predicted| search.value(at);
        let slower = (value(&there) / value(at) - 1.0).max(0.0);
        let refills = cost.thread_seconds(at, &there, search.threads)
            + cost.thread_seconds(&there, at, search.threads);
        let trial_s = TRIAL_PART * self.interval_s(machine);
        let worth = expected_improvement(gain, error)
            - (slower + error) * trial_s / horizon_s
            - refills / time_s;
        Candidate { to: there.situation, llcs, worth }
    }

    /// The situation before a trial of places, where all its threads still run and their CPUs are free for them.
    pub(super) fn before(
        &self,
        machine: &Machine,
        running: &[&ThreadView],
        now: &Situation,
        origin: &BTreeMap<ThreadId, usize>,
    ) -> Option<Situation> {
        let mut before = now.clone();
        for (&id, &cpu) in origin {
            let index = running.iter().position(|thread| thread.id == id)?;
            before.cpus[index] = cpu;
        }
        let cpus: BTreeSet<usize> = before.cpus.iter().copied().collect();
        before.masks = self.parts.decided.masks(machine, running, &before.cpus);
        (cpus.len() == running.len()).then_some(before)
    }

    /// Threads that were on trial go back, where they did better before by what is known now, and on one node always: there
    /// a place can be checked, which says more than what is predicted of it.
    pub(super) fn go_back(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        search: &mut Search<'_>,
        (at, before): (&Predicted, &Situation),
        plan: &mut Plan,
    ) {
        let before = search.predicted(before.clone());
        let [then, now] = [&before, at].map(|at| search.value(at));
        let nodes = view.machine.nodes().iter().filter(|node| !node.cpus.is_empty()).count();
        if then >= now && nodes > 1 {
            return;
        }
        for (index, thread) in running.iter().enumerate() {
            let cpu = before.situation.cpus[index];
            if cpu != at.situation.cpus[index] {
                let reason = format!(
                    "{}: back where it was, all {now:.3} to {then:.3}, predicted after sampling",
                    thread.program
                );
                self.hold(view.machine, thread, cpu, reason, plan);
            }
        }
        self.divide(view, running, &before.situation, Some((at, &before)), plan);
    }

    /// Holds a thread on a CPU (index).
    fn hold(
        &mut self,
        machine: &Machine,
        thread: &ThreadView,
        cpu: usize,
        reason: String,
        plan: &mut Plan,
    ) {
        let cpus: CpuSet = std::iter::once(machine.cpus()[cpu].id).collect();
        plan.push(Action::Allow { thread: thread.id, cpus }, reason);
        self.held.insert(thread.id);
    }
}

/// Who would be together on the LLCs of a trial, by name.
fn together(machine: &Machine, running: &[&ThreadView], one: &Candidate) -> Companions {
    let places = running.iter().zip(&one.to.cpus);
    companions(machine, &one.llcs, places.map(|(thread, &cpu)| (thread.program.as_str(), cpu)))
}

/// The mean of max(0, x) where x is normally distributed.
fn expected_improvement(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    deviation * density + mean * share_below(z)
}

/// The share of a standard normal distribution below z, within 1e-5 (Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 26.2.16).
fn share_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.33267 * z.abs());
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    let above = density * t * (0.436_183_6 + t * (-0.120_167_6 + t * 0.937_298));
    if z < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a mean of 0 a standard deviation brings 0.3989; of one far below nothing; of one far above the mean.
    #[test]
    fn the_expected_improvement_is_the_one_of_the_tables() {
        assert!((expected_improvement(0.0, 1.0) - 0.398_942).abs() < 2e-5);
        // phi(1) - 1 (1 - Phi(1)) = 0.241971 - 0.158655
        assert!((expected_improvement(-1.0, 1.0) - 0.083_316).abs() < 2e-5);
        assert!((expected_improvement(0.02, 0.02) - 0.02 * 1.083_316).abs() < 2e-6);
        assert!(expected_improvement(-5.0, 1.0).abs() < 1e-5);
        assert_eq!([expected_improvement(0.5, 0.0), expected_improvement(-0.5, 0.0)], [0.5, 0.0]);
    }
}
