//! How fast everything goes now: shares of caches, then what couples the whole machine.

use std::rc::Rc;

use corun_machine::Machine;
use corun_model::{Flow, Outcome};
use corun_policy::{Nanoseconds, ThreadId};
use rustc_hash::FxHashMap;

use crate::SimError;
use crate::barrier::spinning;
use crate::engine::Engine;
use crate::error::ActionError;
use crate::parts::PartId;
use crate::tables::Who;
use crate::thread::{State, Thread};
use crate::timers::NEVER;

/// Whole-machine solutions remembered at most.
const MOST: usize = 1 << 12;
/// Look-ups after which a memory that hardly ever hits is given up.
const TRIALS: u64 = 1 << 11;

/// What the rates were computed for, and what they are.
pub(crate) struct Rates<'a> {
    homes: &'a [Vec<f64>],
    /// By CPU: whose rates count there, and the cache part that was used.
    pub(crate) rated: Vec<Option<(usize, PartId)>>,
    /// By CPU: cycles a second.
    clocks: Vec<f64>,
    who: Vec<Who>,
    flows: Vec<Flow<'a>>,
    /// By CPU: place in `flows`.
    place: Vec<usize>,
    outcomes: Vec<Outcome>,
    /// By flow its thread and what it would draw, while there are caps.
    drawn: Vec<(ThreadId, f64)>,
    /// By flow its part of a cap in bytes a second; empty while there are none.
    caps: Vec<f64>,
    known: FxHashMap<Box<[u64]>, Rc<[Outcome]>>,
    key: Vec<u64>,
    memoise: bool,
    lookups: u64,
    hits: u64,
    pub(crate) evaluations: u64,
    /// A phase, a home or a running set changed.
    pub(crate) stale: bool,
}

impl<'a> Rates<'a> {
    pub(crate) fn new(machine: &Machine, homes: &'a [Vec<f64>], memoise: bool) -> Self {
        let clock = |cpu: &corun_machine::Cpu| machine.core_types()[cpu.core_type].clock_mhz * 1e6;
        Self {
            homes,
            rated: vec![None; machine.cpus().len()],
            clocks: machine.cpus().iter().map(clock).collect(),
            who: Vec::new(),
            flows: Vec::new(),
            place: vec![0; machine.cpus().len()],
            outcomes: Vec::new(),
            drawn: Vec::new(),
            caps: Vec::new(),
            known: FxHashMap::default(),
            key: Vec::new(),
            memoise,
            lookups: 0,
            hits: 0,
            evaluations: 0,
            stale: true,
        }
    }

    fn worth_remembering(&self) -> bool {
        self.memoise && (self.lookups < TRIALS || self.hits * 8 > self.lookups)
    }
}

impl Engine<'_> {
    /// Brings cache parts whose step ended one step further.
    pub(crate) fn finish_steps(&mut self) {
        if self.parts.next_step() > self.now {
            return;
        }
        for part in self.parts.llcs.iter_mut().flat_map(|llc| &mut llc.parts) {
            if part.step_end() <= self.now {
                part.advance(self.now);
                part.plan_step(&mut self.tables, self.tick_ns);
                self.rates.stale = true;
            }
        }
    }

    /// Computes the rates anew where something changed, and when each thread's next stretch comes.
    pub(crate) fn update_rates(&mut self) -> Result<(), SimError> {
        self.mark_changed_cpus()?;
        self.retarget_parts();
        if !self.rates.stale {
            return Ok(());
        }
        self.rates.stale = false;
        self.rates.evaluations += 1;
        self.gather_flows();
        self.couple();
        for place in 0..self.rates.who.len() {
            let Who { slot, cpu, .. } = self.rates.who[place];
            let outcome = self.rates.outcomes[place];
            let thread = &mut self.threads[slot];
            if thread.outcome == outcome && self.cpus[cpu].due != NEVER {
                continue;
            }
            thread.account(self.now);
            thread.outcome = outcome;
            thread.clock = self.rates.clocks[cpu];
            thread.extrapolated |= outcome.extrapolated;
            let (app, stretch) = (thread.app, thread.stretch);
            let length = self.apps[app].lengths[stretch];
            let until = self.between_barriers(app).or_else(|| self.to_answer(slot));
            let thread = &self.threads[slot];
            self.cpus[cpu].due = thread.due(self.now, length, until);
        }
        self.rate_spinning();
        let Rates { outcomes, place, .. } = &self.rates;
        for part in self.parts.llcs.iter_mut().flat_map(|llc| &mut llc.parts) {
            if part.is_filling() && part.step_end() == NEVER {
                part.time_step(self.now, self.tick_ns, |cpu| &outcomes[place[cpu]]);
            }
        }
        Ok(())
    }

    /// Gives those who spin the rates of their cores: they are in nobody's way.
    fn rate_spinning(&mut self) {
        for cpu in 0..self.rates.rated.len() {
            let Some((slot, _)) = self.rates.rated[cpu] else { continue };
            let thread = &mut self.threads[slot];
            if thread.spinning {
                thread.account(self.now);
                let core = &self.machine.core_types()[self.machine.cpus()[cpu].core_type];
                thread.clock = self.rates.clocks[cpu];
                thread.outcome = spinning(core, thread.clock);
            }
        }
    }

    /// Finds CPUs whose running thread changed, and the cache parts that this concerns.
    fn mark_changed_cpus(&mut self) -> Result<(), SimError> {
        for cpu in 0..self.cpus.len() {
            let rated = match self.cpus[cpu].running {
                None => None,
                Some(slot) => {
                    let llc = self.machine.cpus()[cpu].llc;
                    let id = self.threads[slot].id;
                    let part = self.parts.of(llc, id).ok_or_else(|| SimError::Action {
                        policy: self.policy_name(self.parts.llcs[llc].owner),
                        at: Nanoseconds(self.now),
                        source: ActionError::Unpartitioned { llc, thread: id },
                    })?;
                    Some((slot, part))
                }
            };
            let before = self.rates.rated[cpu];
            if rated == before {
                continue;
            }
            self.rates.rated[cpu] = rated;
            self.cpus[cpu].due = NEVER;
            self.rates.stale = true;
            for (_, part) in [before, rated].into_iter().flatten() {
                self.parts.mark(part);
            }
            if let Some((slot, _)) = rated {
                self.note_placement(slot, cpu);
            }
        }
        Ok(())
    }

    fn retarget_parts(&mut self) {
        for llc in &mut self.parts.llcs {
            for place in 0..llc.parts.len() {
                if !std::mem::take(&mut llc.dirty[place]) {
                    continue;
                }
                self.rates.stale = true;
                let who = &mut self.rates.who;
                who.clear();
                for &cpu in &llc.cpus {
                    if let Some((slot, (_, part))) = self.rates.rated[cpu]
                        && part == place
                        && !self.threads[slot].spinning
                    {
                        let Thread { program, phase, .. } = &self.threads[slot];
                        let (program, phase) = (*program, *phase);
                        who.push(Who { slot, cpu, program, phase, busy: 1 });
                    }
                }
                self.tables.count_busy(who);
                let threads = &self.threads;
                let fresh = |slot: usize| threads[slot].fresh;
                llc.parts[place].retarget(&mut self.tables, who, fresh, self.now, self.tick_ns);
                for one in who.iter() {
                    self.threads[one.slot].fresh = false;
                }
            }
        }
    }

    fn gather_flows(&mut self) {
        let rates = &mut self.rates;
        let remember = rates.worth_remembering();
        rates.who.clear();
        rates.flows.clear();
        rates.key.clear();
        for cpu in 0..rates.rated.len() {
            let Some((slot, part)) = rates.rated[cpu] else { continue };
            let thread = &mut self.threads[slot];
            debug_assert_eq!(thread.state, State::Running);
            if thread.spinning {
                continue;
            }
            let node = self.machine.cpus()[cpu].node;
            let home = *thread.home.get_or_insert(node);
            let Thread { program, phase, .. } = *thread;
            let who = Who { slot, cpu, program, phase, busy: 1 };
            let (demand, settled) = self.parts.part(part).demand(slot).unwrap_or_default();
            rates.place[cpu] = rates.flows.len();
            rates.who.push(who);
            if remember {
                rates.key.extend([
                    (cpu as u64) << 33 | (home as u64) << 1 | u64::from(settled),
                    (who.program as u64) << 32 | who.phase as u64,
                    demand.occupancy_bytes.to_bits(),
                    demand.cpi.to_bits(),
                ]);
            }
            let home = rates.homes[home].as_slice();
            rates.flows.push(Flow { member: self.tables.member(who), demand, home });
        }
        rates.caps.clear();
        if self.caps.is_empty() {
            return;
        }
        rates.drawn.clear();
        for (who, flow) in rates.who.iter().zip(&rates.flows) {
            rates.drawn.push((self.threads[who.slot].id, flow.demand.bytes_per_s));
        }
        self.caps.divide(&rates.drawn, &mut rates.caps);
        if remember {
            rates.key.extend(rates.caps.iter().map(|cap| cap.to_bits()));
        }
    }

    fn couple(&mut self) {
        let rates = &mut self.rates;
        let remember = rates.worth_remembering();
        if remember {
            rates.lookups += 1;
            if let Some(known) = rates.known.get(rates.key.as_slice()) {
                rates.hits += 1;
                rates.outcomes.clear();
                rates.outcomes.extend_from_slice(known);
                return;
            }
        }
        rates.outcomes.clear();
        let scratch = &mut self.tables.scratch;
        self.model.couple_capped(&rates.flows, &rates.caps, scratch, &mut rates.outcomes);
        if remember {
            if rates.known.len() >= MOST {
                rates.known.clear();
            }
            rates.known.insert(rates.key.as_slice().into(), rates.outcomes.as_slice().into());
        }
    }
}
