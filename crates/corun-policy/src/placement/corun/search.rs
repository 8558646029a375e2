//! The search: from where threads are to a better place by exchanges and moves, one at a time.

use corun_machine::{Cpu, Machine};
use corun_model::{CacheGroup, Flow, LoadedProgram, Member, Model, Outcome, Pace, Scratch};

use super::learned::{World, Worlds};
use super::objective::Objective;
use super::programs::Programs;
use super::shared_caches::SharedCaches;
use crate::ProcessId;

/// A step has to lower the objective by this share, where threads do not take turns.
const LEAST_STEP: f64 = 1e-4;
/// Machines that a decision asks the model about: a bound on its time.
const MOST_QUESTIONS: usize = 600;

/// Where threads run, where their memory lies, and which ways of their LLC they have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Situation {
    /// CPU index by thread.
    pub(super) cpus: Vec<usize>,
    /// Shares of a thread's pages by node; empty: where it runs.
    pub(super) homes: Vec<Vec<f64>>,
    /// By thread the ways of its LLC that it has, bit i for way i; 0: the LLC is whole. Masks on an LLC are equal
    /// or have no way in common.
    pub(super) masks: Vec<u64>,
}

impl Situation {
    /// Becomes the same as another, in the memory that it has.
    fn copy(&mut self, other: &Self) {
        self.cpus.clone_from(&other.cpus);
        self.homes.clone_from(&other.homes);
        self.masks.clone_from(&other.masks);
    }

    /// The same with all LLCs whole.
    pub(super) fn whole(mut self) -> Self {
        self.masks.fill(0);
        self
    }
}

/// A situation, and what the likely world says of each thread in it.
#[derive(Debug, Clone)]
pub(super) struct Predicted {
    pub(super) situation: Situation,
    pub(super) outcomes: Vec<Outcome>,
}

impl Predicted {
    /// Each thread's pace.
    pub(super) fn paces(&self) -> Vec<Pace> {
        self.outcomes.iter().map(Outcome::pace).collect()
    }
}

/// A thread that takes part, as the search sees it.
pub(super) struct Thread {
    pub(super) worlds: Worlds,
    /// May it run on a CPU (index)?
    pub(super) may: Vec<bool>,
    /// Can its memory be moved? Not that of a process with several threads here.
    pub(super) moves_memory: bool,
    /// Threads of a process have the same ways of an LLC.
    pub(super) process: ProcessId,
}

pub(super) struct Search<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a [Thread],
    pub(super) objective: Objective,
    /// The largest share of its speed that a program may lose against where it is now.
    pub(super) most_loss: f64,
    /// What the speed of each thread is worth by core type, where that is made large in place of the objective small; empty: it
    /// is not.
    weights: Vec<Vec<f64>>,
    /// A step has to lower the objective by this share.
    least_step: f64,
    /// How often the model was asked about a situation.
    pub(super) questions: usize,
    pub(super) programs: Programs,
    scratch: Scratch,
    caches: SharedCaches,
    /// What was said last, by thread.
    paces: Vec<Pace>,
}

/// By which share a change lowers the objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Gain {
    /// As the likely curves have it.
    pub(super) likely: f64,
    /// The least of that, and of the gains with all curves steep and with all flat.
    pub(super) least: f64,
    /// The standard deviation of the gain: the curves of different programs err independently, and small errors
    /// add up (first-order propagation of errors).
    pub(super) error: f64,
}

/// A step of the search.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Two threads change places; their memory goes with them, or stays.
    Swap(usize, usize, bool),
    /// A thread goes to an idle CPU; its memory goes with it, or stays.
    Move(usize, usize, bool),
    /// A thread's memory follows it.
    Memory(usize),
}

impl<'a> Search<'a> {
    pub(super) fn new(
        model: &'a Model,
        threads: &'a [Thread],
        objective: Objective,
        most_loss: f64,
    ) -> Self {
        let (scratch, caches) = (Scratch::default(), SharedCaches::default());
        Self {
            model,
            threads,
            programs: Programs::of(threads.iter().map(|thread| thread.process)),
            objective,
            most_loss,
            weights: Vec::new(),
            least_step: LEAST_STEP,
            questions: 0,
            scratch,
            caches,
            paces: Vec::new(),
        }
    }

    /// From now on a situation is the better the more its threads' speeds, so weighed, sum up to; each step has to raise the sum by
    /// a share, and no thread is kept from losing speed. Without weights the objective is made small all the same.
    pub(super) fn weigh(&mut self, weights: Vec<Vec<f64>>, least_step: f64) {
        (self.weights, self.least_step) = (weights, least_step);
        self.most_loss = 1.0;
    }

    /// What the model says of each thread.
    pub(super) fn outcomes(&mut self, world: World, at: &Situation) -> Vec<Outcome> {
        self.questions += 1;
        self.outcomes_again(world, at)
    }

    /// The same of a situation that has been asked about, of which the paces alone were kept.
    fn outcomes_again(&mut self, world: World, at: &Situation) -> Vec<Outcome> {
        let members = self.members(|_| (world, LoadedProgram::WHOLE), at);
        self.caches.divide(self.model, &members, &mut self.scratch);
        let each = members.iter().zip(&at.homes).enumerate();
        let flows = each.map(|(thread, ((member, _), home))| {
            let demand = *self.caches.demand(thread);
            Flow { member: *member, demand, home }
        });
        let flows: Vec<Flow<'_>> = flows.collect();
        let mut outcomes = Vec::with_capacity(flows.len());
        self.model.couple(&flows, &mut self.scratch, &mut outcomes);
        outcomes
    }

    /// What the model says of each thread's pace, where programs are in these phases.
    pub(super) fn paces_in(&mut self, phases: &[usize], at: &Situation) -> &[Pace] {
        self.paces_of(|thread| (World::Likely, phases[thread]), at)
    }

    fn paces_of(&mut self, who: impl Fn(usize) -> (World, usize), at: &Situation) -> &[Pace] {
        self.questions += 1;
        let members = self.members(who, at);
        let Self { model, scratch, caches, paces, .. } = self;
        caches.divide(model, &members, scratch);
        let caches = &*caches;
        let each = members.iter().zip(&at.homes).enumerate();
        let flows = each
            .map(|(thread, ((member, _), home))| (*member, caches.demand(thread), home.as_slice()));
        paces.clear();
        model.paces(flows, scratch, |pace| paces.push(pace));
        paces
    }

    /// Each thread on its CPU with its part of the LLC, in a world and a phase.
    fn members(
        &self,
        who: impl Fn(usize) -> (World, usize),
        at: &Situation,
    ) -> Vec<(Member<'a>, Option<CacheGroup>)> {
        let machine = self.model.machine();
        let threads: &'a [Thread] = self.threads;
        let group = |index: usize| {
            let mask = at.masks[index];
            if mask == 0 {
                return None;
            }
            let cache = machine.llcs()[machine.cpus()[at.cpus[index]].llc].cache?;
            let way_bytes = cache.size_bytes as f64 / f64::from(cache.ways?);
            let bytes = way_bytes * f64::from(mask.count_ones());
            Some(CacheGroup { id: mask.trailing_zeros(), bytes })
        };
        let member = |(index, thread): (usize, &'a Thread)| {
            let (world, phase) = who(index);
            (Member { program: thread.worlds.of(world), phase, cpu: at.cpus[index] }, group(index))
        };
        threads.iter().enumerate().map(member).collect()
    }

    /// The objective's value of a situation.
    pub(super) fn value(&self, at: &Predicted) -> f64 {
        self.value_of(&at.situation, &at.paces())
    }

    /// The objective's value of a situation where threads have these paces, or 1 / the weighed sum of their speeds.
    pub(super) fn value_of(&self, at: &Situation, paces: &[Pace]) -> f64 {
        if !self.weights.is_empty() {
            let places = self.machine().cpus();
            let weighed = self.weights.iter().zip(&at.cpus).zip(paces);
            let speed = |((by_type, &cpu), pace): ((&Vec<f64>, &usize), &Pace)| {
                by_type[places[cpu].core_type] / pace.slowdown
            };
            return 1.0 / weighed.map(speed).sum::<f64>();
        }
        self.objective.value_at(self.machine(), &self.programs, &at.cpus, paces)
    }

    /// The objective's value of a situation in a world; none where somebody is slower than its bound.
    pub(super) fn value_within(
        &mut self,
        world: World,
        at: &Situation,
        bounds: &[f64],
    ) -> Option<f64> {
        let paces = self.paces_of(|_| (world, LoadedProgram::WHOLE), at);
        let loses = |(pace, bound): (&Pace, &f64)| pace.slowdown > *bound;
        let is_allowed = !paces.iter().zip(bounds).any(loses);
        is_allowed.then(|| self.value_of(at, &self.paces))
    }

    /// A situation with what the likely world says of each thread.
    pub(super) fn predicted(&mut self, situation: Situation) -> Predicted {
        let outcomes = self.outcomes(World::Likely, &situation);
        Predicted { situation, outcomes }
    }

    /// The same in a world, of a situation of which the value is known ([`Search::value_within`]).
    pub(super) fn predicted_again(&mut self, world: World, situation: Situation) -> Predicted {
        let outcomes = self.outcomes_again(world, &situation);
        Predicted { situation, outcomes }
    }

    /// By which share the objective falls from one situation to another, and how far that may be wrong. Worlds
    /// that are the likely one for all threads are not asked about again.
    pub(super) fn gain(&mut self, from: &Predicted, to: &Predicted) -> Gain {
        let [before, after] = [from, to].map(|at| self.value(at));
        let likely = 1.0 - after / before;
        let mut gain = Gain { likely, least: likely, error: 0.0 };
        if self.are_known() {
            return gain;
        }
        for world in [World::Steep, World::Flat] {
            gain.least = gain.least.min(self.gain_if(|_| world, from, to));
        }
        let variance: f64 = self.errors(from, to).iter().map(|(_, error)| error.powi(2)).sum();
        gain.error = variance.sqrt();
        gain
    }

    /// Is no thread's curve an estimate?
    pub(super) fn are_known(&self) -> bool {
        self.threads.iter().all(|thread| thread.worlds.are_one())
    }

    /// By how much each thread's curve may make the gain wrong: the standard deviation with its curve alone steep
    /// or flat. Threads whose worlds are one are left out.
    pub(super) fn errors(&mut self, from: &Predicted, to: &Predicted) -> Vec<(usize, f64)> {
        self.errors_of(|_| true, from, to)
    }

    /// The same of some threads alone.
    pub(super) fn errors_of(
        &mut self,
        of: impl Fn(usize) -> bool,
        from: &Predicted,
        to: &Predicted,
    ) -> Vec<(usize, f64)> {
        let threads = self.threads;
        let likely = self.gain_if(|_| World::Likely, from, to);
        let unsure = (0..threads.len()).filter(|&one| of(one) && !threads[one].worlds.are_one());
        unsure
            .map(|one| {
                let variance = [World::Steep, World::Flat].map(|world| {
                    let of = |thread| if thread == one { world } else { World::Likely };
                    0.5 * (self.gain_if(of, from, to) - likely).powi(2)
                });
                (one, variance.iter().sum::<f64>().sqrt())
            })
            .collect()
    }

    /// By which share the objective falls where threads behave as in different worlds.
    fn gain_if(
        &mut self,
        world: impl Fn(usize) -> World + Copy,
        from: &Predicted,
        to: &Predicted,
    ) -> f64 {
        let [before, after] = [from, to].map(|at| self.value_if(world, &at.situation));
        1.0 - after / before
    }

    /// The objective's value of a situation where threads behave as in different worlds.
    pub(super) fn value_if(&mut self, world: impl Fn(usize) -> World, at: &Situation) -> f64 {
        self.paces_of(|thread| (world(thread), LoadedProgram::WHOLE), at);
        self.value_of(at, &self.paces)
    }

    /// The slowdowns that no decision may lead beyond.
    pub(super) fn bounds(&self, now: &Predicted) -> Vec<f64> {
        now.outcomes.iter().map(|one| one.slowdown / (1.0 - self.most_loss)).collect()
    }

    /// The same from a situation with whole LLCs; nobody slower than it is now.
    pub(super) fn bounds_between(&self, whole: &Predicted, now: &Predicted) -> Vec<f64> {
        let bounds = self.bounds(whole).into_iter().zip(&now.outcomes);
        bounds.map(|(bound, now)| bound.max(now.slowdown)).collect()
    }

    /// A situation that the likely world finds better, reached by the best step each time, and its outcomes;
    /// the present one where there is none. `memory`: may pages move?
    pub(super) fn better(&mut self, now: Predicted, memory: bool) -> Predicted {
        let bounds = self.bounds(&now);
        let mut value = self.value(&now);
        let mut at = now;
        let mut next = at.situation.clone();
        let until = self.questions + MOST_QUESTIONS;
        for _ in 0..2 * self.threads.len() {
            let steps = self.steps(&at, memory, until.saturating_sub(self.questions));
            let mut best: Option<(f64, Step)> = None;
            for step in steps {
                next.copy(&at.situation);
                self.take(step, &mut next);
                let reached = self.value_within(World::Likely, &next, &bounds);
                if let Some(reached) = reached
                    && best.is_none_or(|(least, _)| reached < least)
                {
                    best = Some((reached, step));
                }
            }
            match best {
                Some((reached, step)) if reached < value * (1.0 - self.least_step) => {
                    value = reached;
                    self.take(step, &mut at.situation);
                    at = self.predicted_again(World::Likely, at.situation);
                }
                _ => break,
            }
        }
        at
    }

    /// The situations a step away, their memory with the threads where it can follow; at most so many.
    pub(super) fn neighbours(&self, at: &Predicted, most: usize) -> Vec<Situation> {
        let machine = self.machine();
        let next = |step: Step| {
            let mut next = at.situation.clone();
            self.take(step, &mut next);
            for (one, &from) in at.situation.cpus.iter().enumerate() {
                let is_far = machine.cpus()[next.cpus[one]].node != machine.cpus()[from].node;
                if is_far && self.threads[one].moves_memory {
                    self.bring_memory(one, &mut next);
                }
            }
            next
        };
        self.steps(at, false, most).into_iter().map(next).collect()
    }

    fn machine(&self) -> &Machine {
        self.model.machine()
    }

    fn take(&self, step: Step, at: &mut Situation) {
        match step {
            Step::Swap(one, other, memory) => {
                at.cpus.swap(one, other);
                [one, other].into_iter().filter(|_| memory).for_each(|thread| {
                    self.bring_memory(thread, at);
                });
            }
            Step::Move(thread, cpu, memory) => {
                at.cpus[thread] = cpu;
                if memory {
                    self.bring_memory(thread, at);
                }
            }
            Step::Memory(thread) => self.bring_memory(thread, at),
        }
    }

    pub(super) fn bring_memory(&self, thread: usize, at: &mut Situation) {
        let machine = self.machine();
        let node = machine.cpus()[at.cpus[thread]].node;
        at.homes[thread].clear();
        at.homes[thread].resize(machine.nodes().len(), 0.0);
        at.homes[thread][node] = 1.0;
    }

    /// The steps from a situation, at most so many: those of the slowest threads first.
    fn steps(&self, at: &Predicted, memory: bool, most: usize) -> Vec<Step> {
        let machine = self.machine();
        let places = machine.cpus();
        let Predicted { situation: at, outcomes } = at;
        let mut order: Vec<usize> = (0..at.cpus.len()).collect();
        let slowdown = |thread: usize| outcomes[thread].slowdown;
        order.sort_by(|&one, &other| slowdown(other).total_cmp(&slowdown(one)));
        let mut busy = vec![0_u32; machine.cores().len()];
        let mut taken = vec![false; places.len()];
        for &cpu in &at.cpus {
            busy[places[cpu].core] += 1;
            taken[cpu] = true;
        }
        let mut steps = Vec::new();
        for (rank, &one) in order.iter().enumerate() {
            let from = at.cpus[one];
            if memory
                && self.threads[one].moves_memory
                && is_away(&at.homes[one], places[from].node)
            {
                steps.push(Step::Memory(one));
            }
            let differs = |cpu: &usize| {
                let core = places[*cpu].core;
                is_elsewhere(&places[*cpu], &places[from])
                    || (core != places[from].core && busy[core] + 1 < busy[places[from].core])
            };
            for cpu in self.idle(one, &busy, &taken).into_iter().filter(differs) {
                steps.push(Step::Move(one, cpu, false));
                if memory && self.threads[one].moves_memory && places[cpu].node != places[from].node
                {
                    steps.push(Step::Move(one, cpu, true));
                }
            }
            for &other in &order[rank + 1..] {
                let to = at.cpus[other];
                let far = is_elsewhere(&places[from], &places[to])
                    || (places[from].core != places[to].core
                        && busy[places[from].core].max(busy[places[to].core]) > 1);
                let may = self.threads[one].may[to] && self.threads[other].may[from];
                if far && may && !self.is_alike(one, other, at) {
                    steps.push(Step::Swap(one, other, false));
                    let both = self.threads[one].moves_memory && self.threads[other].moves_memory;
                    if memory && both && places[from].node != places[to].node {
                        steps.push(Step::Swap(one, other, true));
                    }
                }
            }
            if steps.len() >= most {
                break;
            }
        }
        steps.truncate(most);
        steps
    }

    /// Of each core type of each LLC the idle CPU on which a thread may run and whose core is least busy, the first of
    /// several.
    fn idle(&self, thread: usize, busy: &[u32], taken: &[bool]) -> Vec<usize> {
        let places = self.machine().cpus();
        let core_types = self.machine().core_types().len();
        let mut best: Vec<Option<usize>> = vec![None; self.machine().llcs().len() * core_types];
        for cpu in (0..places.len()).filter(|&cpu| !taken[cpu] && self.threads[thread].may[cpu]) {
            let known = &mut best[places[cpu].llc * core_types + places[cpu].core_type];
            let is_less_busy = |known: usize| busy[places[cpu].core] < busy[places[known].core];
            if known.is_none_or(is_less_busy) {
                *known = Some(cpu);
            }
        }
        best.into_iter().flatten().collect()
    }

    /// Is it the same whichever of two threads is where? Not where what they had so far is weighed.
    fn is_alike(&self, one: usize, other: usize, at: &Situation) -> bool {
        let [first, second] = [one, other].map(|thread| &self.threads[thread].worlds.likely);
        self.weights.is_empty()
            && std::sync::Arc::ptr_eq(first, second)
            && at.homes[one] == at.homes[other]
    }
}

/// Do two CPUs differ to a thread that has its core to itself: in their LLC, or in their core type?
fn is_elsewhere(one: &Cpu, other: &Cpu) -> bool {
    one.llc != other.llc || one.core_type != other.core_type
}

/// Is more than a tenth of the memory on other nodes?
fn is_away(home: &[f64], node: usize) -> bool {
    let all: f64 = home.iter().sum();
    all > 0.0 && home.get(node).copied().unwrap_or(0.0) < 0.9 * all
}
